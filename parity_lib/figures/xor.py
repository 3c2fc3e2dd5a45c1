"""Figures of the chapter ``xor``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..evidence import rate, wilson
from . import style

FLOOR = 1e-12
"""Smaller losses are drawn here."""
MAPS = {
    "softmax": "softmax",
    "exp": "exp(s)/d",
    "sigmoid_bias2": "sigmoid(s − 2 ln d)",
    "sigmoid_bias": "sigmoid(s − ln d)",
    "linear": "linear, (1 + s)/d",
    "relu": "ReLU(1 + s)/d",
    "erf": "1/d + erf(s)",
    "sigmoid": "2 sigmoid(s)/d",
}
SETTINGS = {
    ("hinge", "characters"): "hinge,\nzero mean",
    ("squared_hinge", "characters"): "squared,\nzero mean",
    ("hinge", "signs"): "hinge,\nsigns",
    ("squared_hinge", "signs"): "squared,\nsigns",
}
ARMS = {"two heads": style.SIGNAL, "one head": style.BLIND, "even split, quadratic": style.GOLD,
        "even split": style.STATED}  # fmt: skip
POSITIONS = {"characters": (style.SIGNAL, "(log₂ d)² dimensions"), "one_hot": (style.BLIND, "one-hot, d dimensions")}


@style.drawing
def one_step(bounds: pd.DataFrame) -> Figure:
    """Measured beside proved: mean loss of the worst input, and embeddings with a failing pair, against d.

    ``bounds`` is a frame of :func:`parity_lib.chapters.xor_theorem.against_bound`.
    """
    fig, (left, right) = style.panels(2, 3.3, share=False)
    least, *_ = factors = sorted(bounds.factor.unique())
    first = bounds[bounds.factor == least]
    sns.lineplot(first, x="d", y="bound", color=style.STATED, ax=left)
    _dots(left, first.d, first.measured, first.low, first.high, style.SIGNAL)
    left.set(xscale="log", yscale="log", xlabel="input length d", ylabel="loss of the worst input, mean")
    style.say(left, first.d.iloc[-5], first.bound.iloc[-5], "proved", style.STATED, (6, 8))
    style.say(left, first.d.iloc[0], first.measured.iloc[0], "measured", style.SIGNAL, (2, -14))
    left.set_title("The loss falls as proved" if (first.low <= first.bound).all() else "Loss and bound")
    for factor, colour in zip(factors, (style.SIGNAL, style.REPAIRED), strict=False):
        part = bounds[bounds.factor == factor]
        found = [wilson(k, n) for k, n in zip(part.failed, part.embeddings, strict=True)]
        shares, low, high = (100 * np.array([getattr(one, name) for one in found]) for name in ("share", "low", "high"))
        _dots(right, part.d, shares, low, high, colour)
        sns.lineplot(part.assign(proved=100 * part.proved), x="d", y="proved", color=colour, lw=1.2, ls="--", ax=right)
        most = part.loc[part.proved.idxmax()]
        if factor == least:
            style.say(right, most.d, 100 * most.proved, f"strength {factor:g} ln d, proved", colour, (8, 9))
        else:
            name = f"strength {factor:g} ln d"
            style.say(right, part.d.max(), 100 * part.proved.iloc[-1], name, colour, (0, 24), "right")
    top = first.loc[first.failed.div(first.embeddings).idxmax()]
    style.say(right, top.d, 100 * top.failed / top.embeddings, "measured", style.SIGNAL, (2, 10))
    right.set(xscale="log", xlabel="input length d", ylabel="embeddings with a failing pair, %", ylim=(-3, 112))
    worst = bounds.failed.div(bounds.embeddings).groupby(bounds.factor).max()
    needs = worst.iloc[0] > 0.03 and worst.iloc[-1] < 0.01
    right.set_title("All pairs at once need the larger step" if needs else "All pairs at once")
    return fig


def _dots(ax: Axes, x: pd.Series, y: Any, low: Any, high: Any, colour: str) -> None:
    """Points with their intervals."""
    bars = np.clip([np.subtract(y, low), np.subtract(high, y)], 0, None)
    ax.errorbar(x, y, bars, fmt="o", color=colour, ms=4.5, capsize=2)


@style.drawing
def widths(least: pd.DataFrame) -> Figure:
    """Least m in units of log2 d, proved and measured; ``least`` is a frame of ``xor_theorem.least_widths``."""
    names = {"closed form": "proved, closed form", "sharp": "proved, exact law", "measured": "measured, all pairs"}
    palette = dict(zip(names, (style.STATED, style.REPAIRED, style.SIGNAL), strict=True))
    fig, (ax,) = style.panels(1, 3.2)
    sns.lineplot(least[least.m > 0], x="d", y="multiple", hue="source", palette=palette, marker="o", ax=ax)
    ax.set(xscale="log", xlabel="input length d", ylim=(0, 1.05 * least.multiple.max()), ylabel="least m / log₂ d",
           title="A few times log₂ d dimensions are enough")  # fmt: skip
    style.label_lines(ax, names)
    limit = 1 / math.log2(4 / 3)
    ax.axhline(limit, color=style.INK, lw=1.6, ls=":")
    style.say(ax, least.d.max(), limit, "limit for huge steps", style.INK, (0, 8), "right")
    return fig


@style.drawing
def window(steps: pd.DataFrame) -> Figure:
    """Loss of the worst input against the strength of the step, a panel for each embedding, a line for each d."""
    titles = {"characters": "Zero mean:\nno step is too large", "signs": "Random signs:\na step can be too large"}
    fig, axes = style.panels(len(titles), 3.6)
    lengths = sorted(steps.d.unique())
    palette = dict(zip(lengths, style.SERIES, strict=False))
    for ax, (name, title) in zip(axes, titles.items(), strict=True):
        part = steps[steps.embedding == name].assign(worst=lambda frame: frame.worst.clip(lower=FLOOR))
        style.medians(part, "factor", "worst", hue="d", palette=palette, legend=False, ax=ax)
        ax.axhline(0.05, color=style.INK, lw=0.9, ls=":")
        ax.set(xscale="log", yscale="log", xlabel="strength of the step / ln d", title=title,
               ylabel="loss of the worst input")  # fmt: skip
        other = ax.secondary_xaxis("top", functions=(
            lambda strength: np.sqrt(4 / np.maximum(strength, 1e-9)), lambda tau: 4 / np.maximum(tau, 1e-9) ** 2
        ))  # fmt: skip
        other.set_xlabel("as a temperature, at strength 4", fontsize=9)
        style.ticks_at(other.xaxis, [3, 2, 1, 0.5, 0.1])
    for row, d in enumerate(reversed(lengths)):
        axes[1].text(0.97, 0.05 + 0.085 * row, f"d = {d}", color=palette[d], ha="right", transform=axes[1].transAxes)
    style.say(axes[0], steps.factor.min(), 0.05, "0.05", style.INK, (0, -7))
    return fig


@style.drawing
def random_start(starts: pd.DataFrame) -> Figure:
    """Solved random starts in percent, by spread and step, a heat map for each d."""
    starts = starts[starts.readout == "product"]
    fig, axes = style.panels(starts.d.nunique(), 3.1)
    for ax, (d, part) in zip(axes, starts.groupby("d"), strict=True):
        style.rate_map(part, "solved", "factor", "spread", ax)
        ax.set(xlabel="spread of the start's scores", ylabel="step / (d² ln d)", title=f"d = {d}")
        ax.xaxis.label.set_fontsize(9)
    grows = starts.groupby("factor").solved.mean().is_monotonic_increasing
    text = "From a random start a larger step solves more draws, in % of draws"
    return style.finding(fig, grows, text, "Random starts solved, in % of draws")


@style.drawing
def attention_maps(maps: pd.DataFrame) -> Figure:
    """Median loss of the worst input at the largest d, by map and setting, without and with the best read-out scale."""
    top = maps[maps.d == maps.d.max()]
    fig, axes = style.panels(2, 3.7)
    titles = {False: "Read-out as it is", True: "At its best read-out scale"}
    for ax, (rescaled, title) in zip(axes, titles.items(), strict=True):
        part = top[top.rescaled == rescaled]
        table = part.pivot_table(values="worst", index="map", columns=["loss", "embedding"], aggfunc="median")
        table = table.loc[list(MAPS), list(SETTINGS)]
        style.heat(table.clip(upper=2), ax, vmin=0, vmax=2, cmap=sns.light_palette(style.BLIND, as_cmap=True),
                   annot=np.vectorize(_short)(table.to_numpy()), fmt="", yticklabels=list(MAPS.values()),
                   xticklabels=[style.short_lines(name, 8) for name in SETTINGS.values()])  # fmt: skip
        ax.set(xlabel="", ylabel="", title=title)
        ax.tick_params(axis="x", labelsize=8.5)
    middle = top.groupby(["map", "rescaled", "loss", "embedding"])["worst"].median()
    worst = middle.groupby(["map", "rescaled"]).max().groupby("map").min()  # of the settings, however it is read out
    best = middle.groupby("map").max()["softmax"] < 0.05 < 0.5 < worst.drop("softmax").min()
    return style.finding(fig, best, "Only softmax is near 0 in every setting", "Loss of the worst input, by map")


def _short(loss: float) -> str:
    """A loss as a cell shows it."""
    if loss < 0.005:
        return "0"
    return f"{loss:.2f}" if loss < 0.1 else f"{loss:.1f}" if loss < 10 else f"{loss:.0f}"


@style.drawing
def samples(needed: pd.DataFrame) -> Figure:
    """Samples in units of the law: until the pair is found from zero, and until every input is solved, by arm.

    ``needed`` is a frame of ``xor_arms.samples_needed`` with the column ``proved``.
    """
    fig, (left, right) = style.panels(2, 3.4, share=False)
    split, top = needed[needed.arm == "even split"], 2.7  # what is beyond, or never reached, is drawn there
    in_laws = {"multiple": split.recovered / split.law, "proved": split.proved / split.law}
    split = split.assign(**{name: values.clip(upper=top) for name, values in in_laws.items()})
    for row, (name, (colour, text)) in enumerate(POSITIONS.items()):
        part = split[split.embedding == name]
        part = part.assign(d=part.d * (0.97, 1.03)[row])
        style.medians(part, "d", "proved", color=colour, ls="--", marker="", err_style="band", lw=1.2, ax=left)
        style.medians(part, "d", "multiple", err_style="bars", ls="none", color=colour, marker="o", ax=left)
        left.text(0.03, 0.93 - 0.08 * row, text, color=colour, transform=left.transAxes, fontsize=9)
    left.axhline(1, color=style.INK, lw=0.9, ls=":")
    left.text(0.98, 1.03, "the law", transform=left.get_yaxis_transform(), ha="right", fontsize=9)
    left.set(xscale="log", xlabel="input length d", ylabel="samples / law", ylim=(0, top),
             title="Finding the pair (dashed: proved)")  # fmt: skip
    style.ticks_at(left.xaxis, sorted(needed.d.unique()))
    ours = needed[needed.embedding == "characters"]
    end = 1.02 * float((ours.solved / ours.law).replace(np.inf, np.nan).max())
    for place, (arm, colour) in enumerate(ARMS.items()):
        part = ours[ours.arm == arm]
        part = part.assign(multiple=(part.solved / part.law).clip(upper=2 * end))  # not reached: beyond the axis
        sns.ecdfplot(part, x="multiple", stat="percent", color=colour, ax=right, lw=1.8)
        grid = np.linspace(0, end, 80)
        found = [rate(part.multiple <= x) for x in grid]
        low, high = ([100 * getattr(one, side) for one in found] for side in ("low", "high"))
        right.fill_between(grid, low, high, step="post", color=colour, alpha=0.12, lw=0)
        height = 100 * float((part.multiple < end).mean()) - 9 if place == 0 else 48 - 9 * place
        right.text(0.98 * end, height, arm, color=colour, ha="right", fontsize=9)
    right.set(xlim=(0, end), ylim=(-3, 104), xlabel="samples / law", ylabel="streams with every input solved, %")
    solved = np.isfinite(ours.solved).groupby(ours.arm).mean()
    ahead = solved["two heads"] > max(0.5, solved.drop("two heads").max())
    right.set_title("Two heads also solve every input" if ahead else "Solving every input")
    return fig


@style.drawing
def networks(trained: pd.DataFrame, heads: int) -> Figure:
    """Networks that learn, in percent, against their parameters, with the ceiling that reading sets.

    ``trained`` is a frame of ``xor_arms.train_networks``; ``heads`` the numbers that two heads train.
    """
    fig, (ax,) = style.panels(1, 3.0)
    style.success_lines(trained, "parameters", "learned", ls="none", color=style.BLIND, ax=ax)
    limit = trained.drop_duplicates("parameters")
    shown = limit.assign(ceiling=100 * limit.ceiling)
    sns.lineplot(shown, x="parameters", y="ceiling", color=style.STATED, ls="--", ax=ax)
    row = limit.iloc[3]
    style.say(ax, row.parameters, 100 * row.ceiling, "proved ceiling", style.STATED, (-18, -14), "right")
    last = style.percent(trained, "learned").groupby("parameters").learned.mean()
    style.say(ax, last.index[2], last.iloc[2], "trained networks", style.BLIND, (8, -8))
    ax.plot([heads], [100], "D", color=style.SIGNAL, ms=7)
    style.say(ax, heads, 100, style.short_lines("two heads, one step", 10), style.SIGNAL, (9, -8))
    ax.set(xscale="log", xlabel=f"trained numbers (d = {trained.d.iloc[0]})", ylabel="learned, % of networks")
    style.ticks_at(ax.xaxis, trained.parameters.unique())
    reads = trained.reads_both | ~trained.learned
    return style.finding(fig, reads.all(), "A network can only learn the bits it reads", "Networks that learn")

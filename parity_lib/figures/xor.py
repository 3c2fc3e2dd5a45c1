"""Figures of the chapter ``xor``."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..evidence import rate, wilson
from .style import BLIND, FULL, REPAIRED, SERIES, SIGNAL, STATED, label_lines, medians, percent, success_lines, ticks_at

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
ARMS = {"two heads": SIGNAL, "one head": BLIND, "even split, quadratic": "#B8860B", "even split": STATED}
POSITIONS = {"characters": (SIGNAL, "(log₂ d)² dimensions"), "one_hot": (BLIND, "one-hot, d dimensions")}


def one_step(bounds: pd.DataFrame) -> Figure:
    """Measured beside proved: mean loss of the worst input, and embeddings with a failing pair, against d.

    ``bounds`` is a frame of :func:`parity_lib.chapters.xor_theorem.against_bound`.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(FULL, 3.3))
    least, *_ = factors = sorted(bounds.factor.unique())
    first = bounds[bounds.factor == least]
    sns.lineplot(first, x="d", y="bound", color=STATED, ax=left)
    left.errorbar(first.d, first.measured, [first.measured - first.low, first.high - first.measured], fmt="o",
                  color=SIGNAL, ms=4.5, capsize=2)  # fmt: skip
    left.set(xscale="log", yscale="log", xlabel="input length d", ylabel="loss of the worst input, mean")
    _say(left, first.d.iloc[-5], first.bound.iloc[-5], "proved", STATED, (6, 6), "left")
    _say(left, first.d.iloc[0], first.measured.iloc[0], "measured", SIGNAL, (2, -14), "left")
    left.set_title("The loss falls as proved" if (first.low <= first.bound).all() else "Loss and bound")
    for factor, colour in zip(factors, (SIGNAL, REPAIRED), strict=False):
        part = bounds[bounds.factor == factor]
        found = [wilson(k, n) for k, n in zip(part.failed, part.embeddings, strict=True)]
        middle = 100 * np.array([one.share for one in found])
        bars = 100 * np.array([[one.share - one.low for one in found], [one.high - one.share for one in found]])
        right.errorbar(part.d, middle, bars.clip(0), fmt="o", color=colour, ms=4, capsize=2)
        sns.lineplot(part.assign(proved=100 * part.proved), x="d", y="proved", color=colour, lw=1.2, ls="--", ax=right)
        most = part.loc[part.proved.idxmax()]
        if factor == least:
            _say(right, most.d, 100 * most.proved, f"strength {factor:g} ln d, proved", colour, (8, 5), "left")
        else:
            _say(right, part.d.max(), 100 * part.proved.iloc[-1], f"strength {factor:g} ln d", colour, (0, 20))
    top = first.loc[first.failed.div(first.embeddings).idxmax()]
    _say(right, top.d, 100 * top.failed / top.embeddings, "measured", SIGNAL, (2, 8), "left")
    right.set(xscale="log", xlabel="input length d", ylabel="embeddings with a failing pair, %", ylim=(-3, 112))
    worst = bounds.failed.div(bounds.embeddings).groupby(bounds.factor).max()
    needs = worst.iloc[0] > 0.03 and worst.iloc[-1] < 0.01
    right.set_title("All pairs at once need the larger step" if needs else "All pairs at once")
    return fig


def _say(ax: Axes, x: float, y: float, text: str, colour: str, shift: tuple[float, float], ha: str = "right") -> None:
    ax.annotate(text, (x, y), shift, textcoords="offset points", color=colour, ha=ha, fontsize=9, annotation_clip=False)


def widths(least: pd.DataFrame) -> Figure:
    """Least m in units of log2 d, proved and measured; ``least`` is a frame of ``xor_theorem.least_widths``."""
    names = {"closed form": "proved, closed form", "sharp": "proved, exact law", "measured": "measured, all pairs"}
    palette = dict(zip(names, (STATED, REPAIRED, SIGNAL), strict=True))
    fig, ax = plt.subplots(figsize=(FULL, 3.2))
    ax.set(xscale="log", xlabel="input length d", ylim=(0, 1.05 * least.multiple.max()))
    sns.lineplot(least[least.m > 0], x="d", y="multiple", hue="source", palette=palette, marker="o", ax=ax)
    label_lines(ax, names)
    limit = 1 / math.log2(4 / 3)
    ax.axhline(limit, color="black", lw=0.8, ls=":")
    _say(ax, least.d.max(), limit, "limit for huge steps", "black", (0, 4))
    ax.set_ylabel("least m / log₂ d")
    ax.set_title("A few times log₂ d dimensions are enough")
    return fig


def window(steps: pd.DataFrame) -> Figure:
    """Loss of the worst input against the strength of the step, a panel for each embedding, a line for each d."""
    titles = {
        "characters": "Zero-mean positions:\nno step is too large",
        "signs": "Random signs:\na step can be too large",
    }
    fig, axes = plt.subplots(1, len(titles), figsize=(FULL, 3.4), sharey=True)
    lengths = sorted(steps.d.unique())
    palette = dict(zip(lengths, SERIES, strict=False))
    for ax, (name, title) in zip(axes, titles.items(), strict=True):
        part = steps[steps.embedding == name]
        part = part.assign(worst=part.worst.clip(lower=FLOOR))
        medians(part, "factor", "worst", hue="d", palette=palette, legend=False, ax=ax)
        ax.axhline(0.05, color="black", lw=0.9, ls=":")
        ax.set(xscale="log", yscale="log", xlabel="strength of the step / ln d", title=title)
        other = ax.secondary_xaxis("top", functions=(_temperature, _strength))
        other.set_xlabel("as a temperature, at strength 4", fontsize=9)
        ticks_at(other.xaxis, [3, 2, 1, 0.5, 0.1])
    axes[0].set_ylabel("loss of the worst input")
    for row, d in enumerate(lengths):
        axes[1].text(0.97, 0.05 + 0.085 * (len(lengths) - 1 - row), f"d = {d}", color=palette[d], ha="right",
                     transform=axes[1].transAxes, fontsize=9)  # fmt: skip
    axes[0].text(steps.factor.min(), 0.05 / 1.6, "0.05", va="top", fontsize=8.5)
    return fig


def _temperature(strength: np.ndarray) -> np.ndarray:
    return np.sqrt(4 / np.maximum(strength, 1e-9))


def _strength(temperature: np.ndarray) -> np.ndarray:
    return 4 / np.maximum(temperature, 1e-9) ** 2


def random_start(starts: pd.DataFrame) -> Figure:
    """Solved random starts in percent, by spread and step, a heat map for each d."""
    starts = starts[starts.readout == "product"]
    lengths = sorted(starts.d.unique())
    fig, axes = plt.subplots(1, len(lengths), figsize=(FULL, 3.1))
    for ax, d in zip(np.atleast_1d(axes), lengths, strict=True):
        shares = percent(starts[starts.d == d], "solved").pivot_table(values="solved", index="factor", columns="spread")
        sns.heatmap(shares.iloc[::-1], vmin=0, vmax=100, cmap="viridis", cbar=False, annot=True, fmt=".0f",
                    annot_kws={"fontsize": 8.5}, linewidths=0.6, ax=ax)  # fmt: skip
        ax.set(xlabel="", ylabel="", title=f"d = {d}")
        ax.tick_params(axis="both", length=0)
        ax.set_xticklabels([f"{spread:g}" for spread in shares.columns], rotation=0, fontsize=8.5)
        first = d == lengths[0]
        ax.set_yticklabels([f"{step:g}" if first else "" for step in shares.index[::-1]], rotation=0)
    np.atleast_1d(axes)[0].set_ylabel("step / (d² ln d)")
    fig.supxlabel("spread of the start's scores", fontsize=10)
    ends = starts.groupby("factor").solved.mean()
    said = (
        "From a random start a larger step solves more draws"
        if ends.is_monotonic_increasing
        else "Random starts solved"
    )
    fig.suptitle(f"{said}, in % of draws", x=0.01, ha="left", fontsize=10.5, weight="bold")
    return fig


def attention_maps(maps: pd.DataFrame) -> Figure:
    """Median loss of the worst input at the largest d, by map and setting, without and with the best read-out scale."""
    top = maps[maps.d == maps.d.max()]
    fig, axes = plt.subplots(1, 2, figsize=(FULL, 3.7), sharey=True)
    titles = {False: "Read-out as it is", True: "Each map at its best read-out scale"}
    for ax, (rescaled, title) in zip(axes, titles.items(), strict=True):
        part = top[top.rescaled == rescaled]
        table = part.pivot_table(values="worst", index="map", columns=["loss", "embedding"], aggfunc="median")
        table = table.loc[list(MAPS), list(SETTINGS)]
        shown = np.vectorize(_short)(table.to_numpy())
        sns.heatmap(table.clip(upper=2), vmin=0, vmax=2, cmap=sns.light_palette(BLIND, as_cmap=True), cbar=False,
                    annot=shown, fmt="", annot_kws={"fontsize": 8.5}, linewidths=0.6, ax=ax)  # fmt: skip
        ax.set(xlabel="", ylabel="", title=title)
        ax.set_yticklabels(list(MAPS.values()), rotation=0)
        ax.set_xticklabels(list(SETTINGS.values()), rotation=0, fontsize=8.5)
        ax.tick_params(axis="both", length=0)
    return fig


def _short(loss: float) -> str:
    """A loss as a cell shows it."""
    if loss < 0.005:
        return "0"
    return f"{loss:.2f}" if loss < 0.1 else f"{loss:.1f}" if loss < 10 else f"{loss:.0f}"


def samples(needed: pd.DataFrame) -> Figure:
    """Samples in units of the law: until the pair is found from zero, and until every input is solved, by arm.

    ``needed`` is a frame of ``xor_arms.samples_needed`` with the column ``proved``.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(FULL, 3.4))
    split = needed[needed.arm == "even split"]
    top = 2.7  # what is beyond, or never reached, is drawn there
    frame = split.assign(multiple=(split.recovered / split.law).clip(upper=top), proved=split.proved / split.law)
    frame["proved"] = frame.proved.clip(upper=top)
    for (name, (colour, text)), shift in zip(POSITIONS.items(), (0.97, 1.03), strict=True):
        part = frame[frame.embedding == name]
        part = part.assign(d=part.d * shift)
        medians(part, "d", "proved", color=colour, ls="--", lw=1.2, ax=left)
        sns.lineplot(part, x="d", y="multiple", estimator="median", errorbar=("pi", 50), err_style="bars", ls="none",
                     color=colour, marker="o", ax=left)  # fmt: skip
        left.text(
            0.03, 0.93 if name == "characters" else 0.85, text, color=colour, transform=left.transAxes, fontsize=9
        )
    left.axhline(1, color="black", lw=0.9, ls=":")
    left.text(0.98, 1.03, "the law", transform=left.get_yaxis_transform(), ha="right", fontsize=9)
    left.set(xscale="log", xlabel="input length d", ylabel="samples / law", ylim=(0, top))
    left.set_title("Finding the pair\n(dashed: proved)")
    ticks_at(left.xaxis, sorted(needed.d.unique()))
    ours = needed[needed.embedding == "characters"]
    end = 1.02 * float((ours.solved / ours.law).replace(np.inf, np.nan).max())
    for place, (arm, colour) in enumerate(ARMS.items()):
        part = ours[ours.arm == arm]
        part = part.assign(multiple=(part.solved / part.law).clip(upper=2 * end))  # not reached: beyond the axis
        sns.ecdfplot(part, x="multiple", stat="percent", color=colour, ax=right, lw=1.8)
        grid = np.linspace(0, end, 80)
        found = [rate(part.multiple <= x) for x in grid]
        low, high = ([100 * getattr(share, side) for share in found] for side in ("low", "high"))
        right.fill_between(grid, low, high, step="post", color=colour, alpha=0.12, lw=0)
        height = 100 * float((part.multiple < end).mean()) - 9 if place == 0 else 48 - 9 * place
        right.text(0.98 * end, height, arm, color=colour, ha="right", fontsize=9)
    right.set(xlim=(0, end), ylim=(-3, 104), xlabel="samples / law", ylabel="streams with every input solved, %")
    solved = np.isfinite(ours.solved).groupby(ours.arm).mean()
    ahead = solved["two heads"] > max(0.5, solved.drop("two heads").max())
    right.set_title("Two heads also\nsolve every input" if ahead else "Solving\nevery input")
    return fig


def networks(trained: pd.DataFrame, heads: int) -> Figure:
    """Networks that learn, in percent, against their parameters, with the ceiling that reading sets.

    ``trained`` is a frame of ``xor_arms.train_networks``; ``heads`` the numbers that two heads train.
    """
    fig, ax = plt.subplots(figsize=(FULL, 3.0))
    d = int(trained.d.iloc[0])
    success_lines(trained, "parameters", "learned", ls="none", color=BLIND, ax=ax)
    limit = trained.drop_duplicates("parameters")
    sns.lineplot(limit.assign(ceiling=100 * limit.ceiling), x="parameters", y="ceiling", color=STATED, ls="--", ax=ax)
    row = limit.iloc[3]
    _say(ax, row.parameters, 100 * row.ceiling, "proved ceiling", STATED, (-24, -10))
    last = percent(trained, "learned").groupby("parameters").learned.mean()
    _say(ax, last.index[2], last.iloc[2], "trained networks", BLIND, (8, -12), "left")
    ax.plot([heads], [100], "D", color=SIGNAL, ms=7)
    _say(ax, heads, 100, "two heads, one step", SIGNAL, (9, -12), "left")
    ax.set(xscale="log", xlabel=f"trained numbers (d = {d})", ylabel="learned, % of networks")
    ticks_at(ax.xaxis, trained.parameters.unique())
    reads = trained.reads_both | ~trained.learned
    ax.set_title("A network can only learn the bits it reads" if reads.all() else "Networks that learn")
    return fig

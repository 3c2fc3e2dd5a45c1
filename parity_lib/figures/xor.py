"""Figures of the chapter ``xor``."""

import math
import textwrap
from itertools import cycle

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..evidence import rate, wilson
from . import style

FLOOR = 1e-12  #: Smaller losses are drawn here.
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
    """Measured beside proved: mean loss of the worst input, and embeddings with a failing pair, against d."""
    fig, (left, right) = style.panels(2, 3.3, share=False)
    found = [wilson(row.failed, row.embeddings) for row in bounds.itertuples()]
    columns = {"failing": "share", "least": "low", "most": "high"}
    percent = {name: [100 * getattr(one, part) for one in found] for name, part in columns.items()}
    bounds = bounds.assign(proved=100 * bounds.proved, **percent)
    first = bounds[bounds.factor == bounds.factor.min()]
    sns.lineplot(first, x="d", y="bound", color=style.STATED, ax=left)
    _dots(left, first, "measured", "low", "high", style.SIGNAL)
    left.set(xscale="log", yscale="log", xlabel="input length d", ylabel="loss of the worst input, mean")
    place = max(0, len(first) - 5)
    style.say(left, first.d.iloc[place], first.bound.iloc[place], "proved", style.STATED, (6, 8))
    style.say(left, first.d.iloc[0], first.measured.iloc[0], "measured", style.SIGNAL, (2, -14))
    left.set_title("The loss falls as proved" if (first.low <= first.bound).all() else "Loss and bound")
    for (factor, part), colour in zip(bounds.groupby("factor"), (style.SIGNAL, style.REPAIRED), strict=False):
        _dots(right, part, "failing", "least", "most", colour)
        sns.lineplot(part, x="d", y="proved", color=colour, lw=1.2, ls="--", ax=right)
        highest, last = part.loc[part.proved.idxmax()], part.iloc[-1]
        if colour == style.SIGNAL:
            style.say(right, highest.d, highest.proved, f"strength {factor:g} ln d, proved", colour, (8, 9))
        else:
            style.say(right, last.d, last.proved, f"strength {factor:g} ln d", colour, (0, 24), "right")
    top = first.loc[first.failing.idxmax()]
    style.say(right, top.d, top.failing, "measured", style.SIGNAL, (2, 10))
    right.set(xscale="log", xlabel="input length d", ylabel="embeddings with a failing pair, %", ylim=(-3, 112))
    worst = bounds.groupby("factor").failing.max()
    needs = worst.iloc[0] > 3 and worst.iloc[-1] < 1
    right.set_title("All pairs at once need the larger step" if needs else "All pairs at once")
    return fig


def _dots(ax: Axes, frame: pd.DataFrame, y: str, low: str, high: str, colour: str) -> None:
    """Points against d with their intervals."""
    middle = frame[y]
    reach = np.clip([middle - frame[low], frame[high] - middle], 0, None)
    ax.errorbar(frame.d, middle, reach, fmt="o", color=colour, ms=4.5, capsize=2)


@style.drawing
def widths(least: pd.DataFrame) -> Figure:
    """Least m in units of log2 d, proved and measured; ``least`` is a frame of ``xor_theorem.least_widths``."""
    names = {"closed form": "proved, closed form", "sharp": "proved, exact law", "measured": "measured, all pairs"}
    palette = dict(zip(names.values(), (style.STATED, style.REPAIRED, style.SIGNAL), strict=True))
    shown = least[least.m > 0].replace({"source": names})
    fig, (ax,) = style.panels(1, 3.2)
    sns.lineplot(shown, x="d", y="multiple", hue="source", palette=palette, marker="o", ax=ax)
    few = shown.multiple.max() < 10
    ax.set(xscale="log", xlabel="input length d", ylim=(0, 1.05 * least.multiple.max()), ylabel="least m / log₂ d",
           title="A few times log₂ d dimensions are enough" if few else "Dimensions that are enough")  # fmt: skip
    style.label_lines(ax)
    style.rule(ax, 1 / math.log2(4 / 3), "limit for huge steps", ha="right", shift=8, lw=1.6)
    return fig


@style.drawing
def window(steps: pd.DataFrame) -> Figure:
    """Loss of the worst input against the strength of the step, a panel for each embedding, a line for each d."""
    steps = steps.assign(worst=steps.worst.clip(lower=FLOOR))
    middle = steps.groupby(["embedding", "d", "factor"]).worst.median().unstack()
    rises = (middle.iloc[:, -1] > 2 * middle.min(axis=1)).groupby("embedding").any() & (middle.shape[1] > 1)
    titles = {"characters": "Zero mean", "signs": "Random signs"}
    if not rises["characters"] and rises["signs"]:
        titles = {"characters": "Zero mean:\nno step is too large", "signs": "Random signs:\na step can be too large"}
    fig, parts = style.panels_by(steps, "embedding", titles, 3.6)
    palette = dict(zip(sorted(steps.d.unique()), cycle(style.SERIES), strict=False))
    for ax, _, part in parts:
        style.medians(part, "factor", "worst", hue="d", palette=palette, legend=False, ax=ax)
        style.rule(ax, 0.05, "0.05" if ax is fig.axes[0] else "", shift=-7)
        ax.set(xscale="log", yscale="log", xlabel="strength of the step / ln d", ylabel="loss of the worst input")
        other = ax.secondary_xaxis("top", functions=(
            lambda strength: np.sqrt(4 / np.maximum(strength, 1e-9)), lambda tau: 4 / np.maximum(tau, 1e-9) ** 2
        ))  # fmt: skip
        other.set_xlabel("as a temperature, at strength 4", fontsize=9)
        style.ticks_at(other.xaxis, [3, 2, 1, 0.5, 0.1])
    style.colour_words(parts[1][0], {f"d = {d}": colour for d, colour in palette.items()}, loc="lower right")
    return fig


@style.drawing
def random_start(starts: pd.DataFrame) -> Figure:
    """Solved random starts in percent, by spread and step, a heat map for each d."""
    starts = starts[starts.readout == "product"]
    fig, parts = style.panels_by(starts, "d", "d = {}", 3.1)
    for ax, _, part in parts:
        style.rate_map(part, "solved", "factor", "spread", ax)
        ax.set(xlabel="spread of the start's scores", ylabel="step / (d² ln d)")
        ax.xaxis.label.set_fontsize(9)
    grows = starts.groupby("factor").solved.mean().is_monotonic_increasing
    text = "From a random start a larger step solves more draws, in % of draws"
    return style.finding(fig, grows, text, "Random starts solved, in % of draws")


@style.drawing
def attention_maps(maps: pd.DataFrame) -> Figure:
    """Median loss of the worst input at the largest d, by map and setting, without and with the best read-out scale."""
    top = maps[maps.d == maps.d.max()]
    titles = {False: "Read-out as it is", True: "At its best read-out scale"}
    fig, parts = style.panels_by(top, "rescaled", titles, 3.7)
    for ax, _, part in parts:
        table = part.pivot_table(values="worst", index="map", columns=["loss", "embedding"], aggfunc="median")
        table = table.loc[list(MAPS), list(SETTINGS)]
        style.heat(table.clip(upper=2), ax, vmin=0, vmax=2, cmap=sns.light_palette(style.BLIND, as_cmap=True),
                   annot=np.vectorize(_short)(table.to_numpy()), fmt="", yticklabels=list(MAPS.values()),
                   xticklabels=[style.short_lines(name, 8) for name in SETTINGS.values()])  # fmt: skip
        ax.set(xlabel="", ylabel="")
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
    """Samples in units of the law: until the pair is found from zero, and until every input is solved, by arm."""
    fig, (left, right) = style.panels(2, 3.4, share=False)
    split, top = needed[needed.arm == "even split"].copy(), 2.7  # what is beyond, or never reached, is drawn there
    split[["recovered", "proved"]] = split[["recovered", "proved"]].div(split.law, axis=0).clip(upper=top)
    for aside, (name, (colour, _)) in zip((0.97, 1.03), POSITIONS.items(), strict=True):
        part = split[split.embedding == name].assign(d=aside * split.d)
        style.medians(part, "d", "proved", color=colour, ls="--", marker="", err_style="band", lw=1.2, ax=left)
        style.medians(part, "d", "recovered", err_style="bars", ls="none", color=colour, marker="o", ax=left)
    style.colour_words(left, {text: colour for colour, text in POSITIONS.values()}, loc="upper left")
    style.rule(left, 1, "the law", ha="right")
    left.set(xscale="log", xlabel="input length d", ylabel="samples / law", ylim=(0, top),
             title="Finding the pair (dashed: proved)")  # fmt: skip
    style.ticks_at(left.xaxis, sorted(needed.d.unique()))
    ours = needed[needed.embedding == "characters"]
    multiple = ours.solved / ours.law
    solves = np.isfinite(multiple).groupby(ours.arm).mean()
    none = [arm for arm in ARMS if not solves.get(arm)]
    end = 1.02 * multiple[np.isfinite(multiple)].max() if len(none) < len(ARMS) else top
    grid = np.linspace(0, end, 80)
    for place, arm in enumerate(arm for arm in ARMS if arm not in none):
        colour, part = ARMS[arm], multiple[ours.arm == arm].clip(upper=2 * end)  # not reached: beyond the axis
        sns.ecdfplot(x=part, stat="percent", color=colour, ax=right, lw=1.8)
        bands = pd.DataFrame(vars(rate(part <= x)) for x in grid)
        right.fill_between(grid, 100 * bands.low, 100 * bands.high, step="post", color=colour, alpha=0.12, lw=0)
        height = 100 * (part < end).mean() - 17 if place == 0 else 48 - 9 * place
        right.text(0.98 * end, height, arm, color=colour, ha="right", fontsize=9)
    if none:  # the same interval for each of them
        most = 100 * wilson(0, (ours.arm == none[0]).sum()).high
        right.axhspan(0, most, color=style.STATED, alpha=0.15, lw=0)
        named = textwrap.fill(f"none with {'; '.join(none)}", 30)
        right.text(0.98 * end, most + 3, named, color=style.STATED, ha="right", fontsize=9)
    right.set(xlim=(0, end), ylim=(-3, 104), xlabel="samples / law", ylabel="streams with every input solved, %")
    ahead = solves["two heads"] > max(0.5, solves.drop("two heads").max())
    right.set_title("Two heads also solve every input" if ahead else "Solving every input")
    return fig


@style.drawing
def networks(trained: pd.DataFrame, heads: int) -> Figure:
    """Networks that learn, in percent, against their parameters, with the ceiling that reading sets.

    ``heads`` is how many numbers two heads train.
    """
    fig, (ax,) = style.panels(1, 3.0)
    style.success_lines(trained, "parameters", "learned", ls="none", color=style.BLIND, ax=ax)
    by_size = 100 * trained.groupby("parameters")[["ceiling", "learned"]].mean()
    sns.lineplot(by_size, x="parameters", y="ceiling", color=style.STATED, ls="--", ax=ax)
    style.say(ax, by_size.index[3], by_size.ceiling.iloc[3], "proved ceiling", style.STATED, (-18, -14), "right")
    style.say(ax, by_size.index[2], by_size.learned.iloc[2], "trained networks", style.BLIND, (8, -8))
    ax.plot([heads], [100], "D", color=style.SIGNAL, ms=7)
    style.say(ax, heads, 100, style.short_lines("two heads, one step", 10), style.SIGNAL, (9, -8))
    ax.set(xscale="log", xlabel=f"trained numbers (d = {trained.d.iloc[0]})", ylabel="learned, % of networks")
    style.ticks_at(ax.xaxis, trained.parameters.unique())
    reads = trained.reads_both | ~trained.learned
    return style.finding(fig, reads.all(), "A network can only learn the bits it reads", "Networks that learn")

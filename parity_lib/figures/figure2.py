"""Figures of the chapter ``figure2``."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..training import COMMITTED
from .circle import circle_animation as circle_animation
from .style import FAINT, FULL, NARROW, RECIPES, STATED, drawing, heat, is_narrow, panels, rate_rows, say, share

DETAILS = {
    "theory": "squared hinge, gradient descent",
    "later-code": "squared mean hinge",
    "figure2": "sigmoid hinge, minibatches",
}
"""What a row of the success chart says under a recipe's name."""
PANELS = {
    "left": "Bits apart:\neach head finds its own bit",
    "right": "Neighbouring bits:\ntwo heads meet half-way",
}
HALF_WAY = {"figure2": "The authors' code", "figure2-signed": "Exact gradient, labels ±1"}


@drawing
def heat_maps(course: pd.DataFrame) -> Figure:
    """The paper's Figure 2: a row for every panel, a heat map for every head, position against epoch.

    ``course`` is a frame of :func:`parity_lib.chapters.figure2.course`; the title of a row says how its run ended. More
    heads than fit side by side stand below each other.
    """
    rows = list(course.groupby("panel", sort=False))
    across = 4 if is_narrow() else 6
    lines = [-(-int(frame["head"].max()) // across) for _, frame in rows]
    fig = plt.figure(figsize=(NARROW if is_narrow() else FULL, 2.5 * sum(lines)))
    parts = fig.subfigures(len(rows), 1, squeeze=False, height_ratios=lines)[:, 0]
    for part, count, (_, frame) in zip(parts, lines, rows, strict=True):
        heads, bits = list(frame.groupby("head")), sorted(frame.loc[frame["bit"], "position"].unique())
        places = part.subplots(count, min(len(heads), across), sharey=True, squeeze=False).flat
        axes = places[: len(heads)]
        for spare in places[len(heads) :]:
            spare.axis("off")
        for ax, (head, one) in zip(axes, heads, strict=True):
            table = one.pivot(index="position", columns="epoch", values="attention")
            heat(table, ax, vmin=0, vmax=1, cmap="viridis", rasterized=True, linewidths=0)
            ax.invert_yaxis()
            epochs = table.columns[:: max(1, (len(table.columns) - 1) // (1 if is_narrow() else 3))]
            ax.set(title=f"head {head}", xlabel="epoch", ylabel="position" if (head - 1) % across == 0 else "")
            ax.set_xticks(epochs + 0.5, epochs, rotation=0)
            _bit_ticks(ax, bits, len(table))
        bar = {"location": "bottom", "aspect": 40} if is_narrow() else {"pad": 0.01}
        part.colorbar(axes[-1].collections[0], ax=axes, label="attention", ticks=[0, 0.5, 1], **bar)
        title = ending(frame).replace(": ", ":\n" if is_narrow() else ": ")
        part.suptitle(title, x=0.01, ha="left", weight="bold", fontsize=10.5)
    return fig


def ending(course: pd.DataFrame) -> str:
    """How one run ended, in a few words: which bits the heads read."""
    bits = sorted(course.loc[course["bit"], "position"].unique())
    last = course[course["epoch"] == course["epoch"].max()]
    best = last.loc[last.groupby("head")["attention"].idxmax()]
    if sorted(best["position"]) == bits and (best["attention"] > COMMITTED).all():
        return f"Bits {_listed(bits)}: each head ends on a bit of its own"
    halves = last[last["bit"] & (last["attention"] > 0.3)].groupby("head").size()
    if (halves == 2).sum() == 2:
        return f"Bits {_listed(bits)}: heads {_listed(halves.index[halves == 2])} share a direction"
    return f"Bits {_listed(bits)}: the heads do not end on the bits"


@drawing
def success(outcomes: pd.DataFrame) -> Figure:
    """How often a run ends as in the paper's picture, by recipe and panel, in percent with Wilson intervals.

    ``outcomes`` has the columns ``panel``, ``recipe`` and ``pictured``, one row a run.
    """
    shown = list(outcomes["recipe"].unique())
    details = {} if is_narrow() else DETAILS
    names = {name: "\n".join(filter(None, (RECIPES[name][0], details.get(name)))) for name in shown}
    colours = {name: RECIPES[name][1] for name in shown}
    fig, axes = panels(len(PANELS), 0.58 * len(names) + 0.9, keep=True)
    for ax, (panel, title) in zip(axes, PANELS.items(), strict=True):
        part = outcomes[outcomes["panel"] == panel]
        wide = {"linewidth": 7, "alpha": 0.25, "solid_capstyle": "round"}
        rate_rows(part, "pictured", "recipe", names, "recipe", colours, ax, markersize=7, err_kws=wide)
        for row, name in enumerate(names):
            mean = 100 * share(part, "pictured", recipe=name)
            side = "left" if mean < 10 else "right" if mean > 90 else "center"
            say(ax, mean, row, f"{mean:.0f} %", colours[name], (0, 12), side, weight="bold")
        ax.set(title=title, xticks=[0, 50, 100])
        ax.margins(y=0.15)
    return fig


@drawing
def half_way(pairs: pd.DataFrame) -> Figure:
    """How two heads that share a pair of neighbours tilt, every run a dot, one panel a recipe.

    ``pairs`` is a frame of :func:`parity_lib.chapters.figure2.half_way`: the offsets ``first`` and ``second`` from the
    middle of the pair. Where they have opposite signs the arg-maxes are both bits.
    """
    fig, axes = panels(len(HALF_WAY), 3.5, share=False)
    for ax, (name, title) in zip(axes, HALF_WAY.items(), strict=True):
        frame = pairs[pairs["recipe"] == name]
        hundredths = 100 * frame[["first", "second"]]
        edge = 1.25 * max([1e-3, *hundredths.abs().max()]) if len(frame) else 1.0
        for corner in (0, -edge):
            ax.fill_between([corner, corner + edge], corner, corner + edge, color="#f0f0f0", zorder=0)
        sns.scatterplot(hundredths, x="first", y="second", color=RECIPES[name][1], ax=ax, s=36, alpha=0.75)
        apart = (frame["first"] * frame["second"] < 0).mean()
        told = f"{100 * apart:.0f} % tilt apart" if len(frame) else "none shares"
        ax.set(xlim=(-edge, edge), ylim=(-edge, edge), aspect="equal", xlabel="one head's offset, 1/100 position",
               ylabel="the other head's", title=f"{title}:\n{told}")  # fmt: skip
        ax.text(0.03, 0.97, "apart", transform=ax.transAxes, va="top", color=STATED)
        ax.text(0.97, 0.97, "together", transform=ax.transAxes, va="top", ha="right", color=STATED)
        ax.grid(False)
        ax.axhline(0, color=FAINT, lw=0.8, zorder=1)
        ax.axvline(0, color=FAINT, lw=0.8, zorder=1)
    return fig


def _bit_ticks(ax: Axes, bits: Sequence[int], n: int) -> None:
    """Ticks at the bits; of bits that are close, the lower labels step aside, so that all can be read."""
    steps: dict[int, int] = {}
    for bit in sorted(bits, reverse=True):
        taken = {step for other, step in steps.items() if other - bit < 0.14 * n}
        steps[bit] = next(step for step in range(len(bits)) if step not in taken)
    ax.set_yticks([bit - 0.5 for bit in bits], [f"{bit}{chr(0xA0) * 5 * steps[bit]}" for bit in bits], rotation=0)


def _listed(values: Sequence[int]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} and {last}" if first else last

"""Figures of the chapter ``figure2``, and the animated circle of positions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from itertools import cycle, islice
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from ..training import COMMITTED
from .style import BIT, FULL, HEADS, RECIPES, percent, wilson_percent

DETAILS = {
    "theory": "squared hinge, gradient descent",
    "later-code": "squared mean hinge",
    "figure2": "sigmoid hinge, minibatches",
    "figure2-population": "",
    "figure2-signed": "",
}
"""What a row of the success chart says under a recipe's name."""
PANELS = {
    "left": "Bits apart:\neach head finds its own bit",
    "right": "Neighbouring bits:\ntwo heads meet half-way",
}
HALF_WAY = {"figure2": "The authors' code", "figure2-signed": "Exact gradient, labels ±1"}


def heat_maps(course: pd.DataFrame) -> Figure:
    """The paper's Figure 2: a row for every panel, a heat map for every head, position against epoch.

    ``course`` is a frame of :func:`parity_lib.chapters.figure2.course`; the title of a row says how its run ended.
    """
    panels = list(course.groupby("panel", sort=False))
    fig = plt.figure(figsize=(FULL, 2.5 * len(panels)))
    for part, (_, frame) in zip(fig.subfigures(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        _row_of_heads(part, frame)
        part.suptitle(ending(frame), x=0.01, ha="left", weight="bold", fontsize=10.5)
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


def success(outcomes: pd.DataFrame) -> Figure:
    """How often a run ends as in the paper's picture, by recipe and panel, in percent with Wilson intervals.

    ``outcomes`` has the columns ``panel``, ``recipe`` and ``pictured``, one row a run.
    """
    names = {name: "\n".join(filter(None, (RECIPES[name][0], DETAILS[name]))) for name in outcomes["recipe"].unique()}
    colours = {names[name]: RECIPES[name][1] for name in names}
    frame = percent(outcomes, "pictured").assign(recipe=outcomes["recipe"].map(names))
    fig, axes = plt.subplots(1, len(PANELS), figsize=(FULL, 0.58 * len(names) + 0.9), sharey=True)
    for ax, (panel, title) in zip(axes, PANELS.items(), strict=True):
        part = frame[frame["panel"] == panel]
        sns.pointplot(
            part, x="pictured", y="recipe", hue="recipe", palette=colours, errorbar=wilson_percent, linestyle="none",
            markersize=7, err_kws={"linewidth": 7, "alpha": 0.25, "solid_capstyle": "round"}, legend=False, ax=ax,
        )  # fmt: skip
        for row, (name, mean) in enumerate(part.groupby("recipe", sort=False)["pictured"].mean().items()):
            side = "left" if mean < 10 else "right" if mean > 90 else "center"
            ax.annotate(f"{mean:.0f} %", (mean, row), (0, 9), textcoords="offset points", color=colours[name],
                        ha=side, weight="bold", fontsize=9)  # fmt: skip
        ax.set(title=title, xlabel="% of runs", ylabel="", xlim=(-4, 104), xticks=[0, 50, 100])
        ax.margins(y=0.15)
    return fig


def half_way(pairs: pd.DataFrame) -> Figure:
    """How two heads that share a pair of neighbours tilt, every run a dot, one panel a recipe.

    ``pairs`` is a frame of :func:`parity_lib.chapters.figure2.half_way`: the offsets ``first`` and ``second`` from the
    middle of the pair. Where they have opposite signs the arg-maxes are both bits.
    """
    fig, axes = plt.subplots(1, len(HALF_WAY), figsize=(FULL, 3.5))
    for ax, (name, title) in zip(axes, HALF_WAY.items(), strict=True):
        frame = pairs[pairs["recipe"] == name]
        hundredths = 100 * frame[["first", "second"]]
        edge = 1.25 * max([1e-3, *hundredths.abs().max()]) if len(frame) else 1.0
        for x, y in ((0, 0), (-edge, -edge)):
            ax.fill_between([x, x + edge], y, y + edge, color="#f3f3f3", zorder=0)
        sns.scatterplot(hundredths, x="first", y="second", color=RECIPES[name][1], ax=ax, s=36, alpha=0.75)
        ends = (
            f"{100 * (frame['first'] * frame['second'] < 0).mean():.0f} % tilt apart" if len(frame) else "none shares"
        )
        ax.set(xlim=(-edge, edge), ylim=(-edge, edge), aspect="equal", xlabel="one head's offset, 1/100 position",
               ylabel="the other head's", title=f"{title}:\n{ends}")  # fmt: skip
        ax.text(0.03, 0.97, "apart", transform=ax.transAxes, va="top", color="#555555")
        ax.text(0.97, 0.97, "together", transform=ax.transAxes, va="top", ha="right", color="#555555")
        ax.grid(False)
        ax.axhline(0, color="#bbbbbb", lw=0.8, zorder=1)
        ax.axvline(0, color="#bbbbbb", lw=0.8, zorder=1)
    return fig


def circle_animation(circle: pd.DataFrame, alt: str) -> str:
    """The heads as arrows on the circle of positions, epoch by epoch: self-contained HTML (SVG and a slider).

    An arrow grows with the weight a head gives to its best position, from a fifth of the radius at 0 to nearly
    the circle at 1; each head's is thinner than the one before, so that heads on one direction show as stripes.
    Dots grow with the summed attention. Works offline and without a server; starts on request, never by itself.
    ``circle`` is a frame of :func:`parity_lib.chapters.figure2.circle`.
    """
    by_head = circle.groupby(["epoch", "head"]).agg(turn=("turn", "first"), best=("attention", "max")).round(4)
    bits = sorted(circle.loc[circle["bit"], "position"].unique().tolist())
    last, heads = int(circle["epoch"].max()), int(circle["head"].max())
    data = {
        "angle": by_head["turn"].unstack().to_numpy().tolist(),
        "best": by_head["best"].unstack().to_numpy().tolist(),
        "weight": circle.groupby(["epoch", "position"])["attention"].sum().round(4).unstack().to_numpy().tolist(),
        "bits": bits,
        "colours": list(islice(cycle(HEADS), heads)),
    }
    fields = {
        "NAME": f"circle-{circle['recipe'].iloc[0]}-{'-'.join(map(str, bits))}-{circle['seed'].iloc[0]}",
        "ALT": escape(alt),
        "LAST": str(last),
        "BIT": BIT,
        "DATA": json.dumps(data, separators=(",", ":")),
    }
    page = Path(__file__).with_name("circle.html").read_text(encoding="utf-8")
    for name, value in fields.items():
        page = page.replace(f"@{name}", value)
    return page


def _row_of_heads(fig: Figure | SubFigure, course: pd.DataFrame) -> None:
    """One heat map per head, with ticks at the bits and one colour bar."""
    heads = list(course.groupby("head"))
    axes = fig.subplots(1, len(heads), sharey=True, squeeze=False)[0]
    bits = sorted(course.loc[course["bit"], "position"].unique())
    for ax, (head, frame) in zip(axes, heads, strict=True):
        table = frame.pivot(index="position", columns="epoch", values="attention")
        sns.heatmap(table, vmin=0, vmax=1, cmap="viridis", cbar=False, ax=ax, rasterized=True)
        ax.invert_yaxis()
        epochs = table.columns[:: max(1, (len(table.columns) - 1) // 3)]
        ax.set(title=f"head {head}", xlabel="epoch", ylabel="")
        ax.set_xticks(epochs + 0.5, epochs, rotation=0)
        _bit_ticks(ax, bits, len(table))
    axes[0].set_ylabel("position")
    fig.colorbar(axes[-1].collections[0], ax=axes, label="attention", pad=0.01, ticks=[0, 0.5, 1])


def _bit_ticks(ax: Axes, bits: Sequence[int], n: int) -> None:
    """Ticks at the bits; of bits that are close, the lower labels step aside, so that all can be read."""
    steps: dict[int, int] = {}
    for bit in sorted(bits, reverse=True):
        taken = {step for other, step in steps.items() if other - bit < 0.14 * n}
        steps[bit] = next(step for step in range(len(bits)) if step not in taken)
    ax.set_yticks([bit - 0.5 for bit in bits], [f"{bit}{' ' * 5 * steps[bit]}" for bit in bits], rotation=0)


def _listed(values: Sequence[int]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} and {last}" if first else last

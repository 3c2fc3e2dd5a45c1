"""Figures of the chapter ``convergence``: the landscape, the two forces, and the map of success."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..evidence import tell
from . import style

FORCES = {"label-free": style.BLIND, "parity signal": style.SIGNAL}
FLOOR = 1e-20  #: Forces below are not drawn: how far they fall is written.
GOAL = "#5ee0b5"  #: The solutions on the landscape: the bits' green, lighter, since what lies below is dark.
KEY: dict[str, dict[str, Any]] = {
    "start of a run; its way is white": {"marker": "o", "color": style.CHALK, "mec": style.STATED, "ms": 5},
    "its end": {"marker": "o", "color": style.BLIND, "ms": 6},
    "the two solutions": {"marker": "s", "mfc": "none", "mec": GOAL, "ms": 12, "mew": 1.8},
    "low risk": {"marker": "s", "color": "#123570", "ms": 12},
    "high risk": {"marker": "s", "color": "#fee838", "ms": 12},
}
"""What the marks on the landscape mean."""


@style.drawing
def success_map(found: pd.DataFrame) -> Figure:
    """Solved pairs in percent over smoothing and c1, a panel for two, three and four bits, at one step size."""
    one_step = found["step"] == found["step"].iloc[0]
    fig, parts = style.panels_by(found[one_step & found["k"].between(2, 4)], "k", height=2.9)
    for ax, k, part in parts:
        table = style.rate_map(part, "solved", "c1", "smoothing", ax)
        ax.set(title=f"k = {k}: up to {table.max(axis=None):.0f} % solved", xlabel="smoothing b",
               ylabel="c1 (temperature c1/n)")  # fmt: skip
        ax.tick_params(axis="x", labelsize=7.5)
    return fig


@style.drawing
def two_forces(found: pd.DataFrame) -> Figure:
    """Both forces along training, a panel for every smoothing: medians and quartiles over the pairs."""
    fig, parts = style.panels_by(found, "smoothing", height=3.1)
    for ax, b, part in parts:
        middle = part.groupby(["update", "force"])["size"].median().unstack()
        takes = (middle["parity signal"] > 0.5 * middle["label-free"]).iloc[len(middle) // 10 :].any()
        ax.set_title(f"b = {b:g}: the signal " + ("takes over" if takes else "stays behind"))
        draw_forces(part[part["update"] > 0], "update", ax, "length of the gradient", inside=ax is not fig.axes[-1])
    return fig


def draw_forces(frame: pd.DataFrame, x: str, ax: Axes, label: str, inside: bool = False) -> None:
    """Both forces on logarithmic axes; where a line leaves the panel are its name, and how far it falls."""
    legend = style.is_narrow() or not inside
    style.medians(frame, x, "size", hue="force", hue_order=list(FORCES), palette=FORCES, legend=legend, ax=ax)
    ax.set(xscale="log", yscale="log", ylabel=label)
    style.label_lines(ax)
    if frame["size"].min() < FLOOR:
        ax.set_ylim(bottom=FLOOR)
    for name, part in frame.groupby("force"):
        middle = part.groupby(x)["size"].median()
        if (below := middle[middle < FLOOR]).size:
            for label_at_end in [text for text in ax.texts if text.get_text() == name]:
                label_at_end.remove()
            low = tell("{low:power}", holds=True, low=below.min())
            fall = f"{name},\ndown to {low.text} ↓"
            style.say(ax, below.index[0], FLOOR, fall, FORCES[name], (7, 4), va="bottom")


@style.drawing
def melting(found: pd.DataFrame) -> Figure:
    """Share of runs that are solved, and of those whose heads the label-free force alone melts, against smoothing."""
    titles = {}
    for k, part in found.groupby("k"):
        sharp = part.loc[~part["melted"], "solved"].mean()  # solved although the heads stay sharp
        kept = "heads do not melt" if part["melted"].mean() < 0.05 else "hardly without melting"
        titles[k] = f"k = {k}: " + ("solved without melting" if sharp > 0.2 else kept)
    long = found.melt(["smoothing", "k"], ["melted", "solved"], var_name="what", value_name="share")
    colours = {"melted": style.BLIND, "solved": style.SIGNAL}
    return style.curves(style.success_lines, long, "smoothing", "share", colours, hue="what", panel="k", titles=titles,
                        log="x", xlabel="smoothing b", ylabel="% of pairs", names={"melted": "heads melt"},
                        ticks=sorted(found["smoothing"].unique())[::3])  # fmt: skip


@style.drawing
def landscapes(found: pd.DataFrame, bits: tuple[int, ...]) -> Figure:
    """Risk of two heads over the positions they point at, with the ways of a few runs; a panel each."""
    parts = list(found.groupby("panel", sort=False))
    fig, axes, spare = _squares(len(parts))
    for place, (ax, (name, part)) in enumerate(zip(axes, parts, strict=True)):
        grid = part[part["layer"] == "risk"].pivot(index="head_2", columns="head_1", values="risk")
        step, n = grid.columns[0], grid.columns[-1]
        edges = (step / 2, n + step / 2)
        ax.imshow(grid.to_numpy(), origin="lower", extent=(*edges, *edges), cmap="cividis")
        ways = part[part["layer"] == "way"].groupby("seed")[["head_1", "head_2"]]
        starts, ends = ways.first().to_numpy(), ways.last().to_numpy()
        for start, (_, way) in zip(starts, ways, strict=True):
            moves = (way.diff().to_numpy()[1:] + n / 2) % n - n / 2  # the short way round the circle
            whole = np.cumsum([start, *moves], axis=0)
            for shift in product((-n, 0, n), repeat=2):  # where a way leaves the map, it comes back on the other side
                if ((edges[0] < whole + shift) & (whole + shift < edges[1])).all(1).any():
                    ax.plot(*(whole + shift).T, color=style.CHALK, lw=1.0, alpha=0.9)
        ax.plot(*starts.T, "o", color=style.CHALK, ms=3)
        ax.plot(*ends.T, "o", color=style.BLIND, ms=5, mec=style.CHALK, mew=0.7)
        goals = np.array([bits, bits[::-1]])
        ax.plot(*goals.T, "s", mfc="none", mec=GOAL, ms=12, mew=1.8)
        found_by = sum(np.abs(goals - end).max(1).min() < 0.5 for end in ends)
        ax.set(title=f"{name}: {found_by} of {len(ends)} solved", xlabel="head 1 points at", ylabel="head 2 points at",
               xticks=bits, yticks=bits, xlim=edges, ylim=edges)  # fmt: skip
        ax.grid(False)
        if spare and place % 2:
            ax.set(ylabel="", yticklabels=[])  # the one on the left has them
    for ax in spare:
        ax.axis("off")
        for row, (words, mark) in enumerate(KEY.items()):
            ax.plot(0.06, 0.8 - 0.13 * row, transform=ax.transAxes, ls="none", **mark)
            ax.text(0.14, 0.8 - 0.13 * row, words, transform=ax.transAxes, va="center")
    return fig


def _squares(count: int) -> tuple[Figure, list[Axes], list[Axes]]:
    """Panels for maps, two in a row to be large, and the places that are left over; on a phone one below the other."""
    if style.is_narrow() or count < 3:
        return *style.panels(count, 3.6), []
    rows = -(-count // 2)
    fig, axes = style.plt.subplots(rows, 2, figsize=(style.FULL, 3.75 * rows), layout="compressed")
    return fig, list(axes.flat[:count]), list(axes.flat[count:])

"""Figures of the chapter ``samples``: examples needed against length, against numbers a head, and under noise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from . import style

COLOURS = {
    "heads": style.REPAIRED, "network": style.BLIND, "elimination": style.SIGNAL, "largest coefficient": style.STATED,
    "leading vector": style.CODE,
}  # fmt: skip
"""The learners, by colour through the chapter."""


@style.drawing
def by_length(needed: pd.DataFrame, least: pd.DataFrame) -> Figure:
    """Examples needed against the number of positions, a panel for each k: medians, quartiles as a band.

    ``needed`` has a row for every learner, k and n, as :func:`parity_lib.chapters.samples.needed` makes it. The dotted
    line is n to the power k, through the heads' first point; below the dashed one, ``least`` (``k``, ``n``,
    ``examples``), the heads' first gradient cannot tell the sets apart.
    """
    parts = list(needed.groupby("k"))
    fig, axes = style.panels(len(parts), 3.6)
    for ax, (k, frame) in zip(axes, parts, strict=True):
        for name, part in frame[np.isfinite(frame["median"])].groupby("learner", sort=False):
            above = name == "network"  # its line ends among others and begins above them
            _fan(part, "n", COLOURS[name], ax, None if above else name)
            if above:
                style.say(ax, part["n"].iloc[0], part["median"].iloc[0], name, COLOURS[name], (0, 10))
            if name == "heads":
                _law(part, "n", int(k), f"∝ n{'²³⁴⁵'[int(k) - 2]}", ax)
        bound = least[least["k"] == k]
        ax.plot(bound["n"], bound["examples"], "--", color=style.INK)
        last = bound.iloc[-1]
        style.say(ax, last["n"], last["examples"], "blind below", style.INK, gid="series")
        ax.set(xlabel="positions n", title=f"Parity of {k} bits")
        style.label_lines(ax)
    power = {key: _power(part) for key, part in needed.groupby(["learner", "k"])}
    off = [abs(found - (k if name == "heads" else 1)) for (name, k), found in power.items()
           if name in ("heads", "elimination")]  # fmt: skip
    text = "Heads need close to nᵏ examples, elimination about n"
    return style.finding(fig, max(off, default=1.0) < 0.5, text, "Examples needed, by number of positions")


def _power(part: pd.DataFrame) -> float:
    """The power of n that the medians follow, by least squares of their logarithms."""
    part = part[np.isfinite(part["median"])]
    return float(np.polyfit(np.log(part["n"]), np.log(part["median"]), 1)[0]) if len(part) > 1 else np.nan


@style.drawing
def by_size(needed: pd.DataFrame, exponent: float) -> Figure:
    """Examples that two heads need against the numbers each of them has; the title has the measured power."""
    fig, (ax,) = style.panels(1, 3.0)
    finite = needed[np.isfinite(needed["median"])]
    if len(finite):
        _fan(finite, "numbers", style.REPAIRED, ax)
        _law(finite, "numbers", -1, "∝ 1/d", ax)
    ax.set(xlabel="numbers d in a head", title=f"More numbers, fewer examples: the power is {exponent:.1f}")
    return fig


def _fan(part: pd.DataFrame, x: str, colour: str, ax: Axes, name: str | None = None) -> None:
    """Medians with the quartiles that the frame holds as a band, or as bars without a line, on logarithmic axes."""
    joined = style.line_style(part[x])
    sns.lineplot(part, x=x, y="median", color=colour, marker="o", ls=joined, label=name, ax=ax)
    high = part["high"].replace(np.inf, np.nan)
    if joined == "-":
        ax.fill_between(part[x], part["low"], high, color=colour, alpha=0.15, lw=0)
    else:
        ax.vlines(part[x], part["low"], high, color=colour)
    ax.set(xscale="log", yscale="log", ylabel="examples needed")
    style.plain_log_ticks(ax.xaxis)


def _law(part: pd.DataFrame, x: str, power: int, text: str, ax: Axes) -> None:
    """A dotted power law through the first point."""
    first, last = part.iloc[0], part.iloc[-1]
    end = first["median"] * (last[x] / first[x]) ** power
    ax.plot([first[x], last[x]], [first["median"], end], ":", color=style.INK)
    if power > 0:
        style.say(ax, last[x], end, text, style.INK, gid="series")
    else:
        middle = (first[x] * last[x]) ** 0.5, (first["median"] * end) ** 0.5
        style.say(ax, *middle, text, style.INK, (4, -10), "right")


@style.drawing
def under_noise(found: pd.DataFrame) -> Figure:
    """How often each learner names B when labels are flipped, in percent, with Wilson intervals."""
    shifted = found.assign(flipped=100 * found["noise"])
    fig = style.curves(style.success_lines, shifted, "flipped", "right", COLOURS, hue="learner",
                       xlabel="labels flipped, %", ylabel="B named, % of streams", height=3.0)  # fmt: skip
    last = found[found["noise"] == found["noise"].max()].groupby("learner", sort=False)["right"].mean()
    alive, dead = list(last.index[last > 0.5]), list(last.index[last < 0.5])
    told = "A few wrong labels end elimination; heads do not mind"
    plain = f"Still right at the largest noise: {', '.join(alive) or 'nobody'}"
    fig.axes[0].set_title(told if "elimination" in dead and "heads" in alive else plain)
    return fig

"""Figures of the chapter ``samples``: examples needed against length, against numbers a head, and under noise."""

from collections.abc import Collection

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
    finite = needed[np.isfinite(needed["median"])].sort_values("k", kind="stable")
    fig, parts = style.panels_by(finite, "k", "Parity of {} bits", 3.6)
    for ax, k, frame in parts:
        for name, part in frame.groupby("learner", sort=False):
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
        ax.set(xscale="log", xlabel="positions n")
        style.label_lines(ax)
    off = []  # the powers of n that the medians follow, by least squares of their logarithms, from those foretold
    for (name, k), part in finite.groupby(["learner", "k"]):
        if name in ("heads", "elimination") and len(part) > 1:
            power = np.polyfit(np.log(part["n"]), np.log(part["median"]), 1)[0]
            off.append(abs(power - (k if name == "heads" else 1)))
    text = "Heads need close to nᵏ examples, elimination about n"
    return style.finding(fig, max(off, default=1.0) < 0.5, text, "Examples needed, by number of positions")


@style.drawing
def by_size(needed: pd.DataFrame, exponent: float) -> Figure:
    """Examples that two heads need against the numbers each of them has; the title has the measured power."""
    fig, (ax,) = style.panels(1, 3.0)
    finite = needed[np.isfinite(needed["median"])]
    if len(finite):
        _fan(finite, "numbers", style.REPAIRED, ax)
        _law(finite, "numbers", -1, "∝ 1/d", ax)
    else:
        style.blank(ax)
    text = f"More numbers, fewer examples: the power is {exponent:.1f}".replace("-", "−")
    title = text if exponent < 0 else "Examples needed, by numbers in a head"
    ax.set(xscale="log", xlabel="numbers d in a head", title=title)
    return fig


def _fan(part: pd.DataFrame, x: str, colour: str, ax: Axes, name: str | None = None) -> None:
    """Medians with the quartiles that the frame holds as a band, or as bars without a line; examples on a log axis."""
    joined = style.line_style(part[x])
    sns.lineplot(part, x=x, y="median", color=colour, marker="o", ls=joined, label=name, ax=ax)
    high = part["high"].replace(np.inf, np.nan)
    if joined == "-":
        ax.fill_between(part[x], part["low"], high, color=colour, alpha=0.15, lw=0)
    else:
        ax.vlines(part[x], part["low"], high, color=colour)
    ax.set(yscale="log", ylabel="examples needed")


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
def under_noise(needed: pd.DataFrame, averaging: Collection[str]) -> Figure:
    """Examples needed against the rate of flipped labels, a panel for each k and n: medians, quartiles as a band.

    ``needed`` has a row for every learner, k, n and ``noise``; where the median stream did not find B, an open triangle
    stands at the ``most`` examples tried. Dotted: what a mean pays, (1 - 2p)^-2, at the height that fits each of the
    learners ``averaging``.
    """
    needed = needed.assign(flipped=100 * needed["noise"], law=(1 - 2 * needed["noise"]) ** -2)
    sets = needed["k"].astype(str) + " of " + needed["n"].astype(str) + " bits"
    fig, parts = style.panels_by(needed.assign(set=sets).sort_values(["n", "k"], kind="stable"), "set", height=3.6)
    for ax, _, frame in parts:
        for name, part in frame.groupby("learner", sort=False):
            found, missed = part[np.isfinite(part["median"])], part[~np.isfinite(part["median"])]
            ax.plot(missed["flipped"], missed["most"], "^", color=COLOURS[name], mfc="none")  # first: named there
            if len(found):
                _fan(found, "flipped", COLOURS[name], ax, name)
            if len(found) and name in averaging:
                height = np.exp(np.log(found["median"] / found["law"]).mean())
                ax.plot(part["flipped"], height * part["law"], ":", color=style.INK, lw=1)
        ax.set(xlabel="labels flipped, %")
    style.label_last(fig.axes)
    ends = needed["noise"].agg(["min", "max"])
    first, last = (needed[needed["noise"] == rate].set_index(["k", "n", "learner"]) for rate in ends)
    off = np.log(last["median"] / first["median"] / last["law"] * first["law"]).xs("heads", level="learner").abs()
    dead = ~np.isfinite(last["median"].xs("elimination", level="learner"))
    text = "Heads pay for wrong labels as a mean does, elimination dies of them"
    holds = ends["min"] < ends["max"] and off.max() < 1 and dead.all()
    return style.finding(fig, bool(holds), text, "Examples needed, by the rate of wrong labels")

"""The visual language of the book: one theme, colours by meaning, two widths, and the words seaborn lacks.

A figure takes a tidy frame and returns a :class:`~matplotlib.figure.Figure`. Its title is the finding, series are
labelled where they are, uncertainty is drawn. Colour has one meaning from the first page to the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

from ..evidence import rate

# Okabe and Ito's colours, distinct for colour-blind readers; text in them is darkened where white is behind.
BIT = "#009E73"
"""The bits of B."""
BLIND = "#D55E00"
"""The label-free force, which does not know the bits."""
SIGNAL = "#0072B2"
"""The parity signal, which does."""
STATED = "#6B6B6B"
"""A paper's own recipe, as stated."""
CODE = "#8E5EA2"
"""The authors' code, and what lies between it and the theorem."""
REPAIRED = "#0B7A75"
"""Heads that sample a position."""
SERIES = (SIGNAL, BLIND, REPAIRED, "#B8860B", CODE, "#56B4E9")
"""Where no meaning is fixed, in this order."""
HEADS = (SIGNAL, BLIND, CODE, "#E69F00", "#56B4E9")
"""Heads by number; never green, since they stand beside bits."""
COLUMN, FULL = 4.6, 7.6
"""Widths in inches: one panel, and the whole column of text."""

RECIPES: dict[str, tuple[str, str]] = {
    "theory": ("The theorem's recipe", STATED),
    "later-code": ("The authors' later code", CODE),
    "figure2": ("The authors' code", CODE),
    "figure2-population": ("... with the exact gradient", CODE),
    "figure2-signed": ("... and labels ±1", SIGNAL),
    "repaired": ("Heads that sample", REPAIRED),
    "product-head": ("Heads that sample, from batches", REPAIRED),
}
"""How every recipe is called in prose and on figures, and its colour."""

THEME: dict[str, Any] = {
    "figure.constrained_layout.use": True,
    "figure.figsize": (FULL, 3.2),
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": 200,
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "axes.edgecolor": "#444444",
    "image.cmap": "viridis",
    "svg.hashsalt": "parity",  # the same figure gives the same bytes
    "svg.fonttype": "path",
}


def use_style() -> None:
    """The book's theme for every figure that follows; in a notebook, figures become SVG."""
    sns.set_theme(style="whitegrid", context="paper", palette=SERIES, rc=THEME)
    sns.despine()
    plt.close("all")
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False})
    try:
        from IPython import get_ipython
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:  # no notebook
        return
    if get_ipython() is not None:
        set_matplotlib_formats("svg", metadata={"Date": None}, bbox_inches="tight")


def wilson_percent(values: pd.Series) -> tuple[float, float]:
    """Error bars for seaborn: the Wilson 95 % interval of a column that is 100 where a run succeeded, else 0."""
    found = rate(np.asarray(values) > 50)
    return 100 * found.low, 100 * found.high


def percent(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """The frame with a column of truth values as 0 and 100, so that its mean is a rate in percent."""
    return frame.assign(**{column: 100.0 * frame[column].astype(float)})


def success_lines(frame: pd.DataFrame, x: str, y: str, **how: Any) -> Axes:
    """Rates of the truth values in ``y`` against ``x``, in percent, with Wilson bars: seaborn's line plot."""
    style = {"errorbar": wilson_percent, "err_style": "bars", "marker": "o", "err_kws": {"capsize": 2}} | how
    axes = sns.lineplot(percent(frame, y), x=x, y=y, **style)
    axes.set(ylim=(-4, 104), ylabel="success, % of runs")
    return axes


def medians(frame: pd.DataFrame, x: str, y: str, **how: Any) -> Axes:
    """Medians of ``y`` against ``x`` with the quartiles as a band: seaborn's line plot."""
    return sns.lineplot(frame, x=x, y=y, **({"estimator": "median", "errorbar": ("pi", 50)} | how))


def label_lines(ax: Axes, names: Mapping[str, str] | None = None) -> None:
    """Write the name of every series at the right end of its line, in its colour, and drop the legend."""
    handles, labels = ax.get_legend_handles_labels()
    if (legend := ax.get_legend()) is not None:
        legend.remove()
    lines = [line for line in ax.get_lines() if np.size(line.get_xdata()) > 1]
    # The last of a colour wins: the line itself, which is drawn before the caps of its error bars.
    by_colour = {plt.matplotlib.colors.to_hex(line.get_color()): line for line in reversed(lines)}
    ends = []
    for handle, label in zip(handles, labels, strict=True):
        colour = plt.getp(handle, "color")
        line = by_colour.get(plt.matplotlib.colors.to_hex(colour))
        if line is not None:
            x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
            last = np.flatnonzero(np.isfinite(y))[-1]
            ends.append((x[last], y[last], (names or {}).get(label, label), colour))
    place = _spread(ax, [y for _, y, _, _ in ends])
    for (x, y, text, colour), shift in zip(ends, place, strict=True):
        ax.annotate(text, (x, y), (6, shift), textcoords="offset points", color=colour, va="center", fontsize=9,
                    annotation_clip=False)  # fmt: skip


def _spread(ax: Axes, ys: list[float], gap: float = 11) -> list[float]:
    """Vertical shifts in points that keep labels at heights ``ys`` apart."""
    scale = 72 / ax.figure.dpi
    at = [ax.transData.transform((1, y))[1] * scale for y in ys]
    order = sorted(range(len(ys)), key=lambda i: at[i])
    placed: dict[int, float] = {}
    for before, i in zip([None, *order], order, strict=False):
        placed[i] = at[i] if before is None else max(at[i], placed[before] + gap)
    return [placed[i] - at[i] for i in range(len(ys))]


def plain_log_ticks(axis: Axis) -> None:
    """Ticks at 1, 2, 5, 10, ... of a log axis, written out: for axes of few powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ScalarFormatter())
    axis.set_minor_locator(NullLocator())


def ticks_at(axis: Axis, values: Iterable[float]) -> None:
    """Ticks at just these values, written out."""
    chosen = sorted(set(values))
    axis.set_ticks(chosen, [f"{value:g}" for value in chosen])
    axis.set_minor_locator(NullLocator())

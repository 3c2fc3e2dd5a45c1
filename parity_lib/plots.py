"""The style of every figure in the book, and the pieces that chapters share.

Figures live in one module per chapter, ``plots_<chapter>``: one function per figure, which returns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

from .evidence import Rate

# Okabe and Ito's colours: distinct for colour-blind readers and by lightness in grey.
BLUE, ORANGE, GREEN, PURPLE, SKY, RED, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#666666",
)
COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
HEAD_COLOURS = (BLUE, RED, PURPLE, ORANGE, SKY)  # heads stand beside bits, which are green
MARKERS = ("o", "s", "^", "D", "v", "P")

STYLE = {
    "figure.dpi": 150,
    "savefig.dpi": 150,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e2e2e2",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "image.cmap": "viridis",
}


def use_style() -> None:
    """Switch matplotlib to the book's style."""
    plt.rcParams.update(STYLE)  # type: ignore[arg-type]


def draw_rates(
    ax: Axes, x: Sequence[float] | np.ndarray, rates: Sequence[Rate], colour: str, marker: str, label: str | None, *,
    full: float = 100, **line: Any,
) -> None:  # fmt: skip
    """Rates of success against x with their Wilson intervals, in percent, or as shares with ``full=1``."""
    share = np.array([full * rate.share for rate in rates])
    ends = np.array([[full * rate.low, full * rate.high] for rate in rates]).T
    reach = np.abs(ends - share)  # a Wilson end may pass the share by a rounding error when that is 0 or 1
    style = {"ms": 5, "capsize": 2.5, "lw": 1.6, "elinewidth": 1} | line
    ax.errorbar(x, share, reach, color=colour, marker=marker, label=label, **style)


def plain_log_ticks(axis: Axis) -> None:
    """Ticks at 1, 2, 5, 10, ... of a log axis, written out: for axes of few powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ScalarFormatter())
    axis.set_minor_locator(NullLocator())


def fan(ax: Axes, x: np.ndarray, values: np.ndarray, colour: str, label: str, dash: str = "-") -> None:
    """Median over the columns of ``values`` (x, seeds), with the quartiles as a band."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), axis=1)
    ax.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
    ax.plot(x, middle, dash, color=colour, lw=2, label=label)

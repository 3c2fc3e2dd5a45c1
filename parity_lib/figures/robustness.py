"""Figures of the chapter ``robustness``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ..chapters.robustness import Bin, Success
from ..evidence import Rate
from .style import BLUE, COLOURS, GREEN, GREY, MARKERS, ORANGE, PURPLE, RED, SKY, draw_rates, fan, plain_log_ticks

DASHES = ("-", "--", "-.", ":")
RECIPE_STYLE = {  # the same colour and mark in every figure
    "theory": (RED, "s"),
    "figure2-signed": (BLUE, "o"),
    "repaired": (GREEN, "^"),
    "product-head": (PURPLE, "D"),
    "figure2": (ORANGE, "v"),
    "figure2-population": (SKY, "P"),
    "later-code": (GREY, "X"),
}


def _percent_axis(ax: Axes) -> None:
    ax.set(ylim=(-4, 104), yticks=[0, 25, 50, 75, 100])


def success_curves(
    panels: Mapping[str, Mapping[str, Mapping[float, Success]]],
    xlabel: str,
    *,
    log: bool = False,
    ticks: Mapping[float, str] | None = None,
    hard: bool = True,
) -> Figure:
    """Success against one quantity: panels -> series -> {x: success}. Solid committed, faint dotted hard."""
    fig, axes = plt.subplots(1, len(panels), figsize=(8.2, 3.3), sharey=True, squeeze=False)
    for ax, (title, series) in zip(axes[0], panels.items(), strict=True):
        every = [np.log(x) if log else x for points in series.values() for x in points]
        reach = np.ptp(every) if len(set(every)) > 1 else 1.0
        for i, (label, points) in enumerate(series.items()):
            # Intervals of different recipes stand beside, not over, each other.
            aside = 0.012 * len(panels) * reach * (i - (len(series) - 1) / 2)
            x = [value * np.exp(aside) if log else value + aside for value in points]
            colour, marker = RECIPE_STYLE[label]
            draw_rates(ax, x, [s.committed for s in points.values()], colour, marker, label)
            if hard:
                share = [100 * s.hard.share for s in points.values()]
                ax.plot(x, share, color=colour, ls=":", lw=1.3, marker=marker, ms=4, mfc="white")
        _percent_axis(ax)
        ax.set(xlabel=xlabel, title=title)
        if log:
            ax.set_xscale("log")
        if ticks:
            ax.set_xticks(list(ticks), list(ticks.values()), fontsize=9)
            ax.minorticks_off()
    axes[0, 0].set_ylabel("pairs that succeed, %")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    if hard:
        handles.append(plt.Line2D([], [], color=GREY, ls=":", marker="o", mfc="white", ms=4))
        labels.append("arg-max alone")
    fig.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=9)
    return fig


def by_heads(
    committed: Mapping[int, Rate], by_weights: Mapping[int, Rate], excess: Mapping[int, np.ndarray], k: int
) -> Figure:
    """Number of heads: what is read off the heads (left), and how much of the risk they close (right)."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.3))
    counts = list(committed)
    draw_rates(
        left,
        [m - 0.07 for m in counts],
        list(committed.values()),
        BLUE,
        "o",
        "committed: each head on a bit",
        ls="none",
    )
    draw_rates(
        left,
        [m + 0.07 for m in counts],
        list(by_weights.values()),
        RED,
        "s",
        "k largest summed weights are B",
        ls="none",
    )
    _percent_axis(left)
    left.set_ylabel("pairs that succeed, %")
    fig.legend(loc="outside upper left", ncols=2, fontsize=9)
    for m in counts:
        values = 100 * excess[m]
        right.plot(m + np.linspace(-0.25, 0.25, len(values)), np.sort(values), "o", ms=3, color=BLUE, alpha=0.5, mew=0)
        right.plot([m - 0.35, m + 0.35], [np.median(values)] * 2, color="black", lw=2)
    right.axhline(100, color=GREY, ls=":", lw=1)
    right.set_ylabel("gap to the least risk closed, %")
    for ax in (left, right):
        ax.axvline(k, color=GREEN, lw=8, alpha=0.2, zorder=0)
        ax.set(xlabel=f"heads m (green: m = k = {k})", xticks=counts)
    return fig


def scale(
    lengths: Sequence[int],
    resolution: int,
    found: Mapping[str, Mapping[int, Success]],
    updates: Mapping[str, Mapping[int, np.ndarray]],
    gradients: Mapping[str, np.ndarray],
    examples: Mapping[str, np.ndarray],
) -> Figure:
    """Success, updates, size of the first gradient and its price in examples against n, all on log axes.

    ``updates`` are known to a multiple of ``resolution``.
    """
    fig, axes = plt.subplots(2, 2, figsize=(8.2, 6.4))
    (a, b), (c, d) = axes
    for i, (label, points) in enumerate(found.items()):
        x = [size * (1 + 0.04 * i) for size in points]
        colour, marker = COLOURS[i], MARKERS[i]
        committed, hard = [s.committed for s in points.values()], [s.hard for s in points.values()]
        draw_rates(a, x, committed, colour, marker, f"{label}: committed")
        draw_rates(a, x, hard, colour, marker, f"{label}: arg-max", ls=":", mfc="white", zorder=1)
        settled = {n: values[np.isfinite(values)] for n, values in updates[label].items()}
        settled = {n: values for n, values in settled.items() if len(values)}
        quartiles = np.array([np.quantile(v.clip(1), (0.25, 0.5, 0.75)) for v in settled.values()]).T
        b.fill_between(list(settled), quartiles[0], quartiles[2], color=COLOURS[i], alpha=0.2, lw=0)
        b.plot(list(settled), quartiles[1], marker=MARKERS[i], color=COLOURS[i])
    _percent_axis(a)
    a.set(ylabel="pairs that succeed, %", title="bits found")
    precision = f", to within {resolution}" if resolution > 1 else ""
    b.set(yscale="log", ylabel=f"update{precision}", title="when the arg-max settles on B")
    low, high = b.get_ylim()
    b.set_ylim(low / 1.5, high * 1.5)
    plain_log_ticks(b.yaxis)
    for ax, series in ((c, gradients), (d, examples)):
        for i, (label, values) in enumerate(series.items()):
            fan(ax, np.asarray(lengths, dtype=float), values, COLOURS[i], label, DASHES[i % 4])
        ax.set_yscale("log")
    c.set(ylabel="norm of the gradient", title="first gradient, exact")
    d.set(ylabel="examples", title="examples that one such gradient costs")
    for ax in axes.flat:
        ax.set(xscale="log", xlabel="number of positions n")
        ax.set_xticks(lengths, [str(n) for n in lengths], fontsize=8)
        ax.xaxis.set_minor_locator(NullLocator())
    c.legend(fontsize=7.5, loc="lower left")
    d.legend(fontsize=7.5, loc="upper left")
    fig.legend(*a.get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8.5)
    return fig


def dots(
    rows: Mapping[str, Mapping[str, Rate]], columns: Sequence[str], xlabel: str = "pairs that succeed, %"
) -> Figure:
    """A table of rates as dots with intervals: one row per label, one panel per column; the counts are printed."""
    fig, axes = plt.subplots(1, len(columns), figsize=(8.4, 0.36 * len(rows) + 1.3), sharey=True, squeeze=False)
    for ax, column in zip(axes[0], columns, strict=True):
        for y, rates in enumerate(reversed(list(rows.values()))):
            if column not in rates:
                continue
            rate = rates[column]
            ax.plot([100 * rate.low, 100 * rate.high], [y, y], color="#9db8cc", lw=4, solid_capstyle="butt")
            ax.plot(100 * rate.share, y, "o", color=BLUE)
            right_half = rate.share > 0.5
            ax.annotate(
                f"{rate.successes}/{rate.trials}",
                (100 * (rate.low if right_half else rate.high), y),
                xytext=(-4 if right_half else 4, 0),
                textcoords="offset points",
                ha="right" if right_half else "left",
                va="center",
                fontsize=7.5,
            )
        ax.set(title=column, xlim=(-6, 106), xticks=[0, 50, 100])
    axes[0, 0].set_yticks(range(len(rows)), list(rows)[::-1], fontsize=8.5)
    axes[0, 0].set_ylim(-0.6, len(rows) - 0.4)
    fig.supxlabel(xlabel, fontsize=10)
    return fig


def soft_and_hard(groups: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Figure:
    """Soft solutions read with hard attention: smallest of the bits' best attentions against the risk left to close.

    The axis of what is left is logarithmic and runs to the right, since solutions crowd at a few per cent.

    Each group holds (share of the risk closed, weakest bit's attention, read correctly by arg-max), (runs,) each.
    """
    fig, axes = plt.subplots(1, len(groups), figsize=(8.2, 3.3), sharex=True, sharey=True, squeeze=False)
    for ax, (title, (closed, weakest, right)) in zip(axes[0], groups.items(), strict=True):
        for chosen, colour, marker, label in (
            (right, BLUE, "o", "arg-max is B"),
            (~right, RED, "x", "arg-max is not B"),
        ):
            left = 100 * (1 - closed[chosen]).clip(1e-3)
            ax.plot(left, weakest[chosen], marker, color=colour, ms=6, mfc="none", mew=1.1, label=label)
        ax.axvline(5, color=GREY, ls=":", lw=1)
        ax.axhline(0.5, color=GREY, ls=":", lw=1)
        solution = closed >= 0.95
        ax.set_title(f"{title}\n{solution.sum()} soft solutions, {(solution & ~right).sum()} misread", fontsize=9)
        ax.set(xlabel="gap to the least risk left, %", xscale="log", ylim=(0, 1.03))
        plain_log_ticks(ax.xaxis)
        ax.tick_params(axis="x", labelsize=8)
    axes[0, 0].invert_xaxis()
    axes[0, 0].set_ylabel("best attention on the weakest bit")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=9)
    return fig


def reliability(panels: Mapping[str, Mapping[str, Sequence[Bin]]]) -> Figure:
    """Reliability diagrams: how often an estimate is right against how sure it was; panels -> {label: bins}."""
    fig, axes = plt.subplots(1, len(panels), figsize=(8.2, 3.3), sharey=True, squeeze=False)
    for ax, (title, series) in zip(axes[0], panels.items(), strict=True):
        ax.plot([0, 1], [0, 100], color=GREY, ls="--", lw=1)
        for i, (label, bins) in enumerate(series.items()):
            colour, marker = ((ORANGE, "s"), (BLUE, "o"))[i % 2]
            draw_rates(
                ax,
                [b.confidence for b in bins],
                [b.right for b in bins],
                colour,
                marker,
                label,
                ls=DASHES[1 - i % 2],
            )
        _percent_axis(ax)
        ax.set(title=title, xlabel="confidence", xlim=(-0.04, 1.04), xticks=[0, 0.5, 1])
    axes[0, 0].set_ylabel("estimates that are right, %")
    axes[0, 0].legend(fontsize=8, loc="lower right")
    return fig


def confirmation(rates: Mapping[int, Rate]) -> Figure:
    """Committed success of the repaired recipe on fresh pairs, by k, with the aim, on a scale that ends at 100 %."""
    fig, ax = plt.subplots(figsize=(8.2, 2.7))
    draw_rates(ax, list(rates), list(rates.values()), BLUE, "o", None, ls="none")
    ax.axhline(99, color=GREEN, lw=1, ls="--", label="aim for the share: at least 99 %")
    ax.axhline(98, color=GREY, lw=1, ls=":", label="aim for the interval's lower end: above 98 %")
    lowest = min(100 * rate.low for rate in rates.values())
    ax.set(xlabel="number of bits k", xticks=list(rates), ylabel="committed, %", ylim=(min(97.0, lowest - 1), 100.3))
    ax.set_xlim(min(rates) - 0.5, max(rates) + 0.5)
    fig.legend(loc="outside upper center", fontsize=8, ncols=2)
    return fig

"""Figures of the chapter ``parameter_efficiency``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..evidence import Rate
from .style import BLUE, COLOURS, GREEN, GREY, MARKERS, ORANGE, RED, draw_rates, fan, plain_log_ticks

DASHES = ("-", "--", "-.", ":", "-", "--")


def smallest_models(lengths: Sequence[int], panels: Mapping[str, Mapping[str, Sequence[float | None]]]) -> Figure:
    """Top: smallest parameter count that succeeds against n. Bottom: its hidden neurons. One column per k.

    Each panel maps ``width``, ``width_low`` and ``width_high`` (see :func:`parity_lib.chapters.networks.smallest_widths`), ``heads``
    where the 2k numbers succeed, ``heads_failed`` where not; None is left out.
    """
    fig, axes = plt.subplots(
        2, len(panels), figsize=(8.2, 5.4), sharex=True, sharey="row", squeeze=False, height_ratios=[1.5, 1]
    )
    x = np.asarray(lengths, dtype=float)
    for (ax, below), (title, panel) in zip(axes.T, panels.items(), strict=True):
        values = {name: np.array(column, dtype=float) for name, column in panel.items()}  # None becomes nan
        bars = np.nan_to_num([values["width"] - values["width_low"], values["width_high"] - values["width"]]).clip(0)
        label = "smallest network that succeeds"
        count = values["width"] * (x + 2) + 1  # eq. 1 with all its edges
        ax.errorbar(x, count, bars * (x + 2), fmt="-s", color=RED, lw=1.6, capsize=3, label=label)
        ax.plot(x, x + 3, "--", color=GREY, lw=1.2, label="one neuron with all its edges: n + 3")
        below.errorbar(x, values["width"], bars, fmt="-s", color=RED, lw=1.6, capsize=3)
        below.set(xlabel="number of positions n", xticks=lengths)
        below.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.plot(x, values["heads"], "o", color=BLUE, ms=8, label="2k numbers (heads or tied network): succeed")
        ax.plot(x, values["heads_failed"], "o", mfc="white", mec=BLUE, ms=8, label="2k numbers: do not, in this budget")
        ax.set(yscale="log", title=title)
    axes[0, 0].set(ylabel="trainable numbers")
    axes[0, 0].set_ylim(bottom=2)
    axes[1, 0].set(ylabel="hidden neurons needed")
    axes[1, 0].set_ylim(bottom=0)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9)
    return fig


def success_by_width(widths: Sequence[int], panels: Mapping[str, Mapping[str, list[Rate]]]) -> Figure:
    """Share of plain networks that pass 0.99 against their width, one line per n, with Wilson intervals."""
    fig, axes = plt.subplots(1, len(panels), figsize=(8.2, 3.7), sharey=True, squeeze=False)
    positions = np.arange(len(widths))
    for ax, (title, lines) in zip(axes[0], panels.items(), strict=True):
        for i, (label, rates) in enumerate(lines.items()):
            at = positions + (i - len(lines) / 2 + 0.5) * 0.09
            draw_rates(ax, at, rates, COLOURS[i % 6], MARKERS[i % 6], label, full=1, ls=DASHES[i % 6])
        ax.axhline(0.5, color=GREY, lw=0.8, ls=":")
        ax.set(title=title, xlabel="hidden neurons", ylim=(-0.04, 1.04))
        ax.set_xticks(positions, [str(width) for width in widths])
    axes[0, 0].set_ylabel("share with accuracy above 0.99")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9)
    return fig


def success_and_steps(
    lengths: Sequence[int],
    success: Mapping[str, Mapping[str, list[Rate]]],
    steps: Mapping[str, Mapping[str, list[np.ndarray]]],
) -> Figure:
    """Top: share that succeeds against n. Bottom: steps of the successful runs, every run a dot. One column per k."""
    fig, axes = plt.subplots(2, len(success), figsize=(8.2, 5.6), sharex=True, sharey="row", squeeze=False)
    x = np.asarray(lengths, dtype=float)
    gap = (x[-1] - x[0] or 1) * 0.012
    for column, title in enumerate(success):
        top, bottom = axes[:, column]
        for i, label in enumerate(success[title]):
            at = x + (i - len(success[title]) / 2 + 0.5) * gap
            colour, marker = COLOURS[i % 6], MARKERS[i % 6]
            draw_rates(top, at, success[title][label], colour, marker, label, full=1, ls=DASHES[i % 6])
            medians = [np.median(runs) if len(runs) else np.nan for runs in steps[title][label]]
            bottom.plot(at, medians, DASHES[i % 6], color=colour, lw=1.5)
            for place, runs in zip(at, steps[title][label], strict=True):
                bottom.plot(np.full(len(runs), place), runs, marker, color=colour, ms=3.5, alpha=0.5, mew=0)
        top.set(title=title, ylim=(-0.04, 1.04))
        bottom.set(yscale="log", xlabel="number of positions n", xticks=lengths)
        plain_log_ticks(bottom.yaxis)
    axes[0, 0].set_ylabel("share with accuracy above 0.99")
    axes[1, 0].set_ylabel("updates until then")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9)
    return fig


def missing_edge(formula: np.ndarray, exact: np.ndarray, steps: np.ndarray, trained: np.ndarray) -> Figure:
    """Proposition 4: exact risk against the formula for random networks; and training, (frames, networks)."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.6))
    ends = [1, float(formula.max())]
    left.plot(ends, ends, color="black", lw=1)
    left.plot(formula, exact, "o", color=BLUE, ms=4, alpha=0.6, mew=0)
    left.set(xscale="log", yscale="log", xlabel="mean of 1 + p², or (1 + |p|)²/2 beyond 1")
    left.set(ylabel="exact risk over all inputs", title="random networks without an edge from a bit of B")
    left.axhline(1, color=RED, ls="--", lw=1.3)
    fan(right, steps, trained - 1, ORANGE, "trained networks")
    right.set(yscale="log", xlabel="update", ylabel="exact risk minus 1", title="training them: to 1, from above")
    return fig


def solver_times(lengths: Sequence[int], times: Mapping[str, np.ndarray]) -> Figure:
    """Milliseconds of the exact solvers against n, (lengths, instances) each, median and quartiles."""
    fig, ax = plt.subplots(figsize=(8.2, 3.3))
    for (label, values), colour, dash in zip(times.items(), (BLUE, GREEN, ORANGE, RED), DASHES, strict=False):
        fan(ax, np.asarray(lengths, dtype=float), values, colour, label, dash)
    ax.set(yscale="log", xlabel="number of positions n", ylabel="milliseconds", xticks=lengths)
    plain_log_ticks(ax.yaxis)
    ax.legend(fontsize=9)
    return fig

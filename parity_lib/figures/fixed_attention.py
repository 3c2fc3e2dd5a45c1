"""Figures of the chapter ``fixed_attention``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..evidence import Rate
from .style import BLUE, COLOURS, GREEN, GREY, MARKERS, ORANGE, PURPLE, RED, draw_rates, fan

DASHES = ("-.", "--", ":", "--", "-")
TOP = 1.12  # upper edge of the axes of risk
ARM_COLOURS = (BLUE, RED, ORANGE, PURPLE, GREEN)


def risk_against_n(
    lengths: Sequence[int], risks: Mapping[str, np.ndarray], success: Mapping[str, list[Rate]]
) -> Figure:
    """Risk of each arm, (lengths, runs), median and quartiles with every run as a dot; and the share that succeeds."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.2, 4.3), width_ratios=[1.25, 1])
    x = np.asarray(lengths, dtype=float)
    spread = (x[-1] - x[0] or 1) * 0.009
    for i, ((label, values), colour) in enumerate(zip(risks.items(), ARM_COLOURS, strict=False)):
        shift = (i - len(risks) / 2 + 0.5) * spread * 2
        fan(left, x, values, colour, label, DASHES[i])
        for at, column in zip(x, values, strict=True):
            left.plot(np.full(len(column), at + shift), column, MARKERS[i], color=colour, ms=3, alpha=0.5, mew=0)
            for value in column[column > TOP]:  # a failed zigzag overshoots: shown at the edge, with its value
                left.plot(at + shift, TOP, "^", color=colour, ms=5)
                left.text(at + shift, TOP, f" {value:.1f}", color=colour, fontsize=7.5, va="center")
        draw_rates(right, x + shift, success[label], colour, MARKERS[i], label, full=1, ls=DASHES[i])
    left.axhline(1, color="black", lw=0.9, ls=":")
    left.text(x[-1], 1.015, "chance", ha="right", va="bottom", fontsize=8.5)
    left.set(ylim=(-0.03, TOP + 0.03), ylabel="risk, squared hinge", xlabel="number of positions n", xticks=lengths)
    right.set(ylim=(-0.04, 1.04), ylabel="share with accuracy above 0.99")
    right.set(xlabel="number of positions n", xticks=lengths)
    fig.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    return fig


def hard_risks(
    worst: Mapping[str, np.ndarray], mean: Mapping[str, np.ndarray], corollary: np.ndarray, linear: np.ndarray
) -> Figure:
    """Exact best risk on hard heads against their number, (draws, m), worst B and mean over B, with both bounds."""
    fig, axes = plt.subplots(1, len(worst), figsize=(8.2, 3.9), sharey=True, squeeze=False)
    heads = np.arange(1, len(corollary) + 1)
    for ax, kind in zip(axes[0], worst, strict=True):
        lines = ((worst[kind], BLUE, "-", "worst B"), (mean[kind], ORANGE, "--", "mean over B"))
        for values, colour, dash, label in lines:
            ax.fill_between(heads, values.min(0), values.max(0), color=colour, alpha=0.2, lw=0)
            ax.plot(heads, np.median(values, axis=0), dash, color=colour, lw=2, label=label)
        ax.step(heads, corollary, where="mid", color="black", lw=1.4, label="Corollary 20")
        ax.plot(heads, linear, ":", color=RED, lw=2, label="1 - 2m/n")
        ax.set(title=f"{kind} heads", xlabel="number of heads m", ylim=(-0.03, 1.06))
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes[0, 0].set_ylabel("least risk of any classifier")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    return fig


def bound_against_risk(panels: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]]) -> Figure:
    """Exact worst-B risk against a bound, one mark per head set: one below the diagonal would refute the bound.

    Marks are open and ever smaller, not moved aside: distances to the diagonal are smaller than any shift.
    """
    fig, axes = plt.subplots(1, len(panels), figsize=(8.2, 4.2), sharex=True, sharey=True, squeeze=False)
    for ax, (title, groups) in zip(axes[0], panels.items(), strict=True):
        for i, (label, (bound, risk)) in enumerate(groups.items()):
            ax.plot(bound, risk, MARKERS[i], color=COLOURS[i], mfc="none", ms=10 - 2.2 * i, mew=1, label=label)
        ax.plot([0, 1], [0, 1], color="black", lw=1)
        ax.fill_between([0, 1], [0, 1], color=RED, alpha=0.08, lw=0)
        ax.text(0.97, 0.06, "refuted here", ha="right", color=RED, fontsize=9)
        ax.set(xlim=(-0.04, 1.04), ylim=(-0.03, 1.05), xlabel="bound (0: says nothing)", title=title)
    axes[0, 0].set_ylabel("exact least risk, worst B")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9)
    return fig


def informative_heads(lengths: Sequence[int], corollary: Sequence[int], linear: Sequence[int]) -> Figure:
    """Largest number of heads about which each bound says anything, against n."""
    fig, ax = plt.subplots(figsize=(8.2, 3.3))
    ax.plot(lengths, linear, ":s", color=RED, lw=2, ms=4, label="1 - 2m/n")
    ax.plot(lengths, corollary, "-o", color="black", lw=1.5, ms=4, label="Corollary 20")
    ax.set(xscale="log", yscale="log", xlabel="number of positions n", ylabel="last m with a bound above 0")
    ax.legend(fontsize=9)
    return fig


def risk_against_norm(panels: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Trained risk against norm m²/n, one panel per m.

    Each panel maps ``x`` and ``risk`` (runs), and on ``grid`` the bounds ``stated``, ``repaired`` and ``pair``
    (draws, grid).
    """
    fig, axes = plt.subplots(1, len(panels), figsize=(8.2, 4.0), sharey=True, squeeze=False)
    for ax, (title, panel) in zip(axes[0], panels.items(), strict=True):
        fan(ax, panel["grid"], panel["pair"].T, GREEN, "pairwise bound, these heads", "-.")
        ax.plot(panel["grid"], panel["stated"], color="black", lw=1.6, label="Theorem 11, clamped")
        ax.plot(panel["grid"], panel["repaired"], ":", color=RED, lw=2, label="repaired constant")
        ax.plot(panel["x"], panel["risk"], "o", color=BLUE, ms=4, alpha=0.6, mew=0, label="trained network")
        ax.set(xscale="log", title=title, xlabel="|α| |β| m² / n", ylim=(-0.03, 1.12))
    axes[0, 0].set_ylabel("risk, squared hinge")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    return fig


def norm_needed(
    lengths: Sequence[int], one_head: np.ndarray, readouts: Mapping[str, np.ndarray], frozen: float
) -> Figure:
    """Norm that zero risk needs: one generic head (a lower bound), n separate heads (a construction), learned heads."""
    fig, ax = plt.subplots(figsize=(8.2, 3.9))
    x = np.asarray(lengths, dtype=float)
    fan(ax, x, one_head, RED, "one fixed head: at least")
    for (label, values), colour, dash in zip(readouts.items(), (ORANGE, GREEN), ("--", "-."), strict=True):
        fan(ax, x, values, colour, f"n fixed heads, {label}: enough", dash)
    ax.axhline(frozen, color=BLUE, lw=2, ls=":", label="learned heads, frozen network")
    ax.set(yscale="log", xlabel="number of positions n", ylabel="|α| |β|", xticks=lengths)
    ax.legend(fontsize=9)
    return fig


def risk_against_heads(heads: Sequence[int], risks: Mapping[str, np.ndarray], title: str) -> Figure:
    """Trained risk against the number of fixed heads, (heads, runs), median and quartiles with every run as a dot."""
    fig, ax = plt.subplots(figsize=(8.2, 3.4))
    x = np.asarray(heads, dtype=float)
    for i, ((label, values), colour) in enumerate(zip(risks.items(), (BLUE, ORANGE), strict=True)):
        fan(ax, x, values, colour, label, DASHES[i])
        for at, column in zip(x, values, strict=True):
            beside = at * (1 + 0.02 * (2 * i - 1))
            ax.plot(np.full(len(column), beside), column, MARKERS[i], color=colour, ms=3.5, alpha=0.5, mew=0)
    ax.axhline(1, color=GREY, lw=0.9, ls=":")
    ax.set(xscale="log", xlabel="number of fixed heads m", ylabel="risk, squared hinge", ylim=(-0.03, 1.12))
    ax.set_title(title, fontsize=9)
    ax.set_xticks(x, [f"{m:g}" for m in heads])
    ax.minorticks_off()
    fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9)
    return fig

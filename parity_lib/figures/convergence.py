"""Figures of the chapter ``convergence``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from torch import Tensor

from ..attention import angle_to_position
from ..chapters.convergence import Trap
from ..training import Run
from .style import BLUE, COLOURS, GREEN, GREY, MARKERS, ORANGE, RED, fan, plain_log_ticks

DASHES = ("-", "--", "-.", ":")


def risk_fans(
    stated: Mapping[str, Run], changed: Mapping[str, tuple[Run, float]], predicted: Sequence[float]
) -> Figure:
    """Risk against update: the stated recipe at several step sizes, and what other losses do with the same heads.

    Parameters
    ----------
    stated : runs in the paper's own loss.
    changed : runs in another loss, with the smallest value that loss can take; their excess over it is drawn.
    predicted : the paper's bound at the frames of the stated runs.
    """
    fig, axes = plt.subplots(1, 1 + len(changed), figsize=(8.4, 3.3), width_ratios=[1.5] + [1] * len(changed))
    styles = zip(cycle(COLOURS), cycle(DASHES), strict=False)
    for (label, run), (colour, dash) in zip(stated.items(), styles, strict=False):
        fan(axes[0], _updates(run), run.risk.numpy(), colour, label, dash)
    axes[0].plot(_updates(next(iter(stated.values()))), predicted, color="black", lw=1, label="the bound of Theorem 5")
    axes[0].set(ylim=(0, None), ylabel="risk, squared hinge", title="as stated")
    axes[0].legend(fontsize=8)
    for ax, (label, (run, least)) in zip(axes[1:], changed.items(), strict=True):
        fan(ax, _updates(run), (run.risk.numpy() - least).clip(1e-12), BLUE, label)
        ax.set(yscale="log", title=label, ylabel="risk above its least value")
    for ax in axes:
        ax.set_xlabel("update")
        ax.tick_params(axis="x", labelsize=8)
    return fig


def small_steps(settling: Run, stability: Mapping[str, tuple[Run, Tensor]]) -> Figure:
    """Where small steps lead, and the stability number of every arm, (run, (frames, seeds)) each."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.3))
    left.plot(_updates(settling), settling.risk.numpy(), color=BLUE, lw=0.9, alpha=0.6)
    rate = settling.recipe.learning_rate
    left.set(ylim=(0, None), xlabel="update", ylabel="risk, squared hinge", title=f"rate {rate:g}, one line per seed")
    styles = zip(cycle(COLOURS), cycle(DASHES), strict=False)
    for (label, (run, numbers)), (colour, dash) in zip(stability.items(), styles, strict=False):
        x, values = _updates(run)[1:], numbers[1:].clamp_min(1e-12).numpy()
        fan(right, x, values, colour, label, dash)
        right.plot(x, values.max(1), color=colour, lw=0.8)
    right.axhline(1, color="black", lw=1.2)
    right.set(xscale="log", yscale="log", title="steps overshoot above 1")
    right.set(xlabel="update", ylabel="rate × largest curvature / 2")
    right.legend(fontsize=8)
    return fig


def two_forces(panels: Mapping[str, tuple[Run, Tensor, Tensor]]) -> Figure:
    """Size of the label-free force and of the parity signal along training; (run, label-free, parity) each."""
    fig, axes = plt.subplots(1, len(panels), figsize=(8.2, 3.4), sharey=True, squeeze=False)
    for ax, (label, (run, label_free, parity)) in zip(axes[0], panels.items(), strict=True):
        x = _updates(run)
        if float(label_free.max()) > 1e-9 * float(parity.max()):
            fan(ax, x, label_free.numpy(), ORANGE, "label-free force", "--")
        else:
            ax.text(0.97, 0.05, "label-free force: 0", transform=ax.transAxes, ha="right", color="#9a6a00", fontsize=9)
        fan(ax, x, parity.numpy(), BLUE, "parity signal")
        ax.set(yscale="log", xlabel="update", title=label)
        ax.legend(fontsize=9, loc="center right")
    axes[0, 0].set(ylabel="norm of the gradient", ylim=(1e-16, None))
    return fig


def forces_against_n(lengths: Sequence[int], panels: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """Both forces of the squared hinge at the start, against n; each panel (label-free, parity), (lengths, seeds)."""
    fig, axes = plt.subplots(1, len(panels), figsize=(8.2, 3.2), squeeze=False)
    x = np.asarray(lengths, dtype=float)
    for ax, (label, (label_free, parity)) in zip(axes[0], panels.items(), strict=True):
        fan(ax, x, label_free, ORANGE, "label-free force", "--")
        fan(ax, x, parity, BLUE, "parity signal")
        ax.set(xscale="log", yscale="log", xlabel="number of positions n", title=label)
        ax.set_xticks(x, [f"{int(n)}" for n in x], fontsize=8)
        powers = math.log10(label_free.max() / parity[parity > 0].min())
        ax.yaxis.set_major_locator(LogLocator(10.0 ** (20 if powers > 60 else 5 if powers > 15 else 1), numticks=30))
        ax.minorticks_off()
    axes[0, 0].set_ylabel("norm of the gradient at the start")
    axes[0, 0].legend(fontsize=9)
    return fig


def landscapes(
    grids: Mapping[str, tuple[Tensor, str]], runs: Mapping[str, Run], bits: Sequence[int], n: int, shown: int = 8
) -> Figure:
    """Risk of two heads over the positions they point at (grid, name of its loss), with the ways of a few seeds."""
    fig, axes = plt.subplots(1, len(grids), figsize=(8.4, 3.3), sharex=True, sharey=True)
    for ax, (label, (grid, loss)) in zip(axes, grids.items(), strict=True):
        step = n / len(grid)
        image = ax.imshow(
            grid.numpy().T, origin="lower", extent=(step / 2, n + step / 2, step / 2, n + step / 2), cmap="cividis"
        )
        for i in range(min(shown, len(runs[label].seeds))):
            way = angle_to_position(runs[label].directions[:, i], n).numpy()
            jumps = np.abs(np.diff(way, axis=0)).max(1) > n / 2
            broken = np.insert(way, np.flatnonzero(jumps) + 1, np.nan, axis=0)
            ax.plot(broken[:, 0], broken[:, 1], color="white", lw=1.1, alpha=0.9)
            ax.plot(*way[0], "o", color="white", ms=3)
            ax.plot(*way[-1], "o", color=RED, ms=5, mec="white", mew=0.7)
        for first, second in (bits, bits[::-1]):
            ax.plot(first, second, "s", mfc="none", mec="#5ee0b5", ms=12, mew=1.8)
        ax.set(title=label, xlabel="head 1 points at", xticks=bits, yticks=bits)
        ax.grid(False)
        bar = fig.colorbar(image, ax=ax, orientation="horizontal", shrink=0.9, pad=0.03)
        bar.set_label(loss, fontsize=8)
        bar.ax.tick_params(labelsize=8)
    axes[0].set_ylabel("head 2 points at")
    return fig


def aliases(traps: Sequence[Trap]) -> Figure:
    """Traps of the zigzag, one row each: where the heads are stuck, and which band of frequencies holds them."""
    if not traps:
        fig, ax = plt.subplots(figsize=(8.2, 0.8))
        ax.text(0.5, 0.5, "every run reads its bits: no trap to show", ha="center", va="center")
        ax.axis("off")
        return fig
    fig, axes = plt.subplots(
        len(traps), 2, figsize=(8.2, 1.9 * len(traps) + 0.9), sharex="col", sharey="col", squeeze=False
    )
    bands = np.arange(1, 7)
    for (left, right), trap in zip(axes, traps, strict=True):
        bits, positions = trap.task.bits, np.arange(1, trap.task.n + 1)
        left.bar(positions, trap.weights.numpy(), color=[GREEN if p in bits else "#b5b5b5" for p in positions])
        for height in (1 / 3, 2 / 3):
            left.axhline(height, color=GREY, ls=":", lw=1)
        left.set_yticks([0, 1 / 3, 2 / 3, 1], ["0", "1/3", "2/3", "1"])
        kind = "alias" if trap.alias else "third harmonic" if trap.third_harmonic else "another end"
        top = max(1.1, 1.05 * float(trap.weights.max()))
        left.set(title=f"B = {{{', '.join(map(str, bits))}}}: {kind}", ylabel="summed attention", ylim=(0, top))
        band = (trap.frequencies / math.pi + 0.5).floor()  # band b reaches from b - 1/2 up to b + 1/2
        for values, colour, shift, label in ((trap.stuck, RED, -0.2, "stuck"), (trap.solved, BLUE, 0.2, "solved")):
            right.bar(
                bands + shift, [-float(values[band == b].sum()) for b in bands], width=0.38, color=colour, label=label
            )
        right.axhline(0, color="black", lw=0.8)
        right.set(ylabel="lowers the risk by", xticks=bands)
    axes[0, 1].legend()
    axes[-1, 0].set_xlabel("position (green: the bits)")
    axes[-1, 1].set_xlabel("frequency band, in units of π")
    return fig


def initial_risk(by_temperature: Mapping[str, np.ndarray], sigmoid: np.ndarray) -> Figure:
    """Exact risk at the random start, one dot per seed, by temperature; the last row is the sigmoid hinge."""
    fig, ax = plt.subplots(figsize=(8.2, 0.5 * len(by_temperature) + 1.6))
    rows = {
        **{f"squared hinge, τ = {name}": values for name, values in by_temperature.items()},
        "sigmoid hinge, τ = 1/n": sigmoid,
    }
    for row, values in enumerate(reversed(rows.values())):
        ax.plot(values, row + np.linspace(-0.25, 0.25, len(values)), "o", ms=3.5, alpha=0.6, color=BLUE, mew=0)
        ax.plot([np.median(values)] * 2, [row - 0.36, row + 0.36], color="black", lw=2)
    ax.axvline(1, color=RED, lw=1.5, label="the paper: 1")
    ax.set_yticks(range(len(rows)), list(rows)[::-1])
    ax.set(xlabel="exact risk at the random start (line: median)", xlim=(0, None))
    ax.legend(loc="lower right", fontsize=9)
    return fig


def entry_gradients(sizes: Tensor) -> Figure:
    """Mean size of the gradient for each entry of a head's 4 x 4 matrix."""
    fig, ax = plt.subplots(figsize=(8.2, 3.0))
    values = sizes.numpy()
    image = ax.imshow(
        np.where(values > 0, values, np.nan),
        cmap="viridis",
        norm=LogNorm(vmin=values[0].min() / 3, vmax=values.max()),
        aspect="auto",
    )
    for r in range(4):
        for c in range(4):
            light = values[r, c] > 0 and values[r, c] > values.max() / 3
            ax.text(
                c,
                r,
                f"{values[r, c]:.2g}",
                ha="center",
                va="center",
                fontsize=9,
                color="black" if light or values[r, c] == 0 else "white",
            )
    ax.set_xticks(range(4), ["1: x", "2: 1 - x", "3: sin", "4: cos"])
    ax.set_yticks(range(4), ["1", "2", "3", "4"])
    ax.set(xlabel="column (what it multiplies)", ylabel="row")
    ax.grid(False)
    bar = fig.colorbar(image, ax=ax, label="mean size of the gradient", shrink=0.85)
    plain_log_ticks(bar.ax.yaxis)
    return fig


def pl_ratios(trajectories: Mapping[str, tuple[np.ndarray, np.ndarray, float]]) -> Figure:
    """PL ratio against risk along gradient descent; each entry (risks, ratios, the paper's mu)."""
    fig, axes = plt.subplots(1, len(trajectories), figsize=(8.2, 3.3), sharey=True, squeeze=False)
    for ax, (label, (risks, ratios, mu)) in zip(axes[0], trajectories.items(), strict=True):
        ax.plot(risks, ratios.clip(1e-30), color="#c5d9e8", lw=0.7)
        ax.plot(risks[-1], ratios[-1].clip(1e-30), "o", color=RED, ms=5, label="end of a run")
        ax.axhline(mu, color="black", ls="--", lw=1.2, label=f"μ of Lemma 8, {mu:.1g}")
        ax.set(yscale="log", xlabel="risk", title=label, xlim=(0, None))
        ax.legend(fontsize=8)
    axes[0, 0].set_ylabel("½ |gradient|² / risk")
    return fig


def constants_margin(stated: Mapping[str, float], measured: Mapping[str, float]) -> Figure:
    """Stated constants beside the largest values measured, on a log axis."""
    fig, ax = plt.subplots(figsize=(8.2, 0.5 * len(stated) + 1.3))
    for row, name in enumerate(reversed(list(stated))):
        ax.plot([measured[name], stated[name]], [row, row], color="#bbbbbb", lw=2)
        ax.plot(measured[name], row, MARKERS[0], color=BLUE, ms=8, label="largest measured" if row == 0 else None)
        ax.plot(stated[name], row, MARKERS[1], color=ORANGE, ms=8, label="stated" if row == 0 else None)
    ax.set_yticks(range(len(stated)), list(stated)[::-1])
    ax.set(xscale="log", xlabel="constant", ylim=(-0.6, len(stated) + 0.4))
    ax.legend(fontsize=9, loc="upper right")
    return fig


def _updates(run: Run) -> np.ndarray:
    return np.arange(len(run.risk)) * run.recipe.updates_per_epoch

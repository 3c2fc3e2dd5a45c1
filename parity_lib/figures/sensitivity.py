"""Figures of the chapter ``sensitivity``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from ..chapters.sensitivity import Course, Fit, Measured
from ..chapters.sensitivity_summary import mean_interval
from ..evidence import wilson
from .style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, draw_rates, plain_log_ticks

FUNCTION_STYLE = {
    "PARITY": (RED, "o", "-"),
    "MAJORITY": (BLUE, "s", "--"),
    "FIRST": (GREEN, "^", "-."),
    "MEAN": (ORANGE, "D", ":"),
}
KIND_STYLE = {"transformer": (BLUE, "o"), "LSTM": (RED, "s")}
DECAY_COLOURS = (SKY, BLUE, PURPLE, RED, ORANGE, "black")
SEED_COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY, GREY, "black")
SEED_DASHES = ("-", "--", "-.")


def spectra(weights: Mapping[str, np.ndarray], sensitivities: Mapping[str, float]) -> Figure:
    """Average sensitivity of every function, and where its Fourier weight sits: (n + 1,) per function."""
    names = list(weights)
    fig, axes = plt.subplots(1, 2, figsize=(8.2, 0.33 * len(names) + 1.3), sharey=True, width_ratios=[1, 1.25])
    values = np.array([sensitivities[name] for name in names])
    places = np.arange(len(names))
    axes[0].hlines(places, 0.03, values, color="#9db8cc", lw=3)
    axes[0].plot(values, places, "o", color=BLUE)
    for place, value in zip(places, values, strict=True):
        axes[0].annotate(f"{value:.3g}", (value, place), xytext=(6, 0), textcoords="offset points", va="center")
    axes[0].set(xscale="log", xlabel="average sensitivity", xlim=(0.03, 4 * values.max()))
    axes[0].set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
    axes[0].xaxis.set_minor_locator(NullLocator())
    axes[0].set_yticks(places, names)
    axes[0].invert_yaxis()
    axes[0].grid(False, axis="y")
    image = axes[1].imshow(np.stack(list(weights.values())), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes[1].set(xlabel="number of bits in the Fourier term")
    axes[1].grid(False)
    fig.colorbar(image, ax=axes[1], label="weight")
    return fig


def against_length(results: Mapping[int, Measured]) -> Figure:
    """Sharpness, norm and blowup of converged runs against length; a dot is a run, a line joins the means."""
    fig, axes = plt.subplots(1, 3, figsize=(8.2, 3.8), width_ratios=[1.5, 1, 1])
    reach = 0.16 * (min(np.diff(sorted(results)), default=1))
    for place, (name, (colour, marker, dash)) in enumerate(FUNCTION_STYLE.items()):
        shift = reach * (place - 1.5) / 1.5
        for ax, quantity in zip(axes, ("sharpness", "norm", "blowup"), strict=True):
            kept = {n: found.kept(name, quantity) for n, found in results.items()}
            for n, values in kept.items():
                ax.plot(np.full(len(values), n + shift), values, marker, color=colour, ms=3.5, alpha=0.7, mew=0)
            reached = [n for n, values in kept.items() if len(values)]
            ax.plot(
                np.array(reached) + shift,
                [kept[n].mean() for n in reached],
                dash,
                marker=marker,
                color=colour,
                label=name,
            )
        for n, found in results.items():
            axes[0].errorbar(
                np.full(len(found.kept(name, "loss")), n + shift),
                found.kept(name, "sharpness"),
                1.96 * found.kept(name, "sharpness_error"),
                fmt="none",
                ecolor=colour,
                elinewidth=0.8,
                alpha=0.5,
            )
    for n, found in results.items():
        parity = found.among("PARITY")
        counted = f"{(parity & found.converged).sum()}/{parity.sum()}"
        axes[0].text(n, 1.0, counted, transform=axes[0].get_xaxis_transform(), ha="center", va="bottom", color=RED)
    axes[0].set(ylabel="sharpness", ylim=(0, None))
    axes[0].set_title("PARITY runs converged/started:", loc="left", fontsize=9, pad=18)
    axes[1].set(ylabel="parameter norm")
    axes[2].set(ylabel="layer-norm blowup", yscale="log")
    _plain_ticks(axes[2])
    for ax in axes:
        ax.set(xlabel="length n", xticks=list(results))
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return fig


def bridge(measured: Measured) -> Figure:
    """k-parity inside n bits against k: steps to learn, success, sharpness; a dot is a run."""
    ks = np.array([int(name) for name in measured.names])
    sizes, steps, budget = np.unique(ks), measured.steps(), measured.trained.settings.steps
    learned = np.isfinite(steps)
    spread = _spread(ks)
    fig, axes = plt.subplots(1, 3, figsize=(8.2, 3.5))
    axes[0].plot((ks + spread)[learned], steps[learned], "o", color=BLUE, ms=4, alpha=0.6, mew=0, label="learned")
    axes[0].plot((ks + spread)[~learned], np.full((~learned).sum(), 1.15 * budget), "x", color=RED, ms=5, label="never")
    middle = [min(float(np.median(steps[ks == k])), 1.15 * budget) for k in sizes]
    axes[0].plot(sizes, middle, "-", color="black", lw=1.2, label="median")
    axes[0].axhline(budget, color=GREY, ls=":", lw=1)
    axes[0].set(yscale="log", ylabel="updates to learn", title="steps")
    _plain_ticks(axes[0])
    axes[0].legend(fontsize=8, loc="lower right")
    for label, passed, colour, marker, shift in (
        ("learned", learned, BLUE, "o", -0.15),
        ("converged", measured.converged, GREEN, "^", 0.15),
    ):
        rates = [wilson(int(passed[ks == k].sum()), int((ks == k).sum())) for k in sizes]
        draw_rates(axes[1], sizes + shift, rates, colour, marker, label, full=1, ls="none")
    axes[1].set(ylim=(-0.04, 1.04), ylabel="share of runs", title="success")
    axes[1].legend(fontsize=8, loc="lower left")
    good = measured.converged
    axes[2].errorbar(
        (ks + spread)[good],
        measured.sharpness[good],
        1.96 * measured.sharpness_error[good],
        fmt="o",
        color=BLUE,
        ms=4,
        alpha=0.6,
        mew=0,
        elinewidth=0.8,
    )
    there = [k for k in sizes if (good & (ks == k)).any()]
    axes[2].plot(there, [measured.sharpness[good & (ks == k)].mean() for k in there], "-", color="black", lw=1.2)
    axes[2].set(ylim=(0, None), ylabel="sharpness, converged runs", title="sharpness")
    for ax in axes:
        ax.set(xlabel="k = average sensitivity", xticks=sizes)
    return fig


def tradeoff(results: Mapping[float, Measured]) -> Figure:
    """Blowup against norm of converged runs, a colour per weight decay; dashed lines of equal norm times blowup²."""
    fig, ax = plt.subplots(figsize=(8.2, 4.0))
    for (decay, found), colour in zip(results.items(), cycle(DECAY_COLOURS)):
        for name, fill in (("PARITY", colour), ("FIRST", "none")):
            marker = FUNCTION_STYLE[name][1]
            ax.plot(found.kept(name, "norm"), found.kept(name, "blowup"), marker, mec=colour, mfc=fill, mew=1.5, ms=7)
        ax.plot([], [], "s", color=colour, label=f"weight decay {decay:g}")
    for name, fill in (("PARITY", GREY), ("FIRST", "none")):
        ax.plot([], [], FUNCTION_STYLE[name][1], mec=GREY, mfc=fill, mew=1.5, ms=7, label=name)
    ax.set(xlabel="parameter norm", ylabel="layer-norm blowup", yscale="log")
    ax.margins(0.08)
    _lines_of_equal_product(ax)
    _plain_ticks(ax)
    fig.legend(*ax.get_legend_handles_labels(), fontsize=9, loc="outside lower center", ncols=5)
    return fig


def _lines_of_equal_product(ax: Axes) -> None:
    """Dashed lines of equal norm x blowup² across the axes, each with its value at the left edge."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    left = max(left, 1e-3)
    low, high = np.log10(left * bottom**2), np.log10(right * top**2)
    x = np.linspace(left, right, 50)
    for power in range(int(np.floor(low)), int(np.ceil(high))):
        for times in (1, 2, 5) if high - low < 2.5 else (1,):
            height = np.sqrt(times * 10.0**power / x)
            ax.plot(x, height, color="#b0b0b0", lw=0.9, ls="--", zorder=0)
            if bottom < height[0] < 0.95 * top:
                text = f"{times * 10.0**power:g}" if power < 4 else f"$10^{{{power}}}$"
                ax.annotate(text, (left, height[0]), xytext=(3, 2), textcoords="offset points", fontsize=8, color=GREY)
    ax.set(xlim=(left, right), ylim=(bottom, top))


def course(found: Course, n: int) -> Figure:
    """Loss, sharpness, blowup and norm of PARITY runs over time, a line per seed."""
    fig, axes = plt.subplots(2, 2, figsize=(8.2, 4.8), sharex=True)
    panels = (("loss", "loss"), ("sharpness", "sharpness"), ("blowup", "layer-norm blowup"), ("norm", "parameter norm"))
    for ax, (quantity, label) in zip(axes.flat, panels, strict=True):
        for values, colour, dash in zip(getattr(found, quantity).T, cycle(SEED_COLOURS), cycle(SEED_DASHES)):
            ax.plot(found.updates, values, dash, color=colour, lw=1.5)
        ax.set(ylabel=label, yscale="log" if quantity in ("loss", "blowup") else "linear")
        if quantity == "blowup":
            _plain_ticks(ax)
    axes[0, 0].axhline(0.25, color=GREY, ls=":", lw=1)
    axes[0, 0].set_title(f"PARITY, n = {n}; dotted: the plateau, 1/4")
    for ax in axes[1]:
        ax.set_xlabel("update")
    return fig


def bias(fits: Mapping[int, Fit], n: int) -> Figure:
    """Average sensitivity of learned functions and of random fill of the same labels, joined in pairs, against K."""
    fig, ax = plt.subplots(figsize=(8.2, 3.5))
    for place, fit in enumerate(fits.values()):
        ax.plot([place - 0.15, place + 0.15], np.stack([fit.learned, fit.filled]), "-", color="#a0a0a0", lw=1)
        for shift, values, colour, marker, label in (
            (-0.15, fit.learned, BLUE, "o", "learned"),
            (0.15, fit.filled, ORANGE, "s", "random fill"),
        ):
            ax.plot(np.full(len(values), place + shift), values, marker, color=colour, ms=4.5, alpha=0.8, mew=0)
            _mean(ax, place + 1.7 * shift, values, colour, marker, label if place == 0 else None)
    ax.axhline(n / 2, color="black", ls=":", lw=1, label="n/2")
    ax.set_xticks(range(len(fits)), [str(labels) for labels in fits])
    ax.set(xlabel=f"labels K, of {2**n}", ylabel="average sensitivity", ylim=(0, None))
    ax.legend(fontsize=8, loc="lower right")
    return fig


def random_weights(results: Mapping[str, Mapping[str, Mapping[int, np.ndarray]]]) -> Figure:
    """Normalised sensitivity of models with random weights: a panel per start, against layers; a dot is a draw."""
    fig, axes = plt.subplots(1, len(results), figsize=(8.2, 3.5), sharey=True, squeeze=False)
    for ax, (start, by_kind) in zip(axes[0], results.items(), strict=True):
        for (kind, by_layers), shift in zip(by_kind.items(), (-0.18, 0.18), strict=True):
            colour, marker = KIND_STYLE[kind]
            for place, values in enumerate(by_layers.values()):
                jitter = np.linspace(-0.11, 0.11, len(values))
                ax.plot(place + shift + jitter, values, marker, color=colour, ms=2.6, alpha=0.55, mew=0)
                _mean(ax, place + shift, values, colour, marker, kind if place == 0 else None)
        ax.set_xticks(range(len(by_layers)), [str(layers) for layers in by_layers])
        ax.set(xlabel="layers", title=start)
    axes[0, 0].set(ylabel="average sensitivity / n", ylim=(-0.02, None))
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig


def _plain_ticks(ax: Axes) -> None:
    """Numbers written out, without needless zeros, along a log axis of y that holds its data already."""
    low, high = ax.get_ylim()
    plain_log_ticks(ax.yaxis)
    if high < 6 * low:  # fewer than three of 1, 2, 5, 10, ...
        ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.yaxis.set_major_formatter("{x:g}")


def _mean(ax: Axes, x: float, values: np.ndarray, colour: str, marker: str, label: str | None) -> None:
    """A mean with its 95 % interval, edged in black to stand out from the dots."""
    interval = mean_interval(values)
    reach = [[interval.value - interval.low], [interval.high - interval.value]] if len(values) > 1 else None
    ax.errorbar(
        x, interval.value, reach, fmt=marker, color=colour, mec="black", mew=0.7, ecolor="black", capsize=3, label=label
    )


def _spread(groups: Sequence[int] | np.ndarray) -> np.ndarray:
    """Small shifts that set the members of a group side by side."""
    shifts = np.zeros(len(groups))
    for group in np.unique(groups):
        members = np.flatnonzero(np.asarray(groups) == group)
        shifts[members] = np.linspace(-0.2, 0.2, len(members)) if len(members) > 1 else 0
    return shifts

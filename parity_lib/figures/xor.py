"""Figures of the chapter ``xor``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from ..chapters.xor_arms import SAMPLE_ARMS, Network, OneStep, Samples, TwoHeads, Variant, network_shape, sample_bound
from ..evidence import Rate, wilson
from .style import BLUE, GREEN, GREY, MARKERS, ORANGE, PURPLE, RED, SKY, draw_rates, fan

EMBEDDING_STYLE = {
    "characters": (BLUE, "o", "-"),
    "balanced": (GREEN, "^", "--"),
    "signs": (RED, "s", ":"),
    "one_hot": (ORANGE, "D", "-."),
}
MAP_STYLE = {
    "softmax": ("black", "o", "-"),
    "exp": (BLUE, "s", "-"),
    "sigmoid_bias2": (GREEN, "^", "-"),
    "sigmoid_bias": (SKY, "v", "--"),
    "relu": (ORANGE, "D", "--"),
    "linear": (RED, "P", "--"),
    "erf": (PURPLE, "X", ":"),
    "sigmoid": (GREY, "*", ":"),
}
ARM_STYLE = dict(zip(SAMPLE_ARMS, ((GREY, ":"), (SKY, "-."), (BLUE, "-"), (ORANGE, "--"), (RED, "-.")), strict=True))
FLOOR = 1e-16  # where exact zeros are drawn on a log axis


def one_step(results: Mapping[str, Mapping[int, OneStep]]) -> Figure:
    """Worst-input loss, attention off the pair, and trainable numbers, all against d; a dot is a seed."""
    fig, axes = plt.subplots(1, 3, figsize=(8.4, 3.4), width_ratios=[1.25, 1.25, 1])
    for name, by_d in results.items():
        colour, marker, dash = EMBEDDING_STYLE[name]
        sizes = np.array(list(by_d))
        for ax, values in (
            (axes[0], [run.worst[0] for run in by_d.values()]),
            (axes[1], [1 - run.pair_weight[0] for run in by_d.values()]),
        ):
            drawn = np.array([v.numpy().clip(FLOOR) for v in values])
            beside = sizes * {"characters": 0.94, "signs": 1.06}.get(name, 1.0)
            ax.plot(np.repeat(beside, drawn.shape[1]), drawn.ravel(), marker, color=colour, ms=3, alpha=0.6, mew=0)
            ax.plot(beside, np.median(drawn, 1), dash, marker=marker, color=colour, ms=6, mec="white", label=name)
    axes[0].axhline(0.05, color="black", lw=1, ls=":")
    axes[0].set(title="worst of all inputs", ylabel="hinge loss, worst input")
    axes[1].set(title="off the pair", ylabel="attention on other positions")
    widest = next(iter(results.values()))
    sizes = np.array(list(widest))
    axes[2].plot(sizes, sizes, color=GREY, ls="--", label="d")
    axes[2].plot(sizes, [2 * run.m for run in widest.values()], "o-", color=BLUE, ms=4, label="2m trained")
    axes[2].set(title="numbers trained", ylabel="count")
    for ax in axes:
        ax.set(xscale="log", yscale="log", xlabel="input length d")
    axes[0].legend(fontsize=8, loc="lower left")
    axes[2].legend(fontsize=8)
    return fig


def window(factors: Sequence[float], results: Mapping[str, Mapping[int, OneStep]]) -> Figure:
    """Worst-input loss against the strength of the step, a panel for each embedding, a line for each d."""
    fig, axes = plt.subplots(1, len(results), figsize=(8.2, 3.3), sharey=True, squeeze=False)
    x = np.asarray(factors)
    for ax, (name, by_d) in zip(axes[0], results.items(), strict=True):
        for (d, run), colour, dash in zip(
            by_d.items(), (SKY, BLUE, "black", PURPLE), ("-", "--", "-.", ":"), strict=False
        ):
            fan(ax, x, run.worst.numpy().clip(FLOOR), colour, f"d = {d}", dash)
        ax.axhline(0.05, color="black", lw=1, ls=":")
        ax.set(xscale="log", yscale="log", xlabel="strength of the step / ln d", title=name)
    axes[0, 0].set(ylabel="hinge loss, worst input", ylim=(FLOOR, 5))
    axes[0, -1].legend(fontsize=8, loc="lower right")
    return fig


def variants(results: Mapping[str, Mapping[int, Mapping[str, Variant]]], labels: Mapping[str, str]) -> Figure:
    """Attention maps at their best step size against d: error above, worst-input loss below; a column a setting."""
    fig, axes = plt.subplots(2, len(results), figsize=(8.6, 5.4), sharex=True, sharey="row", squeeze=False)
    for column, (setting, by_d) in enumerate(results.items()):
        sizes = np.array(list(by_d))
        for name, (colour, marker, dash) in MAP_STYLE.items():
            for row, key in enumerate(("error", "worst")):
                values = np.array([getattr(found[name], key).numpy() for found in by_d.values()])
                low, middle, high = np.quantile(values.clip(1e-9 if row else 0), (0, 0.5, 1), axis=1)
                axes[row, column].fill_between(sizes, low, high, color=colour, alpha=0.12, lw=0)
                # Softmax is drawn as a ring, to be seen around whatever lies on the same spot.
                ring = {"ms": 8, "mfc": "none", "zorder": 5} if name == "softmax" else {"ms": 4.5}
                axes[row, column].plot(
                    sizes, middle, dash, marker=marker, color=colour, lw=1.4, label=labels[name], **ring
                )
        axes[0, column].set(title=setting, xscale="log")
        axes[1, column].set(xlabel="d", yscale="log")
        axes[1, column].axhline(0.5, color="black", lw=1, ls=":")
    axes[0, 0].set(ylabel="error on random inputs", ylim=(-0.02, 0.54))
    axes[1, 0].set(ylabel="hinge loss, worst input")
    handles, names = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, names, loc="outside lower center", ncols=4, fontsize=8)
    return fig


def causes(
    lengths: Sequence[int],
    optimum: Mapping[str, tuple[Sequence[Tensor], Sequence[Tensor]]],
    label_free: Mapping[str, Sequence[Tensor]],
) -> Figure:
    """Why rivals fail: what the best linear attention keeps and gets wrong; the label-free part beside the signal."""
    fig, axes = plt.subplots(1, 3, figsize=(8.4, 3.2))
    x = np.asarray(lengths, dtype=float)
    for name, (kept, errors) in optimum.items():
        colour, marker, dash = EMBEDDING_STYLE[name]
        for ax, values in ((axes[0], kept), (axes[1], errors)):
            fan(ax, x, np.array([v.numpy() for v in values]), colour, name, dash)
            ax.plot(x, [float(v.median()) for v in values], marker, color=colour, ms=5)
    for (name, values), colour, dash in zip(label_free.items(), ("black", BLUE, RED), ("-", "--", "-"), strict=True):
        fan(axes[2], x, np.array([v.numpy() for v in values]), colour, name, dash)
    axes[0].set(title="cross-talk: energy kept", ylabel="share of the target's energy", ylim=(-0.03, 1.05))
    axes[1].set(title="... and its price", ylabel="error, best linear attention", ylim=(-0.02, 0.54))
    axes[2].set(title="centring", ylabel="label-free part / signal")
    for ax in axes:
        ax.set(xscale="log", xlabel="d")
        ax.legend(fontsize=8)
    return fig


def two_heads(example: TwoHeads, spreads: Sequence[float], rates: Mapping[str, Mapping[str, Sequence[Rate]]]) -> Figure:
    """Which position each head takes, against its start; how often heads separate and solve, by the start's spread."""
    fig, axes = plt.subplots(1, 1 + len(rates), figsize=(8.4, 3.3), width_ratios=[1.2] + [1] * len(rates))
    for head, (colour, marker) in enumerate(((BLUE, "o"), (RED, "^"))):
        axes[0].plot(
            example.log_ratio,
            example.preference[:, head],
            marker,
            color=colour,
            ms=4,
            alpha=0.7,
            mew=0,
            label=f"head {head + 1}",
        )
    axes[0].axhline(0, color="black", lw=0.8)
    axes[0].axvline(0, color="black", lw=0.8)
    reach = 2 * float(example.preference.abs().max())
    axes[0].set_yscale("symlog", linthresh=1)
    axes[0].set(xlabel="ln α/β at the start", ylabel="score of i minus score of j, after",
                title="who takes which", ylim=(-reach, reach))  # fmt: skip
    axes[0].legend(fontsize=8)
    places = np.arange(len(spreads))
    for ax, (readout, by_property) in zip(axes[1:], rates.items(), strict=True):
        for (name, values), colour, marker, shift in zip(
            by_property.items(), (GREY, BLUE), "so", (-0.08, 0.08), strict=True
        ):
            draw_rates(ax, places + shift, values, colour, marker, name, full=1, ls="none")
        ax.set_xticks(places, [f"{spread:g}" for spread in spreads])
        ax.set(xlabel="spread of the start's scores", title=readout, ylim=(-0.04, 1.04))
    axes[1].set_ylabel("share of seeds")
    axes[-1].legend(fontsize=8, loc="lower right")
    return fig


def samples(results: Mapping[str, Mapping[int, Samples]]) -> Figure:
    """Samples that recover the pair, against d; share of the streams that solve every input, against samples."""
    fig, axes = plt.subplots(1, 1 + len(results), figsize=(8.6, 3.7), width_ratios=[1.2] + [1] * len(results))
    for name, by_d in results.items():
        colour, marker, dash = EMBEDDING_STYLE[name]
        drawn = np.array([run.recovered[SAMPLE_ARMS[0]].numpy() for run in by_d.values()])
        finite = np.where(np.isfinite(drawn), drawn, np.nan)
        sizes, middle = np.array(list(by_d)), np.median(drawn, 1)
        axes[0].plot(np.repeat(sizes, drawn.shape[1]), finite.ravel(), marker, color=colour, ms=4, mfc="none", mew=0.8)
        axes[0].plot(
            sizes, np.where(np.isfinite(middle), middle, np.nan), marker, color=colour, ms=6, label=f"{name}, median"
        )
        bound = [sample_bound(d, run.m) for d, run in by_d.items()]
        axes[0].plot(sizes, bound, dash, color=colour, lw=1.2, label=f"{name}, bound")
    axes[0].set(title="pair recovered", ylabel="samples", xscale="log", yscale="log", xlabel="d")
    axes[0].set_xticks(sizes, [str(d) for d in sizes], fontsize=8)
    axes[0].minorticks_off()
    axes[0].legend(fontsize=8, loc="upper left")
    for ax, (name, by_d) in zip(axes[1:], results.items(), strict=True):
        most = min(run.budget / sample_bound(d, run.m) for d, run in by_d.items())
        grid = np.geomspace(0.1, most, 120)
        for arm, (colour, dash) in ARM_STYLE.items():
            needed = np.concatenate([run.solved[arm].numpy() / sample_bound(d, run.m) for d, run in by_d.items()])
            rates = [wilson(int((needed <= x * (1 + 1e-9)).sum()), len(needed)) for x in grid]
            ax.fill_between(
                grid, [r.low for r in rates], [r.high for r in rates], step="post", color=colour, alpha=0.13, lw=0
            )
            ax.step(grid, [r.share for r in rates], dash, where="post", color=colour, lw=1.8, label=arm)
        ax.set(
            title=f"every input solved, {name}", xscale="log", ylim=(-0.03, 1.03), xlabel="samples / ((d + d²/m) ln d)"
        )
    axes[1].set_ylabel("share of streams, all d")
    handles, names = axes[1].get_legend_handles_labels()
    fig.legend(handles, names, loc="outside lower center", ncols=5, fontsize=7.5)
    return fig


def widths(results: Mapping[int, tuple[Sequence[int], Sequence[Rate]]]) -> Figure:
    """Share of seeds whose worst-input loss is below 0.05 against m in units of log2 d, a line for each d."""
    fig, ax = plt.subplots(figsize=(8.2, 3.4))
    colours = (SKY, BLUE, GREEN, ORANGE, RED, PURPLE, "black")
    for i, ((d, (sizes, rates)), colour, marker) in enumerate(
        zip(results.items(), colours, (*MARKERS, "*"), strict=False)
    ):
        beside = 0.09 * (i - (len(results) - 1) / 2)  # intervals of different d stand beside each other
        draw_rates(ax, np.asarray(sizes) / math.log2(d) + beside, rates, colour, marker, f"d = {d}", full=1)
    ax.set(xlabel="m / log2 d", ylabel="seeds with worst loss below 0.05", ylim=(-0.04, 1.04))
    ax.legend(fontsize=8, loc="lower right")
    return fig


def networks(
    d: int,
    trained: Sequence[Network],
    rates: Sequence[Rate],
    transformer: tuple[int, Rate],
    shared: Mapping[str, Tensor],
) -> Figure:
    """Feed-forward networks: share that learn, by parameters; worst loss after one step of one weight vector."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.7), width_ratios=[1.25, 1])
    grid = np.unique(np.geomspace(20, 8 * d + 16, 200).astype(int))
    left.plot(
        grid,
        [(network_shape(d, int(p))[1] / d) ** 2 for p in grid],
        color=GREY,
        ls="--",
        label="chance to read both bits",
    )
    sizes = [network.parameters for network in trained]
    draw_rates(left, sizes, rates, RED, "s", "FFNN, trained", full=1, ls="none")
    draw_rates(left, [transformer[0]], [transformer[1]], BLUE, "o", "two heads, one step", full=1, ls="none")
    left.axvline(d, color="black", lw=0.8, ls=":")
    left.text(d * 1.06, 0.5, f"d = {d}", fontsize=8)
    left.set(xscale="log", xlabel="trained parameters", ylabel="share of seeds that learn", ylim=(-0.04, 1.04))
    for row, values in enumerate(list(shared.values())[::-1]):
        drawn = values.numpy().clip(1e-6)
        right.plot(drawn, row + np.linspace(-0.2, 0.2, len(drawn)), "o", color=BLUE, ms=4, alpha=0.6, mew=0)
    right.axvline(0.05, color="black", lw=1, ls=":")
    right.set_yticks(range(len(shared)), list(shared)[::-1])
    right.set(
        xscale="log",
        xlim=(None, 4),
        ylim=(-0.5, len(shared) - 0.5),
        xlabel="hinge loss, worst input",
        title="one step, one weight vector",
    )
    fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return fig

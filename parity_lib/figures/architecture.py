"""Figures of the chapter ``architecture``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch, FancyBboxPatch
from torch import Tensor

from ..attention import embed, position_weights, soft_attention
from ..readout import zigzag
from ..task import Parity
from .style import BLUE, COLOURS, GREEN, GREY, HEAD_COLOURS, MARKERS, ORANGE, PURPLE, RED


def model_diagram(task: Parity, x: Tensor, directions: Tensor, temperature: float, smoothing: float) -> Figure:
    """Figure 1 of the paper with the real numbers: tokens, heads, averaged vector, zigzag, prediction.

    Parameters
    ----------
    x : one input, (n,).   directions : (heads, 2).
    """
    n, k, heads = task.n, task.k, len(directions)
    if x.shape != (n,):
        raise ValueError(f"x must be {n} bits, got {x.numel()}")
    tokens = embed(x.unsqueeze(0))[0]
    gamma = soft_attention(directions, n, temperature)
    vectors = gamma @ tokens
    pooled = vectors.mean(0)
    s = float(position_weights(gamma, k) @ x)
    prediction = float(zigzag(x.new_tensor(s), k, smoothing))
    label = int(task.labels(x))

    fig = plt.figure(figsize=(8.6, 0.53 * (n + 1) + 0.3), layout="none")
    ax = fig.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, 11), ylim=(0.4, n + 1.3))
    ax.axis("off")
    token_x, head_x, mean_x = 1.45, 4.95, 6.9
    rows = [n - j for j in range(n)]  # position 1 on top
    head_rows = np.linspace(n - 0.6, 1.6, heads) if heads > 1 else [(n + 1) / 2]
    middle = (n + 1) / 2

    for title, at in (("embedding", 1.75), ("attention heads", head_x), ("mean", mean_x), ("zigzag head", 9.4)):
        ax.text(at, n + 0.95, title, ha="center", va="center", color=GREY, fontsize=11, weight="bold")
    ax.text(head_x, rows[0] + 0.62, "query: CLS (1, 0, 0, 0)", ha="center", va="center", color=GREY, fontsize=8)
    ax.text(0.28, rows[0] + 0.62, "bit", ha="center", va="center", color=GREY, fontsize=8)
    ax.text(
        token_x + 0.72, rows[0] + 0.62, "w = (x, 1 - x, sin, cos)", ha="center", va="center", color=GREY, fontsize=8
    )
    for j, y in enumerate(rows):
        member = j + 1 in task.bits
        numbers = ", ".join(_short(value) for value in tokens[j].tolist())
        _box(
            ax,
            token_x + 0.72,
            y,
            2.35,
            0.5,
            f"({numbers})",
            fill="#e8f4ea" if member else "#f5f5f5",
            edge=GREEN if member else "#bbbbbb",
            size=8.5,
        )
        _box(ax, 0.62, y, 0.36, 0.42, str(int(x[j])), fill="white", edge=GREEN if member else "#bbbbbb", bold=member)
        ax.text(
            0.28,
            y,
            f"{j + 1}",
            ha="center",
            va="center",
            fontsize=9,
            color="black" if member else GREY,
            weight="bold" if member else "normal",
        )
    for i, y in enumerate(head_rows):
        colour = HEAD_COLOURS[i % len(HEAD_COLOURS)]
        for j, token_y in enumerate(rows):
            weight = float(gamma[i, j])
            line = ConnectionPatch(
                (token_x + 1.92, token_y),
                (head_x - 0.62, y),
                "data",
                "data",
                color=colour,
                lw=0.4 + 4 * weight,
                alpha=0.12 + 0.8 * weight,
                zorder=1,
            )
            ax.add_patch(line)
            if weight > 0.05:
                share = 0.3
                ax.text(
                    token_x + 1.92 + share * (head_x - 0.62 - token_x - 1.92),
                    token_y + share * (y - token_y),
                    f"{weight:.2f}",
                    fontsize=8,
                    color=colour,
                    ha="center",
                    va="center",
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
                )
        _box(ax, head_x, y, 1.24, 0.62, f"head {i + 1}\nv₁ = {float(vectors[i, 0]):.2f}", fill="#fdf0ea", edge=colour)
        ax.annotate(
            "", (mean_x - 0.62, middle), (head_x + 0.64, y), arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.2}
        )
    first, second, third, fourth = (_short(value) for value in pooled.tolist())
    _box(ax, mean_x, middle, 1.2, 1.1, f"v* = ({first},\n{second}, {third},\n{fourth})", fill="#fdf0ea", edge=GREY)
    inset = ax.inset_axes((8.3, middle - 1.5, 2.5, 3.0), transform=ax.transData)
    _zigzag_axes(inset, k, smoothing)
    inset.plot([s], [prediction], "o", color=RED, ms=8, zorder=5)
    inset.set_xlabel(f"k v*₁ = {s:.2f}", fontsize=9)
    inset.set_ylabel("prediction", fontsize=9, labelpad=1)
    ax.annotate("", (7.8, middle), (mean_x + 0.62, middle), arrowprops={"arrowstyle": "->", "color": GREY, "lw": 1.4})
    verdict = "right" if prediction * label > 0 else "wrong"
    ax.text(
        9.4,
        middle - 2.6,
        f"prediction {prediction:+.2f}, label {label:+d}:\n{verdict}",
        ha="center",
        va="center",
        fontsize=10.5,
        color=BLUE if verdict == "right" else RED,
        weight="bold",
    )
    return fig


def zigzag_curves(k: int, smoothings: Sequence[float]) -> Figure:
    """The frozen head between the integers, for several smoothings."""
    fig, ax = plt.subplots(figsize=(8.2, 3.6))
    s = np.linspace(0, k, 1001)
    for smoothing, colour, dash in zip(
        smoothings, (BLUE, ORANGE, RED, PURPLE, GREEN), ("-", "--", "-.", ":", "-"), strict=False
    ):
        ax.plot(s, zigzag_values(s, k, smoothing), dash, color=colour, lw=2, label=f"b = {smoothing:g}")
    whole = np.arange(k + 1)
    ax.plot(whole, (-1.0) ** whole, "o", color="black", ms=7, zorder=5, label="label at whole sums")
    ax.axhspan(-1, 1, color="#f0f0f0", zorder=0)
    ax.set(
        xlabel="sum of the bits the heads read, k v*₁",
        ylabel="prediction",
        xticks=whole,
        title=f"The frozen head for k = {k}: right at whole sums, beyond ±1 between them",
    )
    ax.legend(ncols=2, fontsize=9)
    return fig


def construction_risk(
    temperatures: np.ndarray, soft: Mapping[int, np.ndarray], smoothings: np.ndarray, hard: Mapping[int, np.ndarray]
) -> Figure:
    """Risk of Proposition 3's heads: soft attention against temperature, hard attention against smoothing.

    Parameters
    ----------
    temperatures : values of temperature times n squared.   soft : n -> risk at those temperatures.
    hard : k -> risk of hard attention at each of ``smoothings``.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.5))
    for (n, risk), colour, marker in zip(soft.items(), COLOURS, MARKERS, strict=False):
        left.loglog(temperatures, risk, color=colour, lw=1.8, label=f"n = {n}")
        left.plot(n, np.interp(math.log(n), np.log(temperatures), risk), marker, color=colour, ms=8)
    left.axvline(1, color=GREY, ls=":", lw=1, label="temperature 1/n²")
    left.set(
        xlabel="temperature × n²",
        ylabel="risk (squared hinge)",
        ylim=(1e-5, 12),
        title="Soft attention (marker: temperature 1/n)",
    )
    left.legend(fontsize=9)
    for (k, risk), colour, marker in zip(hard.items(), COLOURS, MARKERS, strict=False):
        right.loglog(smoothings, risk, marker=marker, ms=4, color=colour, lw=1.5, label=f"k = {k}")
    right.set(
        xlabel="smoothing b of the ReLU",
        ylabel="risk (squared hinge)",
        ylim=(1e-12, 1e3),
        title="Hard attention, smoothed ReLU",
    )
    right.legend(fontsize=9, ncols=2)
    return fig


def zigzag_values(s: np.ndarray, k: int, smoothing: float) -> np.ndarray:
    """The frozen head on an array."""
    return zigzag(torch.from_numpy(np.asarray(s, dtype=float)), k, smoothing).numpy()


def _zigzag_axes(ax: Axes, k: int, smoothing: float) -> None:
    s = np.linspace(0, k, 601)
    ax.plot(s, zigzag_values(s, k, smoothing), color=BLUE, lw=1.6)
    whole = np.arange(k + 1)
    ax.plot(whole, (-1.0) ** whole, "o", color="black", ms=4)
    ax.set_xticks(whole)
    ax.tick_params(labelsize=8)


def _box(
    ax: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    text: str,
    *,
    fill: str,
    edge: str,
    size: float = 9,
    bold: bool = False,
) -> None:
    ax.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - height / 2),
            width,
            height,
            facecolor=fill,
            edgecolor=edge,
            boxstyle="round,pad=0,rounding_size=0.08",
            lw=1.3,
            zorder=3,
        )
    )
    ax.text(x, y, text, ha="center", va="center", fontsize=size, zorder=4, weight="bold" if bold else "normal")


def _short(value: float) -> str:
    return f"{round(value) + 0}" if abs(value - round(value)) < 1e-9 else f"{value:.2f}"

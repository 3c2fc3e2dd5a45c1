"""Figures of the chapter ``architecture``."""

from itertools import cycle, islice

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from ..readout import zigzag
from . import style


@style.drawing
def model_diagram(walk: pd.DataFrame) -> Figure:
    """Figure 1 of the paper with the real numbers: tokens, heads, averaged vector, zigzag, prediction.

    ``walk`` is a frame of :func:`parity_lib.chapters.architecture.walk`. On a phone the embedding is left out, and the
    zigzag stands below.
    """
    n, heads, small = int(walk["position"].max()), int(walk["head"].max()), style.is_narrow()
    middle, below = (n + 1) / 2, 5.2 if small else 0
    head, mean = (2.75, 4.55) if small else (4.95, 6.9)  # where the columns stand
    fig = plt.figure(figsize=(style.NARROW if small else style.FULL, 0.47 * (n + 1 + below) + 0.3))
    fig.set_layout_engine("none")
    ax = fig.add_axes((0, 0, 1, 1), xlim=(0, 5.25 if small else 11.1), ylim=(0.4 - below, n + 1.35))
    ax.axis("off")
    columns = {"heads": head, "mean": mean} | ({} if small else {"embedding": 1.8, "zigzag": 9.5})
    for title, at in columns.items():
        ax.text(at, n + 1.05, title, ha="center", va="center", color=style.STATED, fontsize=11, weight="bold")
    _tokens(ax, walk[walk["head"] == 1])
    rows = np.linspace(n - 0.6, 1.6, heads) if heads > 1 else [middle]
    for y, colour, (_, frame) in zip(rows, islice(cycle(style.HEADS), heads), walk.groupby("head"), strict=True):
        _head(ax, frame, (0.9 if small else 3.35), (head, y), (mean - 0.62, middle), colour)
    first = walk.assign(part=walk["attention"] * walk["x"]).groupby("head")["part"].sum().mean()
    _box(ax, mean, middle, 1.2, 0.8, f"mean\n{first:.2f}", style.STATED)
    end, start = ((3.0, -0.1), (mean, middle - 0.45)) if small else ((8.0, middle), (mean + 0.62, middle))
    ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": style.STATED, "lw": 1.4})
    _prediction(ax, walk.iloc[0], heads, (2.9, -1.9) if small else (9.7, middle))
    return fig


def _tokens(ax: Axes, tokens: pd.DataFrame) -> None:
    """The column of tokens: position, bit and the four numbers of its embedding; bits of B in green."""
    n = len(tokens)
    for token in tokens.itertuples():
        y, edge = n + 1 - token.position, style.BIT if token.bit else style.FAINT
        if not style.is_narrow():
            numbers = ", ".join(_short(value) for value in (token.x, 1 - token.x, token.sine, token.cosine))
            _box(ax, 2.2, y, 2.3, 0.5, f"({numbers})", edge, size=8)
        _box(ax, 0.65, y, 0.38, 0.44, f"{token.x}", edge, bold=token.bit)
        ink, weight = (style.INK, "bold") if token.bit else (style.STATED, "normal")
        ax.text(0.22, y, f"{token.position}", ha="center", va="center", fontsize=9, color=ink, weight=weight)
    if not style.is_narrow():
        ax.text(2.2, n + 0.62, "(x, 1 - x, sin, cos)", ha="center", va="center", color=style.STATED, fontsize=8)


def _head(ax: Axes, frame: pd.DataFrame, left: float, place: tuple[float, float], mean: tuple[float, float],
          colour: str) -> None:  # fmt: skip
    """One head: a line to every token, as wide as its attention, and what it reads."""
    (x, y), n = place, len(frame)
    right = x - 0.6
    for token in frame.itertuples():
        start, weight = n + 1 - token.position, token.attention
        ax.plot([left, right], [start, y], color=colour, lw=0.4 + 4 * weight, alpha=0.12 + 0.8 * weight, zorder=1)
        if weight > 0.05:
            paper = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.8}
            ax.text(left + 0.3 * (right - left), start + 0.3 * (y - start), f"{weight:.2f}", color=colour, fontsize=8,
                    ha="center", va="center", bbox=paper)  # fmt: skip
    read = (frame["attention"] * frame["x"]).sum()
    _box(ax, x, y, 1.24, 0.7, f"head {frame['head'].iloc[0]}\nreads {read:.2f}", colour, size=8.5)
    ax.annotate("", mean, (x + 0.64, y), arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.2})


def _prediction(ax: Axes, end: pd.Series, k: int, place: tuple[float, float]) -> None:
    """The zigzag with the sum that is read and the prediction it gives."""
    x, y = place
    inset = ax.inset_axes((x - 1.2, y - 1.4, 2.4, 2.8), transform=ax.transData)
    s = np.linspace(0, k, 601)
    inset.plot(s, zigzag(torch.from_numpy(s), k, end["smoothing"]).numpy(), color=style.STATED, lw=1.4)
    whole = np.arange(k + 1)
    inset.plot(whole, (-1.0) ** whole, "o", color=style.INK, ms=4)
    right = end["prediction"] * end["label"] > 0
    colour = style.SIGNAL if right else style.BLIND
    inset.plot(end["read"], end["prediction"], "o", color=colour, ms=8, zorder=5)
    inset.set(xticks=whole, xlabel=f"sum S = {end['read']:.2f}")
    inset.tick_params(labelsize=8)
    found = f"prediction {end['prediction']:+.2f}, label {end['label']:+d}".replace("-", "−")
    told = f"{found}:\n{'right' if right else 'wrong'}"
    ax.text(x - 0.2, y - 2.75, told, ha="center", va="center", fontsize=10, weight="bold", color=colour)


@style.drawing
def zigzag_curves(curves: pd.DataFrame) -> Figure:
    """The frozen head between the integers, for several smoothings; dots are the labels at whole sums."""
    whole = np.arange(int(curves["sum"].max()) + 1)
    colours = dict(zip(curves["smoothing"].unique(), (style.STATED, style.SIGNAL, style.BLIND), strict=False))
    fig = style.curves(style.medians, curves, "sum", "prediction", colours, hue="smoothing", names="b = {:g}",
                       ticks=whole, height=3.0, xlabel="sum of the bits that the heads read")  # fmt: skip
    fig.axes[0].plot(whole, (-1.0) ** whole, "o", color=style.INK, ms=7, zorder=5)
    largest = curves.loc[curves["smoothing"] == 0, "prediction"].abs().max()
    fig.axes[0].set_title(f"With b = 0 right at whole sums, up to {largest:.0f} in size between them")
    return fig


@style.drawing
def construction(warmest: pd.DataFrame, smoothed: pd.DataFrame) -> Figure:
    """The two prices of Proposition 3: how cold soft heads must be, and what a smoothed ReLU costs hard ones."""
    fig, (left, right) = style.panels(2, 3.2, share=False)
    sns.lineplot(warmest, x="n", y="temperature", marker="o", color=style.SIGNAL, ax=left)
    n, least = np.array(sorted(warmest["n"]), dtype=float), warmest["temperature"].min()
    left.plot(n, 1 / n, ":", color=style.STATED)
    style.say(left, n[-1], 1 / n[-1], "1/n", style.STATED, (0, 9), "right")
    scaled = warmest["temperature"] * warmest["n"] ** 2
    law = len(scaled) > 1 and scaled.max() < 1.2 * scaled.min()
    style.say(left, n[-1], least, "needed: ∝ 1/n²" if law else "needed", style.SIGNAL, (0, -10), "right")
    colder = (warmest["temperature"] * warmest["n"] < 0.5).all()
    left.set(
        xscale="log",
        yscale="log",
        xlabel="positions n",
        ylabel="temperature",
        ylim=(0.12 * least, 1),
        title="Soft heads of norm 1\n" + ("must be far colder than 1/n" if colder else "and their temperature"),
    )
    few = smoothed[smoothed["k"].isin([1, smoothed["k"].max()])]  # the others lie between
    sns.lineplot(few.assign(k=few["k"].map("k = {}".format)), x="smoothing", y="risk", hue="k", ax=right)
    costs = (smoothed["risk"] > 0).all()
    right.set(
        xscale="log",
        yscale="log",
        xlabel="smoothing b",
        ylabel="risk",
        title="Hard heads: a smoothed ReLU\n" + ("always costs something" if costs else "and its risk"),
    )
    style.label_lines(right)
    return fig


def _box(ax: Axes, x: float, y: float, width: float, height: float, text: str, edge: str, size: float = 9,
         bold: bool = False) -> None:  # fmt: skip
    shape = FancyBboxPatch((x - width / 2, y - height / 2), width, height, facecolor=style.PAPER, edgecolor=edge,
                           boxstyle="round,pad=0,rounding_size=0.08", lw=1.3, zorder=3)  # fmt: skip
    ax.add_patch(shape)
    ax.text(x, y, text, ha="center", va="center", fontsize=size, zorder=4, weight="bold" if bold else "normal")


def _short(value: float) -> str:
    return f"{round(value) + 0}" if abs(value - round(value)) < 1e-9 else f"{value:.2f}"

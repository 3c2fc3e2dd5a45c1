"""Figures of the page ``lemmas``: Theorem 5 in numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from . import style
from .convergence import draw_forces


@style.drawing
def window(found: pd.DataFrame) -> Figure:
    """Solved pairs against smoothing, a panel for every k, a line for every n: how the window moves."""
    frame = found.assign(name="n = " + found["n"].astype(str))
    colours = dict(zip(frame["name"].unique(), style.SERIES, strict=False))
    titles = {k: {2: "two bits", 3: "three bits"}.get(k, f"k = {k}") for k in sorted(found["k"].unique())}
    fig = style.curves(style.success_lines, frame, "smoothing", "solved", colours, hue="name", log="x", panel="k",
                       titles=titles, xlabel="smoothing b", ylabel="solved, % of pairs",
                       ticks=[0.05, 0.1, 0.2, 0.5, 1.0])  # fmt: skip
    best = found.groupby(["k", "n", "smoothing"])["solved"].mean().groupby(["k", "n"]).max()
    shortest, longest = (best.groupby("k").nth(place).to_numpy() for place in (0, -1))
    text = "Each number of bits has its window of smoothings, and fewer sets pass it as n grows"
    holds = bool((shortest > 0.7).all() and (longest < shortest).all())
    return style.finding(fig, holds, text, "Solved pairs by smoothing and number of positions")


@style.drawing
def forces_by_length(found: pd.DataFrame) -> Figure:
    """Both forces of the squared hinge at the start, against n, at temperature 1/n and 1."""
    fig, axes = style.panels(2, 3.0, share=False)
    for ax, (name, rows) in zip(axes, found.groupby("temperature", sort=False), strict=True):
        part = rows[rows.groupby("n")["size"].transform(lambda values: values.notna().all())]  # no length half measured
        ax.set(title=f"temperature {name}")
        draw_forces(part, "n", ax, "gradient at the start")
        ax.set_xlabel("number of positions n")
        style.ticks_at(ax.xaxis, sorted(found["n"].unique())[::2])
    middle = found.dropna().groupby(["temperature", "force", "n"])["size"].median()
    fall = {key: part.iloc[-1] / part.iloc[0] for key, part in middle.groupby(["temperature", "force"])}
    holds = fall["1/n", "parity signal"] < 1e-20 and fall["1", "parity signal"] > 1e-8
    text = "At temperature 1/n the parity signal vanishes with n; at 1 it falls like a power of n"
    return style.finding(fig, holds, text, "Both forces at the start, by number of positions")


@style.drawing
def aliases(found: pd.DataFrame) -> Figure:
    """Runs of the sigmoid hinge that rest between the bits: summed attention by position, a panel per k."""
    ks = sorted(found["k"].unique())
    fig, axes = style.panels(max(1, len(ks)), 2.4)
    fig.suptitle("Stuck between the bits: a third on each bit (green), two thirds beside it" if ks else
                 "Every run reads its bits: no trap to show")  # fmt: skip
    for ax, k in zip(axes, ks, strict=False):
        part = found[found["k"] == k]
        sns.barplot(part, x="position", y="weight", hue="bit", palette={True: style.BIT, False: style.FAINT},
                    legend=False, ax=ax, native_scale=True)  # fmt: skip
        for height in (1 / 3, 2 / 3):
            ax.axhline(height, color=style.STATED, ls=":", lw=1)
        ax.set(title=f"k = {k}", ylabel="summed attention", ylim=(0, max(1.05, 1.05 * part["weight"].max())))
        ax.set_yticks([0, 1 / 3, 2 / 3, 1], ["0", "1/3", "2/3", "1"])
    return fig


@style.drawing
def start_risk(found: pd.DataFrame) -> Figure:
    """Exact risk at the random start by smoothing, a line for every k, medians and quartiles, at c1 = 1."""
    at_one = found[found["c1"] == 1]
    frame = at_one.assign(name="k = " + at_one["k"].astype(str))
    colours = dict(zip(frame["name"].unique(), style.SERIES, strict=False))
    fig = style.curves(style.medians, frame, "smoothing", "risk", colours, hue="name", log="x", xlabel="smoothing b",
                       ylabel="risk at the start")  # fmt: skip
    ax = fig.axes[0]
    ax.axhline(1, color=style.STATED, ls="--", lw=1.2)
    style.say(ax, at_one["smoothing"].min(), 1, "the paper: 1", style.STATED, (0, 6))
    above = (at_one.groupby(["k", "smoothing"])["risk"].median() > 1.1).all()
    ax.set_title("The risk at the start depends on smoothing and k" + (", and is above 1" if above else ""))
    ax.set(ylim=(0, None))
    return fig


@style.drawing
def entries(found: pd.DataFrame) -> Figure:
    """Mean size of the gradient for each entry of a head's 4 x 4 matrix."""
    fig, (ax,) = style.panels(1, 2.6)
    table = found.pivot(index="row", columns="column", values="size")
    positive = found.loc[found["size"] > 0, "size"]
    style.heat(table.where(table > 0), ax, norm=LogNorm(positive.min() / 3, positive.max()), annot=table, fmt=".2g",
               mask=table <= 0, cmap="viridis")  # fmt: skip
    for r, c in zip(*np.nonzero(table.to_numpy() <= 0), strict=True):
        ax.text(c + 0.5, r + 0.5, "0", ha="center", va="center", color=style.STATED)
    ax.set_xticklabels(["1: x", "2: 1 - x", "3: sin", "4: cos"])
    ax.set(xlabel="column (what it multiplies)", ylabel="row", title="Only the first row moves, and all of it")
    return fig


@style.drawing
def pl_ratios(found: pd.DataFrame) -> Figure:
    """PL ratio against risk along gradient descent, a panel per k, a line per seed; Lemma 8's mu dashed."""
    parts = list(found.groupby("k"))
    fig, axes = style.panels(len(parts), 3.0)
    for ax, (k, part) in zip(axes, parts, strict=True):
        clipped, mu = part.assign(ratio=part["ratio"].clip(lower=1e-30)), part["mu"].iloc[0]
        sns.lineplot(clipped, x="risk", y="ratio", units="seed", estimator=None, sort=False, color=style.SIGNAL,
                     alpha=0.3, lw=0.7, ax=ax)  # fmt: skip
        ends = clipped[clipped["update"] == clipped["update"].max()]
        sns.scatterplot(ends, x="risk", y="ratio", color=style.BLIND, ax=ax)
        ax.axhline(mu, color=style.STATED, ls="--", lw=1.2)
        ax.text(0.03, mu, "μ of Lemma 8", va="bottom", fontsize=9, transform=ax.get_yaxis_transform())
        ax.set(yscale="log", xlabel="risk", ylabel="½ |gradient|² / risk", xlim=(0, None),
               title=f"k = {k}: {(ends['ratio'] < mu).mean():.0%} of runs end below μ")  # fmt: skip
        ax.yaxis.set_minor_locator(NullLocator())
    return fig


@style.drawing
def constants(found: pd.DataFrame, names: dict[str, str]) -> Figure:
    """Largest measured value over stated constant against smoothing, a line per lemma, worst over k."""
    fig, (ax,) = style.panels(1, 3.1)
    lemma = found["lemma"].str.replace("lemma-", "Lemma ")
    frame = found.assign(ratio=found["measured"] / found["stated"], lemma=lemma)
    worst = frame.groupby(["lemma", "smoothing"], sort=False)["ratio"].max().reset_index()
    sns.lineplot(worst, x="smoothing", y="ratio", hue="lemma", palette=style.SERIES[: worst["lemma"].nunique()],
                 marker="o", ax=ax)  # fmt: skip
    ax.axhline(1, color=style.STATED, ls="--", lw=1.2)
    broken = sorted(worst.loc[worst["ratio"] > 1, "lemma"].unique())
    word = f"{' and '.join(broken)} {'fails' if len(broken) == 1 else 'fail'} at huge smoothing, the others hold"
    ax.set(xscale="log", yscale="log", xlabel="smoothing b", ylabel="largest measured / stated",
           title=word if broken else "All constants hold")  # fmt: skip
    numbers = {f"Lemma {key.split('-')[1]}": text for key, text in names.items()}
    style.label_lines(ax, {} if style.is_narrow() else {lemma: f"{lemma}: {text}" for lemma, text in numbers.items()})
    return fig

"""Figures of the chapter ``sampling``."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from .style import BIT, BLIND, CODE, FULL, REPAIRED, SERIES, STATED, percent, wilson_percent


def landscape(frame: pd.DataFrame, places: pd.DataFrame, n: int, bit: int) -> Figure:
    """Risk over the plane of one head, averaging and sampling, with the local minima and the way to the bit."""
    fig, axes = plt.subplots(1, 2, figsize=(FULL, 3.6), sharey=True)
    reach = frame["x"].max()
    towards = 0.97 * reach * np.array([np.sin(2 * np.pi * bit / n), np.cos(2 * np.pi * bit / n)])
    for ax, kind, title in zip(
        axes, ("averaging", "sampling"), ("a head that averages", "a head that samples"), strict=True
    ):
        table = frame.pivot(index="y", columns="x", values=kind)
        ax.contourf(table.columns, table.index, table, levels=24, cmap="viridis")
        ax.contour(table.columns, table.index, table, levels=24, colors="white", linewidths=0.3)
        mine = places[places["risk_of"] == kind]
        sns.scatterplot(mine, x="x", y="y", color=BLIND, s=45, edgecolor="white", ax=ax)
        ax.annotate("", towards, (0, 0), arrowprops={"arrowstyle": "-|>", "color": BIT, "lw": 2})
        count = {0: "no pit", 1: "1 pit"}.get(len(mine), f"{len(mine)} pits")
        ax.set(title=f"{title}: {count}", aspect="equal", xlabel="a₁₃", ylabel="a₁₄")
        ax.grid(visible=False)
    pits = places["risk_of"].value_counts()
    text = "Averaging leaves pits to rest in; sampling leaves none"
    holds = pits.get("averaging", 0) > 0 and pits.get("sampling", 0) == 0
    fig.suptitle(
        text if holds else "The risk of one head that looks for one bit", x=0.01, ha="left",
        fontsize=10.5, fontweight="bold",
    )  # fmt: skip
    return fig


def saddles(frame: pd.DataFrame) -> Figure:
    """Least eigenvalue of the Hessian at every stationary point found, against what the theorem promises."""
    fig, ax = plt.subplots(figsize=(5.4, 3.6))
    shown = frame.assign(least=-frame["least"], bound=-frame["bound"], series="k = " + frame["k"].astype(str))
    palette = dict(zip(sorted(shown["series"].unique()), SERIES, strict=False))
    sns.scatterplot(
        shown, x="bound", y="least", hue="series", hue_order=list(palette), palette=palette,
        alpha=0.75, s=32, ax=ax,
    )  # fmt: skip
    ends = np.array([0.6 * shown["bound"].min(), 1.5 * max(shown["bound"].max(), shown["least"].max())])
    ax.plot(ends, ends, color=STATED, lw=1, ls="--")
    ax.annotate("as promised", (ends[0], ends[0]), (8, -2), textcoords="offset points", color=STATED, fontsize=9)
    ax.set(xscale="log", yscale="log", xlabel="promised by the theorem", ylabel="steepest way down, |λ|")
    sns.move_legend(ax, "upper left", bbox_to_anchor=(1.02, 1), title=None)
    holds = bool((shown["least"] >= shown["bound"]).all())
    ax.set_title("Every stationary point has a way down" if holds else "Stationary points and their way down")
    return fig


def recovery(frame: pd.DataFrame) -> Figure:
    """The permanent of every run at every look, by whether the arg-max positions are the bits."""
    fig, ax = plt.subplots(figsize=(FULL, 2.6))
    names = {"repaired": "heads that sample", "figure2-signed": "heads that average"}
    read = {True: "arg-max is B", False: "arg-max is not B"}
    shown = frame.assign(series=frame["recipe"].map(names), read=frame["right"].map(read))
    sns.stripplot(
        shown, x="perm", y="read", hue="series", order=list(read.values()), hue_order=list(names.values()),
        palette=[REPAIRED, CODE], dodge=True, size=2.2, alpha=0.35, jitter=0.3, ax=ax,
    )  # fmt: skip
    ax.axvline(0.5, color=STATED, lw=1.2, ls="--")
    ax.annotate("½", (0.5, 1.45), (4, 0), textcoords="offset points", color=STATED)
    ax.set(xlabel="permanent of the attention on B", ylabel="", xlim=(-0.02, 1.02))
    sns.move_legend(ax, "upper left", bbox_to_anchor=(1.01, 1), title=None, markerscale=3)
    holds = not (frame[~frame["right"]]["perm"] > 0.5).any()
    ax.set_title("Beyond one half the heads are never misread" if holds else "Permanent and arg-max")
    return fig


def settings(frame: pd.DataFrame) -> Figure:
    """Runs that commit in every setting of the repair, one row each; colour tells the temperature."""
    optimiser = frame["optimiser"].map({"gd": "gradient descent", "adam": "Adam"})
    shown = percent(frame, "committed").assign(setting=frame["loss"] + ", " + optimiser)
    order = list(shown["setting"].unique())
    fig, ax = plt.subplots(figsize=(FULL, 0.36 * len(order) + 1.2))
    palette = {"1": REPAIRED, "1/n": STATED}
    sns.pointplot(
        shown, y="setting", x="committed", hue="temperature", order=order, hue_order=list(palette), palette=palette,
        errorbar=wilson_percent, ls="none", dodge=0.35, capsize=0.15, markersize=4.5, err_kws={"linewidth": 1.3}, ax=ax,
    )  # fmt: skip
    ax.set(xlabel="runs that commit, %", ylabel="", xlim=(-3, 103))
    sns.move_legend(ax, "upper left", bbox_to_anchor=(1.01, 1), title="temperature")
    warm = frame[(frame["temperature"] == "1") | (frame["loss"] == "-log perm")]["committed"].mean()
    flat = frame[(frame["temperature"] == "1/n") & (frame["loss"] != "-log perm")]["committed"].mean()
    text = "Only sampling is needed, and at a cold start the logarithm"
    ax.set_title(text if warm > 0.95 and flat < 0.5 else "The repair in every setting", x=-0.35)
    return fig

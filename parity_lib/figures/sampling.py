"""Figures of the chapter ``sampling``."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from . import style


@style.drawing
def landscape(frame: pd.DataFrame, places: pd.DataFrame, n: int, bit: int) -> Figure:
    """Risk over the plane of one head, averaging and sampling, with the local minima and the way to the bit."""
    fig, axes = style.panels(2, 3.7)
    towards = 0.97 * frame["x"].max() * np.array([np.sin(2 * np.pi * bit / n), np.cos(2 * np.pi * bit / n)])
    for ax, kind in zip(axes, ("averaging", "sampling"), strict=True):
        table = frame.pivot(index="y", columns="x", values=kind)
        ax.contourf(table.columns, table.index, table, levels=24, cmap="viridis")
        ax.contour(table.columns, table.index, table, levels=24, colors=style.CHALK, linewidths=0.3)
        mine = places[places["risk_of"] == kind]
        sns.scatterplot(mine, x="x", y="y", color=style.BLIND, s=45, edgecolor=style.CHALK, ax=ax)
        ax.annotate("", towards, (0, 0), arrowprops={"arrowstyle": "-|>", "color": style.BIT, "lw": 2})
        count = {0: "no pit", 1: "1 pit"}.get(len(mine), f"{len(mine)} pits")
        ax.set(title=f"{kind}: {count}", aspect="equal", xlabel="a₁₃", ylabel="a₁₄")
        ax.grid(visible=False)
    pits = places["risk_of"].value_counts()
    holds = pits.get("averaging", 0) > 0 and pits.get("sampling", 0) == 0
    text = "Averaging leaves pits to rest in; sampling leaves none"
    return style.finding(fig, holds, text, "The risk of one head that looks for one bit")


@style.drawing
def recovery(frame: pd.DataFrame) -> Figure:
    """The permanent of every run at every look, by whether the arg-max positions are the bits."""
    fig, (ax,) = style.panels(1, 2.8)
    palette = {"heads that sample": style.REPAIRED, "heads that average": style.CODE}
    names = dict(zip(("repaired", "figure2-signed"), palette, strict=True))
    read = {True: style.short_lines("favourites are B", 10), False: style.short_lines("favourites are not B", 10)}
    shown = frame.assign(series=frame["recipe"].map(names), read=frame["right"].map(read))
    sns.stripplot(shown, x="perm", y="read", hue="series", order=list(read.values()), hue_order=list(palette),
                  palette=palette, dodge=True, size=2.2, alpha=0.35, jitter=0.3, legend=False, ax=ax,
                  rasterized=True)  # fmt: skip
    style.colour_words(ax, palette)
    ax.axvline(0.5, color=style.STATED, lw=1.2, ls="--")
    style.say(ax, 0.5, 1.45, "½", style.STATED, (4, 0))
    ax.set(xlabel="permanent of the attention on B", ylabel="", xlim=(-0.02, 1.02))
    sure = frame[frame["perm"] > 0.5]
    holds = len(sure) > 0 and sure["right"].all()
    return style.finding(fig, holds, "Beyond one half the heads are never misread", "Permanent and arg-max")


@style.drawing
def settings(frame: pd.DataFrame) -> Figure:
    """Runs that commit in every setting of the repair, one row each; colour tells the temperature."""
    optimisers = frame["optimiser"].map({"gd": "gradient descent", "adam": "Adam"})
    named = frame.assign(
        setting=frame["loss"].str.replace("-", "−") + ", " + optimisers,
        series="temperature " + frame["temperature"],
    )
    rows = {name: name for name in named["setting"].unique()}
    fig, (ax,) = style.panels(1, 0.4 * len(rows) + 1.2, keep=True)
    palette = {"temperature 1": style.REPAIRED, "temperature 1/n": style.STATED}
    style.rate_rows(named, "committed", "setting", rows, "series", palette, ax)
    cold, log = frame["temperature"] == "1/n", frame["loss"] == "-log perm"
    holds = frame.loc[~cold | log, "committed"].mean() > 0.95 > 0.5 > frame.loc[cold & ~log, "committed"].mean()
    text = "Only sampling is needed, and at a cold start the logarithm"
    return style.finding(fig, holds, text, "The repair in every setting")

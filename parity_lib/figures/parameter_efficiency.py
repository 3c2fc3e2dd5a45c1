"""Figures of the chapter ``parameter_efficiency``: numbers, updates and edges."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from .style import CODE, FULL, REPAIRED, SERIES, label_lines, medians, percent, plain_log_ticks, success_lines, ticks_at

GOLD = SERIES[3]
COLOURS = {"heads, product": REPAIRED, "plain network": GOLD, "heads, zigzag": CODE}


def race(frame: pd.DataFrame) -> Figure:
    """Runs that learn within the budget, against n, one panel for each k."""
    sizes = sorted(frame["k"].unique())
    fig, axes = plt.subplots(1, len(sizes), figsize=(FULL, 3.2), sharey=True, squeeze=False)
    for ax, k in zip(axes[0], sizes, strict=True):
        how = {"hue": "model", "hue_order": list(COLOURS), "palette": COLOURS, "legend": k == sizes[-1]}
        success_lines(frame[frame["k"] == k], "n", "learned", ax=ax, **how)
        ax.set(title=f"{k} bits", xlabel="number of positions n", ylabel="runs that learn, %")
        ticks_at(ax.xaxis, frame["n"])
    label_lines(axes[0, -1])
    ends = frame[frame["n"] == frame["n"].max()].groupby("model")["learned"].mean()
    told = ends["heads, product"] > 0.7 and ends["heads, zigzag"] < 0.5
    title = "2k numbers are enough at every n, if they are multiplied" if told else "Runs that learn within the budget"
    fig.suptitle(title, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    return fig


def updates(frame: pd.DataFrame) -> Figure:
    """Updates until accuracy 0.99 against n, runs that learn only, medians and quartiles, one panel for each k."""
    sizes = sorted(frame["k"].unique())
    fig, axes = plt.subplots(1, len(sizes), figsize=(FULL, 3.2), sharey=True, squeeze=False)
    learned = frame[frame["learned"]]
    for ax, k in zip(axes[0], sizes, strict=True):
        how = {"hue": "model", "hue_order": list(COLOURS), "palette": COLOURS, "legend": k == sizes[-1]}
        medians(learned[learned["k"] == k], "n", "updates", ax=ax, marker="o", **how)
        ax.set(yscale="log", title=f"{k} bits", xlabel="number of positions n", ylabel="updates until accuracy 0.99")
        ticks_at(ax.xaxis, frame["n"])
        plain_log_ticks(ax.yaxis)
    label_lines(axes[0, -1])
    return fig


def widths(frame: pd.DataFrame) -> Figure:
    """Share of plain networks that learn, by width and n: one heat map for each k."""
    plain = percent(frame[frame["model"] == "plain network"], "learned")
    sizes, steady = sorted(plain["k"].unique()), True
    fig, axes = plt.subplots(1, len(sizes), figsize=(FULL, 2.9), sharey=True, squeeze=False)
    for ax, k in zip(axes[0], sizes, strict=True):
        table = plain[plain["k"] == k].pivot_table(index="n", columns="width", values="learned", aggfunc="mean")
        sns.heatmap(table, annot=True, fmt=".0f", vmin=0, vmax=100, cmap="viridis", cbar=False, ax=ax, linewidths=0.5)
        ax.set(title=f"{k} bits", xlabel="hidden neurons", ylabel="positions n" if k == sizes[0] else "")
        ax.tick_params(axis="y", rotation=0)
        enough = (table > 75).idxmax(axis=1)
        steady &= bool(enough.max() - enough.min() <= 2)
    title = "The width that learning takes does not grow with n" if steady else "Plain networks that learn"
    fig.suptitle(f"{title} (% of runs)", x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    return fig


def missing_edge(frame: pd.DataFrame) -> Figure:
    """Proposition 4: exact risk against the formula for random networks; and training, from above to 1."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(FULL, 3.1))
    random, trained = frame[frame["kind"] == "random"], frame[frame["kind"] == "trained"]
    ends = [1, float(random["formula"].max())]
    left.plot(ends, ends, color="black", lw=0.9)
    sns.scatterplot(random, x="formula", y="mean", color=GOLD, s=22, ax=left)
    left.set(xscale="log", yscale="log", xlabel="what the formula says", ylabel="exact risk", title="Random networks")
    medians(trained.assign(excess=trained["mean"] - 1), "update", "excess", color=GOLD, ax=right)
    right.set(yscale="log", xlabel="update", ylabel="exact risk minus 1", title="Trained: to 1, from above")
    return fig

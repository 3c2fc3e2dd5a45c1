"""Figures of the chapter ``fixed_attention``: heads that are not trained."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from .style import CODE, COLUMN, FULL, SERIES, STATED, label_lines, medians, success_lines, ticks_at

LEARNED, GOLD, SKY = CODE, SERIES[3], SERIES[5]
TOP = 1.12  # upper edge of the axes of risk


def risk_against_n(frame: pd.DataFrame) -> Figure:
    """Risk of every arm against n, median and quartiles, and the share of runs that succeed."""
    longer = next((arm for arm in frame["arm"].unique() if "longer" in arm), "fixed, token")
    colours = {"fixed, position": STATED, longer: GOLD, "fixed, heads separate": SKY, "learned": LEARNED}
    shown = frame[frame["arm"].isin(colours)]
    fig, (left, right) = plt.subplots(1, 2, figsize=(FULL, 3.4), width_ratios=[1, 1])
    medians(shown, "n", "risk", hue="arm", hue_order=list(colours), palette=colours, ax=left, marker="o", legend=False)
    left.axhline(1, color="black", lw=0.9, ls=":")
    left.text(frame["n"].min(), 1.015, "chance", fontsize=9, va="bottom")
    left.set(ylim=(-0.03, TOP), ylabel="risk, squared hinge", xlabel="number of positions n")
    success_lines(shown, "n", "right", hue="arm", hue_order=list(colours), palette=colours, ax=right)
    right.set(xlabel="number of positions n", ylabel="accuracy above 0.99, % of runs")
    for ax in (left, right):
        ticks_at(ax.xaxis, frame["n"])
    label_lines(right)
    last = frame[frame["n"] == frame["n"].max()].groupby("arm")["risk"].median()
    apart = last["learned"] < 0.1 and last.drop("learned").min() > 0.8
    title = "From about n = 16 on, fixed heads stay near chance" if apart else "Fixed heads against learned ones"
    fig.suptitle(title, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    return fig


def hard_heads(frame: pd.DataFrame) -> Figure:
    """Least risk of any classifier on hard heads against their number, worst and average B, over what is proved."""
    fig, axes = plt.subplots(1, 2, figsize=(FULL, 3.4), sharey=True)
    colours = {"position": STATED, "token": GOLD, "search": SKY}
    larger = frame.assign(worst_bound=frame[["corollary_20", "linear_bound"]].max(axis=1))
    proved = larger.groupby("m").max(numeric_only=True)
    for ax, column, bound in zip(axes, ("worst", "mean"), ("worst_bound", "typical_bound"), strict=True):
        ax.fill_between(proved.index, proved[bound], color="#d9d9d9", lw=0)
        ax.text(1.2, 0.08, "impossible", fontsize=9, color="#444444")
        how = {"hue_order": list(colours), "palette": colours, "ax": ax, "legend": ax is axes[1]}
        medians(frame, "m", column, hue="kind", errorbar=("pi", 100), **how)
        ax.set(xlabel="number of heads m", ylim=(-0.02, 1.04), ylabel="least risk of any classifier")
        ax.set_title("for the worst B" if column == "worst" else "for the average B")
        ticks_at(ax.xaxis, [m for m in frame["m"].unique() if m % 2 == 0])
    label_lines(axes[1], {kind: f"{kind} heads" for kind in colours})
    return fig


def risk_against_norm(frame: pd.DataFrame) -> Figure:
    """Trained networks and the bounds against the scaled norm, one panel for each number of heads."""
    fig, axes = plt.subplots(1, frame["m"].nunique(), figsize=(FULL, 3.3), sharey=True)
    colours = {"these very heads": SKY, "with a proof": "black", "Theorem 11, clamped": STATED}
    for ax, (m, part) in zip(axes, frame.groupby("m"), strict=True):
        curves = part[part["series"] != "trained network"]
        how = {"hue_order": list(colours), "palette": colours, "ax": ax, "legend": m == frame["m"].max()}
        medians(curves, "scaled", "value", hue="series", **how)
        dots = part[part["series"] == "trained network"]
        sns.scatterplot(dots, x="scaled", y="value", color=GOLD, s=18, ax=ax, legend=False)
        ax.set(xscale="log", title=f"{m} head{'s' if m > 1 else ''}", xlabel="|α||β| m²/n", ylim=(-0.03, TOP))
        ax.set_ylabel("risk, squared hinge")
    handles, labels = axes[-1].get_legend_handles_labels()
    axes[-1].get_legend().remove()
    fig.legend(handles, labels, loc="outside lower center", ncols=3)
    axes[0].text(0.012, 1.05, "trained networks", color="#8a6508", fontsize=9)
    return fig


def norm_needed(frame: pd.DataFrame) -> Figure:
    """Norm of the network that zero risk needs, against n, on a log axis."""
    fig, ax = plt.subplots(figsize=(FULL, 3.2))
    names = list(frame["what"].unique())
    colours = dict(zip(names, (STATED, GOLD, SKY, LEARNED), strict=True))
    medians(frame, "n", "norm", hue="what", palette=colours, ax=ax, marker="o")
    ax.set(yscale="log", xlabel="number of positions n", ylabel="|α||β|")
    ticks_at(ax.xaxis, frame["n"])
    label_lines(ax)
    alone = frame[frame["what"] == names[0]].groupby("n")["norm"].median()
    grows = alone.iloc[-1] > 1e4 * alone.iloc[0]
    ax.set_title("One fixed head needs a norm that grows exponentially" if grows else "The norm that zero risk needs")
    return fig


def risk_against_heads(frame: pd.DataFrame) -> Figure:
    """Trained risk against the number of fixed heads, heard as a mean or separately; every run a dot."""
    fig, ax = plt.subplots(figsize=(COLUMN + 1.4, 3.2))
    colours = {"mean": GOLD, "separate": SKY}
    place = {m: i for i, m in enumerate(sorted(frame["m"].unique()))}
    at = frame.assign(place=frame["m"].map(place))
    sns.stripplot(at, x="place", y="risk", hue="pooling", palette=colours, dodge=0.3, size=3, alpha=0.5, ax=ax,
                  legend=False, native_scale=True)  # fmt: skip
    medians(at, "place", "risk", hue="pooling", palette=colours, ax=ax, errorbar=None)
    ax.axhline(1, color="black", lw=0.9, ls=":")
    ax.set_xticks(list(place.values()), [str(m) for m in place])
    ax.set(xlabel="number of fixed heads m", ylabel="risk, squared hinge", ylim=(-0.03, TOP))
    label_lines(ax, {"mean": "   their mean", "separate": "   each heard"})
    last = frame[frame["m"] == frame["m"].max()].groupby("pooling")["risk"].median()
    helps = last["separate"] < 0.2 < 0.5 < last["mean"]
    ax.set_title("More fixed heads help only where each is heard" if helps else "Risk by number of fixed heads")
    return fig

"""Figures of the essay ``simplicity``: frames in, figures out."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from . import style

KIND_COLOURS = {"transformer": style.SIGNAL, "LSTM": style.ORANGE}


@style.drawing
def ladder(frame: pd.DataFrame, budget: int) -> Figure:
    """Updates to learn and sharpness against average sensitivity: k-parities with a line, other functions by name."""
    shown = frame.assign(updates_=frame["learned"].clip(upper=1.2 * budget), learns=np.isfinite(frame["learned"]))
    fig, axes = style.panels(2, 3.4, share=False)
    converged = shown[shown["converged"]]
    for ax, part, y, centre in ((axes[0], shown, "updates_", "median"), (axes[1], converged, "sharpness", "mean")):
        parities, others = part[part["k"] > 0], part[part["k"] == 0]
        dots = {"hue": "learns", "palette": {True: style.SIGNAL, False: style.BLIND}, "alpha": 0.6, "legend": False}
        if len(parities):
            sns.scatterplot(parities, x="sensitivity", y=y, s=18, linewidth=0, ax=ax, **dots)
            sns.lineplot(parities, x="sensitivity", y=y, estimator=centre, errorbar=None, color=style.SIGNAL, ax=ax)
        sns.scatterplot(others, x="sensitivity", y=y, color=style.ORANGE, marker="D", s=22, ax=ax, linewidth=0)
        for place, (name, group) in enumerate(others.groupby("function")):  # in turn above and below, to keep apart
            height, offset, side = (group[y].min(), -6, "top") if place % 2 else (group[y].max(), 5, "bottom")
            style.say(ax, group["sensitivity"].iloc[0], height, name, shift=(0, offset), ha="center", va=side,
                      fontsize=8.5)  # fmt: skip
        ax.set(xlabel="average sensitivity", yscale="log")
        ax.margins(y=0.12)  # room for the names
    style.rule(axes[0], budget, colour=style.STATED)
    style.say(axes[0], 1, 1.2 * budget, "never", style.BLIND, (0, -3), va="top")
    axes[0].set_ylabel("updates to learn")
    axes[1].set_ylabel("sharpness, converged runs")
    updates = shown[shown["k"] > 0].groupby("k")["updates_"].median()
    sharpest = converged[converged["k"] > 0].groupby("k")["sharpness"].mean()
    title = f"Of the k-parities k = {int(updates.idxmax())} is hardest"
    title += f", k = {int(sharpest.idxmax())} sharpest" if len(sharpest) else ""
    return style.finding(fig, (updates == updates.max()).sum() == 1, title, "k-parities and other functions")


@style.drawing
def course(frame: pd.DataFrame, n: int) -> Figure:
    """Loss, sharpness and blowup of PARITY runs over time, a line per seed."""
    fig, axes = style.panels(3, 3.0, share=False)
    labels = {"loss": "loss", "sharpness": "sharpness", "blowup": "layer-norm blowup"}
    for ax, (quantity, label) in zip(axes, labels.items(), strict=True):
        sns.lineplot(frame, x="update", y=quantity, units="seed", estimator=None, color=style.SIGNAL, lw=1, alpha=0.7,
                     ax=ax)  # fmt: skip
        ax.set(ylabel=label, **({"ylim": (0, None)} if quantity == "sharpness" else {"yscale": "log"}))
        ax.locator_params(axis="x", nbins=4)
    style.rule(axes[0], 0.25, colour=style.STATED)
    ends = frame.sort_values("update").groupby("seed")["sharpness"].agg(["first", "last"])
    runs = f"{len(ends)} runs of PARITY on {n} bits"
    rises = bool((ends["last"] > 2 * ends["first"]).all())
    return style.finding(fig, rises, f"Sharpness comes as the loss goes: {runs}", f"{runs}, over time")


@style.drawing
def bias(frame: pd.DataFrame, n: int) -> Figure:
    """Left: average sensitivity of learned tables and of coins by K. Right: sharpness when both are learned whole."""
    fits = frame[frame["kind"] == "fit"]
    refits = frame[(frame["kind"] == "refit") & frame["converged"].fillna(False).astype(bool)]
    colours = {"learned": style.SIGNAL, "filled by coins": style.ORANGE}
    fig, axes = style.panels(2, 3.2, ratios=[1.3, 1], share=False)
    dots = {"hue": "table", "palette": colours, "hue_order": list(colours), "size": 5, "alpha": 0.7, "legend": False}
    shown = fits.assign(labels=fits["labels"].astype(int).astype(str))
    sns.stripplot(shown, x="labels", y="sensitivity", dodge=True, ax=axes[0], **dots)
    if refits.empty:
        style.blank(axes[1])
    else:
        sns.stripplot(refits, x="table", y="sharpness", order=list(colours), ax=axes[1], **dots)
    style.rule(axes[0], n / 2, "n / 2", ha="right")
    axes[0].set(xlabel=f"labels shown, of {2**n}", ylabel="average sensitivity", ylim=(0, None))
    for name, height in (("filled by coins", 0.86), ("learned", 0.5)):
        style.say(axes[0], 0.02, height, name, colours[name], (0, 0), va="baseline", xycoords="axes fraction")
    axes[1].set(xlabel="table learned whole", ylim=(0, None))
    mean = fits.groupby(["labels", "table"])["sensitivity"].mean().unstack()
    duller = bool((mean["learned"] < mean["filled by coins"]).all())
    return style.finding(fig, duller, "A transformer fills in what fewer bits can change than what coins do",
                         "What a transformer fills in, and what coins do")  # fmt: skip


@style.drawing
def random_weights(frame: pd.DataFrame, below: pd.Series) -> Figure:
    """Sensitivity of models with random weights against layers, a panel per start: means with 95 % intervals.

    ``below`` says of every setting whether transformers lie below LSTMs; the title counts them.
    """
    fig, parts = style.panels_by(frame, "start", height=3.1)
    for ax, _, part in parts:
        how = {"data": part, "x": "layers", "y": "sensitivity", "hue": "kind", "palette": KIND_COLOURS, "ax": ax}
        sns.stripplot(**how, dodge=True, size=2, alpha=0.35, legend=False)
        sns.pointplot(**how, dodge=0.4, capsize=0.1, linestyles="none", markersize=5, legend=False, seed=0)
        ax.set(xlabel="layers", ylabel="average sensitivity / n", ylim=(-0.02, None))
    style.colour_words(fig.axes[0], KIND_COLOURS, loc="upper left")
    fig.suptitle(f"Untrained transformers are less sensitive than LSTMs in {below.sum()} of {len(below)} settings")
    return fig

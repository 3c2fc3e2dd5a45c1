"""Figures of the essay ``sensitivity``: frames in, figures out."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import FULL, REPAIRED, SIGNAL, STATED, label_lines, medians, plain_log_ticks, ticks_at

FUNCTIONS = {"PARITY": SIGNAL, "MAJORITY": "#E69F00", "MEAN": "#56B4E9", "FIRST": STATED}
"""The colour of every function, hardest first."""
QUANTITIES = {"sharpness": "sharpness", "norm": "norm of the parameters", "blowup": "layer-norm blowup"}
KIND_COLOURS = {"transformer": SIGNAL, "LSTM": "#E69F00"}


def spectra(frame: pd.DataFrame) -> Figure:
    """Average sensitivity of every function, and where its Fourier weight sits."""
    once = frame.drop_duplicates("function")
    fig, axes = plt.subplots(1, 2, figsize=(FULL, 0.3 * len(once) + 1.2), width_ratios=[1, 1.3])
    sns.stripplot(once, x="sensitivity", y="function", ax=axes[0], size=7, color=SIGNAL, jitter=False)
    for place, value in enumerate(once["sensitivity"]):
        axes[0].annotate(f"{value:.3g}", (value, place), (7, 0), textcoords="offset points", va="center", fontsize=8.5)
    axes[0].set(xscale="log", xlabel="average sensitivity", ylabel="", xlim=(0.03, 8 * once["sensitivity"].max()))
    ticks_at(axes[0].xaxis, [0.1, 1, 10])
    table = frame.pivot_table(index="function", columns="degree", values="weight").loc[once["function"]]
    sns.heatmap(table, ax=axes[1], cmap="Blues", vmin=0, vmax=1, yticklabels=False, cbar_kws={"label": "weight"})
    axes[1].set(xlabel="bits in the Fourier term", ylabel="")
    axes[1].tick_params(axis="x", rotation=0)
    n = int(frame["degree"].max())
    fig.suptitle(
        f"PARITY is as sensitive as a function of {n} bits can be", x=0.01, ha="left", fontweight="bold", fontsize=10.5
    )
    return fig


def constructed(frame: pd.DataFrame) -> Figure:
    """Sharpness, norm and blowup of the constructions against length."""
    fig, axes = plt.subplots(1, 3, figsize=(FULL, 3.1))
    for ax, (quantity, label) in zip(axes, QUANTITIES.items(), strict=True):
        _by_function(frame, quantity, ax, marker="o", markersize=4)
        ax.set(xscale="log", xlabel="length n", ylabel=label)
        ticks_at(ax.xaxis, [4, 16, 64, 256])
    axes[0].set(ylim=(0, None))
    for ax in axes[1:]:
        ax.set(yscale="log")
        plain_log_ticks(ax.yaxis)
    _error_bars(frame, axes[0])
    _legend_once(fig, axes)
    growth = frame[frame["function"] == "PARITY"].sort_values("n")["norm"]
    _title(
        fig,
        f"Written down for any length; PARITY's norm grows {growth.iloc[-1] / growth.iloc[0]:.0f}-fold, blowup stays",
    )
    return fig


def lengths(frame: pd.DataFrame) -> Figure:
    """Converged runs against length: every run a dot, means joined; how many PARITY runs converged on top."""
    good = frame[frame["converged"]]
    fig, axes = plt.subplots(1, 3, figsize=(FULL, 3.3), width_ratios=[1.4, 1, 1])
    for ax, quantity in zip(axes, ("sharpness", "blowup", "norm"), strict=True):
        sns.scatterplot(
            good, x="n", y=quantity, hue="function", palette=FUNCTIONS, ax=ax, s=16, alpha=0.55, legend=False
        )
        _by_function(good, quantity, ax)
        ax.set(xlabel="length n", ylabel=QUANTITIES[quantity])
        ticks_at(ax.xaxis, good["n"])
    axes[0].set(ylim=(0, None))
    axes[1].set(yscale="log")
    parity = frame[frame["function"] == "PARITY"].groupby("n")["converged"].agg(["sum", "count"])
    for n, (passed, started) in parity.iterrows():
        axes[0].text(n, 1.0, f"{passed}/{started}", transform=axes[0].get_xaxis_transform(), ha="center", va="bottom",
                     color=SIGNAL, fontsize=8.5)  # fmt: skip
    _legend_once(fig, axes)
    ends = good[good["function"] == "PARITY"].groupby("n")["sharpness"].mean()
    _title(fig, "PARITY's minima, sharpness: " + ", ".join(f"{ends[n]:.2f} at n = {n}" for n in ends.index[[0, -1]])
           if len(ends) else "No PARITY run converged")  # fmt: skip
    return fig


def mechanism(frame: pd.DataFrame) -> Figure:
    """Left against right side of the inequality, a dot a model and a perturbation; all lie above the diagonal."""
    fig, ax = plt.subplots(figsize=(0.72 * FULL, 3.6))
    shown = frame.assign(right=frame["right"].clip(lower=1e-8), left=frame["left"].clip(lower=1e-8))
    sns.scatterplot(shown, x="right", y="left", hue="function", hue_order=list(FUNCTIONS), palette=FUNCTIONS,
                    style="kind", s=18, alpha=0.5, ax=ax, linewidth=0)  # fmt: skip
    ends = np.array([1e-8, 10.0])
    ax.plot(ends, ends, color="black", lw=1)
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=(1e-5, 10), xlabel="(√as T − √as T′)² / n, the lower bound",
           ylabel="E (T − T′)², the rise of the loss")  # fmt: skip
    ax.legend(bbox_to_anchor=(1.01, 1), loc="upper left", borderaxespad=0)
    below = int((frame["left"] < frame["right"]).sum())
    ax.set_title(f"{below} of {len(frame)} perturbed models fall below the bound")
    return fig


def frontier(frame: pd.DataFrame) -> Figure:
    """Sharpness and norm of PARITY against length by where it comes from, with FIRST by weight noise beside it."""
    styles = {"construction": STATED, "AdamW": SIGNAL, "weight noise": REPAIRED, "FIRST, weight noise": "#E69F00"}
    fig, axes = plt.subplots(1, 2, figsize=(FULL, 3.2))
    for ax, quantity in zip(axes, ("sharpness", "norm"), strict=True):
        sns.pointplot(frame, x="n", y=quantity, hue="source", hue_order=list(styles), palette=styles, ax=ax,
                      errorbar=("pi", 100), native_scale=True, linestyles="none", markersize=5, dodge=0.0)  # fmt: skip
        ax.set(xlabel="length n", ylabel=QUANTITIES[quantity], xscale="log")
        ticks_at(ax.xaxis, frame["n"])
        if ax.get_legend() is not None and quantity == "sharpness":
            ax.get_legend().remove()
    axes[0].set(yscale="log")
    plain_log_ticks(axes[0].yaxis)
    axes[1].set(ylim=(0, None))
    axes[1].legend(title="", loc="lower left", fontsize=8.5)
    noise = frame[frame["source"] == "weight noise"]["sharpness"].max()
    _title(fig, f"PARITY can be flat: weight noise finds at most {noise:.2f} at the same lengths")
    return fig


def orbit(frame: pd.DataFrame) -> Figure:
    """One function, many weights: blowup against norm along the symmetry with trained runs, and the two products."""
    along, runs = frame[frame["kind"] == "orbit"], frame[(frame["kind"] == "trained") & frame["converged"]]
    fig, axes = plt.subplots(1, 2, figsize=(FULL, 3.3))
    for name, part in along.groupby("function", sort=False):
        axes[0].plot(part["norm"], part["blowup"], color=FUNCTIONS[name], lw=1.5, label=f"one {name}, rescaled")
    for decay, part in runs.groupby("decay"):
        sns.scatterplot(part, x="norm", y="blowup", hue="function", palette=FUNCTIONS, ax=axes[0], s=26, legend=False)
        place = part[["norm", "blowup"]].mean()
        axes[0].annotate(f"decay {decay:g}", tuple(place), (9, 0), textcoords="offset points", fontsize=8, va="center")
    axes[0].set(xscale="log", yscale="log", xlabel=QUANTITIES["norm"], ylabel=QUANTITIES["blowup"])
    axes[0].legend(fontsize=8, loc="lower left")
    plain_log_ticks(axes[0].xaxis)
    parity = along[along["function"] == "PARITY"]
    axes[1].plot(parity["scale"], parity["product"], color=SIGNAL, marker="o", ms=3)
    axes[1].plot(parity["scale"], 10 ** parity["least"], color="black", ls="--")
    axes[1].set(xscale="log", yscale="log", xlabel="scale c of the rescaled weights", ylabel="norm × blowup²")
    ticks_at(axes[1].xaxis, [0.25, 0.5, 1, 2, 4, 8])
    axes[1].annotate("norm × blowup²", (parity["scale"].iloc[1], parity["product"].iloc[1]), (6, 0), color=SIGNAL,
                     textcoords="offset points", fontsize=9)  # fmt: skip
    axes[1].annotate("least product, invariant", (parity["scale"].iloc[-1], 10 ** parity["least"].iloc[-1]), (0, 5),
                     textcoords="offset points", ha="right", fontsize=9)  # fmt: skip
    decades = np.log10(parity["product"].max() / parity["product"].min())
    _title(fig, f"The same outputs, {decades:.0f} powers of ten apart in norm × blowup²")
    return fig


def bridge(frame: pd.DataFrame, budget: int) -> Figure:
    """k-parity against k: updates to learn and sharpness, every run a dot, the median or mean as a line."""
    fig, axes = plt.subplots(1, 2, figsize=(FULL, 3.2))
    shown = frame.assign(steps=frame["learned"].clip(upper=1.2 * budget), learns=np.isfinite(frame["learned"]))
    sns.stripplot(shown, x="k", y="steps", hue="learns", palette={True: SIGNAL, False: "#D55E00"}, ax=axes[0],
                  native_scale=True, jitter=0.12, size=4, alpha=0.7, legend=False)  # fmt: skip
    medians(shown, "k", "steps", ax=axes[0], color="black", errorbar=None)
    axes[0].axhline(budget, color=STATED, ls=":", lw=1)
    axes[0].annotate(
        "never", (1, 1.2 * budget), (0, -3), textcoords="offset points", va="top", color="#D55E00", fontsize=9
    )
    axes[0].set(yscale="log", xlabel="k = average sensitivity", ylabel="updates to learn")
    plain_log_ticks(axes[0].yaxis)
    good = frame[frame["converged"]]
    sns.stripplot(
        good, x="k", y="sharpness", ax=axes[1], native_scale=True, jitter=0.12, size=4, alpha=0.7, color=SIGNAL
    )
    sns.lineplot(good, x="k", y="sharpness", ax=axes[1], color="black", errorbar=None)
    axes[1].set(ylim=(0, None), xlabel="k = average sensitivity", ylabel="sharpness, converged runs")
    hardest = int(shown.groupby("k")["steps"].median().idxmax())
    _title(fig, f"Hardest at k = {hardest}, sharpest at k = {int(good.groupby('k')['sharpness'].mean().idxmax())}")
    return fig


def course(frame: pd.DataFrame, n: int) -> Figure:
    """Loss, sharpness and blowup of PARITY runs over time, a line per seed."""
    fig, axes = plt.subplots(1, 3, figsize=(FULL, 3.0))
    for ax, quantity in zip(axes, ("loss", "sharpness", "blowup"), strict=True):
        sns.lineplot(frame, x="update", y=quantity, units="seed", estimator=None, ax=ax, color=SIGNAL, lw=1, alpha=0.7)
        ax.set(ylabel=QUANTITIES.get(quantity, quantity))
        ax.locator_params(axis="x", nbins=4)
    axes[0].set(yscale="log")
    axes[0].axhline(0.25, color=STATED, ls=":", lw=1)
    axes[2].set(yscale="log")
    plain_log_ticks(axes[2].yaxis)
    axes[1].set(ylim=(0, None))
    _title(fig, f"PARITY of {n} bits over time: sharpness and blowup rise as the loss falls")
    return fig


def bias(frame: pd.DataFrame, n: int) -> Figure:
    """Left: average sensitivity of learned tables and of coins by K. Right: sharpness when both are learned whole."""
    fits, refits = (
        frame[frame["kind"] == "fit"],
        frame[(frame["kind"] == "refit") & frame["converged"].fillna(False).astype(bool)],
    )
    colours = {"learned": SIGNAL, "filled by coins": "#E69F00"}
    fig, axes = plt.subplots(1, 2, figsize=(FULL, 3.2), width_ratios=[1.3, 1])
    for ax, part, x, y in ((axes[0], fits, "labels", "sensitivity"), (axes[1], refits, "table", "sharpness")):
        order = None if x == "labels" else list(colours)
        part = part.assign(labels=part["labels"].astype(int).astype(str))
        sns.stripplot(part, x=x, y=y, hue="table", palette=colours, hue_order=list(colours), order=order, ax=ax, size=5,
                      alpha=0.7, dodge=x == "labels", legend=False)  # fmt: skip
    axes[0].axhline(n / 2, color="black", ls=":", lw=1)
    axes[0].annotate("n / 2", (1, n / 2), (0, 3), xycoords=axes[0].get_yaxis_transform(), textcoords="offset points",
                     ha="right", fontsize=9)  # fmt: skip
    axes[0].set(xlabel=f"labels shown, of {2**n}", ylabel="average sensitivity", ylim=(0, None))
    for name, height in (("filled by coins", 0.62), ("learned", 0.3)):
        axes[0].annotate(name, (0.02, height), xycoords="axes fraction", color=colours[name], fontsize=9)
    axes[1].set(xlabel="table learned whole", ylim=(0, None))
    _title(fig, "What a transformer fills in is less sensitive than coins, and flatter")
    return fig


def random_weights(frame: pd.DataFrame) -> Figure:
    """Sensitivity of models with random weights against layers, a panel per start: means with 95 % intervals."""
    starts = list(dict.fromkeys(frame["start"]))
    fig, axes = plt.subplots(1, len(starts), figsize=(FULL, 3.1), sharey=True, squeeze=False)
    for ax, start in zip(axes[0], starts, strict=True):
        part = frame[frame["start"] == start]
        sns.stripplot(part, x="layers", y="sensitivity", hue="kind", palette=KIND_COLOURS, ax=ax, dodge=True, size=2,
                      alpha=0.35, legend=False)  # fmt: skip
        sns.pointplot(part, x="layers", y="sensitivity", hue="kind", palette=KIND_COLOURS, ax=ax, dodge=0.4,
                      capsize=0.1, linestyles="none", markersize=5, legend=bool(start == starts[0]))  # fmt: skip
        ax.set(xlabel="layers", ylabel="average sensitivity / n", ylim=(-0.02, None))
        ax.set_title(start, fontweight="normal")
    axes[0, 0].legend(title="", loc="upper left", fontsize=9)
    _title(fig, "Random transformers are duller than random LSTMs only if deep and wide at the start")
    return fig


def scratchpads(frame: pd.DataFrame) -> Figure:
    """Sharpness and updates to learn against length, with and without running parities."""
    colours = {"with a scratchpad": REPAIRED, "answer alone": SIGNAL}
    fig, axes = plt.subplots(1, 2, figsize=(FULL, 3.2))
    for ax, quantity, label in ((axes[0], "sharpness", "sharpness"), (axes[1], "learned", "updates to learn")):
        shown = frame[np.isfinite(frame[quantity])]
        sns.pointplot(shown, x="n", y=quantity, hue="way", palette=colours, hue_order=list(colours), ax=ax,
                      markersize=5, errorbar=("pi", 100), native_scale=True, linestyles="none",
                      legend=bool(ax is axes[1]))  # fmt: skip
        ax.set(xlabel="length n", ylabel=label, xscale="log")
        ticks_at(ax.xaxis, frame["n"])
    axes[0].set(ylim=(0, None))
    axes[1].set(yscale="log")
    plain_log_ticks(axes[1].yaxis)
    axes[1].legend(title="", fontsize=9)
    _title(fig, "Written out, parity is learned sooner and stays flat")
    return fig


def _by_function(frame: pd.DataFrame, quantity: str, ax: Axes, **how: object) -> None:
    """Means of a quantity against length, a line per function."""
    sns.lineplot(frame, x="n", y=quantity, hue="function", hue_order=list(FUNCTIONS), palette=FUNCTIONS, errorbar=None,
                 ax=ax, **how)  # fmt: skip


def _error_bars(frame: pd.DataFrame, ax: Axes) -> None:
    for name, part in frame.groupby("function"):
        ax.errorbar(part["n"], part["sharpness"], 1.96 * part["error"], fmt="none", ecolor=FUNCTIONS[name], lw=1)


def _legend_once(fig: Figure, axes: np.ndarray) -> None:
    """Names at the lines of the last panel only."""
    for ax in axes[:-1]:
        ax.get_legend().remove()
    fig.canvas.draw()
    label_lines(axes[-1])


def _title(fig: Figure, text: str) -> None:
    fig.suptitle(text, x=0.01, ha="left", fontweight="bold", fontsize=10.5)

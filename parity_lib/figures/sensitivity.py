"""Figures of the essay ``sensitivity``: frames in, figures out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from . import style

FUNCTIONS = {"PARITY": style.SIGNAL, "MAJORITY": style.ORANGE, "MEAN": style.SKY, "FIRST": style.STATED}
"""The colour of every function, hardest first."""
QUANTITIES = {"sharpness": "sharpness", "norm": "norm of the parameters", "blowup": "layer-norm blowup"}
KIND_COLOURS = {"transformer": style.SIGNAL, "LSTM": style.ORANGE}


@style.drawing
def constructed(frame: pd.DataFrame) -> Figure:
    """Sharpness, norm and blowup of the constructions against length."""
    fig, axes = style.panels(3, 3.1, share=False)
    for ax, (quantity, label) in zip(axes, QUANTITIES.items(), strict=True):
        _by_function(frame, quantity, ax, marker="o", markersize=4)
        ax.set(xscale="log", xlabel="length n", ylabel=label)
        style.ticks_at(ax.xaxis, [4, 16, 64, 256])
    axes[0].set(ylim=(0, None))
    for ax in axes[1:]:
        ax.set(yscale="log")
        style.plain_log_ticks(ax.yaxis)
    _error_bars(frame, axes[0])
    style.label_last(axes)
    growth = frame[frame["function"] == "PARITY"].sort_values("n")["norm"]
    grown = growth.iloc[-1] / growth.iloc[0]
    fig.suptitle(f"Written down for any length; PARITY's norm grows {grown:.0f}-fold, blowup stays")
    return fig


@style.drawing
def lengths(frame: pd.DataFrame) -> Figure:
    """Converged runs against length: every run a dot, means joined; how many PARITY runs converged on top."""
    good = frame[frame["converged"]]
    fig, axes = style.panels(2, 3.3, ratios=[1.2, 1], share=False)
    for ax, quantity in zip(axes, ("sharpness", "blowup"), strict=True):
        sns.scatterplot(
            good, x="n", y=quantity, hue="function", palette=FUNCTIONS, ax=ax, s=16, alpha=0.55, legend=False
        )
        _by_function(good, quantity, ax)
        ax.set(xlabel="length n", ylabel=QUANTITIES[quantity])
        style.ticks_at(ax.xaxis, good["n"])
    axes[0].set(ylim=(0, None))
    axes[1].set(yscale="log")
    parity = frame[frame["function"] == "PARITY"].groupby("n")["converged"].agg(["sum", "count"])
    for n, (passed, started) in parity.iterrows():
        axes[0].text(n, 1.0, f"{passed}/{started}", transform=axes[0].get_xaxis_transform(), ha="center", va="bottom",
                     color=style.SIGNAL, fontsize=8.5)  # fmt: skip
    style.label_last(axes)
    ends = good[good["function"] == "PARITY"].groupby("n")["sharpness"].mean()
    fig.suptitle("PARITY's minima, sharpness: " + ", ".join(f"{ends[n]:.2f} at n = {n}" for n in ends.index[[0, -1]])
                 if len(ends) else "No PARITY run converged")  # fmt: skip
    return fig


@style.drawing
def mechanism(frame: pd.DataFrame) -> Figure:
    """Left against right side of the inequality, a dot a model and a perturbation; all lie above the diagonal."""
    fig, (ax,) = style.panels(1, 3.6, width=0.72 * style.FULL)
    shown = frame.assign(right=frame["right"].clip(lower=1e-8), left=frame["left"].clip(lower=1e-8))
    sns.scatterplot(shown, x="right", y="left", hue="function", hue_order=list(FUNCTIONS), palette=FUNCTIONS,
                    style="kind", markers={"trained": "o", "constructed": "^"}, s=26, alpha=0.5, ax=ax, linewidth=0,
                    legend=False)  # fmt: skip
    ends = np.array([1e-8, 10.0])
    ax.plot(ends, ends, color=style.INK, lw=1)
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=(1e-5, 10), xlabel="(√as T − √as T′)² / n, the lower bound",
           ylabel="E (T − T′)², the rise of the loss")  # fmt: skip
    kinds = {"trained": "o", "constructed": "^"}
    style.colour_words(ax, FUNCTIONS | dict.fromkeys(kinds, style.INK), kinds, loc="lower right")
    below = int((frame["left"] < frame["right"]).sum())
    ax.set_title(f"{below} of {len(frame)} perturbed models fall below the bound")
    return fig


@style.drawing
def frontier(frame: pd.DataFrame) -> Figure:
    """Sharpness of PARITY by where it comes from, against length and against norm, with FIRST by weight noise."""
    styles = {"written down": style.STATED, "AdamW": style.SIGNAL, "weight noise": style.REPAIRED,
              "FIRST, weight noise": style.ORANGE}  # fmt: skip
    fig, axes = style.panels(2, 3.3, share=False)
    for ax, x in zip(axes, ("n", "norm"), strict=True):
        sns.scatterplot(frame, x=x, y="sharpness", hue="source", hue_order=list(styles), palette=styles, ax=ax, s=26,
                        alpha=0.8, linewidth=0, legend=False)  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel=QUANTITIES.get(x, "length n"), ylabel="sharpness")
        style.plain_log_ticks(ax.yaxis)
    style.ticks_at(axes[0].xaxis, [8, 16, 32])
    style.ticks_at(axes[1].xaxis, [10, 20, 30])
    for row in frame[frame["source"] == "weight noise"].itertuples():
        axes[1].annotate(f"n = {row.n}", (row.norm, row.sharpness), (6, 0), textcoords="offset points", va="center",
                         fontsize=8.5, color=style.REPAIRED)  # fmt: skip
    style.colour_words(axes[0], styles, loc="center left", bbox_to_anchor=(0, 0.43))
    noise = frame[frame["source"] == "weight noise"].set_index("n")["sharpness"]
    found = ", ".join(f"{value:.2g} at n = {n}" for n, value in noise.items())
    fig.suptitle(f"PARITY can be flat: weight noise finds {found}" if found else "Weight noise found no flat PARITY")
    return fig


@style.drawing
def orbit(frame: pd.DataFrame) -> Figure:
    """One function, many weights: blowup against norm along the symmetry with trained runs, and the two products."""
    along, runs = frame[frame["kind"] == "orbit"], frame[(frame["kind"] == "trained") & frame["converged"]]
    fig, axes = style.panels(2, 3.3, share=False)
    for name, part in along.groupby("function", sort=False):
        axes[0].plot(part["norm"], part["blowup"], color=FUNCTIONS[name], lw=1.5)
    for decay, part in runs.groupby("decay"):
        sns.scatterplot(part, x="norm", y="blowup", hue="function", palette=FUNCTIONS, ax=axes[0], s=26, legend=False)
        place = part[["norm", "blowup"]].mean()
        axes[0].annotate(f"decay {decay:g}", tuple(place), (9, 0), textcoords="offset points", fontsize=8, va="center")
    axes[0].set(xscale="log", yscale="log", xlabel=QUANTITIES["norm"], ylabel=QUANTITIES["blowup"])
    names = {f"one {name}, rescaled": FUNCTIONS[name] for name in along["function"].unique()}
    style.colour_words(axes[0], names, loc="lower left")
    style.plain_log_ticks(axes[0].xaxis)
    parity = along[along["function"] == "PARITY"]
    axes[1].plot(parity["scale"], parity["product"], color=style.SIGNAL, marker="o", ms=3)
    axes[1].plot(parity["scale"], 10 ** parity["least"], color=style.INK, ls="--")
    axes[1].set(xscale="log", yscale="log", xlabel="scale c of the rescaled weights", ylabel="norm × blowup²")
    style.ticks_at(axes[1].xaxis, [0.25, 0.5, 1, 2, 4, 8])
    axes[1].annotate("norm × blowup²", (parity["scale"].iloc[1], parity["product"].iloc[1]), (6, 0), color=style.SIGNAL,
                     textcoords="offset points", fontsize=9)  # fmt: skip
    axes[1].annotate("least product, invariant", (parity["scale"].iloc[-1], 10 ** parity["least"].iloc[-1]), (0, 5),
                     textcoords="offset points", ha="right", fontsize=9)  # fmt: skip
    decades = np.log10(parity["product"].max() / parity["product"].min())
    fig.suptitle(f"The same outputs, {decades:.0f} powers of ten apart in norm × blowup²")
    return fig


@style.drawing
def ladder(frame: pd.DataFrame, budget: int) -> Figure:
    """Updates to learn and sharpness against average sensitivity: k-parities with a line, other functions by name."""
    shown = frame.assign(updates_=frame["learned"].clip(upper=1.2 * budget), learns=np.isfinite(frame["learned"]))
    fig, axes = style.panels(2, 3.4, share=False)
    for ax, part, y, centre in ((axes[0], shown, "updates_", "median"), (axes[1], shown[shown["converged"]],
                                "sharpness", "mean")):  # fmt: skip
        parities, others = part[part["k"] > 0], part[part["k"] == 0]
        sns.scatterplot(parities, x="sensitivity", y=y, hue="learns", palette={True: style.SIGNAL, False: style.BLIND},
                        s=18, alpha=0.6, linewidth=0, ax=ax, legend=False)  # fmt: skip
        sns.lineplot(parities, x="sensitivity", y=y, estimator=centre, errorbar=None, color=style.SIGNAL, ax=ax)
        sns.scatterplot(others, x="sensitivity", y=y, color=style.ORANGE, marker="D", s=22, ax=ax, linewidth=0)
        for place, (name, group) in enumerate(others.groupby("function")):  # in turn above and below, to keep apart
            height, offset, side = (group[y].min(), -6, "top") if place % 2 else (group[y].max(), 5, "bottom")
            ax.annotate(name, (group["sensitivity"].iloc[0], height), (0, offset), textcoords="offset points",
                        ha="center", va=side, fontsize=8.5)  # fmt: skip
        ax.set(xlabel="average sensitivity", yscale="log")
        style.plain_log_ticks(ax.yaxis)
    axes[0].axhline(budget, color=style.STATED, ls=":", lw=1)
    axes[0].annotate("never", (1, 1.2 * budget), (0, -3), textcoords="offset points", va="top", color=style.BLIND,
                     fontsize=9)  # fmt: skip
    axes[0].set_ylabel("updates to learn")
    axes[1].set_ylabel("sharpness, converged runs")
    parities = shown[shown["k"] > 0]
    hardest = int(parities.groupby("k")["updates_"].median().idxmax())
    sharpest = parities[parities["converged"]].groupby("k")["sharpness"].mean()
    title = f"Of the k-parities k = {hardest} is hardest"
    fig.suptitle(title + (f", k = {int(sharpest.idxmax())} sharpest" if len(sharpest) else ""))
    return fig


@style.drawing
def course(frame: pd.DataFrame, n: int) -> Figure:
    """Loss, sharpness and blowup of PARITY runs over time, a line per seed."""
    fig, axes = style.panels(3, 3.0, share=False)
    for ax, quantity in zip(axes, ("loss", "sharpness", "blowup"), strict=True):
        sns.lineplot(frame, x="update", y=quantity, units="seed", estimator=None, color=style.SIGNAL, lw=1, alpha=0.7,
                     ax=ax)  # fmt: skip
        ax.set(ylabel=QUANTITIES.get(quantity, quantity))
        ax.locator_params(axis="x", nbins=4)
    axes[0].set(yscale="log")
    axes[0].axhline(0.25, color=style.STATED, ls=":", lw=1)
    axes[2].set(yscale="log")
    style.plain_log_ticks(axes[2].yaxis)
    axes[1].set(ylim=(0, None))
    fig.suptitle(f"PARITY of {n} bits over time, {frame['seed'].nunique()} runs")
    return fig


@style.drawing
def bias(frame: pd.DataFrame, n: int) -> Figure:
    """Left: average sensitivity of learned tables and of coins by K. Right: sharpness when both are learned whole."""
    fits, refits = (
        frame[frame["kind"] == "fit"],
        frame[(frame["kind"] == "refit") & frame["converged"].fillna(False).astype(bool)],
    )
    colours = {"learned": style.SIGNAL, "filled by coins": style.ORANGE}
    fig, axes = style.panels(2, 3.2, ratios=[1.3, 1], share=False)
    for ax, part, x, y in ((axes[0], fits, "labels", "sensitivity"), (axes[1], refits, "table", "sharpness")):
        order = None if x == "labels" else list(colours)
        part = part.assign(labels=part["labels"].astype(int).astype(str))
        sns.stripplot(part, x=x, y=y, hue="table", palette=colours, hue_order=list(colours), order=order, ax=ax, size=5,
                      alpha=0.7, dodge=x == "labels", legend=False)  # fmt: skip
    axes[0].axhline(n / 2, color=style.INK, ls=":", lw=1)
    axes[0].annotate("n / 2", (1, n / 2), (0, 3), xycoords=axes[0].get_yaxis_transform(), textcoords="offset points",
                     ha="right", fontsize=9)  # fmt: skip
    axes[0].set(xlabel=f"labels shown, of {2**n}", ylabel="average sensitivity", ylim=(0, None))
    for name, height in (("filled by coins", 0.86), ("learned", 0.5)):
        axes[0].annotate(name, (0.02, height), xycoords="axes fraction", color=colours[name], fontsize=9)
    axes[1].set(xlabel="table learned whole", ylim=(0, None))
    fig.suptitle("What a transformer fills in, and what coins do")
    return fig


@style.drawing
def random_weights(frame: pd.DataFrame) -> Figure:
    """Sensitivity of models with random weights against layers, a panel per start: means with 95 % intervals."""
    starts = list(dict.fromkeys(frame["start"]))
    fig, axes = style.panels(len(starts), 3.1)
    for ax, start in zip(axes, starts, strict=True):
        part = frame[frame["start"] == start]
        sns.stripplot(part, x="layers", y="sensitivity", hue="kind", palette=KIND_COLOURS, ax=ax, dodge=True, size=2,
                      alpha=0.35, legend=False)  # fmt: skip
        sns.pointplot(part, x="layers", y="sensitivity", hue="kind", palette=KIND_COLOURS, ax=ax, dodge=0.4,
                      capsize=0.1, linestyles="none", markersize=5, legend=False)  # fmt: skip
        ax.set(xlabel="layers", ylabel="average sensitivity / n", ylim=(-0.02, None))
        ax.set_title(start, fontweight="normal")
    style.colour_words(axes[0], KIND_COLOURS, loc="upper left")
    fig.suptitle("Random transformers and random LSTMs, by start and depth")
    return fig


@style.drawing
def scratchpads(frame: pd.DataFrame) -> Figure:
    """Sharpness and updates to learn against length, with and without running parities."""
    colours = {"with a scratchpad": style.REPAIRED, "answer alone": style.SIGNAL}
    fig, axes = style.panels(2, 3.2, share=False)
    for ax, quantity, label in ((axes[0], "sharpness", "sharpness"), (axes[1], "learned", "updates to learn")):
        shown = frame[frame["way"].isin(colours) & np.isfinite(frame[quantity])]
        sns.pointplot(shown, x="n", y=quantity, hue="way", palette=colours, hue_order=list(colours), ax=ax,
                      markersize=5, errorbar=("pi", 100), native_scale=True, linestyles="none",
                      legend=False)  # fmt: skip
        ax.set(xlabel="length n", ylabel=label, xscale="log")
        style.ticks_at(ax.xaxis, [n for n in (4, 8, 16, 32, 64) if n <= frame["n"].max()])
    axes[0].set(ylim=(0, None))
    axes[1].set(yscale="log")
    style.plain_log_ticks(axes[1].yaxis)
    style.colour_words(axes[1], colours, loc="upper left")
    written = frame[frame["way"] == "with a scratchpad"].groupby("n")["sharpness"].mean()
    said = ", ".join(f"sharpness {value:.2f} at n = {n}" for n, value in written.tail(1).items())
    fig.suptitle(f"With its running parities written out: {said}")
    return fig


def _by_function(frame: pd.DataFrame, quantity: str, ax: Axes, **how: object) -> None:
    """Means of a quantity against length, a line per function."""
    sns.lineplot(frame, x="n", y=quantity, hue="function", hue_order=list(FUNCTIONS), palette=FUNCTIONS, errorbar=None,
                 ax=ax, **how)  # fmt: skip


def _error_bars(frame: pd.DataFrame, ax: Axes) -> None:
    for name, part in frame.groupby("function"):
        ax.errorbar(part["n"], part["sharpness"], 1.96 * part["error"], fmt="none", ecolor=FUNCTIONS[name], lw=1)

"""Figures of the essay ``sensitivity``: frames in, figures out."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from . import style

FUNCTIONS = {"PARITY": style.SIGNAL, "MAJORITY": style.ORANGE, "MEAN": style.SKY, "FIRST": style.STATED}
QUANTITIES = {"sharpness": "sharpness", "norm": "norm of the parameters", "blowup": "layer-norm blowup"}


@style.drawing
def constructed(frame: pd.DataFrame) -> Figure:
    """Sharpness, norm and blowup of the constructions against length."""
    fig = style.curves(style.medians, frame, "n", QUANTITIES, FUNCTIONS, hue="function", log=("x", "norm", "blowup"),
                       ticks=[4, 16, 64, 256], xlabel="length n", errorbar=None, marker="o", markersize=4)  # fmt: skip
    fig.axes[0].set(ylim=(0, None))
    for name, part in frame.groupby("function"):
        fig.axes[0].errorbar(part["n"], part["sharpness"], 1.96 * part["error"], fmt="none", ecolor=FUNCTIONS[name],
                             lw=1)  # fmt: skip
    ends = frame[frame["function"] == "PARITY"].sort_values("n")[["norm", "blowup"]].iloc[[0, -1]]
    grown, blown = ends.iloc[1] / ends.iloc[0]
    text = f"Written down for any length; PARITY's norm grows {grown:.0f}-fold, blowup stays"
    return style.finding(fig, grown > 1.5 and 0.8 < blown < 1.25, text, "Written down, by length")


@style.drawing
def lengths(frame: pd.DataFrame) -> Figure:
    """Converged runs against length: every run a dot, means joined; how many PARITY runs converged on top."""
    good, shown = frame[frame["converged"]], {name: QUANTITIES[name] for name in ("sharpness", "blowup")}
    fig = style.curves(style.medians, good, "n", shown, FUNCTIONS, hue="function", log=["blowup"], height=3.3,
                       ratios=[1.2, 1], xlabel="length n", estimator="mean", errorbar=None)  # fmt: skip
    for ax, quantity in zip(fig.axes, shown, strict=True):
        sns.scatterplot(good, x="n", y=quantity, hue="function", palette=FUNCTIONS, ax=ax, s=16, alpha=0.55,
                        legend=False)  # fmt: skip
    first = fig.axes[0]
    first.set(ylim=(0, None))
    parity = frame[frame["function"] == "PARITY"].groupby("n")["converged"].agg(["sum", "count"])
    for place, (n, (passed, started)) in enumerate(parity.iterrows()):  # in turn lower and higher, to keep apart
        first.text(n, 1 + 0.06 * (place % 2), f"{passed}/{started}", transform=first.get_xaxis_transform(),
                   ha="center", va="bottom", color=style.SIGNAL, fontsize=8.5)  # fmt: skip
    ends = good[good["function"] == "PARITY"].groupby("n")["sharpness"].mean()
    if not len(ends):
        return style.finding(fig, True, "No PARITY run converged", "")
    span = ", ".join(f"{ends[n]:.2f} at n = {n}" for n in ends.index[[0, -1]])
    sharper = ends.iloc[-1] > ends.iloc[0]
    return style.finding(fig, sharper, f"PARITY's minima sharpen with length: {span}", f"Sharpness of PARITY: {span}")


@style.drawing
def mechanism(frame: pd.DataFrame) -> Figure:
    """Left against right side of the inequality, a dot a model and a perturbation; all lie above the diagonal."""
    fig, (ax,) = style.panels(1, 3.6, width=0.72 * style.FULL)
    low, high, marks = 1e-8, 10.0, {"trained": "o", "constructed": "^"}
    shown = frame.assign(right=frame["right"].clip(lower=low), left=frame["left"].clip(lower=low))
    if shown.empty:
        style.blank(ax)
    else:
        sns.scatterplot(shown, x="right", y="left", hue="function", hue_order=list(FUNCTIONS), palette=FUNCTIONS,
                        style="kind", markers=marks, s=26, alpha=0.5, linewidth=0, legend=False, ax=ax)  # fmt: skip
    ax.plot([low, high], [low, high], color=style.INK, lw=1)
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(1e-5, high),
           xlabel="(√as T − √as T′)² / n, the lower bound", ylabel="E (T − T′)², the rise of the loss")  # fmt: skip
    style.colour_words(ax, FUNCTIONS | dict.fromkeys(marks, style.INK), marks, loc="lower right")
    below = int((frame["left"] < frame["right"]).sum())
    ax.set_title(f"{below} of {len(frame)} perturbed models fall below the bound")
    return fig


@style.drawing
def frontier(frame: pd.DataFrame) -> Figure:
    """Sharpness of PARITY by where it comes from, against length and against norm, with FIRST by weight noise."""
    styles = {"written down": style.STATED, "AdamW": style.SIGNAL, "weight noise": style.REPAIRED,
              "FIRST, weight noise": style.ORANGE}  # fmt: skip
    fig, axes = style.panels(2, 3.3, share=False)
    for ax, x, ticks in zip(axes, ("n", "norm"), ([8, 16, 32], [10, 20, 30]), strict=True):
        sns.scatterplot(frame, x=x, y="sharpness", hue="source", hue_order=list(styles), palette=styles, ax=ax, s=26,
                        alpha=0.8, linewidth=0, legend=False)  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel=QUANTITIES.get(x, "length n"), ylabel="sharpness")
        style.ticks_at(ax.xaxis, ticks)
    noise = frame[(frame["source"] == "weight noise") & frame["flattest"]]
    for row in noise.itertuples():
        style.say(axes[1], row.norm, row.sharpness, f"n = {row.n}", style.REPAIRED, (3, -9))
    if style.is_narrow():
        style.colour_words(axes[0], styles)
    else:
        style.colour_words(axes[1], styles, loc="center left", bbox_to_anchor=(0, 0.42))  # where no run is
    usual = frame[frame["source"] == "AdamW"].groupby("n")["sharpness"].mean()
    times = (usual / noise.set_index("n")["sharpness"]).max()
    found = f"Weight noise finds PARITY up to {times:.0f} times flatter than AdamW does"
    otherwise = "Weight noise finds no flatter PARITY than AdamW" if times <= 1 else "Sharpness of PARITY by its source"
    return style.finding(fig, times > 1, found, otherwise)


@style.drawing
def orbit(frame: pd.DataFrame) -> Figure:
    """One function, many weights: blowup against norm along the symmetry with trained runs, and the two products."""
    along, runs = frame[frame["kind"] == "orbit"], frame[(frame["kind"] == "trained") & frame["converged"]]
    fig, axes = style.panels(2, 3.3, share=False)
    for name, part in along.groupby("function", sort=False):
        axes[0].plot(part["norm"], part["blowup"], color=FUNCTIONS[name], lw=1.5)
    for decay, part in runs.groupby("decay"):
        sns.scatterplot(part, x="norm", y="blowup", hue="function", palette=FUNCTIONS, ax=axes[0], s=26, legend=False)
        style.say(axes[0], part["norm"].mean(), part["blowup"].mean(), f"decay {decay:g}", shift=(9, 0), fontsize=8)
    axes[0].set(xscale="log", yscale="log", xlabel=QUANTITIES["norm"], ylabel=QUANTITIES["blowup"])
    names = {f"one {name}, rescaled": FUNCTIONS[name] for name in along["function"].unique()}
    style.colour_words(axes[0], names, loc="lower left")
    parity = along[along["function"] == "PARITY"]
    axes[1].plot(parity["scale"], parity["product"], color=style.SIGNAL, marker="o", ms=3)
    axes[1].plot(parity["scale"], 10 ** parity["least"], color=style.INK, ls="--")
    axes[1].set(xscale="log", yscale="log", xlabel="scale c of the rescaled weights", ylabel="norm × blowup²")
    style.ticks_at(axes[1].xaxis, [0.25, 0.5, 1, 2, 4, 8])
    second, last = parity.iloc[1], parity.iloc[-1]
    style.say(axes[1], second["scale"], second["product"], "norm × blowup²", style.SIGNAL, (6, 3))
    style.say(axes[1], last["scale"], 10 ** last["least"], "least product with 1 + 1/std", shift=(0, 9), ha="right")
    decades = np.log10(parity["product"].max() / parity["product"].min())
    fig.suptitle(f"The same outputs, {decades:.0f} powers of ten apart in norm × blowup²")
    return fig


@style.drawing
def scratchpads(frame: pd.DataFrame) -> Figure:
    """Sharpness and updates to learn against length, with and without running parities."""
    colours = {"with a scratchpad": style.REPAIRED, "answer alone": style.SIGNAL}
    fig, axes = style.panels(2, 3.2, share=False)
    for ax, quantity, label in ((axes[0], "sharpness", "sharpness"), (axes[1], "learned", "updates to learn")):
        shown = frame[frame["way"].isin(colours) & np.isfinite(frame[quantity])]
        sns.pointplot(shown, x="n", y=quantity, hue="way", palette=colours, hue_order=list(colours), markersize=5,
                      errorbar=("pi", 100), native_scale=True, linestyles="none", legend=False, ax=ax)  # fmt: skip
        ax.set(xlabel="length n", ylabel=label, xscale="log")
        style.ticks_at(ax.xaxis, [n for n in (4, 8, 16, 32, 64) if n <= frame["n"].max()])
    axes[0].set(ylim=(0, None))
    axes[1].set(yscale="log")
    style.colour_words(axes[1], colours, loc="upper left")
    written = frame[frame["way"] == "with a scratchpad"].groupby("n")["sharpness"].mean()
    said = ", ".join(f"sharpness {value:.2f} at n = {n}" for n, value in written.tail(1).items())
    fig.suptitle(f"With its running parities written out: {said}")
    return fig

"""Figures of the chapter ``robustness``: every sweep as small multiples, in percent of runs, with Wilson bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from .style import (
    BLIND,
    CODE,
    COLUMN,
    FULL,
    REPAIRED,
    SERIES,
    SIGNAL,
    STATED,
    label_lines,
    medians,
    percent,
    plain_log_ticks,
    success_lines,
    ticks_at,
    wilson_percent,
)

AVERAGING, SAMPLING = "heads that average", "heads that sample"
STATED_SMOOTHER = "#A6A6A6"


def success_curves(
    frame: pd.DataFrame,
    x: str,
    series: str,
    colours: Mapping[str, str],
    *,
    panel: str | None = None,
    titles: Mapping[Any, str] | None = None,
    success: str = "committed",
    log: bool = False,
) -> Figure:
    """Success in percent against ``x``, a line for every value of ``series`` in the order of ``colours``.

    ``panel`` is a column with a panel for each of its values, called as ``titles`` say.
    """
    panels = [None] if panel is None else list(titles or frame[panel].unique())
    fig, axes = plt.subplots(1, len(panels), figsize=(FULL if len(panels) > 1 else 6.2, 3.1), sharey=True)
    for ax, value in zip([axes] if len(panels) == 1 else axes, panels, strict=True):
        part = frame if panel is None else frame[frame[panel] == value]
        shown = [name for name in colours if name in set(part[series])]
        success_lines(part, x, success, hue=series, hue_order=shown, palette=dict(colours), ax=ax)
        if log:
            ax.set_xscale("log")
        ticks_at(ax.xaxis, frame[x])
        ax.set(title=(titles or {}).get(value, str(value)) if panel else "", xlabel=x)
        if ax.get_subplotspec().is_last_col():
            label_lines(ax)
        elif ax.get_legend() is not None:
            ax.get_legend().remove()
    return fig


def _finding(fig: Figure, holds: bool, text: str, otherwise: str) -> Figure:
    """Title of a figure of several panels: the finding where it is true of the frame, else what is shown."""
    fig.suptitle(text if holds else otherwise, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    return fig


def _share(frame: pd.DataFrame, column: str = "committed", **where: Any) -> float:
    """Share of the rows with the given values that succeed; nan if there are none."""
    for key, value in where.items():
        frame = frame[frame[key] == value]
    return float(frame[column].mean())


def by_k(frame: pd.DataFrame) -> Figure:
    """Committed success against k, without and with cyclic neighbours."""
    names = {
        ("theory", 0.01): "the theorem's recipe",
        ("figure2-signed", 0.01): "the authors' loss",
        ("repaired", 0.01): SAMPLING,
    }
    label = [
        names.get((recipe, b), f"... with b = {b:g}")
        for recipe, b in zip(frame["recipe"], frame["smoothing"], strict=True)
    ]
    named = frame.assign(series=label)
    smoother = next((name for name in label if name.startswith("...")), "...")
    colours = {
        SAMPLING: REPAIRED,
        "the authors' loss": CODE,
        smoother: STATED_SMOOTHER,
        "the theorem's recipe": STATED,
    }
    titles = {False: "no neighbours in B", True: "neighbours in B"}
    fig = success_curves(named, "k", "series", colours, panel="neighbours", titles=titles)
    for ax in fig.axes:
        ax.set_xlabel("number of bits k")
    sampled = _share(named, series=SAMPLING)
    averaged = _share(named[named["k"] > 1], series="the authors' loss", neighbours=True)
    text = "Only heads that sample commit for every k, with neighbours as without"
    return _finding(fig, sampled > 0.95 and averaged < 0.5, text, "Runs that commit, by number of bits")


def by_distance(frame: pd.DataFrame) -> Figure:
    """Success against the distance of the closest two bits; for averaging heads by arg-max too."""
    frame = frame[frame["drawn"]]
    average = frame[frame["recipe"] == "figure2-signed"]
    by_argmax = "... by arg-max alone"
    long = pd.concat(
        [
            frame[frame["recipe"] == "repaired"].assign(series=SAMPLING, success=lambda f: f["committed"]),
            average.assign(series=by_argmax, success=average["recovered"]),
            average.assign(series=AVERAGING, success=average["committed"]),
        ]
    )
    colours = {SAMPLING: REPAIRED, AVERAGING: CODE, by_argmax: STATED}
    fig = success_curves(long, "distance", "series", colours, success="success")
    near, hard = _share(average, distance=1), _share(average, "recovered", distance=1)
    text = "Neighbours are where heads that average do not commit"
    far = _share(average[average["distance"] > 2])
    fig.axes[0].set(xlabel="distance of the closest two bits on the circle")
    return _finding(fig, near < 0.5 < hard and far > 0.8, text, "Success by the distance of the closest bits")


def soft_and_hard(frame: pd.DataFrame) -> Figure:
    """Soft solutions of Proposition 21, each a dot: the best attention that its weakest bit gets."""
    names = {"apart": "no neighbours", "around": "only n and 1", "close": "other neighbours"}
    shown = frame.assign(
        kind=frame["kind"].map(names),
        read=frame["recovered"].map({True: "arg-max is B", False: "arg-max is not B"}),
    )
    fig, ax = plt.subplots(figsize=(6.2, 3.1))
    order = [name for name in names.values() if name in set(shown["kind"])]
    palette = {"arg-max is B": SIGNAL, "arg-max is not B": BLIND}
    sns.stripplot(
        shown, x="kind", y="weakest", hue="read", order=order, hue_order=list(palette), palette=palette,
        size=3, alpha=0.6, jitter=0.32, ax=ax,
    )  # fmt: skip
    ax.axhline(0.5, color=STATED, lw=1, ls=":")
    ax.set(xlabel="neighbours in B", ylabel="best attention on\nthe weakest bit", ylim=(0, 1.03))
    ax.legend(title=None, loc="lower left")
    apart, around = (frame[frame["kind"] == kind] for kind in ("apart", "around"))
    holds = len(around) > 0 and bool(apart["proper"].all()) and not around["proper"].any()
    return _finding(fig, holds, "Positions n and 1 are neighbours too", "Soft solutions read with hard attention")


POWERS = {-2: "1/n²", -1.5: "n⁻¹·⁵", -1: "1/n", -0.5: "1/√n", 0: "1", 0.5: "√n", 1: "n"}


def by_temperature(frame: pd.DataFrame) -> Figure:
    """Committed success against the temperature, at a fixed learning rate and at one in proportion."""
    names = {"figure2-signed": AVERAGING, "repaired": SAMPLING}
    named = frame.assign(series=frame["recipe"].map(names))
    colours = {SAMPLING: REPAIRED, AVERAGING: CODE}
    titles = {"fixed": "learning rate as in the recipe", "proportional": "learning rate times temperature"}
    fig = success_curves(named, "power", "series", colours, panel="rate", titles=titles)
    at = sorted(frame["power"].unique())
    for ax in fig.axes:
        ax.set_xticks(at, [POWERS.get(p, f"n^{p:g}") for p in at], fontsize=8)
        ax.set_xlabel("temperature")
    cold = frame[frame["power"] == -1]
    holds = _share(cold, recipe="repaired", rate="fixed") > 0.9 > 0.5 > _share(cold, recipe="figure2-signed")
    text = "Cold heads that average feel no gradient; heads that sample do"
    return _finding(fig, holds, text, "Runs that commit, by temperature")


def by_heads(frame: pd.DataFrame, k: int) -> Figure:
    """Number of heads: what is read off heads or weights (left), and how much of the risk is closed (right)."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(FULL, 3.1))
    names = {"by_weights": "largest summed\nweights are B", "committed": "committed"}
    long = frame.melt(["heads"], list(names), var_name="series", value_name="success")
    long = long.assign(series=long["series"].map(names))
    palette = dict(zip(names.values(), (SIGNAL, CODE), strict=True))
    success_lines(long, "heads", "success", hue="series", palette=palette, ax=left)
    label_lines(left)
    shown = frame.assign(closed=100 * frame["closed"])
    sns.stripplot(shown, x="heads", y="closed", color=CODE, size=2.5, alpha=0.5, jitter=0.3, ax=right)
    sns.pointplot(
        shown, x="heads", y="closed", estimator="median", errorbar=None, ls="none", marker="_",
        markersize=16, color="black", ax=right,
    )  # fmt: skip
    left.axvspan(k - 0.15, k + 0.15, color=REPAIRED, alpha=0.15, lw=0)
    left.set(title="what is found", xlabel=f"heads (green: as many as bits, {k})")
    right.set(title="how far each run gets", xlabel="heads", ylabel="gap to the least risk closed, %")
    few = frame[frame["heads"] < k]["committed"].mean()
    enough, spare = (_share(frame[rows], "by_weights") for rows in (frame["heads"] == k, frame["heads"] > k))
    text = "One head per bit is enough, and spare heads do no harm to the sum"
    return _finding(fig, few == 0 and enough > 0.8 and spare > 0.8, text, "Success by number of heads")


def by_batch(frame: pd.DataFrame, inputs: int) -> Figure:
    """Committed success against the number of examples per update; ``inputs`` is the exact gradient."""
    names = {"figure2-signed": "the authors' loss", "product-head": SAMPLING}
    named = frame.assign(series=frame["recipe"].map(names), examples=frame["batch"])
    colours = {SAMPLING: REPAIRED, "the authors' loss": CODE}
    fig = success_curves(named, "examples", "series", colours, log=True)
    batches = sorted(frame["batch"].unique())
    fig.axes[0].set_xticks(batches, ["all" if b == inputs else f"{b:,}".replace(",", " ") for b in batches])
    fig.axes[0].set(xlabel="examples per update")
    least = frame["batch"].min()
    holds = (
        _share(frame, batch=least, recipe="product-head")
        > 0.8
        > 0.2
        > _share(frame, batch=least, recipe="figure2-signed")
    )
    text = f"Heads that sample learn from batches of {least}"
    return _finding(fig, holds, text, "Runs that commit, by batch size")


def by_length(frame: pd.DataFrame) -> Figure:
    """Heads that sample by n: what is found (left), and when the arg-max settles on B (right)."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(FULL, 3.1))
    many, circle, one = "many frequencies", "circle, arg-max", "circle, committed"
    code = frame["code"].map({"powers": many, "circle": one})
    long = pd.concat(
        [
            frame.assign(series=code, success=frame["committed"]),
            frame[frame["code"] == "circle"].assign(series=circle, success=lambda f: f["recovered"]),
        ]
    )
    palette = {many: REPAIRED, circle: "#56B4E9", one: SIGNAL}
    success_lines(long, "n", "success", hue="series", hue_order=list(palette), palette=palette, ax=left)
    settled = frame[frame["settled"] < float("inf")].assign(series=code)
    settled = settled.assign(settled=settled["settled"].clip(lower=1))
    medians(settled, "n", "settled", hue="series", hue_order=[many, one], palette=palette, ax=right)
    right.set(yscale="log", title="when the arg-max settles on B", ylabel="update")
    plain_log_ticks(right.yaxis)
    left.set(title="what is found")
    for ax in (left, right):
        ax.set(xscale="log", xlabel="number of positions n")
        ticks_at(ax.xaxis, frame["n"])
        ax.tick_params(axis="x", labelsize=8, rotation=35)
    label_lines(left)
    label_lines(right, {one: "circle"})
    last = frame[frame["n"] == frame["n"].max()]
    holds = _share(last, code="powers") > 0.9 and _share(last, "recovered", code="circle") > 0.9
    text = f"With exact gradients the bits are found up to n = {frame['n'].max()}"
    return _finding(fig, holds, text, "Heads that sample, by number of positions")


def price(frame: pd.DataFrame, exponents: Mapping[int, float]) -> Figure:
    """The first gradient of heads that sample, and its price in examples, against n; one line per k."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(FULL, 3.1))
    named = frame.assign(series="k = " + frame["k"].astype(str))
    palette = dict(zip(named["series"].unique(), SERIES, strict=False))
    for ax, column in ((left, "gradient"), (right, "price")):
        medians(named, "n", column, hue="series", palette=palette, ax=ax)
        ax.set(xscale="log", yscale="log", xlabel="number of positions n")
        ticks_at(ax.xaxis, frame["n"])
        ax.tick_params(axis="x", labelsize=8, rotation=35)
        label_lines(ax)
    left.set(title="first gradient, exact", ylabel="norm")
    right.set(title="examples that one such gradient costs", ylabel="examples")
    holds = all(abs(value - k) < 0.3 for k, value in exponents.items())
    return _finding(
        fig, holds, "A first gradient costs about nᵏ examples", "The first gradient, by number of positions"
    )


def ladder(frame: pd.DataFrame, steps: Mapping[str, str]) -> Figure:
    """Committed success of every step of the ladder of repairs, all k together, without and with neighbours."""
    fig, ax = plt.subplots(figsize=(FULL, 0.33 * len(steps) + 1.2))
    names = {False: "no neighbours", True: "neighbours"}
    shown = percent(frame, "committed").assign(series=frame["neighbours"].map(names))
    palette = {"no neighbours": SIGNAL, "neighbours": BLIND}
    sns.pointplot(
        shown, y="step", x="committed", hue="series", order=list(steps), hue_order=list(palette), palette=palette,
        errorbar=wilson_percent, ls="none", dodge=0.35, capsize=0.15, markersize=4, err_kws={"linewidth": 1.3}, ax=ax,
    )  # fmt: skip
    ax.set_yticks(range(len(steps)), list(steps.values()))
    ax.set(xlabel="runs that commit, %", ylabel="", xlim=(-3, 103))
    ax.legend(title=None, loc="upper left")
    best = frame[frame["step"] == "sampled"]["committed"].mean()
    zigzag = _share(frame, step="signed", neighbours=True)
    text = "Neighbours are what averaging heads cannot tell apart"
    return _finding(fig, best > 0.95 and zigzag < 0.3, text, "What each change buys")


def functions(frame: pd.DataFrame) -> Figure:
    """Share of runs that learn each function of three bits, by what the fitted read-out may combine."""
    fig, ax = plt.subplots(figsize=(COLUMN + 1.4, 2.6))
    shown = percent(frame, "learned")
    sns.pointplot(
        shown, y="function", x="learned", hue="readout", palette=[STATED, SIGNAL], errorbar=wilson_percent,
        ls="none", dodge=0.3, capsize=0.12, markersize=5, err_kws={"linewidth": 1.3}, ax=ax,
    )  # fmt: skip
    ax.set(xlabel="runs that learn it, %", ylabel="", xlim=(-3, 103))
    sns.move_legend(ax, "upper left", bbox_to_anchor=(1, 1), title="read-out of")
    by_sum = {
        name: _share(frame, "learned", function=name, readout="sum") for name in ("AND", "majority", "polynomial")
    }
    holds = min(by_sum["AND"], by_sum["majority"]) > 0.7 > 0.3 > by_sum["polynomial"]
    text = "Functions of a sum are learned from the sum"
    return _finding(fig, holds, text, "Other functions of three bits")

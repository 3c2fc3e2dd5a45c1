"""Figures of the page ``lemmas``: Theorem 5 in numbers."""

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
    """Solved pairs in percent over smoothing, a row for every k and n: how the window moves; neighbours apart."""
    cells = style.percent(found, "solved").pivot_table("solved", ["neighbours", "k", "n"], "smoothing")
    lengths = {k: sorted(part["n"].unique()) for k, part in found.groupby("k")}
    rows = [(k, n) for k in lengths for n in [*lengths[k], None]][:-1]  # None: a gap
    labels = ["" if n is None else f"k = {k},  n = {n}" if n == lengths[k][0] else str(n) for k, n in rows]
    titles = {False: "bits apart", True: "with neighbours"}
    fig, parts = style.panels_by(found, "neighbours", titles, 0.24 * len(rows) + 0.6, keep=True)
    for ax, near, _ in parts:
        shown = cells.loc[near].reindex(pd.MultiIndex.from_tuples(rows)).set_axis(labels)
        style.heat(shown.rename(columns="{:g}".format), ax, vmin=0, vmax=100, annot=True, fmt=".0f", cmap="viridis",
                   yticklabels=labels, annot_kws={"size": 7.5})  # fmt: skip
        ax.set(xlabel="smoothing b", ylabel="")
        ax.tick_params(axis="x", labelsize=7.5)
        ax.grid(visible=False)
        if near and 1 in lengths:
            ax.text(shown.shape[1] / 2, len(lengths[1]) / 2, "one bit has no neighbours", ha="center", va="center",
                    color=style.STATED)  # fmt: skip
    best = cells.max(axis=1).unstack("neighbours").reindex(columns=[False, True])  # nan where there are no such sets
    pairs = [best.loc[k] for k in lengths if k > 1]
    closes = [part[False].iloc[0] > 70 and part[False].iloc[-1] < 50 for part in pairs]
    holds = bool(pairs) and all(closes) and all((part[False] <= part[True]).all() for part in pairs)
    text = "From two bits on the window of smoothings closes as n grows, first for bits apart"
    return style.finding(fig, holds, text, "Solved pairs by smoothing, number of bits and of positions")


@style.drawing
def forces_by_length(found: pd.DataFrame) -> Figure:
    """Both forces of the squared hinge at the start, against n, at temperature 1/n and 1."""
    fig, parts = style.panels_by(found, "temperature", "temperature {}", share=False)
    for ax, _, rows in parts:
        part = rows[rows.groupby("n")["size"].transform(lambda values: values.notna().all())]  # no length half measured
        if part.empty:
            style.blank(ax)
            continue
        draw_forces(part, "n", ax, "gradient at the start")
        ax.set_xlabel("number of positions n")
        style.ticks_at(ax.xaxis, sorted(found["n"].unique())[::2])
    middle = found.dropna().groupby(["temperature", "force", "n"])["size"].median()
    fall = {key: part.iloc[-1] / part.iloc[0] for key, part in middle.groupby(["temperature", "force"])}
    cold, warm = (fall.get((temperature, "parity signal"), np.nan) for temperature in ("1/n", "1"))
    holds = cold < 1e-20 and warm > 1e-8
    text = "At temperature 1/n the parity signal vanishes with n; at 1 it falls like a power of n"
    return style.finding(fig, holds, text, "Both forces at the start, by number of positions")


@style.drawing
def aliases(found: pd.DataFrame) -> Figure:
    """Runs of the sigmoid hinge that rest between the bits: summed attention by position, a panel per k."""
    if found.empty:
        fig, _ = style.panels(1, 2.4)
        fig.suptitle("No run rests between the bits: no trap to show")
        return fig
    between = []  # whether a third is on every bit, and two thirds beside it
    fig, parts = style.panels_by(found, "k", "k = {}", 2.4)
    for ax, _, part in parts:
        sns.barplot(part, x="position", y="weight", hue="bit", palette={True: style.BIT, False: style.FAINT},
                    legend=False, ax=ax, native_scale=True)  # fmt: skip
        style.rule(ax, 1 / 3, colour=style.STATED)
        style.rule(ax, 2 / 3, colour=style.STATED)
        ax.set(ylabel="summed attention", ylim=(0, max(1.05, 1.05 * part["weight"].max())))
        ax.set_yticks([0, 1 / 3, 2 / 3, 1], ["0", "1/3", "2/3", "1"])
        weight, bit = (part.sort_values("position")[name].to_numpy() for name in ("weight", "bit"))
        beside = np.maximum(np.roll(weight, 1), np.roll(weight, -1))
        between += [*np.abs(weight[bit] - 1 / 3), *np.abs(beside[bit] - 2 / 3)]
    text = "Stuck between the bits: a third on each bit (green), two thirds beside it"
    return style.finding(fig, max(between) < 0.1, text, "At rest, and not on the bits (green)")


@style.drawing
def start_risk(found: pd.DataFrame) -> Figure:
    """Exact risk at the start by smoothing, at the c1 nearest to 1: medians and quartiles, a line for every k."""
    nearest = min(found["c1"].unique(), key=lambda c1: abs(np.log(c1)))
    at_one = found[found["c1"] == nearest]
    fig = style.curves(style.medians, at_one, "smoothing", "risk", hue="k", names="k = {}", log="x",
                       xlabel="smoothing b", ylabel="risk at the start"
                       + (f", c1 = {nearest:g}" if nearest != 1 else ""))  # fmt: skip
    (ax,) = fig.axes
    style.rule(ax, 1, "the paper: 1", style.STATED, "--")
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
    norm = LogNorm(positive.min() / 3, positive.max())
    style.heat(table.where(table > 0), ax, norm=norm, annot=table, fmt=".2g", cmap="viridis")
    for r, c in zip(*np.nonzero(table.to_numpy() <= 0), strict=True):
        ax.text(c + 0.5, r + 0.5, "0", ha="center", va="center", color=style.STATED)
    ax.set_xticklabels(["1: x", "2: 1 - x", "3: sin", "4: cos"])
    ax.set(xlabel="column (what it multiplies)", ylabel="row")
    moves = table.to_numpy() > 0
    holds = moves[0].all() and not moves[1:].any()
    return style.finding(fig, holds, "Only the first row moves, and all of it", "Mean size of the gradient, by entry")


@style.drawing
def pl_ratios(found: pd.DataFrame) -> Figure:
    """PL ratio against risk along gradient descent, a panel per k, a line per seed; Lemma 8's mu dashed."""
    fig, parts = style.panels_by(found, "k")
    for ax, k, part in parts:
        clipped, mu = part.assign(ratio=part["ratio"].clip(lower=1e-30)), part["mu"].iloc[0]
        sns.lineplot(clipped, x="risk", y="ratio", units="seed", estimator=None, sort=False, color=style.SIGNAL,
                     alpha=0.3, lw=0.7, ax=ax)  # fmt: skip
        ends = clipped[clipped["update"] == clipped["update"].max()]
        sns.scatterplot(ends, x="risk", y="ratio", color=style.BLIND, ax=ax)
        style.rule(ax, mu, "μ of Lemma 8", style.STATED, "--")
        ax.set(yscale="log", xlabel="risk", ylabel="½ |gradient|² / risk", xlim=(0, None),
               title=f"k = {k}: {100 * (ends['ratio'] < mu).mean():.0f} % of runs end below μ")  # fmt: skip
        ax.yaxis.set_minor_locator(NullLocator())
    return fig


@style.drawing
def constants(found: pd.DataFrame, names: dict[str, str]) -> Figure:
    """Largest measured value over stated constant against smoothing, a line per lemma, worst over k."""
    ratio = found["measured"] / found["stated"]
    worst = found.assign(ratio=ratio).groupby(["lemma", "smoothing"], sort=False)["ratio"].max().reset_index()
    short = {key: key.replace("lemma-", "Lemma ") for key in names}
    full = short if style.is_narrow() else {key: f"{short[key]}: {text}" for key, text in names.items()}
    fig = style.curves(style.medians, worst, "smoothing", "ratio", hue="lemma", names=full, log="xy", marker="o",
                       ticks=worst["smoothing"].unique()[::2], xlabel="smoothing b",
                       ylabel="largest measured / stated")  # fmt: skip
    style.rule(fig.axes[0], 1, colour=style.STATED, ls="--")
    broken = sorted(short[key] for key in worst.loc[worst["ratio"] > 1, "lemma"].unique())
    word = f"{' and '.join(broken)} {'fails' if len(broken) == 1 else 'fail'} at huge smoothing, the others hold"
    fig.axes[0].set_title(word if broken else "All constants hold")
    return fig

"""Figures of the chapter ``convergence``: the map of success, the two forces, and the lemmas."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from .style import BIT, BLIND, FULL, SERIES, SIGNAL, STATED, label_lines, medians, percent, success_lines, ticks_at

FORCES = {"label-free": BLIND, "parity signal": SIGNAL}


def success_map(found: pd.DataFrame, ks: tuple[int, ...] = (2, 3, 4)) -> Figure:
    """Solved pairs in percent over smoothing and c1, a panel for every k shown, at one step size."""
    one_step = found[found["step"] == found["step"].iloc[0]]
    shown = [k for k in ks if k in set(found["k"])]
    fig, axes = plt.subplots(1, len(shown), figsize=(FULL, 2.9), sharey=True, squeeze=False)
    for ax, k in zip(axes[0], shown, strict=True):
        part = one_step[one_step["k"] == k]
        table = percent(part, "solved").pivot_table(index="c1", columns="smoothing", values="solved", aggfunc="mean")
        sns.heatmap(table.sort_index(ascending=False), vmin=0, vmax=100, cmap="viridis", annot=True, fmt=".0f",
                    cbar=False, ax=ax, linewidths=0.5, annot_kws={"size": 9})  # fmt: skip
        title = f"k = {k}: up to {table.to_numpy().max():.0f} % solved"
        ax.set(title=title, xlabel="smoothing b", ylabel="")
        ax.set_xticklabels([f"{b:g}" for b in table.columns], rotation=0)
        ax.set_yticklabels([f"{c:g}" for c in sorted(table.index, reverse=True)], rotation=0)
    axes[0, 0].set_ylabel("c1 (temperature c1/n)")
    return fig


def window(found: pd.DataFrame) -> Figure:
    """Solved pairs against smoothing, a line for every n: how the window moves."""
    fig, ax = plt.subplots(figsize=(FULL, 3.0))
    shades = sns.color_palette("crest", found["n"].nunique())
    frame = found.assign(name="n = " + found["n"].astype(str))
    success_lines(frame, "smoothing", "solved", hue="name", palette=shades, ax=ax)
    largest = percent(found, "solved").groupby(["n", "smoothing"])["solved"].mean().groupby("n").max()
    closing = largest[largest < 50].index
    tail = f", and none from n = {closing.min()} on" if len(closing) else ""
    ax.set_title(f"Two bits: a window of smoothings{tail}")
    ax.set(xscale="log", xlabel="smoothing b", ylabel="solved, % of pairs")
    ticks_at(ax.xaxis, found["smoothing"])
    label_lines(ax)
    return fig


def two_forces(found: pd.DataFrame) -> Figure:
    """Both forces along training, a panel for every smoothing: medians and quartiles over the pairs."""
    panels = list(found.groupby("smoothing"))
    fig, axes = plt.subplots(1, len(panels), figsize=(FULL, 3.1), sharey=True, squeeze=False)
    for ax, (b, part) in zip(axes[0], panels, strict=True):
        drawn = part[part["update"] > 0]
        medians(drawn, "update", "size", hue="force", hue_order=list(FORCES), palette=FORCES, ax=ax)
        ax.set(xscale="log", yscale="log", xlabel="update", ylabel="")
        middle = part.groupby(["update", "force"])["size"].median().unstack()
        takes = middle["parity signal"] > 0.5 * middle["label-free"]
        ax.set_title(
            f"b = {b:g}: the signal " + ("takes over" if takes.iloc[len(takes) // 10 :].any() else "stays behind")
        )
        label_lines(ax)
        ax.set_xlim(drawn["update"].min(), 6 * drawn["update"].max())
    axes[0, 0].set_ylabel("length of the gradient")
    return fig


def forces_by_length(found: pd.DataFrame) -> Figure:
    """Both forces of the squared hinge at the start, against n, at temperature 1/n and 1."""
    fig, axes = plt.subplots(1, 2, figsize=(FULL, 3.0))
    for ax, (name, rows) in zip(axes, found.groupby("temperature", sort=False), strict=True):
        part = rows[rows.groupby("n")["size"].transform(lambda values: values.notna().all())]  # no length half measured
        medians(part, "n", "size", hue="force", hue_order=list(FORCES), palette=FORCES, ax=ax)
        ax.set(xscale="log", yscale="log", xlabel="number of positions n", ylabel="", title=f"temperature {name}")
        ticks_at(ax.xaxis, sorted(found["n"].unique())[::2])
        label_lines(ax)
        ax.set_xlim(found["n"].min(), 9 * found["n"].max())
    axes[0].set_ylabel("length of the gradient at the start")
    return fig


def melting(found: pd.DataFrame) -> Figure:
    """Share of runs that are solved, and of those whose heads the label-free force alone melts, against smoothing."""
    panels = list(found.groupby("k"))
    fig, axes = plt.subplots(1, len(panels), figsize=(FULL, 3.0), sharey=True, squeeze=False)
    names = {"melted": "heads melt", "solved": "solved"}
    for ax, (k, part) in zip(axes[0], panels, strict=True):
        long = part.melt(["smoothing"], ["melted", "solved"], var_name="what", value_name="share")
        success_lines(long, "smoothing", "share", hue="what", palette={"melted": BLIND, "solved": SIGNAL}, ax=ax)
        sharp = part.loc[~part["melted"], "solved"].mean()  # solved although the heads stay sharp
        finding = "heads do not melt" if part["melted"].mean() < 0.05 else "hardly a success without melting"
        ax.set(xscale="log", xlabel="smoothing b", title=f"k = {k}: " + ("they part" if sharp > 0.2 else finding))
        ax.set_ylabel("% of pairs")
        ticks_at(ax.xaxis, sorted(part["smoothing"].unique())[::-2])
        label_lines(ax, names)
        ax.set_xlim(part["smoothing"].min() / 1.3, 9 * part["smoothing"].max())
    return fig


def landscapes(found: pd.DataFrame, bits: tuple[int, ...]) -> Figure:
    """Risk of two heads over the positions they point at, with the ways of a few runs; a panel each."""
    panels = list(found.groupby("panel", sort=False))
    fig, axes = plt.subplots(1, len(panels), figsize=(FULL, 3.5), sharex=True, sharey=True)
    for ax, (name, part) in zip(axes, panels, strict=True):
        grid = part[part["layer"] == "risk"].pivot(index="head_2", columns="head_1", values="risk")
        step, n = grid.columns[0], grid.columns[-1]
        edges = (step / 2, n + step / 2)
        ax.imshow(grid.to_numpy(), origin="lower", extent=(*edges, *edges), cmap="cividis")
        ends = []
        for _, way in part[part["layer"] == "way"].groupby("seed"):
            places = way[["head_1", "head_2"]].to_numpy()
            jumps = np.flatnonzero(np.abs(np.diff(places, axis=0)).max(1) > n / 2) + 1
            ax.plot(*np.insert(places, jumps, np.nan, axis=0).T, color="white", lw=1.0, alpha=0.9)
            ax.plot(*places[0], "o", color="white", ms=3)
            ends.append(places[-1])
        ax.plot(*np.array(ends).T, "o", color=BLIND, ms=5, mec="white", mew=0.7)
        for first, second in (bits, bits[::-1]):
            ax.plot(first, second, "s", mfc="none", mec="#5ee0b5", ms=12, mew=1.8)
        found_by = sum(min(np.abs(end - np.array(b)).max() for b in (bits, bits[::-1])) < 0.5 for end in ends)
        ax.set(title=f"{name}: {found_by} of {len(ends)}", xlabel="head 1 points at", xticks=bits, yticks=bits)
        ax.grid(False)
    axes[0].set_ylabel("head 2 points at")
    return fig


def aliases(found: pd.DataFrame) -> Figure:
    """Runs of the sigmoid hinge that rest between the bits: summed attention by position, a row per k."""
    ks = sorted(found["k"].unique())
    if not ks:
        fig, ax = plt.subplots(figsize=(FULL, 0.8))
        ax.text(0.5, 0.5, "every run reads its bits: no trap to show", ha="center", va="center")
        ax.axis("off")
        return fig
    fig, axes = plt.subplots(len(ks), 1, figsize=(FULL, 1.3 * len(ks) + 0.7), sharex=True, squeeze=False)
    for ax, k in zip(axes[:, 0], ks, strict=True):
        part = found[found["k"] == k]
        sns.barplot(
            part, x="position", y="weight", hue="bit", palette={True: BIT, False: "#b5b5b5"}, legend=False, ax=ax
        )
        for height in (1 / 3, 2 / 3):
            ax.axhline(height, color=STATED, ls=":", lw=1)
        ax.set(ylabel="", xlabel="", ylim=(0, max(1.05, 1.05 * part["weight"].max())))
        ax.set_yticks([0, 1 / 3, 2 / 3, 1], ["0", "1/3", "2/3", "1"])
        ax.text(0.99, 0.85, f"k = {k}", transform=ax.transAxes, ha="right", va="center")
    axes[0, 0].set_title("Stuck between the bits: a third on each bit (green), two thirds beside it")
    axes[-1, 0].set_xlabel("position")
    axes[len(ks) // 2, 0].set_ylabel("summed attention")
    return fig


def rate(found: pd.DataFrame) -> Figure:
    """Risk of one head near its bit against update, with a line that falls like 1/t."""
    fig, ax = plt.subplots(figsize=(FULL, 2.8))
    sns.lineplot(found, x="update", y="risk", color=SIGNAL, ax=ax)
    last = found.iloc[-1]
    ax.plot(found["update"], last["product"] / found["update"], color=STATED, ls="--", lw=1)
    ax.annotate("1/t", (found["update"].iloc[0], last["product"] / found["update"].iloc[0]), (4, 4), color=STATED,
                textcoords="offset points")  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="update t", ylabel="risk")
    ax.set_title("The easiest case falls like 1/t, not by a constant factor")
    return fig


def start_risk(found: pd.DataFrame) -> Figure:
    """Exact risk at the random start by smoothing, a line for every k, medians and quartiles, at c1 = 1."""
    fig, ax = plt.subplots(figsize=(FULL, 3.0))
    at_one = found[found["c1"] == 1]
    frame = at_one.assign(name="k = " + at_one["k"].astype(str))
    medians(frame, "smoothing", "risk", hue="name", palette=SERIES[: at_one["k"].nunique()], ax=ax)
    ax.axhline(1, color=STATED, ls="--", lw=1.2)
    ax.text(at_one["smoothing"].min(), 1, "the paper: 1 ", color=STATED, va="bottom", fontsize=9)
    above = (at_one.groupby(["k", "smoothing"])["risk"].median() > 1.1).all()
    ax.set_title("The risk at the start depends on smoothing and k" + (", and is above 1" if above else ""))
    ax.set(xscale="log", ylim=(0, None), xlabel="smoothing b", ylabel="risk at the start")
    ticks_at(ax.xaxis, at_one["smoothing"])
    label_lines(ax)
    return fig


def entries(found: pd.DataFrame) -> Figure:
    """Mean size of the gradient for each entry of a head's 4 x 4 matrix."""
    fig, ax = plt.subplots(figsize=(FULL, 2.6))
    table = found.pivot(index="row", columns="column", values="size")
    positive = found.loc[found["size"] > 0, "size"]
    sns.heatmap(table.where(table > 0), norm=LogNorm(positive.min() / 3, positive.max()), annot=table, fmt=".2g",
                mask=table <= 0, cbar=False, linewidths=0.5, ax=ax)  # fmt: skip
    for r, c in zip(*np.nonzero(table.to_numpy() <= 0), strict=True):
        ax.text(c + 0.5, r + 0.5, "0", ha="center", va="center", color=STATED)
    ax.set_xticklabels(["1: x", "2: 1 - x", "3: sin", "4: cos"])
    ax.set(xlabel="column (what it multiplies)", ylabel="row", title="Only the first row moves, and all of it")
    return fig


def pl_ratios(found: pd.DataFrame) -> Figure:
    """PL ratio against risk along gradient descent, a panel per k, a line per seed; Lemma 8's mu dashed."""
    panels = list(found.groupby("k"))
    fig, axes = plt.subplots(1, len(panels), figsize=(FULL, 3.0), sharey=True, squeeze=False)
    for ax, (k, part) in zip(axes[0], panels, strict=True):
        clipped = part.assign(ratio=part["ratio"].clip(lower=1e-30))
        sns.lineplot(
            clipped, x="risk", y="ratio", units="seed", estimator=None, sort=False, color="#c5d9e8", lw=0.7, ax=ax
        )
        ends = clipped[clipped["update"] == clipped["update"].max()]
        sns.scatterplot(ends, x="risk", y="ratio", color=BLIND, ax=ax)
        mu = part["mu"].iloc[0]
        ax.axhline(mu, color="black", ls="--", lw=1.2)
        ax.text(0.03, mu, "μ of Lemma 8", va="bottom", fontsize=9, transform=ax.get_yaxis_transform())
        below = (ends["ratio"] < mu).mean()
        ax.set(
            yscale="log", xlabel="risk", ylabel="", xlim=(0, None), title=f"k = {k}: {below:.0%} of runs end below μ"
        )
        ax.yaxis.set_minor_locator(NullLocator())
    axes[0, 0].set_ylabel("½ |gradient|² / risk")
    return fig


def constants(found: pd.DataFrame, names: dict[str, str]) -> Figure:
    """Largest measured value over stated constant against smoothing, a line per lemma, worst over k."""
    fig, ax = plt.subplots(figsize=(FULL, 3.1))
    frame = found.assign(ratio=found["measured"] / found["stated"])
    worst = frame.groupby(["lemma", "smoothing"], sort=False)["ratio"].max().reset_index()
    worst["lemma"] = worst["lemma"].str.replace("lemma-", "Lemma ")
    sns.lineplot(
        worst, x="smoothing", y="ratio", hue="lemma", palette=SERIES[: worst["lemma"].nunique()], marker="o", ax=ax
    )
    ax.axhline(1, color=STATED, ls="--", lw=1.2)
    broken = sorted(worst.loc[worst["ratio"] > 1, "lemma"].unique())
    word = "fails" if len(broken) == 1 else "fail"
    names_of = " and ".join(broken)
    ax.set_title(f"{names_of} {word} at huge smoothing, the others hold" if broken else "All constants hold")
    ax.set(xscale="log", yscale="log", xlabel="smoothing b", ylabel="largest measured / stated")
    label_lines(ax, {f"Lemma {key.split('-')[1]}": f"Lemma {key.split('-')[1]}: {text}" for key, text in names.items()})
    ax.set_xlim(worst["smoothing"].min(), worst["smoothing"].max() ** 2.2)
    return fig

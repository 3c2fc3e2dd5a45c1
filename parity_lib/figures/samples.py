"""Figures of the chapter ``samples``: examples needed against length, against numbers a head, and under noise."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from .style import BLIND, FULL, REPAIRED, SIGNAL, STATED, label_lines, plain_log_ticks, success_lines

COLOURS = {"heads": REPAIRED, "network": BLIND, "elimination": SIGNAL, "largest coefficient": STATED}
"""The learners, by colour through the chapter."""


def by_length(needed: pd.DataFrame) -> Figure:
    """Examples needed against the number of positions, a panel for each k: medians, quartiles as a band.

    ``needed`` has a row for every learner, k and n, as :func:`parity_lib.chapters.samples.needed` makes it. The dotted
    line is n to the power k, through the heads' first point.
    """
    panels = list(needed.groupby("k"))
    fig, axes = plt.subplots(1, len(panels), figsize=(FULL, 3.6), sharey=True, squeeze=False)
    for ax, (k, frame) in zip(axes[0], panels, strict=True):
        finite = frame[np.isfinite(frame["median"])]
        sns.lineplot(finite, x="n", y="median", hue="learner", palette=COLOURS, marker="o", ax=ax)
        for name, part in finite.groupby("learner"):
            ax.fill_between(
                part["n"], part["low"], part["high"].replace(np.inf, np.nan), color=COLOURS[name], alpha=0.15
            )
        heads = finite[finite["learner"] == "heads"]
        if len(heads):
            first = heads.iloc[0]
            reach = np.array([heads["n"].min(), heads["n"].max()], dtype=float)
            ax.plot(reach, first["median"] * (reach / first["n"]) ** k, ":", color=STATED)
            ax.text(reach[0], 3 * first["median"], f"∝ n{'²³⁴⁵'[int(k) - 2]}", color=STATED, ha="left", va="bottom")
        ax.set(xscale="log", yscale="log", xlabel="positions n", ylabel="examples needed", title=f"Parity of {k} bits")
        plain_log_ticks(ax.xaxis)
        label_lines(ax)
    return fig


def by_size(needed: pd.DataFrame, exponent: float) -> Figure:
    """Examples that two heads need against the numbers each of them has; the title has the measured power."""
    fig, ax = plt.subplots(figsize=(FULL, 3.0))
    finite = needed[np.isfinite(needed["median"])]
    sns.lineplot(finite, x="numbers", y="median", color=REPAIRED, marker="o", ax=ax)
    ax.fill_between(
        finite["numbers"], finite["low"], finite["high"].replace(np.inf, np.nan), color=REPAIRED, alpha=0.15
    )
    if len(finite):
        first, size = finite.iloc[0], finite["numbers"].to_numpy(dtype=float)
        ax.plot(size, first["median"] * first["numbers"] / size, ":", color=STATED)
        ax.text(size[-1], first["median"] * first["numbers"] / size[-1], " ∝ 1/d", color=STATED, va="center")
    ax.set(xscale="log", yscale="log", xlabel="numbers d in a head", ylabel="examples needed",
           title=f"More numbers, fewer examples: the power is {exponent:.1f}")  # fmt: skip
    plain_log_ticks(ax.xaxis)
    return fig


def under_noise(found: pd.DataFrame) -> Figure:
    """How often each learner names B when labels are flipped, in percent, with Wilson intervals."""
    fig, ax = plt.subplots(figsize=(FULL, 3.0))
    shifted = found.assign(flipped=100 * found["noise"])
    success_lines(shifted, "flipped", "right", hue="learner", palette=COLOURS, ax=ax)
    ax.set(xlabel="labels flipped, %", ylabel="B named, % of streams", title=_survivors(found))
    if (legend := ax.get_legend()) is not None:
        legend.remove()
    ends = found[found["noise"] == found["noise"].max()].groupby("learner", sort=False)["right"].mean()
    for height, names in ends.index.groupby(ends.round(1)).items():
        ax.annotate(" and\n".join(names), (ax.get_xlim()[1], 100 * height), color=COLOURS[names[0]], va="center",
                    annotation_clip=False)  # fmt: skip
    return fig


def _survivors(found: pd.DataFrame) -> str:
    """Who is still right in most streams at the largest noise."""
    last = found[found["noise"] == found["noise"].max()].groupby("learner", sort=False)["right"].mean()
    alive, dead = (
        [f"{name}" for name in last.index if last[name] > 0.5],
        [name for name in last.index if last[name] < 0.5],
    )
    if "elimination" in dead and "heads" in alive:
        return "A few wrong labels end elimination; heads do not mind"
    return f"Still right at the largest noise: {', '.join(alive) or 'nobody'}"

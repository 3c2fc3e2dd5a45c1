"""Figures of the notebook ``playground``."""

import io
import math
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.projections.polar import PolarAxes

from .figure2 import heat_maps
from .style import BIT, FULL, HEADS, STATED


def circle_and_risk(circle: pd.DataFrame, risks: pd.DataFrame) -> Figure:
    """Left, the heads on the circle of positions with the way they came; right, what is minimised.

    A head stands at the angle it points to, as far out as the attention on its best position. The frames are those
    of :func:`parity_lib.chapters.figure2.circle` and :func:`parity_lib.chapters.one_run.risks`.
    """
    fig = plt.figure(figsize=(FULL, 3.7))
    ax = fig.add_subplot(1, 2, 1, projection="polar")
    assert isinstance(ax, PolarAxes)
    ax.set_theta_zero_location("N")
    ax.set_theta_direction(-1)
    places = circle.groupby("position")["bit"].first()
    turns = 2 * math.pi * places.index.to_numpy() / len(places)
    ax.scatter(turns, np.ones(len(places)), c=np.where(places, BIT, STATED), s=np.where(places, 90, 8), clip_on=False)
    by_head = circle.groupby(["head", "epoch"]).agg(turn=("turn", "first"), best=("attention", "max"))
    for (_, way), colour in zip(by_head.groupby(level="head"), cycle(HEADS), strict=False):
        angle = np.unwrap(2 * math.pi * way["turn"].to_numpy())
        ax.plot(angle, way["best"], color=colour, lw=1, alpha=0.6)
        ax.plot([angle[-1]] * 2, [0, way["best"].iloc[-1]], color=colour, lw=3)
    ax.set(xticks=turns[places], xticklabels=places.index[places], yticks=[0.5, 1], ylim=(0, 1))
    ax.set_title("heads on the circle, bits in green", pad=14)
    right = fig.add_subplot(1, 2, 2)
    sns.lineplot(risks, x="update", y="risk", color="black", ax=right)
    what = risks.attrs.get("what", "risk")  # heads that sample minimise no risk
    right.set(title="exact population risk" if what == "risk" else f"exact {what}", ylabel=what)
    return fig


def pictures(circle: pd.DataFrame, risks: pd.DataFrame) -> tuple[bytes, bytes]:
    """The heat maps, and the circle with the risk, as PNG: what the sliders show."""
    return _png(heat_maps(circle)), _png(circle_and_risk(circle, risks))


def _png(figure: Figure) -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=100)
    plt.close(figure)
    return picture.getvalue()

"""Figure of the notebook ``playground``."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.projections.polar import PolarAxes

from ..attention import angle_to_position
from ..training import Run
from .style import GREEN, GREY, HEAD_COLOURS


def circle_and_risk(run: Run, seed: int) -> Figure:
    """Left, the heads on the circle of positions with the way they came; right, the exact risk.

    A head stands at the angle it points to, as far out as the attention on its best position.
    """
    fig = plt.figure(figsize=(8.2, 3.9))
    column, n = run.seeds.index(seed), run.task.n
    circle = fig.add_subplot(1, 2, 1, projection="polar")
    assert isinstance(circle, PolarAxes)
    circle.set_theta_zero_location("N")
    circle.set_theta_direction(-1)
    turns = 2 * math.pi * np.arange(1, n + 1) / n
    circle.plot(turns, np.ones(n), "o", color=GREY, ms=3, clip_on=False)
    circle.plot(turns[list(run.task.indices)], np.ones(run.task.k), "o", color=GREEN, ms=10, clip_on=False)
    angles = 2 * math.pi * angle_to_position(run.directions[:, column], n).numpy() / n  # (frames, heads)
    best = run.attention[:, column].amax(-1).numpy()
    for i in range(angles.shape[1]):
        colour = HEAD_COLOURS[i % len(HEAD_COLOURS)]
        circle.plot(np.unwrap(angles[:, i]), best[:, i], color=colour, lw=1, alpha=0.6)
        circle.plot([angles[-1, i]] * 2, [0, best[-1, i]], color=colour, lw=3)
    circle.set(xticks=turns[list(run.task.indices)], xticklabels=list(run.task.bits), yticks=[0.5, 1], ylim=(0, 1))
    circle.set_title("heads on the circle, bits in green", pad=14)
    right = fig.add_subplot(1, 2, 2)
    updates = np.arange(len(run.risk)) * run.recipe.updates_per_epoch
    right.plot(updates, run.risk[:, column].numpy(), color="black", lw=2)
    right.set(xlabel="update", ylabel="risk", title="exact population risk")
    return fig

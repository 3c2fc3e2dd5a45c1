"""Figure of the chapter ``one_run``: what is minimised, and the forces on the heads."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from .style import BLIND, FULL, SIGNAL

COLOURS = {"net force": "black", "label-free force": BLIND, "parity signal": SIGNAL}


def risk_and_forces(risks: pd.DataFrame, forces: pd.DataFrame) -> Figure:
    """One run: the exact risk, and the norm of each force on every head, a line for each head.

    The frames are those of :func:`parity_lib.chapters.one_run.risks` and :func:`~parity_lib.chapters.one_run.forces`.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(FULL, 3.1))
    sns.lineplot(risks, x="update", y="risk", color="black", ax=left)
    start, end = risks["risk"].iloc[[0, -1]]
    left.set(title=f"The risk {'falls' if end < start else 'rises'}\nfrom {start:.3g} to {end:.3g}")
    shown = forces[forces.groupby("force")["norm"].transform("max") > 0]
    sns.lineplot(shown, x="update", y="norm", hue="force", units="head", estimator=None, palette=COLOURS, lw=1.3,
                 alpha=0.8, legend=False, ax=right)  # fmt: skip
    absent = [name for name in forces["force"].unique() if name not in set(shown["force"])]
    right.set(yscale="log", ylabel="norm, one line a head", title=_title(absent))
    for row, name in enumerate(name for name in COLOURS if name in set(shown["force"])):
        right.text(0.98, 0.97 - 0.08 * row, name, color=COLOURS[name], transform=right.transAxes, ha="right", va="top")
    return fig


def _title(absent: list[str]) -> str:
    return f"Forces on the heads;\nno {' and no '.join(absent)}" if absent else "Forces on the heads"

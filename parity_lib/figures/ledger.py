"""The figure of the ledger: all claims at a glance."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from ..evidence import AS_STATED
from .style import BIT, BLIND, FULL, SIGNAL

COLOURS = dict(zip(AS_STATED, (BIT, SIGNAL, "#56B4E9", BLIND, "#9a9a9a"), strict=True))
"""Verdicts, from what holds to what is open."""
COLUMNS = 4


def overview(rows: pd.DataFrame) -> Figure:
    """A named square per claim, grouped by what became of it; ``rows`` has the columns ``claim`` and ``as_stated``."""
    groups = {verdict: rows.loc[rows["as_stated"] == verdict, "claim"].tolist() for verdict in AS_STATED}
    groups = {verdict: claims for verdict, claims in groups.items() if claims}
    height = sum(-(-len(claims) // COLUMNS) + 0.35 for claims in groups.values())
    figure, ax = plt.subplots(figsize=(FULL, 0.36 * height + 0.4))
    y, ticks = 0.0, {}
    for verdict, claims in groups.items():
        top = y
        for place, claim in enumerate(claims):
            x, y = place % COLUMNS, top - place // COLUMNS
            ax.plot(x, y, "s", markersize=11, color=COLOURS[verdict])
            ax.text(x + 0.12, y, claim, va="center", fontsize=8.5)
        ticks[(top + y) / 2] = f"{verdict} ({len(claims)})"
        y -= 1.35
    ax.set(xlim=(-0.15, COLUMNS - 0.1), ylim=(y + 0.7, 0.7), xticks=[])
    ax.set_yticks(list(ticks), list(ticks.values()), fontsize=10)
    holding = sum(len(claims) for verdict, claims in groups.items() if verdict == "holds")
    ax.set_title(f"{holding} of {len(rows)} claims hold as stated")
    ax.tick_params(axis="y", length=0)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    return figure

"""The figure of the ledger: all claims at a glance."""

import pandas as pd
from matplotlib.figure import Figure

from ..evidence import AS_STATED, KINDS
from .style import INK, PAPER, VERDICTS, drawing, is_narrow, panels

WORDS = {
    "holds": ("holds as stated", "hold as stated"),
    "narrower range": ("holds in a\nnarrower range", "hold in a\nnarrower range"),
    "misprint": ("misprint,\ncorrected here", "misprints,\ncorrected here"),
    "fails": ("fails as stated", "fail as stated"),
    "open": ("open", "open"),
}
"""Verdicts in words, for one claim and for several."""
HOW = {"proved": "a proof", "certified": "interval\narithmetic", "exact": "an exact\nsum", "measured": "counted\nruns"}


@drawing
def overview(rows: pd.DataFrame) -> Figure:
    """A dot for every claim: what became of it (rows) and how we know (columns); our own statements are circles.

    ``rows`` has the columns ``claim``, ``as_stated``, ``kind`` and ``ours``.
    """
    kinds = [kind for kind in KINDS if (rows["kind"] == kind).any()]
    verdicts = [verdict for verdict in AS_STATED if (rows["as_stated"] == verdict).any()]
    papers = rows[~rows["ours"]]
    table = pd.crosstab(rows["as_stated"], rows["kind"])
    how = HOW | ({"certified": "interval\narith-\nmetic"} if is_narrow() else {})
    across, step, size = (3, 0.26, 80) if is_narrow() else (6, 0.13, 95)  # dots in a line of a cell
    tall = {v: max(2, -(-table.loc[v].max() // across)) for v in verdicts}  # lines of dots
    fig, (ax,) = panels(1, 0.28 * sum(tall.values()) + 0.28 * len(verdicts) + 0.9, keep=True)
    top, ticks = 0.0, {}
    for verdict in verdicts:
        for column, kind in enumerate(kinds):
            ours = sorted(rows.loc[(rows["as_stated"] == verdict) & (rows["kind"] == kind), "ours"])
            for i, own in enumerate(ours):
                fill, edge = (PAPER, VERDICTS[verdict]) if own else (VERDICTS[verdict], PAPER)
                ax.scatter(column + step * (i % across) - 0.35, top + 0.3 * (i // across), s=size - 35 * own,
                           color=fill, ec=edge, lw=1.6 if own else 1)  # fmt: skip
        count = (papers["as_stated"] == verdict).sum()
        ticks[top + 0.15 * (tall[verdict] - 1)] = f"{count}  {WORDS[verdict][int(count != 1)]}"
        top += 0.3 * tall[verdict] + 0.3
        ax.axhline(top - 0.3, color="#e4e4e4", lw=0.8)
    ax.set(xlim=(-0.5, max(1, len(kinds)) - 0.5), ylim=(top - 0.2, -0.35))
    ax.set_yticks(list(ticks), list(ticks.values()), color=INK)
    ax.set_xticks([column - 0.38 for column in range(len(kinds))], [how[kind] for kind in kinds], ha="left")
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    holding = (papers["as_stated"] == "holds").sum()
    fig.suptitle(f"{holding} of the papers' {len(papers)} claims hold as stated: a dot each, our own are circles")
    return fig

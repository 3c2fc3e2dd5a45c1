"""The figure of a race: your recipe beside the named ones."""

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from ..evidence import rate
from .robustness import BOTH
from .style import GOLD, RECIPES, SERIES, colour_words, curves, drawing, success_lines

NAMES = {
    "theory": "the theorem's recipe",
    "later-code": "the authors' later code",
    "figure2": "the authors' code",
    "figure2-population": "its loss, exact gradient",
    "figure2-signed": "the authors' loss, ±1",
    "repaired": "heads that sample",
    "product-head": "... from batches",
}
PANELS = {False: "no neighbours among the bits", True: "neighbours among the bits"}


@drawing
def success(frame: pd.DataFrame, own: str) -> Figure:
    """Committed runs against the number of bits, without and with neighbours, ``own`` in a colour of its own."""
    names = {name: own if name == own else NAMES[name] for name in frame["recipe"].unique()}
    colours = {own: GOLD}
    more = sns.color_palette("husl", len(names)).as_hex()
    for name in frame.loc[frame["recipe"] != own, "recipe"].unique():  # the book's colour, unless another line has it
        first = BOTH.get(name, RECIPES[name][1])  # as on the atlas's chart
        free = (colour for colour in (first, *SERIES, *more) if colour not in colours.values())
        colours[names[name]] = next(free)
    named = frame.assign(series=frame["recipe"].map(names))
    fig = curves(success_lines, named, "k", "committed", colours, hue="series", panel="neighbours", titles=PANELS,
                 xlabel="number of bits k")  # fmt: skip
    if not fig.axes[-1].texts:  # single points have no end to write a name at
        colour_words(fig.axes[-1], colours)
    mine = rate(frame.loc[frame["recipe"] == own, "committed"])
    others = frame[frame["recipe"] != own].groupby("recipe")["committed"].mean().sort_values(kind="stable")
    worse, better = others.index[others < mine.share], others.index[others > mine.share]
    if len(better) and len(worse):
        place = f"more than {names[worse[-1]]}, less than {names[better[0]]}"
    else:
        place = f"no other recipe does {'worse' if len(better) else 'better'}"
    fig.suptitle(f"{own} commits in {100 * mine.share:.0f} % of the runs: {place}")
    return fig

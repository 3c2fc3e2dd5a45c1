"""Figure of the chapter ``one_run``: what is minimised, and the forces on the heads."""

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from . import style

COLOURS = {"net force": style.INK, "label-free force": style.BLIND, "parity signal": style.SIGNAL}


@style.drawing
def risk_and_forces(risks: pd.DataFrame, forces: pd.DataFrame) -> Figure:
    """One run: the exact risk, and the norm of each force on every head, a line for each head.

    The frames are those of :func:`parity_lib.chapters.one_run.risks` and :func:`~parity_lib.chapters.one_run.forces`.
    """
    fig, (left, right) = style.panels(2, 3.3, share=False)
    sns.lineplot(risks, x="update", y="risk", color=style.INK, ax=left)
    start, end = risks["risk"].iloc[[0, -1]]
    what = risks.attrs.get("what", "risk")  # heads that sample minimise no risk
    way = "falls" if end < start else "rises" if end > start else "stays"
    title = f"{'The risk' if what == 'risk' else what} {way}"
    left.set(ylabel=what, title=f"{title} from {start:.3g} to {end:.3g}" if end != start else f"{title} at {end:.3g}")
    sizes = forces.groupby("force")["norm"].max()
    present = {name: colour for name, colour in COLOURS.items() if sizes.get(name, 0) > 0}
    if len(present) < len(COLOURS):  # the other force is the net force
        present.pop("net force", None)
    shown = forces[forces["force"].isin(present)]
    if present:
        sns.lineplot(shown, x="update", y="norm", hue="force", units="head", estimator=None, palette=present, lw=1.3,
                     alpha=0.8, legend=False, ax=right)  # fmt: skip
        style.colour_words(right, present, loc="lower right")
    else:
        style.blank(right)
    absent = [f"no {name}" for name in COLOURS if sizes.get(name, 1) == 0]
    title = "; ".join(filter(None, ("Forces on the heads", " and ".join(absent))))
    right.set(yscale="log", ylabel="norm, one line a head", title=title)
    return fig

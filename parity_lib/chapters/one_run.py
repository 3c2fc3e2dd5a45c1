"""One run from start to end: any setting of the live page, repeated with the library."""

import pandas as pd
import torch

from ..recipes import Recipe, budget
from ..risk import Risk, SeriesRisk, aligned_hard_risk
from ..training import Run, risk_of

PERMANENT = "-log of the permanent"
BLIND, SIGNAL, NET = "label-free force", "parity signal", "net force"


def setting(
    loss: str, smoothing: float, temperature: float, code: str, optimiser: str, rate: float, updates: int
) -> Recipe:
    """A setting of the live page as a recipe of at most thirty epochs; ``repaired`` lets heads sample a position."""
    sampled = loss == "repaired"
    return Recipe(
        name="one-run", about="one setting of the live page", loss="log" if sampled else loss,
        head="sampled" if sampled else "zigzag", code=code, smoothing=smoothing, temperature=temperature,
        optimiser=optimiser, learning_rate=rate, **budget(updates, 30),
    )  # fmt: skip


def risks(run: Run) -> pd.DataFrame:
    """What one seed minimises, frame by frame: ``update`` and ``risk``, exact over all inputs.

    ``attrs["what"]`` names it (see :func:`minimised`).
    """
    updates = torch.arange(len(run.risk)) * run.recipe.updates_per_epoch
    found = pd.DataFrame({"update": updates, "risk": run.risk[:, 0]})
    found.attrs["what"] = minimised(run.recipe)
    return found


def minimised(recipe: Recipe) -> str:
    """What falls: the risk, or for heads that sample and the loss ``log``, minus the logarithm of the permanent."""
    return PERMANENT if recipe.head == "sampled" and recipe.loss == "log" else "risk"


def forces(run: Run) -> pd.DataFrame:
    """The forces on every head of one seed, by norm: ``update``, ``head``, ``force``, ``norm``.

    The gradient of the exact risk, the net force, is the sum of a label-free force and the parity signal (see
    :mod:`parity_lib.risk`). Heads that sample a position have the parity signal alone.
    """
    risk = risk_of(run.tasks, run.recipe)
    parts: dict[str, Risk] = {SIGNAL: risk}
    if isinstance(risk, SeriesRisk):
        parts = {NET: risk, **dict(zip((BLIND, SIGNAL), risk.forces(), strict=True))}
    frames = []
    for name, part in parts.items():
        norms = part.value_and_gradient(run.directions[:, 0])[1].norm(dim=-1)
        table = pd.DataFrame(norms.numpy()).rename_axis(index="frame", columns="head").stack().rename("norm")
        frames.append(table.reset_index().assign(force=name))
    found = pd.concat(frames, ignore_index=True)
    found["norm"] = found["norm"].where(found["norm"] > 1e-12 * found["norm"].max(), 0.0)  # rounding: no such force
    return found.assign(head=found["head"] + 1, update=found["frame"] * run.recipe.updates_per_epoch)


def ends(run: Run) -> pd.DataFrame:
    """Where the heads of one seed end: ``head``, ``position`` (its favourite) and ``attention`` there."""
    share, best = run.attention[-1, 0].max(-1)
    return pd.DataFrame({"head": range(1, len(best) + 1), "position": best + 1, "attention": share})


def outcome(run: Run) -> str:
    """What became of the bits, in one sentence."""
    found = "found" if run.committed.all() else "found by arg-max only" if run.recovered.all() else "not found"
    start, end = run.risk[[0, -1], 0].tolist()
    told = f"In {run.recipe.updates} updates the {minimised(run.recipe)} goes from {start:.3g} to {end:.3g}"
    if run.recipe.head == "zigzag":
        best = aligned_hard_risk(run.task.k, run.recipe.smoothing, run.recipe.loss)
        told += f" (heads exactly on the bits have {best:.3g})"
    return f"{told}; the bits {', '.join(map(str, run.task.bits))} are {found}."

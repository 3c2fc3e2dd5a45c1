"""Figure 2: which training makes heads find their bits, and how often (paper, appendix B.1)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from ..attention import angle_to_position
from ..evidence import Rate, Verdict, rate
from ..recipes import RECIPES, Recipe
from ..task import Parity
from ..training import COMMITTED, Run, train
from .robustness import counts
from .store import kept

Runs = Mapping[str, Sequence[Run]]
"""The runs of each panel, ``left`` (no neighbours among the bits) and ``right`` (one pair of them)."""
AUTHORS, THEOREM, SIGNED = "figure2", "theory", "figure2-signed"
SHARE = 0.3
"""Attention that a head must give either of two neighbours to share the pair."""
NAMES = {
    THEOREM: "the theorem's recipe",
    "later-code": "the authors' later code",
    AUTHORS: "the authors' code",
    "figure2-population": "the code's loss and exact gradients",
    SIGNED: "the code's loss, exact gradients and labels ±1",
}
"""The recipes of the chapter in plain words, in the order of its tables."""


def both_tasks(n: int, bits: Sequence[int], neighbour_bits: Sequence[int]) -> dict[str, Parity]:
    """The parities of the two panels; the right one must have exactly one pair of neighbours."""
    tasks = {"left": Parity(n, bits), "right": Parity(n, neighbour_bits)}
    if len(tasks["right"].neighbours) != 1:
        raise ValueError(f"neighbour_bits must contain exactly one pair of neighbours, got {list(neighbour_bits)}")
    return tasks


def compared(theory_rates: Sequence[float], later_batch: int, epochs: int, updates_per_epoch: int) -> list[Recipe]:
    """The recipes of the chapter, all with the same number of updates; the theorem's once for every rate."""
    budget: dict[str, Any] = {"epochs": epochs, "updates_per_epoch": updates_per_epoch}
    chosen = [replace(RECIPES[THEOREM], learning_rate=rate, **budget) for rate in theory_rates]
    chosen.append(replace(RECIPES["later-code"], batch=later_batch, **budget))
    return chosen + [replace(RECIPES[name], **budget) for name in (AUTHORS, "figure2-population", SIGNED)]


trained = kept(train)


def train_all(
    tasks: Mapping[str, Parity], recipes: Sequence[Recipe], seeds: int, minibatch_seeds: int,
    later_seeds: Sequence[int], device: str = "auto",
) -> dict[str, list[Run]]:  # fmt: skip
    """Every recipe on both panels; those with exact gradients get ``seeds`` starts, the later code its own by panel."""
    if len(later_seeds) != len(tasks):
        raise ValueError(f"later_seeds must have a number for each of {len(tasks)} panels, got {list(later_seeds)}")
    runs = {}
    for (panel, task), later in zip(tasks.items(), later_seeds, strict=True):
        starts = {AUTHORS: minibatch_seeds, "later-code": later}
        runs[panel] = [trained(task, recipe, starts.get(recipe.name, seeds), device=device) for recipe in recipes]
    return runs


def at_equal_smoothing(runs: Runs, device: str = "auto") -> Rate:
    """How often labels ±1 commit at the smoothing of the recipe with labels {0, 1}: is it the scale alone?"""
    signed, other = (example_run(runs, "left", name) for name in (SIGNED, "figure2-population"))
    even = replace(signed.recipe, smoothing=other.recipe.smoothing)
    return rate(trained(signed.task, even, len(signed.seeds), device=device).committed)


def outcomes(runs: Runs) -> pd.DataFrame:
    """How every seed of every run ended, one row each.

    Columns ``panel``, ``recipe``, ``rate`` (the step size), ``seed``, and as truth values ``recovered``,
    ``committed``, ``shared`` (:func:`shares_direction`), ``read`` (:func:`reads_bits`) and ``pictured``: the run
    ended as in the paper's picture, committed on the left and with a shared direction on the right. ``start`` and
    ``risk`` are the exact risk before and after training, in the recipe's own loss.
    """
    parts = []
    for panel, members in runs.items():
        for run in members:
            shared = shares_direction(run) if run.task.neighbours else run.committed & False
            found = {
                "panel": panel, "recipe": run.recipe.name, "rate": run.recipe.learning_rate, "seed": run.seeds,
                "recovered": run.recovered, "committed": run.committed, "shared": shared, "read": reads_bits(run),
                "pictured": shared if panel == "right" else run.committed, "start": run.risk[0], "risk": run.risk[-1],
            }  # fmt: skip
            parts.append(pd.DataFrame(found))
    return pd.concat(parts, ignore_index=True)


def at_best_rate(outcomes: pd.DataFrame) -> pd.DataFrame:
    """The rows of each panel and recipe at the step size with most success; the first of equals."""
    success = outcomes.groupby(["panel", "recipe", "rate"], sort=False)["pictured"].mean()
    best = success.groupby(level=["panel", "recipe"], sort=False).idxmax()
    return outcomes[pd.MultiIndex.from_frame(outcomes[["panel", "recipe", "rate"]]).isin(best)].reset_index(drop=True)


def share(outcomes: pd.DataFrame, panel: str, recipe: str, success: str = "pictured") -> Rate:
    """The rate of success of a recipe on a panel, at its best step size."""
    chosen = at_best_rate(outcomes).query("panel == @panel and recipe == @recipe")
    return rate(chosen[success])


def success_table(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Seeds that succeed, k of N, by recipe and step size under every criterion."""
    words = {"recovered": "hard", "committed": "committed", "shared": "shared direction"}
    ends = outcomes.melt(["panel", "recipe", "rate"], list(words), "criterion", "met")
    ends = ends.sort_values("panel", kind="stable")  # first all of the left, then all of the right
    ends["criterion"] = ends["panel"] + ": " + ends["criterion"].map(words)
    table = counts(ends[ends["criterion"] != "left: shared direction"], ["recipe", "rate"], "criterion", "met")
    return table.assign(recipe=table["recipe"].map(NAMES))


def example_run(runs: Runs, panel: str, recipe: str) -> Run:
    """A recipe's run on a panel, at the first step size."""
    return next(run for run in runs[panel] if run.recipe.name == recipe)


def example(runs: Runs, outcomes: pd.DataFrame, panel: str, recipe: str = AUTHORS) -> tuple[Run, int]:
    """A recipe's run on a panel, and its first seed that ended as in the paper's picture, or the first of all."""
    run = example_run(runs, panel, recipe)
    wanted = outcomes.query("panel == @panel and recipe == @recipe and pictured and rate == @run.recipe.learning_rate")
    return run, int(wanted["seed"].iloc[0]) if len(wanted) else run.seeds[0]


def course(run: Run, seed: int, panel: str = "") -> pd.DataFrame:
    """The attention of every head on every position, epoch by epoch, in one seed: what the heat maps show.

    Columns ``panel``, ``epoch``, ``head``, ``position``, ``attention``, ``bit`` (in B), ``recipe``, ``seed``.
    """
    attention = run.attention[:, run.seeds.index(seed)]
    frames, heads, n = attention.shape
    places = [range(frames), range(1, heads + 1), range(1, n + 1)]
    index = pd.MultiIndex.from_product(places, names=["epoch", "head", "position"])
    frame = pd.DataFrame({"attention": attention.flatten()}, index).reset_index()
    frame.insert(0, "panel", panel)
    return frame.assign(bit=frame["position"].isin(run.task.bits), recipe=run.recipe.name, seed=seed)


def both_panels(runs: Runs, outcomes: pd.DataFrame) -> pd.DataFrame:
    """:func:`course` of the :func:`example` of the authors' code on each panel."""
    return pd.concat([course(*example(runs, outcomes, panel), panel) for panel in runs], ignore_index=True)


def circle(run: Run, seed: int) -> pd.DataFrame:
    """:func:`course` with where each head points, as a share of the circle, in the column ``turn``."""
    where = angle_to_position(run.directions[:, run.seeds.index(seed)], run.task.n) / run.task.n
    frame = course(run, seed)
    return frame.assign(turn=where.numpy()[frame["epoch"], frame["head"] - 1])


def half_way(runs: Sequence[Run]) -> pd.DataFrame:
    """The runs in which two heads share the pair of neighbours by their attention (:func:`splits_pair`), one row each.

    Columns ``recipe``, ``seed``, ``first`` and ``second`` (the two heads' offsets from the middle of the pair, in
    positions), ``room`` (the least of :func:`room_for_offset`) and ``recovered``.
    """
    parts = []
    for run in runs:
        heads = splits_pair(run)
        chosen = heads.any(-1)
        first, second = offset_from_middle(run)[heads].reshape(-1, 2).T
        room = room_for_offset(run)[heads].reshape(-1, 2).amin(-1)
        found = {"seed": torch.tensor(run.seeds)[chosen], "first": first, "second": second, "room": room}
        parts.append(pd.DataFrame(found | {"recovered": run.recovered[chosen], "recipe": run.recipe.name}))
    return pd.concat(parts, ignore_index=True)


def largest_offset(pairs: pd.DataFrame) -> float:
    """How far, at most, a shared direction lies from the middle, in positions."""
    return float(pairs[["first", "second"]].abs().max().max()) if len(pairs) else 0.0


def judge(stated: Rate, changed: Mapping[str, Rate]) -> Verdict:
    """Verdict on a claim about success: does the interval of its rate lie above one half, below it, or around it?

    What holds instead names all the ``changed`` settings whose interval lies above, in the order given.
    """
    as_stated = "holds" if stated.low > 0.5 else "fails" if stated.high < 0.5 else "open"
    passing = [name for name, found in changed.items() if found.low > 0.5]
    names = " or ".join(part for part in (", ".join(passing[:-1]), *passing[-1:]) if part)
    instead = f"with {names}" if names and as_stated != "holds" else ""
    return Verdict(as_stated, "measured", {"as stated": stated, **changed}, instead)


def judge_fig2(outcomes: pd.DataFrame, panel: str) -> Verdict:
    """Claims ``fig2-left`` and ``fig2-right``: do most runs end as in the paper's picture?

    Appendix B.1 states no recipe, so the authors' code is taken for the experiment; the theorem's recipe is among
    the numbers.
    """
    others = [name for name in NAMES if name != AUTHORS and (outcomes["recipe"] == name).any()]
    return judge(share(outcomes, panel, AUTHORS), {NAMES[name]: share(outcomes, panel, name) for name in others})


def judge_hard_reading(outcomes: pd.DataFrame) -> Verdict:
    """Claim ``fig2-hard``: with neighbours among the bits the heads cannot be read by arg-max."""
    code, exact = (share(outcomes, "right", name, "recovered") for name in (AUTHORS, SIGNED))
    numbers = {NAMES[AUTHORS]: code, NAMES[SIGNED]: exact}
    if code.high < 0.5 < exact.low:
        said = "True of the authors' code; with exact gradients and labels ±1 the heads tilt apart and are read right."
        return Verdict("narrower range", "measured", numbers, said)
    holds, fails = max(code.high, exact.high) < 0.5, min(code.low, exact.low) > 0.5
    return Verdict("holds" if holds else "fails" if fails else "open", "measured", numbers)


def judge_scores(outcomes: pd.DataFrame) -> Verdict:
    """Claim ``scores-high``: after training, attention is high on the bits of B (by :func:`reads_bits`)."""
    found = {panel: share(outcomes, panel, AUTHORS, "read") for panel in ("left", "right")}
    stated = min(found.values(), key=lambda rate: rate.low)
    as_stated = judge(stated, {}).as_stated
    theorem = {f"{NAMES[THEOREM]}, {panel}": share(outcomes, panel, THEOREM, "read") for panel in found}
    return Verdict(as_stated, "measured", found | theorem)


def reads_bits(run: Run) -> Tensor:
    """Whether the summed attention is above 0.6 on every bit of B and higher there than elsewhere, (seeds,)."""
    weights = run.attention[-1].sum(-2)
    on_bits = weights[..., list(run.task.indices)].amin(-1)
    elsewhere = weights.index_fill(-1, torch.tensor(run.task.indices), 0).amax(-1)
    return (on_bits > COMMITTED) & (on_bits > elsewhere)


def shares_direction(run: Run) -> Tensor:
    """Figure 2, right: two heads end half-way between the neighbours, the others on the other bits, (seeds,).

    Exactly two heads point within 0.1 positions of the middle of the pair, and every other bit of B gets more than 0.6
    of some head's attention.
    """
    near = offset_from_middle(run).abs() <= 0.1
    others = [bit - 1 for bit in run.task.bits if bit not in run.task.neighbours[0]]
    read = run.attention[-1][..., others].amax(-2) > COMMITTED
    return (near.sum(-1) == 2) & read.all(-1)


def splits_pair(run: Run) -> Tensor:
    """The heads that share the pair of neighbours by their attention, whatever their angle, (seeds, heads).

    In a seed where exactly two heads give each position of the pair more than :data:`SHARE`: those two.
    """
    first, second = run.task.neighbours[0]
    both = (run.attention[-1][..., [first - 1, second - 1]] > SHARE).all(-1)
    return both & (both.sum(-1, keepdim=True) == 2)


def offset_from_middle(run: Run) -> Tensor:
    """How far from the middle of the pair of neighbours every head points at the end, in positions, (seeds, heads)."""
    n = run.task.n
    offset = angle_to_position(run.directions[-1], n) - (run.task.neighbours[0][0] + 0.5)
    return (offset + n / 2) % n - n / 2


def room_for_offset(run: Run) -> Tensor:
    r"""The largest offset from the middle that :func:`splits_pair` would still admit, (seeds, heads).

    At offset d the scores of the two positions differ by :math:`2|a| \sin(\pi/n) \sin(2\pi d/n)`, and two shares above
    :data:`SHARE` have a ratio below (1 - SHARE) / SHARE.
    """
    n = run.task.n
    widest = math.log((1 - SHARE) / SHARE) * run.recipe.temperature_at(n)
    sine = widest / (2 * math.sin(math.pi / n) * run.directions[-1].norm(dim=-1))
    return n / (2 * math.pi) * sine.clamp_max(1).asin()

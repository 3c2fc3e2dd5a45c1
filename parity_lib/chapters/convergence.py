r"""Theorem 5 over its free constants: where gradient descent on the paper's risk finds the bits, and why elsewhere not.

The theorem names a loss (squared hinge), an optimiser (plain gradient descent), a start (heads of norm 1 at random
angles) and a temperature :math:`c_1/n`; it leaves the smoothing :math:`b > 0`, :math:`c_1` and the step size open. A
:class:`Setting` is one choice of them. Temperature is a gauge: only :math:`s = a/\tau` enters the risk, so that the
start has the norm :math:`n/c_1` and the step is :math:`\eta/\tau^2` in s. All forces, curvatures and step sizes here
are those of s. The lemmas are in :mod:`parity_lib.chapters.lemmas`, a proof of a trap in
:mod:`parity_lib.chapters.certificate`.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import product

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ..attention import angle_to_position, position_weights, positional_code, soft_attention
from ..evidence import Rate, Verdict, rate, tell
from ..kernels import fused
from ..progress import track
from ..recipes import RECIPES, Recipe, budget
from ..risk import PopulationRisk, SeriesRisk, aligned_hard_risk
from ..series import trigonometric_sums
from ..task import Parity
from ..training import committed, initial_directions, one_thread_per_process, risk_of, train
from . import convergence_kernel
from .certificate import TRAPS, certify
from .lemmas import gradient, hessians, spread_bits
from .robustness import mixed_sets, success
from .store import kept

SOLVED = 0.75
"""Weight that the heads together must give every bit; 1 is perfect, and two heads may share a direction."""
MELTED = 0.25
"""A head whose largest attention is below this has let go of single positions."""
REST = 1e-3
"""A run of the authors' loss rests if its gradient is shorter."""
FORCES = ("label-free", "parity signal")
STILL, STRICT = 1e-10, 1e-6
"""A trap is a place with a gradient shorter than the first, where every curvature is above the second."""


@dataclass(frozen=True)
class Setting:
    """One choice of what Theorem 5 leaves open; ``step`` is the step size over the squared temperature."""

    n: int
    k: int
    smoothing: float
    c1: float = 1.0
    step: float = 8.0
    updates: int = 2000

    def recipe(self, accuracy: float, frames: int = 8) -> Recipe:
        """The stated recipe with these constants."""
        changes = budget(self.updates, frames) | {"smoothing": self.smoothing, "temperature": self.c1}
        rate = self.step * (self.c1 / self.n) ** 2
        return replace(RECIPES["theory"], learning_rate=rate, accuracy=accuracy, **changes)


# The map


def descend(risk: SeriesRisk, start: Tensor, step: Tensor, updates: int, frames: int = 8) -> Tensor:
    """Plain gradient descent in s with a step for every row, (rows,): places at equal intervals, (frames + 1, ...)."""
    label_free, parity = risk.series.label_free[1:], risk.series.parity[1:]
    code, bits = positional_code(risk.n) / risk.temperature, risk.bits(start.shape[:1], start.device)
    half, frames = math.pi / risk.series.period, min(frames, updates)
    with one_thread_per_process():
        return descent(start, bits, step, code, half, label_free, parity, updates, frames)[0]


@fused(convergence_kernel.descent)
def descent(
    start: Tensor, bits: Tensor, step: Tensor, code: Tensor, half: float, label_free: Tensor, parity: Tensor,
    updates: int, frames: int,
) -> tuple[Tensor]:  # fmt: skip
    r"""The updates :math:`s \leftarrow s - \eta \nabla R(s)` of as many heads as bits, on the series of the exact risk.

    Start (rows, k, 2), bits from 0 (rows, k), steps (rows,), the positional code (n, 2), and what
    :func:`parity_lib.series.trigonometric_sums` takes -> ((frames + 1, rows, k, 2),).
    """
    at, places = start.clone(), [start.clone()]
    for update in range(1, updates + 1):
        attention = torch.softmax(at @ code.T, -1)
        slope = trigonometric_sums(attention.sum(1), bits, half, label_free, parity)[1].unsqueeze(1)
        at -= step.reshape(-1, 1, 1) * ((attention * (slope - (attention * slope).sum(-1, keepdim=True))) @ code)
        if update * frames // updates > (update - 1) * frames // updates:
            places.append(at.clone())
    return (torch.stack(places),)


def stability(risk: SeriesRisk, places: Tensor, step: Tensor) -> Tensor:
    r"""Stability number :math:`\eta \lambda_{\max} / 2` of gradient descent at every place, (frames, rows).

    :math:`\lambda_{\max}` is the largest eigenvalue of the Hessian of the exact risk. Below 1 the step size
    :math:`\eta` is smaller than :math:`2/\lambda_{\max}` and a small step lowers the risk; above 1 the step
    overshoots along the steepest bend, and where the heads go is no longer the risk's doing alone.
    """
    with one_thread_per_process():
        return step / 2 * torch.stack([torch.linalg.eigvalsh(hessians(risk, heads))[:, -1] for heads in places])


def solved(attention: Tensor, tasks: Sequence[Parity]) -> Tensor:
    """Whether the heads together read B: every bit has a weight of at least 0.75; (seeds, heads, n) -> (seeds,)."""
    bits = torch.tensor([task.indices for task in tasks])
    return position_weights(attention, tasks[0].k).gather(1, bits.expand(len(attention), -1)).amin(1) >= SOLVED


@kept
def trials(settings: list[Setting], pairs: int, seed: int, accuracy: float = 1e-3) -> pd.DataFrame:
    """The stated recipe on ``pairs`` (set, start) pairs, half of the sets with cyclic neighbours; one row each.

    The settings may differ in c1 and step only. In s they are one risk, so that all of them descend in one tensor.
    Columns: those of the setting, ``seed``, ``neighbours``, ``solved``, ``committed``, the risk at the ``start`` and at
    the end (``risk``), that of ``least`` for heads that read B hard, and the largest ``stability`` number met at nine
    places along the way.
    """
    (first, *_), sets = settings, mixed_sets(settings[0].n, settings[0].k, pairs, seed)
    seeds, tasks = range(seed, seed + pairs), sets * len(settings)
    risk = PopulationRisk(tasks, "squared_hinge", 1.0, first.smoothing, accuracy=accuracy)
    start = torch.cat([initial_directions(seeds, first.k) * one.n / one.c1 for one in settings])
    step = torch.tensor([one.step for one in settings], dtype=torch.float64).repeat_interleave(pairs)
    places = descend(risk, start, step, first.updates)
    heads = soft_attention(places[-1], first.n, 1.0)
    columns = [pd.DataFrame([asdict(one)] * pairs).assign(seed=seeds) for one in settings]
    found = {
        "neighbours": [bool(task.neighbours) for task in tasks], "solved": solved(heads, tasks),
        "committed": committed(heads, tasks), "start": risk(start), "risk": risk(places[-1]),
        "least": aligned_hard_risk(first.k, first.smoothing), "stability": stability(risk, places, step).amax(0),
    }  # fmt: skip
    return pd.concat(columns, ignore_index=True).assign(**found)


def success_map(settings: Sequence[Setting], pairs: int, seed: int, accuracy: float = 1e-3) -> pd.DataFrame:
    """:func:`trials` of all settings, on the same pairs for all with equal n and k."""
    stacks: dict[tuple[object, ...], list[Setting]] = {}
    for one in dict.fromkeys(settings):
        stacks.setdefault((one.n, one.k, one.smoothing, one.updates), []).append(one)
    steps = track(len(stacks), "map")
    parts = [trials(stack, pairs, seed, accuracy) for stack, _ in zip(stacks.values(), steps, strict=True)]
    return pd.concat(parts, ignore_index=True)


def grid(
    n: int, ks: Sequence[int], smoothings: Sequence[float], c1s: Sequence[float], steps: Sequence[float], updates: int
) -> list[Setting]:
    """Smoothing by c1 at the first step size for every k, and smoothing by step size at c1 = 1."""
    across = [Setting(n, k, b, c1, steps[0], updates) for k in ks for b in smoothings for c1 in c1s]
    return across + [Setting(n, k, b, 1.0, step, updates) for k in ks for b in smoothings for step in steps[1:]]


def window_settings(
    lengths: Sequence[int], smoothings: Sequence[float], updates: int, four_updates: int
) -> list[Setting]:
    """Smoothing by n for one to four bits; from three bits on only smoothings of one half or more, as in the map.

    The step grows like n, since the risk bends less the more positions share a head. ``updates`` are those for up to
    20 positions; beyond, they grow like n², since the signal fades. Four bits have longer steps and ``four_updates``.
    """
    found = []
    for k, n, b in product((1, 2, 3, 4), lengths, smoothings):
        step, made = (20.0, four_updates) if k == 4 else (8.0, updates)
        if k < 3 or b >= 0.5:
            found.append(Setting(n, k, b, 1.0, step * n / 20, round(made * max(1.0, (n / 20) ** 2))))
    return found


def windows(found: pd.DataFrame) -> pd.DataFrame:
    """The smoothings at which at least half of the pairs are solved, from ``low`` to ``high``, nan if there is none.

    A row for every ``k``, ``n`` and with or without ``neighbours``; ``best`` is the largest share solved, ``solved``
    pairs of ``pairs``, at the smoothing ``at``; ``calm`` the share of its runs whose steps stay below the limit of
    stability.
    """
    by = ["k", "neighbours", "n"]
    tried = with_calm(found).assign(best=found["solved"], pairs=1).groupby([*by, "smoothing"])
    cells = tried.agg({"best": "mean", "solved": "sum", "pairs": "sum", "calm": "mean"}).reset_index()
    window = cells[cells["best"] >= 0.5].groupby(by)["smoothing"].agg(low="min", high="max")
    best = cells.loc[cells.groupby(by)["best"].idxmax()].rename(columns={"smoothing": "at"})
    return best.join(window, on=by)[[*by, "low", "high", "at", "best", "solved", "pairs", "calm"]]


def every_window(found: pd.DataFrame) -> pd.DataFrame:
    """:func:`windows` by k, neighbours and n for one to four bits, with gaps where no such sets were tried."""
    by = ["k", "neighbours", "n"]
    every = pd.MultiIndex.from_product([(1, 2, 3, 4), (False, True), sorted(found["n"].unique())], names=by)
    return windows(found).set_index(by).reindex(every)


KEYS = [field.name for field in fields(Setting)]


def refined(found: pd.DataFrame, pairs: int, seed: int) -> pd.DataFrame:
    """A map, and below it one of the settings that are :func:`closer`, if there are any."""
    near = closer(found)
    return pd.concat([found, success_map(near, pairs, seed)], ignore_index=True) if near else found


def best_settings(found: pd.DataFrame) -> list[Setting]:
    """For every k the setting of a map with the most solved pairs; the first of equals."""
    shares = found.groupby(KEYS, sort=False)["solved"].mean().reset_index()
    chosen = shares.loc[shares.groupby("k", sort=True)["solved"].idxmax(), KEYS]
    return [Setting(**row) for row in chosen.to_dict("records")]


def closer(found: pd.DataFrame) -> list[Setting]:
    """Settings around the best of every k that solves some pairs of a map, but not all: other smoothings, a shorter
    step, and four times the updates."""
    share = found.groupby(KEYS)["solved"].mean().groupby("k").max()
    near = [one for one in best_settings(found) if 0 < share[one.k] < 1]
    return [
        replace(one, smoothing=float(f"{factor * one.smoothing:.4g}"), step=step, updates=4 * one.updates)
        for one in near for factor in (0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25) for step in (one.step / 2, one.step)
    ]  # fmt: skip


def with_calm(found: pd.DataFrame) -> pd.DataFrame:
    """The runs with a column ``calm``: whether their steps stay below the limit of stability."""
    return found.assign(calm=found["stability"] < 1)


def success_table(found: pd.DataFrame) -> pd.DataFrame:
    """Solved and committed, k of N, with and without neighbours, and below the limit of stability; a row per k."""
    rows = []
    for k, part in found.groupby("k"):
        near, below, first = part["neighbours"], part["stability"] < 1, part.iloc[0]
        cells = {"bits apart": ~near, "with neighbours": near, "steps below 2/L": below}
        rows.append({"k": k, "b": first["smoothing"], "c1": first["c1"], "step/τ²": first["step"],
                     **{name: k_of_n(part.loc[chosen, "solved"]) for name, chosen in cells.items()},
                     "each head its own bit": k_of_n(part["committed"]),
                     "median risk": f"{part['start'].median():.2f} to {part['risk'].median():.2f}",
                     "least": f"{first['least']:.2f}"})  # fmt: skip
    return pd.DataFrame(rows)


def map_table(found: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Solved pairs of a map for every k and smoothing (and what else is in ``by``), all c1 and steps together: bits
    apart and with neighbours, and runs whose steps stay below the limit of stability or not."""
    sides, paces = {False: "bits apart", True: "neighbours"}, {True: "short steps", False: "steps that overshoot"}
    cell = found["neighbours"].map(sides) + ", " + (found["stability"] < 1).map(paces)
    cells = [f"{side}, {pace}" for side, pace in product(sides.values(), paces.values())]
    named = found.assign(b=found["smoothing"], cell=cell).groupby([*by, "k", "b", "cell"])
    table = named["solved"].agg(k_of_n).unstack(fill_value="0 of 0")
    return table.reindex(columns=cells, fill_value="0 of 0").rename_axis(columns=None).reset_index()


def k_of_n(found: pd.Series) -> str:
    """How many of the truth values are true, in words."""
    return f"{found.sum()} of {len(found)}"


# Why: what the label-free force does alone


@kept
def anatomy(setting: Setting, pairs: int, seed: int) -> pd.DataFrame:
    """Descent on the whole risk and on its label-free part alone, from the same starts; one row per pair.

    Columns: ``solved``, ``risk`` and ``sharpest`` (largest attention of any head) at the end of descent on the whole
    risk; ``blind_sharpest``, the last at the end of descent on the label-free part; and of the place to which
    :func:`settle` brings the heads from there ``fall`` (of the risk), ``growth`` (of the longest head), ``pull``
    (length of the gradient), ``bend`` (smallest curvature) and ``blind_pull`` (length of the label-free gradient).
    """
    tasks, seeds = mixed_sets(setting.n, setting.k, pairs, seed), range(seed, seed + pairs)
    risk = PopulationRisk(tasks, "squared_hinge", 1.0, setting.smoothing, accuracy=1e-3)
    start, step = initial_directions(seeds, setting.k) * setting.n / setting.c1, torch.full((pairs,), setting.step)
    blind = risk.forces()[0]
    ends, alone = (descend(part, start, step, setting.updates)[-1] for part in (risk, blind))
    rest = settle(risk, ends)
    heads, blind_heads = (soft_attention(s, setting.n, 1.0) for s in (ends, alone))
    found = {
        **asdict(setting), "seed": seeds, "solved": solved(heads, tasks), "risk": risk(ends),
        "sharpest": heads.amax((1, 2)), "blind_sharpest": blind_heads.amax((1, 2)), "fall": risk(ends) - risk(rest),
        "growth": rest.norm(dim=2).amax(1) - ends.norm(dim=2).amax(1),
        "pull": pull(risk, rest), "bend": torch.linalg.eigvalsh(hessians(risk, rest))[:, 0],
        "blind_pull": pull(blind, rest),
    }  # fmt: skip
    return pd.DataFrame(found)


def pull(risk: SeriesRisk, heads: Tensor) -> Tensor:
    """Length of the gradient at every row, (rows, heads, 2) -> (rows,)."""
    return gradient(risk, heads).flatten(1).norm(dim=1)


def settle(risk: SeriesRisk, heads: Tensor) -> Tensor:
    """Newton's method down from every row: 60 steps no longer than one half, by the curvatures' absolute values.

    It comes to rest at a minimum where descent would take very long, and runs away where there is none.
    """
    for _ in range(60):
        curvatures, axes = torch.linalg.eigh(hessians(risk, heads))
        along = (axes.mT @ gradient(risk, heads).flatten(1).unsqueeze(2)).squeeze(2)
        step = (axes @ (along / curvatures.abs().clamp_min(1e-9)).unsqueeze(2)).squeeze(2)
        shorter = (0.5 / step.norm(dim=1, keepdim=True).clamp_min(1e-30)).clamp_max(1)
        heads = heads - (step * shorter).reshape(heads.shape)
    return heads


def anatomies(settings: Sequence[Setting], pairs: int, seed: int) -> pd.DataFrame:
    """:func:`anatomy` of every setting, with how each run ended.

    ``melted``: descent on the label-free part alone leaves no head with more than a quarter of its attention on one
    position. ``end`` is how :func:`how_it_ended` has it.
    """
    found = pd.concat([anatomy(setting, pairs, seed) for setting in settings], ignore_index=True)
    return found.assign(melted=found["blind_sharpest"] < MELTED, end=how_it_ended(found))


def how_it_ended(found: pd.DataFrame) -> np.ndarray:
    """``solved``; or ``sharp trap`` or ``soft trap``, a strict minimum, some head sharp or none; or ``outward``, a
    valley in which the heads grow and the risk hardly falls; or ``on the way``; for every row."""
    trap = (found["pull"] < STILL) & (found["bend"] > STRICT)
    outward = (found["growth"] > 1) & (found["fall"] < 0.01 * found["risk"])
    met = [found["solved"], trap & (found["sharpest"] >= MELTED), trap, outward]
    return np.select(met, ["solved", "sharp trap", "soft trap", "outward"], "on the way")


def lost(found: pd.DataFrame, *ends: str) -> Rate:
    """How many of the runs that are not solved ended in one of these ways."""
    return success(found.assign(lost=found["end"].isin(ends)), "lost", solved=False)


def blind_traps(found: pd.DataFrame) -> Rate:
    """How many of the traps are resting places of the label-free part alone, so that the signal has no say there."""
    traps = found[found["end"].isin(["sharp trap", "soft trap"])]
    return success(traps.assign(blind=traps["blind_pull"] < 1e-6), "blind")


def ends(found: pd.DataFrame) -> pd.DataFrame:
    """How many runs ended in which way, a row for every k and smoothing."""
    return found.groupby(["k", "smoothing", "end"]).size().unstack(fill_value=0).rename_axis(columns=None).reset_index()


def uniform_bend(n: int, k: int, smoothing: float) -> float:
    r"""Curvature of the label-free part at uniform attention, for heads that move together.

    To second order that part is :math:`\frac18 E A''(u') \sum_j (c_j - k/n)^2`, with u' the sum of n - 2 positions:
    above 0 heads that let go of all positions are held there, below 0 they are not. Heads that move apart leave c, and
    this part, unchanged.
    """
    blind = PopulationRisk(Parity(n, range(1, k + 1)), "squared_hinge", 1.0, smoothing, accuracy=1e-3).forces()[0]
    hessian = hessians(blind, torch.zeros(1, k, 2, dtype=torch.float64), 1e-3)[0]
    together = torch.tensor([1.0, 0.0], dtype=torch.float64).repeat(k) / math.sqrt(k)
    return float(together @ hessian @ together)


def uniform_bends(ns: Sequence[int], ks: Sequence[int], smoothings: Sequence[float]) -> pd.DataFrame:
    """:func:`uniform_bend` over n, k and smoothing: columns ``n``, ``k``, ``smoothing``, ``bend``."""
    rows = [(*place, uniform_bend(*place)) for place in product(dict.fromkeys(ns), ks, smoothings)]
    return pd.DataFrame(rows, columns=["n", "k", "smoothing", "bend"])


@kept
def forces(settings: list[Setting], pairs: int, seed: int) -> pd.DataFrame:
    """Both forces along training: ``smoothing``, ``k``, ``seed``, ``update``, ``force``, ``size``."""
    parts = []
    for setting in settings:
        tasks = mixed_sets(setting.n, setting.k, 2 * pairs, seed)[::2]  # without neighbours
        seeds, step = range(seed, seed + pairs), torch.full((pairs,), setting.step)
        risk = PopulationRisk(tasks, "squared_hinge", 1.0, setting.smoothing, accuracy=1e-4)
        start = initial_directions(seeds, setting.k) * setting.n / setting.c1
        places = descend(risk, start, step, setting.updates, 100)
        for name, part in zip(FORCES, risk.forces(), strict=True):
            for frame, heads in enumerate(places):
                columns = {"smoothing": setting.smoothing, "k": setting.k, "seed": seeds, "force": name}
                update = frame * setting.updates // (len(places) - 1)
                parts.append(pd.DataFrame(columns | {"update": update, "size": pull(part, heads)}))
    return pd.concat(parts, ignore_index=True)


@kept
def first_forces(lengths: list[int], starts: int) -> pd.DataFrame:
    """Both forces of the squared hinge at the random start, k = 3 evenly spread bits and smoothing 0.01, against n.

    Columns ``n``, ``temperature`` ("1/n" or "1"), ``seed``, ``force``, ``size`` (nan below 1e-150).
    """
    parts, heads = [], initial_directions(range(starts), 3)
    for n, name in product(lengths, ("1/n", "1")):
        temperature = 1 / n if name == "1/n" else 1.0
        risk = PopulationRisk(spread_bits(n, 3), "squared_hinge", temperature, 1e-2, accuracy=1e-4)
        for force, part in zip(FORCES, risk.forces(), strict=True):
            size = temperature * pull(part, heads)
            size[size < 1e-150] = math.nan
            columns = {"n": n, "temperature": name, "seed": range(starts), "force": force, "size": size}
            parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def dominance(found: pd.DataFrame, **where: object) -> float:
    """Median label-free force over median parity signal among the rows with the given values."""
    for column, value in where.items():
        found = found[found[column] == value]
    medians = found.groupby("force")["size"].median()
    return float(medians["label-free"] / medians["parity signal"])


@kept
def landscape(n: int, bits: list[int], smoothings: list[float], points: int, starts: int, updates: int) -> pd.DataFrame:
    """Risk of two heads over the positions they point at, and the ways of training; a panel per smoothing, and one
    for heads that sample.

    Columns ``panel``, ``layer`` (``risk`` or ``way``), ``seed``, ``frame``, ``head_1``, ``head_2``, ``risk``. All is
    in s, where heads of norm n are as long as those of the paper.
    """
    task, parts = Parity(n, bits), []
    if task.k != 2:
        raise ValueError(f"the landscape is over two heads, so pair_bits must be two positions, got {list(bits)}")
    recipes = {f"b = {b:g}": Setting(n, 2, b, updates=updates).recipe(1e-4, 40) for b in smoothings}
    recipes["heads that sample"] = RECIPES["repaired"]
    places = torch.cartesian_prod(torch.arange(points), torch.arange(points))  # both heads on a finer circle
    first, second = (places.double() + 1).T * n / points
    for panel, recipe in recipes.items():
        risk = risk_of([task], replace(recipe, temperature=1.0, temperature_power=0))  # of s
        values = risk(n * positional_code(points)[places])
        columns = {"panel": panel, "layer": "risk", "head_1": first, "head_2": second, "risk": values}
        parts.append(pd.DataFrame(columns))
        run = train(task, recipe, starts, progress=False)
        for frame, heads in enumerate(angle_to_position(run.directions, n)):
            columns = {"panel": panel, "layer": "way", "frame": frame, "seed": run.seeds, "head_1": heads[:, 0],
                       "head_2": heads[:, 1], "risk": run.risk[frame]}  # fmt: skip
            parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


# The rate, in the easiest case


def one_head_risk(attention: Tensor, bit: int) -> Tensor:
    r"""Risk of one head with the ReLU and at least half of its attention on the bit: (..., n) -> (...).

    :math:`R = 2\delta^2 + 2\sum_{j \ne B} \gamma_j^2` with :math:`\delta = 1 - \gamma_B` (dossier of Theorem 5).
    """
    others = torch.cat([attention[..., : bit - 1], attention[..., bit:]], dim=-1)
    return 2 * others.sum(-1) ** 2 + 2 * others.square().sum(-1)


@kept
def slow_descent(n: int, updates: int, step: float) -> pd.DataFrame:
    """Gradient descent of one head that starts at its bit, k = 1 and the ReLU: ``update``, ``risk`` and their product.

    The step is the same throughout, so that a geometric rate would be a straight line of log(risk).
    """
    head = (n * positional_code(n)[[0]]).requires_grad_()  # attention above one half, at temperature 1
    risks = []
    for _ in range(updates):
        risk = one_head_risk(soft_attention(head, n, 1.0)[0], 1)
        (slope,) = torch.autograd.grad(risk, head)
        head = (head - step * slope).detach().requires_grad_()
        risks.append(float(risk.detach()))
    update = np.unique(np.geomspace(1, updates, 60).astype(int))
    found = np.array(risks)[update - 1]
    return pd.DataFrame({"update": update, "risk": found, "product": update * found})


def risk_floor(k: int, smoothing: float, n: int) -> float:
    r"""A number above 0 below which no heads can bring the risk, for smoothing above 0 (dossier of Theorem 5).

    Odd k: the prediction on 0...0 is below its label 1 whatever the heads. Even k: some bit has a weight of at most 1,
    and on the input with a one there alone the prediction exceeds -1 by at least :math:`\min(2, b/(k - 1/2))`.
    """
    if k % 2 == 0:
        return (1 / 8 if k == 2 else 2.0**-n) * min(2.0, smoothing / (k - 0.5)) ** 2
    z = np.arange(k) + 0.5
    rising = 4 * smoothing / (1 + np.sqrt(1 + smoothing / z**2))
    chance = 0.5 if k == 1 else 2.0**-n  # with one head no sum is below 0
    return chance * float((rising * (-1.0) ** (np.arange(k) + 1)).sum()) ** 2


def floors(found: pd.DataFrame, n: int) -> pd.DataFrame:
    """The proved floor of the risk beside the least risk that any run of a map reached, by ``k`` and ``smoothing``."""
    least = found.groupby(["k", "smoothing"])["risk"].min().reset_index()
    proved = [risk_floor(int(k), b, n) for k, b in zip(least["k"], least["smoothing"], strict=True)]
    return least.rename(columns={"risk": "least"}).assign(floor=proved)


# Aliases of the sigmoid hinge


def parity_terms(risk: PopulationRisk, directions: Tensor) -> tuple[Tensor, Tensor]:
    """The parity signal frequency by frequency: omega (M,) and its terms, (rows, heads, 2) -> (rows, M)."""
    weights = position_weights(soft_attention(directions, risk.n, risk.temperature), risk.k)
    half = math.pi / risk.series.period * torch.arange(1, risk.frequencies + 1, dtype=torch.float64)
    angles = half.unsqueeze(1) * weights.unsqueeze(1)  # (rows, M, n)
    bits = risk.bits(weights.shape[:1], weights.device)
    on_bits = torch.zeros_like(weights, dtype=torch.bool).scatter(1, bits, True).unsqueeze(1)
    return 2 * half, risk.series.parity[1:] * torch.where(on_bits, angles.sin(), angles.cos()).prod(-1)


@kept
def aliases(n: int, ks: list[int], sets: int) -> pd.DataFrame:
    """Runs of the authors' loss (labels ±1, exact gradients) on random sets without neighbours; one row per run.

    Columns ``k``, ``seed``, ``bits``, ``recovered``, ``distance`` (how far a bit's weight is from one third, at most),
    ``weight`` (the summed attention of all positions), ``rests`` (not recovered and hardly a gradient), and
    ``third_harmonic``: at rest the frequencies around 3 pi lower the risk, and more than all others do.
    """
    recipe, parts = replace(RECIPES["figure2-signed"], epochs=1, updates_per_epoch=800), []
    for k in ks:
        tasks = mixed_sets(n, k, 2 * sets, seed=k)[::2]
        run = train(tasks, recipe, sets, progress=False)
        risk, heads = PopulationRisk(tasks, recipe.loss, 1.0, recipe.smoothing), run.directions[-1]
        weights = run.attention[-1].sum(1)
        on_bits = weights.gather(1, risk.bits(weights.shape[:1], weights.device))
        rests = ~run.recovered & (pull(risk, heads) < REST)
        omega, terms = parity_terms(risk, heads)
        around = (omega / math.pi + 0.5).floor() == 3
        third, other = terms[:, around].sum(1), terms[:, ~around].sum(1)
        columns = {
            "k": k, "seed": run.seeds, "bits": [task.bits for task in tasks], "recovered": run.recovered,
            "distance": (on_bits - 1 / 3).abs().amax(1), "rests": rests,
            "third_harmonic": rests & (third < other.clamp_max(0)),
            "weight": [[round(weight, 4) for weight in row] for row in weights.tolist()],
        }  # fmt: skip
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def alias_shown(found: pd.DataFrame) -> pd.DataFrame:
    """Of every k the run at rest whose bits carry closest to one third: ``k``, ``position``, ``bit``, ``weight``."""
    chosen = found.loc[found[found["rests"]].groupby("k")["distance"].idxmin()].explode("weight", ignore_index=True)
    position = chosen.groupby("k").cumcount() + 1
    bit = [place in bits for place, bits in zip(position, chosen["bits"], strict=True)]
    return chosen[["k"]].assign(position=position, bit=bit, weight=chosen["weight"].astype(float))


# Verdicts


@kept
def certified() -> pd.DataFrame:
    """The certified traps, one row each: where, and what is proven (see :mod:`parity_lib.chapters.certificate`)."""
    rows = [
        {"trap": name, "n": trap.n, "k": len(trap.bits), "smoothing": float(trap.smoothing), **asdict(certify(trap))}
        for name, trap in TRAPS.items()
    ]
    return pd.DataFrame(rows)


def certificate_table(found: pd.DataFrame) -> pd.DataFrame:
    """The certified traps as a page shows them: a column each, with the centre's coordinates."""
    columns = {}
    for r in found.itertuples():
        trap = TRAPS[r.trap]
        centre = [f"({sine}, {cosine})" for sine, cosine in trap.centre] + [""] * (int(found["k"].max()) - int(r.k))
        heads = {f"head {i}, a/τ": place for i, place in enumerate(centre, 1)}
        size = 10.0 ** math.floor(math.log10(r.chance))
        columns[f"n = {r.n}, B = {{{', '.join(map(str, trap.bits))}}}"] = {
            "smoothing b": trap.smoothing, "c1": trap.c1, **heads, "radius of the ball": trap.radius,
            "risk in the ball": f"{r.risk_low:.4f} to {r.risk_high:.4f}",
            "curvature": f"{r.curvature_low:.4f} to {r.curvature_high:.4f}",
            "gradient at the centre": f"below {np.ceil(1e16 * r.gradient):.0f}·10⁻¹⁶", "steps up to": f"{r.step:.2f}",
            "chance of a start in it": tell("above {size:power}", holds=True, size=size).text,
        }  # fmt: skip
    return pd.DataFrame(columns).rename_axis("").reset_index()


def judge_traps(certificates: pd.DataFrame) -> Verdict:
    """Theorem 5's convergence without a chance of failure: refuted by a certified trap that a random start can hit."""
    proven = certificates[certificates["holds"] & (certificates["chance"] > 0) & (certificates["risk_low"] > 1)]
    if proven.empty:
        return Verdict("open", "certified", {})
    numbers = {
        f"{r.trap}, n = {r.n}, b = {r.smoothing:g}": {
            "risk above": r.risk_low, "steps up to": r.step, "chance of the start at least": r.chance,
        }
        for r in proven.itertuples()
    }  # fmt: skip
    instead = "with positive probability the risk stays above the numbers given; the map counts how often it does"
    return Verdict("fails", "certified", numbers, instead)


def _best(confirmed: pd.DataFrame) -> tuple[dict[int, Rate], dict[str, Rate], str]:
    """Pairs solved at the best setting of every k, apart and with neighbours, with the n at which they were found.

    A claim about any set of bits has to hold on either side, so the lower of the two decides: the first part, by k.
    """
    by_side = confirmed.groupby(["k", "neighbours"])["solved"]
    found, least = by_side.agg(rate), by_side.mean().groupby("k").idxmin()
    named = {f"k = {k}, best setting, {'with neighbours' if near else 'apart'}": share
             for (k, near), share in found.items()}  # fmt: skip
    at = f"at n = {', '.join(map(str, sorted(confirmed['n'].unique())))}"
    return found[least].droplevel("neighbours").to_dict(), named, at


def judge_convergence(confirmed: pd.DataFrame) -> Verdict:
    """Theorem 5's recipe brings the heads to the bits, for every k, apart and with neighbours."""
    found, numbers, at = _best(confirmed)
    passing = [k for k, share in found.items() if share.low > 0.5]
    if not passing:
        return Verdict("fails", "measured", numbers, "nothing found")
    if len(passing) == len(found):
        return Verdict("holds", "measured", numbers)
    b = confirmed.groupby("k")["smoothing"].first()
    works = ", ".join(f"k = {k} with smoothing {b[k]:g}" for k in passing)
    lost = ", ".join(str(k) for k in found if k not in passing)
    instead = f"{at} heads find the bits for {works}; for k = {lost} no setting tried passes apart and with neighbours"
    return Verdict("narrower range", "measured", numbers, instead)


def judge_any_k(confirmed: pd.DataFrame) -> Verdict:
    """Remark 10, training works for any k: by the k and side with the lowest rate at its best setting."""
    found, numbers, at = _best(confirmed)
    worst = min(found.values(), key=lambda one: one.share)
    as_stated = "holds" if worst.low > 0.5 else "fails" if worst.high < 0.5 else "open"
    works = [str(k) for k, share in found.items() if share.low > 0.5]
    listed = " and ".join(filter(None, [", ".join(works[:-1]), *works[-1:]]))
    instead = f"{at} for k = {listed}, each with a smoothing of its own" if works and as_stated != "holds" else ""
    return Verdict(as_stated, "measured", numbers, instead)


def judge_rate(floors: pd.DataFrame, descent: pd.DataFrame) -> Verdict:
    """Theorem 5's geometric rate to 0: refuted for b > 0 by a floor, and without smoothing by a rate of 1/t."""
    late = descent.loc[descent["update"] >= descent["update"].max() / 4, "product"]
    change, least = late.max() / late.min() - 1, floors[["floor", "least"]].min()
    numbers = {
        "smallest proved floor": least["floor"], "least risk found": least["least"],
        "update x risk, last three quarters": late.median(), "it changes by": change,
    }  # fmt: skip
    if (floors["floor"] > 0).all() and (floors["least"] >= floors["floor"]).all() and change < 0.1:
        instead = "with b > 0 the risk cannot reach 0; with b = 0 no rate is geometric, for bits apart at best 1/t"
        return Verdict("fails", "proved", numbers, instead)
    return Verdict("open", "measured", numbers)

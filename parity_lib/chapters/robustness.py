"""Success over many (set of bits, start) pairs, what a gradient costs in examples, and reading B off the heads.

Failure follows the set of bits more than the start (chapter ``robustness``), so a rate of success is
counted over pairs: every row of a run has its own set *and* its own start, and all rows train in one
tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor
from torch.nn.functional import pad

from ..attention import head_matrices, literal_prediction, position_weights, positional_code, soft_attention
from ..evidence import Interval, Rate, wilson
from ..losses import find_loss
from ..recipes import Recipe
from ..risk import aligned_hard_risk
from ..sampled_heads import CosineHeadRisk, SampledAttentionRisk
from ..task import Parity
from ..training import Run, committed, initial_directions, minimise, recovered
from .convergence import gradient

# Sets of bits


def closest_distance(task: Parity) -> int:
    """Cyclic distance of the two closest bits of B, 1 for neighbours; n if B has a single bit."""
    after = (*task.bits[1:], task.bits[0] + task.n)
    return min(later - bit for bit, later in zip(task.bits, after, strict=True))


def draw_sets(
    n: int, k: int, count: int, seed: int, wanted: Callable[[Parity], bool] = lambda task: True
) -> tuple[Parity, ...]:
    """``count`` random sets of k bits with the property ``wanted``, uniform among those that have it."""
    generator = torch.Generator().manual_seed(seed)
    found: list[Parity] = []
    for _ in range(100_000):
        if len(found) == count:
            return tuple(found)
        task = Parity.random(n, k, generator)
        if wanted(task):
            found.append(task)
    raise ValueError(f"found only {len(found)} of {count} sets of {k} bits in 1..{n} with the wanted property")


def sets_at_distance(n: int, k: int, distance: int, count: int, seed: int) -> tuple[Parity, ...]:
    """Sets whose two closest bits are exactly ``distance`` apart on the circle."""
    if not 1 <= distance <= n // k:
        raise ValueError(f"{k} bits on a circle of {n} can be 1..{n // k} apart, got {distance!r}")
    return draw_sets(n, k, count, seed, lambda task: closest_distance(task) == distance)


def mixed_sets(n: int, k: int, count: int, seed: int) -> tuple[Parity, ...]:
    """Sets in turn without and with cyclic neighbours; for k = 1, or too large a k, any sets."""
    if k == 1 or 2 * k > n:
        return draw_sets(n, k, count, seed)
    apart = draw_sets(n, k, (count + 1) // 2, seed, lambda task: not task.neighbours)
    close = draw_sets(n, k, count // 2, seed, lambda task: bool(task.neighbours))
    return tuple(task for pair in zip(apart, close, strict=False) for task in pair) + apart[len(close) :]


# Success


@dataclass(frozen=True)
class Success:
    """Hard and committed success of the same runs."""

    hard: Rate
    committed: Rate

    def __str__(self) -> str:
        return str(self.committed)


def success(run: Run, rows: Sequence[int] | slice = slice(None)) -> Success:
    """Success at the end of training, over the given rows of a run."""
    attention = _attention(run, -1)  # not of all frames, which need not fit in memory together
    chosen = (ok(attention, run.tasks)[rows] for ok in (recovered, committed))
    return Success(*(wilson(int(values.sum()), len(values)) for values in chosen))


def _attention(run: Run, frame: int) -> Tensor:
    """The attention at one frame, (seeds, heads, n)."""
    n = run.tasks[0].n
    return soft_attention(run.directions[frame], n, run.recipe.temperature_at(n), run.recipe.code)


def best_of(run: Run, starts: int) -> list[int]:
    """The row of least final risk among each ``starts`` consecutive rows, which share a set of bits."""
    if len(run.seeds) % starts:
        raise ValueError(f"{len(run.seeds)} rows do not divide into groups of {starts} starts")
    best = run.risk[-1].reshape(-1, starts).argmin(1)
    return (best + starts * torch.arange(len(best))).tolist()


def settling_update(run: Run) -> Tensor:
    """Update from which on the arg-max positions stay exactly B, (seeds,); infinite where they are not at the end.

    Known to the frame: ``updates_per_epoch`` of the run's recipe is the resolution.
    """
    right = torch.stack([recovered(_attention(run, frame), run.tasks) for frame in range(len(run.directions))])
    tail = right.flip(0).to(torch.int64).cumprod(0).sum(0)  # frames at the end that are right
    first = (len(right) - tail) * run.recipe.updates_per_epoch
    return torch.where(tail > 0, first.to(torch.float64), math.inf)


def share_closed(run: Run) -> Tensor:
    r"""How much of the way from guessing to the least risk is done, :math:`(1 - R)/(1 - R^*)`, (seeds,).

    For losses that are 1 on average for guesses (sigmoid hinge, linear); :math:`R^*` is the risk of hard
    heads on the bits.
    """
    least = 0.0
    if run.recipe.head == "zigzag":
        least = aligned_hard_risk(run.tasks[0].k, run.recipe.smoothing, run.recipe.loss)
    return (1 - run.risk[-1]) / (1 - least)


# Gradients at the start


def start_gradients(risk: Callable[[Tensor], Tensor], directions: Tensor) -> Tensor:
    """Norm of the gradient of every row, (rows, heads, width) -> (rows,)."""
    return gradient(risk, directions).flatten(1).norm(dim=1)


def examples_for_a_gradient(
    task: Parity, directions: Tensor, temperature: float, code: str, examples: int, generator: torch.Generator
) -> Tensor:
    r"""Batch at which the product head's gradient g is as large as its noise, :math:`\mathrm{tr\,Cov}(g) / |E g|^2`.

    With :math:`z = 1 - 2x` the gradient on one example is :math:`-y\, J_i^T z \prod_{l \ne i} \gamma^{(l)} z` at head
    i, J being the Jacobian of attention. Its mean is exact; its mean square is taken over ``examples``
    draws, which it forgives, being a sum of squares.

    Parameters
    ----------
    directions : (rows, heads, width).

    Returns
    -------
    (rows,)
    """
    exact = start_gradients(SampledAttentionRisk(task, "linear", temperature, code), directions).square()
    table = positional_code(task.n, code)
    attention = soft_attention(directions, task.n, temperature, code)  # (rows, heads, n)
    z = 1 - 2 * task.sample(examples, generator)
    read = attention @ z.T  # (rows, heads, examples)
    total = torch.zeros_like(exact)
    for i in range(attention.shape[1]):
        gamma = attention[:, i]
        jacobian = gamma.unsqueeze(-1) * (table - (gamma @ table).unsqueeze(1)) / temperature  # (rows, n, width)
        others = read[:, [other for other in range(attention.shape[1]) if other != i]].prod(1)
        total += ((z @ jacobian).square().sum(-1) * others.square()).mean(-1)
    return (total - exact) / exact


def fitted_exponent(x: Sequence[float], values: np.ndarray, draws: int = 1000) -> Interval:
    """Exponent of the power law through the medians of ``values`` (x, runs), by least squares on logarithms.

    The interval is the bootstrap's, from drawing the runs anew, the same for every x, since run i has one start at
    all of them. It knows how the runs scatter, not whether a power law is right.
    """
    chance = np.random.default_rng(0)
    drawn = chance.integers(values.shape[1], size=(draws, values.shape[1]))
    medians = np.concatenate([np.median(values, 1)[:, None], np.median(values[:, drawn], 2)], axis=1)  # (x, 1 + draws)
    slopes = np.polyfit(np.log(x), np.log(medians), 1)[0]
    return Interval(float(slopes[0]), *(float(end) for end in np.quantile(slopes[1:], (0.025, 0.975))))


# Reading B off the heads


@dataclass(frozen=True)
class Reading:
    """An estimate of B for every run, made without knowing B, and how sure the heads are of it."""

    estimate: Tensor
    """(runs, k), positions from 0"""
    confidence: Tensor
    """(runs,), in 0..1"""

    def correct(self, tasks: Sequence[Parity]) -> Tensor:
        """Where the estimate is exactly B, (runs,) bool."""
        bits = torch.tensor([task.indices for task in tasks])
        return (self.estimate.sort(-1).values == bits).all(-1)


def read_by_heads(attention: Tensor) -> Reading:
    """Each head names its best position: attention (runs, k, n).

    Confidence is the product of the attention they give them, 0 if two heads name the same position.
    """
    best = attention.max(-1)
    ordered = best.indices.sort(-1).values
    distinct = (ordered[:, 1:] != ordered[:, :-1]).all(-1)
    return Reading(best.indices, best.values.prod(-1) * distinct)


def read_by_weights(attention: Tensor, k: int) -> Reading:
    """The k positions of largest summed attention c, for any number of heads: attention (runs, heads, n).

    Confidence is the gap between the k-th and the next. Two heads that share the direction between
    neighbours still give both bits a weight of one.
    """
    top = position_weights(attention, k).topk(k + 1, dim=-1)
    gap = top.values[:, k - 1] - top.values[:, k]
    return Reading(top.indices[:, :k], gap.clamp(0, 1))


def halves(groups: Sequence[Hashable], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of two random halves that hold equally much of every group, to one of each: one to fit, one to judge."""
    chance = np.random.default_rng(seed)
    rows: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        rows.setdefault(group, []).append(row)
    dealt = np.concatenate([chance.permutation(members) for members in rows.values()])
    return np.sort(dealt[::2]), np.sort(dealt[1::2])


def calibrate(confidence: np.ndarray, correct: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The non-decreasing map from confidence to frequency of success that fits best (isotonic regression)."""
    order = np.argsort(confidence, kind="stable")
    x, y = np.asarray(confidence, dtype=float)[order], np.asarray(correct, dtype=float)[order]
    fitted = isotonic_regression(y).x
    return lambda values: np.interp(values, x, fitted)


@dataclass(frozen=True)
class Bin:
    """Runs of similar confidence: their mean confidence and how often they were right."""

    confidence: float
    right: Rate


def reliability(confidence: np.ndarray, correct: np.ndarray, bins: int = 8, least: int = 8) -> list[Bin]:
    """Reliability diagram: runs in equal intervals of confidence, merged upwards until each holds ``least`` runs."""
    where = np.minimum((np.asarray(confidence) * bins).astype(int), bins - 1)
    groups: list[np.ndarray] = []
    held = np.array([], dtype=int)
    for b in range(bins):
        held = np.concatenate([held, np.flatnonzero(where == b)])
        if len(held) >= least:
            groups.append(held)
            held = held[:0]
    if len(held):  # too few are left at the top: they join the group below
        groups[-1:] = [np.concatenate([*groups[-1:], held])]
    return [Bin(float(confidence[g].mean()), wilson(int(correct[g].sum()), len(g))) for g in groups]


def calibration_error(bins: Sequence[Bin]) -> float:
    """Expected calibration error: mean distance of confidence and frequency, weighted by the number of runs."""
    total = sum(b.right.trials for b in bins)
    return sum(b.right.trials * abs(b.confidence - b.right.share) for b in bins) / total


# Training what no recipe names


def train_columns(
    tasks: Sequence[Parity], recipe: Recipe, seeds: Sequence[int], token_columns: bool, progress: bool = True
) -> tuple[Tensor, Tensor]:
    """Train the literal model on all 2^n inputs, with or without the entries a_11 and a_12 of every head.

    One set of bits per seed. The start, loss and optimiser are the recipe's. Returns the matrices at
    the end, (seeds, heads, 4, 4), and their exact risk, (seeds,).
    """
    n, k = tasks[0].n, tasks[0].k
    x = tasks[0].cube()
    labels = torch.stack([task.labels(x) for task in tasks])
    loss, temperature = find_loss(recipe.loss), recipe.temperature_at(n)
    start = head_matrices(initial_directions(seeds, k))[..., 0, 0 if token_columns else 2 :]  # a head's first row

    def matrices(row: Tensor) -> Tensor:
        return pad(row.unsqueeze(-2), (4 - row.shape[-1], 0, 0, 3))

    predict = torch.func.vmap(lambda a: literal_prediction(x, a, k, temperature, recipe.smoothing))
    label = "token columns" if token_columns else "position columns"
    end, risk = minimise(
        lambda row: loss(labels, predict(matrices(row))).mean(-1),
        start, recipe.updates, recipe.learning_rate, label, progress,
    )  # fmt: skip
    return matrices(end), risk[-1]


def cosine_head(
    tasks: Sequence[Parity],
    seeds: Sequence[int],
    updates: int,
    learning_rate: float = 0.08,
    code: str = "circle",
    progress: bool = True,
) -> Success:
    """Success of averaging heads with a cosine read-out, one task per seed, from exact gradients at temperature 1."""
    n = tasks[0].n
    start = initial_directions(seeds, tasks[0].k, n, code)
    end, _ = minimise(CosineHeadRisk(tasks, 1.0, code), start, updates, learning_rate, "cosine head", progress)
    attention = soft_attention(end, n, 1.0, code)
    return Success(*(wilson(int(ok(attention, tasks).sum()), len(tasks)) for ok in (recovered, committed)))


# Soft heads, read with hard attention


def weakest_bit(run: Run) -> Tensor:
    """The largest attention that any head gives to a bit, smallest over the bits of B, (seeds,)."""
    bits = torch.tensor([task.indices for task in run.tasks])
    best = run.attention[-1].amax(-2)  # (seeds, n)
    return best.gather(1, bits.expand(len(best), -1)).amin(-1)


def shared_middle(n: int, others: Sequence[int]) -> tuple[Parity, Tensor]:
    """Two heads half-way between n and 1 and one on each further bit: the set, and the directions (k, 2)."""
    task = Parity(n, (1, n, *others))
    middle = torch.tensor([[math.sin(math.pi / n), math.cos(math.pi / n)]] * 2, dtype=torch.float64)
    return task, torch.cat([middle, positional_code(n)[[bit - 1 for bit in others]]])

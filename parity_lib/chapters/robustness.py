"""The atlas: how success depends on the set of bits, temperature, heads, batches, k and n.

Failure follows the set of bits more than the start, so a rate of success is counted over *pairs*: every row of a frame
is one run, with a set *and* a start of its own, and all rows of a sweep train in one tensor.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import pad

from ..attention import (
    hard_attention,
    head_matrices,
    literal_prediction,
    position_weights,
    positional_code,
    soft_attention,
)
from ..evidence import Interval, Rate, Verdict, rate, rates
from ..losses import find_loss
from ..recipes import RECIPES, Recipe, budget
from ..risk import PopulationRisk, SeriesRisk, aligned_hard_risk
from ..sampled_heads import SampledAttentionRisk
from ..series import Series
from ..task import Parity, Tasks
from ..training import Run, committed, initial_directions, minimise, recovered, train
from .store import kept

SIGNED = replace(RECIPES["figure2-signed"], accuracy=1e-8)  # ample for counting, and faster
REPAIRED = RECIPES["repaired"]
SMOOTHER = 0.2
"""A second smoothing of the theorem's recipe: with it two bits are learned, with the usual 0.01 they are not."""
STATED = (RECIPES["theory"], replace(RECIPES["theory"], smoothing=SMOOTHER))
SOLVED = 0.95
"""A run counts as a soft solution if it closes this share of the gap between guessing and the least risk."""
DRAWS = 100_000
"""Sets that are drawn at most until enough have a wanted property."""

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
    drawn = (Parity.random(n, k, generator) for _ in range(DRAWS))
    found = tuple(islice(filter(wanted, drawn), count))
    if len(found) < count:
        raise ValueError(f"found only {len(found)} of {count} sets of {k} bits in 1..{n} with the wanted property")
    return found


def sets_at_distance(n: int, k: int, distance: int, count: int, seed: int) -> tuple[Parity, ...]:
    """Sets whose two closest bits are exactly ``distance`` apart on the circle."""
    return draw_sets(n, k, count, seed, lambda task: closest_distance(task) == distance)


def sets_with_distance(n: int, k: int, distance: int) -> int:
    """How many sets have their two closest bits exactly so far apart: all that far, less those farther."""
    near, far = (n * math.comb(max(0, n - k * (d - 1) - 1), k - 1) // k for d in (distance, distance + 1))
    return near - far


def mixed_sets(n: int, k: int, count: int, seed: int) -> tuple[Parity, ...]:
    """Sets in turn without and with cyclic neighbours; for k = 1, or too large a k, any sets."""
    if k == 1 or 2 * k > n:
        return draw_sets(n, k, count, seed)
    apart = draw_sets(n, k, (count + 1) // 2, seed, lambda task: not task.neighbours)
    close = draw_sets(n, k, count // 2, seed, lambda task: bool(task.neighbours))
    return tuple(task for pair in zip(apart, close, strict=False) for task in pair) + apart[len(close) :]


# One run, one row


def outcomes(run: Run) -> pd.DataFrame:
    """How every run ended, one row per (set, start) pair.

    Columns: ``n``, ``k``, ``bits``, ``seed``; ``neighbours``; ``recovered`` (the arg-max positions are exactly B) and
    ``committed`` (besides, every head gives its own more than 0.6); ``by_weights`` (the k positions of largest summed
    attention are B, for any number of heads); ``weakest`` (the largest attention any head gives a bit, smallest over
    B); ``risk``, in the recipe's own loss.
    """
    rows = len(run.seeds)
    tasks = run.tasks * (rows if len(run.tasks) == 1 else 1)
    attention = last_attention(run)
    bits = torch.tensor([task.indices for task in tasks])
    columns = {
        "n": tasks[0].n, "k": tasks[0].k, "bits": [" ".join(map(str, task.bits)) for task in tasks],
        "seed": run.seeds, "neighbours": [bool(task.neighbours) for task in tasks],
        "recovered": recovered(attention, tasks), "committed": committed(attention, tasks),
        "by_weights": right_by_weights(attention, tasks),
        "weakest": attention.amax(-2).gather(1, bits).amin(-1), "risk": run.risk[-1],
    }  # fmt: skip
    return pd.DataFrame(columns)


def last_attention(run: Run, frame: int = -1) -> Tensor:
    """The attention at one frame, (seeds, heads, n); that of all frames need not fit in memory together."""
    n = run.tasks[0].n
    return soft_attention(run.directions[frame], n, run.recipe.temperature_at(n), run.recipe.code)


def right_by_weights(attention: Tensor, tasks: Sequence[Parity]) -> Tensor:
    """Whether the k positions of largest summed attention are exactly B, (runs, heads, n) -> (runs,).

    Two heads that share the direction between neighbours still give both bits a weight of one.
    """
    k = tasks[0].k
    top = position_weights(attention, k).topk(k, dim=-1).indices.sort(-1).values
    return (top == torch.tensor([task.indices for task in tasks])).all(-1)


def settling_update(run: Run) -> Tensor:
    """Update from which on the arg-max positions stay exactly B, (seeds,); infinite where they are not at the end.

    Known to the frame: ``updates_per_epoch`` of the run's recipe is the resolution.
    """
    right = torch.stack([recovered(last_attention(run, frame), run.tasks) for frame in range(len(run.directions))])
    tail = right.flip(0).to(torch.int64).cumprod(0).sum(0)  # frames at the end that are right
    first = (len(right) - tail) * run.recipe.updates_per_epoch
    return torch.where(tail > 0, first.to(torch.float64), math.inf)


def share_closed(risk: np.ndarray | pd.Series | Tensor, k: int) -> np.ndarray:
    r"""How much of the way from guessing to the least risk is done, :math:`(1 - R)/(1 - R^*)`.

    For the sigmoid hinge, which is 1 on average for guesses; :math:`R^*` is the risk of hard heads on the bits.
    """
    return (1 - np.asarray(risk)) / (1 - aligned_hard_risk(k, SIGNED.smoothing, SIGNED.loss))


def success(frame: pd.DataFrame, column: str = "committed", **where: object) -> Rate:
    """Rate of the truth values in ``column`` among the rows that have the given values; of no rows, 0 of 0."""
    for name, value in where.items():
        frame = frame[frame[name] == value]
    return rate(frame[column])


def counts(frame: pd.DataFrame, rows: list[str], column: str, success: str = "committed") -> pd.DataFrame:
    """A table of ``k of N``: a row for each combination of ``rows``, a column for each value of ``column``."""
    if frame.empty:
        return frame[rows]
    found = rates(frame, [*rows, column], success)
    text = found["successes"].astype(str) + " of " + found["trials"].astype(str)
    wide = found.assign(text=text).pivot(index=rows, columns=column, values="text")
    wide = wide.reindex(index=pd.MultiIndex.from_frame(found[rows].drop_duplicates()), columns=found[column].unique())
    return wide.fillna("").rename_axis(columns=None).reset_index()


def fit(
    tasks: Sequence[Parity],
    recipe: Recipe,
    updates: int,
    device: str = "cpu",
    heads: int | None = None,
    epochs: int = 1,
    seeds: Iterable[int] | None = None,
    **settings: Any,
) -> Run:
    """Train one pair per set: ``updates`` updates of the recipe with some of its ``settings`` changed."""
    changed = replace(recipe, **{**budget(updates, epochs), **settings})
    return train(tasks, changed, range(len(tasks)) if seeds is None else seeds, heads=heads, device=device)


# The sweeps


@kept
def on_mixed_sets(recipe: Recipe, n: int, k: int, pairs: int, updates: int, device: str = "cpu") -> pd.DataFrame:
    """:func:`outcomes` on sets half of which have neighbours, with the columns ``recipe`` and ``smoothing``."""
    run = fit(mixed_sets(n, k, pairs, seed=k), recipe, updates, device)
    return outcomes(run).assign(recipe=recipe.name, smoothing=recipe.smoothing)


def sweep_k(n: int, ks: list[int], pairs: int, updates: int, device: str = "cpu") -> pd.DataFrame:
    """Success by number of bits (Remark 10): the theorem's recipe at two smoothings, the code's loss, the repair."""
    parts = [on_mixed_sets(recipe, n, k, pairs, updates, device) for recipe in (*STATED, SIGNED, REPAIRED) for k in ks]
    return pd.concat(parts, ignore_index=True)


@kept
def sweep_distance(n: int, k: int, distances: list[int], pairs: int, updates: int, device: str = "cpu") -> pd.DataFrame:
    """Success by the cyclic distance of the closest two bits, of heads that average and heads that sample.

    :func:`outcomes` with the columns ``recipe``, ``distance``, ``kind`` (``apart``; ``around`` if n and 1 are the
    only neighbours; ``close``) and ``closed``, see :func:`share_closed`. Sets of kind ``around`` are drawn besides,
    with distance 1 and ``drawn`` false: they count for Proposition 21 and not for the curve. A distance, or kind, that
    next to no set has is left out.
    """
    rare = 2 * pairs * math.comb(n, k) / DRAWS  # a property that fewer sets have may not be met often enough
    possible = [distance for distance in sorted({1, *distances}) if sets_with_distance(n, k, distance) > rare]
    drawn = [task for distance in possible for task in sets_at_distance(n, k, distance, pairs, seed=100 + distance)]
    around = pairs if math.comb(n - k - 1, k - 2) > rare else 0
    every = [*drawn, *draw_sets(n, k, around, 99, lambda task: task.neighbours == ((n, 1),))]
    names = {(): "apart", ((n, 1),): "around"}
    kinds = [names.get(task.neighbours, "close") for task in every]
    labels = {"distance": [closest_distance(task) for task in every], "kind": kinds}
    parts = []
    for recipe in (SIGNED, REPAIRED):
        frame = outcomes(fit(every, recipe, updates, device)).assign(recipe=recipe.name, **labels)
        closed = share_closed(frame["risk"], k) if recipe is SIGNED else np.nan
        parts.append(frame.assign(closed=closed, drawn=frame.index < len(drawn)))
    return pd.concat(parts, ignore_index=True)


@kept
def sweep_temperature(
    n: int, k: int, powers: list[float], pairs: int, updates: int, device: str = "cpu"
) -> pd.DataFrame:
    """Success by temperature, a power of n, with the recipe's learning rate and with one in proportion.

    :func:`outcomes` with the columns ``recipe``, ``power``, ``temperature`` and ``rate`` (``fixed`` or
    ``proportional``; at temperature 1 they are one run, which counts for both).
    """
    smallest = 2 * k / 700  # below it the product of k attentions leaves the range of 64-bit numbers at the start
    tasks = mixed_sets(n, k, pairs, seed=k)
    parts = []
    for recipe, power in product((SIGNED, REPAIRED), powers):
        temperature = float(n) ** power
        if recipe is REPAIRED and temperature <= smallest:
            continue
        steps = {"fixed": recipe.learning_rate, "proportional": recipe.learning_rate * temperature}
        frames = {
            step: outcomes(fit(tasks, recipe, updates, device, temperature=temperature, learning_rate=step))
            for step in set(steps.values())
        }
        labels = {"recipe": recipe.name, "power": power, "temperature": temperature}
        parts += [frames[step].assign(**labels, rate=name) for name, step in steps.items()]
    return pd.concat(parts, ignore_index=True)


@kept
def sweep_heads(n: int, k: int, counts: list[int], pairs: int, updates: int, device: str = "cpu") -> pd.DataFrame:
    """Success by number of heads for k bits, sigmoid hinge: :func:`outcomes` with ``heads`` and ``closed``."""
    tasks = mixed_sets(n, k, pairs, seed=k)
    parts = [outcomes(fit(tasks, SIGNED, updates, device, heads=m)).assign(heads=m) for m in counts]
    frame = pd.concat(parts, ignore_index=True)
    return frame.assign(closed=share_closed(frame["risk"], k))


def all_inputs(n: int) -> float:
    """2^n: a whole number as long as a column of such can hold it."""
    return 2**n if n < 63 else 2.0**n


@kept
def sweep_batch(
    n: int, k: int, batches: list[int], product_batches: list[int], pairs: int, updates: int, device: str = "cpu"
) -> pd.DataFrame:
    """Success by examples per update, sets without neighbours: :func:`outcomes` with ``recipe`` and ``batch``.

    ``batch`` is 2^n for the exact gradient of the sigmoid hinge. If more than half of the positions are bits, sets have
    neighbours.
    """
    tasks = draw_sets(n, k, pairs, 60, lambda task: 2 * k > n or not task.neighbours)
    plan = [(SIGNED, b) for b in (*batches, None)] + [(RECIPES["product-head"], b) for b in product_batches]
    parts = [
        outcomes(fit(tasks, recipe, updates, device, batch=b)).assign(recipe=recipe.name, batch=b or all_inputs(n))
        for recipe, b in plan
    ]
    return pd.concat(parts, ignore_index=True)


@kept
def sweep_length(k: int, lengths: list[int], pairs: int, updates: int, device: str = "cpu") -> pd.DataFrame:
    """Heads that sample, by number of positions and positional code, random sets.

    :func:`outcomes` with ``code`` and ``settled``, the update from which on the arg-max is B (infinite if never).
    On the circle positions crowd, so the learning rate grows like a power of n, up to where a first step would leave
    the range of 64-bit numbers.
    """
    parts = []
    for code, n in product(("circle", "powers"), lengths):
        step = min(0.3 * (n / 20) ** 1.4, 240 / k) if code == "circle" else 0.1
        run = fit(draw_sets(n, k, pairs, seed=n), REPAIRED, updates, device, epochs=300, code=code, learning_rate=step)
        parts.append(outcomes(run).assign(code=code, settled=settling_update(run).numpy()))
    return pd.concat(parts, ignore_index=True)


# The ladder of repairs

LADDER = {
    "theorem": "the theorem's recipe, b = 0.01",
    "smoother": f"the theorem's recipe, b = {SMOOTHER}",
    "signed": "the authors' loss, labels ±1",
    "best": "... the best of several starts",
    "signed powers": "... a code of many frequencies",
    "cosine": "a cosine instead of the zigzag",
    "cosine powers": "... and a code of many frequencies",
    "sampled": "heads that sample",
    "product": "heads that sample, from batches",
}
"""What each step of the ladder changes; three dots carry on from the line above."""


def repair_ladder(
    n: int, ks: list[int], pairs: int, updates: int, starts: int, batch: int, device: str = "cpu"
) -> pd.DataFrame:
    """What each change buys, on the same sets: :func:`outcomes` with ``step``, a key of :data:`LADDER`."""
    recipes = {"theorem": STATED[0], "smoother": STATED[1], "signed": SIGNED, "sampled": REPAIRED}
    recipes["signed powers"] = replace(SIGNED, code="powers")
    recipes["product"] = replace(RECIPES["product-head"], batch=batch)
    parts = []
    for k in ks:
        frames = {step: on_mixed_sets(recipe, n, k, pairs, updates, device) for step, recipe in recipes.items()}
        frames["best"] = best_start(n, k, pairs, updates, starts, device)
        frames["cosine"] = cosine_head(n, k, pairs, updates)
        frames["cosine powers"] = cosine_head(n, k, pairs, updates, "powers")
        parts += [frames[step].assign(step=step) for step in LADDER]
    return pd.concat(parts, ignore_index=True)


@kept
def best_start(n: int, k: int, pairs: int, updates: int, starts: int, device: str = "cpu") -> pd.DataFrame:
    """Sigmoid hinge from several starts for every set: :func:`outcomes` of the one of least risk.

    The column ``often`` says how many of the set's starts commit.
    """
    tasks = mixed_sets(n, k, pairs, seed=k)
    every = outcomes(fit([task for task in tasks for _ in range(starts)], SIGNED, updates, device))
    by_set = every.groupby(np.repeat(np.arange(pairs), starts))
    return every.assign(often=by_set["committed"].transform("sum")).loc[by_set["risk"].idxmin()]


def cosine_risk(task: Tasks, temperature: float = 1.0, code: str = "circle") -> SeriesRisk:
    r"""Exact population risk :math:`1 - E[y \cos \pi S]` of averaging heads whose read-out is one frequency.

    The cosine passes through the labels at whole sums as the zigzag does, and its series has a single term,

    .. math:: R(c) = 1 - \prod_{j \notin B} \cos\tfrac{\pi c_j}{2} \prod_{j \in B} \sin\tfrac{\pi c_j}{2},

    so there is no label-free part and no third harmonic for the heads to fall into.
    """
    one, wave = torch.tensor([[1.0, 0.0], [0.0, -1.0]], dtype=torch.float64)
    return SeriesRisk(task, temperature, code, Series(2.0, one, wave, torch.tensor([1.0, 0.0])))


@kept
def cosine_head(n: int, k: int, pairs: int, updates: int, code: str = "circle") -> pd.DataFrame:
    """Averaging heads with a cosine read-out on mixed sets, exact gradients, temperature 1: :func:`outcomes`."""
    tasks, seeds = mixed_sets(n, k, pairs, seed=k), tuple(range(pairs))
    start = initial_directions(seeds, k, n, code)
    end, risk = minimise(cosine_risk(tasks, 1.0, code), start, updates, SIGNED.learning_rate, "cosine head")
    return outcomes(Run(tasks, replace(SIGNED, code=code), seeds, end[None], risk[-1:]))


# What a gradient costs


@kept
def first_gradients(ks: list[int], lengths: list[int], pairs: int, examples: int) -> pd.DataFrame:
    """The first gradient of heads that sample: how small it is, and how many examples it takes to see it.

    One row per (k, n, set, start), at temperature 1 on the circle: ``gradient``, the norm of the exact gradient of
    1 - perm; ``price``, the batch at which the product head's gradient is as large as its noise.
    """
    parts = []
    for k, n in product(ks, lengths):
        tasks, starts = draw_sets(n, k, pairs, seed=1_000 * k + n), initial_directions(range(pairs), k)
        exact = SampledAttentionRisk(tasks, "linear").value_and_gradient(starts)[1].flatten(1).norm(dim=1)
        draws = torch.Generator().manual_seed(1_000_000 + 1_000 * k + n)
        price = (gradient_noise(starts, n, 1.0, examples, draws) - exact.square()) / exact.square()
        parts.append(pd.DataFrame({"k": k, "n": n, "seed": range(pairs), "gradient": exact, "price": price}))
    return pd.concat(parts, ignore_index=True)


def gradient_noise(directions: Tensor, n: int, temperature: float, examples: int, generator: torch.Generator) -> Tensor:
    r"""Mean square :math:`E|g|^2` of the product head's gradient on one example, (rows, heads, 2) -> (rows,).

    With :math:`z = 1 - 2x` the gradient on one example is :math:`-y\, J_i^T z \prod_{l \ne i} \gamma^{(l)} z` at head
    i, J being the Jacobian of attention. The label drops out of its square, so that the noise does not know B; it is
    a mean over ``examples`` draws.
    """
    table = positional_code(n)
    attention = soft_attention(directions, n, temperature)  # (rows, heads, n)
    z = 1 - 2 * torch.randint(2, (examples, n), generator=generator).to(torch.float64)
    read = attention @ z.T  # (rows, heads, examples)
    total = directions.new_zeros(len(directions))
    heads = range(attention.shape[1])
    for i in heads:
        gamma = attention[:, i]
        jacobian = gamma.unsqueeze(-1) * (table - (gamma @ table).unsqueeze(1)) / temperature  # (rows, n, 2)
        others = read[:, [other for other in heads if other != i]].prod(1)
        total += ((jacobian.transpose(1, 2) @ z.T).square().sum(1) * others.square()).mean(-1)
    return total


def fitted_exponent(frame: pd.DataFrame, column: str, least: int = 50, draws: int = 1000) -> Interval:
    """Exponent of the power law through the medians of ``column`` over ``n``, by least squares on logarithms.

    The interval is the bootstrap's, drawing the pairs of every n anew and apart: each n has sets of its own. It knows
    how the pairs scatter, not whether a power law is right. Lengths below ``least`` are left out; of fewer than two
    there is no exponent, nan.
    """
    chance = np.random.default_rng(0)
    groups = {n: group[column].to_numpy() for n, group in frame.groupby("n") if n >= least}
    if len(groups) < 2:
        return Interval(math.nan, math.nan, math.nan)
    medians = []
    for values in groups.values():
        drawn = values[chance.integers(len(values), size=(draws, len(values)))]
        medians.append(np.concatenate([[np.median(values)], np.median(drawn, axis=1)]))
    slopes = np.polyfit(np.log(list(groups)), np.log(medians), 1)[0]
    return Interval(float(slopes[0]), *(float(end) for end in np.quantile(slopes[1:], (0.025, 0.975))))


# Training the entries that see tokens


@kept
def token_columns(n: int, k: int, pairs: int, updates: int) -> pd.DataFrame:
    """The literal model on all 2^n inputs with and without the token columns trained.

    One row per run: ``trained`` (``positions`` or ``tokens too``), ``recovered`` (arg-max of the position scores) and
    ``solved``.
    """
    tasks = mixed_sets(n, k, pairs, seed=70)
    parts = []
    for label, free in (("positions", False), ("tokens too", True)):
        matrices, risk = train_columns(tasks, updates, token_columns=free)
        found = recovered(soft_attention(matrices[..., 0, 2:], n, 1.0), tasks)
        solved = share_closed(risk, k) >= SOLVED
        parts.append(pd.DataFrame({"trained": label, "recovered": found, "solved": solved}))
    return pd.concat(parts, ignore_index=True)


def train_columns(tasks: Sequence[Parity], updates: int, token_columns: bool) -> tuple[Tensor, Tensor]:
    """Train the literal model on all 2^n inputs, with or without the entries a_11 and a_12 of every head.

    One set of bits per start; loss, temperature and optimiser are those of :data:`SIGNED`. Returns the matrices at
    the end, (starts, heads, 4, 4), and their exact risk, (starts,).
    """
    k, x, loss = tasks[0].k, tasks[0].cube(), find_loss(SIGNED.loss)
    labels = torch.stack([task.labels(x) for task in tasks])
    heads = head_matrices(initial_directions(range(len(tasks)), k))
    start = heads[..., 0, 0 if token_columns else 2 :]  # a head's first row

    def matrices(row: Tensor) -> Tensor:
        return pad(row.unsqueeze(-2), (4 - row.shape[-1], 0, 0, 3))

    def risk(row: Tensor) -> Tensor:
        return loss(labels, predict(matrices(row))).mean(-1)

    predict = torch.func.vmap(lambda a: literal_prediction(x, a, k, SIGNED.temperature, SIGNED.smoothing))
    label = "token columns" if token_columns else "position columns"
    end, history = minimise(risk, start, updates, SIGNED.learning_rate, label)
    return matrices(end), history[-1]


# Soft heads, read with hard attention (Proposition 21)


def shared_middle(n: int, others: Sequence[int]) -> tuple[Parity, Tensor]:
    """Two heads half-way between n and 1 and one on each further bit: the set, and the directions (k, 2)."""
    task = Parity(n, (1, n, *others))
    middle = torch.tensor([[math.sin(math.pi / n), math.cos(math.pi / n)]] * 2, dtype=torch.float64)
    return task, torch.cat([middle, positional_code(n)[[bit - 1 for bit in others]]])


def printed_counterexample(n: int) -> dict[str, float]:
    """Squared-hinge risk of :func:`shared_middle` near zero temperature, ``soft``, and with ``hard`` attention."""
    task, heads = shared_middle(n, (n // 2,))
    risk = PopulationRisk(task, temperature=1e-3 / n**2, smoothing=0.0)
    return {"soft": float(risk(heads)), "hard": float(risk.of_attention(hard_attention(heads, n)))}


def soft_solutions(frame: pd.DataFrame) -> pd.DataFrame:
    """The soft solutions among the averaging heads of :func:`sweep_distance`, with ``proper``: read as it should be.

    Proper is what the proof of Proposition 21 shows: the arg-max is B and every bit has more than half of some head.
    """
    solved = frame[(frame["recipe"] == SIGNED.name) & (frame["closed"] >= SOLVED)]
    return solved.assign(proper=solved["recovered"] & (solved["weakest"] > 0.5))


# Verdicts


def judge_soft_to_hard(counterexample: dict[str, float], solutions: pd.DataFrame) -> Verdict:
    """Proposition 21: proved once n and 1 count as neighbours (dossier, Proposition 21), and not as printed.

    Two heads between n and 1 refute the printed condition if their soft risk vanishes and their hard risk does not.
    The runs of :func:`soft_solutions` are neither needed for the proof nor able to replace it, but one that is
    misread although no two of its bits are cyclic neighbours would speak against it.
    """
    counts = {f"read as it should be, {kind}": rate(part["proper"]) for kind, part in solutions.groupby("kind")}
    numbers = {**counterexample, **counts}
    if not solutions.loc[solutions["kind"] == "apart", "proper"].all():
        return Verdict("open", "measured", numbers, "a soft solution without cyclic neighbours is misread")
    if counterexample["soft"] < 1e-6 and counterexample["hard"] > 1e-3:
        return Verdict("narrower range", "proved", numbers, "if positions 1 and n count as neighbours")
    return Verdict("holds", "proved", numbers)

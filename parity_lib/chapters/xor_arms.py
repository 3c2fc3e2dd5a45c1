"""The experiments of the chapter ``xor``, each a loop over seeds around :mod:`parity_lib.chapters.xor`.

A seed draws, in this order, the pair of positions, the positional embedding and whatever else the
experiment needs, so that the same seed means the same task in every arm of an experiment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .xor import (
    MAPS,
    SparseXOR,
    default_width,
    population_gradient,
    positional_embedding,
    random_signs,
    step_size,
    stream_gradients,
    take_step,
    weight_gradient,
    worst_loss,
)


def draw(d: int, embedding: str, seed: int, m: int | None = None) -> tuple[SparseXOR, Tensor, torch.Generator]:
    """The task, the embedding (d, m) and the generator of a seed; m is :func:`default_width` unless given."""
    generator = torch.Generator().manual_seed(seed)
    task = SparseXOR.random(d, generator)
    table = positional_embedding(embedding, d, m or _width(d, embedding), generator)
    return task, table, generator


def _width(d: int, embedding: str) -> int:
    return d if embedding == "one_hot" else default_width(d)


def zero_start_weights(
    task: SparseXOR, embedding: Tensor, strengths: Tensor,
    readout: str = "tent", loss: str = "hinge", attention: str = "softmax",
) -> Tensor:  # fmt: skip
    """Attention after one exact step from zero, at each strength of the step: (steps,) -> (steps, 2, d).

    Both heads get the same gradient, so the second is a copy of the first.
    """
    start = embedding.new_zeros(2, embedding.shape[1])
    gradient = population_gradient(task, embedding, start, readout, loss, attention)
    moved = take_step(start, gradient, step_size(task.d, 1.0, readout, loss, attention))
    scores = strengths.unsqueeze(-1) * (embedding @ moved[0])
    return MAPS[attention].weights(scores).unsqueeze(-2).expand(-1, 2, -1)


@dataclass(frozen=True)
class OneStep:
    """What one step from zero leads to; every tensor (steps, seeds)."""

    m: int
    worst: Tensor
    pair_weight: Tensor


def zero_start(
    d: int,
    embedding: str,
    factors: Sequence[float],
    seeds: int,
    m: int | None = None,
    readout: str = "tent",
    loss: str = "hinge",
) -> OneStep:
    """Exact worst-input hinge loss and attention on the pair after one step of strength factor * ln d."""
    strengths = torch.tensor(factors, dtype=torch.float64) * math.log(d)
    worst, weight, width = [], [], 0
    for seed in track(seeds, f"one step, {embedding}, d = {d},", True):
        task, table, _ = draw(d, embedding, seed, m)
        weights = zero_start_weights(task, table, strengths, readout, loss)
        worst.append(worst_loss(task, weights, readout))
        weight.append(weights[:, 0, task.pair].sum(-1))
        width = table.shape[1]
    return OneStep(width, torch.stack(worst, 1), torch.stack(weight, 1))


@dataclass(frozen=True)
class Variant:
    """How an attention map does with its best step size (and, for rivals, its best read-out scale); (seeds,) each."""

    error: Tensor
    worst: Tensor
    window: Tensor
    """Share of the step sizes tried at which the worst-input loss is below 0.5 without any rescaling."""


def scaled_worst_loss(task: SparseXOR, weights: Tensor, readout: str = "tent") -> Tensor:
    r"""Worst-input hinge loss of :math:`f(v/z)` at the scale z that is best for it; (..., 2, d) -> (...).

    With A the largest :math:`|v|` of unequal bits and B the smallest of equal ones, the loss of the former falls with
    z, that of the latter grows, and they meet at :math:`2A/(A + B)` (tent) or :math:`2A^2/(A^2 + B^2)` (quadratic).
    Where the rest outweighs the pair the best is a huge scale: f = 1 everywhere, and a loss of 2.
    """
    c = weights.mean(-2)
    i, j = task.pair
    rest = task.others(c).abs().sum(-1)
    largest = (c[..., i] - c[..., j]).abs() + rest
    least = ((c[..., i] + c[..., j]).abs() - rest).clamp_min(0)
    power = {"tent": 1, "quadratic": 2}[readout]
    return 2 / (1 + (least / largest.clamp_min(1e-300)) ** power)


def sampled_errors(task: SparseXOR, weights: Tensor, examples: Tensor, rescale: bool) -> Tensor:
    """Share of random inputs that the tent gets wrong, (steps, 2, d) -> (steps,).

    ``examples`` (examples, d - 2) are the bits off the pair; each counts twice, with equal and with unequal bits on it.
    With ``rescale`` the read-out's scale is the best one for these very examples.
    """
    c = weights.mean(-2)
    i, j = task.pair
    off = examples @ task.others(c).T  # (examples, steps)
    unequal, equal = (off + c[:, i] - c[:, j]).abs(), (off + c[:, i] + c[:, j]).abs()
    if not rescale:
        return ((unequal >= 0.5).double().mean(0) + (equal <= 0.5).double().mean(0)) / 2
    sizes, order = torch.cat([unequal, equal]).sort(dim=0)
    is_equal = (order >= len(examples)).long()
    # A threshold right above each of the sorted sizes gets the equal ones below it and the unequal ones above it wrong.
    wrong = is_equal.cumsum(0) + len(examples) - (1 - is_equal).cumsum(0)
    tied = torch.zeros_like(wrong, dtype=torch.bool)
    tied[:-1] = sizes[1:] <= sizes[:-1] * (1 + 1e-9)  # no threshold fits between equal sizes
    return wrong.masked_fill(tied, len(examples)).amin(0).clamp_max(len(examples)) / (2 * len(examples))


def variants(
    d: int, embedding: str, loss: str, seeds: int, factors: Sequence[float], examples: int
) -> dict[str, Variant]:
    """Every attention map after one exact step from zero with the tent, at its best step size, by name.

    The steps have strength factor * ln d. Softmax is not rescaled; each rival has the best scale for each seed.
    """
    strengths = torch.tensor(factors, dtype=torch.float64) * math.log(d)
    found: dict[str, list[tuple[Tensor, Tensor, Tensor]]] = {name: [] for name in MAPS}
    for seed in track(seeds, f"attention maps, {embedding}, {loss}, d = {d},", True):
        task, table, generator = draw(d, embedding, seed)
        inputs = random_signs(examples, d - 2, generator)
        for name in MAPS:
            weights = zero_start_weights(task, table, strengths, "tent", loss, name)
            # An unnormalised exponential overflows at the largest steps: those count as failures.
            usable = weights.isfinite().all(-1).all(-1) & (weights.abs().amax((-1, -2)) < 1e100)
            weights = weights[usable]
            plain = worst_loss(task, weights)
            worst = plain if name == "softmax" else scaled_worst_loss(task, weights)
            errors = sampled_errors(task, weights, inputs, rescale=name != "softmax")
            share = (plain < 0.5).double().sum() / len(strengths)
            found[name].append((errors.min(), worst.min(), share))
    return {name: Variant(*map(torch.stack, zip(*rows, strict=True))) for name, rows in found.items()}


def linear_optimum(d: int, embedding: str, seeds: int, examples: int) -> tuple[Tensor, Tensor]:
    r"""What the best linear attention could do, whatever the training: energy kept and error, (seeds,) each.

    Linear weights are :math:`P q`; the nearest to :math:`e_i + e_j` is its projection on the columns of P, which keeps
    about m/d of its energy. The error is that of the tent at its best scale on random inputs.
    """
    kept, errors = [], []
    for seed in range(seeds):
        task, table, generator = draw(d, embedding, seed)
        basis = torch.linalg.qr(table).Q
        weights = basis @ basis[task.pair].sum(0)
        kept.append((weights @ weights) / 2)
        inputs = random_signs(examples, d - 2, generator)
        errors.append(sampled_errors(task, weights.expand(1, 2, -1), inputs, rescale=True)[0])
    return torch.stack(kept), torch.stack(errors)


def label_free_share(d: int, embedding: str, attention: str, seeds: int) -> Tensor:
    """Label-free part of the scores after one squared-hinge step, against the pair's signal; (seeds,).

    Tent, zero start. The part is what both labels share: the squared hinge's step minus twice the hinge's. Its spread
    over the positions is divided by the score that the pair gains.
    """
    shares = []
    for seed in range(seeds):
        task, table, _ = draw(d, embedding, seed)
        attend = MAPS[attention]
        zero = table.new_zeros(2, d)
        squared, plain = (
            attend.pull_back(zero, weight_gradient(task, attend.weights(zero), "tent", loss))[0]
            for loss in ("squared_hinge", "hinge")
        )
        part, signal = table @ ((2 * plain - squared) @ table), table @ (-2 * plain @ table)
        shares.append(part.std() / signal[task.pair].mean())
    return torch.stack(shares)


@dataclass(frozen=True)
class TwoHeads:
    """One exact hinge step from a random start; (seeds,) each unless said."""

    log_ratio: Tensor
    """ln(alpha/beta) at the start, alpha = a1_i a2_j, beta = a1_j a2_i: which head is nearer to which position."""
    preference: Tensor
    """(seeds, 2): score of i minus score of j after the step, by head."""
    separated: Tensor
    """Each head gives a position of its own, i or j, more than 0.9."""
    worst: Tensor


def two_heads(d: int, readout: str, spread: float, factor: float, seeds: int) -> TwoHeads:
    """Two heads on characters, queries from N(0, spread^2), so scores of that spread; step factor * d^2 ln d."""
    columns: list[tuple[Tensor, ...]] = []
    for seed in range(seeds):
        task, table, generator = draw(d, "characters", seed)
        i, j = task.pair
        queries = spread * torch.randn(2, table.shape[1], generator=generator, dtype=torch.float64)
        before = (queries @ table.T).log_softmax(-1)
        gradient = population_gradient(task, table, queries, readout)
        scores = take_step(queries, gradient, factor * d**2 * math.log(d)) @ table.T
        after = scores.softmax(-1)
        straight = before[0, i] + before[1, j] - before[0, j] - before[1, i]
        apart = torch.maximum(after[[0, 1], [i, j]].min(), after[[0, 1], [j, i]].min()) > 0.9
        columns.append((straight, scores[:, i] - scores[:, j], apart, worst_loss(task, after, readout)))
    return TwoHeads(*map(torch.stack, zip(*columns, strict=True)))


def sample_bound(d: int, m: int) -> float:
    r"""The derived number of samples without its constant, :math:`(d + d^2/m) \ln d`."""
    return (d + d * d / m) * math.log(d)


# From zero the two heads stay equal: the even split is one head. From a random start one head is an arm of its own.
SAMPLE_ARMS = (
    "even split, tent",
    "even split, quadratic",
    "random start, product",
    "random start, quadratic",
    "random start, one head",
)


@dataclass(frozen=True)
class Samples:
    """Least number of samples from which on a property holds, by arm; inf where it was not reached. (seeds,) each."""

    m: int
    budget: int
    recovered: Mapping[str, Tensor]
    """The two best-scored positions (even split, one head), or the heads' best positions (two heads), are the pair."""
    solved: Mapping[str, Tensor]
    """The exact worst-input loss is below 0.1."""


def samples_needed(
    d: int,
    embeddings: Sequence[str],
    seeds: int,
    budget_factor: float,
    spread: float = 0.5,
    factor: float = 30.0,
    strength: float = 4.0,
    checkpoints: int = 40,
) -> dict[str, Samples]:
    """One empirical hinge step on the first n samples, for growing n; every arm and embedding sees the same stream.

    The even split steps from zero with strength * ln d, the random start with factor * d^2 ln d, as with exact
    gradients. One head has the quadratic read-out and the first query; as two equal heads it would share the gradient
    out among them, so it takes twice the step. The budget is budget_factor times the largest :func:`sample_bound`
    among the embeddings.
    """
    budget = max(1, round(budget_factor * max(sample_bound(d, _width(d, e)) for e in embeddings)))
    least = min(d / 2, budget)
    counts = sorted({round(n) for n in torch.logspace(math.log10(least), math.log10(budget), checkpoints).tolist()})
    held: dict[str, dict[str, list[Tensor]]] = {e: {arm: [] for arm in SAMPLE_ARMS} for e in embeddings}
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(seed)
        task, setups = SparseXOR.random(d, generator), {}
        for embedding in embeddings:
            table = positional_embedding(embedding, d, _width(d, embedding), generator)
            queries = spread * torch.randn(2, table.shape[1], generator=generator, dtype=torch.float64)
            setups[embedding] = table, queries
        uniform = torch.full((2, d), 1 / d, dtype=torch.float64)
        arms = [(uniform, "tent"), (uniform, "quadratic")]
        for table, queries in setups.values():
            weights = (queries @ table.T).softmax(-1)
            arms += [(weights, "product"), (weights, "quadratic"), (weights[[0, 0]], "quadratic")]
        marks: dict[tuple[str, str], list[list[bool]]] = {}
        stream = stream_gradients(task, arms, counts, generator)
        for _ in track(len(counts), f"samples, d = {d}, seed {seed + 1} of {seeds},", True):
            _, gradients = next(stream)
            for place, (embedding, (table, queries)) in enumerate(setups.items()):
                for number, arm in enumerate(SAMPLE_ARMS):
                    row = number if number < 2 else number + 3 * place
                    start = [0 * queries, 0 * queries, queries, queries, queries[[0, 0]]][number]
                    readout = arms[row][1]
                    rate = step_size(d, strength * math.log(d), readout) if number < 2 else factor * d**2 * math.log(d)
                    rate *= 2 if number == 4 else 1
                    pulled = MAPS["softmax"].pull_back(start @ table.T, gradients[row]) @ table
                    scores = take_step(start, pulled, rate) @ table.T
                    best = scores.argmax(-1) if number in (2, 3) else scores[0].topk(2).indices
                    loss = worst_loss(task, scores.softmax(-1), readout)
                    found = sorted(best.tolist()) == sorted(task.pair)
                    marks.setdefault((embedding, arm), []).append([found, float(loss) < 0.1])
        for (embedding, arm), rows in marks.items():
            held[embedding][arm].append(_from_then_on(torch.tensor(rows), counts))
    return {
        embedding: Samples(
            _width(d, embedding),
            budget,
            {arm: torch.stack(rows)[:, 0] for arm, rows in by_arm.items()},
            {arm: torch.stack(rows)[:, 1] for arm, rows in by_arm.items()},
        )
        for embedding, by_arm in held.items()
    }


def _from_then_on(marks: Tensor, counts: Sequence[int]) -> Tensor:
    """Least count from which on each column of ``marks`` (counts, properties) stays true; inf if it ends false."""
    lasting = marks.flip(0).long().cumprod(0).sum(0)  # length of the unbroken run at the end
    table = torch.tensor([math.inf, *reversed(counts)], dtype=torch.float64)
    return table[lasting]


@dataclass(frozen=True)
class Network:
    """FFNN-1 networks of one size after training; (seeds,) each."""

    parameters: int
    reads_both: Tensor
    """Whether the inputs that the network reads contain the pair; without it the risk is at least 1."""
    error: Tensor


def network_shape(d: int, parameters: int) -> tuple[int, int]:
    """Neurons and inputs of an FFNN-1 with ``parameters`` to spend: 4 neurons on fewer inputs, or more on all d."""
    neurons = max(4, (parameters - 1) // (d + 2))
    inputs = min(d, (parameters - 1) // neurons - 2)
    if inputs < 2:
        raise ValueError(f"4 neurons that read 2 inputs have 17 parameters, got {parameters} to spend")
    return neurons, inputs


def train_networks(
    d: int, parameters: int, seeds: int, updates: int, batch: int = 256, rate: float = 0.03, examples: int = 4096
) -> Network:
    r"""Train FFNN-1, :math:`\sum_r \alpha_r\,\mathrm{ReLU}(\beta_r^T x + b_r) + b`, with Adam and the hinge.

    Samples are fresh at every update, in single precision. All seeds train at once, each with its own pair and, where
    the parameters do not suffice for all d, its own random set of inputs that are read. Every weight is trained.
    """
    neurons, inputs = network_shape(d, parameters)
    generator = torch.Generator().manual_seed(parameters)
    pairs = torch.stack([torch.randperm(d, generator=generator)[:2] for _ in range(seeds)])
    read = torch.stack([torch.randperm(d, generator=generator)[:inputs] for _ in range(seeds)])
    mask = torch.zeros(seeds, 1, d).scatter(2, read.unsqueeze(1), 1.0)

    def uniform(*shape: int, fan: int) -> Tensor:
        return ((2 * torch.rand(*shape, generator=generator) - 1) / math.sqrt(fan)).requires_grad_()

    beta, bias = uniform(seeds, neurons, d, fan=inputs), uniform(seeds, neurons, fan=inputs)
    alpha, offset = uniform(seeds, neurons, fan=neurons), torch.zeros(seeds, requires_grad=True)
    optimiser = torch.optim.Adam([beta, bias, alpha, offset], lr=rate)

    def predict(x: Tensor) -> Tensor:
        hidden = (x @ (beta * mask).flatten(0, 1).T).unflatten(1, (seeds, neurons)) + bias
        return (hidden.relu() * alpha).sum(-1) + offset

    for _ in track(updates, f"FFNN with {parameters} parameters,", True):
        x = random_signs(batch, d, generator, torch.float32)
        y = -x[:, pairs[:, 0]] * x[:, pairs[:, 1]]
        optimiser.zero_grad()
        (1 - y * predict(x)).relu().mean(0).sum().backward()
        optimiser.step()
    with torch.no_grad():
        x = random_signs(examples, d, generator, torch.float32)
        y = -x[:, pairs[:, 0]] * x[:, pairs[:, 1]]
        error = (y * predict(x) <= 0).double().mean(0)
    both = (read.unsqueeze(2) == pairs.unsqueeze(1)).any(1).all(1)
    return Network(neurons * (inputs + 2) + 1, both, error)


def shared_network_step(d: int, weights: str, seeds: int, strength: float) -> Tensor:
    r"""Worst loss, (seeds,), after one exact hinge step of :math:`f = 1 - 2 (\langle w, x\rangle/z)^2`, training w.

    ``all``: d free weights. ``some``: free weights on 2m random inputs, the others absent. ``tied``: m numbers, w tied
    through the positional embeddings (linear attention). All start from 1/d and get the best z.
    """
    worst = []
    for seed in range(seeds):
        task, table, generator = draw(d, "characters", seed)
        start = torch.full((2, d), 1 / d, dtype=torch.float64)
        if weights == "some":
            start[:, torch.randperm(d, generator=generator)[2 * table.shape[1] :]] = 0
        gradient = weight_gradient(task, start, "quadratic")[0]
        gain = -gradient * (start[0] != 0)
        if weights == "tied":
            gain = table @ (gain @ table)
        after = start[0] + strength * gain / (2 / d)
        worst.append(scaled_worst_loss(task, after.expand(2, -1), "quadratic"))
    return torch.stack(worst)

"""The experiments of the chapter ``xor`` and its verdicts, around :mod:`parity_lib.chapters.xor`.

Every experiment returns a frame, one row a seed in a setting; a seed means the same pair and the same embedding in
every setting (:func:`parity_lib.chapters.xor.draw`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ..evidence import Rate, Verdict, rate, rates, wilson
from ..progress import track
from ..training import minimise
from .robustness import counts, success
from .store import kept
from .xor import (
    MAPS,
    READOUTS,
    XOR_LOSSES,
    SparseXOR,
    default_width,
    draw,
    enumerated_gradient,
    extremes,
    population_gradient,
    positional_embedding,
    step_size,
    weight_gradient,
    worst_loss,
)
from .xor_stream import random_signs, stream_gradients
from .xor_theorem import SOLVED, sample_law

FAILING = 0.05
"""Embeddings that may have a failing pair, for a statement with high probability."""
ENOUGH = 0.9
"""Share of random starts that must be solved."""
LEARNT = 0.1
"""From samples, an input counts as solved if its loss is below this."""


def gradient_differences(d: int) -> pd.DataFrame:
    """Closed-form gradients against autograd over all 2^d inputs.

    Columns ``start``, ``readout``, ``loss``, ``map``, ``difference`` (the largest).
    """
    generator = torch.Generator().manual_seed(0)
    task = SparseXOR.random(d, generator)
    table = positional_embedding("signs", d, d // 2, generator)
    drawn = torch.randn(2, d // 2, generator=generator, dtype=torch.float64)
    cases = [("zero", *names) for names in product(READOUTS, XOR_LOSSES, MAPS)]
    cases += [("random", *names, "softmax") for names in product(("quadratic", "product"), XOR_LOSSES)]
    rows = []
    for start, *names in cases:
        queries = drawn if start == "random" else torch.zeros_like(drawn)
        exact, literal = (f(task, table, queries, *names) for f in (population_gradient, enumerated_gradient))
        rows.append((start, *names, float((exact - literal).abs().max())))
    return pd.DataFrame(rows, columns=["start", "readout", "loss", "map", "difference"])


# From zero


def zero_start_weights(
    task: SparseXOR, embedding: Tensor, strengths: Tensor, loss: str = "hinge", attention: str = "softmax"
) -> Tensor:
    """Attention after one exact step from zero with the tent, at each strength: (steps,) -> (steps, 2, d).

    Both heads get the same gradient, so the second is a copy of the first.
    """
    start = embedding.new_zeros(2, embedding.shape[1])
    gradient = population_gradient(task, embedding, start, "tent", loss, attention)
    moved = -step_size(task.d, 1.0, "tent", loss, attention) * gradient
    scores = strengths.unsqueeze(-1) * (embedding @ moved[0])
    return MAPS[attention].weights(scores).unsqueeze(-2).expand(-1, 2, -1)


@kept
def step_window(lengths: list[int], embeddings: list[str], factors: list[float], seeds: int) -> pd.DataFrame:
    """One exact step from zero of strength factor * ln d, with the tent.

    Columns ``d``, ``m``, ``embedding``, ``factor``, ``seed``, ``worst`` (loss of the worst input), ``pair_weight``.
    """
    parts = []
    for d, embedding, seed in product(lengths, embeddings, range(seeds)):
        task, table, _ = draw(d, embedding, seed)
        weights = zero_start_weights(task, table, torch.tensor(factors, dtype=torch.float64) * math.log(d))
        known = {"d": d, "m": table.shape[1], "embedding": embedding, "factor": factors, "seed": seed}
        found = {"worst": worst_loss(task, weights), "pair_weight": weights[:, 0, task.pair].sum(-1)}
        parts.append(pd.DataFrame(known | found))
    return pd.concat(parts, ignore_index=True)


def temperatures(lengths: list[int], values: list[float], factor: float, seeds: int) -> pd.DataFrame:
    r"""A softmax of scores divided by a temperature T, at the step size of T = 1; characters, zero start.

    The gradient is divided by T as well, so this is :func:`step_window` at the strength :math:`\lambda/T^2`, whose
    columns it has, with ``temperature`` and ``solved``.
    """
    at = {factor / temperature / temperature: temperature for temperature in values}
    found = step_window(lengths, ["characters"], list(at), seeds)
    return found.assign(temperature=found.factor.map(at), solved=found.worst < SOLVED)


def temperature_ends(found: pd.DataFrame) -> tuple[float, float]:
    """The temperature up to which every draw of :func:`temperatures` is solved, and the one from which on none is."""
    shares = found.groupby("temperature").solved.mean()
    full = shares.index[(shares == 1).cummin()]
    none = shares.index[(shares == 0)[::-1].cummin()[::-1]]
    return max(full, default=0.0), min(none, default=math.inf)


FORMATS = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
HOW = {
    (False, False): "as it is", (False, True): "stable softmax", (True, False): "loss scaling", (True, True): "both"
}  # fmt: skip


def step_in_format(
    task: SparseXOR, embedding: Tensor, strength: float, dtype: torch.dtype, scaled: bool, stable: bool
) -> Tensor:
    """Attention, (2, d), after one exact step from zero with every number in one format.

    If ``scaled``, the loss is multiplied beforehand by what the step size exceeds d by (loss scaling), so that neither
    the gradient becomes too small nor the step, now d, too large for the format. If ``stable``, the softmax subtracts
    the largest score before it takes exponentials.
    """
    table, whole = embedding.to(dtype), step_size(task.d, strength)
    step = float(task.d) if scaled else whole
    uniform = torch.full((2, task.d), 1 / task.d, dtype=torch.float64)
    slope = (weight_gradient(task, uniform) * (whole / step)).to(dtype)
    weights = uniform.to(dtype)
    pulled = weights * (slope - (weights * slope).sum(-1, keepdim=True))
    scores = (-torch.tensor(step, dtype=dtype) * (pulled @ table)) @ table.T
    powers = (scores - scores.amax(-1, keepdim=True) if stable else scores).exp()
    return powers / powers.sum(-1, keepdim=True)


@kept
def number_formats(lengths: list[int], factors: list[float], seeds: int) -> pd.DataFrame:
    """The step in float64, float32, bfloat16 and float16, with and without loss scaling and a stable softmax.

    Columns ``d``, ``factor``, ``format``, ``scaled``, ``stable``, ``seed``, ``worst`` (2 where it is not a number),
    ``solved``.
    """
    rows = []
    for d, factor, seed in product(lengths, factors, range(seeds)):
        task, table, _ = draw(d, "characters", seed)
        for (name, dtype), (scaled, stable) in product(FORMATS.items(), HOW):
            weights = step_in_format(task, table, factor * math.log(d), dtype, scaled, stable).double()
            worst = float(worst_loss(task, weights)) if bool(weights.isfinite().all()) else 2.0
            rows.append((d, factor, name, scaled, stable, seed, worst, worst < SOLVED))
    return pd.DataFrame(rows, columns=["d", "factor", "format", "scaled", "stable", "seed", "worst", "solved"])


def format_table(formats: pd.DataFrame) -> pd.DataFrame:
    """Draws solved at the first strength of :func:`number_formats`, k of N, a row for each format."""
    part = formats[formats.factor == formats.factor.min()]
    named = part.assign(how=[HOW[key] for key in zip(part.scaled, part.stable, strict=True)])
    return counts(named, ["format"], "how", "solved").set_index("format")


# Other attention maps


def scaled_worst_loss(task: SparseXOR, weights: Tensor, readout: str = "tent") -> Tensor:
    r"""Worst-input hinge loss of :math:`f(v/z)` at the scale z that is best for it; (..., 2, d) -> (...).

    With A and B the :func:`extremes`, the loss of unequal bits falls with z, that of equal ones grows, and they meet at
    :math:`2A/(A + B)` (tent) or :math:`2A^2/(A^2 + B^2)` (quadratic). Where the rest outweighs the pair the best is a
    huge scale: f = 1 everywhere, and a loss of 2.
    """
    largest, least = extremes(task, weights)
    power = {"tent": 1, "quadratic": 2}[readout]
    return 2 / (1 + (least.clamp_min(0) / largest.clamp_min(1e-300)) ** power)


def errors_on(task: SparseXOR, weights: Tensor, examples: Tensor) -> tuple[Tensor, Tensor]:
    """Share of random inputs that the tent gets wrong, as it is and at its best scale; (steps, 2, d) -> (steps,) each.

    ``examples`` (examples, d - 2) are the bits off the pair; each counts twice, with equal and with unequal bits on it.
    The scale is the best one for these very examples.
    """
    count, (i, j) = len(examples), task.pair
    c = weights.mean(-2)
    size = c.abs().amax(-1, keepdim=True)
    c = (c / size).to(examples.dtype)  # an exponential may exceed single precision; the comparison does not
    off = task.others(c) @ examples.T  # (steps, examples)
    unequal, equal = ((off + on[:, None]).abs() for on in (c[:, i] - c[:, j], c[:, i] + c[:, j]))
    half = 0.5 / size
    plain = ((unequal >= half).double().mean(-1) + (equal <= half).double().mean(-1)) / 2
    sizes, order = torch.cat([unequal, equal], -1).sort(-1)
    is_equal = (order >= count).int()
    # A threshold right above each of the sorted sizes gets the equal ones below it and the unequal ones above it wrong.
    wrong = is_equal.cumsum(-1) + count - (1 - is_equal).cumsum(-1)
    tied = sizes[:, 1:] <= sizes[:, :-1] * (1 + 1e-6)  # no threshold fits between equal sizes
    wrong[:, :-1].masked_fill_(tied, count)
    return plain, wrong.amin(-1).clamp_max(count) / (2 * count)


@kept
def attention_maps(lengths: list[int], factors: list[float], seeds: int, examples: int) -> pd.DataFrame:
    """Every attention map after one exact step from zero with the tent, at its best step size, all on one footing.

    The steps have strength factor * ln d. With ``rescaled`` a map also has the best scale of the read-out for each
    seed and step. Zero-mean positions feel no label-free force, so there the two losses give the same and the
    second is not computed again.

    Columns ``d``, ``loss``, ``embedding``, ``map``, ``seed``, ``rescaled``, ``worst``, ``error`` (on random inputs),
    ``window`` (share of the steps with a worst loss below 0.5).
    """
    rows = []
    for d, embedding in product(lengths, ("characters", "signs")):
        strengths = torch.tensor(factors, dtype=torch.float64) * math.log(d)
        for seed in track(seeds, f"attention maps, {embedding}, d = {d},"):
            task, table, generator = draw(d, embedding, seed)
            inputs = random_signs(examples, d - 2, generator, torch.float32)
            for loss, name in product(XOR_LOSSES[: 2 if embedding == "signs" else 1], MAPS):
                weights = zero_start_weights(task, table, strengths, loss, name)
                # An unnormalised exponential overflows at the largest steps: those count as failures.
                weights = weights[weights.abs().amax((-1, -2)) < 1e100]
                losses = worst_loss(task, weights), scaled_worst_loss(task, weights)
                errors = errors_on(task, weights, inputs)
                for rescaled, worst, error in zip((False, True), losses, errors, strict=True):
                    window = float((worst < 0.5).sum()) / len(strengths)
                    found = (embedding, name, seed, rescaled, float(worst.min()), float(error.min()), window)
                    rows += [(d, stated, *found) for stated in (XOR_LOSSES if embedding == "characters" else (loss,))]
    columns = ["d", "loss", "embedding", "map", "seed", "rescaled", "worst", "error", "window"]
    return pd.DataFrame(rows, columns=columns)


@kept
def linear_optimum(lengths: list[int], embeddings: list[str], seeds: int, examples: int) -> pd.DataFrame:
    r"""What the best linear attention could do, whatever the training.

    Linear weights are :math:`P q`; the nearest to :math:`e_i + e_j` is its projection on the columns of P, which keeps
    about m/d of its energy. The error is that of the tent at its best scale on random inputs.

    Columns ``d``, ``embedding``, ``seed``, ``kept``, ``error``.
    """
    rows = []
    for d, embedding, seed in product(lengths, embeddings, range(seeds)):
        task, table, generator = draw(d, embedding, seed)
        basis = torch.linalg.qr(table).Q
        weights = basis @ basis[task.pair].sum(0)
        inputs = random_signs(examples, d - 2, generator)
        _, error = errors_on(task, weights.expand(1, 2, -1), inputs)
        rows.append((d, embedding, seed, float(weights @ weights) / 2, float(error)))
    return pd.DataFrame(rows, columns=["d", "embedding", "seed", "kept", "error"])


def label_free_share(d: int, embedding: str, attention: str, seeds: int) -> Tensor:
    """Label-free part of the scores after one squared-hinge step, against the pair's signal; (seeds,).

    Tent, zero start. The part is what both labels share: the squared hinge's step minus twice the hinge's. Its spread
    over the positions is divided by the score that the pair gains.
    """
    shares = []
    for seed in range(seeds):
        task, table, _ = draw(d, embedding, seed)
        zero = table.new_zeros(2, table.shape[1])
        gradients = [population_gradient(task, table, zero, "tent", loss, attention)[0] for loss in XOR_LOSSES]
        hinge, squared = (-table @ gradient for gradient in gradients)
        shares.append((squared - 2 * hinge).std() / (2 * hinge[task.pair].mean()))
    return torch.stack(shares)


# From a random start


@kept
def random_start(
    lengths: list[int], readouts: list[str], spreads: list[float], factors: list[float], seeds: int
) -> pd.DataFrame:
    r"""Two heads on characters, queries from :math:`N(0, \sigma^2 I)`, one exact hinge step of factor * d^2 ln d.

    The scores start with spread sigma. With :math:`\alpha = a^1_i a^2_j` and :math:`\beta = a^1_j a^2_i` at the start,
    :math:`\ln \alpha/\beta` says which head is nearer to which position.

    Columns ``d``, ``readout``, ``spread``, ``factor``, ``seed``, ``log_ratio``, ``predicted`` (each head prefers the
    position that the ratio says), ``separated`` (each head gives a position of its own more than 0.9), ``worst``,
    ``solved``.
    """
    parts = []
    for d, readout in product(lengths, readouts):
        rates_ = -torch.tensor(factors, dtype=torch.float64).view(-1, 1, 1) * d**2 * math.log(d)
        for seed in track(seeds, f"random starts, d = {d},"):
            task, table, generator = draw(d, "characters", seed)
            i, j = task.pair
            drawn = torch.randn(2, table.shape[1], generator=generator, dtype=torch.float64)
            for spread in spreads:
                queries = spread * drawn
                before = queries @ table.T
                ratio = float(before[0, i] + before[1, j] - before[0, j] - before[1, i])
                gradient = population_gradient(task, table, queries, readout)
                scores = before + rates_ * (gradient @ table.T)  # (factors, 2, d)
                after = scores.softmax(-1)
                worst = worst_loss(task, after, readout)
                prefers = scores[..., i] - scores[..., j]
                own = torch.maximum(after[:, [0, 1], [i, j]].amin(-1), after[:, [0, 1], [j, i]].amin(-1))
                parts.append(pd.DataFrame({
                    "d": d, "readout": readout, "spread": spread, "factor": factors, "seed": seed, "log_ratio": ratio,
                    "predicted": (prefers[:, 0] * ratio > 0) & (prefers[:, 1] * ratio < 0),
                    "separated": own > 0.9, "worst": worst, "solved": worst < SOLVED,
                }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def tie_breakers(starts: pd.DataFrame, spread: float, factor: float) -> tuple[float, float]:
    r"""Median :math:`|\ln \alpha/\beta|` of draws that fail and of draws that are solved, in one cell of the map."""
    cell = starts[(starts.spread == spread) & (starts.factor == factor) & (starts.readout == "product")]
    size = cell.log_ratio.abs()
    return float(size[~cell.solved].median()), float(size[cell.solved].median())


# From samples


@dataclass(frozen=True)
class Arm:
    """One way to take the step: a start, a number of heads and a read-out.

    From zero the two heads stay equal, so the even split is what one head does. One head from a random start is two
    equal ones, which share the gradient out among them: it takes twice the step.
    """

    name: str
    readout: str
    random: bool
    heads: int

    def start(self, drawn: Tensor) -> Tensor:
        """Queries before the step, (2, m), from the drawn ones."""
        if not self.random:
            return torch.zeros_like(drawn)
        return drawn if self.heads == 2 else drawn[[0, 0]]

    def step(self, d: int) -> float:
        """Size of the step: of strength 4 ln d from zero, 300 d^2 ln d from a random start."""
        if not self.random:
            return step_size(d, 4 * math.log(d), self.readout)
        return 300 * d**2 * math.log(d) * (2 if self.heads == 1 else 1)

    def recovers(self, task: SparseXOR, scores: Tensor) -> Tensor:
        """Whether the best position of each of two heads, or the two best of one, is the pair; (..., 2, d) -> (...)."""
        best = scores.argmax(-1) if self.heads == 2 else scores[..., 0, :].topk(2).indices
        return (best.sort(-1).values == torch.tensor(sorted(task.pair))).all(-1)


ARMS = (
    Arm("two heads", "product", random=True, heads=2),
    Arm("one head", "quadratic", random=True, heads=1),
    Arm("even split, quadratic", "quadratic", random=False, heads=1),
    Arm("even split", "tent", random=False, heads=1),
)
"""The first is the procedure of the chapter: it is judged by both recovery and success."""


@kept
def samples_needed(
    lengths: list[int], embeddings: list[str], seeds: int, budget: float, checkpoints: int = 32
) -> pd.DataFrame:
    """One empirical hinge step on the first n samples of a stream, for growing n; every arm sees the same stream.

    Columns ``d``, ``m``, ``embedding``, ``seed``, ``arm``, ``law``
    (:func:`~parity_lib.chapters.xor_theorem.sample_law`), ``recovered`` and ``solved``: the least n from which on the
    pair is found, and the worst-input loss below 0.1; inf where that is not so at ``budget`` times the law.
    """
    rows = []
    for d, embedding in product(lengths, embeddings):
        law = sample_law(d, default_width(d, embedding))
        spaced = torch.logspace(math.log10(d / 2), math.log10(max(budget * law, d)), checkpoints, dtype=torch.float64)
        looks = sorted({round(n) for n in spaced.tolist()})
        for seed in track(seeds, f"samples, {embedding}, d = {d},"):
            task, table, generator = draw(d, embedding, seed)
            drawn = 0.5 * torch.randn(2, table.shape[1], generator=generator, dtype=torch.float64)
            starts = [arm.start(drawn) for arm in ARMS]
            weights = [((start @ table.T).softmax(-1), arm.readout) for start, arm in zip(starts, ARMS, strict=True)]
            gradients = torch.stack([found for _, found in stream_gradients(task, weights, looks, generator)], 1)
            for arm, start, gradient in zip(ARMS, starts, gradients, strict=True):
                before = start @ table.T
                pulled = MAPS["softmax"].pull_back(before, gradient) @ table  # (looks, 2, m)
                scores = before - arm.step(d) * (pulled @ table.T)
                solved = worst_loss(task, scores.softmax(-1), arm.readout) < LEARNT
                least = [from_then_on(marks, looks) for marks in (arm.recovers(task, scores), solved)]
                rows.append((d, table.shape[1], embedding, seed, arm.name, law, *least))
    columns = ["d", "m", "embedding", "seed", "arm", "law", "recovered", "solved"]
    return pd.DataFrame(rows, columns=columns)


def from_then_on(marks: Tensor, counts: Sequence[int]) -> float:
    """Least count from which on the marks (counts,) stay true, for two looks at least; inf if they do not."""
    stay = int(marks.flip(0).long().cumprod(0).sum())
    return float(counts[-stay]) if stay > 1 else math.inf


def reached(samples: pd.DataFrame, arm: str, column: str) -> Rate:
    """Streams, on characters, in which an arm has recovered the pair, or solved every input, within the budget."""
    return rate(np.isfinite(samples[(samples.arm == arm) & (samples.embedding == "characters")][column]))


# Feed-forward networks


def network_shape(d: int, parameters: int) -> tuple[int, int]:
    """Neurons and inputs of an FFNN-1 with ``parameters`` to spend: 4 neurons on fewer inputs, or more on all d."""
    neurons = max(4, (parameters - 1) // (d + 2))
    inputs = min(d, (parameters - 1) // neurons - 2)
    if inputs < 2:
        raise ValueError(f"4 neurons that read 2 inputs have 17 parameters, got {parameters} to spend")
    return neurons, inputs


def ceiling(d: int, inputs: int) -> float:
    """Proposition 4: the share of pairs that a network which reads so many inputs can learn at most.

    It must read both bits; and it reads no more inputs than it has weights in its first layer.
    """
    return inputs * (inputs - 1) / (d * (d - 1))


@kept
def train_networks(d: int, budgets: list[int], seeds: int, updates: int) -> pd.DataFrame:
    r"""Train FFNN-1, :math:`\sum_r \alpha_r\,\mathrm{ReLU}(\beta_r^T x + b_r) + b`, with Adam and the hinge.

    Samples are fresh at every update, in single precision. All seeds train at once, each with its own pair and, where
    the parameters do not suffice for all d, its own random set of inputs that are read. Every weight is trained.

    Columns ``d``, ``parameters``, ``ceiling``, ``seed``, ``reads_both`` (its inputs contain the pair), ``error``,
    ``learned`` (an error below 1 %).
    """
    return pd.concat([_trained(d, budget, seeds, updates) for budget in budgets], ignore_index=True)


def _trained(d: int, budget: int, seeds: int, updates: int) -> pd.DataFrame:
    neurons, inputs = network_shape(d, budget)
    generator = torch.Generator().manual_seed(budget)
    pairs = torch.stack([torch.randperm(d, generator=generator)[:2] for _ in range(seeds)])
    read = torch.stack([torch.randperm(d, generator=generator)[:inputs] for _ in range(seeds)])
    mask = torch.zeros(seeds, 1, d).scatter(2, read.unsqueeze(1), 1.0)
    scale = torch.full((d + 2,), 1 / math.sqrt(inputs))
    scale[-1] = 1 / math.sqrt(neurons)
    start = (2 * torch.rand(seeds, neurons, d + 2, generator=generator) - 1) * scale
    start = torch.cat([start.flatten(1), torch.zeros(seeds, 1)], 1)

    def margins(point: Tensor, count: int) -> Tensor:
        """y f on fresh samples, (count, seeds), of networks with their numbers in a row."""
        x = random_signs(count, d, generator, torch.float32)
        layer = point[:, :-1].unflatten(1, (-1, d + 2))
        hidden = (x @ (layer[..., :d] * mask).flatten(0, 1).T).unflatten(1, layer.shape[:2]) + layer[..., d]
        y = -x[:, pairs[:, 0]] * x[:, pairs[:, 1]]
        return y * ((hidden.relu() * layer[..., d + 1]).sum(-1) + point[:, -1])

    def hinge(point: Tensor) -> Tensor:
        return (1 - margins(point, 256)).relu().mean(0)

    trained, _ = minimise(hinge, start, updates, 0.03, f"networks of {budget} parameters,")
    error = (margins(trained, 4096) <= 0).double().mean(0)
    both = (read.unsqueeze(2) == pairs.unsqueeze(1)).any(1).all(1)
    return pd.DataFrame({
        "d": d, "parameters": neurons * (inputs + 2) + 1, "ceiling": ceiling(d, inputs), "seed": range(seeds),
        "reads_both": both, "error": error, "learned": error < 0.01,
    })  # fmt: skip


@kept
def one_weight_vector(d: int, seeds: int, strength: float) -> pd.DataFrame:
    r"""One exact hinge step of :math:`f = 1 - 2 (\langle w, x\rangle/z)^2`, training w.

    ``all``: d free weights. ``tied``: m numbers, w tied through the positional embeddings (linear attention). Both
    start from 1/d and get the best z.

    Columns ``weights``, ``seed``, ``worst``.
    """
    rows = []
    for kind, seed in product(("all", "tied"), range(seeds)):
        task, table, _ = draw(d, "characters", seed)
        start = torch.full((2, d), 1 / d, dtype=torch.float64)
        gain = -weight_gradient(task, start, "quadratic")
        if kind == "tied":
            gain = gain @ table @ table.T
        after = start + strength * gain / (2 / d)
        rows.append((kind, seed, float(scaled_worst_loss(task, after, "quadratic"))))
    return pd.DataFrame(rows, columns=["weights", "seed", "worst"])


# Verdicts


def judge_one_step(bounds: pd.DataFrame, any_length: pd.DataFrame) -> Verdict:
    """``xor-one-step``, from zero: all pairs and all inputs at once, by the probability that Proposition 2 gives.

    ``bounds`` is a frame of :func:`~parity_lib.chapters.xor_theorem.against_bound`, ``any_length`` one of
    :func:`~parity_lib.chapters.xor_theorem.all_pairs_any_length`.
    """
    found = [wilson(row.failed, row.embeddings) for row in bounds.itertuples()]
    weak = (bounds.proved > FAILING) | bounds.factor.isin(any_length.factor[any_length.failed])
    parts = {factor: part.set_index("d") for factor, part in bounds.assign(found=found, weak=weak).groupby("factor")}
    tails = {factor: beyond(part.weak) for factor, part in parts.items()}
    factor, tail = max(tails.items(), key=lambda item: len(item[1]))
    most = parts[factor].proved.max()
    numbers = {
        "strength / ln d": factor, "d": tail, "proved, failing embeddings at most": most,
        "measured": dict(parts[factor].found),
        "measured at the smallest strength": dict(parts[bounds.factor.min()].found),
    }  # fmt: skip
    agrees = all(one.low <= proved for one, proved in zip(found, bounds.proved, strict=True))
    said = (
        f"from zero, where the two heads are copies, with strength {factor:g} ln d: every pair and every input at "
        f"once, for all but at most {100 * most:.2g} % of embeddings"
    )
    return _from_some_length_on(tail if agrees else [], bounds.d, "proved", numbers, said, "from zero")


def beyond(weak: pd.Series) -> list[int]:
    """The lengths, which are the index, above all those that are ``weak``."""
    return sorted({int(d) for d in weak.index if d > max(weak.index[weak], default=0)})


def _from_some_length_on(
    tail: list[int], lengths: pd.Series, kind: str, numbers: dict[str, Any], said: str, start: str
) -> Verdict:
    """Holds at all lengths, from the first of ``tail`` on, or is open if there is none."""
    if not tail:
        return Verdict("open", "measured", numbers, f"our step {start} does not do it, the paper's may")
    if len(tail) < lengths.nunique():
        return Verdict("narrower range", kind, numbers, f"{said}, from d = {tail[0]} on")
    return Verdict("holds", kind, numbers, said)


def judge_random_start(starts: pd.DataFrame) -> Verdict:
    """``xor-random-start``: two heads that differ, at two spreads, with the largest step of the map."""
    factor = starts.factor.max()
    part = starts.query("factor == @factor and spread in (0.35, 0.5) and readout == 'product'")
    if part.empty:
        return _from_some_length_on([], starts.d, "measured", {}, "", "from a random start")
    found = rates(part, ["d", "spread"], "solved")
    numbers = {f"d = {row.d}, spread {row.spread:g}": wilson(row.successes, row.trials) for row in found.itertuples()}
    tail = beyond(found.set_index("d").low <= ENOUGH)
    said = f"with a step of {factor:g} d^2 ln d, in more than {100 * ENOUGH:.0f} % of draws"
    return _from_some_length_on(tail, found.d, "measured", numbers, said, "from a random start")


def judge_params(bounds: pd.DataFrame, networks: pd.DataFrame) -> Verdict:
    """``xor-params``: both halves are propositions; trained networks are the control."""
    small = bounds[2 * bounds.m < bounds.d]
    enough = min(small.groupby("factor").proved.max(), default=1.0)
    blind = success(networks.assign(failed=~networks.learned), "failed", reads_both=False)
    seeing = success(networks, "learned", reads_both=True)
    numbers = {
        "trained numbers": dict(2 * small.groupby("d").m.first()),
        "failing embeddings at most": enough,
        "networks that read both bits and learn": seeing,
        "networks that do not and fail": blind,
    }
    if blind.successes < blind.trials or enough > FAILING or seeing.low < 0.5:
        return Verdict("open", "measured", numbers, "our step with this many numbers does not do it, the paper's may")
    said = "2 (log2 d)^2 trained numbers are enough for two heads; a network without attention must read every position"
    return Verdict("holds", "proved", numbers, said)


PLAIN_MAPS = {"linear", "relu", "erf", "sigmoid"}


def judge_softmax(maps: pd.DataFrame) -> Verdict:
    """``xor-softmax``: which maps manage which of the four settings, softmax and rivals on the same footing.

    To manage one is a median worst loss below 0.5 at the largest d, at the map's best step and scale.
    """
    top = maps[(maps.d == maps.d.max()) & maps.rescaled]
    middle = top.groupby(["map", "loss", "embedding"], sort=False).worst.median()
    good = list(middle.index[middle < 0.5])
    found = {name: [f"{loss}, {embedding}" for at, loss, embedding in good if at == name] for name in MAPS}
    rivals = {name: settings for name, settings in found.items() if name != "softmax" and settings}
    numbers = {"d": int(maps.d.max()), "managed": found}
    if len(found["softmax"]) < 4:
        return Verdict("open", "measured", numbers, "our step with softmax does not manage every setting")
    if not rivals:
        return Verdict("holds", "measured", numbers)
    names = " and ".join(MAPS[name].formula for name in rivals)
    if all(len(settings) < 4 for settings in rivals.values()) and not rivals.keys() & PLAIN_MAPS:
        said = f"linear, ReLU, erf and plain sigmoid attention fail; {names} manage some settings, softmax alone all"
        return Verdict("narrower range", "measured", numbers, said)
    return Verdict("fails", "measured", numbers, f"{names} manage it too")


def multiples(needed: pd.DataFrame, column: str) -> pd.Series:
    """Median samples of the even split in units of the law, by embedding and d."""
    split = needed[needed.arm == "even split"]
    return (split[column] / split.law).groupby([split.embedding, split.d]).median()


def judge_samples(needed: pd.DataFrame) -> Verdict:
    """``xor-samples``: recovery as proved and as measured from zero; recovery and success of one procedure.

    ``needed`` is a frame of :func:`samples_needed` with the column ``proved`` of
    :func:`~parity_lib.chapters.xor_theorem.proved_samples`.
    """
    multiple, promise = multiples(needed, "recovered"), multiples(needed, "proved")
    recovered, solved = (reached(needed, ARMS[0].name, column) for column in ("recovered", "solved"))
    finite = multiple[np.isfinite(multiple)]
    numbers = {
        "recovery from zero / law": {f"{e}, d = {d}": value for (e, d), value in finite.items()},
        "proved / law": {f"{e}, d = {d}": value for (e, d), value in promise.items() if math.isfinite(value)},
        "two heads recover": recovered, "two heads solve every input": solved,
    }  # fmt: skip
    steady = len(finite) == len(multiple) and finite.max() <= 2 and finite.max() <= 3 * finite.min()
    if steady and promise.max() <= 2 and recovered.low > 0.5 and solved.low > 0.5:
        said = (
            "one step on 2 pi (d^2/m) ln d samples: finding the pair is proved, with probability one half, at up to "
            "twice that, a loss near 0 on every input is measured, for two heads from a random start"
        )
        return Verdict("narrower range", "measured", numbers, said)  # the weaker of the two halves
    return Verdict("open", "measured", numbers, "our step does not show it, the paper's may")

r"""Stacks of small networks that are trained together, and exact solvers of the same task.

Hundreds of networks with one hidden layer (eq. 1), of *tied* networks or of product heads stand in one array, a row
each, with their own starts, tasks and learning rates; all see the same examples. The tied network shares one vector
of input weights g among its k neurons, with the paper's frozen zigzag on top,

.. math:: \hat y = 1 + \sum_{q=1}^k (-1)^q (8q - 4)\, \sigma\Big(\sum_j g_j x_j + \tfrac12 - q\Big).

With :math:`g_j = \sum_i \mathrm{softmax}_j(a_i \cdot \mathrm{pos}_j)` it has 2k numbers and is the transformer with
k heads. The *product head* :math:`\prod_i (1 - 2 v_i)` has the same 2k numbers. Chapter ``fixed_attention``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..attention import positional_code
from ..kernels import choose
from ..progress import track
from ..readout import FFNN1, zigzag
from ..task import Parity
from ..training import initial_directions, one_thread_per_process
from . import networks_kernels as kernels
from . import networks_reference as reference
from .networks_reference import TIES, Array

TEST_SEED, DATA_SEED, NOISE_SEED = 2**40, 2**41, 2**42  # streams of their own, apart from every seed of a start
SMOOTHING = 1e-2
REAL = np.float32
"""The type in which stacks are trained; what they reach is evaluated in it or in float64."""

plain = choose(kernels.plain, reference.plain)
on_heads = choose(kernels.on_heads, reference.on_heads)
tied = choose(kernels.tied, reference.tied)


class Stack:
    """Networks in training, with Adam's averages of the gradient and of its square, (rows, numbers).

    ``rows`` says which of those that started they are, ``made`` how many steps they made.
    """

    def __init__(self, start: Array) -> None:
        self.theta = np.ascontiguousarray(start, dtype=REAL)
        self.mean, self.square = np.zeros_like(self.theta), np.zeros_like(self.theta)
        self.rows, self.made = np.arange(len(start)), 0

    def advance(self, kind: Callable[..., None], rates: Array, x: Array, *others: Any) -> None:
        """Make the steps of networks of a kind, such as :data:`plain`, on inputs x (steps, n, batch)."""
        kind(self.theta, self.mean, self.square, self.made, rates, x, *others)
        self.made += len(x)

    def keep(self, wanted: Array) -> None:
        """Drop all other rows."""
        self.theta, self.mean = self.theta[wanted], self.mean[wanted]
        self.square, self.rows = self.square[wanted], self.rows[wanted]


def uniform_start(inputs: int, neurons: int, seeds: Sequence[int]) -> Array:
    """ReLU networks with the start of :class:`parity_lib.readout.FFNN1`, one row a seed: (seeds, numbers)."""
    networks = [FFNN1(inputs, neurons, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    parts = [(net.beta.flatten(), net.bias, net.alpha, net.offset.reshape(1)) for net in networks]
    return torch.stack([torch.cat(row) for row in parts]).detach().numpy()


def gaussian_start(inputs: int, neurons: int, seeds: Sequence[int]) -> Array:
    """Networks for standardised inputs: weights N(0, 1/fan-in), hidden biases N(0, 1), so that kinks spread."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    drawn = torch.stack([torch.randn(neurons, inputs + 2, generator=g, dtype=torch.float64) for g in generators])
    beta, alpha = drawn[..., :inputs] / inputs**0.5, drawn[..., inputs + 1] / neurons**0.5
    return torch.cat([beta.flatten(1), drawn[..., inputs], alpha, torch.zeros(len(seeds), 1)], 1).numpy()


def drawn_tasks(n: int, k: int, seeds: Sequence[int]) -> list[Parity]:
    """One random parity of k of n bits per seed."""
    return [Parity.random(n, k, torch.Generator().manual_seed(2**35 + seed)) for seed in seeds]


def positions(tasks: Sequence[Parity]) -> Array:
    """The positions of every task's bits, counted from 0: (tasks, k)."""
    return np.array([task.indices for task in tasks])


def random_inputs(generator: np.random.Generator, steps: int, n: int, batch: int) -> Array:
    """Uniform inputs in {0, 1} for some steps, (steps, n, batch)."""
    size = steps * n * batch
    bits = np.unpackbits(np.frombuffer(generator.bytes(-(-size // 8)), dtype=np.uint8))[:size]
    return bits.astype(REAL).reshape(steps, n, batch)


def shown_inputs(steps: int, at_once: int, n: int, batch: int, label: str) -> Iterator[Array]:
    """What all stacks are trained on, :func:`random_inputs` for so many steps at once, the same in every training."""
    data = np.random.default_rng(DATA_SEED)
    for chunk in track(-(-steps // at_once), label):
        yield random_inputs(data, min(at_once, steps - at_once * chunk), n, batch)


@dataclass(frozen=True)
class Entrant:
    """Networks of one kind in a race: their starts (rows, numbers), learning rates (rows,) and parities (rows, k).

    ``model`` is ``plain``, with its number of neurons, or one of :data:`TIES`.
    """

    model: str
    start: Array
    rates: Array
    bits: Array
    neurons: int = 0

    def advance(self, stack: Stack, x: Array, flips: Array | None = None) -> None:
        """Train the rows that are still in the stack on inputs (steps, n, batch), all labels right unless flipped."""
        flips = np.ones((len(x), x.shape[2]), dtype=REAL) if flips is None else flips
        shown = self.rates[stack.rows], x, flips, self.bits[stack.rows]
        if self.model == "plain":
            stack.advance(plain, *shown, self.neurons)
        else:
            code = np.ascontiguousarray(positional_code(x.shape[1]).numpy(), dtype=REAL)
            stack.advance(tied, *shown, code, self.bits.shape[1], TIES.index(self.model), SMOOTHING)

    def accuracy(self, theta: Array, rows: Array, x: Array) -> Array:
        """Share of the inputs (n, examples) that each row gets right."""
        numbers, inputs, k = torch.from_numpy(theta), torch.from_numpy(x), self.bits.shape[1]
        if self.model == "plain":
            found = reference.predictions(numbers, 1 - 2 * inputs, self.neurons)
        else:
            found = reference.tied_predictions(numbers, inputs, k, self.model, SMOOTHING)
        return (found * reference.labels(inputs, self.bits[rows]) > 0).to(torch.float64).mean(1).numpy()


def plain_entrant(tasks: Sequence[Parity], neurons: int, seeds: Sequence[int], rates: Sequence[float]) -> Entrant:
    """Plain ReLU networks, one for every rate and seed, in this order."""
    start = np.tile(uniform_start(tasks[0].n, neurons, seeds), (len(rates), 1))
    return Entrant("plain", start, np.repeat(rates, len(seeds)), np.tile(positions(tasks), (len(rates), 1)), neurons)


def tied_entrant(tasks: Sequence[Parity], tie: str, seeds: Sequence[int], rates: Sequence[float]) -> Entrant:
    """Tied networks or product heads from the paper's start; ``free`` starts at k/n. One for every rate and seed."""
    n, k = tasks[0].n, tasks[0].k
    heads = initial_directions(seeds, k).flatten(1).numpy()
    start = np.tile(np.full((len(seeds), n), k / n) if tie == "free" else heads, (len(rates), 1))
    return Entrant(tie, start, np.repeat(rates, len(seeds)), np.tile(positions(tasks), (len(rates), 1)))


def race(
    entrants: Sequence[Entrant], n: int, steps: int, batch: int, *, noise: float = 0.0, label: str = "race"
) -> list[Array]:
    """Steps until every row of every entrant passes accuracy 0.99; all see the same examples.

    A row is tested every 25 steps on 4096 held-out inputs and leaves when it passes. In training, labels are wrong at
    the rate ``noise``; in the test none is. Returns (rows,) for each entrant, 0 where the steps ran out first.
    """
    held_out, wrong = map(np.random.default_rng, (TEST_SEED, NOISE_SEED))
    shown = random_inputs(held_out, 1, n, 4096)[0]
    few = np.ascontiguousarray(shown[:, :512])  # who is far from it here need not see them all
    stacks = [Stack(entrant.start) for entrant in entrants]
    done = [np.zeros(len(entrant.start), dtype=np.int64) for entrant in entrants]
    with one_thread_per_process():
        for x in shown_inputs(steps, 25, n, batch, label):
            flips = np.where(wrong.random((len(x), batch)) < noise, REAL(-1), REAL(1))
            for entrant, stack, steps_of in zip(entrants, stacks, done, strict=True):
                if len(stack.rows):
                    entrant.advance(stack, x, flips)
                    passed = entrant.accuracy(stack.theta, stack.rows, few) > 0.95
                    if passed.any():
                        passed[passed] = entrant.accuracy(stack.theta[passed], stack.rows[passed], shown) > 0.99
                    steps_of[stack.rows[passed]] = stack.made
                    stack.keep(~passed)
            if not any(len(stack.rows) for stack in stacks):
                break
    return done


def trained_heads(tasks: Sequence[Parity], seeds: Sequence[int], steps: int, batch: int, rate: float) -> Tensor:
    """Directions of the heads after ``steps`` with the sigmoid hinge and the frozen zigzag, (seeds, k, 2)."""
    entrant, n = tied_entrant(tasks, "softmax", seeds, [rate]), tasks[0].n
    stack = Stack(entrant.start)
    with one_thread_per_process():
        for x in shown_inputs(steps, 50, n, batch, f"heads n={n}"):
            entrant.advance(stack, x)
    return torch.from_numpy(stack.theta.astype(np.float64)).reshape(len(seeds), -1, 2)


def held_out(task: Parity) -> Tensor:
    """Inputs (examples, n) on which networks are judged: all up to n = 12, else a sample."""
    return task.cube() if task.n <= 12 else task.sample(16384, torch.Generator().manual_seed(TEST_SEED))


def tied_accuracy(weights: Tensor, tasks: Sequence[Parity]) -> Tensor:
    """Accuracy of the zigzag on input weights g, (tasks, n) -> (tasks,), on the inputs of :func:`held_out`."""
    x = held_out(tasks[0])
    found = zigzag(weights @ x.T, tasks[0].k, SMOOTHING) * labels_of(tasks, x)
    return (found > 0).to(torch.float64).mean(1)


def labels_of(tasks: Sequence[Parity], x: Tensor) -> Tensor:
    """Labels in {-1, +1} of shared inputs (examples, n) under each task, (tasks, examples)."""
    return reference.labels(x.T, positions(tasks))


def brute_force(x: Tensor, labels: Tensor, k: int) -> tuple[int, ...]:
    """The only k positions whose parity agrees with every example, by trying all: x (examples, n), labels ±1."""
    columns = np.packbits(x.T.numpy().astype(bool), axis=1)  # eight examples to a byte
    target = np.packbits((labels < 0).numpy())
    subsets = np.array(list(combinations(range(x.shape[1]), k)))
    agree = subsets[(np.bitwise_xor.reduce([columns[part] for part in subsets.T]) == target).all(1)]
    if len(agree) != 1:
        raise ValueError(f"{len(x)} examples leave {len(agree)} sets of {k} bits possible, give more (and no noise)")
    return tuple((agree[0] + 1).tolist())


def eliminate(x: Tensor, labels: Tensor) -> tuple[int, ...]:
    r"""The set B that solves :math:`\sum_{j \in B} x_j = [y = -1]` over GF(2), by Gaussian elimination.

    Nothing needs to be known about k. The examples must have rank n, which n + 10 random ones have but for
    a chance of about 1 in 1000.
    """
    n = x.shape[1]
    rows = torch.cat([x, (labels < 0).unsqueeze(1)], 1).numpy().astype(bool)
    for place in range(n):
        pivots = place + np.flatnonzero(rows[place:, place])
        if not len(pivots):
            raise ValueError(f"the examples have not rank {n}, give more")
        rows[[place, pivots[0]]] = rows[[pivots[0], place]]
        others = rows[:, place] & (np.arange(len(rows)) != place)
        rows[others] ^= rows[place]
    if rows[n:, n].any():
        raise ValueError("the examples contradict each other: no parity has these labels")
    return tuple((np.flatnonzero(rows[:n, n]) + 1).tolist())


def solve_exactly(task: Parity, generator: torch.Generator) -> dict[str, tuple[tuple[int, ...], int]]:
    """B by both exact solvers, each with the number of examples it took.

    Brute force gets 64 examples; elimination n + 10, and more, one at a time, in the rare case that those
    have not full rank.
    """
    x = task.sample(64, generator)
    found = {"brute force": (brute_force(x, task.labels(x), task.k), len(x))}
    x = task.sample(task.n + 10, generator)
    while True:
        try:
            return found | {"elimination": (eliminate(x, task.labels(x)), len(x))}
        except ValueError:
            x = torch.cat([x, task.sample(1, generator)])

r"""Rivals of the heads on the same task: one-hidden-layer networks, tied ones, and exact solvers.

Many FFNN-1 (eq. 1) are trained as one stacked tensor: row r has its own start, its own task and its own
width, all rows see the same inputs. The *tied* network shares one vector of input weights g among its k
neurons, with the paper's frozen zigzag on top,

.. math:: \hat y = 1 + \sum_{q=1}^k (-1)^q (8q - 4)\, \sigma\Big(\sum_j g_j x_j + \tfrac12 - q\Big).

With :math:`g_j = \sum_i \mathrm{softmax}_j(a_i \cdot \mathrm{pos}_j / \tau)` it has 2k numbers and is the
transformer with k heads. Brute force over the subsets and elimination over GF(2) solve the task outright.
Chapters ``parameter_efficiency`` and ``fixed_attention``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from ..attention import positional_code, soft_attention
from ..losses import find_loss
from ..progress import track
from ..readout import FFNN1, check_smoothing, smoothed_relu, zigzag
from ..risk import MinibatchRisk
from ..task import Parity
from ..training import initial_directions, one_thread_per_process

TIES = ("softmax", "bump", "free")
TEST_SEED, DATA_SEED = 2**40, 2**41  # streams of their own, apart from every seed of a start


@dataclass(frozen=True)
class Budget:
    """What a training run was allowed; a trained risk is never given without it.

    Parameters
    ----------
    steps : updates of Adam.   batch : fresh examples per update.
    learning_rates : one start is trained at each of them, so their number is the number of restarts.
    """

    steps: int
    batch: int
    learning_rates: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {getattr(self, name)!r}")
        if not self.learning_rates or not all(0 < rate < math.inf for rate in self.learning_rates):
            raise ValueError(f"learning_rates must be positive finite numbers, got {self.learning_rates!r}")

    def __str__(self) -> str:
        rates = ", ".join(f"{rate:.2g}" for rate in self.learning_rates)
        tried = f"{len(self.learning_rates)} rates tried: {rates}" if len(self.learning_rates) > 1 else f"rate {rates}"
        return f"{self.steps} steps of Adam, batch {self.batch}, {tried}"


class Stack(torch.nn.Module):
    r"""Rows of FFNN-1 in one tensor: :math:`\hat y_r = \sum_i \alpha_{ri}\,\sigma(\beta_{ri} \cdot x + b_{ri}) + b_r`.

    ``beta`` is (rows, neurons, inputs), ``bias`` and ``alpha`` (rows, neurons), ``offset`` (rows,). A row narrower
    than the widest is padded with zeros; with the ReLU a neuron of zeros has gradient zero, so it stays absent.
    """

    def __init__(self, beta: Tensor, bias: Tensor, alpha: Tensor, offset: Tensor, smoothing: float = 0.0) -> None:
        super().__init__()
        check_smoothing(smoothing)
        self.smoothing = smoothing
        self.beta, self.bias = torch.nn.Parameter(beta), torch.nn.Parameter(bias)
        self.alpha, self.offset = torch.nn.Parameter(alpha), torch.nn.Parameter(offset)

    @classmethod
    def uniform(cls, inputs: int, widths: Sequence[int], seeds: Sequence[int]) -> Stack:
        """ReLU networks with the start of :class:`parity_lib.readout.FFNN1`, one row per width and seed."""
        if any(width < 1 for width in widths):
            raise ValueError(f"widths must be at least 1, got {tuple(widths)}")
        networks = [
            FFNN1(inputs, width, generator=torch.Generator().manual_seed(seed))
            for width, seed in zip(widths, seeds, strict=True)
        ]
        most = max(widths)

        def padded(name: str) -> Tensor:
            rows = [getattr(network, name).detach() for network in networks]
            return torch.stack([torch.cat([row, row.new_zeros(most - len(row), *row.shape[1:])]) for row in rows])

        offset = torch.stack([network.offset.detach() for network in networks])
        return cls(padded("beta"), padded("bias"), padded("alpha"), offset)

    @classmethod
    def gaussian(cls, inputs: int, neurons: int, seeds: Sequence[int], smoothing: float) -> Stack:
        """Networks for standardised inputs: weights N(0, 1/fan-in), hidden biases N(0, 1), so that kinks spread."""
        if neurons < 1:
            raise ValueError(f"neurons must be at least 1, got {neurons!r}")
        draws = []
        for seed in seeds:
            generator = torch.Generator().manual_seed(seed)
            draws.append(torch.randn(neurons, inputs + 2, generator=generator, dtype=torch.float64))
        drawn = torch.stack(draws)
        beta, bias, alpha = drawn[..., :inputs] / inputs**0.5, drawn[..., inputs], drawn[..., inputs + 1] / neurons**0.5
        return cls(beta.clone(), bias.clone(), alpha.clone(), torch.zeros(len(seeds), dtype=torch.float64), smoothing)

    def forward(self, x: Tensor) -> Tensor:
        """Predictions (rows, examples); inputs are shared (examples, inputs) or each row's (rows, examples, inputs)."""
        hidden = smoothed_relu(self._hidden(x, slice(None)), self.smoothing)
        return (hidden @ self.alpha.unsqueeze(2)).squeeze(2) + self.offset.unsqueeze(1)

    def _hidden(self, x: Tensor, rows: slice) -> Tensor:
        """What goes into the activation, (rows, examples, neurons)."""
        beta, bias = self.beta[rows], self.bias[rows]
        if x.ndim == 3:
            return torch.baddbmm(bias.unsqueeze(1), x[rows], beta.transpose(1, 2))
        flat = torch.addmm(bias.reshape(-1), x, beta.reshape(-1, x.shape[1]).T)
        return flat.reshape(len(x), *bias.shape).transpose(0, 1)

    @torch.no_grad()
    def differentiate(self, x: Tensor, labels: Tensor) -> None:
        r"""Set every ``grad`` to the gradient of the row's mean squared hinge, labels (rows, examples).

        In closed form, in place, and a few rows at a time so that they stay in the processor's cache: several
        times faster than autograd, which allocates each of its large intermediates anew.
        """
        gradients = {name: torch.empty_like(parameter) for name, parameter in self.named_parameters()}
        examples, neurons = labels.shape[1], self.alpha.shape[1]
        size = max(1, 2**17 // (examples * neurons))
        for first in range(0, len(labels), size):
            self._differentiate(x, labels, slice(first, first + size), gradients)
        for name, parameter in self.named_parameters():
            parameter.grad = gradients[name]

    def _differentiate(self, x: Tensor, labels: Tensor, rows: slice, gradients: dict[str, Tensor]) -> None:
        z, y = self._hidden(x, rows), labels[rows]
        if self.smoothing == 0:
            hidden, alpha, unit = z.relu_(), self.alpha[rows], 1.0
            slope = hidden.sign()
        else:  # twice the activation is z + root, twice its derivative that over root; alpha carries the half
            root = torch.addcmul(z.new_tensor(self.smoothing), z, z).sqrt_()
            hidden, alpha, unit = z.add_(root), self.alpha[rows] / 2, 0.5
            slope = torch.div(hidden, root, out=root)
        prediction = (hidden @ alpha.unsqueeze(2)).squeeze(2) + self.offset[rows].unsqueeze(1)
        upstream = (-2 / y.shape[1]) * y * (1 - y * prediction).relu()
        gradients["offset"][rows] = upstream.sum(1)
        gradients["alpha"][rows] = unit * (upstream.unsqueeze(1) @ hidden).squeeze(1)
        with_one = torch.nn.functional.pad(x[rows] if x.ndim == 3 else x, (0, 1), value=1.0)  # the bias is a weight too
        if x.ndim == 3:
            summed = slope.transpose(1, 2) @ with_one.mul_(upstream.unsqueeze(2))
        else:
            flat = slope.mul_(upstream.unsqueeze(2)).transpose(0, 1).reshape(len(x), -1).T @ with_one
            summed = flat.reshape(*alpha.shape, -1)
        summed *= alpha.unsqueeze(2)
        gradients["beta"][rows], gradients["bias"][rows] = summed[..., :-1], summed[..., -1]


def train_stack(
    stack: Stack,
    draw: Callable[[Tensor], tuple[Tensor, Tensor]],
    steps: int,
    learning_rate: float,
    *,
    decay: bool = False,
    after: Callable[[], None] | None = None,
    finished: Callable[[Tensor], Tensor] | None = None,
    every: int = 50,
    label: str = "FFNN-1",
) -> Tensor:
    """Minimise every row's squared hinge with Adam; rows that have finished leave the stack.

    Parameters
    ----------
    draw : maps the rows still in training, (rows,), to a batch: inputs and labels (rows, examples).
    decay : let the learning rate fall to zero along a cosine.
    after : called after every update, for constraints.
    finished : maps the rows still in training to those that need no more, (rows,) bool; asked every ``every`` steps.

    Returns
    -------
    The step at which each row finished, (rows,); 0 where it never did.
    """
    optimiser = torch.optim.Adam(stack.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps) if decay else None
    rows = torch.arange(len(stack.alpha))
    done_at = torch.zeros(len(rows), dtype=torch.int64)
    with one_thread_per_process():
        for step in track(steps, label, True):
            x, labels = draw(rows)
            stack.differentiate(x, labels)
            optimiser.step()
            if schedule is not None:
                schedule.step()
            if after is not None:
                after()
            if finished is not None and (step + 1) % every == 0:
                done = finished(rows)
                if done.any():
                    done_at[rows[done]] = step + 1
                    rows = rows[~done]
                    _keep(stack, optimiser, ~done)
                if not len(rows):
                    break
    return done_at


def _keep(stack: Stack, optimiser: torch.optim.Adam, rows: Tensor) -> None:
    """Drop rows, and neurons that no other row has, from the parameters and from what Adam remembers of them."""
    present = stack.alpha[rows].ne(0).any(0)
    for parameter in stack.parameters():
        kept = (rows, present) if parameter.ndim > 1 else (rows,)
        state = optimiser.state[parameter]
        parameter.data, parameter.grad = _chosen(parameter.data, *kept), None
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = _chosen(state[name], *kept)


def _chosen(values: Tensor, *kept: Tensor) -> Tensor:
    """The entries where a mask for each of the first axes is true."""
    for axis, mask in enumerate(kept):
        values = values.index_select(axis, mask.nonzero().flatten())
    return values


def steps_to_learn(
    tasks: Sequence[Parity], widths: Sequence[int], seeds: Sequence[int], budget: Budget, learning_rate: float,
    *, target: float = 0.99, every: int = 25, test: int = 4096,
) -> Tensor:  # fmt: skip
    """Steps until plain ReLU networks on n inputs in +-1 pass ``target`` accuracy, one row per task, width and seed.

    Returns
    -------
    (rows,); 0 where the budget ran out first.
    """
    n = tasks[0].n
    data, held_out = torch.Generator().manual_seed(DATA_SEED), torch.Generator().manual_seed(TEST_SEED)
    stack = Stack.uniform(n, widths, seeds)
    test_x = tasks[0].sample(test, held_out)
    bits = torch.tensor([task.indices for task in tasks])
    test_labels = parities(bits, test_x)

    def draw(rows: Tensor) -> tuple[Tensor, Tensor]:
        x = tasks[0].sample(budget.batch, data)
        return 1 - 2 * x, parities(bits[rows], x)

    @torch.no_grad()
    def finished(rows: Tensor) -> Tensor:
        return accuracy(stack(1 - 2 * test_x), test_labels[rows]) > target

    return train_stack(stack, draw, budget.steps, learning_rate, finished=finished, every=every, label=f"FFNN-1 n={n}")


def tied_weights(directions: Tensor, n: int, temperature: float = 1.0, tie: str = "softmax") -> Tensor:
    r"""Shared input weights g of the tied network, (..., k, 2) -> (..., n).

    ``softmax``: :math:`g_j = \sum_i \mathrm{softmax}_j(a_i \cdot \mathrm{pos}_j / \tau)`, the k heads.
    ``bump``: :math:`g_j = \sum_i \exp((a_i \cdot \mathrm{pos}_j - |a_i|)/\tau)`, the same without normalisation.
    ``free``: g itself, (..., n) -> (..., n).
    """
    if tie not in TIES:
        raise ValueError(f"tie must be one of {', '.join(TIES)}, got {tie!r}")
    if tie == "free":
        return directions
    if tie == "softmax":
        return soft_attention(directions, n, temperature).sum(-2)
    scores = directions @ positional_code(n).T - directions.norm(dim=-1, keepdim=True)
    return (scores / temperature).exp().sum(-2)


def train_tied(
    tasks: Sequence[Parity], seeds: Sequence[int], budget: Budget, learning_rate: float,
    *, tie: str = "softmax", smoothing: float = 1e-2, target: float = 0.99, every: int = 25, test: int = 4096,
) -> Tensor:  # fmt: skip
    """Steps until tied networks pass ``target`` accuracy, one row per task and seed; 0 where the budget ran out.

    They are trained as the heads are: sigmoid hinge, fresh batches, the paper's start. ``free`` starts at k/n.
    """
    n, k = tasks[0].n, tasks[0].k
    risk = MinibatchRisk(
        tasks, "sigmoid_hinge", 1.0, smoothing, batch=budget.batch,
        generators=[torch.Generator().manual_seed(2**32 + seed) for seed in seeds],
    )  # fmt: skip
    start = initial_directions(seeds, k) if tie != "free" else torch.full((len(seeds), n), k / n, dtype=torch.float64)
    parameters = start.requires_grad_()
    optimiser = torch.optim.Adam([parameters], lr=learning_rate)
    held_out = tasks[0].sample(test, torch.Generator().manual_seed(TEST_SEED))
    labels = labels_of(tasks, held_out)
    done_at = torch.zeros(len(seeds), dtype=torch.int64)
    with one_thread_per_process():
        for step in track(budget.steps, f"tied {tie} n={n}", True):
            optimiser.zero_grad()
            risk.of_weights(tied_weights(parameters, n, tie=tie)).sum().backward()
            optimiser.step()
            if (step + 1) % every == 0:
                with torch.no_grad():
                    predictions = zigzag(tied_weights(parameters, n, tie=tie) @ held_out.T, k, smoothing)
                done_at[(accuracy(predictions, labels) > target) & (done_at == 0)] = step + 1
                if (done_at > 0).all():
                    break
    return done_at


def drawn_tasks(n: int, k: int, seeds: Sequence[int]) -> list[Parity]:
    """One random parity of k of n bits per seed."""
    return [Parity.random(n, k, torch.Generator().manual_seed(2**35 + seed)) for seed in seeds]


def tied_accuracy(weights: Tensor, tasks: Sequence[Parity], smoothing: float = 1e-2, test: int = 16384) -> Tensor:
    """Accuracy of the zigzag on input weights g, (tasks, n) -> (tasks,): on all inputs up to n = 12, else a sample."""
    n, k = tasks[0].n, tasks[0].k
    x = tasks[0].cube() if n <= 12 else tasks[0].sample(test, torch.Generator().manual_seed(TEST_SEED))
    return accuracy(zigzag(weights @ x.T, k, smoothing), labels_of(tasks, x))


def labels_of(tasks: Sequence[Parity], x: Tensor) -> Tensor:
    """Labels in {-1, +1} of shared inputs (examples, n) under each task, (tasks, examples)."""
    return parities(torch.tensor([task.indices for task in tasks]), x)


def parities(bits: Tensor, x: Tensor) -> Tensor:
    """Parities in {-1, +1} of the positions (tasks, k), counted from 0, of inputs (examples, n): (tasks, examples)."""
    return 1 - 2 * (x.T[bits].sum(1) % 2)


def accuracy(predictions: Tensor, labels: Tensor) -> Tensor:
    """Share of examples whose prediction has the sign of the label, (..., examples) -> (...)."""
    return (predictions * labels > 0).to(torch.float64).mean(-1)


def parameters_of(inputs: int, neurons: int) -> int:
    """Trainable numbers of an FFNN-1 (eq. 1): neurons (inputs + 2) + 1."""
    return neurons * (inputs + 2) + 1


def median_steps(steps: Tensor) -> float | None:
    """Median over the runs that learned, from the steps of all, (runs,) with 0 for never; None if none did."""
    return float(np.median(steps[steps > 0].numpy())) if (steps > 0).any() else None


def smallest_widths(widths: Sequence[int], low: Sequence[float], high: Sequence[float]) -> dict[str, int | None]:
    """The width at which most networks learn, from the ends of the interval of each width's rate of success.

    ``width`` is the first that surely passes one half, ``width_low`` the first that may, ``width_high`` the one from
    which on all surely do (success need not be monotone in the width); None where there is none.
    """
    sure = [end > 0.5 for end in low]
    passes = {
        "width": sure,
        "width_low": [end > 0.5 for end in high],
        "width_high": [all(sure[i:]) for i in range(len(sure))],
    }
    return {
        name: next((width for width, ok in zip(widths, column, strict=True) if ok), None)
        for name, column in passes.items()
    }


def missing_edge_risk(predictions: Tensor) -> Tensor:
    r"""Risk of a network blind to a bit of B: mean of :math:`1 + p^2`, :math:`(1+|p|)^2/2` where :math:`|p| > 1`.

    An input and its copy with the bit flipped get the same prediction p and opposite labels. It is at
    least 1, with equality only at p = 0. Predictions (..., inputs) on all inputs -> (...).
    """
    size = predictions.abs()
    return torch.where(size <= 1, 1 + size**2, (1 + size) ** 2 / 2).mean(-1)


@torch.no_grad()
def missing_edge_cases(stack: Stack, n: int, bit: int, k: int) -> tuple[Tensor, Tensor]:
    """Proposition 4, exactly: networks without the edge from ``bit``, on every B of size k that contains it.

    Returns
    -------
    Their risks over all 2^n inputs, (rows, sets), and what :func:`missing_edge_risk` says they are, (rows,).
    """
    if n > 14:
        raise ValueError(f"all 2^n inputs are enumerated only up to n = 14, got n = {n}; the formula holds for any n")
    if stack.beta[..., bit - 1].any():
        raise ValueError(f"the networks must have no edge from bit {bit}, got weights that are not zero")
    x = Parity(n, (bit,)).cube()
    others = [j for j in range(1, n + 1) if j != bit]
    tasks = [Parity(n, (bit, *rest)) for rest in combinations(others, k - 1)]
    predictions = stack(1 - 2 * x)
    losses = find_loss("squared_hinge")(labels_of(tasks, x).unsqueeze(0), predictions.unsqueeze(1))
    return losses.mean(-1), missing_edge_risk(predictions)


def remove_edge(stack: Stack, bit: int) -> Stack:
    """The same networks with the weights from ``bit`` set to zero."""
    beta = stack.beta.detach().clone()
    beta[..., bit - 1] = 0
    bias, alpha, offset = (part.detach().clone() for part in (stack.bias, stack.alpha, stack.offset))
    return Stack(beta, bias, alpha, offset, stack.smoothing)


def train_without_edge(
    task: Parity, bit: int, width: int, seeds: Sequence[int], budget: Budget, every: int = 10
) -> tuple[Tensor, Stack]:
    """Exact risk along the training of networks that lack the edge from ``bit``, (frames, rows), and the networks."""
    stack = remove_edge(Stack.uniform(task.n, [width] * len(seeds), seeds), bit)
    data = torch.Generator().manual_seed(DATA_SEED)
    cube = task.cube()
    labels, frames = task.labels(cube), []

    def draw(rows: Tensor) -> tuple[Tensor, Tensor]:
        x = task.sample(budget.batch, data)
        inputs = 1 - 2 * x
        inputs[:, bit - 1] = 0  # no edge: the weight sees nothing and its gradient is zero
        return inputs, task.labels(x).expand(len(rows), -1)

    @torch.no_grad()
    def record(rows: Tensor) -> Tensor:
        frames.append(find_loss("squared_hinge")(labels, stack(1 - 2 * cube)).mean(-1))
        return torch.zeros(len(rows), dtype=torch.bool)

    record(torch.arange(len(seeds)))
    train_stack(stack, draw, budget.steps, budget.learning_rates[0], finished=record, every=every, label="missing edge")
    return torch.stack(frames), stack


def brute_force(x: Tensor, labels: Tensor, k: int) -> tuple[int, ...]:
    """The only k positions whose parity agrees with every example, by trying all of them.

    Parameters
    ----------
    x : inputs in {0, 1}, (examples, n).   labels : (examples,) in {-1, +1}.
    """
    columns, target = _packed(x.T), _packed((labels < 0).unsqueeze(0))[0]  # 64 examples to a word
    n = x.shape[1]
    if not 1 <= k <= n:
        raise ValueError(f"k must be a whole number in 1..{n}, got {k!r}")
    subsets = np.fromiter(combinations(range(n), k), dtype=np.dtype((np.int64, k)), count=math.comb(n, k))
    folded = columns[subsets[:, 0]]
    for i in range(1, k):
        folded = folded ^ columns[subsets[:, i]]
    agree = np.flatnonzero((folded == target).all(1))
    if len(agree) != 1:
        raise ValueError(f"{len(x)} examples leave {len(agree)} sets of {k} bits possible, give more (and no noise)")
    return tuple(int(j) + 1 for j in subsets[agree[0]])


def _packed(bits: Tensor) -> np.ndarray:
    """Rows of bits (rows, examples) as words of 64, (rows, words)."""
    packed = np.packbits(bits.numpy().astype(bool), axis=1)
    padded = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    return np.ascontiguousarray(padded).view(np.uint64)


def eliminate(x: Tensor, labels: Tensor) -> tuple[int, ...]:
    r"""The set B that solves :math:`\sum_{j \in B} x_j = [y = -1]` over GF(2), by Gaussian elimination.

    Nothing needs to be known about k. The examples must have rank n, which n + 10 random ones have but for
    a chance of about 1 in 1000; otherwise the ValueError says how many directions are missing.
    """
    n = x.shape[1]
    order = 2 ** np.arange(n, dtype=object)
    rows = [int(row @ order) for row in x.numpy().astype(np.int64).astype(object)]
    pivots: dict[int, int] = {}
    for row, odd in zip(rows, (labels < 0).tolist(), strict=True):
        value = row | (int(odd) << n)
        for place in range(n):
            if value >> place & 1:
                if place in pivots:
                    value ^= pivots[place]
                else:
                    pivots[place] = value
                    break
        else:
            if value:
                raise ValueError("the examples contradict each other: no parity has these labels")
    if len(pivots) < n:
        raise ValueError(f"the examples have rank {len(pivots)} of {n}, give more")
    solution = 0
    for place in reversed(range(n)):
        value = pivots[place]
        inner = (value & solution) >> place + 1
        if (value >> n & 1) ^ (inner.bit_count() & 1):
            solution |= 1 << place
    return tuple(j + 1 for j in range(n) if solution >> j & 1)


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

r"""The risk of the model: heads -> read-out -> expectation, three ways.

Directions become attention, the attention's mean becomes weights c of the positions, and the expectation of the
loss is a function of these weights: :class:`PopulationRisk` computes it exactly in O(Mn) by the series of
:mod:`parity_lib.series`, :class:`EnumeratedRisk` as a mean over all inputs, :class:`MinibatchRisk` from samples.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from .attention import CODES, position_weights, positional_code, scores, soft_attention
from .checks import known, number, whole
from .kernels.minibatch import Inputs, sum_mean
from .losses import AnyLoss, find_loss, with_slope
from .readout import ReadOut, find_readout, zigzag
from .series import MAX_FREQUENCIES, Series, fourier_series
from .task import Tasks, as_tasks

Evaluation = Callable[[Tensor], tuple[Tensor, Tensor]]
"""A point (rows, ...) -> its value (rows,) and its gradient (rows, ...)."""
MAX_ENUMERATED = 23  # bits; the table of all inputs takes 1.5 GB there


class Risk:
    """Heads, and the expectation of what they read; of several tasks, the i-th judges row i of the directions."""

    def __init__(self, task: Tasks, temperature: float, code: str) -> None:
        self.tasks = as_tasks(task)
        self.n, self.k = self.tasks[0].n, self.tasks[0].k
        self._bits = torch.tensor([task.indices for task in self.tasks])
        self.temperature = number(temperature, "temperature")
        self.code = known(code, CODES, f"positional code {code!r}")

    def expectation(self, attention: Tensor) -> tuple[Tensor, Tensor]:
        """Value (rows,) and gradient (rows, heads, n) as a function of the attention (rows, heads, n)."""
        raise NotImplementedError

    def __call__(self, directions: Tensor) -> Tensor:
        """Risk of heads with the given directions: (..., heads, 2) -> (...), differentiable once."""
        return self.of_attention(soft_attention(directions, self.n, self.temperature, self.code))

    def of_attention(self, attention: Tensor) -> Tensor:
        """Risk as a function of the attention itself, (..., heads, n) -> (...), differentiable once."""
        flat = attention.reshape(-1, *attention.shape[-2:])
        return ValueWithGradient.apply(flat, self.expectation).reshape(attention.shape[:-2])

    @torch.no_grad()
    def value_and_gradient(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        r"""Risk (...) and its gradient (..., heads, 2), the softmax's part in closed form too: a training step.

        With the gradient g on the attention :math:`\gamma` of a head,
        :math:`\partial R / \partial a = \frac{1}{\tau} \sum_j \gamma_j (g_j - \sum_l \gamma_l g_l)\, \mathrm{pos}(j)`.
        Directions that are not finite are not refused here; what comes out is not finite either.
        """
        attention = torch.softmax(scores(directions, self.n, self.code) / self.temperature, -1)
        value, by_attention = self.expectation(attention.reshape(-1, *attention.shape[-2:]))
        pull = attention * by_attention.reshape(attention.shape)
        pull.addcmul_(attention, pull.sum(-1, keepdim=True), value=-1)
        table = positional_code(self.n, self.code, directions.dtype, directions.device)
        return value.reshape(attention.shape[:-2]), (pull @ table).div_(self.temperature)

    def bits(self, rows: torch.Size, device: torch.device) -> Tensor:
        """Positions of B from 0 for each of the rows, ``(*rows, k)``; several tasks need a row each."""
        bits = self._bits = self._bits.to(device)  # once: a GPU is waited for at every copy
        if len(bits) > 1 and rows != (len(bits),):
            raise ValueError(f"directions must have shape ({len(bits)}, heads, 2), a row per task, got {tuple(rows)}")
        return (bits if len(bits) > 1 else bits[0]).expand(*rows, -1)


class AveragingRisk(Risk):
    """Heads that average: all that is read is the weight c of every position, so the risk is a function of it."""

    def __init__(self, task: Tasks, temperature: float, code: str, by_weights: Evaluation) -> None:
        super().__init__(task, temperature, code)
        self.by_weights = by_weights

    def expectation(self, attention: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient = self.by_weights(position_weights(attention, self.k))
        return value, (gradient * (self.k / attention.shape[1])).unsqueeze(1).expand(attention.shape)

    def of_weights(self, weights: Tensor) -> Tensor:
        """Risk as a function of the position weights c, (..., n) -> (...), none negative, of sum k."""
        if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.shape[-1:] != (self.n,):
            given = f"{weights.dtype} {tuple(weights.shape)}" if isinstance(weights, Tensor) else type(weights).__name__
            raise ValueError(f"weights must be a floating-point tensor of shape (..., {self.n}), got {given}")
        slack = torch.finfo(weights.dtype).eps ** 0.5
        if not ((weights >= -slack).all() and ((weights.sum(-1) - self.k).abs() <= slack * self.n).all()):
            raise ValueError(f"weights must be finite, must not be negative and must sum to k = {self.k}")
        flat = weights.reshape(-1, self.n)
        return ValueWithGradient.apply(flat, self.by_weights).reshape(weights.shape[:-1])


class SeriesRisk(AveragingRisk):
    """Averaging heads whose expected loss is given by its Fourier series."""

    def __init__(self, task: Tasks, temperature: float, code: str, series: Series) -> None:
        super().__init__(task, temperature, code, lambda c: series.sums(c, self.bits(c.shape[:1], c.device)))
        self.series, self.frequencies = series, series.frequencies

    def forces(self) -> "tuple[SeriesRisk, SeriesRisk]":
        """The label-free part and the parity signal, as two risks that add up to that of the series."""
        free, parity = (SeriesRisk(self.tasks, self.temperature, self.code, part) for part in self.series.parts())
        return free, parity


class PopulationRisk(SeriesRisk):
    r"""Exact population risk over all :math:`2^n` inputs in O(Mn) time and memory that does not grow with M.

    A smooth loss with smoothing 1e-2 is exact to rounding with one or two hundred frequencies. With a kink in the
    loss, or with smoothing 0, the series converges algebraically; the page ``exact_risk`` has the errors measured.

    Parameters
    ----------
    task : a parity, or a sequence of them with equal n and k (then row i of the directions is judged on task i).
    loss : a name in :data:`parity_lib.losses.LOSSES`, or any function f(label, prediction) of tensors.
    temperature : :math:`\tau > 0` of the softmax.
    smoothing : b of the smoothed ReLU; 0 is the ReLU.
    code : the positional code, see :func:`parity_lib.attention.positional_code`.
    readout : any function f(s, k) of the sum S instead of the paper's head, defined from -1 to k + 1.
    accuracy : wanted truncation error of the value; by default 1e-12, or 1e-5 for losses with a kink.
    frequencies : the number of frequencies M itself, instead of ``accuracy``.

    Attributes
    ----------
    series : the coefficients in use, ``frequencies`` of them.
    error_estimate : the truncation error of the value, for any directions (see ``Series.tail``); infinite if it jumps.
    over_inputs : whether the mean over all inputs is taken instead, where n <= 14 and 16 384 frequencies do not do.
    """

    def __init__(
        self, task: Tasks, loss: AnyLoss = "squared_hinge", temperature: float = 1.0, smoothing: float = 1e-2,
        code: str = "circle", *, readout: ReadOut | None = None, accuracy: float | None = None,
        frequencies: int | None = None,
    ) -> None:  # fmt: skip
        n, k = as_tasks(task)[0].n, as_tasks(task)[0].k
        self.loss, self.readout, self.smoothing = find_loss(loss), find_readout(readout, smoothing, k), float(smoothing)
        series, self.over_inputs = fourier_series(self.loss, self.readout, k), False
        if frequencies is None:
            smooth = series.tail[-1] <= 1e-12 if self.loss.kinked is None else not self.loss.kinked
            accuracy = (1e-12 if smooth else 1e-5) if accuracy is None else number(accuracy, "accuracy")
            frequencies = max(32, series.needed(accuracy))
            self.over_inputs = bool(series.tail[-1] > accuracy) and 2**n <= MAX_FREQUENCIES
        frequencies = whole(frequencies, "frequencies", 1, MAX_FREQUENCIES)
        super().__init__(task, temperature, code, series.cut(frequencies))
        self.error_estimate = 0.0 if self.over_inputs else float(series.tail[self.frequencies])
        if self.over_inputs:
            self.by_weights = EnumeratedRisk(task, loss, temperature, smoothing, code, readout=readout).by_weights


class EnumeratedRisk(AveragingRisk):
    """The same risk as a mean over all 2^n inputs: the oracle for :class:`PopulationRisk`, with the same parameters."""

    def __init__(
        self, task: Tasks, loss: AnyLoss = "squared_hinge", temperature: float = 1.0, smoothing: float = 1e-2,
        code: str = "circle", *, readout: ReadOut | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, temperature, code, self.over_inputs)
        self.loss, self.readout = find_loss(loss), find_readout(readout, smoothing, self.k)
        if self.n > MAX_ENUMERATED:
            many = f"enumerating all 2^{self.n} inputs would take {8 * self.n * 2**self.n / 1e9:.3g} GB"
            raise ValueError(f"{many}; PopulationRisk computes the same risk for any n > {MAX_ENUMERATED}")

    @cached_property
    def inputs(self) -> tuple[Tensor, Tensor]:
        """All inputs (2^n, n), and their labels under each task (tasks, 2^n)."""
        x = self.tasks[0].cube()
        return x, torch.stack([task.labels(x) for task in self.tasks])

    def over_inputs(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Value (rows,) and gradient (rows, n) at position weights (rows, n)."""
        self.bits(weights.shape[:1], weights.device)  # a row per task
        value, gradient = weights.new_zeros(len(weights)), torch.zeros_like(weights)
        size = max(64, 2**20 // max(1, len(weights)))
        self.inputs = inputs, labels = self.inputs[0].to(weights), self.inputs[1].to(weights)
        for x, y in zip(inputs.split(size), labels.split(size, dim=1), strict=True):
            read = partial(lambda y, s: self.loss(y.expand(s.shape), self.readout(s, self.k)), y)
            loss, slope = with_slope(read, weights @ x.T)
            value += loss.sum(-1) / len(inputs)
            gradient += slope @ x / len(inputs)
        return value, gradient


class MinibatchRisk(AveragingRisk):
    """Mean loss on a minibatch, drawn anew at every call for each row; :class:`Inputs` says how."""

    def __init__(
        self, task: Tasks, loss: AnyLoss, temperature: float, smoothing: float, code: str = "circle", *,
        batch: int, generators: Sequence[torch.Generator], cube_share: float | None = None,
        readout: ReadOut | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, temperature, code, self.over_batch)
        self.loss, self.readout = find_loss(loss), find_readout(readout, smoothing, self.k)
        self.inputs = Inputs.drawn(self.n, batch, generators, cube_share)

    def over_batch(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Value (rows,) and gradient (rows, n) at position weights (rows, n), on the next batch."""
        bits, span = self.bits(weights.shape[:1], weights.device), self.inputs.advance(weights)
        return sum_mean(weights.detach(), bits, self.inputs, span, self.loss, self.readout)


def aligned_hard_risk(k: int, smoothing: float, loss: AnyLoss = "squared_hinge") -> float:
    r"""Risk when k heads read the k bits of B exactly (eq. 2 with hard attention), for any n.

    The sum is then binomial: :math:`\sum_{s=0}^k \binom{k}{s} 2^{-k}\, \ell((-1)^s, \hat y(s))`.
    """
    s = torch.arange(k + 1, dtype=torch.float64)
    chance = torch.tensor([math.comb(k, int(i)) / 2**k for i in s], dtype=torch.float64)
    return float(chance @ find_loss(loss)(1 - 2 * (s % 2), zigzag(s, k, smoothing)))


class ValueWithGradient(torch.autograd.Function):
    """Hands a value and its ready-made gradient to autograd; no graph over the frequencies or inputs."""

    @staticmethod
    def forward(ctx: Any, point: Tensor, evaluate: Evaluation) -> Tensor:
        """The value; its gradient is kept for :meth:`backward`."""
        value, gradient = evaluate(point)
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        """The gradient that was kept, times what comes from above."""
        (gradient,) = ctx.saved_tensors
        return upstream.reshape(upstream.shape + (1,) * (gradient.ndim - upstream.ndim)) * gradient, None

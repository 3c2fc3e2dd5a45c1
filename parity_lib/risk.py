r"""The risk of the model, three ways: exact in O(Mn), by enumeration, and from samples.

The model reads the inputs only through :math:`S = \sum_j c_j x_j` (see
:func:`parity_lib.attention.position_weights`). Write :math:`u = S - k/2 = \frac12\sum_j c_j z_j` with
independent signs :math:`z_j = 2x_j - 1`, and split the loss as :math:`A(u) + y\,D(u)`. For every
frequency :math:`\omega`

.. math::
    E\,e^{i\omega u} = \prod_j \cos\tfrac{\omega c_j}{2}, \qquad
    E\,y\,e^{i\omega u} = (-i)^k \prod_{j \notin B} \cos\tfrac{\omega c_j}{2}
    \prod_{j \in B} \sin\tfrac{\omega c_j}{2},

so two Fourier series, one for A and one for D, turn the mean over :math:`2^n` inputs into

.. math::
    R(c) = \alpha_0 + \sum_{m=1}^{M} \alpha_m \prod_j \cos h_m c_j
    + \sum_{m=1}^{M} \beta_m \prod_{j \notin B} \cos h_m c_j \prod_{j \in B} \sin h_m c_j .

The first sum never sees B (the *label-free* part); the second is the *parity signal*. Both products
are at most 1 in size, so the coefficients left out bound the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .attention import check_temperature, position_weights, positional_code, soft_attention
from .losses import Loss, find_loss
from .readout import check_smoothing, zigzag, zigzag_and_slope
from .task import Parity, as_tasks, binary_digits, is_whole, shape_of

MAX_FREQUENCIES = 16_384
Evaluation = Callable[[Tensor], tuple[Tensor, Tensor]]
ENUMERATION_LIMIT = 2**31  # bytes of the table of all inputs
CELLS = 2**18  # (frequency, row, position) cells worked on at once: three such tables stay in the processor's cache


class _Risk:
    """What the risks share: the setting, its checks, and directions -> attention -> risk."""

    def __init__(
        self,
        task: Parity | Sequence[Parity],
        loss: str = "squared_hinge",
        temperature: float = 1.0,
        smoothing: float = 1e-2,
        code: str = "circle",
    ) -> None:
        check_temperature(temperature)
        check_smoothing(smoothing)
        self.tasks = as_tasks(task)
        self.n, self.k = self.tasks[0].n, self.tasks[0].k
        self.loss: Loss = find_loss(loss)
        self.temperature, self.smoothing, self.code = float(temperature), float(smoothing), code
        positional_code(self.n, code)  # refuses an unknown code

    def __call__(self, directions: Tensor) -> Tensor:
        """Risk of heads with the given directions: (..., heads, 2) -> (...), differentiable once."""
        return self.of_attention(self._attention(directions))

    def value_and_gradient(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Risk (...) and its gradient (..., heads, 2), without a graph: a training step."""
        leaf = directions.detach().requires_grad_()
        with torch.enable_grad():
            value = self(leaf)
            (gradient,) = torch.autograd.grad(value.sum(), leaf)
        return value.detach(), gradient

    def _attention(self, directions: Tensor) -> Tensor:
        attention = soft_attention(directions, self.n, self.temperature, self.code)
        if len(self.tasks) > 1 and directions.shape[:-2] != (len(self.tasks),):
            raise ValueError(
                f"directions must have shape ({len(self.tasks)}, heads, {directions.shape[-1]}), one row per task, "
                f"got {tuple(directions.shape)}"
            )
        return attention

    def of_attention(self, attention: Tensor) -> Tensor:
        """Risk as a function of the attention itself, (..., heads, n) -> (...)."""
        return self.of_weights(position_weights(attention, self.k))

    def of_weights(self, weights: Tensor) -> Tensor:
        """Risk as a function of the position weights c, (..., n) -> (...); they must sum to k."""
        if not isinstance(weights, Tensor) or weights.ndim < 1 or weights.shape[-1] != self.n:
            raise ValueError(f"weights must have shape (..., {self.n}), got {shape_of(weights)}")
        if not weights.isfinite().all():
            raise ValueError("weights must be finite, got nan or inf")
        flat = weights.reshape(-1, self.n)
        return _ValueWithGradient.apply(flat, self._evaluate).reshape(weights.shape[:-1])

    def _evaluate(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Value (rows,) and gradient (rows, n) at position weights (rows, n)."""
        raise NotImplementedError

    def _loss_and_slope(self, s: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Loss of the zigzag head at sums ``s``, and its derivative with respect to them; any shape."""
        prediction, head_slope = zigzag_and_slope(s, self.k, self.smoothing)
        with torch.enable_grad():
            leaf = prediction.requires_grad_()
            loss = self.loss(labels, leaf)
            (loss_slope,) = torch.autograd.grad(loss.sum(), leaf)
        return loss.detach(), loss_slope * head_slope

    def _bits(self, device: torch.device) -> Tensor:
        """Positions of B from 0, (tasks, k)."""
        return torch.tensor([task.indices for task in self.tasks], device=device)


class PopulationRisk(_Risk):
    r"""Exact population risk over all :math:`2^n` inputs in O(Mn) time and memory that does not grow with M.

    Parameters
    ----------
    task : a parity, or a sequence of them with equal n and k (then row i of the directions is
        judged on task i).
    loss : a name in :data:`parity_lib.losses.LOSSES`.
    temperature : :math:`\tau > 0` of the softmax.
    smoothing : b of the smoothed ReLU; 0 is the ReLU.
    code : the positional code, see :func:`parity_lib.attention.positional_code`.
    accuracy : wanted bound on the truncation error of the value. Default 1e-12 for smooth losses and
        1e-5 for losses with a kink, using at most 16 384 frequencies.
    frequencies : the number of frequencies M itself, instead of ``accuracy``.

    Attributes
    ----------
    frequencies : M in use.
    error_bound : proven bound on the truncation error of the value, for any directions.

    Notes
    -----
    A smooth loss with smoothing 1e-2 is exact to rounding with one or two hundred frequencies. With a
    kink in the loss, or with smoothing 0, the series converges algebraically. Where 16 384 frequencies
    do not reach ``accuracy`` and there are no more inputs than that (n <= 14), the mean over the inputs
    is as cheap and has no error at all, so it is taken instead. Largest errors of the series measured at
    n = 12, k = 3 and temperatures down to 1/n^2, value and gradient (``benchmarks/accuracy.py``): squared
    hinge 7e-7 and 1e-3, or 3e-7 and 5e-2 with the ReLU; hinge 6e-6 and 2e-2, or 4e-5 and 7e-3 with the
    ReLU; sigmoid hinge with the ReLU 2e-9 and 6e-5.

    The gradient of the hinge jumps wherever an input crosses the kink, and a finite series is smooth: no
    number of frequencies makes it uniformly close. What holds, with u written as :math:`\frac12 \sum_j c_j
    z_j` and the period T: an input at distance d from a kink where the slope jumps by J adds at most

    .. math:: 2^{-n}\, \frac{J}{2} \min\left(\frac12, \frac{1}{\pi (M + 1) \sin(\pi d / T)}\right)

    to the error of :math:`\partial R/\partial c_j`, by the tail of the sawtooth's series.

    The precision is that of the directions. In float32 the value is off by less than 5e-6 and the gradient
    by less than 2e-6 up to n = 100, and by 5e-5 and 3e-7 at n = 1000, where a parity signal of 1e-6 beside
    a label-free force of 1e-2 is lost: use float64 there.
    """

    def __init__(
        self,
        task: Parity | Sequence[Parity],
        loss: str = "squared_hinge",
        temperature: float = 1.0,
        smoothing: float = 1e-2,
        code: str = "circle",
        *,
        accuracy: float | None = None,
        frequencies: int | None = None,
    ) -> None:
        super().__init__(task, loss, temperature, smoothing, code)
        self._over_inputs: EnumeratedRisk | None = None
        series = fourier_series(self.loss.name, self.k, self.smoothing)
        if frequencies is None:
            if accuracy is None:
                accuracy = 1e-5 if self.loss.kinked else 1e-12
            if not isinstance(accuracy, int | float) or not 0 < accuracy < math.inf:
                raise ValueError(f"accuracy must be a positive finite number, got {accuracy!r}")
            enough = (series.tail <= max(accuracy, float(series.tail[-1]))).nonzero()[0].item()
            frequencies = max(32, int(enough))
            if series.tail[-1] > accuracy and 2**self.n <= MAX_FREQUENCIES:
                self._over_inputs = EnumeratedRisk(self.tasks, loss, temperature, smoothing, code)
        if not is_whole(frequencies) or not 1 <= frequencies <= MAX_FREQUENCIES:
            raise ValueError(f"frequencies must be in 1..{MAX_FREQUENCIES}, got {frequencies!r}")
        self.frequencies = frequencies
        self.error_bound = float(series.tail[frequencies])
        self._step = math.pi / series.period
        self._constant = float(series.label_free[0])
        drift = series.label_free[1 : frequencies + 1]
        self._label_free = drift if drift.any() else None  # none for a loss const - y g(prediction)
        self._parity = series.parity[1 : frequencies + 1]
        outside = torch.ones(len(self.tasks), self.n).scatter_(1, self._bits(torch.device("cpu")), 0)
        self._order = outside.argsort(dim=1, stable=True)  # (tasks, n): the positions, those in B first

    def __call__(self, directions: Tensor) -> Tensor:
        """Risk of heads with the given directions: (..., heads, 2) -> (...), differentiable once."""
        return _ValueWithGradient.apply(directions, self.value_and_gradient)

    @torch.no_grad()
    def value_and_gradient(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        r"""Risk (...) and its gradient (..., heads, 2), the softmax's part in closed form too.

        With the gradient g on the position weights,
        :math:`\partial R / \partial a = \frac{k}{m\tau} \sum_j \gamma_j (g_j - \sum_l \gamma_l g_l)\, \mathrm{pos}(j)`.
        """
        attention = self._attention(directions)
        weights = position_weights(attention, self.k)
        value, by_weight = self._evaluate(weights.reshape(-1, self.n))
        pull = attention * by_weight.reshape(weights.shape).unsqueeze(-2)
        pull.addcmul_(attention, pull.sum(-1, keepdim=True), value=-1)
        table = positional_code(self.n, self.code, directions.dtype, directions.device)
        scale = self.k / directions.shape[-2] / self.temperature
        return value.reshape(weights.shape[:-1]), (pull @ table).mul_(scale)

    def forces(self) -> tuple[PopulationRisk, PopulationRisk]:
        """The label-free part and the parity signal, as two risks that add up to this one (to ``error_bound``)."""
        label_free, parity = copy(self), copy(self)
        label_free._over_inputs = parity._over_inputs = None
        label_free._parity = torch.zeros_like(self._parity)
        parity._label_free = None
        parity._constant = 0.0
        return label_free, parity

    def _evaluate(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        if self._over_inputs is not None:
            return self._over_inputs._evaluate(weights)
        label_free = None if self._label_free is None else self._label_free.to(weights)
        parity = self._parity.to(weights)
        order = self._order.to(weights.device).expand(weights.shape)
        with torch.inference_mode():  # nothing to record: saves an eighth of the time at n = 20
            pieces = [
                trigonometric_sums(c, self.k, self._step, label_free, parity)
                for c in weights.gather(1, order).split(max(1, CELLS // 32 // self.n))
            ]
        value, gradient = pieces[0] if len(pieces) == 1 else map(torch.cat, zip(*pieces, strict=True))
        return value + self._constant, torch.empty_like(weights).scatter_(1, order, gradient)


class EnumeratedRisk(_Risk):
    """The same risk as a mean over all 2^n inputs: the oracle for :class:`PopulationRisk`."""

    def __init__(
        self,
        task: Parity | Sequence[Parity],
        loss: str = "squared_hinge",
        temperature: float = 1.0,
        smoothing: float = 1e-2,
        code: str = "circle",
    ) -> None:
        super().__init__(task, loss, temperature, smoothing, code)
        needed = 2**self.n * self.n * 8
        if needed > ENUMERATION_LIMIT:
            raise ValueError(
                f"enumerating all 2^{self.n} inputs would take {needed / 1e9:.3g} GB; "
                f"PopulationRisk computes the same risk for any n, use it for n > 23"
            )

    def _evaluate(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        inputs = self.tasks[0].cube(weights.dtype).to(weights.device)
        values, gradients = torch.zeros(len(weights)).to(weights), torch.zeros_like(weights)
        for i, row in enumerate(weights):
            labels = self.tasks[i % len(self.tasks)].labels(inputs)
            for x, y in zip(inputs.split(2**14), labels.split(2**14), strict=True):
                loss, slope = self._loss_and_slope(x @ row, y)
                values[i] += loss.sum() / len(inputs)
                gradients[i] += slope @ x / len(inputs)
        return values, gradients


class MinibatchRisk(_Risk):
    """Mean loss on a minibatch, drawn anew at every call; each row of directions has its own data.

    Parameters
    ----------
    batch : examples per call and row.
    generators : one per row, the source of its data.
    cube_share : None draws uniform inputs with replacement. A number in (0, 1] fixes for each row a
        random share of all 2^n inputs and walks through it in shuffled epochs without replacement,
        as a data loader does; the last batch of an epoch is smaller.
    """

    GROUP = 10  # positions per look-up table

    def __init__(
        self,
        task: Parity | Sequence[Parity],
        loss: str,
        temperature: float,
        smoothing: float,
        code: str = "circle",
        *,
        batch: int,
        generators: Sequence[torch.Generator],
        cube_share: float | None = None,
    ) -> None:
        super().__init__(task, loss, temperature, smoothing, code)
        if not is_whole(batch) or batch < 1:
            raise ValueError(f"batch must be a whole number of at least 1, got {batch!r}")
        if cube_share is not None and not 0 < cube_share <= 1:
            raise ValueError(f"cube_share must be in (0, 1], got {cube_share!r}")
        if cube_share is not None and self.n > 24:
            raise ValueError(f"a share of the cube needs n <= 24, got n = {self.n}; use cube_share=None")
        self.batch, self.generators = batch, list(generators)
        self._groups = math.ceil(self.n / self.GROUP)
        self._table = binary_digits(torch.arange(2**self.GROUP), self.GROUP)  # (1024, 10)
        self._pool: Tensor | None = None
        if cube_share is not None:
            size = max(1, int(cube_share * 2**self.n))
            self._pool = self._shuffles(2**self.n)[:, :size].to(torch.int32)
            self._cursor = size  # the first call starts an epoch
        signs = torch.ones(len(self.tasks), self._groups * self.GROUP, dtype=torch.int64)
        signs.scatter_(1, self._bits(signs.device), -1)
        grouped = signs.reshape(len(self.tasks), self._groups, 1, self.GROUP)
        self._signs = torch.where(self._table.bool(), grouped, 1).prod(-1)  # (tasks, groups, 1024)

    def draw(self) -> Tensor:
        """Inputs of the next batch as codes of ``GROUP`` bits: (rows, groups, examples)."""
        if self._pool is None:
            shape = (self._groups, self.batch)
            return torch.stack(
                [torch.randint(2**self.GROUP, shape, generator=g, device=g.device) for g in self.generators]
            )
        if self._cursor >= self._pool.shape[1]:
            order = self._shuffles(self._pool.shape[1])
            self._pool = self._pool.gather(1, order)
            self._cursor = 0
        codes = self._pool[:, self._cursor : self._cursor + self.batch].to(torch.int64)
        self._cursor += self.batch
        shifts = torch.arange(self._groups, device=codes.device).reshape(1, -1, 1) * self.GROUP
        return (codes.unsqueeze(1) >> shifts) & (2**self.GROUP - 1)

    def _shuffles(self, count: int) -> Tensor:
        return torch.stack([torch.randperm(count, generator=g, device=g.device) for g in self.generators])

    def _evaluate(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        if len(weights) != len(self.generators):
            raise ValueError(f"expected {len(self.generators)} rows, one per generator, got {len(weights)}")
        codes = self.draw()
        rows, _, examples = codes.shape
        labels = self._signs.to(weights).expand(rows, -1, -1).gather(2, codes).prod(1)
        table = self._table.to(weights)
        padded = torch.nn.functional.pad(weights, (0, self._groups * self.GROUP - self.n))
        partial_sums = padded.reshape(rows, self._groups, self.GROUP) @ table.T
        s = partial_sums.gather(2, codes).sum(1)
        pieces = [  # small enough for the processor's cache
            self._loss_and_slope(part, y)
            for part, y in zip(s.reshape(-1).split(2**16), labels.reshape(-1).split(2**16), strict=True)
        ]
        values, slopes = (torch.cat(part).reshape(rows, examples) for part in zip(*pieces, strict=True))
        by_code = torch.zeros_like(partial_sums).scatter_add_(2, codes, slopes.unsqueeze(1).expand_as(codes))
        gradient = (by_code @ table).reshape(rows, -1)[:, : self.n] / examples
        return values.mean(-1), gradient


def aligned_hard_risk(k: int, smoothing: float, loss: str = "squared_hinge") -> float:
    r"""Risk when k heads read the k bits of B exactly (eq. 2 with hard attention), for any n.

    The sum is then binomial: :math:`\sum_{s=0}^k \binom{k}{s} 2^{-k}\, \ell((-1)^s, \hat y(s))`.
    """
    s = torch.arange(k + 1, dtype=torch.float64)
    chance = torch.tensor([math.comb(k, int(i)) / 2**k for i in s], dtype=torch.float64)
    return float(chance @ find_loss(loss)(1 - 2 * (s % 2), zigzag(s, k, smoothing)))


class Series(NamedTuple):
    """Fourier coefficients of a loss read through the zigzag head, up to ``MAX_FREQUENCIES``."""

    period: float
    label_free: Tensor  # alpha_0, alpha_1, ...
    parity: Tensor  # 0, beta_1, ...
    tail: Tensor  # tail[M] bounds the error of stopping after M frequencies


@lru_cache(maxsize=256)
def fourier_series(loss: str, k: int, smoothing: float) -> Series:
    r"""Coefficients of A and D on a period T = k + 1.

    The weighted sum u stays in [-k/2, k/2]. Beyond it A and D are blended into their own
    translates by a smooth step (erfc), so that the periodic function is as smooth as the loss
    itself, and untouched to rounding where inputs can be.
    """
    margin = 1.0
    period = k + margin
    points = 32 * MAX_FREQUENCIES
    grid = (torch.arange(points, dtype=torch.float64) / points - 0.5) * period
    width = margin / 2 / 5.9  # erfc(5.9) is 7e-17: the step is complete inside the margin
    periodic = torch.zeros(2, points, dtype=torch.float64)
    for shift in (-period, 0.0, period):
        u = grid + shift
        step = torch.erfc((u.abs() - period / 2) / width) / 2
        periodic += step * torch.stack(find_loss(loss).split(zigzag(u + k / 2, k, smoothing)))
    if not periodic.isfinite().all():
        raise ValueError(f"smoothing must leave the loss finite, got {smoothing!r}")
    spectrum = torch.fft.rfft(periodic)[:, : 8 * MAX_FREQUENCIES] / points
    spectrum[:, 1::2] *= -1  # the grid starts at -T/2
    spectrum[:, 1:] *= 2
    label_free = spectrum[0].real
    parity = (spectrum[1] * (-1j) ** k).real
    parity[0] = 0
    for part in (label_free, parity):
        part[part.abs() < 1e-17 * float(periodic.abs().max())] = 0  # rounding of the transform
    size = label_free.abs() + parity.abs()
    tail = size.flip(0).cumsum(0).flip(0)[1:]
    return Series(
        period,
        label_free[: MAX_FREQUENCIES + 1].clone(),
        parity[: MAX_FREQUENCIES + 1].clone(),
        tail[: MAX_FREQUENCIES + 1].clone(),
    )


def trigonometric_sums(
    weights: Tensor, k: int, step: float, label_free: Tensor | None, parity: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Both sums of the exact risk, and their gradient in closed form.

    With :math:`h_m = m h`, :math:`P_m = \prod_j \cos h_m c_j` and
    :math:`V_m = P_m \prod_{j \in B} \tan h_m c_j` the gradient is

    .. math::
        \frac{\partial R}{\partial c_j} = \begin{cases}
        -\sum_m h_m (\alpha_m P_m + \beta_m V_m) \tan h_m c_j & j \notin B \\
        \phantom{-}\sum_m h_m (\beta_m V_m \cot h_m c_j - \alpha_m P_m \tan h_m c_j) & j \in B,
        \end{cases}

    where :math:`V_m \cot h_m c_j` is computed as a product that leaves the sine of j out, so that signals of any size
    are right to the last digits, down to the smallest number there is.

    The frequencies are evenly spaced, so a block of cosines is made by angle doubling and the next
    block by one rotation: no cosine is computed twice, and memory holds one block.

    Parameters
    ----------
    weights : (rows, n), the k bits of B in the first k columns.   step : h.
    label_free, parity : :math:`\alpha_m` (None if all are 0) and :math:`\beta_m`, m = 1..M, (M,).

    Returns
    -------
    value (rows,) and gradient (rows, n).
    """
    rows, n = weights.shape
    total = len(parity)
    blocks = math.ceil(total / min(256, max(8, CELLS // max(1, rows * n))))
    block = math.ceil(total / blocks)
    theta = weights * step
    cosine, sine = _multiples(theta, block)
    spare = torch.empty_like(cosine)
    turn_cosine, turn_sine = cosine[-1].clone(), sine[-1].clone()
    h = step * torch.arange(1, total + 1, dtype=weights.dtype, device=weights.device).unsqueeze(1)
    value, gradient, at_bits = weights.new_zeros(rows), torch.zeros_like(weights), weights.new_zeros(k, rows)
    tiny = 1e-30  # a cosine may be exactly 0, and is never this small otherwise; a sine may be, and is not touched

    for start in range(0, total, block):
        if start:
            torch.mul(cosine, turn_cosine, out=spare).addcmul_(sine, turn_sine, value=-1)
            sine.mul_(turn_cosine).addcmul_(cosine, turn_sine)
            cosine, spare = spare, cosine
        these = slice(start, min(start + block, total))
        count = these.stop - start
        c, s = cosine[:count].add_(tiny), sine[:count]
        tangent = torch.div(s, c, out=spare[:count])
        others = c[..., k:].prod(-1)
        all_sines, but_one = _products(s[..., :k].movedim(-1, 0).contiguous())
        signal = others * parity[these].unsqueeze(1)
        push = signal * h[these]
        at_bits += (but_one.mul_(push) * c[..., :k].movedim(-1, 0)).sum(1)
        push *= all_sines
        value += (signal * all_sines).sum(0)
        if label_free is not None:
            drift = others * c[..., :k].prod(-1) * label_free[these].unsqueeze(1)
            value += drift.sum(0)
            drift *= h[these]
            at_bits -= (tangent[..., :k].movedim(-1, 0) * drift).sum(1)
            push += drift
        by_row = push.t().contiguous().unsqueeze(1)  # a layout that bmm hands to BLAS as it is
        gradient -= by_row.bmm(tangent.transpose(0, 1)).squeeze(1)
    gradient[:, :k] = at_bits.T
    return value, gradient


def _products(factors: Tensor) -> tuple[Tensor, Tensor]:
    """Product over the first axis (...), and the products that leave one factor out (k, ...), without a division."""
    before, after = [torch.ones_like(factors[0])], [torch.ones_like(factors[0])]
    for first, last in zip(factors[:-1], factors[1:].flip(0), strict=True):
        before.append(before[-1] * first)
        after.append(after[-1] * last)
    return before[-1] * factors[-1], torch.stack(before) * torch.stack(after[::-1])


def _multiples(theta: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine of 1, 2, ..., count times theta (rows, n), by angle doubling: (count, rows, n)."""
    cosine = theta.new_empty(count, *theta.shape)
    sine = torch.empty_like(cosine)
    known = min(4, count)
    angles = theta * torch.arange(1, known + 1, dtype=theta.dtype, device=theta.device).reshape(-1, 1, 1)
    torch.cos(angles, out=cosine[:known])
    torch.sin(angles, out=sine[:known])
    while known < count:
        more = min(known, count - known)
        new = slice(known, known + more)
        c, s = cosine[known - 1], sine[known - 1]
        first_cosine, first_sine = cosine[:more], sine[:more]
        torch.mul(first_cosine, c, out=cosine[new]).addcmul_(first_sine, s, value=-1)
        torch.mul(first_sine, c, out=sine[new]).addcmul_(first_cosine, s)
        known += more
    return cosine, sine


class _ValueWithGradient(torch.autograd.Function):
    """Hands a value and its ready-made gradient to autograd; no graph over the frequencies or inputs."""

    @staticmethod
    def forward(ctx: Any, point: Tensor, evaluate: Evaluation) -> Tensor:
        value, gradient = evaluate(point)
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return upstream.reshape(upstream.shape + (1,) * (gradient.ndim - upstream.ndim)) * gradient, None

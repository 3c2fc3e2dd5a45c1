r"""Fourier series of a loss, and the two trigonometric sums that are the exact risk.

The model reads the inputs only through :math:`S = \sum_j c_j x_j` (:func:`parity_lib.attention.position_weights`),
and :math:`u = S - k/2` is a sum of independent signs. Split the loss as :math:`A(u) + y\,D(u)`: two Fourier
series, one for A and one for D, turn the mean over :math:`2^n` inputs into

.. math::
    R(c) = \alpha_0 + \sum_{m=1}^{M} \alpha_m \prod_j \cos h_m c_j
    + \sum_{m=1}^{M} \beta_m \prod_{j \notin B} \cos h_m c_j \prod_{j \in B} \sin h_m c_j .

The first sum never sees B (the *label-free* part); the second is the *parity signal*. Both products
are at most 1 in size, so the coefficients left out bound the error. The page ``exact_risk`` derives it step by step.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import torch
from torch import Tensor

from .kernels import fused, sums
from .losses import Loss
from .readout import ReadOut

MAX_FREQUENCIES = 16_384
CELLS = 2**18  # (frequency, row, position) cells worked on at once: three such tables stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Series:
    """Fourier coefficients of a loss read through a head, from frequency 0 on; the m-th is m times 2 pi / period."""

    period: float
    label_free: Tensor
    """alpha_0, alpha_1, ..., alpha_M"""
    parity: Tensor
    """0, beta_1, ..., beta_M"""
    tail: Tensor
    """tail[m]: the error of the value, at most, when the sums stop after m frequencies, (M + 1,)"""

    @property
    def frequencies(self) -> int:
        """Their number M."""
        return len(self.parity) - 1

    def needed(self, accuracy: float) -> int:
        """The smallest number of frequencies whose bound meets ``accuracy``, or comes as close as there are any."""
        return int((self.tail <= max(accuracy, float(self.tail[-1]))).nonzero()[0])

    def cut(self, frequencies: int) -> Self:
        """The same series with only so many frequencies."""
        end = frequencies + 1
        return replace(self, label_free=self.label_free[:end], parity=self.parity[:end], tail=self.tail[:end])

    def parts(self) -> tuple[Self, Self]:
        """The label-free part and the parity signal, each as a series of its own."""
        nothing = torch.zeros_like(self.parity)
        return replace(self, parity=nothing), replace(self, label_free=nothing)

    def sums(self, weights: Tensor, bits: Tensor) -> tuple[Tensor, Tensor]:
        """The exact mean (rows,) and its gradient (rows, n) at weights (rows, n) of sum k; bits (rows, k) from 0."""
        label_free, parity = _coefficients(self, weights.dtype, weights.device)
        value, gradient = trigonometric_sums(weights, bits, math.pi / self.period, label_free, parity)
        return value + float(self.label_free[0]), gradient


@lru_cache(maxsize=64)
def _coefficients(series: Series, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Those of both sums from frequency 1 on, there: a GPU is waited for at every copy."""
    return series.label_free[1:].to(device, dtype), series.parity[1:].to(device, dtype)


@lru_cache(maxsize=256)
def fourier_series(loss: Loss, readout: ReadOut, k: int) -> Series:
    r"""Coefficients of A and D on a period T = k + 1, and an estimate of what is left out.

    The weighted sum u stays in [-k/2, k/2]. Beyond it A and D are blended into their own translates by a smooth step
    (erfc), so that the periodic function is as smooth as the loss, and untouched to rounding where inputs can be.

    A transform of N = 2^19 points gives the first N/4 coefficients. Those after them are taken to be at most
    :math:`C/m^2` in size, with the C that the coefficients around the 10 000th keep: the law of a kink, and for other
    losses a premise. They add :math:`4C/N` to the estimate, and the aliasing of the transform :math:`(4 - \pi)\,C/N`.
    Where coefficients do not fall like that, as for a loss that jumps, there is none.
    """
    margin, points, known = 1.0, 32 * MAX_FREQUENCIES, 8 * MAX_FREQUENCIES
    period = k + margin
    grid = (torch.arange(points, dtype=torch.float64) / points - 0.5) * period
    width = margin / 2 / 5.9  # erfc(5.9) is 7e-17: the step is complete inside the margin
    periodic = torch.zeros(2, points, dtype=torch.float64)
    for shift in (-period, 0.0, period):
        u = grid + shift
        step = torch.erfc((u.abs() - period / 2) / width) / 2
        s = u.clamp(-period / 2 - margin / 2, period / 2 + margin / 2) + k / 2  # the step is 0 where this clamps
        periodic += step * torch.stack(loss.split(readout(s, k)))
    if not periodic.isfinite().all():
        raise ValueError(f"the loss must be finite at all sums from -1 to {k + 1}, and is not with {readout}")
    spectrum = torch.fft.rfft(periodic)[:, :known] / points
    spectrum[:, 1::2] *= -1  # the grid starts at -T/2
    spectrum[:, 1:] *= 2
    label_free, parity = spectrum[0].real, (spectrum[1] * (-1j) ** k).real
    parity[0] = 0
    for part in (label_free, parity):
        part[part.abs() < 1e-17 * float(periodic.abs().max())] = 0  # rounding of the transform
    size = label_free.abs() + parity.abs()
    decay = size * torch.arange(known, dtype=torch.float64) ** 2
    decay[size < 1e-15 * float(periodic.abs().max())] = 0  # the noise of the transform
    earlier, later = (float(decay[end // 2 : end].max()) for end in (MAX_FREQUENCIES // 2, MAX_FREQUENCIES))
    beyond = 5 * max(earlier, later) / points if later <= 1.2 * earlier else math.inf
    tail = size.flip(0).cumsum(0).flip(0)[1:] + beyond
    return Series(period, *(part[: MAX_FREQUENCIES + 1].clone() for part in (label_free, parity, tail)))


@fused(sums.trigonometric_sums)
def trigonometric_sums(
    weights: Tensor, bits: Tensor, step: float, label_free: Tensor, parity: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Both sums of the exact risk, and their gradient in closed form.

    With :math:`h_m = m h,\ P_m = \prod_j \cos h_m c_j,\ V_m = P_m \prod_{j \in B} \tan h_m c_j` the gradient is

    .. math::
        \frac{\partial R}{\partial c_j} = \begin{cases}
        -\sum_m h_m (\alpha_m P_m + \beta_m V_m) \tan h_m c_j & j \notin B \\
        \phantom{-}\sum_m h_m (\beta_m V_m \cot h_m c_j - \alpha_m P_m \tan h_m c_j) & j \in B,
        \end{cases}

    where :math:`V_m \cot h_m c_j` is computed as a product that leaves the sine of j out, so that signals of any size
    are right to the last digits. Weights (rows, n), positions of B from 0 (rows, k), the step h and the coefficients
    :math:`\alpha_m`, :math:`\beta_m` (M,) from m = 1 on -> value (rows,), gradient (rows, n).
    """
    (rows, n), k = weights.shape, bits.shape[1]
    order = torch.ones_like(weights).scatter_(1, bits, 0).argsort(dim=1, stable=True)  # those in B first
    weights = weights.gather(1, order)
    half = step * torch.arange(1, len(parity) + 1, dtype=weights.dtype, device=weights.device)
    value, gradient, at_bits = weights.new_zeros(rows), torch.zeros_like(weights), weights.new_zeros(rows, k)
    block = max(1, CELLS // max(1, rows * n))
    for h, alpha, beta in zip(half.split(block), label_free.split(block), parity.split(block), strict=True):
        angles = h.reshape(-1, 1, 1) * weights  # (frequencies, rows, n)
        c, s = angles.cos(), angles.sin()
        tangent = s / c
        others, (all_sines, but_one) = c[..., k:].prod(-1), _products(s[..., :k])
        signal = others * beta.unsqueeze(1)
        drift = others * c[..., :k].prod(-1) * alpha.unsqueeze(1)
        value += (signal * all_sines + drift).sum(0)
        signal, drift = h.unsqueeze(1) * signal, h.unsqueeze(1) * drift
        at_bits += (signal.unsqueeze(-1) * but_one * c[..., :k] - drift.unsqueeze(-1) * tangent[..., :k]).sum(0)
        gradient -= ((signal * all_sines + drift).unsqueeze(-1) * tangent).sum(0)
    gradient[:, :k] = at_bits
    return value, torch.empty_like(weights).scatter_(1, order, gradient)


def _products(factors: Tensor) -> tuple[Tensor, Tensor]:
    """Product over the last axis (...), and the products that leave one factor out (..., k), without a division."""
    one = torch.ones_like(factors[..., :1])
    before = torch.cat([one, factors[..., :-1]], -1).cumprod(-1)
    after = torch.cat([one, factors[..., 1:].flip(-1)], -1).cumprod(-1).flip(-1)
    return before[..., -1] * factors[..., -1], before * after

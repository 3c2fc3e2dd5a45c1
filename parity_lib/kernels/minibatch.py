r"""Inputs drawn by counting, and the mean loss on a batch of them.

The i-th input of a row is a function of the row's key and of i alone: nothing is stored, every device draws the same,
and a training set that is a share of the cube costs no memory.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from ..checks import number, whole
from ..losses import LOSSES, Loss, with_slope
from ..readout import ReadOut, Zigzag
from ..task import binary_digits
from . import as_array, batches, fused
from .batches import CODES, GROUP, ROUNDS, WORD

GOLDEN, FIRST, SECOND = (int(value) - 2**64 for value in (batches.GOLDEN, batches.FIRST, batches.SECOND))
CELLS = 2**24  # numbers in the inputs that are looked at together
Span = tuple[int, int, int]  # which inputs: epoch, start, stop


@dataclass
class Inputs:
    """Uniform inputs of n bits for each row, in batches.

    Without a ``size`` they are drawn anew each time. With one, each row has a training set of so many inputs of its own
    and walks through it in shuffled epochs, as a data loader does: the last batch of an epoch is smaller.
    """

    n: int
    batch: int
    keys: Tensor
    """a random number for each row, (rows,) int64"""
    size: int = 0
    span: Span = field(default=(-1, 0, 0), init=False)

    @classmethod
    def drawn(cls, n: int, batch: int, generators: Sequence[torch.Generator], cube_share: float | None) -> Self:
        """Batches of ``batch`` examples for each row, whose generator draws its key.

        With ``cube_share``, a number in (0, 1], the training set of a row is a random share of all 2^n inputs.
        """
        size = 0
        if cube_share is not None:
            if number(cube_share, "cube_share") > 1:
                raise ValueError(f"cube_share must be in (0, 1], got {cube_share!r}")
            if n > 24:
                raise ValueError(f"a share of the cube needs n <= 24, got n = {n}; use cube_share=None")
            size = max(1, int(cube_share * 2**n))
        keys = [torch.randint(2**62, (1,), generator=g, device=g.device) for g in generators]
        return cls(n, whole(batch, "batch", 1), torch.cat(keys or [torch.zeros(0, dtype=torch.int64)]), size)

    def advance(self, rows: Tensor) -> Span:
        """Go to the next batch for these rows, and say which it is."""
        if len(rows) != len(self.keys):
            raise ValueError(f"expected {len(self.keys)} rows, one per generator, got {len(rows)}")
        self.keys, (epoch, _, start) = self.keys.to(rows.device), self.span
        if epoch < 0 or (self.size and start == self.size):
            epoch, start = epoch + 1, 0
        self.span = epoch, start, min(start + self.batch, self.size or 2**62)
        return self.span

    def x(self, span: Span) -> Tensor:
        """Those inputs, (rows, examples, n) in {0, 1}.

        A place of the epoch is shuffled until it lies in the training set: where a GPU would have to be waited for, as
        often as can be necessary or, if that is less, so often that one place in 2^64 would need more.
        """
        index = torch.arange(*span[1:], device=self.keys.device)
        if self.size:  # place in the epoch -> place in the training set -> input
            bits = (self.size - 1).bit_length()
            beyond, shuffled = 2**bits - self.size, _permutation(self.keys, span[0] + 1, bits)
            place = shuffled(index.expand(len(self.keys), -1))
            for _ in range(min(beyond, math.ceil(64 / max(1, bits - math.log2(max(1, beyond)))))):
                if index.device.type == "cpu" and (place < self.size).all():
                    break
                place = torch.where(place < self.size, place, shuffled(place))
            words = _permutation(self.keys, 0, self.n)(place).unsqueeze(-1)
        else:
            each = -(-self.n // WORD)
            numbers = index.unsqueeze(1) * each + torch.arange(each, device=index.device) + 1  # (examples, words)
            words = _mixed(self.keys.reshape(-1, 1, 1) + GOLDEN * numbers)
        codes = (words.unsqueeze(-1) >> torch.arange(0, WORD, GROUP, device=index.device)) % CODES
        digits = binary_digits(torch.arange(CODES, device=index.device), GROUP).double()
        return digits[codes.flatten(-2)[..., : -(-self.n // GROUP)]].flatten(-2)[..., : self.n]


def _fused_sum(weights: Any, bits: Any, inputs: Inputs, span: Span, loss: Loss, readout: ReadOut) -> Any:
    if loss not in LOSSES.values() or not isinstance(readout, Zigzag):
        return NotImplemented
    kind = batches.NAMED.index(loss.name)
    return batches.sum_mean(weights, bits, as_array(inputs.keys), *span, inputs.size, kind, readout.smoothing)


def _fused_product(attention: Any, bits: Any, inputs: Inputs, span: Span) -> Any:
    return batches.product_mean(attention, bits, as_array(inputs.keys), *span, inputs.size)


@fused(_fused_sum)
def sum_mean(
    weights: Tensor, bits: Tensor, inputs: Inputs, span: Span, loss: Loss, readout: ReadOut
) -> tuple[Tensor, Tensor]:
    """Mean loss of a read-out of the sum, and its gradient: weights (rows, n), bits (rows, k) -> (rows,), (rows, n)."""
    k = bits.shape[1]

    def evaluate(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        values, slopes = with_slope(lambda s: loss(y, readout(s, k)), (x @ weights.unsqueeze(-1)).squeeze(-1))
        return values.sum(-1), (slopes.unsqueeze(1) @ x).squeeze(1)

    return _mean(evaluate, weights, bits, inputs, span)


@fused(_fused_product)
def product_mean(attention: Tensor, bits: Tensor, inputs: Inputs, span: Span) -> tuple[Tensor, Tensor]:
    r"""Mean of :math:`1 - y \prod_i (1 - 2 v_i)`, and its gradient: attention (rows, heads, n) -> (rows,), the same."""

    def evaluate(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        values, slopes = with_slope(lambda sides: 1 - y * sides.prod(-1), 1 - 2 * x @ attention.mT)
        return values.sum(-1), -2 * slopes.mT @ x  # slopes (rows, examples, heads)

    return _mean(evaluate, attention, bits, inputs, span)


def _mean(
    evaluate: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], point: Tensor, bits: Tensor, inputs: Inputs, span: Span
) -> tuple[Tensor, Tensor]:
    epoch, start, stop = span
    value, gradient = point.new_zeros(len(point)), torch.zeros_like(point)
    size = max(1, CELLS // max(1, len(point) * inputs.n))
    for first in range(start, stop, size):
        x = inputs.x((epoch, first, min(first + size, stop)))
        y = 1 - 2 * (x.gather(2, bits.unsqueeze(1).expand(-1, x.shape[1], -1)).sum(-1) % 2)
        values, slopes = evaluate(x.to(point), y.to(point))
        value, gradient = value + values, gradient + slopes
    return value / (stop - start), gradient / (stop - start)


def _mixed(z: Tensor) -> Tensor:
    """Steele, Lea and Flood's SplitMix64 finaliser (2014), on int64 that wrap around."""
    for shift, factor in ((30, FIRST), (27, SECOND), (31, 1)):
        z = (z ^ ((z >> shift) & (2 ** (64 - shift) - 1))) * factor
    return z


def _permutation(keys: Tensor, which: int, bits: int) -> Callable[[Tensor], Tensor]:
    """A permutation of 0..2^bits - 1 for each row, another for each ``which``: (rows, count) -> (rows, count)."""
    numbers = torch.arange(2 * ROUNDS, device=keys.device) + (2 * which * ROUNDS + 1)
    mixed = (_mixed(keys.unsqueeze(1) + GOLDEN * numbers) & (2**bits - 1)).split(1, dim=1)

    def permuted(place: Tensor) -> Tensor:
        for factor, offset in zip(mixed[::2], mixed[1::2], strict=True):
            place = (place * (factor | 1) + offset) & (2**bits - 1)
            place = place ^ (place >> (bits + 1) // 2)
        return place

    return permuted

"""The task: the parity of an unknown set of bits (paper, section 2.1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Parity:
    r"""k-parity on n bits: :math:`y = \prod_{j \in B} (-1)^{x_j}` for uniform :math:`x \in \{0,1\}^n`.

    Positions are counted from 1, as in the paper.

    Parameters
    ----------
    n : number of bits, at least 2.
    bits : the positions in B, distinct, each in 1..n; kept in ascending order.
    """

    n: int
    bits: tuple[int, ...]

    def __init__(self, n: int, bits: Iterable[int]) -> None:
        if not _is_integer(n) or n < 2:
            raise ValueError(f"n must be a whole number of at least 2, got {n!r}")
        try:
            given = tuple(bits)
        except TypeError:
            raise ValueError(f"bits must be a list of positions in 1..{n}, got {bits!r}") from None
        if not given:
            raise ValueError(f"bits must name at least one position in 1..{n}, got none")
        if len(given) > n:
            raise ValueError(f"bits must be at most n = {n} positions, got {len(given)}")
        distinct = len(set(map(repr, given))) == len(given)
        if not distinct or not all(_is_integer(bit) and 1 <= bit <= n for bit in given):
            raise ValueError(f"bits must be distinct positions in 1..{n}, got {given}")
        object.__setattr__(self, "n", int(n))
        object.__setattr__(self, "bits", tuple(sorted(int(bit) for bit in given)))

    @property
    def k(self) -> int:
        """Number of bits in B."""
        return len(self.bits)

    @property
    def indices(self) -> tuple[int, ...]:
        """The bits counted from 0, as tensors index them."""
        return tuple(bit - 1 for bit in self.bits)

    @property
    def neighbours(self) -> tuple[tuple[int, int], ...]:
        """Pairs of bits in B that sit next to each other on the circle (so n and 1 count too)."""
        members = set(self.bits)
        pairs = [(bit, bit % self.n + 1) for bit in self.bits]
        return tuple(pair for pair in pairs if pair[1] in members and (self.n > 2 or pair[0] < pair[1]))

    def labels(self, x: Tensor) -> Tensor:
        """Labels in {-1, +1} of inputs ``x`` (..., n) in {0, 1}; returns (...)."""
        ones = x[..., list(self.indices)].sum(-1)
        return 1 - 2 * (ones % 2)

    def cube(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """All 2^n inputs, (2^n, n); row r holds the binary digits of r, position 1 first."""
        return binary_digits(torch.arange(2**self.n), self.n).to(dtype)

    def sample(self, count: int, generator: torch.Generator, dtype: torch.dtype = torch.float64) -> Tensor:
        """``count`` uniform inputs, (count, n)."""
        return torch.randint(2, (count, self.n), generator=generator, device=generator.device).to(dtype)

    @classmethod
    def random(cls, n: int, k: int, generator: torch.Generator) -> Parity:
        """A parity of k of the n bits, drawn uniformly."""
        if not _is_integer(k) or not 1 <= k <= n:
            raise ValueError(f"k must be a whole number in 1..{n}, got {k!r}")
        order = torch.randperm(n, generator=generator, device=generator.device)
        return cls(n, (order[:k] + 1).tolist())


def binary_digits(codes: Tensor, width: int) -> Tensor:
    """Binary digits of whole numbers, least significant first: (...) -> (..., width)."""
    places = torch.arange(width, device=codes.device)
    return (codes.unsqueeze(-1) >> places) & 1


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

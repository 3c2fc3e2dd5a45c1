"""The task: the parity of an unknown set of bits (paper, section 2.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor

MAX_CUBE = 26  # all inputs in float64 take 14 GB there; :class:`parity_lib.risk.PopulationRisk` needs no list


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
        if not is_whole(n) or n < 2:
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
        if not distinct or not all(is_whole(bit) and 1 <= bit <= n for bit in given):
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
        if not isinstance(x, Tensor) or x.ndim < 1 or x.shape[-1] != self.n:
            raise ValueError(f"inputs must have shape (..., {self.n}), got {shape_of(x)}")
        ones = x[..., list(self.indices)].sum(-1)
        return 1 - 2 * (ones % 2)

    def cube(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """All 2^n inputs, (2^n, n); row r holds the binary digits of r, position 1 first."""
        if self.n > MAX_CUBE:
            raise ValueError(f"all 2^n inputs are listed for n <= {MAX_CUBE} only, got n = {self.n}")
        return binary_digits(torch.arange(2**self.n), self.n).to(dtype)

    def sample(self, count: int, generator: torch.Generator, dtype: torch.dtype = torch.float64) -> Tensor:
        """``count`` uniform inputs, (count, n)."""
        if not is_whole(count) or count < 0:
            raise ValueError(f"count must be a whole number of at least 0, got {count!r}")
        return torch.randint(2, (count, self.n), generator=generator, device=generator.device).to(dtype)

    @classmethod
    def random(cls, n: int, k: int, generator: torch.Generator) -> Parity:
        """A parity of k of the n bits, drawn uniformly."""
        if not is_whole(n) or n < 2:
            raise ValueError(f"n must be a whole number of at least 2, got {n!r}")
        if not is_whole(k) or not 1 <= k <= n:
            raise ValueError(f"k must be a whole number in 1..{n}, got {k!r}")
        order = torch.randperm(n, generator=generator, device=generator.device)
        return cls(n, (order[:k] + 1).tolist())


def binary_digits(codes: Tensor, width: int) -> Tensor:
    """Binary digits of whole numbers, least significant first: (...) -> (..., width)."""
    places = torch.arange(width, device=codes.device)
    return (codes.unsqueeze(-1) >> places) & 1


def as_tasks(task: Parity | Sequence[Parity]) -> tuple[Parity, ...]:
    """One or more tasks as a tuple, all with the same n and the same number of bits."""
    tasks = (task,) if isinstance(task, Parity) else tuple(task) if isinstance(task, Sequence) else ()
    if not tasks or any(not isinstance(t, Parity) or (t.n, t.k) != (tasks[0].n, tasks[0].k) for t in tasks):
        raise ValueError("tasks must be one or more parities with the same n and the same number of bits")
    return tasks


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number; a truth value is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def shape_of(value: object) -> object:
    """The shape of a tensor, or the type of anything else: what a refusal says was given."""
    return tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__

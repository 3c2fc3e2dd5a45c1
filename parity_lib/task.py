"""The task: the parity of an unknown set of bits (paper, section 2.1)."""

import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from .checks import whole

MAX_CUBE = 26  # all inputs in float64 take 14 GB there; :class:`parity_lib.risk.PopulationRisk` needs no list


@dataclass(frozen=True)
class Parity:
    r"""k-parity on n bits: :math:`y = \prod_{j \in B} (-1)^{x_j}` for uniform :math:`x \in \{0,1\}^n`."""

    n: int
    """Number of bits, at least 2."""
    bits: tuple[int, ...]
    """The positions in B, counted from 1 as in the paper, in ascending order."""

    def __init__(self, n: int, bits: Iterable[int]) -> None:
        n = whole(n, "n", 2)
        try:
            given = list(bits.tolist() if hasattr(bits, "tolist") else bits)
            chosen = {whole(bit, "bit", 1, n) for bit in given}
        except (TypeError, ValueError):
            given, chosen = [], set()
        if not chosen or len(chosen) < len(given):
            raise ValueError(f"bits must be distinct positions in 1..{n}, got {reprlib.repr(bits)}")
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "bits", tuple(sorted(chosen)))

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
        pairs = [(bit, bit % self.n + 1) for bit in self.bits]
        return tuple(pair for pair in pairs if pair[1] in self.bits and (self.n > 2 or pair[0] < pair[1]))

    def labels(self, x: Tensor) -> Tensor:
        """Labels in {-1, +1} of inputs ``x`` (..., n) in {0, 1}; returns (...)."""
        if not isinstance(x, Tensor) or x.shape[-1:] != (self.n,):
            given = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"inputs must have shape (..., {self.n}), got {given}")
        if (bad := x.bool() != x).any():
            raise ValueError(f"inputs must be 0 or 1, got {x[bad][0]:g}")
        return 1 - 2 * (x[..., list(self.indices)].sum(-1) % 2)

    def cube(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """All 2^n inputs, (2^n, n); row r holds the binary digits of r, position 1 first."""
        if self.n > MAX_CUBE:
            raise ValueError(f"all 2^n inputs are listed for n <= {MAX_CUBE} only, got n = {self.n}")
        return binary_digits(torch.arange(2**self.n), self.n).to(dtype)

    def sample(self, count: int, generator: torch.Generator, dtype: torch.dtype = torch.float64) -> Tensor:
        """``count`` uniform inputs, (count, n)."""
        count = whole(count, "count", 0)
        return torch.randint(2, (count, self.n), generator=generator, device=generator.device).to(dtype)

    @classmethod
    def random(cls, n: int, k: int, generator: torch.Generator) -> Self:
        """A parity of k of the n bits, drawn uniformly."""
        order = torch.randperm(whole(n, "n", 2), generator=generator, device=generator.device)
        return cls(n, order[: whole(k, "k", 1, n)] + 1)


Tasks = Parity | Sequence[Parity]
"""A parity, or several with equal n and k, one for each row of what is judged."""


def as_tasks(task: Tasks) -> tuple[Parity, ...]:
    """One or more tasks as a tuple, all with the same n and the same number of bits."""
    tasks = (task,) if isinstance(task, Parity) else tuple(task) if isinstance(task, Sequence) else ()
    if not tasks or any(not isinstance(t, Parity) or (t.n, t.k) != (tasks[0].n, tasks[0].k) for t in tasks):
        raise ValueError("tasks must be one or more parities with the same n and the same number of bits")
    return tasks


def binary_digits(codes: Tensor, width: int) -> Tensor:
    """Binary digits of whole numbers, least significant first: (...) -> (..., width)."""
    return (codes.unsqueeze(-1) >> torch.arange(width, device=codes.device)) & 1

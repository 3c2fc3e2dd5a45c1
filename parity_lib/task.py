"""The task: the parity of an unknown set of bits (paper, section 2.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeGuard

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
        n = whole(n, "n", 2)
        try:
            given = tuple(bits.tolist() if hasattr(bits, "tolist") else bits)
        except TypeError:
            raise ValueError(f"bits must be a list of positions in 1..{n}, got {bits!r}") from None
        if not given:
            raise ValueError(f"bits must name at least one position in 1..{n}, got none")
        if len(given) > n:
            raise ValueError(f"bits must be at most n = {n} positions, got {len(given)}")
        if not all(is_whole(bit) and 1 <= bit <= n for bit in given) or len({int(bit) for bit in given}) < len(given):
            raise ValueError(f"bits must be distinct positions in 1..{n}, got {given}")
        object.__setattr__(self, "n", n)
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
        pairs = [(bit, bit % self.n + 1) for bit in self.bits]
        return tuple(pair for pair in pairs if pair[1] in self.bits and (self.n > 2 or pair[0] < pair[1]))

    def labels(self, x: Tensor) -> Tensor:
        """Labels in {-1, +1} of inputs ``x`` (..., n) in {0, 1}; returns (...)."""
        if not isinstance(x, Tensor) or x.ndim < 1 or x.shape[-1] != self.n:
            given = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"inputs must have shape (..., {self.n}), got {given}")
        read = x[..., list(self.indices)]
        if x.numel() and not (x.min() >= 0 and x.max() <= 1 and ((read == 0) | (read == 1)).all()):
            raise ValueError(f"inputs must be 0 or 1, got numbers from {x.min():g} to {x.max():g}")
        return 1 - 2 * (read.sum(-1) % 2)

    def cube(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """All 2^n inputs, (2^n, n); row r holds the binary digits of r, position 1 first."""
        if self.n > MAX_CUBE:
            raise ValueError(f"all 2^n inputs are listed for n <= {MAX_CUBE} only, got n = {self.n}")
        return binary_digits(torch.arange(2**self.n), self.n).to(dtype)

    def sample(self, count: int, generator: torch.Generator, dtype: torch.dtype = torch.float64) -> Tensor:
        """``count`` uniform inputs, (count, n)."""
        shape = (whole(count, "count", 0), self.n)
        return torch.randint(2, shape, generator=generator, device=generator.device).to(dtype)

    @classmethod
    def random(cls, n: int, k: int, generator: torch.Generator) -> Parity:
        """A parity of k of the n bits, drawn uniformly."""
        n = whole(n, "n", 2)
        order = torch.randperm(n, generator=generator, device=generator.device)
        return cls(n, order[: whole(k, "k", 1, n)] + 1)


def binary_digits(codes: Tensor, width: int) -> Tensor:
    """Binary digits of whole numbers, least significant first: (...) -> (..., width)."""
    return (codes.unsqueeze(-1) >> torch.arange(width, device=codes.device)) & 1


def as_tasks(task: Parity | Sequence[Parity]) -> tuple[Parity, ...]:
    """One or more tasks as a tuple, all with the same n and the same number of bits."""
    tasks = (task,) if isinstance(task, Parity) else tuple(task) if isinstance(task, Sequence) else ()
    if not tasks or any(not isinstance(t, Parity) or (t.n, t.k) != (tasks[0].n, tasks[0].k) for t in tasks):
        raise ValueError("tasks must be one or more parities with the same n and the same number of bits")
    return tasks


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a value is a whole number, of Python, numpy or torch; a truth value is none."""
    return isinstance(_scalar(value), Integral) and not isinstance(_scalar(value), bool)


def whole(value: Any, name: str, least: int, most: int | None = None) -> int:
    """A whole number of any kind as an int, or one sentence that says what ``name`` must be."""
    if not is_whole(value) or value < least or (most is not None and value > most):
        allowed = f"of at least {least}" if most is None else f"in {least}..{most}"
        raise ValueError(f"{name} must be a whole number {allowed}, got {value!r}")
    return int(value)


def number(value: Any, name: str, zero: bool = False) -> float:
    """A positive finite number of any kind as a float (or ``zero``), or one sentence that says what it must be."""
    given = _scalar(value)
    found = float(given) if isinstance(given, Real) and not isinstance(given, bool) else math.nan
    if not (0 < found < math.inf or (zero and found == 0)):
        raise ValueError(f"{name} must be a {'non-negative' if zero else 'positive'} finite number, got {value!r}")
    return found


def _scalar(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) and value.ndim == 0 else value

r"""Boolean functions of n bits, their Fourier weights and their average sensitivity.

Write :math:`f : \{0,1\}^n \to \{-1, 1\}` for the function on the signed scale and
:math:`\hat f(S) = 2^{-n} \sum_x f(x) (-1)^{\sum_{j \in S} x_j}` for its coefficients. The average sensitivity is
the mean number of bits that flip the value,

.. math:: \mathrm{as}(f) = \sum_{i=1}^n P[f(x) \ne f(x \oplus e_i)] = \sum_S |S|\, \hat f(S)^2 ,

and the sum on the right is its definition for functions with real values too. Chapter ``sensitivity``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..checks import known, whole
from ..task import Parity, binary_digits

MOST_BITS = 20  # 2^20 values are a moment and 8 MB; each further bit doubles both

Function = Callable[[Tensor], Tensor]
"""Bits (..., n) in {0, 1} to values (...) in [0, 1]."""


def parity(x: Tensor) -> Tensor:
    """1 if the number of ones is odd; average sensitivity n."""
    return x.sum(-1) % 2


def first(x: Tensor) -> Tensor:
    """The first bit; average sensitivity 1."""
    return x[..., 0]


def majority(x: Tensor) -> Tensor:
    """1 if ones outnumber zeros, so 0 for a tie; average sensitivity about sqrt(2n/π)."""
    return (2 * x.sum(-1) > x.shape[-1]).to(x.dtype)


def mean(x: Tensor) -> Tensor:
    """The share of ones, a real value; average sensitivity 1/n."""
    return x.sum(-1) / x.shape[-1]


def inner_product(x: Tensor) -> Tensor:
    """The parity of x1 x2, x3 x4, ...; average sensitivity n/2 for even n, all of it nonlinear."""
    return parity(x[..., 0:-1:2] * x[..., 1::2])


def multiple_of_three(x: Tensor) -> Tensor:
    """1 if the number of ones is a multiple of 3; average sensitivity about 2n/3."""
    return (x.sum(-1) % 3 == 0).to(x.dtype)


def parity_and(x: Tensor) -> Tensor:
    """PARITY, turned round where the first two bits are ones; average sensitivity n - 1."""
    return (x.sum(-1) + x[..., 0] * x[..., 1]) % 2


def k_parity(task: Parity) -> Function:
    """The parity of the k bits of a task, on the {0, 1} scale; average sensitivity k."""
    return lambda x: parity(x[..., list(task.indices)])


def random_function(n: int, generator: torch.Generator) -> Function:
    """A truth table of 2^n independent fair bits; average sensitivity about n/2."""
    return from_table(torch.randint(2, (2 ** _checked(n),), generator=generator))


def from_table(table: Tensor) -> Function:
    """The function with the values ``table`` (2^n,), in the order of :func:`cube`."""
    return lambda x: table[(x.long() * 2 ** torch.arange(x.shape[-1])).sum(-1)].to(x.dtype)


FUNCTIONS: dict[str, Function] = {
    "PARITY": parity,
    "FIRST": first,
    "MEAN": mean,
    "MAJORITY": majority,
    "INNER PRODUCT": inner_product,
    "MOD 3": multiple_of_three,
    "PARITY + AND": parity_and,
}
EASY = ("FIRST", "MEAN", "MAJORITY")


def find_function(name: str) -> Function:
    """The function called ``name``."""
    return FUNCTIONS[known(name, FUNCTIONS, f"function {name!r}")]


def cube(n: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """All 2^n inputs, (2^n, n); row r holds the binary digits of r, position 1 first."""
    return binary_digits(torch.arange(2 ** _checked(n)), n).to(dtype)


def signed_table(function: Function, n: int) -> Tensor:
    """All 2^n values on the signed scale, 1 - 2 f(x): (2^n,)."""
    return 1 - 2 * function(cube(n))


def walsh_hadamard(values: Tensor) -> Tensor:
    r"""All coefficients :math:`\hat f(S) = 2^{-n} \sum_x f(x) (-1)^{S \cdot x}` in n sweeps: (..., 2^n) -> (..., 2^n).

    Entry s belongs to the set S whose members are the binary digits of s, as in :func:`cube`.
    """
    n = _bits_of(values)
    for i in range(n):
        zero, one = values.unflatten(-1, (-1, 2, 2**i)).unbind(-2)
        values = torch.stack([zero + one, zero - one], -2).flatten(-3)
    return values / 2**n


def fourier_weights(values: Tensor) -> Tensor:
    r"""Weight of each degree, :math:`W_k = \sum_{|S| = k} \hat f(S)^2`: (..., 2^n) -> (..., n + 1)."""
    n = _bits_of(values)
    degree = binary_digits(torch.arange(2**n), n).sum(-1)
    squares = walsh_hadamard(values).square()
    return squares.new_zeros(*values.shape[:-1], n + 1).index_add_(-1, degree, squares)


def average_sensitivity(values: Tensor) -> Tensor:
    r""":math:`\mathrm{as}(f) = \sum_k k\, W_k` of signed values: (..., 2^n) -> (...)."""
    weights = fourier_weights(values)
    return weights @ torch.arange(weights.shape[-1], dtype=weights.dtype)


def _bits_of(values: Tensor) -> int:
    count = values.shape[-1]
    n = count.bit_length() - 1
    if count != 2**n:
        raise ValueError(f"values must be the 2^n values of a function, got {count} of them")
    return _checked(n)


def _checked(n: int) -> int:
    return whole(n, "n, for all 2^n inputs at once,", 1, MOST_BITS)

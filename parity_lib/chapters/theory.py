r"""Lower bounds of the paper for fixed heads, each with its place (chapter ``fixed_attention``)."""

from __future__ import annotations

import math
from collections.abc import Callable


def theorem_11(n: int, m: int, norm: float, *, clamped: bool = True) -> float:
    r"""Theorem 11: :math:`(1 - 2m/2^{\lceil (n-1)/5m \rceil})\,(1 - \|\alpha\|\|\beta\|\, 5m^2/n)^2`.

    A lower bound on the risk of m fixed soft heads with a trained FFNN-1 on their mean, for some B.
    Chapter ``fixed_attention`` holds it against trained networks.

    Parameters
    ----------
    norm : :math:`\|\alpha\|\,\|\beta\|`, at least 0.
    clamped : both brackets at least 0, which is what the proof supports; False is the formula as printed,
        which grows without bound in the norm.
    """
    _check_heads(n, m)
    _check_norm(norm)
    return _product(1 - 2 * m / 2 ** _ceil(n - 1, 5 * m), 1 - norm * 5 * m**2 / n, clamped)


def theorem_11_repaired(n: int, m: int, norm: float) -> float:
    r"""Theorem 11 repaired, for eq. 3: the second factor is :math:`(1 - \|\alpha\|\|\beta\|\,\frac52\sqrt6\,m/n)_+^2`.

    When the bit at p flips, a head's vector moves by :math:`g'(w'_p - u) - g(w_p - u)` with u the mean of the
    other positions. Its norm is convex in the smaller of g and g', so at most the larger one times
    :math:`\|w'_p - u\|` or :math:`\|w'_p - w_p\|`; attention on p is at most 5m/n, and two embeddings of eq. 3 are at
    most :math:`\sqrt{2 + 4}` apart. From m = 2 on this implies the printed constant; see also
    :func:`one_head_tail`.
    """
    _check_heads(n, m)
    _check_norm(norm)
    return _product(1 - 2 * m / 2 ** _ceil(n - 1, 5 * m), 1 - norm * 2.5 * math.sqrt(6) * m / n, True)


def one_head_tail(n: int) -> float:
    r"""What m = 1 needs instead: :math:`P[\mathrm{Bin}(n - 1, \frac12) + 1 < \sqrt6\,n/10]`, with eq. 3.

    If M of the other n - 1 positions carry the head's token, the attention on its lowest position is at most
    1/(M + 1), and :math:`\frac12\sqrt6/(M + 1) \le 5/n` unless M + 1 is below :math:`\sqrt6\,n/10`. Where this
    probability is at most :math:`2/2^{\lceil (n-1)/5 \rceil}`, the printed bound (clamped) holds for one head. That is
    so for every n up to 2106, and not for every n beyond.
    """
    _check_heads(n, 1)
    return float(binom.cdf(math.ceil(math.sqrt(6) * n / 10 - 1) - 1, n - 1, 0.5))


def theorem_11_tail(n: int, m: int) -> float:
    r"""Stands behind Theorem 11's first factor: :math:`m\,P[\mathrm{Bin}(\lceil (n-1)/m \rceil - 1, \frac12) < n/5m]`.

    The chance, summed over heads, that fewer than n/5m of the positions ranked above p carry the head's token.
    """
    _check_heads(n, m)
    return m * float(binom.cdf(_ceil(n, 5 * m) - 1, _ceil(n - 1, m) - 1, 0.5))


def corollary_20(n: int, m: int, *, clamped: bool = True) -> float:
    r"""Corollary 20: :math:`1 - 2m/2^{\lceil (n-1)/m \rceil}`, for m fixed hard heads and any classifier, some B."""
    _check_heads(n, m)
    bound = 1 - 2 * m / 2 ** _ceil(n - 1, m)
    return max(0.0, bound) if clamped else bound


def linear_bound(n: int, m: int, *, clamped: bool = True) -> float:
    r"""The simpler bound :math:`1 - 2m/n` for m fixed hard heads and any classifier, some B.

    A head can notice the bit at p only if no position that it ranks above p carries its preferred token,
    which has probability :math:`2^{-(r-1)}` at rank r. Over all p these sum to less than 2 for each head, so
    some p is noticed with probability below 2m/n; elsewhere the two values of its bit look alike.
    """
    _check_heads(n, m)
    bound = 1 - 2 * m / n
    return max(0.0, bound) if clamped else bound


def last_informative(bound: Callable[[int, int], float], n: int) -> int:
    """The largest m in 1..n for which ``bound(n, m)`` is positive, 0 if there is none."""
    return max((m for m in range(1, n + 1) if bound(n, m) > 0), default=0)


def _product(first: float, second: float, clamped: bool) -> float:
    return max(0.0, first) * max(0.0, second) ** 2 if clamped else first * second**2


def _ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def _check_heads(n: int, m: int) -> None:
    if not isinstance(n, int) or n < 2:
        raise ValueError(f"n must be a whole number of at least 2, got {n!r}")
    if not isinstance(m, int) or m < 1:
        raise ValueError(f"the number of heads m must be a whole number of at least 1, got {m!r}")


def _check_norm(norm: float) -> None:
    if not 0 <= norm < math.inf:
        raise ValueError(f"the norm |alpha| |beta| must be a finite number of at least 0, got {norm!r}")

r"""Constants and bounds of the paper, each with its place.

For Theorem 5 the paper wants a temperature :math:`\tau = c_1/n` and states, for k heads, smoothing b
and constants :math:`0 < c_2 < c_1` that bound the attention beside a head's best position, how smooth
the risk is (Lemmas 6, 7, 14, 15, 16), how steep it is (Lemmas 8, 18, 19), and from both a step size,
a rate and a number of steps. The functions below are those statements, not ours: the chapter
``convergence`` measures which of them hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.stats import binom


@dataclass(frozen=True)
class Theorem5:
    r"""The paper's constants for k heads on n positions.

    Parameters
    ----------
    temperature : tau.   smoothing : b of the smoothed ReLU, positive.
    c2 : the paper's lower constant for attention beside the best position. It gives no value, only c2 < c1, and
        :math:`\mu` grows like its square. At a temperature of 1/n, c1 is 1, so that 1 is the upper end: the fewest
        steps promised, and the most that Lemma 8 can ask for.
    """

    n: int
    k: int
    temperature: float
    smoothing: float
    c2: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.n:
            raise ValueError(f"k must be in 1..{self.n}, got {self.k!r}")
        for name in ("temperature", "smoothing", "c2"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a positive finite number, got {getattr(self, name)!r}")

    @property
    def prediction_entry_curvature(self) -> float:
        r"""Bound on any second derivative of the prediction: :math:`20/\tau^2 + 32k^2/(\tau^2\sqrt b)` (App. A)."""
        return (20 + 32 * self.k**2 / math.sqrt(self.smoothing)) / self.temperature**2

    @property
    def prediction_smoothness(self) -> float:
        """B of Lemmas 6 and 14: the gradient of the prediction is B-Lipschitz."""
        return 2 * self.k * self.prediction_entry_curvature

    @property
    def prediction_lipschitz(self) -> float:
        r"""l_1 = C of Lemma 15: :math:`\frac{8k^2}{\tau}\sqrt{2k}`."""
        return 8 * self.k**2 / self.temperature * math.sqrt(2 * self.k)

    @property
    def product_lipschitz(self) -> float:
        r"""l_2 of Lemma 16, the Lipschitz constant of :math:`\hat y \nabla \hat y`."""
        slope = 8 * self.k**2 / self.temperature
        return math.sqrt(2 * self.k) * (4 * self.k**3 * self.prediction_entry_curvature + slope**2)

    @property
    def risk_smoothness(self) -> float:
        r"""Lemma 7: :math:`\max\{2 l_1 C, 2(l_2 + B)\}`."""
        return max(2 * self.prediction_lipschitz**2, 2 * (self.product_lipschitz + self.prediction_smoothness))

    @property
    def bracket_bound(self) -> float:
        r"""Lemma 18: the summed squared brackets are at least :math:`2 c_2^2 \tau^2 / n^2`."""
        return 2 * self.c2**2 * self.temperature**2 / self.n**2

    @property
    def mu_1(self) -> float:
        r"""Eq. 7: Lemma 18 divided by :math:`(\tau k)^2`."""
        return self.bracket_bound / (self.temperature * self.k) ** 2

    @property
    def mu_2(self) -> float:
        r"""Eq. 8, Lemma 19: :math:`64 k^2 c_2^2 / n^2`."""
        return 64 * self.k**2 * self.c2**2 / self.n**2

    @property
    def mu(self) -> float:
        r"""Lemma 8: the risk is said to satisfy :math:`\frac12\|\nabla R\|^2 \ge \mu R`."""
        return min(64 * self.mu_1, self.mu_2) / 2 ** (self.n + 1)

    @property
    def step_size(self) -> float:
        """The prescribed learning rate, one over the smoothness of the risk."""
        return 1 / self.risk_smoothness

    @property
    def contraction(self) -> float:
        r""":math:`\eta\mu`: the risk is said to shrink by the factor :math:`1 - \eta\mu` a step."""
        return self.step_size * self.mu

    def contraction_at(self, rate: float, stability: float) -> float:
        r"""What Lemma 8 would take off at another rate, by the paper's argument: :math:`2\eta(1 - s)\mu`, at least 0.

        Parameters
        ----------
        rate : :math:`\eta`.   stability : :math:`s = \eta L / 2` for a risk of smoothness L; a step that lowers the
            risk by :math:`\eta(1 - s)\|\nabla R\|^2` is the descent lemma. At the prescribed rate s is one half.
        """
        return 2 * rate * max(0.0, 1 - stability) * self.mu

    def steps(self, target: float) -> float:
        r"""Steps asked for until the risk is below ``target``: :math:`|\ln\varepsilon| / -\ln(1 - \eta\mu)`."""
        if not 0 < target < 1:
            raise ValueError(f"target must be between 0 and 1, got {target!r}")
        return math.log(target) / math.log1p(-self.contraction)


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

r"""Constants and bounds of the paper, each with its place.

For Theorem 5 the paper wants a temperature :math:`\tau = c_1/n` and states, for k heads, smoothing b
and constants :math:`0 < c_2 < c_1` that bound the attention beside a head's best position, how smooth
the risk is (Lemmas 6, 7, 14, 15, 16), how steep it is (Lemmas 8, 18, 19), and from both a step size,
a rate and a number of steps. The functions below are those statements, not ours: the chapter
``convergence`` measures which of them hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


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

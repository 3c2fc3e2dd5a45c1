r"""A proof by interval arithmetic that gradient descent on the paper's risk can stay far from every solution.

The risk of k heads on n positions is a finite sum over :math:`2^n` inputs, so every number about it can be enclosed.
In the coordinates :math:`s = a/\tau` (temperature is a gauge, see the dossier) gradient and Hessian are

.. math::
    \nabla R = E\,\varphi'(S)\,G, \qquad
    \nabla^2 R = E\,[\varphi''(S)\,G G^T + \varphi'(S)\,K], \qquad \varphi(S) = \max(0, 1 - y\,\hat y(S))^2,

with :math:`G_i = \sum_j \gamma^{(i)}_j x_j (p_j - \mu_i)` and
:math:`K_i = \sum_j \gamma^{(i)}_j (x_j - \bar x_i)(p_j - \mu_i)(p_j - \mu_i)^T`. Over a ball around a point the
Hessian's eigenvalues are enclosed in [m, L]; where an input may sit on the hinge's kink, all of its one-sided second
derivatives are inside the enclosure. If m > 0 and the gradient at the point is shorter than m r, the ball holds exactly
one stationary point, a strict minimum, and gradient descent with a step below :math:`2/(L + |\nabla R|/r)` maps the
ball into itself and contracts towards that point: a start in the ball never leaves it. Nothing here uses the rest of
the package.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpmath import iv

PRECISION = 80  # bits


@dataclass(frozen=True)
class Trap:
    """A ball of heads, in decimals, to be certified."""

    n: int
    bits: tuple[int, ...]
    smoothing: str
    c1: str  #: The temperature is c1/n.
    centre: tuple[tuple[str, str], ...]  #: :math:`a/\tau` of every head, (sine, cosine).
    radius: str


@dataclass(frozen=True)
class Certificate:
    """What was proven of a :class:`Trap`, all numbers outward rounded."""

    risk_low: float  #: The risk in the whole ball is at least this,
    risk_high: float  #: and at most this.
    gradient: float  #: At the centre, at most.
    curvature_low: float  #: m: every eigenvalue of the Hessian in the ball, in the coordinates a/tau, is at least this,
    curvature_high: float  #: and at most this, L.
    step: float  #: Descent on a itself with a step up to this, below 2 tau^2 / (L + gradient / radius), keeps the ball.
    chance: float  #: The paper's random start, its heads in any order, is in the ball with at least this probability.
    holds: bool  #: m > 0 and the gradient at the centre is shorter than m times the radius.


TRAPS: dict[str, Trap] = {
    "two bits": Trap(
        8, (1, 5), "0.05", "0.919732",
        (("6.15054846629929", "-6.15054846629929"), ("-6.150548466299277", "6.150548466299273")), "0.003",
    ),
    "three bits": Trap(
        9, (1, 4, 7), "0.2", "0.812046",
        (("9.565847431127224", "-5.597319134730371"), ("-9.630344279328867", "-5.485607316717119"),
         ("0.06449684820162586", "11.08292645144752")), "0.002",
    ),
}  # fmt: skip
"""Heads spread evenly over the circle, all equally long by symmetry: c1 is chosen so that the paper's start, heads of
norm 1 at random angles, can fall into the ball."""


def certify(trap: Trap) -> Certificate:
    """Enclose risk, gradient and curvature over the ball, and say what follows."""
    before, iv.prec = iv.prec, PRECISION
    try:
        radius, centre = iv.mpf(trap.radius), np.array([[iv.mpf(part) for part in head] for head in trap.centre])
        _, slope, _ = _enclose(trap, centre, iv.mpf(0))
        gradient = iv.sqrt((slope**2).sum())
        value, _, hessian = _enclose(trap, centre, radius)
        low, high = _eigenvalues(hessian)
        holds = bool(low > 0 and gradient.b < (low * radius).a)
        step = 2 * (iv.mpf(trap.c1) / trap.n) ** 2 / (high + gradient / radius) * iv.mpf("0.999")
        chance = _chance(trap, centre, radius) if holds else 0.0
        return Certificate(
            _low(value), _high(value), _high(gradient), _low(low), _high(high), _low(step), chance, holds
        )
    finally:
        iv.prec = before


def _enclose(trap: Trap, centre: np.ndarray, radius: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Risk, gradient (2k,) and Hessian (2k, 2k) over the ball, as intervals.

    S, G and K are enclosed by the mean value theorem from the centre: over the ball S moves by at most the radius times
    the length of G, G_i by the radius times the norm of K_i, and K_i by the radius times that of its own derivative.
    """
    k, smoothing, reach = len(trap.bits), iv.mpf(trap.smoothing), radius * iv.mpf([-1, 1])
    at_centre, crude = (np.array([_head_sums(head, trap.n) for head in heads]) for heads in (centre, centre + reach))
    value, slope, hessian = iv.mpf(0), np.full(2 * k, iv.mpf(0)), np.full((2 * k, 2 * k), iv.mpf(0))
    for x in range(2**trap.n):
        near, far = at_centre[:, x], crude[:, x]  # (k, 7)
        label = (-1) ** sum(x >> (bit - 1) & 1 for bit in trap.bits)
        move = iv.sqrt((far[:, 1:3] ** 2).sum()).b * reach
        turns = np.array([[iv.sqrt(uu**2 + 2 * uv**2 + vv**2).b * reach] for uu, uv, vv in far[:, 3:6]])
        loss, first, second = _loss(near[:, 0].sum(), move, label, k, smoothing)
        g = (near[:, 1:3] + turns).flatten()
        products = np.outer(g, g)
        np.fill_diagonal(products, g**2)
        value, slope, hessian = value + loss, slope + g * first, hessian + products * second
        for h, (uu, uv, vv) in enumerate(near[:, 3:6] + far[:, 6:] * reach):
            hessian[2 * h : 2 * h + 2, 2 * h : 2 * h + 2] += np.array([[uu, uv], [uv, vv]]) * first
    scale = iv.mpf(1) / 2**trap.n
    return value * scale, slope * scale, hessian * scale


def _head_sums(head: np.ndarray, n: int) -> np.ndarray:
    """What one head adds to S, to G (2 numbers) and to K (3) on every input, and the size of K's own derivative.

    These are the mean of x under the head's attention and its joint cumulants with one, two and three positions.
    """
    code = np.array([(iv.sin(2 * iv.pi * j / n), iv.cos(2 * iv.pi * j / n)) for j in range(1, n + 1)])
    gamma = np.array([1 / sum(map(iv.exp, (code - p) @ head)) for p in code])
    u, v = (code - gamma @ code).T
    powers = (u, v, u**2, u * v, v**2, u**3, u**2 * v, u * v**2, v**3)
    rows = np.array([gamma, *(gamma * power for power in powers)]).T
    uu, uv, vv, *_ = whole = rows[:, 3:].sum(0)
    sums = np.full((1, 10), iv.mpf(0))
    for row in rows:  # all subsets of positions, in the order of the inputs' codes
        sums = np.concatenate([sums, sums + row])
    gu, gv, high = sums[:, 1], sums[:, 2], sums[:, 3:] - sums[:, :1] * whole
    third = np.array([high[:, 3] - 3 * gu * uu, high[:, 4] - 2 * gu * uv - gv * uu,
                      high[:, 5] - 2 * gv * uv - gu * vv, high[:, 6] - 3 * gv * vv])  # fmt: skip
    bend = [iv.sqrt(size) for size in np.array([1, 3, 3, 1]) @ third**2]
    return np.column_stack([sums[:, :3], high[:, :3], bend])


def _loss(read: Any, move: Any, label: int, k: int, smoothing: Any) -> tuple[Any, Any, Any]:
    """Squared hinge of the zigzag head and its first two derivatives in the sum, at sums within ``move`` of ``read``.

    Prediction and slope are enclosed by the mean value theorem; at the kink of the hinge the second derivative is the
    interval between its two sides.
    """
    prediction, slope, _ = _zigzag(read, k, smoothing)
    _, steep, bend = _zigzag(read + move, k, smoothing)
    prediction, slope = prediction + steep * move, slope + bend * move
    gap = 1 - label * prediction
    miss = iv.mpf([max(gap.a, 0), max(gap.b, 0)])
    active = iv.mpf([1 if gap.a > 0 else 0, 0 if gap.b < 0 else 1])
    return miss**2, -2 * label * miss * slope, 2 * active * slope**2 - 2 * label * miss * bend


def _zigzag(read: Any, k: int, smoothing: Any) -> tuple[Any, Any, Any]:
    """Prediction, slope and bend of eq. 2's head at the sum ``read``."""
    prediction, slope, bend = iv.mpf(1), iv.mpf(0), iv.mpf(0)
    for q in range(1, k + 1):
        z, weight = read + iv.mpf("0.5") - q, (-1) ** q * (8 * q - 4)
        root = iv.sqrt(z**2 + smoothing)
        prediction += weight * (z + root) / 2
        slope += weight * (1 + z / root) / 2
        bend += weight * smoothing / (2 * root**3)
    return prediction, slope, bend


def _eigenvalues(matrix: np.ndarray) -> tuple[Any, Any]:
    r"""Bounds on all eigenvalues of a symmetric interval matrix: Gershgorin's discs of :math:`Q^T H Q`.

    Q holds the eigenvectors of the midpoint in floating point, orthogonal only nearly; what that costs is enclosed.
    """
    middle = np.array([[(_low(entry) + _high(entry)) / 2 for entry in row] for row in matrix])
    q = np.array([[iv.mpf(float(entry)) for entry in row] for row in np.linalg.eigh(middle)[1]])
    turned = q.T @ matrix @ q
    skew = iv.mpf(max(row.sum().b for row in abs(q.T @ q - np.eye(len(q), dtype=int))))  # of Q^T Q from the identity
    centres = turned.diagonal().copy()
    np.fill_diagonal(turned, iv.mpf(0))
    discs = abs(turned).sum(1)
    low, high = min(bound.a for bound in centres - discs), max(bound.b for bound in centres + discs)
    stretch = 1 + skew * iv.mpf([-1, 1])  # of Q, squared
    return iv.mpf((low / stretch).a), iv.mpf((high / stretch).b)


def _chance(trap: Trap, centre: np.ndarray, room: Any) -> float:
    """Probability, at least, that heads of norm n/c1 at independent uniform angles start so near."""
    norm, chance = iv.mpf(trap.n) / iv.mpf(trap.c1), iv.mpf(math.factorial(len(centre)))  # heads may change places
    for head in centre:
        length = iv.sqrt(head[0] ** 2 + head[1] ** 2)
        angle = (room**2 / len(centre) - (norm - length) ** 2) / (norm * length)  # squared, at least
        if not angle.a > 0:
            return 0.0
        chance *= iv.sqrt(iv.mpf(angle.a)) / iv.pi
    return _low(chance)


def _low(number: Any) -> float:
    """A machine number not above an interval."""
    return float(np.nextafter(float(number.a), -np.inf))


def _high(number: Any) -> float:
    """A machine number not below an interval."""
    return float(np.nextafter(float(number.b), np.inf))

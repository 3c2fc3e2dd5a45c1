r"""Sparse XOR in one gradient step (chapter ``xor``): a reconstruction from an abstract.

Inputs are signs, :math:`x \in \{\pm 1\}^d`, and the label is :math:`y = -x_i x_j` for two unknown positions.
Head h = 1, 2 has a trainable query :math:`q_h \in \mathbb R^m` against fixed positional embeddings
:math:`p_k \in \mathbb R^m`:

.. math:: s^h_k = \langle q_h, p_k \rangle, \quad a^h = \mathrm{attention}(s^h), \quad v_h = \sum_k a^h_k x_k,
   \quad f = \mathrm{readout}(v_1, v_2),

so 2m numbers are trained. The read-outs are frozen. As long as the attention of a head adds up to at most 1
in size, :math:`|f| \le 1`, the hinge :math:`\max(0, 1 - yf)` is active on every input, and the risk over all
:math:`2^d` inputs is a polynomial in the weights: gradients are closed formulas, at any d. After the step the
worst of the :math:`2^d` inputs is found by looking at how far the other positions can push :math:`v`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import hardshrink, normalize

from ..checks import known
from ..task import binary_digits

EMBEDDINGS = ("characters", "balanced", "signs", "one_hot")
XOR_LOSSES = ("hinge", "squared_hinge")

VISITED = 16
"""Up to this d inputs are visited one by one where no closed form has the worst of them; beyond it is bounded."""


@dataclass(frozen=True)
class SparseXOR:
    r"""The task: :math:`y = -x_i x_j` for uniform :math:`x \in \{\pm 1\}^d`; positions are counted from 1."""

    d: int
    i: int
    j: int

    def __post_init__(self) -> None:
        if self.d < 3 or self.i == self.j or not {self.i, self.j} <= set(range(1, self.d + 1)):
            raise ValueError(f"i and j must be two positions in 1..d, d at least 3, got {self.i}, {self.j} of {self.d}")

    @property
    def pair(self) -> list[int]:
        """The two positions counted from 0, as tensors index them."""
        return [self.i - 1, self.j - 1]

    def labels(self, x: Tensor) -> Tensor:
        """Labels in {-1, +1} of inputs ``x`` (..., d) in {-1, +1}; returns (...)."""
        return -x[..., self.i - 1] * x[..., self.j - 1]

    def cube(self) -> Tensor:
        """All 2^d inputs, (2^d, d)."""
        return _all_signs(self.d)

    @classmethod
    def random(cls, d: int, generator: torch.Generator) -> Self:
        """An XOR of two of the d positions, drawn uniformly."""
        i, j = (torch.randperm(d, generator=generator)[:2] + 1).tolist()
        return cls(d, i, j)

    def others(self, weights: Tensor) -> Tensor:
        """The entries of (..., d) away from the pair, (..., d - 2)."""
        keep = torch.ones(self.d, dtype=torch.bool)
        keep[self.pair] = False
        return weights[..., keep]


def _all_signs(count: int) -> Tensor:
    return 2.0 * binary_digits(torch.arange(2**count), count).double() - 1


def check_lengths(**lengths: Sequence[int]) -> None:
    """Characters, and counting over all pairs, ask for lengths that are powers of two."""
    for name, given in lengths.items():
        if any(d & (d - 1) for d in given):
            raise ValueError(f"{name} must be powers of two, as all but odd_lengths, got {', '.join(map(str, given))}")


def default_width(d: int, embedding: str = "characters") -> int:
    r"""The embeddings' dimension in the chapter, :math:`m = \lceil (\log_2 d)^2 \rceil`, at most d - 1; one-hot: d."""
    return d if embedding == "one_hot" else min(math.ceil(math.log2(d) ** 2 - 1e-9), d - 1)


def draw(d: int, embedding: str, seed: int, m: int | None = None) -> tuple[SparseXOR, Tensor, torch.Generator]:
    """The task, the embedding (d, m) and the generator of a seed; m is :func:`default_width` unless given.

    A seed draws, in this order, the pair, the embedding and whatever else an experiment needs, so that it means the
    same task in every arm of an experiment.
    """
    generator = torch.Generator().manual_seed(seed)
    task = SparseXOR.random(d, generator)
    return task, positional_embedding(embedding, d, m or default_width(d, embedding), generator), generator


def positional_embedding(name: str, d: int, m: int, generator: torch.Generator) -> Tensor:
    r"""Fixed positional embeddings of unit length, (d, m).

    - ``characters``: m random distinct nonzero characters of :math:`\mathbb Z_2^{\log_2 d}`,
      :math:`p_k = ((-1)^{\langle a_l, k\rangle})_l/\sqrt m`. Zero mean and unit length, exactly; d a power of two.
    - ``balanced``: the same for any d, to rounding: Gaussian points, given orthogonal columns, then alternately centred
      and scaled to unit length. Without the columns one pair in 25 meets too much cross-talk at d = 100.
    - ``signs``: independent :math:`\pm 1/\sqrt m`; the mean is not zero.
    - ``one_hot``: the identity, m = d: no two positions share anything, and nothing is saved.
    """
    known(name, EMBEDDINGS, f"embedding {name!r}")
    if name == "one_hot":
        return torch.eye(d, dtype=torch.float64)
    if name == "signs":
        return (2.0 * torch.randint(2, (d, m), generator=generator).double() - 1) / math.sqrt(m)
    if name == "characters" and d & (d - 1):
        raise ValueError(f"characters needs d to be a power of two, got {d}; balanced takes any d")
    if m > d - 1:
        raise ValueError(f"{name} embeddings of d = {d} positions have m of at most {d - 1}, got {m}")
    if name == "characters":
        parity = binary_digits(torch.arange(d), d.bit_length()).sum(-1) % 2  # of the number of ones
        chosen = torch.randperm(d - 1, generator=generator)[:m] + 1
        signs = (1 - 2 * parity).double() / math.sqrt(m)
        return signs[torch.arange(d).unsqueeze(1) & chosen]
    points = torch.randn(d, m, generator=generator, dtype=torch.float64)
    for _ in range(3):  # orthogonal columns: the least cross-talk that m dimensions allow on average
        points = points - points.mean(0)
        sizes, axes = torch.linalg.eigh(points.T @ points)
        points = normalize(points @ (axes * sizes.rsqrt()) @ axes.T)
    for _ in range(1000):
        centre = points.mean(0)
        if float(centre.norm()) < 1e-16:
            break
        points = normalize(points - centre)
    return points


def _sum(a: Tensor, b: Tensor) -> Tensor:
    """a + b with rounding noise around 0 removed, so that |v| has slope 0 there, whichever way v was added up."""
    return hardshrink(a + b, 64 * torch.finfo(a.dtype).eps)


READOUTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "tent": lambda a, b: 1 - _sum(a, b).abs(),
    "quadratic": lambda a, b: 1 - (a + b) ** 2 / 2,
    "product": lambda a, b: -a * b,
}
"""With v the mean of the heads: :math:`1 - 2|v|`, :math:`1 - 2v^2` and :math:`-v_1 v_2`."""

Scores = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class AttentionMap:
    """From scores (..., d) to weights (..., d), and the slope of each weight in its own score.

    Softmax alone is normalised: its Jacobian also subtracts the attended mean.
    """

    formula: str
    weights: Scores
    slope: Scores
    normalised: bool = False

    def pull_back(self, scores: Tensor, gradient: Tensor) -> Tensor:
        """Gradient with respect to the scores, from the one with respect to the weights; all (..., d)."""
        if self.normalised:
            weights = self.weights(scores)
            return weights * (gradient - (weights * gradient).sum(-1, keepdim=True))
        return self.slope(scores) * gradient


def _sigmoid_slope(z: Tensor) -> Tensor:
    return z.sigmoid() * (-z).sigmoid()


def _over_d(formula: str, value: Scores, slope: Scores) -> AttentionMap:
    return AttentionMap(formula, lambda s: value(s) / s.shape[-1], lambda s: slope(s) / s.shape[-1])


def _biased_sigmoid(formula: str, logs: int) -> AttentionMap:
    def shifted(s: Tensor) -> Tensor:
        return s - logs * math.log(s.shape[-1])

    return AttentionMap(formula, lambda s: shifted(s).sigmoid(), lambda s: _sigmoid_slope(shifted(s)))


MAPS = {
    "softmax": AttentionMap("exp(s) / sum of exp(s)", lambda s: s.softmax(-1), lambda s: s.softmax(-1), True),
    "linear": _over_d("(1 + s)/d", lambda s: 1 + s, torch.ones_like),
    "relu": _over_d("relu(1 + s)/d", lambda s: (1 + s).relu(), lambda s: (s > -1).to(s)),
    "erf": AttentionMap("1/d + erf(s)", lambda s: 1 / s.shape[-1] + s.erf(),
                        lambda s: 2 / math.sqrt(math.pi) * (-s * s).exp()),
    "sigmoid": _over_d("2 sigmoid(s)/d", lambda s: 2 * s.sigmoid(), lambda s: 2 * _sigmoid_slope(s)),
    "sigmoid_bias": _biased_sigmoid("sigmoid(s - ln d)", 1),
    "sigmoid_bias2": _biased_sigmoid("sigmoid(s - 2 ln d)", 2),
    "exp": _over_d("exp(s)/d", torch.exp, torch.exp),
}  # fmt: skip


def majority(d: int) -> float:
    r""":math:`M = E|S|/d \approx \sqrt{2/(\pi d)}` with :math:`S = x_1 + \dots + x_d`: what signs and S share."""
    return math.comb(d - 1, (d - 1) // 2) / 2 ** (d - 1)  # whole numbers divided: full precision at any d


def weight_gradient(task: SparseXOR, weights: Tensor, readout: str = "tent", loss: str = "hinge") -> Tensor:
    r"""Exact gradient of the risk over all 2^d inputs with respect to the attention weights; (2, d) -> (2, d).

    With :math:`|f| \le 1` the hinge is :math:`1 - yf`, its square :math:`1 - 2yf + f^2`. For a the first head's
    weights, b the second's and c their mean,

    - product: :math:`E[yf] = a_i b_j + a_j b_i`,
      :math:`E[f^2] = |a|^2|b|^2 + 2\langle a, b\rangle^2 - 2\sum_k a_k^2 b_k^2`;
    - quadratic: :math:`E[yf] = 4 c_i c_j`, :math:`E[f^2] = 1 - 4|c|^2 + 12|c|^4 - 8\sum_k c_k^4`;
    - tent, at uniform weights only: with :math:`M = E|S|/d`, :math:`S = \sum_k x_k`, the slope of
      :math:`E[yf]` is M on the pair and :math:`-M/(d-2)` (odd d) or :math:`-M/(d-1)` (even d) elsewhere, and that of
      :math:`E[f^2]/2` is :math:`2a - M` everywhere. (At :math:`v = 0` the slope of :math:`|v|` counts as 0.)

    Inputs exactly on the kink of the hinge count as active. The weights of a head add up to at most 1 in size.
    """
    size = float(weights.abs().sum(-1).max())
    if size > 1 + 1e-9:
        raise ValueError(f"the closed form needs heads whose weights add up to at most 1 in size, got {size:.3g}")
    i, j = task.pair
    if readout == "tent":
        if float(weights.max()) != float(weights.min()):
            raise ValueError("the closed form for tent needs uniform weights; only quadratic and product take others")
        common = majority(task.d)
        slope = torch.full_like(weights, -common / (task.d - 2 if task.d % 2 else task.d - 1))
        slope[:, [i, j]] = common
        return -slope if loss == "hinge" else 4 * weights - 2 * common - 2 * slope
    leaf = weights.detach().clone().requires_grad_()
    (a, b), c = leaf, leaf.mean(0)
    if readout == "quadratic":
        signal = 4 * c[i] * c[j]
        square = 1 - 4 * (c @ c) + 12 * (c @ c) ** 2 - 8 * (c**4).sum()
    else:
        signal = a[i] * b[j] + a[j] * b[i]
        square = (a @ a) * (b @ b) + 2 * (a @ b) ** 2 - 2 * (a**2 * b**2).sum()
    (gradient,) = torch.autograd.grad(-signal if loss == "hinge" else square - 2 * signal, leaf)
    return gradient


def population_gradient(
    task: SparseXOR, embedding: Tensor, queries: Tensor,
    readout: str = "tent", loss: str = "hinge", attention: str = "softmax",
) -> Tensor:  # fmt: skip
    """Exact gradient of the risk over all 2^d inputs with respect to the queries; (d, m) and (2, m) -> (2, m).

    :func:`weight_gradient` through the attention map. From the zero start every combination of read-out, loss
    and map is covered; from any other, quadratic and product while the weights add up to at most 1.
    """
    scores = queries @ embedding.T
    gradient = weight_gradient(task, MAPS[attention].weights(scores), readout, loss)
    return MAPS[attention].pull_back(scores, gradient) @ embedding


def enumerated_gradient(
    task: SparseXOR, embedding: Tensor, queries: Tensor,
    readout: str = "tent", loss: str = "hinge", attention: str = "softmax",
) -> Tensor:  # fmt: skip
    """The same by autograd over all 2^d inputs, one by one: the yardstick for :func:`population_gradient`."""
    x = task.cube()
    leaf = queries.detach().clone().requires_grad_()
    v = x @ MAPS[attention].weights(leaf @ embedding.T).T
    margin = 1 - task.labels(x) * READOUTS[readout](v[:, 0], v[:, 1])
    active = torch.where(margin > -1e-12, margin, 0.0)  # on the kink, up to rounding, counts as active
    (gradient,) = torch.autograd.grad((active if loss == "hinge" else active**2).mean(), leaf)
    return gradient


def step_size(d: int, strength: float, readout: str = "tent", loss: str = "hinge", attention: str = "softmax") -> float:
    r"""The learning rate :math:`\eta` at which one step from zero gives the pair's scores ``strength`` :math:`\lambda`.

    :math:`\lambda = \eta\, \kappa\, \sigma`, with :math:`\kappa` the slope of the attention map at 0 (softmax: 1/d) and
    :math:`\sigma` the parity signal (tent: :math:`E|S|/d`, quadratic: 2/d, product: 1/d; twice that for the squared
    hinge). So :math:`\eta` grows like :math:`d^{1.5} \lambda` for the tent and :math:`d^2 \lambda` for the others.
    """
    zero = torch.zeros(d, dtype=torch.float64)
    uniform, slope = float(MAPS[attention].weights(zero)[0]), float(MAPS[attention].slope(zero)[0])
    signal = {"tent": majority(d), "quadratic": 2 * uniform, "product": uniform}[readout]
    return strength / (slope * signal * (1 if loss == "hinge" else 2))


def extremes(task: SparseXOR, weights: Tensor) -> tuple[Tensor, Tensor]:
    r"""Where the pair differs the largest :math:`|v|` of all inputs, where it agrees the least; (..., 2, d) -> (...).

    With c the mean of the heads and :math:`R = \sum_{k \ne i,j} |c_k|` they are :math:`|c_i - c_j| + R` and
    :math:`|c_i + c_j| - R`; this is negative where the rest outweighs the pair, so that the least may be 0.
    """
    c = weights.mean(-2)
    i, j = task.pair
    rest = task.others(c).abs().sum(-1)
    return (c[..., i] - c[..., j]).abs() + rest, (c[..., i] + c[..., j]).abs() - rest


def worst_loss(task: SparseXOR, weights: Tensor, readout: str = "tent") -> Tensor:
    r"""The largest hinge loss over all :math:`2^d` inputs, without visiting them; (..., 2, d) -> (...).

    *Mean of the heads* (tent, quadratic): where :math:`x_i \ne x_j` the loss grows with :math:`|v|`, elsewhere it falls
    with it, so :func:`extremes` tell it. If the rest outweighs the pair, the loss is bounded by 2.

    *Product*, non-negative weights: the rest moves :math:`(v_1, v_2)` inside a zonotope with 2(d - 2) corners. For
    :math:`x_i \ne x_j` the extreme of :math:`v_1 v_2` is at a corner, since the product is convex along every edge; for
    :math:`x_i = x_j` too, as long as the zonotope stays in the positive quadrant, where the product is
    quasi-concave. Otherwise the least value on the zonotope's edges is the bound.

    Every loss below 1 is exact; up to d = 16 every loss is, since inputs are visited where there is only a bound.
    """
    value = READOUTS[readout]
    if readout == "product":
        unequal, equal, exact = _worst_of_product(task, weights)
    else:
        largest, least = extremes(task, weights)
        exact, least = least >= 0, least.clamp_min(0)
        unequal, equal = 1 - value(largest, largest), 1 + value(least, least)
    if task.d <= VISITED:
        signs = _all_signs(task.d - 2)
        for row in (~exact).nonzero().tolist():
            of_row = weights[tuple(row)]
            v = signs @ task.others(of_row).T + of_row[:, task.pair].sum(-1)
            equal[tuple(row)] = 1 + value(v[:, 0], v[:, 1]).max()
    return torch.maximum(unequal, equal).clamp_min(0)


def _worst_of_product(task: SparseXOR, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Largest loss where the pair differs, where it agrees, and whether this is exact; (..., 2, d) -> (...) each."""
    if float(weights.min()) < 0:
        raise ValueError(f"the worst loss of the product needs non-negative weights, got {float(weights.min()):.3g}")
    i, j = task.pair
    rest = task.others(weights)  # (..., 2, d - 2)
    angle = torch.atan2(rest[..., 1, :], rest[..., 0, :])
    reach = rest.sum(-1)
    unequal, equal = weights[..., i] - weights[..., j], weights[..., i] + weights[..., j]
    ascending = 2 * rest.gather(-1, angle.argsort(-1).unsqueeze(-2).expand_as(rest))
    edges = torch.stack([ascending, ascending.flip(-1)])  # two chains of corners from "all minus" to "all plus"
    corners = torch.cat([torch.zeros_like(edges[..., :1]), edges.cumsum(-1)], -1) - reach.unsqueeze(-1)
    largest = (corners + unequal.unsqueeze(-1)).prod(-2).amax((0, -1))
    corners = corners + equal.unsqueeze(-1)
    least, start = corners.prod(-2).amin((0, -1)), corners[..., :-1]
    turn = -(start * edges.flip(-2)).sum(-2) / (2 * edges.prod(-2)).clamp_min(1e-300)
    on_edges = (start + turn.clamp(0, 1).unsqueeze(-2) * edges).prod(-2).amin((0, -1))
    inside = (equal >= reach).all(-1)
    return 1 + largest, 1 - torch.where(inside, least, torch.minimum(least, on_edges)), inside

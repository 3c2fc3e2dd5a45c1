"""Measurements of what the lemmas behind Theorem 5 state, on exact quantities.

Everything here is small and slow on purpose: gradients input by input, Hessians by autograd, all
2^n inputs. :mod:`parity_lib.chapters.theory` has the constants that these numbers are held against.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..attention import (
    aligned_directions,
    head_matrices,
    literal_prediction,
    position_weights,
    positional_code,
    soft_attention,
)
from ..losses import find_loss
from ..readout import zigzag
from ..risk import PopulationRisk, Risk
from ..task import Parity
from ..training import Run, one_thread_per_process, population_risk


def stated_attention_jacobian(attention: Tensor, temperature: float, sign: int) -> Tensor:
    r"""Appendix A's derivative of attention, with the sign before the sum as an argument:

    .. math::
        \frac1\tau \Bigl[\gamma_p (1 - \gamma_p)\,\mathrm{pos}_p
        \pm \sum_{j \ne p} \gamma_p \gamma_j\,\mathrm{pos}_j\Bigr].

    Parameters
    ----------
    attention : one head, (n,).   sign : +1 as printed, -1 as the softmax has it.

    Returns
    -------
    (n, 2): the derivative of each position's attention with respect to (a_13, a_14).
    """
    code = positional_code(len(attention))
    own = (attention * (1 - attention)).unsqueeze(1) * code
    others = attention.unsqueeze(1) * (attention @ code - attention.unsqueeze(1) * code)
    return (own + sign * others) / temperature


def attention_jacobian(direction: Tensor, n: int, temperature: float) -> Tensor:
    """The same derivative by autograd, (n, 2)."""
    return torch.autograd.functional.jacobian(lambda a: soft_attention(a.unsqueeze(0), n, temperature)[0], direction)


def gradients_by_input(
    task: Parity, directions: Tensor, temperature: float, smoothing: float, loss: str = "squared_hinge"
) -> Tensor:
    """Gradient of the loss on each of the 2^n inputs, (2^n, heads, 2)."""
    x = task.cube()
    attention = soft_attention(directions, task.n, temperature)
    s = (x @ position_weights(attention, task.k)).requires_grad_()
    (slope,) = torch.autograd.grad(find_loss(loss)(task.labels(x), zigzag(s, task.k, smoothing)).sum(), s)
    jacobians = torch.stack([attention_jacobian(a, task.n, temperature) for a in directions])  # (heads, n, 2)
    share = task.k / len(directions)
    return slope.reshape(-1, 1, 1) * share * torch.einsum("xj,hja->xha", x, jacobians)


def conflicting_share(gradients: Tensor, floor: float = 1e-12) -> float:
    """Share of pairs of inputs whose gradients at a head point against each other (Lemma 17 says none).

    Pairs with a product of size at most ``floor`` times the largest count as neither.
    """
    negative = total = 0
    for head in gradients.unbind(1):
        products = head @ head.T
        products.fill_diagonal_(0)
        threshold = floor * float(products.abs().max())
        negative += int((products < -threshold).sum())
        total += int((products.abs() > threshold).sum())
    return negative / total if total else 0.0


def pl_ratio(risk: Callable[[Tensor], Tensor], directions: Tensor) -> Tensor:
    r""":math:`\frac12\|\nabla R\|^2 / R` of every row, at least mu by Lemma 8: (rows, heads, 2) -> (rows,)."""
    return gradient(risk, directions).square().sum((-1, -2)) / (2 * risk(directions))


def hessians(risk: Callable[[Tensor], Tensor], directions: Tensor, step: float = 1e-4) -> Tensor:
    """Hessian of the risk at each row (rows, heads, 2), by differences of exact gradients, (rows, 2 heads, 2 heads)."""
    size = directions[0].numel()
    shifts = step * torch.eye(size, dtype=directions.dtype).reshape(size, *directions.shape[1:])
    columns = [(gradient(risk, directions + s) - gradient(risk, directions - s)).flatten(1) for s in shifts]
    hessian = torch.stack(columns, dim=1) / (2 * step)
    return (hessian + hessian.mT) / 2


def stability(run: Run) -> Tensor:
    r"""Stability number :math:`\eta \lambda_{\max} / 2` of gradient descent at every frame, (frames, seeds).

    :math:`\lambda_{\max}` is the largest eigenvalue of the Hessian of the exact risk. Below 1 the step size
    :math:`\eta` is smaller than :math:`2/\lambda_{\max}` and a small step lowers the risk; above 1 the step
    overshoots along the steepest bend, and where the heads go is no longer the risk's doing alone.
    """
    if run.recipe.optimiser != "gd":
        raise ValueError(f"the stability number is that of gradient descent, got a run of {run.recipe.optimiser}")
    risk = population_risk(run.tasks, run.recipe)
    with one_thread_per_process():
        bends = torch.stack([torch.linalg.eigvalsh(hessians(risk, frame))[:, -1] for frame in run.directions])
    return run.recipe.learning_rate / 2 * bends


def shrinkage(run: Run, least: float = 0.0) -> tuple[float, float]:
    """Share of itself that the median risk above ``least`` loses an update, fitted in the third and the last quarter.

    A geometric rate gives the same share in both. Negative where the risk grows.
    """
    logs = (run.risk.median(1).values - least).clamp_min(1e-300).log().numpy()
    updates = np.arange(len(logs)) * run.recipe.updates_per_epoch
    half, late = len(logs) // 2, 3 * len(logs) // 4
    third, last = (np.polyfit(updates[part], logs[part], 1)[0] for part in (slice(half, late + 1), slice(late, None)))
    return -math.expm1(third), -math.expm1(last)


def prediction_derivatives(
    x: Tensor, directions: Tensor, k: int, temperature: float, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The prediction on one input (n,), its gradient (2 heads,) and its Hessian (2 heads, 2 heads)."""

    def predict(flat: Tensor) -> Tensor:
        attention = soft_attention(flat.reshape(directions.shape), len(x), temperature)
        return zigzag(position_weights(attention, k) @ x, k, smoothing)

    flat = directions.reshape(-1)
    slope = torch.autograd.functional.jacobian(predict, flat)
    return predict(flat), slope, torch.autograd.functional.hessian(predict, flat)


def prediction_norms(x: Tensor, directions: Tensor, k: int, temperature: float, smoothing: float) -> dict[str, float]:
    """Norms that Lemmas 14, 15 and 16 bound: of the gradient, of the curvature, and of the product's Jacobian."""
    value, slope, hessian = prediction_derivatives(x, directions, k, temperature, smoothing)
    return {
        "gradient": float(slope.norm()),
        "curvature": float(torch.linalg.matrix_norm(hessian, ord=2)),
        "product": float(torch.linalg.matrix_norm(torch.outer(slope, slope) + value * hessian, ord=2)),
    }


def lemma_18_brackets(task: Parity, directions: Tensor, temperature: float, sign: int) -> Tensor:
    """Left side of Lemma 18 for every input except 0...0, (2^n - 1,); ``sign`` as in the stated Jacobian."""
    x = task.cube()[1:]
    attention = soft_attention(directions, task.n, temperature)
    jacobians = torch.stack([temperature * stated_attention_jacobian(row, temperature, sign) for row in attention])
    return torch.einsum("xj,hja->xha", x, jacobians).square().sum((-1, -2))


def lemma_19_sides(task: Parity, directions: Tensor, temperature: float, smoothing: float) -> tuple[float, float]:
    """Both sides of Lemma 19, the right one without its factor: squared gradients, and losses, of 0...0 and 1...1.

    Soft attention is positive everywhere, so 0...0 is the only input on which the heads read zero.
    """
    gradients = gradients_by_input(task, directions, temperature, smoothing)[[0, -1]]
    x = task.cube()[[0, -1]]
    weights = position_weights(soft_attention(directions, task.n, temperature), task.k)
    losses = find_loss("squared_hinge")(task.labels(x), zigzag(x @ weights, task.k, smoothing))
    return float(gradients.square().sum()), float(losses.sum())


def force_norms(run: Run) -> tuple[Tensor, Tensor]:
    """Norms of the label-free and the parity gradient along a run, each (frames, seeds)."""
    risk = population_risk(run.tasks, run.recipe)
    if not isinstance(risk, PopulationRisk):
        raise ValueError(f"the forces are those of the zigzag head, got a run of {run.recipe.name}")
    norms = [[gradient(part, frame).flatten(1).norm(dim=1) for frame in run.directions] for part in risk.forces()]
    return torch.stack(norms[0]), torch.stack(norms[1])


def angle_landscape(risk: Risk, sharpness: float, points: int) -> Tensor:
    """Risk of two heads of norm ``sharpness * temperature`` over all pairs of angles, (points, points).

    Entry [i, j]: head 1 points at position ``n (i + 1) / points``, head 2 at ``n (j + 1) / points``.
    """
    heads = sharpness * risk.temperature * positional_code(points)
    pairs = torch.stack(torch.broadcast_tensors(heads.unsqueeze(1), heads.unsqueeze(0)), dim=2)
    return risk(pairs.reshape(-1, 2, 2)).reshape(points, points)


def parity_terms(risk: PopulationRisk, directions: Tensor) -> tuple[Tensor, Tensor]:
    """The parity signal of one set of heads, frequency by frequency: omega (M,) and its terms (M,)."""
    weights = position_weights(soft_attention(directions, risk.n, risk.temperature), risk.k)
    half = risk.series.half_frequencies
    angles = half.unsqueeze(1) * weights
    on_bits = torch.zeros(risk.n, dtype=torch.bool)
    on_bits[list(risk.tasks[0].indices)] = True
    return 2 * half, risk.series.parity[1:] * torch.where(on_bits, angles.sin(), angles.cos()).prod(1)


@dataclass(frozen=True)
class Trap:
    """A run of the zigzag that does not read B at its end, and its parity signal by frequency, there and at B."""

    task: Parity
    risk: float
    gradient: float
    """norm"""
    weights: Tensor
    """summed attention, (n,)"""
    frequencies: Tensor
    """(M,)"""
    stuck: Tensor
    """(M,)"""
    solved: Tensor
    """(M,)"""

    @property
    def distance(self) -> float:
        """How far the weight of a bit is from one third, at most."""
        return float((self.weights[list(self.task.indices)] - 1 / 3).abs().max())

    @property
    def alias(self) -> bool:
        """At rest (gradient below 1e-3) with every bit's weight within 0.1 of one third."""
        return self.gradient < 1e-3 and self.distance < 0.1

    @property
    def third_harmonic(self) -> bool:
        """At rest, and the frequencies around 3 pi lower the risk by more than all the others together."""
        third = (self.frequencies / math.pi + 0.5).floor() == 3
        return self.gradient < 1e-3 and float(self.stuck[third].sum()) < min(0.0, float(self.stuck[~third].sum()))


def traps(run: Run) -> list[Trap]:
    """The runs that do not read B, the one whose bits carry closest to one third each first."""
    found = []
    for row in (~run.recovered).nonzero().flatten().tolist():
        task, heads = run.tasks[row % len(run.tasks)], run.directions[-1, row]
        risk = PopulationRisk(task, run.recipe.loss, run.recipe.temperature_at(task.n), run.recipe.smoothing)
        value, slope = risk.value_and_gradient(heads)
        frequencies, stuck = parity_terms(risk, heads)
        _, solved = parity_terms(risk, 500 * aligned_directions(task.bits, task.n))
        weights = run.attention[-1, row].sum(0)
        found.append(Trap(task, float(value), float(slope.norm()), weights, frequencies, stuck, solved))
    return sorted(found, key=lambda trap: trap.distance)


def gradient(risk: Callable[[Tensor], Tensor], directions: Tensor) -> Tensor:
    """Gradient of the risk at every row, in the shape of ``directions``."""
    leaf = directions.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(risk(leaf).sum(), leaf)
    return gradient


def full_matrix_gradient(task: Parity, directions: Tensor, temperature: float, smoothing: float) -> Tensor:
    """Gradient of the paper's risk with respect to all 16 entries of every head, (heads, 4, 4)."""
    matrices = head_matrices(directions).requires_grad_()
    x = task.cube()
    prediction = literal_prediction(x, matrices, task.k, temperature, smoothing)
    (gradient,) = torch.autograd.grad(find_loss("squared_hinge")(task.labels(x), prediction).mean(), matrices)
    return gradient

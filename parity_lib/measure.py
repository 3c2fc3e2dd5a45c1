"""Measurements of what the lemmas behind Theorem 5 state, on exact quantities.

Everything here is small and slow on purpose: gradients input by input, Hessians by autograd, all
2^n inputs. :mod:`parity_lib.theory` has the constants that these numbers are held against.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .attention import head_matrices, literal_prediction, position_weights, positional_code, soft_attention
from .losses import find_loss
from .parity import Parity
from .readout import zigzag
from .risk import _Risk


def stated_attention_jacobian(attention: Tensor, temperature: float, sign: int) -> Tensor:
    r"""Appendix A's derivative of attention, :math:`\frac1\tau[\gamma_p(1-\gamma_p)\,\mathrm{pos}_p \pm \sum_{j \ne p} \gamma_p\gamma_j\,\mathrm{pos}_j]`.

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
    return torch.autograd.functional.jacobian(
        lambda a: soft_attention(a.unsqueeze(0), n, temperature)[0], direction
    )


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
    r""":math:`\frac12\|\nabla R\|^2 / R` for every row, which Lemma 8 bounds below by mu: (rows, heads, 2) -> (rows,)."""
    leaf = directions.detach().requires_grad_()
    value = risk(leaf)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return gradient.square().sum((-1, -2)) / (2 * value.detach())


def risk_curvature(risk: _Risk, directions: Tensor, step: float = 1e-4) -> float:
    """Spectral norm of the Hessian of the risk at one point, by differences of exact gradients: (heads, 2)."""
    size = directions.numel()
    shifts = step * torch.eye(size, dtype=directions.dtype).reshape(size, *directions.shape)
    leaf = torch.cat([directions + shifts, directions - shifts]).requires_grad_()
    (gradient,) = torch.autograd.grad(risk(leaf).sum(), leaf)
    forward, backward = gradient.reshape(2, size, size)
    hessian = (forward - backward) / (2 * step)
    return float(torch.linalg.matrix_norm((hessian + hessian.T) / 2, ord=2))


def prediction_slope_and_curvature(
    x: Tensor, directions: Tensor, k: int, temperature: float, smoothing: float
) -> tuple[float, float]:
    """Norm of the gradient, and spectral norm of the Hessian, of the prediction on one input (n,)."""

    def predict(flat: Tensor) -> Tensor:
        attention = soft_attention(flat.reshape(directions.shape), len(x), temperature)
        return zigzag(position_weights(attention, k) @ x, k, smoothing)

    flat = directions.reshape(-1)
    gradient = torch.autograd.functional.jacobian(predict, flat)
    hessian = torch.autograd.functional.hessian(predict, flat)
    return float(gradient.norm()), float(torch.linalg.matrix_norm(hessian, ord=2))


def lemma_18_brackets(task: Parity, directions: Tensor, temperature: float, sign: int) -> Tensor:
    """Left side of Lemma 18 for every input except 0...0, (2^n - 1,); ``sign`` as in the stated Jacobian."""
    x = task.cube()[1:]
    attention = soft_attention(directions, task.n, temperature)
    jacobians = torch.stack([temperature * stated_attention_jacobian(row, temperature, sign) for row in attention])
    return torch.einsum("xj,hja->xha", x, jacobians).square().sum((-1, -2))


def full_matrix_gradient(task: Parity, directions: Tensor, temperature: float, smoothing: float) -> Tensor:
    """Gradient of the paper's risk with respect to all 16 entries of every head, (heads, 4, 4)."""
    matrices = head_matrices(directions).requires_grad_()
    x = task.cube()
    prediction = literal_prediction(x, matrices, task.k, temperature, smoothing)
    (gradient,) = torch.autograd.grad(find_loss("squared_hinge")(task.labels(x), prediction).mean(), matrices)
    return gradient

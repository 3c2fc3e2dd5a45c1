"""One gradient checker for every analytic gradient in the tests."""

from collections.abc import Callable

import torch
from torch import Tensor


def value_and_gradient(function: Callable[[Tensor], Tensor], point: Tensor) -> tuple[Tensor, Tensor]:
    """Values (...,) of ``function`` at ``point`` and the gradient of their sum."""
    leaf = point.detach().clone().requires_grad_()
    value = function(leaf)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def assert_gradient_matches_differences(
    function: Callable[[Tensor], Tensor], point: Tensor, tolerance: float = 1e-6, step: float = 1e-5
) -> None:
    """Compare the gradient with central differences along random directions."""
    _, gradient = value_and_gradient(function, point)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        direction = torch.randn(point.shape, generator=generator, dtype=point.dtype)
        direction /= direction.norm()
        slope = (function(point + step * direction).sum() - function(point - step * direction).sum()) / (2 * step)
        assert abs(float(slope) - float((gradient * direction).sum())) < tolerance


def random_heads(rows: int, heads: int, seed: int, norm: float = 1.0) -> Tensor:
    """Directions at uniform angles, (rows, heads, 2)."""
    angle = torch.rand(rows, heads, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 * torch.pi
    return norm * torch.stack([angle.cos(), angle.sin()], dim=-1)

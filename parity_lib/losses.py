r"""Losses by name or of your own, and their split into a label-free part and a parity signal.

For labels in {-1, +1} every loss is :math:`\ell(y, \hat y) = A(\hat y) + y\, D(\hat y)` with
:math:`A = (\ell_+ + \ell_-)/2` and :math:`D = (\ell_+ - \ell_-)/2`. The expectation of A never sees which bits
matter; only D carries the parity. With a loss const - y g(prediction) nothing but the parity signal moves the heads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .checks import known

Function = Callable[[Tensor, Tensor], Tensor]


def with_slope(function: Callable[[Tensor], Tensor], point: Tensor) -> tuple[Tensor, Tensor]:
    """The value of a function at a point and the gradient of its sum, by autograd, 0 if it is constant by pieces."""
    leaf = point.detach().requires_grad_()
    with torch.enable_grad():
        value = function(leaf)
        gradient = torch.autograd.grad(value.sum(), leaf)[0] if value.requires_grad else torch.zeros_like(leaf)
    return value.detach(), gradient


@dataclass(frozen=True)
class Loss:
    """A loss of (label, prediction), with what the exact risk needs to know about it."""

    name: str
    formula: str
    function: Function
    kinked: bool | None = None
    """True where a derivative of low order jumps: Fourier series then converge only algebraically. None: not known."""

    def __call__(self, label: Tensor, prediction: Tensor) -> Tensor:
        return self.function(label, prediction)

    def split(self, prediction: Tensor) -> tuple[Tensor, Tensor]:
        """Label-free part A and parity part D, so that the loss is A + y D."""
        one = torch.ones_like(prediction)
        plus, minus = self(one, prediction), self(-one, prediction)
        return (plus + minus) / 2, (plus - minus) / 2


AnyLoss = str | Loss | Function
"""A name in :data:`LOSSES`, or any function f(label, prediction) of tensors."""
LOSSES: dict[str, Loss] = {loss.name: loss for loss in (
    Loss("squared_hinge", "max(0, 1 - y p)^2", lambda y, p: (1 - y * p).relu() ** 2, kinked=True),  # the paper's
    Loss("hinge", "max(0, 1 - y p)", lambda y, p: (1 - y * p).relu(), kinked=True),
    # What the public code of November 2024 computes, on the paper's scale and on its own: there
    # labels and head live on {0, 1}, so the head is (1 - p)/2 and the sign of the label flips.
    Loss("sigmoid_hinge", "1 - y sigmoid(p)", lambda y, p: 1 - y * p.sigmoid(), kinked=False),
    Loss("sigmoid_hinge_01", "1 + y sigmoid((1 - p)/2)", lambda y, p: 1 + y * ((1 - p) / 2).sigmoid(), False),
    Loss("tanh", "1 - y tanh(p)", lambda y, p: 1 - y * p.tanh(), kinked=False),
    Loss("linear", "1 - y p", lambda y, p: 1 - y * p, kinked=False),
    Loss("logistic", "log(1 + exp(-y p))", lambda y, p: -torch.nn.functional.logsigmoid(y * p), kinked=False),
)}  # fmt: skip
"""Every loss by its name."""


def find_loss(loss: AnyLoss) -> Loss:
    """The loss of that name, or any function f(label, prediction) of tensors as a loss, entry by entry."""
    if isinstance(loss, Loss):
        return loss
    if callable(loss):
        return Loss(getattr(loss, "__name__", type(loss).__name__), "", checked(loss, "loss", "f(label, prediction)"))
    return LOSSES[known(loss, LOSSES, f"loss {loss!r}")]


def checked(function: Callable[..., Tensor], name: str, form: str, *more: Any) -> Callable[..., Tensor]:
    """A function of somebody else's, after a trial: one finite number for each entry, always the same, nothing else."""
    some = torch.linspace(0, 1, 6, dtype=torch.float64).reshape(2, 3)
    trials = [[part.clone() for part in ((some,) if more else (1 - 2 * some.round(), some))] for _ in range(3)]
    try:
        found, again = (function(*trial, *more) for trial in trials[1:])
    except Exception as error:
        raise ValueError(f"{name} must be a function {form} of tensors; called, it says: {error}") from None
    shape = found.shape if isinstance(found, Tensor) and found.is_floating_point() else None
    if shape != some.shape or not found.isfinite().all():
        given = f"{found.dtype} {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(f"{name} must be a function {form} with one finite float for each entry, got {given}")
    changed = any(a._version or not a.equal(b) for trial in trials for a, b in zip(trial, trials[0], strict=True))
    fault = "changes what it is given, as p *= 2 does" if changed else "gives other numbers at a second call"
    if changed or not found.equal(again):
        raise ValueError(f"{name} must be a function {form} of its arguments and nothing else, got one that {fault}")
    return function

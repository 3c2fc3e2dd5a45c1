r"""Losses by name, and their split into a label-free part and a parity signal.

For labels in {-1, +1} every loss is :math:`\ell(y, \hat y) = A(\hat y) + y\, D(\hat y)` with
:math:`A = (\ell_+ + \ell_-)/2` and :math:`D = (\ell_+ - \ell_-)/2`. The expectation of A never sees
which bits matter; only D carries the parity. A loss const - y g(prediction) has a constant A: nothing
but the parity signal moves the heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


@dataclass(frozen=True)
class Loss:
    """A loss of (label, prediction), with what the exact risk needs to know about it."""

    name: str
    formula: str
    function: Callable[[Tensor, Tensor], Tensor]
    kinked: bool
    """True where a derivative of low order jumps: Fourier series then converge only algebraically."""

    def __call__(self, label: Tensor, prediction: Tensor) -> Tensor:
        return self.function(label, prediction)

    def split(self, prediction: Tensor) -> tuple[Tensor, Tensor]:
        """Label-free part A and parity part D, so that the loss is A + y D."""
        one = torch.ones_like(prediction)
        plus, minus = self(one, prediction), self(-one, prediction)
        return (plus + minus) / 2, (plus - minus) / 2


def _hinge(y: Tensor, p: Tensor) -> Tensor:
    return (1 - y * p).relu()


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        # The paper's loss (section 2.1).
        Loss("squared_hinge", "max(0, 1 - y p)^2", lambda y, p: _hinge(y, p) ** 2, kinked=True),
        Loss("hinge", "max(0, 1 - y p)", _hinge, kinked=True),
        # What the public code of November 2024 computes, on the paper's scale and on its own: there
        # labels and head live on {0, 1}, so the head is (1 - p)/2 and the sign of the label flips.
        Loss("sigmoid_hinge", "1 - y sigmoid(p)", lambda y, p: 1 - y * p.sigmoid(), kinked=False),
        Loss(
            "sigmoid_hinge_01",
            "1 + y sigmoid((1 - p)/2)",
            lambda y, p: 1 + y * ((1 - p) / 2).sigmoid(),
            kinked=False,
        ),
        Loss("tanh", "1 - y tanh(p)", lambda y, p: 1 - y * p.tanh(), kinked=False),
        Loss("linear", "1 - y p", lambda y, p: 1 - y * p, kinked=False),
        Loss("logistic", "log(1 + exp(-y p))", lambda y, p: -logsigmoid(y * p), kinked=False),
    )
}


def find_loss(name: str) -> Loss:
    """The loss called ``name``; an unknown name is a ValueError that lists the known ones."""
    if not isinstance(name, str) or name not in LOSSES:
        raise ValueError(f"unknown loss {name!r}; known: {', '.join(LOSSES)}")
    return LOSSES[name]

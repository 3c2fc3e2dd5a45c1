"""Read-outs: the smoothed ReLU, the paper's frozen "zigzag" head, and FFNN-1 (paper, eqs. 1 and 2)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .checks import number, whole
from .losses import checked

ReadOut = Callable[[Tensor, int], Tensor]
"""What turns the sum S that k heads report into a prediction: (s, k) -> prediction, entry by entry."""


def smoothed_relu(z: Tensor, smoothing: float) -> Tensor:
    r"""The paper's activation :math:`\sigma(z) = (z + \sqrt{z^2 + b}) / 2`; b = 0 is the ReLU."""
    number(smoothing, "smoothing", zero=True)
    return z.relu() if smoothing == 0 else (z + (z * z + smoothing).sqrt()) / 2


def zigzag_weights(k: int) -> Tensor:
    r"""Output weights :math:`(-1)^q (8q - 4)` of the frozen head, q = 1..k."""
    q = torch.arange(1, whole(k, "k", 1) + 1, dtype=torch.float64)
    return (1 - 2 * (q % 2)) * (8 * q - 4)


def zigzag(s: Tensor, k: int, smoothing: float) -> Tensor:
    r"""The frozen head :math:`\hat y = 1 + \sum_{q=1}^k (-1)^q (8q-4)\, \sigma(s + 0.5 - q)` (eq. 2).

    With b = 0 it equals :math:`(-1)^s` at the integers 0..k and overshoots between them, up to
    2k - 1 in size. ``s`` stands for :math:`k v^*_1`, any shape; where it is nan so is the result, as with torch's own.
    """
    total = torch.ones_like(s)
    for q, weight in enumerate(zigzag_weights(k).tolist(), start=1):
        total = total + weight * smoothed_relu(s + (0.5 - q), smoothing)
    return total


@dataclass(frozen=True)
class Zigzag:
    """The paper's head at one smoothing, as a read-out."""

    smoothing: float

    def __call__(self, s: Tensor, k: int) -> Tensor:
        return zigzag(s, k, self.smoothing)


def find_readout(readout: ReadOut | None, smoothing: float, k: int) -> ReadOut:
    """The paper's head, unless a function f(s, k) takes its place."""
    if readout is None or isinstance(readout, Zigzag):
        return readout or Zigzag(number(smoothing, "smoothing", zero=True))
    return checked(readout, "readout", "f(s, k)", k)


class FFNN1(torch.nn.Module):
    r"""One hidden layer (eq. 1): :math:`\sum_i \alpha_i\, \sigma(\beta_i^T x + b_i) + b`.

    A generator draws the input weights and biases uniformly in :math:`\pm 1/\sqrt{\text{inputs}}`, the output weights
    in :math:`\pm 1/\sqrt{\text{neurons}}`; without one, everything starts at zero. ``smoothing`` is b of the ReLU.
    """

    def __init__(self, inputs: int, neurons: int, smoothing: float = 0.0, generator: torch.Generator | None = None):
        super().__init__()
        self.smoothing = number(smoothing, "smoothing", zero=True)
        inputs, neurons = whole(inputs, "inputs", 1), whole(neurons, "neurons", 1)

        def weights(*shape: int, fan: int) -> torch.nn.Parameter:
            values = torch.zeros(shape, dtype=torch.float64)
            if generator is not None:
                values.uniform_(-(fan**-0.5), fan**-0.5, generator=generator)
            return torch.nn.Parameter(values)

        self.beta = weights(neurons, inputs, fan=inputs)
        self.bias = weights(neurons, fan=inputs)
        self.alpha = weights(neurons, fan=neurons)
        self.offset = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Inputs (..., inputs) -> predictions (...)."""
        return smoothed_relu(x @ self.beta.T + self.bias, self.smoothing) @ self.alpha + self.offset

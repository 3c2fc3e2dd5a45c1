"""Read-outs: the smoothed ReLU, the paper's frozen "zigzag" head, and FFNN-1 (paper, eqs. 1 and 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .losses import checked
from .task import number, whole

ReadOut = Callable[[Tensor, int], Tensor]
"""What turns the sum S that k heads report into a prediction: (s, k) -> prediction, entry by entry."""


def smoothed_relu(z: Tensor, smoothing: float) -> Tensor:
    r"""The paper's activation :math:`\sigma(z) = (z + \sqrt{z^2 + b}) / 2`; b = 0 is the ReLU."""
    check_smoothing(smoothing)
    return z.relu() if smoothing == 0 else (z + (z * z + smoothing).sqrt()) / 2


def zigzag_weights(k: int) -> Tensor:
    r"""Output weights :math:`(-1)^q (8q - 4)` of the frozen head, q = 1..k."""
    q = torch.arange(1, whole(k, "k", 1) + 1, dtype=torch.float64)
    return (1 - 2 * (q % 2)) * (8 * q - 4)


def zigzag(s: Tensor, k: int, smoothing: float) -> Tensor:
    r"""The frozen head :math:`\hat y = 1 + \sum_{q=1}^k (-1)^q (8q-4)\, \sigma(s + 0.5 - q)` (eq. 2).

    With b = 0 it equals :math:`(-1)^s` at the integers 0..k and overshoots between them, up to
    2k - 1 in size. ``s`` stands for :math:`k v^*_1`, any shape.
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
        return readout or Zigzag(check_smoothing(smoothing))
    return checked(readout, "readout", "f(s, k)", k)


class FFNN1(torch.nn.Module):
    r"""One hidden layer (eq. 1): :math:`\sum_i \alpha_i\, \sigma(\beta_i^T x + b_i) + b`.

    Parameters
    ----------
    inputs : number of inputs.
    neurons : number of hidden neurons.
    smoothing : b of the smoothed ReLU.
    generator : draws the input weights and biases uniformly in :math:`\pm 1/\sqrt{\text{inputs}}`, the
        output weights in :math:`\pm 1/\sqrt{\text{neurons}}`; without one, everything starts at zero.
    """

    def __init__(self, inputs: int, neurons: int, smoothing: float = 0.0, generator: torch.Generator | None = None):
        super().__init__()
        self.smoothing = check_smoothing(smoothing)
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
        hidden = smoothed_relu(x @ self.beta.T + self.bias, self.smoothing)
        return hidden @ self.alpha + self.offset

    def distinct_parameters(self) -> int:
        """Distinct numbers the network needs, counted role by role; absent edges (zeros) are free."""
        edges = self.beta[self.beta != 0]
        return sum(len(role.unique()) for role in (edges, self.bias, self.alpha, self.offset))

    @classmethod
    def expressing(cls, bits: tuple[int, ...], n: int, smoothing: float = 0.0) -> FFNN1:
        """Proposition 3's network for the parity of ``bits``: k neurons that all read the sum of B."""
        return cls._zigzag(n, [bit - 1 for bit in bits], 1, len(bits), smoothing)

    @classmethod
    def frozen(cls, k: int, smoothing: float = 0.0) -> FFNN1:
        """The transformer's head of eq. 2: k neurons on the mean v* in R^4, each with beta = [k, 0, 0, 0]."""
        return cls._zigzag(4, [0], k, k, smoothing)

    @classmethod
    def _zigzag(cls, inputs: int, read: list[int], weight: float, k: int, smoothing: float) -> FFNN1:
        """The zigzag of ``weight`` times the sum of the inputs that are read."""
        network = cls(inputs, k, smoothing)
        with torch.no_grad():
            network.beta[:, read] = weight
            network.bias.copy_(0.5 - torch.arange(1, k + 1))
            network.alpha.copy_(zigzag_weights(k))
            network.offset.fill_(1)
        return network


def check_smoothing(smoothing: float) -> float:
    """A smoothing as a float, refused if it is not a non-negative finite number."""
    return number(smoothing, "smoothing", zero=True)

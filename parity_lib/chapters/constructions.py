r"""Encoders whose weights are written down: PARITY, FIRST, MAJORITY and MEAN for any length (chapter ``sensitivity``).

They live in the very architecture of :mod:`parity_lib.chapters.encoder_reference`. A *channel* is a pair of
coordinates that hold :math:`a` and :math:`-a`, so that every vector has mean zero and a layer norm only rescales it.
What enters a first norm has, besides the count, the same length at every position, so the scale is common to all
positions and everything after it may be read as if there were no norm. Gains of zero drop channels that have served.

**PARITY.** A uniform head writes :math:`k/n - 1/2`, k the number of ones, at every position. Three ReLUs compare it
with the ramp :math:`i/n - 1/2` of the positions: a tent of width 1/n, which is up at position :math:`i = k` alone. A
head of the second layer attends to that position, or for k = 0 to a default one, and reads :math:`(-1)^i` there; two
ReLUs clip what it read to ±1. The idea of reading the parity at the position that the count points to is that of
Chiang and Cholak's constructions; the weights are ours.
"""

import math

import torch
from torch import Tensor

from .encoder import Encoder

BIT, COUNT, MATCH, READ, ANSWER = range(5)  # channels of the token's half: given, or written by the layers
ONE, RAMP, ARC, SIGN, DEFAULT = range(8, 13)  # channels of the position's half
TENT = 2.0  # height of the tent, in units of the other channels
LEAN = 0.4  # weight of the default position against the tent in the scores of layer 2
SURE = 7.0  # the attended position outweighs all others together by exp of this


def construct(name: str, n: int) -> Tensor:
    """The row (numbers,) of an encoder of width 32 that computes ``name``, one of :data:`CONSTRUCTED`, of n bits."""
    weights = _Weights(Encoder(n))
    CONSTRUCTED[name](weights, n)
    return weights.row


class _Weights:
    """A row to be filled in, channel by channel."""

    def __init__(self, encoder: Encoder) -> None:
        self.width, self.row = encoder.width, torch.zeros(encoder.numbers)
        self.views = encoder.views(self.row)
        half = encoder.width // 2
        self.views["token"][1] = self.pair(BIT)[:half] / 2
        self.views["token"][0] = -self.pair(BIT)[:half] / 2
        place = torch.arange(1, encoder.n + 1)
        ramp = place / encoder.n - 0.5
        even = encoder.n - encoder.n % 2  # the default position has the answer of no ones at all
        self.position = {
            ONE: torch.ones(encoder.n),
            RAMP: ramp,
            ARC: (0.25 - ramp**2).clamp(min=0).sqrt(),  # keeps the length of the position's vector the same
            SIGN: 1.0 - 2 * (place % 2),
            DEFAULT: 2.0 * (place == even) - 1,
        }

    def pair(self, channel: int) -> Tensor:
        """The direction of a channel, (d,)."""
        direction = torch.zeros(self.width)
        direction[2 * channel], direction[2 * channel + 1] = 1, -1
        return direction

    def place(self, *channels: int) -> None:
        """Give the positions these channels."""
        for channel in channels:
            self.views["position"] += self.position[channel][:, None] * self.pair(channel)[self.width // 2 :]

    def keep(self, norm: str, *channels: int) -> None:
        """Let a layer norm pass these channels alone."""
        for channel in channels:
            self.views[norm] += self.pair(channel).abs()

    def neuron(self, layer: int, number: int, reads: dict[int, float], bias: float, writes: dict[int, float]) -> None:
        """A ReLU of the feed-forward part: what it reads by channel, its bias, and what it writes by channel."""
        for channel, weight in reads.items():
            self.views[f"up_weight{layer}"][number] += weight / 2 * self.pair(channel)
        self.views[f"up_bias{layer}"][number] = bias
        for channel, weight in writes.items():
            self.views[f"down_weight{layer}"][:, number] += weight * self.pair(channel)

    def heads(self, layer: int, source: int, target: int) -> None:
        """Both heads read a channel where they attend, and write it to another."""
        size = self.width // 2
        for head in (0, 1):
            self.views[f"in_weight{layer}"][2 * self.width + head * size] = self.pair(source) / 2
            self.views[f"out_weight{layer}"][:, head * size] = self.pair(target) / 2

    def attend(self, scores: dict[int, float], gain: float) -> None:
        """Both heads of layer 2 score a position by its channels, with a query that is the same for all inputs."""
        strength = math.sqrt(gain) * (self.width // 2) ** -0.25  # of each of the 16 products that are added
        self.views["in_bias2"][: self.width] = strength
        for channel, weight in scores.items():
            self.views["in_weight2"][self.width : 2 * self.width] += strength * weight / 2 * self.pair(channel)

    def clip(self, source: int, slope: float) -> None:
        """In layer 2, ANSWER becomes the source times a slope, clipped to ±1, and the source goes."""
        self.neuron(2, 0, {source: slope}, 1, {ANSWER: 1})
        self.neuron(2, 1, {source: slope}, -1, {ANSWER: -1})
        self.views["down_bias2"] -= self.pair(ANSWER)
        self.neuron(2, 2, {source: 1}, 0, {source: -1})
        self.neuron(2, 3, {source: -1}, 0, {source: 1})

    def answer(self, sign: float) -> None:
        """Read 1/2 ± 1/2 from ANSWER, which after the last norm is ±sqrt(d)/sqrt(2)."""
        self.keep("norm2_gain2", ANSWER)
        self.views["read_weight"] += sign / 4 * math.sqrt(2 / self.width) * self.pair(ANSWER)
        self.views["read_bias"].fill_(0.5)


def _parity(w: _Weights, n: int) -> None:
    w.place(ONE, RAMP, ARC, SIGN, DEFAULT)
    w.heads(1, BIT, COUNT)
    w.keep("norm1_gain1", COUNT, ONE, RAMP, SIGN, DEFAULT)
    root = math.sqrt(TENT * n / 2)
    for number, (shift, weight) in enumerate(((1 / n, 1.0), (0.0, -2.0), (-1 / n, 1.0))):
        reads = {COUNT: 2 * root, RAMP: -2 * root, ONE: 2 * root * shift}
        w.neuron(1, number, reads, 0, {MATCH: weight * root})
    w.keep("norm2_gain1", MATCH, SIGN, DEFAULT)
    w.attend({MATCH: 1.0, DEFAULT: LEAN}, (math.log(n) + SURE) / 1.4)
    w.heads(2, SIGN, READ)
    w.keep("norm1_gain2", READ)
    w.clip(READ, 2.0)
    w.answer(-1)


def _first(w: _Weights, n: int) -> None:
    w.position[DEFAULT] = 2.0 * (torch.arange(n) == 0) - 1  # the marked position is the first
    w.place(ONE, DEFAULT)
    w.keep("norm1_gain1", BIT, ONE, DEFAULT)
    w.keep("norm2_gain1", BIT, DEFAULT)
    w.attend({DEFAULT: 1.0}, (math.log(n) + SURE) / 4)
    w.heads(2, BIT, READ)
    w.keep("norm1_gain2", READ)
    w.clip(READ, 2.0)
    w.answer(1)


def _majority(w: _Weights, n: int) -> None:
    w.place(ONE)
    w.heads(1, BIT, COUNT)
    w.keep("norm1_gain1", COUNT, ONE)
    middle = (n // 2 + 0.5) / n - 0.5
    root = math.sqrt(2.0 * n)
    for number, side in enumerate((1.0, -1.0)):
        reads = {COUNT: root, ONE: root * (side / (2 * n) - middle)}
        w.neuron(1, number, reads, 0, {ANSWER: side * root})
    w.neuron(1, 2, {ONE: 1.0}, 0, {ANSWER: -1.0})
    w.keep("norm2_gain1", ANSWER)
    w.keep("norm1_gain2", ANSWER)
    w.answer(1)


def _mean(w: _Weights, n: int) -> None:
    w.place(ONE)
    w.heads(1, BIT, COUNT)
    for norm in ("norm1_gain1", "norm2_gain1", "norm1_gain2", "norm2_gain2"):
        w.keep(norm, COUNT, ONE)
    w.views["position"] *= 4  # so that the count hardly changes the scale
    w.views["read_weight"] += w.pair(COUNT) / 2
    w.views["read_bias"].fill_(0.5)


CONSTRUCTED = {"PARITY": _parity, "FIRST": _first, "MAJORITY": _majority, "MEAN": _mean}

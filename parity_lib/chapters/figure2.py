"""Figure 2: which training makes heads find their bits, and how often (paper, appendix B.1)."""

from __future__ import annotations

import math

from torch import Tensor

from ..attention import angle_to_position
from ..training import COMMITTED, Run


def shares_direction(run: Run, pair: tuple[int, int], tolerance: float = 0.1) -> Tensor:
    """Figure 2, right: two heads end half-way between the neighbours, the others on the other bits, (seeds,).

    Exactly two heads point within ``tolerance`` positions of the middle of ``pair``, and every other
    bit of B gets more than 0.6 of some head's attention.
    """
    near = offset_from_middle(run, pair).abs() <= tolerance
    others = [index for index in run.task.indices if index + 1 not in pair]
    read = run.attention[-1][..., others].amax(-2) > COMMITTED
    return (near.sum(-1) == 2) & read.all(-1)


def splits_pair(run: Run, pair: tuple[int, int], share: float = 0.3) -> Tensor:
    """The heads that share a pair of neighbours by their attention, whatever their angle, (seeds, heads).

    In a seed where exactly two heads give each position of ``pair`` more than ``share``: those two.
    """
    both = (run.attention[-1][..., [pair[0] - 1, pair[1] - 1]] > share).all(-1)
    return both & (both.sum(-1, keepdim=True) == 2)


def offset_from_middle(run: Run, pair: tuple[int, int]) -> Tensor:
    """How far from the middle of a pair of neighbours every head points at the end, in positions, (seeds, heads)."""
    n = run.task.n
    offset = angle_to_position(run.directions[-1], n) - (pair[0] + 0.5)
    return (offset + n / 2) % n - n / 2


def room_for_offset(run: Run, share: float = 0.3) -> Tensor:
    r"""The largest offset from the middle that :func:`splits_pair` would still admit, (seeds, heads).

    At offset d the scores of the two positions differ by :math:`2|a| \sin(\pi/n) \sin(2\pi d/n)`, and two shares above
    ``share`` have a ratio below (1 - share) / share.
    """
    n = run.task.n
    widest = math.log((1 - share) / share) * run.recipe.temperature_at(n)
    sine = widest / (2 * math.sin(math.pi / n) * run.directions[-1].norm(dim=-1))
    return n / (2 * math.pi) * sine.clamp_max(1).asin()

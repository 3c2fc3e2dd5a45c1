r"""The repair: heads that *sample* a position instead of averaging over all of them.

Let head i read one position :math:`J_i`, drawn from its attention. The sum it reports is then a whole
number, the paper's own zigzag head returns exactly :math:`(-1)^S`, and over all inputs and draws

.. math:: E[y \hat y] = \mathrm{perm}(\Gamma_B), \qquad \Gamma_B = (\gamma^{(i)}_b)_{i \le k,\, b \in B},

the permanent of the attention on B: k heads can only produce the parity of B by sharing its bits out
among themselves. Since :math:`\hat y^2 = 1`, the paper's squared hinge becomes
:math:`2(1 - \mathrm{perm})` and has no label-free part. The *product head*
:math:`\hat y = \prod_i (1 - 2 v_i)` has the same expectation without any sampling of positions, so it can
be trained from minibatches. Chapter ``convergence`` explains why this mends what the averages break.

Half-way stands the *cosine head*: it averages as the paper's does, but its read-out is a pure wave.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from .risk import MinibatchRisk, _Risk
from .task import Parity, binary_digits

SAMPLED_LOSSES = {
    "linear": "1 - perm",
    "squared_hinge": "2 (1 - perm)",
    "log": "-log perm",
}
MAX_PERMANENT = 16


def log_permanent(matrix: Tensor) -> Tensor:
    r"""Logarithm of the permanent of non-negative matrices, (..., k, k) -> (...).

    Row by row over the sets of columns used so far,
    :math:`f_i(S) = \sum_{j \in S} a_{ij} f_{i-1}(S \setminus j)`: as many products as Ryser's formula,
    :math:`O(k 2^k)`, but only sums of non-negative terms, so that a permanent of :math:`10^{-30}` keeps
    its digits (Ryser subtracts).
    """
    k = matrix.shape[-1]
    if matrix.ndim < 2 or matrix.shape[-2] != k:
        raise ValueError(f"a permanent needs square matrices, got shape {tuple(matrix.shape)}")
    if k > MAX_PERMANENT:
        raise ValueError(f"a permanent takes k 2^k products: k must be at most {MAX_PERMANENT}, got {k}")
    tiny = torch.finfo(matrix.dtype).tiny
    matrix = matrix.clamp_min(tiny)  # one over a smaller number is no number
    scale = matrix.amax(-1, keepdim=True)
    rows = matrix / scale
    total = rows.new_ones(*rows.shape[:-2], 1)
    before: dict[tuple[int, ...], int] = {(): 0}
    for i in range(k):
        subsets = list(combinations(range(k), i + 1))
        rest = torch.tensor([[before[s[:p] + s[p + 1 :]] for p in range(i + 1)] for s in subsets], device=rows.device)
        columns = torch.tensor(subsets, device=rows.device)
        total = (rows[..., i, :][..., columns] * total[..., rest]).sum(-1)
        before = {subset: index for index, subset in enumerate(subsets)}
    total = total.clamp_min(tiny)  # a permanent that underflows stays finite
    return total.squeeze(-1).log() + scale.squeeze(-1).log().sum(-1)


class SampledAttentionRisk(_Risk):
    """Exact population risk of k heads that sample their positions: a function of the permanent alone.

    Parameters
    ----------
    loss : ``linear`` (1 - perm), ``squared_hinge`` (2 (1 - perm)) or ``log`` (-log perm).
    """

    def __init__(
        self,
        task: Parity | Sequence[Parity],
        loss: str = "log",
        temperature: float = 1.0,
        code: str = "circle",
    ) -> None:
        if loss not in SAMPLED_LOSSES:
            raise ValueError(f"unknown loss {loss!r} for sampled attention; known: {', '.join(SAMPLED_LOSSES)}")
        super().__init__(task, "linear", temperature, 0.0, code)
        self.sampled_loss = loss

    def of_attention(self, attention: Tensor) -> Tensor:
        """Risk of attention (..., k, n) -> (...)."""
        if attention.shape[-2] != self.k:
            raise ValueError(f"sampled attention needs k = {self.k} heads, got {attention.shape[-2]}")
        bits = self._bits(attention.device)
        if len(self.tasks) == 1:
            on_bits = attention[..., bits[0]]
        else:
            on_bits = attention.gather(-1, bits.unsqueeze(1).expand(-1, self.k, -1))
        log = log_permanent(on_bits)
        return {"linear": 1 - log.exp(), "squared_hinge": 2 * (1 - log.exp()), "log": -log}[self.sampled_loss]


class CosineHeadRisk(_Risk):
    r"""Exact population risk :math:`1 - E[y \cos \pi S]` of averaging heads whose read-out is one frequency.

    The cosine passes through the labels at whole sums as the zigzag does, and the series of
    :mod:`parity_lib.risk` has a single term,

    .. math:: R(c) = 1 - \prod_{j \notin B} \cos\tfrac{\pi c_j}{2} \prod_{j \in B} \sin\tfrac{\pi c_j}{2},

    so there is no label-free part and no third harmonic for the heads to fall into.
    """

    def __init__(self, task: Parity | Sequence[Parity], temperature: float = 1.0, code: str = "circle") -> None:
        super().__init__(task, "linear", temperature, 0.0, code)

    def of_weights(self, weights: Tensor) -> Tensor:
        """Risk of position weights c, (..., n) -> (...)."""
        in_b = torch.zeros(len(self.tasks), self.n, dtype=torch.bool, device=weights.device)
        in_b.scatter_(1, self._bits(weights.device), True)
        angle = math.pi / 2 * weights
        return 1 - torch.where(in_b if len(self.tasks) > 1 else in_b[0], angle.sin(), angle.cos()).prod(-1)


class ProductHeadRisk(MinibatchRisk):
    r"""Mean of :math:`1 - y \prod_i (1 - 2 v_i)` on a minibatch, drawn anew at every call."""

    def of_attention(self, attention: Tensor) -> Tensor:
        """Risk of attention (rows, heads, n) -> (rows,)."""
        codes = self.draw()
        digits = binary_digits(codes, self.GROUP).transpose(1, 2).flatten(2)  # (rows, examples, groups * 10)
        x = digits[..., : self.n].to(attention)
        labels = self._signs.to(attention).expand(len(codes), -1, -1).gather(2, codes).prod(1)
        read = x @ attention.transpose(1, 2)  # (rows, examples, heads)
        return (1 - labels * (1 - 2 * read).prod(-1)).mean(-1)

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

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import torch
from torch import Tensor

from .minibatch import product_mean
from .risk import Risk, SeriesRisk, drawn_inputs
from .series import Series
from .task import Parity

SAMPLED_LOSSES = {"linear": "1 - perm", "squared_hinge": "2 (1 - perm)", "log": "-log perm"}
MAX_PERMANENT = 16


def check_sampled_loss(loss: object) -> str:
    """The name of a loss of heads that sample, refused if there is none of that name."""
    if not isinstance(loss, str) or loss not in SAMPLED_LOSSES:
        raise ValueError(f"unknown loss {loss!r} for sampled attention; known: {', '.join(SAMPLED_LOSSES)}")
    return loss


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
    for i, (columns, rest) in enumerate(_subsets(k, rows.device)):
        total = (rows[..., i, :][..., columns] * total[..., rest]).sum(-1)
    total = total.clamp_min(tiny)  # a permanent that underflows stays finite
    return total.squeeze(-1).log() + scale.squeeze(-1).log().sum(-1)


@lru_cache(maxsize=32)
def _subsets(k: int, device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """For every size: the sets of columns, and where each of them without one column stands among the smaller ones."""
    steps = []
    before: dict[tuple[int, ...], int] = {(): 0}
    for size in range(1, k + 1):
        subsets = list(combinations(range(k), size))
        rest = [[before[s[:p] + s[p + 1 :]] for p in range(size)] for s in subsets]
        steps.append((torch.tensor(subsets, device=device), torch.tensor(rest, device=device)))
        before = {subset: index for index, subset in enumerate(subsets)}
    return steps


class SampledAttentionRisk(Risk):
    """Exact population risk of k heads that sample their positions: a function of the permanent alone.

    Its parameters are those of :class:`parity_lib.risk.PopulationRisk`, except that ``loss`` is ``linear``
    (1 - perm), ``squared_hinge`` (2 (1 - perm)) or ``log`` (-log perm). It may be differentiated twice.
    """

    def __init__(
        self, task: Parity | Sequence[Parity], loss: str = "log", temperature: float = 1.0, code: str = "circle"
    ) -> None:
        super().__init__(task, temperature, code)
        self.sampled_loss = check_sampled_loss(loss)

    def of_attention(self, attention: Tensor) -> Tensor:
        """Risk of attention (..., k, n) -> (...)."""
        self.check_rows(attention)
        if attention.shape[-2] != self.k:
            raise ValueError(f"sampled attention needs k = {self.k} heads, got {attention.shape[-2]}")
        bits = self.bits(attention.shape[:-2], attention.device).unsqueeze(-2)
        log = log_permanent(attention.gather(-1, bits.expand(*attention.shape[:-1], -1)))
        return {"linear": 1 - log.exp(), "squared_hinge": 2 * (1 - log.exp()), "log": -log}[self.sampled_loss]

    def expectation(self, attention: Tensor) -> tuple[Tensor, Tensor]:
        """Value (rows,) and gradient (rows, k, n)."""
        with torch.enable_grad():
            value = self.of_attention(attention.requires_grad_())
            (gradient,) = torch.autograd.grad(value.sum(), attention)
        return value.detach(), gradient


class CosineHeadRisk(SeriesRisk):
    r"""Exact population risk :math:`1 - E[y \cos \pi S]` of averaging heads whose read-out is one frequency.

    The cosine passes through the labels at whole sums as the zigzag does, and its series has a single term,

    .. math:: R(c) = 1 - \prod_{j \notin B} \cos\tfrac{\pi c_j}{2} \prod_{j \in B} \sin\tfrac{\pi c_j}{2},

    so there is no label-free part and no third harmonic for the heads to fall into.
    """

    def __init__(self, task: Parity | Sequence[Parity], temperature: float = 1.0, code: str = "circle") -> None:
        one, wave = torch.tensor([[1.0, 0.0], [0.0, -1.0]], dtype=torch.float64)
        super().__init__(task, temperature, code, Series(2.0, one, wave, torch.tensor([1.0, 0.0])))


class ProductHeadRisk(Risk):
    r"""Mean of :math:`1 - y \prod_i (1 - 2 v_i)` on a minibatch; ``batch`` and so on as for ``MinibatchRisk``."""

    def __init__(
        self, task: Parity | Sequence[Parity], temperature: float = 1.0, code: str = "circle",
        *, batch: int, generators: Sequence[torch.Generator], cube_share: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, temperature, code)
        self.inputs = drawn_inputs(self.n, batch, generators, cube_share)

    def expectation(self, attention: Tensor) -> tuple[Tensor, Tensor]:
        """Value (rows,) and gradient (rows, heads, n) on the next batch."""
        bits, span = self.bits(attention.shape[:1], attention.device), self.inputs.advance(attention)
        return product_mean(attention.detach(), bits, self.inputs, span)

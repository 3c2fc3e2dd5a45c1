r"""The repair: heads that *sample* a position instead of averaging over all of them.

Let head i read one position :math:`J_i`, drawn from its attention. The sum it reports is then a whole
number, the paper's own zigzag head returns exactly :math:`(-1)^S`, and over all inputs and draws

.. math:: E[y \hat y] = \mathrm{perm}(\Gamma_B), \qquad \Gamma_B = (\gamma^{(i)}_b)_{i \le k,\, b \in B},

the permanent of the attention on B: k heads can only produce the parity of B by sharing its bits out among
themselves. Since :math:`\hat y^2 = 1`, the paper's squared hinge becomes :math:`2(1 - \mathrm{perm})` and has no
label-free part. The *product head* :math:`\hat y = \prod_i (1 - 2 v_i)` has the same expectation without any
sampling of positions, so it can be trained from minibatches. Chapter ``sampling`` explains what this mends.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import torch
from torch import Tensor

from .checks import known
from .kernels.minibatch import Inputs, product_mean
from .losses import with_slope
from .risk import Risk
from .task import Tasks

SAMPLED_LOSSES = {"linear": "1 - perm", "squared_hinge": "2 (1 - perm)", "log": "-log perm"}
MAX_PERMANENT = 16


def log_permanent(matrix: Tensor) -> Tensor:
    r"""Logarithm of the permanent of non-negative matrices, (..., k, k) -> (...).

    Row by row over the sets of columns used so far, :math:`f_i(S) = \sum_{j \in S} a_{ij} f_{i-1}(S \setminus j)`: as
    many products as Ryser's formula, :math:`O(k 2^k)`, but only sums of non-negative terms, so that a permanent of
    :math:`10^{-30}` keeps its digits (Ryser subtracts).
    """
    k = matrix.shape[-1]
    if matrix.ndim < 2 or matrix.shape[-2] != k:
        raise ValueError(f"a permanent needs square matrices, got shape {tuple(matrix.shape)}")
    if k > MAX_PERMANENT:
        raise ValueError(f"a permanent takes k 2^k products: k must be at most {MAX_PERMANENT}, got {k}")
    tiny = torch.finfo(matrix.dtype).tiny
    matrix = matrix.clamp_min(tiny)  # one over a smaller number is no number
    rows = matrix / (scale := matrix.amax(-1, keepdim=True))
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

    It may be differentiated twice. Parameters as for a ``PopulationRisk``, with a loss of :data:`SAMPLED_LOSSES`.
    """

    def __init__(self, task: Tasks, loss: str = "log", temperature: float = 1.0, code: str = "circle") -> None:
        super().__init__(task, temperature, code)
        self.sampled_loss = known(loss, SAMPLED_LOSSES, f"loss {loss!r} for sampled attention")

    def of_attention(self, attention: Tensor) -> Tensor:
        """Risk of attention (..., k, n) -> (...)."""
        if attention.shape[-2] != self.k:
            raise ValueError(f"sampled attention needs k = {self.k} heads, got {attention.shape[-2]}")
        bits = self.bits(attention.shape[:-2], attention.device).unsqueeze(-2)
        log = log_permanent(attention.gather(-1, bits.expand(*attention.shape[:-1], -1)))
        return {"linear": 1 - log.exp(), "squared_hinge": 2 * (1 - log.exp()), "log": -log}[self.sampled_loss]

    def expectation(self, attention: Tensor) -> tuple[Tensor, Tensor]:
        """Value (rows,) and gradient (rows, k, n)."""
        return with_slope(self.of_attention, attention)


class ProductHeadRisk(Risk):
    r"""Mean of :math:`1 - y \prod_i (1 - 2 v_i)` on a minibatch; ``batch`` and so on as for ``MinibatchRisk``."""

    def __init__(
        self, task: Tasks, temperature: float = 1.0, code: str = "circle",
        *, batch: int, generators: Sequence[torch.Generator], cube_share: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, temperature, code)
        self.inputs = Inputs.drawn(self.n, batch, generators, cube_share)

    def expectation(self, attention: Tensor) -> tuple[Tensor, Tensor]:
        """Value (rows,) and gradient (rows, heads, n) on the next batch."""
        bits, span = self.bits(attention.shape[:1], attention.device), self.inputs.advance(attention)
        return product_mean(attention.detach(), bits, self.inputs, span)

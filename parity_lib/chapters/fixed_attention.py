r"""Attention that is not learned: fixed heads, soft or hard, and what any classifier can make of them.

A head's score for position j is :math:`s_j = p_j + t\,x_j`: a position score and a token score, whatever
the embeddings and the matrix A (the constant that all positions share drops out). Soft heads average the
embeddings of eq. 3 with softmax(s/tau); hard heads read the one position with the highest score. On hard
heads the best risk that *any* classifier can have is exact and needs no training: with p the probability
of y = 1 given what the heads report, it is E[4p(1-p)]. Chapter ``fixed_attention``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from ..attention import check_temperature, positional_code
from ..losses import find_loss
from ..readout import zigzag_weights
from ..task import Parity
from .networks import DATA_SEED, TEST_SEED, Budget, Stack, accuracy, labels_of, train_stack

KINDS = ("position", "token", "search")
POOLINGS = ("mean", "separate")
ENUMERATE_UP_TO = 16


@dataclass(frozen=True)
class FixedHeads:
    """m heads with scores p_j + t x_j.

    Parameters
    ----------
    positions : position scores p, (m, n).
    tokens : token scores t, (m,): how much a one scores above a zero; 0 for a head that sees positions only.
    """

    positions: Tensor
    tokens: Tensor

    def __post_init__(self) -> None:
        if self.positions.ndim != 2 or self.positions.shape[0] < 1 or self.positions.shape[1] < 2:
            given = tuple(self.positions.shape)
            raise ValueError(f"position scores must have shape (m, n) with m >= 1 and n >= 2, got {given}")
        if self.tokens.shape != self.positions.shape[:1]:
            wanted, given = tuple(self.positions.shape[:1]), tuple(self.tokens.shape)
            raise ValueError(f"token scores must have shape {wanted}, one per head, got {given}")

    @property
    def m(self) -> int:
        """Number of heads."""
        return self.positions.shape[0]

    @property
    def n(self) -> int:
        """Number of positions."""
        return self.positions.shape[1]

    @property
    def ranks(self) -> Tensor:
        """Rank of every position in each head's order of position scores, 1 is the highest: (m, n)."""
        order = self.positions.argsort(dim=1, descending=True, stable=True)
        return order.argsort(dim=1) + 1

    @classmethod
    def from_matrices(cls, matrices: Tensor, n: int) -> FixedHeads:
        """The heads with the paper's matrices A_i, (m, 4, 4), on the embedding of eq. 3."""
        if matrices.ndim != 3 or matrices.shape[0] < 1 or matrices.shape[1:] != (4, 4):
            raise ValueError(f"matrices must have shape (m, 4, 4) with m >= 1, got {tuple(matrices.shape)}")
        row = matrices[:, 0]  # the CLS token asks with the first row only
        return cls(row[:, 2:] @ positional_code(n, dtype=row.dtype).T, row[:, 0] - row[:, 1])

    @classmethod
    def random(cls, kind: str, m: int, n: int, generator: torch.Generator) -> FixedHeads:
        """Random heads of a kind.

        ``position``: unit directions at uniform angles on the circle code, as at the paper's start.
        ``token``: the whole first row of A is N(0, 1), so positions and tokens both count.
        ``search``: a random order of the positions and a token score that outweighs it, "the first one (or the
        first zero) in my order".
        """
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        if not isinstance(m, int) or m < 1:
            raise ValueError(f"the number of heads m must be a whole number of at least 1, got {m!r}")
        if kind == "search":
            order = torch.stack([torch.randperm(n, generator=generator) for _ in range(m)])
            sign = 1 - 2 * torch.randint(2, (m,), generator=generator)
            return cls(order.to(torch.float64), (n * sign).to(torch.float64))
        row = torch.randn(m, 4, generator=generator, dtype=torch.float64)
        if kind == "position":
            row[:, :2] = 0
            row = row / row.norm(dim=1, keepdim=True)
        matrices = row.new_zeros(m, 4, 4)
        matrices[:, 0] = row
        return cls.from_matrices(matrices, n)


def drawn_heads(kind: str, m: int, n: int, seeds: Sequence[int]) -> list[FixedHeads]:
    """One random head set per seed."""
    return [FixedHeads.random(kind, m, n, torch.Generator().manual_seed(2**34 + seed)) for seed in seeds]


def hostile_tasks(heads: Sequence[FixedHeads], k: int, seeds: Sequence[int]) -> list[Parity]:
    """For each head set a B of k bits with its :func:`overlooked_position`; the other bits are random."""
    tasks = []
    for head_set, seed in zip(heads, seeds, strict=True):
        overlooked = overlooked_position(head_set)
        order = torch.randperm(head_set.n, generator=torch.Generator().manual_seed(2**35 + seed)) + 1
        others = [bit for bit in order.tolist() if bit != overlooked]
        tasks.append(Parity(head_set.n, [overlooked, *others[: k - 1]]))
    return tasks


def attended(heads: FixedHeads, x: Tensor) -> Tensor:
    """Positions (from 0) that hard heads read on inputs (inputs, n): (inputs, m); ties go to the first."""
    return torch.stack([(p + t * x).argmax(1) for p, t in zip(heads.positions, heads.tokens, strict=True)], dim=1)


def subsets(n: int, k: int) -> list[tuple[int, ...]]:
    """All sets of k positions, counted from 1."""
    if not 1 <= k <= n:
        raise ValueError(f"k must be a whole number in 1..{n}, got {k!r}")
    return list(combinations(range(1, n + 1), k))


def cells(heads: FixedHeads) -> Tensor:
    """Which inputs the first 1, 2, ..., m heads cannot tell apart: equal numbers for equal outputs, (m, 2^n).

    A head reports the position it reads and its token, and every head is heard separately, the most generous reading.
    """
    n = heads.n
    if n > ENUMERATE_UP_TO:
        raise ValueError(
            f"all 2^n inputs are enumerated only up to n = {ENUMERATE_UP_TO}, got n = {n}; "
            "the bounds corollary_20, linear_bound and rank_bound hold for any n"
        )
    x = Parity(n, (1,)).cube()
    seen = torch.zeros(len(x), dtype=torch.int64)
    nested = []
    for where in attended(heads, x).unbind(1):
        token = x.gather(1, where.unsqueeze(1)).squeeze(1).to(torch.int64)
        _, seen = (seen * (2 * n) + 2 * where + token).unique(return_inverse=True)
        nested.append(seen)
    return torch.stack(nested)


def best_risks(heads: FixedHeads, sets: Sequence[tuple[int, ...]]) -> Tensor:
    r"""Least squared-hinge risk of any classifier on the first 1..m hard heads, for each set B: (m, sets).

    Over a cell c of inputs that look alike the best prediction is the mean label, which leaves :math:`4p(1-p)`:

    .. math:: E[4p(1-p)] = 1 - \sum_c \frac{(\sum_{x \in c} y(x))^2}{2^n |c|}.
    """
    nested = cells(heads)
    x = Parity(heads.n, (1,)).cube()
    labels = torch.stack([Parity(heads.n, bits).labels(x) for bits in sets], dim=1)  # (2^n, sets)
    risks = []
    for cell in nested:
        count = int(cell.max()) + 1
        sums = labels.new_zeros(count, len(sets)).index_add_(0, cell, labels)
        sizes = torch.bincount(cell, minlength=count).unsqueeze(1)
        risks.append(1 - (sums**2 / sizes).sum(0) / len(x))
    return torch.stack(risks)


def lookup_table_risk(heads: FixedHeads, task: Parity, steps: int = 120, learning_rate: float = 0.1) -> float:
    """Risk of a lookup table with one trained entry per output of the hard heads: ``best_risks`` by brute force."""
    cell = cells(heads)[-1]
    x = task.cube()
    labels, loss = task.labels(x), find_loss("squared_hinge")
    table = torch.zeros(int(cell.max()) + 1, dtype=torch.float64, requires_grad=True)
    sizes = torch.bincount(cell).to(torch.float64)
    for _ in range(steps):
        (slope,) = torch.autograd.grad(loss(labels, table[cell]).sum(), table)
        with torch.no_grad():
            table -= learning_rate * slope / sizes  # each entry moves at the pace of its own examples
    return float(loss(labels, table[cell]).mean().detach())


def rank_bound(heads: FixedHeads) -> float:
    r"""Lower bound for these very hard heads, :math:`1 - \min_p \sum_i 2^{-(r_i(p) - 1)}`, above ``linear_bound``."""
    noticed = (0.5 ** (heads.ranks - 1).to(torch.float64)).sum(0)
    return max(0.0, 1 - float(noticed.min()))


def overlooked_position(heads: FixedHeads) -> int:
    """The position (from 1) that no head ranks high: the p in the proofs of Theorem 11 and Corollary 20."""
    return int(heads.ranks.amin(0).argmax()) + 1


def climb(n: int, m: int, k: int, steps: int, generator: torch.Generator) -> tuple[FixedHeads, float]:
    """Hard heads made to defeat the bound: hill climbing on the worst-B risk from random ``search`` heads.

    A step swaps two positions in one head's order, or turns its preferred token over; it stays if the risk does
    not rise. Returns the heads and their worst-B risk.
    """
    sets = subsets(n, k)
    best = FixedHeads.random("search", m, n, generator)
    least = _worst_then_mean(best, sets)
    for _ in range(steps):
        positions, tokens = best.positions.clone(), best.tokens.clone()
        head = int(torch.randint(m, (), generator=generator))
        i, j = torch.randperm(n, generator=generator)[:2].tolist()
        if int(torch.randint(n, (), generator=generator)) == 0:
            tokens[head] = -tokens[head]
        else:
            positions[head, [i, j]] = positions[head, [j, i]]
        candidate = FixedHeads(positions, tokens)
        risk = _worst_then_mean(candidate, sets)
        if risk <= least:
            best, least = candidate, risk
    return best, least[0]


def _worst_then_mean(heads: FixedHeads, sets: Sequence[tuple[int, ...]]) -> tuple[float, float]:
    risks = best_risks(heads, sets)[-1]
    return float(risks.max()), float(risks.mean())


def soft_vectors(heads: Sequence[FixedHeads], x: Tensor, temperature: float = 1.0) -> Tensor:
    r"""What soft heads report on shared inputs (examples, n): (sets, examples, m, 4).

    With :math:`E_j = e^{p_j/\tau}` the softmax weight of position j is :math:`E_j` or :math:`E_j e^{t/\tau}`, so
    its sum and the averages of token, sine and cosine are linear in x: three products instead of a softmax per input.
    """
    check_temperature(temperature)
    positions = torch.stack([h.positions for h in heads]) / temperature
    tokens = torch.stack([h.tokens for h in heads]) / temperature
    size = (positions - positions.amax(-1, keepdim=True)).exp()
    one, zero = (tokens - tokens.relu()).exp().unsqueeze(1), (-tokens.relu()).exp().unsqueeze(1)  # (sets, 1, m)
    code = positional_code(x.shape[1], dtype=x.dtype)
    weighted = torch.stack([size, size * code[:, 0], size * code[:, 1]])  # (3, sets, m, n)
    on_ones = torch.einsum("ej,asmj->asem", x, weighted)
    totals = zero * weighted.sum(-1).unsqueeze(2) + (one - zero) * on_ones  # (3, sets, examples, m)
    share = one * on_ones[0] / totals[0]
    return torch.stack([share, 1 - share, totals[1] / totals[0], totals[2] / totals[0]], dim=-1)


def pooled(vectors: Tensor, pooling: str) -> Tensor:
    """What the network on top sees, (..., m, 4) -> (..., features): the paper's ``mean``, or heads ``separate``."""
    if pooling not in POOLINGS:
        raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}, got {pooling!r}")
    return vectors.mean(-2) if pooling == "mean" else vectors.flatten(-2)


@dataclass(frozen=True)
class FixedRun:
    """Networks trained on fixed heads, one row per head set: what they reached, and with which budget."""

    budget: Budget
    risk: Tensor
    """(rates, rows): squared-hinge risk on held-out inputs (all inputs up to n = 12)."""
    accuracy: Tensor
    """(rates, rows)"""
    norm: Tensor
    """(rates, rows): the product of the norms of alpha and beta, on the heads' own scale."""
    error: Tensor
    """(rates, rows): standard error of the risk, 0 where it is exact."""

    @property
    def best(self) -> Tensor:
        """Risk at the best of the rates tried, (rows,): the choice is made for each row, in its favour."""
        return self.risk.amin(0)

    @property
    def best_accuracy(self) -> Tensor:
        """Accuracy at the best of the rates tried, (rows,)."""
        return self.accuracy.amax(0)


def train_on_fixed(
    heads: Sequence[FixedHeads], tasks: Sequence[Parity], seeds: Sequence[int], budget: Budget,
    *, neurons: int = 32, pooling: str = "mean", temperature: float = 1.0, smoothing: float = 1e-2,
    norm_caps: Sequence[float] | None = None, test: int = 16384,
) -> FixedRun:  # fmt: skip
    r"""Train an FFNN-1 on top of fixed soft heads, one row per head set, at every learning rate of the budget.

    Squared hinge, Adam with a cosine decay, fresh batches. Features are standardised for training, and the
    scale is folded back into beta before norms are taken.

    Parameters
    ----------
    heads, tasks, seeds : one each per row (equal m, n and k).
    norm_caps : one per row: keep :math:`\|\alpha\|\|\beta\|` at most this, by scaling both back after every update.
    """
    if not len(heads) == len(tasks) == len(seeds):
        raise ValueError(f"give one task and one seed per head set, got {len(heads)}, {len(tasks)} and {len(seeds)}")
    if norm_caps is not None and (len(norm_caps) != len(heads) or not all(cap > 0 for cap in norm_caps)):
        raise ValueError(f"norm_caps must be positive numbers, one per head set ({len(heads)}), got {list(norm_caps)}")
    caps = None if norm_caps is None else torch.tensor(norm_caps, dtype=torch.float64)
    n = tasks[0].n
    held_out = torch.Generator().manual_seed(TEST_SEED)
    test_x = tasks[0].cube() if n <= 12 else tasks[0].sample(test, held_out)
    test_features, test_labels = pooled(soft_vectors(heads, test_x, temperature), pooling), labels_of(tasks, test_x)
    centre, scale = test_features.mean(1, keepdim=True), test_features.std(1, keepdim=True)
    scale = scale.masked_fill(scale < 1e-9, math.inf)  # a feature that never changes is left out
    outcomes = []
    for rate in budget.learning_rates:
        stack = Stack.gaussian(test_features.shape[-1], neurons, seeds, smoothing)
        data = torch.Generator().manual_seed(DATA_SEED)

        def norms(stack: Stack = stack) -> Tensor:
            return stack.alpha.norm(dim=1) * (stack.beta / scale).flatten(1).norm(dim=1)

        def draw(rows: Tensor, data: torch.Generator = data) -> tuple[Tensor, Tensor]:
            x = tasks[0].sample(budget.batch, data)
            return (pooled(soft_vectors(heads, x, temperature), pooling) - centre) / scale, labels_of(tasks, x)

        @torch.no_grad()
        def project(stack: Stack = stack, norms=norms) -> None:  # type: ignore[no-untyped-def]
            shrink = (caps / norms()).clamp_max(1).sqrt().unsqueeze(1)
            stack.alpha.mul_(shrink)
            stack.bias.mul_(shrink)  # with beta, so that the kinks stay where they are
            stack.beta.mul_(shrink.unsqueeze(2))

        train_stack(
            stack, draw, budget.steps, rate, decay=True, after=None if caps is None else project,
            label=f"fixed heads n={n}",
        )  # fmt: skip
        with torch.no_grad():
            predictions = stack((test_features - centre) / scale)
            losses = find_loss("squared_hinge")(test_labels, predictions)
            error = losses.std(1) / len(test_x) ** 0.5 if n > 12 else torch.zeros(len(heads), dtype=torch.float64)
            outcomes.append((losses.mean(1), accuracy(predictions, test_labels), norms(), error))
    return FixedRun(budget, *(torch.stack(parts) for parts in zip(*outcomes, strict=True)))


def pair_bound(heads: FixedHeads, position: int, norms: Sequence[float], x: Tensor, temperature: float = 1.0) -> Tensor:
    r"""Lower bound on the risk of any network with :math:`\|\alpha\|\|\beta\| \le L` on these soft heads.

    It holds for every B that contains ``position``.

    An input and its copy with that bit flipped have opposite labels and predictions at most
    :math:`L \|\Delta v^*\|` apart, so their mean loss is at least :math:`(1 - L\|\Delta v^*\|/2)_+^2`. This is
    what the proof of Theorem 11 estimates; here it is the mean over inputs ``x`` (examples, n). Returns (norms,).
    """
    if any(norm < 0 for norm in norms):
        raise ValueError(f"norms must be at least 0, got {list(norms)}")
    flipped = x.clone()
    flipped[:, position - 1] = 1 - flipped[:, position - 1]
    moved = pooled(soft_vectors([heads], x, temperature) - soft_vectors([heads], flipped, temperature), "mean")[0]
    change = moved.norm(dim=1)
    return torch.stack([(1 - norm * change / 2).relu().square().mean() for norm in norms])


def frozen_norm(k: int) -> float:
    r""":math:`\|\alpha\|\|\beta\|` of the paper's frozen head (eq. 2): k neurons, each with beta = [k, 0, 0, 0]."""
    return float(zigzag_weights(k).norm()) * k * math.sqrt(k)


def lipschitz_needed(attention: Tensor, task: Parity) -> tuple[float, int]:
    r"""Lipschitz constant that a zero-risk classifier needs on one position-only soft head, and its label changes.

    The head reports :math:`S = \sum_j \gamma_j x_j` (and 1 - S). Two inputs with opposite labels need predictions
    2 apart, and lie :math:`\sqrt2\,|\Delta S|` apart: sort all :math:`2^n` sums and look at neighbours. Every network
    has :math:`\|\alpha\|\|\beta\|` at least as large. Attention (n,), n at most 22.
    """
    if task.n > 22:
        raise ValueError(f"all 2^n sums are sorted only up to n = 22, got n = {task.n}; extrapolate from smaller n")
    sums, labels = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.int8)
    for j in range(task.n):  # grow the cube one position at a time: no (2^n, n) table
        sums = torch.cat([sums, sums + attention[j]])
        labels = torch.cat([labels, -labels if j in task.indices else labels])
    order = sums.argsort()
    changes = labels[order][1:] != labels[order][:-1]
    gaps = sums[order].diff()[changes]
    return math.sqrt(2) / float(gaps.min().clamp_min(1e-300)), int(changes.sum())


def readout_norm(attention: Tensor, task: Parity) -> float:
    r""":math:`\|\alpha\|\|\beta\|` with which the frozen zigzag solves the task on m = n separate position-only heads.

    Attention :math:`\Gamma` (n, n) is inverted, :math:`c = \Gamma^{-T} 1_B`, so that
    :math:`c \cdot v = \sum_{j \in B} x_j` exactly; every one of the k neurons carries c.
    """
    if attention.shape != (task.n, task.n):
        raise ValueError(f"attention must have shape ({task.n}, {task.n}), got {tuple(attention.shape)}")
    target = torch.zeros(task.n, dtype=torch.float64)
    target[list(task.indices)] = 1
    readout = torch.linalg.solve(attention.T, target)
    return float(zigzag_weights(task.k).norm()) * math.sqrt(task.k) * float(readout.norm())

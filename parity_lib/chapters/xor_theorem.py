r"""One step on a sparse XOR as a theorem (dossier ``xor``): its numbers, and exact computation for all pairs at once.

Embeddings are m distinct random characters of :math:`\mathbb Z_2^{\log_2 d}`, the start is zero, the read-out the
tent, the loss the hinge. One population step of strength :math:`\lambda = \eta M/(d-1)` gives the query
:math:`\lambda (p_i + p_j)`, both positions of the pair the same score, and every other position k a score that is
lower by

.. math:: \mathrm{gap}_k = \tfrac{\lambda}{m} \sum_l (1 - \chi_l(i \oplus k))(1 - \chi_l(j \oplus k))
   = \tfrac{4\lambda}{m} N_k,

where :math:`N_k` counts the characters that are -1 at both: hypergeometric, m draws from d - 1, of which d/4 count.
The largest loss over all :math:`2^d` inputs is :math:`\min(2, 4R/(2+R))` with :math:`R = \sum_k e^{-\mathrm{gap}_k}`.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import hypergeom
from torch import Tensor

from ..progress import track
from .boolean import walsh_hadamard
from .store import kept
from .xor import SparseXOR, default_width, draw, majority, positional_embedding

SOLVED = 0.05
"""An input counts as solved if its loss is below this (it starts at 2 for the worst input)."""
REST = 2 * SOLVED / (4 - SOLVED)
"""The R at which the largest loss is that."""
CHANCE = 0.1
"""A pair may fail with this chance where a width is called enough."""
Array = NDArray[np.float64]


def loss_of_rest(rest: Array) -> Array:
    """Largest loss over all inputs, given R: the others' attention relative to one position of the pair."""
    return np.minimum(2.0, 4 * rest / (2 + rest))


# What is proved


def loss_bound(d: int, m: int, strength: float) -> float:
    r"""Proposition 1: the mean over embeddings of the largest loss is at most this, for every pair.

    :math:`2(d-2)\,(1 - p(1 - e^{-4\lambda/m}))^m` with :math:`p = d/(4(d-1))`.
    """
    p = d / (4 * (d - 1))
    return 2 * (d - 2) * (1 - p * (1 - math.exp(-4 * strength / m))) ** m


def power_law(d: int, m: int, strength: float) -> float:
    r"""Corollary: :math:`2 d\, e^{-\lambda + 2\lambda^2/m}`, which bounds :func:`loss_bound` from above.

    With :math:`\lambda = t \ln d` and :math:`m = (\log_2 d)^2` it is a constant times :math:`d^{1-t}`.
    """
    return 2 * d * math.exp(-strength + 2 * strength**2 / m)


def local_exponent(d: int, factor: float) -> float:
    """Slope of the bound in log-log from d to 2d, at strength factor * ln d and m = (log2 d)^2."""
    low, high = (loss_bound(n, default_width(n), factor * math.log(n)) for n in (d, 2 * d))
    return math.log2(high / low)


def mean_rest(d: int, m: int, strength: float) -> float:
    """Mean of R over embeddings, exactly, from the hypergeometric law; half of what Proposition 1 bounds."""
    counts, chances = _counted(d, m)
    return float((d - 2) * (chances * np.exp(-4 * strength / m * counts)).sum())


def failure_bound(d: int, m: int, strength: float, all_pairs: bool = True) -> float:
    r"""Proposition 2: the chance that an embedding leaves some pair unsolved is at most this.

    :math:`\tfrac12 (d-1)(d-2)\, E \min(1, 2 e^{-4\lambda N/m}/r)` with N hypergeometric and r = :data:`REST`; without
    the factor d - 1 for one pair given in advance.
    """
    counts, chances = _counted(d, m)
    terms = np.minimum(1.0, 2 * np.exp(-4 * strength / m * counts) / REST)
    return float((d - 1 if all_pairs else 1) * (d - 2) / 2 * (chances * terms).sum())


def _counted(d: int, m: int) -> tuple[Array, Array]:
    counts = np.arange(m + 1.0)
    return counts, hypergeom.pmf(counts, d - 1, d // 4, m)


def least_width(d: int, factor: float, sharp: bool = False) -> int:
    """Least m for which a given pair is proved to fail with a chance of 0.1 at most, at strength factor * ln d.

    By Markov's inequality from :func:`loss_bound`, or (``sharp``) from :func:`failure_bound`. Zero if no m < d will do.
    """
    strength = factor * math.log(d)
    for m in range(1, d):
        proved = failure_bound(d, m, strength, all_pairs=False) if sharp else loss_bound(d, m, strength) / SOLVED
        if proved <= CHANCE:
            return m
    return 0


# What is measured: every pair, every input


def overlaps(chosen: NDArray[np.int64], d: int) -> Array:
    r""":math:`\langle p_0, p_t\rangle` for all t, (..., m) -> (..., d); two positions overlap as their XOR does."""
    marks = np.zeros((*chosen.shape[:-1], d))
    np.put_along_axis(marks, chosen, 1 / chosen.shape[-1], -1)
    return d * walsh_hadamard(torch.from_numpy(marks)).numpy()


def rests_of_all_pairs(overlap: Array, strength: float) -> Array:
    r"""R of all d(d-1)/2 pairs in order d log d: by :math:`c = i \oplus j` from 1 to d - 1; (..., d) -> (..., d - 1).

    :math:`R_c = e^{-\lambda(1 + C_c)} \sum_{t \ne 0, c} E_t E_{t \oplus c}` with :math:`E_t = e^{\lambda C_t}` is a
    convolution over :math:`\mathbb Z_2^r`, hence a product of Walsh transforms. Leaving out :math:`E_0`, by far the
    largest, removes the pair itself from the sum and keeps rounding small.
    """
    values = np.exp(strength * overlap)
    values[..., 0] = 0
    once = overlap.shape[-1] * walsh_hadamard(torch.from_numpy(values))
    joint = walsh_hadamard(once.square()).numpy()
    return (np.exp(-strength * (1 + overlap)) * joint.clip(0))[..., 1:]


def rests_of_all_pairs_by_gram(embedding: Tensor, strength: float) -> Array:
    """The same for any unit embedding (d, m) of zero mean, by one matrix product; all pairs i < j, (d(d - 1)/2,)."""
    gram = (embedding @ embedding.T).numpy()
    values = np.exp(strength * gram)
    np.fill_diagonal(values, 0)
    return (np.exp(-strength * (1 + gram)) * (values @ values))[np.triu_indices(len(gram), 1)]


@kept
def all_pairs(lengths: list[int], factors: list[float], embeddings: int) -> pd.DataFrame:
    """Every pair of every embedding after one step from zero, exactly: one row an embedding and a strength.

    From d = 2048 on there are fewer embeddings, the same number of positions in all, but at least a fortieth.

    Columns ``d``, ``m``, ``factor`` (strength / ln d), ``embedding``, ``mean_loss`` (of the pairs' largest losses),
    ``worst_loss`` (of all pairs), ``failing`` (share of the pairs at 0.05 or above), ``failed`` (any).
    """
    parts = []
    for place in track(len(lengths), "all pairs,"):
        d, m = lengths[place], default_width(lengths[place])
        generator = np.random.default_rng(d)
        count = max(min(embeddings, embeddings * 1024 // d), embeddings // 40, 2)
        batch = max(1, 2**16 // d)
        for first in range(0, count, batch):
            numbers = range(first, min(first + batch, count))
            chosen = [generator.choice(d - 1, m, replace=False, shuffle=False) for _ in numbers]
            overlap = overlaps(np.stack(chosen) + 1, d)
            for factor in factors:
                known = {"d": d, "m": m, "factor": factor, "embedding": numbers}
                parts.append(pd.DataFrame(known | _of_pairs(rests_of_all_pairs(overlap, factor * math.log(d)))))
    return pd.concat(parts, ignore_index=True)


def _of_pairs(rests: Array) -> dict[str, Array]:
    """What the rests of all pairs, (..., pairs), say about their embeddings, (...) each."""
    loss = loss_of_rest(rests)
    failing = (loss >= SOLVED).mean(-1)
    return {"mean_loss": loss.mean(-1), "worst_loss": loss.max(-1), "failing": failing, "failed": failing > 0}


@kept
def all_pairs_any_length(lengths: list[int], factors: list[float], embeddings: int) -> pd.DataFrame:
    """As :func:`all_pairs`, with balanced positions, for d that need not be a power of two."""
    rows = []
    for d in lengths:
        m = default_width(d)
        for seed in track(embeddings, f"balanced positions, d = {d},"):
            table = positional_embedding("balanced", d, m, torch.Generator().manual_seed(seed))
            for factor in factors:
                known = {"d": d, "m": m, "factor": factor, "embedding": seed}
                rows.append(known | _of_pairs(rests_of_all_pairs_by_gram(table, factor * math.log(d))))
    return pd.DataFrame(rows)


def against_bound(pairs: pd.DataFrame) -> pd.DataFrame:
    """Measured beside proved, one row for each d and strength.

    Columns ``d``, ``m``, ``factor``, ``measured`` (mean loss over embeddings and pairs, with its 95 % interval ``low``,
    ``high``), ``exact`` (the mean of 2R), ``bound`` (Proposition 1), ``power_law``, ``failed`` of ``embeddings``,
    ``failing`` (share of the pairs), and Proposition 2: ``proved`` for all pairs, ``proved_one`` for one pair (neither
    above 1).
    """
    rows = []
    for (d, factor), part in pairs.groupby(["d", "factor"]):
        m, mean = int(part.m.iloc[0]), part.mean_loss.mean()
        reach = 1.96 * part.mean_loss.sem()
        step = d, m, factor * math.log(d)
        rows.append(
            {
                "d": d, "m": m, "factor": factor, "measured": mean, "low": mean - reach, "high": mean + reach,
                "exact": 2 * mean_rest(*step), "bound": loss_bound(*step), "power_law": power_law(*step),
                "failed": int(part.failed.sum()), "embeddings": len(part), "failing": part.failing.mean(),
                "proved": min(1.0, failure_bound(*step)),
                "proved_one": min(1.0, failure_bound(*step, all_pairs=False)),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


@kept
def least_widths(lengths: list[int], factor: float, embeddings: int) -> pd.DataFrame:
    """How few dimensions will do: least m at which at most one in ten of (embedding, pair) has a loss of 0.05 or more.

    Columns ``d``, ``source`` (``closed form``, ``sharp``: proved; ``measured``: all pairs of the embeddings), ``m``,
    and ``multiple``, m / log2 d.
    """
    rows = []
    for d in lengths:
        generator = np.random.default_rng(d)
        orders = np.stack([generator.permutation(d - 1)[: min(d - 1, 400)] + 1 for _ in range(embeddings)])

        def enough(m: int, d: int = d, orders: NDArray[np.int64] = orders) -> bool:
            rests = rests_of_all_pairs(overlaps(orders[:, :m], d), factor * math.log(d))
            return bool((loss_of_rest(rests) >= SOLVED).mean() <= CHANCE)

        closed, sharp = least_width(d, factor), least_width(d, factor, sharp=True)
        measured = bisect_left(range(closed or d - 1), True, lo=2, key=enough)  # one is too few
        found = {"closed form": closed, "sharp": sharp, "measured": measured}
        rows += [(d, source, m, m / math.log2(d)) for source, m in found.items()]
    return pd.DataFrame(rows, columns=["d", "source", "m", "multiple"])


# Samples


def sample_law(d: int, m: int) -> float:
    r"""Samples at which one step recovers the pair, to leading order: :math:`2\pi\,(d^2/m) \ln d`, nothing fitted."""
    return 2 * math.pi * d * d / m * math.log(d)


@dataclass(frozen=True)
class Gaps:
    r"""Moments, per sample, of the gaps between a score of the pair and another one; (2, d - 2) each.

    In units in which a sample adds :math:`x_i x_j \,\mathrm{sign}(S) \sum_l x_l \langle p_l, p_k\rangle` to score k;
    ``reach`` is how far a gap can fall below its mean.
    """

    mean: Tensor
    variance: Tensor
    reach: Tensor


def sample_gaps(task: SparseXOR, embedding: Tensor) -> Gaps:
    r"""Exact moments for the tent from zero, even d, and an embedding P (d, m) that is a tight frame of unit vectors.

    Tight means :math:`P^T P = (d/m) I`, as for characters (mean zero) and one-hot positions. With
    :math:`M' = M d/(d-1)` a gap has mean :math:`M' \gamma_k`, :math:`\gamma_k` its gap per strength, and mean square
    :math:`(1 - M')(d/m) |p_h - p_k|^2`.
    """
    i, j = task.pair
    gram = embedding @ embedding.T
    signal = majority(task.d) * task.d / (task.d - 1)
    mean = signal * task.others(gram[i, i] + gram[i, j] - gram[i] - gram[j]).expand(2, -1)
    square = (1 - signal) * (gram[0] ** 2).sum() * 2 * task.others(1 - gram[task.pair])
    reach = task.others(torch.stack([(gram - gram[h]).abs().sum(-1) for h in task.pair]))
    return Gaps(mean, square - mean**2, reach + mean)


def recovery_failure(gaps: Gaps, n: float) -> float:
    """Proposition 3, by Bernstein's inequality for every gap: the chance to miss the pair after a step on n samples."""
    return float(torch.exp(-n * gaps.mean**2 / (2 * (gaps.variance + gaps.reach * gaps.mean / 3))).sum())


@kept
def proved_samples(lengths: list[int], embeddings: list[str], seeds: int) -> pd.DataFrame:
    """Samples from which on Proposition 3 promises recovery with probability one half, for drawn pairs.

    Columns ``d``, ``m``, ``embedding``, ``seed``, ``proved``; infinite where a position is not told from the pair.
    """
    rows = []
    for d, embedding, seed in product(lengths, embeddings, range(seeds)):
        task, table, _ = draw(d, embedding, seed)
        gaps, top = sample_gaps(task, table), 1e4 * sample_law(d, table.shape[1])
        enough = recovery_failure(gaps, top) < 0.5
        found = brentq(lambda n, g=gaps: recovery_failure(g, n) - 0.5, 1.0, top) if enough else math.inf
        rows.append((d, table.shape[1], embedding, seed, found))
    return pd.DataFrame(rows, columns=["d", "m", "embedding", "seed", "proved"])

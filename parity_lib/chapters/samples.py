r"""From samples, past n = 20: how many labelled examples heads need, and what the plain rivals need.

Heads whose read-out is the product :math:`\prod_i (1 - 2 v_i)` (see :mod:`parity_lib.sampled_heads`) learn from
examples. At the start a head's gradient is a signal of order :math:`n^{-k}` in noise that N examples average down to
:math:`n^{-k/2} (dN)^{-1/2}`, where d is the number of numbers a head has: so the examples needed should grow like
:math:`N^* \propto n^k / d`. The chapter measures it. Every learner gets streams of its own; what is reported for a
stream is the number of examples from which on the learner names the set B.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise, product, takewhile
from operator import itemgetter

import numpy as np
import pandas as pd
from scipy.sparse.linalg import eigsh
from scipy.special import softmax

from ..attention import positional_code
from ..evidence import Interval, Verdict
from ..kernels import choose
from ..progress import track
from . import networks
from .networks_reference import adam_step
from .samples_kernels import SIGNS, fused_descend, pair_counts, slopes
from .store import kept

Array = np.ndarray
FIRST = 64  # fewest examples at which moments are looked at
FLOOR = 1e-30  # of Adam's denominators: a gradient of n^-k may be as small as it likes


def code_of(n: int, size: int) -> Array:
    """Positions as unit vectors with ``size`` numbers, (n, size): 2 is the paper's circle, n are the unit vectors.

    In between: frequency 1 and others at random, sine and cosine of each.
    """
    if size >= n:
        return np.eye(n)
    drawn = np.random.default_rng(n).permutation(np.arange(2, (n + 1) // 2))[: size // 2 - 1]
    angles = 2 * np.pi * np.arange(1, n + 1)[:, None] / n * np.concatenate([[1], drawn])
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1) / np.sqrt(size // 2)


def powers(n: int) -> Array:
    """The code with the frequencies 1, 2, 4, ... as unit vectors, (n, d)."""
    code = positional_code(n, "powers").numpy()
    return code / np.linalg.norm(code, axis=1, keepdims=True)


def attend(heads: Array, code: Array) -> Array:
    """Softmax attention of heads (k, d) on positions, (k, n)."""
    return softmax(heads @ code.T, axis=1)


def unit_start(k: int, size: int, generator: np.random.Generator) -> Array:
    """k heads of norm 1 in random directions, (k, d)."""
    heads = generator.normal(size=(k, size))
    return heads / np.linalg.norm(heads, axis=1, keepdims=True)


def through_softmax(attention: Array, slope: Array, code: Array) -> Array:
    """The gradient in the heads (k, d), from the gradient in their attention (k, n)."""
    return (attention * (slope - (attention * slope).sum(1, keepdims=True))) @ code


def fit_moments(counts: Array, examples: int, code: Array, start: Array) -> list[int]:
    r"""Two heads on the empirical risk :math:`1 - \gamma_1^T M \gamma_2`, full batch: their favourite positions.

    M is the matrix of the means of :math:`y z_a z_b`, from the counts of :func:`pair_counts`.
    """
    moments = (1 - 2 * counts / examples).astype(np.float32)
    heads, table = start.astype(np.float32), np.ascontiguousarray(code, dtype=np.float32)
    descend(heads, moments, table, 300)
    return attend(heads, table).argmax(1).tolist()


def plain_descend(heads: Array, moments: Array, code: Array, updates: int) -> None:
    """Updates of two heads (2, d) by Adam with step size 0.3, in place; see :func:`fit_moments`."""
    mean, square = np.zeros(heads.shape), np.zeros(heads.shape)
    for made in range(1, updates + 1):
        attention = attend(heads, code)
        slope = through_softmax(attention, -(attention[::-1] @ moments), code)
        heads -= adam_step(mean, square, slope, made, 0.3, FLOOR)


descend = choose(fused_descend, plain_descend)


def stream_of(n: int, k: int, trial: int, words: int, noise: float = 0.0) -> tuple[set[int], Array, Array]:
    """A random set B, and examples in columns of bits (n, words) with their labels' sign bits (words,).

    Labels are flipped at the rate ``noise``; every rate has streams of its own.
    """
    generator = drawn_by(noise, n, k, trial)
    bits = set(generator.choice(n, k, replace=False).tolist())
    columns = generator.integers(0, 2**64, size=(n, words), dtype=np.uint64)
    flips = np.packbits(generator.random(64 * words if noise else 0) < noise).view(np.uint64)
    odd = np.bitwise_xor.reduce(columns[sorted(bits)])
    return bits, columns, odd ^ flips if noise else odd


def drawn_by(noise: float, *names: int) -> np.random.Generator:
    """The generator of a stream: its own for every n, k, ... and rate of flipped labels."""
    return np.random.default_rng([*names, round(1e6 * noise)] if noise else list(names))


def dearer(noise: float) -> float:
    r"""How many times as many examples a mean needs with labels flipped at the rate p: :math:`(1 - 2p)^{-2}`.

    The signal of a mean of :math:`y\,g(x)` shrinks by 1 - 2p, and its noise stays what it is.
    """
    return (1 - 2 * noise) ** -2


def least(found: Iterable[tuple[int, bool]]) -> float:
    """The least number of examples from which on a learner is right, from (examples, right) in falling order."""
    return min((examples for examples, _ in takewhile(itemgetter(1), found)), default=np.nan)


def prefixes(n: int, trial: int, most: int, noise: float = 0.0) -> tuple[set[int], list[tuple[int, Array]]]:
    """The pair of a stream, and the counts of its first most, ..., 128, 64 examples as (examples, counts)."""
    bits, columns, odd = stream_of(n, 2, trial, most // 64, noise)
    looked = [FIRST << i for i in range((most // FIRST).bit_length())]
    edges = [0, *(examples // 64 for examples in looked)]  # one pass over the examples: the counts of a prefix add up
    parts = [pair_counts(columns[:, a:b], odd[a:b]) for a, b in pairwise(edges)]
    return bits, list(zip(looked, np.cumsum(parts, axis=0), strict=True))[::-1]


def heads_on_pairs(
    n: int, trial: int, code: Array, bits: set[int], seen: Sequence[tuple[int, Array]], noise: float = 0.0
) -> float:
    """Examples from which on two heads name the pair of a stream, looked at where :func:`prefixes` has counts."""
    start = unit_start(2, code.shape[1], drawn_by(noise, n, trial, code.shape[1]))
    return least((examples, set(fit_moments(counts, examples, code, start)) == bits) for examples, counts in seen)


def leading_pair(counts: Array, examples: int) -> set[int]:
    """The two largest entries of the leading eigenvector of the moment matrix, whose diagonal tells nothing."""
    moments = 1 - 2 * counts / examples
    np.fill_diagonal(moments, 0)
    start = np.random.default_rng(0).normal(size=len(moments))
    vector = eigsh(moments, k=1, which="LA", v0=start)[1][:, 0]
    return set(np.argsort(-np.abs(vector))[:2].tolist())


def leading_vector(bits: set[int], seen: Sequence[tuple[int, Array]]) -> float:
    r"""Examples from which on the leading eigenvector of the moment matrix names the pair, looked at as for the heads.

    The pair adds an eigenvalue of 1 to noise of norm :math:`2 \sqrt{n/N}`: of order n examples should do.
    """
    return least((examples, leading_pair(counts, examples) == bits) for examples, counts in seen)


def heads_streaming(n: int, k: int, trial: int, code: Array, most: int, noise: float = 0.0) -> float:
    """Examples that k heads need in one pass of fresh batches: B is named, and still after four more batches.

    A batch is a power of two near n^k / (20 d): its signal and noise then stand in one ratio at every n. The step size
    falls like one over the root of the number of batches, so that noise averages out.
    """
    generator = drawn_by(noise, n, k, trial, code.shape[1])
    bits = set(generator.choice(n, k, replace=False).tolist())
    heads = unit_start(k, code.shape[1], generator)
    mean, square = np.zeros_like(heads), np.zeros_like(heads)
    batch = 1 << max(6, round(np.log2(n**k / (20 * code.shape[1]))))
    places, named = -(-n // 8), 0
    for made in range(1, most // batch + 1):
        x = np.frombuffer(generator.bytes(batch * places), dtype=np.uint8).reshape(batch, places)
        labels = np.ones(batch, dtype=np.float32)
        for bit in bits:
            labels *= SIGNS[x[:, bit // 8], bit % 8]
        if noise:
            labels[generator.random(batch) < noise] *= -1
        attention = attend(heads, code)
        gradient = through_softmax(attention, slopes(x, labels, attention), code)
        heads -= adam_step(mean, square, gradient, made, 0.1 / np.sqrt(made), FLOOR)
        named = named + 1 if set(attend(heads, code).argmax(1).tolist()) == bits else 0
        if named == 5:
            return float((made - 4) * batch)
    return np.nan


def largest_coefficient(n: int, k: int, trial: int, most: int = 256, noise: float = 0.0) -> float:
    """Examples from which on the largest empirical Fourier coefficient of degree k is that of B: all subsets tried."""
    bits, columns, odd = stream_of(n, k, trial, most // 64, noise)
    looked = sorted({int(8 * 1.25**i) for i in range(40) if 8 * 1.25**i <= most}, reverse=True)
    z, y = signs(columns), signs(odd)
    return least((examples, best_subset(z[:, :examples], y[:examples], k) == bits) for examples in looked)


def signs(words: Array) -> Array:
    """Words of 64 bits as signs, +1 for a zero: (..., words) -> (..., 64 words)."""
    bits = np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")
    return 1 - 2 * bits.astype(np.float32)


def best_subset(z: Array, y: Array, k: int) -> set[int]:
    """The k positions whose product correlates best with the labels, by trying all: z (n, examples), y (examples,)."""
    best, place = -1.0, ()
    for first in combinations(range(len(z)), k - 2):
        table = np.abs(np.triu((z * y * z[list(first)].prod(0)) @ z.T, 1))
        if first:
            table[: first[-1] + 1] = 0
        if table.max() > best:
            best, place = table.max(), (*first, *np.unravel_index(table.argmax(), table.shape))
    return set(map(int, place))


def elimination(n: int, k: int, trial: int, most: float = np.inf, noise: float = 0.0) -> float:
    r"""Examples until elimination over GF(2) names B, tried anew on fresh examples until its answer has k positions.

    Drawn from the law of this number, which a test compares with elimination itself. A try asks for examples until
    they have rank n: at rank n - j each raises it with chance :math:`1 - 2^{-j}`. The n that did decide: with one
    wrong label among them, of chance :math:`1 - (1 - p)^n`, the answer is a random set, which hardly ever has k
    positions.
    """
    generator = drawn_by(noise, n, k, trial, 2)
    tries = min(generator.geometric((1 - noise) ** n), most // n + 1) if noise else 1
    seen = n * tries + generator.negative_binomial(tries, 1 - 0.5 ** np.arange(1, n + 1)).sum()
    return float(seen) if seen <= most else np.nan


@kept
def pairs_by_length(lengths: Sequence[int], trials: int, most: int, noises: Sequence[float] = (0.0,)) -> pd.DataFrame:
    """k = 2: what heads on the code of powers, the leading vector, the largest coefficient and elimination need.

    A row for every learner and stream, see :data:`COLUMNS`.
    """
    rows = []
    for n, noise in product(lengths, noises):
        code, limit, few = powers(n), _limit(n, most, noise), _few(256, noise)
        for trial in track(trials, f"pairs, n = {n}, noise {noise:g}"):
            bits, seen = prefixes(n, trial, limit, noise)
            near = [(examples, counts) for examples, counts in seen if examples <= 32 * n * dearer(noise)]
            found = [
                ("heads", code.shape[1], heads_on_pairs(n, trial, code, bits, seen, noise), limit),
                ("leading vector", n, leading_vector(bits, near), near[0][0]),
                ("largest coefficient", 0, largest_coefficient(n, 2, trial, few, noise), few),
                ("elimination", 0, elimination(n, 2, trial, most, noise), most),
            ]
            rows += [(name, 2, n, noise, size, trial, examples, cap) for name, size, examples, cap in found]
    return pd.DataFrame(rows, columns=COLUMNS)


def pairs_to_longest(lengths: Sequence[int], trials: int, longest_trials: int, most: int) -> pd.DataFrame:
    """:func:`pairs_by_length`, with a number of streams of its own for the longest."""
    *short, longest = sorted(lengths)
    parts = [pairs_by_length(short, trials, most)] if short else []
    return pd.concat([*parts, pairs_by_length([longest], longest_trials, most)], ignore_index=True)


@kept
def triples_by_length(
    lengths: Sequence[int], trials: int, most: int, subsets_to: int, noises: Sequence[float] = (0.0,)
) -> pd.DataFrame:
    """k = 3: the same in one pass over fresh batches; all triples are tried up to n = ``subsets_to``."""
    rows = []
    for n, noise in product(lengths, noises):
        code, few = powers(n), _few(64, noise)
        for trial in track(trials, f"triples, n = {n}, noise {noise:g}"):
            found = [
                ("heads", code.shape[1], heads_streaming(n, 3, trial, code, most, noise), most),
                ("elimination", 0, elimination(n, 3, trial, most, noise), most),
            ]
            if n <= subsets_to:
                found.append(("largest coefficient", 0, largest_coefficient(n, 3, trial, few, noise), few))
            rows += [(name, 3, n, noise, size, trial, examples, cap) for name, size, examples, cap in found]
    return pd.DataFrame(rows, columns=COLUMNS)


@kept
def networks_by_length(
    k: int, lengths: Sequence[int], trials: int, neurons: int, steps: int, batch: int, noises: Sequence[float] = (0.0,)
) -> pd.DataFrame:
    """Plain ReLU networks in one pass over fresh batches, until 99 % of inputs are right; the better of two rates."""
    rows = []
    for n, (i, noise) in product(lengths, enumerate(noises)):
        seeds = range(i * trials, (i + 1) * trials)
        entrant = networks.plain_entrant(networks.drawn_tasks(n, k, seeds), neurons, seeds, (0.01, 0.03))
        (made,) = networks.race([entrant], n, steps, batch, noise=noise, label=f"networks, n = {n}, noise {noise:g}")
        needed = np.where(made > 0, made * float(batch), np.nan).reshape(2, trials)
        best = max(needed, key=lambda examples: np.isfinite(examples).sum())
        size = entrant.start.shape[1]
        rows += [("network", k, n, noise, size, trial, found, steps * batch) for trial, found in enumerate(best)]
    return pd.DataFrame(rows, columns=COLUMNS)


@kept
def pairs_by_size(n: int, sizes: Sequence[int], trials: int, most: int) -> pd.DataFrame:
    """k = 2 at one length: what heads need by the number of numbers each has (see :func:`code_of`)."""
    rows = []
    for trial in track(trials, "heads of several sizes"):
        stream = prefixes(n, trial, most)
        for code in (code_of(n, size) for size in sizes):
            rows.append(("heads", 2, n, 0.0, code.shape[1], trial, heads_on_pairs(n, trial, code, *stream), most))
    return pd.DataFrame(rows, columns=COLUMNS)


COLUMNS = ["learner", "k", "n", "noise", "numbers", "trial", "examples", "most"]
"""A learner on a stream: with labels flipped at a rate, with so many numbers (in a head, or in all), the examples it
needs, nan if they are more than ``most``."""


def _limit(n: int, most: int, noise: float) -> int:
    """As many examples as two heads should need with room to spare: a power of two above 32 768 and above n² / 2.

    With wrong labels as many times more as :func:`dearer` says, and never more than ``most``.
    """
    return min(most, 1 << math.ceil(math.log2(max(1 << 15, n * n / 2))) + round(math.log2(dearer(noise))))


def _few(examples: int, noise: float) -> int:
    """The same for the largest coefficient, in whole words of 64."""
    return 64 * math.ceil(examples / 64 * dearer(noise))


def quantile(examples: pd.Series, share: float = 0.5) -> float:
    """The number of examples that is enough for this share of the streams, between those looked at by their logarithm.

    Infinite where so many streams had too few; a stream that was not enough at all is nan.
    """
    levels, counts = np.unique(examples[np.isfinite(examples)], return_counts=True)
    enough = np.cumsum(counts) / len(examples)
    i = int(np.searchsorted(enough, share - 1e-12))
    if i == len(levels):
        return np.inf
    below, before = (levels[i - 1], enough[i - 1]) if i else (levels[0] ** 2 / levels[min(1, len(levels) - 1)], 0.0)
    return float(below * (levels[i] / below) ** ((share - before) / (enough[i] - before)))


def needed(frame: pd.DataFrame, by: Sequence[str] = ("learner", "k", "n")) -> pd.DataFrame:
    """The examples needed in the median stream, with quartiles: columns ``low``, ``median``, ``high``, ``streams``."""

    def three(examples: pd.Series) -> pd.Series:
        quartiles = [quantile(examples, share) for share in (0.25, 0.5, 0.75)]
        return pd.Series([*quartiles, len(examples)], ["low", "median", "high", "streams"])

    found = frame.groupby(list(by), sort=False)["examples"].apply(three).unstack().reset_index()
    return found.sort_values(by[-1], kind="stable", ignore_index=True)


def saved(needed: pd.DataFrame) -> float:
    """How many times as many examples the first row asks for as the last, in the median; nan if one found nothing."""
    first, last = needed["median"].iloc[[0, -1]]
    return float(first / last) if math.isfinite(first + last) else math.nan


def longest(needed: pd.DataFrame, k: int, *learners: str) -> pd.Series:
    """The medians of several learners at the longest n that all of them have, and ``n``; nan without one."""
    medians = needed[needed["k"] == k].pivot(index="n", columns="learner", values="median")
    table = medians.reindex(columns=list(learners)).dropna().reset_index()
    return table.iloc[-1] if len(table) else pd.Series(np.nan, ["n", *learners])


def growth(frame: pd.DataFrame, x: str, times: str | None = None, draws: int = 1000) -> Interval:
    """Power of ``x`` with which the median number of examples grows, with a 95 % interval over resampled streams.

    ``times`` names a column that the examples are multiplied with first. Every value of ``x`` has streams of its own,
    so each is resampled by itself.
    """
    values = frame["examples"] * (frame[times] if times else 1)
    groups = [group.to_numpy() for _, group in values.groupby(frame[x])]
    places, generator = np.log(np.unique(frame[x])), np.random.default_rng(0)

    def slope(chosen: Sequence[Array]) -> float:
        medians = np.log([quantile(group) for group in chosen])
        finite = np.isfinite(medians)
        return float(np.polyfit(places[finite], medians[finite], 1)[0]) if finite.sum() > 1 else np.nan

    value = slope(groups)
    if not math.isfinite(value):
        return Interval(np.nan, np.nan, np.nan)
    drawn = [slope([generator.choice(group, len(group)) for group in groups]) for _ in range(draws)]
    return Interval(value, *map(float, np.nanquantile(drawn, [0.025, 0.975])))


def blind_below(frame: pd.DataFrame) -> pd.DataFrame:
    r"""Fewest examples at which the heads' first gradient can tell the sets apart at all: ``k``, ``n``, ``examples``.

    A number of the gradient is a mean of :math:`y\,g(x)` with :math:`E g^2 \le 1`. By Parseval's identity at most N
    parities correlate with one g by more than :math:`N^{-1/2}`, the noise of a mean over N examples. k heads of d
    numbers ask k d such questions, so below :math:`\binom nk/(kd)` most sets leave no trace: the bound on statistical
    queries, for a single step.
    """
    rows = frame.loc[frame["learner"] == "heads", ["k", "n", "numbers"]].drop_duplicates().sort_values(["k", "n"])
    sets = [math.comb(n, k) for n, k in zip(rows["n"], rows["k"], strict=True)]
    return rows.assign(examples=sets / (rows["k"] * rows["numbers"])).drop(columns="numbers")


def growth_under_noise(frame: pd.DataFrame) -> pd.DataFrame:
    r"""Power of :math:`(1 - 2p)^{-2}` with which every learner's median grows with the rate p of flipped labels.

    Columns ``learner``, ``k``, ``n``, ``power`` with its interval ``low`` to ``high``, and ``found``, the share of the
    rates at which the median stream found B: the others cannot enter the power.
    """
    rows = []
    for names, part in frame.assign(price=dearer(frame["noise"])).groupby(["learner", "k", "n"], sort=False):
        power = growth(part, "price")
        found = np.isfinite(part.groupby("price")["examples"].agg(quantile)).mean()
        rows.append((*names, power.value, power.low, power.high, found))
    return pd.DataFrame(rows, columns=["learner", "k", "n", "power", "low", "high", "found"])


AVERAGING = ("heads", "leading vector", "largest coefficient")
"""The learners that use a label only in means."""


def pay_as_a_mean(powers: pd.DataFrame) -> bool:
    """Whether the powers of :func:`growth_under_noise` agree with 1 for all learners that average.

    Each found B at every rate, its interval meets that from 0.9 to 1.1, and does not reach 0.5 or 1.5.
    """
    powers = powers[powers["learner"].isin(AVERAGING)]
    met = (powers["low"] < 1.1) & (powers["high"] > 0.9) & (powers["low"] > 0.5) & (powers["high"] < 1.5)
    return bool((met & (powers["found"] == 1)).all())


def power_of(powers: pd.DataFrame, learner: str, k: int, n: int) -> Interval:
    """One row of :func:`growth_under_noise`."""
    (row,) = powers.query("learner == @learner and k == @k and n == @n").itertuples()
    return Interval(row.power, row.low, row.high)


def dearer_from(needed: pd.DataFrame, k: int, n: int, learner: str, other: str | None = None) -> float:
    """The least rate of flipped labels from which on a learner is dearer than another, or than all it had, or nan."""
    table = needed.query("k == @k and n == @n").pivot(index="noise", columns="learner", values="median")
    limit = table[other] if other else np.finfo(float).max
    return next((float(rate) for rate in table.index if (table[learner] > limit)[rate:].all()), np.nan)


def judge_price(powers: Mapping[int, Interval]) -> Verdict:
    """That k heads need of the order of n^k/d examples, from the powers that :func:`growth` finds for several k."""
    numbers = {f"k = {k}, power of n": power for k, power in powers.items() if math.isfinite(power.high - power.low)}
    if len(numbers) < len(powers) or any(power.high - power.low >= 1 for power in powers.values()):
        return Verdict("open", "measured", numbers)
    inside = all(power.low < k < power.high for k, power in powers.items())
    return Verdict("holds" if inside else "fails", "measured", numbers)

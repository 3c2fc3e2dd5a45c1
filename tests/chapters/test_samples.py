"""From samples: the bit-parallel loops, the learners on small cases, and how the examples needed are summed up."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
import torch

from parity_lib.attention import positional_code
from parity_lib.chapters import networks, samples
from parity_lib.chapters import samples_kernels as kernels
from parity_lib.evidence import Interval

each_counts = pytest.mark.parametrize("counts", [kernels.plain_pair_counts, kernels.fused_pair_counts])
each_slopes = pytest.mark.parametrize("slopes", [kernels.plain_slopes, kernels.fused_slopes])


@each_counts
@pytest.mark.parametrize("words", [1, 7])
def test_pair_counts_are_the_means_of_products(counts, words):
    generator = np.random.default_rng(words)
    columns = generator.integers(0, 2**64, size=(9, words), dtype=np.uint64)
    odd = generator.integers(0, 2**64, size=words, dtype=np.uint64)
    z, y = samples.signs(columns), samples.signs(odd)
    moments = (z * y) @ z.T / (64 * words)
    assert 1 - 2 * counts(columns, odd) / (64 * words) == pytest.approx(moments, abs=1e-6)


@each_slopes
@pytest.mark.parametrize(("n", "heads"), [(8, 2), (13, 3), (20, 4)])
def test_slopes_are_the_gradient_of_the_product_heads_risk(slopes, n, heads):
    generator = np.random.default_rng(n)
    x = generator.integers(0, 256, size=(300, -(-n // 8)), dtype=np.uint8)
    labels = generator.choice([-1, 1], 300).astype(np.float32)
    attention = generator.dirichlet(np.ones(n), heads)
    leaf = torch.tensor(attention, requires_grad=True)
    z = torch.tensor(kernels.SIGNS[x].reshape(300, -1)[:, :n], dtype=torch.float64)
    (1 - torch.tensor(labels) * (z @ leaf.T).prod(-1)).mean().backward()
    assert slopes(x, labels, attention) == pytest.approx(leaf.grad.numpy(), abs=1e-5)


def test_codes_are_unit_vectors_from_the_circle_to_one_number_a_position():
    assert samples.code_of(20, 2) == pytest.approx(positional_code(20).numpy())
    assert np.array_equal(samples.code_of(12, 12), np.eye(12))
    for code in (samples.code_of(64, 2), samples.code_of(64, 16), samples.powers(64)):
        assert np.linalg.norm(code, axis=1) == pytest.approx(np.ones(64))
        assert (np.argmax(code @ code.T, axis=1) == np.arange(64)).all()  # every position is its own favourite
    assert samples.code_of(64, 16).shape == (64, 16)


def test_a_stream_carries_the_parity_of_its_bits_and_the_noise_asked_for():
    bits, columns, odd = samples.stream_of(30, 3, 5, 200)
    assert np.array_equal(samples.signs(odd), samples.signs(columns[sorted(bits)]).prod(0))
    _, other, _ = samples.stream_of(30, 3, 5, 200, noise=0.2)
    bits, columns, noisy = samples.stream_of(30, 3, 5, 200, noise=0.1)
    wrong = samples.signs(noisy) != samples.signs(columns[sorted(bits)]).prod(0)
    assert wrong.mean() == pytest.approx(0.1, abs=0.01) and not np.array_equal(columns, other)


def test_the_counts_of_a_prefix_are_those_of_its_examples():
    bits, seen = samples.prefixes(20, 3, 512, noise=0.2)
    same, columns, odd = samples.stream_of(20, 2, 3, 8, noise=0.2)
    assert bits == same and [examples for examples, _ in seen] == [512, 256, 128, 64]
    for examples, counts in seen:
        assert np.array_equal(counts, kernels.plain_pair_counts(columns[:, : examples // 64], odd[: examples // 64]))


def test_two_heads_take_the_same_updates_fused_and_plain_and_do_not_see_the_scale_of_the_moments():
    generator = np.random.default_rng(4)
    code, moments = samples.powers(24), generator.normal(size=(24, 24))
    start, moments = samples.unit_start(2, code.shape[1], generator), moments + moments.T
    found = [start.copy() for _ in range(3)]
    samples.plain_descend(found[0], moments, code, 40)
    kernels.fused_descend(found[1], moments, code, 40)
    samples.plain_descend(found[2], 0.2 * moments, code, 40)
    assert found[1] == pytest.approx(found[0], abs=1e-10) and found[2] == pytest.approx(found[0], abs=1e-10)
    assert np.abs(found[0] - start).max() > 1


def test_wrong_labels_shrink_the_signal_of_a_mean_and_leave_its_noise():
    assert samples.dearer(0.0) == 1 and samples.dearer(0.4) == pytest.approx(25)
    moments, pairs = [], []
    for trial in range(60):
        bits, ((_, counts), *_) = samples.prefixes(12, trial, 1024, noise=0.3)
        table = 1 - 2 * counts / 1024
        pairs.append(table[tuple(sorted(bits))])
        moments += [table[a, b] for a, b in combinations(range(12), 2) if {a, b} != bits]
    assert np.mean(pairs) == pytest.approx(1 - 2 * 0.3, abs=0.02)
    assert np.var(moments) == pytest.approx(1 / 1024, rel=0.1)


def test_the_least_number_is_where_a_learner_stays_right():
    assert samples.least([(8, True), (4, True), (2, False), (1, True)]) == 4
    assert np.isnan(samples.least([(8, False), (4, True)]))


def test_heads_on_exact_moments_find_their_pair():
    n, pair = 30, {4, 21}
    counts = np.full((n, n), 500)
    counts[[4, 21], [21, 4]] = 0
    start = samples.unit_start(2, 8, np.random.default_rng(1))
    assert set(samples.fit_moments(counts, 1000, samples.powers(n)[:, :8], start)) == pair


def test_the_leading_vector_of_the_moments_names_the_pair_from_about_n_examples():
    z = np.random.default_rng(0).choice([-1, 1], (40, 4000))
    counts = ((1 - (z * z[3] * z[17]) @ z.T / 4000) / 2 * 4000).round().astype(int)
    assert samples.leading_pair(counts, 4000) == {3, 17}
    needed = [samples.leading_vector(*samples.prefixes(128, trial, 4096)) for trial in range(8)]
    assert 64 <= np.median(needed) <= 512


def test_below_the_bound_few_parities_show_in_a_first_gradient():
    frame = pd.DataFrame([("heads", 2, 10, 4), ("heads", 2, 10, 4), ("network", 2, 10, 9), ("heads", 3, 12, 6)])
    bound = samples.blind_below(frame.set_axis(["learner", "k", "n", "numbers"], axis=1))
    assert bound.to_numpy().tolist() == [[2, 10, 45 / 8], [3, 12, 220 / 18]]
    # Parseval: however a question g with E g² = 1 is chosen, the squares of its correlations with parities sum to 1
    cube = np.array(list(product([-1.0, 1.0], repeat=8)))
    asked = np.random.default_rng(1).normal(size=256)
    asked /= np.sqrt((asked**2).mean())
    seen = [np.mean(asked * cube[:, list(pair)].prod(1)) ** 2 for pair in combinations(range(8), 2)]
    assert sum(seen) <= 1 and all(sum(square > 1 / examples for square in seen) <= examples for examples in (2, 5, 20))


def test_every_learner_finds_a_small_set():
    code = samples.powers(24)
    for noise in (0.0, 0.2):
        assert samples.heads_on_pairs(24, 1, code, *samples.prefixes(24, 1, 1 << 13, noise), noise) <= 1 << 13
        assert samples.largest_coefficient(20, 2, 0, 256, noise) < 256
    assert samples.heads_streaming(16, 3, 0, samples.powers(16), 1_000_000, noise=0.2) <= 1_000_000
    assert samples.heads_streaming(16, 3, 0, samples.powers(16), 400_000) <= 400_000
    assert samples.largest_coefficient(20, 3, 0) < 64
    assert np.isnan(samples.heads_streaming(200, 3, 0, samples.powers(200), 8192))


@pytest.mark.parametrize("k", [2, 3])
def test_the_best_subset_is_the_largest_coefficient(k):
    generator = np.random.default_rng(k)
    z = generator.choice([-1.0, 1.0], (9, 60))
    y = z[[1, 4, 7][:k]].prod(0) * generator.choice([1.0, -1.0], 60, p=[0.9, 0.1])
    assert samples.best_subset(z, y, k) == set([1, 4, 7][:k])


def eliminated(n, k, noise, generator):
    """Elimination itself, on labels that are wrong at a rate: attempts until its answer has k positions, and examples.

    A contradiction shows only in examples that are not needed, so an attempt gets just those that raise the rank.
    """
    bits, seen = generator.permutation(n)[:k], 0
    while True:
        pivots, kept = {}, []
        while len(kept) < n:
            row = generator.integers(0, 2, n)
            value, seen = int("".join(map(str, row)), 2), seen + 1
            while value and (place := value.bit_length()) in pivots:
                value ^= pivots[place]
            if value:
                pivots[place] = value
                kept.append(row)
        rows = np.array(kept)
        labels = (1 - 2 * rows[:, bits]).prod(1) * generator.choice([-1, 1], n, p=[noise, 1 - noise])
        found = networks.eliminate(torch.from_numpy(rows), torch.from_numpy(labels))
        if len(found) == k:
            assert set(found) == set((bits + 1).tolist())
            return seen


@pytest.mark.parametrize("noise", [0.0, 0.04])
def test_the_law_of_elimination_is_that_of_elimination_itself(noise):
    generator = np.random.default_rng(0)
    literal = np.array([eliminated(24, 2, noise, generator) for _ in range(60)])
    law = np.array([samples.elimination(24, 2, trial, noise=noise) for trial in range(4000)])
    spread = law.std() / len(literal) ** 0.5
    assert abs(literal.mean() - law.mean()) < 4 * spread and law.min() >= 24
    # an attempt asks for n + sum of 1 / (2^j - 1) examples in the mean, and there are (1 - p)^-n attempts
    mean = (24 + sum(1 / (2**j - 1) for j in range(1, 25))) * (1 - noise) ** -24
    assert law.mean() == pytest.approx(mean, rel=0.06)


def test_elimination_ends_without_an_answer_where_labels_are_too_wrong():
    assert np.isnan(samples.elimination(200, 2, 0, most=1e6, noise=0.4))
    assert samples.elimination(200, 2, 0, most=1e6) < 220


def test_quantiles_lie_between_the_numbers_looked_at():
    assert samples.quantile(np.array([64.0, 128, 128, 256])) == pytest.approx(64 * 2**0.5)
    assert samples.quantile(np.array([100.0])) == 100
    assert samples.quantile(np.array([100.0, np.nan, np.nan])) == np.inf
    frame = pd.DataFrame({"learner": "heads", "k": 2, "n": 9, "examples": [64.0, 128, 128, np.nan]})
    row = samples.needed(frame).iloc[0]
    assert row["low"] == pytest.approx(64) and row["streams"] == 4 and row["high"] == pytest.approx(128)


def test_learners_are_compared_at_the_longest_length_that_all_have():
    rows = [("heads", 2, 10, 5.0), ("heads", 2, 20, 9.0), ("network", 2, 10, 7.0), ("heads", 3, 10, 8.0)]
    table = pd.DataFrame(rows, columns=["learner", "k", "n", "median"])
    assert samples.longest(table, 2, "heads", "network").to_dict() == {"n": 10, "heads": 5, "network": 7}
    assert samples.longest(table, 3, "heads", "network").isna().all()


def test_growth_is_the_power_of_the_medians():
    covered = 0
    for seed in range(20):
        generator = np.random.default_rng(seed)
        rows = [(n, n // 10, 3.0 * n**2 * 2 ** generator.normal()) for n in (20, 40, 80, 160) for _ in range(40)]
        frame = pd.DataFrame(rows, columns=["n", "numbers", "examples"])
        found = samples.growth(frame, "n", draws=60)
        covered += found.low < 2 < found.high
        assert found.value == pytest.approx(2, abs=0.6)
    assert covered >= 15
    assert samples.growth(frame, "n", "numbers", draws=20).value == pytest.approx(found.value + 1, abs=0.05)


def test_the_frames_have_a_row_for_every_learner_and_stream():
    pairs = samples.pairs_by_length([20, 24], 2, 1 << 12, [0.0, 0.3])
    assert pairs.groupby(["learner", "n", "noise"]).size().tolist() == [2] * 16
    assert pairs.columns.tolist() == samples.COLUMNS and not (pairs["examples"] > pairs["most"]).any()
    clean = samples.pairs_by_length([20, 24], 2, 1 << 12)
    assert pairs.query("noise == 0").reset_index(drop=True).equals(clean)  # at rate 0 they are the same streams
    triples = samples.triples_by_length([12], 1, 8192, 12, [0.0, 0.1])
    assert triples["learner"].tolist() == 2 * ["heads", "elimination", "largest coefficient"]
    sizes = samples.pairs_by_size(20, [2, 20], 2, 1 << 12)
    assert sizes["numbers"].tolist() == [2, 20, 2, 20]
    nets = samples.networks_by_length(2, [10], 2, 8, 50, 64, [0.0, 0.4])
    assert len(nets) == 4 and (nets["examples"].isna() | (nets["examples"] % 64 == 0)).all()


def noisy(power, learner="heads", lost=()):
    """Streams whose examples grow like this power of (1 - 2p)^-2, none found at the rates ``lost``."""
    generator = np.random.default_rng(0)
    rows = [
        (learner, 2, 50, noise, np.nan if noise in lost else 400 * samples.dearer(noise) ** power * 2**step)
        for noise in (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)
        for step in 0.5 * generator.normal(size=40)
    ]
    return pd.DataFrame(rows, columns=["learner", "k", "n", "noise", "examples"])


@pytest.mark.parametrize(("power", "lost", "agrees"), [(1, (), True), (1, (0.4,), False), (0.7, (), False)])
def test_the_growth_with_noise_is_compared_with_that_of_a_mean(power, lost, agrees):
    powers = samples.growth_under_noise(pd.concat([noisy(power, lost=lost), noisy(9, "elimination", (0.3, 0.4))]))
    found = samples.power_of(powers, "heads", 2, 50)
    assert found.value == pytest.approx(power, abs=0.1) and found.low < found.value < found.high
    assert samples.pay_as_a_mean(powers) == agrees
    assert powers["found"].tolist() == [1 - len(lost) / 6, 4 / 6]


def test_a_learner_that_never_finds_its_bits_has_no_power():
    powers = samples.growth_under_noise(noisy(1, lost=(0.0, 0.05, 0.1, 0.2, 0.3, 0.4)))
    assert powers[["power", "low", "high"]].isna().all(axis=None) and not samples.pay_as_a_mean(powers)


def test_a_rival_is_dearer_from_the_rate_on_where_it_stays_so():
    heads = noisy(1).groupby("noise")["examples"].median()
    rows = [("heads", 2, 50, rate, value) for rate, value in heads.items()]
    rival = (1e9, 1, 1e9, 1e9, np.inf, np.inf)
    rows += [("elimination", 2, 50, rate, value) for rate, value in zip(heads.index, rival, strict=True)]
    table = pd.DataFrame(rows, columns=["learner", "k", "n", "noise", "median"])
    assert samples.dearer_from(table, 2, 50, "elimination", "heads") == 0.1
    assert samples.dearer_from(table, 2, 50, "elimination") == 0.3
    assert np.isnan(samples.dearer_from(table, 2, 50, "heads"))


@pytest.mark.parametrize(
    ("low", "high", "as_stated"),
    [(1.8, 2.4, "holds"), (2.1, 2.4, "fails"), (1.2, 2.9, "open"), (np.nan, np.nan, "open")],
)
def test_the_price_is_judged_by_the_interval_of_its_power(low, high, as_stated):
    verdict = samples.judge_price({2: Interval(2.0, low, high), 3: Interval(3.0, 2.7, 3.2)})
    assert verdict.as_stated == as_stated and "k = 3, power of n" in verdict.numbers


@pytest.mark.parametrize(("lengths", "streams"), [([12], {12: 1}), ([16, 12], {12: 2, 16: 1})])
def test_the_longest_inputs_have_streams_of_their_own_also_where_there_are_no_others(lengths, streams):
    found = samples.pairs_to_longest(lengths, 2, 1, 1024)
    assert found.groupby("n")["trial"].nunique().to_dict() == streams and found["n"].dtype == int


@pytest.mark.parametrize(("medians", "factor"), [([8.0, 4.0, 2.0], 4.0), ([np.inf, np.inf], np.nan), ([8.0], 1.0)])
def test_what_numbers_save_is_the_first_median_over_the_last(medians, factor):
    assert samples.saved(pd.DataFrame({"median": medians})) == pytest.approx(factor, nan_ok=True)

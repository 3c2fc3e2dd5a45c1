"""The propositions on sparse XOR, step by step: every equality on small cases, every inequality against measurement."""

import math
import time

import numpy as np
import pytest
import torch
from scipy.stats import binom, hypergeom

from parity_lib.chapters import store
from parity_lib.chapters import xor_theorem as theorem
from parity_lib.chapters.xor import (
    SparseXOR,
    default_width,
    draw,
    majority,
    population_gradient,
    positional_embedding,
    worst_loss,
)
from parity_lib.chapters.xor_stream import stream_gradients

SMALL = [(16, 6, 8.0), (32, 9, 11.0), (64, 36, 16.6)]


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(store, "enabled", False)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def after_step(task, table, strength):
    """Queries after the step of the propositions, whose size is (d - 1) strength / M."""
    zero = torch.zeros(2, table.shape[1], dtype=torch.float64)
    return -(task.d - 1) * strength / majority(task.d) * population_gradient(task, table, zero)


# Proposition 1


@pytest.mark.parametrize("d", [4, 8, 12])
def test_the_moments_behind_the_step(d):
    """E|S|^3 = 2d E|S|, and the third Fourier coefficient of the majority is -M/(d - 1)."""
    x = SparseXOR(d, 1, 2).cube()
    total = x.sum(-1)
    assert float((total.abs() ** 3).mean()) == pytest.approx(2 * d * float(total.abs().mean()))
    third = float((x[:, :3].prod(-1) * total.sign()).mean())
    assert third == pytest.approx(-majority(d) / (d - 1))
    assert float((total == 0).double().mean()) == pytest.approx(majority(d))


@pytest.mark.parametrize(("d", "m", "strength"), SMALL)
def test_step_1_the_query_is_the_pair_and_its_two_scores_are_equal(d, m, strength):
    task, table, _ = draw(d, "characters", 3, m)
    i, j = task.pair
    queries = after_step(task, table, strength)
    assert torch.allclose(queries, strength * (table[i] + table[j]).expand(2, -1), atol=1e-12)
    scores = queries[0] @ table.T
    assert abs(float(scores[i] - scores[j])) < 1e-12


@pytest.mark.parametrize(("d", "m", "strength"), SMALL)
def test_step_2_a_gap_is_a_sum_of_terms_that_are_0_or_4(d, m, strength):
    task, table, _ = draw(d, "characters", 4, m)
    i, j = task.pair
    scores = after_step(task, table, strength)[0] @ table.T
    signs = (table * math.sqrt(m)).round()
    for k in set(range(d)) - {i, j}:
        terms = (1 - signs[i] * signs[k]) * (1 - signs[j] * signs[k])
        assert set(terms.tolist()) <= {0.0, 4.0}
        assert float(scores[i] - scores[k]) == pytest.approx(strength / m * float(terms.sum()), abs=1e-11)


@pytest.mark.parametrize("d", [8, 16, 64])
def test_step_3_a_quarter_of_all_characters_count_for_every_other_position(d):
    signs = positional_embedding("characters", d, d - 1, seeded(0)).mul(math.sqrt(d - 1)).round()
    for i, j, k in ((0, 1, 2), (3, 5, 6), (1, 4, 7), (2, d - 1, 0)):
        assert int(((signs[i] * signs[k] == -1) & (signs[j] * signs[k] == -1)).sum()) == d // 4


@pytest.mark.parametrize("rest_scale", [0.01, 0.3, 1.0, 3.0])
def test_step_4_the_worst_loss_follows_from_the_rest_alone(rest_scale):
    task = SparseXOR(10, 2, 7)
    scores = torch.zeros(10, dtype=torch.float64)
    others = torch.rand(8, generator=seeded(1), dtype=torch.float64) * rest_scale / 4
    keep = [k for k in range(10) if k not in task.pair]
    scores[keep] = others.log()
    expected = theorem.loss_of_rest(np.array(float(others.sum())))
    found = float(worst_loss(task, scores.softmax(-1).expand(2, -1)))
    assert found <= expected + 1e-12
    if float(others.sum()) <= 2:
        assert found == pytest.approx(float(expected), rel=1e-12)
    assert theorem.loss_of_rest(np.array(theorem.REST)) == pytest.approx(0.05)
    assert float(expected) <= 2 * float(others.sum())


@pytest.mark.parametrize(("d", "m", "x"), [(16, 6, 0.5), (64, 36, 1.8), (256, 64, 2.0), (1024, 30, 0.1)])
def test_step_5_drawing_without_replacement_is_below_drawing_with(d, m, x):
    counts = np.arange(m + 1)
    without = (hypergeom.pmf(counts, d - 1, d // 4, m) * np.exp(-x * counts)).sum()
    with_ = (binom.pmf(counts, m, d / 4 / (d - 1)) * np.exp(-x * counts)).sum()
    assert without <= with_
    assert theorem.loss_bound(d, m, x * m / 4) == pytest.approx(2 * (d - 2) * with_)
    assert theorem.mean_rest(d, m, x * m / 4) == pytest.approx((d - 2) * without)


def test_the_exact_mean_of_the_rest_is_that_of_all_embeddings():
    """All choices of 3 of the 7 characters at d = 8."""
    from itertools import combinations

    overlap = theorem.overlaps(np.array(list(combinations(range(1, 8), 3))), 8)
    assert theorem.rests_of_all_pairs(overlap, 2.5).mean() == pytest.approx(theorem.mean_rest(8, 3, 2.5), rel=1e-12)


@pytest.mark.parametrize("d", [64, 1024, 2**14, 2**20, 2**30])
@pytest.mark.parametrize("factor", [2.0, 4.0, 8.0])
def test_the_corollary_is_above_the_bound_and_falls_like_a_power(d, factor):
    m, strength = default_width(d), factor * math.log(d)
    assert theorem.loss_bound(d, m, strength) <= theorem.power_law(d, m, strength)
    if factor == 4.0:
        assert theorem.power_law(d, m, strength) == pytest.approx(
            2 * math.exp(32 * math.log(2) ** 2) * d**-3.0, rel=1e-6
        )


def test_the_local_exponent_tends_to_minus_three():
    exponents = [theorem.local_exponent(2**r, 4.0) for r in (10, 13, 16, 24, 40, 200)]
    assert exponents == sorted(exponents, reverse=True)
    assert exponents[0] < -1.5 and exponents[-1] == pytest.approx(-3, abs=0.15)


# All pairs


@pytest.mark.parametrize(("d", "m", "strength"), SMALL)
def test_all_pairs_at_once_equal_one_pair_at_a_time(d, m, strength):
    generator = seeded(7)
    table = positional_embedding("characters", d, m, generator)
    gram = (table @ table.T).numpy()
    by_xor = theorem.rests_of_all_pairs(gram[0], strength)
    by_gram = theorem.rests_of_all_pairs_by_gram(table, strength)
    rows, columns = np.triu_indices(d, 1)
    assert np.allclose(by_gram, by_xor[(rows ^ columns) - 1], rtol=1e-9)
    for i, j in ((0, 1), (3, 9), (d - 1, 2)):
        task = SparseXOR(d, i + 1, j + 1)
        found = float(worst_loss(task, (after_step(task, table, strength) @ table.T).softmax(-1)))
        assert found == pytest.approx(float(theorem.loss_of_rest(by_xor[(i ^ j) - 1])), rel=1e-9)


def test_overlaps_are_those_of_the_embedding():
    chosen = np.array([3, 5, 6, 12])
    overlap = theorem.overlaps(chosen, 16)
    for t in range(16):
        assert overlap[t] == pytest.approx(np.mean([(-1) ** ((a & t).bit_count()) for a in chosen.tolist()]))


def test_all_pairs_of_8192_positions_take_a_second_and_are_exact_to_rounding():
    d, m, strength = 8192, 169, 4 * math.log(8192)
    chosen = np.random.default_rng(1).permutation(d - 1)[:m] + 1
    begun = time.process_time()
    overlap = theorem.overlaps(chosen, d)
    rests = theorem.rests_of_all_pairs(overlap, strength)
    assert time.process_time() - begun < 1
    positions = np.arange(d)
    for c in (1, 77, 4096, d - 1, int(rests.argmax()) + 1):
        others = (positions != 0) & (positions != c)
        gaps = strength * (1 + overlap[c] - overlap[positions] - overlap[positions ^ c])
        assert rests[c - 1] == pytest.approx(np.exp(-gaps[others]).sum(), rel=1e-9)


def test_measured_means_agree_with_the_exact_law_and_stay_below_the_bound():
    frame = theorem.against_bound(theorem.all_pairs([64, 256, 1024], [4.0], 600))
    assert (frame.measured < frame.bound).all()
    assert (np.abs(frame.measured - frame.exact) < 2 * (frame.high - frame.low)).all()


def test_some_embeddings_of_medium_length_have_a_failing_pair_and_twice_the_step_mends_it():
    frame = theorem.all_pairs([64, 128, 256], [4.0, 8.0], 500).groupby(["factor", "d"]).failed.mean()
    assert frame[4.0].between(0.03, 0.12).all()
    assert (frame[8.0] < 0.015).all()


@pytest.mark.parametrize("factor", [2.0, 4.0, 8.0])
@pytest.mark.parametrize("d", [16, 64, 256])
def test_proposition_2_is_above_the_measured_share(d, factor):
    frame = theorem.all_pairs([d], [factor], 400)
    m, strength = default_width(d), factor * math.log(d)
    assert frame.failed.mean() <= theorem.failure_bound(d, m, strength) + 0.03
    one = theorem.failure_bound(d, m, strength, all_pairs=False)
    assert frame.failing.mean() <= one + 0.01
    assert theorem.failure_bound(d, m, strength) == pytest.approx((d - 1) * one)
    assert one <= theorem.loss_bound(d, m, strength) / theorem.SOLVED  # never worse than Markov's inequality


def test_balanced_positions_pass_for_all_pairs_with_the_larger_step():
    frame = theorem.all_pairs_any_length([100], [4.0, 8.0], 4).groupby("factor").worst_loss.max()
    assert frame[8.0] < 0.05 < 2


def test_the_least_width_is_the_least_and_falls_towards_its_limit():
    for d in (64, 1024, 16384):
        for sharp in (False, True):
            m = theorem.least_width(d, 4.0, sharp=sharp)
            bounds = [
                theorem.failure_bound(d, n, 4 * math.log(d), all_pairs=False)
                if sharp
                else theorem.loss_bound(d, n, 4 * math.log(d)) / theorem.SOLVED
                for n in (m - 1, m)
            ]
            assert bounds[1] <= 0.1 < bounds[0]
    closed = [theorem.least_width(d, 4.0) / math.log2(d) for d in (64, 256, 1024, 4096, 16384)]
    assert closed == sorted(closed, reverse=True)
    assert [round(value, 1) for value in closed] == [8.0, 6.1, 5.2, 4.7, 4.3]


def test_a_huge_step_needs_the_logarithm_to_base_four_thirds():
    """At infinite strength the bound is 2 (d - 2) (1 - p)^m."""
    low, high = (theorem.least_width(2**r, 1000.0) for r in (16, 24))
    assert (high - low) / 8 == pytest.approx(1 / math.log2(4 / 3), rel=0.05)


def test_measured_widths_lie_below_the_proved_ones():
    frame = theorem.least_widths([64, 256], 4.0, 8).pivot(index="d", columns="source", values="m")
    assert (frame["measured"] <= frame["sharp"]).all() and (frame["sharp"] <= frame["closed form"]).all()


# Samples


def contributions(task, table):
    """What each of all inputs adds to every score, for the tent from zero, (2^d, d)."""
    x = task.cube()
    return (x[:, task.pair].prod(-1) * x.sum(-1).sign())[:, None] * (x @ (table @ table.T))


@pytest.mark.parametrize(
    ("d", "m", "name"), [(8, 4, "characters"), (8, 7, "characters"), (16, 10, "characters"), (8, 8, "one_hot")]
)
def test_the_moments_of_the_gaps_are_those_of_all_inputs(d, m, name):
    task = SparseXOR(d, 2, 5)
    table = positional_embedding(name, d, m, seeded(2))
    gaps = theorem.sample_gaps(task, table)
    added = contributions(task, table)
    others = [k for k in range(d) if k not in task.pair]
    for row, h in enumerate(task.pair):
        samples = added[:, [h]] - added[:, others]
        assert torch.allclose(samples.mean(0), gaps.mean[row], atol=1e-12)
        assert torch.allclose(samples.var(0, correction=0), gaps.variance[row], atol=1e-12)
        assert ((gaps.mean[row] - samples.min(0).values) <= gaps.reach[row] + 1e-9).all()


def noise_per_sample(d: int, m: int) -> float:
    r"""Standard deviation of one score from one sample against a signal of 1, exactly, for even d.

    :math:`\sqrt{(d/m)(1 - M d/(d-1))}/(M d/(d-1))`, about :math:`\sqrt{\pi d^2/(2m)}`.
    """
    signal = majority(d) * d / (d - 1)
    return math.sqrt(d / m * (1 - signal)) / signal


@pytest.mark.parametrize("m", [4, 7])
def test_the_position_is_counted_once_in_the_noise(m):
    task = SparseXOR(8, 1, 6)
    table = positional_embedding("characters", 8, m, seeded(3))
    added = contributions(task, table)
    signal = majority(8) * 8 / 7
    assert noise_per_sample(8, m) == pytest.approx(float(added[:, 3].square().mean().sqrt()) / signal)


@pytest.mark.parametrize(("d", "m"), [(64, 36), (256, 64), (1024, 100)])
def test_the_noise_is_the_square_root_of_half_pi_d_squared_over_m_and_the_law_follows(d, m):
    noise = noise_per_sample(d, m)
    assert noise == pytest.approx(math.sqrt(math.pi * d * d / (2 * m)), rel=0.09)
    assert theorem.sample_law(d, m) == pytest.approx(4 * math.log(d) * math.pi * d * d / (2 * m))


def test_the_law_is_the_leading_order_of_the_proposition():
    """One-hot positions: the proved number divided by the law tends to 1, as ln(4d)/ln d does."""
    ratios = []
    for d in (256, 2**14):
        signal = majority(d) * d / (d - 1)
        gaps = theorem.Gaps(
            *(torch.full((2, 1), value, dtype=torch.float64) for value in (signal, 2 * (1 - signal), 2 + signal))
        )
        n = theorem.sample_law(d, d) * math.log(4 * d) / math.log(d)
        ratios.append(theorem.recovery_failure(gaps, n) * (d - 2))
    assert all(0.1 < ratio < 1.5 for ratio in ratios)


def test_proposition_3_is_above_the_measured_share_of_failures():
    d, trials = 16, 300
    task, table, generator = draw(d, "characters", 5, 12)
    gaps = theorem.sample_gaps(task, table)
    uniform = [(torch.full((2, d), 1 / d, dtype=torch.float64), "tent")]
    for n in (200, 600, 1200):
        failures = 0
        for _ in range(trials):
            *_, (_, gradient) = stream_gradients(task, uniform, [n], generator)
            best = (-(gradient[0, 0] @ table) @ table.T).topk(2).indices
            failures += sorted(best.tolist()) != sorted(task.pair)
        assert failures / trials <= theorem.recovery_failure(gaps, n) + 0.02
    assert theorem.recovery_failure(gaps, 3000) < 0.05


def test_the_tie_of_the_pair_breaks_as_derived():
    """From n samples the two scores of the pair differ with standard deviation strength * sqrt(pi d^2 / (m n))."""
    d, m, n, strength = 64, 36, 4000, 1.0
    differences = []
    for seed in range(200):
        task, table, generator = draw(d, "characters", seed, m)
        i, j = task.pair
        uniform = [(torch.full((2, d), 1 / d, dtype=torch.float64), "tent")]
        *_, (_, gradient) = stream_gradients(task, uniform, [n], generator)
        scores = -(gradient[0, 0] @ table) @ table.T * strength / majority(d)
        differences.append(float(scores[i] - scores[j]))
    assert np.std(differences) == pytest.approx(strength * math.sqrt(math.pi * d * d / (m * n)), rel=0.15)


def test_proved_samples_are_where_the_proposition_says_one_half():
    frame = theorem.proved_samples([32], ["characters", "one_hot"], 2)
    for row in frame.itertuples():
        task, table, _ = draw(32, row.embedding, row.seed)
        gaps = theorem.sample_gaps(task, table)
        assert theorem.recovery_failure(gaps, row.proved) == pytest.approx(0.5, rel=1e-6)

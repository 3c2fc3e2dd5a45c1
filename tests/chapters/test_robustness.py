"""Sets of bits, success over pairs, the price of a gradient, and reading B off the heads."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from parity_lib import RECIPES, Parity, PopulationRisk, hard_attention, soft_attention, train, wilson

from parity_lib.chapters import robustness as studies
from parity_lib.attention import aligned_directions, head_matrices
from parity_lib.sampled_heads import SampledAttentionRisk
from parity_lib.training import Run, initial_directions

SIGNED = RECIPES["figure2-signed"]


def run_of(tasks, directions, risk=None, **settings):
    """A run of given directions (frames, rows, heads, 2), one frame per 10 updates."""
    frames, rows = directions.shape[:2]
    recipe = replace(SIGNED, epochs=max(1, frames - 1), updates_per_epoch=10, **settings)
    risk = torch.zeros(frames, rows, dtype=torch.float64) if risk is None else risk
    return Run(tuple(tasks), recipe, tuple(range(rows)), directions, risk)


@pytest.mark.parametrize(
    ("bits", "distance"),
    [((8, 11, 18), 3), ((5, 16, 17), 1), ((1, 10, 20), 1), ((2, 10, 20), 2), ((7,), 20), ((1, 11), 10)],
)
def test_distance_is_measured_around_the_circle(bits, distance):
    assert studies.closest_distance(Parity(20, bits)) == distance


def test_drawn_sets_have_the_wanted_distance_and_repeat_with_their_seed():
    for distance in (1, 2, 5):
        tasks = studies.sets_at_distance(15, 3, distance, 10, seed=4)
        assert len(tasks) == 10
        assert {studies.closest_distance(task) for task in tasks} == {distance}
        assert tasks == studies.sets_at_distance(15, 3, distance, 10, seed=4)
    assert tasks != studies.sets_at_distance(15, 3, 5, 10, seed=5)


@pytest.mark.parametrize("count", [6, 7])
def test_half_of_the_mixed_sets_have_cyclic_neighbours(count):
    tasks = studies.mixed_sets(12, 3, count, seed=1)
    assert [bool(task.neighbours) for task in tasks] == [bool(i % 2) for i in range(count)]
    assert len(studies.mixed_sets(12, 1, count, seed=1)) == count


def test_success_counts_the_chosen_rows():
    tasks = [Parity(9, (2, 5)), Parity(9, (2, 6))]
    heads = 100 * aligned_directions((2, 5), 9).expand(1, 2, 2, 2)
    run = run_of(tasks, heads)
    assert studies.success(run).committed == wilson(1, 2)
    assert studies.success(run, [0]).hard == wilson(1, 1)
    soft = run_of(tasks, heads / 100)
    assert (studies.success(soft, [0]).hard, studies.success(soft, [0]).committed) == (wilson(1, 1), wilson(0, 1))


def test_the_best_start_is_the_one_of_least_final_risk():
    risk = torch.tensor([[0.0, 9, 9, 9, 0, 9], [3.0, 1, 2, 6, 5, 4]], dtype=torch.float64)
    run = run_of([Parity(9, (2, 5))], initial_directions(range(6), 2).expand(2, -1, -1, -1), risk)
    assert studies.best_of(run, 3) == [1, 5]
    with pytest.raises(ValueError, match="6 rows do not divide into groups of 4 starts"):
        studies.best_of(run, 4)


def test_settling_is_the_first_update_after_which_the_argmax_stays_right():
    right, wrong = aligned_directions((2, 5), 9), aligned_directions((2, 7), 9)
    columns = [[wrong, right, wrong, right], [right] * 4, [right, right, right, wrong]]
    run = run_of([Parity(9, (2, 5))], torch.stack([torch.stack(c) for c in columns], dim=1))
    assert studies.settling_update(run).tolist() == [30, 0, math.inf]


def test_heads_on_the_bits_close_the_risk_and_uniform_attention_hardly_any_of_it():
    task = Parity(10, (2, 5, 8))
    sharp = 1000 * aligned_directions(task.bits, 10)
    directions = torch.stack([sharp, 0 * sharp]).unsqueeze(0)
    risk = PopulationRisk(task, SIGNED.loss)(directions)
    closed = studies.share_closed(run_of([task], directions, risk))
    assert closed[0] == pytest.approx(1, abs=1e-9)
    assert abs(float(closed[1])) < 0.05


def test_the_price_of_a_gradient_is_its_variance_over_its_squared_mean():
    """Against the product head's gradient on each of the 2^n inputs."""
    task = Parity(7, (1, 4, 6))
    heads = initial_directions([3], 3)
    x = task.cube()

    def loss(directions, bits, label):
        read = soft_attention(directions, 7, 0.8) @ bits
        return 1 - label * (1 - 2 * read).prod()

    rows = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(heads[0], x, task.labels(x)).flatten(1)
    expected = float((rows - rows.mean(0)).square().sum(1).mean() / rows.mean(0).square().sum())
    generator = torch.Generator().manual_seed(0)
    found = studies.examples_for_a_gradient(task, heads, 0.8, "circle", 200_000, generator)
    assert float(found) == pytest.approx(expected, rel=0.02)


def test_the_first_gradient_of_the_permanent_shrinks_as_n_to_the_minus_k():
    lengths, k = (100, 200, 400, 800), 2
    norms = []
    for n in lengths:
        tasks = studies.draw_sets(n, k, 32, seed=0)
        risk = SampledAttentionRisk(tasks, "linear")
        norms.append(studies.start_gradients(risk, initial_directions(range(32), k)).numpy())
    exponent = studies.fitted_exponent(lengths, np.array(norms))
    assert exponent.value == pytest.approx(-k, abs=0.35)
    assert exponent.low < -k < exponent.high


def test_an_exponent_has_an_interval_as_wide_as_the_runs_scatter():
    x = np.array([10.0, 100.0, 1000.0])
    noise = np.random.default_rng(1).normal(size=(3, 200))
    exact = studies.fitted_exponent(x, np.repeat(x[:, None] ** 2.5, 5, axis=1))
    assert (exact.value, exact.low, exact.high) == pytest.approx((2.5, 2.5, 2.5))
    widths = []
    for spread in (0.1, 1.0):
        found = studies.fitted_exponent(x, x[:, None] ** 2.5 * np.exp(spread * noise))
        assert found.low < 2.5 < found.high
        widths.append(found.high - found.low)
    assert widths[1] == pytest.approx(10 * widths[0], rel=0.05)


def test_heads_that_share_a_direction_are_misread_one_by_one_but_not_by_their_sum():
    task, heads = studies.shared_middle(12, (6,))
    attention = soft_attention(200 * heads, 12, 1.0).unsqueeze(0)
    assert studies.read_by_weights(attention, 3).correct([task]).tolist() == [True]
    assert float(studies.read_by_weights(attention, 3).confidence) > 0.99
    assert float(studies.read_by_heads(attention).confidence) == 0  # both name the same neighbour


def test_proposition_21_needs_the_circle_to_be_closed():
    """Bits 1 and n differ by more than one, yet a soft solution of theirs is no hard one."""
    task, heads = studies.shared_middle(20, (10,))
    assert min(abs(a - b) for a in task.bits for b in task.bits if a != b) > 1
    risk = PopulationRisk(task, "squared_hinge", temperature=1e-5, smoothing=0.0)
    assert float(risk(heads)) < 1e-4
    assert float(risk.of_attention(hard_attention(heads, 20))) > 1


def test_the_weakest_bit_is_the_one_its_best_head_attends_to_least():
    heads = torch.stack([200 * aligned_directions((2, 5), 9), 200 * aligned_directions((2, 2), 9)]).unsqueeze(0)
    weakest = studies.weakest_bit(run_of([Parity(9, (2, 5))], heads))
    assert weakest[0] > 0.99
    assert weakest[1] < 1e-6


def test_confident_readings_are_right_and_disagreement_has_no_confidence():
    attention = torch.tensor([[[0.9, 0.1, 0], [0.2, 0.8, 0]], [[0.9, 0.1, 0], [0.8, 0.1, 0.1]]], dtype=torch.float64)
    reading = studies.read_by_heads(attention)
    assert reading.confidence.tolist() == pytest.approx([0.72, 0])
    assert reading.correct([Parity(3, (1, 2))] * 2).tolist() == [True, False]


def test_halves_share_every_group_evenly_though_groups_take_turns():
    """The sets with and without neighbours take turns, so that every other one is all of one kind."""
    groups = [(3, bool(task.neighbours)) for task in studies.mixed_sets(20, 3, 40, seed=1)] + [(2, True)] * 3
    fit, judge = studies.halves(groups, seed=0)
    assert sorted([*fit, *judge]) == list(range(43))
    for group in set(groups):
        counts = [sum(groups[i] == group for i in half) for half in (fit, judge)]
        assert abs(counts[0] - counts[1]) <= 1
    assert not set(np.diff(fit)) <= {2}
    assert (studies.halves(groups, seed=0)[0] == fit).all()


def test_calibration_mends_an_overconfident_estimate():
    rng = np.random.default_rng(0)
    confidence = rng.random(4000)
    right = rng.random(4000) < confidence**3
    honest = studies.calibrate(confidence[::2], right[::2])
    raw = studies.calibration_error(studies.reliability(confidence[1::2], right[1::2]))
    mended = studies.calibration_error(studies.reliability(honest(confidence[1::2]), right[1::2]))
    assert raw > 0.2
    assert mended < 0.05
    assert (np.diff(honest(np.linspace(0, 1, 50))) >= 0).all()


def test_reliability_bins_hold_every_run_once_and_enough_of_them():
    confidence, right = np.array([0.0, 0.1, 0.5, 0.99, 1.0]), np.array([0, 1, 1, 1, 1])
    fine = studies.reliability(confidence, right, bins=4, least=1)
    assert [(b.right.successes, b.right.trials) for b in fine] == [(1, 2), (1, 1), (2, 2)]
    merged = studies.reliability(confidence, right, bins=4, least=3)
    assert [(b.right.successes, b.right.trials) for b in merged] == [(4, 5)]
    assert merged[0].confidence == pytest.approx(confidence.mean())


def test_the_literal_model_without_token_columns_trains_as_the_exact_engine_does():
    tasks = studies.mixed_sets(7, 2, 3, seed=2)
    recipe = replace(SIGNED, epochs=1, updates_per_epoch=12)
    matrices, risk = studies.train_columns(tasks, recipe, range(3), token_columns=False, progress=False)
    run = train(tasks, recipe, 3, progress=False)
    assert torch.allclose(matrices, head_matrices(run.directions[-1]), atol=1e-9)
    assert torch.allclose(risk, run.risk[-1], atol=1e-9)
    free, _ = studies.train_columns(tasks, recipe, range(3), token_columns=True, progress=False)
    assert (free[..., 0, :2].abs().amax((1, 2)) > 1e-3).all()
    assert not free[..., 1:, :].any()


def test_the_cosine_head_finds_sets_on_which_the_zigzag_falls_into_its_third_harmonic():
    trap = (Parity(20, (3, 6, 8)),) * 6  # gaps 2 and 3 fit the alias, from every start
    zigzag = train(trap, replace(SIGNED, epochs=1, updates_per_epoch=400), 6, progress=False)
    found = studies.cosine_head(trap, range(6), 400, progress=False)
    assert studies.success(zigzag).committed.successes < 3 <= 5 <= found.committed.successes


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: studies.sets_at_distance(20, 3, 7, 1, 0), "3 bits on a circle of 20 can be 1..6 apart, got 7"),
        (lambda: studies.draw_sets(8, 2, 3, 0, lambda task: False), "found only 0 of 3 sets of 2 bits in 1..8"),
    ],
)
def test_bad_calls_are_refused_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()

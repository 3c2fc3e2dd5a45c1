"""Sets of bits, one row a run, the sweeps, the price of a gradient, and the verdicts of the atlas."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from gradients import assert_gradient_matches_differences, random_heads

from parity_lib import RECIPES, Parity, PopulationRisk, hard_attention, soft_attention, train, wilson
from parity_lib.attention import aligned_directions, head_matrices
from parity_lib.chapters import robustness
from parity_lib.chapters.robustness import cosine_risk
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
    assert robustness.closest_distance(Parity(20, bits)) == distance


def test_drawn_sets_have_the_wanted_distance_and_repeat_with_their_seed():
    for distance in (1, 2, 5):
        tasks = robustness.sets_at_distance(15, 3, distance, 10, seed=4)
        assert len(tasks) == 10
        assert {robustness.closest_distance(task) for task in tasks} == {distance}
        assert tasks == robustness.sets_at_distance(15, 3, distance, 10, seed=4)
    assert tasks != robustness.sets_at_distance(15, 3, 5, 10, seed=5)


@pytest.mark.parametrize("count", [6, 7])
def test_half_of_the_mixed_sets_have_cyclic_neighbours(count):
    tasks = robustness.mixed_sets(12, 3, count, seed=1)
    assert [bool(task.neighbours) for task in tasks] == [bool(i % 2) for i in range(count)]
    assert len(robustness.mixed_sets(12, 1, count, seed=1)) == count


def test_settling_is_the_first_update_after_which_the_argmax_stays_right():
    right, wrong = aligned_directions((2, 5), 9), aligned_directions((2, 7), 9)
    columns = [[wrong, right, wrong, right], [right] * 4, [right, right, right, wrong]]
    run = run_of([Parity(9, (2, 5))], torch.stack([torch.stack(c) for c in columns], dim=1))
    assert robustness.settling_update(run).tolist() == [30, 0, math.inf]


def test_the_literal_model_without_token_columns_trains_as_the_exact_engine_does():
    tasks = robustness.mixed_sets(7, 2, 3, seed=2)
    recipe = replace(SIGNED, epochs=1, updates_per_epoch=12)
    matrices, risk = robustness.train_columns(tasks, 12, token_columns=False)
    run = train(tasks, recipe, 3, progress=False)
    assert torch.allclose(matrices, head_matrices(run.directions[-1]), atol=1e-9)
    assert torch.allclose(risk, run.risk[-1], atol=1e-9)
    free, _ = robustness.train_columns(tasks, 12, token_columns=True)
    assert (free[..., 0, :2].abs().amax((1, 2)) > 1e-3).all()
    assert not free[..., 1:, :].any()


def test_a_row_says_how_its_run_ended():
    tasks = [Parity(9, (2, 5)), Parity(9, (2, 6)), Parity(9, (2, 5))]
    on_bits = 100 * aligned_directions((2, 5), 9)
    directions = torch.stack([on_bits, on_bits, on_bits / 100]).unsqueeze(0)
    rows = robustness.outcomes(run_of(tasks, directions, torch.tensor([[0.1, 0.2, 0.3]], dtype=torch.float64)))
    assert rows["bits"].tolist() == ["2 5", "2 6", "2 5"]
    assert rows["recovered"].tolist() == [True, False, True]
    assert rows["committed"].tolist() == [True, False, False]
    assert rows["by_weights"].tolist() == [True, False, False]  # broad heads add up to most between the bits
    assert rows["risk"].tolist() == [0.1, 0.2, 0.3]
    assert rows["weakest"][0] > 0.99 > 1e-6 > rows["weakest"][1]


def test_one_set_for_all_starts_gives_a_row_for_each():
    run = train(Parity(9, (2, 5)), replace(SIGNED, epochs=1, updates_per_epoch=3), 4, progress=False)
    rows = robustness.outcomes(run)
    assert rows["seed"].tolist() == [0, 1, 2, 3]
    assert set(rows["bits"]) == {"2 5"}


def test_heads_on_the_bits_close_the_risk_and_uniform_attention_hardly_any_of_it():
    task = Parity(10, (2, 5, 8))
    sharp = 1000 * aligned_directions(task.bits, 10)
    risk = PopulationRisk(task, SIGNED.loss)(torch.stack([sharp, 0 * sharp])).numpy()
    closed = robustness.share_closed(risk, 3)
    assert closed[0] == pytest.approx(1, abs=1e-9)
    assert abs(closed[1]) < 0.05


def test_heads_that_share_a_direction_are_misread_one_by_one_but_not_by_their_sum():
    task, heads = robustness.shared_middle(12, (6,))
    rows = robustness.outcomes(run_of([task], 200 * heads.expand(1, 1, -1, -1)))
    assert rows["by_weights"].tolist() == [True]
    assert rows["recovered"].tolist() == [False]  # both name the same neighbour


def test_proposition_21_needs_the_circle_to_be_closed():
    """Bits 1 and n differ by more than one, yet a soft solution of theirs is no hard one."""
    task, heads = robustness.shared_middle(20, (10,))
    assert min(abs(a - b) for a in task.bits for b in task.bits if a != b) > 1
    risk = PopulationRisk(task, "squared_hinge", temperature=1e-5, smoothing=0.0)
    assert float(risk(heads)) < 1e-4
    assert float(risk.of_attention(hard_attention(heads, 20))) > 1
    found = robustness.printed_counterexample(20)
    assert found["soft"] < 1e-6
    assert found["hard"] == pytest.approx(2, abs=1e-6)


def test_the_price_of_a_gradient_is_its_variance_over_its_squared_mean():
    """Against the product head's gradient on each of the 2^n inputs."""
    task = Parity(7, (1, 4, 6))
    heads = initial_directions([3], 3)
    x = task.cube()

    def loss(directions, bits, label):
        read = soft_attention(directions, 7, 0.8) @ bits
        return 1 - label * (1 - 2 * read).prod()

    rows = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(heads[0], x, task.labels(x)).flatten(1)
    generator = torch.Generator().manual_seed(0)
    found = robustness.gradient_noise(heads, 7, 0.8, 200_000, generator)
    assert float(found) == pytest.approx(float(rows.square().sum(1).mean()), rel=0.02)


def test_the_first_gradient_of_the_permanent_shrinks_as_n_to_the_minus_k_and_costs_n_to_the_k():
    frame = robustness.first_gradients([2], [100, 200, 400, 800], 64, 500)
    shrinks, costs = (robustness.fitted_exponent(frame, column) for column in ("gradient", "price"))
    assert shrinks.value == pytest.approx(-2, abs=0.2)
    assert costs.value == pytest.approx(2, abs=0.4)
    assert shrinks.low < -2 < shrinks.high


def test_an_exponent_has_an_interval_as_wide_as_the_pairs_scatter():
    n = np.array([100, 1000, 10_000])
    noise = np.random.default_rng(1).normal(size=(3, 200))

    def frame(values):
        return pd.DataFrame({"n": np.repeat(n, values.shape[1]), "value": values.ravel()})

    exact = robustness.fitted_exponent(frame(np.repeat(n[:, None] ** 2.5, 5, axis=1)), "value")
    assert (exact.value, exact.low, exact.high) == pytest.approx((2.5, 2.5, 2.5))
    widths = []
    for spread in (0.1, 1.0):
        found = robustness.fitted_exponent(frame(n[:, None] ** 2.5 * np.exp(spread * noise)), "value")
        assert found.low < 2.5 < found.high
        widths.append(found.high - found.low)
    assert widths[1] == pytest.approx(10 * widths[0], rel=0.1)
    alone = robustness.fitted_exponent(frame(noise).query("n <= 1000"), "value", least=1000)
    assert np.isnan([alone.value, alone.low, alone.high]).all()


def test_the_interval_of_an_exponent_covers_the_truth_when_every_n_has_sets_of_its_own():
    """Resampling the same indices at every n would miss the scatter of the medians: 95 % must mean 95 %."""
    chance, n = np.random.default_rng(3), np.array([50, 100, 200, 400])
    covered = []
    for _ in range(60):
        values = n[:, None] ** 2.0 * np.exp(chance.normal(size=(4, 40)))
        frame = pd.DataFrame({"n": np.repeat(n, 40), "value": values.ravel()})
        found = robustness.fitted_exponent(frame, "value", draws=200)
        covered.append(found.low < 2 < found.high)
    assert np.mean(covered) > 0.85


def test_the_best_start_is_the_one_of_least_final_risk():
    best = robustness.best_start(9, 2, 4, 40, starts=3)
    tasks = [task for task in robustness.mixed_sets(9, 2, 4, seed=2) for _ in range(3)]
    every = robustness.outcomes(robustness.fit(tasks, robustness.SIGNED, 40))
    assert len(best) == 4
    assert best["risk"].tolist() == every["risk"].to_numpy().reshape(4, 3).min(1).tolist()
    assert best["often"].tolist() == every["committed"].to_numpy().reshape(4, 3).sum(1).tolist()


def test_the_cosine_head_finds_sets_on_which_the_zigzag_falls_into_its_third_harmonic(monkeypatch):
    trap = (Parity(20, (3, 6, 8)),) * 6  # gaps 2 and 3 fit the alias, from every start
    monkeypatch.setattr(robustness, "mixed_sets", lambda *args, **kwargs: trap)
    zigzag = robustness.on_mixed_sets(robustness.SIGNED, 20, 3, 6, 400)
    cosine = robustness.cosine_head(20, 3, 6, 400)
    assert zigzag["committed"].sum() < 3 <= 5 <= cosine["committed"].sum()


def test_the_sweeps_have_a_row_for_every_pair_and_setting():
    by_k = robustness.sweep_k(8, [1, 2], 4, 5)
    assert len(by_k) == 4 * 2 * 4
    assert set(zip(by_k["recipe"], by_k["smoothing"], strict=True)) >= {("theory", 0.01), ("theory", 0.2)}
    distance = robustness.sweep_distance(9, 2, [1, 3], 3, 5)
    assert len(distance) == 2 * (2 + 1) * 3
    assert (distance["drawn"] | (distance["kind"] == "around")).all()
    assert distance.query("kind == 'around' and not drawn")["bits"].tolist() == ["1 9"] * 6
    heat = robustness.sweep_temperature(8, 2, [-2.5, 0.0, 1.0], 3, 5)
    assert heat.groupby(["recipe", "rate"])["power"].nunique().to_dict() == {
        ("figure2-signed", "fixed"): 3,
        ("figure2-signed", "proportional"): 3,
        ("repaired", "fixed"): 2,  # the coldest leaves the range of 64-bit numbers
        ("repaired", "proportional"): 2,
    }
    heads = robustness.sweep_heads(8, 2, [1, 3], 3, 5)
    assert heads.groupby("heads").size().to_dict() == {1: 3, 3: 3}
    batch = robustness.sweep_batch(8, 2, [16], [16], 3, 5)
    found = batch.groupby("recipe")["batch"].unique().map(list).to_dict()
    assert found == {"figure2-signed": [16, 256], "product-head": [16]}
    length = robustness.sweep_length(2, [8, 12], 3, 5)
    assert length.groupby(["code", "n"]).size().tolist() == [3] * 4
    ladder = robustness.repair_ladder(8, [2], 3, 5, 2, 16)
    assert ladder.groupby("step", sort=False).size().to_dict() == dict.fromkeys(robustness.LADDER, 3)


def test_counts_are_a_table_of_k_of_n_in_the_order_of_the_frame():
    frame = pd.DataFrame({"a": ["y", "y", "x"], "b": [2, 2, 1], "committed": [True, False, True]})
    table = robustness.counts(frame, ["a"], "b")
    assert table.to_dict("list") == {"a": ["y", "x"], 2: ["1 of 2", ""], 1: ["", "1 of 1"]}
    assert robustness.success(frame, a="y") == wilson(1, 2)


def solutions(**kinds):
    rows = [{"kind": kind, "proper": proper} for kind, values in kinds.items() for proper in values]
    return pd.DataFrame(rows)


def test_soft_to_hard_is_proved_in_a_narrower_range_unless_a_run_speaks_against_it():
    refuted = {"soft": 1e-8, "hard": 2.0}
    verdict = robustness.judge_soft_to_hard(refuted, solutions(apart=[True] * 3, around=[False] * 2))
    assert (verdict.as_stated, verdict.kind) == ("narrower range", "proved")
    assert "1 and n" in verdict.instead
    assert verdict.numbers["read as it should be, around"] == wilson(0, 2)
    against = robustness.judge_soft_to_hard(refuted, solutions(apart=[True, False]))
    assert (against.as_stated, against.kind) == ("open", "measured")
    fine = robustness.judge_soft_to_hard({"soft": 0.0, "hard": 0.0}, solutions(apart=[True]))
    assert fine.as_stated == "holds"


def test_soft_solutions_are_the_averaging_runs_that_close_the_gap():
    frame = pd.DataFrame(
        {
            "recipe": ["figure2-signed"] * 3 + ["repaired"],
            "closed": [0.96, 0.94, 0.97, 0.99],
            "recovered": [True, True, True, True],
            "weakest": [0.9, 0.9, 0.5, 0.9],
        }
    )
    assert robustness.soft_solutions(frame)["proper"].tolist() == [True, False]


def test_sets_that_are_not_there_are_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"found only 0 of 3 sets of 2 bits in 1\.\.8"):
        robustness.draw_sets(8, 2, 3, 0, lambda task: False)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_cosine_head_has_a_risk_of_one_term(k):
    tasks = [Parity.random(9, k, torch.Generator().manual_seed(seed)) for seed in range(3)]
    heads = random_heads(3, k, seed=k, norm=4.0)
    x = tasks[0].cube()
    read = soft_attention(heads, 9, 0.7).sum(1) @ x.T  # (rows, inputs)
    labels = torch.stack([task.labels(x) for task in tasks])
    enumerated = (1 - labels * (torch.pi * read).cos()).mean(1)
    exact = cosine_risk(tasks, 0.7)
    assert torch.allclose(exact(heads), enumerated, atol=1e-12)
    assert float(cosine_risk(tasks[1], 0.7)(heads[1])) == pytest.approx(float(enumerated[1]), abs=1e-12)
    assert_gradient_matches_differences(exact, heads, tolerance=1e-7)


@pytest.mark.parametrize(("n", "k"), [(8, 2), (9, 3), (12, 4), (8, 6)])
def test_sets_are_counted_by_the_distance_of_their_closest_bits(n, k):
    closest = [robustness.closest_distance(Parity(n, bits)) for bits in combinations(range(1, n + 1), k)]
    counted = [robustness.sets_with_distance(n, k, distance) for distance in range(1, n)]
    assert counted == [closest.count(distance) for distance in range(1, n)]


@pytest.mark.parametrize(("n", "k", "kinds"), [(8, 6, {"close"}), (9, 3, {"apart", "around", "close"})])
def test_distances_and_kinds_that_no_set_has_are_left_out(n, k, kinds):
    found = robustness.sweep_distance(n, k, [2, 9], 4, updates=1)
    assert set(found["kind"]) == kinds and set(found["distance"]) == ({1} if k == 6 else {1, 2})
    none = robustness.soft_solutions(found.assign(closed=0.0))
    assert robustness.counts(none, ["kind"], "recipe", "proper").empty
    assert robustness.judge_soft_to_hard({"soft": 0.0, "hard": 2.0}, none).as_stated == "narrower range"


@pytest.mark.parametrize(("n", "k"), [(8, 6), (70, 2)])
def test_batches_are_compared_with_all_inputs_however_many(n, k):
    found = robustness.sweep_batch(n, k, [4], [8], 4, updates=1)
    assert sorted(set(found["batch"])) == [4, 8, robustness.all_inputs(n)] and found["batch"].dtype != object

"""The experiments of ``sensitivity``: what is trained or written down, and what is measured on it."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from checkouts import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from parity_lib.chapters import sensitivity, simplicity, variants
from parity_lib.chapters.boolean import average_sensitivity, cube, find_function
from parity_lib.chapters.constructions import construct
from parity_lib.chapters.encoder import Encoder, Settings, blowup, look_at, parameter_norm, predictions

QUICK = Settings(steps=600, least=400, finish=200)


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch):
    monkeypatch.setattr("parity_lib.chapters.store.enabled", False)


def test_a_stack_of_functions_is_trained_and_measured_as_one_row_each():
    models = sensitivity.train_named(3, {"PARITY": 2, "FIRST": 1}, QUICK, 40, width=16)
    runs = models.runs
    assert list(runs["function"]) == ["PARITY", "PARITY", "FIRST"] and list(runs["seed"]) == [0, 1, 0]
    assert runs["converged"].all() and (runs["learned"] <= runs["updates"]).all() and len(models.rows) == 3
    assert runs["blowup"][0] == pytest.approx(blowup(look_at(Encoder(3, 16), models.rows[0])[1]))
    assert (runs["sharpness"] > 0).all() and (runs["error"] < runs["sharpness"]).all()


@pytest.mark.parametrize("scales", [(2.0, 1.0, 1.0, 1.0, 1.0), (0.5, 3.0, 0.7, 2.0, 4.0)])
def test_rescaled_weights_give_the_same_outputs_and_the_same_least_product(scales):
    encoder = Encoder(5, 16)
    noise = torch.randn(encoder.numbers, generator=torch.Generator().manual_seed(3))
    row = (encoder.start(0) + 0.2 * noise).numpy()
    other = sensitivity.rescaled(encoder, row, scales)
    (outputs, taus), (others, changed) = look_at(encoder, row), look_at(encoder, other)
    assert np.allclose(outputs, others, atol=2e-3)
    assert blowup(changed) == pytest.approx(blowup(taus) / math.prod(scales[:4]), rel=0.01)
    least = sensitivity.least_product(encoder, row, taus)
    assert sensitivity.least_product(encoder, other, changed) == pytest.approx(least, abs=0.01)


def test_the_least_product_is_below_that_of_the_weights_themselves():
    encoder, row = Encoder(4), construct("PARITY", 4).numpy()
    taus = look_at(encoder, row)[1]
    itself = parameter_norm(encoder, row) * float(np.mean(np.prod(1 + taus, 0) ** 2))
    assert 0 < 10 ** sensitivity.least_product(encoder, row, taus) <= itself


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(0, 10_000))
def test_the_inequality_holds_for_any_two_functions_and_at_every_input(n, seed):
    """E(T - T')² >= (sqrt as T - sqrt as T')² / n, and at x with its neighbours the local version."""
    t, other = torch.randn(2, 2**n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    left = float((t - other).square().mean())
    right = (math.sqrt(average_sensitivity(t)) - math.sqrt(average_sensitivity(other))) ** 2 / n
    assert left >= right - 1e-12
    flips = torch.stack([torch.arange(2**n) ^ (1 << i) for i in range(n)])
    local = [((h - h[flips]) / 2).square().sum(0) for h in (t, other)]
    assert float(local[0].mean()) == pytest.approx(float(average_sensitivity(t)))
    difference = (t - other).square()
    near = difference + difference[flips].mean(0)
    assert (near >= 2 / n * (local[0].sqrt() - local[1].sqrt()).square() - 1e-12).all()


def test_the_inequality_holds_for_models_and_their_perturbed_copies():
    for name in ("PARITY", "MAJORITY"):
        sides = pd.DataFrame(sensitivity.two_sides(Encoder(8), construct(name, 8).numpy(), 5))
        assert (sides["left"] >= sides["right"] - 1e-9).all() and (sides["left"] > 1e-4).all()
        expected = float(average_sensitivity(1 - 2 * find_function(name)(cube(8))))
        assert sides["sensitivity"].to_numpy() == pytest.approx(expected, rel=1e-2)


def test_the_inequality_is_tested_on_every_group_of_models_up_to_14_bits():
    how = Settings(steps=100, least=100, finish=50)
    groups = [
        simplicity.train_ladder(3, 1, [], how, 5),
        simplicity.refit(3, 4, 1, how, 5),
        sensitivity.by_decay(3, [0.0], {"FIRST": 1}, how, 5),
        sensitivity.noised(4, ["FIRST"], [0], 100, 5),
        sensitivity.noised(15, ["FIRST"], [0], 50, 5),  # all inputs would be too many
    ]
    sides = sensitivity.sides_of(groups, 2)
    assert len(sides) == 2 * (3 + 2 + 1 + 1) and (sides["left"] >= sides["right"] - 1e-9).all()


def test_the_recipe_gives_a_second_end_to_runs_that_are_not_at_one_loss():
    assert all(sensitivity.curriculum(n).polish == 100 * n for n in (4, 16, 30))


def test_constructions_are_measured_at_every_length():
    frame = sensitivity.constructed([4, 6], 20)
    assert len(frame) == 8 and (frame["loss"] < 1e-5).all()
    parity = frame[frame["function"] == "PARITY"]
    assert parity["norm"].is_monotonic_increasing


def test_weight_noise_makes_a_construction_flatter():
    before = sensitivity.constructed([4], 200).set_index("function")["sharpness"]["PARITY"]
    after = sensitivity.noised(4, ["PARITY"], [0, 1, 2], 2000, 200)
    assert sensitivity.flattest(after.runs)["sharpness"].item() < before / 2
    assert after.rows.shape == (3, Encoder(4).numbers)


def test_noise_that_is_bearable_does_not_cost_the_answer():
    assert sensitivity.noised(4, ["PARITY"], [0], 1000, 20, bearable=0.02, rates=[1e-3, 1e-3]).runs["converged"].all()


def test_tries_with_noise_are_runs_of_their_own_and_the_flattest_of_them_counts():
    found = sensitivity.noised(4, ["PARITY", "FIRST"], [0, 1], 200, 20)
    assert list(found.runs["seed"]) == [0, 1, 0, 1] and found.rows.shape[0] == 4
    assert not np.array_equal(found.rows[0], found.rows[1])
    runs = found.runs.assign(converged=[True, True, True, False], sharpness=[0.2, 0.1, 0.3, 0.0])
    assert list(sensitivity.flattest(runs).index) == [2, 1]  # not what lost the answer, however flat
    lost = runs.assign(converged=False)
    assert sensitivity.flattest(lost).empty
    shown = sensitivity.frontier(runs.assign(n=8), runs[:0], runs[:0])
    assert list(shown["flattest"]) == [False, True, True] and list(shown["sharpness"]) == [0.2, 0.1, 0.3]


def test_the_orbit_of_a_model_is_one_function(monkeypatch):
    quick = Settings(steps=600, least=400, finish=200)
    monkeypatch.setattr(sensitivity, "curriculum", lambda n: quick)
    frame = sensitivity.orbit(3, [0.5, 1.0, 2.0], {"PARITY": 1, "FIRST": 1}, 20)
    assert frame["change"].max() < 0.02
    product = frame[frame["function"] == "PARITY"]["product"].to_numpy()
    assert product[0] > 50 * product[1] > 2500 * product[2]
    assert frame.groupby("function")["least"].agg(np.ptp).max() < 0.02


def test_courses_ladders_and_decays_are_frames_with_a_row_per_look_or_run():
    course = simplicity.follow(3, 2, QUICK, 100, 5)
    assert set(course["seed"]) == {0, 1} and course["update"].min() == 100 and (course["norm"] > 0).all()
    assert (course["error"] > 0).all()
    ladder = simplicity.train_ladder(3, 2, ["MAJORITY"], Settings(steps=100, least=100, finish=50), 5).runs
    assert list(ladder["k"]) == [1, 1, 2, 2, 3, 3, 0, 0] and list(ladder["sensitivity"][5:]) == [3, 1.5, 1.5]
    decayed = sensitivity.by_decay(3, [0.0, 0.3], {"FIRST": 1}, QUICK, 5)
    assert decayed.runs["norm"][0] > decayed.runs["norm"][1]
    norms = [parameter_norm(Encoder(3), row) for row in decayed.rows]
    assert norms == pytest.approx(list(decayed.runs["norm"]))  # each row stands beside its numbers


def test_fits_reach_their_labels_and_are_compared_with_coins():
    how = Settings(steps=400, least=400, finish=120, position_scale=1.0)
    fits = simplicity.fit_random_functions(4, [8], 2, how)
    assert (fits["accuracy"] >= 7 / 8).all() and (fits["learned"] >= 0).all() and len(fits) == 2
    refits = simplicity.refit(4, 8, 2, how, 10).runs
    assert list(refits["table"]) == ["learned", "learned", "filled by coins", "filled by coins"]
    with pytest.raises(ValueError, match=r"labels must be in 1..16, the inputs of 4 bits, got 17"):
        simplicity.fit_random_functions(4, [17], 2, how)


def test_models_with_random_weights_are_measured_on_all_inputs():
    frame = simplicity.random_weights(4, [1], 5)
    assert len(frame) == 2 * 3 * 5 and frame["sensitivity"].between(0, 1).all()
    assert frame.equals(simplicity.random_weights(4, [1], 5))


def test_a_scratchpad_holds_the_running_parities():
    codes, targets = variants.written_out(5, 3, 4, torch.Generator().manual_seed(0))
    bits, parity = codes[:, :5], codes[:, :5].cumsum(1) % 2
    assert (codes[:, 5] == variants.START).all() and torch.equal(codes[:, 6:] - variants.PARITIES, parity[:, :4])
    assert targets[:, :5].isnan().all() and targets[:, 9:].isnan().all()
    assert torch.equal(targets[:, 5:9], parity[:, :4].float()) and bits.max() == 1


def test_trials_with_a_scratchpad_are_a_way_of_their_own():
    pads = variants.scratchpad(3, 1, 50, 5, batch=8).assign(trial=False)
    tried = variants.scratchpad(3, 1, 50, 5, batch=8, growing=True).assign(trial=True)
    assert not pads["growing"].any() and tried["growing"].all()
    runs = pd.DataFrame({"n": [3], "function": "PARITY", "converged": True, "seed": 0, "learned": 5, "sharpness": 0.1,
                         "error": 0.1})  # fmt: skip
    found = sensitivity.ways(pd.concat([pads, tried]), runs)
    assert list(found["way"]) == ["with a scratchpad", "trial", "answer alone"]


@pytest.mark.parametrize("name", ["flattest", "lengths", "plain", "scratchpad", "variants", "widths"])
def test_every_study_behind_the_essay_is_kept_with_the_error_of_its_sharpness(name):
    frame = sensitivity.study(name)
    assert len(frame) and {"sharpness", "error", "loss"} <= set(frame.columns)


def test_a_causal_model_does_not_see_what_comes_later_and_others_do():
    codes = torch.randint(2, (1, 4, 6), generator=torch.Generator().manual_seed(0))
    changed = codes.clone()
    changed[..., -1] = 1 - changed[..., -1]
    for shape, same in ((variants.Shape(causal=True), True), (variants.Shape(norm="rms"), False)):
        model = variants.Stack(shape, 6, 2, [0])
        difference = (model(codes) - model(changed)).abs()[..., :-1].max()
        assert (float(difference) == 0) is same


def test_a_variant_of_the_chapters_shape_is_its_encoder():
    encoder, x = Encoder(4, 8), cube(4, torch.float32)
    model = variants.Stack(variants.Shape(width=8), 4, 2, [0])
    row = torch.zeros(encoder.numbers)
    views = encoder.views(row)
    parameters = {name: p.detach()[0] for name, p in model.named_parameters()}
    for name in ("position", "token", "read_weight", "read_bias"):
        views[name].copy_(parameters[name])
    for i in (1, 2):
        for part in ("out", "up", "down", "norm1", "norm2"):
            for kind in ("weight", "bias", "gain"):
                if f"{part}_{kind}{i}" in views:
                    views[f"{part}_{kind}{i}"].copy_(parameters[f"{part}_{kind}{i - 1}"])
        for kind in ("weight", "bias"):
            parts = [parameters[f"{part}_{kind}{i - 1}"] for part in ("query", "key", "value")]
            views[f"in_{kind}{i}"].copy_(torch.cat(parts))
    with torch.no_grad():
        expected = model(x.long()[None])[0, :, -1].numpy()
    assert np.allclose(predictions(encoder, row.numpy(), x), expected, atol=1e-5)


def test_each_optimiser_of_the_variants_moves_the_loss(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "studies"))
    from sensitivity import variant_runs

    for optimiser in ("adamw", "sgd", "sam", "noise"):
        shape = variants.Shape(width=8, optimiser=optimiser, rate=0.02 if optimiser == "sgd" else 3e-3)
        runs = variant_runs(optimiser, shape, 3, ["FIRST", "FIRST"], 150, 3)
        assert (runs["loss"] < 0.2).all() and list(runs["seed"]) == [0, 1], optimiser


def test_longer_models_have_no_sides_and_labels_beyond_the_inputs_are_refused():
    longer = sensitivity.Models(pd.DataFrame({"n": [15], "function": ["PARITY"], "seed": [0]}), np.zeros((1, 1)))
    for groups in ([], [longer]):
        none = sensitivity.sides_of(groups, 2)
        assert none.empty and {"kind", "function", "left", "right"} <= set(none.columns)
    simplicity.check_labels(4, [4, 16])
    with pytest.raises(ValueError, match=r"labels must be in 1\.\.16, the inputs of 4 bits, got 4, 128"):
        simplicity.check_labels(4, [4, 128])

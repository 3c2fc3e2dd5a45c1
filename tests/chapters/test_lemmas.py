"""Appendix A, lemma by lemma: the constants, the measurements, and the verdicts outcome by outcome."""

import math

import pandas as pd
import pytest
import torch
from gradients import random_heads, value_and_gradient

from parity_lib import EnumeratedRisk, Parity, PopulationRisk, soft_attention
from parity_lib.chapters import lemmas
from parity_lib.chapters.lemmas import (
    Theorem5,
    attention_jacobian,
    conflicting_share,
    full_matrix_gradient,
    gradients_by_input,
    hessians,
    lemma_18_brackets,
    lemma_19_sides,
    pl_ratio,
    prediction_derivatives,
    stated_attention_jacobian,
)


def test_the_constants_at_n_20_k_3_worked_out_by_hand():
    constants = Theorem5(n=20, k=3, temperature=1 / 20, smoothing=1.0)
    entry = 400 * (20 + 32 * 9)
    assert constants.prediction_smoothness == pytest.approx(6 * entry)
    assert constants.prediction_lipschitz == pytest.approx(8 * 9 * 20 * math.sqrt(6))
    assert constants.product_lipschitz == pytest.approx(math.sqrt(6) * (4 * 27 * entry + (8 * 9 * 20) ** 2))
    assert constants.risk_smoothness == pytest.approx(
        2 * (constants.product_lipschitz + constants.prediction_smoothness)
    )
    assert constants.mu_1 == pytest.approx(2 / (9 * 400))
    assert constants.mu_2 == pytest.approx(64 * 9 / 400)
    assert constants.mu == pytest.approx(128 / 3600 / 2**21)
    rate = constants.mu / constants.risk_smoothness
    assert constants.steps(0.01) == pytest.approx(-math.log(0.01) / rate, rel=1e-6)
    assert 1e16 < constants.steps(0.01) < 1e17


def test_the_softmax_jacobian_has_a_minus_sign_where_the_paper_prints_a_plus():
    direction = random_heads(1, 1, seed=3)[0, 0]
    attention = soft_attention(direction.unsqueeze(0), 9, 0.3)[0]
    true = attention_jacobian(direction, 9, 0.3)
    assert torch.allclose(stated_attention_jacobian(attention, 0.3, -1), true, atol=1e-14)
    assert not torch.allclose(stated_attention_jacobian(attention, 0.3, +1), true, atol=1e-3)


def test_the_mean_of_the_gradients_by_input_is_the_gradient_of_the_risk():
    task, heads = Parity(7, (1, 3, 6)), random_heads(1, 3, seed=1)
    by_input = gradients_by_input(task, heads[0], 0.4, 1e-2)
    _, exact = value_and_gradient(EnumeratedRisk(task, "squared_hinge", 0.4), heads)
    assert torch.allclose(by_input.mean(0), exact[0], atol=1e-12)


def test_conflicts_are_counted_pair_by_pair():
    gradients = torch.tensor([[[1.0, 0.0]], [[-1.0, 0.0]], [[1.0, 1.0]], [[0.0, 0.0]]])
    assert conflicting_share(gradients) == pytest.approx(2 / 3)  # of the three pairs with a product, two are negative
    assert conflicting_share(torch.zeros(3, 1, 2)) == 0.0


def test_the_pl_ratio_is_half_the_squared_gradient_over_the_risk():
    risk, heads = PopulationRisk(Parity(9, (1, 4)), "squared_hinge", 0.5), random_heads(3, 2, seed=5)
    value, gradient = value_and_gradient(risk, heads)
    assert torch.allclose(pl_ratio(risk, heads), gradient.square().sum((1, 2)) / (2 * value))


def test_curvature_by_differences_matches_a_quadratic():
    def quadratic(d):
        return 3 * d[..., 0, 0] ** 2 + d[..., 0, 1] ** 2

    points = torch.tensor([[[0.3, -0.2]], [[1.0, 2.0]]], dtype=torch.float64)
    assert torch.allclose(hessians(quadratic, points), torch.tensor([6.0, 2.0], dtype=torch.float64).diag(), atol=1e-9)


def test_prediction_derivatives_match_the_gradients_by_input_and_differences():
    task, heads = Parity(6, (1, 4)), random_heads(1, 2, seed=2)[0]
    x = task.cube()[37]
    _, gradient, hessian = prediction_derivatives(x, heads, 2, 0.5, 1e-2)
    linear = gradients_by_input(task, heads, 0.5, 1e-2, loss="linear")[37]  # 1 - y p: the slope of p up to sign
    assert torch.allclose(gradient, -task.labels(x) * linear.reshape(-1), atol=1e-12)
    step = torch.zeros(4, dtype=torch.float64)
    step[2] = 1e-5
    ahead, behind = (prediction_derivatives(x, heads + sign * step.reshape(2, 2), 2, 0.5, 1e-2)[1] for sign in (1, -1))
    assert torch.allclose(hessian[2], (ahead - behind) / 2e-5, atol=1e-5)


def test_lemma_19_looks_at_the_input_on_which_the_heads_read_zero():
    task, heads = Parity(6, (1, 3, 5)), random_heads(1, 3, seed=2)[0]
    left, right = lemma_19_sides(task, heads, 0.5, 0.0)
    assert left == pytest.approx(0, abs=1e-20) and right == pytest.approx(0, abs=1e-20)
    left, right = lemma_19_sides(task, heads, 0.5, 0.1)
    assert left == pytest.approx(0, abs=1e-20) and right > 1e-3


def test_lemma_18_leaves_nothing_at_the_input_of_ones_for_any_heads():
    task, heads = Parity(7, (1, 3, 6)), random_heads(5, 3, seed=6)
    brackets = torch.stack([lemma_18_brackets(task, row, 0.4, sign=-1) for row in heads])
    assert brackets[:, -1].max() < 1e-28 and brackets[:, :-1].min() > 1e-20


def test_lemma_18_brackets_are_the_squared_slopes_of_what_the_heads_read():
    task, heads = Parity(5, (1, 2)), random_heads(1, 2, seed=4)[0]
    brackets = lemma_18_brackets(task, heads, 0.6, sign=-1)
    x = task.cube()[1:]
    read = torch.stack([x @ attention_jacobian(head, 5, 0.6) for head in heads], dim=1)  # (inputs, heads, 2)
    assert torch.allclose(brackets, 0.36 * read.square().sum((1, 2)))


def test_the_literal_gradient_agrees_on_the_two_trained_entries_and_vanishes_below_the_first_row():
    task, heads = Parity(6, (1, 4)), random_heads(1, 2, seed=2)
    gradient = full_matrix_gradient(task, heads[0], 0.5, 1e-2)
    _, exact = value_and_gradient(EnumeratedRisk(task, "squared_hinge", 0.5), heads)
    assert torch.allclose(gradient[:, 0, 2:], exact[0], atol=1e-12)
    assert gradient[:, 1:].abs().max() == 0
    assert gradient[:, 0, :2].abs().max() > 1e-3  # the token entries are updated too


def test_the_frames_have_one_row_an_observation():
    entries = lemmas.entry_gradients(6, 2)
    assert len(entries) == 16 and set(entries["row"]) == {1, 2, 3, 4}
    found = lemmas.constants(6, [1, 2], [1e-2, 1.0], 2)
    assert len(found) == 4 * 2 * 2 and (found["measured"] < found["stated"]).all() and found["proved"].all()
    risks = lemmas.start_risks(8, [1, 2], [0.1], [1.0, 5.0], 3)
    assert len(risks) == 2 * 2 * 3
    at = risks[(risks["k"] == 2) & (risks["c1"] == 5.0)]["risk"].tolist()
    exact = EnumeratedRisk(Parity(8, (1, 5)), "squared_hinge", 5 / 8, 0.1)
    assert at == pytest.approx(exact(lemmas.initial_directions(range(3), 2)).tolist(), abs=1e-3)
    along = lemmas.pl_along_descent(6, [2], 2, 80)
    assert len(along) == 2 * 41 and along["update"].max() == 80
    assert set(lemmas.conflicts(6, 2)["temperature"]) == {"1/n", "1"}


def test_the_premise_and_eq_7_are_measured_on_the_model_itself():
    near = lemmas.near_attention([16])
    attention = soft_attention(lemmas.positional_code(16)[[0]], 16, 1 / 16)[0]
    assert near["largest"][0] == pytest.approx(16 * attention[1].item())
    assert near["smallest"][0] == pytest.approx(16 * attention[2].item())  # position 3 is an eighth of a turn away
    flat = lemmas.slopes(3, [0.0])
    assert flat["slope"].max() == 0 and flat["loss"].min() == 4


def test_the_ratio_of_heads_that_point_away_from_the_bits_vanishes():
    found = lemmas.pl_outside(9, 2, [16.0, 64.0, 256.0])
    assert found["ratio"].is_monotonic_decreasing and found["ratio"].iloc[-1] < 1e-12
    assert found["risk"].iloc[-1] == pytest.approx(2, abs=0.1)  # sums of 0 or 2, right half of the time


def frame(columns, *rows):
    return pd.DataFrame(list(rows), columns=columns.split())


@pytest.mark.parametrize(
    ("verdict", "as_stated"),
    [
        (lemmas.judge_start(frame("n k smoothing c1 risk", (20, 2, 0.1, 1, 1.05))), "holds"),
        (
            lemmas.judge_start(frame("n k smoothing c1 risk", (20, 2, 0.1, 1, 1.05), (50, 2, 0.1, 1, 3))),
            "narrower range",
        ),
        (lemmas.judge_start(frame("n k smoothing c1 risk", (20, 2, 0.1, 1, 2), (20, 2, 0.2, 1, 3))), "fails"),
        (lemmas.judge_sign({"plus": 0.0, "minus": 1.0}), "holds"),
        (lemmas.judge_sign({"plus": 1.0, "minus": 0.0}), "misprint"),
        (lemmas.judge_sign({"plus": 1.0, "minus": 1.0}), "fails"),
        (lemmas.judge_conflicts(frame("temperature share", ("1", 0.0))), "holds"),
        (lemmas.judge_conflicts(frame("temperature share", ("1", 0.5))), "fails"),
        (lemmas.judge_slopes(frame("smoothing slope loss", (0.1, 16.0, 4.0))), "holds"),
        (lemmas.judge_slopes(frame("smoothing slope loss", (0.1, 1.0, 0.5))), "open"),
        (lemmas.judge_slopes(frame("smoothing slope loss", (0.1, 0.0, 4.0))), "fails"),
        (lemmas.judge_slopes(frame("smoothing slope loss", (0.1, 0.0, 4.0), (9.0, 20.0, 4.0))), "narrower range"),
        (lemmas.judge_premise(frame("smallest largest", (0.5, 0.9), (0.4, 0.9))), "holds"),
        (lemmas.judge_premise(frame("smallest largest", (0.5, 0.9), (0.001, 0.9))), "fails"),
        (lemmas.judge_premise(frame("smallest largest", (0.5, 1.5), (0.4, 0.9))), "fails"),
    ],
)
def test_verdicts_follow_their_checks(verdict, as_stated):
    assert verdict.as_stated == as_stated


def entries_of(letter, tokens):
    rows = [(r, c, 1.0 if r == 1 and c > 2 else tokens if r == 1 else letter) for r in range(1, 5) for c in range(1, 5)]
    return frame("row column size", *rows)


@pytest.mark.parametrize(("letter", "tokens", "as_stated"), [(0, 0, "holds"), (0, 3.0, "holds"), (0.5, 3.0, "fails")])
def test_the_sentence_on_other_entries_is_judged_by_its_letter(letter, tokens, as_stated):
    verdict = lemmas.judge_entries(entries_of(letter, tokens))
    assert verdict.as_stated == as_stated
    assert ("silent on a_11" in verdict.instead) == (as_stated == "holds" and tokens > 0)


@pytest.mark.parametrize(
    ("rows", "as_stated", "kind"),
    [
        ([(1.0, 1.0, 0.1, True)], "holds", "proved"),
        ([(1.0, 1.0, 0.1, True), (1e9, 1.0, 0.5, False)], "holds", "measured"),
        ([(1.0, 1.0, 0.1, True), (1e9, 1.0, 2.0, False)], "narrower range", "proved"),
        ([(1.0, 1.0, 2.0, True)], "fails", "measured"),
    ],
)
def test_a_constant_is_proved_in_a_range_and_measured_beyond(rows, as_stated, kind):
    found = frame("lemma k smoothing stated measured proved", *[("lemma-16", 1, *row) for row in rows])
    verdict = lemmas.judge_constant(found, "lemma-16")
    assert (verdict.as_stated, verdict.kind) == (as_stated, kind)


@pytest.mark.parametrize(
    ("ratio", "risk", "along", "as_stated", "kind"),
    [(1e-20, 2.0, 1.0, "fails", "proved"), (1e-3, 2.0, 1e-9, "fails", "exact"), (1e-3, 2.0, 1.0, "open", "exact")],
)
def test_lemma_8_fails_by_heads_that_point_away_or_by_descent(ratio, risk, along, as_stated, kind):
    outside = frame("norm risk ratio", (1.0, 2.0, 1.0), (9.0, risk, ratio))
    verdict = lemmas.judge_pl(outside, frame("risk ratio mu", (1.5, along, 1e-3)))
    assert (verdict.as_stated, verdict.kind) == (as_stated, kind)


@pytest.mark.parametrize(
    ("bracket", "c2", "as_stated"), [(1.0, 0.5, "holds"), (1e-30, 1e-14, "fails"), (1e-9, 1e-4, "open")]
)
def test_lemma_18_fails_where_a_bracket_is_zero(bracket, c2, as_stated):
    rows = frame("inputs bracket largest_c2", ("every input", bracket, c2), ("all but 1...1", 1.0, 0.5))
    assert lemmas.judge_brackets(rows).as_stated == as_stated


@pytest.mark.parametrize(
    ("odd", "even", "as_stated"),
    [(True, True, "holds"), (False, True, "narrower range"), (True, False, "fails"), (False, False, "fails")],
)
def test_lemma_19_is_judged_for_odd_and_even_k_apart(odd, even, as_stated):
    rows = frame("k smoothing gradients losses true", (2, 0.1, 0.0, 0.0, even), (3, 0.1, 0.0, 0.1, odd))
    assert lemmas.judge_zero_input(rows).as_stated == as_stated


def test_lemma_19_holds_for_even_k_and_fails_for_odd_k_with_smoothing():
    found = lemmas.zero_input(6, [2, 3], [0.0, 0.01], 2).set_index(["k", "smoothing"])["true"]
    assert found.to_dict() == {(2, 0.0): True, (2, 0.01): True, (3, 0.0): True, (3, 0.01): False}

"""The paper's constants, and the measurements that they are held against."""

import math
from dataclasses import replace

import pytest
import torch
from gradients import random_heads, value_and_gradient

from parity_lib import RECIPES, EnumeratedRisk, Parity, PopulationRisk, soft_attention, train
from parity_lib.attention import aligned_directions
from parity_lib.chapters.convergence import (
    angle_landscape,
    attention_jacobian,
    conflicting_share,
    force_norms,
    full_matrix_gradient,
    gradients_by_input,
    hessians,
    lemma_18_brackets,
    lemma_19_sides,
    parity_terms,
    pl_ratio,
    prediction_derivatives,
    shrinkage,
    stability,
    stated_attention_jacobian,
    traps,
)
from parity_lib.chapters.theory import Theorem5
from parity_lib.training import population_risk


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
    assert constants.steps(0.01) == pytest.approx(-math.log(0.01) / constants.contraction, rel=1e-6)
    assert 1e16 < constants.steps(0.01) < 1e17
    assert constants.contraction_at(constants.step_size, 0.5) == pytest.approx(constants.contraction)
    assert constants.contraction_at(0.01, 0.75) == pytest.approx(0.005 * constants.mu)
    assert constants.contraction_at(0.1, 1.5) == 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"k": 21}, r"k must be in 1\.\.20, got 21"),
        ({"temperature": 0.0}, "temperature must be a positive finite number, got 0.0"),
        ({"smoothing": 0.0}, "smoothing must be a positive finite number, got 0.0"),
        ({"c2": math.nan}, "c2 must be a positive finite number, got nan"),
    ],
)
def test_bad_constants_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        Theorem5(**{"n": 20, "k": 3, "temperature": 0.05, "smoothing": 1.0} | changes)


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


def test_the_stability_number_tells_steps_that_lower_the_risk_from_steps_that_overshoot():
    recipe = replace(RECIPES["theory"], learning_rate=0.1, epochs=300, updates_per_epoch=1)
    fast = train(Parity(20, (8, 11, 18)), recipe, 2, progress=False)
    slow = train(Parity(20, (8, 11, 18)), replace(recipe, learning_rate=0.01), 2, progress=False)
    assert (stability(fast) > 1).any(0).all() and fast.risk.diff(dim=0).max() > 0.01
    assert stability(slow).max() < 1 and slow.risk.diff(dim=0).max() < 0
    assert torch.allclose(stability(slow)[0], stability(fast)[0] / 10)  # the same start
    with pytest.raises(ValueError, match="gradient descent, got a run of adam"):
        stability(replace(slow, recipe=RECIPES["figure2-signed"]))


def test_shrinkage_is_constant_for_a_geometric_risk_and_not_for_a_power():
    run = train(Parity(6, (2, 5)), replace(RECIPES["theory"], epochs=40, updates_per_epoch=2), 3, progress=False)
    updates = 2.0 * torch.arange(41, dtype=torch.float64).unsqueeze(1).expand(-1, 3)
    geometric = replace(run, risk=0.5 + 0.99**updates)
    assert shrinkage(geometric, 0.5) == pytest.approx((0.01, 0.01))
    third, last = shrinkage(replace(run, risk=1 / (1 + updates)))
    assert third > 1.3 * last > 0


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


def test_the_two_forces_add_up_to_the_gradient():
    run = train(Parity(12, (2, 7)), replace(RECIPES["theory"], epochs=1, updates_per_epoch=2), seeds=3, progress=False)
    risk = population_risk(run.tasks, run.recipe)
    parts = [value_and_gradient(part, run.directions[0]) for part in risk.forces()]
    value, gradient = value_and_gradient(risk, run.directions[0])
    assert torch.allclose(parts[0][0] + parts[1][0], value, atol=1e-12)
    assert torch.allclose(parts[0][1] + parts[1][1], gradient, atol=1e-12)
    label_free, parity = force_norms(run)
    assert torch.allclose(label_free[0], parts[0][1].flatten(1).norm(dim=1))
    assert torch.allclose(parity[0], parts[1][1].flatten(1).norm(dim=1))


def test_a_loss_of_a_constant_minus_y_times_a_function_has_no_label_free_force():
    run = train(Parity(12, (2, 7)), replace(RECIPES["figure2-signed"], epochs=1), seeds=3, progress=False)
    label_free, parity = force_norms(run)
    assert label_free.max() < 1e-12 * parity.max()


def test_the_parity_terms_sum_to_the_parity_part_of_the_risk():
    risk = PopulationRisk(Parity(10, (2, 5, 9)), "squared_hinge", 0.5)
    heads = random_heads(1, 3, seed=8)[0]
    omega, terms = parity_terms(risk, heads)
    assert float(terms.sum()) == pytest.approx(float(risk.forces()[1](heads)), abs=1e-12)
    assert omega[1] == pytest.approx(2 * float(omega[0]))


def test_a_trap_of_the_third_harmonic_is_an_alias():
    tasks = [Parity(20, (7, 10, 17, 20)), Parity(20, (2, 7, 12, 17))]  # a trap, and a set that is found
    run = train(tasks, replace(RECIPES["figure2-signed"], epochs=1, updates_per_epoch=600), 2, progress=False)
    (trap,) = traps(run)
    assert run.recovered.tolist() == [False, True] and trap.task == tasks[0]
    assert trap.weights[list(trap.task.indices)].tolist() == pytest.approx([1 / 3] * 4, abs=0.05)
    assert trap.alias and trap.third_harmonic and trap.distance < 0.05
    assert trap.risk == pytest.approx(float(run.risk[-1, 0]), abs=1e-9)
    third = (trap.frequencies / math.pi).round() == 3
    assert -trap.stuck[third].sum() > 0.9 * -trap.stuck.sum()
    assert -trap.solved[third].sum() < 0.3 * -trap.solved.sum()


def test_a_run_on_the_way_or_with_its_bits_unequally_read_is_no_alias():
    trap = traps(train(Parity(20, (7, 10, 17, 20)), replace(RECIPES["figure2-signed"], epochs=1), 1, progress=False))[0]
    assert not replace(trap, gradient=1e-2).alias and not replace(trap, gradient=1e-2).third_harmonic
    unequal = torch.zeros_like(trap.weights)
    unequal[trap.task.indices[0]] = 4 / 3  # one third a bit on average
    assert not replace(trap, gradient=0.0, weights=unequal).alias


def test_the_landscape_is_the_risk_at_every_pair_of_angles():
    risk = PopulationRisk(Parity(8, (3, 6)), "sigmoid_hinge", 0.5)
    grid = angle_landscape(risk, 4.0, 16)
    heads = 2.0 * aligned_directions((3, 6), 8)
    assert float(grid[5, 11]) == pytest.approx(float(risk(heads)))
    assert torch.allclose(grid, grid.T)


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

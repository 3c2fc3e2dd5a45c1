"""The dossier of Theorem 5, step by step: every identity and inequality of its proofs."""

import math

import numpy as np
import pytest
import torch
from gradients import random_heads

from parity_lib import EnumeratedRisk, Parity, soft_attention, zigzag
from parity_lib.attention import position_weights, positional_code
from parity_lib.chapters.convergence import one_head_risk, risk_floor
from parity_lib.chapters.lemmas import Theorem5, prediction_derivatives
from parity_lib.readout import smoothed_relu, zigzag_weights

SMOOTHINGS = (1e-6, 1e-3, 0.01, 0.2, 1.0, 30.0, 1e4)


def epsilon(z, b):
    return (math.sqrt(z * z + b) - z) / 2


def rising(k, b):
    """f_q of the floor's proof, q = 1..k."""
    return [8 * z * epsilon(z, b) for z in np.arange(k) + 0.5]


@pytest.mark.parametrize("b", SMOOTHINGS)
def test_the_prediction_on_the_input_of_zeros_is_an_alternating_sum_of_rising_terms(b):
    terms = rising(7, b)
    closed = [4 * b / (1 + math.sqrt(1 + b / z**2)) for z in np.arange(7) + 0.5]
    assert terms == pytest.approx(closed, rel=1e-6) and closed == sorted(closed) and closed[0] > 0
    for k in range(1, 8):
        at_zero = float(zigzag(torch.zeros(1, dtype=torch.float64), k, b))
        assert at_zero - 1 == pytest.approx(sum((-1) ** q * f for q, f in enumerate(terms[:k], 1)), rel=1e-6, abs=1e-9)
        if b >= 1e-3:
            assert (at_zero < 1) == (k % 2 == 1)
            at_end = float(zigzag(torch.full((1,), float(k), dtype=torch.float64), k, b))
            assert k % 2 == 1 or at_end > 1


@pytest.mark.parametrize("b", SMOOTHINGS)
def test_two_bits_cannot_both_be_read_well_enough(b):
    s = torch.linspace(0, 1, 1001, dtype=torch.float64)
    u, v = ((s - 0.5) ** 2 + b).sqrt(), ((s - 1.5) ** 2 + b).sqrt()
    prediction = zigzag(s, 2, b)
    assert torch.allclose(prediction, 4 * s - 7 - 2 * u + 6 * v, atol=1e-9 * max(1, b))
    below = 4 * s - 6 + 4 * v
    assert (prediction + 1 >= below - 1e-9 * max(1, b)).all() and (below.diff() >= 0).all()
    assert float(below[0]) == pytest.approx(4 * math.sqrt(2.25 + b) - 6) and below[0] > 0


@pytest.mark.parametrize(("k", "n"), [(1, 6), (2, 6), (3, 7), (5, 7)])
def test_no_heads_get_below_the_floor(k, n):
    task = Parity(n, range(1, k + 1))
    for b in (0.01, 0.2, 1.0):
        risk = EnumeratedRisk(task, "squared_hinge", 1.0, b)
        heads = torch.cat([30 * random_heads(20, k, seed=1), 200 * positional_code(n)[:k].unsqueeze(0)])
        assert risk(heads).min() >= risk_floor(k, b, n) > 0


def test_for_more_even_bits_the_read_out_stays_above_minus_one_on_a_grid():
    s = torch.linspace(0, 1, 501, dtype=torch.float64)
    for k in (4, 6, 8):
        assert all((zigzag(s, k, b) > -1).all() for b in np.geomspace(1e-6, 1e6, 60))
    with pytest.raises(ValueError, match="odd k and for k = 2, got 4"):
        risk_floor(4, 0.1, 8)


def test_the_risk_of_one_head_without_smoothing_and_its_gradient():
    task, generator = Parity(7, (3,)), torch.Generator().manual_seed(0)
    exact = EnumeratedRisk(task, "squared_hinge", 1.0, 0.0)
    for scale in (8.0, 15.0, 40.0):
        noise = 0.2 * torch.randn(1, 2, generator=generator, dtype=torch.float64)
        head = (scale * positional_code(7)[[2]] + noise).requires_grad_()
        attention = soft_attention(head, 7, 1.0)
        assert attention[0, 2] >= 0.5
        risk = one_head_risk(attention[0], 3)
        assert risk.item() == pytest.approx(exact(head.detach()).item(), rel=1e-9)
        (slope,) = torch.autograd.grad(risk, head)
        assert float(slope.norm()) <= 4 * risk.item()
        delta = 1 - attention[0, 2]
        (turn,) = torch.autograd.grad(soft_attention(head, 7, 1.0)[0, 2], head)
        assert float(turn.norm()) <= 2 * delta.item()


def test_heads_that_point_away_have_no_gradient_and_a_risk_of_at_least_one():
    for k, b in ((1, 0.0), (2, 0.01), (3, 0.5)):
        risk = EnumeratedRisk(Parity(8, range(1, k + 1)), "squared_hinge", 1.0, b)
        value, slope = risk.value_and_gradient(500 * positional_code(8)[6].expand(k, 2))
        assert value >= 1 - 1e-9 and slope.norm() < 1e-20
    guesses = torch.linspace(-5, 5, 101, dtype=torch.float64)
    assert (((1 - guesses).relu() ** 2 + (1 + guesses).relu() ** 2) / 2).min() >= 1


@pytest.mark.parametrize("b", SMOOTHINGS)
def test_the_slopes_of_the_read_out_and_of_the_sum_are_bounded(b):
    for k in (1, 2, 3, 5):
        weights = zigzag_weights(k)
        partial = torch.tensor([(-1) ** q * 4.0 * q for q in range(1, k + 1)], dtype=torch.float64)
        assert torch.equal(weights.cumsum(0), partial) and weights.abs().sum() == 4 * k**2
        s = torch.linspace(0, k, 301, dtype=torch.float64).requires_grad_()
        (slope,) = torch.autograd.grad(zigzag(s, k, b).sum(), s, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), s)
        assert slope.abs().max() <= 4 * k + 1e-9 and bend.abs().max() <= 2 * k**2 / math.sqrt(b)
        assert zigzag(s, k, b).abs().max() <= 1 + 4 * k * math.sqrt(b) + 4 * k**2
    z = torch.linspace(-3, 3, 61, dtype=torch.float64)
    assert torch.allclose(
        smoothed_relu(z, b), z.relu() + torch.tensor([epsilon(abs(float(v)), b) for v in z]), atol=1e-9
    )


@pytest.mark.parametrize("b", [1e-3, 0.2, 50.0, 1e4])
def test_lemmas_14_and_15_follow_with_smaller_constants_and_16_in_its_range(b):
    n, temperature = 7, 0.3
    for k in (1, 2, 3):
        at = Theorem5(n, k, temperature, b)
        gradient = 2 * k**1.5 / temperature
        curvature = (4 * k + k**3 / (2 * math.sqrt(b))) / temperature**2
        assert gradient <= at.prediction_lipschitz and curvature <= at.prediction_smoothness
        product = (
            4 * k**3 + (1 + 4 * k**2 + 4 * k * math.sqrt(b)) * (4 * k + k**3 / (2 * math.sqrt(b)))
        ) / temperature**2
        assert product <= at.product_lipschitz or b > at.smoothing_limit
        for seed in range(4):
            heads, x = random_heads(1, k, seed=seed)[0], Parity(n, (1,)).cube()[37 + 20 * seed]
            value, slope, hessian = prediction_derivatives(x, heads, k, temperature, b)
            assert slope.norm() <= gradient and torch.linalg.matrix_norm(hessian, ord=2) <= curvature
            jacobian = torch.outer(slope, slope) + value * hessian
            assert torch.linalg.matrix_norm(jacobian, ord=2) <= product
            read = torch.autograd.functional.hessian(
                lambda a, x=x, k=k: position_weights(soft_attention(a.reshape(k, 2), n, 1.0), k) @ x, heads.reshape(-1)
            )
            assert torch.linalg.matrix_norm(read, ord=2) <= 1


def test_the_range_of_lemma_16_is_where_its_proof_ends():
    for k, limit in ((1, 124.0), (3, 14_200.0)):
        assert Theorem5(5, k, 1.0, 1.0).smoothing_limit == pytest.approx(limit, rel=0.02)
        inside, outside = (Theorem5(5, k, 1.0, limit * factor) for factor in (0.9, 1e6))
        assert inside.proved() == (True, True, True, True) and outside.proved() == (True, True, False, False)

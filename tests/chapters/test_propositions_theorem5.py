"""The dossier of Theorem 5, step by step: every identity and inequality of its proofs."""

import math

import numpy as np
import pytest
import torch
from gradients import random_heads

from parity_lib import EnumeratedRisk, Parity, soft_attention, zigzag
from parity_lib.attention import position_weights, positional_code
from parity_lib.chapters.convergence import one_head_risk, risk_floor
from parity_lib.chapters.lemmas import Theorem5, hessians, prediction_derivatives
from parity_lib.readout import smoothed_relu, zigzag_weights
from parity_lib.training import initial_directions

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
            falling = [8 * (k - z) * epsilon(z, b) for z in np.arange(k) + 0.5]
            alternating = sum((-1) ** p * f for p, f in enumerate(falling))
            assert falling == sorted(falling, reverse=True) and falling[-1] > 0
            assert (-1) ** k * at_end - 1 == pytest.approx(
                alternating, rel=1e-6, abs=1e-9 * max(1, b)
            ) and alternating > 0


@pytest.mark.parametrize("b", SMOOTHINGS)
@pytest.mark.parametrize("k", [2, 4, 6, 11])
def test_the_terms_of_the_prediction_rise_and_then_fall_between_known_heights(k, b):
    s = torch.linspace(0, 1, 101, dtype=torch.float64)
    z = torch.arange(1, k + 1, dtype=torch.float64) - 0.5 - s.unsqueeze(1)
    terms = 4 * (z + s.unsqueeze(1)) * 2 * smoothed_relu(-z, b)
    signs = (-1.0) ** torch.arange(1, k + 1, dtype=torch.float64)
    slack = 1e-9 * max(1, b)
    assert torch.allclose(zigzag(s, k, b), 1 + (signs * terms).sum(1), atol=10 * slack)
    falling = z > ((b - s**2) / (2 * s)).unsqueeze(1)  # beyond the maximum; never for s = 0
    steps = terms.diff(dim=1)
    assert (steps[falling[:, :-1]] <= slack).all() and (steps[~falling[:, 1:]] >= -slack).all()
    assert (terms <= 2 * (b + s**2).unsqueeze(1) + slack).all() and (terms[falling] >= 2 * b - slack).all()
    last, end = terms[:, -1], falling[:, -1]
    assert (last[end] - 2 * b >= (b * s / (k - 0.5))[end] - slack).all()
    if k % 2 == 0:
        left = (2 - 2 * (b + s**2) + last)[end]
        assert (zigzag(s, k, b)[end] + 1 >= left - 10 * slack).all() and (zigzag(s, k, b)[~end] >= 1 - slack).all()


def test_no_bit_with_a_weight_of_at_most_one_is_read_as_minus_one():
    s = torch.linspace(0, 1, 501, dtype=torch.float64)
    for k in (2, 4, 8, 20):
        for b in np.geomspace(1e-3, 1e4, 30):
            assert (zigzag(s, k, b) + 1).min() >= min(2, b / (k - 0.5)) > 0


@pytest.mark.parametrize(("k", "n"), [(1, 6), (2, 6), (3, 7), (4, 7), (5, 7)])
def test_no_heads_get_below_the_floor(k, n):
    task = Parity(n, range(1, k + 1))
    for b in (0.01, 0.2, 1.0):
        risk = EnumeratedRisk(task, "squared_hinge", 1.0, b)
        heads = torch.cat([30 * random_heads(20, k, seed=1), 200 * positional_code(n)[:k].unsqueeze(0)])
        assert risk(heads).min() >= risk_floor(k, b, n) > 0
        if k == 1:
            assert float(risk(heads[-1:])) == pytest.approx(risk_floor(1, b, n))  # attained in the limit


def squared_hinge(weights, k):
    """Risk of weights (rows, n) without smoothing, the first k positions being B: over all inputs."""
    x = Parity(weights.shape[1], range(1, k + 1)).cube()
    labels = 1 - 2 * (x[:, :k].sum(1) % 2)
    return (1 - labels * zigzag(weights @ x.T, k, 0.0)).relu().square().mean(1)


@pytest.mark.parametrize(("k", "n"), [(1, 4), (2, 5), (2, 8), (3, 7), (4, 7)])
def test_the_risk_sees_every_leak(k, n):
    draw = np.random.default_rng(k)
    leak = np.minimum(10.0 ** draw.uniform(-3, 0.5, 400), k)[:, None]
    outside = leak * draw.dirichlet(np.full(n - k, 0.5), 400)
    spread = np.where(draw.random(400) < 0.5, 0.5, 100.0)  # some close to equal weights on the bits
    inside = (k - leak) * np.stack([draw.dirichlet(np.full(k, size)) for size in spread])
    exact = np.maximum(np.concatenate([np.ones((400, k - 1)), 1 - leak], 1), 0)  # all of the leak from one bit
    inside[200:] = np.where(leak[200:] < 1, exact[200:], inside[200:])
    risk = squared_hinge(torch.tensor(np.concatenate([inside, outside], 1)), k)
    bound = 2.0 ** (-k - 1) * np.minimum(1, 2 * k * leak[:, 0]) ** 2
    assert (risk.numpy() >= bound).all() and (risk.numpy() / bound).min() < 20  # and it is not empty


def test_the_zigzag_changes_sign_at_its_k_zeros_only():
    for k in (1, 2, 3, 6):
        zeros = torch.tensor([q - 1 / (4 * q) for q in range(1, k + 1)], dtype=torch.float64)
        assert zigzag(zeros, k, 0.0).abs().max() < 1e-12
        s = torch.linspace(0, k, 1000, dtype=torch.float64)
        passed = (s.unsqueeze(1) > zeros).sum(1)
        assert (zigzag(s, k, 0.0) * (1 - 2 * (passed % 2)) > 0).all()


def descent(task, heads, step, updates):
    """Gradient descent at temperature 1 without smoothing: risks, lengths of the gradient and leaks, (updates,)."""
    risk, rows = EnumeratedRisk(task, "squared_hinge", 1.0, 0.0), []
    outside = [j for j in range(task.n) if j not in task.indices]
    for _ in range(updates):
        value, slope = risk.value_and_gradient(heads)
        leak = soft_attention(heads, task.n, 1.0)[:, outside].sum()
        rows.append((float(value), float(slope.norm()), float(leak)))
        heads = heads - step * slope
    return np.array(rows).T


@pytest.mark.parametrize(("bits", "step"), [((2,), 1.0), ((1, 4), 1.0), ((3, 4), 5.0), ((1, 3, 6), 0.3)])
def test_the_leak_falls_no_faster_than_the_sum_of_root_risks_allows(bits, step):
    task, k = Parity(7, bits), len(bits)
    aimed = 6 * positional_code(7)[[bit - 1 for bit in bits]]
    for heads in (5 * random_heads(1, k, seed=3)[0], aimed + 0.5 * random_heads(1, k, seed=4)[0]):
        risk, pull, leak = descent(task, heads, step, 60)
        assert (pull <= 4 * k**1.5 * np.sqrt(risk)).all()
        assert (np.log(leak[:-1] / leak[1:]) <= 8 * step * k**1.5 * np.sqrt(risk[:-1])).all()
        assert (np.abs(np.log(leak[:-1] / leak[1:])) <= 2 * step * pull[:-1]).all()


@pytest.mark.parametrize("bits", [(2,), (1, 4), (1, 3, 6)])
def test_next_to_a_solution_the_gradient_is_of_the_order_of_the_risk_and_descent_is_as_slow_as_one_over_t(bits):
    k, n, step = len(bits), 7, 2.0
    task, places = Parity(n, bits), [bit - 1 for bit in bits]
    heads = 18 * positional_code(n)[places] + 0.3 * random_heads(1, k, seed=1)[0]
    attention = soft_attention(heads, n, 1.0)
    leaks = 1 - attention[:, places].sum(1)
    assert leaks.sum() < 1 / n and attention.argmax(1).tolist() == places
    away = 1 - attention.amax(1)
    assert (away <= 2 * leaks).all()
    mean = attention @ positional_code(n)
    spread = (positional_code(n) - mean.unsqueeze(1)).norm(dim=2)
    turns = ((attention * spread) ** 2).sum(1) / 4  # the mean square of the gradient of S
    x = task.cube()
    both = zip(attention, mean, strict=True)
    literal = torch.stack([(g * x) @ positional_code(n) - (x @ g).unsqueeze(1) * m for g, m in both])
    assert torch.allclose(literal.square().sum(2).mean(1), turns, rtol=1e-9) and (turns <= 2 * away**2).all()
    risk, pull, leak = descent(task, heads, step, 400)
    assert (pull <= 16 * 2 ** (k / 2) * risk).all() and (risk <= 64 * k**2 * leak**2).all()
    assert (np.log(leak[:-1] / leak[1:]) <= 256 * math.sqrt(2) * k**2 * step * leak[:-1] ** 2).all()
    products = np.arange(1, 401) * risk
    assert products[-1] >= 2.0**-k / (256 * math.sqrt(2) * step)
    shares = risk[1:] / risk[:-1]
    assert shares[300:].min() > shares[50:100].max()  # every step takes a smaller share than before


@pytest.mark.parametrize("n", [5, 8, 11])
def test_a_head_gives_the_other_bits_no_more_than_it_leaks_where_no_bits_are_neighbours(n):
    angles = torch.linspace(0, 2 * math.pi, 400, dtype=torch.float64)
    directions = torch.stack([angles.sin(), angles.cos()], 1)
    bits = list(range(0, n - 1, 2))
    for size in (1.0, 6.0, 40.0):
        attention = soft_attention(size * directions, n, 1.0)
        on_a_bit = torch.isin(attention.argmax(1), torch.tensor(bits))
        leak = 1 - attention[:, bits].sum(1)
        assert on_a_bit.any() and (1 - attention.amax(1) <= 2 * leak + 1e-12)[on_a_bit].all()
        assert (leak >= 1 / n)[~on_a_bit].all()


@pytest.mark.parametrize("b", [0.01, 0.2, 3.0])
def test_one_head_with_smoothing_comes_no_faster_than_one_over_t_to_the_infimum(b):
    task, step = Parity(6, (3,)), 0.02
    risk = EnumeratedRisk(task, "squared_hinge", 1.0, b)
    half = torch.tensor([-0.5, 0.5], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(smoothed_relu(half, b).sum(), half)
    low, high = smoothed_relu(half, b).tolist()
    least, growth = risk_floor(1, b, 6), 128 * high * step
    for heads in (random_heads(1, 1, seed=2)[0], 3 * positional_code(6)[[2]]):
        first = 1 - float(soft_attention(heads, 6, 1.0)[0, 2])
        for t in range(40):
            value, pull = risk.value_and_gradient(heads)
            left = 1 - float(soft_attention(heads, 6, 1.0)[0, 2])
            assert value - least >= 8 * low * float(slope[0]) * left and pull.norm() <= 64 * high * left
            assert value - least >= 8 * low * float(slope[0]) / (1 / first + growth * math.exp(growth) * t)
            heads = heads - step * pull


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


def test_the_range_of_lemma_16_is_where_its_proof_ends_and_lemma_7_goes_on_from_two_heads_on():
    for k, limit in ((1, 124.0), (3, 14_200.0)):
        assert Theorem5(5, k, 1.0, 1.0).smoothing_limit == pytest.approx(limit, rel=0.02)
        inside, outside = (Theorem5(5, k, 1.0, limit * factor) for factor in (0.9, 1e6))
        assert inside.proved == (True, True, True, True) and outside.proved == (True, True, False, k > 1)


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("b", [1e-3, 1.0, 1e3, 1e8])
def test_lemma_7_from_two_heads_on_step_by_step(k, b):
    """The mean of S's curvature over either label is 0; what is left is bounded, and far below the stated constant."""
    n = 6
    task = Parity(n, range(1, k + 1))
    x = task.cube()
    labels = task.labels(x)
    s = torch.linspace(0, k, 400, dtype=torch.float64, requires_grad=True)
    g = (-1) ** k * zigzag(s, k, b)
    (slope,) = torch.autograd.grad(g.sum(), s, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), s)
    root = math.sqrt(b)
    assert g[-1] >= 1 - 1e-6 * root and (1 - g).max() <= 4 * k**2
    assert (2 * slope**2 + 2 * (1 - g).clamp(0) * bend.abs()).max() <= 32 * k**2 + 16 * k**4 / root
    other = 32 * k**2 + 16 * k**3 + (8 * k**2 + 16 * k**4) / root
    assert (2 * slope**2 + 2 * (1 + g).clamp(0) * bend.abs()).max() <= other
    ours = 40 * k**3 + 10 * k**4 + (5 * k**3 + 12 * k**5) / root
    assert ours <= Theorem5(n, k, 1.0, b).risk_smoothness

    for seed, norm in enumerate((0.5, 3.0, 10.0)):
        heads = norm * initial_directions([seed], k)[0]
        for label in (-1, 1):
            mean = x[labels == label].mean(0)
            curvature = torch.autograd.functional.hessian(
                lambda a, mean=mean: position_weights(soft_attention(a, n, 1.0), k) @ mean, heads
            )
            assert curvature.abs().max() < 1e-12
        risk = EnumeratedRisk(task, "squared_hinge", 1.0, b)
        assert torch.linalg.matrix_norm(hessians(risk, heads[None]), ord=2).item() <= ours


@pytest.mark.parametrize("k", [1, 2, 3])
def test_for_a_huge_smoothing_the_prediction_grows_like_its_root_and_its_slope_does_not(k):
    b, s = 1e10, torch.linspace(0, k, 5, dtype=torch.float64, requires_grad=True)
    prediction = zigzag(s, k, b)
    (slope,) = torch.autograd.grad(prediction.sum(), s)
    assert torch.allclose(prediction, torch.full_like(s, (-1) ** k * 2 * k * math.sqrt(b)), rtol=1e-3)
    assert torch.allclose(slope, torch.full_like(s, (-1.0) ** k * 2 * k), rtol=1e-3)

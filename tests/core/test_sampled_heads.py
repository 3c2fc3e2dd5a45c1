"""Sampled attention: permanents, and the exact risk against a sum over all draws and inputs."""

from itertools import combinations, permutations, product

import pytest
import torch
from gradients import assert_gradient_matches_differences, random_heads, value_and_gradient
from hypothesis import given
from hypothesis import strategies as st

from parity_lib import LOSSES, Parity, soft_attention, zigzag
from parity_lib.sampled_heads import ProductHeadRisk, SampledAttentionRisk, log_permanent


def permanent_by_permutations(matrix):
    k = len(matrix)
    return sum(torch.stack([matrix[i, s[i]] for i in range(k)]).prod() for s in permutations(range(k)))


def permanent_by_ryser(matrix):
    k = len(matrix)
    subsets = [list(s) for size in range(1, k + 1) for s in combinations(range(k), size)]
    return (-1) ** k * sum((-1) ** len(s) * matrix[:, s].sum(1).prod() for s in subsets)


@given(st.integers(1, 6), st.integers(0, 10**6))
def test_permanents_equal_the_sum_over_permutations_and_rysers_formula(k, seed):
    matrix = torch.rand(k, k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = float(log_permanent(matrix).exp())
    assert found == pytest.approx(float(permanent_by_permutations(matrix)), rel=1e-12)
    assert found == pytest.approx(float(permanent_by_ryser(matrix)), rel=1e-9)


def test_tiny_permanents_keep_their_digits_where_rysers_formula_loses_them():
    matrix = torch.tensor([[1.0, 1e-15, 1e-15]] * 3, dtype=torch.float64)  # three heads on the same bit
    exact = 6e-30
    assert float(log_permanent(matrix).exp()) == pytest.approx(exact, rel=1e-12)
    assert abs(float(permanent_by_ryser(matrix)) - exact) > 0.5 * exact


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_risk_is_the_mean_over_all_inputs_and_all_draws_of_positions(k):
    n = 5
    task = Parity.random(n, k, torch.Generator().manual_seed(k))
    heads = random_heads(1, k, seed=k)[0]
    attention = soft_attention(heads, n, 0.7)
    x = task.cube()
    expected = {"linear": 0.0, "squared_hinge": 0.0}
    for draw in product(range(n), repeat=k):
        chance = torch.stack([attention[i, j] for i, j in enumerate(draw)]).prod()
        prediction = zigzag(x[:, draw].sum(1), k, 0.0)
        for loss in expected:
            expected[loss] += float(chance * LOSSES[loss](task.labels(x), prediction).mean())
    for loss, value in expected.items():
        assert float(SampledAttentionRisk(task, loss, 0.7)(heads)) == pytest.approx(value, abs=1e-12)


def test_the_product_head_has_the_same_expectation():
    task = Parity(8, (2, 3, 7))
    heads = random_heads(1, 3, seed=2)
    attention = soft_attention(heads[0], 8, 1.0)
    x = task.cube()
    enumerated = (1 - task.labels(x) * (1 - 2 * x @ attention.T).prod(-1)).mean()
    exact = SampledAttentionRisk(task, "linear")(heads)
    assert float(exact) == pytest.approx(float(enumerated), abs=1e-12)
    whole = ProductHeadRisk(task, batch=2**8, generators=[torch.Generator()], cube_share=1.0)
    assert float(whole(heads)) == pytest.approx(float(enumerated), abs=1e-12)


@pytest.mark.parametrize("code", ["circle", "powers"])
@pytest.mark.parametrize("loss", ["linear", "log"])
def test_gradients_match_finite_differences(loss, code):
    task = Parity(12, (1, 5, 6))
    width = 2 if code == "circle" else 6
    heads = torch.randn(2, 3, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert_gradient_matches_differences(SampledAttentionRisk(task, loss, 1.0, code), heads, tolerance=1e-7)


def test_rows_may_have_different_bits():
    tasks = [Parity(9, (1, 4)), Parity(9, (2, 3))]
    heads = random_heads(2, 2, seed=1)
    together, _ = value_and_gradient(SampledAttentionRisk(tasks), heads)
    alone = [float(SampledAttentionRisk(task)(row)) for task, row in zip(tasks, heads, strict=True)]
    assert together.tolist() == pytest.approx(alone)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: SampledAttentionRisk(Parity(5, (1, 2)), "hinge"), "unknown loss 'hinge' for sampled attention"),
        (lambda: SampledAttentionRisk(Parity(5, (1, 2)))(random_heads(1, 3, 0)), "sampled attention needs k = 2 heads"),
        (lambda: log_permanent(torch.ones(2, 3)), "a permanent needs square matrices, got shape"),
        (lambda: SampledAttentionRisk(Parity(5, (1, 2)), code="line"), "unknown positional code 'line'; known: circle"),
    ],
)
def test_bad_calls_are_refused_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()

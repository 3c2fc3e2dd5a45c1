"""Attention, read-outs and the literal token-level model."""

import math

import pytest
import torch
from gradients import assert_gradient_matches_differences, random_heads
from hypothesis import given
from hypothesis import strategies as st

from parity_lib import FFNN1, LOSSES, Parity, hard_attention, literal_prediction, soft_attention, zigzag
from parity_lib.attention import aligned_directions, angle_to_position, head_matrices, position_weights
from parity_lib.losses import find_loss
from parity_lib.readout import smoothed_relu
from parity_lib.risk import aligned_hard_risk


@given(st.integers(2, 50), st.floats(1e-3, 1e3), st.integers(0, 10**6))
def test_attention_is_a_distribution_and_the_weights_sum_to_k(n, temperature, seed):
    attention = soft_attention(random_heads(2, 3, seed), n, temperature)
    assert torch.allclose(attention.sum(-1), torch.ones(2, 3, dtype=torch.float64))
    assert torch.allclose(position_weights(attention, 5).sum(-1), torch.full((2,), 5.0, dtype=torch.float64))


@given(st.integers(3, 60), st.data())
def test_a_head_aligned_with_a_bit_points_at_it(n, data):
    bit = data.draw(st.integers(1, n))
    directions = aligned_directions((bit,), n)
    assert hard_attention(directions, n).argmax().item() == bit - 1
    assert angle_to_position(3 * directions, n).item() == pytest.approx(bit)


def test_column_zero_multiplies_sine_and_column_one_cosine():
    quarter = soft_attention(torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64), 8, 1.0)
    assert quarter.argmax(-1).tolist() == [1, 7]  # sin peaks at position 2 of 8, cos at position 8


@pytest.mark.parametrize("smoothing", [0.0, 1e-2, 1.0])
@pytest.mark.parametrize("temperature", [0.01, 0.2, 1.0, 3.0])
def test_the_collapsed_model_equals_the_literal_transformer(temperature, smoothing):
    task = Parity(6, (1, 3, 4))
    x = task.cube()
    for heads in (1, 3, 4):
        directions = random_heads(1, heads, seed=heads)[0]
        weights = position_weights(soft_attention(directions, 6, temperature), task.k)
        fast = zigzag(x @ weights, task.k, smoothing)
        literal = literal_prediction(x, head_matrices(directions), task.k, temperature, smoothing)
        assert torch.allclose(fast, literal, atol=1e-12, rtol=0)


def test_the_literal_model_reads_all_sixteen_entries_of_a_head():
    x = Parity(5, (1, 2)).cube()
    matrices = torch.zeros(1, 4, 4, dtype=torch.float64)
    base = literal_prediction(x, matrices, 2, 1.0, 1e-2)
    first_row = matrices.clone()
    first_row[0, 0, 0] = 1.0  # scores now see the token itself
    other_row = matrices.clone()
    other_row[0, 2, 1] = 1.0  # the CLS token (1, 0, 0, 0) only asks with the first row
    assert not torch.allclose(literal_prediction(x, first_row, 2, 1.0, 1e-2), base)
    assert torch.equal(literal_prediction(x, other_row, 2, 1.0, 1e-2), base)


@pytest.mark.parametrize("k", range(1, 9))
def test_the_zigzag_head_is_the_parity_at_whole_sums_and_overshoots_between_them(k):
    whole = torch.arange(k + 1, dtype=torch.float64)
    assert torch.allclose(zigzag(whole, k, 0.0), 1 - 2 * (whole % 2), atol=1e-11)
    between = zigzag(torch.linspace(0, k, 2 * k + 1, dtype=torch.float64), k, 0.0)
    assert between.abs().max().item() == pytest.approx(max(1, 2 * k - 1))


def test_smoothed_relu_tends_to_the_relu_and_has_a_gradient_at_zero():
    z = torch.linspace(-2, 2, 9, dtype=torch.float64)
    assert torch.equal(smoothed_relu(z, 0.0), z.relu())
    assert torch.allclose(smoothed_relu(z, 1e-12), z.relu(), atol=1e-6)
    assert_gradient_matches_differences(lambda t: smoothed_relu(t, 0.1), z)
    leaf = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    smoothed_relu(leaf, 0.0).backward()
    assert leaf.grad.isfinite().all()


def test_trainable_network_starts_from_its_generator():
    first, second = (FFNN1(4, 3, 0.1, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first.beta, second.beta) and first.beta.abs().max() <= 0.5
    assert len(list(first.parameters())) == 4


@pytest.mark.parametrize("smoothing", [0.0, 1e-4, 0.3])
def test_aligned_hard_heads_have_the_binomial_risk(smoothing):
    task = Parity(9, (1, 4, 7))
    x = task.cube()
    weights = position_weights(hard_attention(aligned_directions(task.bits, 9), 9), task.k)
    enumerated = LOSSES["squared_hinge"](task.labels(x), zigzag(x @ weights, 3, smoothing)).mean().item()
    assert aligned_hard_risk(3, smoothing) == pytest.approx(enumerated, abs=1e-14)


def test_soft_heads_of_unit_norm_miss_the_target_at_temperature_one_over_n():
    task = Parity(16, (1, 6, 11))
    x = task.cube()
    for temperature, low, high in ((1 / 16, 3.0, 5.0), (1 / 16**2, 0.0, 1e-6)):
        weights = position_weights(soft_attention(aligned_directions(task.bits, 16), 16, temperature), 3)
        risk = LOSSES["squared_hinge"](task.labels(x), zigzag(x @ weights, 3, 0.0)).mean().item()
        assert low <= risk <= high


@pytest.mark.parametrize("name", LOSSES)
def test_losses_split_into_a_label_free_part_and_a_parity_signal(name):
    prediction = torch.linspace(-40, 40, 161, dtype=torch.float64)
    label_free, parity = LOSSES[name].split(prediction)
    for y in (-1.0, 1.0):
        assert torch.allclose(label_free + y * parity, LOSSES[name](torch.tensor(y), prediction), atol=1e-9)
    if name in ("sigmoid_hinge", "sigmoid_hinge_01", "tanh", "linear"):
        assert torch.allclose(label_free, torch.ones_like(prediction))  # const - y g: no label-free force


def test_losses_at_hand_computed_points():
    y, p = torch.tensor([1.0, -1.0]).double(), torch.tensor([0.5, 0.5]).double()
    sigmoid = 1 / (1 + math.exp(-0.5))
    quarter = 1 / (1 + math.exp(-0.25))
    expected = {
        "squared_hinge": (0.25, 2.25),
        "hinge": (0.5, 1.5),
        "sigmoid_hinge": (1 - sigmoid, 1 + sigmoid),
        "sigmoid_hinge_01": (1 + quarter, 1 - quarter),
        "tanh": (1 - math.tanh(0.5), 1 + math.tanh(0.5)),
        "linear": (0.5, 1.5),
        "logistic": (math.log1p(math.exp(-0.5)), math.log1p(math.exp(0.5))),
    }
    assert set(expected) == set(LOSSES)
    for name, values in expected.items():
        assert LOSSES[name](y, p).tolist() == pytest.approx(values)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "1", None])
def test_bad_temperatures_are_refused(value):
    with pytest.raises(ValueError, match="temperature must be a positive finite number, got"):
        soft_attention(random_heads(1, 1, 0), 4, value)


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf, "0"])
def test_bad_smoothings_are_refused(value):
    with pytest.raises(ValueError, match="smoothing must be a non-negative finite number, got"):
        zigzag(torch.zeros(1), 2, value)


def test_unknown_losses_are_refused_with_the_known_names():
    with pytest.raises(ValueError, match="unknown loss 'hing'; known: squared_hinge, hinge, sigmoid_hinge"):
        find_loss("hing")

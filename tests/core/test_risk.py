"""The exact risk against enumeration, the literal model, closed forms and finite differences."""

import math
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
from gradients import assert_gradient_matches_differences, random_heads, value_and_gradient
from hypothesis import given, settings
from hypothesis import strategies as st

from parity_lib import LOSSES, EnumeratedRisk, MinibatchRisk, Parity, PopulationRisk, literal_prediction
from parity_lib.attention import head_matrices, position_weights, soft_attention
from parity_lib.losses import find_loss
from parity_lib.readout import Zigzag, zigzag
from parity_lib.series import MAX_FREQUENCIES, fourier_series, trigonometric_sums

SMOOTH = [name for name, loss in LOSSES.items() if not loss.kinked]
KINKED = [name for name, loss in LOSSES.items() if loss.kinked]


def errors(loss: str, n: int, k: int, temperature: float, **options) -> tuple[float, float]:
    """Largest error of value and gradient against enumeration over three random starts."""
    task = Parity.random(n, k, torch.Generator().manual_seed(100 * n + k))
    heads = random_heads(3, k, seed=n + k)
    exact, exact_gradient = value_and_gradient(EnumeratedRisk(task, loss, temperature), heads)
    value, gradient = value_and_gradient(PopulationRisk(task, loss, temperature, **options), heads)
    return float((value - exact).abs().max()), float((gradient - exact_gradient).abs().max())


def temperatures(n: int) -> tuple[float, ...]:
    return 1 / n**2, 1 / n, 1.0, n / 4


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("n", [6, 9, 11, 14])
def test_smooth_losses_are_exact_to_1e_9(loss, n):
    for k in range(1, 7):
        for temperature in temperatures(n):
            value, gradient = errors(loss, n, k, temperature)
            assert value < 1e-9 and gradient < 1e-8, (k, temperature, value, gradient)


@pytest.mark.parametrize("n", [6, 9, 11, 14])
def test_the_squared_hinge_is_exact_to_1e_5_and_its_gradient_to_2e_3(n):
    for k in range(1, 7):
        for temperature in temperatures(n):
            value, gradient = errors("squared_hinge", n, k, temperature)
            assert value < 1e-5 and gradient < 2e-3, (k, temperature, value, gradient)


@pytest.mark.parametrize("n", [6, 9, 12])
def test_the_series_of_the_hinge_is_exact_to_1e_5_in_value_and_mostly_to_2e_3_in_gradient(n):
    settings = [(k, temperature) for k in range(1, 7) for temperature in temperatures(n)]
    found = [errors("hinge", n, k, temperature, frequencies=MAX_FREQUENCIES) for k, temperature in settings]
    assert max(value for value, _ in found) < 1e-5
    assert sorted(gradient for _, gradient in found)[len(found) // 2] < 2e-3
    assert max(gradient for _, gradient in found) < 0.1


@cache
def kinks(label: int, k: int, smoothing: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Where on a period the hinge of ``label`` has its kinks, and how far its slope jumps there."""
    u = torch.linspace(-(k + 1) / 2, (k + 1) / 2, 2**18, dtype=torch.float64)
    prediction, slope = value_and_gradient(lambda s: zigzag(s, k, smoothing), u + k / 2)
    margin = 1 - label * prediction
    at = (margin[1:] * margin[:-1] < 0).nonzero()[:, 0]
    return u[at] + (u[1] - u[0]) * margin[at] / (margin[at] - margin[at + 1]), slope[at].abs()


@pytest.mark.parametrize("n", [6, 9])
@pytest.mark.parametrize("frequencies", [64, 1024, MAX_FREQUENCIES])
def test_only_inputs_near_a_kink_spoil_the_gradient_of_the_hinge_and_by_no_more_than_stated(n, frequencies):
    for k, temperature in product(range(1, 7), temperatures(n)):
        task = Parity.random(n, k, torch.Generator().manual_seed(n + k))
        weights = position_weights(soft_attention(random_heads(1, k, seed=n + k), n, temperature), k)
        _, gradient = value_and_gradient(PopulationRisk(task, "hinge", frequencies=frequencies).of_weights, weights)
        x = task.cube()
        y, u = task.labels(x), x @ weights[0] - k / 2
        prediction, head_slope = value_and_gradient(lambda s, k=k: zigzag(s, k, 1e-2), u + k / 2)
        exact = ((-y * head_slope * (y * prediction < 1)).unsqueeze(1) * (x - 0.5)).mean(0)
        stated = 0.0
        for label in (-1, 1):
            places, jumps = kinks(label, k, 1e-2)
            distance = (u[y == label].unsqueeze(1) - places).abs()
            share = 1 / (math.pi * (frequencies + 1) * (math.pi * distance / (k + 1)).sin().abs())
            stated += float((jumps / 2 * share.clamp(max=0.5)).sum()) / len(x)
        assert float((gradient[0] - exact).abs().max()) <= stated


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("smoothing", [1e-2, 0.0])
def test_value_and_gradient_are_those_of_the_literal_model_at_small_n(loss, smoothing):
    """Where the series is slow to converge and the inputs are few, the inputs themselves are summed."""
    task = Parity(7, (1, 2, 6))
    x, directions = task.cube(), random_heads(1, 3, seed=5)[0]

    def literal(heads):
        return LOSSES[loss](task.labels(x), literal_prediction(x, head_matrices(heads), 3, 0.4, smoothing)).mean()

    value, gradient = PopulationRisk(task, loss, 0.4, smoothing).value_and_gradient(directions)
    exact, exact_gradient = value_and_gradient(literal, directions)
    series = loss == "squared_hinge" and smoothing > 0
    assert torch.allclose(value, exact, atol=1e-5 if series else 1e-9)
    assert torch.allclose(gradient, exact_gradient, atol=2e-3 if series else 1e-8)


@pytest.mark.parametrize("loss", KINKED)
def test_more_frequencies_shrink_the_error_of_losses_with_a_kink(loss):
    def total(frequencies):
        pairs = [errors(loss, 10, k, t, frequencies=frequencies) for k in (2, 3, 5) for t in (1 / 10, 1.0)]
        return [sum(column) for column in zip(*pairs, strict=True)]

    coarse, middle, fine = (total(frequencies) for frequencies in (64, 512, 4096))
    for quantity in (0, 1):
        assert fine[quantity] < middle[quantity] / 2 < coarse[quantity] / 4


@pytest.mark.parametrize(("loss", "value_error"), [("sigmoid_hinge", 2e-6), ("squared_hinge", 2e-4)])
def test_the_series_of_the_relu_has_its_documented_accuracy(loss, value_error):
    task = Parity(10, (2, 5, 9))
    heads = random_heads(4, 3, seed=3)
    exact = EnumeratedRisk(task, loss, 0.3, 0.0)(heads)
    series = PopulationRisk(task, loss, 0.3, 0.0, frequencies=MAX_FREQUENCIES)
    assert float((series(heads) - exact).abs().max()) < value_error


@settings(max_examples=30)
@given(
    st.sampled_from(sorted(LOSSES)),
    st.integers(2, 9),
    st.floats(1e-3, 1e2),
    st.floats(1e-3, 1.0),
    st.floats(0.0, 1e3),
    st.integers(0, 10**6),
    st.data(),
)
def test_the_error_stays_within_the_stated_bound(loss, n, temperature, smoothing, norm, seed, data):
    bits = data.draw(st.sets(st.integers(1, n), min_size=1, max_size=6))
    heads = data.draw(st.integers(1, 4))
    frequencies = data.draw(st.sampled_from([None, 40, 200]))
    task, directions = Parity(n, bits), random_heads(2, heads, seed, norm)
    risk = PopulationRisk(task, loss, temperature, smoothing, frequencies=frequencies)
    value, gradient = value_and_gradient(risk, directions)
    exact = EnumeratedRisk(task, loss, temperature, smoothing)(directions)
    assert gradient.isfinite().all()
    assert float((value - exact).abs().max()) <= risk.error_estimate + 1e-12


@pytest.mark.parametrize("loss", ["squared_hinge", "sigmoid_hinge", "logistic"])
@pytest.mark.parametrize("n", [20, 300])
def test_the_closed_form_gradient_matches_finite_differences(loss, n):
    risk = PopulationRisk(Parity(n, (3, 7, 12)), loss, 1.0)
    assert_gradient_matches_differences(risk, random_heads(2, 3, seed=n, norm=2.0), tolerance=1e-6)


def test_the_cosine_product_is_the_characteristic_function():
    """With one frequency and a coefficient of one, the sums are the two products themselves."""
    weights = torch.tensor([[1.1, 1.0, 0.7, 0.2]], dtype=torch.float64)  # B comes first
    one, zero = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    bits = torch.tensor([[0, 1]])
    cosines, sines = (0.5 * weights[0]).cos(), (0.5 * weights[0]).sin()
    assert float(trigonometric_sums(weights, bits, 0.5, one, zero)[0]) == pytest.approx(float(cosines.prod()))
    expected = float(cosines[2] * cosines[3] * sines[0] * sines[1])
    assert float(trigonometric_sums(weights, bits, 0.5, zero, one)[0]) == pytest.approx(expected)


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("size", [1e-60, 1e-100, 1e-250])
def test_a_parity_signal_of_any_size_is_right(k, size):
    """Where bits are hardly read the signal is their weights' product times a constant, however small that is."""
    others = torch.linspace(0.5, 1.0, 4, dtype=torch.float64)

    def signal(scale):
        weights = torch.cat([torch.full((k,), scale ** (1 / k), dtype=torch.float64), others]).unsqueeze(0)
        parity = torch.linspace(1, 2, 40, dtype=torch.float64)
        bits = torch.arange(k).unsqueeze(0)
        value, gradient = trigonometric_sums(weights, bits, 0.3, torch.zeros_like(parity), parity)
        return float(value) / scale, gradient[0, :k] * weights[0, :k] / scale, gradient[0, k:] / scale

    for tiny, small in zip(signal(size), signal(1e-12**k), strict=True):
        assert tiny == pytest.approx(small, rel=1e-9)


def test_saturated_heads_keep_a_finite_and_correct_gradient():
    """Hard attention makes cosines and sines exactly zero; nothing may divide by them."""
    task = Parity(6, (1, 2, 4))
    weights = torch.tensor(
        [[3, 0, 0, 0, 0, 0], [1, 1, 0, 1, 0, 0], [0, 0, 3, 0, 0, 0], [1, 0, 0, 2, 0, 0], [0.5, 1, 0, 1, 0, 0.5]],
        dtype=torch.float64,
    )
    for loss in SMOOTH:
        exact = value_and_gradient(EnumeratedRisk(task, loss).of_weights, weights)
        found = value_and_gradient(PopulationRisk(task, loss).of_weights, weights)
        assert torch.allclose(exact[0], found[0], atol=1e-9)
        centred = [g - g.mean(-1, keepdim=True) for g in (exact[1], found[1])]  # weights must sum to k
        assert torch.allclose(*centred, atol=1e-8)


def test_rows_may_have_different_bits():
    tasks = [Parity(8, (1, 4)), Parity(8, (2, 3)), Parity(8, (5, 8))]
    heads = random_heads(3, 2, seed=1)
    together = PopulationRisk(tasks, "logistic")(heads)
    assert torch.allclose(together, EnumeratedRisk(tasks, "logistic")(heads), atol=1e-10)
    single = torch.stack([PopulationRisk(task, "logistic")(row) for task, row in zip(tasks, heads, strict=True)])
    assert torch.allclose(together, single, atol=1e-14)


@pytest.mark.parametrize("loss", ["squared_hinge", "sigmoid_hinge"])
def test_the_two_ways_to_the_gradient_agree(loss):
    heads = random_heads(5, 4, seed=8)  # four heads for three bits
    for risk in (PopulationRisk(Parity(12, (2, 7, 9)), loss, 0.3), EnumeratedRisk(Parity(12, (2, 7, 9)), loss, 0.3)):
        composed = value_and_gradient(lambda d, r=risk: r.of_attention(soft_attention(d, 12, 0.3)), heads)
        for direct in (risk.value_and_gradient(heads), value_and_gradient(risk, heads)):
            assert all(torch.allclose(*pair, atol=1e-14) for pair in zip(direct, composed, strict=True))


@pytest.mark.parametrize(("n", "errors"), [(20, (5e-6, 2e-6)), (100, (5e-6, 2e-6)), (1000, (5e-5, 3e-7))])
def test_single_precision_has_its_stated_error(n, errors):
    for loss, norm in product(("squared_hinge", "sigmoid_hinge", "logistic"), (1.0, 20.0)):
        risk, heads = PopulationRisk(Parity(n, (3, 9, 15)), loss), random_heads(8, 3, seed=n, norm=norm)
        single, double = risk.value_and_gradient(heads.float()), risk.value_and_gradient(heads)
        assert [part.dtype for part in single] == [torch.float32] * 2
        for found, wanted, error in zip(single, double, errors, strict=True):
            assert float((found - wanted).abs().max()) < error


@pytest.mark.parametrize("loss", ["hinge", "sigmoid_hinge"])
@pytest.mark.parametrize("tasks", [Parity(9, (1, 4)), [Parity(9, (1, 4)), Parity(9, (2, 3))]])
def test_every_tensor_lives_on_the_device_of_the_weights(tasks, loss):
    """The meta device refuses to mix with the CPU, as a GPU does."""
    weights = torch.ones(2, 9, dtype=torch.float64, device="meta")
    for risk in (PopulationRisk(tasks, loss), PopulationRisk(tasks, loss, frequencies=200)):
        value, gradient = risk.by_weights(weights)  # what comes before it looks at the numbers, and meta has none
        assert (value.device.type, value.shape) == ("meta", (2,))
        assert (gradient.device.type, gradient.shape) == ("meta", (2, 9))


def test_leading_shapes_are_kept():
    risk = PopulationRisk(Parity(5, (1, 3)), "tanh")
    assert risk(random_heads(1, 2, 0)[0]).shape == ()
    assert risk(random_heads(6, 2, 0).reshape(2, 3, 2, 2)).shape == (2, 3)
    assert risk(random_heads(6, 2, 0)[:0]).shape == (0,)


def test_ten_thousand_positions_are_no_problem():
    risk = PopulationRisk(Parity(10_000, (17, 4711, 9999)), "sigmoid_hinge")
    value, gradient = value_and_gradient(risk, random_heads(2, 3, 0, norm=100.0))
    assert value.isfinite().all() and gradient.isfinite().all()


def test_frequencies_follow_the_requested_accuracy():
    task = Parity(10, (2, 5, 9))
    loose, tight = (PopulationRisk(task, "squared_hinge", accuracy=a) for a in (1e-3, 1e-6))
    assert loose.frequencies < tight.frequencies
    assert loose.error_estimate <= 1e-3 and tight.error_estimate <= 1e-6
    assert PopulationRisk(task, "sigmoid_hinge").frequencies < 200
    assert PopulationRisk(task, "hinge").over_inputs and PopulationRisk(task, "hinge").error_estimate == 0
    longer = PopulationRisk(Parity(20, (2, 5, 9)), "hinge")
    assert longer.frequencies == MAX_FREQUENCIES and 1e-5 < longer.error_estimate < 1e-3
    tail = fourier_series(find_loss("hinge"), Zigzag(0.01), 3).tail
    assert tail[100] > tail[1000]


def test_minibatches_estimate_the_population_risk():
    task = Parity(23, (3, 11, 22))
    heads = random_heads(3, 3, seed=2, norm=4.0)
    generators = [torch.Generator().manual_seed(seed) for seed in range(3)]
    sampled = MinibatchRisk(task, "logistic", 1.0, 1e-2, batch=200_000, generators=generators)
    exact, exact_gradient = value_and_gradient(PopulationRisk(task, "logistic"), heads)
    value, gradient = value_and_gradient(sampled, heads)
    assert float((value - exact).abs().max()) < 0.02
    assert float((gradient - exact_gradient).abs().max()) < 0.02


def test_one_pass_over_the_whole_cube_is_the_population_risk():
    task = Parity(12, (2, 5, 12))
    heads = random_heads(2, 3, seed=4)
    generators = [torch.Generator().manual_seed(seed) for seed in range(2)]
    whole = MinibatchRisk(task, "squared_hinge", 0.5, 0.0, batch=2**12, generators=generators, cube_share=1.0)
    exact = value_and_gradient(EnumeratedRisk(task, "squared_hinge", 0.5, 0.0), heads)
    for found, wanted in zip(value_and_gradient(whole, heads), exact, strict=True):
        assert torch.allclose(found, wanted, atol=1e-12)


def test_an_epoch_visits_every_training_input_once_and_the_last_batch_is_smaller():
    generators = [torch.Generator().manual_seed(seed) for seed in range(2)]
    risk = MinibatchRisk(Parity(11, (1, 2)), "hinge", 1.0, 0.0, batch=600, generators=generators, cube_share=0.8)
    epochs = []
    for _ in range(2):
        batches = [risk.inputs.x(risk.inputs.advance(torch.zeros(2))) for _ in range(3)]
        assert [batch.shape for batch in batches] == [(2, 600, 11), (2, 600, 11), (2, 438, 11)]
        epochs.append(torch.cat(batches, dim=1).long() @ 2 ** torch.arange(11))
    for row in range(2):
        assert len(epochs[0][row].unique()) == 1638
        assert torch.equal(epochs[0][row].sort().values, epochs[1][row].sort().values)
        assert not torch.equal(epochs[0][row], epochs[1][row])
    assert not torch.equal(epochs[0][0].sort().values, epochs[0][1].sort().values)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda t: PopulationRisk(t, "hing"), "unknown loss 'hing'"),
        (lambda t: PopulationRisk(t, temperature=0), "temperature must be a positive finite number, got 0"),
        (lambda t: PopulationRisk(t, temperature=math.nan), "temperature must be a positive finite number, got nan"),
        (lambda t: PopulationRisk(t, smoothing=-1), "smoothing must be a non-negative finite number, got -1"),
        (lambda t: PopulationRisk(t, accuracy=0), "accuracy must be a positive finite number, got 0"),
        (lambda t: PopulationRisk(t, frequencies=0), "frequencies must be a whole number in 1..16384, got 0"),
        (lambda t: PopulationRisk([t, Parity(9, (1, 2))]), "tasks must be one or more parities with the same n"),
        (lambda t: PopulationRisk([]), "tasks must be one or more parities"),
        (lambda t: PopulationRisk(t)(torch.zeros(3)), "directions must have shape (..., heads, 2), got (3,)"),
        (lambda t: PopulationRisk([t, t])(torch.zeros(3, 2, 2)), "directions must have shape (2, heads, 2)"),
        (
            lambda t: EnumeratedRisk(Parity(40, (1, 2))),
            "enumerating all 2^40 inputs would take 3.52e+05 GB; PopulationRisk computes",
        ),
        (lambda t: MinibatchRisk(t, "hinge", 1, 0, batch=0, generators=[]), "batch must be a whole number"),
        (
            lambda t: MinibatchRisk(t, "hinge", 1, 0, batch=1, generators=[], cube_share=2.0),
            "cube_share must be in (0, 1], got 2.0",
        ),
        (
            lambda t: MinibatchRisk(Parity(30, (1,)), "hinge", 1, 0, batch=1, generators=[], cube_share=0.5),
            "a share of the cube needs n <= 24, got n = 30",
        ),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(build, sentence):
    with pytest.raises(ValueError) as error:
        build(Parity(8, (1, 4)))
    assert str(error.value).startswith(sentence)


@pytest.mark.parametrize("weights", [[100.0] * 8, [-1.0] * 8, [3, -1.0, 0, 0, 0, 0, 0, 0], [0.3] * 8])
def test_weights_that_are_not_those_of_heads_are_refused(weights):
    task = Parity(8, (1, 4))
    for risk in (PopulationRisk(task, "tanh"), PopulationRisk(task, "hinge"), EnumeratedRisk(task, "tanh")):
        with pytest.raises(ValueError, match="weights must be finite, must not be negative and must sum to k = 2"):
            risk.of_weights(torch.tensor(weights, dtype=torch.float64))


def test_settings_of_numpy_and_torch_are_numbers():
    task, heads = Parity(8, (1, 4)), random_heads(1, 2, seed=0)
    plain = PopulationRisk(task, "tanh", 0.5, 0.25, frequencies=40)(heads)
    for kind in (np.float32, np.float64, torch.tensor):
        assert torch.equal(PopulationRisk(task, "tanh", kind(0.5), kind(0.25), frequencies=np.int64(40))(heads), plain)
    with pytest.raises(ValueError, match="temperature must be a positive finite number, got True"):
        PopulationRisk(task, "tanh", True)


def test_the_worked_example_of_the_book():
    """book/exact_risk.md: n = 3, B = {1, 2}, uniform attention, and the accuracies it names."""
    task = Parity(3, (1, 2))
    weights = torch.full((3,), 2 / 3, dtype=torch.float64)
    assert float(EnumeratedRisk(task, smoothing=0.0).of_weights(weights)) == pytest.approx(17 / 9, abs=1e-12)
    risk = PopulationRisk(task, smoothing=0.0)
    parts = [float(force.of_weights(weights)) for force in risk.forces()]
    assert parts == pytest.approx([3, -10 / 9], abs=1e-6)
    assert float(risk.of_weights(weights)) == pytest.approx(17 / 9, abs=1e-6)
    smooth, kinked = (PopulationRisk(Parity(20, (8, 11, 18)), loss) for loss in ("sigmoid_hinge", "squared_hinge"))
    assert (smooth.frequencies, kinked.frequencies) == (121, 1261)
    assert smooth.error_estimate < 1e-12 and kinked.error_estimate < 1e-5

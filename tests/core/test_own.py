"""Losses and read-outs of one's own: any function of tensors."""

import math
from dataclasses import replace

import pytest
import torch
from gradients import random_heads, value_and_gradient

from parity_lib import RECIPES, EnumeratedRisk, MinibatchRisk, Parity, PopulationRisk, series, train
from parity_lib.losses import find_loss
from parity_lib.readout import Zigzag
from parity_lib.series import fourier_series
from parity_lib.training import initial_directions

TASK = Parity(10, (2, 5, 9))


def cauchy(y, p):
    """A loss that nobody here has tried: smooth, bounded growth, not a function of y p alone."""
    return torch.log1p((y - p) ** 2)


def absolute(y, p):
    return (y - p).abs()


def zero_one(y, p):
    return (y * p <= 0).to(p.dtype)


def gaussian_bumps(s, k):
    """A read-out of the sum that nobody here has tried."""
    return torch.stack([(-1) ** q * torch.exp(-8 * (s - q) ** 2) for q in range(k + 1)]).sum(0)


@pytest.mark.parametrize("readout", [None, gaussian_bumps])
@pytest.mark.parametrize("loss", [cauchy, "squared_hinge", "logistic"])
def test_any_loss_and_any_read_out_have_an_exact_risk(loss, readout):
    heads = random_heads(4, 3, seed=1, norm=2.0)
    risk = PopulationRisk(TASK, loss, 0.5, readout=readout)
    exact = value_and_gradient(EnumeratedRisk(TASK, loss, 0.5, readout=readout), heads)
    found = value_and_gradient(risk, heads)
    tolerance = 2e-3 if loss == "squared_hinge" else 1e-8
    assert torch.allclose(found[1], exact[1], atol=tolerance)
    assert float((found[0] - exact[0]).abs().max()) <= risk.error_estimate + 1e-12


def test_a_smooth_loss_is_known_as_smooth_and_a_kinked_one_as_kinked():
    smooth, kinked = (PopulationRisk(Parity(20, (2, 5, 9)), loss, 0.5) for loss in (cauchy, absolute))
    assert smooth.error_estimate <= 1e-12 and smooth.frequencies < 1000
    assert 1e-12 < kinked.error_estimate < 1e-3


def test_a_loss_that_jumps_has_no_bound_and_is_summed_over_the_inputs_where_they_are_few():
    assert PopulationRisk(TASK, zero_one, frequencies=500).error_estimate == math.inf
    risk = PopulationRisk(TASK, zero_one)
    assert risk.over_inputs and risk.error_estimate == 0


def test_minibatches_take_any_loss_and_any_read_out():
    heads = random_heads(2, 3, seed=4)
    for readout in (None, gaussian_bumps):
        whole = MinibatchRisk(
            TASK, cauchy, 0.5, 1e-2, batch=2**10, cube_share=1.0, readout=readout,
            generators=[torch.Generator().manual_seed(seed) for seed in range(2)],
        )  # fmt: skip
        exact = value_and_gradient(EnumeratedRisk(TASK, cauchy, 0.5, readout=readout), heads)
        for found, wanted in zip(value_and_gradient(whole, heads), exact, strict=True):
            assert torch.allclose(found, wanted, atol=1e-12)


def test_a_recipe_may_have_a_loss_and_a_head_of_its_own():
    cosine = replace(
        RECIPES["figure2-signed"], name="cosine", loss=cauchy, head=lambda s, k: torch.cos(math.pi * s),
        epochs=2, updates_per_epoch=20,
    )  # fmt: skip
    run = train(TASK, cosine, seeds=3, progress=False)
    assert (run.risk[-1] < run.risk[0]).all()
    sampled = train(TASK, replace(cosine, batch=400), seeds=3, progress=False)
    assert torch.allclose(sampled.risk, run.risk, atol=0.3) and not torch.equal(sampled.risk, run.risk)


def test_a_name_stays_a_name():
    assert PopulationRisk(TASK, "tanh").loss.name == "tanh" and RECIPES["theory"].loss == "squared_hinge"


def the_read_out_itself(y, p):
    return p


@pytest.mark.parametrize("frequencies", [50, 1000, 16_384])
def test_the_bound_covers_what_lies_beyond_the_last_coefficient(frequencies):
    """A kink of the slope by J at the middle of a period T has the coefficients J T / (2 pi^2 m^2), all of one sign."""
    bounds = fourier_series(find_loss(the_read_out_itself), lambda s, k: (s - k / 2).abs(), 2)
    exact = 2 * 3 / (2 * math.pi**2) / (frequencies + 0.5)  # the sum over all m beyond, to its third digit
    assert exact <= float(bounds.tail[frequencies]) <= 1.1 * exact
    task, weights = Parity(2, (1, 2)), torch.tensor([[1.0, 1.0]], dtype=torch.float64)  # half of the inputs sit on it
    risk = PopulationRisk(task, the_read_out_itself, readout=lambda s, k: (s - k / 2).abs(), frequencies=frequencies)
    error = float((risk.of_weights(weights) - 0.5).abs())
    assert 0.4 * risk.error_estimate < error <= risk.error_estimate


@pytest.mark.parametrize(("loss", "smoothing"), [("hinge", 0.01), ("hinge", 0.0), ("squared_hinge", 0.0)])
def test_a_transform_four_times_as_fine_confirms_the_bound(monkeypatch, loss, smoothing):
    """What is taken for granted beyond the last coefficient of the transform is more than what is found there."""
    coarse = fourier_series(find_loss(loss), Zigzag(smoothing), 3).tail
    monkeypatch.setattr(series, "MAX_FREQUENCIES", 4 * series.MAX_FREQUENCIES)
    fine = fourier_series.__wrapped__(find_loss(loss), Zigzag(smoothing), 3).tail[: len(coarse)]
    assert (fine <= coarse).all() and (fine >= 0.8 * coarse).all()


def test_aliasing_of_coefficients_that_fall_like_one_over_m_squared_adds_less_than_c_over_n():
    m, folds = torch.arange(1, 1024, dtype=torch.float64), torch.arange(1, 4000, dtype=torch.float64) * 4096
    folded = (1 / (folds - m.unsqueeze(1)) ** 2 + 1 / (folds + m.unsqueeze(1)) ** 2).sum()  # on the first quarter
    assert float(folded) * 4096 == pytest.approx(4 - math.pi, abs=2e-3)  # so 4C/N beyond and this make less than 5C/N


def doubled(y, p):
    p *= 2
    return 1 - y * p


def clipped(y, p):
    """Changes nothing where the trial looks, all in [0, 1]."""
    p[p > 3] = 3
    return 1 - y * p


def hidden(y, p):
    p.data.mul_(2)  # behind the back of autograd
    return 1 - y * p


def turned(y, p):
    return 1 - y.neg_() * p


@pytest.mark.parametrize("loss", [doubled, clipped, hidden, turned])
def test_a_function_that_changes_what_it_is_given_is_refused(loss):
    """The two labels are asked one after the other: the second would see what the first left."""
    for build in (lambda: PopulationRisk(TASK, loss), lambda: EnumeratedRisk(TASK, loss)):
        with pytest.raises(ValueError, match=r"loss must be a function f.* got one that changes what it is given"):
            build()
    with pytest.raises(ValueError, match=r"readout must be .* got one that changes what it is given"):
        PopulationRisk(TASK, readout=lambda s, k: s.mul_(2))


def test_the_share_of_wrong_labels_is_a_loss_though_autograd_sees_no_slope():
    wrong = lambda y, p: (y * p < 0).double()  # noqa: E731
    directions = initial_directions([0, 1], TASK.k)
    values = [kind(TASK, wrong, 0.1).value_and_gradient(directions) for kind in (PopulationRisk, EnumeratedRisk)]
    assert torch.equal(values[0][0], values[1][0]) and not any(gradient.any() for _, gradient in values)
    run = train(TASK, replace(RECIPES["figure2"], loss=wrong, epochs=1, updates_per_epoch=2, batch=16), progress=False)
    assert torch.equal(run.directions[0], run.directions[-1])


def test_a_random_function_is_refused():
    noisy = lambda y, p: 1 - y * p * torch.rand_like(p)  # noqa: E731
    with pytest.raises(ValueError, match=r"loss must be .* got one that gives other numbers at a second call"):
        PopulationRisk(TASK, noisy)


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (lambda y: y, "loss must be a function f.label, prediction. of tensors; called, it says"),
        (lambda y, p: 1.0, "with one finite float for each entry, got float"),
        (lambda y, p: (y - p).mean(), r"with one finite float for each entry, got torch.float64 \(\)"),
        (lambda y, p: p / 0, "with one finite float for each entry"),
        (lambda y, p: (y * p < 0).long(), r"with one finite float for each entry, got torch.int64 \(2, 3\)"),
        (lambda y, p: y * p < 0, r"with one finite float for each entry, got torch.bool \(2, 3\)"),
        (lambda y, p: (y * p).to(torch.complex128), r"with one finite float for each entry, got torch.complex128"),
        (3, "unknown loss 3; known: squared_hinge"),
    ],
)
def test_what_is_no_loss_is_refused_in_one_sentence(loss, sentence):
    for build in (lambda: PopulationRisk(TASK, loss), lambda: replace(RECIPES["theory"], loss=loss)):
        with pytest.raises(ValueError, match=sentence):
            build()


def test_what_is_no_read_out_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"readout must be a function f\(s, k\) of tensors; called, it says"):
        PopulationRisk(TASK, readout=lambda s: s)
    with pytest.raises(ValueError, match=r"the loss must be finite at all sums from -1 to 4"):
        PopulationRisk(TASK, readout=lambda s, k: s.sqrt())
    with pytest.raises(ValueError, match=r"head must be a function f\(s, k\) of tensors"):
        replace(RECIPES["theory"], head=lambda s: s)

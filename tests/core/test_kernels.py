"""Fused loops against the torch functions that say the same, and life without numba."""

import subprocess
import sys

import pytest
import torch
from checkouts import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from parity_lib import LOSSES, RECIPES, Parity, kernels, train
from parity_lib.kernels.minibatch import Inputs, product_mean, sum_mean
from parity_lib.readout import Zigzag
from parity_lib.series import trigonometric_sums

pytestmark = pytest.mark.skipif(kernels.numba is None, reason="numba is not installed")


def weights_of(rows: int, n: int, k: float, seed: int, sharpness: float = 3.0) -> torch.Tensor:
    noise = torch.randn(rows, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return k * torch.softmax(sharpness * noise, -1)


def agree(function, *arguments, tolerance: float = 1e-11) -> None:
    for found, wanted in zip(function(*arguments), function.reference(*arguments), strict=True):
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        assert float((found - wanted).abs().max()) <= tolerance * (1 + float(wanted.abs().max()))


@settings(max_examples=25)
@given(st.integers(2, 60), st.integers(1, 300), st.integers(0, 4), st.floats(0, 30), st.integers(0, 10**6), st.data())
def test_the_exact_risk_has_the_value_and_gradient_of_its_reference(n, frequencies, rows, sharpness, seed, data):
    k = data.draw(st.integers(1, min(n, 6)))
    label_free, parity = torch.randn(2, frequencies, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    weights = weights_of(rows, n, k, seed, sharpness)
    bits = torch.stack([torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:k]] * rows or [torch.ones(k)])
    bits = bits[:rows].long()
    if rows:
        agree(trigonometric_sums, weights, bits, torch.pi / (k + 1), label_free, parity)
    else:
        assert trigonometric_sums(weights, bits, 0.5, label_free, parity)[1].shape == (0, n)


def test_many_frequencies_lose_no_digits_to_the_rotations():
    label_free, parity = torch.randn(2, 16_384, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    decay = torch.arange(1, 16_385, dtype=torch.float64) ** -2
    bits = torch.tensor([[3, 9, 17], [0, 1, 19]])
    agree(trigonometric_sums, weights_of(2, 20, 3, 1), bits, torch.pi / 4, label_free * decay, parity * decay)


@pytest.mark.parametrize("smoothing", [0.0, 1e-2])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
@pytest.mark.parametrize(("n", "size"), [(20, 0), (20, 800_000), (7, 100), (24, 2**24), (130, 0)])
def test_minibatches_have_the_value_and_gradient_of_their_reference(loss, smoothing, n, size):
    k, generator = 3, torch.Generator().manual_seed(n)
    bits = torch.stack([torch.randperm(n, generator=generator)[:k] for _ in range(2)])
    inputs = Inputs(n, 70 if size == 100 else 700, torch.randint(2**62, (2,), generator=generator), size)
    weights = weights_of(2, n, k, n)
    for _ in range(3):
        agree(sum_mean, weights, bits, inputs, inputs.advance(weights), loss, Zigzag(smoothing))


@pytest.mark.parametrize(("n", "size", "heads"), [(20, 0, 3), (9, 300, 2), (75, 0, 1)])
def test_the_product_head_has_the_value_and_gradient_of_its_reference(n, size, heads):
    attention = weights_of(2 * heads, n, 1, n).reshape(2, heads, n)
    inputs = Inputs(n, 250, torch.tensor([5, 2**61]), size)
    bits = torch.tensor([[0, 3], [8, 1]])
    for _ in range(3):
        agree(product_mean, attention, bits, inputs, inputs.advance(attention))


def test_single_precision_stays_single():
    inputs = Inputs(9, 50, torch.tensor([3]))
    weights = weights_of(1, 9, 2, 0).float()
    found = sum_mean(weights, torch.tensor([[0, 3]]), inputs, (0, 0, 50), LOSSES["tanh"], Zigzag(0.01))
    assert [part.dtype for part in found] == [torch.float32] * 2


@pytest.mark.parametrize("size", [0, 3000, 2**12])
def test_drawn_inputs_are_uniform_independent_and_different_for_every_row(size):
    """Means of products of a few signs, which a generator with a pattern in its bits would betray."""
    inputs = Inputs(12, 1500, torch.arange(40) * 977 + 1, size)
    signs = 1 - 2 * torch.cat([inputs.x(inputs.advance(torch.zeros(40))) for _ in range(2)], dim=1)  # (40, 3000, 12)
    sets = ([0], [11], [0, 1], [4, 10], [2, 7, 11], [0, 3, 5, 9], list(range(12)))
    share = (1 - 3000 / 2**12 if size == 2**12 else 1) if size else 1  # without replacement means vary less
    for chosen in sets:
        means = signs[..., chosen].prod(-1).mean(1)
        spread = float(means.std() * 3000**0.5)
        if size != 3000:  # a training set of that size is seen whole: its own means vary as those of its draw
            assert 0.6 * share**0.5 < spread < 1.4 * share**0.5
        assert abs(float(means.mean())) < 4 / (40 * 3000) ** 0.5
    neighbours = (signs[:, 1:] * signs[:, :-1]).mean((0, 1))  # one input and the next
    assert float(neighbours.abs().max()) < 4.5 / (40 * 3000) ** 0.5
    assert not torch.equal(signs[0], signs[1])


def test_training_is_the_same_by_either_path(monkeypatch):
    task = Parity(11, (2, 5, 9))
    for name in ("theory", "figure2", "product-head", "later-code"):
        recipe = {"theory": {}, "figure2": {"batch": 300}, "later-code": {"batch": 300}, "product-head": {"batch": 90}}
        short = RECIPES[name].__class__(**{**vars(RECIPES[name]), "epochs": 2, "updates_per_epoch": 4, **recipe[name]})
        monkeypatch.undo()
        fused = train(task, short, seeds=2, progress=False)
        monkeypatch.setattr(kernels, "numba", None)
        plain = train(task, short, seeds=2, progress=False)
        assert torch.allclose(fused.directions, plain.directions, atol=1e-9)
        assert torch.allclose(fused.risk, plain.risk, atol=1e-9)


def test_everything_runs_where_numba_is_missing():
    program = (
        "import sys; sys.modules['numba'] = None\n"
        "from parity_lib import Parity, RECIPES, train, kernels; from dataclasses import replace\n"
        "assert kernels.numba is None\n"
        "for recipe in RECIPES.values():\n"
        "    batch = recipe.batch and 50\n"
        "    recipe = replace(recipe, epochs=1, updates_per_epoch=2, batch=batch)\n"
        "    assert train(Parity(8, (1, 4)), recipe, progress=False).risk.isfinite().all()\n"
        "print('done')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "done", done.stderr

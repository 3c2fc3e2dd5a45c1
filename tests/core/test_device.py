"""The GPU path on a machine without one: the core and the recipes on a pretend device that refuses to mix."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
import torch
from pretend import OnGPU, pretend_gpu, waits

from parity_lib import RECIPES, EnumeratedRisk, Parity, PopulationRisk, train
from parity_lib.chapters import figure2
from parity_lib.kernels.minibatch import Inputs
from parity_lib.recipes import Recipe
from parity_lib.training import initial_directions

TASK = Parity(10, (2, 5))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch):
    with pretend_gpu(monkeypatch):
        yield


def short(recipe: Recipe, updates: int = 3) -> Recipe:
    batch = {"batch": 100} if recipe.batch else {}
    return replace(recipe, epochs=2, updates_per_epoch=updates, **batch)


def test_the_pretend_device_refuses_to_mix(gpu) -> None:
    there = torch.ones(3, device="cuda")
    assert isinstance(there + 1, OnGPU) and (2 * there).sum().device.type == "cuda"
    assert not isinstance(there.cpu(), OnGPU)
    with pytest.raises(RuntimeError, match="one device"):
        there + torch.ones(3)
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(3, device="cuda", generator=torch.Generator("cpu"))


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_trains_there_as_it_does_here(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = train(TASK, short(RECIPES[name]), 2, device="cpu", progress=False)
    with pretend_gpu(monkeypatch):
        there = train(TASK, short(RECIPES[name]), 2, device="auto", progress=False)
    assert not isinstance(there.risk, OnGPU)  # a run comes back to the CPU
    assert torch.allclose(here.directions, there.directions, atol=1e-9)  # on the same batches
    assert torch.allclose(here.risk, there.risk, atol=1e-9)


def test_a_chapter_computes_there_what_it_does_here(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = figure2.both_tasks(10, (2, 5, 8), (2, 5, 6))
    recipes = [short(recipe) for recipe in figure2.compared([0.1], 100, 2, 3)]
    here = figure2.outcomes(figure2.train_all(tasks, recipes, 2, 2, [2, 2], device="cpu"))
    with pretend_gpu(monkeypatch):
        there = figure2.outcomes(figure2.train_all(tasks, recipes, 2, 2, [2, 2], device="auto"))
    assert any(recipe.batch for recipe in recipes) and len(here) > 4
    pd.testing.assert_frame_equal(here, there, rtol=1e-6)


@pytest.mark.parametrize("kind", [PopulationRisk, EnumeratedRisk])
def test_a_risk_is_where_its_directions_are(kind: type, gpu) -> None:
    directions = initial_directions([0, 1], 2).to("cuda").requires_grad_()
    value = kind(TASK, "squared_hinge", 0.1)(directions)
    assert isinstance(value, OnGPU)
    (gradient,) = torch.autograd.grad(value.sum(), directions)
    assert gradient.shape == directions.shape


@pytest.mark.parametrize("n", [3, 7, 11])
def test_a_training_set_is_walked_through_there_as_it_is_here(n: int, gpu) -> None:
    """There the walk has a length fixed beforehand: at every share of the cube it leads every place home."""
    keys = torch.randint(2**62, (40,), generator=torch.Generator().manual_seed(n))
    for size in {1, 2, 3, 2 ** (n - 1) + 1, int(0.8 * 2**n), int(0.55 * 2**n), 2**n - 1, 2**n}:
        here, there = (Inputs(n, 2**n, keys.to(place), size) for place in ("cpu", "cuda"))
        for epoch in range(4):
            span = (epoch, 0, size)
            found = there.x(span).cpu()
            assert found.equal(here.x(span))
        seen = (found[0] @ 2.0 ** torch.arange(n, dtype=torch.float64)).unique()
        assert len(seen) == size  # each once


def test_the_pretend_device_counts_what_waits_for_it(gpu) -> None:
    there = torch.arange(3.0, device="cuda")
    for call, wait in (
        (lambda: bool(there.sum() > 1), True), (lambda: there.sum().item(), True), (lambda: there.to("cpu"), True),
        (lambda: torch.ones(3).to("cuda"), True), (lambda: torch.tensor([1.0], device="cuda"), True),
        (lambda: there[there > 1], True), (lambda: there.cpu(), True), (lambda: there.tolist(), True),
        (lambda: there.to(torch.float32), False), (lambda: torch.where(there > 1, there, 0), False),
        (lambda: there[1:], False), (lambda: torch.ones(3, device="cuda") + there, False),
    ):  # fmt: skip
        waits.clear()
        call()
        assert bool(waits) == wait, waits


OWN = {
    "own loss": Recipe("own", "", lambda y, p: (1 - y * p).relu() ** 1.5, "adam", 0.1),
    "own jump": Recipe("jump", "", lambda y, p: (y * p < 0).double() + (1 - y * p) ** 2, "adam", 0.1),
    "small set": replace(RECIPES["figure2"], cube_share=0.03),
}


@pytest.mark.parametrize("name", [*RECIPES, *OWN])
def test_training_waits_for_the_device_at_frames_only(name: str, gpu) -> None:
    """Finite checks and frames are once an epoch: more updates an epoch, no more waits. The first run fills caches."""
    recipe, counts = (RECIPES | OWN)[name], []
    for updates in (2, 2, 12):
        waits.clear()
        train(TASK, short(recipe, updates), 2, device="auto", progress=False)
        counts.append(list(waits))
    assert counts[1] == counts[2]

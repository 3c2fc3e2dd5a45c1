"""The GPU path on a machine without one: the core and the recipes on a pretend device that refuses to mix."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
import torch
from pretend import OnGPU, pretend_gpu, waits

from parity_lib import RECIPES, EnumeratedRisk, Parity, PopulationRisk, train
from parity_lib.chapters import figure2
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
    if RECIPES[name].batch is None:  # batches may be drawn otherwise on another device
        assert torch.allclose(here.directions, there.directions, atol=1e-9)
        assert torch.allclose(here.risk, there.risk, atol=1e-9)


def test_a_chapter_computes_there_what_it_does_here(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = figure2.both_tasks(10, (2, 5, 8), (2, 5, 6))
    recipes = [short(recipe) for recipe in figure2.compared([0.1], 100, 2, 3)]
    here = figure2.outcomes(figure2.train_all(tasks, recipes, 2, 2, 2, device="cpu"))
    with pretend_gpu(monkeypatch):
        there = figure2.outcomes(figure2.train_all(tasks, recipes, 2, 2, 2, device="auto"))
    exact = [recipe.name for recipe in recipes if recipe.batch is None]
    pairs = [frame[frame["recipe"].isin(exact)] for frame in (here, there)]
    assert len(here) == len(there) and len(pairs[0]) > 4
    pd.testing.assert_frame_equal(*pairs, rtol=1e-6)


@pytest.mark.parametrize("kind", [PopulationRisk, EnumeratedRisk])
def test_a_risk_is_where_its_directions_are(kind: type, gpu) -> None:
    directions = initial_directions([0, 1], 2).to("cuda").requires_grad_()
    value = kind(TASK, "squared_hinge", 0.1)(directions)
    assert isinstance(value, OnGPU)
    (gradient,) = torch.autograd.grad(value.sum(), directions)
    assert gradient.shape == directions.shape


@pytest.mark.parametrize("name", ["theory", "later-code", "repaired", "product-head"])
def test_training_does_not_wait_for_the_device_at_every_step(name: str, gpu) -> None:
    """Finite checks and frames are once an epoch: more updates an epoch, no more waits.

    A training set that is a share of the cube (``figure2``) is the exception: it walks until it is inside.
    """
    counts = []
    for updates in (2, 12):
        waits.clear()
        train(TASK, short(RECIPES[name], updates), 2, device="auto", progress=False)
        counts.append(len(waits))
    assert counts[0] == counts[1]

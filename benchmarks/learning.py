"""Training: a whole success study, and one update against the model as one would usually write it in torch."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from timing import in_turns
from torch.utils.data import DataLoader, TensorDataset

from parity_lib import LOSSES, RECIPES, MinibatchRisk, Parity, PopulationRisk, kernels, literal_prediction, train
from parity_lib.attention import head_matrices
from parity_lib.training import adam, initial_directions


def success_study(n: int, bits: tuple[int, ...], seeds: int, updates: int) -> dict:
    """Processor seconds for all seeds of ``figure2-signed`` from start to verdict, and how many recover the bits."""
    recipe = replace(RECIPES["figure2-signed"], epochs=8, updates_per_epoch=updates // 8)
    start = time.process_time()
    run = train(Parity(n, bits), recipe, seeds, progress=False)
    return {"n": n, "seeds": seeds, "updates": recipe.updates, "seconds": time.process_time() - start,
            "recovered": int(run.recovered.sum()), "committed": int(run.committed.sum())}  # fmt: skip


def token_loop(task: Parity, batch: int, start: torch.Tensor) -> Callable[[], None]:
    """One update of the model as one would usually write it, as the authors' public code does.

    Embeddings, 4 x 4 matrices, softmax and read-out for every example, autograd, ``torch.optim.Adam`` and a shuffled
    ``DataLoader`` over sampled examples, one seed at a time.
    """
    loss, x = LOSSES["sigmoid_hinge"], torch.randint(2, (8 * batch, task.n)).double()
    loader = DataLoader(TensorDataset(x, task.labels(x)), batch_size=batch, shuffle=True)
    batches = (pair for _ in itertools.count() for pair in loader)
    matrices = head_matrices(start).requires_grad_()
    optimiser = torch.optim.Adam([matrices], lr=0.08)

    def update() -> None:
        inputs, labels = next(batches)
        optimiser.zero_grad()
        loss(labels, literal_prediction(inputs, matrices, task.k, 1.0, 1e-2)).mean().backward()
        optimiser.step()

    return update


def figure2_run(n: int, bits: tuple[int, ...], batch: int, updates: int) -> list[dict]:
    """One run of the recipe ``figure2``, three ways: fused loops, the same in torch, and the authors' loop.

    Timed over ``updates`` updates; the whole run has as many as the recipe says.
    """
    task = Parity(n, bits)
    recipe = replace(RECIPES["figure2"], batch=batch, epochs=1, updates_per_epoch=updates)
    one_update = token_loop(task, batch, initial_directions([0], task.k)[0])

    def fused() -> None:
        train(task, recipe, 1, device="cpu", progress=False)

    def by_torch() -> None:
        with without_numba():
            fused()

    def tokens() -> None:
        for _ in range(updates):
            one_update()

    times = in_turns({"fused": fused, "torch": by_torch, "the authors' loop": tokens}, rounds=3, steps=1)
    whole = RECIPES["figure2"].updates
    return [
        {"way": way, "ms per update": ms / updates, "seconds for the run": ms / updates * whole / 1e3,
         "times faster": times["the authors' loop"] / ms}
        for way, ms in times.items()
    ]  # fmt: skip


@contextmanager
def without_numba() -> Iterator[None]:
    """The same functions by torch alone."""
    kept = kernels.numba
    kernels.numba = None
    try:
        yield
    finally:
        kernels.numba = kept


def against_tokens(n: int, bits: tuple[int, ...], batch: int, seeds: int, updates: int) -> list[dict]:
    """Milliseconds per seed of one Adam update of the same model, three ways, timed over ``updates`` at a time.

    ``tokens``: :func:`token_loop`. ``minibatch``: the same loss on batches of the same size, all seeds in one tensor,
    through their position weights alone. ``exact``: the gradient over all :math:`2^n` inputs.
    """
    task, loss = Parity(n, bits), LOSSES["sigmoid_hinge"]
    start = initial_directions(range(seeds), task.k)
    generators = [torch.Generator().manual_seed(seed) for seed in range(seeds)]
    sampled = MinibatchRisk(task, loss.name, 1.0, 1e-2, batch=batch, generators=generators)
    exact, step = PopulationRisk(task, loss.name), adam(0.08)
    times = in_turns(
        {
            "tokens": token_loop(task, batch, start[0]),
            "minibatch": lambda: step(sampled.value_and_gradient(start)[1]),
            "exact": lambda: step(exact.value_and_gradient(start)[1]),
        },
        rounds=5,
        steps=updates,  # one at a time, the median would leave out those that shuffle anew
    )
    per_seed = {name: ms if name == "tokens" else ms / seeds for name, ms in times.items()}
    inputs = {"tokens": batch, "minibatch": batch, "exact": 2**n}
    return [
        {"way": name, "inputs per update": inputs[name], "ms per seed": ms, "times faster": per_seed["tokens"] / ms}
        for name, ms in per_seed.items()
    ]

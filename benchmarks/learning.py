"""Training: a whole success study, and one update against the model as one would usually write it in torch."""

from __future__ import annotations

import time
from dataclasses import replace

import torch
from timing import in_turns
from torch.utils.data import DataLoader, TensorDataset

from parity_lib import LOSSES, RECIPES, MinibatchRisk, Parity, PopulationRisk, literal_prediction, train
from parity_lib.attention import head_matrices
from parity_lib.training import adam, initial_directions


def success_study(n: int, bits: tuple[int, ...], seeds: int, updates: int) -> dict:
    """Processor seconds for all seeds of ``figure2-signed`` from start to verdict, and how many recover the bits."""
    recipe = replace(RECIPES["figure2-signed"], epochs=8, updates_per_epoch=updates // 8)
    start = time.process_time()
    run = train(Parity(n, bits), recipe, seeds, progress=False)
    return {"n": n, "seeds": seeds, "updates": recipe.updates, "seconds": time.process_time() - start,
            "recovered": int(run.recovered.sum()), "committed": int(run.committed.sum())}  # fmt: skip


def against_tokens(n: int, bits: tuple[int, ...], batch: int, seeds: int, rounds: int = 5) -> list[dict]:
    """Milliseconds per seed of one Adam update of the same model, three ways.

    ``tokens``: embeddings, 4 x 4 matrices, softmax and read-out for every example, autograd, ``torch.optim.Adam`` and
    a shuffled ``DataLoader`` over sampled examples, one seed at a time. ``minibatch``: the same loss on batches of the
    same size, all seeds in one tensor, through their position weights alone. ``exact``: the gradient over all
    :math:`2^n` inputs.
    """
    task, loss = Parity(n, bits), LOSSES["sigmoid_hinge"]
    start = initial_directions(range(seeds), task.k)
    x = torch.randint(2, (2 * rounds * batch, n), generator=torch.Generator().manual_seed(0)).double()
    batches = iter(DataLoader(TensorDataset(x, task.labels(x)), batch_size=batch, shuffle=True))
    matrices = head_matrices(start[0]).requires_grad_()
    optimiser = torch.optim.Adam([matrices], lr=0.08)

    def tokens() -> None:
        inputs, labels = next(batches)
        optimiser.zero_grad()
        loss(labels, literal_prediction(inputs, matrices, task.k, 1.0, 1e-2)).mean().backward()
        optimiser.step()

    generators = [torch.Generator().manual_seed(seed) for seed in range(seeds)]
    sampled = MinibatchRisk(task, loss.name, 1.0, 1e-2, batch=batch, generators=generators)
    exact, step = PopulationRisk(task, loss.name), adam(0.08)
    times = in_turns(
        {
            "tokens": tokens,
            "minibatch": lambda: step(sampled.value_and_gradient(start)[1]),
            "exact": lambda: step(exact.value_and_gradient(start)[1]),
        },
        rounds,
        steps=1,
    )
    per_seed = {name: ms if name == "tokens" else ms / seeds for name, ms in times.items()}
    inputs = {"tokens": batch, "minibatch": batch, "exact": 2**n}
    return [
        {"way": name, "inputs per update": inputs[name], "ms per seed": ms, "times faster": per_seed["tokens"] / ms}
        for name, ms in per_seed.items()
    ]

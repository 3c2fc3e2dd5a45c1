"""What the essay on sensitivity shows but the book's time does not allow: run once, kept in ``reference/studies``.

``python studies/sensitivity.py lengths flattest variants widths scratchpad plain`` computes the frames named and writes
each as ``reference/studies/sensitivity_<name>.csv``: lengths, flattest and scratchpad in 12 to 14 minutes of one core,
each other in 2 to 6.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import torch
from torch import Tensor

from parity_lib.chapters import sensitivity as lab
from parity_lib.chapters.boolean import cube, find_function
from parity_lib.chapters.encoder import Settings
from parity_lib.chapters.variants import Shape, Stack, losses, scratchpad, stack_sharpness, train_stack
from parity_lib.training import one_thread_per_process

PERTURBATIONS = 1000

VARIANTS = {
    "the chapter's encoder": Shape(),
    "RMSNorm": Shape(norm="rms"),
    "causal mask": Shape(causal=True),
    "one head": Shape(heads=1),
    "four heads": Shape(heads=4),
    "one layer": Shape(layers=1),
    "three layers": Shape(layers=3),
    "dropout of 10 %": Shape(dropout=0.1),
    "weight noise of 0.02": Shape(optimiser="noise"),
    "sharpness-aware (SAM)": Shape(optimiser="sam"),
    "SGD with momentum": Shape(optimiser="sgd", rate=0.02, decay=0.0),
}


def lengths() -> pd.DataFrame:
    """PARITY and the easy functions at n = 10, where a summary of the paper has its first experiment, 24 and 30."""
    seeds = {"PARITY": 6, "FIRST": 2, "MEAN": 2, "MAJORITY": 2}
    return lab.by_length([10, 24, 30], seeds, PERTURBATIONS)


def widths() -> pd.DataFrame:
    """Whether the direction survives wider models: 64 and 128 at two lengths."""
    found = []
    for n, width in ((8, 64), (8, 128), (16, 64)):
        seeds = {"PARITY": 4, "FIRST": 1, "MEAN": 1, "MAJORITY": 1}
        settings = replace(lab.curriculum(n), polish=0)  # run before there was a second end
        models = lab.train_named(n, seeds, settings, PERTURBATIONS, width)
        found.append(models.runs.assign(width=width))
    return pd.concat(found, ignore_index=True)


def variants() -> pd.DataFrame:
    """Other shapes and optimisers at n = 6."""
    functions = ["PARITY"] * 3 + ["FIRST"] * 3
    frames = [variant_runs(name, shape, 6, functions, 1500, PERTURBATIONS) for name, shape in VARIANTS.items()]
    return pd.concat(frames, ignore_index=True)


def variant_runs(
    name: str, shape: Shape, n: int, functions: Sequence[str], updates: int, perturbations: int
) -> pd.DataFrame:
    """Runs of one variant: ``variant``, ``function``, ``seed``, ``loss``, ``converged``, ``sharpness``, ``norm``.

    A function that is named several times has as many seeds.
    """
    seeds = [list(functions[:i]).count(function) for i, function in enumerate(functions)]
    with torch.random.fork_rng(), one_thread_per_process():
        torch.manual_seed(0)  # dropout and noise
        model = Stack(shape, n, 2, seeds)

        def draw(i: int, generator: torch.Generator, _: float) -> tuple[Tensor, Tensor]:
            x = torch.randint(2, (64, n), generator=generator)
            return x, _at_end(find_function(functions[i])(x.float()), n)

        train_stack(model.train(), draw, seeds, updates, updates // 3, name)
        model.eval()
        x = cube(n, torch.float32)
        codes = x.long().expand(len(seeds), -1, -1)
        targets = torch.stack([_at_end(find_function(function)(x), n) for function in functions])
        with torch.no_grad():
            loss = losses(model, codes, targets)
        rises = stack_sharpness(model, codes, targets, perturbations)
    squares = [p.detach().square().flatten(1).sum(1) for key, p in model.named_parameters() if key != "position"]
    return pd.DataFrame({
        "variant": name,
        "function": functions,
        "seed": seeds,
        "loss": loss.numpy(),
        "converged": (loss < lab.CONVERGED).numpy(),
        "sharpness": rises.mean(0).numpy(),
        "error": (rises.std(0) / math.sqrt(perturbations)).numpy(),
        "norm": torch.stack(squares).sum(0).sqrt().numpy(),
    })  # fmt: skip


def _at_end(values: Tensor, n: int) -> Tensor:
    targets = values.new_full((*values.shape, n), math.nan)
    targets[..., -1] = values
    return targets


def flattest() -> pd.DataFrame:
    """What weight noise finds at n = 8, 16, and at 32, where it grows no faster than the answer bears."""
    pair, rates = ["PARITY", "FIRST"], [3e-4, 1e-3, 1e-3]  # at 32 PARITY does not bear the larger at first
    found = [
        lab.noised(8, pair, list(range(100, 124)), 8000, PERTURBATIONS),  # others than the essay's own tries
        lab.noised(16, pair, list(range(6)), 16_000, PERTURBATIONS),
        lab.noised(32, pair, [0, 1], 24_000, PERTURBATIONS, bearable=0.02, rates=rates),
    ]
    return pd.concat([models.runs for models in found], ignore_index=True)


def long_scratchpad() -> pd.DataFrame:
    """The scratchpad at n = 32 and 64; and ``trial``, what was tried at 64 before.

    That is half the updates, and a loss that counts ever more of the running parities.
    """
    found = [scratchpad(32, 3, 1500, PERTURBATIONS, batch=32), scratchpad(64, 3, 4800, PERTURBATIONS, batch=16)]
    tried = [scratchpad(64, 3, 2400, PERTURBATIONS, batch=16),
             scratchpad(64, 1, 2400, PERTURBATIONS, batch=16, growing=True)]  # fmt: skip
    return pd.concat([frame.assign(trial=trial) for trial, part in ((False, found), (True, tried)) for frame in part],
                     ignore_index=True)  # fmt: skip


def plain() -> pd.DataFrame:
    """PARITY at n = 16 and 32 with all bits free from the first update: what the curriculum is for."""
    settings = Settings(steps=8000, least=8000, finish=2000, enough=lab.ENOUGH)
    return pd.concat([lab.train_named(n, {"PARITY": 4}, settings, PERTURBATIONS).runs for n in (16, 32)],
                     ignore_index=True)  # fmt: skip


STUDIES = {
    "lengths": lengths,
    "flattest": flattest,
    "variants": variants,
    "widths": widths,
    "scratchpad": long_scratchpad,
    "plain": plain,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or STUDIES:
        lab.STUDIES.mkdir(parents=True, exist_ok=True)
        STUDIES[name]().to_csv(lab.STUDIES / f"sensitivity_{name}.csv", index=False, lineterminator="\n")

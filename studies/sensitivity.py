"""What the essay on sensitivity shows but the book's time does not allow: run once, kept in ``reference/studies``.

``python studies/sensitivity.py lengths flattest variants widths scratchpad`` computes the frames named and writes
each as ``reference/studies/sensitivity_<name>.csv``: lengths in 10 minutes of one core, each other in 2 to 5.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor

from parity_lib.chapters import sensitivity as lab
from parity_lib.chapters.boolean import cube, find_function
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
    """PARITY and the easy functions at n = 24 and 30, by the essay's own recipe."""
    seeds = {"PARITY": 6, "FIRST": 2, "MEAN": 2, "MAJORITY": 2}
    return lab.by_length([24, 30], seeds, PERTURBATIONS)


def widths() -> pd.DataFrame:
    """Whether the direction survives wider models: 64 and 128 at two lengths."""
    found = []
    for n, width in ((8, 64), (8, 128), (16, 64)):
        seeds = {"PARITY": 4, "FIRST": 1, "MEAN": 1, "MAJORITY": 1}
        models = lab.train_named(n, seeds, lab.curriculum(n), PERTURBATIONS, width)
        found.append(models.runs.assign(width=width))
    return pd.concat(found, ignore_index=True)


def variants() -> pd.DataFrame:
    """Other shapes and optimisers at n = 6."""
    functions = ["PARITY", "PARITY", "PARITY", "FIRST"]
    frames = [variant_runs(name, shape, 6, functions, 1500, 200) for name, shape in VARIANTS.items()]
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
    """The flattest PARITY and FIRST at n = 32 that weight noise finds."""
    return lab.flattest(32, ["PARITY", "FIRST"], 32_000, PERTURBATIONS)


def long_scratchpad() -> pd.DataFrame:
    """The scratchpad at n = 64, with a loss that counts ever more of the running parities."""
    return scratchpad(64, 2, 1500, PERTURBATIONS, growing=True)


STUDIES = {
    "lengths": lengths,
    "flattest": flattest,
    "variants": variants,
    "widths": widths,
    "scratchpad": long_scratchpad,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or STUDIES:
        lab.STUDIES.mkdir(parents=True, exist_ok=True)
        STUDIES[name]().to_csv(lab.STUDIES / f"sensitivity_{name}.csv", index=False, lineterminator="\n")

"""The experiments of the chapter ``sensitivity``, around :mod:`parity_lib.chapters.boolean` and :mod:`parity_lib.chapters.encoder`.

A run *converged* if its squared error over all 2^n inputs is below 1e-3 on the {0, 1} scale: the filter of Hahn and
Rofin, without which a run that never left the plateau would count as a flat minimum. Every summary says how many of
the runs that were started it rests on. What the results say is in :mod:`parity_lib.chapters.sensitivity_summary`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..progress import track
from ..training import one_thread_per_process
from .boolean import average_sensitivity, cube, find_function, from_table, k_parity, random_function
from .encoder import (
    Encoder,
    LiteralEncoder,
    Settings,
    Trained,
    blowup,
    exact_loss,
    parameter_norm,
    predictions,
    sharpness,
    train_encoders,
)
from .networks import drawn_tasks

CONVERGED = 1e-3  # the authors' filter
LEARNED = 0.01  # loss on fresh inputs, averaged over a window of steps, below which a run counts as having learned
WINDOW = 50  # steps


@dataclass(frozen=True)
class Measured:
    """A trained stack and what was measured at its end; every array is (models,)."""

    names: tuple[str, ...]
    """What each model was to learn."""
    trained: Trained
    loss: np.ndarray
    sharpness: np.ndarray
    sharpness_error: np.ndarray
    """Standard error over perturbations."""
    blowup: np.ndarray
    norm: np.ndarray

    @property
    def converged(self) -> np.ndarray:
        """Which runs pass the filter."""
        return self.loss < CONVERGED

    @property
    def product(self) -> np.ndarray:
        """log10 of norm times squared blowup, for which the theory has a lower bound."""
        return np.log10(self.norm) + 2 * self.log_blowup

    @property
    def log_blowup(self) -> np.ndarray:
        """log10 of the layer-norm blowup."""
        return np.log10(self.blowup)

    def among(self, name: str) -> np.ndarray:
        """Which models were to learn ``name``."""
        return np.array([other == name for other in self.names])

    def kept(self, name: str, quantity: str) -> np.ndarray:
        """A quantity of the converged runs of ``name``."""
        return getattr(self, quantity)[self.among(name) & self.converged]

    def numbers(self) -> dict[str, Any]:
        """What the results file keeps of every run, to four digits."""
        kept = {name: getattr(self, name) for name in ("loss", "sharpness", "blowup", "norm")}
        rounded = {name: [float(f"{value:.4g}") for value in values] for name, values in kept.items()}
        return {"names": self.names, **rounded}

    def steps(self) -> np.ndarray:
        """Updates until the loss on fresh inputs was below 0.01 over a window of 50; infinite if never, (models,)."""
        return learning_steps(self.trained.loss)


def learning_steps(loss: Tensor) -> np.ndarray:
    """End of the first 50 steps whose mean loss (steps, models) is below 0.01, infinite if there is none: (models,)."""
    windows = loss.unfold(0, WINDOW, WINDOW).mean(-1) < LEARNED
    first = (windows.int().argmax(0) + 1) * WINDOW
    return np.where(windows.any(0), first, math.inf)


def measure(names: Sequence[str], trained: Trained, batches: int) -> Measured:
    """Loss and blowup over all inputs, sharpness over ``batches`` fresh perturbations, and norm of a trained stack."""
    encoder, rows, functions = trained.encoder, trained.rows, trained.functions
    rises = sharpness(encoder, rows, functions, torch.Generator().manual_seed(0), batches=batches)
    return Measured(
        tuple(names),
        trained,
        exact_loss(encoder, rows, functions).numpy(),
        rises.mean(-1).numpy(),
        rises.std(-1).numpy() / math.sqrt(batches),
        blowup(encoder, rows, cube(encoder.n)).numpy(),
        parameter_norm(encoder, rows).numpy(),
    )


def train_named(
    n: int, seeds: Mapping[str, int], settings: Settings, batches: int, *, width: int = 32, keep_every: int = 0
) -> Measured:
    """Train so many seeds of each named function of n bits in one stack, and measure them."""
    names = [name for name, count in seeds.items() for _ in range(count)]
    numbers = [seed for count in seeds.values() for seed in range(count)]
    functions = [find_function(name) for name in names]
    label = f"length {n}, weight decay {settings.weight_decay:g},"
    trained = train_encoders(Encoder(n, width), functions, numbers, settings, keep_every=keep_every, label=label)
    return measure(names, trained, batches)


def train_bridge(n: int, seeds: int, settings: Settings, batches: int, *, width: int = 32) -> Measured:
    """k-parity of random bits among n for k = 1, ..., n, which are the names; a seed has one start for all k."""
    tasks = [task for k in range(1, n + 1) for task in drawn_tasks(n, k, range(seeds))]
    functions = [k_parity(task) for task in tasks]
    trained = train_encoders(Encoder(n, width), functions, list(range(seeds)) * n, settings, label="k-parity")
    return measure([str(task.k) for task in tasks], trained, batches)


@dataclass(frozen=True)
class Course:
    """A training over time; every array is (frames, models)."""

    updates: np.ndarray
    """(frames,)"""
    loss: np.ndarray
    """Mean over the fresh inputs since the last frame."""
    sharpness: np.ndarray
    blowup: np.ndarray
    norm: np.ndarray


def follow(measured: Measured, name: str, every: int, batches: int) -> Course:
    """The metrics of the runs of ``name`` at every kept frame."""
    trained, chosen = measured.trained, torch.from_numpy(measured.among(name))
    if not len(trained.frames):
        raise ValueError(f"a training of {len(trained.loss)} updates has no frame if one is kept every {every}")
    encoder, x = trained.encoder, cube(trained.encoder.n)
    functions = [f for f, keep in zip(trained.functions, chosen, strict=True) if keep]
    frames = trained.frames[:, chosen]
    sharp, blown, norms = [], [], []
    for i in track(len(frames), "metrics over time", True):
        rises = sharpness(encoder, frames[i], functions, torch.Generator().manual_seed(i), batches=batches)
        sharp.append(rises.mean(-1).numpy())
        blown.append(blowup(encoder, frames[i], x).numpy())
        norms.append(parameter_norm(encoder, frames[i]).numpy())
    loss = trained.loss[: len(frames) * every, chosen].unflatten(0, (-1, every)).mean(1).numpy()
    updates = every * np.arange(1, len(frames) + 1)
    return Course(updates, loss, np.stack(sharp), np.stack(blown), np.stack(norms))


# Learned functions against random fill


@dataclass(frozen=True)
class Fit:
    """Fits of K labels of random functions; every array is (functions,)."""

    accuracy: np.ndarray
    """On the K labels."""
    learned: np.ndarray
    """Average sensitivity of the learned function, thresholded at one half."""
    filled: np.ndarray
    """Average sensitivity of the same K labels with fair coins elsewhere."""


def fit_random_functions(n: int, labels: int, functions: int, settings: Settings, *, width: int = 32) -> Fit:
    """Fit ``labels`` values of random functions of n bits, and extend them by the model and by coins."""
    if not 1 <= labels <= 2**n:
        raise ValueError(f"labels must be in 1..{2**n}, the inputs of {n} bits, got {labels!r}")
    x, pools, targets, filled = cube(n), [], [], []
    for seed in range(functions):
        generator = torch.Generator().manual_seed(seed)
        function = random_function(n, generator)
        chosen = torch.randperm(2**n, generator=generator)[:labels]
        coins = torch.randint(2, (2**n,), generator=generator, dtype=torch.float64)
        coins[chosen] = function(x[chosen])
        pools.append(x[chosen])
        targets.append(function)
        filled.append(1 - 2 * coins)
    encoder = Encoder(n, width)
    trained = train_encoders(encoder, targets, range(functions), settings, pools=pools, label=f"{labels} labels")
    outputs = (predictions(encoder, trained.rows, x) > 0.5).double()
    right = [
        float((from_table(table)(pool) == target(pool)).double().mean())
        for table, pool, target in zip(outputs, pools, targets, strict=True)
    ]
    learned = average_sensitivity(1 - 2 * outputs)
    return Fit(np.array(right), learned.numpy(), average_sensitivity(torch.stack(filled)).numpy())


# Random weights


KINDS = ("transformer", "LSTM")
STARTS = {
    "N(0, 10²)": lambda w, g: nn.init.normal_(w, std=10.0, generator=g),
    "U(-10, 10)": lambda w, g: nn.init.uniform_(w, -10.0, 10.0, generator=g),
    "Xavier": lambda w, g: nn.init.xavier_uniform_(w, generator=g),
}


class LSTMReader(nn.Module):
    """An LSTM on an embedding of the bits, read at the last position: the rival of the literal encoder."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(2, width))
        self.body = nn.LSTM(width, width, layers, batch_first=True)
        self.read = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Bits (inputs, n) to outputs (inputs,)."""
        return self.read(self.body(self.token[x.long()])[0][:, -1]).squeeze(-1)


def with_random_weights(model: nn.Module, start: str, seed: int) -> nn.Module:
    """The model with every matrix drawn anew and every bias 0; the gains of layer norms stay 1."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            STARTS[start](parameter, generator)
        elif "bias" in name:
            nn.init.zeros_(parameter)
    return model


def random_sensitivities(kind: str, n: int, layers: int, start: str, draws: int, width: int = 32) -> np.ndarray:
    """Average sensitivity divided by n of transformers or LSTMs with random weights, on all 2^n inputs, (draws,)."""
    x, tables = cube(n, torch.float32), []
    model = LiteralEncoder(n, width, layers) if kind == "transformer" else LSTMReader(width, layers)
    with torch.no_grad(), one_thread_per_process():
        for seed in track(draws, f"random {kind}s", True):
            tables.append(with_random_weights(model, start, seed)(x) > 0)
    return (average_sensitivity(1 - 2 * torch.stack(tables).double()) / n).numpy()

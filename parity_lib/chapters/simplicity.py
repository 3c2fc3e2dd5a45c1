"""The experiments of the essay ``simplicity``: which functions an encoder learns, fills in and starts from.

The models, what is measured on them and when a run converged are those of :mod:`parity_lib.chapters.sensitivity`;
what the frames say is decided in :mod:`parity_lib.chapters.sensitivity_summary`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import pandas as pd
import torch
from torch import Tensor, nn

from ..progress import track
from ..training import one_thread_per_process
from .boolean import average_sensitivity, cube, find_function, from_table, k_parity, random_function, signed_table
from .encoder import Encoder, LiteralEncoder, Settings, predictions, train_encoders
from .networks import drawn_tasks
from .sensitivity import Models, measured, trained_models
from .store import kept

# k-parities and other functions, and PARITY over time


@kept
def train_ladder(n: int, seeds: int, others: Sequence[str], settings: Settings, perturbations: int) -> Models:
    """k-parity of random bits among n for k = 1, ..., n, in column ``k``, and the functions named, where k is 0.

    ``sensitivity`` is the average sensitivity, exact; a seed has one start for all functions.
    """
    parities = [(k, f"{k}-parity", k_parity(task)) for k in range(1, n + 1) for task in drawn_tasks(n, k, range(seeds))]
    rest = [(0, name, find_function(name)) for name in others for _ in range(seeds)]
    ks, names, functions = zip(*parities, *rest, strict=True)
    sensitivities = [float(average_sensitivity(signed_table(function, n))) for function in functions]
    columns = pd.DataFrame({"n": n, "k": ks, "function": names, "sensitivity": sensitivities,
                            "seed": list(range(seeds)) * (n + len(others))})  # fmt: skip
    return trained_models(Encoder(n), functions, columns["seed"], settings, columns, perturbations, "ladder")


@kept
def follow(n: int, seeds: int, settings: Settings, every: int, perturbations: int) -> pd.DataFrame:
    """PARITY over time, a row per run and look.

    Columns ``seed``, ``update``, ``loss`` on the batches since the last look, ``sharpness`` with its standard
    ``error``, ``blowup``, ``norm``.
    """
    encoder, parity, found = Encoder(n), find_function("PARITY"), []
    runs = train_encoders(encoder, [parity] * seeds, range(seeds), settings, keep_every=every, label=f"n = {n}")
    for seed, run in enumerate(runs):
        for i in track(len(run.frames), "metrics over time"):
            metrics = measured(encoder, run.frames[i], parity, perturbations, seed=i)
            metrics["loss"] = float(run.loss[i * every : (i + 1) * every].mean())
            found.append({"seed": seed, "update": (i + 1) * every, **metrics})
    return pd.DataFrame(found)[["seed", "update", "loss", "sharpness", "error", "blowup", "norm"]]


# Learned functions against random fill


def check_labels(n: int, labels: Sequence[int]) -> None:
    """No more labels can be shown than n bits have inputs."""
    if not all(1 <= shown <= 2**n for shown in labels):
        raise ValueError(f"labels must be in 1..{2**n}, the inputs of {n} bits, got {', '.join(map(str, labels))}")


@kept
def fit_random_functions(n: int, labels: Sequence[int], functions: int, settings: Settings) -> pd.DataFrame:
    """Random functions of n bits of which K values are shown, extended by the model and by coins.

    Columns ``labels``, ``function``, ``accuracy`` on the labels, and the average sensitivities ``learned`` and
    ``filled``.
    """
    return pd.concat([_fits(n, shown, functions, settings)[0] for shown in labels], ignore_index=True)


def _fits(n: int, labels: int, functions: int, settings: Settings) -> tuple[pd.DataFrame, list[Tensor], list[Tensor]]:
    check_labels(n, [labels])
    x, encoder, generators = cube(n), Encoder(n), [torch.Generator().manual_seed(seed) for seed in range(functions)]
    targets = [random_function(n, generator) for generator in generators]
    shown = [torch.randperm(2**n, generator=generator)[:labels] for generator in generators]
    filled = [torch.randint(2, (2**n,), generator=generator, dtype=torch.float64) for generator in generators]
    for coins, target, chosen in zip(filled, targets, shown, strict=True):
        coins[chosen] = target(x[chosen])
    pools = [x[chosen] for chosen in shown]
    trained = train_encoders(encoder, targets, range(functions), settings, pools=pools, label=f"{labels} labels")
    tables = [torch.from_numpy(predictions(encoder, run.row, x) > 0.5).double() for run in trained]
    right = [table[chosen] == coins[chosen] for table, coins, chosen in zip(tables, filled, shown, strict=True)]
    frame = pd.DataFrame({
        "labels": labels,
        "function": range(functions),
        "accuracy": [float(each.double().mean()) for each in right],
        "learned": average_sensitivity(1 - 2 * torch.stack(tables)).numpy(),
        "filled": average_sensitivity(1 - 2 * torch.stack(filled)).numpy(),
    })  # fmt: skip
    return frame, tables, filled


@kept
def refit(n: int, labels: int, functions: int, settings: Settings, perturbations: int) -> Models:
    """Both tables of every fit, the learned and the coin-filled one, learned whole: ``table`` and its sharpness."""
    _, tables, filled = _fits(n, labels, functions, settings)
    targets = [from_table(table.float()) for table in (*tables, *filled)]
    columns = pd.DataFrame(product(("learned", "filled by coins"), range(functions)), columns=["table", "function"])
    columns.insert(0, "n", n)
    return trained_models(Encoder(n), targets, columns["function"], settings, columns, perturbations, "whole tables")


def fillings(fits: pd.DataFrame, refits: pd.DataFrame) -> pd.DataFrame:
    """Learned and coin-filled tables, a row each: their average sensitivity (``fit``), their sharpness (``refit``)."""
    long = fits.melt(["labels", "function", "accuracy"], ["learned", "filled"], "table", "sensitivity")
    long = long.replace({"table": {"filled": "filled by coins"}}).assign(kind="fit")
    columns = ["table", "function", "converged", "sharpness", "error", "loss"]
    return pd.concat([long, refits[columns].assign(kind="refit", labels=0)], ignore_index=True)


# Random weights


STARTS: dict[str, Callable[..., Tensor]] = {
    "N(0, 10²)": partial(nn.init.normal_, std=10.0),
    "U(-10, 10)": partial(nn.init.uniform_, a=-10.0, b=10.0),
    "Xavier": nn.init.xavier_uniform_,
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
            STARTS[start](parameter, generator=generator)
        elif "bias" in name:
            nn.init.zeros_(parameter)
    return model


@kept
def random_weights(n: int, layers: Sequence[int], draws: int) -> pd.DataFrame:
    """``sensitivity`` (average sensitivity divided by n, all inputs) of models with random weights, a row a draw.

    Columns ``kind`` (transformer or LSTM), ``start``, ``layers``, ``draw``.
    """
    x, found, cases = cube(n, torch.float32), [], list(product(("transformer", "LSTM"), STARTS, layers))
    with torch.no_grad(), one_thread_per_process():
        for i in track(len(cases), "random weights", True):
            kind, start, depth = cases[i]
            model = LiteralEncoder(n, layers=depth) if kind == "transformer" else LSTMReader(32, depth)
            tables = [with_random_weights(model, start, seed)(x) > 0 for seed in range(draws)]
            values = average_sensitivity(1 - 2 * torch.stack(tables).double()) / n
            found.append(pd.DataFrame({"kind": kind, "start": start, "layers": depth, "draw": range(draws),
                                       "sensitivity": values.numpy()}))  # fmt: skip
    return pd.concat(found, ignore_index=True)

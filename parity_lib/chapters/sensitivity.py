"""The experiments of the essay ``sensitivity``: what is trained or written down, and what is measured on it.

A run *converged* if its squared error is below 1e-3 on the {0, 1} scale, over all inputs up to 14 bits and over as
many random ones beyond: the filter of Hahn and Rofin, without which a run that never left the plateau would count as
a flat minimum. What the frames say is decided in :mod:`parity_lib.chapters.sensitivity_summary`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize
from torch import Tensor

from ..progress import track
from ..training import one_thread_per_process
from .boolean import Function, average_sensitivity, find_function
from .constructions import CONSTRUCTED, construct
from .encoder import (
    CUBE_BITS,
    Encoder,
    Settings,
    blowup,
    look_at,
    parameter_norm,
    predictions,
    sharpness,
    train_encoder,
    train_encoders,
)
from .store import kept

CONVERGED = 1e-3  # the authors' filter
ENOUGH = 1e-4  # loss at which a run stops
STUDIES = Path(__file__).resolve().parents[2] / "reference" / "studies"


# Trained models, and what is measured on each


@dataclass(frozen=True)
class Models:
    """Models of one length, trained or written down: a row of ``runs`` and of ``rows`` for each."""

    runs: pd.DataFrame
    """``n``, ``function``, ``seed``, ``updates``, ``learned`` (updates, infinite if never), ``loss``, ``converged``,
    ``sharpness`` with its standard ``error``, ``blowup``, ``norm`` and ``least``, see :func:`least_product`."""
    rows: np.ndarray
    """Parameters, (models, numbers)."""


def measured(
    encoder: Encoder, row: np.ndarray, function: Function, perturbations: int, *,
    x: Tensor | None = None, batch: int = 64, seed: int = 0,
) -> dict[str, float]:  # fmt: skip
    """The metrics of one model, as columns of :class:`Models`; loss and norms over x, all inputs by default."""
    x = encoder.inputs() if x is None else x
    outputs, taus = look_at(encoder, row, x)
    loss = float(np.mean((outputs - function(x).numpy()) ** 2))
    rises = sharpness(encoder, row, function, seed, perturbations=perturbations, batch=batch)
    return {
        "loss": loss, "converged": loss < CONVERGED,
        "sharpness": float(rises.mean()), "error": float(rises.std(ddof=1)) / math.sqrt(len(rises)),
        "blowup": blowup(taus), "norm": parameter_norm(encoder, row), "least": least_product(encoder, row, taus),
    }  # fmt: skip


def trained_models(
    encoder: Encoder, functions: Sequence[Function], seeds: Sequence[int], settings: Settings, columns: pd.DataFrame,
    perturbations: int, label: str,
) -> Models:  # fmt: skip
    """A model trained for each function and seed, with what is measured on each beside the columns given."""
    trained = train_encoders(encoder, functions, seeds, settings, label=label)
    found = [
        {"updates": len(run.loss), "learned": run.learned} | measured(encoder, run.row, function, perturbations)
        for run, function in zip(trained, functions, strict=True)
    ]
    return Models(columns.join(pd.DataFrame(found)), np.stack([run.row for run in trained]))


@kept
def train_named(n: int, seeds: Mapping[str, int], settings: Settings, perturbations: int, width: int = 32) -> Models:
    """So many seeds of each named function of n bits, trained and measured."""
    columns = pd.DataFrame([(n, name, seed) for name, count in seeds.items() for seed in range(count)],
                           columns=["n", "function", "seed"])  # fmt: skip
    functions, label = columns["function"].map(find_function), f"n = {n}, weight decay {settings.weight_decay:g}"
    return trained_models(Encoder(n, width), functions, columns["seed"], settings, columns, perturbations, label)


def curriculum(n: int) -> Settings:
    """The one recipe for all lengths: two free bits at first, one more as the loss falls, an end that grows with n.

    A run that is not at :data:`ENOUGH` then has a second end with larger batches, a fifth as long.
    """
    return Settings(1000 * n + 6000, least=500 * n, finish=500 * n, free_bits=2, enough=ENOUGH, polish=100 * n)


def by_length(lengths: Sequence[int], seeds: Mapping[str, int], perturbations: int) -> pd.DataFrame:
    """The runs of :func:`train_named` by :func:`curriculum` at several lengths, one below the other."""
    return pd.concat([train_named(n, seeds, curriculum(n), perturbations).runs for n in lengths], ignore_index=True)


def by_decay(
    n: int, decays: Sequence[float], seeds: Mapping[str, int], settings: Settings, perturbations: int
) -> Models:
    """The models of :func:`train_named` at several weight decays, with a column ``decay``."""
    found = [train_named(n, seeds, replace(settings, weight_decay=decay), perturbations) for decay in decays]
    frames = [models.runs.assign(decay=decay) for models, decay in zip(found, decays, strict=True)]
    return Models(pd.concat(frames, ignore_index=True), np.concatenate([models.rows for models in found]))


def study(name: str) -> pd.DataFrame:
    """A frame of the reference run of ``studies/sensitivity.py``, which takes longer than the book does."""
    return pd.read_csv(STUDIES / f"sensitivity_{name}.csv")


# Models that are written down


@kept
def constructed(lengths: Sequence[int], perturbations: int) -> pd.DataFrame:
    """The constructions at several lengths: the columns of :class:`Models`, over :func:`every_weight`.

    Each perturbation has 64 inputs, beyond 8 bits the fewer the longer they are.
    """
    found = []
    for n, name in product(lengths, CONSTRUCTED):
        row, batch = construct(name, n).numpy(), min(64, max(1, 512 // n))
        metrics = measured(Encoder(n), row, find_function(name), perturbations, x=every_weight(n), batch=batch)
        found.append({"n": n, "function": name} | metrics)
    return pd.DataFrame(found)


def every_weight(n: int) -> Tensor:
    """A random string of every number of ones, (n + 1, n)."""
    generator = torch.Generator().manual_seed(n)
    return torch.stack([(torch.randperm(n, generator=generator) < k).float() for k in range(n + 1)])


@kept
def noised(
    n: int, names: Sequence[str], seeds: Sequence[int], steps: int, perturbations: int, bearable: float = 0.0,
    rates: Sequence[float] = (1e-3,),
) -> Models:  # fmt: skip
    """Constructions trained on with weight noise that grows, by Adam without decay, a try for each seed.

    It ends at the noise of a sharpness, so that what is minimised is sharpness plus four times the loss. With
    ``bearable`` it grows only as the loss allows, see :class:`Settings`. Each of the learning ``rates`` is a round of
    so many steps, in which noise and Adam start anew. The noise of a try may cost it the answer.
    """
    settings = Settings(steps, least=steps, finish=steps // 3, weight_decay=0.0, noise=0.02, bearable=bearable)
    encoder, found, rows = Encoder(n), [], []
    asked = list(product(names, seeds))
    for name, seed in (asked[i] for i in track(len(asked), f"weight noise, n = {n}")):
        function, row = find_function(name), construct(name, n)
        with one_thread_per_process():
            for turn, rate in enumerate(rates, seed * len(rates)):
                settings = replace(settings, learning_rate=rate)
                row = torch.from_numpy(train_encoder(encoder, function, turn, settings, start=row).row)
        rows.append(row.numpy())
        found.append({"n": n, "function": name, "seed": seed} | measured(encoder, rows[-1], function, perturbations))
    return Models(pd.DataFrame(found), np.stack(rows))


def flattest(runs: pd.DataFrame) -> pd.DataFrame:
    """Of every function and length the flattest of the runs that converged."""
    return runs.loc[runs[runs["converged"]].groupby(["function", "n"])["sharpness"].idxmin()]


# Scale: the same function with other weights


SYMMETRIES = (
    (("token", "position", "out_weight1", "out_bias1"), ("in_weight1",)),
    (("norm1_gain1", "norm1_bias1", "down_weight1", "down_bias1"), ("up_weight1",)),
    (("norm2_gain1", "norm2_bias1", "out_weight2", "out_bias2"), ("in_weight2",)),
    (("norm1_gain2", "norm1_bias2", "down_weight2", "down_bias2"), ("up_weight2",)),
    (("norm2_gain2", "norm2_bias2"), ("read_weight",)),
)
"""What may be multiplied by any c > 0 while the rest is divided by it, without changing any output (up to the
epsilon of the norms). The first four change what enters the four norms, in this order; the last enters none."""


def rescaled(encoder: Encoder, row: np.ndarray, scales: Sequence[float]) -> np.ndarray:
    """The row of the same function with every symmetry's scale changed by a factor."""
    result = torch.from_numpy(row.copy())
    views = encoder.views(result)
    for (times, divided), scale in zip(SYMMETRIES, scales, strict=True):
        for name in times:
            views[name] *= scale
        for name in divided:
            views[name] /= scale
    return result.numpy()


@kept
def orbit(n: int, scales: Sequence[float], seeds: Mapping[str, int], perturbations: int) -> pd.DataFrame:
    """The first trained PARITY and FIRST of n bits under the four symmetries of the norms at once, by ``scale``.

    The models are those of :func:`by_length`; ``change`` is the largest change of an output, ``product`` is norm times
    squared blowup.
    """
    models, encoder, found = train_named(n, seeds, curriculum(n), perturbations), Encoder(n), []
    for name in ("PARITY", "FIRST"):
        row = models.rows[models.runs.index[models.runs["function"] == name][0]]
        before = predictions(encoder, row, encoder.inputs())
        for scale in scales:
            there = rescaled(encoder, row, [scale] * 4 + [1.0])
            change = np.abs(predictions(encoder, there, encoder.inputs()) - before).max()
            metrics = measured(encoder, there, find_function(name), perturbations)
            found.append({"function": name, "scale": scale, "change": float(change), **metrics})
    frame = pd.DataFrame(found)
    frame["product"] = frame["norm"] * frame["blowup"] ** 2
    return frame[["function", "scale", "change", "norm", "blowup", "product", "sharpness", "least"]]


def least_product(encoder: Encoder, row: np.ndarray, taus: np.ndarray) -> float:
    r"""log10 of the least norm times squared blowup among all weights that are this model up to :data:`SYMMETRIES`.

    Blowup is here :math:`\sqrt{E_x \prod_k \max_i (1 + 1/\mathrm{std}(u^{(k)}_i))^2}`, our reading of the theorem's:
    each factor is at least 1, so that the least is not 0. It belongs to the orbit of the weights, not to the function,
    which other weights compute too. ``taus`` are the largest 1/std, (4, inputs), of which 4096 are enough.
    """
    taus = np.log(taus[:, :: max(1, taus.shape[1] // 4096)].astype(np.float64))
    views = {name: float(view.double().square().sum()) for name, view in encoder.views(torch.from_numpy(row)).items()}
    free = sum(views.values()) - views["position"]
    up = np.array([sum(views[name] for name in times if name != "position") for times, _ in SYMMETRIES])
    down = np.array([sum(views[name] for name in divided) for _, divided in SYMMETRIES])
    free -= float(up.sum() + down.sum())

    def log_product(logs: np.ndarray) -> float:
        square = free + np.sum(up * np.exp(2 * logs) + down * np.exp(-2 * logs))
        blown = np.logaddexp(0, taus - logs[:4, None]).sum(0)  # log of the product of 1 + tau
        return float(0.5 * np.log(square) + np.log(np.mean(np.exp(2 * (blown - blown.max())))) + 2 * blown.max())

    return float(minimize(log_product, np.zeros(5), method="BFGS").fun / math.log(10))


# The mechanism, exactly


@kept
def mechanism(lengths: Sequence[int], seeds: Mapping[str, int], perturbations: int, shown: int) -> pd.DataFrame:
    """:func:`sides_of` the models of :func:`by_length` and of the constructions, told apart by ``kind``."""
    groups = []
    for n in (n for n in lengths if n <= CUBE_BITS):
        models = train_named(n, seeds, curriculum(n), perturbations)
        built = pd.DataFrame({"kind": "constructed", "n": n, "function": list(CONSTRUCTED), "seed": 0})
        rows = np.stack([construct(name, n).numpy() for name in CONSTRUCTED])
        groups += [Models(models.runs.assign(kind="trained"), models.rows), Models(built, rows)]
    return sides_of(groups, shown)


def sides_of(groups: Sequence[Models], shown: int) -> pd.DataFrame:
    """Both sides of the proposition for the models of at most 14 bits in some groups, over all inputs.

    A row is a model and one of ``shown`` perturbations: ``left`` is E(T - T')², ``right`` is
    (sqrt(as T) - sqrt(as T'))² / n, ``sensitivity`` and ``after`` are as T and as T', on the ±1 scale.
    """
    found = []
    for models in groups:
        known = models.runs.filter(["kind", "n", "function", "seed"]).to_dict("records")
        found += [pd.DataFrame(names | two_sides(Encoder(names["n"]), row, shown))
                  for names, row in zip(known, models.rows, strict=True) if names["n"] <= CUBE_BITS]  # fmt: skip
    if not found:  # no length of at most 14 bits
        return pd.DataFrame(columns=["kind", "n", "function", "left", "right", "sensitivity", "after"], dtype=float)
    return pd.concat(found, ignore_index=True)


def two_sides(encoder: Encoder, row: np.ndarray, perturbations: int) -> dict[str, np.ndarray]:
    """The columns of :func:`sides_of` for a model and its perturbed copies, in double precision."""
    noise = np.float32(0.02) * np.random.default_rng(1).standard_normal((perturbations, len(row)), np.float32)
    noise[:, : encoder.positions] = 0
    outputs = np.stack([predictions(encoder, weights, encoder.inputs()) for weights in (row, *(row + noise))])
    tables = torch.from_numpy(1 - 2 * outputs.astype(np.float64))
    before, *after = (float(average_sensitivity(table)) for table in tables)
    left = (tables[0] - tables[1:]).square().mean(1).numpy()
    right = (np.sqrt(before) - np.sqrt(after)) ** 2 / encoder.n
    return {"left": left, "right": right, "sensitivity": before, "after": np.array(after)}


# Frames of the figures


def with_study(own: pd.DataFrame, name: str) -> pd.DataFrame:
    """A frame of this run, and below it that of the study ``name`` at longer inputs; ``where`` tells them apart."""
    return pd.concat([own.assign(where="here"), study(name).assign(where="study")], ignore_index=True)


def frontier(flat: pd.DataFrame, runs: pd.DataFrame, built: pd.DataFrame) -> pd.DataFrame:
    """Converged PARITY by its ``source``, construction, AdamW or weight noise, up to 32 bits; FIRST by noise too.

    ``flattest`` marks what :func:`flattest` says of weight noise.
    """
    flat = flat.assign(flattest=flat.index.isin(flattest(flat).index))
    parity = {"written down": built, "AdamW": runs, "weight noise": flat}
    parts = [part[part["function"] == "PARITY"].assign(source=source) for source, part in parity.items()]
    parts.append(flat[flat["function"] == "FIRST"].assign(source="FIRST, weight noise"))
    found = pd.concat(parts, ignore_index=True).fillna({"flattest": False})
    there = found["converged"].astype(bool) & found["n"].between(8, 32)
    columns = ["source", "function", "n", "sharpness", "error", "norm", "blowup", "loss", "flattest"]
    return found[there].astype({"flattest": bool})[columns]


def orbits(along: pd.DataFrame, decayed: pd.DataFrame) -> pd.DataFrame:
    """The models along the symmetry and the trained ones at several weight decays, told apart by ``kind``."""
    return pd.concat([along.assign(kind="orbit", converged=True), decayed.assign(kind="trained")], ignore_index=True)


def ways(pads: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """PARITY with a scratchpad and, where it converged, without, told apart by ``way``.

    Runs marked as a ``trial`` are a third way.
    """
    bare = runs[(runs["function"] == "PARITY") & runs["converged"]]
    written = pads.assign(way=np.where(pads["trial"], "trial", "with a scratchpad"))
    both = [written, bare.assign(way="answer alone")]
    return pd.concat(both, ignore_index=True)[["way", "n", "seed", "learned", "right", "sharpness", "error"]]

"""Encoders of other shapes, and PARITY with a scratchpad (chapter ``sensitivity``).

One plain torch module for everything that the fixed architecture of :mod:`parity_lib.chapters.encoder` is not:
other numbers of heads and layers, RMSNorm, a causal mask, dropout, other optimisers, and sequences of tokens with an
answer at many positions. Models are stacked along the first axis of every parameter, since small tensors are bound
by the number of operations and not by their size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..progress import track
from ..training import adam, one_thread_per_process
from .store import kept

LEARNED, ENOUGH = 0.01, 1e-4  # losses: learned, and where a run stops
CHUNK = 50  # updates between two looks
START, PARITIES = 2, 3  # tokens of a scratchpad after the bits 0 and 1: its first, and the parities 3 and 4


@dataclass(frozen=True)
class Shape:
    """What may differ from the chapter's encoder, which is the default; and how it is trained."""

    width: int = 32
    heads: int = 2
    layers: int = 2
    norm: str = "layer"
    """``layer`` or ``rms``, which neither centres nor has a bias."""
    causal: bool = False
    dropout: float = 0.0
    optimiser: str = "adamw"
    """``adamw``; ``sgd`` with momentum; ``sam``, AdamW at the worst weights within 0.05; ``noise``, AdamW at weights
    with Gaussian noise of 0.02."""
    decay: float = 0.1
    rate: float = 1e-3


class Stack(nn.Module):
    """Models of one shape on sequences of tokens, one per seed; token and position side by side as in the encoder."""

    def __init__(
        self, shape: Shape, length: int, tokens: int, seeds: Sequence[int], position_scale: float = 0.1
    ) -> None:
        super().__init__()
        self.shape, d, half = shape, shape.width, shape.width // 2
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.position = self._normal(position_scale, length, half)
        self.token = self._normal(1.0, tokens, half)
        narrow, wide = d**-0.5, math.sqrt(6 / (4 * d))
        for i in range(shape.layers):
            parts = {"query": wide, "key": wide, "value": wide, "out": narrow, "up": narrow, "down": narrow}
            for name, bound in parts.items():
                setattr(self, f"{name}_weight{i}", self._uniform(bound, d, d))
                setattr(self, f"{name}_bias{i}", self._uniform(narrow if name in ("up", "down") else 0.0, d))
            for name in ("norm1", "norm2"):
                setattr(self, f"{name}_gain{i}", nn.Parameter(torch.ones(len(seeds), d)))
                setattr(self, f"{name}_bias{i}", nn.Parameter(torch.zeros(len(seeds), d)))
        self.read_weight, self.read_bias = self._uniform(narrow, d), self._uniform(narrow, 1)

    def _normal(self, scale: float, *size: int) -> nn.Parameter:
        return nn.Parameter(torch.stack([scale * torch.randn(size, generator=g) for g in self.generators]))

    def _uniform(self, bound: float, *size: int) -> nn.Parameter:
        return nn.Parameter(torch.stack([bound * (2 * torch.rand(size, generator=g) - 1) for g in self.generators]))

    def forward(self, codes: Tensor, first: int = 0) -> Tensor:
        """Tokens (models, batch, length), whole numbers, to outputs (models, batch, length - first).

        Those of the positions before ``first`` are not asked for, and the last layer leaves them out.
        """
        _, batch, length = codes.shape
        token = torch.stack([table[code] for table, code in zip(self.token, codes, strict=True)])
        h = torch.cat([token, self.position[:, None, :length].expand(-1, batch, -1, -1)], -1)
        for i in range(self.shape.layers):
            here = h[:, :, first:] if i == self.shape.layers - 1 else h
            h = self._norm(f"norm1_{{}}{i}", here + self._drop(self._attend(i, here, h)))
            h = self._norm(f"norm2_{{}}{i}", h + self._drop(self._dense("down", i, self._dense("up", i, h).relu())))
        return torch.einsum("mbld,md->mbl", h, self.read_weight) + self.read_bias[:, None]

    def _dense(self, name: str, i: int, h: Tensor) -> Tensor:
        weight, bias = getattr(self, f"{name}_weight{i}"), getattr(self, f"{name}_bias{i}")
        return torch.baddbmm(bias[:, None], h.flatten(1, 2), weight.mT).view_as(h)

    def _attend(self, i: int, here: Tensor, h: Tensor) -> Tensor:
        q, k, v = (self._dense(name, i, there).unflatten(-1, (self.shape.heads, -1)).transpose(2, 3).flatten(0, 1)
                   for name, there in (("query", here), ("key", h), ("value", h)))  # fmt: skip
        length, asked = h.shape[2], here.shape[2]
        seen = torch.ones(length, length, dtype=torch.bool).tril()[-asked:] if self.shape.causal else None
        read = F.scaled_dot_product_attention(q, k, v, seen)
        return self._dense("out", i, read.transpose(1, 2).flatten(2).view_as(here))

    def _norm(self, name: str, h: Tensor) -> Tensor:
        gain, bias = getattr(self, name.format("gain")), getattr(self, name.format("bias"))
        if self.shape.norm == "rms":
            return F.rms_norm(h, h.shape[-1:], eps=1e-5) * gain[:, None, None]
        return torch.addcmul(bias[:, None, None], F.layer_norm(h, h.shape[-1:]), gain[:, None, None])

    def _drop(self, h: Tensor) -> Tensor:
        return F.dropout(h, self.shape.dropout, self.training) if self.shape.dropout else h


Draw = Callable[[int, torch.Generator, float], tuple[Tensor, Tensor]]
"""From a model's number, its generator and its last loss: tokens and targets (batch, length), nan where none is asked
for."""


def losses(model: Stack, codes: Tensor, targets: Tensor) -> Tensor:
    """Squared error at the positions that have a target, (models,): tokens and targets (models, batch, length)."""
    first = int((~targets.isnan()).any(1).any(0).int().argmax())
    asked = ~targets[..., first:].isnan()
    error = (model(codes, first) - targets[..., first:].nan_to_num()).square() * asked
    return error.sum((1, 2)) / asked.sum((1, 2))


def train_stack(
    model: Stack, draw: Draw, seeds: Sequence[int], updates: int, finish: int, label: str, enough: float = 0.0
) -> Tensor:
    """Train a stack; the learning rate falls to a twentieth in the last updates. Losses (updates, models).

    It ends once the mean loss over 50 updates is below ``enough`` for every model.
    """
    shape, parameters, history = model.shape, list(model.parameters()), []
    generators = [torch.Generator().manual_seed(2**41 + seed) for seed in seeds]
    step, loss = adam(1.0), torch.full((len(seeds),), math.inf)
    row = torch.cat([p.detach().flatten(1) for p in parameters], 1)
    direction = torch.zeros_like(row)

    def put(values: Tensor) -> None:
        with torch.no_grad():
            for p, part in zip(parameters, values.split([p[0].numel() for p in parameters], 1), strict=True):
                p.copy_(part.view_as(p))

    def slopes(codes: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        loss = losses(model, codes, targets)
        found = torch.autograd.grad(loss.sum(), parameters, allow_unused=True, materialize_grads=True)
        return loss.detach(), torch.cat([g.flatten(1) for g in found], 1)

    for update in track(updates, label, True):
        batches = [draw(i, generators[i], float(loss[i])) for i in range(len(seeds))]
        codes, targets = (torch.stack(part) for part in zip(*batches, strict=True))
        if shape.optimiser == "noise":
            noise = torch.cat([0.02 * torch.randn_like(p).flatten(1) for p in parameters[1:]], 1)
            put(row + F.pad(noise, (row.shape[1] - noise.shape[1], 0)))  # none on the positions, which come first
        loss, gradient = slopes(codes, targets)
        if shape.optimiser == "sam":
            put(row + 0.05 * gradient / (gradient.norm(dim=1, keepdim=True) + 1e-12))
            _, gradient = slopes(codes, targets)
        rate = shape.rate * min(1.0, 0.05 + 0.95 * (updates - update) / finish)
        direction = 0.9 * direction + gradient if shape.optimiser == "sgd" else step(gradient)
        row = row * (1 - rate * shape.decay) - rate * direction
        put(row)
        history.append(loss)
        if (update + 1) % CHUNK == 0 and bool((torch.stack(history[-CHUNK:]).mean(0) < enough).all()):
            break
    return torch.stack(history)


@torch.no_grad()
def stack_sharpness(model: Stack, codes: Tensor, targets: Tensor, perturbations: int) -> Tensor:
    """Rises of the loss as in :func:`parity_lib.chapters.encoder.sharpness`, (perturbations, models), same inputs."""
    generator, rises = torch.Generator().manual_seed(0), []
    before = losses(model, codes, targets)
    shaken = [p for name, p in model.named_parameters() if name != "position"]
    for _ in range(perturbations):
        noise = [0.02 * torch.randn(p.shape, generator=generator) for p in shaken]
        for p, z in zip(shaken, noise, strict=True):
            p.add_(z)
        rises.append(4 * (losses(model, codes, targets) - before))
        for p, z in zip(shaken, noise, strict=True):
            p.sub_(z)
    return torch.stack(rises)


# The scratchpad


@kept
def scratchpad(
    n: int, seeds: int, updates: int, perturbations: int, batch: int = 64, growing: bool = False
) -> pd.DataFrame:
    """PARITY of n bits with its running parities written out, by a causal model of two layers: a row per seed.

    The model sees the bits, a start token and the parities so far, and answers with the next parity. ``right`` is the
    share of 2000 fresh strings that it writes without a mistake, one token after the other; ``learned`` the updates
    until the mean loss over 50 of them was below 0.01. With ``growing``, which the column of this name says, the loss
    counts the first four parities alone, and one more after every update with a loss below 0.03. Positions start at
    scale 1, the authors'.
    """
    chosen, asked = list(range(seeds)), [4 if growing else n] * seeds

    def draw(i: int, generator: torch.Generator, loss: float) -> tuple[Tensor, Tensor]:
        asked[i] = min(asked[i] + (loss < 0.03), n)
        return written_out(n, batch, asked[i], generator)

    codes, targets = written_out(n, 2000, n, torch.Generator().manual_seed(2**42))
    with one_thread_per_process():
        model = Stack(Shape(causal=True), 2 * n, 5, chosen, position_scale=1.0)
        history = train_stack(model, draw, chosen, updates, updates // 3, f"scratchpad, n = {n}",
                              0.0 if growing else ENOUGH)  # fmt: skip
        with torch.no_grad():
            output = torch.cat([model(part.expand(seeds, -1, -1), n) for part in codes.split(250)], 1)
        shown, wanted = codes[:64].expand(seeds, -1, -1), targets[:64].expand(seeds, -1, -1)
        rises = stack_sharpness(model, shown, wanted, perturbations)
    # As long as every token is right, the model sees what it would have written itself.
    right = ((output > 0.5) == (targets[:, n:] > 0.5)).all(2).double().mean(1)
    windows = history[: len(history) // CHUNK * CHUNK].view(-1, CHUNK, seeds).mean(1) < LEARNED
    return pd.DataFrame({
        "n": n,
        "seed": chosen,
        "growing": growing,
        "updates": len(history),
        "learned": [CHUNK * (int(there.int().argmax()) + 1) if there.any() else math.inf for there in windows.T],
        "loss": history[-CHUNK:].mean(0).numpy(),
        "right": right.numpy(),
        "sharpness": rises.mean(0).numpy(),
        "error": (rises.std(0) / math.sqrt(perturbations)).numpy(),
    })  # fmt: skip


def written_out(n: int, batch: int, asked: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Tokens and targets (batch, 2n) of strings with their running parities, of which the first are asked for."""
    bits = torch.randint(2, (batch, n), generator=generator)
    parity = bits.cumsum(1) % 2
    codes = torch.cat([bits, torch.full((batch, 1), START), PARITIES + parity[:, :-1]], 1)
    targets = torch.full((batch, 2 * n), math.nan)
    targets[:, n : n + asked] = parity[:, :asked].float()
    return codes, targets

r"""The encoder of Hahn and Rofin in plain torch: the reference that the fused steps are held against.

Two post-norm layers with two heads and a feed-forward part as wide as the model, token and learned position
embedding side by side (d/2 each), no mask, and a linear read-out of the last position,

.. math::
    h^{(0)}_i = (e_{x_i}, p_i), \quad
    u = \mathrm{LN}(h + \mathrm{Att}(h)), \quad
    h' = \mathrm{LN}(u + W_2\,\mathrm{relu}(W_1 u + b_1) + b_2), \quad
    \hat y = w \cdot h^{(2)}_n + b .

The functions have the names, arguments and results of :mod:`parity_lib.chapters.encoder_kernel`, which takes their
place where numba is there. Chapter ``sensitivity``.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .networks_reference import adam_step

HEADS = 2


def shapes(n: int, d: int) -> dict[str, tuple[int, ...]]:
    """Name to shape of every parameter, in the order of a row; the position embedding comes first."""
    layer = {
        "in_weight": (3 * d, d), "in_bias": (3 * d,), "out_weight": (d, d), "out_bias": (d,),
        "norm1_gain": (d,), "norm1_bias": (d,),
        "up_weight": (d, d), "up_bias": (d,), "down_weight": (d, d), "down_bias": (d,),
        "norm2_gain": (d,), "norm2_bias": (d,),
    }  # fmt: skip
    layers = {f"{name}{i}": shape for i in (1, 2) for name, shape in layer.items()}
    return {"position": (n, d // 2), "token": (2, d // 2), **layers, "read_weight": (d,), "read_bias": (1,)}


def views(row: Tensor, n: int, d: int) -> dict[str, Tensor]:
    """The parameters of a row (numbers,) by name, as views of it."""
    found = shapes(n, d)
    parts = row.split([math.prod(shape) for shape in found.values()])
    return {name: part.view(shape) for (name, shape), part in zip(found.items(), parts, strict=True)}


def forward(row: Tensor, codes: Tensor, n: int, d: int) -> tuple[Tensor, list[Tensor]]:
    """Outputs (batch,) of the model of a row (numbers,), and what enters its four norms, (batch, positions, d) each.

    codes (batch, n) hold 2 i + bit. Of the second layer only the last position is computed, since no other is read.
    """
    p, entering = views(row, n, d), []
    h = torch.cat([p["token"][codes & 1], p["position"].expand(len(codes), -1, -1)], -1)
    for i in (1, 2):
        places = slice(None) if i == 1 else slice(-1, None)
        weights, biases = p[f"in_weight{i}"].chunk(3), p[f"in_bias{i}"].chunk(3)
        # The softmax does not see a bias of the keys; leaving it out keeps rounding noise from its gradient.
        q, k, v = (
            F.linear(there, weight, bias).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for there, weight, bias in zip((h[:, places], h, h), weights, (biases[0], None, biases[2]), strict=True)
        )
        read = ((q @ k.mT / math.sqrt(d / HEADS)).softmax(-1) @ v).transpose(1, 2).flatten(2)
        u = h[:, places] + F.linear(read, p[f"out_weight{i}"], p[f"out_bias{i}"])
        middle = F.layer_norm(u, (d,), p[f"norm1_gain{i}"], p[f"norm1_bias{i}"])
        active = F.linear(middle, p[f"up_weight{i}"], p[f"up_bias{i}"]).relu()
        v = middle + F.linear(active, p[f"down_weight{i}"], p[f"down_bias{i}"])
        h = F.layer_norm(v, (d,), p[f"norm2_gain{i}"], p[f"norm2_bias{i}"])
        entering += [u, v]
    return h[:, -1] @ p["read_weight"] + p["read_bias"], entering


def predict(row: np.ndarray, codes: np.ndarray, n: int, d: int) -> np.ndarray:
    """Outputs of one model, (inputs,)."""
    with torch.no_grad():
        return forward(torch.from_numpy(row), torch.from_numpy(codes).long(), n, d)[0].numpy()


def look(row: np.ndarray, codes: np.ndarray, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of one model, (inputs,), and the largest 1/std over positions that enters each norm, (4, inputs).

    The standard deviation is the unbiased one, without epsilon.
    """
    with torch.no_grad():
        output, entering = forward(torch.from_numpy(row), torch.from_numpy(codes).long(), n, d)
        return output.numpy(), torch.stack([(1 / u.std(-1)).amax(1) for u in entering]).numpy()


def gradient(row: np.ndarray, codes: np.ndarray, y: np.ndarray, n: int, d: int, slopes: np.ndarray) -> float:
    """Mean squared error of one model; its slopes (numbers,) are written into ``slopes``."""
    place = torch.from_numpy(row).clone().requires_grad_()
    loss = F.mse_loss(forward(place, torch.from_numpy(codes).long(), n, d)[0], torch.from_numpy(y))
    slopes[:] = torch.autograd.grad(loss, place)[0].numpy()
    return float(loss.detach())


def train_steps(
    row: np.ndarray, mean: np.ndarray, square: np.ndarray, done: int, codes: np.ndarray, y: np.ndarray,
    rates: np.ndarray, decay: float, noise: np.ndarray, n: int, d: int, losses: np.ndarray,
) -> None:  # fmt: skip
    """AdamW on one model, in place: codes (steps, batch, n), y (steps, batch), rates (steps,) of the learning rate.

    So many updates are ``done`` before. The slopes are those at ``row + noise[step]`` where ``noise`` (steps, numbers)
    has rows.
    """
    slopes = np.empty_like(row)
    for step, rate in enumerate(rates):
        losses[step] = gradient(row + noise[step] if len(noise) else row, codes[step], y[step], n, d, slopes)
        row *= 1 - rate * decay
        row -= adam_step(mean, square, slopes, done + step + 1, rate)

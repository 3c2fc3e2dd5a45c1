"""Attention over positions (paper, section 2.2, eq. 3), and the literal token-level model.

With the paper's initialisation only the entries a_13 and a_14 of a head's 4 x 4 matrix are non-zero, so a head is a
*direction* in the plane of the positional code, its scores never see the tokens, and the whole model is 2k numbers.
:func:`literal_prediction` is the model as the paper writes it: slow, and the yardstick for every fast path.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor

from .checks import known, number, whole
from .readout import zigzag

CODES = ("circle", "powers")
MAX_LENGTH = 10_000_000


@lru_cache(maxsize=32)
def positional_code(
    n: int, code: str = "circle", dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
) -> Tensor:
    r"""Code of the positions 1..n, (n, 2F): :math:`\sin, \cos` of :math:`2\pi f j/n` for F frequencies f.

    ``circle`` is the paper's, f = 1 alone (eq. 3). ``powers`` has f = 1, 2, 4, ... up to n/2, which tells
    neighbours apart. The table is shared between calls: do not write into it.
    """
    known(code, CODES, f"positional code {code!r}")
    n = whole(n, "n", 2, MAX_LENGTH)
    frequencies = [1] if code == "circle" else [2**i for i in range(max(1, int(math.log2(n))))]
    turns = torch.arange(1, n + 1, dtype=dtype, device=device) / n
    angles = [2 * math.pi * f * turns for f in frequencies]
    return torch.stack([part for angle in angles for part in (angle.sin(), angle.cos())], dim=-1)


def soft_attention(directions: Tensor, n: int, temperature: float, code: str = "circle") -> Tensor:
    r"""Soft attention :math:`\gamma_j = \mathrm{softmax}_j(a \cdot \mathrm{pos}(j) / \tau)`.

    Directions (..., heads, 2) -> (..., heads, n), each row a distribution over the positions. Column 0 of a
    direction is a_13 (multiplies sin), column 1 is a_14 (cos); the code ``powers`` has such a pair per frequency.
    """
    attention = torch.softmax(scores(directions, n, code) / number(temperature, "temperature"), dim=-1)
    if attention.sum().isnan():  # a code has both signs, so an infinite direction gives some score of plus infinity
        raise ValueError(f"directions over the temperature {temperature:g} must be finite, got nan or inf")
    return attention


def hard_attention(directions: Tensor, n: int) -> Tensor:
    """Attention in the limit of zero temperature: each head reads its best position, (..., heads, n)."""
    given = scores(directions, n)
    if not given.isfinite().all():
        raise ValueError("directions must be finite, got nan or inf")
    return torch.nn.functional.one_hot(given.argmax(-1), n).to(directions.dtype)


def scores(directions: Tensor, n: int, code: str = "circle") -> Tensor:
    """What every head gives every position before the softmax, (..., heads, n)."""
    if not isinstance(directions, Tensor) or not directions.is_floating_point():
        kind = directions.dtype if isinstance(directions, Tensor) else type(directions).__name__
        raise ValueError(f"directions must be a tensor of floating-point numbers, got {kind}")
    table = positional_code(n, code, directions.dtype, directions.device)
    width = table.shape[1]
    if directions.ndim < 2 or directions.shape[-1] != width or directions.shape[-2] < 1:
        raise ValueError(f"directions must have shape (..., heads, {width}), got {tuple(directions.shape)}")
    return directions @ table.T


def position_weights(attention: Tensor, k: int) -> Tensor:
    r"""Weights :math:`c_j = \frac{k}{m}\sum_{i \le m} \gamma^{(i)}_j`, (..., m, n) -> (..., n).

    The classification head reads :math:`k v^*_1 = \sum_j c_j x_j`; always :math:`\sum_j c_j = k`.
    """
    return attention.sum(-2) * (k / attention.shape[-2])


def angle_to_position(directions: Tensor, n: int) -> Tensor:
    """Where on the circle of positions a direction points: (..., 2) -> (...), in [0.5, n + 0.5)."""
    turn = torch.atan2(directions[..., 0], directions[..., 1]) / (2 * math.pi)
    return (turn * n - 0.5).remainder(n) + 0.5


def aligned_directions(bits: tuple[int, ...], n: int) -> Tensor:
    """The construction of eq. 2: head i points straight at the i-th bit, (k, 2)."""
    return positional_code(n)[[bit - 1 for bit in bits]]


def head_matrices(directions: Tensor) -> Tensor:
    """Directions (..., heads, 2) as the paper's matrices A_i, (..., heads, 4, 4)."""
    return torch.nn.functional.pad(directions.unsqueeze(-2), (2, 0, 0, 3))  # the last two entries of the first row


def embed(x: Tensor) -> Tensor:
    """Token embeddings w_j of eq. 3, without the CLS token: (inputs, n) in {0, 1} -> (inputs, n, 4)."""
    code = positional_code(x.shape[-1], dtype=x.dtype, device=x.device)
    return torch.cat([torch.stack([x, 1 - x], dim=-1), code.expand(*x.shape, 2)], dim=-1)


def literal_prediction(x: Tensor, matrices: Tensor, k: int, temperature: float, smoothing: float) -> Tensor:
    r"""The paper's transformer, token by token: scores :math:`w_0^T A_i w_j`, softmax, values, mean, FFNN.

    Inputs (inputs, n) in {0, 1} and any matrices A_i (heads, 4, 4) -> predictions (inputs,).
    """
    if x.ndim != 2 or x.shape[1] < 2:
        raise ValueError(f"inputs must have shape (inputs, n) with n of at least 2, got {tuple(x.shape)}")
    if matrices.ndim != 3 or matrices.shape[1:] != (4, 4) or len(matrices) < 1:
        raise ValueError(f"matrices must have shape (heads, 4, 4), got {tuple(matrices.shape)}")
    cls, tokens = torch.tensor([1, 0, 0, 0], dtype=x.dtype, device=x.device), embed(x)
    asked = torch.einsum("a,hab,xjb->xhj", cls, matrices, tokens)
    weights = torch.softmax(asked / number(temperature, "temperature"), dim=-1)
    pooled = torch.einsum("xhj,xja->xha", weights, tokens).mean(dim=1)
    return zigzag(k * pooled[:, 0], k, smoothing)

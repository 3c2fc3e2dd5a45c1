r"""Empirical gradients from a stream of samples that is never stored (chapter ``xor``, from samples).

Inputs come as bits packed in words of 32. On a processor one fused loop unpacks an input, reads it with every head
and adds its gradient; torch does the same by autograd, chunk by chunk, and is what the loop is tested against.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..kernels import choose, compiled
from .xor import READOUTS, SparseXOR

CODES = {"tent": 0, "quadratic": 1, "product": 2}
CHUNK = 2048
"""Inputs held at a time; their gradients are added up in single precision, chunks in double."""


def random_words(count: int, d: int, generator: torch.Generator) -> Tensor:
    """Uniform inputs as packed bits, (count, words) of 32; drawn 64 at a time."""
    drawn = torch.empty(count, -(-d // 64), dtype=torch.int64)
    return drawn.random_(-(2**63), None, generator=generator).view(torch.int32)


def unpack(words: Tensor, d: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Packed bits as signs, (count, words) -> (count, d)."""
    bits = words.unsqueeze(-1).bitwise_right_shift(torch.arange(32, dtype=torch.int32)).bitwise_and(1)
    return bits.flatten(1)[:, :d].to(dtype) * 2 - 1


def random_signs(count: int, d: int, generator: torch.Generator, dtype: torch.dtype = torch.float64) -> Tensor:
    """Uniform inputs in {-1, +1}, (count, d)."""
    return unpack(random_words(count, d, generator), d, dtype)


def summed_gradients(task: SparseXOR, arms: Sequence[tuple[Tensor, str]], words: Tensor) -> Tensor:
    r"""Sum over inputs of the hinge's slope in the weights, by autograd; (count, words) -> (arms, 2, d).

    The hinge is active on every input, since :math:`|f| \le 1`, so it is :math:`1 - yf`.
    """
    x = unpack(words, task.d, torch.float32)
    starts = torch.stack([weights for weights, _ in arms]).to(x).requires_grad_()
    v = x @ starts.mT  # (arms, count, 2)
    f = torch.stack([READOUTS[readout](v[arm, :, 0], v[arm, :, 1]) for arm, (_, readout) in enumerate(arms)])
    (slopes,) = torch.autograd.grad(-(task.labels(x) * f).sum(), starts)
    return slopes.double()


@compiled
def _add_gradients(
    words: NDArray[np.int32], weights: NDArray[np.float32], codes: NDArray[np.int64], shared: NDArray[np.bool_],
    pair: NDArray[np.int64], total: NDArray[np.float32],
) -> None:  # fmt: skip
    """The fused loop: weights (arms, 2, d), codes (arms,) of the read-outs; adds to total (arms, 2, d).

    Four inputs at a time, so that weights and sums are loaded once for all four; a chunk that is not a multiple of
    four is filled up with inputs of zeros. Of an arm with ``shared`` weights the first head is read and added alone.
    """
    count, arms, d = words.shape[0], weights.shape[0], weights.shape[2]
    x = np.zeros((4, 32 * words.shape[1]), np.float32)
    read, slope, y = np.zeros((2, 4), np.float32), np.zeros((2, 4), np.float32), np.zeros(4, np.float32)
    one, two, zero, bit = np.float32(1), np.float32(2), np.float32(0), np.int32(1)
    small = np.float32(64 * 1.1920929e-07)
    for row in range(0, count, 4):
        for r in range(4):
            if row + r < count:
                for place in range(words.shape[1]):
                    word = words[row + r, place]
                    for k in range(32):
                        x[r, 32 * place + k] = two * np.float32((word >> np.int32(k)) & bit) - one
            else:
                x[r] = zero
            y[r] = -x[r, pair[0]] * x[r, pair[1]]
        x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
        for arm in range(arms):
            heads = 1 if shared[arm] else 2
            for head in range(heads):
                a, b, c, e = zero, zero, zero, zero
                w = weights[arm, head]
                for k in range(d):
                    a += w[k] * x0[k]
                    b += w[k] * x1[k]
                    c += w[k] * x2[k]
                    e += w[k] * x3[k]
                read[head, 0], read[head, 1], read[head, 2], read[head, 3] = a, b, c, e
            for r in range(4):
                first, second = read[0, r], read[heads - 1, r]
                if codes[arm] == 2:
                    slope[0, r], slope[1, r] = y[r] * second, y[r] * first
                else:
                    both = first + second
                    if codes[arm] == 0:
                        both = one if both > small else (-one if both < -small else zero)
                    slope[0, r] = slope[1, r] = y[r] * both
            for head in range(heads):
                s0, s1, s2, s3 = slope[head, 0], slope[head, 1], slope[head, 2], slope[head, 3]
                sums = total[arm, head]
                for k in range(d):
                    sums[k] += (s0 * x0[k] + s1 * x1[k]) + (s2 * x2[k] + s3 * x3[k])


def fused_gradients(task: SparseXOR, arms: Sequence[tuple[Tensor, str]], words: Tensor) -> Tensor:
    """:func:`summed_gradients`, fused; in single precision."""
    weights = torch.stack([weights for weights, _ in arms]).float().numpy()
    shared = (weights[:, 0] == weights[:, 1]).all(-1)
    total = np.zeros(weights.shape, np.float32)
    codes = np.array([CODES[readout] for _, readout in arms])
    _add_gradients(words.numpy(), weights, codes, shared, np.array(task.pair), total)
    total[shared, 1] = total[shared, 0]
    return torch.from_numpy(total)


gradients = choose(fused_gradients, summed_gradients)


def stream_gradients(
    task: SparseXOR, arms: Sequence[tuple[Tensor, str]], counts: Sequence[int], generator: torch.Generator
) -> Iterator[tuple[int, Tensor]]:
    r"""Empirical hinge gradients with respect to the weights, for prefixes of one stream that all arms see.

    An arm is its start weights (2, d), of total size at most 1 in each head, and the name of a read-out. For each of
    the ascending ``counts``: n, and the mean of :math:`\partial \ell / \partial a^h_k` over n samples, (arms, 2, d).
    """
    total, seen = torch.zeros(len(arms), 2, task.d, dtype=torch.float64), 0
    for count in counts:
        while seen < count:
            words = random_words(min(CHUNK, count - seen), task.d, generator)
            total += gradients(task, arms, words)
            seen += len(words)
        yield seen, total / seen

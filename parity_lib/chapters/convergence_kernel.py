"""Gradient descent on the exact risk, fused: one run after the other, all of its updates while it is in the cache."""

import math

import numpy as np

from ..kernels import compiled
from ..kernels.sums import trigonometric_sums


@compiled
def descent(start, bits, step, code, half, label_free, parity, updates, frames):  # type: ignore[no-untyped-def]
    """See :func:`parity_lib.chapters.convergence.descent`. A run that an update leaves as it is, to the last digit, has
    come to rest, and its other updates are not made."""
    (rows, heads, _), n = start.shape, len(code)
    places, at = np.empty((frames + 1, rows, heads, 2)), np.empty((heads, 2))
    attention, weights = np.empty((heads, n)), np.empty((1, n))
    for row in range(rows):
        at[:], places[0, row] = start[row], start[row]
        frame = 0
        for update in range(1, updates + 1):
            weights[:] = 0.0
            for h in range(heads):
                top, total = -math.inf, 0.0
                for j in range(n):
                    attention[h, j] = at[h, 0] * code[j, 0] + at[h, 1] * code[j, 1]
                    top = max(top, attention[h, j])
                for j in range(n):
                    attention[h, j] = math.exp(attention[h, j] - top)
                    total += attention[h, j]
                for j in range(n):
                    attention[h, j] /= total
                    weights[0, j] += attention[h, j]
            slope, moved = trigonometric_sums(weights, bits[row : row + 1], half, label_free, parity)[1][0], False
            for h in range(heads):
                mean, first, second = 0.0, 0.0, 0.0
                for j in range(n):
                    mean += attention[h, j] * slope[j]
                for j in range(n):
                    pull = attention[h, j] * (slope[j] - mean)
                    first += pull * code[j, 0]
                    second += pull * code[j, 1]
                before, beside = at[h, 0], at[h, 1]
                at[h, 0] -= step[row] * first
                at[h, 1] -= step[row] * second
                moved = moved or at[h, 0] != before or at[h, 1] != beside
            if update * frames // updates > frame:
                frame += 1
                places[frame, row] = at
            if not moved:
                break
        places[frame + 1 :, row] = at
    return (places,)

"""The two trigonometric sums of the exact risk, fused."""

import math

import numpy as np

from . import compiled

BLOCK = 32  # frequencies worked on at once
UNSEEN = 1e-8  # the cosine of a smaller angle is 1


@compiled
def trigonometric_sums(weights, bits, step, label_free, parity):
    """See :func:`parity_lib.series.trigonometric_sums`.

    The frequencies are evenly spaced, so a block of cosines turns into the next by one rotation, and all that is
    made of them stays in the processor's cache. Positions that no head looks at, so that all their cosines are 1 to
    the last digit, share one sum.
    """
    rows, n = weights.shape
    k, total = bits.shape[1], len(parity)
    values, gradients = np.zeros(rows), np.empty((rows, n))
    cosine, sine, before = np.empty((n, BLOCK)), np.empty((n, BLOCK)), np.empty((n, BLOCK))
    turn, place, by_place, before_cosine = np.empty((n, 2)), np.empty(n, np.int64), np.empty(n), np.empty((k, BLOCK))
    push, drift, both, sines, cosines, others = (np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK),
                                                 np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK))  # fmt: skip
    for row in range(rows):
        place[:k] = bits[row]  # the positions that count, those in B first
        used, unseen = k, 0.0
        for j in range(n):
            if weights[row, j] * step * total > UNSEEN and not np.any(bits[row] == j):
                place[used] = j
                used += 1
        for i in range(used):
            angle = step * weights[row, place[i]]
            cosine[i, 0], sine[i, 0], by_place[i] = math.cos(angle), math.sin(angle), 0.0
            known = 1
            while known < BLOCK:
                c, s = cosine[i, known - 1], sine[i, known - 1]
                for m in range(known):
                    cosine[i, known + m] = cosine[i, m] * c - sine[i, m] * s
                    sine[i, known + m] = sine[i, m] * c + cosine[i, m] * s
                known *= 2
            turn[i, 0], turn[i, 1] = cosine[i, BLOCK - 1], sine[i, BLOCK - 1]
        for start in range(0, total, BLOCK):
            if start:
                for i in range(used):
                    c, s = turn[i, 0], turn[i, 1]
                    for m in range(BLOCK):
                        turned = cosine[i, m] * c - sine[i, m] * s
                        sine[i, m] = sine[i, m] * c + cosine[i, m] * s
                        cosine[i, m] = turned
            sines[:], cosines[:], others[:], push[:], drift[:] = 1.0, 1.0, 1.0, 0.0, 0.0
            for m in range(min(BLOCK, total - start)):
                push[m], drift[m] = parity[start + m], label_free[start + m]
            for i in range(k):  # products over what comes before a position
                for m in range(BLOCK):
                    before[i, m], before_cosine[i, m] = sines[m], cosines[m]
                    sines[m] *= sine[i, m]
                    cosines[m] *= cosine[i, m]
            for i in range(k, used):
                for m in range(BLOCK):
                    before[i, m] = others[m]
                    others[m] *= cosine[i, m]
            for m in range(BLOCK):
                h = step * (start + m + 1)
                both[m] = push[m] * sines[m] + drift[m] * cosines[m]
                values[row] += both[m] * others[m]
                both[m] *= h
                push[m] *= h * others[m]
                drift[m] *= h * others[m]
                unseen += both[m] * others[m] * h
            for i in range(used - 1, k - 1, -1):  # and times what comes after
                slope = 0.0
                for m in range(BLOCK):
                    slope += before[i, m] * both[m] * sine[i, m]
                    both[m] *= cosine[i, m]
                by_place[i] -= slope
            for i in range(k - 1, -1, -1):
                slope = 0.0
                for m in range(BLOCK):
                    slope += push[m] * before[i, m] * cosine[i, m] - drift[m] * before_cosine[i, m] * sine[i, m]
                    push[m] *= sine[i, m]
                    drift[m] *= cosine[i, m]
                by_place[i] += slope
        for j in range(n):
            gradients[row, j] = -unseen * weights[row, j]
        for i in range(used):
            gradients[row, place[i]] = by_place[i]
    return values, gradients

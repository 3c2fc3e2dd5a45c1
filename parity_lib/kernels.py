"""Fused loops for the processor, where numba can be imported: the fast path of what torch states elsewhere.

Every kernel stands beside a torch function that says the same in tensors, and is tested against it. That function
is the reference, and the path for GPUs and for machines without numba; :func:`fused` is the only place that chooses.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .losses import LOSSES
from .readout import Zigzag

try:
    import numba
except ImportError:  # everything runs without it
    numba = None  # type: ignore[assignment]

BLOCK = 32  # frequencies worked on at once
UNSEEN = 1e-8  # the cosine of a smaller angle is 1
CHUNK = 512  # examples worked on at once
GROUP, CODES = 10, 1024  # bits of an input that are looked up together
WORD = 60  # bits of an input made from one random number
ROUNDS = 4  # of a permutation
GOLDEN, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
NAMED = ("linear", "hinge", "squared_hinge", "logistic", "sigmoid_hinge", "sigmoid_hinge_01", "tanh")


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code, compiled at its first call and kept on disk where that is possible."""
    if numba is None:
        return function
    options: dict[str, Any] = {"fastmath": {"reassoc", "contract"}, "error_model": "numpy", "nogil": True}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder to write to
        return numba.njit(**options)(function)


def fused(kernel: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let ``kernel`` do what a torch function says, for tensors on the processor; both take the same arguments.

    The kernel sees them as float64; what it returns has the type of the first. It may decline (``NotImplemented``).
    The function itself stays at hand as ``.reference``.
    """

    def choose(reference: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(reference)
        def call(*args: Any) -> Any:
            tensors = [arg for arg in args if isinstance(arg, Tensor)]
            if numba is None or any(tensor.device.type != "cpu" for tensor in tensors):
                return reference(*args)
            found = kernel(*(_array(arg) if isinstance(arg, Tensor) else arg for arg in args))
            if found is NotImplemented:
                return reference(*args)
            return tuple(torch.from_numpy(part).to(tensors[0].dtype) for part in found)

        call.reference = reference  # type: ignore[attr-defined]
        return call

    return choose


def _array(tensor: Tensor) -> np.ndarray:
    kept = tensor.detach().double() if tensor.is_floating_point() else tensor
    return kept.contiguous().numpy()


@compiled
def trigonometric_sums(weights, bits, step, label_free, parity):  # type: ignore[no-untyped-def]
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


def sum_mean(weights: Any, bits: Any, inputs: Any, span: Any, loss: Any, readout: Any) -> Any:
    """See :func:`parity_lib.minibatch.sum_mean`; for the named losses of the zigzag head."""
    if loss not in LOSSES.values() or not isinstance(readout, Zigzag):
        return NotImplemented
    return _sum_mean(weights, bits, _array(inputs.keys), *span, inputs.size, NAMED.index(loss.name), readout.smoothing)


def product_mean(attention: Any, bits: Any, inputs: Any, span: Any) -> Any:
    """See :func:`parity_lib.minibatch.product_mean`."""
    return _product_mean(attention, bits, _array(inputs.keys), *span, inputs.size)


@compiled
def _sum_mean(weights, bits, keys, epoch, start, stop, size, kind, smoothing):  # type: ignore[no-untyped-def]
    rows, n = weights.shape
    k = bits.shape[1]
    groups = -(-n // GROUP)
    values, gradients = np.zeros(rows), np.zeros((rows, n))
    sums, by_code = np.empty((groups, CODES)), np.empty((groups, CODES))
    signs = np.empty((groups, CODES), np.int8)
    codes, place = np.empty((groups, CHUNK), np.int32), np.empty(CHUNK, np.uint32)
    power = np.empty(CHUNK, np.int64)
    s, y, p, slope, value = np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK)
    for row in range(rows):
        _fill_signs(signs, bits[row])
        _fill_sums(sums, weights[row])
        by_code[:] = 0.0
        for first in range(start, stop, CHUNK):
            count = min(CHUNK, stop - first)
            _draw(codes, place, np.uint64(keys[row]), epoch, first, size, n)
            s[:] = 0.0
            y[:] = 1.0
            for g in range(groups):
                for i in range(CHUNK):
                    s[i] += sums[g, codes[g, i]]
                    y[i] *= signs[g, codes[g, i]]
            _zigzag(s, k, smoothing, p, slope)
            _lose(kind, y, p, slope, value, power)
            for i in range(count):
                values[row] += value[i]
            for g in range(groups):
                for i in range(count):
                    by_code[g, codes[g, i]] += slope[i]
        _by_position(by_code, gradients[row])
    return values / (stop - start), gradients / (stop - start)


@compiled
def _product_mean(attention, bits, keys, epoch, start, stop, size):  # type: ignore[no-untyped-def]
    rows, heads, n = attention.shape
    groups = -(-n // GROUP)
    values, gradients = np.zeros(rows), np.zeros((rows, heads, n))
    sums, by_code = np.empty((heads, groups, CODES)), np.empty((heads, groups, CODES))
    signs = np.empty((groups, CODES), np.int8)
    codes, place = np.empty((groups, CHUNK), np.int32), np.empty(CHUNK, np.uint32)
    before, side, after = np.empty(CHUNK), np.empty((heads, CHUNK)), np.empty((heads + 1, CHUNK))
    for row in range(rows):
        _fill_signs(signs, bits[row])
        for h in range(heads):
            _fill_sums(sums[h], attention[row, h])
        by_code[:] = 0.0
        for first in range(start, stop, CHUNK):
            count = min(CHUNK, stop - first)
            _draw(codes, place, np.uint64(keys[row]), epoch, first, size, n)
            before[:], side[:], after[heads] = 1.0, 1.0, 1.0
            for g in range(groups):
                for i in range(CHUNK):
                    before[i] *= signs[g, codes[g, i]]  # the label times the sides of the heads before
                for h in range(heads):
                    for i in range(CHUNK):
                        side[h, i] -= 2 * sums[h, g, codes[g, i]]
            for h in range(heads - 1, -1, -1):
                for i in range(CHUNK):
                    after[h, i] = after[h + 1, i] * side[h, i]
            for i in range(count):
                values[row] += 1 - before[i] * after[0, i]
            for h in range(heads):
                for i in range(CHUNK):
                    after[h, i] = 2 * before[i] * after[h + 1, i]
                    before[i] *= side[h, i]
                for g in range(groups):
                    for i in range(count):
                        by_code[h, g, codes[g, i]] += after[h, i]
        for h in range(heads):
            _by_position(by_code[h], gradients[row, h])
    return values / (stop - start), gradients / (stop - start)


@compiled
def _fill_sums(sums, weights):  # type: ignore[no-untyped-def]
    """What each code of each group adds to the sum."""
    for g in range(len(sums)):
        sums[g, 0] = 0.0
        for b in range(GROUP):
            weight = weights[g * GROUP + b] if g * GROUP + b < len(weights) else 0.0
            for c in range(1 << b):
                sums[g, c + (1 << b)] = sums[g, c] + weight


@compiled
def _fill_signs(signs, bits):  # type: ignore[no-untyped-def]
    """By what each code of each group multiplies the label."""
    signs[:] = 1
    for bit in bits:
        g, b = bit // GROUP, bit % GROUP
        for c in range(CODES):
            if c >> b & 1:
                signs[g, c] = -signs[g, c]


@compiled
def _by_position(by_code, gradient):  # type: ignore[no-untyped-def]
    """Sums over the codes that have a bit, for every bit; overwrites ``by_code``."""
    for g in range(len(by_code)):
        for b in range(GROUP - 1, -1, -1):
            half, total = 1 << b, 0.0
            for c in range(half):
                total += by_code[g, c + half]
                by_code[g, c] += by_code[g, c + half]
            if g * GROUP + b < len(gradient):
                gradient[g * GROUP + b] = total


@compiled
def _draw(codes, place, key, epoch, first, size, n):  # type: ignore[no-untyped-def]
    """The inputs ``first``, ``first`` + 1, ... of a row, as codes; see :class:`parity_lib.minibatch.Inputs`."""
    if size:
        bits = 0
        while (size - 1) >> bits:
            bits += 1
        for i in range(CHUNK):
            place[i] = min(first + i, size - 1)
        factors, offsets = _permutation(key, epoch + 1, bits)
        for i in range(CHUNK):
            place[i] = _permuted(place[i], factors, offsets, bits)
        for i in range(CHUNK):
            while place[i] >= size:
                place[i] = _permuted(place[i], factors, offsets, bits)
        factors, offsets = _permutation(key, 0, n)
        for i in range(CHUNK):
            place[i] = _permuted(place[i], factors, offsets, n)
        for g in range(len(codes)):
            for i in range(CHUNK):
                codes[g, i] = place[i] >> np.uint32(GROUP * g) & np.uint32(CODES - 1)
        return
    each = -(-n // WORD)
    for g in range(len(codes)):
        word, shift = g * GROUP // WORD + 1, np.uint64(g * GROUP % WORD)
        for i in range(CHUNK):
            mixed = _mixed(key + GOLDEN * np.uint64((first + i) * each + word))
            codes[g, i] = mixed >> shift & np.uint64(CODES - 1)


@compiled
def _mixed(z):  # type: ignore[no-untyped-def]
    """Steele, Lea and Flood's SplitMix64 finaliser (2014)."""
    z = (z ^ z >> np.uint64(30)) * FIRST
    z = (z ^ z >> np.uint64(27)) * SECOND
    return z ^ z >> np.uint64(31)


@compiled
def _permutation(key, which, bits):  # type: ignore[no-untyped-def]
    factors, offsets = np.empty(ROUNDS, np.uint32), np.empty(ROUNDS, np.uint32)
    mask = np.uint64((1 << bits) - 1)
    for step in range(ROUNDS):
        place = np.uint64(2 * (which * ROUNDS + step) + 1)
        factors[step] = _mixed(key + GOLDEN * place) & mask | np.uint64(1)
        offsets[step] = _mixed(key + GOLDEN * (place + np.uint64(1))) & mask
    return factors, offsets


@compiled
def _permuted(place, factors, offsets, bits):  # type: ignore[no-untyped-def]
    mask, shift = np.uint32((1 << bits) - 1), np.uint32((bits + 1) // 2)
    for step in range(ROUNDS):
        place = np.uint32(place * factors[step] + offsets[step]) & mask
        place = place ^ place >> shift
    return place


@compiled
def _zigzag(s, k, smoothing, p, slope):  # type: ignore[no-untyped-def]
    """The paper's head and its derivative, see :func:`parity_lib.readout.zigzag`."""
    p[:], slope[:] = 1.0, 0.0
    for q in range(1, k + 1):
        weight = (8.0 * q - 4) * (1 - 2 * (q % 2))
        for i in range(len(s)):
            z = s[i] + (0.5 - q)
            if smoothing == 0:
                p[i] += weight * max(z, 0.0)
                slope[i] += weight if z > 0 else 0.0
            else:
                root = math.sqrt(z * z + smoothing)
                p[i] += weight * 0.5 * (z + root)
                slope[i] += weight * 0.5 * (z + root) / root


@compiled
def _lose(kind, y, p, slope, value, power):  # type: ignore[no-untyped-def]
    """The loss called ``NAMED[kind]``; multiplies ``slope`` by its derivative, see :data:`parity_lib.losses.LOSSES`."""
    if kind < 3:  # linear, hinge, squared hinge
        for i in range(len(y)):
            left = 1 - y[i] * p[i]
            if kind > 0:
                slope[i] *= left > 0
                left = max(left, 0.0)
            value[i] = left * left if kind == 2 else left
            slope[i] *= -2 * y[i] * left if kind == 2 else -y[i]
    elif kind == 3:  # logistic
        for i in range(len(y)):
            falling = math.exp(-abs(p[i]))
            value[i] = math.log1p(falling) + max(-y[i] * p[i], 0.0)
            slope[i] *= -y[i] * (falling if y[i] * p[i] > 0 else 1.0) / (1 + falling)
    else:  # 1 + y (c sigmoid(a p + b) + d)
        a, b, c, d = ((1.0, 0.0, -1.0, 0.0), (-0.5, 0.5, 1.0, 0.0), (2.0, 0.0, -2.0, 1.0))[kind - 4]
        for i in range(len(y)):
            p[i] = min(max(-a * p[i] - b, -700.0), 700.0)
        _exponential(p, power)
        for i in range(len(y)):
            sigmoid = 1 / (1 + p[i])
            value[i] = 1 + y[i] * (c * sigmoid + d)
            slope[i] *= y[i] * c * a * (p[i] * sigmoid * sigmoid)


@compiled
def _exponential(x, power):  # type: ignore[no-untyped-def]
    """In place, to rounding for sizes up to 700, in a loop that the processor can do several entries of at once."""
    for i in range(len(x)):
        n = math.floor(x[i] * 1.4426950408889634 + 0.5)
        r = (x[i] - n * 0.6931471803691238) - n * 1.9082149292705877e-10
        power[i] = (np.int64(n) + 1023) << 52
        total = 1.0
        for j in range(13, 0, -1):
            total = 1 + total * r * (1 / j)
        x[i] = total
    twos = power.view(np.float64)
    for i in range(len(x)):
        x[i] *= twos[i]

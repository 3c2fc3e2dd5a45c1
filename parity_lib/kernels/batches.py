"""The mean loss on a minibatch whose inputs are drawn by counting, fused; see :mod:`parity_lib.kernels.minibatch`."""

import math

import numpy as np

from . import compiled

CHUNK = 512  # examples worked on at once
GROUP, CODES = 10, 1024  # bits of an input that are looked up together
WORD = 60  # bits of an input made from one random number
ROUNDS = 4  # of a permutation
GOLDEN, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SERIES = tuple(1 / math.factorial(j) for j in range(14))  # of the exponential
NAMED = ("linear", "hinge", "squared_hinge", "logistic", "sigmoid_hinge", "sigmoid_hinge_01", "tanh")


@compiled
def sum_mean(weights, bits, keys, epoch, start, stop, size, kind, smoothing):
    rows, n = weights.shape
    k = bits.shape[1]
    groups = -(-n // GROUP)
    values, gradients = np.zeros(rows), np.zeros((rows, n))
    sums, by_code = np.empty((groups, CODES)), np.empty((groups, CODES))
    codes, place, odd = np.empty((groups, CHUNK), np.uint32), np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    power = np.empty(CHUNK, np.int64)
    s, y, p, slope, value = np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK)
    for row in range(rows):
        _fill_sums(sums, weights[row])
        by_code[:] = 0.0
        for first in range(start, stop, CHUNK):
            count = min(CHUNK, stop - first)
            _draw(codes, place, np.uint64(keys[row]), epoch, first, size, n)
            _label(codes, bits[row], odd, y)
            s[:] = 0.0
            for g in range(groups):
                for i in range(CHUNK):
                    s[i] += sums[g, codes[g, i]]
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
def product_mean(attention, bits, keys, epoch, start, stop, size):
    rows, heads, n = attention.shape
    groups = -(-n // GROUP)
    values, gradients = np.zeros(rows), np.zeros((rows, heads, n))
    sums, by_code = np.empty((heads, groups, CODES)), np.empty((heads, groups, CODES))
    codes, place, odd = np.empty((groups, CHUNK), np.uint32), np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    before, side, after = np.empty(CHUNK), np.empty((heads, CHUNK)), np.empty((heads + 1, CHUNK))
    for row in range(rows):
        for h in range(heads):
            _fill_sums(sums[h], attention[row, h])
        by_code[:] = 0.0
        for first in range(start, stop, CHUNK):
            count = min(CHUNK, stop - first)
            _draw(codes, place, np.uint64(keys[row]), epoch, first, size, n)
            _label(codes, bits[row], odd, before)  # the label times the sides of the heads before
            side[:], after[heads] = 1.0, 1.0
            for g in range(groups):
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
def _fill_sums(sums, weights):
    """What each code of each group adds to the sum."""
    for g in range(len(sums)):
        sums[g, 0] = 0.0
        for b in range(GROUP):
            weight = weights[g * GROUP + b] if g * GROUP + b < len(weights) else 0.0
            for c in range(1 << b):
                sums[g, c + (1 << b)] = sums[g, c] + weight


@compiled
def _label(codes, bits, odd, y):
    """The labels of inputs given as codes: -1 to the number of ones among ``bits``."""
    odd[:] = 0
    for g in range(len(codes)):
        mask = np.uint32(0)
        for bit in bits:
            if bit // GROUP == g:
                mask |= np.uint32(1) << np.uint32(bit % GROUP)
        for i in range(CHUNK):
            odd[i] ^= codes[g, i] & mask
    for i in range(CHUNK):
        folded = odd[i] ^ odd[i] >> np.uint32(8)
        folded ^= folded >> np.uint32(4)
        folded ^= folded >> np.uint32(2)
        y[i] = 1.0 - 2.0 * ((folded ^ folded >> np.uint32(1)) & np.uint32(1))


@compiled
def _by_position(by_code, gradient):
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
def _draw(codes, place, key, epoch, first, size, n):
    """The inputs ``first``, ``first`` + 1, ... of a row, as codes; see :class:`parity_lib.kernels.minibatch.Inputs`."""
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
    each, mixed = -(-n // WORD), np.empty(CHUNK, np.uint64)
    for word in range(each):
        for i in range(CHUNK):
            mixed[i] = _mixed(key + GOLDEN * np.uint64((first + i) * each + word + 1))
        for g in range(word * WORD // GROUP, min((word + 1) * WORD // GROUP, len(codes))):
            shift = np.uint64(g * GROUP - word * WORD)
            for i in range(CHUNK):
                codes[g, i] = mixed[i] >> shift & np.uint64(CODES - 1)


@compiled
def _mixed(z):
    """Steele, Lea and Flood's SplitMix64 finaliser (2014)."""
    z = (z ^ z >> np.uint64(30)) * FIRST
    z = (z ^ z >> np.uint64(27)) * SECOND
    return z ^ z >> np.uint64(31)


@compiled
def _permutation(key, which, bits):
    factors, offsets = np.empty(ROUNDS, np.uint32), np.empty(ROUNDS, np.uint32)
    mask = np.uint64((1 << bits) - 1)
    for step in range(ROUNDS):
        place = np.uint64(2 * (which * ROUNDS + step) + 1)
        factors[step] = _mixed(key + GOLDEN * place) & mask | np.uint64(1)
        offsets[step] = _mixed(key + GOLDEN * (place + np.uint64(1))) & mask
    return factors, offsets


@compiled
def _permuted(place, factors, offsets, bits):
    mask, shift = np.uint32((1 << bits) - 1), np.uint32((bits + 1) // 2)
    for step in range(ROUNDS):
        place = np.uint32(place * factors[step] + offsets[step]) & mask
        place = place ^ place >> shift
    return place


@compiled
def _zigzag(s, k, smoothing, p, slope):
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
def _lose(kind, y, p, slope, value, power):
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
def _exponential(x, power):
    """In place, to rounding for sizes up to 700, in a loop that the processor can do several entries of at once."""
    for i in range(len(x)):
        n = math.floor(x[i] * 1.4426950408889634 + 0.5)
        r = (x[i] - n * 0.6931471803691238) - n * 1.9082149292705877e-10
        power[i] = (np.int64(n) + 1023) << 52
        total = SERIES[13]
        for j in range(12, -1, -1):
            total = total * r + SERIES[j]
        x[i] = total
    twos = power.view(np.float64)
    for i in range(len(x)):
        x[i] *= twos[i]

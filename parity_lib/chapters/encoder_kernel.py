"""One fused pass through one encoder in numba, and back: the fast path of :mod:`parity_lib.chapters.encoder` on a CPU.

Values, gradients and AdamW's update of the model stay in the processor's cache, which a stack of models leaves after
the first operation. Sums may run in any order. The reference is :mod:`parity_lib.chapters.encoder_reference`; a test
holds the two against each other. Loops stand where numpy would have one line, since numba compiles them sooner.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections import namedtuple
from functools import cache

import numpy as np

from ..kernels import compiled
from .encoder_reference import HEADS, shapes

EPSILON = 1e-5

Layer = namedtuple("Layer", "in_weight in_bias out_weight out_bias gain1 bias1 "
                            "up_weight up_bias down_weight down_bias gain2 bias2")  # fmt: skip
"""The parameters of a layer, or their slopes, as views of a row."""
Heads1 = namedtuple("Heads1", "tokens q k values attention read u")
Heads2 = namedtuple("Heads2", "skip q folded attention seen read u")
"""What the heads of layer 1 and of layer 2 leave: what they read, u for the first norm, and for the way back."""
Rest = namedtuple("Rest", "normal1 scale1 middle active v normal2 scale2")
"""What the rest of a layer leaves; v enters the second norm."""


# What both layers share


@compiled
def _normalise(u):
    """Layer norm without gain and bias: u (rows, d) to the same, and the factor of every row."""
    rows, d = u.shape
    normal, scale = np.empty_like(u), np.empty(rows, u.dtype)
    for r in range(rows):
        total = u.dtype.type(0)
        for c in range(d):
            total += u[r, c]
        mean = total / d
        total = u.dtype.type(0)
        for c in range(d):
            total += (u[r, c] - mean) ** 2
        factor = 1 / np.sqrt(total / d + u.dtype.type(EPSILON))
        scale[r] = factor
        for c in range(d):
            normal[r, c] = (u[r, c] - mean) * factor
    return normal, scale


@compiled
def _normalise_back(slope, gain, normal, scale, gain_slope, bias_slope):
    """From the slope after gain and bias to the slope before the norm, in place; those of gain and bias are added."""
    rows, d = slope.shape
    for r in range(rows):
        first, second = slope.dtype.type(0), slope.dtype.type(0)
        for c in range(d):
            value = slope[r, c]
            bias_slope[c] += value
            gain_slope[c] += value * normal[r, c]
            value *= gain[c]
            slope[r, c] = value
            first += value
            second += value * normal[r, c]
        first /= d
        second /= d
        for c in range(d):
            slope[r, c] = scale[r] * (slope[r, c] - first - normal[r, c] * second)


@compiled
def _affine(normal, gain, bias):
    return normal * gain + bias


@compiled
def _dense(x, weight, bias):
    """x weight^T + bias: (rows, d) to (rows, outputs)."""
    out = np.dot(x, weight.T)
    rows, d = out.shape
    for r in range(rows):
        for c in range(d):
            out[r, c] += bias[c]
    return out


@compiled
def _dense_back(slope, x, weight_slope, bias_slope):
    """Adds the slopes of weight and bias."""
    _add(np.dot(slope.T, x), weight_slope)
    rows, d = slope.shape
    for r in range(rows):
        for c in range(d):
            bias_slope[c] += slope[r, c]


@compiled
def _add(more, to):
    """One matrix added to another, in place."""
    rows, columns = to.shape
    for r in range(rows):
        for c in range(columns):
            to[r, c] += more[r, c]


@compiled
def _part(whole, h):
    """The columns of a head, (rows, size), of a matrix (rows, d)."""
    size = whole.shape[1] // HEADS
    return whole[:, h * size : (h + 1) * size].copy()


@compiled
def _put(part, h, whole):
    """A head's columns back into the matrix."""
    rows, size = part.shape
    for r in range(rows):
        for c in range(size):
            whole[r, h * size + c] = part[r, c]


@compiled
def _rows(whole, which, h):
    """A head's rows of the weight or bias of queries (0), keys (1) or values (2)."""
    size = len(whole) // (3 * HEADS)
    at = (which * HEADS + h) * size
    return whole[at : at + size]


@compiled
def _rest(u, layer):
    """A layer after its heads: first norm, feed-forward part, second norm without gain and bias."""
    normal1, scale1 = _normalise(u)
    middle = _affine(normal1, layer.gain1, layer.bias1)
    active = _dense(middle, layer.up_weight, layer.up_bias)
    rows, d = u.shape
    for r in range(rows):
        for c in range(d):
            active[r, c] = max(active[r, c], u.dtype.type(0))
    v = _dense(active, layer.down_weight, layer.down_bias)
    _add(middle, v)
    normal2, scale2 = _normalise(v)
    return Rest(normal1, scale1, middle, active, v, normal2, scale2)


@compiled
def _rest_back(slope, read, rest, layer, slopes):
    """From the slope of v to that of the skip connection, in place, and of what was read; parameters' are added."""
    _dense_back(slope, rest.active, slopes.down_weight, slopes.down_bias)
    inner = np.dot(slope, layer.down_weight)
    rows, d = inner.shape
    for r in range(rows):
        for c in range(d):
            if rest.active[r, c] <= 0:
                inner[r, c] = 0
    _dense_back(inner, rest.middle, slopes.up_weight, slopes.up_bias)
    _add(np.dot(inner, layer.up_weight), slope)
    _normalise_back(slope, layer.gain1, rest.normal1, rest.scale1, slopes.gain1, slopes.bias1)
    _dense_back(slope, read, slopes.out_weight, slopes.out_bias)
    return np.dot(slope, layer.out_weight)


# Layer 1


@compiled
def _first_heads(position, token, layer, codes):
    """What the heads of layer 1 read: every query, key and value is that of one of the 2n tokens."""
    n, half = position.shape
    d = 2 * half
    tokens = np.empty((2 * n, d), position.dtype)
    for r in range(2 * n):
        for c in range(half):
            tokens[r, c] = token[r % 2, c]
            tokens[r, half + c] = position[r // 2, c]
    q = _dense(tokens, layer.in_weight[:d], layer.in_bias[:d])
    k = np.dot(tokens, layer.in_weight[d : 2 * d].T)  # the softmax does not see a bias of the keys
    values = _dense(tokens, layer.in_weight[2 * d :], layer.in_bias[2 * d :])
    attention, read = _first_attention(values, _scores(q, k, codes), codes)
    u = _dense(read, layer.out_weight, layer.out_bias)
    for b in range(len(codes)):
        for i in range(n):
            for c in range(d):
                u[b * n + i, c] += tokens[codes[b, i], c]
    return Heads1(tokens, q, k, values, attention, read, u)


@compiled
def _scores(q, k, codes):
    """exp of the scaled scores of all 2n queries and keys that occur, shifted as in torch: (heads, 2n, 2n)."""
    many = len(q)
    factor = q.dtype.type(1 / np.sqrt(q.shape[1] // HEADS))
    weights = np.empty((HEADS, many, many), q.dtype)
    occurs = np.zeros(many, np.bool_)
    for code in codes.flat:
        occurs[code] = True
    for h in range(HEADS):
        scores = np.dot(_part(q, h), _part(k, h).T)
        for a in range(many):
            if not occurs[a]:
                continue
            shift = -np.inf
            for j in range(0, many, 2):
                shift = max(shift, min(scores[a, j], scores[a, j + 1]) * factor)
            for b in range(many):
                if occurs[b]:
                    weights[h, a, b] = np.exp(scores[a, b] * factor - q.dtype.type(shift))
    return weights


@compiled
def _first_attention(values, weights, codes):
    """The attention of layer 1, (heads, batch n, n + 1), and what its heads read, (batch n, d).

    A value is linear in token and position, so values (2n, d) are n of bit 0 and one difference of the bits: the
    last column of the attention is that on ones. Weights are (heads, 2n, 2n), codes (batch, n) hold 2 i + bit.
    """
    batch, n = codes.shape
    attended = np.empty((batch * n, values.shape[1]), values.dtype)
    attention = np.empty((HEADS, batch * n, n + 1), values.dtype)
    for h in range(HEADS):
        for b in range(batch):
            for i in range(n):
                weight, out = weights[h, codes[b, i]], attention[h, b * n + i]
                total, ones = values.dtype.type(0), values.dtype.type(0)
                for j in range(n):
                    value = weight[codes[b, j]]
                    out[j] = value
                    total += value
                    ones += value * (codes[b, j] & 1)
                out[n] = ones
                total = 1 / total
                for j in range(n + 1):
                    out[j] *= total
        _put(np.dot(attention[h], _few_values(values, h)), h, attended)
    return attention, attended


@compiled
def _few_values(values, h):
    """Values of bit 0 at every position, and the difference that bit 1 makes: (n + 1, size)."""
    n, mine = len(values) // 2, _part(values, h)
    few = np.empty((n + 1, mine.shape[1]), values.dtype)
    for c in range(mine.shape[1]):
        for j in range(n):
            few[j, c] = mine[2 * j, c]
        few[n, c] = mine[1, c] - mine[0, c]
    return few


@compiled
def _first_heads_back(skip_slope, read_slope, heads, codes, layer, slopes, position_slope, token_slope):
    """From the slopes of the heads' input and of what they read (batch n, d): adds those of the parameters."""
    n, half = position_slope.shape
    d, factor = 2 * half, skip_slope.dtype.type(1 / np.sqrt(2 * half // HEADS))
    tokens_slope = np.zeros_like(heads.tokens)
    for b in range(len(codes)):
        for i in range(n):
            for c in range(d):
                tokens_slope[codes[b, i], c] += skip_slope[b * n + i, c]
    values_slope, scores_slope = _first_attention_back(read_slope, heads.attention, heads.values, codes)
    _dense_back(values_slope, heads.tokens, slopes.in_weight[2 * d :], slopes.in_bias[2 * d :])
    _add(np.dot(values_slope, layer.in_weight[2 * d :]), tokens_slope)
    q_slope, k_slope = np.empty_like(heads.q), np.empty_like(heads.k)
    for h in range(HEADS):
        _put(np.dot(scores_slope[h], _part(heads.k, h)), h, q_slope)
        _put(np.dot(scores_slope[h].T, _part(heads.q, h)), h, k_slope)
    for r in range(len(q_slope)):
        for c in range(d):
            q_slope[r, c] *= factor
            k_slope[r, c] *= factor
    _dense_back(q_slope, heads.tokens, slopes.in_weight[:d], slopes.in_bias[:d])
    _add(np.dot(k_slope.T, heads.tokens), slopes.in_weight[d : 2 * d])
    _add(np.dot(q_slope, layer.in_weight[:d]), tokens_slope)
    _add(np.dot(k_slope, layer.in_weight[d : 2 * d]), tokens_slope)
    for r in range(2 * n):
        for c in range(half):
            token_slope[r % 2, c] += tokens_slope[r, c]
            position_slope[r // 2, c] += tokens_slope[r, half + c]


@compiled
def _first_attention_back(slope, attention, values, codes):
    """From the slope of what was read (batch n, d) to those of values and scores."""
    batch, n = codes.shape
    size = values.shape[1] // HEADS
    values_slope, scores_slope = np.zeros_like(values), np.zeros((HEADS, 2 * n, 2 * n), values.dtype)
    for h in range(HEADS):
        mine = _part(slope, h)
        few = _few_values(values, h)
        few_slope = np.dot(attention[h].T, mine)
        for c in range(size):
            for j in range(n):
                values_slope[2 * j, h * size + c] += few_slope[j, c]
            values_slope[1, h * size + c] += few_slope[n, c]
            values_slope[0, h * size + c] -= few_slope[n, c]
        inner = np.dot(mine, few.T)
        for b in range(batch):
            for i in range(n):
                row = b * n + i
                weight, change, out = attention[h, row], inner[row], scores_slope[h, codes[b, i]]
                middle = values.dtype.type(0)
                for j in range(n + 1):
                    middle += weight[j] * change[j]
                for j in range(n):
                    out[codes[b, j]] += weight[j] * (change[j] + (codes[b, j] & 1) * change[n] - middle)
    return values_slope, scores_slope


# Layer 2, whose heads are asked at the last position alone


@compiled
def _second_heads(normal, one, two, n):
    """What the heads of layer 2 read: keys and values are folded into the query and into what was read."""
    d = normal.shape[1]
    batch, dtype = len(normal) // n, normal.dtype.type
    skip = _affine(normal[n - 1 :: n].copy(), one.gain2, one.bias2)
    q = _dense(skip, two.in_weight[:d], two.in_bias[:d])
    attention = np.empty((batch, HEADS, n), normal.dtype)
    folded = np.empty((HEADS, batch, d), normal.dtype)
    seen = np.zeros((HEADS, batch, d), normal.dtype)
    read = np.empty((batch, d), normal.dtype)
    factor = dtype(1 / np.sqrt(d // HEADS))
    for h in range(HEADS):
        plain = np.dot(_part(q, h), _rows(two.in_weight, 1, h))
        for b in range(batch):
            for c in range(d):
                folded[h, b, c] = plain[b, c] * one.gain2[c] * factor
            top = dtype(-np.inf)
            for j in range(n):
                score = dtype(0)
                for c in range(d):
                    score += folded[h, b, c] * normal[b * n + j, c]
                attention[b, h, j] = score
                top = max(top, score)
            total = dtype(0)
            for j in range(n):
                weight = np.exp(attention[b, h, j] - top)
                attention[b, h, j] = weight
                total += weight
            for j in range(n):
                weight = attention[b, h, j] / total
                attention[b, h, j] = weight
                for c in range(d):
                    seen[h, b, c] += weight * normal[b * n + j, c]
        full = _affine(seen[h], one.gain2, one.bias2)
        _put(_dense(full, _rows(two.in_weight, 2, h), _rows(two.in_bias, 2, h)), h, read)
    u = _dense(read, two.out_weight, two.out_bias)
    _add(skip, u)
    return Heads2(skip, q, folded, attention, seen, read, u)


@compiled
def _second_heads_back(skip_slope, read_slope, heads, normal, one, two, one_slopes, two_slopes):
    """From the slopes of the heads' input and of what they read (batch, d) to that of ``normal`` (batch n, d)."""
    batch, d = read_slope.shape
    n, dtype = len(normal) // batch, normal.dtype.type
    factor = dtype(1 / np.sqrt(d // HEADS))
    normal_slope, q_slope = np.zeros_like(normal), np.empty_like(heads.q)
    for h in range(HEADS):
        part = _part(read_slope, h)
        full = _affine(heads.seen[h], one.gain2, one.bias2)
        _dense_back(part, full, _rows(two_slopes.in_weight, 2, h), _rows(two_slopes.in_bias, 2, h))
        seen_slope = np.dot(part, _rows(two.in_weight, 2, h))
        folded_slope = np.zeros((batch, d), normal.dtype)
        for b in range(batch):
            for c in range(d):
                one_slopes.bias2[c] += seen_slope[b, c]
                one_slopes.gain2[c] += seen_slope[b, c] * heads.seen[h, b, c]
                seen_slope[b, c] *= one.gain2[c]
            middle = dtype(0)
            for c in range(d):
                middle += seen_slope[b, c] * heads.seen[h, b, c]
            for j in range(n):
                r = b * n + j
                inner = dtype(0)
                for c in range(d):
                    inner += seen_slope[b, c] * normal[r, c]
                weight = heads.attention[b, h, j]
                score = weight * (inner - middle)
                for c in range(d):
                    normal_slope[r, c] += weight * seen_slope[b, c] + score * heads.folded[h, b, c]
                    folded_slope[b, c] += score * normal[r, c]
        plain, key_weight = _part(heads.q, h), _rows(two.in_weight, 1, h)
        before = np.dot(plain, key_weight)  # folded without gain and factor
        for b in range(batch):
            for c in range(d):
                one_slopes.gain2[c] += folded_slope[b, c] * before[b, c] * factor
                folded_slope[b, c] *= one.gain2[c] * factor
        _add(np.dot(plain.T, folded_slope), _rows(two_slopes.in_weight, 1, h))
        _put(np.dot(folded_slope, key_weight.T), h, q_slope)
    _dense_back(q_slope, heads.skip, two_slopes.in_weight[:d], two_slopes.in_bias[:d])
    _add(np.dot(q_slope, two.in_weight[:d]), skip_slope)
    for b in range(batch):
        r = b * n + n - 1
        for c in range(d):
            one_slopes.bias2[c] += skip_slope[b, c]
            one_slopes.gain2[c] += skip_slope[b, c] * normal[r, c]
            normal_slope[r, c] += skip_slope[b, c] * one.gain2[c]
    return normal_slope


# The whole model


@cache
def _places(n, d):
    """Where each parameter of a row begins, and where the last one ends."""
    return np.cumsum([0, *map(math.prod, shapes(n, d).values())])


@compiled
def _parameters(row, places, d):
    """A row, or its slopes, as views: position and token embedding, two layers, weight and bias of the read-out."""
    parts = [row[places[i] : places[i + 1]] for i in range(len(places) - 1)]
    one, two = _layer(parts, 2, d), _layer(parts, 14, d)
    return parts[0].reshape(-1, d // 2), parts[1].reshape(2, d // 2), one, two, parts[26], parts[27]


@compiled
def _layer(parts, i, d):
    return Layer(parts[i].reshape(3 * d, d), parts[i + 1], parts[i + 2].reshape(d, d), parts[i + 3],
                 parts[i + 4], parts[i + 5], parts[i + 6].reshape(d, d), parts[i + 7],
                 parts[i + 8].reshape(d, d), parts[i + 9], parts[i + 10], parts[i + 11])  # fmt: skip


@compiled
def _pass(row, places, d, codes, y, slopes):
    """One pass through one model: its outputs (batch,), what enters its four norms (rows, d), and its loss.

    Where ``slopes`` (numbers,) has room, the loss is the mean squared error against y, and its slopes are written. It
    is one function, since each that Python calls takes seconds to compile.
    """
    batch, n = codes.shape
    dtype, output = row.dtype.type, np.empty(batch, row.dtype)
    position, token, one, two, read_weight, read_bias = _parameters(row, places, d)
    heads1 = _first_heads(position, token, one, codes)
    rest1 = _rest(heads1.u, one)
    heads2 = _second_heads(rest1.normal2, one, two, n)
    rest2 = _rest(heads2.u, two)
    final = _affine(rest2.normal2, two.gain2, two.bias2)
    for b in range(batch):
        total = read_bias[0]
        for c in range(d):
            total += read_weight[c] * final[b, c]
        output[b] = total
    entering = heads1.u, rest1.v, heads2.u, rest2.v
    if not len(slopes):
        return output, entering, dtype(0)
    # and back
    slopes[:] = 0
    position_slope, token_slope, one_slopes, two_slopes, weight_slope, bias_slope = _parameters(slopes, places, d)
    loss, slope = dtype(0), np.empty_like(final)
    for b in range(batch):
        error = output[b] - y[b]
        loss += error * error
        error *= dtype(2) / batch
        bias_slope[0] += error
        for c in range(d):
            weight_slope[c] += error * final[b, c]
            slope[b, c] = error * read_weight[c]
    _normalise_back(slope, two.gain2, rest2.normal2, rest2.scale2, two_slopes.gain2, two_slopes.bias2)
    read_slope = _rest_back(slope, heads2.read, rest2, two, two_slopes)
    slope = _second_heads_back(slope, read_slope, heads2, rest1.normal2, one, two, one_slopes, two_slopes)
    nothing = np.zeros(d, row.dtype)  # gain and bias have their slopes already
    _normalise_back(slope, np.ones(d, row.dtype), rest1.normal2, rest1.scale2, nothing, nothing.copy())
    read_slope = _rest_back(slope, heads1.read, rest1, one, one_slopes)
    _first_heads_back(slope, read_slope, heads1, codes, one, one_slopes, position_slope, token_slope)
    return output, entering, loss / batch


def predict(row, codes, n, d):
    """Outputs of one model, (inputs,); codes (inputs, n) hold 2 i + bit."""
    return _pass(row, _places(n, d), d, codes, row[:0], row[:0])[0]


def look(row, codes, n, d):
    """Outputs of one model, (inputs,), and the largest 1/std over positions that enters each norm, (4, inputs)."""
    output, entering, _ = _pass(row, _places(n, d), d, codes, row[:0], row[:0])
    least = [u.astype(np.float64).var(1, ddof=1).reshape(len(codes), -1).min(1) for u in entering]
    return output, (1 / np.sqrt(least)).astype(row.dtype)


def gradient(row, codes, y, n, d, slopes):
    """Mean squared error of one model and its slopes (numbers,), written into ``slopes``."""
    return _pass(row, _places(n, d), d, codes, y, slopes)[2]


@compiled
def _adam(row, mean, square, slopes, rate, long, shrink):
    """One update of AdamW in place, with the corrections for the first updates in ``rate`` and ``long``."""
    dtype = row.dtype.type
    for i in range(len(row)):
        mean[i] = dtype(0.9) * mean[i] + dtype(0.1) * slopes[i]
        square[i] = dtype(0.999) * square[i] + dtype(0.001) * slopes[i] * slopes[i]
        row[i] = shrink * row[i] - rate * mean[i] / (np.sqrt(square[i] * long) + dtype(1e-8))


def train_steps(row, mean, square, done, codes, y, rates, decay, noise, n, d, losses):
    """AdamW on one model, in place, with the arguments of the reference."""
    slopes, dtype = np.empty_like(row), row.dtype.type
    for step, rate in enumerate(rates):
        losses[step] = gradient(row + noise[step] if len(noise) else row, codes[step], y[step], n, d, slopes)
        made = done + step + 1
        short, long = dtype(rate / (1 - 0.9**made)), dtype(1 / (1 - 0.999**made))
        _adam(row, mean, square, slopes, short, long, dtype(1 - rate * decay))

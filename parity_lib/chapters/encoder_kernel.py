"""One fused training step of one encoder in numba: the fast path of :mod:`parity_lib.chapters.encoder` on a CPU.

Values, gradients and AdamW's update of the model stay in the processor's cache, which a stack of models leaves after
the first operation. Sums may run in any order. The torch path is the reference; a test holds the two against each
other.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from ..kernels import compiled

HEADS = 2
EPSILON = 1e-5


@compiled
def _normalise(u, normal, scale):
    """Layer norm without gain and bias: u (rows, d) to ``normal`` (rows, d), and the factor of every row."""
    rows, d = u.shape
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
def _first_attention(values, weights, codes):
    """What the heads of layer 1 read, (batch n, d), and their attention, (heads, batch n, n + 1).

    A value is linear in token and position, so values (2n, d) are n of bit 0 and one difference of the bits: the
    last column of the attention is that on ones. Weights are (heads, 2n, 2n), codes (batch, n) hold 2 i + bit.
    """
    batch, n = codes.shape
    d = values.shape[1]
    size = d // HEADS
    attended = np.empty((batch * n, d), values.dtype)
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
        attended[:, h * size : (h + 1) * size] = np.dot(attention[h], _few_values(values, n, h))
    return attended, attention


@compiled
def _few_values(values, n, h):
    """Values of bit 0 at every position, and the difference that bit 1 makes: (n + 1, size)."""
    size = values.shape[1] // HEADS
    few = np.empty((n + 1, size), values.dtype)
    for c in range(size):
        for j in range(n):
            few[j, c] = values[2 * j, h * size + c]
        few[n, c] = values[1, h * size + c] - values[0, h * size + c]
    return few


@compiled
def _first_attention_back(slope, attention, values, codes, values_slope, scores_slope):
    """From the slope of what was read (batch n, d) to those of values and scores, which are added."""
    batch, n = codes.shape
    size = values.shape[1] // HEADS
    for h in range(HEADS):
        mine = np.ascontiguousarray(slope[:, h * size : (h + 1) * size])
        few = _few_values(values, n, h)
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


@compiled
def _scores(q, k, n, weights):
    """exp of the scaled scores of all 2n queries and keys, shifted as in the torch path: weights (heads, 2n, 2n)."""
    size = q.shape[1] // HEADS
    factor = q.dtype.type(1 / np.sqrt(size))
    for h in range(HEADS):
        part = np.ascontiguousarray(q[:, h * size : (h + 1) * size])
        keys = np.ascontiguousarray(k[:, h * size : (h + 1) * size])
        scores = np.dot(part, keys.T)
        for a in range(2 * n):
            shift = -np.inf
            for j in range(n):
                shift = max(shift, min(scores[a, 2 * j], scores[a, 2 * j + 1]) * factor)
            for b in range(2 * n):
                weights[h, a, b] = np.exp(scores[a, b] * factor - q.dtype.type(shift))


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
    weight_slope += np.dot(slope.T, x)
    rows, d = slope.shape
    for r in range(rows):
        for c in range(d):
            bias_slope[c] += slope[r, c]


@compiled
def _affine(normal, gain, bias):
    out = np.empty_like(normal)
    rows, d = normal.shape
    for r in range(rows):
        for c in range(d):
            out[r, c] = normal[r, c] * gain[c] + bias[c]
    return out


@compiled
def _views(row, n, d):
    """Position and token embedding of a row, and where its layers begin."""
    half = d // 2
    at = n * half
    position = row[:at].reshape(n, half)
    token = row[at : at + d].reshape(2, half)
    return position, token, at + d


@compiled
def _layer(row, at, d):
    """The twelve parameters of the layer that begins at a place of the row, and where it ends."""
    s = d * d
    in_weight = row[at : at + 3 * s].reshape(3 * d, d)
    at += 3 * s
    in_bias = row[at : at + 3 * d]
    at += 3 * d
    out_weight = row[at : at + s].reshape(d, d)
    at += s
    out_bias, gain1, bias1 = row[at : at + d], row[at + d : at + 2 * d], row[at + 2 * d : at + 3 * d]
    at += 3 * d
    up_weight = row[at : at + s].reshape(d, d)
    up_bias = row[at + s : at + s + d]
    at += s + d
    down_weight = row[at : at + s].reshape(d, d)
    down_bias = row[at + s : at + s + d]
    at += s + d
    gain2, bias2 = row[at : at + d], row[at + d : at + 2 * d]
    return (in_weight, in_bias, out_weight, out_bias, gain1, bias1, up_weight, up_bias, down_weight, down_bias,
            gain2, bias2, at + 2 * d)  # fmt: skip


@compiled
def _rest(u, gain1, bias1, up_weight, up_bias, down_weight, down_bias):
    """Both norms and the feed-forward part of a layer from u (rows, d), the first norm's input."""
    rows = len(u)
    normal1, scale1 = np.empty_like(u), np.empty(rows, u.dtype)
    _normalise(u, normal1, scale1)
    middle = _affine(normal1, gain1, bias1)
    active = np.maximum(_dense(middle, up_weight, up_bias), u.dtype.type(0))
    v = _dense(active, down_weight, down_bias)
    v += middle
    normal2, scale2 = np.empty_like(u), np.empty(rows, u.dtype)
    _normalise(v, normal2, scale2)
    return normal1, scale1, middle, active, normal2, scale2, v


@compiled
def _rest_back(slope, kept, layer, out):
    """From the slope after the second norm's gain and bias to that of u, in place; parameters' slopes are added."""
    normal1, scale1, middle, active, normal2, scale2, _ = kept
    _normalise_back(slope, layer[10], normal2, scale2, out[10], out[11])
    _dense_back(slope, active, out[8], out[9])
    inner = np.dot(slope, layer[8])
    rows, d = inner.shape
    for r in range(rows):
        for c in range(d):
            if active[r, c] <= 0:
                inner[r, c] = 0
    _dense_back(inner, middle, out[6], out[7])
    slope += np.dot(inner, layer[6])
    _normalise_back(slope, layer[4], normal1, scale1, out[4], out[5])


@compiled
def _second_attention(normal, gain, bias, last, in_weight, in_bias, n):
    """Layer 2's heads at the last position, keys and values folded: what they read before W_v, and after it."""
    batch, d = last.shape
    size = d // HEADS
    dtype = normal.dtype.type
    q = _dense(last, in_weight[:d], in_bias[:d])
    attention = np.empty((batch, HEADS, n), normal.dtype)
    folded = np.empty((HEADS, batch, d), normal.dtype)
    read = np.zeros((HEADS, batch, d), normal.dtype)
    value = np.empty((batch, d), normal.dtype)
    factor = dtype(1 / np.sqrt(size))
    for h in range(HEADS):
        part = np.ascontiguousarray(q[:, h * size : (h + 1) * size])
        folded[h] = np.dot(part, in_weight[d + h * size : d + (h + 1) * size])
        for b in range(batch):
            for c in range(d):
                folded[h, b, c] *= gain[c] * factor
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
                    read[h, b, c] += weight * normal[b * n + j, c]
        full = _affine(read[h], gain, bias)
        value[:, h * size : (h + 1) * size] = np.dot(full, in_weight[2 * d + h * size : 2 * d + (h + 1) * size].T)
    for b in range(batch):
        for c in range(d):
            value[b, c] += in_bias[2 * d + c]
    return q, attention, folded, read, value


@compiled
def _run(row, codes, n, d, norms):
    """Forward pass of one model; ``norms`` (4, batch), if it has rows, gets the largest 1/std at each norm."""
    batch = len(codes)
    position, token, at = _views(row, n, d)
    one = _layer(row, at, d)
    two = _layer(row, one[12], d)
    tokens = np.empty((2 * n, d), row.dtype)
    for i in range(n):
        for bit in range(2):
            tokens[2 * i + bit, : d // 2] = token[bit]
            tokens[2 * i + bit, d // 2 :] = position[i]
    q = _dense(tokens, one[0][:d], one[1][:d])
    k = np.dot(tokens, one[0][d : 2 * d].T)  # the softmax does not see a bias of the keys
    values = _dense(tokens, one[0][2 * d :], one[1][2 * d :])
    weights = np.empty((HEADS, 2 * n, 2 * n), row.dtype)
    _scores(q, k, n, weights)
    attended, first = _first_attention(values, weights, codes)
    u = _dense(attended, one[2], one[3])
    for b in range(batch):
        for i in range(n):
            for c in range(d):
                u[b * n + i, c] += tokens[codes[b, i], c]
    kept1 = _rest(u, one[4], one[5], one[6], one[7], one[8], one[9])
    normal = kept1[4]
    last = np.empty((batch, d), row.dtype)
    for b in range(batch):
        for c in range(d):
            last[b, c] = normal[b * n + n - 1, c] * one[10][c] + one[11][c]
    q2, attention, folded, read, value = _second_attention(normal, one[10], one[11], last, two[0], two[1], n)
    u2 = _dense(value, two[2], two[3])
    u2 += last
    kept2 = _rest(u2, two[4], two[5], two[6], two[7], two[8], two[9])
    final = _affine(kept2[4], two[10], two[11])
    read_weight, read_bias = row[two[12] : two[12] + d], row[two[12] + d]
    output = np.empty(batch, row.dtype)
    for b in range(batch):
        total = read_bias
        for c in range(d):
            total += read_weight[c] * final[b, c]
        output[b] = total
    if len(norms):
        _largest(u, n, norms[0])
        _largest(kept1[6], n, norms[1])
        _largest(u2, 1, norms[2])
        _largest(kept2[6], 1, norms[3])
    return (output, tokens, q, k, values, weights, attended, first, kept1, last, q2, attention, folded, read, value,
            kept2, final)  # fmt: skip


@compiled
def _largest(u, places, out):
    """Largest 1/std over the places of each input, the unbiased std without epsilon."""
    d = u.shape[1]
    for b in range(len(out)):
        least = np.inf
        for i in range(b * places, (b + 1) * places):
            mean = u[i].mean()
            least = min(least, ((u[i] - mean) ** 2).sum() / (d - 1))
        out[b] = 1 / np.sqrt(least)


@compiled
def predict(row, codes, n, d):
    """Outputs of one model, (inputs,); codes (inputs, n) hold 2 i + bit."""
    return _run(row, codes, n, d, np.empty((0, 0), row.dtype))[0]


@compiled
def blowups(row, codes, n, d):
    """The largest 1/std entering each of the four norms, (4, inputs)."""
    norms = np.empty((4, len(codes)), row.dtype)
    _run(row, codes, n, d, norms)
    return norms


@compiled
def gradient(row, codes, y, n, d, slopes):
    """Mean squared error of one model and its slopes (numbers,), written into ``slopes``."""
    (output, tokens, q, k, values, weights, attended, first, kept1, last, q2, attention, folded, read, value, kept2,
     final) = _run(row, codes, n, d, np.empty((0, 0), row.dtype))  # fmt: skip
    batch, dtype = len(codes), row.dtype.type
    size, factor = d // HEADS, dtype(1 / np.sqrt(d // HEADS))
    slopes[:] = 0
    position_slope, token_slope, at = _views(slopes, n, d)
    one, one_slope = _layer(row, at, d), _layer(slopes, at, d)
    two, two_slope = _layer(row, one[12], d), _layer(slopes, one[12], d)
    read_weight = row[two[12] : two[12] + d]
    loss = dtype(0)
    back = np.empty((batch, d), row.dtype)
    for b in range(batch):
        error = output[b] - y[b]
        loss += error * error
        error *= dtype(2) / batch
        slopes[two[12] + d] += error
        for c in range(d):
            slopes[two[12] + c] += error * final[b, c]
            back[b, c] = error * read_weight[c]
    # layer 2
    _rest_back(back, kept2, two, two_slope)
    _dense_back(back, value, two_slope[2], two_slope[3])
    value_slope = np.dot(back, two[2])
    last_slope = back  # of the skip connection
    normal = kept1[4]
    normal_slope = np.zeros_like(normal)  # of what the heads read, before gain and bias
    gain, gain_slope, bias_slope = one[10], one_slope[10], one_slope[11]
    q_slope = np.empty((batch, d), row.dtype)
    for h in range(HEADS):
        mine = slice(h * size, (h + 1) * size)
        part = np.ascontiguousarray(value_slope[:, mine])
        full = _affine(read[h], gain, one[11])
        value_weight = two[0][2 * d + h * size : 2 * d + (h + 1) * size]
        two_slope[0][2 * d + h * size : 2 * d + (h + 1) * size] += np.dot(part.T, full)
        read_slope = np.dot(part, value_weight)
        folded_slope = np.zeros((batch, d), row.dtype)
        for b in range(batch):
            for c in range(d):
                bias_slope[c] += read_slope[b, c]
                gain_slope[c] += read_slope[b, c] * read[h, b, c]
                read_slope[b, c] *= gain[c]
            middle = dtype(0)
            for c in range(d):
                middle += read_slope[b, c] * read[h, b, c]
            for j in range(n):
                r = b * n + j
                inner = dtype(0)
                for c in range(d):
                    inner += read_slope[b, c] * normal[r, c]
                weight = attention[b, h, j]
                score = weight * (inner - middle)
                for c in range(d):
                    normal_slope[r, c] += weight * read_slope[b, c] + score * folded[h, b, c]
                    folded_slope[b, c] += score * normal[r, c]
        plain = np.ascontiguousarray(q2[:, mine])
        key_weight = two[0][d + h * size : d + (h + 1) * size]
        before = np.dot(plain, key_weight)  # folded without gain and factor
        for b in range(batch):
            for c in range(d):
                gain_slope[c] += folded_slope[b, c] * before[b, c] * factor
                folded_slope[b, c] *= gain[c] * factor
        two_slope[0][d + h * size : d + (h + 1) * size] += np.dot(plain.T, folded_slope)
        q_slope[:, mine] = np.dot(folded_slope, key_weight.T)
    for b in range(batch):
        for c in range(d):
            two_slope[1][2 * d + c] += value_slope[b, c]
    _dense_back(q_slope, last, two_slope[0][:d], two_slope[1][:d])
    last_slope += np.dot(q_slope, two[0][:d])
    for b in range(batch):
        r = b * n + n - 1
        for c in range(d):
            bias_slope[c] += last_slope[b, c]
            gain_slope[c] += last_slope[b, c] * normal[r, c]
            normal_slope[r, c] += last_slope[b, c] * gain[c]
    # layer 1: the second norm's gain and bias have their slopes already
    nothing, ones = np.zeros(d, row.dtype), np.ones(d, row.dtype)
    _rest_back(normal_slope, kept1, (*one[:10], ones, *one[11:]), (*one_slope[:10], nothing, nothing.copy(), 0))
    _dense_back(normal_slope, attended, one_slope[2], one_slope[3])
    attended_slope = np.dot(normal_slope, one[2])
    tokens_slope = np.zeros_like(tokens)
    for b in range(batch):
        for i in range(n):
            for c in range(d):
                tokens_slope[codes[b, i], c] += normal_slope[b * n + i, c]
    values_slope, scores_slope = np.zeros_like(values), np.zeros_like(weights)
    _first_attention_back(attended_slope, first, values, codes, values_slope, scores_slope)
    _dense_back(values_slope, tokens, one_slope[0][2 * d :], one_slope[1][2 * d :])
    tokens_slope += np.dot(values_slope, one[0][2 * d :])
    all_q, all_k = np.empty_like(q), np.empty_like(k)
    for h in range(HEADS):
        mine = slice(h * size, (h + 1) * size)
        all_q[:, mine] = np.dot(scores_slope[h], np.ascontiguousarray(k[:, mine])) * factor
        all_k[:, mine] = np.dot(scores_slope[h].T, np.ascontiguousarray(q[:, mine])) * factor
    _dense_back(all_q, tokens, one_slope[0][:d], one_slope[1][:d])
    one_slope[0][d : 2 * d] += np.dot(all_k.T, tokens)
    tokens_slope += np.dot(all_q, one[0][:d]) + np.dot(all_k, one[0][d : 2 * d])
    for i in range(n):
        for bit in range(2):
            token_slope[bit] += tokens_slope[2 * i + bit, : d // 2]
            position_slope[i] += tokens_slope[2 * i + bit, d // 2 :]
    return loss / batch


@compiled
def train_steps(row, mean, square, done, codes, y, rates, decay, noise, n, d, losses):
    """AdamW on one model, in place: codes (steps, batch, n), y (steps, batch), rates (steps,) of the learning rate.

    The slopes are those at ``row + noise[step]`` where ``noise`` (steps, numbers) has rows. Returns the updates done.
    """
    slopes, place = np.empty_like(row), np.empty_like(row)
    dtype = row.dtype.type
    for step in range(len(codes)):
        place[:] = row
        if len(noise):
            place += noise[step]
        losses[step] = gradient(place, codes[step], y[step], n, d, slopes)
        done += 1
        rate, shrink = rates[step], dtype(1 - rates[step] * decay)
        short, long = dtype(rate / (1 - 0.9**done)), dtype(1 / (1 - 0.999**done))
        for i in range(len(row)):
            mean[i] = dtype(0.9) * mean[i] + dtype(0.1) * slopes[i]
            square[i] = dtype(0.999) * square[i] + dtype(0.001) * slopes[i] * slopes[i]
            row[i] = shrink * row[i] - short * mean[i] / (np.sqrt(square[i] * long) + dtype(1e-8))
    return done

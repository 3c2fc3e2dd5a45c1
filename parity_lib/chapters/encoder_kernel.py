"""One fused pass through one encoder in numba, and back: the fast path of :mod:`parity_lib.chapters.encoder` on a CPU.

Values, gradients and AdamW's update of the model stay in the processor's cache, which a stack of models leaves after
the first operation. Sums may run in any order. The torch path is the reference; a test holds the two against each
other. Loops stand where numpy would have one line: numba compiles them in a fraction of the time.
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
        _put(np.dot(attention[h], _few_values(values, n, h)), h, attended)
    return attended, attention


@compiled
def _part(whole, h):
    """The columns of a head, (rows, size), of a matrix (rows, d)."""
    rows, size = len(whole), whole.shape[1] // HEADS
    part = np.empty((rows, size), whole.dtype)
    for r in range(rows):
        for c in range(size):
            part[r, c] = whole[r, h * size + c]
    return part


@compiled
def _put(part, h, whole):
    """A head's columns back into the matrix."""
    rows, size = part.shape
    for r in range(rows):
        for c in range(size):
            whole[r, h * size + c] = part[r, c]


@compiled
def _add(more, to):
    """One matrix added to another, in place."""
    rows, columns = to.shape
    for r in range(rows):
        for c in range(columns):
            to[r, c] += more[r, c]


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
        mine = _part(slope, h)
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
def _scores(q, k, codes, weights):
    """exp of the scaled scores of all 2n queries and keys that occur, shifted as in torch: weights (heads, 2n, 2n)."""
    batch, n = codes.shape
    factor = q.dtype.type(1 / np.sqrt(q.shape[1] // HEADS))
    occurs = np.zeros(2 * n, np.bool_)
    for b in range(batch):
        for i in range(n):
            occurs[codes[b, i]] = True
    for h in range(HEADS):
        scores = np.dot(_part(q, h), _part(k, h).T)
        for a in range(2 * n):
            if not occurs[a]:
                continue
            shift = -np.inf
            for j in range(n):
                shift = max(shift, min(scores[a, 2 * j], scores[a, 2 * j + 1]) * factor)
            for b in range(2 * n):
                if occurs[b]:
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
    _add(np.dot(slope.T, x), weight_slope)
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
    active = _dense(middle, up_weight, up_bias)
    d = u.shape[1]
    for r in range(rows):
        for c in range(d):
            active[r, c] = max(active[r, c], u.dtype.type(0))
    v = _dense(active, down_weight, down_bias)
    _add(middle, v)
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
    _add(np.dot(inner, layer[6]), slope)
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
        plain = np.dot(_part(q, h), in_weight[d + h * size : d + (h + 1) * size])
        for b in range(batch):
            for c in range(d):
                folded[h, b, c] = plain[b, c] * gain[c] * factor
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
        _put(np.dot(full, in_weight[2 * d + h * size : 2 * d + (h + 1) * size].T), h, value)
    for b in range(batch):
        for c in range(d):
            value[b, c] += in_bias[2 * d + c]
    return q, attention, folded, read, value


@compiled
def _largest(u, places, out):
    """Largest 1/std over the places of each input, the unbiased std without epsilon."""
    d = u.shape[1]
    for b in range(len(out)):
        least = np.inf
        for i in range(b * places, (b + 1) * places):
            mean, total = 0.0, 0.0
            for c in range(d):
                mean += u[i, c]
            mean /= d
            for c in range(d):
                total += (u[i, c] - mean) ** 2
            least = min(least, total / (d - 1))
        out[b] = 1 / np.sqrt(least)


@compiled
def _pass(row, codes, y, n, d, output, norms, slopes):
    """One pass through one model: ``output`` (batch,) and, each if it has room, ``norms`` and ``slopes`` are written.

    ``norms`` (4, batch) gets the largest 1/std at each norm, ``slopes`` (numbers,) those of the mean squared error
    against y, which is returned. It is one function, since each that numba compiles takes seconds.
    """
    batch, dtype = len(codes), row.dtype.type
    position, token, at = _views(row, n, d)
    one = _layer(row, at, d)
    two = _layer(row, one[12], d)
    tokens = np.empty((2 * n, d), row.dtype)
    for i in range(n):
        for bit in range(2):
            for c in range(d // 2):
                tokens[2 * i + bit, c] = token[bit, c]
                tokens[2 * i + bit, d // 2 + c] = position[i, c]
    q = _dense(tokens, one[0][:d], one[1][:d])
    k = np.dot(tokens, one[0][d : 2 * d].T)  # the softmax does not see a bias of the keys
    values = _dense(tokens, one[0][2 * d :], one[1][2 * d :])
    weights = np.empty((HEADS, 2 * n, 2 * n), row.dtype)
    _scores(q, k, codes, weights)
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
    _add(last, u2)
    kept2 = _rest(u2, two[4], two[5], two[6], two[7], two[8], two[9])
    final = _affine(kept2[4], two[10], two[11])
    read_weight, read_bias = row[two[12] : two[12] + d], row[two[12] + d]
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
    if not len(slopes):
        return dtype(0)
    # and back
    size, factor = d // HEADS, dtype(1 / np.sqrt(d // HEADS))
    for i in range(len(slopes)):
        slopes[i] = 0
    position_slope, token_slope, at = _views(slopes, n, d)
    one_slope = _layer(slopes, at, d)
    two_slope = _layer(slopes, one[12], d)
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
        part = _part(value_slope, h)
        full = _affine(read[h], gain, one[11])
        value_weight = two[0][2 * d + h * size : 2 * d + (h + 1) * size]
        _add(np.dot(part.T, full), two_slope[0][2 * d + h * size : 2 * d + (h + 1) * size])
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
        plain = _part(q2, h)
        key_weight = two[0][d + h * size : d + (h + 1) * size]
        before = np.dot(plain, key_weight)  # folded without gain and factor
        for b in range(batch):
            for c in range(d):
                gain_slope[c] += folded_slope[b, c] * before[b, c] * factor
                folded_slope[b, c] *= gain[c] * factor
        _add(np.dot(plain.T, folded_slope), two_slope[0][d + h * size : d + (h + 1) * size])
        _put(np.dot(folded_slope, key_weight.T), h, q_slope)
    for b in range(batch):
        for c in range(d):
            two_slope[1][2 * d + c] += value_slope[b, c]
    _dense_back(q_slope, last, two_slope[0][:d], two_slope[1][:d])
    _add(np.dot(q_slope, two[0][:d]), last_slope)
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
    _add(np.dot(values_slope, one[0][2 * d :]), tokens_slope)
    all_q, all_k = np.empty_like(q), np.empty_like(k)
    for h in range(HEADS):
        _put(np.dot(scores_slope[h], _part(k, h)), h, all_q)
        _put(np.dot(scores_slope[h].T, _part(q, h)), h, all_k)
    for r in range(2 * n):
        for c in range(d):
            all_q[r, c] *= factor
            all_k[r, c] *= factor
    _dense_back(all_q, tokens, one_slope[0][:d], one_slope[1][:d])
    _add(np.dot(all_k.T, tokens), one_slope[0][d : 2 * d])
    _add(np.dot(all_q, one[0][:d]), tokens_slope)
    _add(np.dot(all_k, one[0][d : 2 * d]), tokens_slope)
    for i in range(n):
        for bit in range(2):
            for c in range(d // 2):
                token_slope[bit, c] += tokens_slope[2 * i + bit, c]
                position_slope[i, c] += tokens_slope[2 * i + bit, d // 2 + c]
    return loss / batch


def predict(row, codes, n, d):
    """Outputs of one model, (inputs,); codes (inputs, n) hold 2 i + bit."""
    output = np.empty(len(codes), row.dtype)
    _pass(row, codes, output, n, d, output, _none(row, 2), _none(row, 1))
    return output


def look(row, codes, n, d):
    """Outputs of one model, (inputs,), and the largest 1/std entering each of the four norms, (4, inputs)."""
    output, norms = np.empty(len(codes), row.dtype), np.empty((4, len(codes)), row.dtype)
    _pass(row, codes, output, n, d, output, norms, _none(row, 1))
    return output, norms


def gradient(row, codes, y, n, d, slopes):
    """Mean squared error of one model and its slopes (numbers,), written into ``slopes``."""
    return _pass(row, codes, y, n, d, np.empty(len(codes), row.dtype), _none(row, 2), slopes)


def _none(row, dimensions):
    return np.empty((0,) * dimensions, row.dtype)


@compiled
def _adam(row, mean, square, slopes, rate, long, shrink):
    """One update of AdamW in place, with the corrections for the first updates in ``rate`` and ``long``."""
    dtype = row.dtype.type
    for i in range(len(row)):
        mean[i] = dtype(0.9) * mean[i] + dtype(0.1) * slopes[i]
        square[i] = dtype(0.999) * square[i] + dtype(0.001) * slopes[i] * slopes[i]
        row[i] = shrink * row[i] - rate * mean[i] / (np.sqrt(square[i] * long) + dtype(1e-8))


def train_steps(row, mean, square, done, codes, y, rates, decay, noise, n, d, losses):
    """AdamW on one model, in place: codes (steps, batch, n), y (steps, batch), rates (steps,) of the learning rate.

    The slopes are those at ``row + noise[step]`` where ``noise`` (steps, numbers) has rows. Returns the updates done.
    """
    slopes, dtype = np.empty_like(row), row.dtype.type
    output, norms = np.empty(codes.shape[1], row.dtype), _none(row, 2)
    for step, rate in enumerate(rates):
        place = row + noise[step] if len(noise) else row
        losses[step] = _pass(place, codes[step], y[step], n, d, output, norms, slopes)
        done += 1
        short, long = dtype(rate / (1 - 0.9**done)), dtype(1 / (1 - 0.999**done))
        _adam(row, mean, square, slopes, short, long, dtype(1 - rate * decay))
    return done

"""Fused steps of stacks of small networks: forward pass, backward pass and Adam of a network while it is in the cache.

The functions are those of :mod:`parity_lib.chapters.networks_reference`, with the same arguments and the same
results to rounding. Every inner loop runs over the examples of a batch, so that the processor takes them many at a
time; nothing is allocated inside a step. The kernels work in the type of the numbers they are given.
"""

import math

import numpy as np

from ..kernels import compiled


@compiled
def _add_rows(total, weights, x):  # type: ignore[no-untyped-def]
    """Add to ``total`` (examples,) the rows of x (rows, examples) times their weights, four rows at a time."""
    rows = len(x)
    for j in range(0, rows - 3, 4):
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for e in range(len(total)):
            total[e] += a * x0[e] + b * x1[e] + c * x2[e] + d * x3[e]
    for j in range(rows - rows % 4, rows):
        a, x0 = weights[j], x[j]
        for e in range(len(total)):
            total[e] += a * x0[e]


@compiled
def _add_products(sums, values, x):  # type: ignore[no-untyped-def]
    """Add to ``sums`` (rows,) the products of each row of x (rows, examples) with ``values``, four rows at a time."""
    rows, zero = len(x), values[0] * 0
    for j in range(0, rows - 3, 4):
        a, b, c, d = zero, zero, zero, zero
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for e in range(len(values)):
            a += values[e] * x0[e]
            b += values[e] * x1[e]
            c += values[e] * x2[e]
            d += values[e] * x3[e]
        sums[j] += a
        sums[j + 1] += b
        sums[j + 2] += c
        sums[j + 3] += d
    for j in range(rows - rows % 4, rows):
        a, x0 = zero, x[j]
        for e in range(len(values)):
            a += values[e] * x0[e]
        sums[j] += a


@compiled
def _sides(x, bits, sides):  # type: ignore[no-untyped-def]
    """Parities in {-1, +1} of the rows ``bits`` of x (n, examples)."""
    sides[:] = 1
    for bit in bits:
        row = x[bit]
        for e in range(len(sides)):
            sides[e] *= 1 - 2 * row[e]


@compiled
def _adam(theta, mean, square, gradient, made, rate):  # type: ignore[no-untyped-def]
    """Adam's update number ``made`` of one network, in place."""
    real = theta.dtype.type
    first, second = 1 - 0.9**made, math.sqrt(1 - 0.999**made)
    pace, floor = real(rate * second / first), real(1e-8 * second)
    for p in range(len(theta)):
        mean[p] += real(0.1) * (gradient[p] - mean[p])
        square[p] += real(0.001) * (gradient[p] * gradient[p] - square[p])
        theta[p] -= pace * mean[p] / (math.sqrt(square[p]) + floor)


@compiled
def _activate(hidden, slope, smoothing):  # type: ignore[no-untyped-def]
    """The activation of ``hidden`` (examples,) in place, and its slope."""
    half = hidden.dtype.type(0.5)
    if smoothing == 0:
        for e in range(len(hidden)):
            slope[e] = 1 if hidden[e] > 0 else 0
            hidden[e] *= slope[e]
    else:
        for e in range(len(hidden)):
            root = math.sqrt(hidden[e] * hidden[e] + smoothing)
            hidden[e] = half * (hidden[e] + root)
            slope[e] = hidden[e] / root


@compiled
def _differentiate(row, gradient, x, sides, weight, neurons, smoothing, hidden, slope, up):  # type: ignore[no-untyped-def]
    """Add the gradient of one network's squared hinge on x (inputs, examples), every example with this weight."""
    inputs, examples = x.shape
    end = inputs * neurons
    beta, by_beta = row[:end].reshape(neurons, inputs), gradient[:end].reshape(neurons, inputs)
    bias, alpha = row[end : end + neurons], row[end + neurons : end + 2 * neurons]
    up[:] = row[end + 2 * neurons]
    for i in range(neurons):
        h, s = hidden[i], slope[i]
        h[:] = bias[i]
        _add_rows(h, beta[i], x)
        _activate(h, s, smoothing)
        for e in range(examples):
            up[e] += alpha[i] * h[e]
    two, zero = row.dtype.type(-2 * weight), row.dtype.type(0)
    offset = zero
    for e in range(examples):
        up[e] = two * sides[e] * max(1 - sides[e] * up[e], zero)
        offset += up[e]
    gradient[end + 2 * neurons] += offset
    for i in range(neurons):
        h, s = hidden[i], slope[i]
        outer, inner = zero, zero
        for e in range(examples):
            outer += up[e] * h[e]
            s[e] *= alpha[i] * up[e]
            inner += s[e]
        gradient[end + neurons + i] += outer
        gradient[end + i] += inner
        _add_products(by_beta[i], s, x)


@compiled
def plain(theta, mean, square, made, rates, x, flips, bits, neurons):  # type: ignore[no-untyped-def]
    """Steps of plain networks: :func:`parity_lib.chapters.networks_reference.plain`."""
    steps, _, batch = x.shape
    hidden, slope = np.zeros((neurons, batch), theta.dtype), np.zeros((neurons, batch), theta.dtype)
    sides, up, gradient = np.zeros(batch, theta.dtype), np.zeros(batch, theta.dtype), np.zeros_like(theta[0])
    for step in range(steps):
        seen = 1 - 2 * x[step]
        for r in range(len(theta)):
            _sides(x[step], bits[r], sides)
            sides *= flips[step]
            gradient[:] = 0
            _differentiate(theta[r], gradient, seen, sides, 1 / batch, neurons, theta.dtype.type(0), hidden, slope, up)
            _adam(theta[r], mean[r], square[r], gradient, made + step + 1, rates[r])


@compiled
def _features(x, weights, low, high, centre, inverse, separate, read, seen):  # type: ignore[no-untyped-def]
    """What a network on fixed heads sees of x (n, examples), standardised, (features, examples)."""
    m, examples = len(low), x.shape[1]
    one = seen.dtype.type(1)
    share = one if separate else one / m
    seen[:] = 0
    for i in range(m):
        at = 4 * i if separate else 0
        for part in range(3):
            total = seen.dtype.type(0)
            for j in range(len(x)):
                total += weights[part * m + i, j]
            read[part, :] = 0
            _add_rows(read[part], weights[part * m + i], x)
            if part > 0:
                for e in range(examples):
                    read[part, e] = low[i] * total + (high[i] - low[i]) * read[part, e]
            else:
                rest = low[i] * total
        for e in range(examples):
            scale = share / (rest + (high[i] - low[i]) * read[0, e])
            ones = high[i] * read[0, e] * scale
            seen[at, e] += ones
            seen[at + 1, e] += share - ones
            seen[at + 2, e] += read[1, e] * scale
            seen[at + 3, e] += read[2, e] * scale
    for f in range(len(seen)):
        for e in range(examples):
            seen[f, e] = (seen[f, e] - centre[f]) * inverse[f]


@compiled
def on_heads(  # type: ignore[no-untyped-def]
    theta, mean, square, made, rates, x, bits, weights, low, high, centre, inverse, separate, neurons, caps, smoothing
):
    """Steps of networks on fixed heads: :func:`parity_lib.chapters.networks_reference.on_heads`."""
    steps, _, batch = x.shape
    hidden, slope = np.zeros((neurons, batch), theta.dtype), np.zeros((neurons, batch), theta.dtype)
    sides, up, gradient = np.zeros(batch, theta.dtype), np.zeros(batch, theta.dtype), np.zeros_like(theta[0])
    read, seen, b = np.zeros((3, batch), theta.dtype), np.zeros((centre.shape[1], batch), theta.dtype), smoothing
    for r in range(len(theta)):
        for step in range(steps):
            _sides(x[step], bits[r], sides)
            _features(x[step], weights[r], low[r], high[r], centre[r], inverse[r], separate, read, seen)
            gradient[:] = 0
            _differentiate(theta[r], gradient, seen, sides, 1 / batch, neurons, theta.dtype.type(b), hidden, slope, up)
            _adam(theta[r], mean[r], square[r], gradient, made + step + 1, rates[r, step])
            if caps[r] < np.inf:
                _shrink(theta[r], inverse[r], neurons, caps[r])


@compiled
def _shrink(row, inverse, neurons, cap):  # type: ignore[no-untyped-def]
    """Scale both layers back until the product of their norms, on the heads' own scale, is at most ``cap``."""
    features = len(inverse)
    end = features * neurons
    inner, outer = 0.0, 0.0
    for i in range(neurons):
        for f in range(features):
            inner += (row[i * features + f] * inverse[f]) ** 2
        outer += row[end + neurons + i] ** 2
    factor = math.sqrt(min(1.0, cap / max(math.sqrt(inner * outer), 1e-300)))
    row[: end + 2 * neurons] *= row.dtype.type(factor)  # the biases with beta, so that the kinks stay where they are


@compiled
def tied(theta, mean, square, made, rates, x, flips, bits, code, k, kind, smoothing):  # type: ignore[no-untyped-def]
    """Steps of tied networks and product heads: :func:`parity_lib.chapters.networks_reference.tied`."""
    steps, n, batch = x.shape
    real, channels = theta.dtype.type, k if kind == 3 else 1
    gamma, by_weights = np.zeros((k, n), theta.dtype), np.zeros((channels, n), theta.dtype)
    weights, gradient = np.zeros((channels, n), theta.dtype), np.zeros_like(theta[0])
    s, up = np.zeros((channels, batch), theta.dtype), np.zeros(batch, theta.dtype)
    value, steep, slopes = np.zeros_like(up), np.zeros_like(up), np.zeros_like(s)
    for r in range(len(theta)):
        for step in range(steps):
            _weigh(theta[r], code, kind, gamma, weights)
            _sides(x[step], bits[r], up)
            up *= flips[step]
            s[:] = 0
            for c in range(channels):
                _add_rows(s[c], weights[c], x[step])
            if kind == 3:
                for c in range(channels):
                    slopes[c] = real(2 / batch) * up
                    for other in range(channels):
                        if other != c:
                            for e in range(batch):
                                slopes[c, e] *= 1 - 2 * s[other, e]
                s[:] = slopes
            else:
                _slopes(s[0], up, real(-1 / batch), k, real(smoothing), value, steep)
            by_weights[:] = 0
            for c in range(channels):
                _add_products(by_weights[c], s[c], x[step])
            _chain(theta[r], gamma, by_weights, code, kind, gradient)
            _adam(theta[r], mean[r], square[r], gradient, made + step + 1, rates[r])


@compiled
def _weigh(numbers, code, kind, gamma, weights):  # type: ignore[no-untyped-def]
    """Attention (k, n) of directions, and the weights with which inputs are read, (channels, n)."""
    if kind == 2:
        weights[0] = numbers
        return
    weights[:] = 0
    for i in range(len(gamma)):
        a, b = numbers[2 * i], numbers[2 * i + 1]
        top = math.sqrt(a * a + b * b)  # no score is larger
        total = a * 0
        for j in range(len(code)):
            gamma[i, j] = math.exp(a * code[j, 0] + b * code[j, 1] - top)
            total += gamma[i, j]
        scale = 1 / total if kind != 1 else total * 0 + 1
        channel = weights[i if kind == 3 else 0]
        for j in range(len(code)):
            gamma[i, j] *= scale
            channel[j] += gamma[i, j]


@compiled
def _slopes(s, sides, weight, k, smoothing, value, steep):  # type: ignore[no-untyped-def]
    """Replace sums s (examples,) by the slope of sigmoid(zigzag(s)), times label and weight."""
    real = s.dtype.type
    value[:] = 1
    steep[:] = 0
    for q in range(1, k + 1):
        height, shift = real((1 - 2 * (q % 2)) * (8 * q - 4)), real(0.5 - q)
        for e in range(len(s)):
            z = s[e] + shift
            root = math.sqrt(z * z + smoothing)
            relu = real(0.5) * (z + root)
            value[e] += height * relu
            steep[e] += height * relu / root
    for e in range(len(s)):
        value[e] = math.exp(-abs(value[e]))
    for e in range(len(s)):
        s[e] = weight * sides[e] * steep[e] * value[e] / ((1 + value[e]) * (1 + value[e]))


@compiled
def _chain(numbers, gamma, by_weights, code, kind, gradient):  # type: ignore[no-untyped-def]
    """From the gradient by the weights that are read to that by the numbers that are trained."""
    if kind == 2:
        gradient[:] = by_weights[0]
        return
    for i in range(len(gamma)):
        channel = by_weights[i if kind == 3 else 0]
        a, b = numbers[2 * i], numbers[2 * i + 1]
        length, zero = math.sqrt(a * a + b * b), a * 0
        middle, first, second = zero, zero, zero
        if kind != 1:
            for j in range(len(code)):
                middle += gamma[i, j] * channel[j]
            a, b = zero, zero
        for j in range(len(code)):
            slope = gamma[i, j] * (channel[j] - middle)
            first += slope * (code[j, 0] - a / length)
            second += slope * (code[j, 1] - b / length)
        gradient[2 * i], gradient[2 * i + 1] = first, second

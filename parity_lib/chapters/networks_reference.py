r"""Steps of stacks of small networks in torch: what the fused kernels must agree with, and what runs without them.

A stack is an array of numbers, one row a network, with Adam's two averages beside it. All functions move the rows
in place by some steps, each row at its own rate and with its own parity, on examples that all rows share. The
numbers of a network with one hidden layer (eq. 1) stand as ``beta`` (neurons, inputs), ``bias`` (neurons,),
``alpha`` (neurons,), ``offset``. Chapter ``fixed_attention``.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..attention import positional_code
from ..readout import smoothed_relu, zigzag

TIES = ("softmax", "bump", "free", "product")
Array = np.ndarray[Any, np.dtype[Any]]


def exact(values: Array) -> Tensor:
    """An array as a tensor of float64."""
    return torch.from_numpy(np.asarray(values, dtype=np.float64))


def labels(x: Tensor, bits: Array) -> Tensor:
    """Parities in {-1, +1} of the positions (rows, k), counted from 0, of inputs (n, examples): (rows, examples)."""
    return (1 - 2 * x)[torch.from_numpy(bits)].prod(1)


def predictions(theta: Tensor, x: Tensor, neurons: int, smoothing: float = 0.0) -> Tensor:
    """Networks with one hidden layer, (rows, numbers), on inputs (..., inputs, examples): (rows, examples)."""
    inputs = x.shape[-2]
    beta, bias, alpha, offset = theta.split([inputs * neurons, neurons, neurons, 1], 1)
    hidden = smoothed_relu(beta.reshape(-1, neurons, inputs) @ x + bias.unsqueeze(2), smoothing)
    return (alpha.unsqueeze(1) @ hidden).squeeze(1) + offset


def adam_step(mean: Array, square: Array, slope: Array, made: int, rate: float | Array, floor: float = 1e-8) -> Array:
    """Step number ``made`` of Adam, on arrays: both averages move in place, and what is to be taken off is returned."""
    mean[:] = 0.9 * mean + 0.1 * slope
    square[:] = 0.999 * square + 0.001 * slope**2
    return rate * mean / (1 - 0.9**made) / (np.sqrt(square / (1 - 0.999**made)) + floor)


def _update(theta: Array, mean: Array, square: Array, made: int, rates: Array, gradient: Tensor) -> None:
    """Adam with torch's defaults, each row at its own rate, in place."""
    theta -= adam_step(mean, square, gradient.numpy(), made, rates[:, None])


def _squared_hinge(theta: Array, x: Tensor, y: Tensor, neurons: int, smoothing: float) -> Tensor:
    """Gradient of each row's mean squared hinge."""
    point = exact(theta).requires_grad_()
    risk = (1 - y * predictions(point, x, neurons, smoothing)).relu().square().mean(1)
    return torch.autograd.grad(risk.sum(), point)[0]


def plain(
    theta: Array, mean: Array, square: Array, made: int, rates: Array, x: Array, flips: Array, bits: Array, neurons: int
) -> None:
    """Steps of ReLU networks on n inputs in {-1, +1} with the squared hinge.

    Parameters
    ----------
    theta, mean, square : the networks and Adam's averages, (rows, numbers).
    made : steps made before.
    rates : learning rates, (rows,).
    x : inputs in {0, 1} of every step, (steps, n, batch).
    flips : what their labels are multiplied with, (steps, batch) in {-1, +1}: -1 where a label is wrong.
    bits : the positions of each row's parity, counted from 0, (rows, k).
    """
    for step, (inputs, signs) in enumerate(zip(exact(x), exact(flips), strict=True)):
        gradient = _squared_hinge(theta, 1 - 2 * inputs, signs * labels(inputs, bits), neurons, 0.0)
        _update(theta, mean, square, made + step + 1, rates, gradient)


def features(x: Tensor, weights: Array, low: Array, high: Array, separate: bool) -> Tensor:
    """What fixed heads report of inputs x (n, examples), each by itself or in the mean: (rows, features, examples)."""
    heads = low.shape[1]
    size = exact(weights)
    zero, one = exact(low).unsqueeze(2), exact(high).unsqueeze(2)
    on_ones = size @ x
    totals = zero.repeat(1, 3, 1) * size.sum(2, keepdim=True) + (one - zero).repeat(1, 3, 1) * on_ones
    whole, sine, cosine = totals.split(heads, 1)
    share = one * on_ones[:, :heads] / whole
    seen = torch.stack([share, 1 - share, sine / whole, cosine / whole], 2)  # (rows, heads, 4, examples)
    return seen.flatten(1, 2) if separate else seen.mean(1)


def norms(theta: Array, inverse: Array, neurons: int) -> Array:
    r""":math:`\|\alpha\|\|\beta\|` of networks on standardised features, on the heads' own scale, (rows,)."""
    size = inverse.shape[1]
    beta = theta[:, : size * neurons].reshape(-1, neurons, size) * inverse[:, None]
    alpha = theta[:, (size + 1) * neurons : (size + 2) * neurons]
    return np.linalg.norm(beta.reshape(len(theta), -1), axis=1) * np.linalg.norm(alpha, axis=1)


def on_heads(
    theta: Array, mean: Array, square: Array, made: int, rates: Array, x: Array, bits: Array,
    weights: Array, low: Array, high: Array, centre: Array, inverse: Array, separate: bool,
    neurons: int, caps: Array, smoothing: float,
) -> None:  # fmt: skip
    r"""Steps of networks on fixed soft heads, one head set a row, with the squared hinge.

    Parameters
    ----------
    rates : learning rates, (rows, steps).
    weights : a head's weights :math:`e^{p_j}` times 1, sine and cosine of position j, (rows, 3m, n).
    low, high : what the weight of a zero and of a one is multiplied by, (rows, m).
    centre, inverse : mean and inverse scale of each feature, (rows, features).
    separate : whether the network hears every head, or their mean.
    caps : the product of the norms of both layers stays at most this, (rows,); infinite for no cap.
    """
    for step, inputs in enumerate(exact(x)):
        seen = features(inputs, weights, low, high, separate) - exact(centre).unsqueeze(2)
        standardised = seen * exact(inverse).unsqueeze(2)
        gradient = _squared_hinge(theta, standardised, labels(inputs, bits), neurons, smoothing)
        _update(theta, mean, square, made + step + 1, rates[:, step], gradient)
        shrink = np.minimum(1, caps / np.maximum(norms(theta, inverse, neurons), 1e-300))
        theta[:, :-1] *= np.sqrt(shrink)[:, None]  # the biases with beta, so that the kinks stay where they are


def read_weights(theta: Tensor, n: int, k: int, tie: str) -> Tensor:
    r"""The weights with which inputs are read, (rows, numbers) -> (rows, channels, n).

    ``softmax``: :math:`g_j = \sum_i \mathrm{softmax}_j(a_i \cdot \mathrm{pos}_j)`, the k heads, in one channel.
    ``bump``: :math:`g_j = \sum_i \exp(a_i \cdot \mathrm{pos}_j - |a_i|)`, the same without normalisation.
    ``free``: g itself. ``product``: the k heads, each in a channel of its own.
    """
    if tie == "free":
        return theta.unsqueeze(1)
    heads = theta.reshape(-1, k, 2)
    scores = heads @ positional_code(n, dtype=theta.dtype).T
    if tie == "bump":
        return (scores - heads.norm(dim=2, keepdim=True)).exp().sum(1, keepdim=True)
    attention = scores.softmax(2)
    return attention if tie == "product" else attention.sum(1, keepdim=True)


def tied_predictions(theta: Tensor, x: Tensor, k: int, tie: str, smoothing: float) -> Tensor:
    r"""The zigzag of what is read of x (n, examples), or the product :math:`\prod_i (1 - 2 v_i)`: (rows, examples)."""
    read = read_weights(theta, len(x), k, tie) @ x
    return (1 - 2 * read).prod(1) if tie == "product" else zigzag(read.squeeze(1), k, smoothing)


def tied(
    theta: Array, mean: Array, square: Array, made: int, rates: Array, x: Array, flips: Array, bits: Array,
    code: Array, k: int, kind: int, smoothing: float,
) -> None:  # fmt: skip
    """Steps of tied networks with the sigmoid hinge 1 - y sigmoid(p), or of product heads with 1 - y p.

    Parameters
    ----------
    code : the positional code, (n, 2).
    kind : which of :data:`TIES`, by number.
    """
    for step, (inputs, signs) in enumerate(zip(exact(x), exact(flips), strict=True)):
        point = exact(theta).requires_grad_()
        found = tied_predictions(point, inputs, k, TIES[kind], smoothing)
        risk = 1 - signs * labels(inputs, bits) * (found if TIES[kind] == "product" else found.sigmoid())
        gradient = torch.autograd.grad(risk.mean(1).sum(), point)[0]
        _update(theta, mean, square, made + step + 1, rates, gradient)

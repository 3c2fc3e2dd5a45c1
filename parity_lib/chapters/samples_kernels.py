"""Bit-parallel loops of the chapter ``samples``: fused with numba where it is installed, in numpy where it is not."""

import numpy as np

from ..kernels import choose, compiled

Array = np.ndarray
SIGNS = 1 - 2 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(np.float32)
"""The eight signs of every byte, lowest bit first, (256, 8): +1 for a zero."""


def plain_pair_counts(columns: Array, odd: Array) -> Array:
    """On how many examples the parity of two positions differs from the label, for all pairs: (n, n), symmetric.

    ``columns`` (n, words) uint64 have 64 examples to a word, ``odd`` (words,) a one where the label is -1; the diagonal
    counts the labels -1.
    """
    counts = np.diag(np.full(len(columns), np.bitwise_count(odd).sum(), dtype=np.int64))
    for a in range(len(columns) - 1):
        row = np.bitwise_count(columns[a + 1 :] ^ (columns[a] ^ odd)).sum(1, dtype=np.int64)
        counts[a, a + 1 :] = counts[a + 1 :, a] = row
    return counts


def plain_slopes(x: Array, labels: Array, attention: Array) -> Array:
    r"""The gradient of the mean of :math:`1 - y \prod_i \gamma_i \cdot z` in every attention, (heads, n), at one batch.

    ``x`` (examples, bytes) uint8 has eight positions to a byte, ``labels`` (examples,) are in {-1, +1}.
    """
    heads, n = attention.shape
    z = SIGNS[x].reshape(len(x), -1)[:, :n]
    read = z @ attention.T.astype(np.float32)
    others = np.stack([np.delete(read, head, 1).prod(1) for head in range(heads)])
    return -((labels * others) @ z) / len(x)


@compiled
def _ones(word: np.uint64) -> np.uint64:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@compiled
def _count(columns: Array, odd: Array, counts: Array, block: int) -> None:
    n, words = columns.shape
    mixed = np.empty(block, np.uint64)
    for start in range(0, words, block):  # a block of every column stays in the processor's cache
        size = min(block, words - start)
        for a in range(n):
            for w in range(size):
                mixed[w] = columns[a, start + w] ^ odd[start + w]
            for b in range(a + 1, n):
                total = np.uint64(0)
                for w in range(size):
                    total += _ones(mixed[w] ^ columns[b, start + w])
                counts[a, b] += np.int64(total)
                counts[b, a] += np.int64(total)


def fused_pair_counts(columns: Array, odd: Array) -> Array:
    """:func:`plain_pair_counts`, fused."""
    counts = np.diag(np.full(len(columns), np.bitwise_count(odd).sum(), dtype=np.int64))
    _count(columns, odd, counts, 1024)
    return counts


@compiled
def _slope(x: Array, labels: Array, tables: Array, by_byte: Array) -> None:
    heads, places = tables.shape[:2]
    read = np.empty(heads, np.float32)
    for e in range(len(x)):
        for h in range(heads):
            total = np.float32(0)
            for p in range(places):
                total += tables[h, p, x[e, p]]
            read[h] = total
        for h in range(heads):
            push = np.float32(labels[e])
            for other in range(heads):
                if other != h:
                    push *= read[other]
            for p in range(places):
                by_byte[h, p, x[e, p]] += push


def fused_slopes(x: Array, labels: Array, attention: Array) -> Array:
    """:func:`plain_slopes` through tables of all 256 bytes: n / 8 look-ups a head and example."""
    heads, n = attention.shape
    padded = np.zeros((heads, 8 * x.shape[1]), dtype=np.float32)
    padded[:, :n] = attention
    tables = np.ascontiguousarray(padded.reshape(heads, -1, 8) @ SIGNS.T)
    by_byte = np.zeros_like(tables)
    _slope(x, labels, tables, by_byte)
    return -(by_byte @ SIGNS).reshape(heads, -1)[:, :n] / len(x)


@compiled
def fused_descend(heads, moments, code, updates):  # type: ignore[no-untyped-def]
    """Two heads on a moment matrix: :func:`parity_lib.chapters.samples.plain_descend`, fused."""
    n, size = code.shape
    attention, push = np.empty((2, n), heads.dtype), np.empty((2, n), heads.dtype)
    mean, square, slope = np.zeros((2, size)), np.zeros((2, size)), np.empty((2, size))
    for made in range(1, updates + 1):
        for h in range(2):
            scores = np.dot(code, heads[h])
            attention[h] = np.exp(scores - scores.max())
            attention[h] /= attention[h].sum()
        push[:] = 0
        for a in range(n):
            first, second, row = attention[1, a], attention[0, a], moments[a]
            for b in range(n):
                push[0, b] -= first * row[b]
                push[1, b] -= second * row[b]
        for h in range(2):
            push[h] = attention[h] * (push[h] - np.dot(attention[h], push[h]))
            slope[h] = np.dot(push[h], code)
        for h in range(2):
            for p in range(size):
                mean[h, p] = 0.9 * mean[h, p] + 0.1 * slope[h, p]
                square[h, p] = 0.999 * square[h, p] + 0.001 * slope[h, p] ** 2
                scale = np.sqrt(square[h, p] / (1 - 0.999**made)) + 1e-30
                heads[h, p] -= 0.3 * mean[h, p] / (1 - 0.9**made) / scale


pair_counts = choose(fused_pair_counts, plain_pair_counts)
slopes = choose(fused_slopes, plain_slopes)

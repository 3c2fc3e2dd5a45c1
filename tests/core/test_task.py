import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parity_lib import Parity


def test_labels_are_the_product_of_signs_over_the_bits():
    task = Parity(5, (4, 2))
    x = torch.tensor([[0, 0, 0, 0, 0], [1, 0, 1, 0, 1], [0, 1, 0, 0, 0], [0, 1, 0, 1, 0]])
    assert task.bits == (2, 4)
    assert task.labels(x).tolist() == [1, 1, -1, 1]


@given(st.integers(2, 10), st.data())
def test_every_parity_is_balanced_and_the_cube_has_no_repeats(n, data):
    bits = data.draw(st.sets(st.integers(1, n), min_size=1))
    task = Parity(n, bits)
    cube = task.cube()
    assert cube.unique(dim=0).shape == (2**n, n)
    assert task.labels(cube).sum() == 0


def test_neighbours_are_counted_around_the_circle():
    assert Parity(20, (8, 11, 18)).neighbours == ()
    assert Parity(20, (5, 16, 17)).neighbours == ((16, 17),)
    assert Parity(12, (1, 12)).neighbours == ((12, 1),)
    assert Parity(2, (1, 2)).neighbours == ((1, 2),)


def test_random_parities_are_uniform_over_positions():
    generator = torch.Generator().manual_seed(0)
    counts = torch.zeros(6)
    for _ in range(600):
        counts[[bit - 1 for bit in Parity.random(6, 2, generator).bits]] += 1
    assert counts.min() > 150 and counts.max() < 250


@pytest.mark.parametrize(
    ("n", "bits", "sentence"),
    [
        (1, (1,), "n must be a whole number of at least 2, got 1"),
        (True, (1,), "n must be a whole number of at least 2, got True"),
        (2.0, (1,), "n must be a whole number of at least 2, got 2.0"),
        (float("nan"), (1,), "n must be a whole number of at least 2, got nan"),
        ("20", (1,), "n must be a whole number of at least 2, got '20'"),
        (20, (), "bits must be distinct positions in 1..20, got ()"),
        (20, 8, "bits must be distinct positions in 1..20, got 8"),
        (20, (8, 8, 18), "bits must be distinct positions in 1..20, got (8, 8, 18)"),
        (20, (0, 8), "bits must be distinct positions in 1..20, got (0, 8)"),
        (20, (8, 21), "bits must be distinct positions in 1..20, got (8, 21)"),
        (20, (8, 1.5), "bits must be distinct positions in 1..20, got (8, 1.5)"),
        (20, (8, float("nan")), "bits must be distinct positions in 1..20, got (8, nan)"),
        (3, (1, 2, 3, 4), "bits must be distinct positions in 1..3, got (1, 2, 3, 4)"),
    ],
)
def test_bad_tasks_are_refused_in_one_sentence(n, bits, sentence):
    with pytest.raises(ValueError) as error:
        Parity(n, bits)
    assert str(error.value) == sentence


def test_more_bits_than_positions_are_refused_when_drawing():
    with pytest.raises(ValueError, match=r"k must be a whole number in 1\.\.4, got 5"):
        Parity.random(4, 5, torch.Generator())


@pytest.mark.parametrize("kind", [np.int64, np.int32, torch.tensor, int])
def test_numbers_of_numpy_and_torch_are_numbers(kind):
    assert Parity(kind(20), [kind(8), kind(11)]) == Parity(20, (8, 11))
    assert Parity(20, np.array([8, 11])) == Parity(20, torch.tensor([8, 11])) == Parity(20, range(8, 12, 3))
    assert type(Parity(kind(20), [kind(8)]).n) is int and type(Parity(20, [kind(8)]).bits[0]) is int
    assert Parity.random(kind(9), kind(2), torch.Generator()).k == 2
    assert Parity(5, (1,)).sample(kind(3), torch.Generator()).shape == (3, 5)


@pytest.mark.parametrize("x", [[1.0, -1.0, 1.0], [0.0, 5.0, 0.0], [0.5, 0.0, 1.0], [1.0, 0.0, 0.5], [math.nan, 0, 0]])
def test_labels_of_inputs_that_are_not_bits_are_refused(x):
    with pytest.raises(ValueError, match=r"inputs must be 0 or 1, got (-1|5|0.5|nan)$"):
        Parity(3, (1, 2)).labels(torch.tensor([x]))
    assert Parity(3, (1, 2)).labels(torch.zeros(0, 3)).shape == (0,)
    assert Parity(3, (1, 2)).labels(torch.tensor([[True, False, True]])).tolist() == [-1]

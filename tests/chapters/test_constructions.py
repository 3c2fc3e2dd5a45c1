"""The encoders whose weights are written down compute what they are called, at every length."""

import numpy as np
import pytest
import torch

from parity_lib.chapters.boolean import cube, find_function
from parity_lib.chapters.constructions import CONSTRUCTED, construct
from parity_lib.chapters.encoder import Encoder, predictions
from parity_lib.chapters.sensitivity import every_weight

CLOSE = {"MEAN": 0.005}  # the count changes the scale of its norm a little


@pytest.mark.parametrize("name", CONSTRUCTED)
@pytest.mark.parametrize("n", [2, 4, 5, 7, 10])
def test_a_construction_is_right_on_every_input(name, n):
    x = cube(n, torch.float32)
    output = predictions(Encoder(n), construct(name, n).numpy(), x)
    assert np.abs(output - find_function(name)(x).numpy()).max() < CLOSE.get(name, 1e-3)


@pytest.mark.parametrize("name", CONSTRUCTED)
@pytest.mark.parametrize("n", [16, 33, 128, 512])
def test_a_construction_is_right_on_a_string_of_every_weight(name, n):
    x = every_weight(n)
    assert x.sum(1).tolist() == list(range(n + 1))
    output = predictions(Encoder(n), construct(name, n).numpy(), x)
    assert np.abs(output - find_function(name)(x).numpy()).max() < CLOSE.get(name, 1e-3)

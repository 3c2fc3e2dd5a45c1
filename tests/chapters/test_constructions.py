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
@pytest.mark.parametrize(("n", "every"), [(16, 1), (33, 1), (128, 1), (512, 32)])
def test_a_construction_is_right_on_strings_of_all_weights(name, n, every):
    x = every_weight(n)[::every]
    assert x.sum(1).tolist() == list(range(0, n + 1, every))
    output = predictions(Encoder(n), construct(name, n).numpy(), x)
    assert np.abs(output - find_function(name)(x).numpy()).max() < CLOSE.get(name, 1e-3)

"""Runs of encoders that nobody trained, for the tests of ``sensitivity``."""

import numpy as np
import torch

from parity_lib.chapters import boolean
from parity_lib.chapters.encoder import Encoder, Settings, Trained
from parity_lib.chapters.sensitivity import Measured


def made_up(names, loss, *, n=3, steps=200, seeds=None, **values):
    """Models with the given names and losses; a loss below 1e-3 fell after 100 steps; other values are random."""
    count, rng = len(names), np.random.default_rng(0)
    encoder, history = Encoder(n, 4), torch.full((steps, count), 0.25)
    history[100:, np.array(loss) < 1e-3] = 0.0
    rows, seeds = encoder.start(range(count)), tuple(range(count)) if seeds is None else tuple(seeds)
    trained = Trained(encoder, (boolean.parity,) * count, seeds, Settings(steps=steps), rows, history, rows[None])
    given = {name: rng.random(count) + 0.1 for name in ("sharpness", "sharpness_error", "blowup", "norm")}
    given |= {name: np.array(numbers, dtype=float) for name, numbers in values.items()}
    return Measured(tuple(names), trained, np.array(loss), **given)

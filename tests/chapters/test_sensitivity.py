"""The experiments of ``sensitivity``: what is trained, and what is measured at the end."""

import math

import numpy as np
import pytest
import torch
from runs import made_up

from parity_lib.chapters import boolean, sensitivity
from parity_lib.chapters.boolean import FUNCTIONS, cube
from parity_lib.chapters.encoder import Encoder, Settings, blowup, train_encoders


def test_blowup_is_measured_on_all_inputs_beyond_ten_bits():
    trained = train_encoders(Encoder(11, 4), [boolean.parity], [0], Settings(steps=2), keep_every=1)
    measured = sensitivity.measure(["PARITY"], trained, batches=2)
    whole = blowup(trained.encoder, trained.rows, cube(11))
    assert measured.blowup[0] == pytest.approx(float(whole[0]), rel=1e-6)
    assert measured.blowup[0] != pytest.approx(
        float(blowup(trained.encoder, trained.rows, cube(11)[:1024])[0]), rel=1e-6
    )
    followed = sensitivity.follow(measured, "PARITY", every=1, batches=2)
    assert followed.blowup[-1, 0] == pytest.approx(float(whole[0]), rel=1e-6)


def test_only_converged_runs_are_kept_and_numbers_are_rounded():
    measured = made_up(["PARITY", "PARITY", "FIRST"], [0.0, 0.2, 0.0], sharpness=[0.123456, 0.2, 0.3])
    assert measured.kept("PARITY", "sharpness").tolist() == [0.123456]
    assert measured.numbers()["sharpness"] == [0.1235, 0.2, 0.3]
    assert measured.product == pytest.approx(np.log10(measured.norm * measured.blowup**2))


def test_learning_steps_are_the_end_of_the_first_good_window():
    loss = torch.ones(200, 2)
    loss[100:, 0] = 0.001
    assert sensitivity.learning_steps(loss).tolist() == [150, math.inf]


def test_short_training_learns_the_easy_functions_and_a_short_parity():
    names = ["FIRST", "MEAN", "PARITY"]
    trained = train_encoders(Encoder(3, 16), [FUNCTIONS[name] for name in names], [0, 0, 0], Settings(steps=500))
    measured = sensitivity.measure(names, trained, batches=20)
    assert measured.converged.all()
    assert np.isfinite(measured.steps()).all()
    assert measured.kept("PARITY", "sharpness")[0] > 0


def test_more_labels_than_inputs_and_no_frame_are_refused():
    with pytest.raises(ValueError, match=r"labels must be in 1..16, the inputs of 4 bits, got 17"):
        sensitivity.fit_random_functions(4, 17, 2, Settings(steps=1), width=16)
    trained = sensitivity.train_named(3, {"FIRST": 1}, Settings(steps=2), 10, width=4, keep_every=5)
    with pytest.raises(ValueError, match=r"a training of 2 updates has no frame if one is kept every 5"):
        sensitivity.follow(trained, "FIRST", 5, 10)


def test_models_with_random_weights_are_measured_on_all_inputs():
    found = {kind: sensitivity.random_sensitivities(kind, 4, 1, "Xavier", 5) for kind in ("transformer", "LSTM")}
    assert all(values.shape == (5,) and ((values >= 0) & (values <= 1)).all() for values in found.values())
    again = sensitivity.random_sensitivities("LSTM", 4, 1, "Xavier", 5)
    assert np.array_equal(found["LSTM"], again)


def test_fits_reach_their_labels_and_are_compared_with_coins():
    fit = sensitivity.fit_random_functions(4, 8, 2, Settings(steps=400, position_scale=1.0), width=16)
    assert (fit.accuracy >= 7 / 8).all() and fit.learned.shape == fit.filled.shape == (2,)

"""The playground: one run, and sliders that train again when they are moved."""

import pytest

from parity_lib.chapters import playground
from parity_lib.figures.playground import pictures


def sketch(circle, risks):
    """Pictures at no cost: what they would be drawn from."""
    return circle.to_csv().encode(), risks.to_csv().encode()


def test_a_run_is_one_seed_of_thirty_frames():
    run = playground.play(8, (2, 6), 1.0, "repaired", 3)
    assert run.seeds == (3,) and run.attention.shape == (31, 1, 2, 8)
    circle, risks = playground.seen(run)
    assert len(circle) == 31 * 2 * 8 and len(risks) == 31
    with pytest.raises(ValueError, match=r"loss must be one of sigmoid_hinge, .*, got 'cross'"):
        playground.play(8, (2, 6), 1.0, "cross", 0)


def test_the_pictures_are_png():
    drawn = pictures(*playground.seen(playground.play(8, (2, 6), 1.0, "repaired", 3)))
    assert all(picture.startswith(b"\x89PNG") for picture in drawn)


def test_moving_a_slider_trains_again_and_a_wrong_value_is_explained():
    *controls, told, heads, circle = playground.sliders(8, (2, 6), 1.0, "repaired", 0, sketch).children
    n, bits, temperature, loss, seed = controls
    first = heads.value, circle.value
    seed.value = 1
    assert heads.value != first[0] and circle.value != first[1]
    bits.value = "3, 7"
    assert "the bits 3, 7 are" in told.value
    loss.value, temperature.value, n.value = "linear", 0.5, 9
    before = heads.value
    bits.value = "3, 12"
    assert told.value == "bits must be distinct positions in 1..9, got [3, 12]"
    bits.value = "3; 7"
    assert told.value == "bits must be positions with commas between them, got &#x27;3; 7&#x27;"
    assert heads.value == before

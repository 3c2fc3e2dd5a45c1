"""The playground: one run in words, and sliders that train again when they are moved."""

import pytest

from parity_lib.chapters import playground


def test_a_run_is_one_seed_and_says_what_became_of_the_bits():
    run = playground.play(8, (2, 6), 1.0, "repaired", 3)
    assert run.seeds == (3,) and run.attention.shape == (31, 1, 2, 8)
    assert playground.outcome(run).startswith("600 updates, risk ")
    assert playground.outcome(run).endswith("B = [2, 6] is found.")
    with pytest.raises(ValueError, match=r"loss must be one of sigmoid_hinge, .*, got 'cross'"):
        playground.play(8, (2, 6), 1.0, "cross", 0)


def test_moving_a_slider_trains_again_and_a_wrong_value_is_explained():
    *controls, told, heads, circle = playground.sliders(8, (2, 6), 1.0, "repaired", 0).children
    n, bits, temperature, loss, seed = controls
    first = heads.value, circle.value
    assert all(bytes(picture[:4]) == b"\x89PNG" for picture in first)
    seed.value = 1
    assert heads.value != first[0] and circle.value != first[1]
    bits.value = "3, 7"
    assert "B = [3, 7] is" in told.value
    loss.value, temperature.value, n.value = "linear", 0.5, 9
    before = heads.value
    bits.value = "3, 12"
    assert told.value == "bits must be distinct positions in 1..9, got (3, 12)"
    bits.value = "3; 7"
    assert told.value == "bits must be positions with commas between them, got &#x27;3; 7&#x27;"
    assert heads.value == before

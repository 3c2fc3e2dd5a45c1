"""Other functions of hidden bits with a fitted read-out."""

import pytest
import torch
from gradients import assert_gradient_matches_differences, random_heads

from parity_lib import Parity, soft_attention
from parity_lib.attention import aligned_directions
from parity_lib.chapters import sparse
from parity_lib.chapters.robustness import draw_sets, right_by_weights

TASK = Parity(8, (2, 4, 7))


@pytest.mark.parametrize("name", sparse.FUNCTIONS)
def test_targets_have_mean_zero_and_variance_one_and_see_only_their_bits(name):
    x = TASK.cube()
    values = sparse.target(name, TASK, x)
    assert float(values.mean()) == pytest.approx(0, abs=1e-12)
    assert float(values.square().mean()) == pytest.approx(1, abs=1e-12)
    flipped = x.clone()
    flipped[:, 0] = 1 - flipped[:, 0]
    assert torch.equal(values, sparse.target(name, TASK, flipped))


@pytest.mark.parametrize("name", sparse.FUNCTIONS)
@pytest.mark.parametrize("readout", sparse.READOUTS)
def test_heads_on_the_bits_explain_all_but_the_polynomial_of_the_sum(name, readout):
    x = TASK.cube()
    attention = soft_attention(1000 * aligned_directions(TASK.bits, 8), 8, 1.0).unsqueeze(0)
    left = float(sparse.unexplained(attention, x, sparse.target(name, TASK, x).unsqueeze(0), readout))
    if (name, readout) == ("polynomial", "sum"):
        assert left > 0.3  # it is not symmetric in its bits
    else:
        assert left == pytest.approx(0, abs=1e-4)


def test_the_fit_is_the_least_squares_fit():
    x = TASK.cube()
    attention = soft_attention(random_heads(1, 3, seed=4, norm=5.0), 8, 1.0)
    y = sparse.target("majority", TASK, x)
    phi = sparse.features((attention @ x.T).transpose(1, 2), "products")[0]
    rest = y - phi @ torch.linalg.lstsq(phi, y, driver="gelsd").solution
    found = float(sparse.unexplained(attention, x, y.unsqueeze(0), "products"))
    assert found == pytest.approx(float(rest.square().mean()), abs=1e-3)
    assert found >= float(rest.square().mean()) - 1e-9  # the ridge can only add


@pytest.mark.parametrize("readout", sparse.READOUTS)
def test_the_gradient_through_the_fit_matches_differences(readout):
    x = TASK.cube()
    targets = sparse.target("AND", TASK, x).expand(2, -1)
    assert_gradient_matches_differences(
        lambda a: sparse.unexplained(soft_attention(a, 8, 1.0), x, targets, readout),
        random_heads(2, 3, seed=1, norm=3.0),
        tolerance=1e-5,
    )


def test_majority_is_found_from_the_sum():
    tasks = draw_sets(8, 3, 4, 0, lambda task: not task.neighbours)
    attention, left = sparse.train_sparse("majority", tasks, "sum", updates=200)
    assert (left < 0.05).sum() >= 3
    assert right_by_weights(attention, tasks).sum() >= 3


def test_every_function_is_tried_with_every_read_out():
    frame = sparse.other_functions(6, 2, 2)
    assert frame.groupby(["function", "readout"]).size().tolist() == [2] * 8
    assert (frame["learned"] == (frame["unexplained"] < 0.05)).all()

"""The figures of ``robustness`` draw from small frames, and their titles are true of them."""

import numpy as np
import pandas as pd
import pytest

from parity_lib.chapters.robustness import LADDER
from parity_lib.figures import robustness as figures

pytestmark = pytest.mark.usefixtures("book_style")


def frame(count=8, **columns):
    """Rows for every combination of the columns, ``count`` each: the first three quarters succeed."""
    index = pd.MultiIndex.from_product([*columns.values(), range(count)], names=[*columns, "seed"])
    rows = index.to_frame(index=False)
    good = rows["seed"] < 3 * count // 4
    numbers = np.random.default_rng(0).random((len(rows), 2))
    truths = dict.fromkeys(("committed", "recovered", "by_weights", "proper", "drawn", "learned"), good)
    return rows.assign(**truths, weakest=numbers[:, 0], closed=numbers[:, 1], settled=10.0 + rows["seed"])


BY_K = pd.concat(
    [
        frame(recipe=["theory"], smoothing=[0.01, 0.2], k=[1, 2], neighbours=[False, True]),
        frame(recipe=["figure2-signed", "repaired"], smoothing=[0.01], k=[1, 2], neighbours=[False, True]),
    ]
)
DRAWN = {
    "by_k": (lambda: figures.by_k(BY_K), {"number of bits k"}),
    "by_distance": (
        lambda: figures.by_distance(frame(recipe=["figure2-signed", "repaired"], distance=[1, 2])),
        {"distance of the closest two bits on the circle"},
    ),
    "soft_and_hard": (
        lambda: figures.soft_and_hard(frame(kind=["apart", "around", "close"])),
        {"neighbours in B"},
    ),
    "by_temperature": (
        lambda: figures.by_temperature(
            frame(recipe=["figure2-signed", "repaired"], power=[-1.0, 0.0, 0.7], rate=["fixed", "proportional"])
        ),
        {"temperature"},
    ),
    "by_heads": (
        lambda: figures.by_heads(frame(heads=[1, 2, 3]), 2),
        {"heads (dotted: one a bit, 2)", "heads"},
    ),
    "by_batch": (
        lambda: figures.by_batch(frame(recipe=["figure2-signed", "product-head"], batch=[16, 64, 256]), 256),
        {"examples per update"},
    ),
    "by_length": (
        lambda: figures.by_length(frame(code=["circle", "powers"], n=[10, 100])),
        {"number of positions n"},
    ),
    "price": (
        lambda: figures.price(frame(k=[2, 3], n=[10, 100]).assign(gradient=0.1, price=100.0), {2: 2.0}),
        {"number of positions n"},
    ),
    "ladder": (
        lambda: figures.ladder(frame(step=list(LADDER), k=[2], neighbours=[False, True]), LADDER),
        {"% of runs"},
    ),
    "functions": (
        lambda: figures.functions(frame(function=["AND", "majority", "polynomial"], readout=["sum", "products"])),
        {"% of runs"},
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_the_figure_draws_with_its_labels(name):
    draw, labels = DRAWN[name]
    fig = draw()
    fig.canvas.draw()
    assert {ax.get_xlabel() for ax in fig.axes} == labels
    assert fig.get_suptitle()


def test_a_title_claims_its_finding_only_where_the_frame_bears_it_out():
    for success, claimed in ((True, True), (False, False)):
        rows = BY_K.assign(committed=np.where(BY_K["recipe"] == "repaired", success, False))
        assert (figures.by_k(rows).get_suptitle() == "Runs that commit, by number of bits") != claimed


def test_the_exact_gradient_is_a_dot_apart_from_the_line_of_the_batches():
    every = frame(recipe=["figure2-signed"], batch=[16, 64, 256, 1024, 2**20])
    ax = figures.by_batch(pd.concat([every, frame(recipe=["product-head"], batch=[16, 64, 256])]), 2**20).axes[0]
    lines = [line for line in ax.get_lines() if line.get_marker() == "o" and len(line.get_xdata())]
    joined = {tuple(np.round(line.get_xdata())): line.get_linestyle() for line in lines}
    assert joined == {(16, 64, 256, 1024): "-", (16, 64, 256): "None", (4096,): "None"}
    assert [label.get_text() for label in ax.get_xticklabels()] == ["16", "64", "256", "1 024", "all"]

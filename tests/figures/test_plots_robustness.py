"""The figures of ``robustness`` draw, and show the numbers they were given."""

import numpy as np
import pytest

from parity_lib.figures import robustness as figures
from parity_lib import wilson
from parity_lib.chapters.robustness import Bin, Success

pytestmark = pytest.mark.usefixtures("book_style")


def some(successes):
    return Success(wilson(successes + 1, 8), wilson(successes, 8))


def test_success_curves_draw_committed_shares_with_their_wilson_intervals():
    fig = figures.success_curves({"title": {"repaired": {1: some(2), 2: some(6)}}}, "k")
    container = fig.axes[0].containers[0]
    assert container[0].get_ydata().tolist() == [25, 75]
    ends = container[2][0].get_segments()[0][:, 1]
    assert ends.tolist() == pytest.approx([100 * wilson(2, 8).low, 100 * wilson(2, 8).high])


def test_dots_print_the_counts():
    fig = figures.dots({"row": {"a": wilson(7, 8), "b": wilson(0, 8)}}, ["a", "b"])
    assert [ax.texts[0].get_text() for ax in fig.axes] == ["7/8", "0/8"]


def test_the_other_figures_draw():
    rng = np.random.default_rng(0)
    rates = {1: wilson(0, 8), 3: wilson(8, 8)}
    bins = [Bin(0.2, wilson(1, 4)), Bin(0.9, wilson(4, 4))]
    lengths = [10, 100]
    drawn = [
        figures.success_curves({"a": {"theory": {0.1: some(1)}}, "b": {}}, "τ", log=True, ticks={0.1: "1/n"}),
        figures.by_heads(rates, rates, {1: rng.random(8), 3: rng.random(8)}, 3),
        figures.scale(
            lengths,
            2,
            {"circle": {10: some(3), 100: some(1)}},
            {"circle": {10: np.array([10.0, 20.0]), 100: np.array([np.inf, np.inf])}},
            {"k = 2": rng.random((2, 8))},
            {"k = 2": rng.random((2, 8))},
        ),
        figures.soft_and_hard({"apart": (rng.random(8), rng.random(8), rng.random(8) > 0.5)}),
        figures.reliability({"heads": {"as it is": bins, "calibrated": bins}}),
        figures.confirmation({2: wilson(32, 32)}),
    ]
    for fig in drawn:
        fig.canvas.draw()

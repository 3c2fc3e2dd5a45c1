"""The figures of ``sensitivity`` draw, show the numbers they were given, and bear runs that never converged."""

import numpy as np
import pytest
from runs import made_up

from parity_lib.figures import sensitivity as figures
from parity_lib.chapters.sensitivity import Course, Fit

pytestmark = pytest.mark.usefixtures("book_style")


def test_lengths_print_converged_of_started():
    names = ["PARITY", "PARITY", "FIRST", "MEAN", "MAJORITY"]
    results = {4: made_up(names, [0, 0.2, 0, 0, 0]), 6: made_up(names, [0.2, 0.2, 0, 0, 0])}
    fig = figures.against_length(results)
    fig.canvas.draw()
    assert [text.get_text() for text in fig.axes[0].texts] == ["1/2", "0/2"]
    dots = [line for line in fig.axes[0].lines if line.get_markersize() == 3.5]
    shown = np.concatenate([line.get_ydata() for line in dots])
    assert results[4].sharpness[0] in shown and results[4].sharpness[1] not in shown


def test_the_ladder_marks_runs_that_never_learn():
    fig = figures.bridge(made_up(["1", "1", "2", "2", "3", "3"], [0, 0, 0, 0.2, 0.2, 0.2]))
    fig.canvas.draw()
    lines = {line.get_label(): line for line in fig.axes[0].lines}
    assert lines["learned"].get_ydata().tolist() == [150, 150, 150]
    assert len(lines["never"].get_ydata()) == 3


def labels(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


@pytest.mark.parametrize("blowup, norm, marked", [([2.6, 1.4], [16, 18], "100"), ([400, 1.2], [8, 19], "$10^{4}$")])
def test_the_tradeoff_marks_lines_of_equal_product_and_has_plain_ticks(blowup, norm, marked):
    runs = {
        decay: made_up(["PARITY"], [0], blowup=[b], norm=[c])
        for decay, b, c in zip((0.3, 0), blowup, norm, strict=True)
    }
    fig = figures.tradeoff(runs)
    fig.canvas.draw()
    (ax,) = fig.axes
    assert marked in [text.get_text() for text in ax.texts] and len(ax.texts) >= 2
    assert len(labels(ax.yaxis)) >= 3 and not any("times" in text or "e" in text for text in labels(ax.yaxis))


def test_the_course_has_several_plain_ticks_where_blowup_hardly_moves():
    ramp = np.linspace(0.95, 1.85, 8).reshape(4, 2)
    fig = figures.course(Course(np.arange(1, 5), ramp, ramp, ramp, ramp), 6)
    fig.canvas.draw()
    assert {"1", "1.2", "1.4"} <= set(labels(fig.axes[2].yaxis))


def test_the_other_figures_draw():
    weights = {"FIRST": np.array([0, 1.0, 0]), "XOR": np.array([0, 0, 1.0])}
    ramp = np.linspace(0.1, 1, 8).reshape(4, 2)
    pair = ["PARITY", "FIRST"]
    drawn = [
        figures.spectra(weights, {"FIRST": 1.0, "XOR": 2.0}),
        figures.tradeoff({0.0: made_up(pair, [0, 0]), 0.1: made_up(pair, [0.2, 0.2])}),
        figures.course(Course(np.arange(1, 5), ramp, ramp, ramp, ramp), 6),
        figures.bias({32: Fit(np.ones(3), np.array([1.0, 2, 3]), np.array([4.0, 4, 4]))}, 8),
        figures.random_weights({"Xavier": {kind: {2: np.linspace(0, 0.5, 5)} for kind in ("transformer", "LSTM")}}),
    ]
    for fig in drawn:
        fig.canvas.draw()

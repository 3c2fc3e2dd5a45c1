"""Figures of the chapters on fixed heads and on parameter efficiency draw, and show the numbers they are given."""

import numpy as np
import pytest

from parity_lib.figures import fixed_attention as fixed
from parity_lib.figures import parameter_efficiency as efficiency
from parity_lib import wilson

RATES = [wilson(1, 4), wilson(4, 4)]
RUNS = np.array([[0.2, 0.4, 0.9], [0.8, 0.9, 1.0]])


pytestmark = pytest.mark.usefixtures("book_style")


def test_the_headline_draws_every_run_and_marks_chance():
    fig = fixed.risk_against_n([8, 12], {"fixed": RUNS, "learned": RUNS / 10}, {"fixed": RATES, "learned": RATES})
    left = fig.axes[0]
    dots = np.concatenate([line.get_ydata() for line in left.lines if line.get_marker() == "o"])
    assert sorted(dots) == sorted(RUNS.reshape(-1))
    assert "chance" in [text.get_text() for text in left.texts]


def test_the_bars_of_the_smallest_network_span_what_the_intervals_allow():
    column = {"width": [3, None], "width_low": [2, 1], "width_high": [5, None], "heads": [4, None]}
    panel = {**column, "heads_failed": [None, 4]}
    fig = efficiency.smallest_models([10, 20], {"k = 2": panel, "k = 3": panel})
    fig.canvas.draw()
    counts, widths = fig.axes[:2], fig.axes[2:]
    for ax, ends in [(counts[0], (4, 61)), (counts[1], (4, 61)), (widths[0], (2, 5)), (widths[1], (2, 5))]:
        low, high = ax.get_ylim()
        assert low <= ends[0] and high >= ends[1]


def test_marks_against_a_bound_stand_where_they_lie():
    groups = dict.fromkeys(("position", "token", "search", "climbed"), (RUNS[0], RUNS[1]))
    ax = fixed.bound_against_risk({"Corollary 20": groups}).axes[0]
    marks = [line for line in ax.lines if line.get_label() in groups]
    assert len(marks) == 4 and all(np.array_equal(line.get_xdata(), RUNS[0]) for line in marks)
    assert [line.get_markersize() for line in marks] == sorted({line.get_markersize() for line in marks}, reverse=True)


def test_the_other_figures_draw():
    grid = np.geomspace(0.01, 1, 5)
    panel = {"x": grid, "risk": grid, "grid": grid, "stated": grid, "repaired": grid, "pair": np.stack([grid, grid])}
    figures = [
        fixed.hard_risks({"token": RUNS}, {"token": RUNS}, np.ones(3), np.ones(3)),
        fixed.bound_against_risk({"Corollary 20": {"token": (grid, grid)}}),
        fixed.informative_heads([8, 16], [3, 4], [3, 7]),
        fixed.risk_against_norm({"m = 1": panel}),
        fixed.norm_needed([8, 12], RUNS, {"circle": RUNS, "random": RUNS}, 123.0),
        fixed.risk_against_heads([1, 4], {"mean": RUNS, "separate": RUNS}, "title"),
        efficiency.success_by_width([2, 4], {"k = 2": {"n = 10": RATES}}),
        efficiency.success_and_steps([10, 20], {"k": {"a": RATES}}, {"k": {"a": [np.array([50]), np.array([])]}}),
        efficiency.missing_edge(1 + grid, 1 + grid, np.arange(2), 1 + RUNS),
        efficiency.solver_times([10, 20], {"elimination": RUNS}),
    ]
    for fig in figures:
        fig.canvas.draw()

"""The verdicts of ``sensitivity`` follow their checks, outcome by outcome, and its sentences fit the runs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from runs import made_up

from parity_lib.chapters import sensitivity_summary as summary
from parity_lib import wilson
from parity_lib.evidence import Interval
from parity_lib.chapters.sensitivity import Course, Fit
from parity_lib.chapters.sensitivity_summary import Growth, Ladder, Lengths, Preference, Stage, Tradeoff

UP, LEVEL, DOWN = Interval(0.2, 0.1, 0.3), Interval(0.1, -0.1, 0.3), Interval(-0.2, -0.3, -0.1)


def test_slopes_and_intervals_are_the_textbooks():
    x, y = [1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 5.0]
    found = summary.slope(x, y)
    assert found.value == pytest.approx(1.1)
    assert (found.high - found.low) / 2 == pytest.approx(4.303 * math.sqrt(2.7 / 2 / 5), rel=1e-3)
    assert summary.slope([1, 1, 1], [1, 2, 3]) is None and summary.slope([1, 2], [1, 2]) is None
    assert summary.mean_interval(np.array([1.0, 3.0])).high == pytest.approx(2 + 12.7062)
    assert summary.rank_correlation([1, 2, 3, 4], [1, 4, 9, 99]) == pytest.approx(1)
    assert summary.rank_correlation([1, 1, 1], [1, 2, 3]) == 0


# sens-sharpness


def lengths(whole, beyond=None, parity=0.3, counts=(3, 3)):
    means = {4: {"PARITY": parity, "FIRST": 0.1, "MAJORITY": 0.2}, 6: {"PARITY": 0.4, "MEAN": 0.1}}
    counted = {n: {"PARITY": (count, 3)} for n, count in zip(means, counts, strict=True)}
    return Lengths(means, counted, {"sharpness": {"PARITY": Growth(whole, beyond)}})


@pytest.mark.parametrize(
    "found, verdict",
    [
        (lengths(UP), "holds"),
        (lengths(LEVEL), "holds with a change"),
        (lengths(None), "not tested"),  # too few runs for an interval
        (lengths(DOWN), "fails"),
        (lengths(UP, parity=0.19), "fails"),  # below MAJORITY at one length
        (lengths(UP, counts=(3, 0)), "not tested"),
        (replace(lengths(UP), sharpness={4: {"PARITY": 0.3}, 6: {"PARITY": 0.4}}), "not tested"),
    ],
)
def test_sharpness_is_judged_by_means_and_slope(found, verdict):
    assert summary.judge_sharpness(found).verdict == verdict


def test_parity_may_be_above_functions_whose_sharpness_is_not_above_zero():
    flat = replace(lengths(UP), sharpness={4: {"PARITY": 0.3, "FIRST": -0.01}, 6: {"PARITY": 0.4, "FIRST": 0.2}})
    assert flat.ratio == {6: pytest.approx(2)}
    assert summary.judge_sharpness(flat).verdict == "holds"


def test_sharpness_keeps_the_slope_without_the_shortest_length_beside_the_slope():
    decided = summary.judge_sharpness(lengths(UP, LEVEL))
    assert decided.verdict == "holds"
    assert decided.numbers["slope"] == str(UP) and decided.numbers["slope_without_shortest"] == str(LEVEL)
    assert decided.numbers["times_the_sharpest_easy"] == pytest.approx({4: 1.5, 6: 4})


def test_growth_that_stops_after_the_shortest_length_is_told_from_growth_that_goes_on():
    names, none = ["PARITY"] * 2, [0, 0]
    values = {4: [0.1, 0.11], 6: [0.3, 0.31], 8: [0.29, 0.3], 10: [0.31, 0.3]}
    results = {n: made_up(names, none, sharpness=pair) for n, pair in values.items()}
    found = summary.growth(results, "PARITY", "sharpness")
    assert found.resolved and not found.goes_on
    assert "may not go on" in found.words()
    later = summary.slope([6, 6, 8, 8, 10, 10], [0.3, 0.31, 0.29, 0.3, 0.31, 0.3])
    assert found.beyond == later
    assert Growth(UP, UP).words() == "grows with length, and goes on beyond the shortest"
    assert "no growth" in Growth(None, None).words() and "no growth" in Growth(DOWN, LEVEL).words()
    assert Growth(LEVEL, DOWN).words().endswith("falls beyond the shortest")
    assert "too few runs" in str(Growth(None, None))


def test_the_shortest_length_is_the_shortest_with_a_converged_run():
    results = {2: made_up(["PARITY"], [0.2]), 4: made_up(["PARITY"], [0]), 6: made_up(["PARITY"] * 3, [0, 0, 0])}
    found = summary.growth(results, "PARITY", "norm")
    assert found.whole is not None and found.beyond is None  # one length is left


def test_lengths_are_summed_up_by_function():
    names = ["PARITY", "PARITY", "FIRST"]
    found = summary.summarise_lengths(
        {
            4: made_up(names, [0, 0.2, 0], sharpness=[0.4, 9, 0.1]),
            6: made_up(names, [0.2, 0.2, 0], sharpness=[9, 9, 0.2]),
        }
    )
    assert found.sharpness == {4: {"PARITY": 0.4, "FIRST": 0.1}, 6: {"FIRST": 0.2}}
    assert found.counts == {4: {"PARITY": (1, 2), "FIRST": (1, 1)}, 6: {"PARITY": (0, 2), "FIRST": (1, 1)}}
    assert found.ratio == {4: pytest.approx(4)}
    assert "| PARITY | 0.400 (1/2) | (0/2) | too few runs | too few runs |" in found.table()


# sens-average


def ladder(steps, sharpness, follows=(0.9, 0.9)):
    n = len(steps)
    rates = {k: wilson(6, 6) for k in range(1, n + 1)}
    climb = dict(zip(("steps to learn", "sharpness"), follows, strict=True))
    return Ladder(n, climb, dict(enumerate(steps, 1)), rates, dict(enumerate(sharpness, 1)))


@pytest.mark.parametrize(
    "found, verdict, change",
    [
        (ladder([1, 2, 3], [1, 2, 3]), "holds", ""),
        (
            ladder([1, 5, 5, 3, 2], [1, 2, 3, 4, 5]),
            "holds with a change",
            "steps to learn and sharpness climb with k; full PARITY, though its minima are the sharpest, is learned "
            "sooner than k = 2, 3, 4 (most steps at k = 2, 3)",
        ),
        (
            ladder([1, 3, 3], [1, 3, 2]),
            "holds with a change",
            "steps to learn and sharpness climb with k; k = 2, 3 share the most steps; sharpest at k = 2, not n",
        ),
        (
            ladder([1, 2, 3], [1, 2, 3], (0.4, 0.9)),
            "holds with a change",
            "sharpness climbs with k; steps to learn with a rank correlation below 0.5",
        ),
        (ladder([1, 2, 3], [1, 2, 3], (0.4, 0.4)), "fails", ""),
    ],
)
def test_average_sensitivity_is_judged_by_correlations_and_tops(found, verdict, change):
    decided = summary.judge_average(found)
    assert (decided.verdict, decided.change) == (verdict, change)


def test_all_maxima_of_the_ladder_are_named():
    found = ladder([450, 2525, 2525, 1050], [0.1, 0.2, 0.3, 0.4])
    assert found.hardest == found.harder_than_all == (2, 3) and found.sharpest == (4,)
    assert "Most steps at k = 2, 3" in found.words()
    assert "sooner than k = 2, 3, although its minima are the sharpest" in found.words()
    assert "No k takes more steps" in ladder([1, 2], [1, 2]).words()
    assert "although" not in ladder([3, 2], [2, 1]).words()


def test_runs_that_never_learn_count_as_last_on_the_ladder():
    names = ["1", "1", "2", "2", "3", "3"]
    found = summary.summarise_ladder(made_up(names, [0, 0, 0, 0.2, 0.2, 0.2], sharpness=[1, 1, 2, 9, 9, 9]))
    assert found.steps == {1: 150, 2: math.inf, 3: math.inf} and found.hardest == (2, 3)
    assert found.correlation["steps to learn"] > 0.7 and found.sharpness == {1: 1, 2: 2}
    assert found.learned[2] == wilson(1, 2)
    assert found.numbers()["median_steps"] == {1: 150, 2: None, 3: None}
    assert summary.judge_average(found).verdict == "holds with a change"


# sens-tradeoff


def tradeoff(correlation=-0.9, runs=6, parity=2.0):
    products = {0.0: {"PARITY": 2.0, "FIRST": 1.0}, 0.1: {"PARITY": parity, "FIRST": 1.5}}
    follows = {"PARITY": correlation, "FIRST": -0.95}
    return Tradeoff(follows, {"PARITY": runs, "FIRST": 6}, products, {0.0: UP, 0.1: None})


@pytest.mark.parametrize(
    "found, slope, verdict, change",
    [
        (tradeoff(), UP, "holds", ""),
        (tradeoff(), LEVEL, "holds with a change", "without growth with length"),
        (tradeoff(parity=1.4), UP, "holds with a change", "without PARITY above FIRST at every weight decay"),
        (tradeoff(parity=None), UP, "holds with a change", "without PARITY above FIRST at every weight decay"),
        (
            tradeoff(parity=1.4),
            None,
            "holds with a change",
            "without PARITY above FIRST at every weight decay and growth with length",
        ),
        (tradeoff(correlation=-0.7), UP, "fails", ""),
        (tradeoff(runs=5), UP, "not tested", ""),
    ],
)
def test_the_tradeoff_is_judged_by_its_three_parts(found, slope, verdict, change):
    decided = summary.judge_tradeoff(found, Growth(slope, LEVEL))
    assert (decided.verdict, decided.change) == (verdict, change)
    assert decided.numbers["correlation_of_FIRST"] == -0.95
    assert decided.numbers["slope_without_shortest"] == str(LEVEL)
    assert decided.numbers["difference"] == {0.0: str(UP), 0.1: "too few runs"}


def test_products_are_paired_by_seed_among_converged_runs():
    names = ["PARITY"] * 3 + ["FIRST"] * 3
    seeds = [0, 1, 2, 0, 1, 2]
    runs = made_up(names, [0, 0, 0.2, 0, 0, 0], seeds=seeds, blowup=[1] * 6, norm=[100, 1000, 10, 10, 10, 10**6])
    found = summary.summarise_tradeoff({0.1: runs})
    assert found.runs == {"PARITY": 2, "FIRST": 3}
    assert found.differences[0.1] == summary.mean_interval(np.array([1.0, 2.0]))  # the third pair has no PARITY
    assert found.products[0.1] == pytest.approx({"PARITY": 2.5, "FIRST": 8 / 3})
    assert not found.above and found.apart == []
    assert "2.50 against 2.67 at 0.1 (difference 1.5 [" in found.words()
    stuck = summary.summarise_tradeoff({0.1: made_up(names, [0.2] * 6, seeds=seeds)})
    assert stuck.products[0.1] == {"PARITY": None, "FIRST": None} and stuck.differences[0.1] is None
    assert "none against none at 0.1 (difference too few runs)" in stuck.words()


# PARITY over time


def test_the_course_tells_solved_halfway_and_stuck_runs_apart():
    loss = np.array([[0.25, 0.25, 0.25], [0.1, 0.25, 0.25], [0.001, 0.02, 0.25]])
    sharp = np.array([[0.1, 0.1, 0.02], [0.2, 0.1, 0.02], [0.3, 0.4, 0.02]])
    stages = summary.summarise_course(Course(np.array([10, 20, 30]), loss, sharp, sharp, sharp))
    assert stages[0] == Stage(True, 30, pytest.approx(0.1), pytest.approx(0.3), 0.001, 0.3)
    assert stages[1].left and stages[1].solved is None and stages[1].sharpness == 0.4
    assert not stages[2].left and stages[2].plateau == pytest.approx(0.02)
    text = summary.describe_course(stages)
    assert "off the plateau (loss below 0.2): 2 of 3 runs; solved (below 0.01): 1, after 30 updates." in text
    assert "0.100 and 0.300; it is higher once solved in 1 of 1" in text
    assert "loss 0.02 with sharpness 0.400" in text
    assert "mean sharpness 0.020, flatter than any solved run" in text
    assert "flatter" not in summary.describe_course(stages[1:])
    assert "Still on the plateau" not in summary.describe_course(stages[:2])


# sens-bias


def preference(difference, transformer, fitted=3):
    lstm = Interval(0.4, 0.35, 0.45)
    by_layers = {"transformer": {1: lstm, 2: transformer}, "LSTM": {1: lstm, 2: lstm}}
    starts = dict.fromkeys((*summary.WIDE, "Xavier"), by_layers)
    return Preference({16: difference, 32: LEVEL}, {16: wilson(fitted, 3), 32: wilson(1, 3)}, starts)


LOW, HIGH = Interval(0.1, 0.05, 0.15), Interval(0.3, 0.2, 0.4)


@pytest.mark.parametrize(
    "found, verdict, change",
    [
        (preference(DOWN, LOW), "holds", ""),  # K = 32 does not count, as most of its fits stop short
        (preference(LEVEL, LOW), "holds with a change", "only with random weights"),
        (preference(DOWN, LOW, fitted=1), "holds with a change", "only with random weights"),
        (preference(DOWN, HIGH), "holds with a change", "only trained on labels"),
        (preference(LEVEL, HIGH), "fails", ""),
    ],
)
def test_the_preference_is_judged_by_labels_and_by_random_weights(found, verdict, change):
    decided = summary.judge_bias(found)
    assert (decided.verdict, decided.change) == (verdict, change)


def test_the_preference_names_the_layers_with_a_gap():
    draws = {
        "transformer": {1: [0.2, 0.4, 0.3], 2: [0.1, 0.11, 0.12]},
        "LSTM": {1: [0.2, 0.4, 0.3], 2: [0.4, 0.41, 0.42]},
    }
    untrained = {"Xavier": {kind: {size: np.array(v) for size, v in by.items()} for kind, by in draws.items()}}
    fits = {16: Fit(np.array([1, 0.9, 1]), np.array([1.0, 2, 3]), np.array([4.0, 4, 4]))}
    found = summary.summarise_preference(fits, untrained)
    assert found.gaps("Xavier") == (2,)
    assert found.fitted[16] == wilson(2, 3) and found.differences[16].value == pytest.approx(-2)

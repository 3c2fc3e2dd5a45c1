"""The verdicts of ``sensitivity`` follow their checks, outcome by outcome."""

import math

import numpy as np
import pandas as pd
import pytest

from parity_lib.chapters import sensitivity_summary as summary

LENGTHS = (4, 8, 12)


def test_slopes_and_intervals_are_the_textbooks():
    found = summary.slope([1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 5.0])
    assert found.value == pytest.approx(1.1)
    assert (found.high - found.low) / 2 == pytest.approx(4.303 * math.sqrt(2.7 / 2 / 5), rel=1e-3)
    assert summary.slope([1, 1, 1], [1, 2, 3]) is None and summary.slope([1, 2], [1, 2]) is None
    assert summary.mean_interval([1.0, 3.0]).high == pytest.approx(2 + 12.7062)
    assert summary.mean_interval([1.0]).low == -math.inf
    assert summary.rank_correlation([1, 2, 3, 4], [1, 4, 9, 99]) == pytest.approx(1)
    assert summary.rank_correlation([1, 1, 1], [1, 2, 3]) == 0


def runs(parity, easy=(0.05, 0.05, 0.05), converged=(True, True, True), column="sharpness"):
    """Two PARITY runs and one of each easy function at every length, whose values these are."""
    rows = []
    for n, hard, soft, there in zip(LENGTHS, parity, easy, converged, strict=True):
        rows += [{"n": n, "function": "PARITY", "converged": there, column: hard + shift} for shift in (-0.01, 0.01)]
        rows += [{"n": n, "function": name, "converged": True, column: soft} for name in ("FIRST", "MEAN", "MAJORITY")]
    return pd.DataFrame(rows)


def flat(parity, first=0.01, error=0.001):
    pair = (("PARITY", parity), ("FIRST", first))
    rows = [{"n": 8, "function": name, "sharpness": value, "error": error} for name, value in pair]
    alone = {"n": 16, "function": "PARITY", "sharpness": 0.0, "error": 0.0}  # without a FIRST nothing is compared
    return pd.DataFrame([*rows, alone])


def test_two_flattest_are_told_apart_by_two_standard_errors():
    assert [summary.sharper_than_first(flat(parity, error=0.003)).to_dict() for parity in (0.015, 0.02)] == [
        {8: False}, {8: True}
    ]  # fmt: skip


@pytest.mark.parametrize(
    "trained, noisy, verdict",
    [
        (runs((0.1, 0.2, 0.3)), flat(0.05), "holds"),
        (runs((0.1, 0.2, 0.3)), flat(0.011), "narrower range"),  # flat PARITY exists
        (runs((0.1, 0.2, 0.3)), flat(0.02, error=0.01), "narrower range"),  # within the errors
        (runs((0.1, 0.2, 0.3), easy=(0.05, 0.25, 0.05)), flat(0.05), "fails"),
        (runs((0.2, 0.2, 0.2)), flat(0.05), "open"),  # no growth resolved
        (runs((0.1, 0.2, 0.3), converged=(True, True, False)), flat(0.05), "open"),
    ],
)
def test_sharpness_is_judged_by_means_slope_and_the_flattest(trained, noisy, verdict):
    assert summary.judge_sharpness(trained, noisy).as_stated == verdict


@pytest.mark.parametrize(
    "trained, verdict",
    [
        (runs((2.4, 2.6, 2.8), (2.3, 2.3, 2.3), column="least"), "holds"),
        (runs((2.6, 2.6, 2.6), (2.3, 2.3, 2.3), column="least"), "narrower range"),
        (runs((2.4, 2.6, 2.8), (2.3, 2.7, 2.3), column="least"), "narrower range"),
        (runs((2.6, 2.6, 2.6), (2.7, 2.3, 2.3), column="least"), "fails"),
        (runs((2.4, 2.6, 2.8), (2.3, 2.3, 2.3), (True, True, False), column="least"), "open"),  # four runs
    ],
)
def test_the_tradeoff_is_judged_by_the_least_product(trained, verdict):
    found = summary.judge_tradeoff(trained)
    assert found.as_stated == verdict
    assert verdict != "narrower range" or found.instead.startswith("Of the two parts one: ")


def test_means_counts_and_leads_are_those_of_converged_runs():
    trained = runs((0.1, 0.2, 0.3), converged=(True, True, False))
    assert summary.means(trained, "sharpness")["PARITY"].dropna().to_dict() == pytest.approx({4: 0.1, 8: 0.2})
    assert summary.above_easy(trained, "sharpness").to_dict() == pytest.approx({4: 0.05, 8: 0.15})
    assert summary.sharpness_table(trained, "n")["PARITY converged"].to_dict() == {4: "2/2", 8: "2/2", 12: "0/2"}
    assert summary.growth(trained, "FIRST", "sharpness").value == pytest.approx(0)


def ladder(steps, sharpness):
    rows = [(k, learned, sharp) for k, (learned, sharp) in enumerate(zip(steps, sharpness, strict=True), 1)] * 3
    frame = pd.DataFrame(rows, columns=["k", "learned", "sharpness"])
    return frame.assign(converged=np.isfinite(frame["learned"]))


@pytest.mark.parametrize(
    "found, verdict, said",
    [
        (ladder([1, 2, 3, 4], [1, 2, 3, 4]), "holds", ""),
        (ladder([1, 3, 5, 4], [1, 2, 3, 4]), "narrower range", "the steps to learn climb with k, but not to the end"),
        (ladder([1, 2, 3, math.inf], [4, 3, 2, 1]), "narrower range", "The steps to learn climb with k"),
        (ladder([4, 3, 2, 1], [4, 3, 2, 1]), "fails", ""),
    ],
)
def test_the_ladder_must_climb_in_steps_and_sharpness_and_end_at_n(found, verdict, said):
    judged = summary.judge_average(found, 10)
    assert judged.as_stated == verdict and said in judged.instead


def bias(learned=1.0, accuracy=1.0, refitted=0.1, below=(True, True)):
    functions = range(4)
    fits = pd.DataFrame(
        [
            {"labels": 8, "function": i, "accuracy": accuracy, "learned": learned + 0.01 * i, "filled": 2.0}
            for i in functions
        ]
    )
    refits = pd.DataFrame(
        [
            {"table": table, "function": i, "converged": True, "sharpness": value + 0.001 * i * (table == "learned")}
            for i in functions
            for table, value in (("learned", refitted), ("filled by coins", 0.3))
        ]
    )
    untrained = pd.DataFrame(
        [
            {
                "kind": kind,
                "start": "Xavier",
                "layers": layers,
                "sensitivity": 0.01 * i + (0.5 if kind == "LSTM" and low else 0),
            }
            for layers, low in zip((1, 2), below, strict=True)
            for kind in ("transformer", "LSTM")
            for i in functions
        ]
    )
    return fits, refits, untrained


@pytest.mark.parametrize(
    "frames, verdict, said",
    [
        (bias(), "holds", ""),
        (bias(below=(False, True)), "narrower range", "only with 2 layers"),
        (bias(refitted=0.4), "narrower range", "True of functions learned from labels"),
        (bias(learned=2.5), "fails", ""),
        (bias(accuracy=0.9), "open", ""),
        ((bias()[0], bias()[1].query("table == 'learned'"), bias()[2]), "narrower range", "True of functions learned"),
        ((bias()[0], bias()[1].assign(converged=False), bias()[2]), "narrower range", "True of functions learned"),
    ],
)
def test_the_bias_is_judged_by_labels_tables_and_random_weights(frames, verdict, said):
    judged = summary.judge_bias(*frames)
    assert judged.as_stated == verdict and said in judged.instead


@pytest.mark.parametrize(
    "right, sharpness, alone, verdict, said",
    [
        (1.0, 0.04, math.inf, "holds", ""),
        (1.0, 0.09, math.inf, "narrower range", "not everywhere flatter."),
        (1.0, 0.04, 300, "narrower range", "so is the answer alone."),
        (0.9, 0.04, math.inf, "fails", ""),
    ],
)
def test_the_scratchpad_must_be_right_and_flat_where_the_answer_alone_is_not_learned(
    right, sharpness, alone, verdict, said
):
    pads = pd.DataFrame({"n": [8, 8], "right": [1.0, right], "sharpness": sharpness, "trial": False})
    tried = pd.DataFrame({"n": [8], "right": [0.0], "sharpness": 1.0, "trial": True})  # must not count
    plain = pd.DataFrame({"n": [4, 8, 8, 32], "learned": [100, alone, math.inf, math.inf]})  # nor n = 32
    judged = summary.judge_scratchpad(pd.concat([pads, tried]), runs((0.05, 0.1, 0.2)), plain)
    assert judged.as_stated == verdict and judged.instead.endswith(said)


def test_tables_of_variants_count_and_compare():
    frame = pd.DataFrame(
        {
            "variant": ["a", "a", "a", "b", "b"],
            "function": ["PARITY", "PARITY", "FIRST", "PARITY", "FIRST"],
            "converged": [True, False, True, False, True],
            "sharpness": [0.4, 9.0, 0.1, 9.0, 0.2],
        }
    )
    table = summary.sharpness_table(frame, "variant")
    assert list(table["PARITY converged"]) == ["1/2", "0/1"] and table["sharpness of FIRST"]["b"] == "0.200"
    assert table["sharpness of PARITY"]["b"] == ""
    assert summary.lead(frame, "variant").to_dict() == {"a": pytest.approx(4)}
    wide = frame[:3].assign(n=8, width=64)
    easy = pd.concat([wide[2:].assign(function=name, sharpness=s) for name, s in (("MEAN", 0.2), ("MAJORITY", 0.05))])
    assert summary.sharpness_table(wide, ["n", "width"]).index.names == ["n", "width"]
    assert summary.lead(pd.concat([wide, easy]), ["n", "width"]).to_dict() == {(8, 64): pytest.approx(2)}


def test_ranks_are_over_converged_runs_alone():
    frame = pd.DataFrame({"sensitivity": [1, 2, 3, 4], "converged": [True, True, True, False]})
    frame = frame.assign(sharpness=[1.0, 2.0, 3.0, 0.0], blowup=[3.0, 2.0, 1.0, 9.0], least=1.0)
    assert summary.sensitivity_ranks(frame) == {"sharpness": pytest.approx(1), "blowup": pytest.approx(-1), "least": 0}

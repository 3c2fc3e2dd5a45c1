"""A run is held to the reference value by value, and a different run to what can be the same."""

from pathlib import Path

import pytest

from parity_lib import record, wilson
from parity_lib.evidence import ResultsError, Verdict
from parity_lib.build.verify import report, table, verify

NUMBERS = {"risk": 0.25, "curve": [1.0, 3e-14], "rate": wilson(60, 64), "budget": "600 steps", "none": None}
VERDICTS = {
    "fig2-left": Verdict("holds with a change", {"share": 0.9}, "another loss"),
    "lemma-8": Verdict("fails", {}),
}
EMPTY = '{"notebook": "one", "parameters": {}, "numbers": {}, "claims": {}}'


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write the results of a chapter of a run: the reference's, but for what is named."""

    def write(run, chapter="one", parameters=None, verdicts=None, **numbers):
        monkeypatch.setenv("PARITY_OUT", str(tmp_path / run / "results"))
        record(chapter, parameters or {"n": 20}, NUMBERS | numbers, VERDICTS | (verdicts or {}))
        return tmp_path / run

    write("reference")
    return write


def the_only(run: Path):
    (comparison,) = verify(run, run.parent / "reference")
    return comparison


def test_the_same_run_agrees_in_every_value(write):
    found = the_only(write("run"))
    assert found.parameters == "same" and found.agree == 11  # 6 numbers and none, 5 parts of two verdicts
    assert (found.moved, found.differences, found.skipped) == ((), (), 0)


@pytest.mark.parametrize("changed", [{"risk": 0.25 * (1 + 1e-7)}, {"curve": [1.0, -5e-13]}, {"rate": wilson(6, 8)}])
def test_rounding_and_overlapping_intervals_are_no_difference(write, changed):
    assert the_only(write("run", **changed)).differences == ()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"risk": 0.2501}, "numbers, risk: 0.2501, in the reference 0.25"),
        ({"curve": [1.0, 1e-9]}, "numbers, curve, 1: 1e-09, in the reference 3e-14"),
        ({"curve": [1.0]}, "numbers, curve, 1: absent, in the reference 3e-14"),
        ({"more": 1}, "numbers, more: 1, in the reference absent"),
        ({"rate": wilson(30, 64)}, "numbers, rate: 30 of 64 [35%, 59%], in the reference 60 of 64 [85%, 98%]"),
        ({"rate": {"low": None, "high": 1, "successes": 1, "trials": 1}}, "numbers, rate, low: None, in the reference"),
        ({"rate": 0.9}, "numbers, rate: 0.9, in the reference 60 of 64 [85%, 98%]"),
        ({"budget": "700 steps"}, "numbers, budget: 700 steps, in the reference 600 steps"),
        ({"none": 0.0}, "numbers, none: 0, in the reference None"),
        ({"verdicts": {"lemma-8": Verdict("holds", {})}}, "claims, lemma-8, verdict: holds, in the reference fails"),
        ({"verdicts": {"lemma-8": Verdict("not tested", {})}}, "lemma-8, verdict: not tested, in the reference fails"),
        ({"verdicts": {"lemma-7": Verdict("holds", {})}}, "claims, lemma-7, verdict: holds, in the reference absent"),
    ],
)
def test_a_value_that_should_be_the_same_and_is_not_is_named(write, changed, sentence):
    differences = the_only(write("run", **changed)).differences
    assert sentence in "\n".join(map(str, differences))


def test_with_other_parameters_only_verdicts_count_and_rates_are_shown(write):
    found = the_only(write("run", parameters={"n": 24, "k": 3}, risk=9.0, curve=[1.0], rate=wilson(5, 8)))
    assert found.parameters == "other" and found.changed == ("k", "n")
    assert found.agree == 3 and found.skipped == 8 and found.differences == found.moved == ()

    found = the_only(write("run", parameters={"n": 24}, rate=wilson(1, 8)))
    assert [difference.where for difference in found.moved] == ["numbers, rate"] and not found.differences

    undecided = {"fig2-left": Verdict("not tested", {}), "lemma-8": Verdict("vacuous here", {})}
    found = the_only(write("run", parameters={"n": 24}, verdicts=undecided))
    assert [difference.where for difference in found.differences] == ["claims, lemma-8, verdict"]
    write("reference", parameters={"n": 8}, verdicts={"lemma-8": Verdict("not tested", {})})
    assert the_only(write("run")).differences == ()


def test_what_holds_may_hold_with_a_change_at_other_sizes_and_not_at_the_same(write):
    changed, moved = {"lemma-8": Verdict("holds with a change", {}, "not resolved")}, ["claims, lemma-8, verdict"]
    write("reference", verdicts={"lemma-8": Verdict("holds", {})})
    found = the_only(write("run", parameters={"n": 8}, verdicts=changed))
    assert [difference.where for difference in found.moved] == moved and found.differences == ()
    found = the_only(write("run", verdicts=changed))
    assert [difference.where for difference in found.differences][-1:] == moved and found.moved == ()


def test_numbers_that_amplify_rounding_may_move_and_verdicts_may_not(write):
    write("reference", "sensitivity")
    fails = {"fig2-left": Verdict("fails", {"share": 0.1})}
    (found,) = verify(write("run", "sensitivity", verdicts=fails, risk=0.3), write("reference", "sensitivity"))
    moved, differs = ([value.where for value in part] for part in (found.moved, found.differences))
    assert moved == ["claims, fig2-left, change", "claims, fig2-left, numbers, share", "numbers, risk"]
    assert differs == ["claims, fig2-left, verdict"]


def test_only_the_named_numbers_of_a_chapter_may_move(write):
    write("reference", chapter="figure2", median_risk=[1.0, 2.0], shared_direction={"rate": wilson(60, 64)})
    run = write("run", chapter="figure2", median_risk=[1.0, 2.5], shared_direction={"rate": wilson(6, 64)}, risk=1.0)
    (found,) = verify(run, run.parent / "reference")
    assert [difference.where for difference in found.moved] == ["numbers, median_risk, 1"]
    assert [difference.where for difference in found.differences] == [
        "numbers, risk",
        "numbers, shared_direction, rate",
    ]


def test_a_chapter_that_the_reference_lacks_is_not_compared(write):
    write("run")
    found = verify(write("run", chapter="two"), write("reference"))
    assert [comparison.parameters for comparison in found] == ["same", "not in reference"]
    assert found[1].skipped == 11


def test_the_ledger_is_not_compared_and_a_bare_folder_of_results_is_a_run(write):
    run = write("run", chapter="ledger")
    with pytest.raises(ResultsError, match="there are no results in"):
        verify(run, write("reference"))
    write("run")
    assert [comparison.chapter for comparison in verify(run / "results", write("reference"))] == ["one"]


def test_what_cannot_be_compared_is_refused_in_one_sentence(write, tmp_path):
    reference = write("reference")
    with pytest.raises(ResultsError, match=r"there is no run in .*nowhere"):
        verify(tmp_path / "nowhere", reference)
    with pytest.raises(ResultsError, match=r"there are no results of two in .*; run the chapters first"):
        verify(write("run"), reference, ["one", "two", "ledger"])
    with pytest.raises(ResultsError, match="to compare with"):
        (tmp_path / "empty").mkdir()
        verify(write("run"), tmp_path / "empty")
    results = tmp_path / "run/results/one.json"
    for text, sentence in [
        ("{", "one.json is not readable as JSON"),
        ("[]", "must hold notebook, parameters, numbers, claims; notebook is missing"),
        (EMPTY.replace("one", "two"), "one.json holds the results of 'two'"),
        (EMPTY.replace('"numbers": {}', '"numbers": {"a": NaN}'), "numbers must be finite, got NaN"),
        (EMPTY.replace('"claims": {}', '"claims": {"a": {}}'), "decides 'a', which is not among the claims"),
    ]:
        results.write_text(text)
        with pytest.raises(ResultsError, match=sentence):
            verify(tmp_path / "run", reference)


def test_the_report_is_short_unless_asked(write):
    run = write("run", **{f"new {i}": i for i in range(12)})
    comparisons = verify(run, write("reference"))
    lines = report(comparisons).splitlines()
    assert lines[0].split() == ["chapter", "parameters", "compared", "agree", "moved", "differ", "skipped"]
    assert lines[1].split() == ["one", "same", "23", "11", "0", "12", "0"]
    assert lines[2].split() == ["all", "23", "11", "0", "12", "0"] and table(comparisons)[1][0] == "all"
    assert len(lines) == 2 + 2 + 10 + 1 and lines[-1] == "and 2 more, which --verbose lists"
    assert len(report(comparisons, verbose=True).splitlines()) == 2 + 2 + 12
    moved = verify(write("run", parameters={"n": 24}, rate=wilson(1, 8)), write("reference"))
    assert report(moved).count("\n") == 2
    assert "one has other parameters: n" in report(moved, verbose=True)
    assert "one moved: numbers, rate: 1 of 8" in report(moved, verbose=True)

"""Rates, verdicts, sentences under test, and what a chapter leaves behind."""

import json
import math

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parity_lib import evidence, record, tell, wilson
from parity_lib.evidence import FalseSentenceError, Interval, Verdict, rate, rates


@given(st.integers(1, 500), st.data())
def test_wilson_is_the_closed_form(trials, data):
    successes = data.draw(st.integers(0, trials))
    z = 1.959963984540054
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials**2))
    found = wilson(successes, trials)
    assert found.low == pytest.approx(max(0, centre - half), abs=1e-9)
    assert found.high == pytest.approx(min(1, centre + half), abs=1e-9)


def test_rates_print_as_k_of_n_with_the_interval():
    assert str(wilson(44, 64)) == "44 of 64 [57%, 79%]"
    assert str(Interval(0.015, 0.004, 0.026)) == "0.015 [0.004, 0.026]"


@pytest.mark.parametrize(("successes", "trials"), [(1, 0), (-1, 3), (4, 3), (0.5, 1), ("a", 2)])
def test_impossible_counts_are_refused(successes, trials):
    with pytest.raises(ValueError, match="must be a whole number"):
        wilson(successes, trials)


def test_rates_are_compared_by_their_ends():
    assert wilson(30, 64).overlaps(wilson(40, 64)) and not wilson(0, 64).overlaps(wilson(64, 64))


def test_truth_values_of_any_kind_are_counted():
    assert rate([True, False, True]) == rate(torch.tensor([True, False, True])) == wilson(2, 3)
    frame = pd.DataFrame({"recipe": list("bbaa"), "n": [8, 8, 8, 8], "committed": [True, False, True, True]})
    by_recipe = rates(frame, "recipe")
    assert by_recipe["recipe"].tolist() == ["b", "a"]  # in the order of the frame
    assert by_recipe[["successes", "trials"]].values.tolist() == [[1, 2], [2, 2]]
    assert by_recipe["low"].tolist() == [wilson(1, 2).low, wilson(2, 2).low]
    assert rates(frame, ["recipe", "n"])["n"].tolist() == [8, 8]


def test_of_no_runs_the_rate_is_0_of_0_which_lies_neither_above_nor_below_anything():
    none = rate([])
    assert (none.successes, none.trials, none.low, none.high) == (0, 0, 0.0, 1.0) and math.isnan(none.share)
    assert tell("{x:percent}, {x:count}", holds=False, x=none).text == "nan %, 0 of 0"


def test_a_verdict_says_which_word_it_does_not_know_and_what_holds_instead():
    assert str(Verdict("holds", "proved", {})) == "holds"
    for as_stated, kind, sentence in [
        ("true", "proved", "unknown verdict 'true'; known: holds, narrower range, misprint, fails, open"),
        ("holds", "seen", "unknown kind of evidence 'seen'; known: proved, certified, exact, measured"),
        ("misprint", "exact", "the verdict 'misprint' must say what holds instead"),
        ("narrower range", "exact", "the verdict 'narrower range' must say what holds instead"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            Verdict(as_stated, kind, {})


def test_a_sentence_is_filled_in_with_words_for_numbers():
    told = tell("{share:percent} of runs, {share:count},\n  after {t:power}\n updates, {x:.2f}.", holds=True,
                share=wilson(59, 64), t=98_000, x=1 / 3)  # fmt: skip
    assert told._repr_markdown_() == "92 % of runs, 59 of 64, after 10⁵ updates, 0.33."
    assert tell("{x:percent} and {y:power}", holds=True, x=0.5, y=2e-8).text == "50 % and 10⁻⁸"


def test_a_false_sentence_is_an_error_in_the_books_own_build_and_marked_elsewhere(monkeypatch):
    told = tell("{x} is large.", holds=False, x=1)
    assert told._repr_markdown_() == "*Not in this run, whose numbers are:* 1 is large."
    monkeypatch.setattr(evidence, "strict", True)
    with pytest.raises(FalseSentenceError, match="not true of this run: 1 is large"):
        tell("{x} is large.", holds=False, x=1)
    assert tell("{x} is large.", holds=True, x=1).holds


def test_a_chapter_leaves_verdicts_and_tables_the_same_every_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"recipe": ["a", "b"], "risk": [0.5, 0.25], "committed": [True, False]})
    numbers = {"risk": torch.tensor([0.5, 0.25]), "rate": wilson(1, 2), "by_k": {2: 0.5}, "bits": (1, 2)}
    for _ in range(2):
        record("toy", {"expr-ffnn": Verdict("misprint", "exact", numbers, "a minus sign")}, toy_risk=frame)
        first = (tmp_path / "results/toy.json").read_bytes()
    assert first == (tmp_path / "results/toy.json").read_bytes()
    content = json.loads(first)
    found = content["claims"]["expr-ffnn"]
    assert content["chapter"] == "toy" and content["tables"] == ["toy_risk"]
    assert (found["as_stated"], found["kind"], found["instead"]) == ("misprint", "exact", "a minus sign")
    assert found["numbers"]["risk"] == [0.5, 0.25] and found["numbers"]["by_k"] == {"2": 0.5}
    assert found["numbers"]["rate"]["successes"] == 1 and found["numbers"]["bits"] == [1, 2]
    table = tmp_path / "tables/toy/toy_risk.csv"
    assert table.read_text() == "recipe,risk,committed\na,0.5,True\nb,0.25,False\n"
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["toy.json", "toy_risk.csv"]


@pytest.mark.parametrize("bad", [math.nan, [1.0, math.inf], {"a": torch.tensor(math.nan)}])
def test_results_that_are_no_numbers_are_an_error_in_the_books_own_build_and_none_elsewhere(tmp_path, monkeypatch, bad):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evidence, "strict", True)
    with pytest.raises(ValueError, match="results must be finite numbers"):
        record("toy", {"expr-ffnn": Verdict("holds", "exact", {"risk": bad})})
    assert not (tmp_path / "results").exists()
    monkeypatch.setattr(evidence, "strict", False)
    record("toy", {"expr-ffnn": Verdict("open", "exact", {"risk": bad})})
    written = json.loads((tmp_path / "results/toy.json").read_bytes())["claims"]["expr-ffnn"]["numbers"]["risk"]
    assert written in (None, [1.0, None], {"a": None})


def test_a_table_of_verdicts_has_a_row_for_each_claim():
    found = {"left": Verdict("holds", "exact", {}), "right": Verdict("misprint", "proved", {}, "With a minus sign.")}
    table = evidence.verdict_table(found)
    assert table.columns.tolist() == ["claim", "as stated", "what does hold", "evidence"]
    assert table.iloc[1].tolist() == ["right", "misprint", "With a minus sign.", "proved"]

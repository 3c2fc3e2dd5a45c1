"""What the pages say about a run follows from its files, in a built book and in a plain clone."""

import json

import pytest

from parity_lib import record, wilson
from parity_lib.evidence import ResultsError, Verdict
from parity_lib.build.report import PARTS, comparison, conditions, parameters, part, rows, times, value, verdicts


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run of two chapters, of which one decides three claims."""
    monkeypatch.setenv("PARITY_OUT", str(tmp_path / "run/results"))
    found = {claim: Verdict("holds", {}) for claim in ("lemma-7", "lemma-14")} | {"lemma-8": Verdict("fails", {})}
    record("one", {"n": 4}, {"rate": wilson(3, 4), "by": {"1/n": 0.123456, "k": 2}}, found)
    record("two", {}, {}, {"lemma-17": Verdict("holds with a change", {}, "a | b")})
    record("ledger", {"chapters": ["two", "one"]}, {}, {})
    (tmp_path / "run/records").mkdir()
    for name, seconds in {"one": 30.04, "two": 150, "ledger": 2.0}.items():
        entry = {"notebook": name, "parameters": {"n": [4, 5]}, "seconds": seconds, "peak_memory_mb": None}
        entry |= {"torch": "2.13.0", "commit": name[:1] * 4, "date": f"2026-01-0{len(name)}T00:00:00+00:00"}
        (tmp_path / f"run/records/{name}.json").write_text(json.dumps(entry))
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("place", "shown"), [("one / rate", "3 of 4 [30%, 95%]"), ("one / by / 1/n", "0.123"), ("one / by / k", "2")]
)
def test_a_value_for_the_middle_of_a_sentence(run, place, shown):
    assert value(run, place) == shown


def test_a_value_that_is_not_there_is_named(run):
    with pytest.raises(ResultsError, match="the results of one have no by / 2: '2' is missing"):
        value(run, "one / by / 2")
    with pytest.raises(ResultsError, match="'more' is missing"):
        value(run, "one / by / k / more")
    with pytest.raises(ResultsError, match=r"there is no .*three\.json"):
        value(run, "three / by")


def test_verdicts_are_counted_by_chapter_in_the_order_of_the_book(run):
    lines = verdicts(run).splitlines()
    undecided = len(rows(run)) - 4
    assert lines[0] == "| chapter | holds | holds with a change | fails | not tested |"
    assert lines[2:] == [
        "| [](../notebooks/two.ipynb) |  | 1 |  |  |",
        "| [](../notebooks/one.ipynb) | 2 |  | 1 |  |",
        f"| decided by no chapter |  |  |  | {undecided} |",
        f"| [all, row by row](../notebooks/ledger.ipynb) | 2 | 1 | 1 | {undecided} |",
    ]


def test_the_record_shows_every_value_where_chapters_differ(run):
    facts = conditions(run)
    assert facts["torch"] == "2.13.0" and facts["commit"] == "tttt, oooo, llll"
    assert facts["date"] == "2026-01-03, 2026-01-06" and facts["time of all chapters"] == "3.0 min"
    assert "| [](../notebooks/one.ipynb) | 30 s | ? MB |" in times(run)
    assert "````{dropdown} one\n| parameter | value |" in parameters(run) and "| `n` | `[4, 5]` |" in parameters(run)
    assert all(part(name, run, run) for name in (*PARTS, "comparison"))
    with pytest.raises(ResultsError, match="unknown part 'nothing'; known: comparison, counted"):
        part("nothing", run, run)


def test_the_comparison_says_what_differs_and_a_plain_clone_shows_the_reference(run, monkeypatch):
    assert "the reference run itself" in comparison(run, run)
    reference = run.parent / "reference"
    monkeypatch.setenv("PARITY_OUT", str(reference))
    record("one", {"n": 8}, {"rate": wilson(99, 99)}, {"lemma-8": Verdict("holds", {})})
    text = comparison(run, reference)
    assert text.startswith("**Values that differ: 1.**")
    assert "| one | other | 2 | 0 | 1 | 1 | 7 |" in text and "| two | not in reference | 0 |" in text
    assert "{dropdown} What differs (1)" in text and "| one: `claims, lemma-8, verdict` | fails | holds |" in text
    assert "{dropdown} What moved (1)" in text and "| one: `numbers, rate` | 3 of 4 [30%, 95%] |" in text

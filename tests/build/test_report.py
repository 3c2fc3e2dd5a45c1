"""What the pages say about a run follows from its files, in a built book and in a plain clone."""

import json
import shutil

import pytest

from parity_lib import record, wilson
from parity_lib.build import report as pages
from parity_lib.build.claims import claims
from parity_lib.build.report import PARTS, comparison, conditions, parameters, part, rows, times, value, verdicts
from parity_lib.build.results import ResultsError
from parity_lib.evidence import Verdict


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run of two chapters, of which one decides three claims."""
    (tmp_path / "run/records").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "run")
    monkeypatch.setattr(pages, "chapters_of_the_book", lambda: ["two", "one"])
    numbers = {"rate": wilson(3, 4), "by": {"1/n": 0.123456, "k": 2}}
    found = {"lemma-7": Verdict("holds", "measured", numbers), "lemma-14": Verdict("holds", "measured", {})}
    record("one", found | {"lemma-8": Verdict("fails", "exact", {}, "nothing")})
    record("two", {"lemma-17": Verdict("narrower range", "exact", {}, "a | b")})
    record("ledger", {})
    for name, seconds in {"one": 30.04, "two": 150.0, "ledger": 2.0}.items():
        entry = {"chapter": name, "parameters": {"n": [4, 5]}, "seconds": seconds, "cpu_seconds": 2 * seconds}
        entry |= {"torch": "2.13.0", "commit": name[:1] * 4, "date": f"2026-01-0{len(name)}T00:00:00+00:00"}
        (tmp_path / f"run/records/{name}.json").write_text(json.dumps(entry))
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("place", "shown"),
    [("lemma-7 / rate", "3 of 4 [30%, 95%]"), ("lemma-7 / by / 1/n", "0.123"), ("lemma-7 / by / k", "2")],
)
def test_a_value_for_the_middle_of_a_sentence(run, place, shown):
    assert value(run, place) == shown


def test_a_value_that_is_not_there_is_named(run):
    with pytest.raises(ResultsError, match="the verdict on lemma-7 has no by / 2: '2' is missing"):
        value(run, "lemma-7 / by / 2")
    with pytest.raises(ResultsError, match="'more' is missing"):
        value(run, "lemma-7 / by / k / more")
    with pytest.raises(ResultsError, match="the verdict on lemma-99 has no by"):
        value(run, "lemma-99 / by")


def test_verdicts_are_counted_by_chapter_in_the_order_of_the_book(run):
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in verdicts(run).splitlines()]
    mine = sum(claim.ours for claim in claims().values())
    undecided = len(rows(run)) - 4
    assert lines[0] == ["chapter", "holds", "narrower range", "fails", "open"]
    assert lines[2:] == [
        ["[](../notebooks/two.ipynb)", "", "1", "", ""],
        ["[](../notebooks/one.ipynb)", "2", "", "1", ""],
        ["decided by no chapter", "", "", "", f"{undecided}"],
        ["[the papers' claims, row by row](../notebooks/ledger.ipynb)", "2", "1", "1", f"{undecided - mine}"],
        ["our own statements", "", "", "", f"{mine}"],
    ]


def test_the_record_shows_every_value_where_chapters_differ(run):
    facts = conditions(run)
    assert facts["torch"] == "2.13.0" and facts["commit"] == "tttt, oooo, llll"
    assert facts["date"] == "2026-01-03, 2026-01-06" and facts["processor time of all chapters"] == "6.1 min"
    assert [c.strip() for c in times(run).splitlines()[3].split("|")[2:5]] == ["30 s", "60 s", "? MB"]
    assert "````{dropdown} one\n| parameter " in parameters(run) and "| `n`         | `[4, 5]` |" in parameters(run)
    assert all(part(name, run, run) for name in (*PARTS, "comparison"))
    with pytest.raises(ResultsError, match="unknown part 'nothing'; known: comparison, counted"):
        part("nothing", run, run)


def test_the_comparison_says_what_differs_and_a_plain_clone_shows_the_reference(run, monkeypatch):
    assert "the reference run itself" in comparison(run, run)
    reference = run.parent / "reference"
    shutil.copytree(run, reference)
    assert comparison(run, reference).startswith("**No mismatch: every value was compared.**")
    monkeypatch.chdir(reference)
    record("two", {"lemma-17": Verdict("holds", "exact", {}, "a | b")})
    text = comparison(run, reference)
    assert text.startswith("**1 value differs.**")
    assert "{dropdown} What differs (1)" in text and "| narrower range (exact) | holds (exact) |" in text

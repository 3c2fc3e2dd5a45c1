"""A run is held to the reference value by value: to the byte on the same machine, within tolerances on another."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from parity_lib import record, wilson
from parity_lib.build.results import ResultsError, checksum, read_results
from parity_lib.build.verify import answer, as_json, counts, report, status, verify
from parity_lib.evidence import Interval, Verdict

SEEDS = np.arange(64)
FRAME = pd.DataFrame(
    {"recipe": "theory", "seed": SEEDS, "committed": SEEDS < 60, "risk": np.random.default_rng(0).uniform(size=64)}
)
NUMBERS = {"risk": 0.25, "curve": [1.0, 3e-14], "rate": wilson(60, 64), "slope": Interval(1.0, 0.8, 1.2), "none": None}
VERDICTS = {"fig2-left": Verdict("fails", "measured", NUMBERS, "another"), "lemma-8": Verdict("fails", "exact", {})}
CONDITIONS = {"seconds": 1.0, "commit": "abc", "date": "2026-01-02", "processor": "this one", "python": "3.11"}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a chapter of a run: the reference's, but for what is named."""

    def write(run, chapter="one", parameters=None, processor="this one", verdicts=None, frame=FRAME, **numbers):
        (tmp_path / run / "records").mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(tmp_path / run)
        changed = {"fig2-left": Verdict("fails", "measured", NUMBERS | numbers, "another")}
        record(chapter, VERDICTS | changed | (verdicts or {}), success=frame)
        entry = CONDITIONS | {"chapter": chapter, "parameters": parameters or {"n": 20}, "processor": processor}
        (tmp_path / run / f"records/{chapter}.json").write_text(json.dumps(entry))
        return tmp_path / run

    write("reference")
    return write


def compared(run: Path) -> dict[str, str]:
    found = verify(run, run.parent / "reference")
    return dict(zip(found["value"], found["status"], strict=True))


def not_same(run: Path) -> dict[str, str]:
    return {value: found for value, found in compared(run).items() if found != "same"}


def test_the_same_run_agrees_in_every_value(write):
    run = write("run")
    found = verify(run, run.parent / "reference")
    assert set(found["status"]) == {"same"} and len(found) == 4 + 6 + 4  # two verdicts, their numbers, four columns
    assert answer(found) == "No mismatch: every value was compared." and status(found) == 0


OTHER = FRAME.assign(risk=np.random.default_rng(1).uniform(size=64))
CHANGES = [
    ({"risk": 0.25 * (1 + 1e-7)}, "claims, fig2-left, risk", "same"),
    ({"risk": 0.26}, "claims, fig2-left, risk", "alike"),
    ({"risk": 0.3}, "claims, fig2-left, risk", "differs"),
    ({"curve": [1.0, -5e-13]}, "claims, fig2-left, curve, 1", "same"),
    ({"curve": [1.0, 1e-9]}, "claims, fig2-left, curve, 1", "differs"),
    ({"curve": [1.0]}, "claims, fig2-left, curve, 1", "differs"),
    ({"rate": wilson(6, 8)}, "claims, fig2-left, rate", "alike"),
    ({"rate": wilson(30, 64)}, "claims, fig2-left, rate", "differs"),
    ({"rate": 0.9}, "claims, fig2-left, rate", "differs"),
    ({"slope": Interval(1.3, 1.1, 1.5)}, "claims, fig2-left, slope", "alike"),
    ({"slope": Interval(2.0, 1.8, 2.2)}, "claims, fig2-left, slope", "differs"),
    ({"none": 0.0}, "claims, fig2-left, none", "differs"),
    ({"more": 1}, "claims, fig2-left, more", "differs"),
    ({"verdicts": {"lemma-8": Verdict("holds", "exact", {})}}, "claims, lemma-8, verdict", "differs"),
    ({"verdicts": {"lemma-8": Verdict("fails", "measured", {})}}, "claims, lemma-8, verdict", "differs"),
    ({"frame": FRAME.assign(risk=FRAME["risk"] * (1 + 1e-8))}, "tables, success, risk", "same"),
    ({"frame": OTHER}, "tables, success, risk", "alike"),
    ({"frame": FRAME.assign(risk=FRAME["risk"] + 1)}, "tables, success, risk", "differs"),
    ({"frame": FRAME.assign(committed=SEEDS < 58)}, "tables, success, committed", "alike"),
    ({"frame": FRAME.assign(committed=SEEDS < 30)}, "tables, success, committed", "differs"),
    ({"frame": FRAME.assign(recipe="other")}, "tables, success, recipe", "differs"),
    ({"frame": FRAME.drop(columns="risk")}, "tables, success, risk", "differs"),
    ({"frame": FRAME[:32]}, "tables, success, seed", "differs"),
]


@pytest.mark.parametrize(("changed", "place", "expected"), CHANGES)
def test_another_machine_agrees_within_tolerances_and_this_one_to_the_byte(write, changed, place, expected):
    assert compared(write("run", processor="another", **changed))[place] == expected
    assert not_same(write("run", **changed))[place] == "differs"


def test_with_other_parameters_nothing_is_compared_and_that_is_said(write):
    run = write("run", parameters={"n": 24, "k": 3})
    found = verify(run, run.parent / "reference")
    assert set(found["status"]) == {"not compared"} and status(found) == 2
    assert "one was not compared: other k, n" in report(found)
    assert answer(found) == "Nothing was compared: 14 values were not compared."

    write("reference", "two")
    write("run", "two")
    found = verify(run, run.parent / "reference")
    assert status(found) == 0 and answer(found) == "What was compared agrees, but 14 values were not compared."
    write("run", "two", risk=0.5)
    found = verify(run, run.parent / "reference")
    assert status(found) == 1 and answer(found) == "1 value differs, and 14 values were not compared."


def test_a_chapter_that_the_reference_lacks_is_not_compared(write):
    run = write("run")
    write("run", chapter="two")
    found = verify(run, run.parent / "reference")
    assert counts(found).to_dict("list") == {
        "chapter": ["one", "two", "all"], "same": [14, 0, 14], "alike": [0, 0, 0], "differs": [0, 0, 0],
        "not compared": [0, 14, 14],
    }  # fmt: skip


def test_the_ledger_is_not_compared(write):
    run = write("run", chapter="ledger")
    with pytest.raises(ResultsError, match="there are no results in"):
        verify(run, run.parent / "reference")


EMPTY = '{"chapter": "one", "claims": {}, "tables": []}'
DEEP = '{"chapter": "one", "tables": [], "claims": ' + 100_000 * "[" + 100_000 * "]" + "}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "one.json is not readable as JSON"),
        ("[]", "Input should be a valid dictionary"),
        ("{}", "chapter: Field required"),
        (EMPTY.replace("one", "two"), "one.json is of 'two'"),
        (EMPTY.replace("[]", '["x"]'), r"there is no .*tables/one/x\.csv"),
        (EMPTY.replace("[]", '["../x"]'), "tables, 0: String should match pattern"),
        (EMPTY.replace("[]", '["\\u001b[2J"]'), r"tables, 0: String .* got '\\x1b\[2J'"),
        (EMPTY.replace("[]", "NaN"), "numbers must be finite, got NaN"),
        (EMPTY.replace("[]", "1e400"), "numbers must be finite, got 1e400"),
        (EMPTY.replace("[]", "1" + 400 * "0"), "numbers must be finite|int too large"),
        (EMPTY.replace("[]", 5000 * "1"), "is not readable as JSON"),
        (DEEP, "is not readable as JSON"),
        (EMPTY.replace('"one"', '"\\u001b]0;pwn\\u0007"'), r"is of '\\x1b\]0;pwn\\x07'"),
        (EMPTY.replace("{}", '{"\\u001b[2J": 1}'), r"claims, \\x1b\[2J"),
    ],
)
def test_hostile_results_are_refused_in_one_sentence(write, text, sentence):
    run = write("run")
    (run / "results/one.json").write_text(text)
    with pytest.raises(ResultsError, match=sentence) as refusal:
        verify(run, run.parent / "reference")
    assert str(refusal.value).isprintable() and len(str(refusal.value)) < 500


@pytest.mark.parametrize("place", ["results/one.json", "records/one.json", "tables/one/success.csv"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_refused_and_not_waited_for(write, place, make):
    run = write("run")
    (run / place).unlink()
    make(run / place)
    with pytest.raises(ResultsError, match=rf"{place} is not readable as (JSON|CSV) \(it is no regular file\)$"):
        verify(run, run.parent / "reference")


def test_numbers_nested_too_deeply_are_refused_in_one_sentence(write, monkeypatch):
    """Also where the parser takes them, as that of Python 3.13 does."""
    run, deep = write("run"), []
    for _ in range(3000):
        deep = [deep]
    read = read_results
    found = read(run, "one")
    found.claims["fig2-left"].numbers["deep"] = deep
    monkeypatch.setattr("parity_lib.build.verify.read_results", lambda at, name: found if at == run else read(at, name))
    with pytest.raises(ResultsError, match="^the results of one cannot be compared: they are nested too deeply$"):
        verify(run, run.parent / "reference")


def test_escape_sequences_in_values_do_not_reach_the_terminal(write):
    run = write("run", **{"\x1b[2J": "\x1b]0;pwn\x07"})
    assert "\x1b" not in report(verify(run, run.parent / "reference"), verbose=True)


def test_escape_sequences_in_names_do_not_reach_the_terminal(write):
    evil = "\x1b]0;pwn\x07"
    run, reference = write("run", parameters={evil: 1}), write("reference", parameters={"n": 1})
    told = report(verify(run, reference))
    assert "\x1b" not in told and r"one was not compared: other \x1b]0" in told
    for folder in (write("run"), write("reference")):  # a chapter and a file of that name
        for kind in ("results", "records"):
            content = json.loads((folder / kind / "one.json").read_text()) | {"chapter": evil}
            (folder / kind / f"{evil}.json").write_text(json.dumps(content))
    (run / "tables" / evil).mkdir()
    (run / "tables" / evil / "success.csv").write_text("a\n1\n")
    assert "\x1b" not in report(verify(run, reference), verbose=True)
    (run / "results" / f"{evil}.json").write_text("{")
    with pytest.raises(ResultsError) as refusal:
        verify(run, reference)
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize("slope", [{"value": "a", "low": [], "high": {}}, {"value": None, "low": None, "high": None}])
def test_an_interval_is_of_numbers(write, slope):
    run = write("run", processor="another", slope=slope)
    assert compared(run)["claims, fig2-left, slope"] == "differs"


def test_a_run_without_values_is_not_called_a_match(write):
    for folder in (run := write("run"), write("reference")):
        (folder / "results/one.json").write_text(EMPTY)
    found = verify(run, run.parent / "reference")
    assert answer(found) == "Nothing was compared: the run has no values." and status(found) == 2
    assert report(found).endswith(answer(found))


def test_what_cannot_be_compared_is_refused_in_one_sentence(write, tmp_path):
    run, reference = write("run"), tmp_path / "reference"
    with pytest.raises(ResultsError, match=r"there is no run in .*nowhere"):
        verify(tmp_path / "nowhere", reference)
    with pytest.raises(ResultsError, match=r"there are no results of two in .*; run the chapters first"):
        verify(run, reference, ["one", "two", "ledger"])
    (run / "tables/one/success.csv").write_bytes(b'a,b\n"\xff\n')
    with pytest.raises(ResultsError, match=r"success\.csv is not readable as CSV"):
        verify(run, reference)
    shutil.rmtree(reference / "results")
    with pytest.raises(ResultsError, match="to compare with"):
        verify(run, reference)


def test_the_report_is_short_unless_asked(write):
    run = write("run", **{f"new {i}": i for i in range(12)})
    found = verify(run, run.parent / "reference")
    lines = report(found).splitlines()
    assert lines[0].split() == ["chapter", "same", "alike", "differs", "not", "compared"]
    assert lines[1].split() == ["one", "14", "0", "12", "0"] and lines[2].split() == ["all", "14", "0", "12", "0"]
    assert len(lines) == 3 + 1 + 10 + 2 and lines[-2:] == ["and 2 more, which --verbose lists", "12 values differ."]
    assert len(report(found, verbose=True).splitlines()) == 3 + 1 + 12 + 1


def test_a_program_is_told_every_value(write):
    run = write("run", risk=0.5)
    told = json.loads(as_json(found := verify(run, run.parent / "reference")))
    assert told["answer"] == answer(found) and told["counts"]["all"]["differs"] == 1
    assert len(told["values"]) == len(found) == sum(told["counts"]["one"].values())
    differ = [row for row in told["values"] if row["status"] == "differs"]
    assert differ == [
        {"chapter": "one", "value": "claims, fig2-left, risk", "status": "differs", "found": "0.5", "expected": "0.25"}
    ]


def test_a_table_too_large_for_the_reference_is_not_compared_and_said_so(write):
    run = write("run")
    (run.parent / "reference/tables/one/success.csv").unlink()
    found = verify(run, run.parent / "reference")
    assert not_same(run) == {"tables, success": "not compared"}
    assert answer(found) == "What was compared agrees, but 1 value was not compared." and status(found) == 0


def note(folder: Path, found: str) -> None:
    path = folder / "records/one.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"products": {"tables/one/success.csv": found}}))


def test_on_the_same_machine_a_table_too_large_for_the_reference_is_compared_by_its_checksum(write):
    run, reference = write("run"), write("reference")
    table = reference / "tables/one/success.csv"
    note(reference, checksum(table))
    table.unlink()
    assert answer(verify(run, reference)) == "No mismatch: every value was compared."  # by what the file is now
    note(reference, "0" * 64)
    assert not_same(run) == {"tables, success": "differs"}
    (run / "tables/one/success.csv").unlink()
    note(run, "0" * 64)
    assert not_same(run) == {}  # by what both say it was
    write("run", processor="another")
    assert not_same(run) == {"tables, success": "not compared"}

"""The reference run: what is kept, how it gets there, and what the README shows of it."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from checkouts import ROOT, parity, write_notebook
from click.testing import CliRunner

from parity_lib.build import reference, report
from parity_lib.build.claims import claims
from parity_lib.build.cli import main
from parity_lib.build.ledger import count
from parity_lib.build.reference import ALT, BEGIN, END, LARGEST, adopt, results, show
from parity_lib.build.report import minutes, records
from parity_lib.build.results import ResultsError, chapters_of_the_book, read_results
from parity_lib.build.verify import answer, verify
from parity_lib.evidence import Verdict, record

REFERENCE = ROOT / "reference"


def test_the_readme_shows_the_reference_run() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = text.partition(BEGIN)[2].partition(END)[0]
    assert shown == f"\n\n{results(ROOT)}\n\n", "README.md is out of date: run `parity reference`"
    assert f"{sum(not claim.ours for claim in claims().values())} claims" in shown and len(text.splitlines()) < 120  # two screens
    assert (REFERENCE / "circle.svg").stat().st_size < 20_000 and len(ALT) < 400
    assert "bits 8, 11, 18" in (REFERENCE / "circle.svg").read_text(encoding="utf-8")


def test_the_reference_is_whole_and_small() -> None:
    names = [*chapters_of_the_book(), "ledger"]
    kept = {folder: sorted(path.stem for path in (REFERENCE / folder).iterdir()) for folder in ("results", "records")}
    assert kept == {"results": sorted(names), "records": sorted(names)}
    for name in names:
        for table in read_results(REFERENCE, name).tables:
            path = REFERENCE / f"tables/{name}/{table}.csv"
            assert not path.exists() or path.stat().st_size <= LARGEST
    assert all(entry.seconds > 0 for entry in records(REFERENCE).values())


def test_verify_accepts_the_reference() -> None:
    done = parity("verify", str(REFERENCE))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "No mismatch: every value was compared."


@pytest.mark.parametrize(("arguments", "sentence"), [(["nowhere"], "there is no run in nowhere")])
def test_verify_refuses_in_one_sentence(arguments: list[str], sentence: str) -> None:
    done = CliRunner().invoke(main, ["verify", *arguments])
    assert done.exit_code == 2 and sentence in done.stderr
    assert done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 1


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose book, one chapter and a ledger, was run."""
    write_notebook(tmp_path / "notebooks/figure2.ipynb", "seeds: int = 64  # starts [1..99]\n")
    write_notebook(tmp_path / "notebooks/ledger.ipynb", 'chapters: list[str] = ["all"]  # the runs\n')
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/book.yml").write_text("runs:\n  figure2: {}\n  ledger: {}\n")
    (tmp_path / "README.md").write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\nThe rest.\n")
    build = tmp_path / "build/book"
    (build / "records").mkdir(parents=True)
    monkeypatch.chdir(build)
    monkeypatch.setattr(report, "chapters_of_the_book", lambda: ["figure2"])
    monkeypatch.setattr(reference, "picture", lambda root, path: path.write_text("a picture"))
    verdicts = {"fig2-left": Verdict("fails", "measured", {}, "another loss | head")}
    small, large = pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": np.arange(100_000)})
    record("figure2", verdicts, heat_maps=small, all_runs=large)
    record("ledger", {})
    for name, parameters in {"figure2": {"seeds": 64}, "ledger": {"chapters": ["all"]}}.items():
        content = {"chapter": name, "parameters": parameters, "seconds": 90.0, "cpu_seconds": 80.0, "torch": "2.13.0"}
        content |= {"commit": "abc123def456", "date": "2026-01-02T03:04:05+00:00"}
        (build / f"records/{name}.json").write_text(json.dumps(content))
    return tmp_path


def test_a_finished_run_becomes_the_reference_and_appears_in_the_readme(finished: Path) -> None:
    stale = finished / "reference/results/gone.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    adopt(finished)
    show(finished)
    assert sorted(str(path.relative_to(finished / "reference")) for path in (finished / "reference").rglob("*.*")) == [
        "circle.svg", "records/figure2.json", "records/ledger.json", "results/figure2.json", "results/ledger.json",
        "tables/figure2/heat_maps.csv",
    ]  # fmt: skip
    text = (finished / "README.md").read_text()
    assert text.startswith(f"# Title\n\n{BEGIN}\n\n![Three arrows") and text.endswith(f"\n\n{END}\n\nThe rest.\n")
    assert "at commit `abc123def4`: 2026-01-02, 2.7 min of processor time, torch 2.13.0." in text
    show(finished)
    assert (finished / "README.md").read_text() == text


@pytest.mark.parametrize(
    ("name", "part", "value", "sentence"),
    [
        (
            "figure2",
            "commit",
            "abc123def456-dirty",
            "clean commits, got abc123def456, abc123def456-dirty",
        ),
        ("ledger", "commit", None, "clean commits, got None, abc123def456"),
        ("figure2", "parameters", {"seeds": 8}, "figure2 ran with other parameters than it has now"),
        ("figure2", "seconds", "long", "seconds: Input should be a valid number"),
    ],
)
def test_a_run_that_is_not_whole_is_no_reference(
    finished: Path, name: str, part: str, value: object, sentence: str
) -> None:
    path = finished / f"build/book/records/{name}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {part: value}))
    with pytest.raises(ResultsError, match=sentence):
        adopt(finished)
    path.unlink()
    with pytest.raises(ResultsError, match=rf"there is no .*{name}\.json: run the chapters first"):
        adopt(finished)
    assert not (finished / "reference").exists()


def test_results_of_an_earlier_build_are_no_reference(finished: Path) -> None:
    """Their times are not in its records; those that another chapter of the same build computed are."""
    paths = {name: finished / f"build/book/records/{name}.json" for name in ("figure2", "ledger")}

    def note(name: str, **lists: list[str]) -> None:
        paths[name].write_text(json.dumps(json.loads(paths[name].read_text()) | lists))

    note("ledger", reused=["figure2.trained"])
    with pytest.raises(ResultsError, match=r"ledger took figure2\.trained from an earlier build"):
        adopt(finished)
    assert not (finished / "reference").exists()
    note("figure2", computed=["figure2.trained"])
    adopt(finished)


def test_a_readme_without_a_place_for_results_is_refused(finished: Path) -> None:
    adopt(finished)
    (finished / "README.md").write_text("# Title\n")
    with pytest.raises(ResultsError, match=r"README\.md must hold the lines"):
        show(finished)
    assert (finished / "README.md").read_text() == "# Title\n"


def text_of(page: Path) -> str:
    """What a reader sees of a page, on one line."""
    article = page.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", article)).split())


def test_the_start_page_shows_what_this_run_decided(smoke_book: Path) -> None:
    shown = text_of(smoke_book / "book/index.html")
    found = report.rows(smoke_book.parent)
    counted = count(found[~found["ours"]])
    assert f"{sum(not claim.ours for claim in claims().values())} claims" in shown
    assert "the papers’ claims, row by row " + " ".join(map(str, counted.values())) in shown


def test_the_page_on_the_run_shows_its_record_and_the_comparison(smoke_book: Path) -> None:
    shown = text_of(smoke_book / "book/run.html")
    assert answer(verify(smoke_book.parent, REFERENCE, chapters_of_the_book())) in shown
    for name, entry in records(smoke_book.parent).items():
        assert f"{minutes(entry.seconds)} {minutes(entry.cpu_seconds)} {entry.peak_memory_mb} MB" in shown
        assert all(f"{key} {value}" in shown for key, value in entry.parameters.items()), name

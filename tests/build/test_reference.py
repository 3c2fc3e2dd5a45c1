"""The reference run: what is kept, how it gets there, and what the README shows of it."""

from __future__ import annotations

import html
import io
import json
import re
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from checkouts import ROOT, parity, write_notebook

from parity_lib import record
from parity_lib.build.claims import CLAIMS
from parity_lib.evidence import VERDICTS, ResultsError, Verdict, as_rate, read_results
from parity_lib.build.reference import ALT, BEGIN, END, adopt, picture, results, show
from parity_lib.build.report import chapters, minutes, records
from parity_lib.build.verify import AMPLIFIED, HEADER, leaves, table, verify

REFERENCE = ROOT / "reference"


def test_the_readme_shows_the_reference_run() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = text.partition(BEGIN)[2].partition(END)[0]
    assert shown == f"\n\n{results(ROOT)}\n\n", "README.md is out of date: run `parity reference`"
    assert all(f"`{claim}`" in shown for claim in CLAIMS)


def test_the_picture_is_small_and_is_figure_2_of_the_reference_run() -> None:
    path = REFERENCE / "figure2.png"
    assert path.stat().st_size < 200_000
    drawn = io.BytesIO()
    picture(ROOT).savefig(drawn, dpi=100)
    plt.close("all")
    drawn.seek(0)
    kept, now = plt.imread(path), plt.imread(drawn)
    assert kept.shape == now.shape and np.abs(kept - now).mean() < 0.01, "out of date: run `parity reference`"
    assert ALT.startswith("Two rows of three heat maps") and len(ALT) < 400


def test_the_reference_is_whole() -> None:
    names = [*chapters(REFERENCE), "ledger"]
    kept = {folder: sorted(path.stem for path in (REFERENCE / folder).iterdir()) for folder in ("results", "records")}
    assert kept == {"results": sorted(names), "records": sorted(names)}
    for name in names:
        assert read_results(REFERENCE / "results" / f"{name}.json")["notebook"] == name
    assert all(entry["seconds"] > 0 for entry in records(REFERENCE).values())


def test_what_may_move_is_in_the_reference() -> None:
    for chapter, prefixes in AMPLIFIED.items():
        if chapter not in chapters(REFERENCE):
            continue
        places = [", ".join(place) for place, _ in leaves(read_results(REFERENCE / "results" / f"{chapter}.json"))]
        assert all(any(place.startswith(prefix) for place in places) for prefix in prefixes), chapter


def test_verify_accepts_the_reference_and_names_what_was_changed(tmp_path: Path) -> None:
    done = parity("verify", str(REFERENCE))
    assert done.returncode == 0, done.stdout + done.stderr
    chapter, compared, agree = (done.stdout.splitlines()[-1].split()[i] for i in (0, 1, 2))
    assert chapter == "all" and compared == agree and int(agree) > 1000

    shutil.copytree(REFERENCE, tmp_path / "run")
    path = tmp_path / "run/results/convergence.json"
    path.write_text(path.read_text().replace('"mu": 1.69', '"mu": 1.79'))
    done = parity("verify", str(tmp_path / "run"))
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("convergence: numbers, mu: 1.79")

    path.write_text("{")
    done = parity("verify", str(tmp_path / "run"))
    assert done.returncode == 2 and done.stdout == ""
    assert "is not readable as JSON" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "there is no run in nowhere"),
        (["--profile", "fast"], "unknown profile 'fast'"),
        (["reference", "--profile", "quick"], "give a folder or a profile, not both"),
    ],
)
def test_verify_refuses_in_one_sentence(arguments: list[str], sentence: str) -> None:
    done = parity("verify", *arguments)
    assert done.returncode == 2 and sentence in done.stderr
    assert done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 1


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose paper profile, two chapters and a ledger, was run."""
    write_notebook(tmp_path / "notebooks/figure2.ipynb", "seeds: int = 8  # starts [1..99]\n")
    write_notebook(tmp_path / "notebooks/ledger.ipynb", 'chapters: list[str] = ["figure2"]  # the runs\n')
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/paper.yml").write_text("runs:\n  figure2: {seeds: 64}\n  ledger: {}\n")
    (tmp_path / "README.md").write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\nThe rest.\n")
    build = tmp_path / "build/paper"
    monkeypatch.setenv("PARITY_OUT", str(build / "results"))
    heat_map = {"bits": [1, 2], "attention": np.full((3, 2, 4), 0.25)}
    verdicts = {"fig2-left": Verdict("holds with a change", {}, "another loss | head")}
    record("figure2", {"seeds": 64}, {"heat_maps": {"left": heat_map, "right": heat_map}}, verdicts)
    record("ledger", {"chapters": ["figure2"]}, {}, {})
    (build / "records").mkdir()
    for name, parameters in {"figure2": {"seeds": 64}, "ledger": {"chapters": ["figure2"]}}.items():
        content = {"notebook": name, "parameters": parameters, "seconds": 90.0, "torch": "2.13.0"}
        content |= {"commit": "abc123def456", "date": "2026-01-02T03:04:05+00:00"}
        (build / f"records/{name}.json").write_text(json.dumps(content))
    return tmp_path


def test_a_finished_run_becomes_the_reference_and_appears_in_the_readme(finished: Path) -> None:
    stale = finished / "reference/results/gone.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    adopt(finished)
    show(finished)
    assert sorted(path.name for path in (finished / "reference").rglob("*.*")) == [
        "figure2.json",
        "figure2.json",
        "figure2.png",
        "ledger.json",
        "ledger.json",
    ]
    text = (finished / "README.md").read_text()
    assert text.startswith(f"# Title\n\n{BEGIN}\n\n![Two rows") and text.endswith(f"\n\n{END}\n\nThe rest.\n")
    assert "Time of each chapter: `figure2` 90 s, `ledger` 90 s." in text
    assert "at commit `abc123def4`: 2026-01-02, 3.0 min chapter after chapter, torch 2.13.0." in text
    assert "holds with a change: another loss \\| head | `parity run figure2` |" in text
    show(finished)
    assert (finished / "README.md").read_text() == text


@pytest.mark.parametrize(
    ("name", "part", "value", "sentence"),
    [
        (
            "figure2",
            "commit",
            "abc123def456-dirty",
            "one clean commit, got abc123def456, abc123def456-dirty",
        ),
        ("ledger", "commit", None, "one clean commit, got None, abc123def456"),
        ("figure2", "parameters", {"seeds": 8}, "figure2 ran with other parameters than the profile has now"),
        ("figure2", "seconds", "long", "seconds is missing or of another type"),
    ],
)
def test_a_run_that_is_not_whole_is_no_reference(
    finished: Path, name: str, part: str, value: object, sentence: str
) -> None:
    path = finished / f"build/paper/records/{name}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {part: value}))
    with pytest.raises(ResultsError, match=sentence):
        adopt(finished)
    path.unlink()
    with pytest.raises(ResultsError, match=rf"there is no .*{name}\.json: run the chapters first"):
        adopt(finished)
    assert not (finished / "reference").exists()


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


def test_the_smoke_book_agrees_with_the_reference(smoke_book: Path) -> None:
    done = parity("verify", "--verbose")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_start_page_shows_what_this_run_decided(smoke_book: Path) -> None:
    run = smoke_book.parent
    shown = text_of(smoke_book / "book/index.html")
    kept = read_results(run / "results/ledger.json")["numbers"]["count"]
    counted = {verdict: kept[verdict] for verdict in VERDICTS if verdict in kept}
    assert f"{len(CLAIMS)} claims: {counted['holds']} hold as printed; " in shown
    assert "all, row by row " + " ".join(map(str, counted.values())) in shown
    rates = read_results(run / "results/figure2.json")["numbers"]["success"]["left"]
    assert f"settle on their bits in {as_rate(rates['figure2-signed']['committed'])} seeds" in shown


def test_the_page_on_the_run_shows_its_record_and_the_comparison(smoke_book: Path) -> None:
    shown = text_of(smoke_book / "book/run.html")
    compared = verify(smoke_book.parent, REFERENCE, chapters(smoke_book.parent))
    assert "No mismatch. " + " ".join(HEADER) in shown
    assert " ".join(" ".join(row).replace("  ", " ") for row in table(compared)) in shown
    for name, entry in records(smoke_book.parent).items():
        assert entry["commit"] in shown and f"torch {entry['torch']} " in shown
        assert f"{minutes(entry['seconds'])} {entry['peak_memory_mb']} MB" in shown
        assert all(f"{key} {value}" in shown for key, value in entry["parameters"].items()), name

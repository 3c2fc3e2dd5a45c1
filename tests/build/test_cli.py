"""The command `parity`, called as a person calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checkouts import ROOT, Checkout, parity
from click.testing import CliRunner
from filelock import FileLock

from parity_lib.build.cli import main


def files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if "__pycache__" not in path.parts}


def test_list_names_every_chapter_with_its_title_and_time(checkout: Checkout) -> None:
    record = {"chapter": "beta", "parameters": {}, "seconds": 12.3, "commit": None, "date": "2026-01-01"}
    checkout.write("build/book/records/beta.json", json.dumps(record))
    checkout.write("build/slow/records/beta.json", "{")
    done = checkout.parity("list")
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["alpha  Alpha, the first", "beta   Beta  (book 12 s)"]


def test_run_writes_page_results_and_tables_and_prints_the_paths_last(checkout: Checkout) -> None:
    sub = checkout.root / "book"
    arguments = ["-p", "bits", "3,4", "-p", "loss", "logistic"]
    done = checkout.parity("run", "alpha", "--profile", "slow", *arguments, cwd=sub)
    assert done.returncode == 0, done.stderr
    page, results, tables = done.stdout.splitlines()[-3:]
    assert (page, results) == ("../build/run/alpha.ipynb", "../build/run/results/alpha.json")
    assert (sub / page).is_file()
    assert json.loads((sub / results).read_text())["tables"] == ["toy"]
    assert (sub / tables / "toy.csv").read_text() == "total,loss,bits\n0.03,logistic,2\n"


def test_of_two_runs_at_once_one_is_refused(checkout: Checkout) -> None:
    (checkout.root / "build/run").mkdir(parents=True)
    with FileLock(checkout.root / "build/run/.alphalock"):
        done = checkout.parity("run", "alpha")
    assert done.returncode == 1 and done.stderr == "another build of 'alpha' in build/run is running\n"


def test_run_help_shows_the_parameters(checkout: Checkout) -> None:
    done = checkout.parity("run", "alpha", "--help")
    assert done.returncode == 0
    assert "Alpha, the first" in done.stdout
    assert "rate: float = 0.5  (0..1]\n      step size" in done.stdout
    general = checkout.parity("run", "--help")
    assert general.returncode == 0 and "--output DIR" in general.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "alfa"], "unknown notebook 'alfa' (did you mean 'alpha'?); known: alpha, beta"),
        (["run", "../alpha"], "unknown notebook '../alpha'"),
        (["run", "alpha", "--profile", "slo"], "unknown profile 'slo' (did you mean 'slow'?)"),
        (["run", "alpha", "-p", "stepz", "3"], "alpha: unknown parameter 'stepz'"),
        (["run", "alpha", "-p", "steps", "-1"], "alpha: steps must be an int in [1..100], got -1"),
        (["run", "alpha", "-p", "rate", "nan"], "alpha: rate must be a float in (0..1], got nan"),
        (["run", "alpha", "--output", "notebooks"], "lies among the sources, choose a folder below build or elsewhere"),
        (["book", "--cluster", "nowhere"], "--cluster must be a folder with Snakemake's config.yaml for a scheduler"),
        (["book", "--profile", "fast"], "unknown profile 'fast'; known: book, slow"),
        (["run", "alpha", "--output", "build/book"], "holds other results, choose another folder below build"),
        (["run", "alpha", "--output", "build/slow/results"], "holds other results"),
        (["run", "alpha", "-p", "steps", "3", "-p", "steps", "4"], "alpha: steps is given twice"),
    ],
)
def test_bad_requests_end_with_status_2_and_leave_no_trace(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(checkout.root)
    before = files(checkout.root)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ") and sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert files(checkout.root) == before


@pytest.mark.parametrize(
    ("profile", "sentence"),
    [
        ("runs:\n  beta: {}\n  alpha: {steps: many}\n", "alpha: steps must be an int in [1..100], got the str"),
        ("runs:\n  beta: {}\n  alpha: {rate: 1e-3}\n", "YAML reads it as a number only with a point, 1.0e-03"),
        ("runs:\n  beta: {}\n  alpha: {stepz: 1}\n", "alpha: unknown parameter 'stepz'"),
        ("runs:\n  gamma: {}\n", "unknown notebook 'gamma'"),
        ("runs:\n  alpha: 3\n", "alpha must map parameters to values, {} for none, got 3"),
        ("runs:\n", "it must map 'runs' to notebooks"),
        ("runs:\n  alpha: {}\n", "it must name every chapter of the book, not without beta"),
        ("runs:\n  alpha: {}\n  alpha: {}\n", "the key 'alpha' stands twice"),
        ("runs:\n  alpha: {steps: 1, steps: 2}\n", "the key 'steps' stands twice"),
        ("- alpha\n", "it must map 'runs' to notebooks"),
        ("runs: [\n", "not YAML"),
        ("runs: !!python/object/apply:os.system [exit]\n", "not YAML"),
    ],
)
def test_the_whole_profile_is_checked_before_anything_runs(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, profile: str, sentence: str
) -> None:
    monkeypatch.chdir(checkout.root)
    checkout.write("profiles/book.yml", profile)
    before = files(checkout.root)
    done = CliRunner().invoke(main, ["book"])
    assert done.exit_code == 2
    assert done.stderr.startswith("error: profile book: ") and sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert files(checkout.root) == before


def test_a_failure_in_a_notebook_ends_with_status_1_and_says_where_to_look(
    checkout: Checkout,
) -> None:
    path = checkout.root / "notebooks/beta.ipynb"
    path.write_text(path.read_text().replace("seed=seed", "seed=1 / seed"))
    done = checkout.parity("run", "beta")
    assert done.returncode == 1
    where = "build/run/logs/beta.failed.ipynb"
    assert done.stderr == f"beta: ZeroDivisionError: division by zero; see {where}\n"
    assert (checkout.root / where).is_file()


def test_a_folder_that_cannot_be_written_is_one_sentence(checkout: Checkout) -> None:
    checkout.write("build/occupied", "a file")
    done = checkout.parity("run", "beta", "--output", "build/occupied/folder")
    assert done.returncode == 1
    assert "occupied" in done.stderr and len(done.stderr.splitlines()) == 1


def test_outside_a_checkout_the_installed_one_is_used(checkout: Checkout, tmp_path: Path) -> None:
    done = checkout.parity("list", cwd=tmp_path)
    assert done.stdout.startswith("alpha")
    (checkout.root / "Snakefile").unlink()
    done = checkout.parity("list", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: no checkout of the book holds")


def test_version_and_chapters_of_the_real_checkout() -> None:
    assert parity("--version").stdout == "parity, version 0.2.0\n"
    listed = [line.split()[0] for line in parity("list").stdout.splitlines()]
    assert listed == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_a_dry_run_says_what_would_run_and_why(built: Checkout) -> None:
    assert built.parity("book", "--dry-run").stdout == "up to date\n"
    (built.root / "build/book/results/beta.json").unlink()
    done = built.parity("book", "--dry-run")
    assert done.stdout == "beta: results/beta.json is missing or was changed\n"
    assert not (built.root / "build/book/results/beta.json").exists()


def test_a_profile_cannot_be_a_folder(checkout: Checkout) -> None:
    checkout.write("profiles/...yml", "runs: {alpha: {}, beta: {}}\n")
    done = checkout.parity("book", "--profile", "..")
    assert done.returncode == 2 and "unknown profile '..'; known: book, slow" in done.stderr

"""The command `parity`, called as a person calls it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from checkouts import ROOT, Checkout
from click.testing import CliRunner
from filelock import FileLock

from parity_lib.build import doctor
from parity_lib.build.cli import main
from parity_lib.build.runner import clear_scratch


def said(toy: Checkout, *arguments: str, status: int = 0) -> str:
    """What the command prints, called in this process; of a failure, the sentence."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(toy.root)
        done = CliRunner().invoke(main, arguments)
    assert done.exit_code == status, done.output
    assert status == 0 or done.stdout == ""
    return done.stdout if status == 0 else done.stderr


def files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if "__pycache__" not in path.parts}


def test_list_names_every_chapter_with_its_title_and_time(checkout: Checkout) -> None:
    record = {"chapter": "beta", "parameters": {}, "seconds": 12.3, "commit": None, "date": "2026-01-01"}
    checkout.write("build/book/records/beta.json", json.dumps(record))
    checkout.write("build/slow/records/beta.json", "{")
    checkout.write("notebooks/c++.ipynb", "{")  # which no name may be
    os.mkfifo(checkout.root / "notebooks/pipe.ipynb")
    assert said(checkout, "list").splitlines() == ["alpha  Alpha, the first", "beta   Beta  (book 12 s)"]


def test_run_writes_page_results_and_tables_and_prints_the_paths_last(checkout: Checkout) -> None:
    sub = checkout.root / "book"
    arguments = ["-p", "bits", "3,4", "-p", "loss", "logistic"]
    done = checkout.parity("run", "alpha", "--profile", "slow", *arguments, cwd=sub)
    assert done.returncode == 0, done.stderr
    page, results, tables = done.stdout.splitlines()[-3:]
    own = re.fullmatch(r"\.\./build/run/(alpha-[0-9a-f]{8})/alpha\.ipynb", page)  # not where another run goes
    assert own and results == f"../build/run/{own[1]}/results/alpha.json"
    assert (sub / page).is_file()
    assert json.loads((sub / results).read_text())["tables"] == ["toy"]
    assert (sub / tables / "toy.csv").read_text() == "total,loss,bits\n0.03,logistic,2\n"


def test_of_two_runs_at_once_one_is_refused(checkout: Checkout) -> None:
    (checkout.root / "build/run").mkdir(parents=True)
    with FileLock(checkout.root / "build/run/.alphalock"):
        refusal = said(checkout, "run", "alpha", "-p", "steps", "3", status=1)  # which is its default
    assert refusal == "another build of 'alpha' in build/run is running\n"


def test_what_a_killed_run_left_goes_with_the_next_of_its_name(tmp_path: Path) -> None:
    for left in ("alpha-ab12cd_3", "alpha-beta-ab12cd_3", "alpha-more"):
        (tmp_path / "tmp" / left).mkdir(parents=True)
    with FileLock(tmp_path / ".alphalock"):  # by a run that is alive
        clear_scratch(tmp_path, "alpha")
        assert len(list((tmp_path / "tmp").iterdir())) == 3
    clear_scratch(tmp_path, "alpha")
    assert sorted(path.name for path in (tmp_path / "tmp").iterdir()) == ["alpha-beta-ab12cd_3", "alpha-more"]


def test_it_goes_whatever_the_parameters_of_the_next_run(checkout: Checkout) -> None:
    left = [checkout.root / "build/run" / place / "tmp/alpha-ab12cd_3" for place in ("", "alpha-12345678")]
    for folder in left:
        folder.mkdir(parents=True)
    assert checkout.parity("run", "alpha", "-p", "steps", "4").returncode == 0
    assert not any(folder.exists() for folder in left)


def test_help_does_not_wait_for_pandas() -> None:
    program = "import sys, parity_lib.build.cli; sys.exit('pandas' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


def test_run_help_shows_the_parameters(checkout: Checkout) -> None:
    shown = said(checkout, "run", "alpha", "--help")
    assert "Alpha, the first" in shown
    assert "rate: float = 0.5  (0..1]\n      step size" in shown
    assert "--output DIR" in said(checkout, "run", "--help")


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


def test_a_table_of_contents_that_cannot_be_read_is_one_sentence(checkout: Checkout) -> None:
    checkout.write("_toc.yml", "root: [\n")
    sentence = said(checkout, "book", "--dry-run", status=2)
    assert sentence.startswith("error: profile book: _toc.yml: not YAML (") and len(sentence.splitlines()) == 1


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
    sentence = said(checkout, "run", "beta", "--output", "build/occupied/folder", status=1)
    assert "occupied" in sentence and len(sentence.splitlines()) == 1


def test_outside_a_checkout_the_installed_one_is_used(checkout: Checkout, tmp_path: Path) -> None:
    done = checkout.parity("list", cwd=tmp_path)
    assert done.stdout.startswith("alpha")
    (checkout.root / "Snakefile").unlink()
    done = checkout.parity("list", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: no checkout of the book holds")
    assert done.stderr.rstrip().endswith("git clone https://github.com/parity-lib/parity-lib and go there")


def test_version_and_chapters_of_the_real_checkout() -> None:
    assert said(Checkout(ROOT), "--version") == "parity, version 0.2.0\n"
    listed = [line.split()[0] for line in said(Checkout(ROOT), "list").splitlines()]
    assert listed == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_a_dry_run_says_what_would_run_and_why(built: Checkout) -> None:
    assert said(built, "book", "--dry-run") == "up to date\n"
    (built.root / "build/book/results/beta.json").unlink()
    assert said(built, "book", "--dry-run") == "beta: results/beta.json is missing or was changed\n"
    assert not (built.root / "build/book/results/beta.json").exists()


def test_a_profile_cannot_be_a_folder(checkout: Checkout) -> None:
    checkout.write("profiles/...yml", "runs: {alpha: {}, beta: {}}\n")
    assert "unknown profile '..'; known: book, slow" in said(checkout, "book", "--profile", "..", status=2)


@pytest.mark.parametrize(
    ("words", "offered"),
    [("parity run al", ["alpha"]), ("parity book --profile s", ["slow"]), ("parity st", ["study"])],
)
def test_a_shell_completes_commands_and_the_names_of_this_checkout(
    checkout: Checkout, words: str, offered: list[str]
) -> None:
    variables = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = checkout.parity(_PARITY_COMPLETE="bash_complete", **variables)
    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == offered


def test_a_reader_who_goes_away_is_no_failure(checkout: Checkout) -> None:
    command = [sys.executable, "-m", "parity_lib.build.cli", "list"]
    environment = os.environ | {"PYTHONPATH": str(checkout.root), "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    listing = subprocess.Popen(command, cwd=checkout.root, env=environment, stdout=pipe, stderr=pipe, text=True)
    assert listing.stdout is not None and listing.stderr is not None
    listing.stdout.close()
    assert listing.stderr.read() == ""
    listing.wait()


def test_a_run_opens_as_a_page_that_asks_no_other_host(built: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.chdir(built.root)
    monkeypatch.setattr("click.launch", opened.append)
    monkeypatch.setattr("parity_lib.build.runner.run_notebook", _pretend)
    done = CliRunner().invoke(main, ["run", "alpha", "--open"])
    assert done.exit_code == 0, done.output
    page = built.root / "build/run/alpha.html"
    assert opened == [page.as_uri()] and done.output.splitlines()[-1] == "build/run/alpha.html"
    text = page.read_text()
    assert "Alpha, the first" in text
    assert re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="http[^"]+"', text) == []


def test_a_page_that_cannot_be_made_is_refused_before_the_run(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parity_lib.build.runner.find_spec", lambda name: None)
    before = files(checkout.root)
    assert "to show a page nbconvert is needed" in said(checkout, "run", "alpha", "--open", status=2)
    assert files(checkout.root) == before


def _pretend(notebook: Path, values: object, *, output: Path, build: Path) -> None:
    output.write_bytes(notebook.read_bytes())


def test_the_doctor_has_a_line_for_everything_and_says_what_to_do(built: Checkout) -> None:
    found = {finding.about: finding for finding in doctor.examine(built.root)}
    assert list(found) == ["python", "versions", "disk", "make", "git", "chromium", "scheduler", "torch", "book"]
    assert not any(finding.bad for finding in found.values())
    assert str(found["book"]).startswith("+ book: up to date")
    (built.root / "build/book/results/beta.json").unlink()
    assert str(doctor.book(built.root)) == "- book: 1 parts are not up to date; parity book --dry-run says why"


def test_the_doctor_sees_other_versions_and_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pins = tmp_path / "constraints.txt"
    pins.write_text("# mine\nclick==0.1  # old\nno-such-package==1\ntorch==2.13.0\n")
    found = doctor.versions(pins)
    assert "1 not installed and 1 not as pinned of 3, such as click" in found.found and not found.bad
    pins.write_text("snakemake==9.27.1\njupyter-book==0\n")
    monkeypatch.setattr(doctor, "version", _nothing)
    assert doctor.versions(pins).bad
    monkeypatch.setattr(doctor, "NEEDED_GB", 1e9)
    assert doctor.disk(tmp_path).bad


def _nothing(name: str) -> str:
    raise PackageNotFoundError(name)


def test_python_dash_m_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "parity_lib", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("parity, version"), done.stderr


def test_an_output_that_holds_the_checkout_is_refused(checkout: Checkout) -> None:
    for folder in ("/", str(checkout.root.parent)):
        sentence = said(checkout, "run", "beta", "--output", folder, status=2)
        assert f"--output {folder} holds the checkout itself" in sentence

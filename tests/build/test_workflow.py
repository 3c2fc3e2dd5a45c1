"""The build runs what is stale, survives being killed, and never passes off an old book as new."""

from __future__ import annotations

import re
import time

import psutil
import pytest
from checkouts import ROOT, Checkout, wait_for, write_notebook
from filelock import FileLock

from parity_lib.build.workflow import find_root, library, pages

INDEX = "build/quick/html/index.html"


def started(stdout: str) -> set[str]:
    return set(re.findall(r"^(\w+): started$", stdout, flags=re.MULTILINE))


def test_a_first_build_runs_everything_and_prints_the_index_last(
    first_build: tuple[Checkout, str],
) -> None:
    toy, stdout = first_build
    assert started(stdout) == {"alpha", "beta", "book"}
    assert stdout.splitlines()[-1] == INDEX
    build = toy.root / "build/quick"
    assert {path.name for path in build.iterdir() if not path.name.startswith(".")} == {
        *("html", "src", "results", "records", "logs", "tmp")
    }
    assert list((build / "tmp").iterdir()) == []
    assert (build / "html/notebooks/alpha.html").is_file()
    assert (build / "html/_static/mathjax/tex-svg-full.js").is_file()
    assert "steps: int = 3  # how many steps" in (build / "src/notebooks/alpha.ipynb").read_text()


def test_nothing_is_run_when_nothing_changed(built: Checkout) -> None:
    for path in (*built.root.glob("notebooks/*"), *built.root.glob("parity_lib/*.py")):
        path.touch()
    before = time.monotonic()
    done = built.parity("book")
    assert done.stdout == f"{INDEX}\n"
    assert time.monotonic() - before < 60  # a few seconds; a busy machine may take longer and is no failure


def test_a_changed_module_runs_only_the_chapters_that_reach_it(built: Checkout) -> None:
    before = built.results()
    built.write("parity_lib/colours.py", 'BLUE = "navy"\n')
    done = built.parity("book")
    assert started(done.stdout) == {"alpha", "book"}
    assert built.results() == before


def test_a_changed_parameter_runs_its_chapter_alone(built: Checkout) -> None:
    built.write("profiles/quick.yml", "runs:\n  alpha: {steps: 3}\n  beta: {seed: 5}\n")
    done = built.parity("book")
    assert started(done.stdout) == {"beta", "book"}
    assert built.results()["beta.json"] == b'{"seed": 5}'


def test_a_failing_chapter_is_named_and_the_old_book_is_set_aside(built: Checkout) -> None:
    notebook = built.root / "notebooks/beta.ipynb"
    sound = notebook.read_text()
    notebook.write_text(sound.replace("seed=seed", "seed=1/seed"))
    built.write("parity_lib/colours.py", 'BLUE = "navy"\n')
    done = built.parity("book")
    assert done.returncode == 1
    assert "alpha: done in" in done.stdout
    where = "build/quick/logs/beta.failed.ipynb"
    assert done.stderr == f"beta: ZeroDivisionError: division by zero; see {where}\n"
    assert (built.root / where).is_file()
    assert not (built.root / INDEX).exists()
    assert (built.root / "build/quick/html.previous/index.html").is_file()

    notebook.write_text(sound)
    done = built.parity("book")
    assert started(done.stdout) == {"beta", "book"}
    assert (built.root / INDEX).is_file()
    assert not (built.root / "build/quick/html.previous").exists()
    assert not (built.root / where).exists()


def test_a_warning_in_the_pages_is_an_error(built: Checkout) -> None:
    built.write("book/index.md", "# A toy book\n\n{doc}`nowhere`\n")
    done = built.parity("book")
    assert done.returncode == 1
    assert "book/index.md:3" in done.stdout
    assert done.stderr == "book: the pages did not build; see build/quick/logs/book.log\n"
    assert not (built.root / INDEX).exists()


def test_a_second_build_at_the_same_time_is_refused(built: Checkout) -> None:
    with FileLock(built.root / "build/quick/.lock"):
        done = built.parity("book")
    assert done.returncode == 1
    assert done.stderr == "another build of profile 'quick' is running\n"


@pytest.mark.parametrize("victim", ["parity", "snakemake"])  # of the whole family: tests/test_faults.py
def test_a_killed_build_leaves_no_orphan_and_resumes(built: Checkout, victim: str) -> None:
    waiting = built.root / "waiting"
    write_notebook(
        built.root / "notebooks/beta.ipynb",
        "seed: int = 0  # random seed [0..inf)\n",
        "import pathlib, time\n"
        f"pathlib.Path({str(waiting)!r}).touch()\n"
        f"time.sleep(0 if pathlib.Path({str(built.root / 'hurry')!r}).exists() else 600)",
        "from parity_lib import record",
        'record("beta", seed=seed)',
    )
    build = built.start("book")
    wait_for(waiting.exists)
    family = psutil.Process(build.pid).children(recursive=True)
    assert len(family) >= 3  # snakemake, runner, kernel
    (build if victim == "parity" else family[0]).kill()
    build.communicate(timeout=30)
    _, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []
    assert not (built.root / "build/quick/src/notebooks/beta.ipynb").exists()

    (built.root / "hurry").touch()
    done = built.parity("book")
    assert done.returncode == 0, done.stdout + done.stderr
    assert started(done.stdout) == {"beta", "book"}
    assert list((built.root / "build/quick/tmp").iterdir()) == []


def test_a_chapter_reaches_the_modules_it_imports_and_theirs(checkout: Checkout) -> None:
    def reached(code: str) -> set[str]:
        path = write_notebook(checkout.root / "notebooks/x.ipynb", "a: bool = True  # flag", code)
        return {file.stem for file in library(checkout.root, path)}

    assert reached("1 + 1") == {"__init__"}
    assert reached("from parity_lib import record") == {"__init__", "evidence"}
    assert reached("import parity_lib.figures.style as p") == {"__init__", "plots", "colours"}
    assert reached("%matplotlib inline\nfrom parity_lib import plots") >= {"plots", "colours"}
    assert reached("def f():\n    from parity_lib.colours import BLUE") == {"__init__", "colours"}
    assert reached("import parity_lib") == {"__init__", "evidence"}
    assert reached("import numpy, parity_library") == {"__init__"}


def test_the_checkout_is_found_from_any_folder_below_it() -> None:
    assert find_root(ROOT / "tests") == ROOT
    assert all((ROOT / page).is_file() for page in pages(ROOT))

"""The build runs what is stale, by content, heals what was lost, survives being killed, and never passes off an old
book as new."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import psutil
import pytest
from checkouts import ROOT, Checkout, save, wait_for, write_notebook

from parity_lib.build.parameters import ParameterError
from parity_lib.build.results import LEDGER
from parity_lib.build.workflow import (
    RESERVED,
    check_profile,
    find_root,
    key_of,
    library,
    load_profile,
    pages,
    pages_key,
    pick,
    shortest_first,
    stale,
)  # fmt: skip

INDEX = "build/book/html/index.html"


def started(stdout: str) -> set[str]:
    return set(re.findall(r"^(\w+): started$", stdout, flags=re.MULTILINE))


def reasons(toy: Checkout) -> dict[str, str]:
    return stale(toy.root, check_profile(toy.root, "book"), toy.root / "build/book")


def record(toy: Checkout, name: str) -> dict[str, list[str]]:
    return json.loads((toy.root / f"build/book/records/{name}.json").read_text())


def test_a_first_build_runs_everything_and_prints_the_index_last(first_build: tuple[Checkout, str]) -> None:
    toy, stdout = first_build
    assert started(stdout) == {"alpha", "beta", "book"}
    assert stdout.splitlines()[-1] == INDEX
    build = toy.root / "build/book"
    assert {path.name for path in build.iterdir() if not path.name.startswith(".")} == {
        *("html", "html.json", "src", "results", "tables", "records", "logs")
    }
    assert (build / "html/notebooks/alpha.html").is_file()
    assert (build / "html/_static/mathjax/tex-svg-full.js").is_file()
    assert record(toy, "alpha")["computed"] == ["alpha.product"]


def test_every_figure_leads_to_its_data_its_code_and_its_command(first_build: tuple[Checkout, str]) -> None:
    html = first_build[0].root / "build/book/html"
    figure = (html / "notebooks/alpha.html").read_text().partition('id="fig-toy"')[2].partition("</figure>")[0]
    assert re.findall('href="([^"#]+)"', figure) == [
        "../tables/alpha/toy.csv",
        "../figures/alpha/toy.svg",
        "../figures/alpha/toy.png",
        "../_sources/notebooks/alpha.ipynb",
    ]
    assert (html / "tables/alpha/toy.csv").read_text() == "total,loss,bits\n1.5,hinge,2\n"
    assert "parity run alpha" in re.sub("<[^>]+>", "", figure)


def test_nothing_is_run_when_nothing_changed(built: Checkout) -> None:
    for path in (*built.root.glob("notebooks/*"), *built.root.glob("parity_lib/**/*.py")):
        path.touch()
    assert built.parity("book").stdout == f"{INDEX}\n"


def test_a_change_is_known_by_its_content_whatever_the_time_stamps_say(built: Checkout) -> None:
    assert reasons(built) == {}
    path = built.root / "notebooks/beta.ipynb"
    sound = path.read_bytes()
    path.write_bytes(sound + b"\n")
    os.utime(path, (1e9, 1e9))  # as rsync and tar do
    assert reasons(built) == {"beta": "its sources changed"}
    path.write_bytes(sound)
    built.write("parity_lib/figures/colours.py", 'BLUE = "navy"\n')
    assert reasons(built) == {"alpha": "its sources changed"}
    built.write("parity_lib/figures/colours.py", 'BLUE = "blue"\n')
    built.write("profiles/book.yml", "runs:\n  alpha: {}\n  beta: {seed: 5}\n")
    assert reasons(built) == {"beta": "its sources changed"}
    built.write("profiles/book.yml", "runs:\n  alpha: {}\n  beta: {}\n")
    built.write("constraints.txt", "torch==0\n")
    assert set(reasons(built)) == {"alpha", "beta"}


def test_prose_colours_and_claims_train_nothing(built: Checkout) -> None:
    """What is expensive comes from the store; the wording of a claim does not even run a chapter.

    Of two builds at once one is refused, and the other is sound.
    """
    claims = built.root / "book/claims.yml"
    claims.write_text(claims.read_text().replace("every k-parity", "each k-parity"))
    assert reasons(built) == {"": "the sources changed"}
    before = built.results()
    built.write("parity_lib/figures/colours.py", 'BLUE = "navy"\n')
    path = built.root / "notebooks/alpha.ipynb"
    path.write_text(path.read_text().replace("Alpha, the first", "Alpha, the one"))
    builds = [built.start("book"), built.start("book")]
    said = [build.communicate() for build in builds]
    assert sorted(build.returncode for build in builds) == [0, 1]
    assert sorted(errors for _, errors in said) == ["", "another build of profile 'book' is running\n"]
    assert started("".join(stdout for stdout, _ in said)) == {"alpha", "book"}
    assert (record(built, "alpha")["computed"], record(built, "alpha")["reused"]) == ([], ["alpha.product"])
    assert built.results() == before and reasons(built) == {}  # all of it whole
    assert "Alpha, the one" in (built.root / "build/book/html/notebooks/alpha.html").read_text()


def test_what_was_lost_or_altered_is_made_again(built: Checkout) -> None:
    sound, build = built.results(), built.root / "build/book"
    damages = {
        "results/beta.json": "beta", "tables/alpha/toy.csv": "alpha", "src/notebooks/beta.ipynb": "beta",
        "records/alpha.json": "alpha", "html/notebooks/beta.html": "", "html/index.html": "", "html.json": "",
    }  # fmt: skip
    for place, name in damages.items():
        whole = (build / place).read_bytes()
        for damaged in (None, b"", whole[: len(whole) // 2], whole.replace(b"e", b"E")):
            if damaged is None:
                (build / place).unlink()
            else:
                (build / place).write_bytes(damaged)
            if (place, damaged) == ("records/alpha.json", whole.replace(b"e", b"E")):
                continue  # its keys are others
            assert list(reasons(built)) == [name], (place, damaged)
        (build / place).write_bytes(whole)
    assert reasons(built) == {}

    (build / "results/beta.json").write_text("{")
    (build / "html/notebooks/alpha.html").unlink()
    (build / ".snakemake/metadata").mkdir(parents=True, exist_ok=True)
    (build / ".snakemake/metadata/x").write_bytes(os.urandom(64))
    os.utime(build / "records/alpha.json", (4e9, 4e9))  # the clock was set back
    for folder in ("own", "profiles/default"):  # as on the front end of a cluster: not taken unasked
        built.write(f"{folder}/config.yaml", "executor: no-such\n")
    done = built.parity("book", SNAKEMAKE_PROFILE=str(built.root / "own"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert started(done.stdout) == {"beta", "book"}
    assert built.results() == sound and reasons(built) == {}


def test_a_chapter_that_is_no_python_fails_alone_is_named_and_the_old_book_is_set_aside(built: Checkout) -> None:
    notebook = built.root / "notebooks/beta.ipynb"
    sound = notebook.read_text()
    write_notebook(notebook, "seed: int = 0  # random seed [0..9]", "def (:")
    built.write("parity_lib/figures/colours.py", 'BLUE = "navy"\n')
    done = built.parity("book")
    assert done.returncode == 1
    assert "alpha: done in" in done.stdout
    where = "build/book/logs/beta.failed.ipynb"
    assert done.stderr.startswith("beta: SyntaxError: ") and done.stderr.endswith(f"; see {where}\n")
    assert len(done.stderr.splitlines()) == 1
    assert (built.root / where).is_file()
    assert "def (:" in (built.root / "build/book/logs/beta.error.txt").read_text()
    assert not (built.root / INDEX).exists()
    assert (built.root / "build/book/html.previous/index.html").is_file()

    notebook.write_text(sound)
    done = built.parity("book")
    assert started(done.stdout) == {"beta", "book"}
    assert (built.root / INDEX).is_file()
    assert not (built.root / "build/book/html.previous").exists()
    assert not (built.root / where).exists()


def test_a_warning_in_the_pages_and_a_figure_without_its_table_are_errors(built: Checkout) -> None:
    built.write("book/index.md", "# A toy book\n\n{doc}`nowhere`\n")
    path = built.root / "notebooks/alpha.ipynb"
    path.write_text(path.read_text().replace("toy=pd", "other=pd"))
    done = built.parity("book")
    assert done.returncode == 1
    assert "book/index.md:3" in done.stdout
    assert "fig-toy has no table tables/alpha/toy.csv: record it" in done.stdout
    assert done.stderr == "book: the pages did not build; see build/book/logs/book.log\n"
    assert not (built.root / INDEX).exists()


def test_killed_builds_leave_no_orphan_and_nothing_in_the_temporary_folder_and_are_resumed(
    built: Checkout, tmp_path: Path
) -> None:
    """The command, then Snakemake, then the whole family; at random moments: tests/build/test_faults.py."""
    waiting, hurry, temporary = built.root / "waiting", built.root / "hurry", tmp_path / "temporary"
    temporary.mkdir()
    write_notebook(
        built.root / "notebooks/beta.ipynb",
        "seed: int = 0  # random seed [0..inf)\n",
        "import pathlib, tempfile, time\n"
        "tempfile.mkstemp()\n"
        f"pathlib.Path({str(waiting)!r}).touch()\n"
        f"time.sleep(0 if pathlib.Path({str(hurry)!r}).exists() else 600)",
        save("beta", "seed=seed"),
    )
    for victim in ("parity", "snakemake", "all"):
        waiting.unlink(missing_ok=True)
        build = built.start("book", TMPDIR=str(temporary))
        wait_for(waiting.exists)
        family = psutil.Process(build.pid).children(recursive=True)
        assert len(family) >= 3  # snakemake, runner, kernel
        for process in {"parity": [build], "snakemake": family[:1], "all": [*family, build]}[victim]:
            process.kill()
        build.communicate(timeout=30)
        _, alive = psutil.wait_procs(family, timeout=30)
        assert alive == []
        assert not (built.root / "build/book/records/beta.json").exists()
        assert list(temporary.iterdir()) == []
    assert len(list((built.root / "build/book/tmp").iterdir())) > 0  # where the next build clears it away

    hurry.touch()
    done = built.parity("book", TMPDIR=str(temporary))
    assert done.returncode == 0, done.stdout + done.stderr
    assert started(done.stdout) == {"beta", "book"}
    assert list(temporary.iterdir()) == []
    assert not (built.root / "build/book/tmp").exists()


def test_a_chapter_reaches_the_modules_it_imports_and_theirs(checkout: Checkout) -> None:
    def reached(code: str) -> set[str]:
        path = write_notebook(checkout.root / "notebooks/x.ipynb", "a: bool = True  # flag", code)
        return {str(file.relative_to(checkout.root / "parity_lib")) for file in library(checkout.root, path)}

    init = {"__init__.py"}
    assert reached("1 + 1") == set()
    assert reached("from parity_lib.evidence import record") == {*init, "checks.py", "evidence.py"}
    drawn = {*init, "figures/__init__.py", "figures/alpha.py", "figures/colours.py"}
    alpha = {*drawn, "figures/palette.py", "figures/style.py", "figures/seen.py", "checks.py", "evidence.py"}
    assert reached("import parity_lib.figures.alpha as p") == alpha
    assert reached("%matplotlib inline\nfrom parity_lib.figures import alpha") == alpha
    assert reached("def f():\n    from parity_lib.figures.colours import BLUE") == drawn - {"figures/alpha.py"}
    assert reached("from parity_lib.chapters.alpha import product") >= {"chapters/alpha.py", "chapters/store.py"}
    assert reached("import numpy, parity_library") == set()
    assert len(reached("def (:")) == len(list(checkout.root.glob("parity_lib/**/*.py")))


def test_what_a_chapter_reads_besides_modules_is_in_its_key(checkout: Checkout) -> None:
    root = checkout.root
    chapters = {
        "plain": "from parity_lib.evidence import record",
        "drawn": "from parity_lib.figures.alpha import line",
        "sensitive": "import parity_lib.chapters.sensitivity",
        LEDGER: "import parity_lib.build.ledger",
    }
    checkout.write("parity_lib/chapters/sensitivity.py", "")
    flag = "a: bool = True  # flag"
    paths = [write_notebook(root / f"notebooks/{name}.ipynb", flag, code) for name, code in chapters.items()]

    def changed(place: str, text: str) -> set[str]:
        before = [key_of(root, path, {}, root / "build/book") for path in paths]
        book = pages_key(root, [], root / "build/book")
        checkout.write(place, text)
        assert (pages_key(root, [], root / "build/book") != book) == (not place.startswith("notebooks"))
        pairs = zip(paths, before, strict=True)
        return {path.stem for path, key in pairs if key_of(root, path, {}, root / "build/book") != key}

    assert changed("parity_lib/figures/circle.html", "other") == {"drawn", LEDGER}  # which draws too
    assert changed("parity_lib/build/ledger.html", "other") == {LEDGER}
    assert changed("reference/studies/sensitivity_x.csv", "a\n1\n") == {"sensitive"}
    assert changed("notebooks/beta.ipynb", "{}") == {LEDGER}


def test_names_are_names(tmp_path: Path) -> None:
    for name in ("...yml", "a b.yml", "-x.yml", "a.b.yml", "good-1.yml"):
        (tmp_path / name).touch()
    with pytest.raises(ParameterError, match=r"unknown profile '\.\.'; known: good-1$"):
        pick("profile", "..", tmp_path.glob("*.yml"))


@pytest.mark.parametrize("name", ["run", "race", "studies", "store", "matplotlib", "lib", "tmp", "Cache"])
def test_a_profile_is_not_called_like_another_folder_of_the_build(tmp_path: Path, name: str) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / f"profiles/{name}.yml").write_text("runs: {alpha: {}}\n")
    with pytest.raises(ParameterError, match=f"profile {name}: build/{name} is for something else"):
        load_profile(tmp_path, name)


def test_the_libraries_of_a_build_leave_nothing_in_the_home(first_build: tuple[Checkout, str]) -> None:
    root = first_build[0].root
    assert list((root.parent / "home").rglob("*")) == []
    assert {path.name for path in (root / "build").iterdir()} <= RESERVED | {"book"}


def test_the_checkout_is_found_from_any_folder_below_it() -> None:
    assert find_root(ROOT / "tests") == ROOT
    assert all((ROOT / page).is_file() for page in pages(ROOT))


def test_the_ledger_runs_alone_from_the_book_or_from_the_reference(tmp_path: Path) -> None:
    from parity_lib.build.results import ResultsError, find_run

    (tmp_path / "build/book/results").mkdir(parents=True)
    scratch = tmp_path / "build/book/tmp/ledger-1"
    scratch.mkdir(parents=True)
    with pytest.raises(ResultsError, match="no run has results of no-such: run the chapters first"):
        find_run(["no-such"], scratch)
    (tmp_path / "build/book/results/no-such.json").touch()
    assert find_run(["no-such"], scratch) == tmp_path / "build/book"
    with pytest.raises(ResultsError, match=r"a chapter is a name, got '\.\./x'"):
        find_run(["../x"], scratch)
    assert find_run([], Path("/")).name in ("book", "reference")
    shutil.rmtree(tmp_path)


def test_chapters_are_ordered_by_how_long_they_took_and_unknown_ones_begin(tmp_path: Path) -> None:
    records = tmp_path / "reference" / "records"
    records.mkdir(parents=True)
    for name, seconds in {"short": 1.5, "long": 90.0, "broken": "?"}.items():
        record = {"chapter": name, "parameters": {}, "seconds": seconds, "commit": None, "date": "2026-01-01"}
        (records / f"{name}.json").write_text(json.dumps(record))
    assert shortest_first(tmp_path, ["new", "long", "broken", "short"]) == ["short", "long", "new", "broken"]

"""What every chapter gives in the smoke run, and that plain papermill gives the same."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkouts import ROOT, parity

from parity_lib.build.parameters import check_parameters
from parity_lib.build.results import read_record, read_results, read_table
from parity_lib.build.workflow import load_profile
from parity_lib.figures.palette import SIGNAL

CHAPTERS = list(load_profile(ROOT, "book"))
each_chapter = pytest.mark.parametrize("name", CHAPTERS)


def outputs(page: Path) -> list[dict[str, Any]]:
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    return [output for cell in cells for output in cell.get("outputs", [])]


@each_chapter
def test_the_smoke_run_recorded_its_parameters_and_decided_nothing(name: str, smoke_book: Path) -> None:
    run, notebook = smoke_book.parent, ROOT / "notebooks" / f"{name}.ipynb"
    values = check_parameters(notebook, load_profile(ROOT, "smoke")[name])
    record, results = read_record(run, name), read_results(run, name)
    assert record.parameters == values
    decided = {claim.as_stated for claim in results.claims.values()}
    assert values == check_parameters(notebook, {}) or decided <= {"open"}
    assert all(len(read_table(run, name, table)) for table in results.tables)


@each_chapter
def test_the_smoke_run_warned_of_nothing(name: str, smoke_book: Path) -> None:
    found = outputs(smoke_book.parent / "src/notebooks" / f"{name}.ipynb")
    assert [o for o in found if o["output_type"] == "error" or o.get("name") == "stderr"] == []


@each_chapter
def test_figures_are_drawn_for_one_width_so_that_their_text_has_one_size(name: str, smoke_book: Path) -> None:
    pictures = [o["data"]["image/svg+xml"] for o in outputs(smoke_book.parent / "src/notebooks" / f"{name}.ipynb")
                if "image/svg+xml" in o.get("data", {})]  # fmt: skip
    assert pictures, "a chapter without a figure"
    for picture in pictures:
        width = re.search(r'<svg[^>]*width="([\d.]+)pt"', "".join(picture))
        assert width and float(width[1]) <= 72 * 8.4, width


@each_chapter
def test_the_smoke_run_fits_into_binder(name: str, smoke_book: Path) -> None:
    """One core and 2 GB, of which the server takes a part."""
    peak = read_record(smoke_book.parent, name).peak_memory_mb
    assert peak is None or peak < 1200


def test_the_playground_runs_fits_into_binder_and_ends_in_sliders(tmp_path: Path) -> None:
    done = parity("run", "playground", "--output", str(tmp_path), "-p", "n", "8", "-p", "bits", "2,6")
    assert done.returncode == 0, done.stderr
    found = outputs(tmp_path / "playground.ipynb")
    assert sum("image/svg+xml" in output.get("data", {}) for output in found) >= 1
    assert "application/vnd.jupyter.widget-view+json" in found[-1]["data"]
    record = read_record(tmp_path, "playground")
    assert record.parameters["bits"] == [2, 6] and record.peak_memory_mb < 1000


def test_plain_papermill_gives_the_same_results_to_the_byte(smoke_book: Path, tmp_path: Path) -> None:
    """One chapter is enough: what the others compute is tested to the bit where they get it from."""
    values = tmp_path / "values.yml"
    values.write_text(yaml.safe_dump(load_profile(ROOT, "smoke")["one_run"]))
    command = [sys.executable, "-m", "papermill", str(ROOT / "notebooks/one_run.ipynb"), "out.ipynb", "-f", str(values)]
    command += ["--kernel", "python3", "--no-progress-bar"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    tables = sorted(path.relative_to(tmp_path) for path in tmp_path.glob("tables/*/*.csv"))
    assert tables
    for place in (*tables, Path("results/one_run.json")):
        assert (tmp_path / place).read_bytes() == (smoke_book.parent / place).read_bytes(), place


REFUSE = """
from .. import training
from ..chapters import store


def refuse(*_):
    raise AssertionError("something was computed")


training.descent = store._save = refuse
"""


def test_another_colour_and_another_sentence_train_nothing(smoke_book: Path, tmp_path: Path) -> None:
    """A chapter of the smoke build drawn again in a checkout whose kernels can neither train nor keep a result."""
    for folder in ("parity_lib", "notebooks", "profiles"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Snakefile", "constraints.txt"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / "build").mkdir()
    (tmp_path / "build/store").symlink_to(ROOT / "build/store")
    kernel, palette = tmp_path / "parity_lib/build/kernel.py", tmp_path / "parity_lib/figures/palette.py"
    kernel.write_text(kernel.read_text() + REFUSE)
    palette.write_text(palette.read_text().replace(f'"{SIGNAL}"', '"#123456"'))
    notebook = tmp_path / "notebooks/figure2.ipynb"
    cells = json.loads(notebook.read_text(encoding="utf-8"))
    cells["cells"][0]["source"] += ["\n\nAnother sentence."]
    notebook.write_text(json.dumps(cells), encoding="utf-8")
    done = parity("run", "figure2", "--profile", "smoke", root=tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,), before = (tmp_path / "build/run").glob("figure2-*"), smoke_book.parent
    tables = sorted(path.relative_to(folder) for path in folder.glob("tables/figure2/*.csv"))
    assert tables and all((folder / place).read_bytes() == (before / place).read_bytes() for place in tables)
    pictures = [output.get("data", {}).get("image/svg+xml", "") for output in outputs(folder / "figure2.ipynb")]
    drawn = "".join(map(str, pictures))
    assert "#123456" in drawn and SIGNAL not in drawn

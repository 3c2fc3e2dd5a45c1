"""What every chapter promises, as a source and after the quick run."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import papermill
import pytest
import yaml
from checkouts import ROOT

from parity_lib.parameters import check_parameters, read_parameters
from parity_lib.workflow import check_profile, load_profile

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def executed(path: Path) -> dict[str, Any]:
    return load(ROOT / "build/quick/src/notebooks" / path.name)


@each_notebook
def test_sources_are_clean(path: Path) -> None:
    notebook = load(path)
    assert "papermill" not in notebook["metadata"]
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    for cell in notebook["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None
        assert set(cell["metadata"]) <= {"tags", "mystnb"}


@each_notebook
def test_a_chapter_opens_with_its_title(path: Path) -> None:
    first = load(path)["cells"][0]
    assert first["cell_type"] == "markdown"
    assert "".join(first["source"]).startswith("# ")


@each_notebook
def test_parameters_are_typed_explained_and_bounded(path: Path) -> None:
    parameters = read_parameters(path)  # refuses a number without a range, or a line without help
    assert parameters
    assert check_parameters(path, {}) == {p.name: p.default for p in parameters}


@each_notebook
def test_papermill_sees_the_same_parameters(path: Path) -> None:
    seen = papermill.inspect_notebook(str(path))
    ours = {p.name: p.type for p in read_parameters(path)}
    assert {name: entry["inferred_type_name"] for name, entry in seen.items()} == ours
    assert all(entry["help"] for entry in seen.values())


@each_notebook
def test_no_function_of_more_than_a_few_lines_hides_in_a_notebook(path: Path) -> None:
    for cell in load(path)["cells"]:
        if cell["cell_type"] == "code":
            for node in ast.walk(ast.parse("".join(cell["source"]))):
                if isinstance(node, ast.FunctionDef):
                    assert node.end_lineno is not None and node.end_lineno - node.lineno <= 8


def test_every_chapter_is_in_the_contents_and_in_every_profile() -> None:
    names = {path.stem for path in NOTEBOOKS}
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    files = [page["file"] for part in toc["parts"] for page in part["chapters"]]
    assert {f.removeprefix("notebooks/") for f in files if f.startswith("notebooks/")} == names
    for profile in ("quick", "paper"):
        assert set(check_profile(ROOT, profile)) == names


def test_the_ledger_collects_every_other_chapter() -> None:
    (chapters,) = read_parameters(ROOT / "notebooks/ledger.ipynb")
    assert set(chapters.default) == {path.stem for path in NOTEBOOKS} - {"ledger"}


@each_notebook
def test_the_quick_run_recorded_the_parameters_of_its_profile(path: Path, quick_book: Path) -> None:
    values = check_parameters(path, load_profile(ROOT, "quick")[path.stem])
    record = load(quick_book.parent / "records" / f"{path.stem}.json")
    results = load(quick_book.parent / "results" / f"{path.stem}.json")
    assert record["parameters"] == values
    assert results["notebook"] == path.stem
    assert read_parameters(quick_book.parent / "src/notebooks" / path.name) is not None


@each_notebook
def test_the_quick_run_warned_of_nothing(path: Path, quick_book: Path) -> None:
    outputs = [output for cell in executed(path)["cells"] for output in cell.get("outputs", [])]
    assert [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"] == []


@each_notebook
def test_every_figure_says_what_is_to_be_seen(path: Path, quick_book: Path) -> None:
    figures = 0
    for cell in executed(path)["cells"]:
        images = [o for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
        if images:
            alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
            assert len(alt) >= 30, f"cell {cell['id']} draws a figure without alt text"
            figures += len(images)
    assert figures, "a chapter without a figure"


def test_plain_papermill_gives_the_same_results_to_the_byte(quick_book: Path, tmp_path: Path) -> None:
    """One chapter is enough: what the others compute is tested to the bit where they get it from."""
    path = ROOT / "notebooks/architecture.ipynb"
    values = tmp_path / "values.yml"
    values.write_text(yaml.safe_dump(load_profile(ROOT, "quick")[path.stem]))
    command = [sys.executable, "-m", "papermill", str(path), "out.ipynb", "-f", str(values)]
    command += ["--kernel", "python3", "--no-progress-bar"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    name = f"{path.stem}.json"
    assert (tmp_path / "results" / name).read_bytes() == (quick_book.parent / "results" / name).read_bytes()

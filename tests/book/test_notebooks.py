"""What every chapter promises, as a source and after the quick run."""

from __future__ import annotations

import ast
import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import papermill
import pytest
import yaml
from checkouts import ROOT, parity

from parity_lib.build.parameters import check_parameters, read_parameters
from parity_lib.build.workflow import check_profile, library, load_profile

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CHAPTERS = [path for path in NOTEBOOKS if path.stem != "playground"]  # that one is for live sessions only
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def executed(path: Path) -> dict[str, Any]:
    return load(ROOT / "build/smoke/src/notebooks" / path.name)


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
def test_no_long_cell_and_no_function_of_more_than_a_few_lines_hides_in_a_notebook(path: Path) -> None:
    for cell in load(path)["cells"]:
        if cell["cell_type"] == "code":
            assert "".join(cell["source"]).count("\n") < 25, cell["source"][0]
            for node in ast.walk(ast.parse("".join(cell["source"]))):
                if isinstance(node, ast.FunctionDef):
                    assert node.end_lineno is not None and node.end_lineno - node.lineno <= 8


def test_every_chapter_is_in_the_contents_and_in_every_profile() -> None:
    names = {path.stem for path in CHAPTERS}
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    files = [page["file"] for part in toc["parts"] for page in part["chapters"]]
    assert {f.removeprefix("notebooks/") for f in files if f.startswith("notebooks/")} == names
    for profile in ("quick", "paper"):
        assert set(check_profile(ROOT, profile)) == names


def test_the_ledger_collects_every_other_chapter() -> None:
    (chapters,) = read_parameters(ROOT / "notebooks/ledger.ipynb")
    assert set(chapters.default) == {path.stem for path in CHAPTERS} - {"ledger"}


@each_chapter
def test_the_quick_run_recorded_the_parameters_of_its_profile(path: Path, smoke_book: Path) -> None:
    values = check_parameters(path, load_profile(ROOT, "quick")[path.stem])
    record = load(smoke_book.parent / "records" / f"{path.stem}.json")
    results = load(smoke_book.parent / "results" / f"{path.stem}.json")
    assert record["parameters"] == values
    assert results["notebook"] == path.stem
    assert read_parameters(smoke_book.parent / "src/notebooks" / path.name) is not None


@each_chapter
def test_the_quick_run_warned_of_nothing(path: Path, smoke_book: Path) -> None:
    outputs = [output for cell in executed(path)["cells"] for output in cell.get("outputs", [])]
    assert [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"] == []


@each_chapter
def test_every_figure_says_what_is_to_be_seen(path: Path, smoke_book: Path) -> None:
    figures = 0
    for cell in executed(path)["cells"]:
        images = [o for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
        if images:
            alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
            assert alt, f"cell {cell['id']} draws a figure without alt text"
            figures += len(images)
    assert figures, "a chapter without a figure"


def test_alt_text_is_a_description_in_sentences_and_belongs_to_one_figure() -> None:
    cells = [cell for path in NOTEBOOKS for cell in load(path)["cells"]]
    alts = [alt for cell in cells if (alt := cell["metadata"].get("mystnb", {}).get("image", {}).get("alt"))]
    assert [alt for alt in alts if len(alt.split()) < 12 or not alt.endswith(".")] == []
    assert len(set(alts)) == len(alts) > 50


def test_a_line_of_the_library_reruns_only_the_chapters_that_reach_it() -> None:
    reached = {path.stem: {module.stem for module in library(ROOT, path)} for path in CHAPTERS}
    assert [name for name, modules in reached.items() if "xor" in modules] == ["xor"]
    assert [name for name, modules in reached.items() if "fixed" in modules] == ["fixed_attention"]
    for name, modules in reached.items():
        drawn = {module for module in modules if module.startswith("plots_")}
        assert drawn <= {f"plots_{name}", "plots_figure2"}, name


@each_chapter
def test_figures_are_drawn_for_one_width_so_that_their_text_has_one_size(path: Path, smoke_book: Path) -> None:
    for cell in executed(path)["cells"]:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                width = int.from_bytes(base64.b64decode(output["data"]["image/png"])[16:20], "big")
                assert 1150 <= width <= 1400, f"{path.stem}, {cell['id']}: {width} pixels"


@each_chapter
def test_the_quick_run_fits_into_binder(path: Path, smoke_book: Path) -> None:
    """One core and 2 GB, of which the server takes a part."""
    record = load(smoke_book.parent / "records" / path.name.replace(".ipynb", ".json"))
    assert record["peak_memory_mb"] < 1500


def test_the_playground_runs_fits_into_binder_and_ends_in_sliders(tmp_path: Path) -> None:
    done = parity("run", "playground", "--output", str(tmp_path), "-p", "n", "8", "-p", "bits", "2,6")
    assert done.returncode == 0, done.stderr
    cells = load(tmp_path / "playground.ipynb")["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    assert "application/vnd.jupyter.widget-view+json" in outputs[-1]["data"]
    assert load(tmp_path / "results/playground.json")["parameters"]["bits"] == [2, 6]
    assert load(tmp_path / "records/playground.json")["peak_memory_mb"] < 1000


def test_plain_papermill_gives_the_same_results_to_the_byte(smoke_book: Path, tmp_path: Path) -> None:
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
    assert (tmp_path / "results" / name).read_bytes() == (smoke_book.parent / "results" / name).read_bytes()

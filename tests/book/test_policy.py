"""What every notebook promises as a source: clean, short lines, cells that call, figures with their data."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import papermill
import pytest
import yaml
from checkouts import ROOT

from parity_lib.build.parameters import check_parameters, read_parameters
from parity_lib.build.workflow import check_profile, contents, library

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CHAPTERS = [path for path in NOTEBOOKS if path.stem != "playground"]  # that one is for live sessions only
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def code(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """The code cells of a notebook, with their source."""
    for cell in load(path)["cells"]:
        if cell["cell_type"] == "code":
            yield cell, "".join(cell["source"])


def calls(path: Path, *names: str) -> Iterator[ast.Call]:
    for _, source in code(path):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names:
                yield node


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
    assert {name: entry["inferred_type_name"] for name, entry in seen.items()} == {
        p.name: p.type for p in read_parameters(path)
    }
    assert all(entry["help"] for entry in seen.values())


@each_notebook
def test_code_lines_have_at_most_100_characters(path: Path) -> None:
    assert [line for _, source in code(path) for line in source.splitlines() if len(line) > 100] == []


@each_notebook
def test_cells_call_and_do_not_compute(path: Path) -> None:
    """No function, no comprehension in an f-string, and no f-string as prose."""
    for _, source in code(path):
        for node in ast.walk(ast.parse(source)):
            assert not isinstance(node, ast.FunctionDef | ast.ClassDef), ast.unparse(node)
            if isinstance(node, ast.JoinedStr):
                inner = [part for part in ast.walk(node) if isinstance(part, ast.ListComp | ast.GeneratorExp)]
                assert not inner, ast.unparse(node)
    for call in calls(path, "Markdown", "tell"):
        assert not [part for part in ast.walk(call) if isinstance(part, ast.JoinedStr)], ast.unparse(call)


@each_notebook
def test_what_is_recorded_are_verdicts_and_frames(path: Path) -> None:
    (call,) = calls(path, "record")
    assert ast.literal_eval(call.args[0]) == path.stem
    assert not [part for part in ast.walk(call) if isinstance(part, ast.Dict) and part.keys], ast.unparse(call)


@each_chapter
def test_every_figure_has_a_name_a_caption_alt_text_and_its_data(path: Path) -> None:
    (call,) = calls(path, "record")
    recorded = {keyword.arg for keyword in call.keywords}
    figures = [cell["metadata"]["mystnb"] for cell, _ in code(path) if "figure" in cell["metadata"].get("mystnb", {})]
    assert figures, "a chapter without a figure"
    for shown in figures:
        assert shown["figure"]["name"].startswith("fig-") and shown["figure"]["caption"].strip()
        assert shown["figure"]["name"].removeprefix("fig-").replace("-", "_") in recorded, shown["figure"]["name"]
        assert len(shown["image"]["alt"].split()) >= 8, shown["figure"]["name"]


def test_alt_text_is_a_description_in_sentences_and_belongs_to_one_figure() -> None:
    metadata = [cell["metadata"].get("mystnb", {}) for path in NOTEBOOKS for cell, _ in code(path)]
    alts = [part["image"]["alt"] for part in metadata if "image" in part]
    assert [alt for alt in alts if not alt.endswith(".")] == []
    assert len(set(alts)) == len(alts) > 30
    names = [part["figure"]["name"] for part in metadata if "figure" in part]
    assert len(set(names)) == len(names)


def test_every_chapter_is_in_the_contents_and_in_every_profile() -> None:
    names = {path.stem for path in CHAPTERS}
    assert {Path(page).name for page in contents(ROOT) if page.startswith("notebooks/")} == names
    for profile in ("book", "smoke"):
        assert set(check_profile(ROOT, profile)) == names
    book = yaml.safe_load((ROOT / "profiles/book.yml").read_text())["runs"]
    assert set(map(str, book.values())) == {"{}"} and list(book)[-1] == "ledger"


def test_a_chapter_reaches_its_own_floors_and_no_other_chapter_s_figures() -> None:
    for path in CHAPTERS:
        reached = {str(module.relative_to(ROOT / "parity_lib")) for module in library(ROOT, path)}
        drawn = {module for module in reached if module.startswith("figures/")}
        assert drawn >= {"figures/style.py", f"figures/{path.stem}.py"} or path.stem == "one_run", path.stem
        built = {module for module in reached if module.startswith("build/")}
        assert path.stem == "ledger" or built <= {"build/__init__.py", "build/parameters.py"}, path.stem

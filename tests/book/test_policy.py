"""What every notebook promises as a source: clean, short lines, cells that call, figures with their data."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import papermill
import prose
import pytest
import yaml
from checkouts import ROOT

from parity_lib.build.parameters import check_parameters, read_parameters
from parity_lib.build.workflow import check_profile, contents, library

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CHAPTERS = [path for path in NOTEBOOKS if path.stem != "playground"]  # that one is for JupyterLab only
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def code(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """The code cells of a notebook, with their source; a file that a page writes as an example is none of its own."""
    for cell in load(path)["cells"]:
        if cell["cell_type"] == "code" and not cell["source"][0].startswith("%%writefile"):
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
    """No function, branch, loop or f-string; what is kept is computed once, training too."""
    computing = (ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.If, ast.IfExp, ast.For, ast.While, ast.JoinedStr)
    for _, source in code(path):
        assert [ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, computing)] == []
    assert [ast.unparse(call) for call in calls(path, "train", "minimise", "Verdict")] == []


@each_notebook
def test_cells_judge_nothing_and_type_no_results(path: Path) -> None:
    """Comparisons say whether a sentence holds, or which rows are meant; a dict names verdicts of tested judges."""
    for _, source in code(path):
        tree, allowed = ast.parse(source), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Subscript | ast.comprehension) or getattr(node, "arg", "") == "holds":
                allowed |= set(ast.walk(node))
        for node in ast.walk(tree):
            assert not isinstance(node, ast.Compare | ast.BoolOp) or node in allowed, ast.unparse(node)
            if isinstance(node, ast.Dict):
                values = [value for key, value in zip(node.keys, node.values, strict=True) if key]
                judged = [ast.unparse(value.func) for value in values if isinstance(value, ast.Call)]
                assert all(".judge_" in name for name in judged), ast.unparse(node)
                plain = (ast.Call, ast.Name, ast.Attribute)
                assert all(isinstance(v, plain) or isinstance(getattr(v, "value", 0), str) for v in values)


@each_chapter
def test_a_short_cell_that_is_not_folded_teaches_what_the_page_is_about(path: Path) -> None:
    shown = [source for cell, source in code(path) if not cell["metadata"].get("tags")]
    assert any("  # " in source and len(source.splitlines()) <= 10 for source in shown)


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


@pytest.mark.parametrize("name", prose.STORY)
def test_a_chapter_of_the_story_keeps_its_skeleton_and_its_length(name: str) -> None:
    """Hook, question, idea, formula, three exercises with solutions, one sentence to remember, what is not known."""
    found = prose.page(name)
    assert 900 <= found.words <= 1300, found.words
    assert found.figures <= 4 and found.density < 3.5, (found.figures, found.density)
    assert (found.exercises, found.summaries) == (3, 1)
    cells = load(ROOT / "notebooks" / f"{name}.ipynb")["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    parts = ["**Question.**", "**Idea.**", "} Key idea", "} In one sentence", "```{exercise}"]
    places = [text.find(part) for part in [*parts, "**What we do not know.**"]]
    assert "```{math}\n:label: eq-" in text and -1 not in places and places == sorted(places), places
    assert re.findall(r"\{exercise\}\n:label: (\S+)", text) == re.findall(r"\{solution\} (\S+)\n:class: dropdown", text)
    first_figure = next(i for i, cell in enumerate(cells) if "mystnb" in cell["metadata"])
    assert first_figure < next(i for i, cell in enumerate(cells) if "**Question.**" in "".join(cell["source"]))
    for shown in re.findall(r"\{numref\}`(fig-[\w-]+)`", text):
        assert shown in [cell["metadata"].get("mystnb", {}).get("figure", {}).get("name") for cell in cells]


@pytest.mark.parametrize("name", [*prose.STORY, *prose.ATLAS, "xor", "race", "sensitivity", "simplicity"])
def test_every_figure_is_referred_to_by_its_number(name: str) -> None:
    cells = load(ROOT / "notebooks" / f"{name}.ipynb")["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    drawn = [cell["metadata"].get("mystnb", {}).get("figure", {}).get("name") for cell in cells]
    assert [figure for figure in drawn if figure and f"{{numref}}`{figure}`" not in text] == []


@pytest.mark.parametrize("path", sorted((ROOT / "book/dossier").glob("*.md")), ids=lambda path: path.stem)
def test_a_page_of_the_dossier_has_pictures_and_verdicts_and_names_figures_that_are_drawn(path: Path) -> None:
    drawn = {cell["metadata"].get("mystnb", {}).get("figure", {}).get("name") for p in NOTEBOOKS for cell, _ in code(p)}
    text = path.read_text(encoding="utf-8")
    shown = re.findall(r"```\{shown\} (\S+)", text)
    assert shown and "```{claims} " in text
    assert {*shown, *re.findall(r"\{numref\}`([^`]+)`", text)} <= drawn


@pytest.mark.parametrize(
    "page", [*(f"notebooks/{name}.ipynb" for name in ("xor", "sensitivity", "samples")), "book/exact_risk.md"]
)
def test_the_central_equations_have_numbers_and_are_referred_to(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    labels = set(re.findall(r":label: (eq-[\w-]+)", text))
    assert labels and labels >= set(re.findall(r"\{eq\}`([\w-]+)`", text)) > set()


@pytest.mark.parametrize("page", ["README.md", *(f"book/{p.name}" for p in sorted((ROOT / "book").glob("*.md")))])
def test_pages_have_powers_of_ten_and_not_machine_notation(page: str) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert re.findall(r"\b\d[\d.]*[eE][-+−]?\d+\b", text) == []


def test_captions_and_alt_texts_have_powers_of_ten_and_not_machine_notation() -> None:
    shown = [str(cell["metadata"].get("mystnb", "")) for path in NOTEBOOKS for cell, _ in code(path)]
    assert [text for text in shown if re.search(r"\b\d[\d.]*[eE][-+−]?\d+\b", text)] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_parameters_are_checked_in_the_notebook_too(path: Path) -> None:
    cells = load(path)["cells"]
    tagged = [i for i, cell in enumerate(cells) if "parameters" in cell["metadata"].get("tags", [])]
    assert all("\ncheck_here()" in "".join(cells[i + 1]["source"]) for i in tagged)


def test_the_readme_fits_on_two_screens_and_begins_with_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 82 and len(text.split()) <= 800
    assert re.findall(r"^make \w+", text.partition("```bash\n")[2].partition("```")[0], re.MULTILINE) == [
        "make book",
        "make test",
    ]


def test_the_model_has_as_many_lines_as_its_heading_says() -> None:
    cells = load(ROOT / "notebooks/architecture.ipynb")["cells"]
    (heading,) = [i for i, cell in enumerate(cells) if "## The whole model in five lines" in "".join(cell["source"])]
    assert len(cells[heading + 1]["source"]) == 5
    assert "the model in five lines" in (ROOT / "book/index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [path.stem for path in NOTEBOOKS])
def test_a_paragraph_has_at_most_three_numbers_and_none_in_machine_notation(name: str) -> None:
    found = prose.page(name)
    assert [text for text in found.paragraphs if prose.numbers(text) > 3] == []
    assert not [text for text in found.paragraphs if re.search(r"\d[eE][+-]?\d", text)]
    assert found.density < 3.5 or name == "playground"
    nicknames = "figure2-signed|figure2-population|later-code|product-head|expr-ffnn"
    assert not [text for text in found.paragraphs if re.search(nicknames, text)]


def test_words_and_numbers_are_counted_as_a_reader_would() -> None:
    parts = [
        "# Two words",
        "```{math}\n:label: a\nx = 3\n```",
        "Theorem 5 has $2^n$ and 20 %.",
        "```{solution} b\n1 2\n```",
    ]
    found = prose.paragraphs("\n\n".join(parts))
    assert found == ["Two words", "Theorem 5 has formula and 20 %."]
    assert [prose.numbers(part) for part in found] == [0, 1]
    assert prose.told('x = 1\ntell("a {b:percent} c", holds=True, b=1)') == ["a {b:percent} c"]

"""Words, figures and numbers of every page: ``python tests/book/prose.py``. The limits stand in ``test_policy``.

Counted is what a person wrote for the open page: text cells and the templates of ``tell``, without formulas, tables,
captions, code, proofs and folded solutions. A number that a template fills in counts; the one in "Theorem 5" is a name.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STORY = ("architecture", "figure2", "convergence", "sampling", "fixed_attention", "ledger")
ATLAS = ("robustness", "samples", "one_run", "lemmas")

SILENT = ("solution", "math", "raw", "figure", "this-run", "prf:proof")
MARKUP = r"^:\w+:.*$|^\s*\|.*$|<[^>]+>|\]\([^)]*\)|\{[\w:]+\}`[^`]*`|^#+ "
NAMES = "Theorem|Lemmas?|Proposition|Corollary|Remark|Figure|Section|chapter|eq\\.|bit|position"
NAMED = rf"(?:{NAMES}) \d+(?:(?:, | and )\d+)*"
NUMBER = r"\d[\d.,]*(?:\s\d{3})*|[¼½¾⅓⅔⅛]|\{\w+[^}]*\}"


@dataclass(frozen=True)
class Prose:
    """What is written on a page: paragraphs, and how many figures, exercises and boxes it has."""

    paragraphs: tuple[str, ...]
    figures: int
    exercises: int
    summaries: int

    @property
    def words(self) -> int:
        """Words of the open page; a formula in the text is one."""
        return sum(len(re.findall(r"[^\W_][\w'’-]*", text)) for text in self.paragraphs)

    @property
    def numbers(self) -> int:
        """Numbers in the text."""
        return sum(map(numbers, self.paragraphs))

    @property
    def density(self) -> float:
        """Numbers per 100 words."""
        return 100 * self.numbers / max(1, self.words)


def numbers(paragraph: str) -> int:
    """How many numbers a paragraph has, names such as "Theorem 5" left out."""
    return len(re.findall(NUMBER, re.sub(NAMED, "", paragraph)))


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text in MyST, without markup, formulas and what is folded."""
    kept, fences = [], []  # of the open fences: how each is closed, and whether what it holds counts
    for line in re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL).splitlines():
        if fences and line.strip() == fences[-1][0]:
            fences.pop()
            kept.append("")
        elif opens := re.match(r"\s*(`{3,}|:{3,})(?:\{([\w:-]+)\}(.*)|\w*)$", line):
            fences.append((opens[1], opens[2] is not None and opens[2] not in SILENT))
            kept.append(opens[3] if all(counts for _, counts in fences) and opens[3] else "")
        elif all(counts for _, counts in fences):
            kept.append(line)
    bare = re.sub(r"\$[^$]+\$", "formula", re.sub(MARKUP, " ", "\n".join(kept), flags=re.MULTILINE))
    return [part for part in (" ".join(block.split()) for block in re.split(r"\n\s*\n|\n(?=- )", bare)) if part]


def told(source: str) -> list[str]:
    """The templates of the sentences under test in a cell."""
    if source.startswith("%%"):  # a file that the notebook writes
        return []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    found = [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "tell"]
    return [ast.literal_eval(template) for template in found]


def read(path: Path) -> Prose:
    """The prose of a notebook, or of a page in Markdown."""
    if path.suffix == ".md":
        text = path.read_text(encoding="utf-8")
        return Prose(tuple(paragraphs(text)), text.count("```{figure}"), text.count("{exercise}"), 0)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts: list[str] = []
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts += paragraphs(source)
        else:
            for template in told(source):
                parts += [re.sub(r"\$[^$]+\$", "formula", re.sub(r"\]\([^)]*\)", " ", template))]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    drawn = sum("figure" in cell["metadata"].get("mystnb", {}) for cell in cells)
    animated = sum("animation(" in "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return Prose(tuple(parts), drawn + animated, text.count("{exercise}"), text.count("} In one sentence"))


def page(name: str) -> Prose:
    """The prose of a chapter, by name."""
    return read(ROOT / "notebooks" / f"{name}.ipynb")


def main() -> None:
    """Print the table."""
    print(f"{'page':18} {'words':>6} {'figures':>8} {'numbers':>8} {'per 100 words':>14} {'exercises':>10}")
    others = [path.stem for path in sorted((ROOT / "notebooks").glob("*.ipynb")) if path.stem not in STORY + ATLAS]
    for name in (*STORY, *ATLAS, *others):
        found = page(name)
        row = f"{found.figures:8} {found.numbers:8} {found.density:14.1f} {found.exercises:10}"
        print(f"{name:18} {found.words:6} {row}")


if __name__ == "__main__":
    main()

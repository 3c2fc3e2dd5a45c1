"""Calling the command ``parity``, and a tiny checkout on which to try the machinery."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

Done = subprocess.CompletedProcess[str]


def parity(*arguments: str, cwd: Path = ROOT, root: Path = ROOT, **variables: str) -> Done:
    """Call the command ``parity`` of the checkout ``root`` in the folder ``cwd``."""
    environment = os.environ | {"PYTHONPATH": str(root)} | variables
    command = [sys.executable, "-m", "parity_lib.build.cli", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until something is true; a test that waits too long has failed."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def cell(source: str, *tags: str) -> dict[str, object]:
    return {
        "cell_type": "code",
        "id": f"cell-{abs(hash(source)) % 10**8}",
        "source": source.splitlines(keepends=True),
        "metadata": {"tags": list(tags)},
        "outputs": [],
        "execution_count": None,
    }


def write_notebook(path: Path, parameters: str, *code: str, title: str = "A toy") -> Path:
    """A chapter with a title, a parameters cell and more code."""
    heading = {"cell_type": "markdown", "id": "title", "source": f"# {title}", "metadata": {}}
    cells = [heading, cell(parameters, "parameters"), *map(cell, code)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {
        "cells": cells,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Checkout:
    """A small copy of the repository with two toy chapters that need no torch."""

    root: Path

    def parity(self, *arguments: str, cwd: Path | None = None, **variables: str) -> Done:
        return parity(*arguments, cwd=cwd or self.root, root=self.root, **variables)

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """The command ``parity`` in the background, with its output at hand."""
        command = [sys.executable, "-m", "parity_lib.build.cli", *arguments]
        environment = os.environ | {"PYTHONPATH": str(self.root)} | variables
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.root, env=environment, stdout=pipe, stderr=pipe, text=True)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def results(self, build: str = "build/book") -> dict[str, bytes]:
        """The bytes of every results file and table."""
        folder = self.root / build
        made = [*folder.glob("results/*"), *folder.glob("tables/*/*")]
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(made)}


def save(name: str, values: str) -> str:
    """The last cell of a toy chapter: its ``values`` as a table of one row."""
    frame = f"pd.DataFrame([dict({values})])"
    return f"import pandas as pd\nfrom parity_lib.evidence import record\nrecord({name!r}, {{}}, toy={frame})"


CHAPTER = '''"""What alpha computes, kept on disk."""
from .store import kept

@kept
def product(steps: int, rate: float) -> float:
    return steps * rate
'''


FIGURE = '''"""What alpha shows."""
import matplotlib.pyplot as plt
from .colours import BLUE
from .style import drawing, use_style

@drawing
def line():
    figure, axes = plt.subplots()
    axes.plot([1, 2], color=BLUE)
    return figure
'''


SEABORN = """from types import SimpleNamespace
sns = SimpleNamespace(set_theme=lambda rc, **_: plt.rcParams.update(rc))  # which make a figure the same bytes"""


def make_checkout(root: Path) -> Checkout:
    """The real machinery without the science: the package without its chapters, figures and torch, two toy chapters.

    Nor does it import seaborn and scipy, which take two seconds of every kernel and of every build of the pages.
    """
    toy = Checkout(root)
    shutil.copytree(ROOT / "parity_lib", root / "parity_lib", ignore=shutil.ignore_patterns("__pycache__"))
    for floor in ("chapters", "figures"):
        for path in (root / "parity_lib" / floor).glob("*.py"):
            if path.name not in ("__init__.py", "store.py", "palette.py", "style.py", "seen.py"):
                path.unlink()
    style = root / "parity_lib/figures/style.py"
    light = style.read_text(encoding="utf-8").replace("import seaborn as sns", SEABORN)
    style.write_text(light.replace("from scipy.optimize import isotonic_regression\n", ""), encoding="utf-8")
    toy.write("parity_lib/__init__.py", '__version__ = "0"\n')
    toy.write("parity_lib/chapters/alpha.py", CHAPTER)
    toy.write("parity_lib/figures/alpha.py", FIGURE)
    toy.write("parity_lib/figures/colours.py", 'BLUE = "blue"\n')
    prose = shutil.ignore_patterns("__pycache__", "*.md", "*.png", "*.json")
    shutil.copytree(ROOT / "book", root / "book", ignore=prose)
    for name in ("Snakefile", "_config.yml", "references.bib", "constraints.txt"):
        shutil.copyfile(ROOT / name, root / name)
    toy.write("profiles/book.yml", "runs:\n  alpha: {}\n  beta: {}\n")
    toy.write("profiles/slow.yml", "runs:\n  alpha: {steps: 30, rate: 1.0e-3}\n  beta: {}\n")
    chapters = "".join(f"      - file: notebooks/{name}\n" for name in ("alpha", "beta"))
    parts = f"parts:\n  - caption: Chapters\n    chapters:\n{chapters}"
    toy.write("_toc.yml", f"format: jb-book\nroot: book/index\n{parts}")
    toy.write("book/index.md", "# A toy book\n\nEuler: $e^{i\\pi} = -1$.\n")
    write_notebook(
        root / "notebooks/alpha.ipynb",
        "steps: int = 3  # how many steps [1..100]\n"
        "rate: float = 0.5  # step size (0..1]\n"
        'loss: str = "hinge"  # which loss {hinge, logistic}\n'
        "bits: list[int] = [8, 11]  # positions [1..20]\n"
        "loud: bool = False  # print more\n",
        "from parity_lib.chapters.alpha import product",
        "from parity_lib.figures.alpha import line, use_style\nuse_style()",
        "line();",
        save("alpha", "total=product(steps, rate), loss=loss, bits=len(bits)"),
        title="Alpha, the first",
    )
    path = root / "notebooks/alpha.ipynb"
    loaded = json.loads(path.read_text())
    figure = {"caption": "A line.", "name": "fig-toy"}
    loaded["cells"][4]["metadata"]["mystnb"] = {"figure": figure, "image": {"alt": "A line that rises."}}
    path.write_text(json.dumps(loaded))
    write_notebook(
        root / "notebooks/beta.ipynb",
        "seed: int = 0  # random seed [0..inf)\n",
        save("beta", "seed=seed"),
        title="Beta",
    )
    return toy

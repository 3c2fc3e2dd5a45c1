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


RECORD = """\
import json, os, pathlib
def record(name, **values):
    folder = pathlib.Path(os.environ["PARITY_OUT"])
    (folder / f"{name}.json").write_text(json.dumps(values, sort_keys=True))
"""


@dataclass(frozen=True)
class Checkout:
    """A small copy of the repository with two toy chapters that need no torch."""

    root: Path

    def parity(self, *arguments: str, cwd: Path | None = None, **variables: str) -> Done:
        return parity(*arguments, cwd=cwd or self.root, root=self.root, **variables)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """The command ``parity`` in the background, with its output at hand."""
        command = [sys.executable, "-m", "parity_lib.build.cli", *arguments]
        environment = os.environ | {"PYTHONPATH": str(self.root)}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.root, env=environment, stdout=pipe, stderr=pipe, text=True)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def results(self, build: str = "build/quick") -> dict[str, bytes]:
        folder = self.root / build / "results"
        return {path.name: path.read_bytes() for path in sorted(folder.glob("*"))}


def make_checkout(root: Path) -> Checkout:
    toy = Checkout(root)
    real = ["Snakefile", "_config.yml", "references.bib", "constraints.txt"]
    real += ["book/_static/book.css", "book/live/live.js"]
    real += [str(path.relative_to(ROOT)) for path in (ROOT / "book/_ext").glob("*.py")]
    real += [f"parity_lib/{module}.py" for module in ("parameters", "runner", "workflow", "cli")]
    for name in real:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, root / name)
    exports = '_EXPORTS = {"record": "evidence"}\n'
    lazy = "from .evidence import record\n"
    toy.write("parity_lib/__init__.py", f'__version__ = "0"\n{exports}{lazy}')
    toy.write("parity_lib/evidence.py", RECORD)
    toy.write("parity_lib/plots.py", "from .colours import BLUE\n")
    toy.write("parity_lib/colours.py", 'BLUE = "blue"\n')
    toy.write("profiles/quick.yml", "runs:\n  alpha: {steps: 3}\n  beta: {}\n")
    toy.write("profiles/slow.yml", "runs:\n  alpha: {steps: 30, rate: 1.0e-3}\n  beta: {}\n")
    chapters = "".join(f"      - file: notebooks/{name}\n" for name in ("alpha", "beta"))
    parts = f"parts:\n  - caption: Chapters\n    chapters:\n{chapters}"
    toy.write("_toc.yml", f"format: jb-book\nroot: book/index\n{parts}")
    toy.write("book/index.md", "# A toy book\n\nEuler: $e^{i\\pi} = -1$.\n")
    write_notebook(
        root / "notebooks/alpha.ipynb",
        "steps: int = 10  # how many steps [1..100]\n"
        "rate: float = 0.5  # step size (0..1]\n"
        'loss: str = "hinge"  # which loss {hinge, logistic}\n'
        "bits: list[int] = [8, 11]  # positions [1..20]\n"
        "loud: bool = False  # print more\n",
        "from parity_lib import record",
        "from parity_lib.figures.style import BLUE",
        'record("alpha", total=steps * rate, loss=loss, bits=bits)',
        title="Alpha, the first",
    )
    write_notebook(
        root / "notebooks/beta.ipynb",
        "seed: int = 0  # random seed [0..inf)\n",
        "from parity_lib import record",
        'record("beta", seed=seed)',
        title="Beta",
    )
    return toy

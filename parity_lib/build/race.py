"""``parity race``: a user's recipe on the atlas's success chart; two tables and a picture at the end."""

import io
import math
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from .. import progress
from ..evidence import rates, write_whole
from .display import say
from .parameters import ParameterError, about, check_parameters, parse_overrides, require
from .results import write_table
from .runner import variables
from .workflow import BuildError, digest, find_notebook, locked

if TYPE_CHECKING:  # it loads torch
    from ..recipes import Recipe

CHART = "robustness"  # the chapter whose chart it is
SETTING = ("n", "ks", "pairs", "updates", "device")


def run_race(
    root: Path, file: Path, against: str | None, texts: Iterable[tuple[str, str]], output: Path | None
) -> tuple[Path, Path, Path]:
    """Race the recipe in ``file``; every run (CSV), the rates (CSV) and the picture (SVG), written when all is done."""
    notebook, texts = find_notebook(root, CHART), list(texts)
    with about("race"):
        for name, _ in texts:
            require("parameter", name, SETTING)
    values = check_parameters(notebook, parse_overrides(notebook, texts))
    setting = {name: values[name] for name in SETTING}
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded: these tensors are small
    os.environ.setdefault("MPLCONFIGDIR", variables(root)["MPLCONFIGDIR"])
    from ..chapters import race

    try:
        names = race.RIVALS if against is None else [name.strip() for name in against.split(",")]
        rivals = race.rivals(names, values["n"])
        own = race.load(file)
    except ValueError as error:
        raise ParameterError(str(error)) from None
    races = root / "build" / "race"
    key = digest(root, [], file.read_text(encoding="utf-8"), [rival.name for rival in rivals], setting)[:8]
    name = re.sub(r"[^\w-]+", "-", file.stem) + f"-{key}"  # another race, another folder
    with nullcontext() if output else locked(races, f"race {name!r}", f"{name}."):
        return _race(own, rivals, setting, output or races / name)


def _race(own: "Recipe", rivals: list["Recipe"], setting: dict[str, Any], folder: Path) -> tuple[Path, Path, Path]:
    """Every recipe in turn; what comes out is written when all is done."""
    from ..chapters import race
    from ..figures.race import success
    from ..figures.style import use_style

    frames = []
    for recipe in (own, *rivals):
        started = time.perf_counter()
        try:
            with _bars():
                found = race.run(recipe, **setting)
            error = race.error_estimate(recipe, setting["n"], setting["ks"])
        except Exception as fault:  # a function of somebody else's may do anything
            said = " ".join(str(fault).split())
            raise BuildError(f"{recipe.name}: training stopped, {type(fault).__name__}: {said}") from None
        frames.append(found)
        share = f"{found['committed'].sum()} of {len(found)} runs commit"
        told = f"error of the risk {error:.1g} by estimate"
        if error == math.inf:  # as for a loss that jumps
            told = "but the error of its risk cannot be told, so that its gradients may be wrong: mistrust this line"
        say(f"{recipe.name}: {share}, {told}, {time.perf_counter() - started:.1f} s")
    frame = pd.concat(frames, ignore_index=True)
    use_style()
    drawn = io.StringIO()
    success(frame, own.name).savefig(drawn, format="svg", metadata={"Date": None})
    runs, shares, picture = made = folder / "runs.csv", folder / "rates.csv", folder / "race.svg"
    write_table(runs, frame)
    write_table(shares, rates(frame, ["recipe", "k", "neighbours"]))
    write_whole(picture, drawn.getvalue())
    say(race.table(frame).to_markdown(index=False))
    return made


@contextmanager
def _bars() -> Iterator[None]:
    """Bars of progress for those who watch, none in a log."""
    before = progress.listener
    progress.listener = before if sys.stderr.isatty() else lambda label, done, total: None
    try:
        yield
    finally:
        progress.listener = before

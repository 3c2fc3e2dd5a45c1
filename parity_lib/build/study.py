"""A large study in independent pieces: n x k x recipe x blocks of seeds, each block a job, all of them one table.

A study is a file ``studies/NAME.yml``::

    n: [10, 20, 40]
    k: [2, 3]
    recipe: [figure2-signed, repaired]
    seeds: 64  # pairs of a set of bits and a start in every cell of the grid
    block: 32  # of them in one job

Seed number i draws its own set of bits and its own start, and seeds are trained sixteen at a time
whatever the blocks. So a block needs nothing from the others, a wider grid adds blocks and repeats
none, and the merged result is the same, byte for byte, however the seeds were split.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .parameters import ParameterError, shown, unknown
from .runner import leave_with_parent, say
from .workflow import BuildError, executor, failures, find_root, locked, pick, read_yaml, snakemake

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AT_ONCE = 16  # seeds in one tensor; fixed, because the last digits of a run depend on its neighbours in it
SETS = 2**33  # the set of bits of seed i comes from the stream SETS + i, apart from its start and its data
LIMITS = {"n": (2, 100_000), "k": (1, 12), "seeds": (1, 1_000_000), "block": (1, 100_000)}


@dataclass(frozen=True)
class Block:
    """One job: ``count`` seeds from ``first`` on, in one cell of the grid."""

    n: int
    k: int
    recipe: str
    first: int
    count: int

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"n{self.n}-k{self.k}-{self.recipe}-seeds{self.first}-{self.first + self.count - 1}"


@dataclass(frozen=True)
class Grid:
    """A study: every n with every k (at most n) and every recipe, ``seeds`` times."""

    n: tuple[int, ...]
    k: tuple[int, ...]
    recipe: tuple[str, ...]
    seeds: int
    block: int

    @property
    def cells(self) -> list[tuple[int, int, str]]:
        """(n, k, recipe), in the order of the file."""
        return [(n, k, recipe) for recipe in self.recipe for k in self.k for n in self.n if k <= n]

    @property
    def blocks(self) -> dict[str, Block]:
        """Every job by its name."""
        starts = range(0, self.seeds, self.block)
        blocks = [Block(*cell, first, min(self.block, self.seeds - first)) for cell in self.cells for first in starts]
        return {block.name: block for block in blocks}


def find_study(root: Path, name: str) -> Path:
    """The file of a study by its name."""
    return pick("study", name, (root / "studies").glob("*.yml"))


def load_grid(root: Path, name: str) -> Grid:
    """The study called ``name``, after everything in it was checked."""
    from ..recipes import RECIPES

    loaded = read_yaml(find_study(root, name), f"study {name}")
    keys = list(Grid.__dataclass_fields__)
    try:
        if not isinstance(loaded, dict) or set(loaded) != set(keys):
            given = ", ".join(map(str, loaded)) if isinstance(loaded, dict) else shown(loaded)
            raise ValueError(f"it must have the keys {', '.join(keys)}, got {given}")
        for key in ("n", "k", "recipe"):
            values = loaded[key]
            if not isinstance(values, list) or not values or len(set(map(repr, values))) < len(values):
                raise ValueError(f"{key} must be a list of distinct values, got {shown(values)}")
        for key, (low, high) in LIMITS.items():
            for value in loaded[key] if key in ("n", "k") else [loaded[key]]:
                if type(value) is not int or not low <= value <= high:
                    raise ValueError(f"{key} must be a whole number in {low}..{high}, got {shown(value)}")
        for key in ("seeds", "block"):
            if loaded[key] % AT_ONCE:
                raise ValueError(f"{key} must be a multiple of {AT_ONCE}, got {loaded[key]}")
        for recipe in loaded["recipe"]:
            if not isinstance(recipe, str) or recipe not in RECIPES:
                raise ValueError(unknown("recipe", str(recipe), RECIPES))
            if RECIPES[recipe].cube_share is not None and max(loaded["n"]) > 24:
                raise ValueError(f"{recipe} trains on a share of the cube, which needs n <= 24, got {max(loaded['n'])}")
        if min(loaded["k"]) > max(loaded["n"]):
            raise ValueError(f"no k is at most n, got k from {min(loaded['k'])} and n up to {max(loaded['n'])}")
    except ValueError as error:
        raise ParameterError(f"study {name}: {error}") from None
    n, k, recipe = (tuple(loaded[key]) for key in ("n", "k", "recipe"))
    return Grid(n, k, recipe, loaded["seeds"], loaded["block"])


def run_block(block: Block) -> dict[str, Any]:
    """Train the seeds of a block, each on its own random set of bits; the outcome of every seed, in plain values."""
    import torch

    from ..task import Parity
    from ..training import train

    outcome: dict[str, list[Any]] = {"bits": [], "hard": [], "committed": [], "risk": []}
    last = block.first + block.count
    for first in range(block.first, last, AT_ONCE):
        seeds = range(first, min(first + AT_ONCE, last))
        tasks = [Parity.random(block.n, block.k, torch.Generator().manual_seed(SETS + seed)) for seed in seeds]
        run = train(tasks, block.recipe, seeds, device="cpu", progress=False)
        outcome["bits"] += [list(task.bits) for task in tasks]
        outcome["hard"] += run.recovered.tolist()
        outcome["committed"] += run.committed.tolist()
        outcome["risk"] += run.risk[-1].tolist()
    return {"block": asdict(block), **outcome}


def read_block(path: Path, block: Block) -> dict[str, Any]:
    """The outcome of a block from its file; anything but what :func:`run_block` gives for it is refused."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content["block"] != asdict(block):
            raise ValueError(f"it holds {shown(content['block'])}")
        _check_outcome(content, block)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise BuildError(f"{path.name} is not the outcome of its block ({reason}); delete it and start again") from None
    return content


def _check_outcome(content: Mapping[str, Any], block: Block) -> None:
    """One entry a seed: k distinct positions in 1..n, two truth values, one finite risk."""
    for key, kind in (("hard", bool), ("committed", bool), ("risk", float), ("bits", list)):
        values = content[key]
        if len(values) != block.count or any(type(value) is not kind for value in values):
            raise ValueError(f"{key} must be {block.count} values of type {kind.__name__}")
    if not all(map(math.isfinite, content["risk"])):
        raise ValueError("risk must be finite")
    for bits in content["bits"]:
        if len(set(bits)) != block.k or not all(type(bit) is int and 1 <= bit <= block.n for bit in bits):
            raise ValueError(f"bits must be {block.k} distinct positions in 1..{block.n}")


def merge(grid: Grid, folder: Path) -> dict[str, Any]:
    """All blocks as one result: success of every cell as k of N with its Wilson interval, and the median risk."""
    from statistics import median

    from ..evidence import wilson

    outcomes = [(block, read_block(folder / f"{name}.json", block)) for name, block in grid.blocks.items()]
    cells = []
    for n, k, recipe in grid.cells:
        own = [outcome for block, outcome in outcomes if (block.n, block.k, block.recipe) == (n, k, recipe)]
        rates = {key: wilson(sum(sum(o[key]) for o in own), grid.seeds) for key in ("hard", "committed")}
        risk = median(value for o in own for value in o["risk"])
        cells.append({"n": n, "k": k, "recipe": recipe, **{key: asdict(r) for key, r in rates.items()}, "risk": risk})
    settings = {key: value for key, value in asdict(grid).items() if key != "block"}
    return {"grid": settings, "cells": cells}


def draw(merged: Mapping[str, Any]) -> Figure:
    """Success against n, one panel per k, one line per recipe, with its intervals."""
    import pandas as pd

    from ..figures.robustness import success_curves
    from ..figures.style import RECIPES, use_style

    use_style()
    rows = [
        {"n": cell["n"], "k": cell["k"], "recipe": RECIPES[cell["recipe"]][0], "committed": run < count["successes"]}
        for cell in merged["cells"]
        for count in [cell["committed"]]
        for run in range(count["trials"])
    ]
    titles = {k: f"k = {k}" for k in merged["grid"]["k"]}
    colours = dict(RECIPES[recipe] for recipe in merged["grid"]["recipe"])
    return success_curves(pd.DataFrame(rows), "n", "recipe", colours, panel="k", titles=titles, log=True)


def run_study(root: Path, name: str, cores: int, cluster: Path | None = None) -> tuple[Path, Path]:
    """Run the blocks that are missing or stale, merge them all, and return the table (JSON) and its picture."""
    grid = load_grid(root, name)
    where = executor(cores, cluster)
    build = root / "build" / "studies" / name
    with locked(build, f"study {name!r}"):
        if cluster is None:  # on a cluster, jobs of a killed study may live on
            for left in build.glob("**/.*.partial"):
                left.unlink()
        say(f"{name}: {len(grid.blocks)} blocks, {len(_finished(grid, build))} of them there")
        if not snakemake(root / "studies" / "Snakefile", build, where):
            raise BuildError(failures(build))
    return build / "study.json", build / "study.png"


def _finished(grid: Grid, build: Path) -> list[str]:
    return [name for name in grid.blocks if (build / "blocks" / f"{name}.json").is_file()]


def _block_job(grid: Grid, name: str, build: Path) -> None:
    from ..evidence import write_json

    started = time.perf_counter()
    outcome = run_block(grid.blocks[name])
    write_json(build / "blocks" / f"{name}.json", outcome)
    found, of = sum(outcome["committed"]), len(outcome["committed"])
    progress = f"block {len(_finished(grid, build))} of {len(grid.blocks)}"
    say(f"{name}: {found} of {of} in {time.perf_counter() - started:.1f} s ({progress})")


def _merge_job(grid: Grid, build: Path) -> None:
    from ..evidence import write_json

    merged = merge(grid, build / "blocks")
    picture = build / ".study.png.partial"
    draw(merged).savefig(picture, format="png")
    picture.replace(build / "study.png")
    write_json(build / "study.json", merged)


def main() -> int:
    """Run one block of the study in the working folder, or merge its blocks: what ``studies/Snakefile`` calls."""
    parser = argparse.ArgumentParser(prog="python -m parity_lib.build.study", description=main.__doc__)
    parser.add_argument("block", nargs="?", help="name of a block; none merges")
    block = parser.parse_args().block
    leave_with_parent()
    build = Path.cwd()
    try:
        grid = load_grid(find_root(), build.name)
        if block is None:
            _merge_job(grid, build)
        else:
            _block_job(grid, block, build)
    except Exception as error:
        name = block or "study"
        sentence = str(error) if isinstance(error, BuildError) else f"{name}: {type(error).__name__}: {error}"
        (build / "logs" / f"{name}.error.txt").write_text(f"{sentence}\n", encoding="utf-8")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

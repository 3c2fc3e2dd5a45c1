"""A large study in independent pieces: n x k x recipe x blocks of seeds, run in jobs of several, all of them one table.

A study is a file ``studies/NAME.yml``::

    n: [10, 20, 40]
    k: [2, 3]
    recipe: [figure2-signed, repaired]
    seeds: 64  # pairs of a set of bits and a start in every cell of the grid
    block: 32  # of them in one block, the unit of what is kept

Seed number i draws its own set of bits and its own start, and seeds are trained sixteen at a time
whatever the blocks. So a block needs nothing from the others, a wider grid adds blocks and repeats
none, and the merged result is the same, byte for byte, however the seeds were split.
"""

from __future__ import annotations

import math
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from ..evidence import rates, write_json, write_whole
from .display import say
from .parameters import about, require
from .results import one_line, read_json, read_yaml, write_table
from .runner import leave_with_parent
from .workflow import (
    BuildError, arrivals, digest, executor, find_root, library, locked, pick, snakemake
)  # fmt: skip

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AT_ONCE = 16  # seeds in one tensor; fixed, because the last digits of a run depend on its neighbours in it
JOB_SECONDS = {"here": 15, "cluster": 120}  # how much work goes into one job: a scheduler takes 20 s to start one
SETS = 2**33  # the set of bits of seed i comes from the stream SETS + i, apart from its start and its data


class Block(BaseModel):
    """What is kept as one piece: ``count`` seeds from ``first`` on, in one cell of the grid."""

    model_config = ConfigDict(frozen=True)
    n: int
    k: int
    recipe: str
    first: int
    count: int

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"n{self.n}-k{self.k}-{self.recipe}-seeds{self.first}-{self.first + self.count - 1}"


class Grid(BaseModel):
    """A study: every n with every k (at most n) and every recipe, ``seeds`` times."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    n: list[Annotated[int, Field(ge=2, le=100_000)]] = Field(min_length=1)
    k: list[Annotated[int, Field(ge=1, le=12)]] = Field(min_length=1)
    recipe: list[str] = Field(min_length=1)
    seeds: int = Field(ge=AT_ONCE, le=1_000_000, multiple_of=AT_ONCE)
    block: int = Field(ge=AT_ONCE, le=100_000, multiple_of=AT_ONCE)

    @model_validator(mode="after")
    def _sound(self) -> Grid:
        from ..recipes import RECIPES

        for values in (self.n, self.k, self.recipe):
            if len(set(values)) < len(values):
                raise ValueError(f"values must be distinct, got {values}")
        for recipe in self.recipe:
            require("recipe", recipe, RECIPES)
            if RECIPES[recipe].cube_share is not None and max(self.n) > 24:
                raise ValueError(f"{recipe} trains on a share of the cube, which needs n <= 24, got {max(self.n)}")
        if min(self.k) > max(self.n):
            raise ValueError(f"no k is at most n, got k from {min(self.k)} and n up to {max(self.n)}")
        return self

    @property
    def blocks(self) -> dict[str, Block]:
        """Every block by its name."""
        cells = [(n, k, recipe) for recipe in self.recipe for k in self.k for n in self.n if k <= n]
        blocks = [
            Block(n=n, k=k, recipe=recipe, first=first, count=min(self.block, self.seeds - first))
            for n, k, recipe in cells
            for first in range(0, self.seeds, self.block)
        ]
        return {block.name: block for block in blocks}


class Outcome(BaseModel):
    """What a block found: one entry a seed."""

    model_config = ConfigDict(extra="forbid", strict=True)
    block: Block
    key: str
    bits: list[list[int]]
    recovered: list[bool]
    committed: list[bool]
    risk: list[FiniteFloat]

    @model_validator(mode="after")
    def _whole(self) -> Outcome:
        n, k, count = self.block.n, self.block.k, self.block.count
        if not len(self.bits) == len(self.recovered) == len(self.committed) == len(self.risk) == count:
            raise ValueError(f"it must have {count} seeds")
        if not all(len(set(bits)) == k and all(1 <= bit <= n for bit in bits) for bits in self.bits):
            raise ValueError(f"bits must be {k} distinct positions in 1..{n}")
        return self

    def told(self, done: int, total: int) -> str:
        """The line that says it is there."""
        return f"{self.block.name}: {sum(self.committed)} of {len(self.committed)} (block {done} of {total})"


def load_grid(root: Path, name: str) -> Grid:
    """The study called ``name``, after everything in it was checked."""
    path = pick("study", name, (root / "studies").glob("*.yml"))
    with about(f"study {name}"):
        try:
            return Grid.model_validate(read_yaml(path))
        except ValidationError as error:
            raise ValueError(one_line(error)) from None


def run_block(block: Block, key: str = "") -> Outcome:
    """Train the seeds of a block, each on its own random set of bits; the outcome of every seed, in plain values."""
    import torch

    from ..task import Parity
    from ..training import train

    columns: dict[str, list[Any]] = {"bits": [], "recovered": [], "committed": [], "risk": []}
    last = block.first + block.count
    for first in range(block.first, last, AT_ONCE):
        seeds = range(first, min(first + AT_ONCE, last))
        tasks = [Parity.random(block.n, block.k, torch.Generator().manual_seed(SETS + seed)) for seed in seeds]
        run = train(tasks, block.recipe, seeds, device="cpu", progress=False)
        columns["bits"] += [list(task.bits) for task in tasks]
        columns["recovered"] += run.recovered.tolist()
        columns["committed"] += run.committed.tolist()
        columns["risk"] += run.risk[-1].tolist()
    return Outcome(block=block, key=key, **columns)


def read_block(folder: Path, block: Block) -> Outcome:
    """The outcome of a block from its file; anything but what :func:`run_block` gives for it is refused."""
    path = folder / f"{block.name}.json"
    try:
        found = Outcome.model_validate(read_json(path))
        if found.block != block:
            raise ValueError(f"it holds {found.block.name}")
    except (OSError, ValueError, RecursionError) as error:
        raise BuildError(f"{path.name} is not the outcome of its block ({one_line(error)})") from None
    return found


def merge(grid: Grid, folder: Path) -> pd.DataFrame:
    """All blocks as one table, a row per seed: its cell, its bits, whether it succeeded, its last risk."""
    frames = []
    for block in grid.blocks.values():
        found = read_block(folder, block)
        columns = {name: getattr(found, name) for name in ("recovered", "committed", "risk")}
        columns |= {"seed": range(block.first, block.first + block.count), "bits": [str(bits) for bits in found.bits]}
        frames.append(pd.DataFrame({"recipe": block.recipe, "k": block.k, "n": block.n} | columns))
    return pd.concat(frames, ignore_index=True)


def draw(merged: pd.DataFrame) -> Figure:
    """Committed runs against n, one panel per k, one line per recipe, with Wilson intervals."""
    from ..figures.style import RECIPES, curves, drawing, success_lines, use_style

    use_style()
    names, colours = ({recipe: known[i] for recipe, known in RECIPES.items()} for i in (0, 1))
    titles = {k: f"k = {k}" for k in sorted(set(merged["k"]))}
    return drawing(curves)(success_lines, merged, "n", "committed", colours, hue="recipe", panel="k", titles=titles,
                           log="x", xlabel="length n", ylabel="committed runs, %", names=names)  # fmt: skip


def expected_seconds(block: Block) -> float:
    """How long a block may take on one core, for the size of jobs alone: right within a factor of a few."""
    from ..recipes import RECIPES

    recipe = RECIPES[block.recipe]
    each = 5e-6 + 3e-7 * block.n * block.k if recipe.batch is None else 4e-9 * recipe.batch * block.n
    return block.count * recipe.updates * each


def in_jobs(blocks: Sequence[Block], seconds: float, least: int = 1) -> dict[str, list[str]]:
    """The names of blocks in jobs of about ``seconds``, each called after its first; at least so many jobs, if can be.

    Blocks go in order to where they fill up one share of the work after the other.
    """
    work = [expected_seconds(block) for block in blocks]
    count = min(len(blocks), max(least, math.ceil(sum(work) / seconds)))
    jobs: dict[str, list[str]] = {}
    done, current = 0.0, ""
    for left, block, own in zip(range(len(blocks), 0, -1), blocks, work, strict=True):
        full = done >= len(jobs) * sum(work) / count or left <= count - len(jobs)
        if full and len(jobs) < count:
            current = block.name
        jobs.setdefault(current, []).append(block.name)
        done += own
    return jobs


def run_study(root: Path, name: str, cores: int, cluster: Path | None = None) -> tuple[Path, Path, Path]:
    """Run the blocks that are missing, stale or spoilt, merge them all; the two tables (CSV) and the picture."""
    blocks = load_grid(root, name).blocks
    where = executor(cores, cluster)
    build = root / "build" / "studies" / name
    with locked(build, f"study {name!r}"):
        if cluster is None:  # on a cluster, jobs of a killed study may live on
            shutil.rmtree(build / "tmp", ignore_errors=True)
            for left in build.glob("**/.*.partial"):
                left.unlink()
        key, missing = code_key(root), []
        for block in blocks.values():
            try:
                sound = read_block(build / "blocks", block).key == key
            except BuildError:
                sound = False
            if not sound:
                (build / "blocks" / f"{block.name}.json").unlink(missing_ok=True)
                missing.append(block)
        jobs = in_jobs(missing, JOB_SECONDS["cluster"]) if cluster else in_jobs(missing, JOB_SECONDS["here"], cores)
        there = f"{len(blocks)} blocks, {len(blocks) - len(missing)} of them there"
        plural = "job" if len(jobs) == 1 else "jobs"
        say(f"{name}: {there}" + (f"; {len(jobs)} {plural}" if jobs else ""))
        shutil.rmtree(build / "jobs", ignore_errors=True)
        write_json(build / "jobs.json", jobs)
        made = build / "rates.csv", build / "seeds.csv", build / "study.png"
        for path in made:
            path.unlink(missing_ok=True)

        def told(block: str, left: int) -> str:
            return read_block(build / "blocks", blocks[block]).told(len(blocks) - left, len(blocks))

        news = arrivals([block.name for block in missing], told)
        snakemake(root / "studies" / "Snakefile", build, where, news)
    return made


def code_key(root: Path) -> str:
    """What a block depends on: the code that trains, and the pinned versions."""
    return digest(root, [*library(root, root / "parity_lib" / "training.py"), root / "constraints.txt"])


def _blocks_job(root: Path, grid: Grid, job: str, build: Path) -> None:
    key, blocks, folder = code_key(root), grid.blocks, build / "blocks"
    for name in read_json(build / "jobs.json")[job]:
        outcome = run_block(blocks[name], key)
        write_json(folder / f"{name}.json", outcome.model_dump())
        say(outcome.told(len(list(folder.glob("n*.json"))), len(blocks)))


def _merge_job(grid: Grid, build: Path) -> None:
    merged = merge(grid, build / "blocks")
    picture = build / ".study.png.partial"
    draw(merged).savefig(picture, format="png")
    picture.replace(build / "study.png")
    write_table(build / "seeds.csv", merged)
    write_table(build / "rates.csv", rates(merged, ["recipe", "k", "n"]))


def main() -> int:
    """Run one job of the study in the working folder, or merge its blocks: what ``studies/Snakefile`` calls."""
    job = sys.argv[1] if len(sys.argv) > 1 else ""
    leave_with_parent()
    root, build = find_root(), Path.cwd()
    try:
        grid = load_grid(root, build.name)
        _blocks_job(root, grid, job, build) if job else _merge_job(grid, build)
    except Exception as error:
        sentence = str(error) if isinstance(error, BuildError) else f"{job}: {type(error).__name__}: {error}"
        name = re.sub(r"[^\w-]", "", job) or "study"
        write_whole(build / "logs" / f"{name}.error.txt", f"{sentence}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A study is a sum of independent blocks: resumed, widened and split at will, with the same table at the end."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from checkouts import ROOT, Checkout

from parity_lib.build.study import (
    Block,
    Grid,
    Outcome,
    draw,
    expected_seconds,
    in_jobs,
    load_grid,
    merge,
    read_block,
    run_block,
)
from parity_lib.build.workflow import BuildError
from parity_lib.evidence import rates, write_json

GRID = Grid(n=[6, 7], k=[2], recipe=["repaired"], seeds=32, block=16)
SMALL = Grid(n=[6], k=[2], recipe=["repaired"], seeds=32, block=16)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout with the real library and one small study."""
    root = tmp_path / "checkout"
    (root / "studies").mkdir(parents=True)
    (root / "parity_lib").symlink_to(ROOT / "parity_lib")
    for name in ("Snakefile", "constraints.txt", "studies/Snakefile"):
        (root / name).write_bytes((ROOT / name).read_bytes())
    return Checkout(root)


def write_study(checkout: Checkout, grid: Grid) -> None:
    checkout.write("studies/small.yml", grid.model_dump_json())


def started(stdout: str) -> set[str]:
    return set(re.findall(r"^(n\S+): ", stdout, flags=re.MULTILINE))


def test_a_study_on_a_scheduler_is_widened_here_and_does_not_depend_on_its_split(
    checkout: Checkout, cluster: Path, tmp_path: Path
) -> None:
    write_study(checkout, GRID.model_copy(update={"seeds": 16}))
    done = checkout.parity("study", "small", "--cluster", str(cluster))
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert said[0] == "small: 2 blocks, 0 of them there; 1 job"
    assert len(list((cluster / "spool").glob("*.sh"))) == 1  # small blocks share a job
    assert started(done.stdout) == {"n6-k2-repaired-seeds0-15", "n7-k2-repaired-seeds0-15"}  # it was here that it was told
    assert any(line.endswith("(block 2 of 2)") for line in said)

    write_study(checkout, SMALL)
    build = checkout.root / "build/studies/small"
    checkout.write("build/studies/small/blocks/n6-k2-repaired-seeds16-31.json", "{}")  # spoilt, so it is run
    done = checkout.parity("study", "small", "--cores", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[0] == "small: 2 blocks, 1 of them there; 1 job"
    assert started(done.stdout) == {"n6-k2-repaired-seeds16-31"}
    made = [f"build/studies/small/{name}" for name in ("rates.csv", "seeds.csv", "study.png")]
    assert done.stdout.splitlines()[-3:] == made
    assert (build / "study.png").read_bytes().startswith(b"\x89PNG")

    again = SMALL.model_copy(update={"block": 32})
    for name, block in again.blocks.items():
        write_json(tmp_path / "blocks" / f"{name}.json", run_block(block).model_dump())
    merged = merge(again, tmp_path / "blocks")
    assert merged.to_csv(index=False) == (build / "seeds.csv").read_text()
    assert rates(merged, ["recipe", "k", "n"]).to_csv(index=False) == (build / "rates.csv").read_text()


def test_the_blocks_of_a_study_share_jobs_of_a_few_minutes() -> None:
    blocks = list(load_grid(ROOT, "scaling").blocks.values())
    work = {block.name: expected_seconds(block) for block in blocks}
    jobs = in_jobs(blocks, 120)
    assert [name for names in jobs.values() for name in names] == list(work)  # each once, in order
    assert all(job == names[0] for job, names in jobs.items())
    assert len(jobs) == math.ceil(sum(work.values()) / 120) < len(blocks) / 4
    assert max(sum(work[name] for name in names) for names in jobs.values()) <= 120 + max(work.values())
    assert len(in_jobs(blocks, 120, least=7)) == 7 and len(in_jobs(blocks, 1e-9)) == len(blocks)
    assert len(in_jobs(blocks, 1e9, least=99)) == len(blocks) and in_jobs([], 120) == {}


def outcome(block: Block, successes: int) -> dict[str, Any]:
    """What a block might find: the first ``successes`` of its seeds succeed."""
    hits = [i < successes for i in range(block.count)]
    bits = [list(range(1, block.k + 1))] * block.count
    columns = {"bits": bits, "recovered": hits, "committed": hits, "risk": [0.5] * block.count}
    return Outcome(block=block, key="", **columns).model_dump()


def test_merged_rates_count_every_seed_once(tmp_path: Path) -> None:
    for i, (name, block) in enumerate(GRID.blocks.items()):
        write_json(tmp_path / f"{name}.json", outcome(block, successes=4 * i))
    cells = rates(merge(GRID, tmp_path), ["recipe", "k", "n"])
    assert cells[["n", "successes", "trials"]].values.tolist() == [[6, 4, 32], [7, 20, 32]]
    figure = draw(merge(GRID, tmp_path))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["k = 2"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: c.pop("recovered"), "recovered: Field required"),
        (lambda c: c["recovered"].pop(), "it must have 16 seeds"),
        (lambda c: c["committed"].__setitem__(0, 1), "committed, 0: Input should be a valid boolean, got 1"),
        (lambda c: c["risk"].__setitem__(0, float("nan")), "numbers must be finite, got NaN"),
        (lambda c: c["bits"].__setitem__(0, [1, 7]), r"bits must be 2 distinct positions in 1\.\.6"),
        (lambda c: c["block"].__setitem__("first", 16), "it holds n6-k2-repaired-seeds16-31"),
    ],
)
def test_a_block_that_was_tampered_with_is_refused(tmp_path: Path, change: Any, reason: str) -> None:
    block = next(iter(GRID.blocks.values()))
    content = outcome(block, 3)
    change(content)
    path = tmp_path / f"{block.name}.json"
    path.write_text(json.dumps(content))
    with pytest.raises(BuildError, match=rf"^n6-k2-repaired-seeds0-15\.json is not the outcome of its block.*{reason}"):
        read_block(tmp_path, block)


def test_the_studies_of_this_checkout_are_sound() -> None:
    for path in (ROOT / "studies").glob("*.yml"):
        assert load_grid(ROOT, path.stem).blocks

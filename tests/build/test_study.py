"""A study is a sum of independent blocks: resumed, widened and split at will, with the same table at the end."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from checkouts import ROOT, Checkout

from parity_lib.evidence import write_json
from parity_lib.build.study import Block, Grid, draw, load_grid, merge, read_block, run_block
from parity_lib.build.workflow import BuildError

GRID = Grid(n=(6, 7), k=(2,), recipe=("repaired",), seeds=32, block=16)
SMALL = Grid(n=(6,), k=(2,), recipe=("repaired",), seeds=48, block=16)


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
    checkout.write("studies/small.yml", json.dumps(asdict(grid)))


def started(stdout: str) -> set[str]:
    return set(re.findall(r"^(n\S+): ", stdout, flags=re.MULTILINE))


def test_a_study_on_a_scheduler_is_widened_here_and_does_not_depend_on_its_split(
    checkout: Checkout, cluster: Path, tmp_path: Path
) -> None:
    write_study(checkout, replace(SMALL, seeds=32))
    done = checkout.parity("study", "small", "--cluster", str(cluster))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[0] == "small: 2 blocks, 0 of them there"
    assert len(list((cluster / "spool").glob("*.sh"))) == 2  # a job per block

    write_study(checkout, SMALL)
    done = checkout.parity("study", "small", "--cores", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert started(done.stdout) == {"n6-k2-repaired-seeds32-47"}
    table, picture = done.stdout.splitlines()[-2:]
    assert (table, picture) == ("build/studies/small/study.json", "build/studies/small/study.png")
    assert (checkout.root / picture).read_bytes().startswith(b"\x89PNG")

    again = replace(SMALL, block=48)
    for name, block in again.blocks.items():
        write_json(tmp_path / "blocks" / f"{name}.json", run_block(block))
    write_json(tmp_path / "study.json", merge(again, tmp_path / "blocks"))
    assert (tmp_path / "study.json").read_bytes() == (checkout.root / table).read_bytes()


def outcome(block: Block, successes: int) -> dict[str, Any]:
    """What a block might find: the first ``successes`` of its seeds succeed."""
    hits = [i < successes for i in range(block.count)]
    bits = [list(range(1, block.k + 1))] * block.count
    return {"block": asdict(block), "bits": bits, "hard": hits, "committed": [*hits], "risk": [0.5] * block.count}


def test_merged_rates_count_every_seed_once(tmp_path: Path) -> None:
    for i, (name, block) in enumerate(GRID.blocks.items()):
        write_json(tmp_path / f"{name}.json", outcome(block, successes=4 * i))
    cells = merge(GRID, tmp_path)["cells"]
    assert [(c["n"], c["committed"]["successes"], c["committed"]["trials"]) for c in cells] == [(6, 4, 32), (7, 20, 32)]
    figure = draw(merge(GRID, tmp_path))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["k = 2"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: c.pop("hard"), "KeyError: 'hard'"),
        (lambda c: c["hard"].pop(), "hard must be 16 values of type bool"),
        (lambda c: c["committed"].__setitem__(0, 1), "committed must be 16 values of type bool"),
        (lambda c: c["risk"].__setitem__(0, float("nan")), "risk must be finite"),
        (lambda c: c["bits"].__setitem__(0, [1, 7]), r"bits must be 2 distinct positions in 1\.\.6"),
        (lambda c: c["block"].__setitem__("first", 16), "it holds"),
    ],
)
def test_a_block_that_was_tampered_with_is_refused(tmp_path: Path, change: Any, reason: str) -> None:
    block = next(iter(GRID.blocks.values()))
    content = outcome(block, 3)
    change(content)
    path = tmp_path / f"{block.name}.json"
    path.write_text(json.dumps(content))
    with pytest.raises(BuildError, match=rf"^n6-k2-repaired-seeds0-15\.json is not the outcome of its block.*{reason}"):
        read_block(path, block)
    path.write_text("{")
    with pytest.raises(BuildError, match="delete it and start again"):
        read_block(path, block)


def test_a_spoilt_block_is_named_and_no_table_is_made(checkout: Checkout) -> None:
    write_study(checkout, replace(SMALL, seeds=16))
    (name,) = replace(SMALL, seeds=16).blocks
    checkout.write(f"build/studies/small/blocks/{name}.json", "{}")
    done = checkout.parity("study", "small", "--cores", "1")
    assert done.returncode == 1
    reason = f"{name}.json is not the outcome of its block (KeyError: 'block'); delete it and start again"
    assert done.stderr == f"{reason}; see build/studies/small/logs/study.error.txt\n"
    assert not (checkout.root / "build/studies/small/study.json").exists()


def test_the_studies_of_this_checkout_are_sound() -> None:
    for path in (ROOT / "studies").glob("*.yml"):
        assert load_grid(ROOT, path.stem).blocks

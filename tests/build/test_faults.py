"""What breaks from outside: kills at any moment, a full disk, a folder that cannot be written, no kernel.

The long version, with twenty kills: ``PARITY_KILLS=20 pytest tests/build/test_faults.py -k kills -s``.
"""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from checkouts import Checkout

KILLS = int(os.environ.get("PARITY_KILLS", "2"))
SEED = int(os.environ.get("PARITY_KILLS_SEED", "0"))
INDEX = "build/book/html/index.html"


def kill(victims: list[psutil.Process]) -> None:
    for process in victims:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def assert_nothing_is_half_written(build: Path) -> None:
    """Every page and every result that is there is whole: no cut JSON, no notebook with a missing output."""
    for path in (*build.glob("results/*.json"), *build.glob("records/*.json")):
        json.loads(path.read_text())
    for path in build.glob("src/notebooks/*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        assert all(cell["execution_count"] for cell in cells if cell["cell_type"] == "code"), path
    if (build / "html/index.html").exists():
        assert {path.name for path in (build / "html/notebooks").iterdir()} >= {"alpha.html", "beta.html"}


def usual_duration(built: Checkout) -> float:
    """How long the first build took, from Snakemake's own log, with a second for its start."""
    log = (built.root / "build/book/logs/snakemake.log").read_text()
    hours, minutes, seconds = re.findall(r"Elapsed time: (\d+):(\d+):([\d.]+)", log)[-1]
    return 2 + 3600 * int(hours) + 60 * int(minutes) + float(seconds)


def test_kills_at_random_moments_change_nothing(built: Checkout) -> None:
    """kill -9 of the whole family, its head or any one member, then the same command: the same bytes as without.

    A build that goes on after a kill may be killed again; every second one, and the last, goes on to its end.
    """
    chance, duration = random.Random(SEED), usual_duration(built)
    build = built.root / "build/book"
    sound, page = built.results(), (build / "src/notebooks/alpha.ipynb").read_bytes()
    shutil.rmtree(build)
    kills = 0
    while kills < KILLS:
        process = built.start("book", "--cores", "2")
        moment = chance.uniform(0, duration)
        time.sleep(moment)
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        if process.poll() is not None:  # it was quicker than the killer
            shutil.rmtree(build)
            continue
        whom = chance.choice(["all", "head", "one"])
        kill({"all": family, "head": family[:1], "one": [chance.choice(family)]}[whom])
        process.communicate()
        _, alive = psutil.wait_procs(family, timeout=30)
        assert alive == [], "orphans"
        assert_nothing_is_half_written(build)
        kills += 1
        print(f"kill {kills} of {KILLS}: {whom} of {len(family)} processes after {moment:.1f} s")
        if kills % 2 == 0 or kills == KILLS:
            done = built.parity("book", "--cores", "2")
            assert done.returncode == 0, done.stdout + done.stderr
            assert_nothing_is_half_written(build)
            assert built.results() == sound
            assert (build / "src/notebooks/alpha.ipynb").read_bytes() == page
            assert list(build.glob("tmp/*")) == [] and (built.root / INDEX).is_file()
            shutil.rmtree(build)


# Places that cannot be written


def in_own_mounts(built: Checkout, mount: str) -> subprocess.CompletedProcess[str]:
    """``parity book`` in a name space of its own, where ``mount`` has changed what lies at ``build/``."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount (root on Linux)")
    parity = shlex.join([sys.executable, "-m", "parity_lib.build.cli", "book"])
    look = "find build/book/results build/book/src/notebooks -type f 2> /dev/null"
    script = f"set -e; {mount}; set +e; {parity}; code=$?; {look}; exit $code"
    environment = os.environ | {"PYTHONPATH": str(built.root)}
    command = [unshare, "-m", "sh", "-c", script]
    return subprocess.run(command, cwd=built.root, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("size", ["48k", "1m"])  # too small for a chapter, too small for the pages
def test_a_full_disk_is_one_sentence(built: Checkout, size: str) -> None:
    done = in_own_mounts(built, f"mount -t tmpfs -o size={size} tmpfs build")
    print(done.stdout, done.stderr)
    assert done.returncode == 1
    assert "space" in done.stderr and len(done.stderr.splitlines()) <= 2
    assert "Traceback" not in done.stdout + done.stderr


def test_a_read_only_build_folder_is_one_sentence(built: Checkout) -> None:
    before = built.results()
    built.write("parity_lib/figures/colours.py", 'BLUE = "navy"\n')
    done = in_own_mounts(built, "mount --bind build build; mount -o remount,ro,bind build")
    assert done.returncode == 1
    assert done.stderr.startswith("Read-only file system: ") and len(done.stderr.splitlines()) == 1
    assert built.results() == before


def test_a_file_in_place_of_the_build_folder_is_one_sentence(checkout: Checkout) -> None:
    checkout.write("build", "a file")
    done = checkout.parity("book")
    assert done.returncode == 1
    assert done.stderr == f"Not a directory: {checkout.root / 'build/book/logs'}\n"


# Chapters that cannot run


def test_a_missing_kernel_is_one_sentence(checkout: Checkout) -> None:
    spec = {"argv": ["/nowhere/python", "-f", "{connection_file}"], "display_name": "gone", "language": "python"}
    checkout.write("jupyter/kernels/python3/kernel.json", json.dumps(spec))
    done = checkout.parity("run", "beta", JUPYTER_PATH=str(checkout.root / "jupyter"))
    assert done.returncode == 1
    assert done.stderr.startswith("beta: FileNotFoundError: ") and "/nowhere/python" in done.stderr
    assert len(done.stderr.splitlines()) == 1

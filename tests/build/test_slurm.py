"""A real scheduler: chapters and a study as jobs of a one-node Slurm, one of them cancelled, then all resumed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkouts import Checkout, save, wait_for, write_notebook
from slurm import missing, one_node

STATUS = """\
#!/bin/sh
case "$(scontrol --oneliner show job "$1" 2>/dev/null)" in
  *JobState=COMPLETED*) echo success ;;
  *JobState=PENDING*|*JobState=RUNNING*|*JobState=COMPLETING*|*JobState=CONFIGURING*) echo running ;;
  *) echo failed ;;
esac
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands find their scheduler."""
    lacking = missing()
    if lacking or " " in sys.executable:
        reason = f"a real Slurm needs {', '.join(lacking) or 'a path of Python without a space'}"
        pytest.fail(reason) if os.environ.get("CI") and os.geteuid() == 0 else pytest.skip(reason)
    with one_node(tmp_path_factory.mktemp("slurm") / "node") as environment:
        yield environment


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A folder that tells Snakemake about Slurm, as the page on rerunning describes it."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    status = folder / "job-status"
    status.write_text(STATUS)
    status.chmod(0o755)
    lines = [
        "executor: cluster-generic",
        "cluster-generic-submit-cmd: sbatch --parsable --output=/dev/null",
        f"cluster-generic-status-cmd: {status}",
        "jobs: 2",
        "seconds-between-status-checks: 1",
    ]
    (folder / "config.yaml").write_text("\n".join(lines) + "\n")
    return folder


def jobs(slurm: dict[str, str]) -> list[str]:
    """The numbers of the jobs that run or wait."""
    listed = subprocess.run(["squeue", "-h", "-o", "%A"], env=os.environ | slurm, capture_output=True, text=True)
    return listed.stdout.split()


def test_a_cancelled_job_is_named_and_the_next_call_goes_on(
    built: Checkout, cluster: Path, slurm: dict[str, str]
) -> None:
    before = built.results()
    waiting = built.root / "waiting"
    parameters = "seed: int = 0  # random seed [0..inf)\n"
    slow = f"import pathlib, time\npathlib.Path({str(waiting)!r}).touch()\ntime.sleep(600)"
    notebook = write_notebook(built.root / "notebooks/beta.ipynb", parameters, slow, save("beta", "seed=seed"))
    command = [sys.executable, "-m", "parity_lib.build.cli", "book", "--cluster", str(cluster)]
    environment = os.environ | slurm | {"PYTHONPATH": str(built.root)}
    pipe = subprocess.PIPE
    build = subprocess.Popen(command, cwd=built.root, env=environment, stdout=pipe, stderr=pipe, text=True)
    wait_for(waiting.exists)
    subprocess.run(["scancel", *jobs(slurm)], env=os.environ | slurm, check=True)
    _, stderr = build.communicate(timeout=120)
    assert build.returncode == 1 and stderr.strip(), "a cancelled job ends the build with a sentence"

    write_notebook(notebook, parameters, save("beta", "seed=seed"))
    done = built.parity("book", "--cluster", str(cluster), **slurm)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "build/book/html/index.html"
    assert built.results() == before
    assert not jobs(slurm)

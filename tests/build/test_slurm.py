"""A real scheduler: chapters and a study as jobs of a one-node Slurm, one of them cancelled, then all resumed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from checkouts import ROOT, Checkout, save, wait_for, write_notebook
from slurm import missing, one_node

STATUS = """\
#!/bin/sh
case "$(scontrol --oneliner show job "$1" 2>/dev/null)" in
  *JobState=COMPLETED*) echo success ;;
  *JobState=PENDING*|*JobState=RUNNING*|*JobState=COMPLETING*|*JobState=CONFIGURING*) echo running ;;
  *) echo failed ;;
esac
"""

TRAINING = '''"""Every second seed succeeds at once; n = 7 takes its time."""
import pathlib, time
from types import SimpleNamespace
import torch

def train(tasks, recipe, seeds, device, progress):
    while tasks[0].n == 7 and not pathlib.Path({hurry!r}).exists():
        pathlib.Path({waiting!r}).touch()
        time.sleep(0.1)
    odd = torch.tensor([seed % 2 == 1 for seed in seeds])
    return SimpleNamespace(recovered=odd, committed=odd, risk=torch.zeros(1, len(tasks)))
'''


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


def test_cancelled_jobs_are_told_and_the_next_call_goes_on(built: Checkout, cluster: Path, slurm: dict[str, str]) -> None:
    """Two chapters and a study of four blocks; one chapter and half of the study are cancelled."""
    before = built.results()
    built.write("parity_lib/figures/colours.py", 'BLUE = "navy"\n')  # alpha reaches it
    waiting, hurry = [built.root / f"{name} waits" for name in ("beta", "study")], built.root / "hurry"
    parameters = "seed: int = 0  # random seed [0..inf)\n"
    slow = f"import pathlib, time\npathlib.Path({str(waiting[0])!r}).touch()\ntime.sleep(600)"
    notebook = write_notebook(built.root / "notebooks/beta.ipynb", parameters, slow, save("beta", "seed=seed"))
    built.write("parity_lib/training.py", TRAINING.format(waiting=str(waiting[1]), hurry=str(hurry)))
    built.write("studies/small.yml", "{n: [6, 7], k: [2], recipe: [repaired], seeds: 32, block: 16}\n")
    for name in ("studies/Snakefile", "parity_lib/figures/style.py"):  # a study is drawn with seaborn
        shutil.copyfile(ROOT / name, built.root / name)

    def start(*arguments: str) -> subprocess.Popen[str]:
        return built.start(*arguments, "--cluster", str(cluster), **slurm)

    stopped = start("book"), start("study", "small")
    wait_for(lambda: all(path.exists() for path in (*waiting, built.root / "build/book/records/alpha.json")))
    subprocess.run(["scancel", *jobs(slurm)], env=os.environ | slurm, check=True)
    for process in stopped:
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 1 and "its job ended and left no reason" in stderr

    write_notebook(notebook, parameters, save("beta", "seed=seed"))
    hurry.touch()
    resumed = start("book"), start("study", "small")
    (book, book_errors), (study, study_errors) = (process.communicate(timeout=120) for process in resumed)
    assert [process.returncode for process in resumed] == [0, 0], book + book_errors + study + study_errors
    assert re.search(r"^beta: done in [\d.]+ s, 1 of 1$", book, flags=re.MULTILINE)  # and not alpha again
    assert book.splitlines()[-1] == "build/book/html/index.html" and built.results() == before
    assert study.splitlines()[0] == "small: 4 blocks, 2 of them there; 1 job"
    found = pd.read_csv(built.root / "build/studies/small/rates.csv")
    assert found[["n", "successes", "trials"]].values.tolist() == [[6, 16, 32], [7, 16, 32]]
    assert not jobs(slurm)

"""The same Snakefiles on a scheduler: every notebook and every block of a study is a job of its own."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import psutil
import pytest
from checkouts import Checkout, save, wait_for, write_notebook

from parity_lib.build.parameters import ParameterError
from parity_lib.build.workflow import executor, failures

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="the stand-in scheduler looks into /proc")


def jobs(cluster: Path) -> list[str]:
    return [path.read_text() for path in sorted((cluster / "spool").glob("*.sh"))]


def test_chapters_run_as_jobs_and_a_failing_one_is_named(built: Checkout, cluster: Path) -> None:
    before = built.results()
    notebook = built.root / "notebooks/beta.ipynb"
    sound = notebook.read_text()
    notebook.write_text(sound.replace("seed=seed", "seed=1 / seed"))
    built.write("parity_lib/figures/colours.py", 'BLUE = "navy"\n')
    done = built.parity("book", "--cluster", str(cluster))
    where = "build/book/logs/beta.failed.ipynb"
    assert done.returncode == 1
    assert done.stderr == f"beta: ZeroDivisionError: division by zero; see {where}\n"
    assert len(jobs(cluster)) == 2
    assert not (built.root / "build/book/records/beta.json").exists()

    notebook.write_text(sound)
    done = built.parity("book", "--cluster", str(cluster))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "build/book/html/index.html"
    assert re.search(r"^beta: done in [\d.]+ s, 1 of 1$", done.stdout, flags=re.MULTILINE)  # told here, run elsewhere
    assert len(jobs(cluster)) == 3  # alpha was kept, and the pages are rendered here
    assert built.results() == before


def test_a_job_that_outlives_a_killed_build_does_no_harm(built: Checkout, cluster: Path) -> None:
    before = built.results()
    waiting, hurry = built.root / "waiting", built.root / "hurry"
    write_notebook(
        built.root / "notebooks/beta.ipynb",
        "seed: int = 0  # random seed [0..inf)\n",
        f"import pathlib, time\npathlib.Path({str(waiting)!r}).touch()\n"
        f"while not pathlib.Path({str(hurry)!r}).exists():\n    time.sleep(0.1)",
        save("beta", "seed=seed"),
    )
    build = built.start("book", "--cluster", str(cluster))
    wait_for(waiting.exists)
    for process in [*psutil.Process(build.pid).children(recursive=True), build]:
        process.send_signal(signal.SIGKILL)
    build.communicate()
    again = built.start("book", "--cluster", str(cluster))
    wait_for((cluster / "spool/2.sh").exists)  # the same chapter once more, while the first is still at it
    hurry.touch()
    stdout, stderr = again.communicate()
    assert again.returncode == 0, stdout + stderr
    wait_for((cluster / "spool/1.status").exists)
    assert built.results() == before
    assert (built.root / "build/book/html/index.html").is_file()


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("executor: no-such\n", "the executor no-such is not installed: pip install snakemake-executor-plugin-no-such"),
        ("jobs: 4\n", "must name an executor, such as slurm, got None"),
        ("executor: ../slurm\n", "must name an executor, such as slurm, got '../slurm'"),
        ("executor: [\n", "not YAML"),
    ],
)
def test_a_scheduler_that_cannot_be_used_is_one_sentence(tmp_path: Path, config: str, sentence: str) -> None:
    (tmp_path / "config.yaml").write_text(config)
    with pytest.raises(ParameterError) as refused:
        executor(2, tmp_path)
    assert sentence in str(refused.value) and "\n" not in str(refused.value)


def test_what_the_scheduler_said_is_what_the_user_reads(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    refusal = "sbatch: error: invalid partition specified: nowhere"
    talk = f"Group job blocks\n\x1b[31m{refusal}\x1b[0m\nError in rule\nSLURM sbatch failed. It said {refusal}\nthe end\n"
    (logs / "snakemake.log").write_text(talk)
    said, where = failures(tmp_path).splitlines()
    assert said == refusal and where.startswith("the build stopped; see ")
    error = "[Thu Nov 19]\nError in rule chapter_beta:\n    message: Error submitting jobscript (exit code 127):\n"
    lost = "/bin/sh: 1: qsub: not found"
    (logs / "snakemake.log").write_text(f"    jobid: 2\n{lost}\n{error}    output: records/beta.json\nExiting\n")
    refused = "Error submitting jobscript (exit code 127)"
    assert failures(tmp_path).splitlines()[:-1] == [lost, refused]
    (logs / "snakemake.log").write_text(f"    jobid: 2\n{error}    output: records/beta.json\nExiting\n")
    assert failures(tmp_path).splitlines()[:-1] == [refused]


def test_a_job_that_was_killed_is_named_with_what_is_likely(tmp_path: Path) -> None:
    """A chapter or block that fails leaves its reason; one that is killed cannot."""
    logs = tmp_path / "logs"
    logs.mkdir()
    error = "Error in rule chapter_beta:\n    jobid: 2\n    output: records/beta.json\n    shell:\n        exec python\n"
    (logs / "snakemake.log").write_text(f"Building DAG of jobs...\n{error}\n{error}Shutting down\n")
    told, where = failures(tmp_path).splitlines()
    assert told == "beta: its job ended and left no reason; most often that is a kill, for want of memory or time"
    assert where.startswith("the build stopped; see ")
    (logs / "snakemake.log").write_text(f"Traceback (most recent call last):\nImportError: no numpy\n{error}")
    assert "ImportError: no numpy" in failures(tmp_path)

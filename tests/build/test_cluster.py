"""The same Snakefiles on a scheduler: every notebook and every block of a study is a job of its own."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest
from checkouts import Checkout, save, wait_for, write_notebook

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

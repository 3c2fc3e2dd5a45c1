"""A notebook as a function: checked parameters in, an executed page and its results out.

Papermill executes the notebook in a scratch folder, and only a run that finished is published.
What its parameters may be is the business of :mod:`parity_lib.build.parameters`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .parameters import ParameterError, check_parameters, filled_in, load_notebook, parameters_cell

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class RunError(RuntimeError):
    """A notebook that did not finish: one sentence, and the file in ``logs/`` that tells more, if one could be kept."""

    def __init__(self, sentence: str, log: Path | None) -> None:
        super().__init__(f"{sentence}; see {os.path.relpath(log)}" if log else sentence)
        self.sentence = sentence


class NoResultsError(RuntimeError):
    """A notebook that ran to its end without recording anything."""


def say(text: str, end: str = "\n") -> None:
    """Print in one write: jobs share the terminal, and an unbuffered print writes its newline apart."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


def run_notebook(
    notebook: Path,
    values: Mapping[str, Any],
    *,
    output: Path,
    build: Path,
    live: bool = False,
) -> None:
    """Execute a notebook with checked ``values`` and publish its page, results and run record.

    Parameters
    ----------
    output : where the executed notebook goes.
    build : folder of ``results/``, ``records/``, ``logs/`` and the scratch folder ``tmp/``.
    live : redraw one progress line, for a single run on a terminal.

    Raises
    ------
    RunError : the notebook failed; it and its traceback are in ``logs/``, nothing was published.
    """
    name, root, build = notebook.stem, notebook.resolve().parents[1], build.absolute()
    logs = build / "logs"
    for folder in (build / "tmp", build / "results", build / "records", logs, output.parent):
        folder.mkdir(parents=True, exist_ok=True)
    trace, failed = logs / f"{name}.error.txt", logs / f"{name}.failed.ipynb"
    trace.unlink(missing_ok=True)
    failed.unlink(missing_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=build / "tmp"))
    page = scratch / f"{name}.ipynb"
    say(f"{name}: started")
    started = time.perf_counter()
    try:
        _write_filled(notebook, values, page)
        with _environment(root, build, scratch), _progress(name, scratch, live):
            _execute(page, scratch)
        seconds = time.perf_counter() - started
        _clean(page, [scratch, root])
        results = scratch / f"{name}.json"
        _check_results(results)
        record = scratch / "record.json"
        record.write_text(json.dumps(_run_record(notebook, values, seconds), indent=2) + "\n")
        os.replace(results, build / "results" / results.name)
        os.replace(record, build / "records" / f"{name}.json")
        os.replace(page, output)
    except Exception as error:
        sentence, story = _explain(error)
        try:
            trace.write_text(f"{name}: {sentence}\n\n{story}\n", encoding="utf-8")
            if page.exists():
                os.replace(page, failed)
        except OSError:  # a full disk: the sentence must do
            trace.unlink(missing_ok=True)
        log = next((path for path in (failed, trace) if path.exists()), None)
        raise RunError(f"{name}: {sentence}", log) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    say(f"{name}: done in {seconds:.1f} s")


def _write_filled(notebook: Path, values: Mapping[str, Any], page: Path) -> None:
    loaded = load_notebook(notebook)
    cell = parameters_cell(loaded, notebook.stem)
    cell["source"] = filled_in("".join(cell["source"]), values)
    page.write_text(json.dumps(loaded), encoding="utf-8")


@contextmanager
def _environment(root: Path, build: Path, scratch: Path) -> Iterator[None]:
    """What the kernel inherits: this checkout's library, one thread, and where to write."""
    before = dict(os.environ)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.update(
        PYTHONHASHSEED="0",
        PYTHONPATH=os.pathsep.join(filter(None, [str(root), before.get("PYTHONPATH")])),
        PARITY_OUT=str(scratch),
        PARITY_RESULTS=str(build / "results"),
        PARITY_PROGRESS=str(scratch / "progress.txt"),
    )
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _progress(name: str, scratch: Path, live: bool) -> Iterator[None]:
    """Show the one line that the library keeps in ``progress.txt`` while the kernel works."""
    stop = threading.Event()

    def watch() -> None:
        shown, since = "", time.monotonic()
        while not stop.wait(1):
            try:
                text = (scratch / "progress.txt").read_text(encoding="utf-8").strip()
            except OSError:
                continue
            if text == shown or not (live or time.monotonic() - since >= 20):
                continue
            shown, since = text, time.monotonic()
            say(f"\r\x1b[2K{name}: {text}" if live else f"{name}: {text}", end="" if live else "\n")
        if live:
            say("\r\x1b[2K", end="")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _execute(page: Path, scratch: Path) -> None:
    """Run the page in place. A kernel that never answered gets a second chance, an error does not."""
    import papermill
    from nbclient.exceptions import DeadKernelError

    def execute() -> None:
        papermill.execute_notebook(
            _papermill_path(page),
            _papermill_path(page),
            kernel_name="python3",
            cwd=scratch,
            progress_bar=False,
            start_timeout=120,
            extra_arguments=["--log-level=CRITICAL"],
        )

    try:
        execute()
    except DeadKernelError:
        raise
    except RuntimeError:
        execute()


def _papermill_path(path: Path) -> str:
    """A path as papermill wants it: it reads braces as places to fill in."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _clean(page: Path, folders: Iterable[Path]) -> None:
    """Take papermill's notes, times and this machine's paths out of an executed notebook."""
    text = page.read_text(encoding="utf-8")
    for folder in folders:
        text = text.replace(json.dumps(str(folder))[1:-1], ".")
    temporary = re.escape(json.dumps(tempfile.gettempdir())[1:-1])
    cell_file = rf"{temporary}[/\\]+ipykernel_\d+[/\\]+\d+\.py"  # the name a warning gives a cell
    loaded = json.loads(re.sub(cell_file, "this cell", text))
    for part in (loaded, *loaded["cells"]):
        part["metadata"].pop("papermill", None)
        part["metadata"].pop("execution", None)
    page.write_text(json.dumps(loaded, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _check_results(results: Path) -> None:
    if not results.is_file():
        raise NoResultsError("the notebook finished without recording its results")
    json.loads(results.read_text(encoding="utf-8"))


def _explain(error: Exception) -> tuple[str, str]:
    """What went wrong as one line, and the whole story as plain text."""
    from papermill.exceptions import PapermillExecutionError

    if isinstance(error, PapermillExecutionError):
        name, reason, story = error.ename, error.evalue, "\n".join(error.traceback)
    else:
        name, reason = type(error).__name__, str(error)
        story = "".join(traceback.format_exception(error))
    first = next(iter(plain(reason).strip().splitlines()), "no message")
    return f"{name}: {first}", plain(story)


def plain(text: str) -> str:
    """Text without the colours of a terminal."""
    return _ANSI.sub("", text)


def _run_record(notebook: Path, values: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Under which conditions the results came about."""
    return {
        "notebook": notebook.stem,
        "parameters": dict(values),
        "seconds": round(seconds, 1),
        "peak_memory_mb": _peak_memory_mb(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "numpy": version("numpy"),
        "platform": " ".join(filter(None, (platform.system(), platform.machine(), *platform.libc_ver()))),
        "processor": processor(),
        "cpus": os.cpu_count(),
        "commit": _commit(notebook.parent),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def processor() -> str:
    """The processor's name: with another one, the last digits may differ."""
    try:
        named = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:  # not Linux
        named = None
    return named[1] if named else platform.processor()


def _peak_memory_mb() -> int | None:
    """Largest resident memory of a kernel this process ran, or None where it is not counted."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / unit)


def _commit(folder: Path) -> str | None:
    """The commit of the sources, marked ``-dirty`` if they were changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() or None


def leave_with_parent() -> None:
    """End this process, and with it its kernel, within seconds of its parent's death."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    """Run one chapter of the build in the working folder: what the Snakefile calls."""
    parser = argparse.ArgumentParser(prog="python -m parity_lib.build.runner", description=main.__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("overrides", type=json.loads, help="parameters as a JSON object")
    arguments = parser.parse_args()
    leave_with_parent()
    notebook, build = arguments.notebook, Path.cwd()
    try:
        values = check_parameters(notebook, arguments.overrides)
        output = build / "src" / "notebooks" / notebook.name
        run_notebook(notebook, values, output=output, build=build)
    except ParameterError as error:
        say(str(error))
        return 1
    except RunError as error:
        say(error.sentence)
        return 1
    except OSError as error:  # not even the folders could be made
        say(f"{notebook.stem}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

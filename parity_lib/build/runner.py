"""A notebook as a function: checked parameters in; an executed page, results, tables and a run record out.

Papermill executes the notebook in a scratch folder, and only a run that finished is published: first what it found,
last its record, which holds the checksums of the rest. So a record is there if and only if its run is whole.
"""

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
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..evidence import write_json, write_whole
from . import PUBLISHED
from .display import say
from .parameters import ParameterError, check_parameters
from .results import LEDGER, checksum, read_json

CACHES = {
    "MPLCONFIGDIR": "matplotlib", "NUMBA_CACHE_DIR": "numba", "IPYTHONDIR": "ipython",
    "JUPYTER_RUNTIME_DIR": "jupyter", "XDG_CACHE_HOME": "cache",
}  # fmt: skip
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class RunError(RuntimeError):
    """A notebook that did not finish: one sentence, and the file in ``logs/`` that tells more, if one could be kept."""

    def __init__(self, sentence: str, log: Path | None) -> None:
        super().__init__(f"{sentence}; see {os.path.relpath(log)}" if log else sentence)
        self.sentence = sentence


class UnsoundError(RuntimeError):
    """A notebook that ran to its end, but not as a chapter must."""


def run_notebook(
    notebook: Path, values: Mapping[str, Any], *, output: Path, build: Path, decide: bool = True, key: str = ""
) -> None:
    """Execute a notebook with checked ``values``; publish its page as ``output`` and the rest in folders of ``build``.

    At the notebook's own default values, the size of the published book, a sentence that is not true is an error. Where
    its verdicts do not count (``decide``), its claims are recorded as open. The ``key`` is what the run depends on, as
    :func:`parity_lib.build.workflow.key_of` has it; a run outside a book has none. If the notebook fails, a
    :class:`RunError`: it and its traceback are in ``logs/``, and nothing was published.
    """
    name, root, build = notebook.stem, notebook.resolve().parents[1], build.absolute()
    logs = build / "logs"
    for folder in (build / "tmp", build / "results", build / "records", logs, output.parent):
        folder.mkdir(parents=True, exist_ok=True)
    for left in (logs / f"{name}.error.txt", logs / f"{name}.failed.ipynb"):
        left.unlink(missing_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=build / "tmp"))
    page = scratch / f"{name}.ipynb"
    say(f"{name}: started")
    started = time.perf_counter()
    try:
        defaults = check_parameters(notebook, {})
        (scratch / "kernel.json").write_text(json.dumps({"strict": decide and defaults == values}))
        changed = {parameter: value for parameter, value in values.items() if value != defaults[parameter]}
        with _environment(root, scratch):
            _execute(notebook, page, changed, scratch)
        seconds = time.perf_counter() - started
        warned = _clean(page, [scratch, root])
        if warned and (key or defaults == values):  # in a book of any size; a reader's own run shows it
            raise UnsoundError(f"its page would show a warning: {warned}")
        _check_results(scratch, name, decide)
        record = {"chapter": name, "parameters": dict(values), "seconds": round(seconds, 1), "key": key}
        record |= read_json(scratch / "kept.json") | _conditions(notebook)
        _publish(scratch, page, output, build, record)
    except Exception as error:
        raise _failed(error, page, logs) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    say(f"{name}: done in {seconds:.1f} s")


def _failed(error: Exception, page: Path, logs: Path) -> RunError:
    """Keep what a run left that did not finish, its traceback and, if it got that far, its notebook."""
    name = page.stem
    trace, failed = logs / f"{name}.error.txt", logs / f"{name}.failed.ipynb"
    sentence, story = _explain(error)
    try:
        trace.write_text(f"{name}: {sentence}\n\n{story}\n", encoding="utf-8")
        if page.exists():
            os.replace(page, failed)
    except OSError:  # a full disk: the sentence must do
        trace.unlink(missing_ok=True)
    return RunError(f"{name}: {sentence}", next((path for path in (failed, trace) if path.exists()), None))


def clear_scratch(build: Path, name: str) -> None:
    """Remove what killed runs of a chapter left in ``tmp/``; one that is alive holds the chapter's lock."""
    from filelock import FileLock, Timeout

    mine = re.compile(rf"{re.escape(name)}-\w{{8}}")  # and not of a chapter called name-more
    left = [path for path in (build / "tmp").glob(f"{name}-*") if mine.fullmatch(path.name)]
    with suppress(Timeout, OSError):
        if left:
            with FileLock(build / f".{name}lock", timeout=0):
                for path in left:
                    shutil.rmtree(path, ignore_errors=True)


def variables(root: Path) -> dict[str, str]:
    """What processes of the build inherit: this checkout's library, and caches below ``build/``, not in the home."""
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    caches = {name: os.environ.get(name) or str(root / "build" / folder) for name, folder in CACHES.items()}
    return caches | {"PYTHONPATH": path}


@contextmanager
def _environment(root: Path, scratch: Path) -> Iterator[None]:
    """While this lasts, what the kernel is to inherit; besides, one thread, and temporary files in ``scratch``."""
    before, folder = dict(os.environ), tempfile.tempdir
    tempfile.tempdir = os.environ["TMPDIR"] = str(scratch)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.update(variables(root), PYTHONHASHSEED="0")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        tempfile.tempdir = folder


def _execute(notebook: Path, page: Path, values: Mapping[str, Any], scratch: Path) -> None:
    """Run the notebook. A kernel that never answered gets a second chance, an error does not."""
    import papermill
    from nbclient.exceptions import DeadKernelError

    def execute() -> None:
        papermill.execute_notebook(
            _papermill_path(notebook.absolute()),
            _papermill_path(page),
            parameters=values,
            kernel_name="python3",
            cwd=scratch,
            progress_bar=False,
            start_timeout=120,
            extra_arguments=["--log-level=CRITICAL", "--ext=parity_lib.build.kernel"],
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


def _clean(page: Path, folders: Iterable[Path]) -> str:
    """Take papermill's notes, times and this machine's paths out of an executed notebook; its first warning, if any."""
    text = page.read_text(encoding="utf-8")
    for folder in folders:
        text = text.replace(json.dumps(str(folder))[1:-1], ".")
    cell_file = r"\.[/\\]+ipykernel_\d+[/\\]+\d+\.py"  # the name a warning gives a cell, in the scratch folder
    loaded = json.loads(re.sub(cell_file, "this cell", text))
    for part in (loaded, *loaded["cells"]):
        part["metadata"].pop("papermill", None)
        part["metadata"].pop("execution", None)
    page.write_text(json.dumps(loaded, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    outputs = [output for cell in loaded["cells"] for output in cell.get("outputs", [])]
    warnings = ["".join(output["text"]) for output in outputs if output.get("name") == "stderr"]
    return next((line for text in warnings for line in plain(text).splitlines() if line.strip()), "")


def _check_results(scratch: Path, name: str, decide: bool) -> None:
    path = scratch / "results" / f"{name}.json"
    if not path.is_file():
        raise UnsoundError("the notebook finished without recording its results")
    content = read_json(path)
    if not decide:
        for claim in content["claims"].values():
            claim |= {"as_stated": "open", "instead": ""}
        write_json(path, content)


def _publish(scratch: Path, page: Path, output: Path, build: Path, record: dict[str, Any]) -> None:
    """Move page, results and tables to their places, then the record with their checksums."""
    name = record["chapter"]
    tables = scratch / "tables" / name
    tables.mkdir(parents=True, exist_ok=True)
    made = {f"tables/{name}/{path.name}": path for path in sorted(tables.iterdir())}
    made |= {f"results/{name}.json": scratch / "results" / f"{name}.json", os.path.relpath(output, build): page}
    record["products"] = {place: checksum(path) for place, path in made.items()}
    entry = scratch / "record.json"
    write_json(entry, record)
    final = build / "records" / f"{name}.json"
    final.unlink(missing_ok=True)
    kept = build / "tables" / name
    kept.mkdir(parents=True, exist_ok=True)
    for stale in {path.name for path in kept.iterdir()} - {path.name for path in made.values()}:
        (kept / stale).unlink(missing_ok=True)
    for place, path in made.items():
        os.replace(path, build / place)
    os.replace(entry, final)


def seek_exporter() -> None:
    """A :class:`ParameterError` where what makes a page of a notebook is not installed."""
    if find_spec("nbconvert") is None:
        raise ParameterError("to show a page nbconvert is needed: pip install -c constraints.txt '.[binder]'")


def as_page(notebook: Path) -> Path:
    """An executed notebook as a page of HTML beside it, which asks no other host for anything."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(mathjax_url="", require_js_url="", jquery_url="", mermaid_js_url="")
    text, _ = exporter.from_filename(str(notebook))
    page = notebook.with_suffix(".html").absolute()
    write_whole(page, text)
    return page


def _explain(error: Exception) -> tuple[str, str]:
    """What went wrong as one line, and the whole story as plain text."""
    from papermill.exceptions import PapermillExecutionError

    if isinstance(error, PapermillExecutionError):
        name, reason, story = error.ename, error.evalue, "\n".join(error.traceback)
    else:
        name, reason = type(error).__name__, str(error)
        story = "".join(traceback.format_exception(error))
    first = next(iter(plain(reason).strip().splitlines()), "no message")
    memory = "; a process that vanishes was most often stopped for want of memory" if name == "DeadKernelError" else ""
    return f"{name}: {first}{memory}", plain(story)


def plain(text: str) -> str:
    """Text without the colours of a terminal."""
    return _ANSI.sub("", text)


def _conditions(notebook: Path) -> dict[str, Any]:
    """Where and when the results came about."""
    return {
        "python": platform.python_version(),
        **{library: version(library) for library in ("torch", "numpy", "numba") if find_spec(library)},
        "platform": " ".join(filter(None, (platform.system(), platform.machine(), *platform.libc_ver()))),
        "processor": processor(),
        "cpus": os.cpu_count(),
        "commit": commit_of(notebook.parent),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def processor(described: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name, and its kind where one name stands for several: with another, the last digits may differ."""
    try:
        said = dict(re.findall(r"^(model name|cpu family|model)\s*: (.+)$", described.read_text("utf-8"), re.MULTILINE))
    except OSError:  # not Linux
        said = {}
    kind = [f"{part} {said[part]}" for part in ("cpu family", "model") if part in said]
    return ", ".join([said["model name"], *kind]) if "model name" in said else platform.processor()


def commit_of(folder: Path) -> str | None:
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
    """Run one chapter of the build in the working folder, with parameters as JSON: what the Snakefile calls."""
    from .workflow import key_of

    notebook, overrides, build = Path(sys.argv[1]), json.loads(sys.argv[2]), Path.cwd()
    leave_with_parent()
    try:
        values = check_parameters(notebook, overrides)
        output = build / "src" / "notebooks" / notebook.name
        published = values == check_parameters(notebook, {})
        published &= notebook.stem != LEDGER or build.name == PUBLISHED  # it depends on the others' parameters too
        key = key_of(notebook.resolve().parents[1], notebook, values, build)
        run_notebook(notebook, values, output=output, build=build, decide=published, key=key)
    except (ParameterError, RunError) as error:
        say(error.sentence if isinstance(error, RunError) else str(error))
        return 1
    except OSError as error:  # not even the folders could be made
        say(f"{notebook.stem}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

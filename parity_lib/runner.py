"""A notebook as a function: checked parameters in, an executed page and its results out.

The parameters of a chapter are the lines of its one cell tagged ``parameters``::

    n: int = 20  # sequence length [2..1000000]
    temperature: float = 1.0  # softmax temperature (0..inf)
    device: str = "auto"  # where to train {auto, cpu, cuda}

A comment ends with the values that are allowed: an interval, with square brackets where it
includes its end, or a set of choices; for a list they apply to each item. Everything is checked
before a kernel starts, and a refusal is one sentence. Then papermill executes the notebook in a
scratch folder, and only a run that finished is published.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import io
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
import tokenize
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

SCALARS = {"int": int, "float": float, "str": str, "bool": bool}
TYPES = (*SCALARS, "list[int]", "list[float]", "list[str]")

_ALLOWED = re.compile(r"([\[(][^\[\](){}]+\.\.[^\[\](){}]+[\])]|\{[^{}]+\})\s*$")
_INTERVAL = re.compile(r"([\[(])\s*(.+?)\s*\.\.\s*(.+?)\s*([\])])")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class ParameterError(ValueError):
    """A parameter, notebook or profile that cannot be used; the message is one sentence."""


class RunError(RuntimeError):
    """A notebook that did not finish: one sentence, and the file in ``logs/`` that tells more."""

    def __init__(self, sentence: str, log: Path) -> None:
        super().__init__(f"{sentence}; see {os.path.relpath(log)}")
        self.sentence = sentence


class NoResultsError(RuntimeError):
    """A notebook that ran to its end without recording anything."""


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell: ``name: type = default  # help allowed``."""

    name: str
    type: str
    default: Any
    help: str
    allowed: str

    @property
    def expects(self) -> str:
        """What a value must be, in words: ``a float in (0..inf)``."""
        one_of = self.allowed.startswith("{")
        where = f"{'one of' if one_of else 'in'} {self.allowed}" if self.allowed else ""
        if self.type.startswith("list["):
            return f"a {self.type} of at least one item" + (f", each {where}" if where else "")
        article = "an" if self.type == "int" else "a"
        return where if one_of else f"{article} {self.type} {where}".strip()

    def check(self, value: Any) -> Any:
        """The value in the declared type; ``ValueError`` says what was expected and what came."""
        try:
            typed = _typed(self.type, value)
            items = typed if isinstance(typed, list) else [typed]
            if all(_is_allowed(self, item) for item in items):
                return typed
        except (TypeError, OverflowError):
            pass
        raise ValueError(f"{self.name} must be {self.expects}, got {_given(self.type, value)}")

    def parse(self, text: str) -> Any:
        """The checked value of a command-line text: ``8,11,18`` or ``[8, 11, 18]`` for a list."""
        try:
            value = _parsed(self.type, text)
        except (KeyError, ValueError):
            raise ValueError(f"{self.name} must be {self.expects}, got {text!r}") from None
        return self.check(value)


def _typed(kind: str, value: Any) -> Any:
    """``value`` as ``kind``, or ``TypeError``; a bool is no int, and an int may stand for a float."""
    if kind.startswith("list["):
        if not isinstance(value, list | tuple) or not value:
            raise TypeError
        return [_typed(kind[5:-1], item) for item in value]
    if kind == "float" and type(value) is int:
        return float(value)
    if type(value) is not SCALARS[kind]:
        raise TypeError
    return value


def _parsed(kind: str, text: str) -> Any:
    """``text`` read as ``kind``; ``ValueError`` or ``KeyError`` if it is none."""
    if kind.startswith("list["):
        items = text.strip().removeprefix("[").removesuffix("]").split(",")
        return [_parsed(kind[5:-1], item.strip().strip("\"'")) for item in items]
    if kind == "bool":
        return {"true": True, "false": False}[text.lower()]
    return SCALARS[kind](text)


def _is_allowed(parameter: Parameter, value: Any) -> bool:
    """Whether one value, or one item of a list, lies in the declared interval or set."""
    if not parameter.allowed:
        return True
    if parameter.allowed.startswith("{"):
        kind = parameter.type.removeprefix("list[").removesuffix("]")
        return value in [_parsed(kind, item.strip()) for item in parameter.allowed[1:-1].split(",")]
    match = _INTERVAL.fullmatch(parameter.allowed)
    assert match is not None
    opening, low, high, closing = match.groups()
    above = value >= _number(low) if opening == "[" else value > _number(low)
    below = value <= _number(high) if closing == "]" else value < _number(high)
    return bool(above and below)


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _given(kind: str, value: Any) -> str:
    """The offending value, with the way out of YAML's oldest trap: ``1e-3`` is a string there."""
    if not isinstance(value, str):
        return repr(value)
    trap = "float" in kind and re.fullmatch(r"[+-]?\d+e[+-]?\d+", value, re.IGNORECASE)
    hint = f" (YAML reads it as a number only with a point, {float(value):.1e})" if trap else ""
    return f"the string {value!r}{hint}"


def unknown(kind: str, given: str, known: Iterable[str]) -> str:
    """The sentence for a name that is not there, with the closest one that is."""
    names = list(known)
    close = difflib.get_close_matches(given, names, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"unknown {kind} {given!r}{hint}; known: {', '.join(names) or 'none'}"


def read_parameters(notebook: Path) -> tuple[Parameter, ...]:
    """The parameters of a notebook, in order. No kernel starts and no code runs."""
    source = _parameters_cell(_load(notebook), notebook.stem)["source"]
    return _read_cell("".join(source), notebook.stem)


def check_parameters(notebook: Path, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a notebook: its defaults, with ``overrides`` checked and put in place."""
    parameters = read_parameters(notebook)
    _check_names(notebook.stem, parameters, overrides)
    values = {p.name: p.default for p in parameters}
    try:
        values |= {p.name: p.check(overrides[p.name]) for p in parameters if p.name in overrides}
        _check_meaning(parameters, values)
    except ValueError as error:
        raise ParameterError(f"{notebook.stem}: {error}") from None
    return values


def parse_overrides(notebook: Path, texts: Mapping[str, str]) -> dict[str, Any]:
    """Command-line texts as values of the types that the notebook declares."""
    parameters = read_parameters(notebook)
    _check_names(notebook.stem, parameters, texts)
    try:
        return {p.name: p.parse(texts[p.name]) for p in parameters if p.name in texts}
    except ValueError as error:
        raise ParameterError(f"{notebook.stem}: {error}") from None


def _check_names(notebook: str, parameters: Iterable[Parameter], given: Iterable[str]) -> None:
    known = [p.name for p in parameters]
    for name in given:
        if name not in known:
            raise ParameterError(f"{notebook}: {unknown('parameter', str(name), known)}")


def _check_meaning(parameters: Iterable[Parameter], values: Mapping[str, Any]) -> None:
    """What no range can say: bits are distinct positions in 1..n, and the device is there."""
    for p in parameters:
        positions = p.type == "list[int]" and (p.name == "bits" or p.name.endswith("_bits"))
        if positions and "n" in values:
            from parity_lib.parity import Parity

            try:
                Parity(values["n"], values[p.name])
            except ValueError as error:
                raise ValueError(f"{p.name}: {error}") from None
        if p.name == "device":
            from parity_lib.training import resolve_device

            resolve_device(values["device"])


def _load(notebook: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(notebook.read_text(encoding="utf-8"))
        return loaded if loaded["cells"] is not None else {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ParameterError(f"{notebook.name} cannot be read as a notebook ({reason})") from None


def _parameters_cell(notebook: Mapping[str, Any], name: str) -> Any:
    tagged = [cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", [])]
    if len(tagged) != 1:
        found = len(tagged)
        raise ParameterError(f"{name}: one cell must carry the tag 'parameters', found {found}")
    return tagged[0]


def _read_cell(source: str, notebook: str) -> tuple[Parameter, ...]:
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        reason = f"the parameters cell is not Python ({error.msg}, line {error.lineno})"
        raise ParameterError(f"{notebook}: {reason}") from None
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    parameters = []
    for statement in statements:
        try:
            comment = comments.get(statement.lineno, "")
            parameters.append(_read_statement(statement, comment))
        except (TypeError, ValueError) as error:
            line = ast.unparse(statement)
            raise ParameterError(f"{notebook}: parameter line '{line}': {error}") from None
    return tuple(parameters)


def _read_statement(statement: ast.stmt, comment: str) -> Parameter:
    if not (
        isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and statement.value is not None
        and statement.lineno == statement.end_lineno
    ):
        raise ValueError("it must read 'name: type = literal  # help' on one line")
    kind = ast.unparse(statement.annotation)
    if kind not in TYPES:
        raise ValueError(f"its type must be one of {', '.join(TYPES)}, got {kind}")
    match = _ALLOWED.search(comment)
    allowed = match.group(1) if match else ""
    help_text = comment[: match.start()].strip() if match else comment.strip()
    if not help_text:
        raise ValueError("it must end with a comment that says what it is for")
    if not allowed and ("int" in kind or "float" in kind):
        raise ValueError("its comment must end with the allowed values, such as [1..100]")
    try:
        value = ast.literal_eval(statement.value)
    except ValueError:
        raise ValueError("its value must be a literal") from None
    parameter = Parameter(statement.target.id, kind, None, help_text, allowed)
    return Parameter(parameter.name, kind, parameter.check(value), help_text, allowed)


def _filled_in(source: str, values: Mapping[str, Any]) -> str:
    """The parameters cell with other values and the same comments: a page shows one such cell."""
    lines = source.split("\n")
    for statement in ast.parse(source).body:
        assert isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        node, value = statement.value, values[statement.target.id]
        assert node is not None and node.end_col_offset is not None
        if ast.literal_eval(node) != value:
            line = lines[node.lineno - 1].encode()  # ast counts bytes
            head, tail = line[: node.col_offset], line[node.end_col_offset :]
            lines[node.lineno - 1] = (head + _literal(value).encode() + tail).decode()
    return "\n".join(lines)


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value).replace("inf", "1e999")


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
    print(f"{name}: started", flush=True)
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
        trace.write_text(f"{name}: {sentence}\n\n{story}\n", encoding="utf-8")
        if page.exists():
            os.replace(page, failed)
        log = failed if failed.exists() else trace
        raise RunError(f"{name}: {sentence}", log) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{name}: done in {seconds:.1f} s", flush=True)


def _write_filled(notebook: Path, values: Mapping[str, Any], page: Path) -> None:
    loaded = _load(notebook)
    cell = _parameters_cell(loaded, notebook.stem)
    cell["source"] = _filled_in("".join(cell["source"]), values)
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
            print(f"\r\x1b[2K{name}: {text}" if live else f"{name}: {text}", end="" if live else "\n", flush=True)
        if live:
            print("\r\x1b[2K", end="", flush=True)

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
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "commit": _commit(notebook.parent),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


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
    parser = argparse.ArgumentParser(prog="python -m parity_lib.runner", description=main.__doc__)
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
        print(error, flush=True)
        return 1
    except RunError as error:
        print(error.sentence, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

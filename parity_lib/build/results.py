"""What a run left on disk, read back: results (what a chapter found), records (under which conditions), tables.

A run is a folder with ``results/<chapter>.json``, ``records/<chapter>.json`` and ``tables/<chapter>/<name>.csv``,
such as ``build/book`` or ``reference``.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..evidence import AS_STATED, KINDS, Interval, Rate, write_whole
from .parameters import ParameterError, shown

if TYPE_CHECKING:  # a process of the build that reads no table need not wait for it
    import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
LEDGER = "ledger"  # holds what it collected from the others, nothing of its own


class ResultsError(ValueError):
    """Results that cannot be used, said in one sentence that a terminal can be shown."""

    def __init__(self, sentence: str) -> None:
        super().__init__(printable(sentence))


class Decided(BaseModel):
    """A verdict, as :func:`parity_lib.evidence.record` wrote it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    as_stated: Literal[AS_STATED]  # type: ignore[valid-type]
    kind: Literal[KINDS]  # type: ignore[valid-type]
    numbers: dict[str, Any]
    instead: str


class Results(BaseModel):
    """What a chapter found: its verdicts by claim, and the names of its tables."""

    model_config = ConfigDict(extra="forbid", strict=True)
    chapter: str
    claims: dict[str, Decided]
    tables: list[Annotated[str, Field(pattern=r"^[\w-]{1,100}$")]]  # names, never paths


class Record(BaseModel):
    """Under which conditions a chapter ran, and what it published; the runner writes it last."""

    model_config = ConfigDict(extra="allow", strict=True)
    chapter: str
    parameters: dict[str, Any]
    seconds: float
    commit: str | None
    date: str
    cpu_seconds: float | None = None
    peak_memory_mb: int | None = None
    computed: list[str] = []
    reused: list[str] = []
    key: str = ""
    products: dict[str, str] = {}


Model = TypeVar("Model", Results, Record)
T = TypeVar("T", Rate, Interval)


def read_results(run: Path, chapter: str) -> Results:
    """A chapter's results in a run, or :class:`ResultsError`."""
    return _read(run / "results" / f"{chapter}.json", Results, chapter)


def read_record(run: Path, chapter: str) -> Record:
    """A chapter's run record in a run, or :class:`ResultsError`."""
    return _read(run / "records" / f"{chapter}.json", Record, chapter)


def write_table(path: Path, frame: "pd.DataFrame") -> None:
    """Write a frame as CSV, whole or not at all."""
    write_whole(path, frame.to_csv(index=False, lineterminator="\n"))


def table_path(run: Path, chapter: str, name: str) -> Path:
    """Where a chapter's table lies in a run."""
    return run / "tables" / chapter / f"{name}.csv"


def read_table(run: Path, chapter: str, name: str) -> "pd.DataFrame":
    """A chapter's table in a run, or :class:`ResultsError`."""
    import pandas as pd

    path = table_path(run, chapter, name)
    try:
        return pd.read_csv(regular(path))
    except FileNotFoundError:
        raise _missing(path) from None
    except (ValueError, OSError) as error:
        raise ResultsError(f"{os.path.relpath(path)} is not readable as CSV ({one_line(error)})") from None


def _read(path: Path, model: type[Model], chapter: str) -> Model:
    where = os.path.relpath(path)
    try:
        found = model.model_validate(read_json(path))
    except FileNotFoundError:
        raise _missing(path) from None
    except ValidationError as error:
        raise ResultsError(f"{where}: {one_line(error)}") from None
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{where} is not readable as JSON ({one_line(error)})") from None
    if found.chapter != chapter:
        raise ResultsError(f"{where} is of {found.chapter!r}")
    return found


class _Loader(yaml.SafeLoader):
    """Plain values only, no key twice, and numbers as people read them."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        twice = next((key for key in keys if isinstance(key, str) and keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        if not re.fullmatch(r"[+-]?(0|[1-9][0-9]*)", node.value):  # to YAML 024 is 20, and 1:30 is 90
            reason = f"a number must be plain digits, got {node.value}"
            raise yaml.constructor.ConstructorError(None, None, reason, node.start_mark)
        return int(node.value)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def read_yaml(path: Path) -> Any:
    """Plain values from a YAML file. Nothing in it can run code: only the safe tags of YAML are read."""
    try:
        return _Loader(regular(path).read_text(encoding="utf-8")).get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # an impossible date is a ValueError
        raise ParameterError(f"not YAML ({one_line(error)})") from None


def one_line(error: Exception) -> str:
    """What an exception says, in one line and not a long one; of what pydantic found, the first."""
    if not isinstance(error, ValidationError):
        return " ".join(str(error).split())[:400]
    first = error.errors()[0]
    place = f"{', '.join(map(str, first['loc']))}: " if first["loc"] else ""
    given = "" if first["type"] in ("missing", "value_error", "extra_forbidden") else f", got {shown(first['input'])}"
    return printable(f"{place}{first['msg'].removeprefix('Value error, ')}{given}")[:300]


def _missing(path: Path) -> ResultsError:
    return ResultsError(f"there is no {os.path.relpath(path)}: run the chapters first, with `make book`")


def read_json(path: Path) -> Any:
    """Plain values from JSON with finite numbers only; ``ValueError`` for anything else."""

    def finite(text: str) -> Any:
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"numbers must be finite, got {text[:20]}")
        return int(text) if text.lstrip("-").isdigit() else value

    return json.loads(regular(path).read_text("utf-8"), parse_constant=finite, parse_float=finite, parse_int=finite)


def regular(path: Path) -> Path:
    """The path itself; ``ValueError`` if it is a folder, or a pipe or device, whose reading may never end."""
    if path.exists() and not path.is_file():
        raise ValueError("it is no regular file")
    return path


def printable(text: str) -> str:
    """Text that cannot speak to a terminal: whatever does not print is shown by its code."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def as_estimate(value: Any, kind: type[T]) -> T | None:
    """The rate or interval that a results file holds as an object of numbers, or None for anything else."""
    if not isinstance(value, Mapping) or set(value) != {field.name for field in fields(kind)}:
        return None
    return kind(**value) if all(map(is_number, value.values())) else None


def is_number(value: Any) -> bool:
    """Whether it is a number, which a truth value is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def chapters_of_the_book() -> list[str]:
    """Every chapter but the ledger, in the order of ``profiles/book.yml``."""
    profile = yaml.safe_load((ROOT / "profiles" / "book.yml").read_text(encoding="utf-8"))
    return [name for name in profile["runs"] if name != LEDGER]


def find_run(chapters: Iterable[str], start: Path | None = None) -> Path:
    """The run whose results a notebook in the folder ``start`` is to show: the one it is part of, or else the
    book's, or else the reference."""
    paths = [chapter for chapter in chapters if not chapter.replace("-", "_").isidentifier()]
    if paths:
        raise ResultsError(f"a chapter is a name, got {shown(paths[0])}")
    needed = [f"{chapter}.json" for chapter in chapters]
    here = (start or Path.cwd()).resolve()
    candidates = [*here.parents, ROOT / "build" / "book", ROOT / "reference"]
    for run in candidates:
        if all((run / "results" / name).is_file() for name in needed):
            return run
    raise ResultsError(f"no run has results of {', '.join(chapters)}: run the chapters first, with `make book`")


def checksum(path: Path) -> str:
    """SHA-256 of a file; empty if it cannot be read."""
    try:
        return hashlib.sha256(regular(path).read_bytes()).hexdigest()
    except (OSError, ValueError):
        return ""

"""Compute once: what an expensive function returned is kept on disk, under its arguments and the code it can reach.

A chapter decorates its expensive functions with :func:`kept`. Changing a figure, a sentence, a verdict or a
docstring then recomputes nothing; changing a definition that the function can reach, in its own module or in any
other of this package, recomputes just that. The store is ``build/store`` of the checkout, the user's own, and goes
with ``make clean``; without a checkout nothing is kept.
"""

import ast
import functools
import hashlib
import importlib.util
import inspect
import os
import pickle
import platform
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from filelock import FileLock
from threadpoolctl import threadpool_limits

P = ParamSpec("P")
T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = __name__.partition(".")[0]
LIBRARIES = ("torch", "numpy", "scipy", "pandas", "numba")
KEPT_PER_FUNCTION = 512  # more than a chapter and its smoke size have of one function
DIGEST = 32  # bytes of the SHA-256 before the content of an entry

enabled = True
computed: list[str] = []
"""The functions that were computed in this process, in order."""
reused: list[str] = []
"""The functions whose result was found in the store."""


def kept(function: Callable[P, T]) -> Callable[P, T]:
    """Keep what ``function`` returns; its arguments are plain: numbers, texts, lists of them, frozen dataclasses.

    Its products run on one thread, so that it has the same bytes whatever the environment says about threads.
    """
    signature, on_one_thread = inspect.signature(function), threadpool_limits.wrap(limits=1)(function)
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if not enabled or not (ROOT / "Snakefile").is_file():
            return on_one_thread(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = {key: plain(value) for key, value in bound.arguments.items() if key != "progress"}
        key = hashlib.sha256(repr((arguments, fingerprint(function), _machine())).encode()).hexdigest()
        path = ROOT / "build" / "store" / name / f"{key[:32]}.pickle"
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):  # a second chapter that wants the same waits for it
            found, value = _load(path)
            (reused if found else computed).append(name)
            if not found:
                value = on_one_thread(*args, **kwargs)
                _save(path, value)
        return value

    return call


def plain(value: Any) -> Any:
    """A value as the key has it: the same for a list and a tuple, told apart by what it holds."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, dict):
        return tuple((plain(key), plain(item)) for key, item in value.items())
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__qualname__, tuple((name, plain(item)) for name, item in vars(value).items())
    if type(value).__module__ == "torch":  # a type of numbers, or a device
        return str(value)
    raise TypeError(f"a kept function takes numbers, texts, lists of them and dataclasses, got {type(value).__name__}")


def fingerprint(function: Callable[..., Any]) -> str:
    """Hash of all definitions of this package that ``function`` can reach by the names it mentions."""
    inner = inspect.unwrap(function)
    todo, seen = [(inner.__module__, inner.__name__)], set()
    parts = []
    while todo:
        place = todo.pop()
        if place in seen or place[0] == __name__:  # keeping a result does not change it
            continue
        seen.add(place)
        module = _module(place[0])
        parts += [(*place, ast.dump(statement)) for statement in module.code(place[1])]
        todo += module.reach(place[1])
    return hashlib.sha256(repr(sorted(parts)).encode()).hexdigest()


class _Module:
    """The top-level definitions of a module, without docstrings and comments, and what each of them mentions."""

    def __init__(self, name: str, path: Path) -> None:
        tree = _Bare().visit(ast.parse(path.read_text(encoding="utf-8")))
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        self.name = name
        self.imported: dict[str, tuple[str, str]] = {}  # local name -> (module, name), or (module, "") for a module
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                for alias in node.names:
                    inside = _path(f"{source}.{alias.name}")
                    target = (f"{source}.{alias.name}", "") if inside else (source, alias.name)
                    if source.partition(".")[0] == PACKAGE:
                        self.imported[alias.asname or alias.name] = target
        self.statements: dict[str, list[ast.stmt]] = {}
        for statement in tree.body:
            for defined in _defines(statement):
                self.statements.setdefault(defined, []).append(statement)

    def code(self, name: str) -> list[ast.stmt]:
        """The statements that define ``name``, or all of them for the module itself, and those that define nothing."""
        wanted = self.statements if not name else (name, "")
        return [statement for key in wanted for statement in self.statements.get(key, [])]

    def reach(self, name: str) -> Iterator[tuple[str, str]]:
        """Where the names that a definition mentions are defined."""
        if name in self.imported and name not in self.statements:
            yield self.imported[name]
        for node in (node for statement in self.code(name) for node in ast.walk(statement)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                target = self.imported.get(node.value.id)
                if target and not target[1]:  # an attribute of one of our modules
                    yield target[0], node.attr
            elif isinstance(node, ast.Name):
                target = self.imported.get(node.id)
                if target and target[1]:
                    yield target
                elif node.id in self.statements and node.id != name:
                    yield self.name, node.id


@functools.cache
def _module(name: str) -> _Module:
    path = _path(name)
    assert path is not None, f"no module {name}"
    return _Module(name, path)


def _path(name: str) -> Path | None:
    """The file of a module of this package, or None if there is no such module."""
    if name.partition(".")[0] != PACKAGE:
        return None
    base = Path(__file__).resolve().parents[1].joinpath(*name.split(".")[1:])
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


class _Bare(ast.NodeTransformer):
    """Drops every statement that is only a text."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


def _defines(statement: ast.stmt) -> list[str]:
    """The names that a top-level statement defines; an empty one if it only acts, and none for an import."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return []
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", statement)]
    names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return names if isinstance(statement, ast.Assign | ast.AnnAssign) else [""]


@functools.cache
def _machine() -> tuple[str, ...]:
    """What else decides the bytes of a result: the versions of the libraries, and the kind of processor."""
    found = tuple(version(library) for library in LIBRARIES if importlib.util.find_spec(library))
    return platform.python_version(), platform.machine(), *found


def _load(path: Path) -> tuple[bool, Any]:
    try:
        kept = path.read_bytes()
        digest, content = kept[:DIGEST], kept[DIGEST:]
        if hashlib.sha256(content).digest() != digest:
            return False, None
        value = pickle.loads(content)
    except Exception:  # not there, or of a class that is no more: compute it again
        return False, None
    os.utime(path)
    return True, value


def _save(path: Path, value: Any) -> None:
    partial = path.with_suffix(f".{os.getpid()}.partial")
    content = pickle.dumps(value)
    partial.write_bytes(hashlib.sha256(content).digest() + content)
    partial.replace(path)
    entries = sorted(path.parent.glob("*.pickle"), key=lambda entry: entry.stat().st_mtime)
    for old in entries[:-KEPT_PER_FUNCTION]:
        old.unlink(missing_ok=True)

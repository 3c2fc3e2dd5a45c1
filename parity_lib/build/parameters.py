"""The parameters of a notebook: read from its one tagged cell, checked before anything runs.

The cell tagged ``parameters`` has one parameter a line::

    n: int = 20  # sequence length [2..1000000]
    temperature: float = 1.0  # softmax temperature (0..inf)
    device: str = "auto"  # where to train {auto, cpu, cuda}

A comment ends with the values that are allowed: an interval, with square brackets where it
includes its end, or a set of choices; for a list they apply to each item. A refusal is one
sentence.
"""

from __future__ import annotations

import ast
import difflib
import io
import json
import re
import reprlib
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCALARS = {"int": int, "float": float, "str": str, "bool": bool}
TYPES = (*SCALARS, "list[int]", "list[float]", "list[str]")

_ALLOWED = re.compile(r"([\[(][^\[\](){}]+\.\.[^\[\](){}]+[\])]|\{[^{}]+\})\s*$")
_SHORT = reprlib.Repr()
_SHORT.maxdict, _SHORT.maxlist, _SHORT.maxtuple, _SHORT.maxstring, _SHORT.maxother = 8, 20, 20, 200, 200
_INTERVAL = re.compile(r"([\[(])\s*(.+?)\s*\.\.\s*(.+?)\s*([\])])")


class ParameterError(ValueError):
    """A parameter, notebook or profile that cannot be used; the message is one sentence."""


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
            raise ValueError(f"{self.name} must be {self.expects}, got {shown(text)}") from None
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
        return shown(value)
    trap = "float" in kind and re.fullmatch(r"[+-]?\d+e[+-]?\d+", value, re.IGNORECASE)
    hint = f" (YAML reads it as a number only with a point, {float(value):.1e})" if trap else ""
    return f"the string {shown(value)}{hint}"


def shown(value: Any) -> str:
    """A value as a message shows it: its ``repr``, cut short if it is long or deep."""
    return _SHORT.repr(value)


def unknown(kind: str, given: str, known: Iterable[str]) -> str:
    """The sentence for a name that is not there, with the closest one that is."""
    names = list(known)
    close = difflib.get_close_matches(given, names, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"unknown {kind} {shown(given)}{hint}; known: {', '.join(names) or 'none'}"


def read_parameters(notebook: Path) -> tuple[Parameter, ...]:
    """The parameters of a notebook, in order. No kernel starts and no code runs."""
    source = parameters_cell(load_notebook(notebook), notebook.stem)["source"]
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
            from parity_lib.task import Parity

            try:
                Parity(values["n"], values[p.name])
            except ValueError as error:
                raise ValueError(str(error).replace("bits", p.name, 1)) from None
        if p.name == "device":
            from parity_lib.training import resolve_device

            resolve_device(values["device"])


def load_notebook(notebook: Path) -> dict[str, Any]:
    """A notebook as JSON, after a look at its shape."""
    try:
        loaded: dict[str, Any] = json.loads(notebook.read_text(encoding="utf-8"))
        if not all(map(_is_cell, loaded["cells"])):
            raise ValueError("a cell is not as nbformat has it")
        return loaded
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ParameterError(f"{notebook.name} cannot be read as a notebook ({reason})") from None


def _is_cell(cell: dict[str, Any]) -> bool:
    tags = cell["metadata"].get("tags", [])
    return isinstance(cell["cell_type"], str) and isinstance(tags, list) and isinstance("".join(cell["source"]), str)


def parameters_cell(notebook: Mapping[str, Any], name: str) -> Any:
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


def filled_in(source: str, values: Mapping[str, Any]) -> str:
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
    if isinstance(value, str) and value.isprintable():
        return json.dumps(value, ensure_ascii=False)
    return repr(value) if isinstance(value, str) else repr(value).replace("inf", "1e999")

"""The parameters of a notebook: read from its one tagged cell, checked before anything runs.

The cell tagged ``parameters`` has one parameter a line::

    n: int = 20  # sequence length [2..1000000]
    temperature: float = 1.0  # softmax temperature (0..inf)
    device: str = "auto"  # where to train {auto, cpu, cuda}

A comment ends with the values that are allowed: an interval, with square brackets where it
includes its end, or a set of choices; for a list they apply to each item. A refusal is one
sentence.
"""

import ast
import difflib
import json
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, Strict, TypeAdapter, ValidationError

SCALARS: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}
TYPES = (*SCALARS, "list[int]", "list[float]", "list[str]")

_ALLOWED = re.compile(r"([\[(][^\[\](){}]+\.\.[^\[\](){}]+[\])]|\{[^{}]+\})\s*$")
_INTERVAL = re.compile(r"([\[(])\s*(.+?)\s*\.\.\s*(.+?)\s*([\])])")
_SHORT = reprlib.Repr()
_SHORT.maxdict, _SHORT.maxlist, _SHORT.maxtuple, _SHORT.maxstring, _SHORT.maxother = 8, 20, 20, 200, 200


class ParameterError(ValueError):
    """A parameter, notebook or profile that cannot be used; the message is one sentence."""


@contextmanager
def about(what: str) -> Iterator[None]:
    """Whatever is wrong in here is said of ``what``: a ``ValueError`` becomes ``ParameterError: what: ...``."""
    try:
        yield
    except ValueError as error:
        raise ParameterError(f"{what}: {error}") from None


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
            return self._accepts().validate_python(value)
        except ValidationError:
            raise ValueError(f"{self.name} must be {self.expects}, got {_given(self.type, value)}") from None

    def parse(self, text: str) -> Any:
        """The checked value of a command-line text: ``8,11,18`` or ``[8, 11, 18]`` for a list."""
        try:
            value = _parsed(self.type, text)
        except (KeyError, ValueError):
            raise ValueError(f"{self.name} must be {self.expects}, got {shown(text)}") from None
        return self.check(value)

    def _accepts(self) -> TypeAdapter[Any]:
        """The declared type with its limits; a bool is no int, and an int may stand for a float."""
        kind = self.type.removeprefix("list[").removesuffix("]")
        item: Any = Annotated[SCALARS[kind], Strict()]
        if self.allowed.startswith("{"):
            choices = tuple(_parsed(kind, choice.strip()) for choice in self.allowed[1:-1].split(","))
            item = Literal[choices]
        elif self.allowed:
            opening, low, high, closing = _INTERVAL.fullmatch(self.allowed).groups()  # type: ignore[union-attr]
            limits: Any = {"ge" if opening == "[" else "gt": _number(low)}
            limits |= {"le" if closing == "]" else "lt": _number(high)}
            if kind == "int":
                limits = {sign: limit for sign, limit in limits.items() if abs(limit) != float("inf")}
            item = Annotated[item, Field(**limits)]
        return TypeAdapter(Annotated[list[item], Field(min_length=1)] if self.type.startswith("list[") else item)


def _parsed(kind: str, text: str) -> Any:
    """``text`` read as ``kind``; ``ValueError`` or ``KeyError`` if it is none."""
    if kind.startswith("list["):
        inner = text.strip()
        inner = inner[1:-1] if inner[:1] == "[" and inner[-1:] == "]" else inner
        return [_parsed(kind[5:-1], item.strip().strip("\"'")) for item in inner.split(",")]
    if kind == "bool":
        return {"true": True, "false": False}[text.lower()]
    if kind != "str" and not re.fullmatch(r"[+-]?[0-9.einfa+-]+", text, re.IGNORECASE):
        raise ValueError("Python reads more as a number than people do")
    return SCALARS[kind](text)


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _given(kind: str, value: Any) -> str:
    """The offending value, with the way out of YAML's oldest trap: ``1e-3`` is a string there."""
    items = value if isinstance(value, list) else [value]
    trap = r"[+-]?\d+e[+-]?\d+"
    caught = [item for item in items if isinstance(item, str) and re.fullmatch(trap, item, re.IGNORECASE)]
    trapped = "float" in kind and caught
    hint = f" (YAML reads it as a number only with a point, {float(caught[0]):.1e})" if trapped else ""
    return f"{'the string ' if isinstance(value, str) else ''}{shown(value)}{hint}"


def shown(value: Any) -> str:
    """A value as a message shows it: its ``repr``, cut short if it is long or deep."""
    return _SHORT.repr(value)


def require(kind: str, name: str, known: Iterable[str]) -> None:
    """A name that is not among the known ones is a :class:`ParameterError`, which offers the closest one."""
    names = list(known)
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ParameterError(f"unknown {kind} {shown(name)}{hint}; known: {', '.join(names) or 'none'}")


def read_parameters(notebook: Path) -> tuple[Parameter, ...]:
    """The parameters of a notebook, in order. No kernel starts and no code runs."""
    tagged = [cell for cell in load_notebook(notebook)["cells"] if "parameters" in cell["metadata"].get("tags", [])]
    with about(notebook.stem):
        if len(tagged) != 1:
            raise ValueError(f"one cell must carry the tag 'parameters', found {len(tagged)}")
        return read_cell("".join(tagged[0]["source"]))


def read_cell(source: str) -> tuple[Parameter, ...]:
    """The parameters of a cell, as papermill sees them; ``ValueError`` for a line that is none and no comment."""
    from papermill.translators import PythonTranslator

    parameters = []
    for line in (line for line in source.splitlines() if line.strip() and not line.startswith("#")):
        seen = PythonTranslator.inspect({"source": line})
        try:
            if len(seen) != 1 or line.lstrip() != line:
                raise ValueError("it must read 'name: type = literal  # help' on one line, without another =")
            parameters.append(_declared(*seen[0]))
        except (TypeError, ValueError, SyntaxError) as error:
            raise ValueError(f"parameter line '{line.strip()}': {error}") from None
    return tuple(parameters)


def _declared(name: str, kind: str, default: str, comment: str) -> Parameter:
    if kind not in TYPES:
        raise ValueError(f"its type must be one of {', '.join(TYPES)}, got {kind}")
    match = _ALLOWED.search(comment)
    allowed = match.group(1) if match else ""
    help_text = comment[: match.start()].strip() if match else comment
    if not help_text:
        raise ValueError("it must end with a comment that says what it is for")
    if not allowed and ("int" in kind or "float" in kind):
        raise ValueError("its comment must end with the allowed values, such as [1..100]")
    try:
        value = ast.literal_eval(default)
    except (ValueError, SyntaxError):
        raise ValueError("its value must be a literal") from None
    return Parameter(name, kind, Parameter(name, kind, None, help_text, allowed).check(value), help_text, allowed)


def check_parameters(notebook: Path, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a notebook: its defaults, with ``overrides`` checked and put in place."""
    parameters = read_parameters(notebook)
    with about(notebook.stem):
        return checked(parameters, overrides)


def checked(parameters: Iterable[Parameter], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Values of all ``parameters``: their defaults, with ``overrides`` in place, or ``ValueError``."""
    known = {p.name: p for p in parameters}
    for name in overrides:
        require("parameter", str(name), known)
    values = {p.name: p.check(overrides[p.name]) if p.name in overrides else p.default for p in known.values()}
    for name, value in values.items():  # what no range can say; the task itself would say so only when it is made
        twice = isinstance(value, list) and len(set(value)) < len(value)
        positions = "n" in values and re.fullmatch("(.+_)?bits", name) and known[name].type == "list[int]"
        if positions and (twice or max(value) > values["n"]):
            raise ValueError(f"{name} must be distinct positions in 1..{values['n']}, got {shown(tuple(value))}")
        if positions and name == "neighbour_bits" and sum(bit % values["n"] + 1 in value for bit in value) != 1:
            raise ValueError(f"{name} must contain exactly one pair of neighbours, got {shown(tuple(value))}")
        may = known[name].allowed == "[0..1]" or name.endswith("seeds")  # bits of an input; a number for each panel
        if twice and not may:  # a run must not count twice
            raise ValueError(f"{name} must hold each value once, got {shown(tuple(value))}")
    return values


def check_here() -> None:
    """Called in a notebook after its parameters cell: one sentence for a value, or a name, that the cell does not allow.

    So papermill and JupyterLab get the refusals of the command.
    """
    from IPython import get_ipython

    names = get_ipython().user_ns
    line = r"([^\S\n]*|#.*|\w+[^\S\n]*:.*)"  # blank, a comment, or what declares a name: the rest read_cell judges
    cell = re.compile(rf"({line}\n)*\w+\s*:.*=.*(\n{line})*")
    found = [place for place, source in enumerate(names["In"]) if cell.fullmatch(source.rstrip())]
    if not found:
        raise ValueError("check_here found no parameters: run the cell that declares them, one a line, before it")
    parameters = read_cell(names["In"][found[-1]])
    given = {p.name: names[p.name] for p in parameters}
    for source in names["In"][found[-1] + 1 :]:
        if source.startswith("# Parameters\n"):  # papermill's cell, in which a name may be none
            given |= {name: names[name] for name in re.findall(r"^(\w+) = ", source, re.MULTILINE)}
    checked(parameters, given)


def parse_overrides(notebook: Path, texts: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Command-line texts as values of the types that the notebook declares."""
    known, values = {p.name: p for p in read_parameters(notebook)}, {}
    with about(notebook.stem):
        for name, text in texts:
            require("parameter", name, known)
            if name in values:
                raise ValueError(f"{name} is given twice")
            values[name] = known[name].parse(text)
    return values


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


def heading(notebook: Path) -> str:
    """The title of a notebook: its first heading, or nothing."""
    prose = ("".join(cell["source"]) for cell in load_notebook(notebook)["cells"] if cell["cell_type"] == "markdown")
    found = re.search(r"^# (.*)$", "\n".join(prose), re.MULTILINE)
    return found[1].strip() if found else ""


def _is_cell(cell: dict[str, Any]) -> bool:
    tags = cell["metadata"].get("tags", [])
    return isinstance(cell["cell_type"], str) and isinstance(tags, list) and isinstance("".join(cell["source"]), str)

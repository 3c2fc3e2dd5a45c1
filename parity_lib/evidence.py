"""Evidence: success as k of N with an interval, and a chapter's results as one JSON file, written and read back."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from uuid import uuid4

from scipy.stats import binomtest

from .claims import CLAIMS


@dataclass(frozen=True)
class Rate:
    """k successes of N trials with the Wilson 95 % interval; prints as ``44 of 64 [57 %, 79 %]``."""

    successes: int
    trials: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """Successes divided by trials."""
        return self.successes / self.trials

    def overlaps(self, other: Rate) -> bool:
        """Whether the two intervals have a point in common."""
        return self.low <= other.high and other.low <= self.high

    def __str__(self) -> str:
        return f"{self.successes} of {self.trials} [{self.low:.0%}, {self.high:.0%}]"


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval; prints as ``0.015 [0.004, 0.026]``."""

    value: float
    low: float
    high: float

    def below(self, other: Interval) -> bool:
        """Whether the whole interval lies below the other."""
        return self.high < other.low

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def as_rate(value: Any) -> Rate | None:
    """The rate that a results file holds as an object, or None for anything else."""
    if not isinstance(value, Mapping) or set(value) != {field.name for field in fields(Rate)}:
        return None
    return Rate(**value) if all(isinstance(item, (int, float)) for item in value.values()) else None


def wilson(successes: int, trials: int) -> Rate:
    """Rate of ``successes`` in ``trials`` with its Wilson 95 % interval."""
    given = f"{successes} of {trials}"
    try:
        whole = (int(successes), int(trials)) == (successes, trials)
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole or not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"need 0 <= successes <= trials and trials >= 1 in whole numbers, got {given}")
    successes, trials = int(successes), int(trials)
    interval = binomtest(successes, trials).proportion_ci(method="wilson")
    return Rate(successes, trials, float(interval.low), float(interval.high))


VERDICTS = ("holds", "holds with a change", "fails", "vacuous here", "not tested")


@dataclass(frozen=True)
class Verdict:
    """What a chapter found about a claim: the verdict, the numbers it rests on, and the change if it needs one."""

    verdict: str
    numbers: Mapping[str, Any]
    change: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"unknown verdict {self.verdict!r}; known: {', '.join(VERDICTS)}")
        if self.verdict == "holds with a change" and not self.change:
            raise ValueError("a verdict that holds with a change must name the change")

    def __str__(self) -> str:
        return f"{self.verdict} ({self.change})" if self.verdict == "holds with a change" else self.verdict


def record(
    notebook: str, parameters: Mapping[str, Any], numbers: Mapping[str, Any], verdicts: Mapping[str, Verdict]
) -> None:
    """Write a chapter's results as JSON: the parameters used, the numbers found, the claims decided.

    The file is ``<notebook>.json`` in the folder that the runner names (``PARITY_OUT``), otherwise in
    ``results/``. The same run gives the same bytes: no times, no machine.
    """
    for claim in verdicts:
        if claim not in CLAIMS:
            raise ValueError(f"unknown claim {claim!r}; known: {', '.join(CLAIMS)}")
    content = {
        "notebook": notebook,
        "parameters": _plain(parameters),
        "numbers": _plain(numbers),
        "claims": {claim: _plain(asdict(verdict)) for claim, verdict in verdicts.items()},
    }
    write_json(Path(os.environ.get("PARITY_OUT") or "results") / f"{notebook}.json", content)


class ResultsError(ValueError):
    """Results that cannot be used, said in one sentence."""


def read_results(path: Path) -> dict[str, Any]:
    """A chapter's results as :func:`record` wrote them: ``notebook``, ``parameters``, ``numbers`` and ``claims``.

    Raises
    ------
    ResultsError : the file is missing, is not JSON, lacks a part, or decides a claim that nobody knows.
    """
    content = read_object(path, {"notebook": str, "parameters": dict, "numbers": dict, "claims": dict})
    if content["notebook"] != path.stem:
        raise ResultsError(f"{os.path.relpath(path)} holds the results of {content['notebook']!r}")
    for claim, decided in content["claims"].items():
        if claim not in CLAIMS:
            raise ResultsError(f"{path.name} decides {claim!r}, which is not among the claims")
        if not isinstance(decided, dict) or set(decided) != {"verdict", "numbers", "change"}:
            raise ResultsError(f"{path.name}: {claim} must have a verdict, numbers and a change, got {decided!r}")
        if decided["verdict"] not in VERDICTS:
            known = ", ".join(VERDICTS)
            raise ResultsError(f"{path.name}: unknown verdict {decided['verdict']!r} of {claim}; known: {known}")
    return content


def read_object(path: Path, parts: Mapping[str, type | tuple[type, ...]]) -> dict[str, Any]:
    """A JSON object from a file, with the named parts, each of its type, and only finite numbers."""
    where = os.path.relpath(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except FileNotFoundError:
        raise ResultsError(f"there is no {where}: run the chapters first, with `make book`") from None
    except ValueError as error:
        raise ResultsError(f"{where} is not readable as JSON ({error})") from None
    for part, kind in parts.items():
        if not isinstance(content, dict) or part not in content or not isinstance(content[part], kind):
            raise ResultsError(f"{where} must hold {', '.join(parts)}; {part} is missing or of another type")
    return content


def _refuse(constant: str) -> None:
    raise ValueError(f"numbers must be finite, got {constant}")


def verdict_list(verdicts: Mapping[str, Verdict]) -> str:
    """The verdicts of a chapter as a Markdown list, each with the claim in our words."""
    return "\n".join(f"- `{claim}`: **{verdict}**. {CLAIMS[claim].statement}" for claim, verdict in verdicts.items())


def decide(holds: bool, numbers: Mapping[str, Any], *, change: str = "", otherwise: str = "fails") -> Verdict:
    """``holds``, else ``holds with a change`` where one is named, else ``otherwise``."""
    if holds:
        return Verdict("holds", numbers)
    return Verdict("holds with a change", numbers, change) if change else Verdict(otherwise, numbers)


def judge(stated: Rate, changed: Mapping[str, Rate], numbers: Mapping[str, Any], threshold: float = 0.5) -> Verdict:
    """Verdict on a claim about success, by the ends of the intervals.

    It holds if the recipe as stated passes (its interval lies above the threshold); with a change if others do,
    and then the change names all that pass, in the order given. It fails if none can pass; if the trials are too
    few to say, it is not tested.
    """
    passing = [name for name, rate in changed.items() if rate.low > threshold]
    change = " or ".join(part for part in (", ".join(passing[:-1]), *passing[-1:]) if part)
    open_still = any(rate.high > threshold for rate in (stated, *changed.values()))
    otherwise = "not tested" if open_still else "fails"
    return decide(stated.low > threshold, numbers, change=f"with {change}" if change else "", otherwise=otherwise)


def _plain(value: Any) -> Any:
    """Plain JSON values: rates become objects, tensors and arrays lists, tuples lists."""
    if isinstance(value, Rate):
        return asdict(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("results must be finite numbers, got nan or inf")
    return value


def write_json(path: Path, content: Any) -> None:
    """Write plain values as JSON, whole or not at all; the same values give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid4().hex}.partial")  # nobody else's, should two write at once
    partial.write_text(json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(path)

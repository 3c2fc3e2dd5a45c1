"""Evidence: success as k of N with an interval, verdicts on claims, sentences under test, and a chapter's record."""

import json
import math
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from .checks import known, whole

if TYPE_CHECKING:  # those who only write results need not wait for it, nor for scipy
    import pandas as pd

AS_STATED = ("holds", "narrower range", "misprint", "fails", "open")
"""What becomes of a claim as a paper states it; *open* where the trials are too few to say."""
KINDS = ("proved", "certified", "exact", "measured")
"""How we know: a proof; interval arithmetic; a sum over all inputs; runs, counted as k of N."""


@dataclass(frozen=True)
class Rate:
    """k successes of N trials with the Wilson 95 % interval; prints as ``44 of 64 [57 %, 79 %]``."""

    successes: int
    trials: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """Successes divided by trials; not a number where there were none."""
        return self.successes / self.trials if self.trials else math.nan

    def overlaps(self, other: Self) -> bool:
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

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def wilson(successes: int, trials: int) -> Rate:
    """Rate of ``successes`` in ``trials`` with its Wilson 95 % interval."""
    trials = whole(trials, "trials", 1)
    successes = whole(successes, "successes", 0, trials)
    from scipy.stats import binomtest

    interval = binomtest(successes, trials).proportion_ci(method="wilson")
    return Rate(successes, trials, float(interval.low), float(interval.high))


def rate(values: Iterable[bool]) -> Rate:
    """Rate of the true ones among truth values, such as a column of a frame; of none, 0 of 0, which says nothing."""
    listed = [bool(value) for value in values]
    return wilson(sum(listed), len(listed)) if listed else Rate(0, 0, 0.0, 1.0)


def rates(frame: "pd.DataFrame", by: str | list[str], success: str = "committed") -> "pd.DataFrame":
    """:func:`rate` of the column ``success``, one row per group, in the order in which groups first appear."""
    grouped = frame.groupby(by, sort=False, observed=True)[success]
    found = grouped.apply(lambda values: type(values)(asdict(rate(values))))
    return found.unstack().astype({"successes": int, "trials": int}).reset_index()


@dataclass(frozen=True)
class Verdict:
    """What a chapter found about a claim: one of :data:`AS_STATED`, how we know, one of :data:`KINDS`, and why."""

    as_stated: str
    kind: str
    numbers: Mapping[str, Any]
    """What the verdict rests on."""
    instead: str = ""
    """What does hold, one sentence, where the claim does not hold as stated."""

    def __post_init__(self) -> None:
        known(self.as_stated, AS_STATED, f"verdict {self.as_stated!r}")
        known(self.kind, KINDS, f"kind of evidence {self.kind!r}")
        if self.as_stated in ("narrower range", "misprint") and not self.instead:
            raise ValueError(f"the verdict {self.as_stated!r} must say what holds instead")

    def __str__(self) -> str:
        return f"{self.as_stated}: {self.instead}" if self.instead else self.as_stated


def verdict_table(verdicts: Mapping[str, Verdict]) -> "pd.DataFrame":
    """Verdicts as a page shows them."""
    import pandas as pd

    rows = [(claim, found.as_stated, found.instead, found.kind) for claim, found in verdicts.items()]
    return pd.DataFrame(rows, columns=["claim", "as stated", "what does hold", "evidence"])


strict = False
"""Whether a false sentence is an error. The build of the book sets it; a reader's own run does not."""


class FalseSentenceError(AssertionError):
    """A sentence of the book that its own run does not bear out."""


@dataclass(frozen=True)
class Sentence:
    """Prose with numbers filled in, shown as Markdown; one that is not true of this run says so."""

    text: str
    holds: bool

    def _repr_markdown_(self) -> str:
        return self.text if self.holds else f"*Not in this run, whose numbers are:* {self.text}"


def tell(template: str, *, holds: bool, **values: Any) -> Sentence:
    """A sentence under test: ``template`` with named fields, and whether what it claims is true of these numbers.

    A field may also be ``{x:percent}`` (a share or a :class:`Rate` as ``92 %``), ``{x:power}`` (of ten, ``10⁵``)
    or ``{x:count}`` (``44 of 64``). If it is not true in the book's own build (:data:`strict`), a FalseSentenceError.
    """
    text = _Words().format(" ".join(template.split()), **values)
    if strict and not holds:
        raise FalseSentenceError(f"not true of this run: {text}")
    return Sentence(text, bool(holds))


class _Words(string.Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        if spec == "percent":
            return f"{100 * (value.share if isinstance(value, Rate) else float(value)):.0f} %"
        if spec == "count":
            return f"{value.successes} of {value.trials}"
        if spec == "power":
            raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
            return "10" + str(round(math.log10(value))).translate(raised) if 0 < value < math.inf else str(value)
        return str(super().format_field(value, spec))


def record(chapter: str, verdicts: Mapping[str, Verdict], **tables: "pd.DataFrame") -> None:
    """Keep what a chapter found, in the working folder; the same run gives the same bytes: no times, no machine.

    ``results/<chapter>.json`` holds the verdicts by claim; ``tables/<chapter>/<name>.csv`` the frame called ``name``,
    which is the data of the figure ``fig-<name>`` (an underscore stands for a hyphen).
    """
    if not all(str(name).replace("-", "_").isidentifier() for name in (chapter, *tables)):
        raise ValueError(f"chapters and tables have names of letters, digits, _ and -, got {[chapter, *tables]}")
    for name, frame in tables.items():
        write_whole(Path("tables") / chapter / f"{name}.csv", frame.to_csv(index=False, lineterminator="\n"))
    claims = {claim: _plain(asdict(verdict)) for claim, verdict in verdicts.items()}
    write_json(Path("results") / f"{chapter}.json", {"chapter": chapter, "claims": claims, "tables": sorted(tables)})


def _plain(value: Any) -> Any:
    """Plain JSON values: tensors, arrays and tuples become lists, keys texts; and, unless strict, no number none."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if strict and isinstance(value, float) and not math.isfinite(value):
        raise ValueError("results must be finite numbers, got nan or inf")
    return value if not isinstance(value, float) or math.isfinite(value) else None


def write_json(path: Path, content: Any) -> None:
    """Write plain values as JSON, whole or not at all; the same values give the same bytes."""
    write_whole(path, json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid4().hex}.partial")  # nobody else's, should two write at once
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)

"""Compare a run's results with those of the reference run, value by value.

What a chapter is held to depends on whether it ran with the parameters of the reference.

- A **verdict** must be the same. With other parameters either of the two may leave a claim open (``not tested``: too
  few trials to decide); that is not compared. And what holds may hold with a change, or the other way round: smaller
  sizes may not resolve a part of it. Such a verdict has *moved*: it is shown but is no mismatch.
- A **rate** agrees if the two Wilson 95 % intervals overlap. With other parameters a rate outside has *moved*: it is
  shown but is no mismatch, since fewer updates or other sizes may be the reason.
- A **number** must be equal to :data:`TOLERANCE` (relative) or :data:`ROUNDING` (absolute). The few that amplify the
  rounding of another processor, :data:`AMPLIFIED`, may move. With other parameters no number is compared, because it
  depends on the sizes.
- Text, and a value that only one of the two has, must be the same too, or is not compared, likewise.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..evidence import Rate, ResultsError, as_rate, read_results

TOLERANCE = 1e-6  # what another order of summation moves after hundreds of updates
ROUNDING = 1e-12  # below this, a float64 result of terms near one is noise
# Training amplifies rounding with the squared hinge at a large step and in the float32 encoders, and a count of runs
# near a threshold jumps. Found by running the quick profile with and without vector instructions: 96 of 6048 values
# moved, all of them among these; the others agreed to TOLERANCE, and no verdict and no rate differed.
AMPLIFIED = {
    "figure2": ("numbers, median_risk", "numbers, shared_direction"),
    "convergence": ("numbers, stated",),
    "robustness": ("numbers, soft_to_hard", "claims, soft-to-hard"),
    "sensitivity": ("numbers", "claims"),
}
LEDGER = "ledger"  # holds what it collected from the others, nothing of its own

_ABSENT = object()


@dataclass(frozen=True)
class Difference:
    """A value that is not as in the reference run."""

    where: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.where}: {self.found}, in the reference {self.expected}"


@dataclass(frozen=True)
class Comparison:
    """One chapter against the reference.

    Attributes
    ----------
    changed : the parameters that differ from the reference's; None if the reference lacks the chapter.
    agree : how many values agree.
    moved : values that lie elsewhere, and may: they are shown, but are no mismatch.
    differences : values that should be the same and are not.
    skipped : how many values were not compared.
    """

    chapter: str
    changed: tuple[str, ...] | None
    agree: int = 0
    moved: tuple[Difference, ...] = ()
    differences: tuple[Difference, ...] = ()
    skipped: int = 0

    @property
    def parameters(self) -> str:
        """How the chapter's parameters relate to the reference's, in a word."""
        return "not in reference" if self.changed is None else "other" if self.changed else "same"


def verify(run: Path, reference: Path, chapters: Iterable[str] | None = None) -> list[Comparison]:
    """Compare every chapter of a run with the reference.

    Parameters
    ----------
    run, reference : folders with a chapter's results in ``results/<chapter>.json``, or in the folder itself.
    chapters : those that the run must have, by default those that it has.

    Raises
    ------
    ResultsError : there is nothing to compare, or a file cannot be read.
    """
    found, expected = _results(run), _results(reference)
    names = sorted(found) if chapters is None else [name for name in chapters if name != LEDGER]
    missing = [name for name in names if name not in found]
    if missing or not names:
        what = f"no results of {', '.join(missing)}" if missing else "no results"
        raise ResultsError(f"there are {what} in {os.path.relpath(run)}; run the chapters first, with `make book`")
    if not expected:
        raise ResultsError(f"there are no results in {os.path.relpath(reference)} to compare with")
    kept = {name: read_results(path) for name, path in expected.items()}
    return [compare(read_results(found[name]), kept.get(name)) for name in names]


def compare(found: Mapping[str, Any], reference: Mapping[str, Any] | None) -> Comparison:
    """One chapter's results against the reference's, by the rules of this module."""
    ours = dict(leaves(found))
    if reference is None:
        return Comparison(found["notebook"], None, skipped=len(ours))
    theirs = dict(leaves(reference))
    parameters = found["parameters"], reference["parameters"]
    names = sorted(parameters[0].keys() | parameters[1].keys())
    changed = tuple(name for name in names if parameters[0].get(name, _ABSENT) != parameters[1].get(name, _ABSENT))
    agree, skipped = 0, 0
    moved: list[Difference] = []
    differences: list[Difference] = []
    for place in theirs | ours:
        pair = ours.get(place, _ABSENT), theirs.get(place, _ABSENT)
        same = _agree(place, *pair, with_numbers=not changed)
        if same is None:
            skipped += 1
        elif same:
            agree += 1
        else:
            difference = Difference(", ".join(place), *map(_shown, pair))
            (moved if _may_move(place, pair, found["notebook"], changed) else differences).append(difference)
    return Comparison(found["notebook"], changed, agree, tuple(moved), tuple(differences), skipped)


def _agree(place: tuple[str, ...], found: Any, expected: Any, with_numbers: bool) -> bool | None:
    """Whether two values agree, or None if they are not to be compared."""
    if isinstance(found, Rate) and isinstance(expected, Rate):
        return found.overlaps(expected)
    if _is_verdict(place) and _ABSENT not in (found, expected):
        return None if "not tested" in (found, expected) and not with_numbers else bool(found == expected)
    if not with_numbers:
        return None
    if isinstance(found, (int, float)) and isinstance(expected, (int, float)):
        return math.isclose(found, expected, rel_tol=TOLERANCE, abs_tol=ROUNDING)
    return bool(found == expected)


def _may_move(place: tuple[str, ...], pair: tuple[Any, Any], chapter: str, changed: tuple[str, ...]) -> bool:
    """Whether two values that do not agree are only shown, and are no mismatch."""
    if isinstance(pair[0], Rate):
        return bool(changed)
    if _is_verdict(place):
        return bool(changed) and set(pair) == {"holds", "holds with a change"}
    return ", ".join(place).startswith(AMPLIFIED.get(chapter, ()))


def _is_verdict(place: tuple[str, ...]) -> bool:
    return place[0] == "claims" and place[2:] == ("verdict",)


def leaves(content: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value of the numbers and claims with its place; a rate is one value."""

    def walk(value: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        rate = as_rate(value)
        if rate is None and isinstance(value, (dict, list)):
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                yield from walk(item, (*place, str(key)))
        else:
            yield place, rate or value

    for part in ("claims", "numbers"):
        yield from walk(content[part], (part,))


def _shown(value: Any) -> str:
    return "absent" if value is _ABSENT else f"{value:.10g}" if isinstance(value, float) else str(value)


def _results(folder: Path) -> dict[str, Path]:
    """The results files of a run by chapter, without the ledger."""
    if not folder.is_dir():
        raise ResultsError(f"there is no run in {os.path.relpath(folder)}: no such folder")
    inner = folder / "results"
    paths = sorted((inner if inner.is_dir() else folder).glob("*.json"))
    return {path.stem: path for path in paths if path.stem != LEDGER}


HEADER = ("chapter", "parameters", "compared", "agree", "moved", "differ", "skipped")


def table(comparisons: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """The rows below :data:`HEADER`, one per chapter and one for all."""
    names = [(c.chapter, c.parameters) for c in comparisons]
    counts = [(c.agree, len(c.moved), len(c.differences), c.skipped) for c in comparisons]
    total = tuple(map(sum, zip(*counts, strict=True)))
    rows = zip([*names, ("all", "")], [*counts, total], strict=True)
    return [(*name, str(sum(numbers[:3])), *map(str, numbers)) for name, numbers in rows]


def report(comparisons: Sequence[Comparison], verbose: bool = False) -> str:
    """The comparison as text for a terminal: the table, then the differences; ``verbose`` for all, and what moved."""
    rows = [HEADER, *table(comparisons)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [*map(str.ljust, row[:2], widths), *map(str.rjust, row[2:], widths[2:])]
        lines.append("  ".join(cells))
    found = [f"{c.chapter}: {difference}" for c in comparisons for difference in c.differences]
    shown = found if verbose else found[:10]
    lines += ["", *shown] if found else []
    if len(found) > len(shown):
        lines.append(f"and {len(found) - len(shown)} more, which --verbose lists")
    if verbose:
        lines += [f"{c.chapter} has other parameters: {', '.join(c.changed)}" for c in comparisons if c.changed]
        lines += [f"{c.chapter} moved: {difference}" for c in comparisons for difference in c.moved]
    return "\n".join(lines)

"""Compare a run with the reference run: verdicts, the numbers behind them, and tables, column by column.

A chapter is compared if it ran with the parameters of the reference; with others, it is *not compared*.

- On the same machine (kind of processor, Python, versions) the same run gives the same bytes: anything else *differs*.
  Tables that are too large for the reference are compared there by their checksums.
- On another one rounding differs, and training amplifies it. There, verdicts must be the same; a number agrees to
  :data:`TOLERANCE`, or else is *alike* to :data:`ALIKE`; rates and intervals agree if they overlap; a column of truth
  values is a rate; a column of numbers whose values do not agree is *alike* if a two-sample Kolmogorov-Smirnov test
  does not tell the two apart (p above :data:`CHANCE`). Text must be the same.
"""

import json
import math
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..evidence import Interval, Rate, rate
from .results import LEDGER, Record, ResultsError, as_estimate, checksum, is_number, printable
from .results import read_record, read_results, read_table, table_path

TOLERANCE = 1e-6  # what another order of summation moves after hundreds of updates
ROUNDING = 1e-12  # below this, a float64 result of terms near one is noise
ALIKE = 0.1  # a number of trained runs on another machine
CHANCE = 1e-3  # that two columns of one distribution are told apart
MACHINE = ("processor", "platform", "python", "torch", "numpy", "numba")
STATUS = ("same", "alike", "differs", "not compared")
_ABSENT = "absent"


def verify(run: Path, reference: Path, chapters: Iterable[str] | None = None) -> pd.DataFrame:
    """Every value of a run against the reference: ``chapter``, ``value``, ``status``, ``found``, ``expected``.

    ``chapters`` are those that the run must have, by default those that it has. Nothing to compare, or a file that
    cannot be read, is a :class:`ResultsError`.
    """
    if not run.is_dir():
        raise ResultsError(f"there is no run in {os.path.relpath(run)}: no such folder")
    found, expected = _chapters(run), _chapters(reference)
    names = found if chapters is None else [name for name in chapters if name != LEDGER]
    missing = [name for name in names if name not in found]
    if missing or not names:
        what = f"no results of {', '.join(missing)}" if missing else "no results"
        raise ResultsError(f"there are {what} in {os.path.relpath(run)}; run the chapters first, with `make book`")
    if not expected:
        raise ResultsError(f"there are no results in {os.path.relpath(reference)} to compare with")
    columns = ["chapter", "value", "status", "found", "expected"]
    rows = []
    for name in names:
        made = _compare(run, reference, name) if name in expected else _uncompared(run, name, "no reference")
        try:
            rows += [{column: printable(({"chapter": name} | row)[column]) for column in columns} for row in made]
        except RecursionError:  # where the parser of JSON takes what we cannot walk
            raise ResultsError(f"the results of {name} cannot be compared: they are nested too deeply") from None
    return pd.DataFrame(rows, columns=columns)


def _chapters(run: Path) -> list[str]:
    return sorted(path.stem for path in (run / "results").glob("*.json") if path.stem != LEDGER)


def _compare(run: Path, reference: Path, name: str) -> Iterator[dict[str, str]]:
    ours, theirs = read_record(run, name), read_record(reference, name)
    if ours.parameters != theirs.parameters:
        keys = sorted(ours.parameters.keys() | theirs.parameters.keys())
        changed = [key for key in keys if ours.parameters.get(key, _ABSENT) != theirs.parameters.get(key, _ABSENT)]
        yield from _uncompared(run, name, f"other {', '.join(changed)}")
        return
    exact = _machine(ours) == _machine(theirs)
    tables = read_results(reference, name).tables
    lacking = [table for table in tables if not table_path(reference, name, table).is_file()]
    found, expected = dict(leaves(run, name, lacking)), dict(leaves(reference, name, lacking))
    for table in lacking:  # too large to be kept, but for its checksum
        file = f"tables/{name}/{table}.csv"
        ours_is = checksum(table_path(run, name, table)) or ours.products.get(file, "")
        theirs_is = theirs.products.get(file, "") if exact else ""
        row = {"value": f"tables, {table}", "found": "a table", "expected": "too large to be kept"}
        if ours_is and theirs_is:
            row |= {"found": f"checksum {ours_is[:12]}", "expected": f"checksum {theirs_is[:12]}"}
            yield row | {"status": "same" if ours_is == theirs_is else "differs"}
        elif ours_is:
            yield row | {"status": "not compared"}
    for place in expected | found:
        pair = found.get(place, _ABSENT), expected.get(place, _ABSENT)
        shown = {"found": _shown(pair[0]), "expected": _shown(pair[1])}
        yield {"value": ", ".join(place), "status": _status(*pair, exact)} | shown


def _machine(record: Record) -> list[Any]:
    return [(record.model_extra or {}).get(part) for part in MACHINE]


def _uncompared(run: Path, name: str, why: str) -> Iterator[dict[str, str]]:
    for place, value in leaves(run, name):
        yield {"value": ", ".join(place), "status": "not compared", "found": _shown(value), "expected": why}


def leaves(run: Path, name: str, leave_out: Iterable[str] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value of a chapter with its place: the parts of a verdict, the numbers behind it, the columns of tables."""
    results = read_results(run, name)
    for claim, decided in results.claims.items():
        yield ("claims", claim, "verdict"), f"{decided.as_stated} ({decided.kind})"
        yield ("claims", claim, "instead"), decided.instead
        yield from _walk(decided.numbers, ("claims", claim))
    for table in (table for table in results.tables if table not in leave_out):
        for column, values in read_table(run, name, table).items():
            yield ("tables", table, str(column)), values


def _walk(value: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    found = as_estimate(value, Rate) or as_estimate(value, Interval)
    if found is None and isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _walk(item, (*place, str(key)))
    else:
        yield place, found or value


def _status(found: Any, expected: Any, exact: bool) -> str:
    columns = isinstance(found, pd.Series) and isinstance(expected, pd.Series)
    if found.equals(expected) if columns else type(found) is type(expected) and found == expected:
        return "same"
    if exact:
        return "differs"
    if columns:
        return _columns(found, expected)
    alike = False
    if isinstance(found, Rate | Interval) and type(found) is type(expected):
        alike = found.low <= expected.high and expected.low <= found.high
    elif is_number(found) and is_number(expected):
        if math.isclose(found, expected, rel_tol=TOLERANCE, abs_tol=ROUNDING):
            return "same"
        alike = math.isclose(found, expected, rel_tol=ALIKE)
    return "alike" if alike else "differs"


def _columns(found: pd.Series, expected: pd.Series) -> str:
    if len(found) != len(expected) or found.dtype.kind != expected.dtype.kind or found.dtype.kind not in "bif":
        return "differs"
    if found.dtype.kind == "b":
        return "alike" if rate(found).overlaps(rate(expected)) else "differs"
    if np.allclose(found, expected, rtol=TOLERANCE, atol=ROUNDING, equal_nan=True):
        return "same"
    from scipy.stats import ks_2samp

    with warnings.catch_warnings(action="ignore"):  # that its exact way gave up, and it took the other
        chance = ks_2samp(found.dropna(), expected.dropna()).pvalue
    return "alike" if chance > CHANCE else "differs"


def _shown(value: Any) -> str:
    if isinstance(value, pd.Series):
        numbers = value.dtype.kind in "if" and len(value)
        return f"{len(value)} values" + (f", median {value.median():.6g}" if numbers else "")
    if isinstance(value, Interval):
        value = f"{value.value:.6g} [{value.low:.3g}, {value.high:.3g}]"
    return (f"{value:.10g}" if isinstance(value, float) else str(value))[:200]


def counts(found: pd.DataFrame) -> pd.DataFrame:
    """How many values of each chapter have which status, and of all."""
    counted = pd.crosstab(found["chapter"], found["status"]).reindex(columns=list(STATUS), fill_value=0)
    counted = counted.reindex(found["chapter"].unique())
    counted.loc["all"] = counted.sum()
    return counted.rename_axis(columns=None).reset_index()


def status(found: pd.DataFrame) -> int:
    """Exit status: 0 if everything that was compared agrees, 1 if something differs, 2 if nothing was compared."""
    if (found["status"] == "not compared").all():
        return 2
    return int((found["status"] == "differs").any())


def answer(found: pd.DataFrame) -> str:
    """The comparison in a sentence."""
    total = counts(found).iloc[-1]
    one = total["not compared"] == 1
    left = "1 value was not compared" if one else f"{total['not compared']} values were not compared"
    if total["differs"]:
        differ = "1 value differs" if total["differs"] == 1 else f"{total['differs']} values differ"
        return differ + (f", and {left}." if total["not compared"] else ".")
    compared = total["same"] + total["alike"]
    if not total["not compared"]:
        return "No mismatch: every value was compared." if compared else "Nothing was compared: the run has no values."
    return f"What was compared agrees, but {left}." if compared else f"Nothing was compared: {left}."


def report(found: pd.DataFrame, verbose: bool = False) -> str:
    """The comparison as text for a terminal: the table, what differs (the first ten, or all), and the answer."""
    lines = [counts(found).to_string(index=False), ""]
    differ = found[found["status"] == "differs"]
    shown = differ if verbose else differ[:10]
    lines += [f"{row.chapter}: {row.value}: {row.found}, in the reference {row.expected}" for row in shown.itertuples()]
    if len(differ) > len(shown):
        lines.append(f"and {len(differ) - len(shown)} more, which --verbose lists")
    skipped = found[found["status"] == "not compared"].drop_duplicates("chapter")
    for row in skipped.itertuples():
        what = f"a table of {row.chapter}" if row.found == "a table" else row.chapter
        lines.append(f"{what} was not compared: {row.expected}")
    return "\n".join([*lines, answer(found)])


def as_json(found: pd.DataFrame) -> str:
    """The comparison for a program: the answer, how many values have which status, and every value."""
    counted = counts(found).set_index("chapter").to_dict("index")
    return json.dumps({"answer": answer(found), "counts": counted, "values": found.to_dict("records")}, indent=1)

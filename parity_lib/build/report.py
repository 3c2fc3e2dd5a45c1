"""What the book says about the run that it was built from: Markdown, computed from results and records.

A run is a folder with ``results/<chapter>.json`` (what a chapter found) and ``records/<chapter>.json`` (under which
conditions), such as ``build/quick`` or ``reference``. The pages call these functions through the extension
``book/_ext/this_run.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..evidence import ResultsError, as_rate, read_object, read_results
from .ledger import Row, collect, count, headline
from .verify import HEADER, Comparison, Difference, table, verify

CONDITIONS = {
    "python": "Python",
    "torch": "torch",
    "numpy": "numpy",
    "platform": "platform",
    "processor": "processor",
    "cpus": "cores",
}
RECORD: dict[str, type | tuple[type, ...]] = {
    "notebook": str,
    "parameters": dict,
    "seconds": (int, float),
    "commit": (str, type(None)),
    "date": str,
}


def chapters(run: Path) -> list[str]:
    """The chapters of a run, in the order of the book: those that its ledger collected."""
    return list(read_results(run / "results" / "ledger.json")["parameters"]["chapters"])


def records(run: Path) -> dict[str, dict[str, Any]]:
    """The run record of every chapter, the ledger included."""
    return {name: read_object(run / "records" / f"{name}.json", RECORD) for name in (*chapters(run), "ledger")}


def rows(run: Path) -> list[Row]:
    """The ledger's rows of a run."""
    return collect(chapters(run), run / "results")


def value(run: Path, place: str) -> str:
    """One value of the results, for the middle of a sentence: ``figure2 / success / left / figure2-signed / hard``."""
    chapter, *keys = place.split(" / ")
    found: Any = read_results(run / "results" / f"{chapter}.json")["numbers"]
    for key in keys:
        if not isinstance(found, dict) or key not in found:
            raise ResultsError(f"the results of {chapter} have no {' / '.join(keys)}: {key!r} is missing")
        found = found[key]
    rate = as_rate(found)
    return f"{found:.3g}" if isinstance(found, float) else str(rate or found)


def counted(run: Path) -> str:
    """How many claims there are, by verdict, as a sentence."""
    return headline(rows(run))


def verdicts(run: Path) -> str:
    """How many claims of each chapter came out how, as a table that links to the chapters and the ledger."""
    found, names = rows(run), chapters(run)
    lines = {f"[](../notebooks/{name}.ipynb)": [row for row in found if row.chapter == name] for name in names}
    lines["decided by no chapter"] = [row for row in found if not row.chapter]
    lines["[all, row by row](../notebooks/ledger.ipynb)"] = found
    counts = {label: count(group) for label, group in lines.items() if group}
    cells = [(label, *(str(number.get(verdict, "")) for verdict in count(found))) for label, number in counts.items()]
    return markdown(("chapter", *count(found)), cells)


def conditions(run: Path) -> dict[str, str]:
    """Versions, machine, commit and date of a run; where chapters differ, all values."""
    found = list(records(run).values())
    same = {label: _distinct(record.get(key) for record in found) for key, label in CONDITIONS.items()}
    days = _distinct(sorted(record["date"][:10] for record in found))
    spent = minutes(sum(record["seconds"] for record in found))
    commit = _distinct(record["commit"] for record in found)
    return same | {"commit": commit, "date": days, "time of all chapters": spent}


def times(run: Path) -> str:
    """Time and memory of every chapter."""
    lines = [
        (f"[](../notebooks/{name}.ipynb)", minutes(record["seconds"]), f"{record.get('peak_memory_mb') or '?'} MB")
        for name, record in records(run).items()
    ]
    return markdown(("chapter", "time", "peak memory"), lines)


def parameters(run: Path) -> str:
    """Every parameter of every chapter, seeds and sizes included, folded."""
    blocks = []
    for name, record in records(run).items():
        lines = [(f"`{key}`", f"`{item}`") for key, item in record["parameters"].items()]
        blocks.append(f"````{{dropdown}} {name}\n{markdown(('parameter', 'value'), lines)}\n````\n")
    return "\n".join(blocks)


def circumstances(run: Path) -> str:
    """Versions, machine, commit and date as a table."""
    return markdown(("", "this run"), conditions(run).items())


def comparison(run: Path, reference: Path) -> str:
    """The run against the reference: the table, then what moved and what differs, folded."""
    if run == reference:
        return "These pages were built without running anything: what they show is the reference run itself."
    found = verify(run, reference, chapters(run))
    differ = sum(len(c.differences) for c in found)
    answer = f"**Values that differ: {differ}.**" if differ else "**No mismatch.**"
    blocks = [answer, markdown(HEADER, table(found))]
    blocks += _folded("What differs", found, lambda c: c.differences)
    blocks += _folded("What moved", found, lambda c: c.moved)
    return "\n\n".join(blocks)


def _folded(title: str, found: Iterable[Comparison], pick: Callable[[Comparison], Sequence[Difference]]) -> list[str]:
    lines = [(f"{c.chapter}: `{d.where}`", d.found, d.expected) for c in found for d in pick(c)]
    if not lines:
        return []
    return [f"````{{dropdown}} {title} ({len(lines)})\n{markdown(('value', 'this run', 'reference'), lines)}\n````"]


def minutes(seconds: float) -> str:
    """A time to read: seconds, or minutes where there are many."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def _distinct(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    cells = [header, ["--"] * len(header), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in cells)


def shown(cell: object) -> str:
    """A number or a word for a table."""
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:.0f}" if cell >= 1000 else f"{cell:.3g}"


def benchmark_claims(results: Mapping[str, Any]) -> str:
    """What ``make bench`` measured against what was promised."""
    signs = {"<=": "at most", ">=": "at least"}
    lines = []
    for c in results["claims"]:
        met = c["measured"] <= c["target"] if c["sense"] == "<=" else c["measured"] >= c["target"]
        target = f"{signs[c['sense']]} {c['target']:g}"
        lines.append((c["claim"], c["setting"], target, shown(c["measured"]), "yes" if met else "no"))
    return markdown(("", "setting", "target", "measured", "met"), lines)


def benchmark(name: str, book: Path) -> str:
    """One table of ``book/benchmarks.json``: ``claims``, ``machine`` or a name in its ``tables``."""
    results = read_object(book / "benchmarks.json", {"machine": dict, "claims": list, "tables": dict})
    if name == "claims":
        return benchmark_claims(results)
    if name == "machine":
        return markdown(("", "that run"), [(key, shown(item)) for key, item in results["machine"].items()])
    if name not in results["tables"]:
        raise ResultsError(f"unknown benchmark {name!r}; known: claims, machine, {', '.join(results['tables'])}")
    rows = results["tables"][name]
    return markdown(list(rows[0]), [[shown(cell) for cell in row.values()] for row in rows])


PARTS = {part.__name__: part for part in (counted, verdicts, circumstances, times, parameters)}


def part(name: str, run: Path, reference: Path) -> str:
    """One part of a page by its name: ``comparison``, or one of those that need the run alone."""
    if name == "comparison":
        return comparison(run, reference)
    if name not in PARTS:
        raise ResultsError(f"unknown part {name!r}; known: comparison, {', '.join(PARTS)}")
    return PARTS[name](run)

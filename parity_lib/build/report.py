"""What the book says about the run that it was built from: Markdown, computed from results and records.

The pages call these functions through the extension ``book/_ext/this_run.py``.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ..evidence import Rate
from .ledger import collect, count, headline, short
from .results import LEDGER, Record, ResultsError, as_estimate, chapters_of_the_book, read_json, read_record
from .verify import answer, counts, verify

CONDITIONS = {"python": "Python", "torch": "torch", "numpy": "numpy", "numba": "numba", "platform": "platform"}
CONDITIONS |= {"processor": "processor", "cpus": "cores"}


def records(run: Path) -> dict[str, Record]:
    """The run record of every chapter, the ledger included."""
    return {name: read_record(run, name) for name in (*chapters_of_the_book(), LEDGER)}


def rows(run: Path) -> pd.DataFrame:
    """The ledger's rows of a run."""
    return collect(chapters_of_the_book(), run)


def value(run: Path, place: str) -> str:
    """One number behind a verdict, for the middle of a sentence: ``fig2-left / figure2-signed``."""
    claim, *keys = place.split(" / ")
    found: Any = rows(run).set_index("claim")["numbers"].get(claim)
    for key in keys:
        if not isinstance(found, Mapping) or key not in found:
            raise ResultsError(f"the verdict on {claim} has no {' / '.join(keys)}: {key!r} is missing")
        found = found[key]
    return str(as_estimate(found, Rate) or short(found))


def counted(run: Path) -> str:
    """How many claims there are, by verdict, as a sentence."""
    return headline(rows(run))


def verdicts(run: Path) -> str:
    """How many claims of each chapter came out how, as a table that links to the chapters and the ledger."""
    found = rows(run)
    table = pd.crosstab(found["chapter"], found["as_stated"])
    table = table.reindex(index=[*chapters_of_the_book(), ""], columns=list(count(found)), fill_value=0)
    table = table[table.sum(axis=1) > 0]
    table.index = [f"[](../notebooks/{name}.ipynb)" if name else "decided by no chapter" for name in table.index]
    decided = pd.crosstab(found["ours"], found["as_stated"]).reindex(index=[False, True], columns=table.columns, fill_value=0)
    table.loc["[the papers' claims, row by row](../notebooks/ledger.ipynb)"] = decided.loc[False]
    table.loc["our own statements"] = decided.loc[True]
    return markdown(table.replace(0, "").rename_axis("chapter").reset_index())


def conditions(run: Path) -> dict[str, str]:
    """Versions, machine, commit and date of a run; where chapters differ, all values."""
    found = list(records(run).values())
    same = {label: _distinct((r.model_extra or {}).get(key) for r in found) for key, label in CONDITIONS.items()}
    days = _distinct(sorted(record.date[:10] for record in found))
    spent = minutes(sum(record.cpu_seconds or record.seconds for record in found))
    return same | {"commit": _distinct(r.commit for r in found), "date": days, "processor time of all chapters": spent}


def times(run: Path) -> str:
    """Time and memory of every chapter."""
    found = records(run)
    columns = {
        "chapter": [f"[](../notebooks/{name}.ipynb)" for name in found],
        "time": [minutes(record.seconds) for record in found.values()],
        "processor time": [minutes(record.cpu_seconds or 0) for record in found.values()],
        "peak memory": [f"{record.peak_memory_mb or '?'} MB" for record in found.values()],
    }
    return markdown(pd.DataFrame(columns))


def parameters(run: Path) -> str:
    """Every parameter of every chapter, seeds and sizes included, folded."""
    blocks = []
    for name, record in records(run).items():
        lines = [(f"`{key}`", f"`{item}`") for key, item in record.parameters.items()]
        blocks.append(_folded(name, pd.DataFrame(lines, columns=["parameter", "value"])))
    return "\n".join(blocks)


def circumstances(run: Path) -> str:
    """Versions, machine, commit and date as a table."""
    return markdown(pd.DataFrame(conditions(run).items(), columns=["", "this run"]))


def comparison(run: Path, reference: Path) -> str:
    """The run against the reference: the answer, the table, and what differs, folded."""
    if run == reference:
        return "These pages were built without running anything: what they show is the reference run itself."
    if not (reference / "results").is_dir():
        return "There is no reference run yet to compare with."
    found = verify(run, reference, chapters_of_the_book())
    differ = found[found["status"] == "differs"].drop(columns="status")
    blocks = [f"**{answer(found)}**", markdown(counts(found))]
    blocks += [_folded(f"What differs ({len(differ)})", differ)] if len(differ) else []
    return "\n\n".join(blocks)


def _folded(title: str, frame: pd.DataFrame) -> str:
    return f"````{{dropdown}} {title}\n{markdown(frame)}\n````\n"


def minutes(seconds: float) -> str:
    """A time to read: seconds, or minutes where there are many."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def _distinct(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))


def markdown(frame: pd.DataFrame) -> str:
    """A table in Markdown, its cells as they are."""
    cells = frame.map(lambda cell: str(cell).replace("|", "\\|"))
    return str(cells.to_markdown(index=False, disable_numparse=True))


def measured(cell: object) -> str:
    """A measured number, all before its point, or a word, for a table."""
    return f"{cell:.0f}" if isinstance(cell, float) and cell >= 1000 else short(cell)


def benchmark_claims(results: Mapping[str, Any]) -> str:
    """What ``make bench`` measured against what was promised."""
    signs = {"<=": "at most", ">=": "at least"}
    lines = []
    for c in results["claims"]:
        met = c["measured"] <= c["target"] if c["sense"] == "<=" else c["measured"] >= c["target"]
        target = f"{signs[c['sense']]} {measured(float(c['target']))}"
        lines.append((c["claim"], c["setting"], target, measured(c["measured"]), "yes" if met else "no"))
    return markdown(pd.DataFrame(lines, columns=["", "setting", "target", "measured", "met"]))


def benchmark_gpu(results: Mapping[str, Any]) -> str:
    """What ``make bench`` measured on a GPU, or the sentence that there was none."""
    rows = results["gpu"]["rows"]
    return markdown(pd.DataFrame(rows).map(measured)) if rows else str(results["gpu"]["note"])


def benchmark(name: str, book: Path) -> str:
    """One table of ``book/benchmarks.json``: ``claims``, ``machine``, ``gpu`` or a name in its ``tables``."""
    results = read_json(book / "benchmarks.json")
    if name in ("claims", "gpu"):
        return (benchmark_claims if name == "claims" else benchmark_gpu)(results)
    if name == "machine":
        lines = [(key, measured(item)) for key, item in results["machine"].items()]
        return markdown(pd.DataFrame(lines, columns=["", "that run"]))
    if name not in results["tables"]:
        raise ResultsError(f"unknown benchmark {name!r}; known: claims, machine, gpu, {', '.join(results['tables'])}")
    return markdown(pd.DataFrame(results["tables"][name]).map(measured))


PARTS = {part.__name__: part for part in (counted, verdicts, circumstances, times, parameters)}


def part(name: str, run: Path, reference: Path) -> str:
    """One part of a page by its name: ``comparison``, or one of those that need the run alone."""
    if name == "comparison":
        return comparison(run, reference)
    if name not in PARTS:
        raise ResultsError(f"unknown part {name!r}; known: comparison, {', '.join(PARTS)}")
    return PARTS[name](run)

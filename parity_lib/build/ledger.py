"""The ledger: every claim with its check, its verdict and its numbers, collected from the chapters' results."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from ..evidence import AS_STATED, Rate
from ..figures.palette import VERDICTS, written
from .claims import claims
from .parameters import heading
from .results import ROOT, ResultsError, as_estimate, chapters_of_the_book, find_run, read_results

AFTER_LOOKS = "Written before the run that it judges, after first looks at other runs."
RAISED = str.maketrans("0123456789kn", "⁰¹²³⁴⁵⁶⁷⁸⁹ᵏⁿ")
LETTERS = {"log2": "log₂", "alpha": "α", "beta": "β", "mu": "μ", "pi": "π", "tau": "τ"}
LOWERED = str.maketrans("0123456789rl", "₀₁₂₃₄₅₆₇₈₉ᵣₗ")


def collect(chapters: Iterable[str], run: Path | None = None) -> pd.DataFrame:
    """A row per claim, in the order of ``book/claims.yml``, with what its chapter (if any) found.

    Chapters are read by name, or ``["all"]``, from a run: by default the one that the working folder belongs to, else
    the book's or the reference, which is then said.
    """
    chapters, known = list(chapters), claims()
    if chapters == ["all"]:
        chapters = chapters_of_the_book()
    if run is None:
        run = find_run(chapters)
        if not Path.cwd().resolve().is_relative_to(run):
            print(f"Results of the run in {run.relative_to(ROOT)}.")
    found: dict[str, dict[str, Any]] = {}
    for chapter in chapters:
        for claim, decided in read_results(run, chapter).claims.items():
            if claim not in known:
                raise ResultsError(f"{chapter} decides {claim!r}, which is not among the claims")
            if claim in found:
                raise ResultsError(f"{claim} is decided twice, by {found[claim]['chapter']} and {chapter}")
            found[claim] = decided.model_dump() | {"chapter": chapter}
    undecided = {"as_stated": "open", "kind": "", "numbers": {}, "instead": "", "chapter": ""}
    return pd.DataFrame([{"claim": name} | asdict(claim) | found.get(name, undecided) for name, claim in known.items()])


def count(rows: pd.DataFrame) -> dict[str, int]:
    """Claims by verdict, in the order of the verdicts."""
    counted = rows["as_stated"].value_counts()
    return {verdict: int(counted[verdict]) for verdict in AS_STATED if verdict in counted}


def headline(rows: pd.DataFrame) -> str:
    """What became of the papers' claims, in a sentence with three numbers; then, in words, of our own."""
    papers, ours = rows[~rows["ours"]], rows.loc[rows["ours"], "as_stated"]
    counted = dict.fromkeys(AS_STATED, 0) | count(papers)
    holds, fails = counted["holds"], counted["fails"]
    conditional = counted["narrower range"] + counted["misprint"]
    parts = [f"{holds} hold{'s' * (holds == 1)} as stated"]
    if conditional:
        share = "most others" if 2 * conditional > len(papers) - holds else "others"
        parts.append(f"{share} under a condition or a correction that is named")
    parts.append(f"{fails} fail{'s' * (fails == 1)}")
    parts += ["the rest is open"] if counted["open"] else []
    found = f"Of the papers' {len(papers)} claims {', '.join(parts[:-1])}, and {parts[-1]}."
    if ours.empty:
        return found
    return f"{found} {'All' if (ours == 'holds').all() else 'Not all'} statements of our own hold."


def table(rows: pd.DataFrame) -> str:
    """The ledger as an HTML table that can be filtered by verdict, without anything from outside."""
    counted = {"": len(rows)} | count(rows)
    buttons = " ".join(
        f'<button type="button" data-show="{verdict}" aria-pressed="{str(not verdict).lower()}">'
        f"{verdict or 'all'} ({number})</button>"
        for verdict, number in counted.items()
    )
    body = "\n".join(_row(row) for row in rows.to_dict("records"))
    template = Template(files(__package__).joinpath("ledger.html").read_text(encoding="utf-8"))
    return template.substitute(buttons=buttons, body=body)


def _row(row: Mapping[str, Any]) -> str:
    chapter = row["chapter"]
    where = f'<a href="{chapter}.html#{row["figure"]}">{escape(title(chapter))}</a>' if chapter else "no chapter"
    looks = f" {AFTER_LOOKS}" if row["kind"] == "measured" and not row["late"] else ""
    numbers = "".join(f"<li>{escape(readable(line))}</li>" for line in lines(row["numbers"]))
    details = f"<details><summary>numbers</summary><ul>{numbers}</ul></details>" if numbers else ""
    return (
        f'<tr id="claim-{row["claim"]}" data-verdict="{row["as_stated"]}">'
        f'<td><a href="#claim-{row["claim"]}"><code>{row["claim"]}</code></a><br>{escape(row["place"])}</td>'
        f"<td>{escape(readable(row['statement']))}<br><small><em>Check:</em> {escape(readable(row['check']))}{looks}"
        "</small></td>"
        f'<td><strong style="border-left:.5em solid {VERDICTS[row["as_stated"]]};padding-left:.4em">'
        f"{row['as_stated']}</strong><br>{row['kind']}</td>"
        f"<td>{escape(readable(row['instead']))}{details}</td><td>{where}</td></tr>"
    )


def title(chapter: str) -> str:
    """The title of a chapter, as its notebook has it."""
    notebook = ROOT / "notebooks" / f"{chapter}.ipynb"
    return heading(notebook) if notebook.is_file() else chapter


def lines(numbers: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Numbers as short lines; a rate as k of N with its interval."""
    found = []
    for name, value in numbers.items():
        label = re.sub("_", " ", f"{prefix}{name}")
        rate = as_estimate(value, Rate)
        if rate is None and isinstance(value, Mapping):
            found += lines(value, f"{label}, ")
        else:
            found.append(f"{label}: {rate or short(value)}")
    return found


def short(value: Any) -> str:
    """A number with three digits, a list of them, a dash for none, or any other value as it is."""
    if isinstance(value, list):
        return ", ".join(map(short, value))
    return written(value).removeprefix("1·") if isinstance(value, float) else "–" if value is None else str(value)


def readable(text: str) -> str:
    """Plain text with its formulas as a reader writes them: ``1e-9`` as 10⁻⁹, ``d^2`` as d², ``a_11`` as a₁₁."""
    text = re.sub(r"(?<![\w.])\d+(?:\.\d+)?e[-+]?\d+\b", lambda number: short(float(number[0])), text)
    text = re.sub(r"\^(\d+|[kn])(?!\w)", lambda power: power[1].translate(RAISED), text)
    text = re.sub(r"\b([a-z])_(\d+|rl)\b", lambda entry: entry[1] + entry[2].translate(LOWERED), text)
    text = re.sub(r"(?<=\S) - (?=\S)|(?<=\bn)-(?=[1k]\b)|-(?=log )", lambda sign: sign[0].replace("-", "−"), text)
    return re.sub(rf"\b({'|'.join(LETTERS)})\b", lambda name: LETTERS[name[0]], text).replace("!=", "≠")

"""The ledger: every claim with its check, its verdict and its numbers, collected from the chapters' results."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from .claims import CLAIMS
from ..evidence import VERDICTS, ResultsError, as_rate, read_results
from ..figures.style import BLUE, GREY, ORANGE, RED, SKY

COLOURS = dict(zip(VERDICTS, (BLUE, SKY, RED, ORANGE, GREY), strict=True))
IN_A_SENTENCE = {  # of one claim, of several
    "holds": ("holds as printed", "hold as printed"),
    "holds with a change": ("holds only with a change, which is named", "hold only with a change, which is named"),
    "fails": ("fails", "fail"),
    "vacuous here": ("is vacuous here", "are vacuous here"),
    "not tested": ("is not tested", "are not tested"),
}


@dataclass(frozen=True)
class Row:
    """One claim of the ledger, and what its chapter (if any) found."""

    claim: str
    verdict: str = "not tested"
    change: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    chapter: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}: {self.change}" if self.change else self.verdict


def collect(chapters: Iterable[str], folder: Path | None = None) -> list[Row]:
    """A row per claim, in the order of :data:`parity_lib.build.claims.CLAIMS`.

    Parameters
    ----------
    chapters : the runs to read, by name; other files in the folder do not count.
    folder : where their results are, by default the one that the runner names (``PARITY_RESULTS``).
    """
    folder = folder or Path(os.environ.get("PARITY_RESULTS") or "results")
    found: dict[str, Row] = {}
    for chapter in chapters:
        for claim, decided in read_results(folder / f"{chapter}.json")["claims"].items():
            if claim in found:
                raise ResultsError(f"{claim} is decided twice, by {found[claim].chapter} and {chapter}")
            found[claim] = Row(claim, chapter=chapter, **decided)
    return [found.get(claim, Row(claim)) for claim in CLAIMS]


def count(rows: Iterable[Row]) -> dict[str, int]:
    """Claims by verdict, in the order of the verdicts."""
    counted = Counter(row.verdict for row in rows)
    return {verdict: counted[verdict] for verdict in VERDICTS if counted[verdict]}


def headline(rows: Iterable[Row]) -> str:
    """How many claims there are and what became of them, as a line of Markdown."""
    rows = list(rows)
    said = [f"{n} {IN_A_SENTENCE[verdict][n > 1]}" for verdict, n in count(rows).items()]
    return f"**{len(rows)} claims:** " + "; ".join(said) + "."


def entries(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """The rows with all that is known of each claim, by its id: what ``results/ledger.json`` holds."""
    return {row.claim: asdict(CLAIMS[row.claim]) | asdict(row) for row in rows}


def overview(rows: Iterable[Row]) -> Figure:
    """All claims at a glance: a dot per claim, one line per verdict, named."""
    rows = list(rows)
    by_verdict = {verdict: [row.claim for row in rows if row.verdict == verdict] for verdict in VERDICTS}
    shown = {verdict: claims for verdict, claims in by_verdict.items() if claims}
    fig, ax = plt.subplots(figsize=(8.2, 0.42 * sum(-(-len(claims) // 4) for claims in shown.values()) + 0.5))
    y = 0.0
    ticks = []
    for verdict, claims in shown.items():
        lines = [claims[i : i + 4] for i in range(0, len(claims), 4)]
        ticks.append((y - (len(lines) - 1) / 2, f"{verdict} ({len(claims)})"))
        for line in lines:
            for x, claim in enumerate(line):
                ax.plot(x, y, "s", ms=13, color=COLOURS[verdict])
                ax.text(x + 0.13, y, claim, va="center", fontsize=9)
            y -= 1
        y -= 0.35
    ax.set(xlim=(-0.15, 3.9), ylim=(y + 0.5, 0.7))
    ax.set_yticks([at for at, _ in ticks], [label for _, label in ticks])
    ax.tick_params(axis="y", length=0)
    ax.set_xticks([])
    ax.grid(False)
    ax.spines[:].set_visible(False)
    return fig


def table(rows: Iterable[Row]) -> str:
    """The ledger as an HTML table that can be filtered by verdict, without anything from outside."""
    rows = list(rows)
    buttons = "".join(
        f'<button type="button" data-show="{verdict}" aria-pressed="false">{verdict} ({number})</button> '
        for verdict, number in count(rows).items()
    )
    body = "".join(_table_row(row) for row in rows)
    return _TABLE.replace("@BUTTONS", buttons).replace("@ALL", str(len(rows))).replace("@BODY", body)


def _table_row(row: Row) -> str:
    claim = CLAIMS[row.claim]
    chapter = f'<a href="{row.chapter}.html#{claim.figure}">{row.chapter}</a>' if row.chapter else ""
    numbers = "".join(f"<li>{escape(line)}</li>" for line in _lines(row.numbers))
    details = f"<details><summary>numbers</summary><ul>{numbers}</ul></details>" if numbers else ""
    return (
        f'<tr id="claim-{row.claim}" data-verdict="{escape(row.verdict)}">'
        f"<td><code>{row.claim}</code><br>{escape(claim.place)}</td>"
        f"<td>{escape(claim.statement)}<details><summary>check</summary>{escape(claim.check)}</details></td>"
        f'<td><strong style="border-left:.5em solid {COLOURS[row.verdict]};padding-left:.4em">'
        f"{escape(str(row))}</strong>{details}</td><td>{chapter}</td></tr>"
    )


def _lines(numbers: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Numbers as short lines; a rate as k of N with its interval."""
    lines = []
    for name, value in numbers.items():
        label = f"{prefix}{name}".replace("_", " ")
        rate = as_rate(value)
        if rate is None and isinstance(value, Mapping):
            lines += _lines(value, f"{label}, ")
        else:
            lines.append(f"{label}: {rate or _short(value)}")
    return lines


def _short(value: Any) -> str:
    """A number with three digits, a list of them, or any other value as it is."""
    if isinstance(value, list):
        return ", ".join(map(_short, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


_TABLE = """
<div class="ledger">
<p><button type="button" data-show="" aria-pressed="true">all (@ALL)</button> @BUTTONS</p>
<table class="table"><thead><tr><th>claim</th><th>in our words</th><th>verdict</th><th>shown in</th></tr></thead>
<tbody>@BODY</tbody></table>
<script>
(() => {
  const root = document.currentScript.parentElement, buttons = root.querySelectorAll("button[data-show]");
  buttons.forEach(button => button.addEventListener("click", () => {
    buttons.forEach(other => other.setAttribute("aria-pressed", other === button));
    root.querySelectorAll("tbody tr").forEach(row => {
      row.hidden = button.dataset.show !== "" && row.dataset.verdict !== button.dataset.show;
    });
  }));
})();
</script>
</div>
"""

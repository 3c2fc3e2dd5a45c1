"""The reference run: results and records of the paper profile, kept in ``reference/`` and shown in the README."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from .claims import CLAIMS
from ..evidence import ResultsError, read_object, read_results
from .parameters import check_parameters
from ..figures.style import STYLE
from ..figures.figure2 import both_panels
from .report import RECORD, conditions, counted, markdown, minutes, records, rows
from .workflow import find_notebook, load_profile

PROFILE = "paper"
BEGIN, END = "<!-- results: written by `parity reference`, not by hand -->", "<!-- end of results -->"
ALT = (
    "Two rows of three heat maps, position against epoch, one per head. Above, without neighbours among the bits, each "
    "head locks onto a bit of its own with attention near one. Below, two heads end with one half on each of the two "
    "neighbours 16 and 17, and the third finds bit 5."
)


def adopt(root: Path) -> None:
    """Make the finished run of the paper profile the reference, in place of the one before.

    Raises
    ------
    ResultsError : the run lacks a chapter, has other parameters than the profile now, or is not of one clean commit.
    """
    run, kept = root / "build" / PROFILE, root / "reference"
    profile, commits = load_profile(root, PROFILE), set()
    for name, overrides in profile.items():
        read_results(run / "results" / f"{name}.json")
        record = read_object(run / "records" / f"{name}.json", RECORD)
        if record["parameters"] != check_parameters(find_notebook(root, name), overrides):
            raise ResultsError(f"{name} ran with other parameters than the profile has now; build it again")
        commits.add(str(record["commit"]))
    if len(commits) > 1 or not re.fullmatch("[0-9a-f]+", min(commits)):
        raise ResultsError(f"a reference must be of one clean commit, got {', '.join(sorted(commits))}")
    for part in ("results", "records"):
        shutil.rmtree(kept / part, ignore_errors=True)
        (kept / part).mkdir(parents=True)
        for name in profile:
            shutil.copyfile(run / part / f"{name}.json", kept / part / f"{name}.json")


def show(root: Path) -> tuple[Path, Path]:
    """Write the reference run's ledger into the README and draw its Figure 2; the two paths."""
    readme, drawing = root / "README.md", root / "reference" / "figure2.png"
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ResultsError(f"README.md must hold the lines {BEGIN} and {END}, between which the results go")
    readme.write_text(f"{before}{BEGIN}\n\n{results(root)}\n\n{END}{after}", encoding="utf-8")
    figure = picture(root)
    figure.savefig(drawing, dpi=100, metadata={"Software": None})
    plt.close(figure)
    return readme, drawing


def results(root: Path) -> str:
    """The README's part on results: Figure 2, the count and a row per claim, with the command behind each."""
    run = root / "reference"
    facts = conditions(run)
    origin = (
        f"The reference run is `make book PROFILE={PROFILE}` at commit `{facts['commit'][:10]}`: {facts['date']}, "
        f"{facts['time of all chapters']} chapter after chapter, torch {facts['torch']}. `parity verify` compares your "
        f"run with it. The commands below run at its sizes with `--profile {PROFILE}`."
    )
    lines = []
    for row in rows(run):
        claim, command = CLAIMS[row.claim], f"`parity run {row.chapter}`" if row.chapter else ""
        lines.append((f"`{row.claim}`", claim.place, claim.statement, str(row), command))
    table = markdown(("claim", "where", "in our words", "verdict", "check it"), lines)
    times = ", ".join(f"`{name}` {minutes(record['seconds'])}" for name, record in records(run).items())
    return f"![{ALT}](reference/figure2.png)\n\n{origin}\n\n{counted(run)}\n\n{table}\n\nTime of each chapter: {times}."


def picture(root: Path) -> Figure:
    """Figure 2 as the reference run found it, both panels."""
    with plt.rc_context(STYLE):  # type: ignore[arg-type]
        return both_panels(read_results(root / "reference" / "results" / "figure2.json")["numbers"]["heat_maps"])

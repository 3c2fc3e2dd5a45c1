"""The reference run: results, records and tables of the book, kept in ``reference/`` and shown in the README."""

import re
import shutil
from pathlib import Path

from . import PUBLISHED
from .parameters import check_parameters
from .report import conditions, counted
from .results import ResultsError, read_record, read_results, read_table
from .workflow import find_notebook, load_profile

BEGIN, END = "<!-- results: written by `parity reference`, not by hand -->", "<!-- end of results -->"
LARGEST = 300_000  # bytes of a table that is kept
ALT = (
    "Three arrows on a circle of twenty positions, one for each head. They start in random directions, turn while they "
    "are trained, and come to rest on the green positions 8, 11 and 18, one arrow on each."
)


def adopt(root: Path) -> None:
    """Make the finished run of the book the reference, in place of the one before.

    A run that lacks a chapter, has other parameters than the notebooks now, or is not of clean commits is refused; so
    is one that found expensive results of an earlier build in the store, since its times would be too short.
    """
    run, kept = root / "build" / PUBLISHED, root / "reference"
    profile, commits, files = load_profile(root, PUBLISHED), set(), []
    computed: set[str] = set()
    reused: dict[str, str] = {}
    for name, overrides in profile.items():
        results, record = read_results(run, name), read_record(run, name)
        if record.parameters != check_parameters(find_notebook(root, name), overrides):
            raise ResultsError(f"{name} ran with other parameters than it has now; build the book again")
        commits.add(str(record.commit))
        computed |= set(record.computed)
        reused |= dict.fromkeys(record.reused, name)
        files += [f"results/{name}.json", f"records/{name}.json", *(f"tables/{name}/{t}.csv" for t in results.tables)]
    if not all(re.fullmatch("[0-9a-f]+", commit) for commit in commits):  # what is stale by content was run again
        raise ResultsError(f"a reference must be of clean commits, got {', '.join(sorted(commits))}")
    earlier = [function for function in reused if function not in computed]
    if earlier:
        whence = f"{reused[earlier[0]]} took {earlier[0]} from an earlier build, so that its time is too short"
        raise ResultsError(f"{whence}; delete build/store and build/{PUBLISHED} and build the book again")
    for part in ("results", "records", "tables"):
        shutil.rmtree(kept / part, ignore_errors=True)
    for place in files:
        if (run / place).stat().st_size <= LARGEST:
            (kept / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(run / place, kept / place)


def show(root: Path) -> tuple[Path, Path]:
    """Write what the reference run found into the README and draw its circle; the two paths."""
    readme, drawing = root / "README.md", root / "reference" / "circle.svg"
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ResultsError(f"README.md must hold the lines {BEGIN} and {END}, between which the results go")
    readme.write_text(f"{before}{BEGIN}\n\n{results(root)}\n\n{END}{after}", encoding="utf-8")
    picture(root, drawing)
    return readme, drawing


def results(root: Path) -> str:
    """The README's part on results: the circle, what became of the claims, and the run that says so."""
    run = root / "reference"
    facts = conditions(run)
    origin = (
        f"Above: the run behind the paper's Figure 2, trained again. {counted(run)} The ledger of the book has them "
        f"one by one. So says the reference run, `make book` at commit `{facts['commit'][:10]}`: {facts['date']}, "
        f"{facts['processor time of all chapters']} of processor time, torch {facts['torch']}."
    )
    return f"![{ALT}](reference/circle.svg)\n\n{origin}"


def picture(root: Path, path: Path) -> None:
    """The heads of the first run of Figure 2 on their circle, as the reference run found them: an animated SVG."""
    from ..figures.circle import animated

    course = read_table(root / "reference", "figure2", "heat_maps")
    path.write_text(animated(course[course["panel"] == "left"]), encoding="utf-8")

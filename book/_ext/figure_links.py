"""Under the caption of every computed figure: its data, its code, and the command that runs it again.

The figure ``fig-X-Y`` of ``notebooks/NAME`` was drawn from the table that the chapter recorded as ``X_Y``. The tables
of the run lie beside the pages, in ``tables/NAME/X_Y.csv``; a figure without its table is a warning, which in our
build is an error.
"""

import shutil
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def tables(app: Sphinx) -> Path:
    """The tables of the run behind the pages; in a plain build of the clone, the reference run's."""
    source = Path(app.srcdir)
    built = source.name == "src" and (source.parent / "records").is_dir()
    return (source.parent if built else source / "reference") / "tables"


def add_links(app: Sphinx, doctree: nodes.document) -> None:
    folder, _, chapter = app.env.docname.rpartition("/")
    if folder != "notebooks":
        return
    for figure in doctree.findall(nodes.figure):
        named = [name for name in figure["names"] if name.startswith("fig-")]
        if not named:
            continue
        data = f"tables/{chapter}/{named[0].removeprefix('fig-').replace('-', '_')}.csv"
        if not (tables(app).parent / data).is_file():
            where = figure.line or next((c.line for c in figure.children if c.line), None)
            logger.warning(f"{named[0]} has no table {data}: record it", location=(app.env.docname, where))
            continue
        line = nodes.paragraph("", "", classes=["figure-links"])
        line += nodes.reference("", "data", refuri=f"../{data}", classes=["figure-data"])
        line += nodes.Text(" · ")
        line += nodes.reference("", "code", refuri=f"../_sources/notebooks/{chapter}.ipynb")
        line += nodes.Text(" · ")
        line += nodes.literal("", f"parity run {chapter}")
        figure += nodes.legend("", line)


def copy_tables(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html" and tables(app).is_dir():
        shutil.copytree(tables(app), Path(app.outdir, "tables"), dirs_exist_ok=True)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", add_links)
    app.connect("build-finished", copy_tables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Every computed figure as drawn for this page, with its data, pictures, code and command under the caption.

An executed notebook keeps of a figure an SVG, a PNG and an SVG for phones (:mod:`parity_lib.figures.style`). Both SVGs
go into the page, where the width of the screen chooses one and the page's light or dark mode its colours. The figure
``fig-X-Y`` of ``notebooks/NAME`` was drawn from the table that the chapter recorded as ``X_Y``; data and pictures lie
beside the pages, in ``tables/NAME/X_Y.csv`` and ``figures/NAME/X_Y.svg`` and ``.png``. A figure without its table or
without its layout for phones is a warning, which in our build is an error.

``{shown} fig-X-Y`` puts a figure of a chapter on another page too, with a sentence that leads to its place.
"""

import base64
import json
import re
import shutil
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from parity_lib.figures.palette import NARROW_SVG, ON_DARK, WORDS

logger = logging.getLogger(__name__)
SCALE = 1.28  # pixels of the page for a point of a figure, so that letters have one size in all of them


def tables(app: Sphinx) -> Path:
    """The tables of the run behind the pages; in a plain build of the clone, the reference run's."""
    source = Path(app.srcdir)
    built = source.name == "src" and (source.parent / "records").is_dir()
    return (source.parent if built else source / "reference") / "tables"


def drawings(notebook: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of every figure of an executed notebook, and what it keeps of it by type, with the alt text."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        about = cell["metadata"].get("mystnb", {})
        name = about.get("figure", {}).get("name")
        for output in cell.get("outputs", []):
            if name and {"image/svg+xml", "image/png"} <= output.get("data", {}).keys():
                kept = {kind: "".join(text) for kind, text in output["data"].items()}
                yield name, kept | {"alt": words(about, output)}


def words(about: dict[str, Any], output: dict[str, Any]) -> str:
    """The alternative text: what was found and how it is drawn, then, read off the figure, what is to be seen."""
    found, _, rest = "".join(output["data"].get(WORDS, "")).partition("\n")
    return " ".join(filter(None, (found, about.get("image", {}).get("alt", ""), rest)))


def place_of(name: str) -> str:
    """``fig-heat-maps``: the table ``heat_maps``."""
    return name.removeprefix("fig-").replace("-", "_")


def inline(svg: str, prefix: str) -> str:
    """An SVG file as part of a page: own names, letters and colours of the page, as wide as its letters ask for."""
    box = re.search(r'viewBox="0 0 ([\d.]+) [\d.]+"', svg)
    svg = svg[svg.index(">", svg.index("<svg")) + 1 :]
    head = f'<svg class="{prefix.rpartition("-")[2]}" style="width: {SCALE * float(box[1]):.0f}px" {box[0]}'
    svg = f'{head} aria-hidden="true">{svg}'
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", svg)
    svg = re.sub(r'font-family: [^;"]+', "font-family: var(--pst-font-family-base)", svg)
    return re.sub("|".join(ON_DARK), lambda found: f"var({variable(found[0])}, {found[0]})", svg)


def drawn(name: str, kept: dict[str, Any]) -> nodes.raw:
    """A figure in both layouts."""
    layouts = (("image/svg+xml", "wide"), (NARROW_SVG, "narrow"))
    both = "\n".join(inline(kept[kind], f"{name}-{layout}") for kind, layout in layouts)
    html = f'<div class="drawn" role="img" aria-label="{escape(kept["alt"])}">\n{both}\n</div>'
    return nodes.raw("", html, format="html")


def variable(colour: str) -> str:
    return f"--drawn-{colour[1:]}"


def show(app: Sphinx, doctree: nodes.document) -> None:
    folder, _, chapter = app.env.docname.rpartition("/")
    if folder != "notebooks":
        return
    kept = dict(drawings(Path(app.env.doc2path(app.env.docname))))
    for figure in doctree.findall(nodes.figure):
        name = next((name for name in figure["names"] if name.startswith("fig-")), None)
        if name is None:
            continue
        where = (app.env.docname, figure.line or next((c.line for c in figure.children if c.line), None))
        data = f"tables/{chapter}/{place_of(name)}.csv"
        if not (tables(app).parent / data).is_file():
            logger.warning(f"{name} has no table {data}: record it", location=where)
            continue
        outputs = [part for part in figure.findall(nodes.container) if part.get("nb_element") == "mime_bundle"]
        output = outputs[0] if outputs else None
        if output is not None and NARROW_SVG in kept.get(name, {}):
            output.parent.replace(output, drawn(name, kept[name]))
        elif output is not None:
            logger.warning(f"{name} has no layout for phones: draw it under style.drawing", location=where)
        figure += nodes.legend("", links(chapter, place_of(name), data))


@cache
def all_drawings(folder: Path) -> dict[str, dict[str, Any]]:
    return {name: kept for notebook in sorted(folder.glob("*.ipynb")) for name, kept in drawings(notebook)}


class Shown(SphinxDirective):
    """``{shown} fig-X-Y``: the picture without a number of its own, and what it has to do with this page."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        name = self.arguments[0]
        figure = nodes.container(classes=["shown-again"])
        if kept := all_drawings(Path(self.env.srcdir, "notebooks")).get(name):
            figure += drawn(name, kept)
        lines = StringList([f"{{numref}}`{name}`. {' '.join(self.content)}"], source=name)
        self.state.nested_parse(lines, self.content_offset, figure)
        return [figure]


def links(chapter: str, name: str, data: str) -> nodes.paragraph:
    line = nodes.paragraph("", "", classes=["figure-links"])
    line += nodes.reference("", "data", refuri=f"../{data}", classes=["figure-data"])
    for text, target in (
        ("SVG", f"../figures/{chapter}/{name}.svg"),
        ("PNG", f"../figures/{chapter}/{name}.png"),
        ("code", f"../_sources/notebooks/{chapter}.ipynb"),
    ):
        line += [nodes.Text(" · "), nodes.reference("", text, refuri=target)]
    line += [nodes.Text(" · "), nodes.literal("", f"parity run {chapter}")]
    return line


def copy(app: Sphinx, exception: Exception | None) -> None:
    """Tables, pictures, and the colours on a dark page as a style sheet."""
    if exception is not None or app.builder.format != "html":
        return
    if tables(app).is_dir():
        shutil.copytree(tables(app), Path(app.outdir, "tables"), dirs_exist_ok=True)
    for notebook in Path(app.srcdir, "notebooks").glob("*.ipynb"):
        for name, kept in drawings(notebook):
            target = Path(app.outdir, "figures", notebook.stem, place_of(name))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.with_suffix(".svg").write_text(kept["image/svg+xml"], encoding="utf-8")
            target.with_suffix(".png").write_bytes(base64.b64decode(kept["image/png"]))
    dark = " ".join(f"{variable(light)}: {colour};" for light, colour in ON_DARK.items())
    sheet = f'@media screen {{ html[data-theme="dark"] {{ {dark} }} }}\n'
    Path(app.outdir, "_static", "drawn.css").write_text(sheet, encoding="utf-8")


def not_drawn(app: Sphinx, _domain: Any, node: nodes.Element) -> bool | None:
    """In a plain build of the clone nothing was run, so that the text speaks of figures which are not there."""
    plain = tables(app).parent.name == "reference"
    return True if plain and node["reftype"] == "numref" and node["reftarget"].startswith("fig-") else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("warn-missing-reference", not_drawn, priority=400)  # before Sphinx's own complaint
    app.add_directive("shown", Shown)
    app.connect("doctree-read", show, priority=400)  # before the images are collected
    app.connect("build-finished", copy)
    app.add_css_file("drawn.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""What every page says about itself in its head: a content policy, a description, and a card for those who link to it.

The policy lets a page load what lies beside it and nothing else; pages open from disk, where everything is ``file:``.
"""

import textwrap
from html import escape
from pathlib import Path

from docutils import nodes
from figure_links import tables
from sphinx.application import Sphinx

POLICY = "; ".join(
    [
        "default-src 'self' file: data: blob:",
        "script-src 'self' file: blob: 'unsafe-inline'",
        "style-src 'self' file: 'unsafe-inline'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self' file:",
    ]
)
CARD = "_static/card.png"


def first_words(doctree: nodes.document | None, otherwise: str) -> str:
    """The first sentences of a page, as a description."""
    paragraphs = doctree.findall(nodes.paragraph) if doctree is not None else []
    for paragraph in paragraphs:
        text = " ".join(paragraph.astext().split())
        if len(text) > 60 and not any(isinstance(p, (nodes.figure, nodes.table)) for p in (paragraph.parent,)):
            return textwrap.shorten(text, 200, placeholder=" ...")
    return otherwise


def describe(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    title = nodes.Text(context.get("title", "")).astext() or app.config.html_title
    about = first_words(doctree, app.config.html_title)
    tags = {"og:title": title, "og:description": about, "og:type": "article", "og:site_name": app.config.html_title}
    if app.config.html_baseurl:  # a card must be named by its whole address
        tags["og:image"] = app.config.html_baseurl.rstrip("/") + f"/{CARD}"
        tags["og:image:alt"] = "Twenty positions on a circle, three of them green, and an arrow on each of the three."
    metas = [f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">']
    metas += [f'<meta name="description" content="{escape(about)}">']
    metas += ['<meta name="twitter:card" content="summary_large_image">']
    metas += [f'<meta property="{key}" content="{escape(value)}">' for key, value in tags.items()]
    context["metatags"] = "\n".join(metas) + "\n" + context.get("metatags", "")


def draw_card(app: Sphinx, exception: Exception | None) -> None:
    """The picture for those who link to a page, from the run behind the pages."""
    table = tables(app) / "figure2" / "heat_maps.csv"
    if exception is None and app.builder.format == "html" and table.is_file():
        import pandas as pd

        from parity_lib.figures.circle import card

        card(pd.read_csv(table), app.config.html_title).savefig(Path(app.outdir, CARD), metadata={"Software": None})


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", describe)
    app.connect("build-finished", draw_card)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

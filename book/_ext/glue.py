"""Keep a formula and what follows it without a space on one line: no line begins with the comma behind a formula."""

import re

from docutils import nodes
from sphinx.application import Sphinx

BEHIND = re.compile(r"[^\w\s]\S{0,11}(?=\s|$)")


def glue(app: Sphinx, doctree: nodes.document, page: str) -> None:
    for formula in list(doctree.findall(nodes.math)):
        text = formula.next_node(descend=False, siblings=True)
        found = BEHIND.match(text.astext()) if isinstance(text, nodes.Text) else None
        if found is not None:
            rest = nodes.Text(text.astext()[found.end() :])
            whole = nodes.inline("", "", formula.deepcopy(), nodes.Text(found[0]), classes=["glued"])
            text.parent.replace(text, rest)
            formula.parent.replace(formula, whole)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", glue, priority=900)  # after words of the glossary were marked
    return {"parallel_read_safe": True, "parallel_write_safe": True}

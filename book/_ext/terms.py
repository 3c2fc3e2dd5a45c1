"""The words of the glossary explain themselves: the first of each on a page links to its entry and carries it along.

``reader.js`` shows the entry when the word is pointed at or in focus. Entries stand in ``book/notation``.
"""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

GLOSSARY = "book/notation"
CLOSED = (nodes.reference, nodes.literal, nodes.title, nodes.math, addnodes.pending_xref, nodes.caption, nodes.raw)


def entries(app: Sphinx) -> dict[str, tuple[str, str]]:
    """The id and the meaning of every word of the glossary."""
    if GLOSSARY not in app.env.all_docs:
        return {}
    found = {}
    for item in app.env.get_doctree(GLOSSARY).findall(nodes.definition_list_item):
        if isinstance(item.parent.parent, addnodes.glossary):
            meaning = " ".join(item[-1].astext().split())
            for term in item.findall(nodes.term):
                found[term.astext()] = (term["ids"][0], meaning)
    return found


def mark(app: Sphinx, doctree: nodes.document, page: str) -> None:
    known = entries(app)
    if not known or page == GLOSSARY or page.startswith("book/api") or app.builder.format != "html":
        return
    words = re.compile(r"\b(" + "|".join(sorted(map(re.escape, known), key=len, reverse=True)) + r")\b")
    seen: set[str] = set()
    for text in list(doctree.findall(nodes.Text)):
        parents = []
        node = text.parent
        while node is not None:
            parents.append(node)
            node = node.parent
        if any(isinstance(p, CLOSED) for p in parents) or not any(isinstance(p, nodes.paragraph) for p in parents):
            continue
        found = next((m for m in words.finditer(text.astext()) if m[1] not in seen), None)
        if found is None:
            continue
        seen.add(found[1])
        ident, meaning = known[found[1]]
        link = make_refnode(app.builder, page, GLOSSARY, ident, nodes.inline("", found[1]))
        link["classes"] += ["term"]
        link["reftitle"] = meaning
        whole = text.astext()
        text.parent.replace(text, [nodes.Text(whole[: found.start()]), link, nodes.Text(whole[found.end() :])])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""A chapter's table of verdicts names each claim by its place and its words, and leads to its row in the ledger.

A chapter knows a claim by its id alone (:func:`parity_lib.evidence.verdict_table`); what the id stands for is text of
the book, so that a change of wording reruns no chapter.
"""

from docutils import nodes
from sphinx.application import Sphinx

HEAD = ["claim", "as stated", "what does hold"]


def name_claims(app: Sphinx, doctree: nodes.document) -> None:
    for table in doctree.findall(nodes.table):
        head, *rows = table.findall(nodes.row)
        if [cell.astext() for cell in head.children][: len(HEAD)] != HEAD:
            continue
        from parity_lib.build.claims import claims  # only where there is such a table, since they take a second
        from parity_lib.build.ledger import readable

        for row in rows:
            for text in list(row.findall(nodes.Text)):
                text.parent.replace(text, nodes.Text(readable(text.astext())))
            first = row.children[0]
            claim = claims().get(first.astext())
            if claim is not None:
                link = nodes.reference("", claim.place, refuri=f"ledger.html#claim-{first.astext()}", internal=True)
                first.children = []
                first += nodes.paragraph("", "", link, nodes.Text(f": {readable(claim.statement)}"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", name_claims)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

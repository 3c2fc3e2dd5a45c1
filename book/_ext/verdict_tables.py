"""A chapter's table of verdicts names each claim by its place and its words, and leads to its row in the ledger.

A chapter knows a claim by its id alone (:func:`parity_lib.evidence.verdict_table`); what the id stands for is text of
the book, so that a change of wording reruns no chapter. ``{claims} ID ...`` is a box with what became of some claims.
"""

from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from this_run import folders

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


class Claims(SphinxDirective):
    """``{claims} ID ...``: of each claim its place, our words, the check, the verdict, and what does hold."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        from parity_lib.build import ledger

        self.env.note_reread()
        run, _ = folders(Path(self.env.srcdir))
        rows = ledger.collect(["all"], run).set_index("claim")
        box = nodes.admonition(classes=["claims"])
        box += nodes.title("", "Claimed, checked, found")
        lines: list[str] = []
        for claim in self.arguments[0].split():
            if claim not in rows.index:
                raise self.error(f"there is no claim {claim!r}")
            row = rows.loc[claim]
            how = f", {row['kind']}" if row["kind"] else ""
            lines += [f"**{row['place']}: {row['as_stated']}**{how}. {ledger.readable(row['statement'])}", ""]
            instead = f" *What does hold:* {ledger.readable(row['instead'])}" if row["instead"] else ""
            lines += [f"*Check:* {ledger.readable(row['check'])}{instead}", ""]
        self.state.nested_parse(StringList(lines, source="claims"), self.content_offset, box)
        return [box]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("claims", Claims)
    app.connect("doctree-read", name_claims)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

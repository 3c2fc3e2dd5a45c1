"""Show what the run behind these pages found: a directive for tables, a role for single values.

In a built book the pages lie in ``build/<profile>/src``, beside the results of that profile. In a plain
``jupyter-book build .`` nothing was run, and the reference run stands in.
"""

from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole


def folders(source: Path) -> tuple[Path, Path]:
    """The run to show and the reference run."""
    reference = source / "reference"
    built = source.name == "src" and (source.parent / "records").is_dir()
    return (source.parent if built else reference), reference


class ThisRun(SphinxDirective):
    """``{this-run} NAME``: the part NAME of what ``parity_lib.build.report`` says about the run."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        from parity_lib.build import report

        self.env.note_reread()
        name = self.arguments[0]
        try:
            text = self.text(name)
        except report.ResultsError as error:
            raise self.error(str(error)) from None
        parent = nodes.Element()
        self.state.nested_parse(StringList(text.splitlines(), source=name), self.content_offset, parent)
        return parent.children

    def text(self, name: str) -> str:
        from parity_lib.build import report

        return report.part(name, *folders(Path(self.env.srcdir)))


class Benchmark(ThisRun):
    """``{benchmark} NAME``: the table NAME of what ``make bench`` measured, kept in ``book/benchmarks.json``."""

    def text(self, name: str) -> str:
        from parity_lib.build import report

        return report.benchmark(name, Path(self.env.srcdir) / "book")


class Result(SphinxRole):
    """``{result}`claim / key / key` ``: one of the numbers behind a verdict of the run."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        from parity_lib.build import report

        self.env.note_reread()
        run, _ = folders(Path(self.env.srcdir))
        try:
            return [nodes.inline(text=report.value(run, self.text))], []
        except report.ResultsError as error:
            return [], [self.inliner.reporter.error(str(error), line=self.lineno)]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("this-run", ThisRun)
    app.add_directive("benchmark", Benchmark)
    app.add_role("result", Result())
    return {"parallel_read_safe": True, "parallel_write_safe": True}

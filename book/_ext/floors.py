"""``{floor} NAME``: the reference of every module on a floor of the package, ``core`` being the ground floor.

So the pages follow when a module is added or moved.
"""

from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

WAY = ("task", "attention", "readout", "losses", "series", "risk", "sampled_heads", "recipes", "training")


class Floor(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        import parity_lib

        name = self.arguments[0]
        folder = Path(parity_lib.__file__).parent / ("" if name == "core" else name)
        modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
        order = [module for module in WAY if module in modules] if name == "core" else []
        lines = []
        for module in [*order, *sorted(modules - set(order))]:
            place = ".".join(["parity_lib", *([] if name == "core" else [name]), module])
            title = module.replace("_", " ").capitalize()
            lines += [f"## {title}", "", "```{eval-rst}", f".. automodule:: {place}", "   :members:", "```", ""]
        self.env.note_reread()
        parent = nodes.Element()
        self.state.nested_parse(StringList(lines, source=name), self.content_offset, parent, match_titles=1)
        return parent.children


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("floor", Floor)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

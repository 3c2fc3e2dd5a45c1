"""Let the download button give the notebook as it is in the repository, without outputs, as Binder does.

Sphinx copies every page's source to ``_sources``, from where the button takes it; for a chapter that is the
executed notebook. Its outputs are on the page already: who downloads it wants to run it.
"""

import json
from pathlib import Path

from sphinx.application import Sphinx


def drop_outputs(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        for path in Path(app.outdir, "_sources").rglob("*.ipynb"):
            notebook = json.loads(path.read_text(encoding="utf-8"))
            cells = notebook["cells"]
            notebook["cells"] = [c for c in cells if "injected-parameters" not in c["metadata"].get("tags", [])]
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code":
                    cell |= {"outputs": [], "execution_count": None}
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", drop_outputs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

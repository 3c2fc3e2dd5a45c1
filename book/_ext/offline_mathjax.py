"""Put MathJax beside the pages, so that formulas appear without a network.

The package ``sphinx-mathjax-offline`` carries MathJax 3.2.2 (Apache License 2.0). Its one file for
TeX in and SVG out needs no fonts. It is copied when the build ends, because Jupyter Book would load
every script that lies in a static folder on every page.
"""

import shutil
from importlib.metadata import distribution
from pathlib import Path

from sphinx.application import Sphinx


def copy_mathjax(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        package = distribution("sphinx-mathjax-offline")
        script = package.locate_file("sphinx-mathjax-offline/static/mathjax/tex-svg-full.js")
        target = Path(app.outdir, "_static", app.config.mathjax_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(script), target)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

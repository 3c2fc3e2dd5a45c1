"""Leave out the scripts of thebe, which Jupyter Book adds to every page whether it is used or not.

They would run cells on a server of others, and they declare a constant twice, which every browser reports.
"""

from sphinx.application import Sphinx


def drop_scripts(app: Sphinx, page: str, template: str, context: dict, doctree: object) -> None:
    def of_thebe(script: object) -> bool:
        return "thebe" in f"{getattr(script, 'filename', script)} {getattr(script, 'attributes', '')}"

    context["script_files"] = [script for script in context.get("script_files", []) if not of_thebe(script)]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", drop_scripts, priority=900)  # after everything that adds a script
    return {"parallel_read_safe": True, "parallel_write_safe": True}

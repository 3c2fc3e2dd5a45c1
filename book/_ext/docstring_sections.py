"""Turn the sections of our docstrings into Sphinx fields.

A section holds ``name : what it is`` and never a type, because types stand in the signature, from
where autodoc takes them. (Napoleon would read what stands after the colon as a type.)
"""

import re

from sphinx.application import Sphinx

FIELDS = {"Parameters": "param {}", "Attributes": "ivar {}", "Raises": "raises {}"}
ENTRY = re.compile(r"(\w[\w, ]*?) : (.+)")


def to_fields(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    section = ""
    result: list[str] = []
    following = [*lines[1:], ""]
    for line, below in zip(lines, following, strict=True):
        entry = ENTRY.fullmatch(line) if section in FIELDS else None
        if re.fullmatch("-{3,}", below):
            section = line
        elif re.fullmatch("-{3,}", line):
            result += [] if section in (*FIELDS, "Returns") else [f".. rubric:: {section}", ""]
        elif entry:
            result.append(f":{FIELDS[section].format(entry[1])}: {entry[2]}")
        elif section == "Returns" and line.strip():
            result.append(f":returns: {line}")
            section = "Returned"
        elif section == "Returned" and line.strip():
            result.append(f"    {line}")
        else:
            result.append(line)
    lines[:] = [*result, ""]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", to_fields)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

# Notebooks -> executed notebooks and results -> book. `parity book` runs it under a lock, with
# --directory build/<profile>, so that every path below is relative to that folder.
import json
import os
import sys
from pathlib import Path

from parity_lib.build.runner import leave_with_parent
from parity_lib.build.workflow import library, load_profile, pages

if "PARITY_LEAVE_WITH_PARENT" in os.environ:
    leave_with_parent()

ROOT = Path(os.path.relpath(workflow.basedir))
RUNS = load_profile(ROOT, Path.cwd().name)
PYTHON = sys.executable


localrules:
    book,


wildcard_constraints:
    name="|".join(RUNS),


rule book:
    input:
        expand("src/notebooks/{name}.ipynb", name=RUNS),
        [str(ROOT / page) for page in pages(ROOT)],
        [str(path) for path in sorted((ROOT / "parity_lib").glob("*.py"))],  # the API pages
        str(ROOT / "constraints.txt"),
    output:
        "html/index.html",
    shell:
        "exec {PYTHON:q} -m parity_lib.build.workflow"


rule notebook:
    input:
        notebook=str(ROOT / "notebooks" / "{name}.ipynb"),
        library=lambda w: [str(p) for p in library(ROOT, ROOT / f"notebooks/{w.name}.ipynb")],
        versions=str(ROOT / "constraints.txt"),
        chapters=lambda w: [f"results/{n}.json" for n in RUNS if n != "ledger"] if w.name == "ledger" else [],
    output:
        "src/notebooks/{name}.ipynb",
        "results/{name}.json",
        "records/{name}.json",
    params:
        overrides=lambda w: json.dumps(RUNS[w.name], sort_keys=True),
    resources:
        mem_mb=1500,
        runtime=60,
    shell:
        "exec {PYTHON:q} -m parity_lib.build.runner {input.notebook:q} {params.overrides:q}"

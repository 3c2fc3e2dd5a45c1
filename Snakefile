# Notebooks -> executed notebooks, results and tables -> book. `parity book` runs it under a lock, with
# --directory build/<profile>, so that every path below is relative to that folder. It has taken away before what
# is not up to date: here a chapter is its record, which is written last, and what is there is not made again.
import json
import os
import re
import sys
from pathlib import Path

from parity_lib.build.runner import leave_with_parent
from parity_lib.build.workflow import load_profile

if "PARITY_LEAVE_WITH_PARENT" in os.environ:
    leave_with_parent()

ROOT = Path(os.path.relpath(workflow.basedir))
RUNS = load_profile(ROOT, Path.cwd().name)
PYTHON = sys.executable


localrules:
    book,


wildcard_constraints:
    name="|".join(map(re.escape, RUNS)),


rule book:
    input:
        expand("records/{name}.json", name=RUNS),
    output:
        "html.json",
    shell:
        "exec {PYTHON:q} -m parity_lib.build.workflow"


rule notebook:
    input:
        lambda w: [f"records/{n}.json" for n in RUNS if n != "ledger"] if w.name == "ledger" else [],
    output:
        "records/{name}.json",
    params:
        notebook=lambda w: str(ROOT / "notebooks" / f"{w.name}.ipynb"),
        overrides=lambda w: json.dumps(RUNS[w.name], sort_keys=True),
    resources:
        mem_mb=1500,
        runtime=60,
    shell:
        "exec {PYTHON:q} -m parity_lib.build.runner {params.notebook:q} {params.overrides:q}"

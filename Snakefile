# Notebooks -> executed notebooks, results and tables -> book. `parity book` runs it under a lock, with
# --directory build/<profile>, so that every path below is relative to that folder. It has taken away before what
# is not up to date: here a chapter is its record, which is written last, and what is there is not made again.
import json
import os
import sys
from pathlib import Path

from parity_lib.build.runner import leave_with_parent
from parity_lib.build.workflow import load_profile, shortest_first

if "PARITY_LEAVE_WITH_PARENT" in os.environ:
    leave_with_parent()

ROOT = Path(os.path.relpath(workflow.basedir))
RUNS = load_profile(ROOT, Path.cwd().name)
PYTHON = sys.executable


localrules:
    book,


rule book:
    input:
        expand("records/{name}.json", name=RUNS),
    output:
        "html.json",
    shell:
        "exec {PYTHON:q} -m parity_lib.build.workflow"


for place, run in enumerate(shortest_first(ROOT, RUNS)):  # the longest begin, so that none is alone at the end

    rule:
        name:
            f"chapter_{run}"
        input:
            [f"records/{other}.json" for other in RUNS if other != run] if run == "ledger" else [],
        output:
            f"records/{run}.json",
        params:
            notebook=str(ROOT / "notebooks" / f"{run}.ipynb"),
            overrides=json.dumps(RUNS[run], sort_keys=True),
        priority: place
        resources:
            mem_mb=1500,
            runtime=60,
        shell:
            "exec {PYTHON:q} -m parity_lib.build.runner {params.notebook:q} {params.overrides:q}"

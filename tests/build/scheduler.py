"""A stand-in for a cluster's scheduler: `submit` starts a job in the background and prints its number.

    python scheduler.py SPOOL submit JOBSCRIPT
    python scheduler.py SPOOL status NUMBER        # prints running, success or failed
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def submit(spool: Path, jobscript: str) -> str:
    spool.mkdir(parents=True, exist_ok=True)
    number = str(len(list(spool.glob("*.sh"))) + 1)
    kept = spool / f"{number}.sh"
    kept.write_bytes(Path(jobscript).read_bytes())  # as a scheduler does: the caller may remove its own
    job = 'sh "$0"; echo $? > "$1.part"; mv "$1.part" "$1"'
    with (spool / f"{number}.out").open("w") as out:
        command = ["sh", "-c", job, str(kept), str(spool / f"{number}.status")]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    (spool / f"{number}.pid").write_text(str(process.pid))
    return number


def status(spool: Path, number: str) -> str:
    ended = spool / f"{number}.status"
    if ended.exists():
        return "success" if ended.read_text().strip() == "0" else "failed"
    return "running" if os.path.exists(f"/proc/{(spool / f'{number}.pid').read_text()}") else "failed"


if __name__ == "__main__":
    folder, command, argument = sys.argv[1:]
    print({"submit": submit, "status": status}[command](Path(folder), argument))

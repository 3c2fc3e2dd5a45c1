"""What the build sets inside a kernel, as an extension of IPython: ``--ext=parity_lib.build.kernel``.

The runner leaves ``kernel.json`` in the working folder of the kernel. While the notebook runs, its progress stands in
``progress.json`` there, and in ``kept.json`` which expensive functions were computed and which came from the store.
"""

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from .. import evidence, progress


def load_ipython_extension(shell: Any) -> None:
    """Called by IPython when the kernel starts."""
    folder = Path.cwd()
    try:
        settings = json.loads((folder / "kernel.json").read_text(encoding="utf-8"))
    except OSError:  # not a kernel of ours
        return
    evidence.strict = settings["strict"]
    last = 0.0

    def listen(label: str, done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= 0.5:
            last = time.monotonic()
            evidence.write_json(folder / "progress.json", {"label": label, "done": done, "total": total})

    def note(*_: Any) -> None:
        store = sys.modules.get("parity_lib.chapters.store")
        lists = {name: list(getattr(store, name, [])) for name in ("computed", "reused")}
        used = {"cpu_seconds": round(sum(os.times()[:4]), 1), "peak_memory_mb": peak_memory_mb()}
        evidence.write_json(folder / "kept.json", lists | used)

    progress.listener = listen
    shell.events.register("post_run_cell", note)


def peak_memory_mb() -> int | None:
    """Largest resident memory of this process, or None where it is not counted (it is on Linux)."""
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="utf-8"))
    except OSError:
        return None
    return round(int(found[1]) / 1024) if found else None

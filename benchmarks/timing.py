"""What every benchmark shares: times taken in turns, memory of a fresh process, the machine."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from parity_lib.build.runner import commit_of, processor

MOST_ROUNDS = 1000  # a test that only wants everything to run takes fewer


def in_turns(calls: Mapping[str, Callable[[], object]], rounds: int = 9, steps: int = 3) -> dict[str, float]:
    """Median milliseconds of processor time of each call.

    A turn is one call to warm up and a block of ``steps``, as in training; the calls take turns, because the speed of a
    machine wanders. On one thread of an idle machine processor time is the time that passes.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(min(rounds, MOST_ROUNDS)):
        for name, call in calls.items():
            call()
            start = time.process_time()
            for _ in range(steps):
                call()
            times[name].append(1e3 * (time.process_time() - start) / steps)
    return {name: statistics.median(values) for name, values in times.items()}


def fresh_process(program: str) -> dict[str, float]:
    """Peak memory of a new interpreter that runs ``program``, torch included, and its processor time."""
    # Linux counts the parent's peak into ru_maxrss of a child, but starts VmHWM anew.
    tail = (
        "\nimport pathlib, re, resource, sys, time\n"
        "status = pathlib.Path('/proc/self/status')\n"
        "peak = 1024 * int(re.search(r'VmHWM:\\s+(\\d+)', status.read_text())[1]) if status.exists() "
        "else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(peak, time.process_time())"
    )
    done = subprocess.run([sys.executable, "-c", program + tail], check=True, capture_output=True, text=True)
    peak, seconds = map(float, done.stdout.split())
    return {"peak GB": peak / 1e9, "seconds": seconds}


def machine() -> dict[str, object]:
    """Where, when, and of which commit."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": commit_of(Path(__file__).parent),
    }

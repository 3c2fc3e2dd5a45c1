"""Speed, accuracy and memory of the exact risk, as ratios measured side by side in this one run.

Run it with ``make bench``; it prints a table and writes ``build/bench/engine.json``. Timings on a
shared machine wander, ratios within one run far less.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from parity_lib import EnumeratedRisk, Parity, PopulationRisk
from parity_lib.training import initial_directions

SEEDS = 32


def milliseconds(call: Callable[[], object], repeats: int) -> float:
    """Median time of ``call`` after one call to warm up."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def value_and_gradient(risk: Callable, directions: torch.Tensor) -> Callable[[], tuple]:
    """A call that computes the risk of every seed and its gradient."""
    leaf = directions.clone().requires_grad_()

    def call() -> tuple:
        value = risk(leaf)
        return value.detach(), torch.autograd.grad(value.sum(), leaf)[0]

    return call


def against_enumeration(loss: str, temperature: float, accuracy: float) -> dict:
    """n = 20, k = 3: time per seed of both risks, error of the fast one, and one plain cosine beside them."""
    task = Parity(20, (8, 11, 18))
    directions = initial_directions(range(SEEDS), 3)
    fast = PopulationRisk(task, loss, temperature, accuracy=accuracy)
    slow = EnumeratedRisk(task, loss, temperature)
    fast_call = value_and_gradient(fast, directions)
    slow_call = value_and_gradient(slow, directions[:2])
    angles = torch.rand(SEEDS, 20, fast.frequencies, dtype=torch.float64)
    fast_time = milliseconds(fast_call, 40)
    slow_time = milliseconds(slow_call, 5)
    cosine_time = milliseconds(angles.cos, 40)
    (value, gradient), (exact, exact_gradient) = fast_call(), slow_call()
    return {
        "loss": loss,
        "temperature": temperature,
        "frequencies": fast.frequencies,
        "times_faster_per_seed": (slow_time / 2) / (fast_time / SEEDS),
        "value_error": float((value[:2] - exact).abs().max()),
        "gradient_error": float((gradient[:2] - exact_gradient).abs().max()),
        "error_bound": fast.error_bound,
        "times_one_plain_cosine": fast_time / cosine_time,
        "fast_ms_per_seed": fast_time / SEEDS,
        "enumeration_ms_per_seed": slow_time / 2,
    }


def growth_with_n() -> dict:
    """Time at n = 512 and n = 4096, eight times the positions, eight seeds."""
    calls = {
        n: value_and_gradient(
            PopulationRisk(Parity(n, (8, 111, 318)), "sigmoid_hinge"), initial_directions(range(8), 3)
        )
        for n in (512, 4096)
    }
    small, large = (milliseconds(calls[n], 20) for n in (512, 4096))
    return {"ratio_4096_to_512": large / small, "ms_512": small, "ms_4096": large}


def memory_at_ten_thousand() -> dict:
    """Peak memory of a fresh process that computes value and gradient at n = 10 000, squared hinge, 8 seeds."""
    program = (
        "import resource, torch; torch.set_num_threads(1)\n"
        "from parity_lib import Parity, PopulationRisk; from parity_lib.training import initial_directions\n"
        "d = initial_directions(range(8), 3).requires_grad_()\n"
        "value = PopulationRisk(Parity(10_000, (17, 4711, 9999)), 'squared_hinge')(d)\n"
        "value.sum().backward(); assert d.grad.isfinite().all()\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    start = time.perf_counter()
    kilobytes = int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)
    return {"peak_gb": kilobytes * 1024 / 1e9, "seconds_with_start": time.perf_counter() - start}


def main() -> None:
    torch.set_num_threads(1)
    results: dict = {"enumeration": []}
    print(f"Value and gradient at n = 20, k = 3, {SEEDS} seeds, one thread, float64\n")
    columns = (
        "loss",
        "temperature",
        "frequencies",
        "times faster than enumeration",
        "value error",
        "gradient error",
        "times one plain cos",
    )
    print(" | ".join(columns))
    cases = [
        ("squared_hinge", 1 / 20, 1e-4),
        ("squared_hinge", 1.0, 1e-4),
        ("sigmoid_hinge", 1.0, 1e-12),
        ("logistic", 1.0, 1e-12),
    ]
    for case in cases:
        row = against_enumeration(*case)
        results["enumeration"].append(row)
        print(
            f"{row['loss']} | {row['temperature']:g} | {row['frequencies']} | {row['times_faster_per_seed']:.0f} | "
            f"{row['value_error']:.1e} | {row['gradient_error']:.1e} | {row['times_one_plain_cosine']:.1f}"
        )
    results["growth"] = growth_with_n()
    print(f"\nTime at n = 4096 over time at n = 512: {results['growth']['ratio_4096_to_512']:.1f}")
    results["memory"] = memory_at_ten_thousand()
    print(f"Peak memory at n = 10 000 (whole process, torch included): {results['memory']['peak_gb']:.2f} GB")
    results["own_peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    target = Path("build/bench/engine.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\n{target}")


if __name__ == "__main__":
    main()

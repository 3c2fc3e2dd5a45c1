"""The same training on a GPU and on the CPU: runs where there is a GPU, says so where there is none."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch

from parity_lib import RECIPES, Parity, PopulationRisk, train
from parity_lib.training import initial_directions

NONE = "The machine of this run has no GPU, so nothing was measured on one."


def section(sizes: dict) -> dict:
    """Rows for every device that is there, or the sentence that there is none."""
    if not torch.cuda.is_available():
        return {"device": None, "note": NONE, "rows": []}
    rows = [compare(seeds, sizes, "cuda") for seeds in sizes["growth"].get("seeds", (sizes["seeds"],))]
    return {"device": torch.cuda.get_device_name(), "note": "", "rows": rows}


def compare(seeds: int, sizes: dict, device: str) -> dict:
    """Milliseconds for one value and gradient, and for an update of training, here and there."""
    task = Parity(sizes["n"], sizes["bits"])
    risk = PopulationRisk(task, "sigmoid_hinge")
    point = initial_directions(range(seeds), task.k)
    recipe = replace(RECIPES["figure2-signed"], epochs=1, updates_per_epoch=10 * sizes["updates"])
    row: dict[str, object] = {"seeds": seeds}
    results = {}
    for name, place in (("CPU", "cpu"), ("GPU", device)):
        there = point.to(place)
        row[f"{name}, ms per gradient"] = _milliseconds(lambda there=there: risk.value_and_gradient(there), place)
        whole = _milliseconds(lambda place=place: train(task, recipe, seeds, device=place, progress=False), place, 3)
        row[f"{name}, ms per update"] = whole / recipe.updates
        results[name] = risk.value_and_gradient(there)[0].cpu()
    row["largest difference"] = float((results["CPU"] - results["GPU"]).abs().max())
    return row


def _milliseconds(call: Callable[[], object], place: str, rounds: int = 9) -> float:
    """Median time that passes, until the device has finished."""

    def wait() -> None:
        if torch.device(place).type == "cuda":
            torch.cuda.synchronize()

    call()
    times = []
    for _ in range(rounds):
        wait()
        start = time.perf_counter()
        call()
        wait()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)

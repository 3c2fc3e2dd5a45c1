"""``make bench``: measure everything, hold it against the targets, write a table, a JSON and two pictures.

Results go to ``build/bench``. With ``--keep`` they also become those of the book's page: ``book/benchmarks.json`` and
the pictures beside it. Times on a shared machine wander, ratios taken in turns far less.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import accuracy
import encoder
import engine
import gpu
import learning
import matplotlib.pyplot as plt
import pandas as pd
import torch
from timing import machine

from parity_lib.build.report import benchmark_claims, benchmark_gpu, markdown, measured, records
from parity_lib.figures.style import BLIND, SIGNAL, STATED, use_style

ROOT = Path(__file__).parents[1]
FULL = {
    "n": 20, "bits": (8, 11, 18), "seeds": 32, "long": 1000, "lengths": (512, 4096), "memory": (1000, 10_000, 100_000),
    "growth": {"n": (20, 80, 320, 1280, 5120), "k": (1, 2, 3, 4, 5, 6), "seeds": (1, 8, 32, 128, 512),
               "frequencies": (32, 128, 512, 2048, 8192)},
    "study": (64, 800), "batch": 8000, "updates": 10, "encoder": (4, 8, 12), "accuracy": 12,
}  # fmt: skip
SMALL = FULL | {
    "n": 11, "bits": (2, 5, 9), "seeds": 2, "long": 30, "lengths": (16, 32), "memory": (1000,),
    "growth": {"n": (11, 20), "k": (1, 2), "seeds": (1, 2), "frequencies": (16, 32)},
    "study": (2, 8), "batch": 50, "updates": 2, "encoder": (4,), "accuracy": 6,
}  # fmt: skip


BEFORE = 54
"""Processor minutes of the whole book before the fused loops, at the sizes of then."""


def measure(sizes: dict) -> dict:
    """Every table, and the claims that follow from them."""
    n, seeds = sizes["n"], sizes["seeds"]
    losses = (("squared_hinge", 1.0, 1e-4), ("squared_hinge", 1 / n, 1e-4), ("sigmoid_hinge", 1.0, None),
              ("logistic", 1.0, None))  # fmt: skip
    tables = {
        "figure2": learning.figure2_run(n, sizes["bits"], sizes["batch"], sizes["updates"]),
        "enumeration": [engine.against_enumeration(*setting, n, seeds) for setting in losses],
        "cosine": [engine.against_cosine(length, seeds) for length in (n, sizes["long"])],
        "growth": engine.growth(sizes["growth"]),
        "memory": [engine.memory(length) for length in sizes["memory"]],
        "update": learning.against_tokens(n, sizes["bits"], sizes["batch"], seeds, sizes["updates"]),
        "study": [learning.success_study(n, sizes["bits"], *sizes["study"])],
        "encoder": [encoder.compare(length) for length in sizes["encoder"]],
        "accuracy": accuracy.table(sizes["accuracy"]),
        "book": whole_book(ROOT / "reference"),
    }
    ratio = engine.growth_with_n(*sizes["lengths"])
    found = claims(tables, ratio, sizes)
    return {"machine": machine(), "sizes": sizes, "claims": found, "tables": tables, "gpu": gpu.section(sizes)}


def whole_book(run: Path) -> list[dict]:
    """Processor minutes of all chapters of a run, and those whose results were there before, so that they cost less."""
    found = records(run)
    here = {name for record in found.values() for name in record.computed}
    earlier = [chapter for chapter, record in found.items() if not here.issuperset(record.reused)]
    spent = sum(record.cpu_seconds or record.seconds for record in found.values()) / 60
    former = {"run": "before the fused loops", "processor minutes": float(BEFORE), "times faster": 1.0}
    now = {"run": "the reference run", "processor minutes": spent, "times faster": BEFORE / spent}
    return [former | {"computed before": "-"}, now | {"computed before": ", ".join(earlier) or "-"}]


def claims(tables: dict, ratio: float, sizes: dict) -> list[dict]:
    """What was promised, in what setting, and what was measured."""
    setting = f"n = {sizes['n']}, k = 3, {sizes['seeds']} seeds"
    found = []
    for loss, error in (("squared_hinge", 1e-6), ("sigmoid_hinge", 1e-9)):
        rows, name = [row for row in tables["enumeration"] if row["loss"] == loss], loss.replace("_", " ")
        least, most = ({key: pick(row[key] for row in rows) for key in rows[0]} for pick in (min, max))
        found += [
            (f"times faster per seed than enumeration, {name}", setting, ">=", 2000, least["times faster"]),
            (f"error of the value there, {name}", setting, "<=", error, most["value error"]),
            (f"times one plain cosine over (seeds, n, M), {name}", setting, "<=", 3, most["times one cosine"]),
        ]
    far, longest, study = tables["cosine"][-1], tables["memory"][-1], tables["study"][0]
    small, large = sizes["lengths"]
    found += [
        ("times one plain cosine over (seeds, n, M), sigmoid hinge", f"n = {far['n']}, {far['seeds']} seeds", "<=", 1.2,
         far["times one cosine"]),
        ("time at the larger n over time at the smaller", f"n = {large} and {small}, 8 seeds", "<=", 10, ratio),
        ("peak memory of the process, GB", f"n = {longest['n']}, squared hinge, 8 seeds", "<=", 2, longest["peak GB"]),
        ("seconds for a success study", "{seeds} seeds, {updates} updates".format(**study), "<=", 5, study["seconds"]),
        ("times faster, a fused step against nn.TransformerEncoder", "one encoder, the slowest length", ">=", 4,
         min(row["times faster"] for row in tables["encoder"])),
    ]  # fmt: skip
    fused = next(row for row in tables["figure2"] if row["way"] == "fused")
    found.append(("times faster than the authors' loop, one run of Figure 2", f"n = {sizes['n']}, k = 3, fused loops",
                  ">=", 20, fused["times faster"]))  # fmt: skip
    now = tables["book"][-1]
    setting = "the reference run" + (f", but for {now['computed before']}" if now["computed before"] != "-" else "")
    spent = now["processor minutes"]
    found.append(("processor minutes of the whole book, chapters added up", setting, "<=", 20, spent))
    return [dict(zip(("claim", "setting", "sense", "target", "measured"), row, strict=True)) for row in found]


def update_picture(tables: dict) -> plt.Figure:
    """One update per seed, every way there is, on one logarithmic axis."""
    ways = {"tokens": "token by token,\nDataLoader, autograd", "minibatch": "minibatches through\nposition weights",
            "exact": "exact, all inputs"}  # fmt: skip
    bars = {ways[row["way"]]: row["ms per seed"] for row in tables["update"]}
    bars["enumeration,\nall inputs"] = tables["enumeration"][2]["enumeration, ms per seed"]
    order = sorted(bars, key=lambda name: bars[name], reverse=True)
    figure, ax = plt.subplots(figsize=(6.4, 2.6))
    ax.barh(order, [bars[name] for name in order], color=[SIGNAL if "exact" in name else STATED for name in order])
    for place, name in enumerate(order):
        ax.annotate(f"{bars[name]:.3g} ms", (bars[name], place), xytext=(4, 0), textcoords="offset points", va="center")
    ax.set(xscale="log", xlabel="milliseconds per seed and update", xlim=(None, 4 * max(bars.values())))
    ax.invert_yaxis()
    return figure


def growth_picture(tables: dict) -> plt.Figure:
    """Time against n, k, seeds and M, one panel each, both precisions."""
    rows = tables["growth"]
    names = list(dict.fromkeys(row["what grows"] for row in rows))
    figure, axes = plt.subplots(2, 2, figsize=(6.4, 4.4), sharey=True)  # two by two, to be read on a phone
    for ax, name in zip(axes.flat, names, strict=True):
        these = [row for row in rows if row["what grows"] == name]
        for kind, colour, marker in (("float64", SIGNAL, "o"), ("float32", BLIND, "s")):
            times = [row[f"{kind}, ms"] for row in these]
            ax.plot([row["value"] for row in these], times, color=colour, marker=marker, label=kind)
        ax.set(xscale="linear" if name == "k" else "log", yscale="log", xlabel="M" if name == "frequencies" else name)
    figure.supylabel("value and gradient, ms", fontsize=10)
    axes[0, 0].legend()
    return figure


def write(results: dict, folder: Path) -> None:
    """The JSON and both pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "benchmarks.json").write_text(json.dumps(results, indent=1) + "\n")
    use_style()
    for name, draw in (("update", update_picture), ("growth", growth_picture)):
        figure = draw(results["tables"])
        figure.savefig(folder / f"benchmarks_{name}.png", metadata={"Software": None})
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="show these results in the book")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    results = measure(FULL)
    for folder in (ROOT / "build/bench", *([ROOT / "book"] if chosen.keep else [])):
        write(results, folder)
    for name, rows in results["tables"].items():
        print(f"\n{name}\n" + markdown(pd.DataFrame(rows).map(measured)))
    print(f"\nGPU: {results['gpu']['device'] or 'none'}\n{benchmark_gpu(results)}")
    print(f"\n{benchmark_claims(results)}")
    print(f"\n{ROOT / 'build/bench'}")


if __name__ == "__main__":
    main()

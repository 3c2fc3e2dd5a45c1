"""The exact risk: value and gradient against enumeration, against one plain cosine, growth and memory.

One thread, float64. "Value and gradient" is :meth:`parity_lib.risk.PopulationRisk.value_and_gradient`, what a
training step asks for.
"""

from __future__ import annotations

import torch
from timing import fresh_process, in_turns

from parity_lib import EnumeratedRisk, Parity, PopulationRisk
from parity_lib.training import initial_directions

BITS = (2, 5, 7, 8, 9, 11)  # the first k of them


def task_of(n: int, k: int = 3) -> Parity:
    """A parity whose bits are the same at every length."""
    return Parity(n, BITS[:k])


def against_enumeration(loss: str, temperature: float, accuracy: float | None, n: int, seeds: int) -> dict:
    """Time per seed of both risks, the fast one's error, and one plain cosine over (seeds, n, M) beside them."""
    directions = initial_directions(range(seeds), 3)
    fast = PopulationRisk(task_of(n), loss, temperature, accuracy=accuracy)
    slow = EnumeratedRisk(task_of(n), loss, temperature)
    angles = torch.rand(seeds, n, fast.frequencies, dtype=torch.float64)
    times = in_turns({"fast": lambda: fast.value_and_gradient(directions), "cosine": angles.cos}, rounds=201)
    few = directions[:4]
    times |= in_turns({"slow": lambda: slow.value_and_gradient(few)}, rounds=3, steps=1)
    (value, gradient), (exact, exact_gradient) = fast.value_and_gradient(few), slow.value_and_gradient(few)
    return {
        "loss": loss,
        "temperature": temperature,
        "frequencies": fast.frequencies,
        "microseconds per seed": 1e3 * times["fast"] / seeds,
        "enumeration, ms per seed": times["slow"] / len(few),
        "times faster": times["slow"] / len(few) / (times["fast"] / seeds),
        "times one cosine": times["fast"] / times["cosine"],
        "value error": float((value - exact).abs().max()),
        "gradient error": float((gradient - exact_gradient).abs().max()),
    }


def against_cosine(n: int, seeds: int, loss: str = "sigmoid_hinge") -> dict:
    """Time of value and gradient, and of one plain cosine over (seeds, n, M)."""
    risk, directions = PopulationRisk(task_of(n), loss), initial_directions(range(seeds), 3)
    angles = torch.rand(seeds, n, risk.frequencies, dtype=torch.float64)
    rounds = 201 if n < 100 else 21  # a second or so of each: a shorter look catches the machine in one mood
    times = in_turns({"fast": lambda: risk.value_and_gradient(directions), "cosine": angles.cos}, rounds)
    return {"n": n, "seeds": seeds, "loss": loss, "frequencies": risk.frequencies, "ms": times["fast"],
            "times one cosine": times["fast"] / times["cosine"]}  # fmt: skip


def time_of(dtype: torch.dtype, n: int = 20, k: int = 3, seeds: int = 32, frequencies: int = 128) -> float:
    """Milliseconds of value and gradient for all seeds, squared hinge."""
    risk = PopulationRisk(task_of(n, k), "squared_hinge", frequencies=frequencies)
    directions = initial_directions(range(seeds), k).to(dtype)
    return in_turns({"all": lambda: risk.value_and_gradient(directions)})["all"]


def growth(sizes: dict[str, tuple[int, ...]]) -> list[dict]:
    """Time as one quantity grows and the others stay at n = 20, k = 3, 32 seeds, M = 128."""
    return [
        {"what grows": name, "value": size, "float64, ms": time_of(torch.float64, **{name: size}),
         "float32, ms": time_of(torch.float32, **{name: size})}
        for name, values in sizes.items() for size in values
    ]  # fmt: skip


def growth_with_n(small: int, large: int) -> float:
    """How many times longer a large n takes, eight seeds, sigmoid hinge, in turns."""
    directions = initial_directions(range(8), 3)
    risks = {str(n): PopulationRisk(task_of(n), "sigmoid_hinge") for n in (small, large)}
    times = in_turns({n: lambda r=risk: r.value_and_gradient(directions) for n, risk in risks.items()})
    return times[str(large)] / times[str(small)]


def memory(n: int) -> dict:
    """Peak memory of a fresh process that computes value and gradient, squared hinge, eight seeds."""
    program = (
        "import torch; torch.set_num_threads(1)\n"
        "from parity_lib import Parity, PopulationRisk; from parity_lib.training import initial_directions\n"
        f"risk = PopulationRisk(Parity({n}, (17, 471, 999)), 'squared_hinge')\n"
        "value, gradient = risk.value_and_gradient(initial_directions(range(8), 3))\n"
        "assert value.isfinite().all() and gradient.isfinite().all()"
    )
    return {"n": n, **fresh_process(program)}

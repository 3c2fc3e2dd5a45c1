"""Training: all seeds in one tensor, on CPU or GPU, from exact gradients or minibatches."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from .attention import positional_code, soft_attention
from .checks import is_whole, known, whole
from .losses import with_slope
from .progress import track
from .recipes import RECIPES, Recipe
from .risk import Evaluation, MinibatchRisk, PopulationRisk, Risk
from .sampled_heads import ProductHeadRisk, SampledAttentionRisk
from .task import Parity, Tasks, as_tasks

MAX_SEEDS = 100_000  # at once
DIVERGED = 1e100  # a head longer than this is lost, long before its scores overflow
COMMITTED = 0.6  # attention every head must give its own bit before a run counts as committed


@dataclass(frozen=True)
class Run:
    """A finished training run of many seeds; one frame per epoch, the start included."""

    tasks: tuple[Parity, ...]
    """One task for all seeds, or one per seed."""
    recipe: Recipe
    seeds: tuple[int, ...]
    directions: Tensor = field(repr=False)
    """(frames, seeds, heads, 2)"""
    risk: Tensor = field(repr=False)
    """(frames, seeds): exact population risk in the recipe's own loss, whatever the data."""

    @property
    def task(self) -> Parity:
        """The task, where all seeds share one."""
        if len(self.tasks) > 1:
            raise ValueError("this run has one task per seed; use run.tasks")
        return self.tasks[0]

    @cached_property
    def attention(self) -> Tensor:
        """The attention the model used, at the recipe's own temperature: (frames, seeds, heads, n)."""
        n = self.tasks[0].n
        return soft_attention(self.directions, n, self.recipe.temperature_at(n), self.recipe.code)

    @cached_property
    def recovered(self) -> Tensor:
        """Hard success at the end: the heads' arg-max positions are exactly B, (seeds,)."""
        return recovered(self.attention[-1], self.tasks)

    @cached_property
    def committed(self) -> Tensor:
        """Hard success, and every head gives its position more than 0.6, (seeds,)."""
        return committed(self.attention[-1], self.tasks)


def recovered(attention: Tensor, tasks: Sequence[Parity]) -> Tensor:
    """Every head reads a bit of B by arg-max, and every bit is read: (..., seeds, heads, n) -> (..., seeds)."""
    bits = torch.tensor([task.indices for task in tasks], device=attention.device)
    hits = attention.argmax(-1).unsqueeze(-1) == bits.unsqueeze(-2)  # (..., seeds, heads, k)
    return hits.any(-1).all(-1) & hits.any(-2).all(-1)


def committed(attention: Tensor, tasks: Sequence[Parity]) -> Tensor:
    """:func:`recovered`, and every head gives its position more than 0.6."""
    return recovered(attention, tasks) & (attention.amax(-1) > COMMITTED).all(-1)


def train(
    task: Tasks, recipe: Recipe | str, seeds: int | Iterable[int] = 1, *,
    heads: int | None = None, device: str = "auto", dtype: torch.dtype = torch.float64, progress: bool = True,
) -> Run:  # fmt: skip
    r"""Train heads from the paper's random start, every seed in the same tensor.

    Each seed draws :math:`\omega_i \sim U[0, 2\pi]` and starts head i at :math:`(\cos\omega_i, \sin\omega_i)`; its
    minibatches are its own too, so a seed gives the same run whichever others it is trained with, and where.

    Parameters
    ----------
    task : a parity for all seeds, or one per seed (equal n and k).
    recipe : a :class:`parity_lib.recipes.Recipe`, or its name.
    seeds : how many (0, 1, ...), or which.
    heads : number of heads, k by default.
    device : ``auto`` (a GPU if there is one), ``cpu``, ``cuda`` or ``cuda:1`` and so on.
    dtype : ``torch.float64``, or ``torch.float32`` (the page ``exact_risk`` has its errors).
    """
    recipe = recipe if isinstance(recipe, Recipe) else RECIPES[known(recipe, RECIPES, f"recipe {recipe!r}")]
    place, tasks, seeds = resolve_device(device), as_tasks(task), seed_list(seeds)
    distinct = len(set(zip(tasks * max(1, len(seeds) // len(tasks)), seeds, strict=False)))  # no run counts twice
    if len(tasks) not in (1, len(seeds)) or distinct < len(seeds):
        raise ValueError(f"give one task, or one per seed ({len(seeds)}), got {len(tasks)}, {distinct} distinct runs")
    heads = tasks[0].k if heads is None else whole(heads, "heads", 1)
    known(str(dtype), ("torch.float64", "torch.float32"), f"dtype {dtype!r}")
    with one_thread_per_process():
        objective = exact = risk_of(tasks, recipe)
        if recipe.batch is not None:
            objective = risk_of(tasks, recipe, [torch.Generator().manual_seed(2**32 + seed) for seed in seeds])
        point = initial_directions(seeds, heads, tasks[0].n, recipe.code).to(place, dtype)
        step = adam(recipe.learning_rate) if recipe.optimiser == "adam" else lambda g: recipe.learning_rate * g
        frames, risks = [point.clone()], [exact(point)]

        def evaluate(directions: Tensor) -> tuple[Tensor, Tensor]:
            value, gradient = objective.value_and_gradient(directions)
            return value, 2 * value[:, None, None] * gradient if recipe.square_of_mean else gradient

        for update, _ in enumerate(descent(evaluate, point, step, recipe.updates, recipe.name, progress), 1):
            if update % recipe.updates_per_epoch == 0:  # only here, so that a GPU need not wait at every step
                if not point.abs().amax() < DIVERGED:
                    advice = f"try a smaller learning rate than {recipe.learning_rate}"
                    raise FloatingPointError(f"training with {recipe.name} diverged before update {update}; {advice}")
                frames.append(point.clone())
                risks.append(exact(point))
    risk = torch.stack(risks).cpu()
    return Run(tasks, recipe, seeds, torch.stack(frames).cpu(), risk**2 if recipe.square_of_mean else risk)


def minimise(
    objective: Callable[[Tensor], Tensor], start: Tensor, updates: int, learning_rate: float, label: str,
    progress: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Adam on any objective (rows, ...) -> (rows,): what the rows become, and their risk, (updates + 1, rows)."""
    point, evaluate = start.detach().clone(), partial(with_slope, objective)
    with one_thread_per_process(), torch.no_grad():
        history = list(descent(evaluate, point, adam(learning_rate), updates, label, progress))
        return point, torch.stack([*history, objective(point)])


def descent(
    evaluate: Evaluation, point: Tensor, step: Callable[[Tensor], Tensor], updates: int, label: str, progress: bool
) -> Iterator[Tensor]:
    """The one training loop: moves ``point`` in place, and yields its value before each update, (rows,)."""
    for _ in track(updates, label, progress):
        value, gradient = evaluate(point)
        point -= step(gradient)
        yield value


def adam(rate: float, decay: tuple[float, float] = (0.9, 0.999), floor: float = 1e-8) -> Callable[[Tensor], Tensor]:
    """Adam with torch's defaults: gradient -> step. The first optimiser that torch makes takes seconds to load."""
    count, mean, square = 0, torch.zeros(()), torch.zeros(())

    def step(gradient: Tensor) -> Tensor:
        nonlocal count, mean, square
        if count == 0:
            mean, square = torch.zeros_like(gradient), torch.zeros_like(gradient)
        count += 1
        mean.mul_(decay[0]).add_(gradient, alpha=1 - decay[0])
        square.mul_(decay[1]).addcmul_(gradient, gradient, value=1 - decay[1])
        scale = (square / (1 - decay[1] ** count)).sqrt_().add_(floor)
        return (mean / scale).mul_(rate / (1 - decay[0] ** count))

    return step


def risk_of(tasks: Sequence[Parity], recipe: Recipe, generators: Sequence[torch.Generator] = ()) -> Risk:
    """What a recipe minimises: on minibatches from a generator per seed, or exactly, as if batches were infinite."""
    temperature, own = recipe.temperature_at(tasks[0].n), recipe.head if callable(recipe.head) else None
    data: dict[str, Any] = {"batch": recipe.batch, "cube_share": recipe.cube_share, "generators": generators}
    if recipe.head == "product" and generators:
        return ProductHeadRisk(tasks, temperature, recipe.code, **data)
    if recipe.head in ("sampled", "product"):
        return SampledAttentionRisk(tasks, str(recipe.loss), temperature, recipe.code)
    setting = (tasks, recipe.loss, temperature, recipe.smoothing, recipe.code)
    if generators:
        return MinibatchRisk(*setting, readout=own, **data)
    return PopulationRisk(*setting, readout=own, accuracy=recipe.accuracy)


def initial_directions(seeds: Sequence[int], heads: int, n: int = 0, code: str = "circle") -> Tensor:
    """The paper's start, unit vectors at uniform angles: (seeds, heads, 2); a pair per frequency of ``code``."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    angle = 2 * math.pi * torch.stack([torch.rand(heads, generator=g, dtype=torch.float64) for g in generators])
    if code == "circle":
        return torch.stack([angle.cos(), angle.sin()], dim=-1)
    width = positional_code(n, code).shape[1]
    gaussian = torch.stack([torch.randn(heads, width, generator=g, dtype=torch.float64) for g in generators])
    return gaussian / gaussian.norm(dim=-1, keepdim=True)


def resolve_device(device: str) -> torch.device:
    """The torch device called ``device``; a ValueError says so when it is not there."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, index = str(device).partition(":")
    if kind not in ("cpu", "cuda") or not (index or "0").isdecimal():
        raise ValueError(f"device must be auto, cpu, cuda or cuda:N, got {device!r}")
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {device!r} is not there: torch sees {torch.cuda.device_count()} GPUs")
    return torch.device(device)


@contextmanager
def one_thread_per_process() -> Iterator[None]:
    """Torch, and the BLAS of numpy and numba: small products are up to fifty times slower on more, with other bytes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)


def seed_list(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """Seeds as a tuple: 0, 1, ... for a count, or those that are listed."""
    try:
        chosen = range(whole(seeds, "seeds", 1, MAX_SEEDS)) if is_whole(seeds) else seeds
        found = tuple(whole(seed, "seed", 0, 2**32 - 1) for seed in chosen)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        found = ()
    if not 1 <= len(found) <= MAX_SEEDS:
        allowed = f"a count in 1..{MAX_SEEDS} or a list of whole numbers in 0..2^32 - 1"
        raise ValueError(f"seeds must be {allowed}, got {seeds!r}")
    return found

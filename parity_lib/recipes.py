"""Training recipes by name: what the paper states, what its public code runs, and what lies between.

The settings named after the code are facts read from the first author's public repository
(Maxcharm/Parity-Learning-Transformer; commit 02f7d59 of November 2024 and its state of May 2025).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .attention import check_temperature
from .losses import find_loss
from .readout import check_smoothing
from .task import is_whole

HEADS = ("zigzag", "sampled", "product")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training run, apart from the task and the seed."""

    name: str
    about: str
    loss: str
    optimiser: str
    """``adam`` (torch's defaults apart from the rate) or ``gd``, plain gradient descent."""
    learning_rate: float
    head: str = "zigzag"
    """``zigzag`` (the paper's), ``sampled`` (heads sample a position) or ``product``; see sampled_heads."""
    code: str = "circle"
    """Positional code, see :func:`parity_lib.attention.positional_code`."""
    temperature: float = 1.0
    temperature_power: int = 0
    """The softmax runs at temperature * n ** temperature_power."""
    smoothing: float = 1e-2
    accuracy: float | None = None
    """Bound on the error of the exact risk; None is the default of PopulationRisk."""
    batch: int | None = None
    """Examples per update; None is the exact gradient of the population risk."""
    cube_share: float | None = None
    """With a batch: the share of all 2^n inputs that is the training set; None draws fresh inputs."""
    square_of_mean: bool = False
    """Minimise the square of the mean loss instead of the mean loss."""
    epochs: int = 30
    updates_per_epoch: int = 105

    def __post_init__(self) -> None:
        if self.head not in HEADS:
            raise ValueError(f"head must be one of {', '.join(HEADS)}, got {self.head!r}")
        if self.head == "zigzag":
            find_loss(self.loss)
        if (self.head == "product") != (self.batch is not None) and self.head != "zigzag":
            raise ValueError("the product head trains on batches, the sampled head on exact gradients")
        check_smoothing(self.smoothing)
        check_temperature(self.temperature)
        if self.optimiser not in ("adam", "gd"):
            raise ValueError(f"optimiser must be adam or gd, got {self.optimiser!r}")
        if not isinstance(self.learning_rate, int | float) or not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate must be a positive finite number, got {self.learning_rate!r}")
        for name in ("epochs", "updates_per_epoch"):
            if not is_whole(getattr(self, name)) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {getattr(self, name)!r}")

        if self.batch is not None and (not is_whole(self.batch) or self.batch < 1):
            raise ValueError(f"batch must be a whole number of at least 1, or None, got {self.batch!r}")
        if not is_whole(self.temperature_power) or abs(self.temperature_power) > 4:
            raise ValueError(f"temperature_power must be a whole number in -4..4, got {self.temperature_power!r}")

    @property
    def updates(self) -> int:
        """Number of updates in the whole run."""
        return self.epochs * self.updates_per_epoch

    def temperature_at(self, n: int) -> float:
        """The softmax temperature on n positions."""
        return self.temperature * n**self.temperature_power


# 105 updates an epoch is 80 % of the 2^20 inputs in batches of 8000; every recipe of the paper and its
# code gets the same number of updates, so that none fails for want of steps.
def budget(updates: int, epochs: int) -> dict[str, int]:
    """Settings of a recipe for so many updates, rounded up to epochs of equal length, at most ``epochs`` of them."""
    each = -(-updates // epochs)
    return {"epochs": -(-updates // each), "updates_per_epoch": each}


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="theory",
            about="Theorem 5 as stated: squared hinge, temperature 1/n, full-batch gradient descent",
            loss="squared_hinge",
            optimiser="gd",
            learning_rate=0.1,
            temperature_power=-1,
            accuracy=1e-4,
        ),
        Recipe(
            name="figure2",
            about="the public code of November 2024: unsquared hinge of a sigmoid on the {0, 1} scale, minibatches",
            loss="sigmoid_hinge_01",
            optimiser="adam",
            learning_rate=0.08,
            smoothing=0.0,
            batch=8000,
            cube_share=0.8,
        ),
        Recipe(
            name="figure2-population",
            about="the same loss without sampling noise: exact population gradients",
            loss="sigmoid_hinge_01",
            optimiser="adam",
            learning_rate=0.08,
            smoothing=1e-3,
        ),
        Recipe(
            name="figure2-signed",
            about="the code's loss on the paper's own scale, labels and head in +-1, exact gradients",
            loss="sigmoid_hinge",
            optimiser="adam",
            learning_rate=0.08,
        ),
        Recipe(
            name="later-code",
            about="the public code of May 2025: the square of the mean hinge, temperature n/4, large batches",
            loss="hinge",
            optimiser="adam",
            learning_rate=0.1,
            temperature=0.25,
            temperature_power=1,
            smoothing=0.0,
            batch=80_000,
            square_of_mean=True,
        ),
        Recipe(
            name="repaired",
            about="the repair: every head samples one position; minus the logarithm of the permanent, exact gradients",
            loss="log",
            head="sampled",
            optimiser="adam",
            learning_rate=0.3,
            updates_per_epoch=50,
        ),
        Recipe(
            name="product-head",
            about="the same expectation from minibatches: the product of (1 - 2 v_i) instead of the zigzag",
            loss="linear",
            head="product",
            optimiser="adam",
            learning_rate=0.08,
            batch=2000,
            updates_per_epoch=50,
        ),
    )
}


def find_recipe(name: str) -> Recipe:
    """The recipe called ``name``; an unknown name is a ValueError that lists the known ones."""
    if not isinstance(name, str) or name not in RECIPES:
        raise ValueError(f"unknown recipe {name!r}; known: {', '.join(RECIPES)}")
    return RECIPES[name]

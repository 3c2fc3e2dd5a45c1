"""Training recipes by name: what the paper states, what its public code runs, and what lies between.

The settings named after the code are facts read from the first author's public repository
(Maxcharm/Parity-Learning-Transformer; commit 02f7d59 of November 2024 and its state of May 2025).
"""

from __future__ import annotations

from dataclasses import dataclass

from .attention import check_code, check_temperature
from .losses import Function, checked, find_loss
from .readout import ReadOut, check_smoothing
from .sampled_heads import check_sampled_loss
from .task import number, whole

HEADS = ("zigzag", "sampled", "product")
MAX_UPDATES, MAX_BATCH = 10**7, 10**8


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training run, apart from the task and the seed."""

    name: str
    about: str
    loss: str | Function
    """A name, or any function f(label, prediction) of tensors."""
    optimiser: str
    """``adam`` (torch's defaults apart from the rate) or ``gd``, plain gradient descent."""
    learning_rate: float
    head: str | ReadOut = "zigzag"
    """``zigzag`` (the paper's), ``sampled`` (heads sample a position), ``product`` (see sampled_heads), or any
    function f(s, k) that reads the sum S of averaging heads."""
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
        if callable(self.head):
            checked(self.head, "head", "f(s, k)", 1)
        elif self.head not in HEADS:
            raise ValueError(f"head must be one of {', '.join(HEADS)} or a function f(s, k), got {self.head!r}")
        if self.head == "sampled":
            check_sampled_loss(self.loss)
        elif self.head == "product" and self.loss != "linear":
            raise ValueError(f"the product head minimises the linear loss, got {self.loss!r}")
        else:
            find_loss(self.loss)
        if {"sampled": self.batch is not None, "product": self.batch is None}.get(str(self.head)):
            raise ValueError("the product head trains on batches, the sampled head on exact gradients")
        if self.optimiser not in ("adam", "gd"):
            raise ValueError(f"optimiser must be adam or gd, got {self.optimiser!r}")
        if not isinstance(self.square_of_mean, bool):
            raise ValueError(f"square_of_mean must be True or False, got {self.square_of_mean!r}")
        if self.cube_share is not None and (self.batch is None or number(self.cube_share, "cube_share") > 1):
            raise ValueError(f"cube_share must be in (0, 1] and goes with a batch, got {self.cube_share!r}")
        check_code(self.code)
        plain = {
            "learning_rate": number(self.learning_rate, "learning_rate"),
            "temperature": check_temperature(self.temperature),
            "temperature_power": whole(self.temperature_power, "temperature_power", -4, 4),
            "smoothing": check_smoothing(self.smoothing),
            "accuracy": None if self.accuracy is None else number(self.accuracy, "accuracy"),
            "batch": None if self.batch is None else whole(self.batch, "batch", 1, MAX_BATCH),
            "epochs": whole(self.epochs, "epochs", 1),
            "updates_per_epoch": whole(self.updates_per_epoch, "updates_per_epoch", 1),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        if self.updates > MAX_UPDATES:
            raise ValueError(f"a recipe must have at most {MAX_UPDATES} updates, got {self.updates}")

    @property
    def updates(self) -> int:
        """Number of updates in the whole run."""
        return self.epochs * self.updates_per_epoch

    def temperature_at(self, n: int) -> float:
        """The softmax temperature on n positions."""
        return self.temperature * n**self.temperature_power


def budget(updates: int, epochs: int) -> dict[str, int]:
    """Settings of a recipe for so many updates, rounded up to epochs of equal length, at most ``epochs`` of them."""
    each = -(-updates // epochs)
    return {"epochs": -(-updates // each), "updates_per_epoch": each}


# 105 updates an epoch is 80 % of the 2^20 inputs in batches of 8000; every recipe of the paper and its
# code gets the same number of updates, so that none fails for want of steps.
_ALL = (
    Recipe("theory", "Theorem 5 as stated: squared hinge, temperature 1/n, full-batch gradient descent",
           "squared_hinge", "gd", 0.1, temperature_power=-1, accuracy=1e-4),
    Recipe("figure2",
           "the public code of November 2024: unsquared hinge of a sigmoid on the {0, 1} scale, minibatches",
           "sigmoid_hinge_01", "adam", 0.08, smoothing=0.0, batch=8000, cube_share=0.8),
    Recipe("figure2-population", "the same loss without sampling noise: exact population gradients",
           "sigmoid_hinge_01", "adam", 0.08, smoothing=1e-3),
    Recipe("figure2-signed", "the code's loss on the paper's own scale, labels and head in +-1, exact gradients",
           "sigmoid_hinge", "adam", 0.08),
    Recipe("later-code", "the public code of May 2025: the square of the mean hinge, temperature n/4, large batches",
           "hinge", "adam", 0.1, temperature=0.25, temperature_power=1, smoothing=0.0, batch=80_000,
           square_of_mean=True),
    Recipe("repaired",
           "the repair: every head samples one position; minus the logarithm of the permanent, exact gradients",
           "log", "adam", 0.3, head="sampled", updates_per_epoch=50),
    Recipe("product-head",
           "the same expectation from minibatches: the product of (1 - 2 v_i) instead of the zigzag",
           "linear", "adam", 0.08, head="product", batch=2000, updates_per_epoch=50),
)  # fmt: skip
RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _ALL}
"""Every recipe by its name."""


def find_recipe(name: str) -> Recipe:
    """The recipe called ``name``; an unknown name is a ValueError that lists the known ones."""
    if not isinstance(name, str) or name not in RECIPES:
        raise ValueError(f"unknown recipe {name!r}; known: {', '.join(RECIPES)}")
    return RECIPES[name]

"""Training recipes by name: what the paper states, what its public code runs, and what lies between.

The settings named after the code are facts read from the first author's public repository
(Maxcharm/Parity-Learning-Transformer; commit 02f7d59 of November 2024 and its state of May 2025).
"""

from dataclasses import dataclass
from typing import Any

from .attention import CODES
from .checks import known, number, whole
from .losses import Function, checked, find_loss
from .readout import ReadOut
from .sampled_heads import SAMPLED_LOSSES

HEADS = ("zigzag", "sampled", "product")
MAX_UPDATES = 10**7
NUMBERS: tuple[tuple[Any, ...], ...] = (
    ("learning_rate", number), ("temperature", number), ("smoothing", number, True), ("accuracy", number),
    ("temperature_power", whole, -4, 4), ("batch", whole, 1, 10**8), ("cube_share", number),
    ("epochs", whole, 1), ("updates_per_epoch", whole, 1),
)  # fmt: skip
"""The settings of a recipe that are numbers: their check and its limits."""


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
    """Wanted error of the exact risk, by estimate; None is the default of PopulationRisk."""
    batch: int | None = None
    """Examples per update; None is the exact gradient of the population risk."""
    cube_share: float | None = None
    """With a batch: the share of all 2^n inputs that is the training set; None draws fresh inputs."""
    square_of_mean: bool = False
    """Minimise the square of the mean loss instead of the mean loss."""
    epochs: int = 30
    updates_per_epoch: int = 105

    def __post_init__(self) -> None:
        for name, check, *limits in NUMBERS:
            if (given := getattr(self, name)) is not getattr(type(self), name, ...):  # a default needs no check
                object.__setattr__(self, name, check(given, name, *limits))
        known(self.code, CODES, f"positional code {self.code!r}")
        known(self.optimiser, ("adam", "gd"), f"optimiser {self.optimiser!r}")
        if callable(self.head):
            checked(self.head, "head", "f(s, k)", 1)
        else:
            known(self.head, HEADS, f"head {self.head!r}, which is no function f(s, k) either")
        if self.head == "sampled":
            known(self.loss, SAMPLED_LOSSES, f"loss {self.loss!r} for sampled attention")
        elif self.head != "product":
            find_loss(self.loss)
        elif self.loss != "linear":
            raise ValueError(f"the product head minimises the linear loss, got {self.loss!r}")
        if self.head in ("sampled", "product") and (self.head == "product") == (self.batch is None):
            raise ValueError("the product head trains on batches, the sampled head on exact gradients")
        if not isinstance(self.square_of_mean, bool):
            raise ValueError(f"square_of_mean must be True or False, got {self.square_of_mean!r}")
        if self.cube_share is not None and (self.batch is None or self.cube_share > 1):
            raise ValueError(f"cube_share must be in (0, 1] and goes with a batch, got {self.cube_share!r}")
        if self.updates > MAX_UPDATES:
            raise ValueError(f"a recipe must have at most {MAX_UPDATES} updates, got {self.updates}")

    @property
    def updates(self) -> int:
        """Number of updates in the whole run."""
        return self.epochs * self.updates_per_epoch

    def temperature_at(self, n: int) -> float:
        """The softmax temperature on n positions."""
        return self.temperature * n**self.temperature_power


def budget(updates: int, epochs: int) -> dict[str, Any]:
    """Settings of a recipe for so many updates, rounded up to epochs of equal length, at most ``epochs`` of them."""
    each = -(-updates // epochs)
    return {"epochs": -(-updates // each), "updates_per_epoch": each}


# 105 updates an epoch is 80 % of the 2^20 inputs in batches of 8000; every recipe of the paper and its
# code gets the same number of updates, so that none fails for want of steps.
_ALL = (
    Recipe("theory", "Theorem 5 as stated: squared hinge, temperature 1/n, full-batch gradient descent",
           "squared_hinge", "gd", 0.1, temperature_power=-1, accuracy=1e-4),
    Recipe("figure2", "the public code of November 2024: unsquared hinge of a sigmoid on the {0, 1} scale, minibatches",
           "sigmoid_hinge_01", "adam", 0.08, smoothing=0.0, batch=8000, cube_share=0.8),
    Recipe("figure2-population", "the same loss without sampling noise: exact population gradients",
           "sigmoid_hinge_01", "adam", 0.08, smoothing=1e-3),
    Recipe("figure2-signed", "the code's loss on the paper's own scale, labels and head in +-1, exact gradients",
           "sigmoid_hinge", "adam", 0.08),
    Recipe("later-code", "the public code of May 2025: the square of the mean hinge, temperature n/4, large batches",
           "hinge", "adam", 0.1, temperature=0.25, temperature_power=1, smoothing=0.0, batch=80_000,
           square_of_mean=True),
    Recipe("repaired", "the repair: heads that sample a position; minus the logarithm of the permanent, exactly",
           "log", "adam", 0.3, head="sampled", updates_per_epoch=50),
    Recipe("product-head", "the same expectation from minibatches: the product of (1 - 2 v_i) instead of the zigzag",
           "linear", "adam", 0.08, head="product", batch=2000, updates_per_epoch=50),
)  # fmt: skip
RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _ALL}
"""Every recipe by its name."""

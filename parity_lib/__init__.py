"""Learning parity with attention: a small, exact torch core behind the book.

The way of the data is one line::

    task -> model -> risk -> training -> evidence -> plots -> notebook -> book

>>> from parity_lib import Parity, PopulationRisk, train, RECIPES
>>> task = Parity(n=20, bits=(8, 11, 18))
>>> run = train(task, RECIPES["figure2-signed"], seeds=64)
>>> run.recovered.sum()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> module that defines it. Loaded on first use, so that the command line starts
# without importing torch, and read by the workflow to find out which chapter needs which module.
_EXPORTS = {
    "Parity": "task",
    "soft_attention": "attention",
    "hard_attention": "attention",
    "literal_prediction": "attention",
    "positional_code": "attention",
    "zigzag": "readout",
    "FFNN1": "readout",
    "LOSSES": "losses",
    "PopulationRisk": "risk",
    "EnumeratedRisk": "risk",
    "SampledRisk": "risk",
    "SampledAttentionRisk": "sampled_heads",
    "Recipe": "recipes",
    "RECIPES": "recipes",
    "train": "training",
    "Run": "training",
    "wilson": "evidence",
    "record": "evidence",
}

__all__ = ["__version__", *_EXPORTS]

if TYPE_CHECKING:
    from .attention import hard_attention, literal_prediction, positional_code, soft_attention
    from .evidence import record, wilson
    from .losses import LOSSES
    from .task import Parity
    from .readout import FFNN1, zigzag
    from .recipes import RECIPES, Recipe
    from .risk import EnumeratedRisk, PopulationRisk, SampledRisk
    from .sampled_heads import SampledAttentionRisk
    from .training import Run, train


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

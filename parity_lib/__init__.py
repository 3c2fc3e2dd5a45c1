"""Learning parity with attention: a small, exact torch core behind the book.

>>> from parity_lib import Parity, PopulationRisk, train, RECIPES
>>> task = Parity(n=20, bits=(8, 11, 18))
>>> run = train(task, RECIPES["figure2-signed"], seeds=64)
>>> run.recovered.sum()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .attention import hard_attention, literal_prediction, positional_code, soft_attention
    from .evidence import record, tell, wilson
    from .losses import LOSSES
    from .readout import FFNN1, zigzag
    from .recipes import RECIPES, Recipe
    from .risk import EnumeratedRisk, MinibatchRisk, PopulationRisk
    from .sampled_heads import SampledAttentionRisk
    from .task import Parity
    from .training import Run, train

__version__ = "0.2.0"
__all__ = [
    "FFNN1", "LOSSES", "RECIPES", "EnumeratedRisk", "MinibatchRisk", "Parity", "PopulationRisk", "Recipe", "Run",
    "SampledAttentionRisk", "hard_attention", "literal_prediction", "positional_code", "record",
    "soft_attention", "tell", "train", "wilson", "zigzag",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Public names load at their first use (PEP 562): the command line need not wait for torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    homes = ("evidence", "task", "attention", "readout", "losses", "risk", "sampled_heads", "recipes", "training")
    modules = (import_module(f".{home}", __name__) for home in homes)  # one after the other, until one has it
    return next(getattr(module, name) for module in modules if hasattr(module, name))

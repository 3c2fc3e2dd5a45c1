"""Learning parity with attention: a small, exact torch core behind the book.

The way of the data is one line::

    task -> model -> risk -> training -> chapters (frames, verdicts) -> figures -> notebook -> book

>>> from parity_lib import Parity, PopulationRisk, train, RECIPES
>>> task = Parity(n=20, bits=(8, 11, 18))
>>> run = train(task, RECIPES["figure2-signed"], seeds=64)
>>> run.recovered.sum()
"""

from .attention import hard_attention, literal_prediction, positional_code, soft_attention
from .evidence import record, tell, wilson
from .losses import LOSSES
from .readout import FFNN1, zigzag
from .recipes import RECIPES, Recipe
from .risk import EnumeratedRisk, MinibatchRisk, PopulationRisk
from .risk import MinibatchRisk as SampledRisk  # its former name
from .sampled_heads import SampledAttentionRisk
from .task import Parity
from .training import Run, train

__version__ = "0.2.0"
__all__ = [
    "FFNN1", "LOSSES", "RECIPES", "EnumeratedRisk", "MinibatchRisk", "Parity", "PopulationRisk", "Recipe", "Run",
    "SampledAttentionRisk", "SampledRisk", "hard_attention", "literal_prediction", "positional_code", "record",
    "soft_attention", "tell", "train", "wilson", "zigzag",
]  # fmt: skip

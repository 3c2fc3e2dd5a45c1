r"""Other functions of k hidden bits, with the same heads and a read-out fitted to them.

Heads of position-only attention read :math:`v_i = \gamma^{(i)} \cdot x`. A linear read-out over fixed
features :math:`\phi(v)` is fitted by least squares at every step, in closed form, so what is minimised over
the heads is the share of the target's variance that no such read-out explains,

.. math:: R(a) = \min_w E\,(f(x_B) - w \cdot \phi(v))^2, \qquad E f = 0,\ E f^2 = 1,

over all :math:`2^n` inputs. Chapter ``robustness`` asks which functions are found that way.
"""

from collections.abc import Callable, Sequence
from itertools import combinations, product

import pandas as pd
import torch
from torch import Tensor

from ..attention import soft_attention
from ..task import Parity
from ..training import initial_directions, minimise
from .robustness import mixed_sets, right_by_weights
from .store import kept

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    # Each takes the bits of B, (inputs, k) in {0, 1}.
    "AND": lambda bits: bits.prod(-1),
    "majority": lambda bits: (bits.sum(-1) > bits.shape[-1] / 2).to(bits.dtype),
    "polynomial": lambda bits: (1 - 2 * bits[:, :-1]).prod(-1) + (1 - 2 * bits[:, -1]),
    "parity": lambda bits: (1 - 2 * bits).prod(-1),
}
READOUTS = ("sum", "products")
RIDGE = 1e-6  # of the least squares: features that no input excites yet stay harmless


def target(name: str, task: Parity, x: Tensor) -> Tensor:
    """The function ``name`` of the bits of ``task``, with mean 0 and variance 1 over the inputs, (inputs,)."""
    values = FUNCTIONS[name](x[:, list(task.indices)])
    centred = values - values.mean()
    return centred / centred.square().mean().sqrt()


def features(read: Tensor, readout: str) -> Tensor:
    r"""What the fitted read-out may combine: read v (..., heads) -> (..., features).

    ``sum`` sees only :math:`s = \sum_i v_i`, as the paper's FFNN does, through hat functions at 0, 1/2, ..., heads.
    ``products`` sees every product of factors :math:`1 - 2 v_i`.
    """
    heads = read.shape[-1]
    if readout == "sum":
        knots = torch.arange(2 * heads + 1, dtype=read.dtype) / 2
        return (1 - 2 * (read.sum(-1, keepdim=True) - knots).abs()).relu()
    signs = 1 - 2 * read
    subsets = [list(s) for size in range(heads + 1) for s in combinations(range(heads), size)]
    return torch.stack([signs[..., s].prod(-1) for s in subsets], dim=-1)


def unexplained(attention: Tensor, x: Tensor, targets: Tensor, readout: str) -> Tensor:
    """Share of variance the best read-out leaves: attention (rows, heads, n), targets (rows, inputs) -> (rows,)."""
    phi = features((attention @ x.T).transpose(1, 2), readout)  # (rows, inputs, features)
    gram = phi.transpose(1, 2) @ phi / len(x)
    moments = (phi.transpose(1, 2) @ targets.unsqueeze(-1)) / len(x)
    weights = torch.linalg.solve(gram + RIDGE * torch.eye(gram.shape[-1], dtype=gram.dtype), moments)
    return targets.square().mean(-1) - (moments * weights).sum((-1, -2))


@kept
def other_functions(n: int, pairs: int, updates: int) -> pd.DataFrame:
    """Every function with every read-out, averaging heads, Adam on all 2^n inputs at temperature 1.

    One row per run: ``function``, ``readout``, ``seed``, ``unexplained`` (share of variance at the end), ``learned``
    (less than 5 % of it) and ``by_weights`` (the three largest summed attentions are B). Half of the sets of three
    bits have neighbours.
    """
    tasks = mixed_sets(n, 3, pairs, seed=71)
    parts = []
    for name, readout in product(FUNCTIONS, READOUTS):
        attention, left = train_sparse(name, tasks, readout, updates)
        columns = {"function": name, "readout": readout, "seed": range(pairs), "unexplained": left}
        parts.append(pd.DataFrame(columns | {"learned": left < 0.05, "by_weights": right_by_weights(attention, tasks)}))
    return pd.concat(parts, ignore_index=True)


def train_sparse(name: str, tasks: Sequence[Parity], readout: str, updates: int) -> tuple[Tensor, Tensor]:
    """Adam on the unexplained variance, one set of bits per start: attention (rows, k, n), share left (rows,)."""
    n, k = tasks[0].n, tasks[0].k
    x = tasks[0].cube()
    targets = torch.stack([target(name, task, x) for task in tasks])

    def left(directions: Tensor) -> Tensor:
        return unexplained(soft_attention(directions, n, 1.0), x, targets, readout)

    start = initial_directions(range(len(tasks)), k)
    directions, history = minimise(left, start, updates, 0.1, f"{name}, {readout}")
    return soft_attention(directions, n, 1.0), history[-1]

"""The model, and what it can express (paper, sections 2.2 and 3: eq. 2, Proposition 3)."""

import math
from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ..attention import aligned_directions, embed, head_matrices, literal_prediction, position_weights, soft_attention
from ..evidence import Verdict
from ..losses import LOSSES
from ..readout import FFNN1, zigzag, zigzag_weights
from ..risk import PopulationRisk, aligned_hard_risk
from ..task import Parity
from .lemmas import spread_bits
from .store import kept

EXACT, SMALL = 1e-12, 0.01  # a risk that is 0 up to rounding; a risk that counts as solved


def walk(task: Parity, x: Sequence[int], temperature: float, smoothing: float) -> pd.DataFrame:
    """One input through the model of eq. 2, one row for every head and position.

    Columns ``position``, ``x``, ``bit`` (in B), ``sine``, ``cosine``, ``head``, ``attention``, and the same in every
    row ``read`` (the sum :math:`k v^*_1`), ``prediction``, ``label``, ``smoothing``.
    """
    if len(x) != task.n:
        raise ValueError(f"x must be {task.n} bits, got {len(x)}")
    values, positions = torch.tensor(x, dtype=torch.float64), np.arange(1, task.n + 1)
    attention = soft_attention(aligned_directions(task.bits, task.n), task.n, temperature)
    read = position_weights(attention, task.k) @ values
    sine, cosine = embed(values.unsqueeze(0))[0, :, 2:].T.numpy()
    table = {"position": positions, "x": x, "bit": np.isin(positions, task.bits), "sine": sine, "cosine": cosine}
    heads = [pd.DataFrame(table | {"head": i, "attention": row}) for i, row in enumerate(attention.numpy(), 1)]
    return pd.concat(heads, ignore_index=True).assign(
        read=float(read), prediction=float(zigzag(read, task.k, smoothing)), label=int(task.labels(values)),
        smoothing=smoothing,
    )  # fmt: skip


def zigzags(k: int, smoothings: Sequence[float]) -> pd.DataFrame:
    """The frozen head of eq. 2 between 0 and k: ``sum``, ``prediction``, ``smoothing``."""
    s = torch.linspace(0, k, 40 * k + 1, dtype=torch.float64)
    parts = [pd.DataFrame({"sum": s, "prediction": zigzag(s, k, b), "smoothing": b}) for b in smoothings]
    return pd.concat(parts, ignore_index=True)


def network_reading(inputs: int, read: Sequence[int], weight: float, k: int, smoothing: float = 0.0) -> FFNN1:
    """Eq. 2 as a network: k neurons that all read ``weight`` times the sum of some inputs, counted from 1.

    Proposition 3's network for the parity of B reads the bits of B with weight 1, the transformer's head the first
    of the four numbers of the mean v* with weight k.
    """
    network = FFNN1(inputs, k, smoothing)
    with torch.no_grad():
        network.beta[:, [place - 1 for place in read]] = weight
        network.bias.copy_(0.5 - torch.arange(1, k + 1))
        network.alpha.copy_(zigzag_weights(k))
        network.offset.fill_(1)
    return network


def distinct_parameters(network: FFNN1) -> int:
    """Distinct numbers the network needs, counted role by role; absent edges (zeros) are free."""
    edges = network.beta[network.beta != 0]
    return sum(len(role.unique()) for role in (edges, network.bias, network.alpha, network.offset))


@kept
def proposition_3(n: int, max_k: int, sets: int) -> pd.DataFrame:
    """Proposition 3 on all :math:`2^n` inputs, for random sets B: ``k``, ``model``, ``parameters``, ``risk``.

    The transformer is the literal one, token by token, at a temperature of 1e-6, where its softmax is one-hot in
    floating point. Parameters are counted in the arrays: all entries of the matrices, zeros included, and the
    distinct numbers of a network in each role.
    """
    generator, rows = torch.Generator().manual_seed(0), []
    for k, _ in product(range(1, min(max_k, n) + 1), range(sets)):
        task = Parity.random(n, k, generator)
        inputs, matrices = task.cube(), head_matrices(aligned_directions(task.bits, n))
        network, head = network_reading(n, task.bits, 1, k), network_reading(4, [1], k, k)
        sizes = distinct_parameters(network), matrices.numel() + distinct_parameters(head)
        outputs = network(inputs), literal_prediction(inputs, matrices, k, 1e-6, 0.0)
        for model, size, output in zip(("network", "transformer"), sizes, outputs, strict=True):
            risk = LOSSES["squared_hinge"](task.labels(inputs), output).mean()
            rows.append((k, model, size, float(risk.detach())))
    return pd.DataFrame(rows, columns=["k", "model", "parameters", "risk"])


def largest(checked: pd.DataFrame) -> pd.DataFrame:
    """Parameters and the largest risk of both constructions, one row for each k."""
    table = checked.groupby(["k", "model"])[["parameters", "risk"]].max().unstack()
    table.columns = [f"{model}: {'largest risk' if what == 'risk' else what}" for what, model in table.columns]
    return table.reset_index()


def soft_risk(n: int, temperature: float, smoothing: float = 0.0) -> float:
    """Exact risk of eq. 2's heads of unit norm with soft attention, three evenly spread bits."""
    task = spread_bits(n, 3)
    return float(PopulationRisk(task, "squared_hinge", temperature, smoothing)(aligned_directions(task.bits, n)))


@kept
def warmest(lengths: Sequence[int]) -> pd.DataFrame:
    """The warmest temperature at which eq. 2's heads have risk below 0.01, and their risk at 1/n.

    Columns ``n``, ``temperature`` and ``risk``; the smoothing is 1e-4. Only the norm of a head over the temperature
    counts, so the least norm at temperature 1 is the inverse.
    """
    rows = []
    for n in lengths:
        cold, warm = math.log(0.01 / n**2), 0.0  # log temperatures; halved until they agree to 1e-4
        while warm - cold > 1e-4:
            middle = (cold + warm) / 2
            cold, warm = (middle, warm) if soft_risk(n, math.exp(middle), 1e-4) < SMALL else (cold, middle)
        rows.append((n, math.exp(cold), soft_risk(n, 1 / n)))
    return pd.DataFrame(rows, columns=["n", "temperature", "risk"])


def sharpening_exponent(warmest: pd.DataFrame) -> float:
    """The power of n with which norm over temperature must grow: slope of log (1 / temperature) against log n.

    Of a single length there is none, nan.
    """
    if len(warmest) < 2:
        return math.nan
    return float(-np.polyfit(np.log(warmest["n"]), np.log(warmest["temperature"]), 1)[0])


def smoothed_risks(max_k: int, smoothings: Sequence[float]) -> pd.DataFrame:
    """Eq. 2 with hard attention and the smoothed ReLU: ``k``, ``smoothing``, ``risk``, ``miss``.

    ``miss`` is how far short of the label the prediction falls at one input, see :func:`shortfall`.
    """
    rows = [(k, b, aligned_hard_risk(k, b), shortfall(k, b)) for k, b in product(range(1, max_k + 1), smoothings)]
    return pd.DataFrame(rows, columns=["k", "smoothing", "risk", "miss"])


def shortfall(k: int, smoothing: float) -> float:
    r"""By how much y times the prediction falls short of 1 at one sum that heads on the bits read.

    The sum 0 for odd k, 1 for even k. Write :math:`\sigma(z) = \max(0, z) + e(z)`: for b > 0 the even function e is
    positive and falls with :math:`|z|`, while :math:`f(z) = z\,e(z)` rises on :math:`z \ge 0`. With
    :math:`t_q = q - \frac12` the shortfall is, for odd and for even k,

    .. math::
        8 \sum_{q=1}^{k} (-1)^{q+1} f(t_q), \qquad
        8 \sum_{q=1}^{k-1} (-1)^{q+1} e(t_q) + 8 \sum_{q=2}^{k-1} (-1)^{q+1} f(t_q) .

    The first has an odd number of rising terms and the last counts positive; of the second, the e-sum has an odd
    number of falling terms and the first counts positive, the f-sum pairs of rising terms, later minus earlier. Both
    are positive, so eq. 2 has risk above 0 for every k and every b > 0.
    """
    s = torch.tensor(0.0 if k % 2 else 1.0, dtype=torch.float64)
    return float(1 - (1 - 2 * s) * zigzag(s, k, smoothing))


def other_data(n: int, noise: float) -> pd.DataFrame:
    """Section 3's results on other data than uniform inputs with clean labels, exactly: ``case``, ``risk``, ``needed``.

    ``needed`` is what the results of the section would ask for. On biased inputs Proposition 3's network is as good
    as on uniform ones, being right on every input. If a bit always equals another one, a network without an edge from
    it still solves the task, against Proposition 4. With labels flipped at the rate ``noise`` no model has risk 0.
    """
    cube = Parity(n, (1, 2)).cube()
    task, copied = Parity(n, (1, 3)), Parity(n, (2, 3))
    network, blind = network_reading(n, task.bits, 1, 2), network_reading(n, copied.bits, 1, 2)
    even = torch.ones(len(cube), dtype=torch.float64)
    biased = 0.9 ** cube.sum(-1) * 0.1 ** (n - cube.sum(-1))
    equal = (cube[:, 0] == cube[:, 1]).double()  # the first two bits always agree
    rows = [
        ("biased inputs, the network of Proposition 3", _risk(network, task, cube, biased), "0"),
        ("two bits always equal, no edge from one of them", _risk(blind, task, cube, equal), "1"),
        ("noisy labels, the network of Proposition 3", _risk(network, task, cube, even, noise), "0"),
        ("noisy labels, the best model there is", 4 * noise * (1 - noise), "0"),
    ]
    return pd.DataFrame(rows, columns=["case", "risk", "needed"])


def correlations(n: int, k: int) -> pd.DataFrame:
    """How far each bit by itself correlates with the label, and how far any set of fewer than k bits does (Remark 10).

    Under uniform inputs, and under the law of Daniely and Malach (2020) as we read it: half of the time uniform, half
    of the time with all bits of B equal and the others uniform. Exact over all inputs, B being the first k bits.
    Columns ``law``, ``in B``, ``single`` (in size, the smallest over the bits of B or the largest over the others) and
    ``fewer`` (the largest over sets of 1 to k - 1 bits).
    """
    task = Parity(n, range(1, k + 1))
    cube = task.cube()
    labels, signs = task.labels(cube), 1 - 2 * cube
    even = torch.full((len(cube),), 1 / len(cube), dtype=torch.float64)
    alike = (cube[:, :k] == cube[:, :1]).all(-1).double()
    rows = []
    for law, chance in (("uniform", even), ("Daniely and Malach", (even + alike / alike.sum()) / 2)):
        sets = [chosen for size in range(1, k) for chosen in combinations(range(n), size)]
        found = {chosen: abs(float((chance * labels * signs[:, chosen].prod(-1)).sum())) for chosen in sets}
        for inside in (True, False):
            single = [found[(j,)] for j in range(n) if (j < k) == inside]
            fewer = [value for chosen, value in found.items() if (max(chosen) < k) == inside]
            rows.append((law, inside, min(single) if inside else max(single), max(fewer)))
    return pd.DataFrame(rows, columns=["law", "in B", "single", "fewer"])


def judge_harder(found: pd.DataFrame) -> Verdict:
    """Claim ``uniform-harder``: uniform inputs hide the bits, those of Daniely and Malach show them one by one."""
    uniform, theirs = (found[found["law"] == law].set_index("in B") for law in ("uniform", "Daniely and Malach"))
    fewer, inside, outside = uniform["fewer"].max(), theirs.loc[True, "single"], theirs.loc[False, "single"]
    numbers = {"largest correlation of fewer than k bits, uniform": fewer, "correlation of a bit of B, theirs": inside,
               "of any other bit, theirs": outside}  # fmt: skip
    if fewer >= EXACT:
        return Verdict("fails", "proved", numbers)
    return Verdict("holds" if inside > 0.25 and outside < EXACT else "open", "proved", numbers)


@torch.no_grad()
def _risk(network: FFNN1, task: Parity, inputs: Tensor, chance: Tensor, noise: float = 0.0) -> float:
    """Squared hinge under inputs of unequal chance, with labels flipped at the rate ``noise``."""
    loss, labels, output = LOSSES["squared_hinge"], task.labels(inputs), network(inputs)
    mixed = (1 - noise) * loss(labels, output) + noise * loss(-labels, output)
    return float(chance @ mixed / chance.sum())


def judge_network(checked: pd.DataFrame) -> Verdict:
    """Claim ``expr-ffnn``: k neurons with 2k + 2 distinct parameters express every k-parity."""
    found = checked[checked["model"] == "network"]
    small = (found["parameters"] <= 2 * found["k"] + 2).all()
    holds = found["risk"].max() < EXACT and small
    return Verdict("holds" if holds else "fails", "exact", {"largest risk": found["risk"].max()})


def judge_transformer(checked: pd.DataFrame, warmest: pd.DataFrame) -> Verdict:
    """Claim ``expr-transformer``: k heads and k neurons express every k-parity; no temperature is named."""
    hard = checked.loc[checked["model"] == "transformer", "risk"].max()
    by_length = dict(zip(warmest["n"], warmest["risk"], strict=True))
    numbers = {"largest risk, hard attention": hard, "risk at temperature 1/n": by_length}
    if warmest["risk"].max() < SMALL:
        return Verdict("holds", "exact", numbers)
    said = "With hard attention and the ReLU, or with a temperature of order 1/n²; at 1/n heads of norm 1 are blunt."
    return Verdict("fails", "exact", numbers) if hard >= EXACT else Verdict("narrower range", "exact", numbers, said)


def judge_smoothing(smoothed: pd.DataFrame) -> Verdict:
    """Claim ``expr-smoothed``: eq. 2 has zero risk with the paper's activation, b > 0 (see :func:`shortfall`)."""
    proved = bool((smoothed["miss"] > 0).all() and (smoothed["risk"] > 0).all())
    least = smoothed.loc[smoothed["risk"].idxmin()]
    numbers = {"least risk": least["risk"], "at k": int(least["k"]), "at b": least["smoothing"]}
    said = "Zero risk with the ReLU, b = 0; for b > 0 the risk is positive for every k, and small with b."
    return Verdict("fails", "proved", numbers, said) if proved else Verdict("open", "exact", numbers)


def judge_dimension(checked: pd.DataFrame, warmest: pd.DataFrame) -> Verdict:
    """Claim ``two-dimensions``: positions on a circle, d = 2, are enough whatever n and k."""
    exponent = sharpening_exponent(warmest)
    hard = checked.loc[checked["model"] == "transformer", "risk"].max()
    numbers = {"exponent of n in norm over temperature": exponent, "largest risk, hard attention": hard}
    if hard >= EXACT:
        return Verdict("fails", "exact", numbers)
    if not exponent > 1.1:
        return Verdict("open" if math.isnan(exponent) else "holds", "exact", numbers)
    said = "Enough to express parity, if the norm of the heads over the temperature may grow like n²."
    return Verdict("narrower range", "exact", numbers, said)


def judge_other_data(found: pd.DataFrame) -> Verdict:
    """Claim ``other-data``: section 3 also holds for other marginals and noisy labels."""
    numbers = dict(zip(found["case"], found["risk"], strict=True))
    biased, copied, _, best_with_noise = found["risk"]
    if max(biased, copied) >= EXACT or best_with_noise <= 0:
        return Verdict("open", "exact", numbers)
    said = (
        "Proposition 3 holds for every law of the inputs; Proposition 4 where each bit of B is a fair coin given "
        "the other bits; with labels flipped at the rate p the least risk is 4p(1 - p), not 0."
    )
    return Verdict("fails", "proved", numbers, said)

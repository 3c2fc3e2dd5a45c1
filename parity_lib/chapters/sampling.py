r"""Heads that sample a position: what the repair needs, and two theorems about it.

A head that samples reads one position :math:`J_i`, drawn from its attention :math:`\gamma_i`. Whatever is done with the
tokens then, the risk is an average over the draws, so it is affine in every :math:`\gamma_i` by itself. The page
*Heads that sample* of the dossier proves what follows from that; this module computes the quantities of the proofs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.nn.functional import normalize

from ..attention import positional_code, soft_attention
from ..evidence import Verdict, rates, wilson
from ..recipes import RECIPES, Recipe
from ..risk import PopulationRisk
from ..sampled_heads import SAMPLED_LOSSES, SampledAttentionRisk, log_permanent
from ..task import Parity
from ..training import initial_directions, minimise, recovered
from .robustness import SIGNED, draw_sets, fit, last_attention, mixed_sets, outcomes, right_by_weights
from .sparse import FUNCTIONS
from .store import kept

FRESH = 900_000
"""First of the sets and starts that this chapter is judged on; no other chapter, and no first look, has used them."""
ENOUGH, SURE = 0.99, 0.98
"""A setting suffices if this share of its runs commits, the lower end of the interval lying above the second."""

# The repair


def settings() -> list[Recipe]:
    """The repair with every loss, optimiser and temperature, from the paper's start, at the rates of temperature 1."""
    gd = {"log": 5.0, "linear": 20.0, "squared_hinge": 20.0}
    return [
        replace(RECIPES["repaired"], loss=loss, temperature_power=power, optimiser=optimiser, learning_rate=rate)
        for loss, power in product(SAMPLED_LOSSES, (0, -1))
        for optimiser, rate in (("gd", gd[loss]), ("adam", 0.3))
    ]


def at_length(recipe: Recipe, n: int) -> Recipe:
    r"""A setting with the learning rate that its temperature asks for at n positions.

    Temperature is a gauge: :math:`(\tau, \eta, a_0)` has the attention of :math:`(1, \eta/\tau^2, a_0/\tau)` at every
    step of gradient descent, and that of :math:`(1, \eta/\tau, a_0/\tau)` with Adam. So with these rates a temperature
    of :math:`1/n` is nothing but a start that is n times as long.
    """
    size = recipe.temperature_at(n)
    return replace(recipe, learning_rate=recipe.learning_rate * (size**2 if recipe.optimiser == "gd" else size))


@kept
def sampling_settings(n: int, ks: list[int], pairs: int, updates: int, device: str = "cpu") -> pd.DataFrame:
    """Every setting on fresh pairs, half of the sets with neighbours: outcomes with the columns of the setting.

    Besides those of :func:`parity_lib.chapters.robustness.outcomes`: ``loss``, ``optimiser``, ``temperature`` (``1``
    or ``1/n``) and ``updates``. All settings at the first of ``ks``; at the others the theorem's own optimiser,
    temperature and start.
    """
    parts = []
    for k in ks:
        tasks, starts = mixed_sets(n, k, pairs, seed=FRESH + k), range(FRESH, FRESH + pairs)
        for recipe in settings():
            theorem = (recipe.loss, recipe.optimiser, recipe.temperature_power) == ("log", "gd", -1)
            if k == ks[0] or theorem:
                run = fit(tasks, at_length(recipe, n), updates, device, seeds=starts)
                labels = {"loss": SAMPLED_LOSSES[str(recipe.loss)], "optimiser": recipe.optimiser, "updates": updates}
                parts.append(outcomes(run).assign(temperature="1/n" if recipe.temperature_power else "1", **labels))
    return pd.concat(parts, ignore_index=True)


def sufficient(frame: pd.DataFrame) -> pd.DataFrame:
    """Rates of :func:`sampling_settings` by k and setting, with ``suffices``: the check fixed before the run."""
    found = rates(frame, ["k", "loss", "optimiser", "temperature"])
    share = found["successes"] / found["trials"]
    return found.assign(suffices=(share >= ENOUGH) & (found["low"] > SURE))


# The first theorem: no local minima


def multi_affine(coefficients: Tensor, codes: Tensor, temperature: float) -> Callable[[Tensor], Tensor]:
    r"""The mean of a table over positions that heads draw, :math:`F(a) = E_{J_i \sim \gamma_i} \Phi_{J_1 \dots J_m}`.

    The ``coefficients`` :math:`\Phi` have m axes of length n, and all functions affine in each head's attention are of
    this form; ``codes`` (n, d) are those of the positions. Returns a function of directions, (m, d) -> ().
    """

    def mean(directions: Tensor) -> Tensor:
        attention = torch.softmax(directions @ codes.T / temperature, -1)
        left = coefficients
        for gamma in attention:
            left = torch.tensordot(gamma, left, dims=1)
        return left

    return mean


def laplacian_residual(
    function: Callable[[Tensor], Tensor], directions: Tensor, codes: Tensor, temperature: float
) -> float:
    r"""Largest deviation from :math:`\Delta_{a_i} F = -\frac{2}{\tau}\, \mu_i \cdot \nabla_{a_i} F` over the heads.

    Relative to the largest entry of the Hessian; :math:`\mu_i` is the mean code under head i's attention.
    """
    slope = torch.func.grad(function)(directions)
    hessian = torch.func.hessian(function)(directions)
    mean = torch.softmax(directions @ codes.T / temperature, -1) @ codes
    laplacian = torch.stack([hessian[i, :, i].trace() for i in range(len(directions))])
    return float((laplacian + 2 / temperature * (mean * slope).sum(-1)).abs().max() / hessian.abs().max())


def unit_codes(n: int, width: int, generator: torch.Generator) -> Tensor:
    """n random codes on the unit sphere, (n, width)."""
    return normalize(torch.randn(n, width, generator=generator, dtype=torch.float64))


def largest_residual(tries: int) -> float:
    """:func:`laplacian_residual` at its largest, over random functions of one to three heads and random codes."""
    generator, found = torch.Generator().manual_seed(FRESH), 0.0
    for trial in range(tries):
        heads, width, n = 1 + trial % 3, 2 + trial % 4, 4 + trial % 5
        temperature = (0.2, 0.5, 1.0)[trial // 3 % 3]
        codes = (1 + trial % 2) * unit_codes(n, width, generator)
        table = torch.randn([n] * heads, generator=generator, dtype=torch.float64)
        directions = temperature * torch.randn(heads, width, generator=generator, dtype=torch.float64)
        function = multi_affine(table, codes, temperature)
        found = max(found, laplacian_residual(function, directions, codes, temperature))
    return found


# The second: every stationary point is a strict saddle


def curvature(directions: Tensor, bits: Tensor, codes: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    r"""Gradient and Hessian of :math:`-\log \mathrm{perm}(\Gamma_B)` as the proof writes them.

    With :math:`P(\pi) \propto \prod_i \gamma_i(\pi(i))` over the ways to share the bits out,

    .. math::
        \nabla_i = \tfrac1\tau (\mu_i - E_P\, p_{\pi(i)}), \qquad
        H_{il} = \tfrac{1}{\tau^2}
        \bigl(\delta_{il} \mathrm{Cov}_{\gamma_i}(p) - \mathrm{Cov}_P(p_{\pi(i)}, p_{\pi(l)})\bigr).

    Directions (rows, k, d), the positions of B from 0, (rows, k), and codes (n, d) -> gradient (rows, k d) and Hessian
    (rows, k d, k d).
    """
    _, k, width = directions.shape
    attention = torch.softmax(directions @ codes.T / temperature, -1)
    orders = torch.tensor(list(permutations(range(k))))  # (k!, k)
    shares = bits[:, orders]  # (rows, k!, k): which bit each head takes
    logs = attention.log().gather(2, shares.transpose(1, 2)).sum(1)  # (rows, k!)
    chance = torch.softmax(logs, -1)
    taken = codes[shares].flatten(2)  # (rows, k!, k d)
    expected = (chance.unsqueeze(-1) * taken).sum(1)
    spread = taken - expected.unsqueeze(1)
    hessian = -torch.einsum("rp,rpa,rpb->rab", chance, spread, spread)
    mean = attention @ codes
    for i in range(k):
        off = codes - mean[:, i].unsqueeze(1)
        here = slice(i * width, (i + 1) * width)
        hessian[:, here, here] += torch.einsum("rn,rna,rnb->rab", attention[:, i], off, off)
    return (mean.flatten(1) - expected) / temperature, hessian / temperature**2


def saddle_bound(directions: Tensor, codes: Tensor, temperature: float = 1.0) -> Tensor:
    r"""What the least eigenvalue is at most, :math:`-(\rho^2 - \overline{|\mu_i|^2}) / (\tau^2 d (k - 1))`.

    Of -log perm, at a stationary point, for k at least 2 (second theorem): (rows, k, d) -> (rows,).
    """
    _, k, width = directions.shape
    mean = torch.softmax(directions @ codes.T / temperature, -1) @ codes
    radius = codes[0].square().sum()
    return -(radius - mean.square().sum(-1).mean(-1)) / (temperature**2 * width * (k - 1))


def stationary_point(point: Tensor, bits: Tensor, codes: Tensor) -> Tensor:
    """Where Newton's method on the gradient of -log perm leads, damped so that the gradient shrinks: (rows, k, d)."""
    damping = torch.full((len(point),), 1e-2, dtype=point.dtype)
    for _ in range(150):
        slope, hessian = curvature(point, bits, codes)
        values, vectors = torch.linalg.eigh(hessian)
        along = (vectors.transpose(1, 2) @ slope.unsqueeze(-1)).squeeze(-1)
        step = vectors @ (along * values / (values.square() + damping.unsqueeze(1))).unsqueeze(-1)
        tried = point - step.reshape(point.shape)
        better = curvature(tried, bits, codes)[0].norm(dim=1) < slope.norm(dim=1)
        point = torch.where(better[:, None, None], tried, point)
        damping = torch.where(better, damping / 4, damping * 4).clamp(1e-24, 1e3)
    return point


@kept
def stationary_points(cases: list[tuple[int, int]], starts: int) -> pd.DataFrame:
    """Stationary points of -log perm found by Newton's method, one row each.

    ``cases`` are pairs (n, k), each with ``starts`` random sets and starts. Columns: ``n``, ``k``, ``gradient`` (its
    norm there), ``perm``, ``length`` (of the longest head), ``trace`` (the largest trace of a head's own block of the
    Hessian, 0 by the first theorem), ``least`` (the least eigenvalue) and ``bound``. Runs that do not settle, or run
    off to heads longer than 12, are left out: the gradient vanishes at infinity too.
    """
    parts = []
    for n, k in cases:
        codes = positional_code(n)
        generator = torch.Generator().manual_seed(1_000 * n + 10 * k)
        tasks = draw_sets(n, k, starts, seed=FRESH + n)
        bits = torch.tensor([task.indices for task in tasks])
        start = 3 * torch.randn(starts, k, 2, generator=generator, dtype=torch.float64)
        point = stationary_point(start, bits, codes)
        slope, hessian = curvature(point, bits, codes)
        trace = hessian.diagonal(dim1=1, dim2=2).unflatten(1, (k, 2)).sum(2).abs().amax(1)
        on_bits = soft_attention(point, n, 1.0).gather(2, bits.unsqueeze(1).expand(-1, k, -1))
        columns = {
            "n": n, "k": k, "gradient": slope.norm(dim=1), "perm": log_permanent(on_bits).exp(),
            "length": point.norm(dim=2).amax(1), "trace": trace,
            "least": torch.linalg.eigvalsh(hessian)[:, 0], "bound": saddle_bound(point, codes),
        }  # fmt: skip
        parts.append(pd.DataFrame(columns).query("gradient < 1e-10 and length < 12"))
    return pd.concat(parts, ignore_index=True)


def one_bit_risks(n: int, bit: int, smoothing: float) -> dict[str, PopulationRisk | SampledAttentionRisk]:
    """The paper's squared hinge of one head that looks for one bit: ``averaging`` and ``sampling``, 2 (1 - perm)."""
    task = Parity(n, (bit,))
    averaging = PopulationRisk(task, "squared_hinge", 1.0, smoothing)
    return {"averaging": averaging, "sampling": SampledAttentionRisk(task, "squared_hinge")}


@kept
def one_bit_landscape(n: int, bit: int, smoothing: float, reach: float, points: int) -> pd.DataFrame:
    """:func:`one_bit_risks` on a grid over the plane of the head, one row per point.

    Columns: ``x`` and ``y`` (the head's entries a_13 and a_14), ``averaging``, ``sampling``.
    """
    side = torch.linspace(-reach, reach, points, dtype=torch.float64)
    heads = torch.cartesian_prod(side, side).flip(1)
    values = {name: risk(heads.unsqueeze(1)) for name, risk in one_bit_risks(n, bit, smoothing).items()}
    return pd.DataFrame({"x": heads[:, 0], "y": heads[:, 1], **values})


@kept
def resting_places(n: int, bit: int, smoothing: float, reach: float, starts: int) -> pd.DataFrame:
    """Local minima of :func:`one_bit_landscape`: where BFGS comes to rest, from random starts and their mirror images.

    The risk is the same above and below the line to a bit at a quarter of the circle, so its minima come in pairs.

    Columns: ``risk_of`` (``averaging`` or ``sampling``), ``x``, ``y``, ``risk``, ``least`` (the least eigenvalue of the
    Hessian there, by differences of gradients). Runs that leave the disc of radius ``reach`` rest at no finite place.
    """
    drawn = reach / 2 * np.random.default_rng(0).normal(size=(starts, 2))
    first = np.concatenate([drawn, drawn * [1, -1]])
    found = []
    for name, risk in one_bit_risks(n, bit, smoothing).items():

        def pull(point: np.ndarray, risk: Any = risk) -> tuple[float, np.ndarray]:
            value, slope = risk.value_and_gradient(torch.tensor(point).reshape(1, 1, 2))
            return float(value), slope.numpy().ravel()

        for start in first:
            end = minimize(pull, start, jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 200}).x
            slope = pull(end)[1]
            shifted = [(pull(end + h)[1] - pull(end - h)[1]) / 2e-4 for h in 1e-4 * np.eye(2)]
            least = float(np.linalg.eigvalsh((np.array(shifted) + np.array(shifted).T) / 2)[0])
            if np.linalg.norm(end) < reach and np.linalg.norm(slope) < 1e-6 and least > 1e-4:
                found.append((name, *end.round(1), pull(end)[0], least))
    frame = pd.DataFrame(found, columns=["risk_of", "x", "y", "risk", "least"])
    return frame.drop_duplicates(["risk_of", "x", "y"], ignore_index=True)


def mirrored(places: pd.DataFrame) -> bool:
    """Whether every place of :func:`resting_places` has its mirror image among them, so that none was missed there."""
    found = {(x, abs(y), np.sign(y)) for x, y in zip(places["x"], places["y"], strict=True)}
    return {(x, y, -sign) for x, y, sign in found} == found


# The third: recovery


@kept
def certificates(n: int, k: int, pairs: int, updates: int, looks: int) -> pd.DataFrame:
    """The permanent and the arg-max along training, of heads that sample and heads that average.

    One row per run and look: ``recipe``, ``seed``, ``update``, ``perm``, ``right`` (the arg-max positions are B).
    """
    tasks, starts = mixed_sets(n, k, pairs, seed=FRESH + 50 + k), range(FRESH, FRESH + pairs)
    bits = torch.tensor([task.indices for task in tasks]).unsqueeze(1).expand(-1, k, -1)
    parts = []
    for recipe in (RECIPES["repaired"], SIGNED):
        run = fit(tasks, recipe, updates, epochs=looks, seeds=starts)
        for frame in range(len(run.directions)):
            attention = last_attention(run, frame)
            columns = {"recipe": recipe.name, "seed": run.seeds, "update": frame * run.recipe.updates_per_epoch}
            perm, right = log_permanent(attention.gather(2, bits)).exp(), recovered(attention, tasks)
            parts.append(pd.DataFrame(columns | {"perm": perm, "right": right}))
    return pd.concat(parts, ignore_index=True)


def labels_to_be_sure(mean: float, doubt: float) -> int:
    r"""Labelled examples after which a mean of :math:`y \hat y` proves the permanent above 1/2, but for ``doubt``.

    Hoeffding for values in [-1, 1]: :math:`N \ge 2 \log(1/\delta) / (\bar m - 1/2)^2`.
    """
    return math.ceil(2 * math.log(1 / doubt) / (mean - 0.5) ** 2)


# Beyond parity


def sampled_table(name: str, tasks: Sequence[Parity]) -> Tensor:
    r"""Risk of reading the positions J with the target's own read-out, :math:`E(f(x_B) - f(x_J))^2 / \mathrm{Var} f`.

    The table :math:`\Phi` of :func:`multi_affine`, over all :math:`2^n` inputs: (tasks, n, ..., n) with an axis for
    each of the k heads.
    """
    n, k = tasks[0].n, tasks[0].k
    x = tasks[0].cube()
    places = torch.cartesian_prod(*[torch.arange(n)] * k)  # (n^k, k)
    read = torch.stack([FUNCTIONS[name](x[:, place]) for place in places.tolist()])  # (n^k, inputs)
    wanted = torch.stack([FUNCTIONS[name](x[:, list(task.indices)]) for task in tasks])
    square = read.square().mean(1) + wanted.square().mean(1, keepdim=True) - 2 * wanted @ read.T / len(x)
    return (square / wanted.var(1, correction=0, keepdim=True)).reshape(len(tasks), *[n] * k)


@kept
def sampled_functions(n: int, k: int, pairs: int, updates: int) -> pd.DataFrame:
    """Heads that sample on other functions of k bits, the read-out frozen to the function itself.

    Adam on the exact risk at temperature 1 from the paper's start, half of the sets with neighbours. One row per run:
    ``function``, ``seed``, ``risk`` (share of variance), ``learned`` (less than 5 %), ``by_weights``.
    """
    tasks = mixed_sets(n, k, pairs, seed=FRESH + 80 + k)
    start = initial_directions(range(FRESH, FRESH + pairs), k)
    parts = []
    for name in FUNCTIONS:
        table = sampled_table(name, tasks)

        def risk(directions: Tensor, table: Tensor = table) -> Tensor:
            for gamma in soft_attention(directions, n, 1.0).unbind(1):
                table = torch.einsum("rn,rn...->r...", gamma, table)
            return table

        end, history = minimise(risk, start, updates, 0.3, name)
        found = right_by_weights(soft_attention(end, n, 1.0), tasks)
        columns = {"function": name, "seed": range(FRESH, FRESH + pairs), "risk": history[-1]}
        parts.append(pd.DataFrame(columns | {"learned": history[-1] < 0.05, "by_weights": found}))
    return pd.concat(parts, ignore_index=True)


# Verdicts


def _theorem(sound: bool, numbers: dict[str, Any]) -> Verdict:
    """A theorem of ours: proved, as long as what is computed bears it out."""
    return Verdict("holds", "proved", numbers) if sound else Verdict("open", "measured", numbers)


def judge_no_minima(residual: float, places: pd.DataFrame) -> Verdict:
    """Our first theorem: its identity on random functions, and the search for resting places of one head."""
    pits = places["risk_of"].value_counts()
    numbers = {
        "identity off by at most": residual,
        "resting places found, heads that sample": int(pits.get("sampling", 0)),
        "the same search, heads that average": int(pits.get("averaging", 0)),
    }
    return _theorem(residual < 1e-9 and "sampling" not in pits, numbers)


def judge_saddles(points: pd.DataFrame, least: int = 20) -> Verdict:
    """Our second theorem: the stationary points that Newton's method found, against the bound."""
    steep = points["least"] <= points["bound"] * (1 - 1e-9)
    numbers = {"stationary points": len(points), "of these at or below the bound": int(steep.sum())}
    return _theorem(len(points) >= least and steep.all(), numbers)


def judge_recovery(watched: pd.DataFrame) -> Verdict:
    """Our third theorem: the looks at runs in training, as :func:`certificates` has them."""
    sure = watched[watched["perm"] > 0.5]
    numbers = {"looks beyond one half": len(sure), "of these misread": int((~sure["right"]).sum())}
    return _theorem(sure["right"].all(), numbers)


def judge_repair(table: pd.DataFrame) -> Verdict:
    """That heads sample is the one change needed, from :func:`sufficient`."""
    theorem = (table["loss"] == SAMPLED_LOSSES["log"]) & (table["temperature"] == "1/n")
    paper = (table["loss"] == SAMPLED_LOSSES["squared_hinge"]) & (table["temperature"] == "1")
    asked = table[(table["optimiser"] == "gd") & (theorem | paper)]
    numbers = {
        f"k = {row.k}, {row.loss}, temperature {row.temperature}": wilson(row.successes, row.trials)
        for row in asked.itertuples()
    }
    if asked["suffices"].all():
        return Verdict("holds", "measured", numbers)
    return Verdict("fails" if (asked["high"] < ENOUGH).any() else "open", "measured", numbers)

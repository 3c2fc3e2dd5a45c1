r"""Appendix A of the paper, lemma by lemma: its constants, and exact measurements to hold them against.

For Theorem 5 the paper wants a temperature :math:`\tau = c_1/n` and states, for k heads, smoothing b and constants
:math:`0 < c_2 < c_1` that bound the attention beside a head's best position, how smooth the risk is (Lemmas 6, 7, 14,
15, 16), how steep it is (Lemmas 8, 18, 19), and from both a step size, a rate and a number of steps.
:class:`Theorem5` has those statements; the functions after it measure, on all 2^n inputs, which of them are true, and
``judge_*`` says so. What is proved is on the page ``book/dossier/theorem5.md``.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ..attention import head_matrices, literal_prediction, position_weights, positional_code, soft_attention
from ..evidence import Verdict
from ..losses import find_loss
from ..readout import zigzag
from ..recipes import RECIPES, budget
from ..risk import PopulationRisk
from ..task import Parity
from ..training import initial_directions, train
from .store import kept


class Theorem5:
    r"""The paper's constants for k heads on n positions, at a temperature :math:`\tau` and a smoothing b > 0.

    Its lower constant :math:`c_2 < c_1` for attention beside the best position, to which it gives no value, is 1 here:
    :math:`\mu` grows like its square, and at a temperature of 1/n, where :math:`c_1` is 1, that is the upper end: the
    fewest steps promised, and the most that Lemma 8 can ask for.
    """

    def __init__(self, n: int, k: int, temperature: float, smoothing: float) -> None:
        c2 = 1.0
        slope = 8 * k**2 / temperature
        bend = (20 + 32 * k**2 / math.sqrt(smoothing)) / temperature**2  # of the prediction, any second derivative
        self.prediction_lipschitz = slope * math.sqrt(2 * k)  # l_1 = C of Lemma 15
        self.prediction_smoothness = 2 * k * bend  # B of Lemmas 6 and 14, the Lipschitz constant of its gradient
        self.product_lipschitz = math.sqrt(2 * k) * (4 * k**3 * bend + slope**2)  # l_2 of Lemma 16, of prediction x it
        self.risk_smoothness = max(
            2 * self.prediction_lipschitz**2, 2 * (self.product_lipschitz + self.prediction_smoothness)
        )  # Lemma 7; one over it is the prescribed step size
        #: Lemma 16, and 7 for one head, are proved up to this b.
        self.smoothing_limit = ((math.sqrt(2 * k) * (80 * k + 64 * k**2) - 24 * k - 2 * k**2) / 16) ** 2
        inside = smoothing <= self.smoothing_limit
        #: Whether the dossier proves Lemmas 15, 14, 16 and 7 here.
        self.proved = (True, True, inside, inside or k > 1)
        self.bracket_bound = 2 * c2**2 * temperature**2 / n**2  # Lemma 18: the summed squared brackets, at least
        self.mu_1 = self.bracket_bound / (temperature * k) ** 2  # eq. 7
        self.mu_2 = 64 * k**2 * c2**2 / n**2  # eq. 8, Lemma 19
        #: Lemma 8: half the squared gradient is said to be at least mu times the risk.
        self.mu = min(64 * self.mu_1, self.mu_2) / 2 ** (n + 1)

    def steps(self, target: float) -> float:
        r"""Steps asked for until the risk is below ``target``, as each is said to shrink it by :math:`1 - \eta\mu`."""
        return math.log(target) / math.log1p(-self.mu / self.risk_smoothness)


def stated_attention_jacobian(attention: Tensor, temperature: float, sign: int) -> Tensor:
    r"""Appendix A's derivative of attention, with the sign before the sum as an argument:

    .. math::
        \frac1\tau \Bigl[\gamma_p (1 - \gamma_p)\,\mathrm{pos}_p
        \pm \sum_{j \ne p} \gamma_p \gamma_j\,\mathrm{pos}_j\Bigr].

    The sign is +1 as printed, -1 as the softmax has it. From the attention of one head, (n,), to the derivative of each
    position's attention with respect to (a_13, a_14), (n, 2).
    """
    code = positional_code(len(attention))
    own = (attention * (1 - attention)).unsqueeze(1) * code
    others = attention.unsqueeze(1) * (attention @ code - attention.unsqueeze(1) * code)
    return (own + sign * others) / temperature


def attention_jacobian(direction: Tensor, n: int, temperature: float) -> Tensor:
    """The same derivative by autograd, (n, 2)."""
    return torch.autograd.functional.jacobian(lambda a: soft_attention(a.unsqueeze(0), n, temperature)[0], direction)


def gradients_by_input(
    task: Parity, directions: Tensor, temperature: float, smoothing: float, loss: str = "squared_hinge"
) -> Tensor:
    """Gradient of the loss on each of the 2^n inputs, (2^n, heads, 2)."""
    x = task.cube()
    attention = soft_attention(directions, task.n, temperature)
    s = (x @ position_weights(attention, task.k)).requires_grad_()
    (slope,) = torch.autograd.grad(find_loss(loss)(task.labels(x), zigzag(s, task.k, smoothing)).sum(), s)
    jacobians = torch.stack([attention_jacobian(a, task.n, temperature) for a in directions])  # (heads, n, 2)
    share = task.k / len(directions)
    return slope.reshape(-1, 1, 1) * share * torch.einsum("xj,hja->xha", x, jacobians)


def conflicting_share(gradients: Tensor) -> float:
    """Share of pairs of inputs whose gradients at a head point against each other (Lemma 17 says none).

    Pairs with a product of size at most 1e-12 of the head's largest count as neither.
    """
    products = gradients.transpose(0, 1) @ gradients.permute(1, 2, 0)  # (heads, inputs, inputs)
    products.diagonal(dim1=1, dim2=2).zero_()
    floor = 1e-12 * products.abs().amax((1, 2), keepdim=True)
    negative, total = int((products < -floor).sum()), int((products.abs() > floor).sum())
    return negative / total if total else 0.0


def pl_ratio(risk: Callable[[Tensor], Tensor], directions: Tensor) -> Tensor:
    r""":math:`\frac12\|\nabla R\|^2 / R` of every row, at least mu by Lemma 8: (rows, heads, 2) -> (rows,)."""
    return gradient(risk, directions).square().sum((-1, -2)) / (2 * risk(directions))


def prediction_derivatives(
    x: Tensor, directions: Tensor, k: int, temperature: float, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The prediction on one input (n,), its gradient (2 heads,) and its Hessian (2 heads, 2 heads)."""

    def predict(flat: Tensor) -> Tensor:
        attention = soft_attention(flat.reshape(directions.shape), len(x), temperature)
        return zigzag(position_weights(attention, k) @ x, k, smoothing)

    flat = directions.reshape(-1)
    slope = torch.autograd.functional.jacobian(predict, flat)
    return predict(flat), slope, torch.autograd.functional.hessian(predict, flat)


def prediction_norms(
    x: Tensor, directions: Tensor, k: int, temperature: float, smoothing: float
) -> tuple[float, float, float]:
    """Norms that Lemmas 15, 14 and 16 bound: of the gradient, of the curvature, and of the product's Jacobian."""
    value, slope, hessian = prediction_derivatives(x, directions, k, temperature, smoothing)
    both = torch.stack([hessian, torch.outer(slope, slope) + value * hessian])
    return float(slope.norm()), *torch.linalg.matrix_norm(both, ord=2).tolist()


def lemma_18_brackets(task: Parity, directions: Tensor, temperature: float, sign: int) -> Tensor:
    """Left side of Lemma 18 for every input except 0...0, (2^n - 1,); ``sign`` as in the stated Jacobian."""
    x = task.cube()[1:]
    attention = soft_attention(directions, task.n, temperature)
    jacobians = torch.stack([temperature * stated_attention_jacobian(row, temperature, sign) for row in attention])
    return torch.einsum("xj,hja->xha", x, jacobians).square().sum((-1, -2))


def lemma_19_sides(task: Parity, directions: Tensor, temperature: float, smoothing: float) -> tuple[float, float]:
    """Both sides of Lemma 19, the right one without its factor: squared gradients, and losses, of 0...0 and 1...1.

    Soft attention is positive everywhere, so 0...0 is the only input on which the heads read zero.
    """
    gradients = gradients_by_input(task, directions, temperature, smoothing)[[0, -1]]
    x = task.cube()[[0, -1]]
    weights = position_weights(soft_attention(directions, task.n, temperature), task.k)
    losses = find_loss("squared_hinge")(task.labels(x), zigzag(x @ weights, task.k, smoothing))
    return float(gradients.square().sum()), float(losses.sum())


def full_matrix_gradient(task: Parity, directions: Tensor, temperature: float, smoothing: float) -> Tensor:
    """Gradient of the paper's risk with respect to all 16 entries of every head, (heads, 4, 4)."""
    matrices = head_matrices(directions).requires_grad_()
    x = task.cube()
    prediction = literal_prediction(x, matrices, task.k, temperature, smoothing)
    (gradient,) = torch.autograd.grad(find_loss("squared_hinge")(task.labels(x), prediction).mean(), matrices)
    return gradient


def gradient(risk: Callable[[Tensor], Tensor], directions: Tensor) -> Tensor:
    """Gradient of the risk at every row, in the shape of ``directions``."""
    leaf = directions.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(risk(leaf).sum(), leaf)
    return gradient


def hessians(risk: Callable[[Tensor], Tensor], directions: Tensor, step: float = 1e-4) -> Tensor:
    """Hessian of the risk at each row (rows, heads, 2), by differences of exact gradients, (rows, 2 heads, 2 heads)."""
    size = directions[0].numel()
    shifts = step * torch.eye(size, dtype=directions.dtype).reshape(size, *directions.shape[1:])
    columns = [(gradient(risk, directions + s) - gradient(risk, directions - s)).flatten(1) for s in shifts]
    hessian = torch.stack(columns, dim=1) / (2 * step)
    return (hessian + hessian.mT) / 2


# Frames: what the chapter draws and judges


def spread_bits(n: int, k: int) -> Parity:
    """k bits spread evenly over n positions."""
    return Parity(n, [1 + i * n // k for i in range(k)])


def entry_gradients(n: int, starts: int) -> pd.DataFrame:
    """Mean size of the exact gradient for every entry (``row``, ``column``) of a head's matrix, at random starts."""
    task, points = spread_bits(n, 3), initial_directions(range(starts), 3)
    sizes = torch.stack([full_matrix_gradient(task, heads, 1 / n, 1e-2).abs().mean(0) for heads in points]).mean(0)
    rows = [(r, c, float(sizes[r - 1, c - 1])) for r, c in product(range(1, 5), repeat=2)]
    return pd.DataFrame(rows, columns=["row", "column", "size"])


def sign_errors(n: int, starts: int) -> dict[str, float]:
    """Largest error of the attention's derivative as printed (``plus``) and with the sign turned (``minus``)."""
    points = initial_directions(range(starts), 3)[:, 0]
    true = torch.stack([attention_jacobian(head, n, 1 / n) for head in points])
    found = {}
    for name, sign in (("plus", 1), ("minus", -1)):
        stated = [stated_attention_jacobian(row, 1 / n, sign) for row in soft_attention(points, n, 1 / n)]
        found[name] = float((torch.stack(stated) - true).abs().max())
    return found


@kept
def conflicts(n: int, starts: int) -> pd.DataFrame:
    """Share of pairs of inputs with opposed gradients, one row per start and ``temperature`` (Lemma 17)."""
    task, rows = spread_bits(n, 3), []
    for (seed, heads), name in product(enumerate(initial_directions(range(starts), 3)), ("1/n", "1")):
        gradients = gradients_by_input(task, heads, 1 / n if name == "1/n" else 1.0, 1e-2)
        rows.append((name, seed, conflicting_share(gradients)))
    return pd.DataFrame(rows, columns=["temperature", "seed", "share"])


LEMMAS = {
    "lemma-15": "gradient of the prediction",
    "lemma-14": "curvature of the prediction",
    "lemma-16": "prediction × gradient",
    "lemma-7": "curvature of the risk",
}


@kept
def constants(n: int, ks: list[int], smoothings: list[float], starts: int) -> pd.DataFrame:
    """Stated constants beside the largest values over random heads and inputs: ``lemma``, ``k``, ``smoothing``."""
    rows = []
    for k in ks:
        task, draw = spread_bits(n, k), torch.Generator().manual_seed(2)
        points = initial_directions(range(starts), k)
        inputs = [task.sample(4, draw) for _ in points]
        for b in smoothings:
            at = Theorem5(n, k, 1 / n, b)
            stated = (at.prediction_lipschitz, at.prediction_smoothness, at.product_lipschitz, at.risk_smoothness)
            norms = [prediction_norms(x, a, k, 1 / n, b) for a, xs in zip(points, inputs, strict=True) for x in xs]
            bends = hessians(PopulationRisk(task, "squared_hinge", 1 / n, b), points)
            largest = [*np.max(norms, axis=0), float(torch.linalg.matrix_norm(bends, ord=2).max())]
            for lemma, constant, value, proved in zip(LEMMAS, stated, largest, at.proved, strict=True):
                rows.append((lemma, k, b, constant, value, proved))
    return pd.DataFrame(rows, columns=["lemma", "k", "smoothing", "stated", "measured", "proved"])


@kept
def start_risks(n: int, ks: list[int], smoothings: list[float], c1s: list[float], starts: int) -> pd.DataFrame:
    """Exact risk at the paper's random start: ``n``, ``k``, ``smoothing``, ``c1``, ``seed``, ``risk``."""
    parts, seeds = [], range(starts)
    for k, b, c1 in product(ks, smoothings, c1s):
        risk = PopulationRisk(spread_bits(n, k), "squared_hinge", c1 / n, b, accuracy=1e-3)
        columns = {"n": n, "k": k, "smoothing": b, "c1": c1, "seed": seeds, "risk": risk(initial_directions(seeds, k))}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


@kept
def pl_along_descent(n: int, ks: list[int], starts: int, updates: int) -> pd.DataFrame:
    """Risk and PL ratio along gradient descent, one row per ``k``, ``seed``, ``update``; ``mu`` is Lemma 8's."""
    recipe = replace(RECIPES["theory"], learning_rate=0.01, accuracy=1e-5, **budget(updates, 40))
    parts = []
    for k in ks:
        task, mu = spread_bits(n, k), Theorem5(n, k, 1 / n, recipe.smoothing).mu
        run = train(task, recipe, starts, progress=False)
        risk = PopulationRisk(task, "squared_hinge", 1 / n, recipe.smoothing)
        for epoch, heads in enumerate(run.directions):
            columns = {"k": k, "seed": run.seeds, "update": epoch * recipe.updates_per_epoch, "risk": run.risk[epoch]}
            parts.append(pd.DataFrame(columns | {"ratio": pl_ratio(risk, heads), "mu": mu}))
    return pd.concat(parts, ignore_index=True)


def pl_outside(n: int, k: int, norms: list[float]) -> pd.DataFrame:
    """Risk and PL ratio of heads that all point at one position outside B, by their ``norm`` over the temperature."""
    task = Parity(n, range(1, k + 1))
    risk = PopulationRisk(task, "squared_hinge", 1.0, 1e-2)
    heads = torch.tensor(norms, dtype=torch.float64).reshape(-1, 1, 1) * positional_code(n)[n - 2].expand(k, 2)
    return pd.DataFrame({"norm": norms, "risk": risk(heads), "ratio": pl_ratio(risk, heads)})


@kept
def brackets(n: int, starts: int) -> pd.DataFrame:
    """Smallest squared bracket of Lemma 18 over starts, for three readings, and the largest c_2 that each allows."""
    task, points = spread_bits(n, 3), initial_directions(range(starts), 3)
    right, printed = (torch.stack([lemma_18_brackets(task, a, 1 / n, sign) for a in points]) for sign in (-1, 1))
    smallest = {"every input": right.min(), "all but 1...1": right[:, :-1].min(), "sign as printed": printed.min()}
    unit = Theorem5(n, 3, 1 / n, 1e-2).bracket_bound  # with c_2 = 1
    rows = [(name, float(value), math.sqrt(float(value) / unit)) for name, value in smallest.items()]
    return pd.DataFrame(rows, columns=["inputs", "bracket", "largest_c2"])


def zero_input(n: int, ks: list[int], smoothings: list[float], starts: int) -> pd.DataFrame:
    """Both sides of Lemma 19, largest over starts: ``gradients`` (squared) and ``losses`` of 0...0 and 1...1."""
    rows = []
    for k, b in product(ks, smoothings):
        points = initial_directions(range(starts), k)
        left, right = np.transpose([lemma_19_sides(spread_bits(n, k), heads, 1 / n, b) for heads in points])
        factor = 64 * k**2 * 0.01**2 / n**2  # with c_2 = 0.01
        rows.append((k, b, left.max(), right.max(), (left >= factor * right - 1e-20).all()))  # up to rounding
    return pd.DataFrame(rows, columns=["k", "smoothing", "gradients", "losses", "true"])


def slopes(k: int, smoothings: list[float]) -> pd.DataFrame:
    """Eq. 7 at sums in (0, 1/2): squared slope of the prediction in v*_1, and the loss of the label that is wrong."""
    s = torch.linspace(0, 0.5, 51, dtype=torch.float64)[1:-1].requires_grad_()
    parts = []
    for b in smoothings:
        prediction = zigzag(s, k, b)
        (slope,) = torch.autograd.grad(prediction.sum(), s)
        loss = find_loss("squared_hinge")(-torch.ones_like(s), prediction).detach()
        parts.append(pd.DataFrame({"sum": s.detach(), "slope": (k * slope).square(), "loss": loss, "smoothing": b}))
    return pd.concat(parts, ignore_index=True)


def near_attention(lengths: list[int]) -> pd.DataFrame:
    """Attention within an eighth of a turn of a head that points at a position, at temperature 1/n, in units of it.

    Columns ``n``, ``smallest`` (the largest c_2 that the premise allows) and ``largest`` (the smallest c_1).
    """
    rows = []
    for n in lengths:
        reach = n // 8
        near = n * soft_attention(positional_code(n)[[0]], n, 1 / n)[0, np.r_[-reach:0, 1 : reach + 1]]
        rows.append((n, float(near.min()), float(near.max())))
    return pd.DataFrame(rows, columns=["n", "smallest", "largest"])


# Verdicts


def judge_start(risks: pd.DataFrame) -> Verdict:
    """The risk at the start is 1 (Theorem 5), from :func:`start_risks` and the windows by n."""
    medians = risks.groupby(["n", "k", "smoothing", "c1"])["risk"].median()
    near = (medians - 1).abs() < 0.1
    numbers = {"least": medians.min(), "largest": medians.max(), "settings": len(medians), "near 1": near.sum()}
    if near.all():
        return Verdict("holds", "exact", numbers)
    named = ", ".join(map(str, sorted({k for _, k, _, _ in medians[near].index})))
    instead = f"between {medians.min():.1f} and {medians.max():.1f}"
    instead += f"; within 0.1 of 1 in {near.sum()} of {len(near)} settings, all with k = {named}" if named else ""
    return Verdict("narrower range" if near.any() else "fails", "exact", numbers, instead)


def judge_entries(entries: pd.DataFrame) -> Verdict:
    """No other entry is updated, by its letter and in the sense of the lemmas, from :func:`entry_gradients`."""
    size, least = entries.pivot(index="row", columns="column", values="size"), 1e-9 * entries["size"].max()
    named, tokens, positions = size.loc[2:, :2].max(axis=None), size.loc[1, :2].max(), size.loc[1, 3:].max()
    numbers = {"by the letter": named, "tokens over positions": tokens / positions}
    if named > least:
        return Verdict("fails", "exact", numbers)
    silent = "it is silent on a_11 and a_12, which the lemmas leave out and which do get gradients"
    return Verdict("holds", "exact", numbers, silent if tokens > least else "")


def judge_sign(errors: dict[str, float]) -> Verdict:
    """The sign in the attention's derivative, from :func:`sign_errors`."""
    if errors["plus"] < 1e-9:
        return Verdict("holds", "exact", errors)
    right = errors["minus"] < 1e-9
    return Verdict("misprint" if right else "fails", "exact", errors, "with a minus before the sum" if right else "")


def judge_conflicts(shares: pd.DataFrame) -> Verdict:
    """Lemma 17, from :func:`conflicts`."""
    numbers = shares.groupby("temperature")["share"].median().add_prefix("temperature ").to_dict()
    if shares["share"].max() == 0:
        return Verdict("holds", "exact", numbers)
    instead = "about half of all pairs point against each other, and an input always against its complement where both "
    return Verdict("fails", "exact", numbers, instead + "losses slope the same way")


def judge_constant(found: pd.DataFrame, lemma: str) -> Verdict:
    """Lemmas 14 and 15 (proved for all b), 16 and, for one head, 7 (up to some b), from :func:`constants`."""
    rows = found[found["lemma"] == lemma]
    exceeded, inside = rows[rows["measured"] > rows["stated"]], rows[rows["proved"]]
    slack = (inside["stated"] / inside["measured"]).min()
    numbers = {"least stated / measured, where proved": slack, "settings": len(rows), "exceeded": len(exceeded)}
    if exceeded.empty:
        return Verdict("holds", "proved" if rows["proved"].all() else "measured", numbers)
    if exceeded["proved"].any():
        return Verdict("fails", "measured", numbers)
    always = rows.groupby("k")["proved"].all()
    limits = [f"up to {_below(Theorem5(k, k, 1.0, 1.0).smoothing_limit)} (k = {k})" for k in always.index[~always]]
    limits += [f"of any size (k = {', '.join(map(str, always.index[always]))})"] if always.any() else []
    false = ", ".join(map(str, sorted(exceeded["k"].unique())))
    least = exceeded.loc[exceeded["smoothing"].idxmin()]
    numbers |= {"exceeded at b": least["smoothing"], "there k": least["k"],
                "measured there": least["measured"], "stated there": least["stated"]}  # fmt: skip
    instead = f"proved for b {', '.join(limits)}; false for much larger b if k is {false}"
    return Verdict("narrower range", "proved", numbers, instead)


def judge_pl(outside: pd.DataFrame, along: pd.DataFrame) -> Verdict:
    """Lemma 8, from :func:`pl_outside` and :func:`pl_along_descent`."""
    last, far = outside.loc[outside["norm"].idxmax()], along[along["risk"] > 0.1]
    numbers = {"ratio": last["ratio"], "risk there": last["risk"],
               "least ratio over mu along descent": (far["ratio"] / far["mu"]).min()}  # fmt: skip
    if last["ratio"] < 1e-12 and last["risk"] > 1:
        return Verdict("fails", "proved", numbers, "no mu > 0 does: the ratio tends to 0 where heads point away from B")
    below = (far["ratio"] < far["mu"]).any()
    return Verdict("fails" if below else "open", "exact", numbers)


def judge_brackets(found: pd.DataFrame) -> Verdict:
    """Lemma 18, from :func:`brackets`."""
    found = found.set_index("inputs")
    numbers, every = found["largest_c2"].add_prefix("largest c_2, ").to_dict(), found.loc["every input"]
    if every["largest_c2"] >= 0.01:
        return Verdict("holds", "exact", numbers)
    if every["bracket"] >= 1e-20:
        return Verdict("open", "exact", numbers)
    instead = "on the input 1...1 every bracket is 0, since its sum is k whatever the heads"
    return Verdict("fails", "proved", numbers, instead)


def _below(limit: float) -> int:
    """The largest number of two digits that is not above a limit: what is proved must not be rounded up."""
    unit = 10 ** max(0, math.floor(math.log10(limit)) - 1)
    return math.floor(limit / unit) * unit


def judge_zero_input(found: pd.DataFrame) -> Verdict:
    """Lemma 19, from :func:`zero_input`."""
    odd = found["k"] % 2 == 1
    losses = found["losses"].groupby(odd.map({True: "largest loss, odd k", False: "largest loss, even k"})).max()
    numbers = losses.to_dict() | {"largest squared gradients": found["gradients"].max()}
    if found["true"].all():
        return Verdict("holds", "exact", numbers)
    if not found.loc[~odd, "true"].all():
        return Verdict("fails", "exact", numbers)
    instead = "for even k, where both sides are 0; for odd k and b > 0 the input 0...0 has a loss and no gradient"
    return Verdict("narrower range", "proved", numbers, instead)


def judge_slopes(found: pd.DataFrame) -> Verdict:
    """Eq. 7, from :func:`slopes`."""
    flat = found[(found["slope"] < 16) & (found["loss"] > 1)]
    least, loss = found["slope"].min(), flat["loss"].max() if len(flat) else 0.0
    numbers = {"least squared slope": least, "largest loss there": loss}
    if flat.empty:
        return Verdict("holds" if least >= 16 else "open", "exact", numbers)
    why = "at small smoothing the read-out is flat between 0 and 1/2, so that an input it gets wrong there has loss 4 "
    why += "and hardly a gradient"
    steep = found.loc[found["smoothing"] > flat["smoothing"].max(), "smoothing"]
    if steep.empty:
        return Verdict("fails", "proved", numbers, f"the last part holds with equality; {why}")
    instead = f"at k = 3, of the smoothings tried, from {steep.min():g} on; {why}"
    return Verdict("narrower range", "exact", numbers, instead)


def judge_premise(found: pd.DataFrame) -> Verdict:
    """Appendix A's bounds on attention near a direction, from :func:`near_attention`."""
    ratio = found["largest"] / found["smallest"]
    c1, c2, growth = found["largest"].max(), found["smallest"].min(), ratio.max() / ratio.min()
    numbers = {"smallest c1": c1, "largest c2": c2, "ratio grows": growth}
    if c1 <= 1 and growth < 10:
        return Verdict("holds", "exact", numbers)
    instead = "attention at angle t is exp(n (cos t - 1)/c1) times that at 0: no constants bound it from both sides as "
    return Verdict("fails", "proved", numbers, instead + "n grows")

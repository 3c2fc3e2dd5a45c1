"""Small transformer encoders for n bits: start, training and the authors' metrics (chapter ``sensitivity``).

The model is written down in :mod:`parity_lib.chapters.encoder_reference`. All its parameters are one row of numbers,
so that a perturbation, a norm or an update is one line, and many models are the rows of a matrix. Training and
measuring call an *engine*: the fused steps of :mod:`parity_lib.chapters.encoder_kernel` where numba is there, the
reference elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from ..kernels import choose
from ..progress import track
from ..training import one_thread_per_process, seed_list
from . import encoder_kernel, encoder_reference
from .boolean import Function, cube
from .encoder_reference import HEADS, shapes, views

predict = choose(encoder_kernel.predict, encoder_reference.predict)
look = choose(encoder_kernel.look, encoder_reference.look)
train_steps = choose(encoder_kernel.train_steps, encoder_reference.train_steps)

DATA_SEED = 2**41  # a model's inputs come from another stream than its start
POLISH_SEED = 2**40  # nor does what it is polished on
CHUNK = 50  # updates between two looks at a run
LEARNED = 0.01  # loss on fresh inputs, averaged over a chunk, below which a run has learned
NEXT_BIT = 0.03  # the same, for one more free bit
LOST, PATIENCE = 0.2, 10  # a run above this for so many chunks goes back to where it was good
MEASURE_MEMORY = 2**22  # bytes that a measurement's forward pass may take: what stays in cache is three times as fast
CUBE_BITS = 14  # up to here loss and blowup are over all inputs, beyond over as many at random


@dataclass(frozen=True)
class Encoder:
    """The shape of an encoder.

    Parameters
    ----------
    n : number of bits
    width : d, even; half of it is the token's, half the position's, and each head's
    """

    n: int
    width: int = 32

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n must be a whole number of at least 1, got {self.n!r}")
        if self.width < 2 or self.width % HEADS:
            raise ValueError(f"width must be an even whole number of at least 2, got {self.width!r}")

    @cached_property
    def numbers(self) -> int:
        """Parameters of one model, the position embedding included."""
        return sum(map(math.prod, shapes(self.n, self.width).values()))

    @property
    def positions(self) -> int:
        """How many numbers at the start of a row are the position embedding, which no metric counts."""
        return self.n * self.width // 2

    def views(self, row: Tensor) -> dict[str, Tensor]:
        """The parameters of a row (numbers,) by name, as views of it."""
        return views(row, self.n, self.width)

    def start(self, seed: int, position_scale: float = 0.1) -> Tensor:
        """A random start (numbers,), float32: as torch initialises its layers, each layer on its own.

        Embeddings are Gaussian, those of the positions with standard deviation ``position_scale``.
        """
        generator, row = torch.Generator().manual_seed(seed), torch.zeros(self.numbers, dtype=torch.float64)
        gaussian = {"position": position_scale, "token": 1.0}
        narrow, wide = self.width**-0.5, math.sqrt(6 / (4 * self.width))
        both = (f"{part}_{kind}" for part in ("up", "down", "read") for kind in ("weight", "bias"))
        uniform = {"in_weight": wide, "out_weight": narrow} | dict.fromkeys(both, narrow)
        for name, view in self.views(row).items():
            kind = name.rstrip("12")
            if kind in gaussian:
                view.normal_(0, gaussian[kind], generator=generator)
            elif kind in uniform:
                view.uniform_(-uniform[kind], uniform[kind], generator=generator)
            elif kind.endswith("gain"):
                view.fill_(1)
        return row.float()

    def codes(self, x: Tensor) -> np.ndarray:
        """Bits (..., n) as the engine has them, 2 i + bit."""
        return (2 * torch.arange(self.n) + x.long()).to(torch.int32).numpy()

    def inputs(self) -> Tensor:
        """The inputs behind a loss or a blowup, (inputs, n): all of them, or as many as 14 bits have at random."""
        if self.n <= CUBE_BITS:
            return cube(self.n, torch.float32)
        generator = torch.Generator().manual_seed(self.n)
        return torch.randint(2, (2**CUBE_BITS, self.n), generator=generator, dtype=torch.float32)


LAYER_NAMES = {
    "self_attn.in_proj_weight": "in_weight", "self_attn.in_proj_bias": "in_bias",
    "self_attn.out_proj.weight": "out_weight", "self_attn.out_proj.bias": "out_bias",
    "norm1.weight": "norm1_gain", "norm1.bias": "norm1_bias",
    "linear1.weight": "up_weight", "linear1.bias": "up_bias",
    "linear2.weight": "down_weight", "linear2.bias": "down_bias",
    "norm2.weight": "norm2_gain", "norm2.bias": "norm2_bias",
}  # fmt: skip
TORCH_NAMES = {"token": "token", "position": "position", "read.weight": "read_weight", "read.bias": "read_bias"} | {
    f"body.layers.{i}.{theirs}": f"{ours}{i + 1}" for i in (0, 1) for theirs, ours in LAYER_NAMES.items()
}
"""Name of each parameter of the literal encoder to its name in a row."""


class LiteralEncoder(nn.Module):
    """The same model built of torch's own ``nn.TransformerEncoder``, with any number of layers.

    It is what the engines are held against.
    """

    def __init__(self, n: int, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, HEADS, width, dropout=0.0, batch_first=True)
        self.token = nn.Parameter(torch.randn(2, width // 2))
        self.position = nn.Parameter(torch.randn(n, width // 2))
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.read = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Bits (inputs, n) to outputs (inputs,)."""
        h = torch.cat([self.token[x.long()], self.position.expand(len(x), -1, -1)], -1)
        return self.read(self.body(h)[:, -1]).squeeze(-1)

    @classmethod
    def of_row(cls, encoder: Encoder, row: Tensor) -> LiteralEncoder:
        """The model whose parameters are a row (numbers,)."""
        model, values = cls(encoder.n, encoder.width).to(row.dtype), encoder.views(row)
        with torch.no_grad():
            for theirs, ours in TORCH_NAMES.items():
                parameter = model.get_parameter(theirs)
                parameter.copy_(values[ours].view_as(parameter))
        return model


# Training


@dataclass(frozen=True)
class Settings:
    """How encoders are trained: AdamW on the squared error against values in [0, 1], each run until it is done.

    A run that has learned (mean loss below 0.01 over 50 updates, all bits free) and has done ``least`` - ``finish``
    updates, or that has only ``finish`` left of ``steps``, finishes: its learning rate falls linearly to a twentieth.

    Parameters
    ----------
    steps : most updates
    least : fewest updates
    finish : updates at the end in which the learning rate falls
    batch : fresh inputs per update
    learning_rate : until the end begins
    weight_decay : decoupled, on every parameter, as in the authors' code
    position_scale : standard deviation of the position embedding at the start
    free_bits
        A curriculum: the bits beyond so many are 0 at first; until the run has learned, there is one more free bit
        after 50 updates with a mean loss below 0.03. A run whose loss stays above 0.2 for 500 updates goes back to
        its last good weights, with one bit fewer. With 0 all bits are free from the start.
    noise
        Gaussian noise on the weights (not the positions) at which slopes are taken; it grows from 0 to this over
        the first half of the updates.
    bearable
        With a loss here the noise follows the run instead: from a tenth of ``noise`` it grows by 2 %, at most to
        ``noise``, after 50 updates with a mean loss below this, and shrinks by 5 % after 50 above four times it. A run
        that is lost, as in a curriculum, goes back to its last good weights, with four fifths of the noise.
    enough
        A run that has learned stops once its mean loss over 50 updates is below this, so that runs are compared at
        about one loss and not after one time. With 0 all go on to the end.
    polish
        Updates after the end for a run that has learned and is not at ``enough``: with four times the batch, and a
        rate that starts at three tenths and falls in the same way.
    """

    steps: int = 6000
    least: int = 4000
    finish: int = 2000
    batch: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.1
    position_scale: float = 0.1
    free_bits: int = 0
    noise: float = 0.0
    bearable: float = 0.0
    enough: float = 0.0
    polish: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.finish <= self.least <= self.steps:
            given = f"{self.finish}, {self.least} and {self.steps}"
            raise ValueError(f"need 1 <= finish <= least <= steps, got {given}")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate must be positive and finite, got {self.learning_rate!r}")


@dataclass(frozen=True)
class Trained:
    """One trained model."""

    row: np.ndarray
    """Parameters at the end, (numbers,)."""
    loss: np.ndarray
    """Squared error on each update's batch before it, (updates,): fresh inputs, so no training bias."""
    learned: float
    """Updates until it had learned; infinite if it never did."""
    frames: list[np.ndarray]
    """Parameters every ``keep_every`` updates, (numbers,) each; none unless asked for."""


def train_encoder(
    encoder: Encoder, function: Function, seed: int, settings: Settings, *,
    pool: Tensor | None = None, start: Tensor | None = None, keep_every: int = 0,
) -> Trained:  # fmt: skip
    """Train one model in float32. The seed draws its start and its inputs.

    Parameters
    ----------
    pool : the inputs to draw from, (K, n); by default all 2^n
    start : parameters to start from instead of random ones, (numbers,)
    keep_every : keep a copy of all parameters after each so many updates, a multiple of 50
    """
    row = (encoder.start(seed, settings.position_scale) if start is None else start.clone()).numpy()
    state = row, np.zeros_like(row), np.zeros_like(row)  # and Adam's means of slopes and of their squares
    course, losses, frames = _Course(settings, encoder.n), [], []
    draw, shake = torch.Generator().manual_seed(DATA_SEED + seed), np.random.default_rng(seed)
    while not course.over:
        count = min(CHUNK, course.end - course.done)
        x = _draw(draw, count, settings.batch, encoder.n, pool)
        x[..., course.free :] = 0
        noise, loss = _noise(encoder, course, shake, count), np.empty(count, np.float32)
        train_steps(*state, course.done, encoder.codes(x), _values(function, x), course.rates(count),
                    settings.weight_decay, noise, encoder.n, encoder.width, loss)  # fmt: skip
        course.look(count, float(loss.mean()), state)
        losses.append(loss)
        if keep_every and course.done % keep_every == 0:
            frames.append(row.copy())
    if not np.isfinite(row).all():
        raise FloatingPointError(f"training diverged; try a smaller learning rate than {settings.learning_rate}")
    if settings.polish and course.learned < math.inf and course.average >= settings.enough:
        few = settings.polish
        last = replace(settings, steps=few, least=few, finish=few, polish=0, free_bits=0, batch=4 * settings.batch,
                       learning_rate=0.3 * settings.learning_rate)  # fmt: skip
        rest = train_encoder(encoder, function, seed + POLISH_SEED, last, pool=pool, start=torch.from_numpy(row))
        row, losses = rest.row, [*losses, rest.loss]
    return Trained(row, np.concatenate(losses), course.learned, frames)


class _Course:
    """Where a run stands, and what it does next: see :class:`Settings`."""

    def __init__(self, settings: Settings, n: int) -> None:
        self.settings, self.n = settings, n
        self.done, self.end, self.learned, self.over = 0, settings.steps, math.inf, False
        self.free, self.noise, self.average = settings.free_bits or n, settings.noise / 10, math.inf
        self.good: tuple[np.ndarray, ...] = ()
        self.lost = 0

    def rates(self, count: int) -> np.ndarray:
        """Learning rates of the next updates."""
        left = (self.end - np.arange(self.done, self.done + count)) / self.settings.finish
        return self.settings.learning_rate * np.minimum(1.0, 0.05 + 0.95 * left)

    def look(self, count: int, average: float, state: tuple[np.ndarray, ...]) -> None:
        """After so many updates with this mean loss; ``state`` may be set back to where it was good."""
        how = self.settings
        self.done, self.average = self.done + count, average
        if average < how.bearable:
            self.noise, self.good = min(1.02 * self.noise, how.noise), tuple(part.copy() for part in state)
        elif average > 4 * how.bearable:
            self.noise *= 0.95
        if self.free == self.n and average < LEARNED:
            self.learned = min(self.learned, self.done)
        growing = how.free_bits and self.learned == math.inf
        if growing and average < NEXT_BIT:
            self.free, self.good = min(self.free + 1, self.n), tuple(part.copy() for part in state)
        if growing or how.bearable:
            self.lost = self.lost + 1 if average > LOST and self.good else 0
            if self.lost == PATIENCE:
                self.free, self.noise, self.lost = max(self.free - 1, how.free_bits or self.n), 0.8 * self.noise, 0
                for part, before in zip(state, self.good, strict=True):
                    part[:] = before
        if self.learned < math.inf:
            self.end = min(self.end, max(self.done + how.finish, how.least))
        self.over = self.done >= self.end or (self.learned < math.inf and average < how.enough)


def train_encoders(
    encoder: Encoder, functions: Sequence[Function], seeds: Sequence[int], settings: Settings, *,
    pools: Sequence[Tensor] | None = None, keep_every: int = 0, label: str = "encoders",
) -> list[Trained]:  # fmt: skip
    """One trained model per function and seed, after one another; see :func:`train_encoder`."""
    chosen = seed_list(seeds)
    if len(functions) != len(chosen):
        raise ValueError(f"give one function per seed, got {len(functions)} and {len(chosen)}")
    given: Sequence[Tensor | None] = pools or [None] * len(chosen)
    with one_thread_per_process():
        return [train_encoder(encoder, functions[i], chosen[i], settings, pool=given[i], keep_every=keep_every)
                for i in track(len(chosen), label)]  # fmt: skip


def _values(function: Function, x: Tensor) -> np.ndarray:
    return np.ascontiguousarray(function(x).float().numpy())


def _draw(generator: torch.Generator, steps: int, batch: int, n: int, pool: Tensor | None) -> Tensor:
    if pool is None:
        return torch.randint(2, (steps, batch, n), generator=generator, dtype=torch.float32)
    return pool[torch.randint(len(pool), (steps, batch), generator=generator)].float()


def _noise(encoder: Encoder, course: _Course, rng: np.random.Generator, count: int) -> np.ndarray:
    """Noise of the next updates, (count, numbers), or no rows where there is none."""
    settings = course.settings
    if not settings.noise:
        return np.empty((0, encoder.numbers), np.float32)
    ramp = np.minimum(1, 2 * np.arange(course.done + 1, course.done + count + 1) / settings.steps).astype(np.float32)
    sizes = np.full(count, course.noise, np.float32) if settings.bearable else np.float32(settings.noise) * ramp
    noise = rng.standard_normal((count, encoder.numbers), np.float32) * sizes[:, None]
    noise[:, : encoder.positions] = 0
    return noise


# Measurements, with the definitions of the authors' code


def predictions(encoder: Encoder, row: np.ndarray, x: Tensor) -> np.ndarray:
    """Outputs of a model (numbers,) on inputs (inputs, n): (inputs,)."""
    return np.concatenate([predict(row, part, encoder.n, encoder.width) for part in in_parts(encoder, row, x)])


def in_parts(encoder: Encoder, row: np.ndarray, x: Tensor) -> Iterator[np.ndarray]:
    """The codes of the inputs x (inputs, n), in as many parts as memory asks for."""
    per_input = encoder.n * (2 * HEADS * encoder.n + 12 * encoder.width) * row.itemsize
    return (encoder.codes(part) for part in x.split(max(1, MEASURE_MEMORY // per_input)))


def sharpness(
    encoder: Encoder, row: np.ndarray, function: Function, seed: int = 0, *,
    perturbations: int = 1000, batch: int = 64, scale: float = 0.02,
) -> np.ndarray:  # fmt: skip
    r"""Rises of the loss under small random changes of the weights, on the ±1 scale, (perturbations,):

    .. math:: 4\,\big[\mathrm{MSE}(\theta + \epsilon z) - \mathrm{MSE}(\theta)\big], \qquad z \sim N(0, I),

    with ε = ``scale`` for each parameter except the position embedding. Each has its own z, so their mean is the
    sharpness and their spread its error; the inputs are 16 batches that take turns.
    """
    rng, rises = np.random.default_rng([seed, encoder.n]), []
    x = torch.from_numpy(rng.integers(0, 2, (16, batch, encoder.n), np.int32)).float()
    codes, y = encoder.codes(x), _values(function, x)
    before = [np.mean((predict(row, c, encoder.n, encoder.width) - t) ** 2) for c, t in zip(codes, y, strict=True)]
    for i in range(perturbations):
        z = rng.standard_normal(len(row), row.dtype)
        z[: encoder.positions] = 0
        output = predict(row + row.dtype.type(scale) * z, codes[i % 16], encoder.n, encoder.width)
        rises.append(4 * (np.mean((output - y[i % 16]) ** 2) - before[i % 16]))
    return np.array(rises, np.float64)


def look_at(encoder: Encoder, row: np.ndarray, x: Tensor | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Outputs (inputs,) on x, by default :meth:`Encoder.inputs`, and what the norms magnify by, (4, inputs)."""
    x = encoder.inputs() if x is None else x
    parts = [look(row, part, encoder.n, encoder.width) for part in in_parts(encoder, row, x)]
    outputs, taus = zip(*parts, strict=True)
    return np.concatenate(outputs), np.concatenate(taus, 1)


def blowup(taus: np.ndarray) -> float:
    r"""How far the four layer norms magnify, :math:`E_x \prod_k \max_i 1/\mathrm{std}(u^{(k)}_i)`, from (4, inputs).

    The standard deviation is the unbiased one, without epsilon. Of the second layer only the last position counts.
    """
    return float(taus.prod(0).mean(dtype=np.float64))


def parameter_norm(encoder: Encoder, row: np.ndarray) -> float:
    """Euclidean length of all parameters except the position embedding."""
    return float(np.linalg.norm(row[encoder.positions :].astype(np.float64)))

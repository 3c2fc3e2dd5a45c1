r"""Many small transformer encoders as one stacked tensor (chapter ``sensitivity``).

The model of Hahn and Rofin: two post-norm layers with two heads and a feed-forward part as wide as the model,
token and learned position embedding side by side (d/2 each), no mask, and a linear read-out of the last position,

.. math::
    h^{(0)}_i = (e_{x_i}, p_i), \quad
    u = \mathrm{LN}(h + \mathrm{Att}(h)), \quad
    h' = \mathrm{LN}(u + W_2\,\mathrm{relu}(W_1 u + b_1) + b_2), \quad
    \hat y = w \cdot h^{(2)}_n + b .

All parameters of a model are one row of a matrix (models, numbers), so that a perturbation, a norm or an update is
one line. Three exact shortcuts make a step fast: the first layer meets only 2n different vectors, so its scores and
values are computed once per (bit, position); only the last position of the second layer is needed; and its keys
and values are folded into the query and the output, so they are never formed.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..progress import track
from ..training import adam, one_thread_per_process, seed_list
from .boolean import Function, cube

HEADS = 2
DATA_SEED = 2**41  # a model's inputs come from another stream than its start
CHUNK = 50  # steps whose inputs are drawn at once
MEASURE_MEMORY = 2**28  # bytes that a measurement's forward pass may take
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # names of glibc's malloc.h


@dataclass(frozen=True)
class Encoder:
    """The shape of an encoder for n bits, and its forward pass for a stack of models.

    Parameters
    ----------
    n : number of bits.   width : d, even: half of it is the token's, half the position's, and each head's.
    """

    n: int
    width: int = 32

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            raise ValueError(f"n must be a whole number of at least 1, got {self.n!r}")
        if isinstance(self.width, bool) or not isinstance(self.width, int) or self.width < 2 or self.width % HEADS:
            raise ValueError(f"width must be an even whole number of at least 2, got {self.width!r}")

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name to shape of every parameter, in the order of a row; the position embedding comes first."""
        d = self.width
        layer = {
            "in_weight": (3 * d, d),
            "in_bias": (3 * d,),
            "out_weight": (d, d),
            "out_bias": (d,),
            "norm1_gain": (d,),
            "norm1_bias": (d,),
            "up_weight": (d, d),
            "up_bias": (d,),
            "down_weight": (d, d),
            "down_bias": (d,),
            "norm2_gain": (d,),
            "norm2_bias": (d,),
        }
        layers = {f"{name}{i}": shape for i in (1, 2) for name, shape in layer.items()}
        return {"position": (self.n, d // 2), "token": (2, d // 2), **layers, "read_weight": (d,), "read_bias": (1,)}

    @property
    def positions(self) -> int:
        """How many numbers at the start of a row are the position embedding, which no metric counts."""
        return math.prod(self.shapes["position"])

    @property
    def numbers(self) -> int:
        """Parameters of one model, the position embedding included."""
        return sum(map(math.prod, self.shapes.values()))

    def views(self, rows: Tensor) -> dict[str, Tensor]:
        """The parameters by name, each (models, ...), as views of the rows (models, numbers)."""
        parts = rows.split([math.prod(shape) for shape in self.shapes.values()], dim=-1)
        return {name: part.unflatten(-1, shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def start(self, seeds: Iterable[int], position_scale: float = 0.1, dtype: torch.dtype = torch.float32) -> Tensor:
        """Random starts, (seeds, numbers): as torch initialises its layers, each layer on its own.

        Embeddings are Gaussian, those of the positions with standard deviation ``position_scale``.
        """
        seeds = list(seeds)
        rows = torch.zeros(len(seeds), self.numbers, dtype=torch.float64)
        views, d = self.views(rows), self.width
        bounds = {"in": math.sqrt(6 / (4 * d)), "out": d**-0.5, "up": d**-0.5, "down": d**-0.5, "read": d**-0.5}
        for row, seed in enumerate(seeds):
            generator = torch.Generator().manual_seed(seed)
            for name, view in views.items():
                part, kind = name.rstrip("12").split("_") if "_" in name else (name, "gaussian")
                if kind == "gain":
                    view[row] = 1
                elif kind == "gaussian":
                    view[row].normal_(0, position_scale if part == "position" else 1, generator=generator)
                elif kind == "weight" or part in ("up", "down", "read"):
                    view[row].uniform_(-bounds[part], bounds[part], generator=generator)
        return rows.to(dtype)

    def __call__(self, rows: Tensor, x: Tensor, norm_inputs: list[Tensor] | None = None) -> Tensor:
        """Predictions of every model on its own inputs: (models, numbers), (models, batch, n) -> (models, batch).

        What enters each of the four layer norms is appended to ``norm_inputs``: (models, n, batch, d) twice for the
        first layer, (models, 1, batch, d) twice for the second, of which only the last position is computed.
        """
        p = self.views(rows)
        tokens = self._tokens(p)
        own = torch.stack([1 - x.mT, x.mT], -1)  # which bit a position has, (models, n, batch, 2)
        attended = self._attend_first(p, tokens, own)
        h = (own.flatten(0, 1) @ (tokens + p["out_bias1"][:, None, None]).flatten(0, 1)).view_as(attended)
        h = _rest_of_layer(p, 1, h, attended, norm_inputs)
        last = _affine(p, "norm21", h[:, -1:])
        h = _rest_of_layer(p, 2, last + p["out_bias2"][:, None, None], self._attend_last(p, h, last), norm_inputs)
        last = _affine(p, "norm22", h).squeeze(1)
        return (last @ p["read_weight"].unsqueeze(-1)).squeeze(-1) + p["read_bias"]

    def _tokens(self, p: dict[str, Tensor]) -> Tensor:
        """Embedding of both bits at every position, (models, n, 2, d)."""
        token = p["token"].unsqueeze(1).expand(-1, self.n, -1, -1)
        return torch.cat([token, p["position"].unsqueeze(2).expand(-1, -1, 2, -1)], -1)

    def _attend_first(self, p: dict[str, Tensor], tokens: Tensor, own: Tensor) -> Tensor:
        """What the heads of layer 1 read, (models, n, batch, d): one product of the inputs with a table.

        For each query and key among the 2n vectors the table holds exp(score) times the value, and exp(score); summed
        over those that are there they give numerator and denominator of the softmax.
        """
        models, n, size = len(tokens), self.n, self.width // HEADS
        qkv = tokens.flatten(1, 2) @ p["in_weight1"].mT
        q, k, v = qkv.unflatten(-1, (3, HEADS, size)).permute(2, 0, 3, 1, 4)  # (models, heads, 2n, size) each
        bias = p["in_bias1"].view(models, 3, HEADS, 1, size)
        # The softmax does not see a bias of the keys; leaving it out keeps rounding noise from its gradient.
        scores = ((q + bias[:, 0]) @ k.mT) * size**-0.5
        # For any input some key reaches this shift, so the denominator is at least 1.
        shift = scores.detach().unflatten(-1, (n, 2)).amin(-1).amax(-1, keepdim=True)
        weight = (scores - shift).exp().permute(0, 2, 3, 1).reshape(models * n, 4 * n, HEADS, 1)
        value = (v + bias[:, 2]).transpose(1, 2).unsqueeze(1).expand(-1, 2 * n, -1, -1, -1)
        table = torch.cat([weight * value.reshape(models * n, 4 * n, HEADS, size), weight], -1)
        keys = own.transpose(1, 2).flatten(2).unsqueeze(1).unsqueeze(3)  # (models, 1, batch, 1, 2n)
        there = (own.unsqueeze(-1) * keys).flatten(3).flatten(0, 1)  # pairs that are there, (models x n, batch, 4n)
        read, total = (there @ table.flatten(2)).unflatten(-1, (HEADS, size + 1)).split([size, 1], -1)
        return (read * total.reciprocal()).view(models, n, -1, self.width)

    def _attend_last(self, p: dict[str, Tensor], h: Tensor, last: Tensor) -> Tensor:
        """What the heads of layer 2 read at the last position, from normalised h (models, n, batch, d)."""
        models, _, batch, d = h.shape
        size = d // HEADS
        query, key, value = p["in_weight2"].unflatten(1, (3, HEADS, size)).unbind(1)
        query_bias, _, value_bias = p["in_bias2"].unflatten(1, (3, 1, d)).unbind(1)
        gain = p["norm2_gain1"].view(models, 1, 1, d)
        q = torch.baddbmm(query_bias, last.squeeze(1), query.flatten(1, 2).mT).unflatten(-1, (HEADS, size))
        # <q, W_k (gain * h + bias)> = <gain * W_k^T q, h> + a constant that the softmax does not see
        folded = torch.einsum("mbhs,mhsd->mbhd", q, key) * (gain * size**-0.5)
        h = h.transpose(1, 2).flatten(0, 1)
        attention = (folded.flatten(0, 1) @ h.mT).softmax(-1)  # (models x batch, heads, n)
        read = (attention @ h).view(models, batch, HEADS, d)
        read = torch.addcmul(p["norm2_bias1"].view(models, 1, 1, d), read, gain)
        return (torch.einsum("mbhd,mhsd->mbhs", read, value).flatten(-2) + value_bias).unsqueeze(1)


def _rest_of_layer(
    p: dict[str, Tensor], i: int, h: Tensor, attended: Tensor, norm_inputs: list[Tensor] | None
) -> Tensor:
    """Output projection, feed-forward part and both norms, the last without its gain and bias.

    h (models, positions, batch, d) is what the layer got plus the bias of the output projection.
    """
    bias = {name: p[f"{name}_bias{i}"].unsqueeze(1) for name in ("norm1", "up", "down")}
    up, down = p[f"up_weight{i}"].mT, p[f"down_weight{i}"].mT
    u = torch.baddbmm(h.flatten(1, 2), attended.flatten(1, 2), p[f"out_weight{i}"].mT)
    # The bias of the second map joins that of the norm, and is taken out again before the first map.
    middle = torch.addcmul(bias["norm1"] + bias["down"], _Normalised.apply(u), p[f"norm1_gain{i}"].unsqueeze(1))
    active = torch.baddbmm(bias["up"] - bias["down"] @ up, middle, up).relu()
    v = torch.baddbmm(middle, active, down)
    if norm_inputs is not None:
        norm_inputs += [u.view_as(h), v.view_as(h)]
    return _Normalised.apply(v).view_as(h)


class _Normalised(torch.autograd.Function):
    """Layer norm without gain and bias; torch's own forward pass takes three times as long on short rows."""

    @staticmethod
    def forward(ctx: Any, h: Tensor) -> Tensor:
        mean = h.mean(-1, keepdim=True)
        centred = h - mean
        scale = centred.square().mean(-1, keepdim=True).add_(1e-5).rsqrt_()
        ctx.save_for_backward(h, mean, scale)
        return centred.mul_(scale)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        h, mean, scale = ctx.saved_tensors
        wanted = [True, False, False]  # of input, gain and bias
        backward = torch.ops.aten.native_layer_norm_backward
        return backward(upstream, h, h.shape[-1:], mean, scale, None, None, wanted)[0]


def _affine(p: dict[str, Tensor], name: str, h: Tensor) -> Tensor:
    norm, layer = name[:-1], name[-1]
    gain, bias = p[f"{norm}_gain{layer}"], p[f"{norm}_bias{layer}"]
    return torch.addcmul(bias[:, None, None], h, gain[:, None, None])


class LiteralEncoder(nn.Module):
    """The same model built of torch's own ``nn.TransformerEncoder``: what the stack is held against.

    Parameters
    ----------
    n, width : as in :class:`Encoder`.   layers : any number.
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
        """The model whose parameters are a row (numbers,) of a stack."""
        model = cls(encoder.n, encoder.width).to(row.dtype)
        values = encoder.views(row.unsqueeze(0))
        with torch.no_grad():
            for theirs, ours in model.names().items():
                parameter = model.get_parameter(theirs)
                parameter.copy_(values[ours].view_as(parameter))
        return model

    @staticmethod
    def names() -> dict[str, str]:
        """Name of each parameter here to its name in :attr:`Encoder.shapes`."""
        parts = {"self_attn.in_proj": "in", "self_attn.out_proj": "out", "linear1": "up", "linear2": "down"}
        layer = {f"{theirs}{joint}{kind}": f"{ours}_{kind}" for theirs, ours in parts.items()
                 for joint in ("_" if "in_proj" in theirs else ".") for kind in ("weight", "bias")}  # fmt: skip
        layer |= {f"norm{i}.{theirs}": f"norm{i}_{ours}" for i in (1, 2)
                  for theirs, ours in (("weight", "gain"), ("bias", "bias"))}  # fmt: skip
        both = {f"body.layers.{i}.{theirs}": f"{ours}{i + 1}" for i in (0, 1) for theirs, ours in layer.items()}
        ends = {"token": "token", "position": "position", "read.weight": "read_weight", "read.bias": "read_bias"}
        return both | ends


# Training


@dataclass(frozen=True)
class Settings:
    """How encoders are trained: AdamW on the squared error against values in [0, 1].

    Parameters
    ----------
    steps : updates.   batch : fresh inputs per update, each model its own.
    weight_decay : decoupled, on every parameter, as in the authors' code.
    cool_down : share of the steps, at the end, in which the learning rate falls linearly to a twentieth.
    position_scale : standard deviation of the position embedding at the start.
    """

    steps: int = 4000
    batch: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.1
    cool_down: float = 0.3
    position_scale: float = 0.1

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {getattr(self, name)!r}")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate must be positive and finite, got {self.learning_rate!r}")
        for name in ("weight_decay", "position_scale"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be at least 0 and finite, got {getattr(self, name)!r}")
        if not 0 <= self.cool_down <= 1:
            raise ValueError(f"cool_down must be a share in 0..1, got {self.cool_down!r}")

    def rate_at(self, update: int) -> float:
        """The learning rate of an update, counted from 0."""
        left = (self.steps - update) / max(self.cool_down * self.steps, 1)
        return self.learning_rate * min(1.0, 0.05 + 0.95 * left)

    def __str__(self) -> str:
        return (
            f"{self.steps} steps of AdamW, batch {self.batch}, rate {self.learning_rate:g}, "
            f"weight decay {self.weight_decay:g}"
        )


@dataclass(frozen=True)
class Trained:
    """A trained stack: what each model was to learn, where it ended, and how it went."""

    encoder: Encoder
    functions: tuple[Function, ...]
    seeds: tuple[int, ...]
    settings: Settings
    rows: Tensor
    """Parameters at the end, (models, numbers)."""
    loss: Tensor
    """Squared error on each step's batch before the update, (steps, models): fresh inputs, so no training bias."""
    frames: Tensor
    """Parameters every ``keep_every`` updates, (frames, models, numbers); none unless asked for."""


def train_encoders(
    encoder: Encoder,
    functions: Sequence[Function],
    seeds: Sequence[int],
    settings: Settings,
    *,
    pools: Sequence[Tensor] | None = None,
    keep_every: int = 0,
    label: str = "encoders",
) -> Trained:
    """Train one model per function, all in one tensor, in float32.

    A seed draws a model's start and its inputs, so models of the same seed see the same inputs, and a model is the
    same (to rounding) whichever others it is trained with.

    Parameters
    ----------
    functions, seeds : one per model.
    pools : the inputs to draw from, (K, n) for each model; by default all 2^n.
    keep_every : keep a copy of all parameters after each so many updates.
    """
    functions, seeds = tuple(functions), seed_list(seeds)
    if len(functions) != len(seeds):
        raise ValueError(f"give one function per seed, got {len(functions)} and {len(seeds)}")
    draw = _drawer(encoder, functions, seeds, settings.batch, pools)
    losses, frames = [], []
    keep_freed_memory()
    with one_thread_per_process():
        rows = encoder.start(seeds, settings.position_scale).requires_grad_()
        step = adam(1.0)
        for update in track(settings.steps, label, True):
            if update % CHUNK == 0:
                inputs, targets = draw(min(CHUNK, settings.steps - update))
            x, y = inputs[:, update % CHUNK], targets[:, update % CHUNK]
            loss = (encoder(rows, x) - y).square().mean(-1)
            (gradient,) = torch.autograd.grad(loss.sum(), rows)
            rate = settings.rate_at(update)
            with torch.no_grad():
                rows.mul_(1 - rate * settings.weight_decay).sub_(step(gradient), alpha=rate)
            losses.append(loss.detach())
            if keep_every and (update + 1) % keep_every == 0:
                frames.append(rows.detach().clone())
    if not rows.isfinite().all():
        raise FloatingPointError(f"training diverged; try a smaller learning rate than {settings.learning_rate}")
    kept = torch.stack(frames) if frames else rows.new_empty(0, *rows.shape)
    return Trained(encoder, functions, seeds, settings, rows.detach(), torch.stack(losses), kept)


def keep_freed_memory() -> None:
    """Let the C library keep what a step frees, instead of returning it to the system and clearing it again.

    A step frees a few dozen tables of a megabyte, which GNU's library hands back at its default thresholds; keeping
    them saves a quarter of the step. Elsewhere this does nothing.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not the GNU C library
        return
    set_option(_M_MMAP_THRESHOLD, 2**25)
    set_option(_M_TRIM_THRESHOLD, 2**30)


def _drawer(
    encoder: Encoder, functions: Sequence[Function], seeds: Sequence[int], batch: int, pools: Sequence[Tensor] | None
) -> Callable[[int], tuple[Tensor, Tensor]]:
    """A call that draws the inputs (models, steps, batch, n) and values of the next steps."""
    generators = [torch.Generator().manual_seed(DATA_SEED + seed) for seed in seeds]

    def inputs(model: int, steps: int) -> Tensor:
        generator = generators[model]
        if pools is None:
            return torch.randint(2, (steps, batch, encoder.n), generator=generator, dtype=torch.float32)
        return pools[model][torch.randint(len(pools[model]), (steps, batch), generator=generator)].float()

    def draw(steps: int) -> tuple[Tensor, Tensor]:
        drawn = [inputs(model, steps) for model in range(len(seeds))]
        values = [function(x) for function, x in zip(functions, drawn, strict=True)]
        return torch.stack(drawn), torch.stack(values)

    return draw


# Measurements, with the definitions of the authors' code


def predictions(encoder: Encoder, rows: Tensor, x: Tensor) -> Tensor:
    """Outputs of every model on the same inputs x (inputs, n), without gradients: (models, inputs)."""
    with torch.no_grad(), one_thread_per_process():
        return torch.cat([encoder(rows, part) for part in _parts(encoder, rows, x)], -1)


def _parts(encoder: Encoder, rows: Tensor, x: Tensor) -> Iterable[Tensor]:
    """The inputs x (inputs, n) for every model, in as many parts as memory asks for: (models, part, n) each."""
    per_input = len(rows) * encoder.n * (4 * encoder.n + 12 * encoder.width) * rows.element_size()
    return (part.to(rows.dtype).expand(len(rows), -1, -1) for part in x.split(max(1, MEASURE_MEMORY // per_input)))


def exact_loss(encoder: Encoder, rows: Tensor, functions: Sequence[Function]) -> Tensor:
    """Squared error of each model over all 2^n inputs, (models,)."""
    x = cube(encoder.n, rows.dtype)
    targets = torch.stack([function(x) for function in functions])
    return (predictions(encoder, rows, x) - targets).square().mean(-1)


def sharpness(
    encoder: Encoder,
    rows: Tensor,
    functions: Sequence[Function],
    generator: torch.Generator,
    *,
    batches: int = 100,
    batch: int = 256,
    scale: float = 0.02,
) -> Tensor:
    r"""Rise of the loss under a small random change of the weights, on the ±1 scale, (models, batches):

    .. math:: 4\,\big[\mathrm{MSE}(\theta + \epsilon z) - \mathrm{MSE}(\theta)\big], \qquad z \sim N(0, I),

    with ε = ``scale`` for each parameter except the position embedding. Each batch has fresh inputs and a fresh z,
    so the entries of a row are independent: their mean is the sharpness, and their spread its error.
    """
    rises = []
    with torch.no_grad(), one_thread_per_process():
        for _ in range(batches):
            x = torch.randint(2, (len(rows), batch, encoder.n), generator=generator).to(rows.dtype)
            y = torch.stack([function(inputs) for function, inputs in zip(functions, x, strict=True)])
            z = torch.randn(rows.shape, generator=generator, dtype=rows.dtype)
            z[:, : encoder.positions] = 0
            before, after = ((encoder(at, x) - y).square().mean(-1) for at in (rows, rows + scale * z))
            rises.append(4 * (after - before))
    return torch.stack(rises, -1)


def blowup(encoder: Encoder, rows: Tensor, x: Tensor) -> Tensor:
    r"""How far the four layer norms magnify, :math:`E_x \prod_k \max_i 1/\mathrm{std}(u^{(k)}_i)`, (models,).

    Inputs x (inputs, n) are the same for all models; the standard deviation is the unbiased one, without epsilon.
    Of the second layer only the last position counts.
    """
    products = []
    with torch.no_grad(), one_thread_per_process():
        for part in _parts(encoder, rows, x):
            entering: list[Tensor] = []
            encoder(rows, part, entering)
            products.append(torch.stack([(1 / u.std(-1)).amax(1) for u in entering]).prod(0))
    return torch.cat(products, -1).mean(-1)


def parameter_norm(encoder: Encoder, rows: Tensor) -> Tensor:
    """Euclidean length of all parameters except the position embedding, (models,)."""
    return rows[:, encoder.positions :].norm(dim=-1)

"""Figures: one style for the whole book, one function per figure. Every function returns the figure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.patches import ConnectionPatch, FancyBboxPatch
from torch import Tensor

from .attention import angle_to_position, embed, position_weights, soft_attention
from .evidence import Rate
from .parity import Parity
from .readout import zigzag
from .training import Run

# Okabe and Ito's colours: distinct for colour-blind readers and by lightness in grey.
BLUE, ORANGE, GREEN, PURPLE, SKY, RED, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#666666",
)  # fmt: skip
HEAD_COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")

STYLE = {
    "figure.dpi": 150,
    "savefig.dpi": 150,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e2e2e2",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "image.cmap": "viridis",
}


def use_style() -> None:
    """Switch matplotlib to the book's style."""
    plt.rcParams.update(STYLE)


# --- chapter `architecture` -------------------------------------------------------------------


def model_diagram(task: Parity, x: Tensor, directions: Tensor, temperature: float, smoothing: float) -> Figure:
    """Figure 1 of the paper with the real numbers: tokens, heads, averaged vector, zigzag, prediction.

    Parameters
    ----------
    x : one input, (n,).   directions : (heads, 2).
    """
    n, k, heads = task.n, task.k, len(directions)
    if x.shape != (n,):
        raise ValueError(f"x must be {n} bits, got {x.numel()}")
    tokens = embed(x.unsqueeze(0))[0]
    gamma = soft_attention(directions, n, temperature)
    vectors = gamma @ tokens
    pooled = vectors.mean(0)
    s = float(position_weights(gamma, k) @ x)
    prediction = float(zigzag(x.new_tensor(s), k, smoothing))
    label = int(task.labels(x))

    fig = plt.figure(figsize=(8.6, 0.53 * (n + 1) + 0.3), layout="none")
    ax = fig.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, 11), ylim=(0.4, n + 1.3))
    ax.axis("off")
    token_x, head_x, mean_x = 1.45, 4.95, 6.9
    rows = [n - j for j in range(n)]  # position 1 on top
    head_rows = np.linspace(n - 0.6, 1.6, heads) if heads > 1 else [(n + 1) / 2]
    middle = (n + 1) / 2

    for title, at in (("embedding", 1.75), ("attention heads", head_x), ("mean", mean_x), ("zigzag head", 9.4)):
        ax.text(at, n + 0.95, title, ha="center", va="center", color=GREY, fontsize=11, weight="bold")
    ax.text(head_x, rows[0] + 0.62, "query: CLS (1, 0, 0, 0)", ha="center", va="center", color=GREY, fontsize=8)
    ax.text(0.28, rows[0] + 0.62, "bit", ha="center", va="center", color=GREY, fontsize=8)
    ax.text(token_x + 0.72, rows[0] + 0.62, "w = (x, 1 - x, sin, cos)", ha="center", va="center", color=GREY, fontsize=8)
    for j, y in enumerate(rows):
        member = j + 1 in task.bits
        numbers = ", ".join(_short(value) for value in tokens[j].tolist())
        _box(ax, token_x + 0.72, y, 2.35, 0.5, f"({numbers})", fill="#e8f4ea" if member else "#f5f5f5",
             edge=GREEN if member else "#bbbbbb", size=8.5)  # fmt: skip
        _box(ax, 0.62, y, 0.36, 0.42, str(int(x[j])), fill="white", edge=GREEN if member else "#bbbbbb", bold=member)
        ax.text(0.28, y, f"{j + 1}", ha="center", va="center", fontsize=9, color="black" if member else GREY,
                weight="bold" if member else "normal")  # fmt: skip
    for i, y in enumerate(head_rows):
        colour = HEAD_COLOURS[i % len(HEAD_COLOURS)]
        for j, token_y in enumerate(rows):
            weight = float(gamma[i, j])
            line = ConnectionPatch((token_x + 1.92, token_y), (head_x - 0.62, y), "data", "data",
                                   color=colour, lw=0.4 + 4 * weight, alpha=0.12 + 0.8 * weight, zorder=1)  # fmt: skip
            ax.add_patch(line)
            if weight > 0.05:
                share = 0.3
                ax.text(token_x + 1.92 + share * (head_x - 0.62 - token_x - 1.92), token_y + share * (y - token_y),
                        f"{weight:.2f}", fontsize=8, color=colour, ha="center", va="center",
                        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})  # fmt: skip
        _box(ax, head_x, y, 1.24, 0.62, f"head {i + 1}\nv₁ = {float(vectors[i, 0]):.2f}", fill="#fdf0ea", edge=colour)
        ax.annotate("", (mean_x - 0.62, middle), (head_x + 0.64, y), arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.2})
    first, second, third, fourth = (_short(value) for value in pooled.tolist())
    _box(ax, mean_x, middle, 1.2, 1.1, f"v* = ({first},\n{second}, {third},\n{fourth})", fill="#fdf0ea", edge=GREY)
    inset = ax.inset_axes((8.3, middle - 1.5, 2.5, 3.0), transform=ax.transData)
    _zigzag_axes(inset, k, smoothing)
    inset.plot([s], [prediction], "o", color=RED, ms=8, zorder=5)
    inset.set_xlabel(f"k v*₁ = {s:.2f}", fontsize=9)
    inset.set_ylabel("prediction", fontsize=9, labelpad=1)
    ax.annotate("", (7.8, middle), (mean_x + 0.62, middle), arrowprops={"arrowstyle": "->", "color": GREY, "lw": 1.4})
    verdict = "right" if prediction * label > 0 else "wrong"
    ax.text(9.4, middle - 2.6, f"prediction {prediction:+.2f}, label {label:+d}:\n{verdict}",
            ha="center", va="center", fontsize=10.5, color=BLUE if verdict == "right" else RED, weight="bold")  # fmt: skip
    return fig


def zigzag_curves(k: int, smoothings: Sequence[float]) -> Figure:
    """The frozen head between the integers, for several smoothings."""
    fig, ax = plt.subplots(figsize=(7.5, 3.6))
    s = np.linspace(0, k, 1001)
    for smoothing, colour, dash in zip(smoothings, (BLUE, ORANGE, RED, PURPLE, GREEN), ("-", "--", "-.", ":", "-"), strict=False):
        ax.plot(s, zigzag_values(s, k, smoothing), dash, color=colour, lw=2, label=f"b = {smoothing:g}")
    whole = np.arange(k + 1)
    ax.plot(whole, (-1.0) ** whole, "o", color="black", ms=7, zorder=5, label="label at whole sums")
    ax.axhspan(-1, 1, color="#f0f0f0", zorder=0)
    ax.set(xlabel="sum of the bits the heads read, k v*₁", ylabel="prediction", xticks=whole,
           title=f"The frozen head for k = {k}: right at whole sums, beyond ±1 between them")  # fmt: skip
    ax.legend(ncols=2, fontsize=9)
    return fig


def construction_risk(
    temperatures: np.ndarray, soft: Mapping[int, np.ndarray], smoothings: np.ndarray, hard: Mapping[int, np.ndarray]
) -> Figure:
    """Risk of Proposition 3's heads: soft attention against temperature, hard attention against smoothing.

    Parameters
    ----------
    temperatures : values of temperature times n squared.   soft : n -> risk at those temperatures.
    hard : k -> risk of hard attention at each of ``smoothings``.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.5))
    for (n, risk), colour, marker in zip(soft.items(), HEAD_COLOURS, MARKERS, strict=False):
        left.loglog(temperatures, risk, color=colour, lw=1.8, label=f"n = {n}")
        left.plot(n, np.interp(math.log(n), np.log(temperatures), risk), marker, color=colour, ms=8)
    left.axvline(1, color=GREY, ls=":", lw=1)
    left.set(xlabel="temperature × n²", ylabel="risk (squared hinge)", ylim=(1e-5, 12),
             title="Soft attention (marker: temperature 1/n)")  # fmt: skip
    left.legend(fontsize=9)
    for (k, risk), colour, marker in zip(hard.items(), HEAD_COLOURS, MARKERS, strict=False):
        right.loglog(smoothings, risk, marker=marker, ms=4, color=colour, lw=1.5, label=f"k = {k}")
    right.set(xlabel="smoothing b of the ReLU", ylabel="risk (squared hinge)", ylim=(1e-12, 1e3),
              title="Hard attention, smoothed ReLU")  # fmt: skip
    right.legend(fontsize=9, ncols=2)
    return fig


# --- chapter `figure2` ------------------------------------------------------------------------


def attention_heat_maps(run: Run, seed: int, title: str = "") -> Figure:
    """The paper's Figure 2: one panel per head, position against epoch, colour = attention."""
    return attention_grid({title: (run, seed)})


def attention_grid(runs: Mapping[str, tuple[Run, int]]) -> Figure:
    """Figure 2's panels for several runs: one row per run (and the seed shown), one column per head."""
    columns = max(run.directions.shape[2] for run, _ in runs.values())
    height = 2.7 if len(runs) == 1 else 1.3 * len(runs) + 0.5
    fig, axes = plt.subplots(len(runs), columns, figsize=(8.2, height), sharex=True, sharey=True, squeeze=False)
    for row, (label, (run, seed)) in zip(axes, runs.items(), strict=True):
        attention = run.attention[:, run.seeds.index(seed)].numpy()  # (frames, heads, n)
        for i, ax in enumerate(row):
            image = ax.imshow(attention[:, i].T, origin="lower", aspect="auto", vmin=0, vmax=1, interpolation="nearest",
                              extent=(-0.5, len(attention) - 0.5, 0.5, run.task.n + 0.5))  # fmt: skip
            ax.set_yticks(run.task.bits)
            ax.grid(False)
        row[0].set_ylabel(f"{label}\nposition" if label else "position", fontsize=8.5 if label else 10)
    for i in range(columns):
        axes[0, i].set_title(f"head {i + 1}")
        axes[-1, i].set_xlabel("epoch")
    fig.colorbar(image, ax=axes, label="attention", pad=0.01, shrink=0.9 if len(runs) == 1 else 0.5)
    return fig


def success_rates(rates: Mapping[str, tuple[Rate, Rate]], title: str) -> Figure:
    """Success by recipe with Wilson 95 % intervals; each entry is (hard, committed)."""
    fig, ax = plt.subplots(figsize=(8, 0.5 * len(rates) + 1.6))
    for row, pair in enumerate(rates.values()):
        for rate, shift, colour, marker in ((pair[0], 0.16, ORANGE, "s"), (pair[1], -0.16, BLUE, "o")):
            y = len(rates) - 1 - row + shift
            ax.plot([rate.low, rate.high], [y, y], color=colour, lw=2.5, alpha=0.55, solid_capstyle="round")
            ax.plot(rate.share, y, marker, color=colour, ms=7)
            ax.text(1.03, y, f"{rate.successes} of {rate.trials}", va="center", fontsize=8.5, color=colour)
    ax.plot([], [], "s", color=ORANGE, label="hard: arg-max positions are exactly B")
    ax.plot([], [], "o", color=BLUE, label="committed: hard, and every head above 0.6")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.6, len(rates) - 0.4), xlabel="share of seeds", title=title)
    ax.set_yticks(range(len(rates)), list(rates)[::-1])
    fig.legend(loc="outside lower center", ncols=2, fontsize=9)
    return fig


def every_seed(runs: Mapping[str, Run]) -> Figure:
    """What all seeds ended with: one panel per run, one row per seed, colour = summed attention."""
    fig, axes = plt.subplots(1, len(runs), figsize=(2.05 * len(runs), 3.3), squeeze=False)
    for ax, (label, run) in zip(axes[0], runs.items(), strict=True):
        weights = run.attention[-1].sum(-2).numpy()
        order = np.lexsort((*weights.round(2).T[::-1], ~run.committed.numpy()))
        image = ax.imshow(weights[order], aspect="auto", vmin=0, vmax=2, interpolation="nearest",
                          extent=(0.5, run.task.n + 0.5, len(order) + 0.5, 0.5))  # fmt: skip
        ax.set(xticks=run.task.bits, xlabel="position", title=label)
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.grid(False)
        ax.tick_params(axis="x", labelsize=8)
    axes[0, 0].set_ylabel("seed (committed ones first)")
    fig.colorbar(image, ax=axes, label="attention, summed over heads", pad=0.01)
    return fig


def shared_directions(runs: Mapping[str, Run], middle: float, span: float = 2.5) -> Figure:
    """Where on the circle every head near the neighbours ends, against the middle between them."""
    fig, ax = plt.subplots(figsize=(8, 0.6 * len(runs) + 1.3))
    for row, (_label, run) in enumerate(runs.items()):
        n = run.task.n
        where = angle_to_position(run.directions[-1], n).reshape(-1).numpy()
        where = middle + (where - middle + n / 2) % n - n / 2
        near = where[np.abs(where - middle) < span]
        jitter = np.linspace(-0.22, 0.22, len(near)) if len(near) else []
        ax.plot(near, len(runs) - 1 - row + np.asarray(jitter), "o", ms=4.5, alpha=0.55, color=BLUE, mew=0)
        ax.text(middle + span * 1.03, len(runs) - 1 - row, f"{len(near)} heads", va="center", fontsize=8.5, color=GREY)
    ax.axvline(middle, color=RED, lw=1.5, label=f"half-way, {middle:g}")
    ax.set_yticks(range(len(runs)), list(runs)[::-1])
    ax.set(xlim=(middle - span, middle + span), ylim=(-0.6, len(runs) - 0.4), xlabel="position a head points at, end of training")
    ax.legend(loc="lower left", fontsize=9)
    return fig


def circle_animation(run: Run, seed: int, alt: str) -> str:
    """The heads as arrows on the circle of positions, epoch by epoch: self-contained HTML (SVG and a slider).

    Arrow length is the weight a head gives to its best position; dots grow with the summed
    attention. Works offline and without a server; starts on request, never by itself.
    """
    column = run.seeds.index(seed)
    attention = run.attention[:, column]
    directions = run.directions[:, column]
    frames = {
        "angle": _rounded(angle_to_position(directions, run.task.n) / run.task.n),
        "best": _rounded(attention.amax(-1)),
        "weight": _rounded(attention.sum(1)),
        "bits": run.task.bits,
        "colours": HEAD_COLOURS[: directions.shape[1]],
    }
    name = f"circle-{run.recipe.name}-{'-'.join(map(str, run.task.bits))}-{seed}"
    return _CIRCLE.replace("@NAME", name).replace("@ALT", escape(alt)).replace("@LAST", str(len(attention) - 1)).replace(
        "@DATA", json.dumps(frames, separators=(",", ":"))
    )


_CIRCLE = """
<figure class="parity-circle" id="@NAME" style="max-width:26rem;margin:1rem auto;text-align:center">
<svg viewBox="-150 -150 300 300" role="img" aria-label="@ALT" style="width:100%;background:#fff;border-radius:6px"></svg>
<div style="display:flex;gap:.6rem;align-items:center">
<button type="button" style="min-width:4.5rem">Play</button>
<input type="range" min="0" max="@LAST" value="@LAST" step="1" aria-label="epoch" style="flex:1">
<output style="min-width:5.5rem;text-align:right">epoch @LAST</output></div>
<script>
(() => {
  const data = @DATA, root = document.getElementById("@NAME"), svg = root.querySelector("svg");
  const [button, slider, output] = ["button", "input", "output"].map(tag => root.querySelector(tag));
  const n = data.weight[0].length, heads = data.colours.length, last = data.angle.length - 1;
  const at = (turn, r) => [r * Math.sin(2 * Math.PI * turn), -r * Math.cos(2 * Math.PI * turn)];
  const add = (tag, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    return svg.appendChild(node);
  };
  add("circle", {r: 100, fill: "none", stroke: "#ccc"});
  const dots = [];
  for (let j = 1; j <= n; j++) {
    const [x, y] = at(j / n, 100), [tx, ty] = at(j / n, 126), member = data.bits.includes(j);
    dots.push(add("circle", {cx: x, cy: y, fill: member ? "#009E73" : "#999", "fill-opacity": 0.75}));
    if (n <= 40 || member) add("text", {x: tx, y: ty, "text-anchor": "middle", "dominant-baseline": "central",
      "font-size": member ? 15 : 10, "font-weight": member ? "bold" : "normal", fill: member ? "#00664a" : "#666"}, j);
  }
  const arrows = data.colours.map(colour => [
    add("line", {x1: 0, y1: 0, stroke: colour, "stroke-width": 4, "stroke-linecap": "round"}),
    add("circle", {r: 6, fill: colour})]);
  const draw = frame => {
    dots.forEach((dot, j) => dot.setAttribute("r", 3 + 11 * Math.sqrt(data.weight[frame][j] / 2)));
    arrows.forEach(([line, tip], i) => {
      const [x, y] = at(data.angle[frame][i], 18 + 74 * data.best[frame][i]);
      line.setAttribute("x2", x); line.setAttribute("y2", y); tip.setAttribute("cx", x); tip.setAttribute("cy", y);
    });
    slider.value = frame; output.textContent = "epoch " + frame;
  };
  let timer = null;
  const stop = () => { clearInterval(timer); timer = null; button.textContent = "Play"; };
  slider.addEventListener("input", () => { stop(); draw(+slider.value); });
  button.addEventListener("click", () => {
    if (timer) return stop();
    if (+slider.value === last) draw(0);
    button.textContent = "Pause";
    timer = setInterval(() => +slider.value < last ? draw(+slider.value + 1) : stop(), 200);
  });
  draw(last);
})();
</script>
</figure>
"""


# --- shared pieces ----------------------------------------------------------------------------


def zigzag_values(s: np.ndarray, k: int, smoothing: float) -> np.ndarray:
    """The frozen head on an array."""
    return zigzag(torch.from_numpy(np.asarray(s, dtype=float)), k, smoothing).numpy()


def _zigzag_axes(ax: Axes, k: int, smoothing: float) -> None:
    s = np.linspace(0, k, 601)
    ax.plot(s, zigzag_values(s, k, smoothing), color=BLUE, lw=1.6)
    whole = np.arange(k + 1)
    ax.plot(whole, (-1.0) ** whole, "o", color="black", ms=4)
    ax.set_xticks(whole)
    ax.tick_params(labelsize=8)


def _box(ax: Axes, x: float, y: float, width: float, height: float, text: str, *, fill: str, edge: str,
         size: float = 9, bold: bool = False) -> None:  # fmt: skip
    ax.add_patch(FancyBboxPatch((x - width / 2, y - height / 2), width, height, facecolor=fill, edgecolor=edge,
                                boxstyle="round,pad=0,rounding_size=0.08", lw=1.3, zorder=3))  # fmt: skip
    ax.text(x, y, text, ha="center", va="center", fontsize=size, zorder=4, weight="bold" if bold else "normal")


def _short(value: float) -> str:
    return f"{round(value) + 0}" if abs(value - round(value)) < 1e-9 else f"{value:.2f}"


def _rounded(tensor: Tensor) -> list:
    return np.round(tensor.numpy(), 4).tolist()

"""Figures of the chapter ``figure2``, and the animated circle of positions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from ..attention import angle_to_position
from ..evidence import Rate
from ..training import Run
from .style import BLUE, GREY, HEAD_COLOURS, ORANGE, PURPLE, RED

# How each criterion of success is drawn: its label, colour and marker.
CRITERIA = {
    "hard": ("hard: arg-max positions are exactly B", ORANGE, "s"),
    "committed": ("committed: hard, and every head above 0.6", BLUE, "o"),
    "shared": ("shared direction: two heads half-way between the neighbours", PURPLE, "D"),
}


def example_seed(run: Run, wanted: Tensor, criterion: str) -> tuple[int, str]:
    """The first seed that ends as wanted, (seeds,), or the first of all; and a title that says which of the two."""
    seed = run.seeds[int(wanted.int().argmax())]
    return seed, f"seed {seed}, {criterion}: {'yes' if wanted.any() else 'no'}"


def attention_heat_maps(run: Run, seed: int, title: str = "") -> Figure:
    """The paper's Figure 2: one panel per head, position against epoch, colour = attention."""
    fig = attention_grid({"": (run, seed)})
    if title:
        fig.suptitle(title, fontsize=10)
    return fig


def attention_grid(runs: Mapping[str, tuple[Run, int]]) -> Figure:
    """Figure 2's panels for several runs: one row per run (and the seed shown), one column per head."""
    columns = max(run.directions.shape[2] for run, _ in runs.values())
    height = 2.7 if len(runs) == 1 else 1.3 * len(runs) + 0.5
    fig, axes = plt.subplots(len(runs), columns, figsize=(8.2, height), sharex=True, sharey=True, squeeze=False)
    for row, (label, (run, seed)) in zip(axes, runs.items(), strict=True):
        image = _heat_maps(row, run.attention[:, run.seeds.index(seed)].numpy(), run.task.bits)
        row[0].set_ylabel(f"{label}\nposition" if label else "position", fontsize=8.5 if label else 10)
    _name_heads(axes)
    fig.colorbar(image, ax=axes, label="attention", pad=0.01, shrink=0.9 if len(runs) == 1 else 0.5)
    return fig


def both_panels(heat_maps: Mapping[str, Mapping[str, Any]]) -> Figure:
    """The left and the right half of Figure 2 as two rows, from what the chapter recorded as ``heat_maps``."""
    rows = [(np.array(panel["attention"]), panel["bits"]) for panel in heat_maps.values()]
    columns = rows[0][0].shape[1]
    fig, axes = plt.subplots(len(rows), columns, figsize=(8.2, 1.9 * len(rows) + 0.4), sharex=True, squeeze=False)
    for row, (attention, bits) in zip(axes, rows, strict=True):
        image = _heat_maps(row, attention, bits)
        row[0].set_ylabel(f"B = {{{', '.join(map(str, bits))}}}\nposition")
    _name_heads(axes)
    fig.colorbar(image, ax=axes, label="attention", pad=0.01, shrink=0.7)
    return fig


def _heat_maps(row: Sequence[Axes], attention: np.ndarray, bits: Sequence[int]) -> AxesImage:
    """One panel per head on the axes of a row, from the attention of one seed, (frames, heads, n)."""
    frames, _, n = attention.shape
    for i, ax in enumerate(row):
        image = ax.imshow(
            attention[:, i].T,
            origin="lower",
            aspect="auto",
            vmin=0,
            vmax=1,
            interpolation="nearest",
            extent=(-0.5, frames - 0.5, 0.5, n + 0.5),
        )
        _bit_ticks(ax, bits, n)
        ax.grid(False)
    return image


def _bit_ticks(ax: Axes, bits: Sequence[int], n: int) -> None:
    """Ticks at the bits; of bits that are close, the lower labels step aside, so that all can be read."""
    steps: dict[int, int] = {}
    for bit in sorted(bits, reverse=True):
        taken = {step for other, step in steps.items() if other - bit < 0.14 * n}
        steps[bit] = next(step for step in range(len(bits)) if step not in taken)
    ax.set_yticks(bits, [f"{bit}{' ' * 5 * steps[bit]}" for bit in bits])


def _name_heads(axes: np.ndarray) -> None:
    for i in range(axes.shape[1]):
        axes[0, i].set_title(f"head {i + 1}")
        axes[-1, i].set_xlabel("epoch")


def success_rates(rates: Mapping[str, Mapping[str, Rate]], title: str) -> Figure:
    """Success by recipe with Wilson 95 % intervals: recipe -> criterion (of :data:`CRITERIA`) -> rate."""
    criteria = list(next(iter(rates.values())))
    fig, ax = plt.subplots(figsize=(8, (0.14 + 0.18 * len(criteria)) * len(rates) + 1.6))
    for i, criterion in enumerate(criteria):
        label, colour, marker = CRITERIA[criterion]
        ax.plot([], [], marker, color=colour, label=label)
        for row, by_criterion in enumerate(rates.values()):
            rate = by_criterion[criterion]
            y = len(rates) - 1 - row + ((len(criteria) - 1) / 2 - i) * 0.64 / len(criteria)
            ax.plot([rate.low, rate.high], [y, y], color=colour, lw=2.5, alpha=0.55, solid_capstyle="round")
            ax.plot(rate.share, y, marker, color=colour, ms=6)
            ax.text(1.03, y, f"{rate.successes} of {rate.trials}", va="center", fontsize=8.5, color=colour)
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
        image = ax.imshow(
            weights[order],
            aspect="auto",
            vmin=0,
            vmax=2,
            interpolation="nearest",
            extent=(0.5, run.task.n + 0.5, len(order) + 0.5, 0.5),
        )
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
    for row, run in enumerate(runs.values()):
        n = run.task.n
        where = angle_to_position(run.directions[-1], n).reshape(-1).numpy()
        where = middle + (where - middle + n / 2) % n - n / 2
        near = where[np.abs(where - middle) < span]
        jitter = np.linspace(-0.22, 0.22, len(near))
        ax.plot(near, len(runs) - 1 - row + jitter, "o", ms=4.5, alpha=0.55, color=BLUE, mew=0)
        ax.text(middle + span * 1.03, len(runs) - 1 - row, f"{len(near)} heads", va="center", fontsize=8.5, color=GREY)
    ax.axvline(middle, color=RED, lw=1.5, zorder=1, label=f"half-way, {middle:g}")
    ax.set_yticks(range(len(runs)), list(runs)[::-1])
    ax.set(
        xlim=(middle - span, middle + span),
        ylim=(-0.6, len(runs) - 0.4),
        xlabel="position a head points at, end of training",
    )
    ax.legend(loc="lower left", fontsize=9)
    return fig


def risk_and_forces(run: Run, forces: Mapping[str, Tensor]) -> Figure:
    """One run: its risk, and the norm of each force on every head, (frames, heads) by the force's name."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.1))
    updates = np.arange(len(run.risk)) * run.recipe.updates_per_epoch
    left.plot(updates, run.risk[:, 0].numpy(), color="black", lw=2)
    left.set(xlabel="update", ylabel="risk", title="exact population risk")
    largest = max(float(norms.max()) for norms in forces.values())
    for name, norms in forces.items():
        dash = "--" if name == "label-free force" else "-"
        if float(norms.max()) < 1e-9 * largest:  # rounding: this loss has no such force
            right.plot([], [], dash, color=GREY, label=f"{name}: 0")
            continue
        for i, (values, colour) in enumerate(zip(norms.T.numpy(), cycle(HEAD_COLOURS), strict=False)):
            right.plot(updates, values, dash, color=colour, lw=1.8, label=f"head {i + 1}, {name}")
    right.set(xlabel="update", ylabel="norm of the gradient", yscale="log", title="forces on heads")
    right.legend(fontsize=8)
    return fig


def circle_animation(run: Run, seed: int, alt: str) -> str:
    """The heads as arrows on the circle of positions, epoch by epoch: self-contained HTML (SVG and a slider).

    An arrow grows with the weight a head gives to its best position, from a fifth of the radius at 0 to nearly
    the circle at 1; each head's is thinner than the one before, so that heads on one direction show as stripes.
    Dots grow with the summed attention. Works offline and without a server; starts on request, never by itself.
    """
    column = run.seeds.index(seed)
    attention = run.attention[:, column]
    directions = run.directions[:, column]
    frames = {
        "angle": _rounded(angle_to_position(directions, run.task.n) / run.task.n),
        "best": _rounded(attention.amax(-1)),
        "weight": _rounded(attention.sum(1)),
        "bits": run.task.bits,
        "colours": [HEAD_COLOURS[i % len(HEAD_COLOURS)] for i in range(directions.shape[1])],
    }
    name = f"circle-{run.recipe.name}-{'-'.join(map(str, run.task.bits))}-{seed}"
    return (
        _CIRCLE.replace("@NAME", name)
        .replace("@ALT", escape(alt))
        .replace("@LAST", str(len(attention) - 1))
        .replace("@DATA", json.dumps(frames, separators=(",", ":")))
    )


_CIRCLE = """
<figure class="parity-circle" id="@NAME" style="max-width:26rem;margin:1rem auto;text-align:center">
<svg viewBox="-150 -150 300 300" role="img" aria-label="@ALT"
 style="width:100%;background:#fff;border-radius:6px"></svg>
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
  const width = i => heads > 1 ? 12 - 9 * i / (heads - 1) : 5;  // heads on one direction show as stripes
  const arrows = data.colours.map((colour, i) => add("path", {fill: colour, stroke: "#fff", "stroke-width": 0.7}));
  if (heads <= 6) data.colours.forEach((colour, i) => {
    const y = -142 + 14 * i;
    add("rect", {x: -147, y: y - width(i) / 2, width: 18, height: width(i), fill: colour});
    add("text", {x: -125, y, "dominant-baseline": "central", "font-size": 10, fill: "#444"}, "head " + (i + 1));
  });
  const draw = frame => {
    dots.forEach((dot, j) => dot.setAttribute("r", 3 + 11 * Math.sqrt(data.weight[frame][j] / 2)));
    arrows.forEach((arrow, i) => {
      const half = width(i) / 2, barb = 1.7 * half + 2;
      const length = 20 + 75 * data.best[frame][i], neck = length - 1.5 * barb;
      arrow.setAttribute("d", `M${-half} 0V${-neck}H${-barb}L0 ${-length}L${barb} ${-neck}H${half}V0Z`);
      arrow.setAttribute("transform", `rotate(${360 * data.angle[frame][i]})`);
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


def _rounded(tensor: Tensor) -> list:
    return np.round(tensor.numpy(), 4).tolist()

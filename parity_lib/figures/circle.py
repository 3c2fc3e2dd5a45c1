"""The heads as arrows on the circle of positions: animated on a page, animated in the README, and on a card."""

import json
import math
from html import escape
from itertools import cycle, islice
from pathlib import Path
from string import Template

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .style import BIT, HEADS, INK, PAPER, STATED

SECONDS = 9  # of the README's animation, the last third at rest


def circle_animation(circle: pd.DataFrame, alt: str) -> str:
    """The heads as arrows on the circle of positions, epoch by epoch: self-contained HTML (SVG and a slider).

    An arrow grows with the weight a head gives to its best position, from a fifth of the radius at 0 to nearly
    the circle at 1; each head's is thinner than the one before, so that heads on one direction show as stripes.
    Dots grow with the summed attention. Works offline and without a server; starts on request, never by itself.
    ``circle`` is a frame of :func:`parity_lib.chapters.figure2.circle`.
    """
    by_head = circle.groupby(["epoch", "head"]).agg(turn=("turn", "first"), best=("attention", "max")).round(4)
    bits = sorted(circle.loc[circle["bit"], "position"].unique().tolist())
    last, heads = int(circle["epoch"].max()), int(circle["head"].max())
    data = {
        "angle": by_head["turn"].unstack().to_numpy().tolist(),
        "best": by_head["best"].unstack().to_numpy().tolist(),
        "weight": circle.groupby(["epoch", "position"])["attention"].sum().round(4).unstack().to_numpy().tolist(),
        "bits": bits,
        "colours": list(islice(cycle(HEADS), heads)),
    }
    fields = {
        "NAME": f"circle-{circle['recipe'].iloc[0]}-{'-'.join(map(str, bits))}-{circle['seed'].iloc[0]}",
        "ALT": escape(alt),
        "LAST": str(last),
        "BIT": BIT,
        "DATA": json.dumps(data, separators=(",", ":")),
    }
    page = Path(__file__).with_name("circle.html").read_text(encoding="utf-8")
    for name, value in fields.items():
        page = page.replace(f"@{name}", value)
    return page


def arrows(course: pd.DataFrame) -> pd.DataFrame:
    """Where each head looks, by epoch: the mean of its attention as a turn of the circle, and its length there."""
    n = course["position"].max()
    point = course["attention"] * np.exp(2j * np.pi * course["position"] / n)
    mean = course.assign(point=point).groupby(["head", "epoch"])["point"].sum()
    turn = np.angle(mean.to_numpy()) / (2 * np.pi)
    return pd.DataFrame({"turn": turn, "length": np.abs(mean.to_numpy())}, index=mean.index)


ARROW = Template("""  <g><animateTransform attributeName="transform" type="rotate" repeatCount="indefinite"
    dur="${seconds}s" values="$turns" keyTimes="$times"/>
    <path fill="$colour" d="M-${half} 0V-78H-${barb}L0 -92L${barb} -78H${half}V0Z"/></g>
""")


def animated(course: pd.DataFrame) -> str:
    """One run as a small SVG that plays by itself where scripts do not run; ``course`` has one panel.

    An arrow has the direction of its head's mean attention. It says so to those who do not see it.
    """
    n, last = int(course["position"].max()), int(course["epoch"].max())
    found, bits = arrows(course), sorted(course.loc[course["bit"], "position"].unique())
    times = ";".join(f"{0.66 * epoch / last:.3f}" for epoch in range(last + 1)) + ";1"
    drawn = []
    for j in range(1, n + 1):
        x, y = 100 * math.sin(2 * math.pi * j / n), -100 * math.cos(2 * math.pi * j / n)
        fill, radius = (BIT, 9) if j in bits else (STATED, 3.5)
        drawn.append(f'  <circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}"/>')
        drawn.append(f'  <text x="{1.2 * x:.1f}" y="{1.2 * y + 4:.1f}">{j}</text>')
    for place, (colour, (_, way)) in enumerate(zip(cycle(HEADS), found.groupby(level="head"), strict=False)):
        turns = 360 * np.unwrap(way["turn"].to_numpy(), period=1)
        half = 5 - 1.5 * place
        drawn.append(ARROW.substitute(seconds=SECONDS, times=times, colour=colour, half=half, barb=2 * half + 2,
                     turns=";".join(f"{turn:.1f}" for turn in [*turns, turns[-1]])))  # fmt: skip
    label = f"Arrows on a circle of {n} positions turn from random directions to the bits {', '.join(map(str, bits))}."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-135 -135 270 270" width="360" role="img" '
        f'aria-label="{label}">\n'
        f"  <style>text {{ font: 11px sans-serif; text-anchor: middle; fill: {STATED} }}</style>\n"
        f'  <circle r="100" fill="none" stroke="{STATED}" stroke-opacity="0.4"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def card(course: pd.DataFrame, title: str) -> Figure:
    """A picture of 1200 x 630 pixels for those who link to a page: the title, and the first run at its end."""
    course = course[course["panel"] == course["panel"].iloc[0]]
    n, last = int(course["position"].max()), course["epoch"].max()
    figure = plt.figure(figsize=(6, 3.15), dpi=200, facecolor=PAPER)
    figure.set_layout_engine("none")
    name, _, rest = title.partition(": ")
    figure.text(0.06, 0.62, name.replace(" with ", "\nwith "), fontsize=17, weight="bold", color=INK, va="center")
    figure.text(0.06, 0.36, rest.capitalize(), fontsize=11, color=STATED, va="center")
    ax = figure.add_axes((0.53, 0.04, 0.46, 0.92), aspect="equal")
    bits = course.groupby("position")["bit"].first()
    turn = 2 * np.pi * bits.index.to_numpy() / n
    ax.scatter(np.sin(turn), np.cos(turn), s=np.where(bits, 190, 16), c=np.where(bits, BIT, STATED), zorder=3)
    for colour, (_, row) in zip(cycle(HEADS), arrows(course).xs(last, level="epoch").iterrows(), strict=False):
        angle = 2 * math.pi * row["turn"]
        tip = 0.86 * math.sin(angle), 0.86 * math.cos(angle)
        ax.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 3, "mutation_scale": 16})
    ax.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
    ax.axis("off")
    return figure

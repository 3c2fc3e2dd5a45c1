"""Figures of the chapter on fixed heads, and those of the atlas, draw from small frames, with the right labels."""

import numpy as np
import pandas as pd
import pytest

from parity_lib.figures import fixed_attention as fixed
from parity_lib.figures import robustness as atlas

pytestmark = pytest.mark.usefixtures("book_style")
RNG = np.random.default_rng(0)


def grid(**columns):
    """A frame with every combination of the given values."""
    return pd.MultiIndex.from_product(columns.values(), names=columns).to_frame(index=False)


def compared(learned, fixed_risk):
    arms = ["fixed, position", "fixed, token", "fixed, token, 4 × longer", "fixed, heads separate", "learned"]
    frame = grid(arm=arms, n=[8, 12, 16, 20], seed=[0, 1, 2])
    risk = np.where(frame["arm"] == "learned", learned, fixed_risk)
    return frame.assign(risk=risk, right=risk < 0.1)


def raced(product):
    frame = grid(model=list(fixed.COLOURS), k=[2, 3], n=[10, 20, 30, 40], seed=range(4), width=[2, 4])
    share = frame["model"].map({"heads, product": product, "plain network": 1.0, "heads, zigzag": 0.25})
    return frame.assign(learned=frame["seed"] < 4 * share, updates=50 * frame["n"], numbers=4)


def texts(fig):
    """All that is written on a figure: titles, labels, annotations, legends."""
    found = [fig.get_suptitle()] + [text.get_text() for legend in fig.legends for text in legend.get_texts()]
    for ax in fig.axes:
        found += [ax.get_title(loc="left"), ax.get_title(), ax.get_xlabel(), ax.get_ylabel()]
        found += [text.get_text() for text in ax.texts]
    return " | ".join(found)


def by_norm():
    series = ["these very heads", "with a proof", "Theorem 11, clamped", "trained network"]
    curves = grid(m=[1, 2, 3], scaled=np.geomspace(0.01, 10, 5), draw=[0, 1], series=series)
    return curves.assign(value=RNG.random(len(curves)))


def hard():
    frame = grid(kind=["position", "token", "search"], draw=[0, 1], m=range(1, 7)).assign(worst=1.0, mean=0.9)
    return frame.assign(corollary_20=0.5, linear_bound=0.4, typical_bound=0.3)


def norms():
    what = ["one fixed head: at least", "n heads on the circle: enough"]
    what += ["n heads, random scores: enough", "learned heads"]
    frame = grid(what=what, n=[4, 8, 12, 16], draw=[0, 1])
    return frame.assign(norm=np.where(frame["what"] == what[0], 10.0 ** (frame["n"] / 2), 100.0))


def counted():
    frame = grid(pooling=["mean", "separate"], m=[1, 2, 4, 8], seed=[0, 1, 2])
    return frame.assign(risk=np.where(frame["pooling"] == "mean", 0.9, 1 / frame["m"]))


@pytest.mark.parametrize(
    "draw, frame, wanted",
    [
        (fixed.risk_against_n, compared(0.02, 0.97), ["stay near chance", "chance", "learned", "% of runs"]),
        (fixed.risk_against_n, compared(0.5, 0.97), ["Fixed heads against learned ones"]),
        (fixed.hard_heads, hard(), ["for the worst B", "for the average B", "impossible", "Up to 6 fixed hard heads"]),
        (fixed.hard_heads, hard().assign(worst=0.5), ["Least risk of any classifier on fixed hard heads"]),
        (atlas.risk_against_norm, by_norm().assign(value=0.99), ["Every trained network stays near chance"]),
        (atlas.risk_against_norm, by_norm(), ["1 head", "3 heads", "these very heads", "trained networks", "m²/n"]),
        (atlas.risk_against_norm, by_norm(), ["Trained networks and the bounds, by norm"]),
        (fixed.norm_needed, norms(), ["grows exponentially", "learned heads", "|α||β|"]),
        (atlas.risk_against_heads, counted(), ["only where each is heard", "each heard", "their mean"]),
        (
            fixed.race,
            raced(1.0),
            ["if multiplied", "and they are slow", "heads, zigzag", "accuracy 0.99"],
        ),
        (fixed.race, raced(0.25), ["Runs that learn within the budget", "plain network"]),
    ],
)
def test_a_figure_draws_and_says_what_its_frame_bears_out(draw, frame, wanted):
    fig = draw(frame)
    fig.canvas.draw()
    assert [text for text in wanted if text not in texts(fig)] == []


def test_the_share_that_is_drawn_is_the_share_of_the_frame():
    ax = fixed.race(raced(0.25)).axes[0]
    heights = {round(float(y)) for line in ax.get_lines() for y in np.atleast_1d(line.get_ydata())}
    assert {25, 100} <= heights


def test_the_names_of_fixed_heads_stand_beside_the_dots():
    ax = atlas.risk_against_heads(counted()).axes[0]
    ax.figure.canvas.draw()
    dots = max(ax.transData.transform(part.get_offsets())[:, 0].max() for part in ax.collections)
    assert all(text.get_window_extent().x0 > dots for text in ax.texts)

"""Examples needed, drawn: log axes, the power of n through the first point, titles that follow from the frame."""

import numpy as np
import pandas as pd
import pytest

from parity_lib.figures import samples as figures
from parity_lib.figures import style

pytestmark = pytest.mark.usefixtures("book_style")


def needed(k, learner="heads", power=2.0):
    n = np.array([20, 40, 80, 160])
    median = 3.0 * n**power
    return pd.DataFrame({"learner": learner, "k": k, "n": n, "low": median / 2, "median": median, "high": 2 * median})


def test_examples_needed_have_a_panel_for_each_k_and_a_line_of_that_power():
    worse = needed(3, "network").assign(high=np.inf)
    every = pd.concat([needed(2), needed(2, "elimination", 1.0), needed(3, power=3.0), worse])
    fig = figures.by_length(every, every.rename(columns={"low": "examples"}).query("learner == 'heads'"))
    left, right = fig.axes
    assert left.get_title(loc="left") == "Parity of 2 bits" and left.get_xscale() == left.get_yscale() == "log"
    (dotted,) = [line for line in right.lines if line.get_linestyle() == ":"]
    assert dotted.get_ydata()[1] / dotted.get_ydata()[0] == pytest.approx(8**3)
    (dashed,) = [line for line in left.lines if line.get_linestyle() == "--"]
    assert dashed.get_ydata() == pytest.approx(needed(2)["low"])
    assert {"heads", "elimination", "∝ n²", "blind below"} <= {text.get_text() for text in left.texts}


def test_the_title_has_the_measured_power():
    frame = needed(2).rename(columns={"n": "numbers"})
    ax = figures.by_size(frame, -0.8).axes[0]
    assert ax.get_title(loc="left") == "More numbers, fewer examples: the power is -0.8"


@pytest.mark.parametrize(("heads", "title"), [(True, "A few wrong labels end elimination; heads do not mind"),
                                              (False, "Still right at the largest noise: nobody")])  # fmt: skip
def test_the_title_says_who_survives_the_noise(heads, title):
    rows = [(name, noise, right or noise == 0) for noise in (0.0, 0.05, 0.1, 0.2) for _ in range(4)
            for name, right in (("heads", heads), ("elimination", False))]  # fmt: skip
    ax = figures.under_noise(pd.DataFrame(rows, columns=["learner", "noise", "right"])).axes[0]
    assert ax.get_title(loc="left") == title and ax.get_xlabel() == "labels flipped, %"


def test_a_learner_with_three_lengths_is_dots_without_a_line_and_the_title_follows_the_powers():
    every = pd.concat([needed(2), needed(2, "elimination", 1.0), needed(2, "largest coefficient", 0.1)[:3]])
    least = needed(2).rename(columns={"low": "examples"})
    fig = figures.by_length(every, least)
    dots = [line.get_linestyle() for line in fig.axes[0].lines if len(line.get_xdata()) == 3]
    assert dots == ["None"]
    assert fig.get_suptitle() == "Heads need close to nᵏ examples, elimination about n"
    flat = pd.concat([needed(2, power=1.0), needed(2, "elimination", 1.0)])
    assert figures.by_length(flat, least).get_suptitle() == "Examples needed, by number of positions"


def test_names_at_the_top_stay_below_the_title():
    rows = [(name, noise, True) for noise in (0.0, 0.05, 0.1, 0.2) for _ in range(4) for name in figures.COLOURS]
    for draw in (figures.under_noise, lambda frame: style.narrow(figures.under_noise.__wrapped__, frame)):
        fig = draw(pd.DataFrame(rows, columns=["learner", "noise", "right"]))
        fig.canvas.draw()
        ax = fig.axes[0]
        boxes = [text.get_window_extent() for text in ax.texts]
        assert max(box.y1 for box in boxes) <= ax.bbox.y1 + 5
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])

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
    assert ax.get_title(loc="left") == "More numbers, fewer examples: the power is −0.8"


def under_noise(learners, power=1.0):
    """Medians that grow like a power of (1 - 2p)^-2; elimination finds nothing at the larger rates."""
    noise = np.array([0.0, 0.05, 0.1, 0.2, 0.3])
    parts = []
    for height, learner in enumerate(learners, start=2):
        median = 10.0**height * (1 - 2 * noise) ** (-2 * power)
        median[3 if learner == "elimination" else 5 :] = np.inf
        parts.append(pd.DataFrame({"learner": learner, "k": 2, "n": 50, "most": 4096, "noise": noise,
                                   "low": median / 2, "median": median, "high": 2 * median}))  # fmt: skip
    return pd.concat(parts)


@pytest.mark.parametrize(
    ("power", "title"),
    [
        (1, "Heads pay for wrong labels as a mean does, elimination dies of them"),
        (3, "Examples needed, by the rate of wrong labels"),
    ],
)
def test_the_price_of_wrong_labels_is_drawn_with_its_law_and_with_what_was_not_found(power, title):
    fig = figures.under_noise(under_noise(["heads", "elimination"], power), ["heads"])
    (ax,) = fig.axes
    assert fig.get_suptitle() == title and ax.get_xlabel() == "labels flipped, %" and ax.get_yscale() == "log"
    (law,) = [line for line in ax.lines if line.get_linestyle() == ":"]
    assert law.get_ydata()[-1] / law.get_ydata()[0] == pytest.approx(0.4**-2)
    (missed,) = [line for line in ax.lines if line.get_marker() == "^" and len(line.get_xdata())]
    assert missed.get_xdata().tolist() == [20, 30] and set(missed.get_ydata()) == {4096}


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
    frame = under_noise(figures.COLOURS).assign(n=200)
    for draw in (figures.under_noise, lambda *given: style.narrow(figures.under_noise.__wrapped__, *given)):
        fig = draw(frame, ["heads"])
        fig.canvas.draw()
        ax = fig.axes[0]
        boxes = [text.get_window_extent() for text in ax.texts]
        assert len(boxes) == len(figures.COLOURS) and max(box.y1 for box in boxes) <= ax.bbox.y1 + 5
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_figures_of_learners_that_found_nothing_say_so_and_claim_nothing():
    lost = needed(2).assign(median=np.inf)
    fig = figures.by_length(lost, lost.rename(columns={"low": "examples"}))
    assert [text.get_text() for text in fig.axes[0].texts] == ["nothing of this in this run"]
    ax = figures.by_size(lost.rename(columns={"n": "numbers"}), np.nan).axes[0]
    assert ax.get_title(loc="left") == "Examples needed, by numbers in a head"
    alone = under_noise(["heads", "elimination"]).query("noise == 0.3")
    assert figures.under_noise(alone, ["heads"]).get_suptitle() == "Examples needed, by the rate of wrong labels"

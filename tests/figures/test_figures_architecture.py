"""The figures of the model: numbers in the diagram, titles that follow from the frame."""

import numpy as np
import pandas as pd
import pytest

from parity_lib.figures import architecture as figures

pytestmark = pytest.mark.usefixtures("book_style")


def walk(prediction, label):
    heads = [
        {"position": j, "x": j % 2, "bit": j != 2, "sine": 0.5, "cosine": 1.0, "head": i, "attention": float(i == j)}
        for i in (1, 3) for j in (1, 2, 3)
    ]  # fmt: skip
    frame = pd.DataFrame(heads).replace({"head": {3: 2}})
    return frame.assign(read=2.0, prediction=prediction, label=label, smoothing=0.0)


@pytest.mark.parametrize(("prediction", "word"), [(1.0, "right"), (-0.5, "wrong")])
def test_the_diagram_prints_the_numbers_of_the_model(prediction, word):
    words = " ".join(text.get_text() for text in figures.model_diagram(walk(prediction, 1)).axes[0].texts)
    assert f"prediction {prediction:+.2f}, label +1:\n{word}".replace("-", "−") in words
    assert "(1, 0, 0.50, 1)" in words and "mean\n1.00" in words


def test_the_title_of_the_zigzag_says_how_far_it_swings():
    s = np.linspace(0, 2, 9)
    curves = pd.concat([pd.DataFrame({"sum": s, "prediction": 3 * np.cos(s), "smoothing": b}) for b in (0.0, 1.0)])
    ax = figures.zigzag_curves(curves).axes[0]
    assert ax.get_title(loc="left") == "With b = 0 right at whole sums, up to 3 in size between them"
    assert [text.get_text() for text in ax.texts] == ["b = 0", "b = 1"]


def test_the_construction_shows_both_prices():
    n = np.array([8, 16, 32, 64])
    warmest = pd.DataFrame({"n": n, "temperature": 1.0 / n**2, "risk": 2.0})
    grid = [(k, b) for k in (1, 2, 6) for b in (1e-3, 1e-2, 1e-1, 1.0)]
    smoothed = pd.DataFrame(grid, columns=["k", "smoothing"]).assign(risk=lambda frame: frame["k"] * frame["smoothing"])
    left, right = figures.construction(warmest, smoothed).axes
    assert left.get_xscale() == left.get_yscale() == right.get_xscale() == "log"
    assert np.array_equal(left.lines[0].get_ydata(), 1.0 / n**2)
    assert [text.get_text() for text in right.texts] == ["k = 1", "k = 6"]


@pytest.mark.parametrize(
    ("power", "floor", "titles"),
    [
        (2, 0.0, ["Soft heads of norm 1 must be far colder than 1/n",
                  "Hard heads: a smoothed ReLU always costs something"]),
        (1, -1.0, ["Soft heads of norm 1 and their temperature", "Hard heads: a smoothed ReLU and its risk"]),
    ],
)
def test_the_prices_are_claimed_where_the_frames_show_them(power, floor, titles):
    warmest = pd.DataFrame({"n": [8, 16, 32], "temperature": [float(n) ** -power for n in (8, 16, 32)], "risk": 2.0})
    smoothed = pd.DataFrame({"k": 1, "smoothing": [1e-3, 1e-2], "risk": [floor + 1e-3, 1.0]})
    for rows in (warmest, warmest.iloc[:1]):
        axes = figures.construction(rows, smoothed).axes
        assert [ax.get_title(loc="left").replace("\n", " ") for ax in axes] == titles
        assert ("needed: ∝ 1/n²" in {text.get_text() for text in axes[0].texts}) == (power == 2 and len(rows) > 1)

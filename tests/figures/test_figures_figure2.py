"""The figures of Figure 2: what they show, their titles, and an animation that asks no host for anything."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from parity_lib.figures import figure2 as figures
from parity_lib.figures import style
from parity_lib.figures.style import BIT, HEADS

pytestmark = pytest.mark.usefixtures("book_style")


def course(bits, ends, panel="left", n=20):
    """A run of three epochs whose heads end with these weights, position -> attention, and start blank."""
    rows = [
        {"panel": panel, "recipe": "figure2", "seed": 4, "epoch": epoch, "head": head, "position": position,
         "attention": end.get(position, 0.0) * epoch / 2, "bit": position in bits, "turn": position / n}
        for epoch in range(3) for head, end in enumerate(ends, 1) for position in range(1, n + 1)
    ]  # fmt: skip
    return pd.DataFrame(rows)


APART = course((8, 11, 18), [{8: 0.9}, {18: 0.99}, {11: 0.7}])
SHARED = course((5, 16, 17), [{5: 1.0}, {16: 0.5, 17: 0.49}, {16: 0.49, 17: 0.5}], "right")
LOST = course((8, 11, 18), [{8: 0.9}, {8: 0.9}, {2: 0.9}])


def test_the_title_says_how_the_run_ended():
    assert figures.ending(APART) == "Bits 8, 11 and 18: each head ends on a bit of its own"
    assert figures.ending(SHARED) == "Bits 5, 16 and 17: heads 2 and 3 share a direction"
    assert figures.ending(LOST) == "Bits 8, 11 and 18: the heads do not end on the bits"


def test_heat_maps_show_the_attention_of_every_head():
    fig = figures.heat_maps(pd.concat([APART, SHARED]))
    panels = [ax for ax in fig.axes if ax.get_title(loc="left").startswith("head")]
    assert [ax.get_title(loc="left") for ax in panels] == ["head 1", "head 2", "head 3"] * 2
    mesh = panels[1].collections[0]
    wanted = APART.query("head == 2").pivot(index="position", columns="epoch", values="attention")
    assert np.array_equal(np.asarray(mesh.get_array()).reshape(20, 3), wanted.to_numpy())
    assert mesh.get_clim() == (0, 1) and panels[1].get_ylim() == (0, 20)  # position 1 at the bottom
    assert [label.get_text().strip() for label in panels[3].get_yticklabels()] == ["5", "16", "17"]


@pytest.mark.parametrize("heads", [1, 7, 12])
def test_heads_that_do_not_fit_side_by_side_stand_below_each_other(heads):
    """However many there are, none collapses, which would be a warning on the page."""
    given = course((1, 4), [{1: 1.0}] * heads, n=12)
    for draw in (figures.heat_maps, lambda frame: style.narrow(figures.heat_maps.__wrapped__, frame)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fig = draw(given)
            fig.canvas.draw()
        shown = [ax for ax in fig.axes if ax.get_title(loc="left").startswith("head")]
        assert len(shown) == heads and min(ax.get_window_extent().width for ax in shown) > 15


@pytest.mark.parametrize("bits", [(5, 16, 17), (15, 16, 17), (8, 11, 18)])
def test_labels_of_neighbouring_bits_do_not_cover_each_other(bits):
    fig = figures.heat_maps(course(bits, [{bits[0]: 1.0}] * 3))
    fig.canvas.draw()
    boxes = []
    for label in fig.axes[0].get_yticklabels():
        box = label.get_window_extent()
        label.set_text(label.get_text().rstrip())
        box.x1 = box.x0 + label.get_window_extent().width  # the digits alone
        boxes.append(box.shrunk(1.0, 0.8))
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_success_is_in_percent_of_runs_for_each_recipe_and_panel():
    rows = [(panel, recipe, i < wins) for panel in ("left", "right")
            for recipe, wins in (("theory", 0), ("figure2", 3), ("figure2-signed", 4)) for i in range(4)]  # fmt: skip
    fig = figures.success(pd.DataFrame(rows, columns=["panel", "recipe", "pictured"]))
    assert [text.get_text() for text in fig.axes[0].texts] == ["0 %", "75 %", "100 %"]
    assert [label.get_text() for label in fig.axes[0].get_yticklabels()] == [
        "The theorem's recipe\nsquared hinge, gradient descent", "The authors' code\nsigmoid hinge, minibatches",
        "... and labels ±1",
    ]  # fmt: skip


def test_heads_that_tilt_apart_are_counted_in_the_title():
    pairs = pd.DataFrame({"recipe": ["figure2"] * 2 + ["figure2-signed"] * 2, "first": [0.01, 0.02, 0.001, -0.001],
                          "second": [0.01, 0.02, -0.001, -0.001]})  # fmt: skip
    fig = figures.half_way(pairs)
    assert fig.axes[0].get_title(loc="left") == "The authors' code:\n0 % tilt apart"
    assert fig.axes[1].get_title(loc="left") == "Exact gradient, labels ±1:\n50 % tilt apart"
    assert figures.half_way(pairs.head(0)).axes[0].get_title(loc="left") == "The authors' code:\nnone shares"


def test_the_animation_asks_no_host_for_anything_and_says_what_it_shows():
    html = figures.circle_animation(SHARED, alt='two "arrows"')
    assert 'aria-label="two &quot;arrows&quot;"' in html
    links = re.findall(r"(?:src|href)=|https?://[^\"]+", html)
    assert links == ["http://www.w3.org/2000/svg"]  # the name of the SVG namespace, not a request
    assert "@" not in html and '"bits":[5,16,17]' in html
    assert BIT not in HEADS  # green marks the bits

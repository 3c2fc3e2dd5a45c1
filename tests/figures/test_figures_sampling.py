"""The figures of ``sampling`` draw from small frames, and their titles are true of them."""

import numpy as np
import pandas as pd
import pytest

from parity_lib.figures import sampling as figures

pytestmark = pytest.mark.usefixtures("book_style")

SIDE = np.linspace(-2, 2, 5)
PLANE = pd.DataFrame([{"x": x, "y": y, "averaging": x * x + y, "sampling": x - y} for x in SIDE for y in SIDE])
PIT = pd.DataFrame({"risk_of": ["averaging"], "x": [0.5], "y": [1.0]})
LOOKS = pd.DataFrame(
    {"recipe": ["repaired", "repaired", "figure2-signed"], "perm": [0.9, 0.2, 0.4], "right": [True, False, False]}
)
SETTINGS = pd.DataFrame(
    [
        {"loss": loss, "optimiser": optimiser, "temperature": t, "committed": loss == "-log perm" or t == "1"}
        for loss in ("1 - perm", "-log perm")
        for optimiser in ("gd", "adam")
        for t in ("1", "1/n")
        for _ in range(4)
    ]
)


def title(fig):
    return fig.get_suptitle() or fig.axes[0].get_title(loc="left")


@pytest.mark.parametrize(
    ("draw", "finding"),
    [
        (lambda: figures.landscape(PLANE, PIT, 8, 2), "Averaging leaves pits to rest in; sampling leaves none"),
        (lambda: figures.landscape(PLANE, PIT[:0], 8, 2), "The risk of one head that looks for one bit"),
        (lambda: figures.recovery(LOOKS), "Beyond one half the heads are never misread"),
        (lambda: figures.recovery(LOOKS.assign(perm=0.7)), "Permanent and arg-max"),
        (lambda: figures.recovery(LOOKS.assign(perm=0.3)), "Permanent and arg-max"),
        (lambda: figures.settings(SETTINGS), "Only sampling is needed, and at a cold start the logarithm"),
        (lambda: figures.settings(SETTINGS.assign(committed=True)), "The repair in every setting"),
    ],
)  # fmt: skip
def test_a_figure_draws_and_claims_only_what_its_frame_bears_out(draw, finding):
    fig = draw()
    fig.canvas.draw()
    assert title(fig) == finding


def test_the_landscape_counts_the_pits_of_either_risk():
    left, right = figures.landscape(PLANE, PIT, 8, 2).axes[:2]
    assert left.get_title(loc="left").endswith("1 pit")
    assert right.get_title(loc="left").endswith("no pit")

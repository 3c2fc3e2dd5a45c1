"""One run drawn: risk, forces by colour, and the circle of the playground."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from parity_lib.figures import one_run as figures
from parity_lib.figures.playground import circle_and_risk
from parity_lib.figures.style import SIGNAL

pytestmark = pytest.mark.usefixtures("book_style")
RISKS = pd.DataFrame({"update": [0, 2, 4], "risk": [3.0, 2.0, 1.5]})


def forces(blind):
    rows = [(u, head, name, size * (1 + u)) for u in (0, 2, 4) for head in (1, 2)
            for name, size in (("label-free force", blind), ("parity signal", 0.1))]  # fmt: skip
    return pd.DataFrame(rows, columns=["update", "head", "force", "norm"])


def test_one_run_shows_its_risk_and_the_force_on_every_head():
    left, right = figures.risk_and_forces(RISKS, forces(0.0)).axes
    assert left.get_title(loc="left") == "The risk falls from 3 to 1.5"
    assert np.array_equal(left.lines[0].get_ydata(), RISKS["risk"])
    assert right.get_title(loc="left").replace("\n", " ") == "Forces on the heads; no label-free force"
    assert [to_hex(line.get_color()) for line in right.lines] == [SIGNAL.lower()] * 2
    still, none = figures.risk_and_forces(RISKS.assign(risk=1.0), forces(0.0).assign(norm=0.0)).axes
    assert still.get_title(loc="left") == "The risk stays at 1" and not none.lines and not none.get_legend()
    both = figures.risk_and_forces(RISKS, forces(1.0)).axes[1]
    assert len(both.lines) == 4 and both.get_title(loc="left") == "Forces on the heads"
    assert [text.get_text() for text in both.get_legend().get_texts()] == ["label-free force", "parity signal"]


def test_the_circle_has_a_line_for_every_head_and_names_the_bits():
    rows = [(e, h, p, 0.9 if p == h else 0.05, p < 3, h / 4) for e in (0, 1) for h in (1, 2) for p in range(1, 5)]
    frame = pd.DataFrame(rows, columns=["epoch", "head", "position", "attention", "bit", "turn"])
    circle, risk = circle_and_risk(frame, RISKS).axes
    assert [label.get_text() for label in circle.get_xticklabels()] == ["1", "2"]
    assert len(circle.lines) == 4 and risk.get_ylabel() == "risk"
    permanent = RISKS.copy()
    permanent.attrs["what"] = "-log of the permanent"
    for axes in (circle_and_risk(frame, permanent).axes[1], figures.risk_and_forces(permanent, forces(0.0)).axes[0]):
        assert axes.get_ylabel() == "-log of the permanent"
        assert "risk" not in axes.get_title() + axes.get_title(loc="left")

"""Every figure draws, shows what it should, and the animation is self-contained."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from parity_lib import (
    RECIPES,
    Parity,
    measure,
    plots_convergence,
    train,
    wilson,
)
from parity_lib.attention import aligned_directions
from parity_lib.figures.style import GREEN, HEAD_COLOURS

SHORT = replace(RECIPES["figure2-signed"], epochs=3, updates_per_epoch=2)


@pytest.fixture(scope="module")
def run():
    return train(Parity(9, (2, 5)), SHORT, seeds=[4, 6], progress=False)


pytestmark = pytest.mark.usefixtures("book_style")


def test_the_figures_of_convergence_draw(run):
    label_free, parity = torch.rand(4, 2) + 0.1, torch.rand(4, 2) + 0.1
    ramp = np.linspace(1, 4, 12).reshape(4, 3)
    grid = torch.rand(9, 9)
    assert measure.traps(run)
    figures = [
        plots_convergence.risk_fans({"rate 1": run}, {"other": (run, 0.0)}, [1.0] * 4),
        plots_convergence.small_steps(run, {"rate 1": (run, label_free), "rate 2": (run, parity)}),
        plots_convergence.two_forces({"one": (run, label_free, parity), "none": (run, 0 * label_free, parity)}),
        plots_convergence.forces_against_n([10, 20, 40, 80], {"one": (ramp, ramp / 2)}),
        plots_convergence.landscapes({"a": (grid, "loss a"), "b": (grid, "loss b")}, {"a": run, "b": run}, (2, 5), 9),
        plots_convergence.aliases(measure.traps(run)),
        plots_convergence.aliases([]),
        plots_convergence.initial_risk({"1": np.ones(3)}, np.ones(3)),
        plots_convergence.entry_gradients(torch.diag(torch.ones(4)) + torch.tensor([[1.0] * 4] + [[0.0] * 4] * 3)),
        plots_convergence.pl_ratios({"k = 2": (ramp, ramp, 0.1)}),
        plots_convergence.constants_margin({"a": 10.0, "b": 5.0}, {"a": 1.0, "b": 2.0}),
    ]
    for fig in figures:
        fig.canvas.draw()

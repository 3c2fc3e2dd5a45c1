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
    plots_architecture,
    plots_convergence,
    plots_figure2,
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


def test_heat_maps_show_the_attention_the_model_used(run):
    fig = plots_figure2.attention_heat_maps(run, 6)
    panels = [ax for ax in fig.axes if ax.get_title(loc="left").startswith("head")]
    assert [ax.get_title(loc="left") for ax in panels] == ["head 1", "head 2"]
    for i, ax in enumerate(panels):
        assert np.array_equal(ax.images[0].get_array(), run.attention[:, 1, i].numpy().T)
        assert ax.images[0].get_clim() == (0, 1)
        assert list(ax.get_yticks()) == [2, 5]
        assert ax.get_xlabel() == "epoch"


def test_an_example_says_which_seed_it_is_and_whether_it_ends_as_wanted(run):
    assert plots_figure2.example_seed(run, torch.tensor([False, True]), "committed") == (6, "seed 6, committed: yes")
    assert plots_figure2.example_seed(run, torch.tensor([False, False]), "committed") == (4, "seed 4, committed: no")
    fig = plots_figure2.attention_heat_maps(run, 6, "seed 6, committed: yes")
    assert fig.get_suptitle() == "seed 6, committed: yes"


def test_every_criterion_has_its_rate_in_every_row():
    rates = {name: {"hard": wilson(3, 4), "shared": wilson(2, 4)} for name in ("one", "two")}
    fig = plots_figure2.success_rates(rates, "title")
    assert [text.get_text() for text in fig.axes[0].texts] == ["3 of 4", "3 of 4", "2 of 4", "2 of 4"]


def test_one_run_shows_its_risk_and_the_force_on_every_head(run):
    signal = torch.rand(4, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fig = plots_figure2.risk_and_forces(run, {"label-free force": signal * 1e-15, "parity signal": signal})
    left, right = fig.axes
    assert list(left.lines[0].get_xdata()) == [0, 2, 4, 6]
    assert np.array_equal(left.lines[0].get_ydata(), run.risk[:, 0].numpy())
    labels = ["label-free force: 0", "head 1, parity signal", "head 2, parity signal"]
    assert [line.get_label() for line in right.lines] == labels
    assert np.array_equal(right.lines[2].get_ydata(), signal[:, 1].numpy())


@pytest.mark.parametrize("bits", [(5, 16, 17), (15, 16, 17), (8, 11, 18)])
def test_labels_of_neighbouring_bits_do_not_cover_each_other(bits):
    run = train(Parity(20, bits), SHORT, seeds=[0], progress=False)
    fig = plots_figure2.attention_grid({"one": (run, 0), "two": (run, 0)})
    fig.canvas.draw()
    for panel in (fig.axes[0], fig.axes[3]):
        boxes = []
        for label in panel.get_yticklabels():
            box = label.get_window_extent()
            label.set_text(label.get_text().rstrip())
            box.x1 = box.x0 + label.get_window_extent().width  # the digits alone
            boxes.append(box.shrunk(1.0, 0.8))
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_the_diagram_prints_the_numbers_of_the_model():
    task = Parity(7, (2, 4, 7))
    x = torch.tensor([1, 1, 0, 1, 0, 0, 1], dtype=torch.float64)
    fig = plots_architecture.model_diagram(task, x, aligned_directions(task.bits, 7), 1e-3, 0.0)
    words = " ".join(text.get_text() for text in fig.axes[0].texts)
    assert "prediction -1.00, label -1:\nright" in words
    with pytest.raises(ValueError, match="x must be 7 bits, got 6"):
        plots_architecture.model_diagram(task, x[:6], aligned_directions(task.bits, 7), 1e-3, 0.0)


def test_the_other_figures_draw(run):
    rates = {name: {"hard": wilson(1, 4), "committed": wilson(0, 4), "shared": wilson(4, 4)} for name in "ab"}
    temperatures = np.geomspace(0.1, 100, 5)
    figures = [
        plots_figure2.attention_grid({"one": (run, 4), "two": (run, 6)}),
        plots_figure2.success_rates(rates, "title"),
        plots_figure2.every_seed({"one": run}),
        plots_figure2.shared_directions({"one": run}, 2.5),
        plots_architecture.zigzag_curves(3, (0.0, 1.0)),
        plots_architecture.construction_risk(temperatures, {8: temperatures}, temperatures, {2: temperatures}),
    ]
    for fig in figures:
        fig.canvas.draw()


def test_the_animation_asks_no_host_for_anything_and_says_what_it_shows(run):
    html = plots_figure2.circle_animation(run, 4, alt='two "arrows"')
    assert 'aria-label="two &quot;arrows&quot;"' in html
    links = re.findall(r"(?:src|href)=|https?://[^\"]+", html)
    assert links == ["http://www.w3.org/2000/svg"]  # the name of the SVG namespace, not a request
    assert "@" not in html
    assert GREEN not in HEAD_COLOURS  # green marks the bits


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

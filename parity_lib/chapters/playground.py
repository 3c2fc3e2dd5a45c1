"""The playground: sliders that train heads while you watch, for JupyterLab and Binder (notebook ``playground``)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ..figures.figure2 import attention_heat_maps
from ..figures.playground import circle_and_risk
from ..recipes import RECIPES
from ..task import Parity
from ..training import Run, train

CHOICES = ("sigmoid_hinge", "squared_hinge", "tanh", "logistic", "linear", "repaired")


def play(n: int, bits: Sequence[int], temperature: float, loss: str, seed: int) -> Run:
    """One run of 600 updates from exact gradients, in 30 frames.

    ``loss`` is a name in :data:`parity_lib.losses.LOSSES` for the paper's own read-out, or ``repaired``: heads
    that sample a position, with minus the logarithm of the permanent (:mod:`parity_lib.sampled_heads`).
    """
    if loss not in CHOICES:
        raise ValueError(f"loss must be one of {', '.join(CHOICES)}, got {loss!r}")
    recipe = RECIPES["repaired"] if loss == "repaired" else replace(RECIPES["figure2-signed"], loss=loss, accuracy=1e-4)
    recipe = replace(recipe, name=f"playground, {loss}", temperature=temperature, epochs=30, updates_per_epoch=20)
    return train(Parity(n, bits), recipe, [seed], device="cpu", progress=False)


def outcome(run: Run) -> str:
    """What became of the bits, in one sentence."""
    found = "found" if run.committed.all() else "found by arg-max only" if run.recovered.all() else "not found"
    start, end = run.risk[[0, -1], 0].tolist()
    return f"{run.recipe.updates} updates, risk {start:.3g} to {end:.3g}; B = {list(run.task.bits)} is {found}."


def sliders(n: int, bits: Sequence[int], temperature: float, loss: str, seed: int) -> Any:
    """Controls that start from these values and train again at every change, with the pictures below them."""
    try:
        import ipywidgets as widgets
    except ImportError:
        print("the sliders need ipywidgets: pip install -e '.[binder]'")
        return None
    look: Any = {"style": {"description_width": "7em"}, "layout": {"width": "32em"}}
    on_release = look | {"continuous_update": False}
    controls = {
        "n": widgets.IntSlider(n, 6, 60, description="positions n", **on_release),
        "bits": widgets.Text(", ".join(map(str, bits)), description="bits B", **on_release),
        "temperature": widgets.FloatLogSlider(temperature, min=-2, max=2, description="temperature", **on_release),
        "loss": widgets.Dropdown(options=CHOICES, value=loss, description="loss", **look),
        "seed": widgets.IntSlider(seed, 0, 99, description="seed", **on_release),
    }
    told, heads, circle = widgets.HTML(), widgets.Image(), widgets.Image()

    def update(_: object = None) -> None:
        chosen = {name: control.value for name, control in controls.items()}
        try:
            run = play(**chosen | {"bits": _positions(chosen["bits"])})
        except (ValueError, FloatingPointError) as error:
            told.value = escape(str(error))
            return
        told.value = outcome(run)
        heads.value = _png(attention_heat_maps(run, run.seeds[0]))
        circle.value = _png(circle_and_risk(run, run.seeds[0]))

    for control in controls.values():
        control.observe(update, names="value")
    update()
    return widgets.VBox([*controls.values(), told, heads, circle])


def _positions(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"bits must be positions with commas between them, got {text!r}") from None


def _png(figure: Figure) -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=100)
    plt.close(figure)
    return picture.getvalue()

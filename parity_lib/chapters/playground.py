"""The playground: sliders that train heads while you watch, for JupyterLab and Binder (notebook ``playground``)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from typing import Any

import pandas as pd

from ..recipes import RECIPES
from ..task import Parity
from ..training import Run, train
from . import figure2, one_run

CHOICES = ("sigmoid_hinge", "squared_hinge", "tanh", "logistic", "linear", "repaired")
Draw = Callable[[pd.DataFrame, pd.DataFrame], tuple[bytes, bytes]]


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


def seen(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the pictures of a run need: its heads on the circle, and its risk."""
    return figure2.circle(run, run.seeds[0]), one_run.risks(run)


def sliders(n: int, bits: Sequence[int], temperature: float, loss: str, seed: int, draw: Draw) -> Any:
    """Controls that start from these values and train again at every change, with the pictures of ``draw`` below."""
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
        told.value = one_run.outcome(run)
        heads.value, circle.value = draw(*seen(run))

    for control in controls.values():
        control.observe(update, names="value")
    update()
    return widgets.VBox([*controls.values(), told, heads, circle])


def _positions(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"bits must be positions with commas between them, got {text!r}") from None

"""Accuracy of the series behind the exact risk against enumeration, by loss, smoothing and temperature.

Each row is the largest error over the starts, at the default number of frequencies. Losses with a kink, and the ReLU
(smoothing 0), converge only algebraically: this table says how far they get.
"""

from __future__ import annotations

from parity_lib import LOSSES, EnumeratedRisk, Parity, PopulationRisk
from parity_lib.training import initial_directions

BITS, STARTS = (2, 5, 6), 8


def table(n: int) -> list[dict]:
    """One row per loss, smoothing and temperature."""
    task, directions = Parity(n, BITS), initial_directions(range(STARTS), len(BITS))
    rows = []
    for loss in LOSSES:
        for smoothing in (1e-2, 0.0):
            for temperature in (1.0, 1 / n**2):
                frequencies = PopulationRisk(task, loss, temperature, smoothing).frequencies
                series = PopulationRisk(task, loss, temperature, smoothing, frequencies=frequencies)
                value, gradient = series.value_and_gradient(directions)
                exact, slope = EnumeratedRisk(task, loss, temperature, smoothing).value_and_gradient(directions)
                rows.append(
                    {
                        "loss": loss,
                        "smoothing": smoothing,
                        "temperature": temperature,
                        "frequencies": frequencies,
                        "value error": float((value - exact).abs().max()),
                        "gradient error": float((gradient - slope).abs().max()),
                    }
                )
    return rows

"""Accuracy of the exact risk against enumeration, by loss, smoothing and temperature.

Each row is the largest error over the starts, at the default number of frequencies. Losses with a
kink, and the ReLU (smoothing 0), converge only algebraically: this table says how far they get.
"""

from __future__ import annotations

import torch

from parity_lib import LOSSES, EnumeratedRisk, Parity, PopulationRisk
from parity_lib.training import initial_directions

N, BITS, STARTS = 12, (2, 5, 9), 16


def with_gradient(risk, directions):
    leaf = directions.clone().requires_grad_()
    value = risk(leaf)
    return value.detach(), torch.autograd.grad(value.sum(), leaf)[0]


def main() -> None:
    torch.set_num_threads(1)
    task, directions = Parity(N, BITS), initial_directions(range(STARTS), len(BITS))
    print(f"n = {N}, B = {list(BITS)}, {STARTS} starts\n")
    print("loss | smoothing | temperature | frequencies | value error | gradient error | gradient size")
    for loss in LOSSES:
        for smoothing in (1e-2, 1e-4, 0.0):
            for temperature in (1.0, 1 / N, 1 / N**2):
                risk = PopulationRisk(task, loss, temperature, smoothing)
                value, gradient = with_gradient(risk, directions)
                exact, exact_gradient = with_gradient(EnumeratedRisk(task, loss, temperature, smoothing), directions)
                errors = (value - exact).abs().max(), (gradient - exact_gradient).abs().max()
                print(
                    f"{loss} | {smoothing:g} | {temperature:.4f} | {risk.frequencies} | "
                    f"{errors[0]:.0e} | {errors[1]:.0e} | {exact_gradient.abs().max():.0e}"
                )


if __name__ == "__main__":
    main()

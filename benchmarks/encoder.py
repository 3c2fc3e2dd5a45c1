"""Stacked encoders against a loop over torch's own.

Both train the same models on the same inputs, one thread, float32: forward, gradient and an AdamW update.
"""

from __future__ import annotations

import torch
from timing import in_turns

from parity_lib.chapters.encoder import Encoder, LiteralEncoder, keep_freed_memory
from parity_lib.training import adam

MODELS, BATCH, RATE, DECAY = 16, 64, 1e-3, 0.1


def compare(n: int, rounds: int = 15) -> dict:
    """Milliseconds per model and step of both."""
    keep_freed_memory()
    encoder = Encoder(n)
    rows = encoder.start(range(MODELS))
    literal = [LiteralEncoder.of_row(encoder, row) for row in rows]
    optimisers = [torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY) for model in literal]
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(2, (MODELS, BATCH, n), generator=generator, dtype=torch.float32)
    y = x.sum(-1) % 2
    with torch.no_grad():
        difference = max(float((encoder(rows, x)[i] - model(x[i])).abs().max()) for i, model in enumerate(literal))
    rows.requires_grad_()
    step = adam(1.0)

    def stacked() -> None:
        (gradient,) = torch.autograd.grad((encoder(rows, x) - y).square().mean(-1).sum(), rows)
        with torch.no_grad():
            rows.mul_(1 - RATE * DECAY).sub_(step(gradient), alpha=RATE)

    def loop() -> None:
        for model, optimiser, inputs, targets in zip(literal, optimisers, x, y, strict=True):
            optimiser.zero_grad()
            (model(inputs) - targets).square().mean().backward()
            optimiser.step()

    times = in_turns({"stacked": stacked, "loop": loop}, rounds, steps=3)
    ms = {f"{name}, ms per model": taken / MODELS for name, taken in times.items()}
    return {"n": n, **ms, "times faster": times["loop"] / times["stacked"], "largest difference": difference}

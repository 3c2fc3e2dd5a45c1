"""One training step of the chapter's encoders: fused, by the reference in torch, and by torch's own modules.

All train the same model on the same inputs, one thread, float32: forward, gradient and an AdamW update.
"""

from __future__ import annotations

import numpy as np
import torch
from timing import in_turns

from parity_lib.chapters import encoder_reference
from parity_lib.chapters.encoder import Encoder, LiteralEncoder, predict, train_steps

BATCH, RATE, DECAY = 64, 1e-3, 0.1


def compare(n: int, rounds: int = 15) -> dict:
    """Milliseconds per model and step of the three."""
    encoder, generator = Encoder(n), torch.Generator().manual_seed(0)
    start = encoder.start(0)
    x = torch.randint(2, (BATCH, n), generator=generator, dtype=torch.float32)
    y, codes = (x.sum(-1) % 2), encoder.codes(x)
    literal = LiteralEncoder.of_row(encoder, start)
    optimiser = torch.optim.AdamW(literal.parameters(), lr=RATE, weight_decay=DECAY)
    with torch.no_grad():
        difference = float(np.abs(predict(start.numpy(), codes, n, encoder.width) - literal(x).numpy()).max())
    none, loss = np.empty((0, encoder.numbers), np.float32), np.empty(1, np.float32)
    states = {way: [np.zeros(encoder.numbers, np.float32) for _ in range(3)] for way in ("fused", "reference")}
    for state in states.values():
        state[0][:] = start.numpy()

    def step(way: str, steps) -> None:
        rates = np.array([RATE])
        steps(*states[way], 0, codes[None], y.numpy()[None], rates, DECAY, none, n, encoder.width, loss)

    def modules() -> None:
        optimiser.zero_grad()
        (literal(x) - y).square().mean().backward()
        optimiser.step()

    ways = {
        "fused": lambda: step("fused", train_steps),
        "reference": lambda: step("reference", encoder_reference.train_steps),
        "nn.TransformerEncoder": modules,
    }
    times = in_turns(ways, rounds, steps=3)
    ms = {f"{name}, ms": taken for name, taken in times.items()}
    faster = times["nn.TransformerEncoder"] / times["fused"]
    return {"n": n, **ms, "times faster": faster, "largest difference": difference}

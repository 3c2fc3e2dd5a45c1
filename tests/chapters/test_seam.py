"""Where numba is missing the chapters train on torch, call no fused loop, and reach what the loops reach."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from checkouts import ROOT

from parity_lib import kernels
from parity_lib.chapters import boolean, samples
from parity_lib.chapters.encoder import Encoder, Settings, look_at, predictions, train_encoder
from parity_lib.chapters.fixed_attention import drawn_heads, train_on_fixed
from parity_lib.chapters.networks import Stack, drawn_tasks, plain_entrant, random_inputs, tied_entrant
from parity_lib.chapters.networks_reference import TIES
from parity_lib.chapters.xor import READOUTS, SparseXOR
from parity_lib.chapters.xor_stream import stream_gradients


def encoder() -> list[np.ndarray]:
    """A row, its loss, its outputs and what its norms magnify by, after 50 updates."""
    shape = Encoder(3, 8)
    trained = train_encoder(shape, boolean.parity, 1, Settings(steps=50, least=50, finish=50))
    return [trained.row, trained.loss, predictions(shape, trained.row, shape.inputs()), *look_at(shape, trained.row)]


def networks() -> list[np.ndarray]:
    """Stacks of every kind after ten updates, the accuracies of plain ones, and networks on fixed heads."""
    seeds, rows = range(2), np.arange(2)
    tasks, x, found = drawn_tasks(6, 2, seeds), random_inputs(np.random.default_rng(0), 10, 6, 32), []
    entrants = [plain_entrant(tasks, 5, seeds, [0.03]), *(tied_entrant(tasks, tie, seeds, [0.05]) for tie in TIES)]
    for entrant in entrants:
        stack = Stack(entrant.start)
        entrant.advance(stack, x)
        found += [stack.theta, entrant.accuracy(entrant.start.astype(np.float32), rows, x[0])]
    frame = train_on_fixed(drawn_heads("token", 2, 6, seeds), tasks, seeds, 10, 32, [0.02], neurons=4)
    return [*found, frame.to_numpy(dtype=float)]


def xor_stream() -> list[np.ndarray]:
    """Gradients of all read-outs after 7 and 2500 samples, two heads that are one among them."""
    weights = torch.rand(2, 9, generator=torch.Generator().manual_seed(2), dtype=torch.float64).softmax(-1)
    arms = [(weights, readout) for readout in READOUTS] + [(weights[[0, 0]], "tent")]
    stream = stream_gradients(SparseXOR(9, 2, 7), arms, [7, 2500], torch.Generator().manual_seed(3))
    return [found.numpy() for _, found in stream]


def of_samples() -> list[np.ndarray]:
    """Examples that the learners need: full batches, one pass, and the leading eigenvector."""
    code, (bits, seen) = samples.code_of(12, 8), samples.prefixes(12, 0, 2048)
    full = samples.heads_on_pairs(12, 0, code, bits, seen)
    one_pass = samples.heads_streaming(12, 2, 0, code, 4096)
    return [np.array([full, one_pass, samples.leading_vector(bits, seen)])]


PATHS: dict[str, Callable[[], list[np.ndarray]]] = {
    "encoder": encoder, "networks": networks, "xor_stream": xor_stream, "samples": of_samples,
}  # fmt: skip

WITHOUT = """
import sys; sys.modules["numba"] = None
from parity_lib import kernels
assert kernels.numba is None

def refused(function):
    def call(*args):
        raise AssertionError(f"{function.__name__} is a loop for numba, and ran without it")
    return call

kernels.compiled = refused
import numpy as np, test_seam, torch
torch.set_num_threads(1)
found = {f"{name} {i}": part for name, path in test_seam.PATHS.items() for i, part in enumerate(path())}
np.savez(sys.argv[1], **found)
"""


@pytest.fixture(scope="module")
def without_numba(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """What every path finds in a process that cannot import numba."""
    kept = tmp_path_factory.mktemp("without") / "found.npz"
    here = [str(ROOT), str(Path(__file__).parent), str(ROOT / "tests")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*here, *sys.path])}
    command = [sys.executable, "-c", WITHOUT, str(kept)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return dict(np.load(kept))


@pytest.mark.skipif(kernels.numba is None, reason="numba is not installed")
@pytest.mark.parametrize("name", PATHS)
def test_without_numba_a_chapter_trains_on_torch_and_agrees_with_the_loops(name, without_numba, monkeypatch):
    by_loops = PATHS[name]()
    monkeypatch.setattr(kernels, "numba", None)
    by_torch = PATHS[name]()
    assert len(by_loops) == len(by_torch) == sum(key.startswith(f"{name} ") for key in without_numba)
    for i, (fast, plain) in enumerate(zip(by_loops, by_torch, strict=True)):
        assert np.isfinite(plain).all()
        np.testing.assert_allclose(fast, plain, rtol=1e-3, atol=1e-4)
        assert np.array_equal(plain, without_numba[f"{name} {i}"])  # to be without it and to set it to None are one


@pytest.mark.skipif(kernels.numba is None, reason="numba is not installed")
def test_where_numba_is_there_the_loop_is_called_and_elsewhere_the_reference(monkeypatch):
    way = kernels.choose(lambda x: ("loop", x), lambda x: ("reference", x))
    assert way(1) == ("loop", 1) and way.reference(1) == ("reference", 1)
    monkeypatch.setattr(kernels, "numba", None)
    assert way(1) == ("reference", 1)

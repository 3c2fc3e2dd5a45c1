"""Hostile input: a finite result or one clear sentence, and nothing that runs code or leaves the build folder."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from checkouts import ROOT, Checkout, make_checkout, save, write_notebook
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parity_lib import (
    FFNN1,
    LOSSES,
    EnumeratedRisk,
    MinibatchRisk,
    Parity,
    PopulationRisk,
    Recipe,
    SampledAttentionRisk,
    hard_attention,
    literal_prediction,
    positional_code,
    soft_attention,
    train,
    wilson,
    zigzag,
)
from parity_lib.attention import aligned_directions
from parity_lib.build.cli import main
from parity_lib.evidence import record
from parity_lib.sampled_heads import log_permanent

torch.set_num_threads(1)

# Property tests: any sound input gives finite numbers

temperatures = st.floats(1e-6, 1e3)
norms = st.floats(0, 1e6)
precisions = st.sampled_from([torch.float32, torch.float64])
losses = st.sampled_from(sorted(LOSSES))
seeds = st.integers(0, 2**32 - 1)


def value_and_gradient(risk: Callable[[torch.Tensor], torch.Tensor], directions: torch.Tensor) -> torch.Tensor:
    leaf = directions.clone().requires_grad_()
    value = risk(leaf)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return torch.cat([value.detach().flatten(), gradient.flatten()])


def any_heads(k: int, norm: float, rows: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(rows, k, 2, generator=generator, dtype=dtype)
    return norm * directions / directions.norm(dim=-1, keepdim=True)


@given(st.integers(2, 300), st.integers(1, 8), st.integers(0, 3), temperatures, norms, losses, precisions, seeds)
@settings(max_examples=60)
def test_the_exact_risk_and_its_gradient_are_finite(
    n: int, k: int, rows: int, temperature: float, norm: float, loss: str, dtype: torch.dtype, seed: int
) -> None:
    task = Parity.random(n, min(k, n), torch.Generator().manual_seed(seed))
    directions = any_heads(task.k, norm, rows, dtype, seed)
    found = value_and_gradient(PopulationRisk(task, loss, temperature, accuracy=1e-2), directions)
    assert found.dtype == dtype and found.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", range(1, 9))
def test_frequencies_at_which_many_cosines_vanish_at_once_do_no_harm(k: int, dtype: torch.dtype) -> None:
    for n in (k + 1, 4 * k, 8 * k):
        task = Parity(n, range(1, k + 1))
        uniform, aligned = torch.zeros(k, 2, dtype=dtype), 1e6 * aligned_directions(task.bits, n).to(dtype)
        found = value_and_gradient(PopulationRisk(task, "sigmoid_hinge"), torch.stack([uniform, aligned]))
        assert found.isfinite().all(), n


@given(st.integers(2, 9), st.integers(1, 8), temperatures, norms, losses, precisions, seeds)
@example(2, 1, 6.0, 342.0, "hinge", torch.float32, 5)  # attention below the smallest normal number
@settings(max_examples=40)
def test_enumeration_minibatches_and_sampled_heads_are_finite(
    n: int, k: int, temperature: float, norm: float, loss: str, dtype: torch.dtype, seed: int
) -> None:
    task = Parity.random(n, min(k, n), torch.Generator().manual_seed(seed))
    directions = any_heads(task.k, norm, 2, dtype, seed)
    generators = [torch.Generator().manual_seed(seed + row) for row in range(2)]
    risks = [
        EnumeratedRisk(task, loss, temperature),
        MinibatchRisk(task, loss, temperature, 1e-2, batch=7, generators=generators),
        *(SampledAttentionRisk(task, kind, temperature) for kind in ("linear", "squared_hinge", "log")),
    ]
    for risk in risks:
        assert value_and_gradient(risk, directions).isfinite().all(), type(risk).__name__


@given(st.integers(2, 100_000), st.integers(0, 8), temperatures, norms, precisions, seeds)
@settings(max_examples=40)
def test_attention_is_a_distribution(
    n: int, rows: int, temperature: float, norm: float, dtype: torch.dtype, seed: int
) -> None:
    directions = any_heads(2, norm, rows, dtype, seed)
    for attention in (soft_attention(directions, n, temperature), hard_attention(directions, n)):
        assert attention.shape == (rows, 2, n) and attention.isfinite().all() and (attention >= 0).all()
        assert torch.allclose(attention.sum(-1), torch.ones(rows, 2, dtype=dtype), atol=1e-4)


@pytest.mark.parametrize("norm", [0.0, 1.0, 1e6])
def test_a_hundred_thousand_positions_are_no_obstacle(norm: float) -> None:
    task = Parity(100_000, (1, 7, 50, 1000, 33_333, 70_000, 99_999, 100_000))
    directions = any_heads(task.k, norm, 1, torch.float64, 0)
    assert value_and_gradient(PopulationRisk(task, "sigmoid_hinge", accuracy=1e-2), directions).isfinite().all()


whatever = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=3)
)


@given(whatever, whatever)
@settings(max_examples=200)
def test_a_parity_is_sound_or_a_value_error(n: Any, bits: Any) -> None:
    try:
        task = Parity(n, bits)
    except ValueError:
        return
    assert task.n >= 2 and 1 <= task.k <= task.n and all(1 <= bit <= task.n for bit in task.bits)


@given(whatever, whatever, whatever, whatever)
@settings(max_examples=200)
def test_a_risk_is_sound_or_a_value_error(loss: Any, temperature: Any, smoothing: Any, code: Any) -> None:
    task = Parity(5, (1, 2))
    for kind in (PopulationRisk, EnumeratedRisk):
        try:
            risk = kind(task, loss, temperature, smoothing, code)
        except ValueError:
            continue
        assert risk(torch.ones(1, 2, 2, dtype=torch.float64)).isfinite().all()


# Bad input, one sentence each

NAN, INF = math.nan, math.inf
TASK = Parity(20, (8, 11, 18))
SMALL = Parity(6, (1, 2, 3))
RISK = PopulationRisk(TASK)
HEADS = torch.ones(2, 3, 2, dtype=torch.float64)
GENERATOR = torch.Generator()
SETTINGS: dict[str, Any] = {"name": "x", "about": "x", "loss": "hinge", "optimiser": "adam", "learning_rate": 0.1}

DIRECTIONS = "directions must"
WEIGHTS = "weights must be a floating-point tensor of shape (..., 20)"
SEEDS = "seeds must be a count in 1..100000 or a list of whole numbers in 0..2^32 - 1, got"
DEVICE = "device must be auto, cpu, cuda or cuda:N, got"
FLOATS = "directions must be a tensor of floating-point numbers, got"

BAD_CALLS: list[tuple[Callable[[], object], str]] = [
    # the task
    (lambda: Parity(1, (1,)), "n must be a whole number of at least 2, got 1"),
    (lambda: Parity(20.0, (1,)), "n must be a whole number of at least 2, got 20.0"),  # type: ignore[arg-type]
    (lambda: Parity(True, (1,)), "n must be a whole number of at least 2, got True"),
    (lambda: Parity(NAN, (1,)), "n must be a whole number of at least 2, got nan"),  # type: ignore[arg-type]
    (lambda: Parity(20, ()), "bits must be distinct positions in 1..20, got ()"),
    (lambda: Parity(20, (8, 8, 18)), "bits must be distinct positions in 1..20, got (8, 8, 18)"),
    (lambda: Parity(20, (0, 1)), "bits must be distinct positions in 1..20, got (0, 1)"),
    (lambda: Parity(20, (21,)), "bits must be distinct positions in 1..20, got (21,)"),
    (lambda: Parity(20, (1.0,)), "bits must be distinct positions in 1..20, got (1.0,)"),  # type: ignore[arg-type]
    (lambda: Parity(20, 7), "bits must be distinct positions in 1..20, got 7"),  # type: ignore[arg-type]
    (lambda: Parity(3, (1, 2, 3, 4)), "bits must be distinct positions in 1..3, got (1, 2, 3, 4)"),
    (lambda: Parity(60, (1,)).cube(), "all 2^n inputs are listed for n <= 26 only, got n = 60"),
    (lambda: TASK.labels(torch.ones(4, 19)), "inputs must have shape (..., 20), got (4, 19)"),
    (lambda: TASK.sample(-1, GENERATOR), "count must be a whole number of at least 0, got -1"),
    (lambda: Parity.random(5, 6, GENERATOR), "k must be a whole number in 1..5, got 6"),
    (lambda: Parity.random(5, 0, GENERATOR), "k must be a whole number in 1..5, got 0"),
    # attention
    (lambda: positional_code(0), "n must be a whole number in 2..10000000, got 0"),
    (lambda: positional_code(10**9), "n must be a whole number in 2..10000000, got 1000000000"),
    (lambda: positional_code(9, "sphere"), "unknown positional code 'sphere'; known: circle, powers"),
    (lambda: soft_attention(HEADS, 20, 0.0), "temperature must be a positive finite number, got 0.0"),
    (lambda: soft_attention(HEADS, 20, -1), "temperature must be a positive finite number, got -1"),
    (lambda: soft_attention(HEADS, 20, NAN), "temperature must be a positive finite number, got nan"),
    (lambda: soft_attention(HEADS, 20, INF), "temperature must be a positive finite number, got inf"),
    (lambda: soft_attention(HEADS, 20, "1"), "temperature must be a positive finite number, got '1'"),  # type: ignore
    (lambda: soft_attention(NAN * HEADS, 20, 1), "directions over the temperature 1 must be finite, got nan or inf"),
    (lambda: soft_attention(HEADS, 20, 1e-320), "directions over the temperature 9.99989e-321 must be finite, got"),
    (lambda: hard_attention(INF * HEADS, 20), f"{DIRECTIONS} be finite, got nan or inf"),
    (lambda: soft_attention(HEADS.long(), 20, 1), f"{FLOATS} torch.int64"),
    (lambda: soft_attention([[1.0, 2.0]], 20, 1), f"{FLOATS} list"),  # type: ignore[arg-type]
    (lambda: hard_attention(HEADS.numpy(), 20), f"{FLOATS} ndarray"),  # type: ignore[arg-type]
    (lambda: soft_attention(torch.tensor(1.0), 20, 1), f"{DIRECTIONS} have shape (..., heads, 2), got ()"),
    (lambda: hard_attention(torch.ones(2, 3, 3), 20), f"{DIRECTIONS} have shape (..., heads, 2), got (2, 3, 3)"),
    (lambda: literal_prediction(torch.ones(5), torch.ones(3, 4, 4), 3, 1, 0), "inputs must have shape (inputs, n)"),
    (lambda: literal_prediction(torch.ones(5, 20), HEADS, 3, 1, 0), "matrices must have shape (heads, 4, 4), got"),
    # read-outs
    (lambda: zigzag(torch.ones(3), 0, 0.0), "k must be a whole number of at least 1, got 0"),
    (lambda: zigzag(torch.ones(3), 3, -1.0), "smoothing must be a non-negative finite number, got -1.0"),
    (lambda: FFNN1(0, 3), "inputs must be a whole number of at least 1, got 0"),
    (lambda: FFNN1(20, 2.5), "neurons must be a whole number of at least 1, got 2.5"),  # type: ignore
    # risks
    (lambda: RISK(HEADS[:, :0]), f"{DIRECTIONS} have shape (..., heads, 2), got (2, 0, 2)"),
    (lambda: RISK(HEADS * NAN), "directions over the temperature 1 must be finite, got nan or inf"),
    (lambda: RISK(HEADS[0, 0]), f"{DIRECTIONS} have shape (..., heads, 2), got (2,)"),
    (lambda: RISK.of_weights(torch.ones(19)), f"{WEIGHTS}, got torch.float32 (19,)"),
    (lambda: RISK.of_weights(torch.ones(20, dtype=torch.int64)), f"{WEIGHTS}, got torch.int64 (20,)"),
    (lambda: RISK.of_weights(np.full(20, 0.15)), f"{WEIGHTS}, got ndarray"),  # type: ignore[arg-type]
    (lambda: RISK.of_weights(torch.full((20,), NAN)), "weights must be finite, must not be negative and must sum to k"),
    (lambda: PopulationRisk([TASK, SMALL]), "tasks must be one or more parities with the same n and the same number"),
    (lambda: PopulationRisk([]), "tasks must be one or more parities with the same n and the same number of bits"),
    (lambda: PopulationRisk(20), "tasks must be one or more parities with the same n"),  # type: ignore[arg-type]
    (lambda: PopulationRisk([TASK] * 3)(HEADS), f"{DIRECTIONS} have shape (3, heads, 2), a row per task, got (2,)"),
    (lambda: PopulationRisk(TASK, "hindge"), "unknown loss 'hindge'; known: squared_hinge, hinge"),
    (lambda: PopulationRisk(TASK, None), "unknown loss None; known: squared_hinge"),  # type: ignore[arg-type]
    (lambda: PopulationRisk(TASK, temperature=0), "temperature must be a positive finite number, got 0"),
    (lambda: PopulationRisk(TASK, temperature=10**400), "temperature must be a positive finite number, got 1000"),
    (lambda: PopulationRisk(TASK, smoothing=NAN), "smoothing must be a non-negative finite number, got nan"),
    (lambda: PopulationRisk(TASK, smoothing=1e307), "the loss must be finite at all sums from -1 to 4,"),
    (lambda: PopulationRisk(TASK, code="line"), "unknown positional code 'line'; known: circle, powers"),
    (lambda: PopulationRisk(TASK, accuracy=0), "accuracy must be a positive finite number, got 0"),
    (lambda: PopulationRisk(TASK, frequencies=0), "frequencies must be a whole number in 1..16384, got 0"),
    (lambda: PopulationRisk(TASK, frequencies=1.5), "frequencies must be a whole number in 1..16384, got 1.5"),  # type: ignore
    (lambda: PopulationRisk(TASK, frequencies=True), "frequencies must be a whole number in 1..16384, got True"),
    (lambda: EnumeratedRisk(Parity(30, (1,))), "enumerating all 2^30 inputs would take 258 GB; PopulationRisk"),
    (lambda: SampledAttentionRisk(TASK, "tanh"), "unknown loss 'tanh' for sampled attention; known: linear"),
    (lambda: SampledAttentionRisk(TASK)(HEADS[:, :2]), "sampled attention needs k = 3 heads, got 2"),
    (lambda: log_permanent(torch.ones(2, 3)), "a permanent needs square matrices, got shape (2, 3)"),
    (lambda: log_permanent(torch.ones(40, 40)), "a permanent takes k 2^k products: k must be at most 16, got 40"),
    (
        lambda: MinibatchRisk(TASK, "hinge", 1, 0, batch=0, generators=[GENERATOR]),
        "batch must be a whole number of at least 1, got 0",
    ),
    (
        lambda: MinibatchRisk(TASK, "hinge", 1, 0, batch=5, generators=[GENERATOR], cube_share=NAN),
        "cube_share must be a positive finite number, got nan",
    ),
    (
        lambda: MinibatchRisk(TASK, "hinge", 1, 0, batch=5, generators=[GENERATOR])(HEADS),
        "expected 1 rows, one per generator, got 2",
    ),
    # training
    (lambda: train(TASK, "figure3"), "unknown recipe 'figure3'; known: theory, figure2"),
    (lambda: train(TASK, None), "unknown recipe None; known: theory"),  # type: ignore[arg-type]
    (lambda: train(TASK, "theory", seeds=0), f"{SEEDS} 0"),
    (lambda: train(TASK, "theory", seeds=10**12), f"{SEEDS} 1000000000000"),
    (lambda: train(TASK, "theory", seeds=[-1]), f"{SEEDS} [-1]"),
    (lambda: train(TASK, "theory", seeds=[2**40]), f"{SEEDS} [1099511627776]"),
    (lambda: train(TASK, "theory", seeds=True), f"{SEEDS} True"),
    (lambda: train(TASK, "theory", heads=0), "heads must be a whole number of at least 1, got 0"),
    (lambda: train(TASK, "theory", device="tpu"), f"{DEVICE} 'tpu'"),
    (lambda: train(TASK, "theory", device="cpu; rm"), f"{DEVICE} 'cpu; rm'"),
    (lambda: train([TASK, TASK], "theory", seeds=3), "give one task, or one per seed (3), got 2"),
    (lambda: Recipe(**SETTINGS | {"loss": "x"}), "unknown loss 'x'; known: squared_hinge"),
    (lambda: Recipe(**SETTINGS | {"optimiser": "sgd"}), "unknown optimiser 'sgd'; known: adam, gd"),
    (lambda: Recipe(**SETTINGS | {"learning_rate": NAN}), "learning_rate must be a positive finite number, got nan"),
    (lambda: Recipe(**SETTINGS | {"epochs": 0}), "epochs must be a whole number of at least 1, got 0"),
    (lambda: Recipe(**SETTINGS | {"batch": 0}), "batch must be a whole number in 1..100000000, got 0"),
    (lambda: Recipe(**SETTINGS | {"temperature_power": 99}), "temperature_power must be a whole number in -4..4"),
    (lambda: Recipe(**SETTINGS | {"head": "tail"}), "unknown head 'tail', which is no function f(s, k) either; known: zigzag, sampled"),
    # evidence
    (lambda: wilson(3, 2), "successes must be a whole number in 0..2, got 3"),
    (lambda: wilson(0, 0), "trials must be a whole number of at least 1, got 0"),
    (lambda: wilson(1.5, 2), "successes must be a whole number in 0..2, got 1.5"),  # type: ignore[arg-type]
    (lambda: wilson(NAN, 2), "successes must be a whole number in 0..2, got nan"),  # type: ignore[arg-type]
    (lambda: record("../../x", {}), "chapters and tables have names of letters, digits, _ and -, got ['../../x']"),
    (lambda: record("x", {}, **{"../y": pd.DataFrame()}), "chapters and tables have names of letters, digits, _ and -"),
]

# What is said to `parity`, with the toy checkout's two chapters, its profiles and a study.
BAD_REQUESTS: list[tuple[list[str], str]] = [
    (["run", "../../etc/passwd"], "unknown notebook '../../etc/passwd'; known: alpha, beta"),
    (["run", "{alpha}"], "unknown notebook '{alpha}' (did you mean 'alpha'?)"),
    (["run", "alpha\nbeta"], r"unknown notebook 'alpha\nbeta' (did you mean 'alpha'?)"),
    (["run", "alpha", "--profile", "../book"], "unknown profile '../book' (did you mean 'book'?)"),
    (["run", "alpha", "-p", "steps", "__import__('os')"], "steps must be an int in [1..100], got \"__import__('os')\""),
    (["run", "alpha", "-p", "steps", "9" * 5000], "steps must be an int in [1..100], got '9999"),
    (["run", "alpha", "-p", "rate", "inf"], "rate must be a float in (0..1], got inf"),
    (["run", "alpha", "-p", "rate", "1e400"], "rate must be a float in (0..1], got inf"),
    (["run", "alpha", "-p", "loss", 'hinge"; import os'], "loss must be one of {hinge, logistic}, got the string"),
    (["run", "alpha", "-p", "bits", "8;11"], "of at least one item, each in [1..20], got '8;11'"),
    (["run", "alpha", "-p", "loud", "{}"], "loud must be a bool, got '{}'"),
    (["run", "alpha", "-p", "__builtins__", "0"], "unknown parameter '__builtins__'"),
    (["run", "alpha", "--output", "notebooks"], "--output notebooks lies among the sources"),
    (["run", "alpha", "--output", "build/../parity_lib"], "--output build/../parity_lib lies among the sources"),
    (["run", "alpha", "--output", "build/link"], "--output build/link lies among the sources"),
    (["run", "alpha", "--output", "."], "--output . lies among the sources"),
    (["book", "--profile", ".."], "unknown profile '..'; known: "),
    (["book", "--profile", "book.yml"], "unknown profile 'book.yml' (did you mean 'book'?)"),
    (["book", "--cluster", "nowhere"], "--cluster must be a folder with Snakemake's config.yaml for a scheduler"),
    (["study", "../profiles/book"], "unknown study '../profiles/book'; known: "),
]

# What a YAML file may hold, and what is said then.
BAD_PROFILES: dict[str, tuple[str, str]] = {
    "python": ("runs: !!python/object/apply:os.system [exit]", "not YAML (could not determine a constructor"),
    "date": ("runs: {alpha: {steps: 2024-13-45}}", "not YAML (month must be in 1..12)"),
    "deep": ("[" * 3000, "not YAML (maximum recursion depth exceeded"),
    "bytes": ("runs: \udcff", "not YAML ('utf-8' codec can't decode byte 0xff"),
    "twice": ("runs: {alpha: {steps: 1, steps: 2}, beta: {}}", "not YAML (the key 'steps' stands twice"),
    "bomb": (
        "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in pairwise(ascii_lowercase))
        + "runs: {beta: {}, alpha: {steps: *z}}",
        "steps must be an int in [1..100], got [[[[[[[...], [...]],",
    ),
    "path": ("runs: {../alpha: {}}", "unknown notebook '../alpha' (did you mean 'alpha'?)"),
    "octal": ("runs: {alpha: {steps: 024}, beta: {}}", "not YAML (a number must be plain digits, got 024"),
    "clock": ("runs: {alpha: {steps: 1:30}, beta: {}}", "not YAML (a number must be plain digits, got 1:30"),
    "none": ("", "it must map 'runs' to notebooks, got None"),
}
BAD_STUDIES: dict[str, tuple[str, str]] = {
    "keys": ("n: [6]", "k: Field required"),
    "list": ("[1, 2]", "Input should be a valid dictionary or instance of Grid, got [1, 2]"),
    "twice": ("{n: [6, 6], k: [2], recipe: [theory], seeds: 16, block: 16}", "values must be distinct, got [6, 6]"),
    "n": ("{n: [1], k: [2], recipe: [theory], seeds: 16, block: 16}", "n, 0: Input should be greater than or equal"),
    "true": ("{n: [6], k: [yes], recipe: [theory], seeds: 16, block: 16}", "k, 0: Input should be a valid integer, g"),
    "k": ("{n: [6], k: [7], recipe: [theory], seeds: 16, block: 16}", "no k is at most n, got k from 7 and n up to 6"),
    "recipe": ("{n: [6], k: [2], recipe: [../x], seeds: 16, block: 16}", "unknown recipe '../x'; known: theory"),
    "seeds": ("{n: [6], k: [2], recipe: [theory], seeds: 20, block: 16}", "seeds: Input should be a multiple of 16"),
    "many": ("{n: [6], k: [2], recipe: [theory], seeds: [16], block: 16}", "seeds: Input should be a valid integer"),
    "block": ("{n: [6], k: [2], recipe: [theory], seeds: 16, block: 0}", "block: Input should be greater than or equa"),
    "cube": ("{n: [40], k: [2], recipe: [figure2], seeds: 16, block: 16}", "figure2 trains on a share of the cube"),
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A toy checkout with bad profiles, bad studies, and a link from its build folder to its sources."""
    checkout = make_checkout(tmp_path_factory.mktemp("hostile") / "toy")
    for folder, bad in (("profiles", BAD_PROFILES), ("studies", BAD_STUDIES)):
        for name, (text, _) in bad.items():
            path = checkout.write(f"{folder}/{name}.yml", "")
            path.write_bytes(text.encode("utf-8", errors="surrogateescape"))
    (checkout.root / "build").mkdir()
    (checkout.root / "build/link").symlink_to(checkout.root / "notebooks")
    return checkout


def requests() -> list[tuple[list[str], str]]:
    profiles = [(["book", "--profile", name], said) for name, (_, said) in BAD_PROFILES.items()]
    studies = [(["study", name], f"study {name}: {said}") for name, (_, said) in BAD_STUDIES.items()]
    return [*BAD_REQUESTS, *profiles, *studies]


def test_at_least_sixty_bad_inputs_are_tried() -> None:
    assert len(BAD_CALLS) + len(requests()) >= 60


@pytest.mark.parametrize(("call", "sentence"), BAD_CALLS, ids=[sentence for _, sentence in BAD_CALLS])
def test_a_bad_call_is_one_value_error(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:
        call()
    said = str(refusal.value)
    assert sentence in said and "\n" not in said and len(said) < 300


@pytest.mark.parametrize(("arguments", "sentence"), requests(), ids=[" ".join(a)[:60] for a, _ in requests()])
def test_a_bad_request_is_one_line_and_leaves_no_trace(
    toy: Checkout, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(toy.root)
    before = sorted(toy.root.rglob("*"))
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2 and done.stdout == ""
    assert done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 1 and len(done.stderr) < 700
    assert sentence in done.stderr
    assert sorted(toy.root.rglob("*")) == before


# Nothing runs code, nothing is unpickled

def test_a_text_parameter_cannot_run_code(checkout: Checkout) -> None:
    write_notebook(
        checkout.root / "notebooks/beta.ipynb",
        'note: str = "a"  # any text\n',
        save("beta", "note=note"),
    )
    evil = '"; import pathlib; pathlib.Path("/tmp/parity-was-here").touch() #\n{{note}}'
    done = checkout.parity("run", "beta", "-p", "note", evil)
    assert done.returncode == 0, done.stderr
    (table,) = checkout.root.glob("build/run/*/tables/beta/toy.csv")
    assert pd.read_csv(table)["note"].tolist() == [evil]
    assert not Path("/tmp/parity-was-here").exists()


def test_nothing_is_unpickled_or_evaluated() -> None:
    """Results are JSON and CSV, parameters are literals: nothing but the user's own store below build/ is unpickled, and
    nothing but the file that `parity race` is given is executed."""
    forbidden = re.compile(
        r"\b(pickle|joblib|shelve|marshal|dill)\b|torch\.(load|save)\(|allow_pickle|np\.load\(|yaml\.(unsafe_|full_)?load\("
        r"|(?<![.\w])(eval|exec)\(|os\.system\(|shell=True"
    )
    sources = [*ROOT.glob("parity_lib/**/*.py"), *ROOT.glob("book/_ext/*.py"), ROOT / "Snakefile"]
    sources += ROOT.glob("*/Snakefile")
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in sources if path.name != "store.py"}
    texts["parity_lib/chapters/race.py"] = texts["parity_lib/chapters/race.py"].replace("exec(compile(source, ", "", 1)
    for path in ROOT.glob("notebooks/*.ipynb"):
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        texts[path.name] = "\n".join("".join(cell["source"]) for cell in cells)
    assert {name: found for name, text in texts.items() if (found := forbidden.findall(text))} == {}

"""Sparse XOR in one step: closed forms against all 2^d inputs, and what the chapter says about them."""

import math
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from gradients import value_and_gradient

from parity_lib import kernels
from parity_lib.chapters import store, xor
from parity_lib.chapters import xor_arms as lab
from parity_lib.chapters.xor import (
    MAPS,
    READOUTS,
    XOR_LOSSES,
    SparseXOR,
    check_lengths,
    default_width,
    enumerated_gradient,
    population_gradient,
    positional_embedding,
    step_size,
    weight_gradient,
    worst_loss,
)
from parity_lib.chapters.xor_stream import random_signs, stream_gradients


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(store, "enabled", False)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def losses_of_all_inputs(task, weights, readout):
    x = task.cube()
    v = x @ weights.T
    return (1 - task.labels(x) * READOUTS[readout](v[:, 0], v[:, 1])).relu()


# Gradients


@pytest.mark.parametrize("attention", MAPS)
@pytest.mark.parametrize("loss", XOR_LOSSES)
@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("d", [4, 5, 7, 8, 10, 11])
def test_closed_form_gradients_at_zero_equal_autograd_over_all_inputs(d, readout, loss, attention):
    task = SparseXOR.random(d, seeded(d))
    for name in ("signs", "balanced", "one_hot"):
        m = d if name == "one_hot" else d - 1
        table = positional_embedding(name, d, m, seeded(1))
        zero = torch.zeros(2, m, dtype=torch.float64)
        exact = population_gradient(task, table, zero, readout, loss, attention)
        assert (exact - enumerated_gradient(task, table, zero, readout, loss, attention)).abs().max() < 1e-12


@pytest.mark.parametrize("loss", XOR_LOSSES)
@pytest.mark.parametrize("readout", ["quadratic", "product"])
@pytest.mark.parametrize(
    ("attention", "spread"),
    [("softmax", 0.5), ("softmax", 3.0), ("linear", 0.1), ("relu", 0.1), ("sigmoid_bias2", 1.0)],
)
@pytest.mark.parametrize("d", [4, 7, 8, 11])
def test_closed_form_gradients_at_random_starts_equal_autograd_over_all_inputs(d, attention, spread, readout, loss):
    task = SparseXOR.random(d, seeded(d))
    table = positional_embedding("balanced", d, d - 1, seeded(2))  # zero mean: linear weights add up to exactly 1
    for seed in range(3):
        queries = spread * normal(2, d - 1, seed=seed)
        exact = population_gradient(task, table, queries, readout, loss, attention)
        assert (exact - enumerated_gradient(task, table, queries, readout, loss, attention)).abs().max() < 1e-12


@pytest.mark.parametrize("d", [9, 10])
def test_the_tents_gradient_is_the_formula_of_the_chapter(d):
    task, table = SparseXOR(d, 2, 7), positional_embedding("signs", d, 6, seeded(3))
    majority = xor.majority(d)
    c = 1 if d % 2 else (d - 2) / (d - 1)
    keep = [k for k in range(d) if k not in task.pair]
    direction = table[task.pair].sum(0) - c * table[keep].mean(0) - (2 - c) * table.mean(0)
    gradient = population_gradient(task, table, torch.zeros(2, 6, dtype=torch.float64))
    assert torch.allclose(-gradient, (majority / d * direction).expand(2, -1), atol=1e-15)


def test_each_head_is_pulled_by_the_other_heads_start():
    task, table = SparseXOR(12, 3, 8), positional_embedding("balanced", 12, 9, seeded(4))
    queries = normal(2, 9, seed=5)
    a, b = (queries @ table.T).softmax(-1)
    i, j = task.pair
    alpha, beta = a[i] * b[j], a[j] * b[i]
    gradient = population_gradient(task, table, queries, "product")
    first = alpha * table[i] + beta * table[j] - (alpha + beta) * (a @ table)
    second = beta * table[i] + alpha * table[j] - (alpha + beta) * (b @ table)
    assert torch.allclose(-gradient, torch.stack([first, second]), atol=1e-15)


def test_softmax_cancels_the_label_free_force_of_the_squared_hinge_and_linear_attention_does_not():
    task, table = SparseXOR(64, 5, 40), positional_embedding("signs", 64, 36, seeded(6))
    zero = torch.zeros(2, 36, dtype=torch.float64)
    for name, cancels in (("softmax", True), ("linear", False), ("exp", False)):
        hinge, squared = (population_gradient(task, table, zero, "tent", loss, name) for loss in XOR_LOSSES)
        assert torch.allclose(squared, 2 * hinge, atol=1e-15) == cancels
    assert float(lab.label_free_share(64, "signs", "softmax", 3).max()) < 1e-12
    assert float(lab.label_free_share(64, "characters", "linear", 3).max()) < 1e-12
    assert float(lab.label_free_share(64, "signs", "linear", 3).min()) > 0.5


@pytest.mark.parametrize("d", [3, 4, 7, 10])
def test_the_majority_is_that_of_all_inputs(d):
    assert d * xor.majority(d) == pytest.approx(float(SparseXOR(d, 1, 2).cube().sum(1).abs().mean()), rel=1e-14)


# The worst of all inputs


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("d", [3, 4, 6, 9, 12, 14])
def test_the_worst_loss_equals_enumeration(d, readout):
    """Whether the pair outweighs the rest (gain) or not, with separate and with shared heads."""
    for seed in range(12):
        generator = seeded(seed)
        task = SparseXOR.random(d, generator)
        scores = (seed % 4) * torch.randn(2, d, generator=generator, dtype=torch.float64)
        gain = seed / 2
        if seed % 3:
            scores[:, task.pair] += gain
        else:
            scores[[0, 1], task.pair] += gain
        weights = scores.softmax(-1)
        expected = losses_of_all_inputs(task, weights, readout).max()
        assert float(worst_loss(task, weights, readout)) == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize("readout", ["tent", "quadratic"])
def test_the_worst_loss_of_signed_weights_equals_enumeration(readout):
    for seed in range(20):
        task = SparseXOR.random(11, seeded(seed))
        weights = normal(2, 11, seed=seed) / (1 + seed)
        expected = losses_of_all_inputs(task, weights, readout).max()
        assert float(worst_loss(task, weights, readout)) == pytest.approx(float(expected), rel=1e-12)


def test_rows_of_weights_are_judged_one_by_one():
    task = SparseXOR(12, 4, 9)
    weights = normal(5, 3, 2, 12, seed=1).softmax(-1)
    for readout in READOUTS:
        together = worst_loss(task, weights, readout)
        assert together.shape == (5, 3)
        alone = torch.stack([torch.stack([worst_loss(task, w, readout) for w in row]) for row in weights])
        assert torch.allclose(together, alone, atol=1e-14)


def test_at_a_thousand_positions_some_input_attains_the_worst_loss():
    task, table, _ = xor.draw(1024, "signs", 3)
    weights = lab.zero_start_weights(task, table, torch.tensor([12.0], dtype=torch.float64))[0]
    worst = float(worst_loss(task, weights))
    assert 0 < worst < 1
    c = weights[0]
    found = []
    for signs in ((1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)):
        x = torch.ones(1024, dtype=torch.float64)
        x[task.pair] = torch.tensor(signs, dtype=torch.float64)
        base = x[task.pair] @ c[task.pair]
        push = torch.ones_like(x) if signs[0] != signs[1] and base > 0 else -torch.ones_like(x)
        push[task.pair] = x[task.pair]
        v = push @ c
        found.append(float(1 - task.labels(push) * READOUTS["tent"](v, v)))
    assert max(found) == pytest.approx(worst, rel=1e-9)


# One step


def test_one_step_solves_every_input_with_zero_mean_positions():
    found = lab.step_window([16, 64, 256, 1024, 4096], ["characters"], [4.0], 4)
    assert found.worst.max() < 0.05
    assert all(found.m == [default_width(d) for d in found.d]) and (found.m <= np.log2(found.d) ** 2).all()
    assert lab.step_window([100, 1000], ["balanced"], [4.0], 4).worst.max() < 0.05


def test_signs_lose_the_tie_and_too_large_a_step_breaks_them():
    found = lab.step_window([1024], ["signs"], [4.0, 1000.0], 10)
    usual, huge = (found[found.factor == factor] for factor in (4.0, 1000.0))
    assert usual.pair_weight.min() > 0.99
    assert 0.05 < usual.worst.median() < 1
    assert huge.worst.median() > 1.5


def test_a_temperature_is_the_strength_divided_by_its_square():
    for row in lab.temperatures([256], [0.5, 1.0, 1.6], 4.0, 3).itertuples():
        task, table, _ = xor.draw(256, "characters", row.seed)
        gradient = population_gradient(task, table / row.temperature, table.new_zeros(2, table.shape[1]))
        query = -step_size(256, 4 * math.log(256)) * gradient
        worst = float(worst_loss(task, (query @ table.T / row.temperature).softmax(-1)))
        assert row.worst == pytest.approx(worst, rel=1e-9, abs=1e-15) and row.solved == (worst < 0.05)


def test_a_temperature_helps_on_one_side_only():
    shares = lab.temperatures([256], [0.01, 0.1, 1.0, 1.2, 2.0], 4.0, 6).groupby("temperature").solved.mean()
    assert shares.tolist() == [1, 1, 1, 1, 0]


def test_half_precision_needs_loss_scaling_and_a_stable_softmax_and_other_formats_do_not():
    found = lab.number_formats([256], [4.0], 4).groupby(["format", "scaled", "stable"]).solved.mean()
    assert (found[["float64", "float32", "bfloat16"]] == 1).all()
    assert found["float16"].tolist() == [0, 0, 0, 1]


def test_a_naive_exponential_overflows_at_large_steps():
    found = lab.number_formats([256], [100.0], 2).groupby(["format", "stable"]).solved.max()
    assert found["float32", True] and not found["float32", False]


def test_the_step_in_double_precision_is_the_step():
    task, table, _ = xor.draw(64, "characters", 1)
    strengths = torch.tensor([12.0], dtype=torch.float64)
    expected = lab.zero_start_weights(task, table, strengths)[0]
    for scaled in (False, True):
        for stable in (False, True):
            weights = lab.step_in_format(task, table, 12.0, torch.float64, scaled, stable)
            assert torch.allclose(weights, expected, rtol=1e-9)


def test_the_product_needs_a_random_start_and_the_mean_does_not():
    found = lab.random_start([256], ["product", "quadratic"], [0.0, 0.5], [30.0], 20).set_index(["readout", "spread"])
    zero, even, random = (found.loc[key] for key in (("product", 0.0), ("quadratic", 0.0), ("product", 0.5)))
    assert not zero.separated.any() and zero.worst.min() >= 1 - 1e-9
    assert even.solved.all()
    assert random.separated.sum() >= 18 and random.predicted.all()


def test_a_larger_step_solves_more_random_starts():
    found = lab.random_start([64], ["product"], [0.5], [3.0, 30.0, 300.0], 60).groupby("factor").solved.mean()
    assert found[3.0] < found[30.0] < found[300.0] and found[300.0] > 0.9


def test_the_step_gives_the_pair_the_strength_asked_for():
    for readout in ("tent", "quadratic", "product"):
        for loss in XOR_LOSSES:
            task, table = SparseXOR(32, 1, 2), positional_embedding("one_hot", 32, 32, seeded(0))
            zero = torch.zeros(2, 32, dtype=torch.float64)
            gradient = population_gradient(task, table, zero, readout, loss, "linear")
            parity = gradient if loss == "hinge" else gradient - gradient[:, 5:6]
            moved = -step_size(32, 7.0, readout, loss, "linear") * parity
            # The tent also pushes all others down a little, by 1/(d - 1) of the signal.
            assert float(moved[0, 0]) == pytest.approx(7.0, rel=0.05)


# Embeddings


@pytest.mark.parametrize(("name", "d", "m"), [("characters", 64, 36), ("balanced", 100, 45), ("balanced", 16, 15)])
def test_zero_mean_embeddings_have_unit_length_and_zero_mean(name, d, m):
    table = positional_embedding(name, d, m, seeded(1))
    assert table.shape == (d, m)
    assert (table.norm(dim=1) - 1).abs().max() < 1e-14
    assert table.mean(0).abs().max() < 1e-15
    assert torch.equal(table, positional_embedding(name, d, m, seeded(1)))


def test_characters_are_distinct_and_orthogonal():
    table = positional_embedding("characters", 32, 31, seeded(1))
    assert torch.allclose(table.T @ table, torch.eye(31, dtype=torch.float64) * 32 / 31, atol=1e-14)


# Samples


@pytest.mark.parametrize("use_fused", [True, False])
@pytest.mark.parametrize("readout", READOUTS)
def test_streamed_gradients_equal_autograd_on_the_same_samples(readout, use_fused, monkeypatch):
    if not use_fused:
        monkeypatch.setattr(kernels, "numba", None)
    task = SparseXOR(13, 2, 11)
    weights = normal(2, 13, seed=2).softmax(-1)
    x = random_signs(500, 13, seeded(9))

    def empirical(w):
        v = x @ w.T
        return (1 - task.labels(x) * READOUTS[readout](v[:, 0], v[:, 1])).relu().mean()

    _, expected = value_and_gradient(empirical, weights)
    arms = [(torch.full_like(weights, 1 / 13), "tent"), (weights, readout)]
    *_, (count, streamed) = stream_gradients(task, arms, [500], seeded(9))
    assert count == 500
    assert (streamed[1] - expected).abs().max() < 1e-7


@pytest.mark.skipif(kernels.numba is None, reason="no numba")
@pytest.mark.parametrize("d", [8, 40, 64, 130])
def test_the_fused_loop_equals_torch(d, monkeypatch):
    task, weights = SparseXOR.random(d, seeded(d)), normal(2, d, seed=3).softmax(-1)
    uniform = torch.full((2, d), 1 / d, dtype=torch.float64)
    arms = [(uniform, "tent"), (weights, "product"), (weights[[0, 0]], "quadratic"), (weights, "quadratic")]
    counts = [1, 2, 301, 5000]  # chunks that are and are not a multiple of four
    by_loop = list(stream_gradients(task, arms, counts, seeded(4)))
    monkeypatch.setattr(kernels, "numba", None)
    for fused, plain in zip(by_loop, stream_gradients(task, arms, counts, seeded(4)), strict=True):
        assert fused[0] == plain[0]
        assert (fused[1] - plain[1]).abs().max() < 1e-6


def test_packed_bits_are_fair_and_independent_signs():
    x = random_signs(20_000, 70, seeded(3))
    assert set(x.unique().tolist()) == {-1.0, 1.0}
    assert x.mean(0).abs().max() < 5 / math.sqrt(20_000)
    assert (x.T @ x / 20_000 - torch.eye(70, dtype=torch.float64)).abs().max() < 6 / math.sqrt(20_000)


def test_the_streamed_gradient_tends_to_the_exact_one():
    task, weights = SparseXOR(16, 1, 9), torch.full((2, 16), 1 / 16, dtype=torch.float64)
    *_, (count, streamed) = stream_gradients(task, [(weights, "tent")], [200_000], seeded(5))
    assert (streamed[0] - weight_gradient(task, weights, "tent")).abs().max() < 5 / math.sqrt(count)


def test_samples_of_1024_bits_take_less_than_a_gigabyte_however_many():
    code = (
        "import torch; torch.set_num_threads(1)\n"
        "from parity_lib.build.kernel import peak_memory_mb\n"
        "from parity_lib.chapters.xor import SparseXOR\n"
        "from parity_lib.chapters.xor_stream import stream_gradients\n"
        "weights = torch.full((2, 1024), 1 / 1024, dtype=torch.float64)\n"
        "arms = [(weights, 'tent'), (weights, 'product')]\n"
        "for n, g in stream_gradients(SparseXOR(1024, 5, 900), arms, [300_000], torch.Generator()): pass\n"
        "top = (-g[0, 0]).topk(2).indices.sort().values.tolist()\n"
        "print(n, top, peak_memory_mb() or 0)\n"  # of this process alone; ru_maxrss starts at its parent's peak
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    count, *top, memory = done.stdout.replace("[", "").replace("]", "").replace(",", "").split()
    assert int(count) == 300_000 and [int(k) for k in top] == [4, 899]
    assert int(memory) < 976


def test_a_property_counts_from_where_it_stays():
    counts = [10, 20, 30, 40]
    assert lab.from_then_on(torch.tensor([True, False, True, True]), counts) == 30
    assert lab.from_then_on(torch.tensor([True] * 4), counts) == 10
    assert lab.from_then_on(torch.tensor([True, True, True, False]), counts) == math.inf
    last = torch.tensor([True, False, False, True])
    assert lab.from_then_on(last, counts) == math.inf  # the last look alone says nothing


def test_two_heads_recover_and_solve_from_samples_and_one_head_seldom_solves():
    found = lab.samples_needed([64], ["characters", "one_hot"], seeds=4, budget=3.0, checkpoints=12)
    assert dict(found.groupby("embedding").m.first()) == {"characters": 36, "one_hot": 64}
    reached = np.isfinite(found[["recovered", "solved"]]).groupby(found.arm).mean()
    assert reached.loc["even split", "recovered"] > 0.7 and reached.loc["even split", "solved"] == 0
    assert reached.loc["two heads", "solved"] >= 0.5 and reached.loc["one head", "solved"] == 0
    heads = found[found.arm == "two heads"]
    assert (heads.solved >= heads.recovered).all()


def test_an_arm_with_one_head_is_two_equal_ones_that_take_twice_the_step():
    one, two = lab.ARMS[1], lab.ARMS[0]
    drawn = normal(2, 5)
    assert torch.equal(one.start(drawn)[0], one.start(drawn)[1]) and torch.equal(two.start(drawn), drawn)
    assert one.step(64) == 2 * two.step(64)
    assert not lab.ARMS[-1].start(drawn).any()
    task, scores = SparseXOR(5, 2, 4), torch.tensor([[[0.0, 3, 0, 2, 0], [0, 2, 0, 3, 0]], [[9.0, 3, 0, 2, 0]] * 2])
    assert two.recovers(task, scores).tolist() == [True, False]
    assert one.recovers(task, scores).tolist() == [True, False]


# Rivals


def test_errors_and_scaled_losses_are_those_of_the_read_out():
    task = SparseXOR(10, 2, 5)
    weights = normal(4, 2, 10, seed=7) / 3
    x = task.cube()
    rest = x[(x[:, 1] == 1) & (x[:, 4] == 1)][:, [k for k in range(10) if k not in task.pair]]
    plain, best = lab.errors_on(task, weights, rest)
    for row in range(4):
        v = (x @ weights[row].T).mean(1).abs()
        wrong = [(((1 - 2 * v / z) * task.labels(x)) <= 0).double().mean() for z in (1.0, *torch.logspace(-2, 2, 4000))]
        assert float(plain[row]) == pytest.approx(float(wrong[0]), abs=1e-12)
        assert float(best[row]) <= float(min(wrong)) + 1e-12
        assert float(best[row]) == pytest.approx(float(min(wrong)), abs=0.01)


@pytest.mark.parametrize("readout", ["tent", "quadratic"])
def test_the_best_scale_is_not_beaten_by_any_other(readout):
    task = SparseXOR(20, 3, 15)
    weights = 0.02 * normal(2, 20, seed=8)
    weights[:, task.pair] += torch.tensor([0.9, 1.3], dtype=torch.float64)
    scales = torch.logspace(-1, 1, 2001, dtype=torch.float64)
    losses = worst_loss(task, weights / scales[:, None, None], readout)
    best = float(lab.scaled_worst_loss(task, weights, readout))
    assert best == pytest.approx(float(losses.min()), rel=1e-2)
    assert best <= float(losses.min()) + 1e-12


def test_linear_attention_fails_where_softmax_does_not_and_one_hot_positions_save_it():
    found = lab.attention_maps([256], [0.5, 2.0, 4.0, 8.0], 2, 400)
    worst = found[(found.loss == "hinge") & (found.embedding == "characters")].groupby(["map", "rescaled"]).worst
    assert worst.max()["softmax"].max() < 1e-3
    assert min(worst.min()[name].min() for name in ("linear", "relu", "erf", "sigmoid")) > 1
    best = lab.linear_optimum([256], ["characters", "one_hot"], 2, 400).set_index("embedding")
    assert best.kept["characters"].max() < 0.4 and best.error["characters"].min() > 0.3
    assert best.kept["one_hot"].min() == pytest.approx(1) and best.error["one_hot"].max() == 0


@pytest.mark.parametrize("name", MAPS)
def test_with_zero_mean_positions_the_two_losses_take_the_same_step(name):
    task, table, _ = xor.draw(64, "characters", 2)
    strengths = torch.tensor([1.0, 9.0], dtype=torch.float64)
    hinge, squared = (lab.zero_start_weights(task, table, strengths, loss, name) for loss in XOR_LOSSES)
    assert torch.allclose(hinge, squared, rtol=1e-9)


def test_networks_learn_when_they_read_both_bits_and_spend_what_they_are_given():
    for parameters in (40, 98, 200, 512, 2000):
        neurons, inputs = lab.network_shape(128, parameters)
        assert neurons * (inputs + 2) + 1 <= parameters and neurons >= 4 and inputs <= 128
    found = lab.train_networks(32, [4 * 18 + 1], seeds=12, updates=400)
    assert (found.parameters == 73).all()
    assert (found.learned == found.reads_both).all()
    assert found.error[~found.reads_both].min() > 0.3


def test_a_network_that_does_not_read_a_bit_has_risk_one_at_least():
    """Proposition 4: flipping the bit flips the label and not the prediction; and the share of pairs it can learn."""
    task, x = SparseXOR(6, 2, 5), SparseXOR(6, 2, 5).cube()
    for seed in range(5):
        first = normal(7, 6, seed=seed)
        first[:, 1] = 0
        predicted = (x @ first.T + normal(7, seed=seed + 9)).relu() @ normal(7, seed=seed + 99)
        assert float((1 - task.labels(x) * predicted).relu().mean()) >= 1 - 1e-12
    pairs = [(i, j) for i in range(6) for j in range(i)]
    read = {0, 2, 3, 5}
    assert lab.ceiling(6, 4) == pytest.approx(np.mean([i in read and j in read for i, j in pairs]))


def test_one_weight_vector_needs_all_its_weights():
    worst = lab.one_weight_vector(128, 4, 512.0).groupby("weights").worst
    assert worst.max()["all"] < 0.01 and worst.min()["tied"] > 1


def test_the_closed_forms_agree_with_autograd_in_the_chapters_own_check():
    found = lab.gradient_differences(6)
    assert len(found) == 52 and found.difference.max() < 1e-12


def test_summaries_of_the_page():
    heated = pd.DataFrame({"temperature": [0.1, 1, 1.5, 1.5, 2, 3], "solved": [True, True, True, False, False, False]})
    assert lab.temperature_ends(heated) == (1.0, 2.0)
    assert lab.temperature_ends(heated.assign(solved=True)) == (3.0, math.inf)
    table = lab.format_table(lab.number_formats([64], [4.0], 2))
    assert table.loc["float16"].tolist()[-1] == "2 of 2" and list(table.columns) == list(lab.HOW.values())
    cell = pd.DataFrame({"spread": 0.5, "factor": 30.0, "readout": "product", "log_ratio": [-0.1, 2.0, -3.0]})
    assert lab.tie_breakers(cell.assign(solved=[False, True, True]), 0.5, 30.0) == (0.1, 2.5)
    frame = needed(multiple=0.6, solved=0.5)
    assert lab.multiples(frame, "recovered").tolist() == pytest.approx([0.6, 0.6])
    assert str(lab.reached(frame, "two heads", "solved")).startswith("20 of 40")


# Verdicts


def bounds(**changes):
    rows = [(d, 64, factor, 0, 1000, 0.001) for d in (256, 1024) for factor in (4.0, 8.0)]
    frame = pd.DataFrame(rows, columns=["d", "m", "factor", "failed", "embeddings", "proved"])
    for (d, factor), (failed, proved) in changes.get("rows", {}).items():
        frame.loc[(frame.d == d) & (frame.factor == factor), ["failed", "proved"]] = failed, proved
    return frame.astype({"failed": int})


def any_length(failed=False):
    return pd.DataFrame({"d": [100, 100], "factor": [4.0, 8.0], "failed": [True, failed]})


def test_from_zero_one_strength_that_is_proved_at_every_d_is_enough():
    found = lab.judge_one_step(bounds(rows={(256, 4.0): (60, 0.93)}), any_length())
    assert (found.as_stated, found.kind) == ("holds", "proved") and found.numbers["strength / ln d"] == 8.0


def test_from_zero_a_strength_that_is_proved_from_some_d_on_is_a_narrower_range():
    found = lab.judge_one_step(bounds(rows={(256, 8.0): (0, 0.5)}), any_length())
    assert found.as_stated == "narrower range" and "from d = 1024 on" in found.instead


def test_from_zero_it_is_open_if_a_proof_is_contradicted_or_other_positions_fail():
    assert lab.judge_one_step(bounds(rows={(256, 8.0): (100, 0.01)}), any_length()).as_stated == "open"
    assert lab.judge_one_step(bounds(), any_length(failed=True)).as_stated == "open"


def starts(shares):
    rows = [(d, "product", spread, 300.0, k < 200 * share) for (d, spread), share in shares.items() for k in range(200)]
    return pd.DataFrame(rows, columns=["d", "readout", "spread", "factor", "solved"])


def test_a_random_start_is_judged_at_every_d_and_spread():
    good = {(d, spread): 0.99 for d in (64, 4096) for spread in (0.35, 0.5)}
    assert lab.judge_random_start(starts(good)).as_stated == "holds"
    narrower = lab.judge_random_start(starts(good | {(64, 0.5): 0.85}))
    assert narrower.as_stated == "narrower range" and "from d = 4096 on" in narrower.instead
    assert lab.judge_random_start(starts(good | {(4096, 0.5): 0.85})).as_stated == "open"


def networks(learned, reads_both):
    return pd.DataFrame({"learned": learned, "reads_both": reads_both})


def test_parameters_hold_by_proof_unless_the_control_contradicts_it():
    control = networks([True] * 20 + [False] * 20, [True] * 20 + [False] * 20)
    found = lab.judge_params(bounds(), control)
    assert (found.as_stated, found.kind) == ("holds", "proved")
    assert lab.judge_params(bounds(), networks([True] * 40, [True] * 20 + [False] * 20)).as_stated == "open"
    weak = bounds(rows={(256, 4.0): (0, 0.5), (256, 8.0): (0, 0.5)})
    assert lab.judge_params(weak, control).as_stated == "open"


def maps(good):
    settings = [(loss, name) for loss in XOR_LOSSES for name in ("characters", "signs")]
    rows = [
        (64, loss, embedding, name, 0, True, 0.01 if place < good.get(name, 0) else 2.0)
        for name in MAPS
        for place, (loss, embedding) in enumerate(settings)
    ]
    return pd.DataFrame(rows, columns=["d", "loss", "embedding", "map", "seed", "rescaled", "worst"])


def test_softmax_alone_or_not():
    assert lab.judge_softmax(maps({"softmax": 4})).as_stated == "holds"
    assert lab.judge_softmax(maps({"softmax": 4, "exp": 3})).as_stated == "narrower range"
    assert lab.judge_softmax(maps({"softmax": 4, "linear": 1})).as_stated == "fails"
    assert lab.judge_softmax(maps({"softmax": 4, "exp": 4})).as_stated == "fails"
    assert lab.judge_softmax(maps({"softmax": 3})).as_stated == "open"


def needed(multiple=0.6, solved=1.0, proved=1.5):
    rows = []
    for d, m in ((64, 36), (256, 64)):
        law = lab.sample_law(d, m)
        for seed in range(20):
            reached = 100.0 if seed < 20 * solved else math.inf
            rows.append((d, m, "characters", seed, "even split", law, multiple * law, math.inf))
            rows.append((d, m, "characters", seed, "two heads", law, 100.0, reached))
    frame = pd.DataFrame(rows, columns=["d", "m", "embedding", "seed", "arm", "law", "recovered", "solved"])
    return frame.assign(proved=proved * frame.law)


def test_samples_need_the_proof_the_measured_law_and_one_procedure():
    found = lab.judge_samples(needed())
    assert (found.as_stated, found.kind) == ("narrower range", "measured") and "proved" in found.instead
    assert lab.judge_samples(needed(multiple=2.5)).as_stated == "open"
    assert lab.judge_samples(needed(multiple=math.inf)).as_stated == "open"
    assert lab.judge_samples(needed(solved=0.5)).as_stated == "open"
    assert lab.judge_samples(needed(proved=3)).as_stated == "open"


# Refusals

UNIFORM = torch.full((2, 8), 1 / 8, dtype=torch.float64)
TASK = SparseXOR(8, 1, 2)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: SparseXOR(8, 3, 3), r"i and j must be two positions in 1\.\.d, d at least 3, got 3, 3 of 8"),
        (lambda: SparseXOR(8, 0, 3), "got 0, 3 of 8"),
        (lambda: SparseXOR(2, 1, 2), "got 1, 2 of 2"),
        (
            lambda: positional_embedding("characters", 100, 45, seeded(0)),
            "characters needs d to be a power of two, got 100; balanced takes any d",
        ),
        (lambda: positional_embedding("balanced", 10, 10, seeded(0)), "d = 10 positions have m of at most 9, got 10"),
        (lambda: positional_embedding("random", 16, 4, seeded(0)), "unknown embedding 'random'; known: characters"),
        (lambda: weight_gradient(TASK, 2 * UNIFORM), "weights add up to at most 1 in size, got 2"),
        (
            lambda: weight_gradient(TASK, normal(2, 8).softmax(-1)),
            "the closed form for tent needs uniform weights; only quadratic and product take others",
        ),
        (lambda: worst_loss(TASK, -UNIFORM, "product"), "worst loss of the product needs non-negative weights, got -0"),
        (lambda: lab.network_shape(64, 16), "4 neurons that read 2 inputs have 17 parameters, got 16 to spend"),
    ],
)
def test_bad_calls_are_refused_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_lengths_of_characters_are_powers_of_two_and_a_start_that_was_not_tried_is_open():
    check_lengths(lengths=[8, 64], network_length=[128])
    with pytest.raises(ValueError, match="width_lengths must be powers of two, as all but odd_lengths, got 64, 100"):
        check_lengths(lengths=[8], width_lengths=[64, 100])
    starts = lab.random_start([8], ["product"], [0.0], [30.0], 2)
    assert lab.judge_random_start(starts).as_stated == "open"

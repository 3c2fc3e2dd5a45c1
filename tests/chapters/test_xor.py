"""Sparse XOR in one step: closed forms against all 2^d inputs, and what the chapter says about them."""

import math
import os
import subprocess
import sys

import matplotlib

matplotlib.use("agg")

import pytest
import torch
from gradients import value_and_gradient

from parity_lib import wilson

from parity_lib.figures import style as plots, xor as plots_xor

from parity_lib.chapters import xor
from parity_lib.chapters import xor_arms as lab
from parity_lib.chapters.xor import (
    MAPS,
    READOUTS,
    XOR_LOSSES,
    SparseXOR,
    default_width,
    enumerated_gradient,
    population_gradient,
    positional_embedding,
    step_size,
    stream_gradients,
    take_step,
    weight_gradient,
    worst_loss,
)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def losses_of_all_inputs(task, weights, readout, loss="hinge"):
    x = task.cube()
    v = x @ weights.T
    hinge = (1 - task.labels(x) * READOUTS[readout].value(v[:, 0], v[:, 1])).relu()
    return hinge if loss == "hinge" else hinge**2


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
    majority = xor.mean_absolute_sum(d) / d
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
def test_the_mean_absolute_sum_is_that_of_all_inputs(d):
    assert xor.mean_absolute_sum(d) == pytest.approx(float(SparseXOR(d, 1, 2).cube().sum(1).abs().mean()), rel=1e-14)


# The worst of all inputs


@pytest.mark.parametrize("loss", XOR_LOSSES)
@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("d", [3, 4, 6, 9, 12, 14])
def test_the_worst_loss_equals_enumeration(d, readout, loss):
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
        expected = losses_of_all_inputs(task, weights, readout, loss).max()
        assert float(worst_loss(task, weights, readout, loss)) == pytest.approx(float(expected), abs=1e-12)


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
    task, table, _ = lab.draw(1024, "signs", 3)
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
        found.append(float(1 - task.labels(push) * READOUTS["tent"].value(v, v)))
    assert max(found) == pytest.approx(worst, rel=1e-9)


# One step


@pytest.mark.parametrize("d", [16, 32, 64, 128, 256, 512, 1024, 2048, 4096])
def test_one_step_solves_every_input_with_characters(d):
    run = lab.zero_start(d, "characters", [4.0], 10)
    assert float(run.worst.max()) < 0.05
    assert run.m == default_width(d) <= math.log2(d) ** 2


@pytest.mark.parametrize("d", [100, 1000])
def test_one_step_solves_every_input_with_balanced_positions(d):
    assert float(lab.zero_start(d, "balanced", [4.0], 10).worst.max()) < 0.05


def test_signs_lose_the_tie_and_too_large_a_step_breaks_them():
    run = lab.zero_start(1024, "signs", [4.0, 1000.0], 10)
    assert float(run.pair_weight[0].min()) > 0.99
    assert 0.05 < float(run.worst[0].median()) < 1
    assert float(run.worst[1].median()) > 1.5


def test_the_product_needs_a_random_start_and_the_mean_does_not():
    from_zero = lab.two_heads(256, "product", 0.0, 30.0, 20)
    assert not from_zero.separated.any() and float(from_zero.worst.min()) >= 1 - 1e-9
    assert float(lab.two_heads(256, "quadratic", 0.0, 30.0, 20).worst.max()) < 0.05
    random = lab.two_heads(256, "product", 0.5, 30.0, 20)
    assert random.separated.sum() >= 18
    assert (random.preference[:, 0].sign() == random.log_ratio.sign()).all()
    assert (random.preference[:, 1].sign() == -random.log_ratio.sign()).all()


def test_the_step_gives_the_pair_the_strength_asked_for():
    for readout in ("tent", "quadratic", "product"):
        for loss in XOR_LOSSES:
            task, table = SparseXOR(32, 1, 2), positional_embedding("one_hot", 32, 32, seeded(0))
            zero = torch.zeros(2, 32, dtype=torch.float64)
            gradient = population_gradient(task, table, zero, readout, loss, "linear")
            parity = gradient if loss == "hinge" else gradient - gradient[:, 5:6]
            moved = take_step(zero, parity, step_size(32, 7.0, readout, loss, "linear"))
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


@pytest.mark.parametrize("loss", XOR_LOSSES)
@pytest.mark.parametrize("readout", READOUTS)
def test_streamed_gradients_equal_autograd_on_the_same_samples(readout, loss):
    task = SparseXOR(13, 2, 11)
    weights = normal(2, 13, seed=2).softmax(-1)
    x = xor.random_signs(500, 13, seeded(9))

    def empirical(w):
        v = x @ w.T
        hinge = (1 - task.labels(x) * READOUTS[readout].value(v[:, 0], v[:, 1])).relu()
        return (hinge if loss == "hinge" else hinge**2).mean()

    _, expected = value_and_gradient(empirical, weights)
    arms = [(torch.full_like(weights, 1 / 13), "tent"), (weights, readout)]
    *_, (count, streamed) = stream_gradients(task, arms, [100, 500], seeded(9), loss, 64, torch.float64)
    assert count == 500
    assert (streamed[1] - expected).abs().max() < 1e-12


def test_the_stream_does_not_depend_on_the_chunks_and_single_precision_hardly_matters():
    task, weights = SparseXOR(40, 3, 30), normal(2, 40, seed=3).softmax(-1)
    results = [
        [g for _, g in stream_gradients(task, [(weights, "product")], [300, 1000], seeded(4), chunk=chunk, dtype=dtype)]
        for chunk, dtype in ((17, torch.float64), (1000, torch.float64), (256, torch.float32))
    ]
    for other, tolerance in ((results[1], 1e-13), (results[2], 1e-6)):
        assert all((a - b).abs().max() < tolerance for a, b in zip(results[0], other, strict=True))


def test_the_streamed_gradient_tends_to_the_exact_one():
    task, weights = SparseXOR(16, 1, 9), torch.full((2, 16), 1 / 16, dtype=torch.float64)
    *_, (count, streamed) = stream_gradients(task, [(weights, "tent")], [200_000], seeded(5))
    assert (streamed[0] - weight_gradient(task, weights, "tent")).abs().max() < 5 / math.sqrt(count)


def test_a_million_samples_of_1024_bits_take_less_than_a_gigabyte():
    code = (
        "import resource, torch; torch.set_num_threads(1)\n"
        "from parity_lib.chapters.xor import SparseXOR, stream_gradients\n"
        "weights = torch.full((2, 1024), 1 / 1024, dtype=torch.float64)\n"
        "arms = [(weights, 'tent'), (weights, 'product')]\n"
        "for n, g in stream_gradients(SparseXOR(1024, 5, 900), arms, [10**6], torch.Generator().manual_seed(1)): pass\n"
        "top = (-g[0, 0]).topk(2).indices.sort().values.tolist()\n"
        "print(n, top, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    pytest.importorskip("resource")  # not on Windows
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    count, *top, memory = done.stdout.replace("[", "").replace("]", "").replace(",", "").split()
    assert int(count) == 10**6 and [int(k) for k in top] == [4, 899]
    kilobytes = int(memory) / (1024 if sys.platform == "darwin" else 1)
    assert kilobytes < 1_000_000


def test_a_property_counts_from_where_it_stays():
    marks = torch.tensor([[1, 0, 1], [0, 1, 1], [1, 1, 1], [1, 1, 0]], dtype=torch.bool)
    assert lab._from_then_on(marks, [10, 20, 30, 40]).tolist() == [30, 20, math.inf]


def test_a_random_start_learns_from_samples():
    found = lab.samples_needed(64, ("characters", "one_hot"), seeds=3, budget_factor=12.0, checkpoints=12)
    assert found["characters"].m == 36 and found["one_hot"].m == 64
    for result in found.values():
        assert result.recovered[lab.SAMPLE_ARMS[0]].isfinite().sum() >= 2
        assert result.solved[lab.SAMPLE_ARMS[2]].isfinite().any()
        one = lab.SAMPLE_ARMS[4]  # one head finds both positions, but its start keeps it from weighing them equally
        assert result.recovered[one].isfinite().any() and not result.solved[one].isfinite().any()


# Rivals


def test_errors_and_scaled_losses_are_those_of_the_read_out():
    task = SparseXOR(10, 2, 5)
    weights = normal(4, 2, 10, seed=7) / 3
    x = task.cube()
    rest = x[(x[:, 1] == 1) & (x[:, 4] == 1)][:, [k for k in range(10) if k not in task.pair]]
    plain = lab.sampled_errors(task, weights, rest, rescale=False)
    best = lab.sampled_errors(task, weights, rest, rescale=True)
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
    found = lab.variants(256, "characters", "hinge", 2, [0.5, 2.0, 4.0, 8.0], 400)
    assert float(found["softmax"].worst.max()) < 1e-3
    assert min(float(found[name].worst.min()) for name in ("linear", "relu", "erf", "sigmoid")) > 1
    kept, error = lab.linear_optimum(256, "characters", 2, 400)
    assert float(kept.max()) < 0.4 and float(error.min()) > 0.3
    kept, error = lab.linear_optimum(256, "one_hot", 2, 400)
    assert float(kept.min()) == pytest.approx(1) and float(error.max()) == 0


def test_networks_learn_when_they_read_both_bits_and_spend_what_they_are_given():
    for parameters in (40, 98, 200, 512, 2000):
        neurons, inputs = lab.network_shape(128, parameters)
        assert neurons * (inputs + 2) + 1 <= parameters and neurons >= 4 and inputs <= 128
    network = lab.train_networks(32, 4 * 18 + 1, seeds=12, updates=400)
    assert network.parameters == 73
    assert torch.equal(network.error < 0.01, network.reads_both)
    assert float(network.error[~network.reads_both].min()) > 0.3


def test_one_weight_vector_needs_all_its_weights():
    assert float(lab.shared_network_step(128, "all", 4, 512.0).max()) < 0.01
    assert float(lab.shared_network_step(128, "tied", 4, 512.0).min()) > 1


# Figures and refusals


def test_the_figures_draw():
    plots.use_style()
    steps = {64: lab.zero_start(64, "characters", [1.0, 4.0], 3)}
    maps = {64: lab.variants(64, "signs", "hinge", 2, [1.0, 4.0], 100)}
    ones = [torch.ones(3)]
    rates = [wilson(0, 4), wilson(4, 4)]
    network = lab.Network(73, torch.ones(3, dtype=torch.bool), torch.zeros(3))
    drawn = [
        plots_xor.one_step({"characters": steps, "signs": steps}),
        plots_xor.window([1.0, 4.0], {"characters": steps}),
        plots_xor.variants({"one": maps, "two": maps}, {name: name for name in MAPS}),
        plots_xor.causes([64], {"one_hot": (ones, ones)}, {"a": ones, "b": ones, "c": ones}),
        plots_xor.two_heads(lab.two_heads(64, "product", 0.5, 30.0, 3), [0, 1], {"product": {"a": rates, "b": rates}}),
        plots_xor.samples({"one_hot": {32: lab.samples_needed(32, ["one_hot"], 2, 3.0, checkpoints=4)["one_hot"]}}),
        plots_xor.widths({64: ([6, 12], rates)}),
        plots_xor.networks(64, [network, network], rates, (72, rates[1]), {"all": torch.ones(3)}),
    ]
    for fig in drawn:
        fig.canvas.draw()
    plots.plt.close("all")


UNIFORM = torch.full((2, 8), 1 / 8, dtype=torch.float64)
TASK = SparseXOR(8, 1, 2)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: SparseXOR(8, 3, 3), r"i and j must be two different positions in 1\.\.8, got 3 twice"),
        (lambda: SparseXOR(8, 0, 3), r"i and j must be positions in 1\.\.8, got 0 and 3"),
        (lambda: SparseXOR(8, 1, 9), r"i and j must be positions in 1\.\.8, got 1 and 9"),
        (lambda: SparseXOR(8, 1, 2.0), r"i and j must be positions in 1\.\.8, got 1 and 2\.0"),
        (lambda: SparseXOR(2, 1, 2), "d must be a whole number of at least 3, got 2"),
        (
            lambda: positional_embedding("characters", 100, 45, seeded(0)),
            "characters needs d to be a power of two, got 100; balanced takes any d",
        ),
        (
            lambda: positional_embedding("characters", 16, 16, seeded(0)),
            "d = 16 positions have m of at most 15, got 16",
        ),
        (lambda: positional_embedding("balanced", 10, 10, seeded(0)), "d = 10 positions have m of at most 9, got 10"),
        (lambda: positional_embedding("one_hot", 16, 17, seeded(0)), "one_hot embeddings have m = d = 16, got m = 17"),
        (lambda: positional_embedding("signs", 16, 0, seeded(0)), "m must be a whole number of at least 1, got 0"),
        (lambda: positional_embedding("random", 16, 4, seeded(0)), "unknown embedding 'random'; known: characters"),
        (
            lambda: weight_gradient(TASK, UNIFORM, "zigzag"),
            "unknown read-out 'zigzag'; known: tent, quadratic, product",
        ),
        (lambda: weight_gradient(TASK, UNIFORM, "tent", "tanh"), "unknown loss 'tanh'; known: hinge, squared_hinge"),
        (lambda: step_size(8, 1.0, attention="tanh"), "unknown attention map 'tanh'; known: softmax, linear"),
        (lambda: step_size(8, 0.0), r"the step must be a positive finite number, got 0\.0"),
        (lambda: take_step(UNIFORM, UNIFORM, -1.0), r"the step must be a positive finite number, got -1\.0"),
        (lambda: take_step(UNIFORM, UNIFORM, math.inf), "the step must be a positive finite number, got inf"),
        (lambda: weight_gradient(TASK, 2 * UNIFORM), "weights add up to at most 1 in size, got 2"),
        (lambda: weight_gradient(TASK, UNIFORM[:1]), r"weights must have shape \(2, 8\), got \(1, 8\)"),
        (
            lambda: weight_gradient(TASK, normal(2, 8).softmax(-1)),
            "the closed form for tent needs uniform weights; only quadratic and product take others",
        ),
        (lambda: worst_loss(TASK, -UNIFORM, "product"), "worst loss of the product needs non-negative weights, got -0"),
        (lambda: next(stream_gradients(TASK, [(UNIFORM, "tent")], [5, 5], seeded(0))), "counts must be ascending"),
        (lambda: lab.network_shape(64, 16), "4 neurons that read 2 inputs have 17 parameters, got 16 to spend"),
    ],
)
def test_bad_calls_are_refused_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()

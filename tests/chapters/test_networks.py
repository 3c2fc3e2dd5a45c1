"""Stacks of small networks: fused steps against torch, races, and the exact solvers."""

import numpy as np
import pytest
import torch

from parity_lib import FFNN1, Parity, literal_prediction, zigzag
from parity_lib import kernels as seam
from parity_lib.attention import head_matrices, positional_code
from parity_lib.chapters import networks_kernels as kernels
from parity_lib.chapters import networks_reference as reference
from parity_lib.chapters.networks import (
    Stack,
    brute_force,
    drawn_tasks,
    eliminate,
    gaussian_start,
    labels_of,
    plain_entrant,
    positions,
    race,
    random_inputs,
    solve_exactly,
    tied_accuracy,
    tied_entrant,
    trained_heads,
    uniform_start,
)
from parity_lib.training import initial_directions

pytest.importorskip("numba")


def parameters_of(inputs: int, neurons: int) -> int:
    """Trainable numbers of an FFNN-1 (eq. 1): neurons (inputs + 2) + 1."""
    return neurons * (inputs + 2) + 1


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def state(theta):
    """A stack and Adam's averages, both halfway through a run."""
    rng = np.random.default_rng(9)
    return [theta.copy(), 0.01 * rng.normal(size=theta.shape), 0.01 * rng.random(theta.shape)]


def agree(kernel, torch_step, theta, *arguments):
    """Both engines make the same steps to rounding, and do move."""
    fused, literal = state(theta), state(theta)
    kernel(*fused, 7, *arguments)
    torch_step(*literal, 7, *arguments)
    for ours, theirs in zip(fused, literal, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    assert np.abs(fused[0] - theta).max() > 1e-3


def examples(rows, n, k, batch=37, steps=2):
    rng = np.random.default_rng(1)
    bits = np.stack([np.sort(rng.permutation(n)[:k]) for _ in range(rows)])
    x = random_inputs(rng, steps, n, batch).astype(np.float64)
    return rng, x, np.random.default_rng(2).choice([-1.0, 1.0], (steps, batch), p=[0.2, 0.8]), bits


def test_fused_steps_of_plain_networks_are_those_of_torch():
    rng, x, flips, bits = examples(5, 7, 2)
    theta, rates = 0.4 * rng.normal(size=(5, parameters_of(7, 3))), rng.uniform(0.01, 0.05, 5)
    agree(kernels.plain, reference.plain, theta, rates, x, flips, bits, 3)


@pytest.mark.parametrize("tie", reference.TIES)
def test_fused_steps_of_tied_networks_and_product_heads_are_those_of_torch(tie):
    rng, x, flips, bits = examples(4, 9, 3)
    theta, rates = rng.normal(size=(4, 9 if tie == "free" else 6)), rng.uniform(0.01, 0.05, 4)
    code = np.ascontiguousarray(positional_code(9).numpy())
    agree(kernels.tied, reference.tied, theta, rates, x, flips, bits, code, 3, reference.TIES.index(tie), 1e-2)


@pytest.mark.parametrize("separate, m", [(False, 3), (True, 2)])
def test_fused_steps_on_fixed_heads_are_those_of_torch_caps_included(separate, m):
    rng, x, _, bits = examples(4, 8, 2)
    features = 4 * m if separate else 4
    theta, rates = 0.3 * rng.normal(size=(4, parameters_of(features, 5))), rng.uniform(0.01, 0.05, (4, 2))
    weights, low, high = rng.uniform(0.2, 1, (4, 3 * m, 8)), rng.uniform(0.2, 1, (4, m)), rng.uniform(0.2, 1, (4, m))
    centre, inverse = rng.normal(size=(4, features)), rng.uniform(1, 2, (4, features))
    view, caps = (weights, low, high, centre, inverse, separate), np.array([np.inf, 1, np.inf, 0.5])
    agree(kernels.on_heads, reference.on_heads, theta, rates, x, bits, *view, 5, caps, 1e-2)


def test_training_in_single_precision_takes_the_same_steps_to_its_own_rounding():
    rng, x, flips, bits = examples(4, 7, 2, batch=64, steps=5)
    theta, rates = 0.4 * rng.normal(size=(4, parameters_of(7, 3))), np.full(4, 0.02)
    single, double = [[part.astype(kind) for part in state(theta)] for kind in (np.float32, np.float64)]
    kernels.plain(*single, 7, rates, x.astype(np.float32), flips.astype(np.float32), bits, 3)
    reference.plain(*double, 7, rates, x, flips, bits, 3)
    np.testing.assert_allclose(single[0], double[0], atol=1e-5)


def test_both_engines_learn_alike(monkeypatch):
    tasks, seeds = drawn_tasks(8, 2, range(6)), range(6)
    entrants = [plain_entrant(tasks, 6, seeds, [0.03]), tied_entrant(tasks, "product", seeds, [0.08])]
    fused = race(entrants, 8, 200, 64)
    monkeypatch.setattr(seam, "numba", None)
    literal = race(entrants, 8, 200, 64)
    assert all((steps > 0).sum() >= 5 for steps in fused)
    for ours, theirs in zip(fused, literal, strict=True):
        assert np.abs(ours - theirs).max() <= 50 and ((ours > 0) == (theirs > 0)).mean() >= 5 / 6


def test_a_row_of_the_stack_is_the_network_of_eq_1():
    x = Parity(6, (1,)).cube()
    theta = torch.from_numpy(uniform_start(6, 4, [3, 5]))
    single = FFNN1(6, 4, generator=generator(5))
    assert torch.allclose(reference.predictions(theta, x.T, 4)[1], single(x))
    assert parameters_of(6, 4) == sum(p.numel() for p in single.parameters()) == theta.shape[1]


def test_networks_for_standardised_inputs_start_with_unit_variance():
    theta = gaussian_start(5, 400, [1])
    beta, bias = theta[0, :2000], theta[0, 2000:2400]
    assert beta.var() == pytest.approx(1 / 5, rel=0.2) and bias.var() == pytest.approx(1, rel=0.2)
    assert theta[0, -1] == 0


def test_random_inputs_are_fair_bits():
    x = random_inputs(np.random.default_rng(0), 3, 5, 4000)
    assert x.shape == (3, 5, 4000) and set(np.unique(x)) == {0, 1}
    assert np.abs(x.mean((0, 2)) - 0.5).max() < 0.03


def test_a_row_leaves_the_race_when_it_passes_and_the_others_go_on_unchanged():
    tasks, seeds = drawn_tasks(6, 2, range(4)), range(4)
    (alone,) = race([plain_entrant(tasks, 5, seeds, [0.03])], 6, 300, 64)
    together = race([tied_entrant(tasks, "free", seeds, [0.01]), plain_entrant(tasks, 5, seeds, [0.03])], 6, 300, 64)
    assert np.array_equal(together[1], alone) and (alone % 25 == 0).all()


def test_entrants_have_a_row_for_every_rate_and_seed():
    tasks = drawn_tasks(9, 3, [4, 5])
    entrant = tied_entrant(tasks, "softmax", [4, 5], [0.1, 0.2, 0.3])
    assert entrant.rates.tolist() == [0.1, 0.1, 0.2, 0.2, 0.3, 0.3]
    assert np.array_equal(entrant.start[:2].reshape(2, 3, 2), initial_directions([4, 5], 3).numpy())
    assert np.array_equal(entrant.bits[2:4], positions(tasks))
    assert Stack(entrant.start).theta.dtype == np.float32


def test_the_tied_network_is_the_transformer():
    heads = 3 * initial_directions([4], 3)
    x = Parity(9, (2, 5, 8)).cube()
    tied = reference.tied_predictions(heads.flatten(1), x.T, 3, "softmax", 1e-2)[0]
    assert (tied - literal_prediction(x, head_matrices(heads[0]), 3, 1.0, 1e-2)).abs().max() < 1e-12


def test_ties_are_normalised_or_not():
    heads = initial_directions([0], 2).flatten(1)
    assert reference.read_weights(heads, 6, 2, "softmax").sum() == pytest.approx(2)
    assert reference.read_weights(heads, 6, 2, "bump").max() <= 2
    assert reference.read_weights(heads, 6, 2, "product").shape == (1, 2, 6)
    assert torch.equal(reference.read_weights(torch.ones(1, 6), 6, 2, "free"), torch.ones(1, 1, 6))


def test_trained_heads_read_their_bits():
    tasks = [Parity(6, (2, 5))] * 3
    directions = trained_heads(tasks, [0, 1, 2], 500, 256, 0.08)
    weights = torch.softmax(directions @ positional_code(6).T, -1).sum(1)
    assert tied_accuracy(weights, tasks).min() > 0.99


def test_labels_of_several_tasks_are_theirs():
    tasks = [Parity(5, (1, 3)), Parity(5, (2, 5))]
    x = tasks[0].cube()
    assert torch.equal(labels_of(tasks, x), torch.stack([task.labels(x) for task in tasks]))


def test_the_tied_network_that_reads_exactly_its_bits_is_always_right():
    tasks = drawn_tasks(14, 3, [0, 1])
    weights = torch.zeros(2, 14, dtype=torch.float64)
    for row, task in zip(weights, tasks, strict=True):
        row[list(task.indices)] = 1
    assert tied_accuracy(weights, tasks).tolist() == [1, 1]
    assert tied_accuracy(weights.flip(0), tasks).max() < 0.6
    assert torch.equal(zigzag(torch.arange(4.0), 3, 0.0), torch.tensor([1.0, -1, 1, -1]))


@pytest.mark.parametrize("n", [1, 10, 1000])
def test_a_dense_network_has_more_parameters_than_inputs_at_any_width(n):
    assert min(parameters_of(n, width) for width in range(1, 5)) > n


@pytest.mark.parametrize("n, k", [(4, 1), (10, 2), (20, 3), (60, 3), (12, 12)])
def test_elimination_and_brute_force_recover_the_bits_on_every_instance(n, k):
    for seed in range(5):
        task = Parity.random(n, k, generator(seed))
        assert {bits for bits, _ in solve_exactly(task, generator(seed + 100)).values()} == {task.bits}


def test_the_solvers_say_what_they_lack():
    task = Parity(8, (2, 5))
    x = task.sample(4, generator())
    with pytest.raises(ValueError, match=r"4 examples leave \d+ sets of 2 bits possible, give more"):
        brute_force(x, task.labels(x), 2)
    with pytest.raises(ValueError, match="the examples have not rank 8, give more"):
        eliminate(x, task.labels(x))
    with pytest.raises(ValueError, match="contradict each other"):
        many = task.sample(40, generator())
        eliminate(torch.cat([many, x]), torch.cat([task.labels(many), -task.labels(x)]))

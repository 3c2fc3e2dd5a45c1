"""Stacked networks, tied networks, Proposition 4 and the exact solvers."""

from itertools import combinations

import pytest
import torch

from parity_lib import FFNN1, EnumeratedRisk, Parity, literal_prediction, zigzag
from parity_lib.attention import head_matrices
from parity_lib.chapters.networks import (
    Budget,
    Stack,
    accuracy,
    brute_force,
    drawn_tasks,
    eliminate,
    labels_of,
    median_steps,
    missing_edge_cases,
    missing_edge_risk,
    parameters_of,
    remove_edge,
    smallest_widths,
    solve_exactly,
    steps_to_learn,
    tied_accuracy,
    tied_weights,
    train_stack,
    train_tied,
    train_without_edge,
)
from parity_lib.losses import find_loss
from parity_lib.training import initial_directions


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_row_of_the_stack_is_the_network_of_eq_1():
    stack = Stack.uniform(6, widths=[2, 4], seeds=[3, 5])
    x = Parity(6, (1,)).cube()
    single = FFNN1(6, 2, generator=generator(3))
    assert torch.allclose(stack(x)[0], single(x))
    assert torch.allclose(stack(x), stack(x.expand(2, *x.shape)))
    assert parameters_of(6, 2) == sum(p.numel() for p in single.parameters())


@pytest.mark.parametrize("smoothing", [0.0, 1e-2])
@pytest.mark.parametrize("shared", [True, False])
def test_the_closed_form_gradient_is_that_of_autograd(smoothing, shared):
    stack = Stack.gaussian(5, 4, [1, 2, 3], smoothing)
    x = torch.randn(*(() if shared else (3,)), 4000, 5, generator=generator(), dtype=torch.float64)
    labels = torch.randn(3, 4000, generator=generator(1), dtype=torch.float64).sign()
    wanted = torch.autograd.grad(find_loss("squared_hinge")(labels, stack(x)).mean(1).sum(), list(stack.parameters()))
    stack.differentiate(x, labels)
    for parameter, gradient in zip(stack.parameters(), wanted, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-12)


def test_a_stacked_run_is_the_run_alone_and_absent_neurons_stay_absent():
    task = Parity(6, (2, 5))
    x = task.cube()
    labels = task.labels(x)

    def trained(widths, seeds):
        stack = Stack.uniform(6, widths, seeds)
        train_stack(stack, lambda rows: (1 - 2 * x, labels.expand(len(rows), -1)), 40, 0.05)
        return stack

    together, alone = trained([2, 5], [1, 2]), trained([2], [1])
    assert torch.allclose(together.beta[0, :2], alone.beta[0], atol=1e-10)
    assert together.beta[0, 2:].abs().max() == 0 and together.alpha[0, 2:].abs().max() == 0


def test_rows_that_finish_leave_with_their_neurons_and_the_others_train_on_unchanged():
    task = Parity(5, (1, 4))
    x = task.cube()
    labels = task.labels(x)
    full, short = Stack.uniform(5, [4, 3], [1, 2]), Stack.uniform(5, [4, 3], [1, 2])

    def draw(rows):
        return 1 - 2 * x, labels.expand(len(rows), -1)

    train_stack(full, draw, 20, 0.05)
    done = train_stack(short, draw, 20, 0.05, finished=lambda rows: rows == 0, every=10)
    assert done.tolist() == [10, 0]
    assert short.beta.shape == (1, 3, 5) and short.offset.shape == (1,)
    assert torch.allclose(short.beta[0], full.beta[1, :3], atol=1e-12)
    assert torch.allclose(short.alpha[0], full.alpha[1, :3], atol=1e-12)


def test_a_wide_network_learns_the_parity_of_two_bits_and_the_run_repeats_itself():
    tasks, budget = [Parity(8, (2, 7))] * 2, Budget(600, 128, (0.02,))
    first = steps_to_learn(tasks, [12, 12], [0, 1], budget, 0.02)
    assert (first > 0).all() and (first % 25 == 0).all()
    assert torch.equal(first, steps_to_learn(tasks, [12, 12], [0, 1], budget, 0.02))


def test_the_tied_network_is_the_transformer():
    task, heads = Parity(9, (2, 5, 8)), 3 * initial_directions([4], 3)
    x = task.cube()
    tied = zigzag(x @ tied_weights(heads[0], 9, 0.7), 3, 1e-2)
    literal = literal_prediction(x, head_matrices(heads[0]), 3, 0.7, 1e-2)
    assert (tied - literal).abs().max() < 1e-12


def test_tied_networks_learn_with_the_softmax_and_start_as_they_should_without():
    tasks = [Parity(6, (2, 5))] * 2
    steps = train_tied(tasks, [0, 1], Budget(600, 256, (0.08,)), 0.08)
    assert (steps > 0).all()
    heads = initial_directions([0], 2)
    assert tied_weights(heads, 6, tie="softmax").sum() == pytest.approx(2)
    assert tied_weights(heads, 6, tie="bump").max() <= 2
    assert torch.equal(tied_weights(torch.ones(1, 6), 6, tie="free"), torch.ones(1, 6))
    with pytest.raises(ValueError, match="tie must be one of softmax, bump, free, got 'loose'"):
        tied_weights(heads, 6, tie="loose")


def test_labels_and_accuracy_of_several_tasks():
    tasks = [Parity(5, (1, 3)), Parity(5, (2, 5))]
    x = tasks[0].cube()
    assert torch.equal(labels_of(tasks, x), torch.stack([task.labels(x) for task in tasks]))
    assert accuracy(torch.tensor([1.0, -2.0, 0.0, 3.0]), torch.tensor([1, -1, 1, -1])) == 0.5


def test_the_tied_network_that_reads_exactly_its_bits_is_always_right():
    tasks = drawn_tasks(14, 3, [0, 1])
    weights = torch.zeros(2, 14, dtype=torch.float64)
    for row, task in zip(weights, tasks, strict=True):
        row[list(task.indices)] = 1
    assert tied_accuracy(weights, tasks).tolist() == [1, 1]
    assert tied_accuracy(weights.flip(0), tasks).max() < 0.6


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_a_missing_edge_gives_the_stated_risk_and_never_less_than_one(scale):
    n, hidden = 7, 3
    network = FFNN1(n, 5, generator=generator(1))
    with torch.no_grad():
        network.beta[:, hidden - 1] = 0
        network.alpha.mul_(scale)
    x = Parity(n, (hidden,)).cube()
    predictions = network(x).detach()
    for others in combinations([j for j in range(1, n + 1) if j != hidden], 2):
        task = Parity(n, (hidden, *others))
        risk = find_loss("squared_hinge")(task.labels(x), predictions).mean()
        assert float(risk) == pytest.approx(float(missing_edge_risk(predictions)), abs=1e-12)
        assert risk > 1
    assert float(missing_edge_risk(torch.zeros(4))) == 1


def test_training_without_an_edge_brings_the_risk_to_one_from_above():
    task = Parity(6, (2, 5))
    frames, stack = train_without_edge(task, 5, 6, [0, 1, 2], Budget(200, 64, (0.02,)))
    assert frames.shape == (21, 3) and (frames > 1).all()
    assert (frames[-1] < frames[0]).all()
    exact, formula = missing_edge_cases(stack, 6, 5, 2)
    assert exact.shape == (3, 5) and torch.allclose(exact, formula.unsqueeze(1), atol=1e-12)
    with pytest.raises(ValueError, match="must have no edge from bit 1"):
        missing_edge_cases(stack, 6, 1, 2)
    assert remove_edge(stack, 1).beta[..., 0].abs().max() == 0
    with pytest.raises(ValueError, match="only up to n = 14, got n = 15; the formula holds for any n"):
        missing_edge_cases(stack, 15, 1, 2)


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
    with pytest.raises(ValueError, match=r"the examples have rank \d of 8, give more"):
        eliminate(x, task.labels(x))
    with pytest.raises(ValueError, match="contradict each other"):
        eliminate(torch.cat([x, x]), torch.cat([task.labels(x), -task.labels(x)]))
    with pytest.raises(ValueError, match=r"k must be a whole number in 1\.\.8, got 9"):
        brute_force(x, task.labels(x), 9)


def test_a_budget_prints_what_it_allowed_and_refuses_nonsense():
    assert str(Budget(800, 512, (0.01, 0.03))) == "800 steps of Adam, batch 512, 2 rates tried: 0.01, 0.03"
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1, got 0"):
        Budget(0, 512, (0.01,))
    with pytest.raises(ValueError, match="learning_rates must be positive finite numbers"):
        Budget(10, 512, ())
    with pytest.raises(ValueError, match=r"widths must be at least 1, got \(0,\)"):
        Stack.uniform(4, [0], [1])


def test_the_exact_risk_of_the_tied_network_is_the_risk_of_the_heads():
    task, heads = Parity(8, (1, 4)), initial_directions([2], 2)
    risk = EnumeratedRisk(task, "squared_hinge", 1.0)
    x = task.cube()
    mean = find_loss("squared_hinge")(task.labels(x), zigzag(x @ tied_weights(heads[0], 8), 2, 1e-2)).mean()
    assert float(risk(heads)[0]) == pytest.approx(float(mean), abs=1e-12)


def test_the_smallest_width_is_the_first_that_surely_passes_with_what_the_intervals_leave_open():
    low, high = [0.1, 0.4, 0.6, 0.3, 0.7], [0.4, 0.6, 0.9, 0.8, 0.9]
    assert smallest_widths([1, 2, 3, 4, 5], low, high) == {"width": 3, "width_low": 2, "width_high": 5}
    assert smallest_widths([1], [0.0], [0.4]) == {"width": None, "width_low": None, "width_high": None}


@pytest.mark.parametrize("n", [1, 10, 1000])
def test_a_dense_network_has_more_parameters_than_inputs_at_any_width(n):
    assert min(parameters_of(n, width) for width in range(1, 5)) > n


def test_the_median_is_over_the_runs_that_learned():
    assert median_steps(torch.tensor([0, 50, 100, 0])) == 75 and median_steps(torch.tensor([0, 0])) is None

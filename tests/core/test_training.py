"""Recipes, training, the two criteria of success."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from parity_lib import RECIPES, Parity, Recipe, progress, soft_attention, train
from parity_lib.attention import aligned_directions, positional_code
from parity_lib.recipes import budget
from parity_lib.training import (
    adam,
    committed,
    initial_directions,
    one_thread_per_process,
    recovered,
    resolve_device,
)

LEFT = Parity(20, (8, 11, 18))


def short(name: str, **changes) -> Recipe:
    return replace(RECIPES[name], epochs=2, updates_per_epoch=3, **changes)


def test_recipes_are_the_documented_ones():
    settings = {
        name: (r.loss, r.optimiser, r.learning_rate, r.temperature_at(20), r.batch, r.cube_share, r.square_of_mean)
        for name, r in RECIPES.items()
        if r.head == "zigzag"
    }
    assert settings == {
        "theory": ("squared_hinge", "gd", 0.1, 1 / 20, None, None, False),
        "figure2": ("sigmoid_hinge_01", "adam", 0.08, 1.0, 8000, 0.8, False),
        "figure2-population": ("sigmoid_hinge_01", "adam", 0.08, 1.0, None, None, False),
        "figure2-signed": ("sigmoid_hinge", "adam", 0.08, 1.0, None, None, False),
        "later-code": ("hinge", "adam", 0.1, 5.0, 80_000, None, True),
    }
    assert all(RECIPES[name].updates == 3150 for name in settings)
    assert math.ceil(0.8 * 2**20 / 8000) == RECIPES["figure2"].updates_per_epoch


def test_the_repaired_recipes_keep_the_papers_code_start_and_temperature():
    repaired, product = RECIPES["repaired"], RECIPES["product-head"]
    assert (repaired.head, repaired.loss, repaired.batch, repaired.updates) == ("sampled", "log", None, 1500)
    assert (product.head, product.loss, product.batch, product.updates) == ("product", "linear", 2000, 1500)
    assert {recipe.code for recipe in RECIPES.values()} == {"circle"}
    assert repaired.temperature_at(20) == product.temperature_at(20) == 1.0


def test_the_repaired_recipe_commits_with_and_without_neighbours():
    tasks = [Parity(12, bits) for bits in ((1, 5), (3, 4), (12, 1), (2, 9))]
    run = train(tasks, replace(RECIPES["repaired"], updates_per_epoch=20), seeds=4, progress=False)
    assert run.committed.all()


def test_a_run_has_a_frame_per_epoch_and_the_attention_the_model_used():
    recipe = short("later-code", batch=100)
    run = train(LEFT, recipe, seeds=[3, 5], progress=False)
    assert run.directions.shape == (3, 2, 3, 2)
    assert run.attention.shape == (3, 2, 3, 20)
    assert run.risk.shape == (3, 2)
    assert run.seeds == (3, 5)
    assert "tensor" not in repr(run) and "later-code" in repr(run)
    scores = run.directions @ positional_code(20).T
    assert torch.allclose(run.attention, torch.softmax(scores / (20 / 4), dim=-1))


def test_heads_start_as_unit_vectors_at_uniform_angles():
    start = initial_directions(range(2000), 3)
    assert torch.allclose(start.norm(dim=-1), torch.ones(2000, 3, dtype=torch.float64))
    assert start.mean((0, 1)).abs().max() < 0.03


@pytest.mark.parametrize("name", RECIPES)
def test_a_seed_gives_the_same_run_alone_and_in_company(name):
    recipe = short(name, **({"batch": 500} if RECIPES[name].batch else {}))
    alone = train(Parity(12, (2, 7, 9)), recipe, seeds=[4], progress=False)
    company = train(Parity(12, (2, 7, 9)), recipe, seeds=6, progress=False)
    assert torch.allclose(alone.directions[:, 0], company.directions[:, 4], atol=1e-9)


@pytest.mark.parametrize("name", RECIPES)
def test_the_same_call_twice_gives_the_same_bits(name):
    recipe = short(name, **({"batch": 500} if RECIPES[name].batch else {}))
    first, second = (train(LEFT, recipe, seeds=3, progress=False) for _ in range(2))
    assert torch.equal(first.directions, second.directions) and torch.equal(first.risk, second.risk)


@pytest.mark.parametrize("name", RECIPES)
def test_single_precision_follows_double_precision(name):
    recipe = short(name, **({"batch": 500} if RECIPES[name].batch else {}))
    single, double = (train(LEFT, recipe, seeds=3, dtype=d, progress=False) for d in (torch.float32, torch.float64))
    assert single.directions.dtype == single.risk.dtype == torch.float32
    assert torch.allclose(single.directions.double(), double.directions, atol=1e-3)
    assert torch.allclose(single.risk.double(), double.risk, atol=1e-3)


def test_gradient_descent_lowers_the_exact_risk():
    run = train(LEFT, replace(short("theory", learning_rate=1e-3), epochs=5), seeds=8, progress=False)
    assert (run.risk[1:] < run.risk[:-1]).all()


def test_gradient_descent_takes_the_plain_step():
    run = train(Parity(6, (1, 4)), replace(RECIPES["theory"], epochs=1, updates_per_epoch=1), seeds=1, progress=False)
    from gradients import value_and_gradient

    from parity_lib import PopulationRisk

    _, gradient = value_and_gradient(PopulationRisk(Parity(6, (1, 4)), "squared_hinge", 1 / 6), run.directions[0])
    assert torch.allclose(run.directions[1], run.directions[0] - 0.1 * gradient, atol=1e-4)


def test_adam_is_torchs_adam():
    generator = torch.Generator().manual_seed(0)
    leaf = torch.randn(4, 3, 2, generator=generator, dtype=torch.float64).requires_grad_()
    ours, reference, step = leaf.detach().clone(), torch.optim.Adam([leaf], lr=0.08), adam(0.08)
    for _ in range(20):
        gradient = torch.randn(leaf.shape, generator=generator, dtype=torch.float64)
        leaf.grad = gradient.clone()
        reference.step()
        ours -= step(gradient)
    assert torch.allclose(ours, leaf, atol=1e-13)


def test_the_signed_scale_recovers_the_bits_of_figure_2():
    run = train(LEFT, replace(RECIPES["figure2-signed"], epochs=8), seeds=16, progress=False)
    assert run.committed.sum() >= 14


def test_the_squared_hinge_does_not():
    run = train(LEFT, replace(RECIPES["theory"], epochs=3), seeds=16, progress=False)
    assert run.recovered.sum() == 0
    assert run.risk[0].median() > 2  # not 1, as the paper's proof assumes


def test_seeds_may_have_tasks_of_their_own():
    tasks = [Parity(10, (1, 5)), Parity(10, (3, 8))]
    run = train(tasks, short("figure2-signed"), seeds=2, progress=False)
    single = train(tasks[1], short("figure2-signed"), seeds=[1], progress=False)
    assert torch.allclose(run.directions[:, 1], single.directions[:, 0], atol=1e-12)
    with pytest.raises(ValueError, match="one task per seed"):
        _ = run.task


def at(positions: list[list[float]], sharpness: float = 200.0) -> torch.Tensor:
    angle = 2 * math.pi * torch.tensor(positions, dtype=torch.float64) / 20
    return sharpness * torch.stack([angle.sin(), angle.cos()], dim=-1)


def test_hard_success_needs_every_bit_and_committed_success_needs_sharp_heads():
    heads = at([[8, 11, 18], [18, 8, 11], [8, 11, 11], [8, 11, 17], [8.4, 11.4, 18.4]])
    attention = soft_attention(heads, 20, 1.0)
    assert recovered(attention, [LEFT]).tolist() == [True, True, False, False, True]
    blunt = soft_attention(heads / 20, 20, 1.0)
    assert recovered(blunt, [LEFT]).tolist() == [True, True, False, False, True]
    assert committed(blunt, [LEFT]).tolist() == [False] * 5
    assert committed(attention, [LEFT]).tolist()[:4] == [True, True, False, False]


def test_aligned_heads_count_as_committed():
    assert committed(soft_attention(500 * aligned_directions(LEFT.bits, 20), 20, 1.0).unsqueeze(0), [LEFT]).all()


def test_training_leaves_the_number_of_threads_as_it_was():
    """Those of torch, and of every BLAS and OpenMP that is loaded, numba's included."""

    def threads() -> list[int]:
        return [torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())]

    with threadpool_limits(2):
        before = threads()
        with one_thread_per_process():
            assert set(threads()) == {1}
        assert threads() == before


def test_progress_goes_to_whoever_listens(monkeypatch):
    heard = []
    monkeypatch.setattr(progress, "listener", lambda *told: heard.append(told))
    train(Parity(5, (1, 3)), short("figure2-signed"), seeds=1)
    assert heard == [("figure2-signed", done, 6) for done in range(6)]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: train(LEFT, "figure3"), "unknown recipe 'figure3'; known: theory, figure2,"),
        (lambda: train(LEFT, "theory", seeds=0), "seeds must be a count in 1..100000 or a list of whole numbers"),
        (lambda: train(LEFT, "theory", seeds=[3, 4, 3]), "give one task, or one per seed (3), got 1, 2 distinct runs"),
        (lambda: train([LEFT, LEFT], "theory", seeds=[3, 3]), "give one task, or one per seed (2), got 2, 1"),
        (lambda: train(LEFT, "theory", seeds=[-1]), "seeds must be a count in 1..100000 or a list of whole numbers"),
        (lambda: train([LEFT, LEFT], "theory", seeds=3), "give one task, or one per seed (3), got 2"),
        (lambda: train(LEFT, "theory", heads=0), "heads must be a whole number of at least 1, got 0"),
        (lambda: train(LEFT, "theory", dtype=torch.int32), "unknown dtype torch.int32; known: torch.float64"),
        (lambda: train(LEFT, "theory", device="tpu"), "device must be auto, cpu, cuda or cuda:N, got 'tpu'"),
        (lambda: train(LEFT, "theory", device="mps"), "device must be auto, cpu, cuda or cuda:N, got 'mps'"),
        (lambda: resolve_device("cuda:99"), "device 'cuda:99' is not there: torch sees"),
        (lambda: train(LEFT, ""), "unknown recipe ''"),
        (lambda: replace(RECIPES["theory"], loss="l2"), "unknown loss 'l2'"),
        (lambda: replace(RECIPES["theory"], optimiser="sgd"), "unknown optimiser 'sgd'; known: adam, gd"),
        (lambda: replace(RECIPES["theory"], learning_rate=-1.0), "learning_rate must be a positive finite number"),
        (lambda: replace(RECIPES["theory"], head="cosine"), "unknown head 'cosine', which is no function"),
        (lambda: replace(RECIPES["product-head"], batch=None), "the product head trains on batches"),
        (lambda: replace(RECIPES["theory"], epochs=0), "epochs must be a whole number of at least 1, got 0"),
        (lambda: replace(RECIPES["theory"], temperature=0.0), "temperature must be a positive finite number"),
        (lambda: replace(RECIPES["theory"], epochs=10**18), "a recipe must have at most 10000000 updates, got 105000"),
        (lambda: replace(RECIPES["theory"], accuracy=-1), "accuracy must be a positive finite number, got -1"),
        (lambda: replace(RECIPES["theory"], code="nope"), "unknown positional code 'nope'; known: circle, powers"),
        (lambda: replace(RECIPES["theory"], cube_share=0.5), "cube_share must be in (0, 1] and goes with a batch"),
        (lambda: replace(RECIPES["figure2"], cube_share="a"), "cube_share must be a positive finite number, got 'a'"),
        (lambda: replace(RECIPES["theory"], square_of_mean="no"), "square_of_mean must be True or False, got 'no'"),
        (lambda: replace(RECIPES["repaired"], loss="tanh"), "unknown loss 'tanh' for sampled attention; known: linear"),
        (lambda: replace(RECIPES["product-head"], loss="log"), "the product head minimises the linear loss, got 'log'"),
    ],
)
def test_bad_calls_are_refused_in_one_sentence(call, sentence):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(sentence)


def test_seeds_and_settings_of_numpy_and_torch_are_numbers():
    recipe = short("figure2-signed", temperature=np.float32(1), learning_rate=torch.tensor(0.25))
    plain = train(LEFT, short("figure2-signed", learning_rate=0.25), seeds=[0, 1, 2], progress=False)
    for seeds in (np.arange(3), torch.arange(3), np.int64(3), range(3)):
        assert torch.equal(train(LEFT, recipe, seeds=seeds, progress=False).directions, plain.directions)
    assert recipe == short("figure2-signed", learning_rate=0.25) and type(recipe.temperature) is float


def test_divergence_is_an_error_that_names_the_rate():
    with pytest.raises(FloatingPointError, match="theory diverged before update 3; try a smaller learning rate"):
        train(LEFT, short("theory", learning_rate=1e308), seeds=1, progress=False)


@pytest.mark.parametrize("updates", [1, 29, 30, 31, 599, 600, 3150])
def test_a_budget_has_the_updates_asked_for_and_less_than_an_epoch_more(updates):
    recipe = replace(RECIPES["theory"], **budget(updates, 30))
    assert updates <= recipe.updates < updates + recipe.updates_per_epoch
    assert recipe.epochs <= 30

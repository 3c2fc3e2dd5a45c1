"""Heads that sample: the identities of the proofs, searches for counterexamples, and the repair."""

from dataclasses import replace
from itertools import combinations_with_replacement, permutations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from parity_lib import RECIPES, EnumeratedRisk, Parity, SampledAttentionRisk, positional_code, soft_attention, train
from parity_lib.attention import aligned_directions
from parity_lib.chapters import sampling
from parity_lib.chapters.sparse import FUNCTIONS
from parity_lib.readout import zigzag
from parity_lib.sampled_heads import log_permanent
from parity_lib.training import minimise, recovered


def gaussian(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# No local minima


@given(
    st.integers(0, 10_000), st.integers(3, 7), st.integers(2, 4), st.integers(1, 3),
    st.sampled_from([0.2, 1.0, 3.0]), st.sampled_from([0.5, 1.0, 2.0]),
)  # fmt: skip
@settings(max_examples=30)
def test_the_laplacian_is_minus_two_over_tau_times_the_slope_along_the_mean(seed, n, width, heads, temperature, radius):
    """For any table, any code on a sphere, any number of heads and any temperature."""
    codes = radius * sampling.unit_codes(n, width, torch.Generator().manual_seed(seed))
    function = sampling.multi_affine(gaussian(seed + 1, *[n] * heads), codes, temperature)
    directions = temperature / radius * gaussian(seed + 2, heads, width)
    assert sampling.laplacian_residual(function, directions, codes, temperature) < 1e-9


def test_without_a_constant_norm_the_identity_fails_and_a_strict_minimum_appears():
    codes = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
    function = sampling.multi_affine(torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64), codes, 1.0)
    at = torch.zeros(1, 1, dtype=torch.float64)
    assert sampling.laplacian_residual(function, at, codes, 1.0) > 0.1
    assert function(at) < min(function(at + 0.1), function(at - 0.1))


def test_no_stationary_point_of_a_random_multi_affine_function_is_a_minimum():
    """Newton's method from many starts: where the gradient vanishes the Hessian has a way down and a way up."""
    n, heads, found = 6, 2, 0
    for seed in range(6):
        width = 2 + seed % 2
        codes = sampling.unit_codes(n, width, torch.Generator().manual_seed(seed))
        function = sampling.multi_affine(gaussian(seed, n, n), codes, 1.0)
        slope = torch.func.vmap(torch.func.grad(lambda a: function(a.reshape(heads, width))))  # noqa: B023
        bend = torch.func.vmap(torch.func.hessian(lambda a: function(a.reshape(heads, width))))  # noqa: B023
        point = 2 * gaussian(100 + seed, 60, heads * width)
        for _ in range(40):
            values, vectors = torch.linalg.eigh(bend(point))
            along = (vectors.transpose(1, 2) @ slope(point).unsqueeze(-1)).squeeze(-1)
            point = point - (vectors @ (along * values / (values**2 + 1e-6)).unsqueeze(-1)).squeeze(-1)
        hessian = bend(point)
        values = torch.linalg.eigvalsh(hessian)
        at_rest = (slope(point).norm(dim=1) < 1e-9) & (point.norm(dim=1) < 20) & (values.abs().amax(1) > 1e-6)
        found += int(at_rest.sum())
        assert (values[at_rest, 0] < -1e-9).all()
        assert (values[at_rest, -1] > 1e-9).all()
        traces = hessian.diagonal(dim1=1, dim2=2).unflatten(1, (heads, width)).sum(2)
        assert (traces[at_rest].abs() < 1e-8).all()
    assert found >= 5


def test_the_sampled_risk_of_any_loss_is_the_mean_over_the_draws_of_the_heads():
    """Enumerating draws and inputs gives 2 (1 - perm) for the paper's read-out and loss: form (multi-affine)."""
    task, k = Parity(6, (2, 5)), 2
    x = task.cube()
    y = task.labels(x)
    table = torch.zeros(6, 6, dtype=torch.float64)
    for i in range(6):
        for j in range(6):
            prediction = zigzag(x[:, i] + x[:, j], k, 0.0)
            table[i, j] = (1 - y * prediction).clamp_min(0).square().mean()
    directions = 2 * gaussian(3, k, 2)
    mean = sampling.multi_affine(table, positional_code(6), 1.0)(directions)
    assert float(mean) == pytest.approx(float(SampledAttentionRisk(task, "squared_hinge")(directions)), abs=1e-12)


def test_the_product_head_on_a_batch_is_multi_affine_too():
    """One example of it: the Laplacian of the batch's loss follows from its slope, noisy labels or not."""
    x = torch.randint(2, (9, 7), generator=torch.Generator().manual_seed(1)).to(torch.float64)
    y = torch.randint(2, (9,), generator=torch.Generator().manual_seed(2)).to(torch.float64) * 2 - 1
    codes = positional_code(7)

    def loss(directions):
        read = torch.softmax(directions @ codes.T, -1) @ x.T  # (heads, examples)
        return (1 - y * (1 - 2 * read).prod(0)).mean()

    assert sampling.laplacian_residual(loss, gaussian(4, 3, 2), codes, 1.0) < 1e-10


# Strict saddles


def minus_log_permanent(point, bits, codes, temperature):
    attention = torch.softmax(point @ codes.T / temperature, -1)
    on_bits = attention[:, bits.tolist()]
    shares = [
        torch.stack([on_bits[i, b] for i, b in enumerate(order)]).prod() for order in permutations(range(len(bits)))
    ]
    return -torch.stack(shares).sum().log()


@pytest.mark.parametrize(("k", "width", "temperature"), [(1, 2, 1.0), (2, 2, 0.5), (3, 4, 1.0), (4, 3, 2.0)])
def test_gradient_and_hessian_of_the_proof_are_those_of_automatic_differentiation(k, width, temperature):
    codes = sampling.unit_codes(7, width, torch.Generator().manual_seed(k))
    bits = torch.arange(k) + 1
    point = gaussian(k, 1, k, width)
    slope, hessian = sampling.curvature(point, bits.unsqueeze(0), codes, temperature)
    flat = lambda a: minus_log_permanent(a.reshape(k, width), bits, codes, temperature)  # noqa: E731
    assert torch.allclose(slope[0], torch.func.grad(flat)(point.flatten()), atol=1e-11)
    assert torch.allclose(hessian[0], torch.func.hessian(flat)(point.flatten()), atol=1e-10)


def test_one_bit_is_convex_without_a_stationary_point():
    codes = positional_code(9)
    points = 3 * gaussian(0, 50, 1, 2)
    slope, hessian = sampling.curvature(points, torch.full((50, 1), 4), codes)
    assert (torch.linalg.eigvalsh(hessian) > 0).all()
    assert (slope.norm(dim=1) > 1e-6).all()


def test_every_stationary_point_found_is_a_saddle_at_least_as_steep_as_promised():
    frame = sampling.stationary_points([(7, 2), (12, 2), (9, 3), (12, 4)], 60)
    assert frame.groupby(["n", "k"]).ngroups == 4
    assert frame["trace"].max() < 1e-10
    assert (frame["least"] <= frame["bound"] + 1e-9).all()
    assert (frame["bound"] < 0).all()
    assert frame["perm"].max() < 0.5  # none of them is a solution


@pytest.mark.parametrize("width", [3, 4])
def test_the_bound_holds_for_other_codes_and_temperatures_too(width):
    """A stationary point at temperature 1 is one at any other with heads in proportion; 1 - perm scales by perm."""
    codes, k, count = sampling.unit_codes(9, width, torch.Generator().manual_seed(width)), 2, 80
    bits = torch.tensor([[0, 5]]).expand(count, -1)
    point = sampling.stationary_point(gaussian(width, count, k, width), bits, codes)
    slope, _ = sampling.curvature(point, bits, codes)
    kept = (slope.norm(dim=1) < 1e-10) & (point.norm(dim=2).amax(1) < 12)
    assert kept.any()
    point, bits = point[kept] / 2, bits[kept]
    slope, hessian = sampling.curvature(point, bits, codes, 0.5)
    assert slope.abs().max() < 1e-9
    least = torch.linalg.eigvalsh(hessian)[:, 0]
    assert (least <= sampling.saddle_bound(point, codes, 0.5) + 1e-9).all()
    flat = lambda a: 1 - (-minus_log_permanent(a.reshape(k, width), bits[0], codes, 0.5)).exp()  # noqa: E731
    perm = 1 - flat(point[0].flatten())
    assert torch.allclose(torch.func.hessian(flat)(point[0].flatten()), perm * hessian[0], atol=1e-9)


@pytest.mark.parametrize(("k", "width"), [(2, 2), (3, 2), (3, 4), (4, 3)])
def test_the_steps_between_heads_hold_at_every_point(k, width):
    """Whatever the heads, the codes they share out sum to a constant; hence a direction in which they compete."""
    codes, bits = sampling.unit_codes(9, width, torch.Generator().manual_seed(k)), torch.arange(k)
    heads = gaussian(k, k, width)
    attention = torch.softmax(heads @ codes.T, -1)
    _, hessian = sampling.curvature(heads.unsqueeze(0), bits.unsqueeze(0), codes)
    own = torch.stack([(codes.T * g) @ codes - torch.outer(g @ codes, g @ codes) for g in attention])
    shared = torch.block_diag(*own) - hessian[0]  # the covariance of what the heads take
    traces = shared.reshape(k, width, k, width).diagonal(dim1=1, dim2=3).sum(-1)
    assert traces.sum(1).abs().max() < 1e-12 and torch.linalg.eigvalsh(shared)[0] > -1e-12
    off = traces - traces.diag().diag()
    flat = torch.eye(k, dtype=torch.float64) - 1 / k
    steepest = torch.linalg.eigvalsh(flat @ off @ flat)[-1]
    assert float(off.sum()) == pytest.approx(-float(traces.trace()))
    assert steepest >= traces.trace() / (k * (k - 1)) - 1e-12


def test_two_heads_that_share_a_pair_are_a_saddle_of_log_two_at_infinity():
    for first, second in ((0.1, 0.2), (-0.1, 0.15), (0.05, -0.2)):
        tilted = torch.softmax(torch.tensor([[first, 0.0], [second, 0.0]], dtype=torch.float64), -1)
        assert -float(log_permanent(tilted)) == pytest.approx(np.log(2) + first * second / 4, abs=3e-4)


def test_the_gradient_is_lipschitz_with_the_constant_of_the_corollary():
    codes, k = positional_code(8), 3
    _, hessian = sampling.curvature(4 * gaussian(1, 200, k, 2), torch.tensor([[0, 3, 5]]).expand(200, -1), codes)
    assert torch.linalg.eigvalsh(hessian).abs().max() <= k


# Recovery


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(0, 3))
def test_a_permanent_above_one_half_means_that_the_arg_max_is_right(seed, k, spare):
    n = max(2, k + spare)
    sharp = 10 ** float(torch.rand(1, generator=torch.Generator().manual_seed(seed)))
    logits = gaussian(seed, 40, k, n) + 2 * torch.eye(k, n, dtype=torch.float64)
    attention = torch.softmax(sharp * logits, -1)
    right = recovered(attention, (Parity(n, range(1, k + 1)),) * 40)
    assert (right | (log_permanent(attention[..., :k]).exp() <= 0.5)).all()


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_one_half_is_tight(k):
    attention = torch.eye(k, k + 1, dtype=torch.float64)
    attention[0, 0], attention[0, k] = 0.5 - 1e-6, 0.5 + 1e-6
    assert float(log_permanent(attention[:, :k]).exp()) == pytest.approx(0.5, abs=2e-6)
    assert not recovered(attention.unsqueeze(0), (Parity(k + 1, range(1, k + 1)),)).any()


def largest_misread_permanent(k: int, n: int, tries: int, updates: int, seed: int = 0) -> float:
    """The largest permanent found for attention whose arg-maxes are not B: a search for a counterexample.

    Attention is any distribution, not only a softmax over a code. Every try starts at random, climbs the permanent by
    Adam, and counts at the points where the arg-maxes are wrong; the bits are the first k of n positions.
    """
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(tries, k, n, generator=generator, dtype=torch.float64)
    task, best = Parity(n, range(1, k + 1)), 0.0

    def minus_permanent(point):
        nonlocal best
        attention = torch.softmax(point, -1)
        value = log_permanent(attention[..., :k])
        wrong = ~recovered(attention.detach(), (task,) * tries)
        if wrong.any():
            best = max(best, float(value.detach()[wrong].exp().max()))
        return -value

    minimise(minus_permanent, logits, updates, 0.02, "counterexample", progress=False)
    return best


def test_a_search_comes_close_to_one_half_and_never_beyond():
    for k in (2, 3):
        assert 0.45 < largest_misread_permanent(k, 6, 200, 300) <= 0.5


def test_labels_to_be_sure_are_hoeffdings():
    assert sampling.labels_to_be_sure(0.9, 1e-6) == 173
    rng = np.random.default_rng(0)
    drawn = 2 * (rng.random((20_000, 30)) < 0.75) - 1  # perm is exactly one half
    margin = np.sqrt(2 * np.log(1 / 0.05) / 30)
    assert (drawn.mean(1) - margin > 0.5).mean() <= 0.05


# Proposition 21


@given(st.integers(0, 10_000))
def test_zero_risk_means_weight_one_on_every_bit(seed):
    """Random weights, those of exactly B, and weights near them: the risk is 0 for B alone."""
    rng = np.random.default_rng(seed)
    n, k = 6, 2
    task = Parity(n, (2, 5))
    risk = EnumeratedRisk(task, "squared_hinge", smoothing=0.0)
    exact = torch.zeros(n, dtype=torch.float64)
    exact[[1, 4]] = 1
    assert float(risk.of_weights(exact)) == pytest.approx(0, abs=1e-20)
    other = torch.tensor(k * rng.dirichlet(np.full(n, 10 ** rng.uniform(-2, 1))))
    mixed = exact + 10 ** rng.uniform(-3, 0) * (other - exact)
    for weights in (other, mixed):
        off = float((weights - exact).abs().max())
        if off > 1e-3:
            assert float(risk.of_weights(weights)) > 1e-9


def test_on_a_grid_of_all_weights_the_only_zero_is_b():
    n, k, parts = 5, 2, 8
    risk = EnumeratedRisk(Parity(n, (1, 3)), "squared_hinge", smoothing=0.0)
    shares = [np.bincount(c, minlength=n) for c in combinations_with_replacement(range(n), parts)]
    weights = k / parts * torch.tensor(np.array(shares), dtype=torch.float64)
    values = risk.of_weights(weights)
    assert weights[values < 1e-12].tolist() == [[1, 0, 1, 0, 0]]


def test_the_zigzag_is_above_minus_one_until_one():
    for k in (1, 2, 5):
        s = torch.linspace(0, 1, 1001, dtype=torch.float64)[:-1]
        assert (zigzag(s, k, 0.0) > -1).all()
        assert float(zigzag(torch.ones(1, dtype=torch.float64), k, 0.0)) == pytest.approx(-1)


def test_a_long_head_is_on_one_position_or_on_two_cyclic_neighbours():
    n = 9
    angles = torch.linspace(0, 2 * torch.pi, 37, dtype=torch.float64)
    heads = 1e6 * torch.stack([angles.sin(), angles.cos()], -1)
    for gamma in soft_attention(heads, n, 1.0):
        support = (gamma > 1e-9).nonzero().flatten().tolist()
        assert len(support) == 1 or (support[1] - support[0]) % n in (1, n - 1)


# The repair


def test_temperature_is_a_gauge():
    """A setting at 1/n is the one at 1 with a start n times as long."""
    task, seeds = Parity(8, (2, 6)), 3
    for recipe in sampling.settings():
        if recipe.temperature_power:
            cold = replace(sampling.at_length(recipe, 8), epochs=1, updates_per_epoch=20)
            run = train(task, cold, seeds, progress=False)
            longer = replace(recipe, temperature_power=0, epochs=1, updates_per_epoch=20)
            risk = SampledAttentionRisk(task, recipe.loss)
            point = 8 * run.directions[0]
            if recipe.optimiser == "gd":
                for _ in range(20):
                    point = point - longer.learning_rate * risk.value_and_gradient(point)[1]
                assert torch.allclose(soft_attention(point, 8, 1.0), run.attention[-1], atol=1e-9)


def test_every_loss_optimiser_and_temperature_is_tried_from_the_papers_start():
    found = {(r.loss, r.optimiser, r.temperature_power) for r in sampling.settings()}
    assert len(found) == len(sampling.settings()) == 12
    assert {r.head for r in sampling.settings()} == {"sampled"}
    cold = next(r for r in sampling.settings() if r.temperature_power and r.optimiser == "gd")
    assert sampling.at_length(cold, 10).learning_rate == pytest.approx(cold.learning_rate / 100)


def test_plain_descent_on_the_logarithm_at_the_theorems_temperature_commits():
    frame = sampling.sampling_settings(8, [2], 4, 150)
    theorem = frame.query("loss == '-log perm' and optimiser == 'gd' and temperature == '1/n'")
    assert theorem["committed"].all()
    assert theorem["neighbours"].sum() == 2
    assert frame.groupby(["loss", "optimiser", "temperature"]).size().tolist() == [4] * 12


def test_a_setting_suffices_by_its_share_and_its_interval():
    columns = {"k": 3, "loss": "1 - perm", "optimiser": "gd"}
    rows = [columns | {"temperature": t, "committed": i < s} for t, s in (("1", 200), ("1/n", 196)) for i in range(200)]
    few = [columns | {"temperature": "few", "committed": True} for _ in range(20)]
    assert sampling.sufficient(pd.DataFrame(rows + few))["suffices"].tolist() == [True, False, False]


def test_a_sampling_head_has_no_resting_place_where_an_averaging_one_has():
    places = sampling.resting_places(8, 2, 1e-3, 12.0, 10)
    assert set(places["risk_of"]) == {"averaging"}
    assert (places["least"] > 1e-3).all()
    assert (places["risk"] > 1).all()
    landscape = sampling.one_bit_landscape(8, 2, 1e-3, 12.0, 9)
    corner = landscape.query("x == 12 and y == 0")  # bit 2 of 8 lies straight to the right
    assert corner["sampling"].item() == landscape["sampling"].min()


def test_a_certificate_is_never_wrong_along_training():
    frame = sampling.certificates(10, 2, 8, 150, 10)
    assert frame.loc[frame["perm"] > 0.5, "right"].all()
    assert set(frame["recipe"]) == {"repaired", "figure2-signed"}


# Beyond parity


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_table_of_a_function_is_its_squared_error_and_zero_on_the_bits(name):
    tasks = (Parity(6, (1, 3, 6)), Parity(6, (2, 3, 4)))
    table = sampling.sampled_table(name, tasks)
    assert table.shape == (2, 6, 6, 6)
    assert float(table[0, 0, 2, 5]) == pytest.approx(0, abs=1e-12)
    assert float(table[1, 1, 2, 3]) == pytest.approx(0, abs=1e-12)
    x = tasks[0].cube()
    wanted, read = FUNCTIONS[name](x[:, [0, 2, 5]]), FUNCTIONS[name](x[:, [4, 4, 1]])
    assert float(table[0, 4, 4, 1]) == pytest.approx(float((wanted - read).square().mean() / wanted.var(correction=0)))
    function = sampling.multi_affine(table[0], positional_code(6), 1.0)
    assert sampling.laplacian_residual(function, gaussian(5, 3, 2), positional_code(6), 1.0) < 1e-9


def test_two_heads_on_one_bit_of_a_majority_are_a_plateau():
    table = sampling.sampled_table("majority", (Parity(6, (1, 3, 6)),))[0]
    assert torch.allclose(table[0, 0], torch.ones(6, dtype=torch.float64))  # wherever the third head reads
    assert torch.allclose(table[0, :, 2].min(), table[0, 5, 2])  # only the third bit helps


def test_heads_that_sample_learn_a_polynomial_and_are_read_by_their_weights():
    frame = sampling.sampled_functions(6, 3, 4, 300)
    assert frame.query("function == 'polynomial'")["learned"].all()
    assert frame.groupby("function").size().tolist() == [4] * 4


def test_aligned_heads_have_a_permanent_of_one_in_the_limit():
    task = Parity(9, (2, 5, 7))
    attention = soft_attention(500 * aligned_directions(task.bits, 9), 9, 1.0)
    assert float(log_permanent(attention[:, list(task.indices)]).exp()) == pytest.approx(1, abs=1e-9)
    assert RECIPES["repaired"].head == "sampled"


# Verdicts


def test_our_theorems_hold_only_while_nothing_found_speaks_against_them():
    assert sampling.largest_residual(12) < 1e-9
    places = pd.DataFrame({"risk_of": ["averaging", "averaging"]})
    assert sampling.judge_no_minima(1e-14, places).as_stated == "holds"
    assert sampling.judge_no_minima(1e-6, places).as_stated == "open"
    assert sampling.judge_no_minima(1e-14, places.replace("averaging", "sampling")).as_stated == "open"
    points = pd.DataFrame({"least": [-0.2] * 30, "bound": [-0.1] * 30})
    assert sampling.judge_saddles(points).as_stated == "holds"
    assert sampling.judge_saddles(points.assign(bound=-0.3)).as_stated == "open"
    assert sampling.judge_saddles(points[:5]).as_stated == "open"
    looks = pd.DataFrame({"perm": [0.3, 0.6, 0.9], "right": [False, True, True]})
    assert sampling.judge_recovery(looks).as_stated == "holds"
    assert sampling.judge_recovery(looks.assign(right=[True, False, True])).numbers["of these misread"] == 1


@pytest.mark.parametrize(("successes", "as_stated"), [(200, "holds"), (197, "open"), (150, "fails")])
def test_the_repair_is_judged_by_its_plainest_settings(successes, as_stated):
    settings = [(3, "-log perm", "gd", "1/n", 200), (3, "2 (1 - perm)", "gd", "1", successes),
                (3, "2 (1 - perm)", "gd", "1/n", 0), (3, "2 (1 - perm)", "adam", "1", 0)]  # fmt: skip
    runs = pd.DataFrame(
        [(*setting, i < good) for *setting, good in settings for i in range(200)],
        columns=["k", "loss", "optimiser", "temperature", "committed"],
    )
    verdict = sampling.judge_repair(sampling.sufficient(runs))
    assert verdict.as_stated == as_stated and len(verdict.numbers) == 2

"""Fixed heads: exact best risks, the bounds, soft features, training on top."""

import math

import pytest
import torch

from parity_lib import Parity, soft_attention
from parity_lib.attention import embed
from parity_lib.chapters.networks import Budget
from parity_lib.chapters.fixed_attention import (
    KINDS,
    FixedHeads,
    attended,
    best_risks,
    cells,
    climb,
    drawn_heads,
    frozen_norm,
    hostile_tasks,
    lipschitz_needed,
    lookup_table_risk,
    overlooked_position,
    pair_bound,
    pooled,
    rank_bound,
    readout_norm,
    soft_vectors,
    subsets,
    train_on_fixed,
)
from parity_lib.chapters.theory import (
    corollary_20,
    last_informative,
    linear_bound,
    one_head_tail,
    theorem_11,
    theorem_11_repaired,
    theorem_11_tail,
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def head_sets(n, m, draws=3):
    return [FixedHeads.random(kind, m, n, generator(seed)) for kind in KINDS for seed in range(draws)]


@pytest.mark.parametrize("n, m", [(6, 2), (8, 3), (10, 4)])
def test_the_exact_hard_risk_is_that_of_a_trained_lookup_table(n, m):
    for heads in head_sets(n, m, draws=2):
        for bits in ((1, 2), (2, 4, 6)):
            exact = float(best_risks(heads, [bits])[-1, 0])
            assert lookup_table_risk(heads, Parity(n, bits)) == pytest.approx(exact, abs=1e-9)


def test_position_only_hard_heads_know_the_parity_or_nothing():
    heads = FixedHeads.random("position", 5, 9, generator(1))
    read = set((attended(heads, torch.zeros(1, 9, dtype=torch.float64))[0] + 1).tolist())
    sets = subsets(9, 2)
    risks = best_risks(heads, sets)[-1]
    assert risks.tolist() == pytest.approx([0.0 if set(bits) <= read else 1.0 for bits in sets])


def test_corollary_20_and_the_linear_bound_hold_for_random_hard_heads():
    for n in (6, 8, 10):
        for heads in head_sets(n, n):
            worst = best_risks(heads, subsets(n, 2)).amax(1)
            for m, risk in enumerate(worst.tolist(), start=1):
                first = FixedHeads(heads.positions[:m], heads.tokens[:m])
                assert risk >= corollary_20(n, m) - 1e-12
                assert risk >= rank_bound(first) - 1e-12 >= linear_bound(n, m) - 2e-12


def test_hill_climbing_lowers_the_risk_but_not_below_the_bounds():
    heads, risk = climb(7, 2, 2, 40, generator(3))
    start = FixedHeads.random("search", 2, 7, generator(3))
    assert risk <= float(best_risks(start, subsets(7, 2))[-1].max())
    assert risk >= max(corollary_20(7, 2), linear_bound(7, 2), rank_bound(heads))


def test_a_search_head_reads_the_first_one_in_its_order():
    heads = FixedHeads(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), torch.tensor([4.0]))
    x = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=torch.float64)
    assert attended(heads, x).tolist() == [[2], [3], [1]]
    assert heads.ranks.tolist() == [[3, 1, 2, 4]]
    assert overlooked_position(heads) == 4


def test_a_hostile_set_contains_the_position_that_every_head_overlooks():
    heads = drawn_heads("token", 3, 20, [0, 1, 2])
    for head_set, task in zip(heads, hostile_tasks(heads, 3, [0, 1, 2]), strict=True):
        overlooked = overlooked_position(head_set)
        assert overlooked in task.bits and task.k == 3
        assert head_set.ranks[:, overlooked - 1].min() >= math.ceil(19 / 3)  # the pigeonhole of the proofs


def test_more_heads_tell_more_inputs_apart():
    counts = cells(FixedHeads.random("token", 4, 7, generator())).amax(1)
    assert (counts.diff() >= 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_soft_vectors_are_the_softmax_averages_of_the_embeddings(kind):
    sets = [FixedHeads.random(kind, 3, 6, generator(seed)) for seed in range(2)]
    x = Parity(6, (1,)).cube()
    for heads, vectors in zip(sets, soft_vectors(sets, x, 0.7), strict=True):
        scores = heads.positions + heads.tokens.unsqueeze(1) * x.unsqueeze(1)  # (inputs, m, n)
        literal = torch.softmax(scores / 0.7, dim=-1) @ embed(x)
        assert torch.allclose(vectors, literal, atol=1e-12)
    assert pooled(vectors, "mean").shape == (64, 4) and pooled(vectors, "separate").shape == (64, 12)


def test_heads_of_matrices_score_as_the_paper_writes_it():
    matrices = torch.randn(3, 4, 4, generator=generator(), dtype=torch.float64)
    heads = FixedHeads.from_matrices(matrices, 5)
    x = Parity(5, (1,)).cube()
    literal = torch.einsum("hb,xjb->xhj", matrices[:, 0], embed(x))
    ours = heads.positions + heads.tokens.unsqueeze(1) * x.unsqueeze(1)
    assert torch.allclose((literal - ours).diff(dim=-1), torch.zeros(()).double(), atol=1e-12)


def test_the_pair_bound_is_below_every_trained_network_and_above_the_repaired_theorem():
    n, seeds = 10, [0, 1, 2]
    heads = [FixedHeads.random("token", 1, n, generator(seed)) for seed in seeds]
    tasks = [Parity(n, sorted({(p := overlooked_position(h)), p % n + 1})) for h in heads]
    run = train_on_fixed(heads, tasks, seeds, Budget(60, 64, (0.02, 0.05)), neurons=8)
    assert run.risk.shape == (2, 3) and (run.best <= run.risk).all()
    for h, risks, norms in zip(heads, run.risk.T, run.norm.T, strict=True):
        for risk, norm in zip(risks.tolist(), norms.tolist(), strict=True):
            p, x = overlooked_position(h), Parity(n, (1,)).cube()
            assert risk >= float(pair_bound(h, p, [norm], x)[0]) >= theorem_11_repaired(n, 1, norm)


def test_a_norm_cap_is_kept_and_training_repeats_itself():
    heads = [FixedHeads.random("token", 2, 8, generator(5))]
    task, budget = Parity(8, (1, 5)), Budget(30, 32, (0.1,))
    runs = [train_on_fixed(heads, [task], [0], budget, neurons=4, norm_caps=[2.0]) for _ in "ab"]
    assert float(runs[0].norm) <= 2 + 1e-9
    assert torch.equal(runs[0].risk, runs[1].risk)


def test_fixed_heads_on_few_positions_can_be_learned():
    heads = [FixedHeads.random("token", 6, 4, generator(seed)) for seed in (0, 1)]
    run = train_on_fixed(heads, [Parity(4, (1, 3))] * 2, [0, 1], Budget(800, 64, (0.03,)), pooling="separate")
    assert run.best.max() < 0.1 and run.best_accuracy.min() == 1


def test_the_lipschitz_constant_is_that_of_the_closest_opposite_pair():
    task, attention = Parity(6, (2, 5)), soft_attention(torch.tensor([[0.6, 0.8]], dtype=torch.float64), 6, 1.0)[0]
    x = task.cube()
    vectors = torch.stack([x @ attention, 1 - x @ attention], dim=1)
    opposite = task.labels(x).unsqueeze(1) != task.labels(x)
    closest = torch.cdist(vectors, vectors)[opposite].min()
    constant, changes = lipschitz_needed(attention, task)
    assert constant == pytest.approx(2 / float(closest), rel=1e-6)
    assert 0 < changes < 64


def test_n_separate_generic_heads_are_read_out_exactly():
    task = Parity(6, (1, 4))
    attention = torch.softmax(torch.randn(6, 6, generator=generator(), dtype=torch.float64), dim=1)
    assert readout_norm(torch.eye(6, dtype=torch.float64), task) == pytest.approx(math.sqrt(160) * 2)
    assert readout_norm(attention, task) > math.sqrt(160) * 2
    assert frozen_norm(2) == pytest.approx(math.sqrt(160) * 2 * math.sqrt(2))


def test_the_bounds_have_the_printed_values():
    assert corollary_20(12, 3) == pytest.approx(1 - 6 / 16)
    assert corollary_20(12, 5) == 0 and corollary_20(12, 5, clamped=False) < 0
    assert linear_bound(12, 5) == pytest.approx(1 / 6)
    assert [last_informative(corollary_20, n) for n in (16, 24, 100)] == [4, 7, 19]
    assert [last_informative(linear_bound, n) for n in (16, 24, 100)] == [7, 11, 49]
    assert theorem_11(24, 1, 2.0) == pytest.approx((1 - 2 / 32) * (1 - 10 / 24) ** 2)
    assert theorem_11(24, 1, 100.0) == 0 and theorem_11(24, 1, 100.0, clamped=False) > 300
    assert theorem_11_repaired(60, 1, 1.0) < theorem_11(60, 1, 1.0)
    assert theorem_11_repaired(400, 2, 1.0) > theorem_11(400, 2, 1.0) > 0  # 5 m^2 exceeds 2.5 sqrt(6) m from m = 2


@pytest.mark.parametrize("m", [1, 2, 3])
def test_a_flip_moves_the_mean_of_heads_by_no_more_than_the_repair_allows(m):
    n, p = 9, 9
    scores = torch.randn(m, n, generator=generator(m), dtype=torch.float64)
    scores[:, -1] = scores.amin(1) - 1
    for token in (-3.0, 0.0, 3.0):
        heads = FixedHeads(scores, torch.full((m,), token, dtype=torch.float64))
        x = Parity(n, (1,)).cube()
        flipped = x.clone()
        flipped[:, p - 1] = 1 - flipped[:, p - 1]
        moved = (soft_vectors([heads], x) - soft_vectors([heads], flipped)).mean(-2)[0].norm(dim=1)
        on_p = [torch.softmax(heads.positions + heads.tokens[:, None] * y[:, None], -1)[..., -1] for y in (x, flipped)]
        assert (moved <= math.sqrt(6) * torch.maximum(*on_p).mean(1) + 1e-12).all()


def test_one_head_has_its_printed_bound_by_the_finer_count():
    assert one_head_tail(12) == pytest.approx((1 + 11) / 2**11)  # fewer than 2.94 of 12, so M = 0 or 1 of 11
    assert all(one_head_tail(n) <= 2 / 2 ** math.ceil((n - 1) / 5) for n in range(7, 200))


def test_the_first_factor_of_theorem_11_is_at_least_as_careful_as_the_tail_it_stands_for():
    assert theorem_11_tail(11, 1) == pytest.approx((1 + 9 + 36) / 2**9)  # fewer than 2.2, that is 0, 1 or 2, of 9
    for n in range(7, 60):
        for m in range(1, n + 1):
            stated = 2 * m / 2 ** math.ceil((n - 1) / (5 * m))
            assert stated >= 1 or theorem_11_tail(n, m) <= stated


@pytest.mark.parametrize(
    "call, sentence",
    [
        (lambda: FixedHeads.random("token", 0, 8, generator()), "heads m must be a whole number of at least 1, got 0"),
        (lambda: FixedHeads.random("loose", 1, 8, generator()), "kind must be one of position, token, search"),
        (lambda: FixedHeads(torch.zeros(8), torch.zeros(1)), r"position scores must have shape \(m, n\)"),
        (lambda: FixedHeads(torch.zeros(2, 8), torch.zeros(3)), r"token scores must have shape \(2,\), one per head"),
        (lambda: FixedHeads.from_matrices(torch.zeros(2, 3, 4), 8), r"matrices must have shape \(m, 4, 4\)"),
        (lambda: cells(FixedHeads.random("token", 1, 17, generator())), "only up to n = 16, got n = 17; the bounds"),
        (lambda: lipschitz_needed(torch.ones(23), Parity(23, (1,))), "only up to n = 22, got n = 23"),
        (lambda: theorem_11(20, 1, -1.0), "finite number of at least 0, got -1.0"),
        (lambda: corollary_20(20, 0), "m must be a whole number of at least 1, got 0"),
        (lambda: pair_bound(FixedHeads.random("token", 1, 4, generator()), 1, [-1.0], torch.zeros(1, 4)), "at least 0"),
        (lambda: train_on_fixed([], [Parity(4, (1,))], [], Budget(1, 1, (0.1,))), "one task and one seed per head set"),
        (lambda: pooled(torch.zeros(1, 1, 4), "max"), "pooling must be one of mean, separate, got 'max'"),
        (lambda: readout_norm(torch.eye(3), Parity(4, (1,))), r"attention must have shape \(4, 4\), got \(3, 3\)"),
    ],
)
def test_bad_input_is_answered_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        call()
    assert "\n" not in str(refused.value)

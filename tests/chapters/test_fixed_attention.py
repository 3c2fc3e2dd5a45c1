"""Fixed heads: exact best risks, every step of the proofs, soft features, training on top, and the verdicts."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from parity_lib import Parity, soft_attention
from parity_lib.attention import embed
from parity_lib.chapters import fixed_attention as chapter
from parity_lib.chapters.fixed_attention import (
    KINDS,
    FixedHeads,
    attended,
    best_risks,
    cells,
    climb,
    corollary_20,
    drawn_heads,
    frozen_norm,
    hostile_tasks,
    linear_bound,
    lipschitz_needed,
    lookup_table_risk,
    movement,
    overlooked_position,
    pair_bound,
    rank_bound,
    readout_norm,
    soft_vectors,
    subsets,
    theorem_11,
    theorem_11_repaired,
    train_on_fixed,
    typical_bound,
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
                assert risk >= corollary_20(n, m) - 1e-12
                assert risk >= rank_bound(heads)[m - 1] - 1e-12 >= linear_bound(n, m) - 2e-12


def test_hill_climbing_lowers_the_risk_but_not_below_the_bounds():
    heads, risk, mean = climb(7, 2, 2, 40, generator(3))
    start = FixedHeads.random("search", 2, 7, generator(3))
    assert mean <= risk <= float(best_risks(start, subsets(7, 2))[-1].max())
    assert risk >= max(corollary_20(7, 2), linear_bound(7, 2), rank_bound(heads)[-1])


def test_a_search_head_reads_the_first_one_in_its_order():
    heads = FixedHeads(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), torch.tensor([4.0]))
    x = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=torch.float64)
    assert attended(heads, x).tolist() == [[2], [3], [1]]
    assert heads.ranks.tolist() == [[3, 1, 2, 4]]
    assert overlooked_position(heads) == 4


def test_a_hostile_set_contains_the_position_that_every_head_overlooks():
    heads = drawn_heads("token", 3, 20, [0, 1, 2])
    for head_set, task in zip(heads, hostile_tasks(heads, 3), strict=True):
        overlooked = overlooked_position(head_set)
        assert overlooked in task.bits and task.k == 3
        assert head_set.ranks[:, overlooked - 1].min() >= math.ceil(19 / 3)  # the pigeonhole of the proofs


def test_more_heads_tell_more_inputs_apart():
    counts = cells(FixedHeads.random("token", 4, 7, generator())).amax(1)
    assert (counts.diff() >= 0).all()


def test_heads_of_matrices_score_as_the_paper_writes_it():
    rows = torch.randn(3, 4, generator=generator(), dtype=torch.float64)
    heads = FixedHeads.from_rows(rows, 5)
    x = Parity(5, (1,)).cube()
    literal = torch.einsum("hb,xjb->xhj", rows, embed(x))
    ours = heads.positions + heads.tokens.unsqueeze(1) * x.unsqueeze(1)
    assert torch.allclose((literal - ours).diff(dim=-1), torch.zeros(()).double(), atol=1e-12)


def test_the_lipschitz_constant_is_that_of_the_closest_opposite_pair():
    task, attention = Parity(6, (2, 5)), soft_attention(torch.tensor([[0.6, 0.8]], dtype=torch.float64), 6, 1.0)[0]
    x = task.cube()
    vectors = torch.stack([x @ attention, 1 - x @ attention], dim=1)
    opposite = task.labels(x).unsqueeze(1) != task.labels(x)
    closest = torch.cdist(vectors, vectors)[opposite].min()
    assert lipschitz_needed(attention, task) == pytest.approx(2 / float(closest), rel=1e-6)


def test_n_separate_generic_heads_are_read_out_exactly():
    task = Parity(6, (1, 4))
    attention = torch.softmax(torch.randn(6, 6, generator=generator(), dtype=torch.float64), dim=1)
    assert readout_norm(torch.eye(6, dtype=torch.float64), task) == pytest.approx(math.sqrt(160) * 2)
    assert readout_norm(attention, task) > math.sqrt(160) * 2
    assert frozen_norm(2) == pytest.approx(math.sqrt(160) * 2 * math.sqrt(2))


def last_informative(bound, n: int) -> int:
    """The largest m in 1..n for which ``bound(n, m)`` is positive, 0 if there is none."""
    return max((m for m in range(1, n + 1) if bound(n, m) > 0), default=0)


def test_the_bounds_have_the_printed_values():
    assert corollary_20(12, 3) == pytest.approx(1 - 6 / 16)
    assert corollary_20(12, 5) == 0 and linear_bound(12, 5) == pytest.approx(1 / 6)
    assert [last_informative(corollary_20, n) for n in (16, 24, 100)] == [4, 7, 19]
    assert [last_informative(linear_bound, n) for n in (16, 24, 100)] == [7, 11, 49]
    assert typical_bound(12, 2, 2) == pytest.approx(1 - 4 * 6 / (12 * 11))
    assert typical_bound(12, 2, 3) == pytest.approx(1 - 8 * 26 / (12 * 11 * 10))
    assert theorem_11(24, 1, 2.0) == pytest.approx((1 - 2 / 32) * (1 - 10 / 24) ** 2)
    assert theorem_11(24, 1, 100.0) == 0 and theorem_11(24, 1, 100.0, clamped=False) > 300
    assert theorem_11_repaired(60, 1, 1.0) == pytest.approx(theorem_11(60, 1, 1.0))


@given(st.integers(2, 3000), st.integers(1, 40), st.floats(0, 1e3))
def test_the_repaired_bound_implies_the_printed_one_clamped(n, m, norm):
    assert theorem_11_repaired(n, m, norm) >= theorem_11(n, m, norm)


# --- The proofs, step by step ----------------------------------------------------------------------------------------


def noticed(heads):
    """Which positions some head can notice, on every input: (2^n, n) bool.

    A head notices the bit at p if no position that it ranks above p carries its preferred token.
    """
    x = Parity(heads.n, (1,)).cube()
    seen = torch.zeros(len(x), heads.n, dtype=torch.bool)
    for scores, token in zip(heads.positions, heads.tokens, strict=True):
        order = scores.argsort(descending=True, stable=True)
        blocked = (x[:, order] == (token > 0)) if token != 0 else torch.ones_like(seen)
        free = torch.cat([torch.zeros(len(x), 1, dtype=torch.bool), blocked[:, :-1]], 1).cumsum(1) == 0
        seen[:, order] |= free
    return seen


def test_what_no_head_can_notice_changes_nothing_that_the_heads_report():
    for heads in head_sets(6, 2):
        x, seen = Parity(6, (1,)).cube(), noticed(heads)
        code = (x @ 2.0 ** torch.arange(6, dtype=torch.float64)).long()
        place = torch.empty_like(code).scatter_(0, code, torch.arange(64))
        cell = cells(heads)[-1]
        for p in range(6):
            flipped = x.clone()
            flipped[:, p] = 1 - flipped[:, p]
            other = place[(flipped @ 2.0 ** torch.arange(6, dtype=torch.float64)).long()]
            blind = ~seen[:, p]
            assert (cell == cell[other])[blind].all() and (seen == seen[other]).all(1)[blind].all()


def test_the_chance_of_being_noticed_halves_with_the_rank_and_sums_to_less_than_two():
    for kind in KINDS:
        heads = FixedHeads.random(kind, 1, 8, generator(3))
        chance = noticed(heads).double().mean(0)
        halves = 0.5 ** (heads.ranks[0] - 1).double()
        assert (chance <= halves + 1e-12).all() and chance.sum() < 2
        assert kind == "position" or torch.allclose(chance, halves)


@pytest.mark.parametrize("k", [2, 3])
def test_a_set_with_a_bit_that_is_not_noticed_keeps_that_share_of_its_risk(k):
    for heads in head_sets(7, 3):
        seen, sets = noticed(heads), subsets(7, k)
        risks = best_risks(heads, sets)[-1]
        blind = torch.stack([(~seen[:, [bit - 1 for bit in bits]]).any(1).double().mean() for bits in sets])
        assert (risks >= blind - 1e-12).all()
        assert float(blind.mean()) >= typical_bound(7, 3, k) - 1e-12


def test_the_average_set_stays_above_its_bound_for_any_number_of_heads():
    for heads in head_sets(9, 9, draws=2):
        for k in (1, 2, 3):
            means = best_risks(heads, subsets(9, k)).mean(1).tolist()
            assert all(mean >= typical_bound(9, m, k) - 1e-12 for m, mean in enumerate(means, start=1))


def test_the_first_factor_of_theorem_11_rests_on_one_tail():
    assert 4 * (5 / 8) ** 5 < 0.5
    for d in range(200):
        assert binom.cdf(d, 5 * d, 0.5) <= (4 * (5 / 8) ** 5) ** d + 1e-15 <= 2.0**-d + 1e-15
    for e in range(1, 100):  # both cases of the proof, and that the smallest number of ranks is the worst
        assert binom.cdf(e, 5 * e - 1, 0.5) <= 2 * binom.cdf(e, 5 * e, 0.5) * (1 + 1e-12)
        tails = binom.cdf(e - 1, np.arange(5 * e - 5, 5 * e), 0.5)
        assert (tails <= tails[0] + 1e-15).all()


@given(st.integers(2, 10**6), st.integers(1, 1000))
def test_the_ceilings_of_theorem_11_chain_as_the_proof_says(n, m):
    ranks, e, too_few = -(-(n - 1) // m) - 1, -(-(n - 1) // (5 * m)), -(-n // (5 * m)) - 1
    assert e == -(-(ranks + 1) // 5) and m * ranks <= n - 2
    assert too_few == (e if n - 1 == 5 * m * e else e - 1)
    assert n - 1 != 5 * m * e or ranks == 5 * e - 1


def theorem_11_tail(n: int, m: int) -> float:
    r"""Stands behind Theorem 11's first factor: :math:`m\,P[\mathrm{Bin}(\lceil (n-1)/m \rceil - 1, \frac12) < n/5m]`.

    The chance, summed over heads, that fewer than n/5m of the positions ranked above p carry the head's token.
    """
    return m * float(binom.cdf(-(-n // (5 * m)) - 1, -(-(n - 1) // m) - 1, 0.5))


def test_the_tail_behind_theorem_11_is_never_above_the_printed_term():
    assert theorem_11_tail(11, 1) == pytest.approx((1 + 9 + 36) / 2**9)  # fewer than 2.2, that is 0, 1 or 2, of 9
    for n in range(2, 400):
        for m in range(1, min(n, 20) + 1):
            assert theorem_11_tail(n, m) <= 2 * m / 2 ** -(-(n - 1) // (5 * m)) * (1 + 1e-12)


@given(st.integers(1, 1000), st.floats(0, 1e6))
def test_the_weights_above_a_position_outweigh_what_the_others_add(carriers, rest):
    whole = carriers + rest
    assert ((rest / whole) ** 2 + 1) / (1 + whole) ** 2 <= (1 + 1e-12) / (1 + carriers) ** 2


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("token", [-3.0, -0.3, 0.0, 3.0])
def test_a_flip_moves_the_mean_of_heads_by_no_more_than_the_proof_allows(m, token):
    n = 9
    scores = 2 * torch.randn(m, n, generator=generator(m), dtype=torch.float64)
    scores[:, -1] = scores.amin(1) - 0.01
    heads = FixedHeads(scores, torch.full((m,), token, dtype=torch.float64))
    x = Parity(n, (1,)).cube()
    carry = (x[:, :-1] == (token > 0)).sum(1) if token else torch.full((len(x),), n - 1)
    some = carry >= 1
    assert (movement(heads, n, x) <= 2 / (1 + carry) + 1e-12)[some].all()


def coarse_one_head_tail(n: int) -> float:
    r"""What a coarser step would leave for m = 1: :math:`P[\mathrm{Bin}(n-1, \frac12) + 1 < \sqrt6\,n/10]`.

    The step is a movement of :math:`\sqrt6/(M+1)` in place of 2/(M+1). The chance is at most the printed
    :math:`2/2^{\lceil (n-1)/5 \rceil}` for every n up to 2106 and not at 2107: the reason why the repair counts which
    token the positions above p carry.
    """
    return float(binom.cdf(math.ceil(math.sqrt(6) * n / 10 - 1) - 1, n - 1, 0.5))


def test_the_coarser_count_for_one_head_stops_at_two_thousand_one_hundred_and_seven():
    def enough(n):
        return coarse_one_head_tail(n) <= 2 / 2 ** -(-(n - 1) // 5)

    assert coarse_one_head_tail(12) == pytest.approx((1 + 11) / 2**11)  # fewer than 2.94 of 12, so M = 0 or 1 of 11
    assert all(enough(n) for n in range(7, 2107)) and not enough(2107)


def test_a_pair_with_opposite_labels_keeps_the_loss_that_convexity_leaves():
    first, second = np.meshgrid(np.linspace(-3, 3, 121), np.linspace(-3, 3, 121))
    loss = (np.maximum(0, 1 - first) ** 2 + np.maximum(0, 1 + second) ** 2) / 2
    assert (loss >= np.maximum(0, 1 - np.abs(first - second) / 2) ** 2 - 1e-12).all()


def test_no_bound_in_the_norm_alone_holds_for_every_embedding():
    assert theorem_11_repaired(400, 1, 10.0, reach=2.0) > 0 == theorem_11_repaired(400, 1, 10.0, reach=200.0)


# --- Soft heads and training -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_soft_vectors_are_the_softmax_averages_of_the_embeddings(kind):
    sets = [FixedHeads.random(kind, 3, 6, generator(seed)) for seed in range(2)]
    x = Parity(6, (1,)).cube()
    for heads, vectors in zip(sets, soft_vectors(sets, x), strict=True):
        scores = heads.positions + heads.tokens.unsqueeze(1) * x.unsqueeze(1)  # (inputs, m, n)
        assert torch.allclose(vectors, torch.softmax(scores, dim=-1) @ embed(x), atol=1e-12)


def test_the_pair_bound_is_below_every_trained_network_and_above_the_repaired_theorem():
    n, seeds = 10, [0, 1, 2]
    heads = [FixedHeads.random("token", 1, n, generator(seed)) for seed in seeds]
    tasks = [Parity(n, sorted({(p := overlooked_position(h)), p % n + 1})) for h in heads]
    run = train_on_fixed(heads, tasks, seeds, 60, 64, [0.02, 0.05], neurons=8)
    best = chapter.best_of(run)
    assert len(run) == 6 and best["risk"].tolist() == run.groupby("seed")["risk"].min().tolist()
    for row in run.itertuples():
        head, x = heads[row.seed], Parity(n, (1,)).cube()
        bound = float(pair_bound(head, [row.norm], x))
        assert row.risk >= bound - 1e-6 and bound >= theorem_11_repaired(n, 1, row.norm)


def test_a_norm_cap_is_kept_and_training_repeats_itself():
    heads, task = [FixedHeads.random("token", 2, 8, generator(5))], Parity(8, (1, 5))
    runs = [train_on_fixed(heads, [task], [0], 30, 32, [0.1], neurons=4, norm_caps=[2.0]) for _ in "ab"]
    assert runs[0]["norm"].item() <= 2 + 1e-5 and runs[0].equals(runs[1])


def test_fixed_heads_on_few_positions_can_be_learned():
    heads = [FixedHeads.random("token", 6, 4, generator(seed)) for seed in (0, 1)]
    run = train_on_fixed(heads, [Parity(4, (1, 3))] * 2, [0, 1], 800, 64, [0.03], pooling="separate")
    assert run["risk"].max() < 0.1 and run["accuracy"].min() == 1 and (run["error"] == 0).all()


# --- Frames and verdicts ---------------------------------------------------------------------------------------------


def test_the_comparison_has_a_row_for_every_arm_and_run_and_learned_heads_win():
    frame = chapter.fixed_against_learned(2, [10], 3, 100, 2, [0.03], 128, 8)
    assert frame.groupby("arm").size().to_dict() == dict.fromkeys([*chapter.arms(2), "learned"], 3)
    medians = frame.groupby("arm")["risk"].median()
    assert medians["learned"] < 0.1 < medians.drop("learned").min()
    assert set(frame.loc[frame["arm"].str.contains("longer"), "updates"]) == {800}


def test_hard_heads_come_with_their_bounds():
    frame = chapter.hard_heads(6, 2, 2)
    assert len(frame) == len(KINDS) * 2 * 6
    assert (frame["worst"] >= frame[["corollary_20", "linear_bound"]].max(axis=1) - 1e-12).all()
    assert (frame["mean"] >= frame["typical_bound"] - 1e-12).all() and (frame["mean"] <= frame["worst"] + 1e-12).all()
    assert chapter.lookup_gap([6]) < 1e-9


def test_risks_by_head_count_and_by_norm_have_a_row_for_every_run():
    counted = chapter.by_head_count(2, 8, [1, 3], 2, 60, 64, 0.03, 4)
    assert counted.groupby(["pooling", "m"]).size().tolist() == [2, 2, 2, 2]
    capped, curves = chapter.capped_networks(24, 2, 1, 20, 64, 0.02), chapter.bound_curves(24, 1)
    assert len(capped) == 3 * 2 * len(chapter.SCALED_CAPS)
    tight = capped[capped["cap"] < 1e6]
    assert (tight["norm"] * tight["m"] ** 2 / 24 <= tight["cap"] * (1 + 1e-5)).all()
    assert len(chapter.norm_frame(capped, curves)) == len(capped) + len(curves)
    assert chapter.half_reach(curves) > 0.2
    assert chapter.norm_needed([4, 6]).groupby("what").size().tolist() == [10, 10, 10, 10]


def hard(risk=0.9, bound=0.5, sets=240):
    frame = pd.DataFrame({"kind": "token heads", "n": 8, "draw": range(sets), "m": 1, "risk": risk, "rank_bound": 0.0})
    return frame.assign(typical_gap=0.1, corollary_20=bound, linear_bound=0.2)


@pytest.mark.parametrize(
    ("frame", "verdict"),
    [(hard(), "holds"), (hard(risk=0.1), "fails"), (hard().assign(typical_gap=-0.1), "fails")],
)
def test_our_bounds_on_hard_heads_fall_with_a_case_below_them(frame, verdict):
    assert chapter.judge_most_sets(frame).as_stated == verdict


@pytest.mark.parametrize(
    "frame, verdict, kind",
    [(hard(), "holds", "proved"), (hard(risk=0.4), "fails", "exact"), (hard(sets=20), "open", "exact")],
)
def test_the_verdict_on_hard_heads_follows_the_cases(frame, verdict, kind):
    found = chapter.judge_hard(frame)
    assert (found.as_stated, found.kind, found.numbers["head_sets"]) == (verdict, kind, len(frame))
    assert any(chapter.cases_below(frame).values()) == (verdict == "fails")


def soft(risk=0.95, printed=0.9, clamped=0.5, pair=0.9):
    values = {"risk": risk, "error": 0.001, "printed": printed, "clamped": clamped, "repaired": clamped, "pair": pair}
    return pd.DataFrame({name: [value] for name, value in values.items()})


@pytest.mark.parametrize(
    "frame, verdict",
    [
        (soft(printed=3.0), "narrower range"),
        (soft(), "open"),
        (soft(risk=0.4), "fails"),
        (soft(printed=3.0, pair=0.3), "fails"),
    ],
)
def test_the_verdict_on_soft_heads_follows_the_networks(frame, verdict):
    assert chapter.judge_soft(frame).as_stated == verdict

"""Figure 2: what counts as success, the frames behind the figures, and the verdicts outcome by outcome."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from parity_lib import RECIPES, Parity, Run, soft_attention, wilson
from parity_lib.chapters import figure2
from parity_lib.chapters.figure2 import judge, offset_from_middle, room_for_offset, shares_direction, splits_pair


def at(positions: list[list[float]], sharpness: float = 200.0) -> torch.Tensor:
    angle = 2 * math.pi * torch.tensor(positions, dtype=torch.float64) / 20
    return sharpness * torch.stack([angle.sin(), angle.cos()], dim=-1)


def test_a_shared_direction_is_two_heads_half_way_and_the_rest_on_their_bits():
    task = Parity(20, (5, 16, 17))
    heads = at([[5, 16.5, 16.55], [16.5, 16.5, 5], [5, 16, 17], [16.5, 16.5, 16.5], [5, 16.5, 16.7], [9, 16.5, 16.5]])
    run = Run((task,), RECIPES["figure2-signed"], tuple(range(6)), heads.unsqueeze(0), torch.zeros(1, 6))
    assert shares_direction(run).tolist() == [True, True, False, False, False, False]
    around = Parity(20, (1, 10, 20))
    wrapped = Run((around,), RECIPES["figure2-signed"], (0,), at([[10, 20.5, 0.5]]).unsqueeze(0), torch.zeros(1, 1))
    assert shares_direction(wrapped).tolist() == [True]


def test_heads_that_split_a_pair_are_found_by_attention_and_may_point_off_the_middle():
    task = Parity(20, (5, 16, 17))
    heads = at([[5, 16.5, 16.7], [16.5, 16.5, 5], [5, 16, 17], [16.5, 16.5, 16.5]]) / 20
    run = Run((task,), RECIPES["figure2-signed"], tuple(range(4)), heads.unsqueeze(0), torch.zeros(1, 4))
    wanted = [[False, True, True], [True, True, False], [False] * 3, [False] * 3]
    assert splits_pair(run).tolist() == wanted
    assert offset_from_middle(run)[0].tolist() == pytest.approx([8.5, 0, 0.2])
    room = room_for_offset(run)[0, 1]  # at the edge of what is admitted, the two shares are as 0.7 to 0.3
    edge = soft_attention(at([[16.5 + float(room)]]) * float(heads[0, 1].norm() / at([[16.5]]).norm()), 20, 1.0)[0, 0]
    assert float(edge[16] / edge[15]) == pytest.approx(7 / 3)


def ended(positions: list[list[float]], bits: tuple[int, ...], recipe: str = "figure2", rate: float = 0.08) -> Run:
    """A run of three epochs on 20 positions whose heads end, sharp, at these positions."""
    settings = replace(RECIPES[recipe], learning_rate=rate, epochs=2)
    heads = torch.stack([at([[1.0] * 3] * len(positions)), at(positions, 20), at(positions, 200)])
    risk = torch.arange(3.0).unsqueeze(1).expand(3, len(positions))
    return Run((Parity(20, bits),), settings, tuple(range(10, 10 + len(positions))), heads, risk)


LEFT = ended([[8, 11, 18], [11, 8, 18], [8, 8, 11], [1, 2, 3]], (8, 11, 18))
RIGHT = ended([[5, 16.49, 16.51], [5, 16.49, 16.48], [5, 16, 17], [16.5, 16.5, 16.5]], (5, 16, 17))


def test_a_row_for_every_seed_says_how_it_ended():
    frame = figure2.outcomes({"left": [LEFT], "right": [RIGHT]})
    assert frame["seed"].tolist() == [10, 11, 12, 13] * 2
    left, right = frame[frame["panel"] == "left"], frame[frame["panel"] == "right"]
    assert (
        left["pictured"].tolist() == left["committed"].tolist() == left["read"].tolist() == [True, True, False, False]
    )
    assert right["pictured"].tolist() == right["shared"].tolist() == [True, True, False, False]
    assert right["recovered"].tolist() == [True, False, True, False]
    assert right["read"].tolist() == [True, True, True, False]
    assert (frame["start"] == 0).all() and (frame["risk"] == 2).all()


def test_the_best_rate_is_the_one_with_most_success_and_the_first_of_equals():
    slow, fast = (ended([[8, 11, 18], [1, 2, 3]], (8, 11, 18), "theory", rate) for rate in (0.1, 1.0))
    good = ended([[8, 11, 18]] * 2, (8, 11, 18), "theory", 0.5)
    best = figure2.at_best_rate(figure2.outcomes({"left": [slow, good, fast]}))
    assert set(best["rate"]) == {0.5} and len(best) == 2
    assert set(figure2.at_best_rate(figure2.outcomes({"left": [slow, fast]}))["rate"]) == {0.1}
    assert str(figure2.share(figure2.outcomes({"left": [slow, good]}), "left", "theory")).startswith("2 of 2")


def test_the_table_counts_every_criterion():
    table = figure2.success_table(figure2.outcomes({"left": [LEFT], "right": [RIGHT]}))
    assert table.iloc[0].tolist() == ["the authors' code", 0.08, "2 of 4", "2 of 4", "2 of 4", "1 of 4", "2 of 4"]


def test_the_example_is_the_first_run_that_ended_as_pictured_or_the_first_of_all():
    runs = {"left": [LEFT], "right": [ended([[1, 2, 3], [5, 16.5, 16.5]], (5, 16, 17))]}
    frame = figure2.outcomes(runs)
    assert figure2.example(runs, frame, "left")[1] == 10 and figure2.example(runs, frame, "right")[1] == 11
    nothing = {"left": [ended([[1, 2, 3]] * 2, (8, 11, 18))]}
    assert figure2.example(nothing, figure2.outcomes(nothing), "left")[1] == 10


def test_the_course_holds_the_attention_the_model_used():
    frame = figure2.course(LEFT, 11, "left")
    assert len(frame) == 3 * 3 * 20 and set(frame["seed"]) == {11}
    table = frame.query("head == 2").pivot(index="epoch", columns="position", values="attention")
    assert np.array_equal(table.to_numpy(), LEFT.attention[:, 1, 1].numpy())
    assert sorted(frame.loc[frame["bit"], "position"].unique()) == [8, 11, 18]
    turned = figure2.circle(LEFT, 11)
    last = turned.query("epoch == 2").groupby("head")["turn"].first()
    assert last.tolist() == pytest.approx([11 / 20, 8 / 20, 18 / 20])


def test_half_way_has_a_row_for_each_run_whose_heads_share_the_pair():
    shared = ended([[5, 16.49, 16.51], [5, 16.49, 16.48], [5, 16, 17]], (5, 16, 17))
    frame = figure2.half_way([shared])
    assert frame["seed"].tolist() == [10, 11]
    assert frame["first"].tolist() == pytest.approx([-0.01, -0.01])
    assert frame["second"].tolist() == pytest.approx([0.01, -0.02])
    assert frame["recovered"].tolist() == [True, False]
    assert figure2.largest_offset(frame) == pytest.approx(0.02)
    assert figure2.largest_offset(frame.head(0)) == 0


def test_the_recipes_share_a_budget_and_the_theorem_has_one_for_every_rate():
    chosen = figure2.compared([0.1, 1.0], 500, 2, 7)
    assert [(r.name, r.learning_rate) for r in chosen[:2]] == [("theory", 0.1), ("theory", 1.0)]
    assert set(figure2.NAMES) == {r.name for r in chosen} and {r.updates for r in chosen} == {14}
    assert next(r for r in chosen if r.name == "later-code").batch == 500


def test_every_recipe_is_trained_on_both_panels_with_its_own_number_of_starts():
    tasks = figure2.both_tasks(8, [2, 5], [3, 4])
    runs = figure2.train_all(tasks, figure2.compared([0.1], 50, 2, 2), 3, 2, [4, 1], "cpu")
    for panel, later in (("left", 4), ("right", 1)):
        counts = {run.recipe.name: len(run.seeds) for run in runs[panel]}
        assert counts == {"theory": 3, "later-code": later, "figure2": 2, "figure2-population": 3, "figure2-signed": 3}
    with pytest.raises(ValueError, match=r"a number for each of 2 panels, got \[1\]"):
        figure2.train_all(tasks, [], 3, 2, [1], "cpu")
    assert figure2.at_equal_smoothing(runs, "cpu").trials == 3
    with pytest.raises(ValueError, match=r"exactly one pair of neighbours, got \[3, 6\]"):
        figure2.both_tasks(8, [2, 5], [3, 6])


def counted(panel: str, **success: dict[str, int]) -> pd.DataFrame:
    """Outcomes of 48 runs a recipe, so many of which succeed by each criterion."""
    parts = []
    for recipe, found in success.items():
        columns = {name: np.arange(48) < found.get(name, 0) for name in ("pictured", "recovered", "read")}
        parts.append(pd.DataFrame({"panel": panel, "recipe": recipe.replace("_", "-"), "rate": 0.1, **columns}))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize(("code", "verdict"), [(35, "holds"), (10, "fails"), (26, "open")])
def test_the_pictures_are_judged_by_the_authors_code(code, verdict):
    frame = counted("left", theory={}, figure2={"pictured": code}, figure2_signed={"pictured": 47})
    found = figure2.judge_fig2(frame, "left")
    assert found.as_stated == verdict and found.kind == "measured"
    assert found.numbers["the theorem's recipe"].successes == 0
    instead = "with the code's loss, exact gradients and labels ±1"
    assert found.instead == ("" if verdict == "holds" else instead)


@pytest.mark.parametrize(
    ("code", "exact", "verdict"),
    [(1, 42, "narrower range"), (1, 2, "holds"), (40, 42, "fails"), (24, 42, "open"), (1, 24, "open")],
)
def test_hard_reading_is_judged_with_minibatches_and_with_exact_gradients(code, exact, verdict):
    frame = counted("right", figure2={"recovered": code}, figure2_signed={"recovered": exact})
    found = figure2.judge_hard_reading(frame)
    assert found.as_stated == verdict and bool(found.instead) == (verdict == "narrower range")


@pytest.mark.parametrize(("left", "right", "verdict"), [(40, 38, "holds"), (40, 8, "fails"), (40, 26, "open")])
def test_scores_are_high_on_the_bits_if_they_are_in_both_panels(left, right, verdict):
    frame = pd.concat(
        [counted("left", theory={}, figure2={"read": left}), counted("right", theory={}, figure2={"read": right})]
    )
    found = figure2.judge_scores(frame.reset_index(drop=True))
    assert found.as_stated == verdict and found.numbers["right"].successes == right


def test_verdicts_follow_the_ends_of_the_interval():
    assert judge(wilson(64, 64), {"changed": wilson(64, 64)}).as_stated == "holds"
    assert judge(wilson(3, 64), {"changed": wilson(9, 64)}).as_stated == "fails"
    assert judge(wilson(32, 64), {}).as_stated == "open"  # the interval holds the threshold
    assert judge(wilson(1, 2), {}).as_stated == "open"  # too few trials to say


def test_what_holds_instead_names_every_setting_that_passes():
    passing = {"near": wilson(50, 64), "nearer": wilson(45, 64), "no": wilson(1, 64), "best": wilson(64, 64)}
    found = judge(wilson(0, 64), passing)
    assert str(found) == "fails: with near, nearer or best" and found.kind == "measured"
    assert found.numbers == {"as stated": wilson(0, 64), **passing}
    assert judge(wilson(64, 64), passing).instead == ""
    assert judge(wilson(0, 64), {"weak": wilson(36, 64)}).instead == ""

"""The race of models, Proposition 4, and the verdicts of the chapter on efficiency, outcome by outcome."""

from itertools import combinations

import pandas as pd
import pytest
import torch

from parity_lib import FFNN1, EnumeratedRisk, Parity, zigzag
from parity_lib.chapters import efficiency as chapter
from parity_lib.chapters.efficiency import PLAIN, PRODUCT, ZIGZAG
from parity_lib.chapters.networks import uniform_start
from parity_lib.chapters.networks_reference import predictions, read_weights
from parity_lib.losses import find_loss
from parity_lib.training import initial_directions


def runs(model, k, n, learned, trials=20, width=0, rate=0.1, updates=100):
    """``learned`` of ``trials`` runs of a model pass after ``updates``."""
    done = [updates] * learned + [0] * (trials - learned)
    rows = {"seed": range(trials), "updates": done, "learned": [step > 0 for step in done]}
    return pd.DataFrame({"model": model, "k": k, "n": n, "width": width, "numbers": 2 * k, "rate": rate, **rows})


def everything(zigzag, product):
    """A race with two lengths: how many of 20 zigzag heads, and product heads, learn at each."""
    parts = [runs(PLAIN, 2, n, 20, width=4) for n in (10, 20)]
    parts += [runs(ZIGZAG, 2, n, count) for n, count in zip((10, 20), zigzag, strict=True)]
    return pd.concat(parts + [runs(PRODUCT, 2, n, count) for n, count in zip((10, 20), product, strict=True)])


def test_the_race_has_a_row_for_every_model_width_rate_and_seed():
    frame = chapter.raced([2], [6], [ZIGZAG, PRODUCT], 3, 50, 32, [0.02, 0.05], [0, 1], [2, 4])
    assert len(frame) == 3 * 2 * (2 + 2)
    numbers = frame.groupby("model")["numbers"].unique().map(list).to_dict()
    assert numbers == {PLAIN: [17, 33], ZIGZAG: [4], PRODUCT: [4]}
    assert (frame["learned"] == (frame["updates"] > 0)).all() and frame["updates"].max() <= 50


def test_the_best_rate_has_most_successes_and_then_fewest_updates():
    frame = pd.concat([runs(ZIGZAG, 2, 10, 18, rate=0.1, updates=900), runs(ZIGZAG, 2, 10, 17, rate=0.2, updates=100),
                       runs(ZIGZAG, 2, 20, 20, rate=0.1, updates=900), runs(ZIGZAG, 2, 20, 20, rate=0.2)])  # fmt: skip
    best = chapter.at_best_rate(frame)
    assert best.groupby("n")["rate"].unique().map(list).to_dict() == {10: [0.1], 20: [0.2]}
    assert len(best) == 40


def test_the_smallest_width_is_the_first_that_surely_passes():
    counts = {1: 4, 2: 11, 3: 17, 4: 9, 5: 18}
    frame = pd.concat([runs(PLAIN, 2, 10, learned, width=width) for width, learned in counts.items()])
    assert chapter.smallest_networks(frame).iloc[0].to_dict() == {"k": 2, "n": 10, "width": 3}
    assert chapter.smallest_networks(runs(PLAIN, 2, 10, 0, width=1))["width"].tolist() == [-1]


def test_networks_enter_the_comparison_with_the_smallest_width_that_learns_everywhere():
    frame = everything((20, 3), (20, 20))
    narrow = pd.concat([runs(PLAIN, 2, 10, 20, width=2), runs(PLAIN, 2, 20, 3, width=2)])
    chosen = chapter.contenders(pd.concat([frame, narrow]))
    assert set(chosen.loc[chosen["model"] == PLAIN, "width"]) == {4}
    never = chapter.contenders(pd.concat([runs(PLAIN, 2, 10, 1, width=w) for w in (2, 8)]))
    assert set(never["width"]) == {8}
    assert chapter.first_failure(frame) == (2, 20)
    assert chapter.first_failure(everything((3, 20), (20, 20))) == (2, 10)
    assert chapter.first_failure(everything((20, 20), (20, 20))) == (2, 20)
    table = chapter.success_table(frame)
    assert table[f"{ZIGZAG}: learned"].iloc[0].startswith("20 of 20")
    assert table[f"{ZIGZAG}: updates"].tolist() == ["100", "100"]


def test_efficiency_holds_where_the_papers_heads_learn_everywhere():
    found = chapter.judge_efficiency(everything((20, 18), (20, 20)), 1e-14)
    assert found.as_stated == "holds" and "at every (k, n) tried" in found.instead and "of edges" in found.instead


def test_efficiency_has_a_narrower_range_where_they_learn_somewhere_and_names_it():
    found = chapter.judge_efficiency(everything((20, 3), (20, 2)), 1.0)
    assert found.as_stated == "narrower range" and "zigzag at k = 2, n = 10;" in found.instead
    assert "at 1 of 2 (k, n) tried" in found.instead and "of edges" not in found.instead
    assert str(found.numbers[f"{ZIGZAG}, k=2, n=20"]).startswith("3 of 20")


def test_efficiency_fails_where_they_learn_nowhere_and_is_open_where_the_intervals_do_not_say():
    assert chapter.judge_efficiency(everything((3, 3), (20, 20)), 0.0).as_stated == "fails"
    assert chapter.judge_efficiency(everything((3, 10), (20, 20)), 0.0).as_stated == "open"


def test_the_tied_network_differs_from_the_transformer_by_rounding_alone():
    assert chapter.tied_difference([2, 3], draws=3) < 1e-12


def test_the_exact_risk_of_the_tied_network_is_the_risk_of_the_heads():
    task, heads = Parity(8, (1, 4)), initial_directions([2], 2)
    x = task.cube()
    weights = read_weights(heads.flatten(1), 8, 2, "softmax")[0, 0]
    mean = find_loss("squared_hinge")(task.labels(x), zigzag(x @ weights, 2, 1e-2)).mean()
    assert float(EnumeratedRisk(task, "squared_hinge", 1.0)(heads)[0]) == pytest.approx(float(mean), abs=1e-12)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_a_missing_edge_gives_the_stated_risk_and_never_less_than_one(scale):
    n, hidden = 7, 3
    network = FFNN1(n, 5, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        network.beta[:, hidden - 1] = 0
        network.alpha.mul_(scale)
    x = Parity(n, (hidden,)).cube()
    found = network(x).detach()
    for others in combinations([j for j in range(1, n + 1) if j != hidden], 2):
        task = Parity(n, (hidden, *others))
        risk = find_loss("squared_hinge")(task.labels(x), found).mean()
        assert float(risk) == pytest.approx(float(chapter.missing_edge_risk(found)), abs=1e-12)
        assert risk > 1
    assert float(chapter.missing_edge_risk(torch.zeros(4))) == 1


def test_an_edge_that_is_taken_away_has_no_weight_left():
    theta, x = torch.from_numpy(uniform_start(6, 4, [0, 1])), Parity(6, (1,)).cube()
    cut = theta.clone()
    cut[:, :24].view(2, 4, 6)[:, :, 0] = 0
    assert torch.equal(chapter.without_edge(theta, x, 4), predictions(cut, 1 - 2 * x.T, 4))


def test_training_without_an_edge_brings_the_risk_to_one_from_above():
    frame = chapter.missing_edges(6, 5, 3, 120)
    trained = frame[frame["kind"] == "trained"]
    assert (trained["mean"] > 1 - 1e-12).all()
    by_update = trained.groupby("update")["mean"].median()
    assert by_update.iloc[-1] < by_update.iloc[0]
    found = chapter.judge_missing_edge(frame)
    assert found.as_stated == "misprint" and found.numbers["gap"] < 1e-12 and found.numbers["networks"] == 8


@pytest.mark.parametrize(
    "least, largest, formula, verdict",
    [(1.0, 1.0, 1.0, "holds"), (1.2, 1.2, 1.2, "misprint"), (0.9, 1.2, 1.2, "fails"), (1.2, 1.3, 1.2, "fails")],
)
def test_the_verdict_on_the_missing_edge_follows_the_risks(least, largest, formula, verdict):
    frame = pd.DataFrame({"least": [least], "largest": [largest], "formula": [formula]})
    assert chapter.judge_missing_edge(frame).as_stated == verdict


def test_the_exact_solvers_are_always_right_from_few_examples():
    frame = chapter.solved_exactly([2], [10, 12], 3)
    assert frame["right"].all() and len(frame) == 12
    elimination = frame[frame["solver"] == "elimination"]
    assert (elimination["examples"] >= elimination["n"] + 10).all()

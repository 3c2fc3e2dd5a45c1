"""One run: the setting of the live page as a recipe, and the forces on its heads."""

import pytest
import torch

from parity_lib import Parity, train
from parity_lib.chapters import one_run
from parity_lib.training import risk_of


def run_of(loss, **changes):
    given = {"smoothing": 0.01, "temperature": 0.5, "code": "circle", "optimiser": "adam", "rate": 0.1, "updates": 4}
    return train(Parity(8, (2, 6)), one_run.setting(loss, **given | changes), [3], progress=False)


def test_a_setting_is_the_recipe_of_the_live_page():
    recipe = one_run.setting("repaired", 0.2, 0.3, "powers", "gd", 0.07, 61)
    assert (recipe.head, recipe.loss, recipe.code, recipe.optimiser) == ("sampled", "log", "powers", "gd")
    assert (recipe.smoothing, recipe.temperature, recipe.learning_rate) == (0.2, 0.3, 0.07)
    assert 61 <= recipe.updates < 61 + recipe.updates_per_epoch and recipe.epochs <= 30


@pytest.mark.parametrize("loss", ["squared_hinge", "sigmoid_hinge", "repaired"])
def test_the_net_force_is_the_gradient_of_the_exact_risk(loss):
    run = run_of(loss)
    found = one_run.forces(run)
    _, gradient = risk_of(run.tasks, run.recipe).value_and_gradient(run.directions[:, 0])
    net = "parity signal" if loss == "repaired" else "net force"
    table = found[found["force"] == net].pivot(index="update", columns="head", values="norm")
    assert table.to_numpy() == pytest.approx(gradient.norm(dim=-1).numpy())
    blind = found[found["force"] == "label-free force"]["norm"]
    assert (len(blind) == 0) == (loss == "repaired")
    assert (blind > 0).any() == (loss == "squared_hinge")


def test_the_risk_and_the_ends_are_those_of_the_run():
    run = run_of("sigmoid_hinge")
    assert one_run.risks(run)["update"].tolist() == [0, 1, 2, 3, 4]
    assert torch.equal(torch.tensor(one_run.risks(run)["risk"]), run.risk[:, 0])
    assert [one_run.risks(run_of(loss)).attrs["what"] for loss in ("linear", "repaired")] == ["risk", one_run.PERMANENT]
    ends = one_run.ends(run)
    assert ends["attention"].tolist() == run.attention[-1, 0].amax(-1).tolist()
    assert ends["position"].tolist() == (run.attention[-1, 0].argmax(-1) + 1).tolist()


def test_the_outcome_says_what_became_of_the_bits():
    run = run_of("repaired", updates=600, rate=0.3, temperature=1.0)
    assert one_run.outcome(run).startswith("In 600 updates the -log of the permanent goes ")
    assert one_run.outcome(run_of("sigmoid_hinge")).startswith("In 4 updates the risk goes ")
    assert one_run.outcome(run).endswith("the bits 2, 6 are found.")
    assert one_run.outcome(run_of("sigmoid_hinge", temperature=100.0)).split(" are ")[1].startswith(("found", "not"))

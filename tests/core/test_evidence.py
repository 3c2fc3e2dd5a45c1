import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parity_lib import record, wilson
from parity_lib.evidence import Verdict, decide, judge, verdict_list


@given(st.integers(1, 500), st.data())
def test_wilson_is_the_closed_form(trials, data):
    successes = data.draw(st.integers(0, trials))
    z = 1.959963984540054
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials**2))
    rate = wilson(successes, trials)
    assert rate.low == pytest.approx(max(0, centre - half), abs=1e-9)
    assert rate.high == pytest.approx(min(1, centre + half), abs=1e-9)


def test_rates_print_as_k_of_n_with_the_interval():
    assert str(wilson(44, 64)) == "44 of 64 [57%, 79%]"


@pytest.mark.parametrize(("successes", "trials"), [(1, 0), (-1, 3), (4, 3)])
def test_impossible_counts_are_refused(successes, trials):
    with pytest.raises(ValueError, match="need 0 <= successes <= trials"):
        wilson(successes, trials)


def test_verdicts_follow_the_lower_end_of_the_interval():
    assert judge(wilson(64, 64), {}, {}).verdict == "holds"
    assert judge(wilson(3, 64), {"changed": wilson(9, 64)}, {}).verdict == "fails"
    assert judge(wilson(0, 64), {"changed": wilson(5, 6)}, {}).verdict == "not tested"  # too few trials to say
    found = judge(wilson(0, 64), {"weak": wilson(36, 64), "strong": wilson(63, 64)}, {"n": 1})
    assert str(found) == "holds with a change (with strong)" and found.numbers == {"n": 1}


def test_the_change_names_every_recipe_that_passes():
    passing = {"near": wilson(50, 64), "nearer": wilson(45, 64), "no": wilson(1, 64), "best": wilson(64, 64)}
    assert judge(wilson(0, 64), passing, {}).change == "with near, nearer or best"


def test_a_change_must_be_named():
    assert decide(False, {}, change="a minus sign").change == "a minus sign"
    assert decide(False, {}, otherwise="vacuous here").verdict == "vacuous here"
    with pytest.raises(ValueError, match="must name the change"):
        Verdict("holds with a change", {})
    with pytest.raises(ValueError, match="unknown verdict 'true'"):
        Verdict("true", {})


def test_the_list_of_verdicts_quotes_the_claims():
    assert verdict_list({"lemma-17": Verdict("fails", {})}).startswith(
        "- `lemma-17`: **fails**. The gradients of any two"
    )


def test_results_are_written_whole_and_the_same_every_time(tmp_path, monkeypatch):
    monkeypatch.setenv("PARITY_OUT", str(tmp_path))
    for _ in range(2):
        record(
            "toy",
            parameters={"n": 4, "bits": (1, 2)},
            numbers={"risk": torch.tensor([0.5, 0.25]), "rate": wilson(1, 2), "by_k": {2: 0.5}},
            verdicts={"expr-ffnn": Verdict("holds", {"risk": 0.0})},
        )
        first = (tmp_path / "toy.json").read_bytes()
    assert first == (tmp_path / "toy.json").read_bytes()
    content = json.loads(first)
    assert content["parameters"] == {"n": 4, "bits": [1, 2]}
    assert content["numbers"]["risk"] == [0.5, 0.25]
    assert content["numbers"]["rate"]["successes"] == 1
    assert content["claims"] == {"expr-ffnn": {"verdict": "holds", "numbers": {"risk": 0.0}, "change": ""}}
    assert [path.name for path in tmp_path.iterdir()] == ["toy.json"]


def test_without_a_runner_results_go_to_a_folder_beside_the_work(tmp_path, monkeypatch):
    monkeypatch.delenv("PARITY_OUT", raising=False)
    monkeypatch.chdir(tmp_path)
    record("toy", {}, {}, {})
    assert (tmp_path / "results" / "toy.json").exists()


@pytest.mark.parametrize(
    ("numbers", "verdicts", "sentence"),
    [
        ({}, {"no-such": Verdict("holds", {})}, "unknown claim 'no-such'"),
        ({"risk": math.nan}, {}, "results must be finite numbers"),
        ({"risk": [1.0, math.inf]}, {}, "results must be finite numbers"),
    ],
)
def test_bad_results_write_nothing(tmp_path, monkeypatch, numbers, verdicts, sentence):
    monkeypatch.setenv("PARITY_OUT", str(tmp_path))
    with pytest.raises(ValueError, match=sentence):
        record("toy", {}, numbers, verdicts)
    assert not list(tmp_path.iterdir())

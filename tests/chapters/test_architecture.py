"""The model and what it expresses: the frames, the proposition on the smoothed ReLU, and the verdicts."""

import math

import pandas as pd
import pytest
import torch

from parity_lib import Parity, literal_prediction, zigzag
from parity_lib.attention import aligned_directions, head_matrices
from parity_lib.chapters import architecture
from parity_lib.chapters.architecture import distinct_parameters, network_reading
from parity_lib.risk import aligned_hard_risk

TASK, X = Parity(7, (2, 4, 7)), [1, 1, 0, 1, 0, 0, 1]


def test_the_walk_is_the_literal_model():
    walk = architecture.walk(TASK, X, 0.3, 0.1)
    assert len(walk) == 3 * 7 and walk["label"].unique().tolist() == [-1]
    matrices = head_matrices(aligned_directions(TASK.bits, 7))
    literal = literal_prediction(torch.tensor([X], dtype=torch.float64), matrices, 3, 0.3, 0.1)
    assert walk["prediction"].unique() == pytest.approx([literal.item()])
    assert walk.groupby("head")["attention"].sum().tolist() == pytest.approx([1, 1, 1])
    assert walk.loc[walk["bit"], "position"].unique().tolist() == [2, 4, 7]
    with pytest.raises(ValueError, match="x must be 7 bits, got 6"):
        architecture.walk(TASK, X[:6], 0.3, 0.1)


def test_the_zigzag_passes_through_the_labels_at_whole_sums():
    curve = architecture.zigzags(4, (0.0,)).set_index("sum")["prediction"]
    assert [curve[s] for s in range(5)] == [1, -1, 1, -1, 1]
    assert curve.abs().max() == 7  # 2k - 1


def test_proposition_3_has_no_error_and_the_stated_sizes():
    checked = architecture.proposition_3(6, 3, 2)
    table = architecture.largest(checked)
    assert table["network: parameters"].tolist() == [4, 6, 8]
    assert table["transformer: parameters"].tolist() == [20, 38, 56]
    assert checked["risk"].max() == 0


def test_soft_heads_of_unit_norm_miss_the_target_at_temperature_one_over_n():
    found = architecture.warmest([8, 16, 32])
    assert (found["risk"] > 1).all()
    assert architecture.sharpening_exponent(found) == pytest.approx(2, abs=0.1)
    n, edge = 16, found.set_index("n")["temperature"][16]
    assert architecture.soft_risk(n, 0.99 * edge, 1e-4) < 0.01 <= architecture.soft_risk(n, 1.01 * edge, 1e-4)


@pytest.mark.parametrize("k", range(1, 9))
@pytest.mark.parametrize("b", [1e-8, 1e-3, 0.3, 2.0, 50.0, 1e4])
def test_eq_2_falls_short_of_the_label_for_every_smoothing_as_the_proof_says(k, b):
    def e(t):
        return b / (2 * (math.sqrt(t * t + b) + t))  # (sqrt(t^2 + b) - t) / 2 without a difference

    t = [q - 0.5 for q in range(1, k + 1)]
    sign = [(-1) ** q for q in range(k)]
    if k % 2:
        short = 8 * sum(s * x * e(x) for s, x in zip(sign, t, strict=True))
    else:
        short = 8 * sum(s * e(x) for s, x in zip(sign[:-1], t, strict=False))
        short += 8 * sum(s * x * e(x) for s, x in zip(sign[1:-1], t[1:], strict=False))
    assert short > 0
    assert architecture.shortfall(k, b) == pytest.approx(short, rel=1e-6, abs=1e-12)
    assert aligned_hard_risk(k, b) > 0


def test_the_risk_of_other_data_is_that_of_the_examples():
    found = architecture.other_data(5, 0.1).set_index("case")["risk"]
    assert found.tolist() == pytest.approx([0, 0, 0.4, 0.36], abs=1e-12)


def checked(network=0.0, transformer=0.0, parameters=4):
    rows = [(1, "network", parameters, network), (1, "transformer", 20, transformer)]
    return pd.DataFrame(rows, columns=["k", "model", "parameters", "risk"])


def warm(power, risk):
    return pd.DataFrame({"n": [8, 16, 32], "temperature": [n**-power for n in (8.0, 16.0, 32.0)], "risk": risk})


@pytest.mark.parametrize(
    ("found", "verdict"), [(checked(), "holds"), (checked(1e-3), "fails"), (checked(0, 0, 5), "fails")]
)
def test_the_network_is_judged_by_its_risk_and_size(found, verdict):
    assert architecture.judge_network(found).as_stated == verdict


@pytest.mark.parametrize(
    ("transformer", "risk", "verdict"), [(0.0, 0.001, "holds"), (0.0, 2.0, "narrower range"), (0.1, 2.0, "fails")]
)
def test_the_transformer_is_judged_with_soft_and_with_hard_attention(transformer, risk, verdict):
    assert architecture.judge_transformer(checked(0, transformer), warm(2, risk)).as_stated == verdict


@pytest.mark.parametrize(
    ("transformer", "power", "verdict"), [(0.0, 1.0, "holds"), (0.0, 2.0, "narrower range"), (0.1, 1.0, "fails")]
)
def test_two_dimensions_are_judged_by_how_sharp_heads_must_be(transformer, power, verdict):
    assert architecture.judge_dimension(checked(0, transformer), warm(power, 1.0)).as_stated == verdict


def test_smoothing_and_other_data_are_refuted_by_the_proofs_and_open_without_them():
    smoothed = architecture.smoothed_risks(3, [0.01, 1.0])
    assert architecture.judge_smoothing(smoothed).as_stated == "fails"
    assert architecture.judge_smoothing(smoothed.assign(miss=0.0)).as_stated == "open"
    other = architecture.other_data(4, 0.2)
    assert architecture.judge_other_data(other).as_stated == "fails"
    assert architecture.judge_other_data(other.assign(risk=[0.0, 1.0, 0.8, 0.64])).as_stated == "open"


def test_uniform_inputs_hide_the_bits_and_those_of_daniely_and_malach_show_them():
    """E[y x_j] is one half for a bit of B under their law with odd k: half of the time the label is that bit."""
    found = architecture.correlations(7, 3)
    theirs = found[found["law"] == "Daniely and Malach"].set_index("in B")
    assert abs(theirs.loc[True, "single"] - 0.5) < 1e-12 and theirs.loc[False, "single"] < 1e-12
    assert found[found["law"] == "uniform"]["fewer"].max() < 1e-12
    assert architecture.judge_harder(found).as_stated == "holds"
    assert architecture.judge_harder(found.assign(fewer=0.1)).as_stated == "fails"
    assert architecture.judge_harder(found.assign(single=0.0)).as_stated == "open"


@pytest.mark.parametrize("k", range(1, 6))
def test_proposition_3_network_expresses_parity_with_2k_plus_2_distinct_parameters(k):
    task = Parity.random(8, k, torch.Generator().manual_seed(k))
    network = network_reading(8, task.bits, 1, k)
    x = task.cube()
    assert torch.equal(network(x), task.labels(x).double())
    assert distinct_parameters(network) == 2 * k + 2
    assert network.beta.shape == (k, 8)


@pytest.mark.parametrize("k", range(1, 6))
def test_the_frozen_head_is_the_zigzag_with_as_many_distinct_parameters(k):
    pooled = torch.rand(20, 4, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
    head = network_reading(4, [1], k, k, 0.1)
    assert torch.allclose(head(pooled), zigzag(k * pooled[:, 0], k, 0.1), atol=1e-12)
    assert distinct_parameters(head) == 2 * k + 2


def test_of_one_length_there_is_no_exponent_and_the_dimension_stays_open():
    checked = pd.DataFrame({"model": ["transformer"], "risk": [0.0]})
    alone = pd.DataFrame({"n": [8], "temperature": [0.05], "risk": [2.0]})
    assert math.isnan(architecture.sharpening_exponent(alone))
    assert architecture.judge_dimension(checked, alone).as_stated == "open"

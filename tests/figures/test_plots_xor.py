"""The figures of the chapter ``xor`` draw from small frames and say what they show."""

import matplotlib

matplotlib.use("agg")

import math

import pandas as pd
import pytest

from parity_lib.chapters import store
from parity_lib.chapters import xor_arms as lab
from parity_lib.chapters import xor_theorem as theorem
from parity_lib.figures import xor as figures
from parity_lib.figures.style import plt, use_style


def needed():
    frame = lab.samples_needed([32, 64], ["characters", "one_hot"], 2, 3.0, checkpoints=6)
    return frame.assign(proved=1.3 * frame.law)


def bounds():
    return theorem.against_bound(theorem.all_pairs([16, 32, 64, 128, 256], [4.0, 8.0], 20))


FIGURES = {
    "one_step": (lambda: figures.one_step(bounds()), ["input length d", "input length d"]),
    "widths": (lambda: figures.widths(theorem.least_widths([32, 64, 128, 256], 4.0, 2)), ["input length d"]),
    "window": (
        lambda: figures.window(lab.step_window([32, 64], ["characters", "signs"], [1.0, 2.0, 4.0, 8.0], 2)),
        ["strength of the step / ln d"] * 2,
    ),
    "random_start": (
        lambda: figures.random_start(lab.random_start([16, 32], ["product"], [0.1, 0.5], [30.0, 300.0], 2)),
        ["spread of the start's scores"] * 2,
    ),
    "attention_maps": (lambda: figures.attention_maps(lab.attention_maps([16], [1.0, 4.0], 2, 100)), ["", ""]),
    "samples": (lambda: figures.samples(needed()), ["input length d", "samples / law"]),
    "networks": (
        lambda: figures.networks(lab.train_networks(32, [40, 64, 128, 256], 3, 2), 30),
        ["trained numbers (d = 32)"],
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_draws_with_its_labels_and_a_title(name, monkeypatch):
    monkeypatch.setattr(store, "enabled", False)
    use_style()
    draw, labels = FIGURES[name]
    fig = draw()
    fig.canvas.draw()
    assert [ax.get_xlabel() for ax in fig.axes] == labels
    titles = [ax.get_title(loc="left") for ax in fig.axes] + [fig.get_suptitle()]
    assert any(titles)
    plt.close("all")


def test_streams_that_never_solve_count_against_an_arm():
    """An arm that is solved in one of two streams ends at 50 %, not at 100 %."""
    law, rows = theorem.sample_law(32, 25), []
    for seed, arm, solved in ((0, "two heads", 1.0), (1, "two heads", math.inf), (0, "one head", 2.0)):
        rows.append((32, 25, "characters", seed, arm, law, 0.5 * law, solved * law, law))
    columns = ["d", "m", "embedding", "seed", "arm", "law", "recovered", "solved", "proved"]
    for seed, arm in ((0, "even split"), (0, "even split, quadratic")):
        rows.append((32, 25, "characters", seed, arm, law, 0.5 * law, math.inf, law))
    fig = figures.samples(pd.DataFrame(rows, columns=columns))
    lines = fig.axes[1].get_lines()
    inside = [y for x, y in zip(*lines[0].get_data(), strict=True) if x <= 2.1]
    assert max(inside) == pytest.approx(50)
    plt.close("all")


def test_the_limit_of_the_widths_is_a_dotted_line_that_looks_dotted():
    use_style()
    rows = [(d, 9, 4.0, source) for source in ("closed form", "sharp", "measured") for d in (32, 64, 128)]
    least = pd.DataFrame(rows, columns=["d", "m", "multiple", "source"])
    (limit,) = [line for line in figures.widths(least).axes[0].get_lines() if line.get_linestyle() == ":"]
    assert limit.get_linewidth() >= 1.5
    plt.close("all")


@pytest.mark.parametrize(("softmax", "title"), [(0.0, "Only softmax is near 0 in every setting"),
                                                (2.0, "Loss of the worst input, by map")])  # fmt: skip
def test_the_title_of_the_maps_follows_the_frame(softmax, title):
    use_style()
    rows = [(16, name, *setting, rescaled, softmax if name == "softmax" else 2.0) for name in figures.MAPS
            for setting in figures.SETTINGS for rescaled in (False, True)]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["d", "map", "loss", "embedding", "rescaled", "worst"])
    assert figures.attention_maps(frame).get_suptitle() == title
    plt.close("all")


def test_one_length_and_one_strength_are_drawn_and_titles_claim_only_what_is_shown():
    use_style()
    left, right = figures.one_step(bounds().query("d == 64 and factor == 4")).axes
    assert [text.get_text() for text in left.texts] == ["proved", "measured"]
    assert right.get_title(loc="left") == "All pairs at once"
    wide = pd.DataFrame({"d": [64], "m": [60], "multiple": [10.0], "source": ["measured"]})
    assert figures.widths(wide).axes[0].get_title(loc="left") == "Dimensions that are enough"
    lengths = [2**r for r in range(3, 11)]  # more than there are colours
    steps = pd.DataFrame([(d, name, factor, 1.0 / factor) for d in lengths for name in ("characters", "signs")
                          for factor in (1.0, 2.0)], columns=["d", "embedding", "factor", "worst"])  # fmt: skip
    left, right = figures.window(steps).axes[:2]
    assert len(right.get_legend().get_texts()) == len(lengths)
    assert [ax.get_title(loc="left") for ax in (left, right)] == ["Zero mean", "Random signs"]
    large = steps.assign(worst=steps["worst"].where(steps["embedding"] == "characters", steps["factor"] ** 2))
    titles = [ax.get_title(loc="left") for ax in figures.window(large).axes[:2]]
    assert titles == ["Zero mean:\nno step is too large", "Random signs:\na step can be too large"]
    plt.close("all")


def test_where_no_stream_solves_every_input_all_arms_are_told_apart_as_none():
    use_style()
    right = figures.samples(needed().assign(solved=math.inf)).axes[1]
    assert right.get_title(loc="left") == "Solving every input" and right.texts[0].get_text().startswith("none with ")
    plt.close("all")

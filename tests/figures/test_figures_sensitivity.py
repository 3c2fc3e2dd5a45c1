"""The figures of ``sensitivity`` and ``simplicity`` draw from small frames, and bear runs that never converged."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest

from parity_lib.figures import sensitivity as figures
from parity_lib.figures import simplicity

pytestmark = pytest.mark.usefixtures("book_style")

NAMES = ("PARITY", "FIRST", "MEAN", "MAJORITY")
RNG = np.random.default_rng(0)


def models(lengths=(4, 6, 8, 16), **columns):
    rows = [{"n": n, "function": name, "seed": seed} for n in lengths for name in NAMES for seed in (0, 1)]
    frame = pd.DataFrame(rows)
    drawn = {
        name: 0.1 + RNG.random(len(frame)) for name in ("sharpness", "error", "blowup", "norm", "least", "product")
    }
    return frame.assign(**drawn, converged=frame["seed"] == 0, **columns)


def sides():
    return models().assign(kind="trained", left=1.0, right=np.linspace(0, 1, 32))


def frontier():
    return pd.DataFrame(
        [
            {"source": source, "n": n, "sharpness": 0.1 * n, "norm": 10.0, "flattest": n == 8}
            for source in ("written down", "AdamW", "weight noise", "FIRST, weight noise")
            for n in (8, 16)
        ]
    )


def orbit():
    along = pd.DataFrame(
        [
            {
                "kind": "orbit",
                "function": name,
                "scale": c,
                "norm": c + 1 / c,
                "blowup": c**-4.0,
                "product": c**-8.0,
                "least": 2.0,
                "converged": True,
            }
            for name in ("PARITY", "FIRST")
            for c in (0.5, 1, 2, 4)
        ]
    )
    return pd.concat([along, models().assign(kind="trained", decay=0.1)])


def ladder():
    return pd.DataFrame(
        [
            {
                "k": k,
                "function": "MOD 3" if k == 0 else f"{k}-parity",
                "sensitivity": k or 2.5,
                "learned": math.inf if k == 3 else 100.0 * k + 50,
                "converged": k != 3,
                "sharpness": 0.1 * k + 0.1,
            }
            for k in (1, 2, 3, 4, 0)
            for _ in (0, 1)
        ]
    )


def course():
    return pd.DataFrame(
        [
            {"seed": seed, "update": u, "loss": 1 / u, "sharpness": 0.1, "blowup": float(u), "norm": 1.0}
            for seed in (0, 1)
            for u in (100, 200, 300)
        ]
    )


def fillings():
    fits = [
        {"kind": "fit", "labels": K, "table": table, "sensitivity": 1.0}
        for K in (16, 32)
        for table in ("learned", "filled by coins")
    ]
    refits = [
        {"kind": "refit", "labels": 0, "table": table, "sharpness": 0.2, "converged": True}
        for table in ("learned", "filled by coins")
    ]
    return pd.DataFrame(fits + refits)


BELOW = pd.Series([True, False, True, False])


def untrained():
    return pd.DataFrame(
        [
            {"kind": kind, "start": start, "layers": depth, "sensitivity": RNG.random()}
            for kind in simplicity.KIND_COLOURS
            for start in ("a", "b")
            for depth in (1, 2)
            for _ in range(3)
        ]
    )


def ways():
    return pd.DataFrame(
        [
            {"way": way, "n": n, "learned": 100.0 * n, "sharpness": 0.1}
            for way in ("with a scratchpad", "answer alone")
            for n in (8, 16)
        ]
    )


@pytest.mark.parametrize(
    "draw, labels",
    [
        (lambda: figures.constructed(models()), ("sharpness", "norm of the parameters", "layer-norm blowup")),
        (lambda: figures.lengths(models()), ("sharpness", "layer-norm blowup")),
        (lambda: figures.mechanism(sides()), ("E (T − T′)², the rise of the loss",)),
        (lambda: figures.frontier(frontier()), ("sharpness", "length n", "norm of the parameters")),
        (lambda: figures.orbit(orbit()), ("layer-norm blowup", "norm × blowup²")),
        (lambda: simplicity.ladder(ladder(), 4000), ("updates to learn", "sharpness, converged runs")),
        (lambda: simplicity.course(course(), 8), ("loss", "sharpness", "layer-norm blowup")),
        (lambda: simplicity.bias(fillings(), 10), ("average sensitivity", "sharpness")),
        (lambda: simplicity.random_weights(untrained(), BELOW), ("average sensitivity / n",)),
        (lambda: figures.scratchpads(ways()), ("sharpness", "updates to learn")),
    ],
)
def test_a_figure_draws_with_its_labels_and_a_finding(draw, labels):
    fig = draw()
    fig.canvas.draw()
    written = [text for ax in fig.axes for text in (ax.get_xlabel(), ax.get_ylabel())]
    assert set(labels) <= set(written)
    assert fig.get_suptitle() or any(ax.get_title(loc="left") for ax in fig.axes)


def test_lengths_print_converged_of_started_and_show_converged_runs_alone():
    frame = models()
    fig = figures.lengths(frame)
    texts = [text.get_text() for text in fig.axes[0].texts]
    assert texts[:4] == ["1/2"] * 4
    shown = np.concatenate([dots.get_offsets()[:, 1] for dots in fig.axes[0].collections])
    assert len(shown) == frame["converged"].sum()


def test_the_mechanism_counts_models_below_the_bound():
    frame = sides().assign(left=0.5)
    title = figures.mechanism(frame).axes[0].get_title(loc="left")
    assert title.startswith(f"{int((frame['left'] < frame['right']).sum())} of {len(frame)} ")


def test_trials_with_a_scratchpad_are_not_drawn():
    trial = pd.DataFrame([{"way": "trial", "n": 8, "learned": 1e6, "sharpness": 50.0}])
    fig = figures.scratchpads(pd.concat([ways(), trial]))
    assert fig.axes[0].get_ylim()[1] < 1 and fig.axes[1].get_ylim()[1] < 1e4
    assert fig.get_suptitle().endswith("sharpness 0.10 at n = 16")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: figures.mechanism(sides()),
        lambda: figures.frontier(frontier()),
        lambda: figures.orbit(orbit()),
        lambda: simplicity.random_weights(untrained(), BELOW),
        lambda: figures.scratchpads(ways()),
    ],
)
def test_series_are_named_by_words_in_their_colour(draw):
    (legend,) = [ax.get_legend() for ax in draw().axes if ax.get_legend()]
    words = [text.get_color() for text in legend.get_texts()]
    assert len(words) > 1 and words == [handle.get_color() for handle in legend.legend_handles]


def test_trained_and_constructed_models_have_marks_of_their_own():
    frame = sides().assign(kind=np.where(sides()["seed"] == 0, "trained", "constructed"))
    ax = figures.mechanism(frame).axes[0]
    assert [handle.get_marker() for handle in ax.get_legend().legend_handles[-2:]] == ["o", "^"]
    assert len({len(path.vertices) for path in ax.collections[0].get_paths()}) == 2  # circles and triangles


@pytest.mark.parametrize(
    ("draw", "title"),
    [
        (lambda: figures.mechanism(sides().iloc[:0]), ""),
        (lambda: figures.frontier(frontier().query("source != 'AdamW'")), "Sharpness of PARITY by its source"),
        (lambda: simplicity.ladder(ladder().assign(converged=False), 4000), "Of the k-parities k = 3 is hardest"),
        (lambda: simplicity.ladder(ladder().assign(learned=math.inf), 4000), "k-parities and other functions"),
        (lambda: simplicity.bias(fillings().assign(converged=False), 10), "What a transformer fills in"),
    ],
)
def test_a_figure_bears_what_is_missing_without_a_warning_and_claims_nothing_of_it(draw, title):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fig = draw()
        fig.canvas.draw()
    assert fig.get_suptitle().startswith(title)


@pytest.mark.parametrize(
    ("norm", "title"),
    [(1.0, "Written down for any length; PARITY's norm grows 4-fold, blowup stays"), (0.0, "Written down, by length")],
)
def test_constructions_are_said_to_grow_where_they_do(norm, title):
    frame = models().assign(norm=lambda rows: rows["n"] ** norm, blowup=9.0)
    assert figures.constructed(frame).get_suptitle().replace("\n", " ") == title

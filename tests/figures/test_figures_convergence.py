"""The figures of ``convergence`` and ``lemmas`` draw from small frames, and their titles are true of them."""

import numpy as np
import pandas as pd
import pytest

from parity_lib.chapters.lemmas import LEMMAS
from parity_lib.figures import convergence as figures
from parity_lib.figures import lemmas, style

pytestmark = pytest.mark.usefixtures("book_style")
SMOOTHINGS = [0.01, 0.05, 0.2, 0.5]


def frame(count=4, **columns):
    """Rows for every combination of the columns, ``count`` each."""
    index = pd.MultiIndex.from_product([*columns.values(), range(count)], names=[*columns, "seed"])
    return index.to_frame(index=False)


def works(rows, most=2):
    """Solved where the smoothing is 0.2 and there are at most so many bits."""
    return rows.assign(solved=(rows["smoothing"] == 0.2) & (rows.get("k", 2) <= most))


def forces(last):
    """The signal grows to ``last`` times the label-free force."""
    rows = frame(smoothing=[0.2], update=[0, 10, 100, 1000], force=["label-free", "parity signal"])
    signal = np.where(rows["update"] < 1000, 1e-6, last)
    return rows.assign(size=np.where(rows["force"] == "label-free", 1.0, signal) * (1 + rows["seed"] / 10))


def vanishing():
    """At temperature 1/n the signal falls by sixty powers of ten, at 1 by four."""
    rows = frame(n=[10, 20, 50, 100], temperature=["1/n", "1"], force=["label-free", "parity signal"])
    power = np.where(rows["temperature"] == "1/n", 60.0, 4.0) * (rows["force"] == "parity signal")
    return rows.assign(size=(rows["n"] / 10) ** -power)


def landscape(names=("b = 0.2", "b = 0.01")):
    at = np.arange(1, 9.0)
    grid = pd.MultiIndex.from_product([at, at], names=["head_1", "head_2"]).to_frame(index=False)
    way = pd.DataFrame(
        {"seed": [0, 0, 1, 1], "frame": [0, 1, 0, 1], "head_1": [1, 3, 8.3, 1], "head_2": [2, 6.0, 5, 5]}
    )
    parts = [grid.assign(layer="risk", risk=grid["head_1"]), way.assign(layer="way", risk=1.0)]
    return pd.concat([part.assign(panel=name) for name in names for part in parts])


MAP = works(frame(step=[8.0], k=[1, 2, 3], smoothing=SMOOTHINGS, c1=[0.5, 1.0]))
WINDOW = works(frame(n=[10, 50], smoothing=SMOOTHINGS, k=[2, 3], neighbours=[False, True]), most=3)
WEIGHTS = pd.DataFrame({"k": 3, "position": range(1, 7), "bit": [True, False] * 3, "weight": [1 / 3, 2 / 3] * 3})
ENTRIES = pd.DataFrame(
    [(r, c, float(r == 1)) for r in range(1, 5) for c in range(1, 5)], columns=["row", "column", "size"]
)
PL = frame(k=[2, 3], update=[0, 10, 20, 30]).assign(risk=1.5, ratio=1e-9, mu=1e-3)
CONSTANTS = frame(1, lemma=[*LEMMAS], k=[1, 2], smoothing=[1.0, 1e2, 1e4, 1e8]).assign(stated=1.0)
CONSTANTS["measured"] = np.where((CONSTANTS["lemma"] == "lemma-16") & (CONSTANTS["smoothing"] > 1e6), 2.0, 0.1)
START = frame(k=[1, 2], smoothing=SMOOTHINGS, c1=[1.0, 5.0]).assign(risk=lambda rows: 1.5 + rows["seed"] / 10)
DRAWN = {
    "map": (lambda: figures.success_map(MAP), ["k = 2: up to 100 % solved", "k = 3: up to 0 % solved"]),
    "window": (
        lambda: lemmas.window(WINDOW),
        ["Solved pairs by smoothing, number of bits and of positions", "bits apart", "with neighbours"],
    ),
    "closing": (
        lambda: lemmas.window(WINDOW.assign(solved=WINDOW["solved"] & ((WINDOW["n"] < 50) | WINDOW["neighbours"]))),
        ["From two bits on the window of smoothings closes as n grows, first for bits apart", "bits apart",
         "with neighbours"],
    ),
    "forces": (lambda: figures.two_forces(forces(1.0)), ["b = 0.2: the signal takes over"]),
    "weak": (lambda: figures.two_forces(forces(1e-3)), ["b = 0.2: the signal stays behind"]),
    "by_length": (
        lambda: lemmas.forces_by_length(
            frame(n=[10, 20, 50, 100], temperature=["1/n", "1"], force=["label-free", "parity signal"]).assign(size=0.1)
        ),
        ["Both forces at the start, by number of positions", "temperature 1/n", "temperature 1"],
    ),
    "vanishing": (
        lambda: lemmas.forces_by_length(vanishing()),
        ["At temperature 1/n the parity signal vanishes with n; at 1 it falls like a power of n", "temperature 1/n",
         "temperature 1"],
    ),
    "melting": (
        lambda: figures.melting(
            works(frame(k=[2, 3], smoothing=SMOOTHINGS), most=3).assign(melted=lambda r: r["solved"])
        ),
        ["k = 2: hardly without melting", "k = 3: hardly without melting"],
    ),
    "sharp": (
        lambda: figures.melting(works(frame(k=[3], smoothing=SMOOTHINGS)).assign(melted=False)),
        ["k = 3: heads do not melt"],
    ),
    "apart": (
        lambda: figures.melting(works(frame(k=[2], smoothing=SMOOTHINGS)).assign(melted=lambda r: ~r["solved"])),
        ["k = 2: solved without melting"],
    ),
    "landscape": (
        lambda: figures.landscapes(landscape(), (3, 6)),
        ["b = 0.2: 1 of 2 solved", "b = 0.01: 1 of 2 solved"],
    ),
    "aliases": (
        lambda: lemmas.aliases(WEIGHTS),
        ["Stuck between the bits: a third on each bit (green), two thirds beside it", "k = 3"],
    ),
    "no_alias": (lambda: lemmas.aliases(WEIGHTS.iloc[:0]), ["No run rests between the bits: no trap to show"]),
    "other_rest": (
        lambda: lemmas.aliases(WEIGHTS.assign(weight=0.5)),
        ["At rest, and not on the bits (green)", "k = 3"],
    ),
    "start": (
        lambda: lemmas.start_risk(START),
        ["The risk at the start depends on smoothing and k, and is above 1"],
    ),
    "entries": (lambda: lemmas.entries(ENTRIES), ["Only the first row moves, and all of it"]),
    "more_entries": (
        lambda: lemmas.entries(ENTRIES.assign(size=ENTRIES["size"] + (ENTRIES["row"] == ENTRIES["column"]))),
        ["Mean size of the gradient, by entry"],
    ),
    "fewer_entries": (
        lambda: lemmas.entries(ENTRIES.assign(size=ENTRIES["size"] * (ENTRIES["column"] > 2))),
        ["Mean size of the gradient, by entry"],
    ),
    "other_start": (
        lambda: lemmas.start_risk(START.replace({"c1": {1.0: 2.0}}).assign(risk=1.0)),
        ["The risk at the start depends on smoothing and k"],
    ),
    "one_bit_map": (lambda: figures.success_map(MAP[MAP["k"] == 1]), []),
    "all_close": (
        lambda: lemmas.window(WINDOW[WINDOW["neighbours"] | (WINDOW["k"] < 3)]),
        ["Solved pairs by smoothing, number of bits and of positions", "bits apart", "with neighbours"],
    ),
    "only_long": (
        lambda: lemmas.forces_by_length(
            vanishing().assign(size=lambda r: r["size"].where((r["temperature"] == "1") | (r["force"] == "label-free")))
        ),
        ["Both forces at the start, by number of positions", "temperature 1/n", "temperature 1"],
    ),
    "pl": (lambda: lemmas.pl_ratios(PL), ["k = 2: 100 % of runs end below μ", "k = 3: 100 % of runs end below μ"]),
    "constants": (
        lambda: lemmas.constants(CONSTANTS, LEMMAS),
        ["Lemma 16 fails at huge smoothing, the others hold"],
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_draws_and_its_titles_say_what_the_frame_shows(name):
    draw, titles = DRAWN[name]
    fig = draw()
    fig.canvas.draw()
    found = [fig.get_suptitle()] + [ax.get_title(loc="left") for ax in fig.axes]
    assert [title.replace("\n", " ") for title in found if title] == titles


def test_the_window_has_a_row_for_every_k_and_n_and_one_bit_has_no_neighbours():
    alone = frame(n=[10, 50], smoothing=SMOOTHINGS, k=[1], neighbours=[False]).assign(solved=True)
    left, right = lemmas.window(pd.concat([alone, WINDOW])).axes
    rows = [label.get_text() for label in left.get_yticklabels()]
    assert [row for row in rows if row] == ["k = 1,  n = 10", "50", "k = 2,  n = 10", "50", "k = 3,  n = 10", "50"]
    assert "one bit has no neighbours" in {text.get_text() for text in right.texts}
    assert {text.get_text() for text in left.texts} == {"0", "100"} and len(left.texts) == 6 * len(SMOOTHINGS)


def test_decades_without_a_story_are_left_out_and_the_line_says_how_far_it_falls():
    left, right = lemmas.forces_by_length(vanishing()).axes
    assert left.get_ylim()[0] == figures.FLOOR and right.get_ylim()[0] < 1e-3
    assert {text.get_text() for text in left.texts} == {"label-free", "parity signal,\ndown to 10⁻⁶⁰ ↓"}
    assert {text.get_text() for text in right.texts} == {"label-free", "parity signal"}


def test_three_landscapes_are_two_in_a_row_and_their_marks_are_explained_in_the_place_left_over():
    given = landscape(("b = 0.2", "b = 0.01", "heads that sample")), (3, 6)
    wide, small = figures.landscapes(*given), style.narrow(figures.landscapes.__wrapped__, *given)
    wide.canvas.draw()
    left, right = (ax.get_window_extent().width / wide.bbox.width for ax in wide.axes[:2])
    assert left == pytest.approx(right) and left > 0.38  # three in a row would have less than a third each
    assert {ax.get_ylim() for ax in wide.axes[:3]} == {(0.5, 8.5)}  # the map fills its panel
    assert [text.get_text() for text in wide.axes[3].texts] == list(figures.KEY) and len(small.axes) == 3


def test_large_entries_are_bright_as_on_every_other_map():
    mesh = lemmas.entries(ENTRIES.assign(size=ENTRIES["column"] * (ENTRIES["row"] == 1.0))).axes[0].collections[0]
    assert mesh.get_cmap().name == "viridis"

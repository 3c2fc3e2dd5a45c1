"""The visual language: what is shared by all figures, and the layout that a phone gets."""

import base64
import io
import re
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import seaborn as sns
from matplotlib.colors import to_hex
from matplotlib.image import imread

from parity_lib import wilson
from parity_lib.figures import circle, ledger, style

pytestmark = pytest.mark.usefixtures("book_style")


def trials(count=8, **columns):
    """Rows for every combination of the columns, ``count`` each: the first three quarters succeed."""
    index = pd.MultiIndex.from_product([*columns.values(), range(count)], names=[*columns, "seed"])
    rows = index.to_frame(index=False)
    return rows.assign(committed=rows["seed"] < 3 * count // 4)


def curves(ks, kinds=("a",), **how):
    colours = dict(zip(kinds, style.SERIES, strict=False))
    return style.curves(style.success_lines, trials(k=ks, kind=kinds), "k", "committed", colours, hue="kind", **how)


@style.drawing
def two_panels(frame):
    fig, axes = style.panels(2, 3.0)
    for ax in axes:
        ax.plot(frame["x"], frame["y"], label="line")
        ax.set(xlabel="x", ylabel="y")
    return style.finding(fig, True, "A finding that is quite a bit longer than a phone is wide", "")


XY = pd.DataFrame({"x": [0, 1], "y": [0, 1]})


def test_curves_show_shares_in_percent_with_their_wilson_intervals():
    ax = curves([1, 2, 3, 4]).axes[0]
    line = ax.get_lines()[0]
    assert line.get_ydata().tolist() == [75] * 4 and line.get_linestyle() == "-"
    ends = ax.collections[0].get_segments()[0][:, 1]
    assert ends.tolist() == pytest.approx([100 * wilson(6, 8).low, 100 * wilson(6, 8).high])
    assert [text.get_text() for text in ax.texts] == ["a"]
    assert ax.texts[0].xy[1] == 75  # at the end of the line, not of a whisker


def test_no_line_goes_through_fewer_than_four_values():
    assert curves([1, 2, 3]).axes[0].get_lines()[0].get_linestyle() == "None"


def test_a_short_series_has_no_line_beside_a_long_one():
    rows = pd.concat([trials(k=[1, 2, 3, 4], kind=["long"]), trials(k=[1, 2, 3], kind=["short"])])
    colours = {"long": style.SIGNAL, "short": style.BLIND}
    for plot, marks in ((style.success_lines, {"o"}), (style.medians, {"o", ""})):
        ax = style.curves(plot, rows, "k", "committed", colours, hue="kind").axes[0]
        lines = {to_hex(line.get_color()): line for line in reversed(ax.get_lines()) if len(line.get_xdata()) > 2}
        assert [lines[colour].get_linestyle() for colour in colours.values()] == ["-", "None"]
        assert lines[style.BLIND].get_marker() == "o" and lines[style.SIGNAL].get_marker() in marks | {"None"}
        plt.close("all")


def test_names_of_series_stay_beside_their_panel():
    ax = style.drawing(lambda: curves([1, 2, 3, 4], tuple("abcd"), height=1.6))().axes[0]
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert min(box.y0 for box in boxes) >= ax.bbox.y0 - 3 and max(box.y1 for box in boxes) <= ax.bbox.y1 + 4


def test_heads_have_colours_that_mean_nothing_else():
    assert not set(style.HEADS) & {style.BIT, style.BLIND, style.SIGNAL, style.STATED, style.CODE, style.REPAIRED}


def test_colour_words_stand_where_they_are_told():
    _, (ax,) = style.panels(1)
    style.colour_words(ax, {"a": style.SIGNAL, "b": style.INK}, {"b": "^"}, loc="lower right")
    ax.figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    assert box.x0 > ax.bbox.x0 + 0.5 * ax.bbox.width and box.y1 < ax.bbox.y1
    assert [line.get_marker() for line in ax.get_legend().legend_handles] == ["o", "^"]


def test_names_of_series_never_cover_each_other():
    fig = style.drawing(lambda: curves([1, 2, 3, 4], ("a", "b", "c")))()
    boxes = [text.get_window_extent() for text in fig.axes[0].texts]
    assert len(boxes) == 3 and not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    heights = [text.get_position()[1] for text in fig.axes[0].texts]
    assert sum(heights) == pytest.approx(0, abs=1)  # about where the lines end


def test_a_phone_gets_the_panels_one_below_the_other_and_a_title_in_lines():
    wide = two_panels(XY)
    small = style.narrow(two_panels.__wrapped__, XY)
    assert wide.get_figwidth() == style.FULL and small.get_figwidth() == style.NARROW
    for fig, places in ((wide, {(0, 0), (0, 1)}), (small, {(0, 0), (1, 0)})):
        specs = [ax.get_subplotspec() for ax in fig.axes]
        assert {(spec.rowspan.start, spec.colspan.start) for spec in specs} == places
    assert "\n" in small.get_suptitle() and "\n" not in wide.get_suptitle()
    assert [ax.get_ylabel() for ax in wide.axes] == ["y", ""] and [ax.get_ylabel() for ax in small.axes] == ["y", "y"]
    assert not style.is_narrow()


def test_a_notebook_keeps_svg_png_and_the_layout_for_phones():
    kept = style.bundle(two_panels(XY))
    assert set(kept) == {"image/svg+xml", "image/png", style.NARROW_SVG, style.WORDS}
    width = [float(re.search(r'viewBox="0 0 ([\d.]+)', kept[kind])[1]) for kind in ("image/svg+xml", style.NARROW_SVG)]
    assert width[1] < 0.6 * width[0]
    assert "<text" in kept["image/svg+xml"]  # words stay words
    assert imread(io.BytesIO(base64.b64decode(kept["image/png"]))).ndim == 3
    assert kept == style.bundle(two_panels(XY))  # the same figure gives the same bytes
    assert set(style.bundle(plt.figure())) == {"image/svg+xml", "image/png", style.WORDS}


def test_dots_of_a_strip_lie_where_they_lay():
    @style.drawing
    def strip(frame):
        fig, (ax,) = style.panels(1)
        sns.stripplot(frame, x="x", y="y", jitter=True, ax=ax)
        return fig

    before = np.random.get_state()[1].tolist()
    first, second = (style.bundle(strip(XY)) for _ in range(2))
    assert first == second and np.random.get_state()[1].tolist() == before


def luminance(colour):
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in plt.matplotlib.colors.to_rgb(colour)]
    return np.dot(linear, [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("colour", [*style.SERIES, *style.HEADS, style.BIT, style.STATED, style.INK])
def test_every_colour_can_be_told_from_the_paper_in_light_and_dark(colour):
    dark, paper = luminance(style.ON_DARK[colour]), luminance(style.ON_DARK[style.PAPER])
    assert (dark + 0.05) / (paper + 0.05) >= 4.5
    assert 1.05 / (luminance(colour) + 0.05) >= (4.5 if colour == style.INK else 2.1)


def test_white_numbers_on_a_heat_map_stay_white_where_the_page_is_dark():
    _, (ax,) = style.panels(1)
    style.heat(pd.DataFrame([[0.0, 1.0]]), ax, annot=True, cmap="viridis")
    found = {text.get_text(): to_hex(text.get_color()) for text in ax.texts}
    assert found["0"] == style.CHALK and not set(found.values()) & set(style.ON_DARK)


def test_the_ledger_shows_every_claim_as_a_dot_in_its_place():
    rows = pd.DataFrame({"claim": list("abcde"), "as_stated": ["holds", "holds", "fails", "fails", "open"],
                         "kind": ["proved", "measured", "proved", "proved", ""],
                         "ours": [False, True, False, False, False]})  # fmt: skip
    fig = ledger.overview(rows)
    dots = Counter((to_hex(c.get_facecolor()[0]), to_hex(c.get_edgecolor()[0])) for c in fig.axes[0].collections)
    holds, fails = style.VERDICTS["holds"], style.VERDICTS["fails"]
    assert dots[fails, style.PAPER] == 2 and dots[holds, style.PAPER] == dots[style.PAPER, holds] == 1
    assert "1 of the papers' 4 claims hold as stated" in fig.get_suptitle().replace("\n", " ")
    words = [label.get_text() for label in fig.axes[0].get_yticklabels()]
    assert words == ["1  holds as stated", "2  fail as stated", "1  open"]


def test_the_headings_of_the_ledger_do_not_run_together_on_a_phone():
    rows = pd.DataFrame({"claim": list("abcd"), "as_stated": "holds", "kind": list(ledger.HOW), "ours": False})
    fig = style.narrow(ledger.overview.__wrapped__, rows)
    fig.canvas.draw()
    boxes = [label.get_window_extent() for label in fig.axes[0].get_xticklabels()]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


COURSE = pd.DataFrame(
    [("left", e, h, p, 1.0 if p == (2 * h if e else 8) else 0.0, p in (2, 4)) for e in (0, 1) for h in (1, 2)
     for p in range(1, 9)], columns=["panel", "epoch", "head", "position", "attention", "bit"])  # fmt: skip


def test_arrows_end_where_the_heads_look():
    ends = circle.arrows(COURSE).xs(1, level="epoch")
    assert ends["turn"].tolist() == pytest.approx([2 / 8, 4 / 8]) and ends["length"].tolist() == pytest.approx([1, 1])


def test_the_animation_of_the_readme_is_small_and_plays_by_itself():
    svg = circle.animated(COURSE)
    assert svg.count("<animateTransform") == 2 and svg.count(style.BIT) == 2 and len(svg) < 20_000
    assert re.findall(r'values="[^"]*;([^";]+);[^";]+"', svg) == ["90.0", "180.0"]  # turns of the circle, in degrees
    assert "script" not in svg and "aria-label" in svg


def test_the_card_has_the_size_that_others_expect(tmp_path):
    circle.card(COURSE, "Learning: an audit").savefig(tmp_path / "card.png")
    assert imread(tmp_path / "card.png").shape[:2] == (630, 1200)


def test_a_box_holds_a_table_and_what_follows_from_it():
    html = style.boxed("A & B", pd.DataFrame({"n": [8]}), "so n < 9").data
    assert html.startswith('<div class="admonition important">') and "A &amp; B" in html and "so n &lt; 9" in html
    assert "overflow-x: auto" in html and "<td>8</td>" in html

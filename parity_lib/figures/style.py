"""The visual language of the book: one theme, colours by meaning, two layouts, and the words seaborn lacks.

A figure takes a tidy frame and returns a :class:`~matplotlib.figure.Figure`. Its title is the finding, series are
labelled where they are, uncertainty is drawn. Colour has one meaning from the first page to the last. A function under
:func:`drawing` is drawn twice for a page: its panels side by side, and one below the other for a phone.
"""

import base64
import io
import math
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from html import escape
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from IPython import get_ipython
from IPython.core.pylabtools import select_figure_formats
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import LogLocator, NullLocator
from scipy.optimize import isotonic_regression

from ..evidence import rate
from .palette import *
from .seen import headline, seen

COLUMN, FULL, NARROW = 4.6, 7.6, 3.7  #: Widths in inches: one panel, the whole column of text, and a phone.
DECADES = 2.3  #: Logarithmic axes that span fewer have ticks at 1, 2, 5, 10, ..., written out.

THEME: dict[str, Any] = {
    "figure.constrained_layout.use": True,
    "figure.figsize": (FULL, 3.2),
    "savefig.dpi": 200,
    "font.size": 10,
    "axes.labelsize": 10,
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 9),
    **dict.fromkeys(("axes.titlesize", "figure.titlesize"), 10.5),
    **dict.fromkeys(("axes.titleweight", "figure.titleweight"), "bold"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "axes.spines.left", "legend.frameon"), False),
    "axes.titlelocation": "left",
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "axes.edgecolor": "#444444",
    "image.cmap": "viridis",
    "svg.hashsalt": "parity",  # the same figure gives the same bytes
    "svg.fonttype": "none",  # text stays text: it can be read out, searched, and has the page's own letters
}

T = TypeVar("T", bound=Callable[..., Figure])
_narrow = False
_redraw: WeakKeyDictionary[Figure, Callable[[], Figure]] = WeakKeyDictionary()


def use_style() -> None:
    """The book's theme for every figure that follows; in a notebook, figures become SVG."""
    sns.set_theme(style="whitegrid", context="paper", palette=SERIES, rc=THEME)
    if (shell := get_ipython()) is not None:
        select_figure_formats(shell, [])
        shell.display_formatter.mimebundle_formatter.for_type(Figure, bundle)


def bundle(figure: Figure, *_: Any, **__: Any) -> dict[str, str]:
    """What a notebook keeps of a figure: SVG, PNG, words and, if it was made under :func:`drawing`, SVG for a phone."""
    kept = {"image/svg+xml": _saved(figure, "svg").decode(), WORDS: f"{headline(figure)}\n{seen(figure)}"}
    figure.set_layout_engine("none")  # it has been laid out
    kept["image/png"] = base64.b64encode(_saved(figure, "png")).decode()
    if figure in _redraw:
        small = _redraw[figure]()
        kept[NARROW_SVG] = _saved(small, "svg").decode()
        plt.close(small)
    return kept


def _saved(figure: Figure, kind: str) -> bytes:
    picture = io.BytesIO()
    undated = {"svg": {"Date": None}, "png": {"Software": None}}[kind]
    figure.savefig(picture, format=kind, metadata=undated, bbox_inches="tight", pad_inches=0.03)
    return picture.getvalue()


def drawing(draw: T) -> T:
    """A figure function of which a page also gets the layout for phones; and the last touches to both."""

    @wraps(draw)
    def drawn(*given: Any, **named: Any) -> Figure:
        figure = _drawn(draw, *given, **named)
        _redraw[figure] = lambda: narrow(draw, *given, **named)
        return figure

    return drawn  # type: ignore[return-value]


def _drawn(draw: Callable[..., Figure], *given: Any, **named: Any) -> Figure:
    """Dots of a strip, which seaborn puts aside by numpy's own random numbers, lie in the same places each time."""
    before = np.random.get_state()
    np.random.seed(0)
    try:
        return _finished(draw(*given, **named))
    finally:
        np.random.set_state(before)


def narrow(draw: Callable[..., Figure], *given: Any, **named: Any) -> Figure:
    """The figure with its panels one below the other."""
    global _narrow
    _narrow = True
    try:
        return _drawn(draw, *given, **named)
    finally:
        _narrow = False


def is_narrow() -> bool:
    """Whether the figure in hand is for a phone."""
    return _narrow


def panels(count: int = 1, height: float = 3.0, *, width: float = FULL, share: bool = True, keep: bool = False,
           ratios: Sequence[float] | None = None) -> tuple[Figure, list[Axes]]:  # fmt: skip
    """A figure of ``count`` panels of this height: in a row with one y axis, or in a column on a phone.

    There panels are a little lower, unless they ``keep`` their height, since rows of text need it.
    """
    if _narrow:
        size = (NARROW, (height if keep else 0.88 * height) * count)
        figure, axes = plt.subplots(count, 1, figsize=size, squeeze=False)
    else:
        figure, axes = plt.subplots(1, count, figsize=(width, height), squeeze=False, sharey=share, width_ratios=ratios)
    return figure, list(axes.flat)


def finding(figure: Figure, holds: bool, text: str, otherwise: str) -> Figure:
    """The figure with its title: the finding where it is true of the frame, else what is shown."""
    figure.suptitle(text if holds else otherwise, x=0.01, ha="left")
    return figure


def _finished(figure: Figure) -> Figure:
    """Titles broken to their width, labels of a shared axis once, few decades written out, labels of lines apart."""
    width = figure.get_figwidth()
    if title := figure.get_suptitle():
        figure.suptitle(_wrapped(title, width), x=0.01, ha="left")
    for ax in figure.axes:
        spec = ax.get_subplotspec()
        columns = spec.get_geometry()[1] if spec else 1
        title = _wrapped(ax.get_title(loc="left"), width / columns - 0.3)
        ax.set_title(title, y=None if ax.child_axes else 1.0)  # looking for ticks above takes a third of the time
        if columns > 1 and len(ax.get_shared_y_axes().get_siblings(ax)) > 1:
            ax.label_outer(remove_inner_ticks=False)
        for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            if not isinstance(axis.get_major_locator(), LogLocator):
                continue
            axis.set(major_formatter=_power_of_ten, minor_locator=NullLocator())  # matplotlib's are formulas, and slow
            if high < 10**DECADES * low:
                few = _narrow and high > 30 * low
                axis.set(major_locator=LogLocator(subs=(1, 3) if few else (1, 2, 5)), major_formatter="{x:g}")
    if labelled := [ax for ax in figure.axes if any(text.get_gid() == "series" for text in ax.texts)]:
        figure.draw_without_rendering()
        for ax in labelled:
            named = [text for text in ax.texts if isinstance(text, Annotation) and text.get_gid() == "series"]
            _spread(named, ax.bbox.y0 - 2, ax.bbox.y1 + 3)
    return figure


def _power_of_ten(value: float, _: int) -> str:
    return "10" + f"{math.log10(value):.0f}".translate(RAISED)


def _wrapped(text: str, inches: float) -> str:
    """A title of the theme's size on lines of at most this width."""
    return "\n".join(textwrap.fill(line, max(12, int(inches / 0.088))) for line in text.splitlines())


def short_lines(text: str, width: int = 20) -> str:
    """A label on a phone has its lines broken."""
    return "\n".join(textwrap.fill(line, width) for line in text.splitlines()) if _narrow else text


def wilson_percent(values: pd.Series) -> tuple[float, float]:
    """Error bars for seaborn: the Wilson 95 % interval of a column that is 100 where a run succeeded, else 0."""
    found = rate(np.asarray(values) > 50)
    return 100 * found.low, 100 * found.high


def percent(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """The frame with a column of truth values as 0 and 100, so that its mean is a rate in percent."""
    return frame.assign(**{column: 100.0 * frame[column].astype(float)})


def share(frame: pd.DataFrame, column: str = "committed", **where: Any) -> float:
    """Share of the rows with the given values that succeed; nan if there are none."""
    for key, value in where.items():
        frame = frame[frame[key] == value]
    return float(frame[column].mean())


def line_style(values: Iterable[float]) -> str:
    """No line through fewer than four values: it would say more than was measured."""
    return "-" if len(set(values)) >= 4 else "none"


def _line_plot(frame: pd.DataFrame, x: str, y: str, **how: Any) -> Axes:
    """seaborn's line plot, where every series by itself has a line or dots."""
    axes = sns.lineplot(frame, x=x, y=y, **({"ls": line_style(frame[x])} | how))
    for line in axes.get_lines():
        if line.get_linestyle() == "-" and line_style(line.get_xdata()) == "none":
            line.set(linestyle="none", marker="o")
    return axes


def success_lines(frame: pd.DataFrame, x: str, y: str, **how: Any) -> Axes:
    """Rates of the truth values in ``y`` against ``x``, in percent, with Wilson bars."""
    style = {"errorbar": wilson_percent, "err_style": "bars", "marker": "o", "err_kws": {"capsize": 2}}
    axes = _line_plot(percent(frame, y), x, y, **(style | how))
    axes.set(ylim=(-4, 104), ylabel="success, % of runs")
    return axes


def medians(frame: pd.DataFrame, x: str, y: str, **how: Any) -> Axes:
    """Medians of ``y`` against ``x`` with the quartiles as a band, or as bars where there is no line."""
    bars = {"marker": "o", "err_style": "bars"} if line_style(frame[x]) == "none" else {}
    return _line_plot(frame, x, y, **({"estimator": "median", "errorbar": ("pi", 50)} | bars | how))


def lines(frame: pd.DataFrame, x: str, y: str, **how: Any) -> Axes:
    """Rates where ``y`` has truth values, else medians."""
    return (success_lines if frame[y].dtype == bool else medians)(frame, x, y, **how)


def panels_by(frame: pd.DataFrame, column: str, titles: Mapping[Any, str] | str = "{}", height: float = 3.0,
              **how: Any) -> tuple[Figure, list[tuple[Axes, Any, pd.DataFrame]]]:  # fmt: skip
    """A panel for every value of a column, in the order of ``titles`` or of the frame: its axes, value and rows.

    Of a frame without rows there is a panel that says so.
    """
    parts = {value: frame[frame[column] == value] for value in _in_order(frame[column], titles)}
    figure, axes = panels(max(1, len(parts)), height, **how)
    if not parts:
        blank(axes[0])
    for ax, value in zip(axes, parts, strict=False):
        ax.set_title(_called(value, titles))
    return figure, [(ax, *part) for ax, part in zip(axes, parts.items(), strict=False)]


def blank(ax: Axes) -> None:
    """Say in a panel that there is nothing to show, as in a run with parameters of one's own."""
    ax.text(0.5, 0.5, "nothing of this in this run", transform=ax.transAxes, ha="center", va="center", color=STATED)


def curves(plot: Callable[..., Axes], frame: pd.DataFrame, x: str, y: str | Mapping[str, str],
           colours: Mapping[Any, str] | None = None, *, hue: str, names: Mapping[Any, str] | str = "{}",
           panel: str | None = None, titles: Mapping[Any, str] | str = "", log: Collection[str] = "",
           ticks: Iterable[float] | None = None, xlabel: str = "", ylabel: str = "", height: float = 3.1,
           ratios: Sequence[float] | None = None, **how: Any) -> Figure:  # fmt: skip
    """``plot`` (:func:`success_lines`, :func:`medians`) for every value of ``hue``, in the order of ``colours``.

    ``panel`` is a column with a panel for each of its values; or ``y`` has several columns, with a panel and a label
    for each. ``log`` has the axes, or columns, with a logarithmic scale. ``titles`` and ``names`` say how panels and
    series are called: words for each, or what to write with it.
    """
    columns = y if isinstance(y, Mapping) else {y: ylabel}
    keys = _in_order(frame[panel], titles) if panel else list(columns)
    given = colours or dict(zip(frame[hue].unique(), SERIES, strict=False))
    palette = {_called(value, names): colour for value, colour in given.items()}
    named = frame.assign(**{hue: frame[hue].map(lambda value: _called(value, names))})
    same, width = len(set(columns.values())) == 1, FULL if keys[1:] else 6.2
    figure, axes = panels(max(1, len(keys)), height, share=same, width=width, ratios=ratios)
    if not keys:
        blank(axes[0])
    for ax, key in zip(axes, keys, strict=False):
        column = str(y) if panel else key
        part = named[named[column].notna() & (panel is None or named[panel] == key)]
        shown = [name for name in palette if name in set(part[hue])]
        if shown:
            plot(part, x, column, hue=hue, hue_order=shown, palette=palette, ax=ax, **how)
        else:
            blank(ax)
        ax.set(xlabel=xlabel or x, **({"ylabel": columns[column]} if columns[column] else {}))
        ax.set(**{f"{axis}scale": "log" for axis, what in (("x", x), ("y", column)) if {axis, what} & set(log)})
        ticks_at(ax.xaxis, frame[x] if ticks is None else ticks)
        ax.set_title(_called(key, titles))
    label_last(axes)
    return figure


def _in_order(values: pd.Series, names: Mapping[Any, str] | str) -> list[Any]:
    present = list(values.unique())
    return present if isinstance(names, str) else [value for value in names if value in present]


def _called(value: Any, names: Mapping[Any, str] | str) -> str:
    return names.format(value) if isinstance(names, str) else names.get(value, str(value))


def rate_rows(frame: pd.DataFrame, success: str, row: str, rows: Mapping[str, str], hue: str,
              colours: Mapping[str, str], ax: Axes, **how: Any) -> None:  # fmt: skip
    """Rates in percent with Wilson bars, a row for each of ``rows``, a dot for every value of ``hue``, named on top."""
    several = hue != row and len(colours) > 1
    style = {"ls": "none", "markersize": 5, "err_kws": {"linewidth": 4, "alpha": 0.3}, "errorbar": wilson_percent}
    sns.pointplot(percent(frame, success), y=row, x=success, hue=hue, order=list(rows), hue_order=list(colours),
                  palette=dict(colours), ax=ax, legend=False, dodge=0.35 * several, **(style | how))  # fmt: skip
    ax.set_yticks(range(len(rows)), list(map(short_lines, rows.values())))
    ax.set(xlabel="% of runs", ylabel="", xlim=(-4, 104), xticks=[0, 25, 50, 75, 100])
    ax.grid(axis="y", visible=False)
    if hue != row:
        colour_words(ax, colours)


def colour_words(ax: Axes, colours: Mapping[str, str], marks: Mapping[str, str] | None = None, **where: Any) -> None:
    """The names of the series, each in its colour, in place of a legend: above the panel, unless told ``where``."""
    shapes = dict.fromkeys(colours, "o") | dict(marks or {})
    words = [plt.Line2D([], [], color=colours[name], marker=shapes[name], ls="none", ms=5) for name in colours]
    above = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 1 if _narrow or len(colours) > 3 else len(colours)}
    ax.legend(words, list(colours), labelcolor="linecolor", handletextpad=0.1, columnspacing=1.2, borderaxespad=0.1,
              **(where or above))  # fmt: skip


def heat(table: pd.DataFrame, ax: Axes, **how: Any) -> None:
    """seaborn's heat map with upright labels; white numbers stay white where the page is dark."""
    sns.heatmap(table, ax=ax, **({"cbar": False, "linewidths": 0.6, "annot_kws": {"size": 9}} | how))
    for text in ax.texts:
        if to_hex(text.get_color()) == PAPER:
            text.set_color(CHALK)
    ax.tick_params(length=0, rotation=0)


def rate_map(frame: pd.DataFrame, success: str, index: str, columns: str, ax: Axes) -> pd.DataFrame:
    """Rates in percent over two quantities, the larger ``index`` above: a heat map with its numbers, and its table."""
    table = percent(frame, success).pivot_table(index=index, columns=columns, values=success, aggfunc="mean")
    heat(table.sort_index(ascending=False).rename(index="{:g}".format, columns="{:g}".format), ax, vmin=0, vmax=100,
         annot=True, fmt=".0f", cmap="viridis")  # fmt: skip
    return table


def label_last(axes: Sequence[Axes]) -> None:
    """Name the series at the last of panels in a row, and where there are others; in a column, at every one."""
    known = set(axes[-1].get_legend_handles_labels()[1])
    for ax in axes:
        if _narrow or ax is axes[-1] or set(ax.get_legend_handles_labels()[1]) - known:
            label_lines(ax)
        elif (legend := ax.get_legend()) is not None:
            legend.remove()


def label_lines(ax: Axes) -> None:
    """Write the name of every series at the right end of its line, in its colour, and drop the legend."""
    handles, labels = ax.get_legend_handles_labels()
    if (legend := ax.get_legend()) is not None:
        legend.remove()
    lines = [line for line in ax.get_lines() if np.size(line.get_xdata()) > 1]
    # The last of a colour wins: the line itself, which is drawn before the caps of its error bars.
    by_colour = {to_hex(line.get_color()): line for line in reversed(lines)}
    for handle, label in zip(handles, labels, strict=True):
        colour = to_hex(plt.getp(handle, "color"))
        if colour in by_colour:
            x, y = (np.asarray(part, float) for part in by_colour[colour].get_data())
            last = np.flatnonzero(np.isfinite(y))[-1]
            say(ax, x[last], y[last], short_lines(label, 13), colour, gid="series")


def say(ax: Axes, x: float, y: float, text: str, colour: str = INK, shift: tuple[float, float] = (6, 0),
        ha: str = "left", va: str = "center", **how: Any) -> None:  # fmt: skip
    """Words beside a point, ``shift`` points away."""
    style: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9, "annotation_clip": False}
    ax.annotate(text, (x, y), shift, color=colour, ha=ha, va=va, **(style | how))


def rule(ax: Axes, at: float, text: str = "", colour: str = INK, ls: str = ":", shift: float = 6, ha: str = "left",
         lw: float = 1.0) -> None:  # fmt: skip
    """A level to compare with, and what it is, ``shift`` points above the line."""
    ax.axhline(at, color=colour, lw=lw, ls=ls)
    if text:
        side = {"left": 0.01, "right": 0.99}[ha]
        say(ax, side, at, text, colour, (0, shift), ha, xycoords=ax.get_yaxis_transform())


def _spread(labels: Collection[Annotation], low: float, high: float) -> None:
    """Move labels that cover each other apart, as little as can be, and all between a title and the axis' numbers."""
    boxes = sorted(((label.get_window_extent(), label) for label in labels), key=lambda box: box[0].y0 + box[0].y1)
    feet, heights = (np.array(values) for values in zip(*((box.y0, box.height + 1) for box, _ in boxes), strict=True))
    lifts = np.cumsum(heights) - heights
    lowest = isotonic_regression(feet - lifts).x  # in this order, each on top of the one before or above
    moves = np.maximum(low, np.minimum(lowest, high + 1 - heights.sum())) + lifts - feet
    for (_, label), move in zip(boxes, moves, strict=True):
        x, y = label.get_position()
        label.set_position((x, y + move * 72 / label.figure.dpi))


def ticks_at(axis: Axis, values: Iterable[float]) -> None:
    """Ticks at just these values, written out."""
    chosen = sorted(set(values))
    axis.set_ticks(chosen, [written(value).removeprefix("1·") if value > 99_999 else f"{value:g}" for value in chosen])
    axis.set_minor_locator(NullLocator())


def boxed(title: str, frame: pd.DataFrame, note: str) -> HTML:
    """A table in a box of the page, with what follows from it."""
    table = frame.to_html(index=False, border=0, classes="table")
    table = f'<div style="overflow-x: auto; font-size: 0.85em">{table}</div>'  # on a phone it scrolls, not the page
    inside = f'<p class="admonition-title">{escape(title)}</p>{table}<p>{escape(note)}</p>'
    return HTML(f'<div class="admonition important">{inside}</div>')


def folded(title: str, frame: pd.DataFrame) -> HTML:
    """A table behind its title, to be opened by a reader who wants to look something up."""
    table = frame.to_html(index=False, border=0, classes="table", float_format=written, na_rep="–")
    return HTML(f'<details class="folded-table"><summary>{escape(title)}</summary>{table}</details>')

"""The visual language of the book: one theme, colours by meaning, two layouts, and the words seaborn lacks.

A figure takes a tidy frame and returns a :class:`~matplotlib.figure.Figure`. Its title is the finding, series are
labelled where they are, uncertainty is drawn. Colour has one meaning from the first page to the last. A function under
:func:`drawing` is drawn twice for a page: its panels side by side, and one below the other for a phone.
"""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter
from matplotlib.transforms import Bbox

from ..evidence import rate

if TYPE_CHECKING:
    from IPython.display import HTML

# Okabe and Ito's colours, distinct for colour-blind readers, darkened where white is behind their text.
BIT = "#009e73"
"""The bits of B."""
BLIND = "#d55e00"
"""The label-free force, which does not know the bits; and what goes wrong."""
SIGNAL = "#0072b2"
"""The parity signal, which does; and what is measured, where no other meaning is fixed."""
STATED = "#6b6b6b"
"""A paper's own recipe, bound or formula, as stated."""
CODE = "#8e5ea2"
"""The authors' code, what lies between it and the theorem, and heads that average."""
REPAIRED = "#0b7a75"
"""Heads that sample a position."""
GOLD, SKY, ORANGE = "#b8860b", "#56b4e9", "#e69f00"
INK, FAINT, PAPER = "#222222", "#bbbbbb", "#ffffff"
CHALK = "#fefefe"
"""White that stays white: on a colour map, also where the page is dark."""
SERIES = (SIGNAL, BLIND, REPAIRED, GOLD, CODE, SKY)
"""Where no meaning is fixed, in this order."""
SLATE, PINK, BROWN = "#546e7a", "#cc79a7", "#7a4419"
HEADS = (GOLD, SLATE, PINK, BROWN, SKY)
"""Heads by number, in colours without a meaning: they stand beside bits, forces and recipes."""
ON_DARK = {
    BIT: "#3ecfa4", BLIND: "#ff8f4a", SIGNAL: "#5cb3f0", STATED: "#a3a9b1", CODE: "#c79ade", REPAIRED: "#35bdb4",
    GOLD: "#dcb04a", SKY: "#8ccdf5", ORANGE: "#f0b840",
    SLATE: "#b7c4cf", PINK: "#e39ac5", BROWN: "#c98b4e", INK: "#dde1e6", FAINT: "#5b626b", PAPER: "#121212",
    "#e4e4e4": "#333a43", "#444444": "#9aa1a9", "#f0f0f0": "#20262e",
}  # fmt: skip
"""What a colour becomes on a dark page; any other stays."""
COLUMN, FULL, NARROW = 4.6, 7.6, 3.7
"""Widths in inches: one panel, the whole column of text, and a phone."""
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NARROW_SVG = "application/x-narrow-svg"
"""The type under which a notebook keeps a figure's layout for phones, beside the usual ones."""

RECIPES: dict[str, tuple[str, str]] = {
    "theory": ("The theorem's recipe", STATED),
    "later-code": ("The authors' later code", CODE),
    "figure2": ("The authors' code", CODE),
    "figure2-population": ("... with the exact gradient", CODE),
    "figure2-signed": ("... and labels ±1", SIGNAL),
    "repaired": ("Heads that sample", REPAIRED),
    "product-head": ("Heads that sample, from batches", REPAIRED),
}
"""How every recipe is called in prose and on figures, and its colour."""

THEME: dict[str, Any] = {
    "figure.constrained_layout.use": True,
    "figure.figsize": (FULL, 3.2),
    "savefig.dpi": 200,
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "figure.titlesize": 10.5,
    "figure.titleweight": "bold",
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "axes.edgecolor": "#444444",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
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
    try:
        from IPython import get_ipython
        from IPython.core.pylabtools import select_figure_formats
    except ImportError:  # no notebook
        return
    if (shell := get_ipython()) is not None:
        select_figure_formats(shell, [])
        shell.display_formatter.mimebundle_formatter.for_type(Figure, bundle)


def bundle(figure: Figure, *_: Any, **__: Any) -> dict[str, str]:
    """What a notebook keeps of a figure: SVG, PNG and, if it was made under :func:`drawing`, SVG for a phone."""
    kept = {"image/svg+xml": _saved(figure, "svg").decode()}
    kept["image/png"] = base64.b64encode(_saved(figure, "png")).decode()
    if figure in _redraw:
        small = _redraw[figure]()
        kept[NARROW_SVG] = _saved(small, "svg").decode()
        plt.close(small)
    return kept


def _saved(figure: Figure, kind: str) -> bytes:
    picture = io.BytesIO()
    note = {"svg": {"Date": None}, "png": {"Software": None}}[kind]
    figure.savefig(picture, format=kind, metadata=note, bbox_inches="tight", pad_inches=0.03)
    return picture.getvalue()


def drawing(draw: T) -> T:
    """A figure function of which a page also gets the layout for phones; and the last touches to both."""

    @wraps(draw)
    def drawn(*given: Any, **named: Any) -> Figure:
        figure = _finished(draw(*given, **named))
        _redraw[figure] = lambda: narrow(draw, *given, **named)
        return figure

    return drawn  # type: ignore[return-value]


def narrow(draw: Callable[..., Figure], *given: Any, **named: Any) -> Figure:
    """The figure with its panels one below the other."""
    global _narrow
    _narrow = True
    try:
        return _finished(draw(*given, **named))
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
        size = (width, height)
        figure, axes = plt.subplots(1, count, figsize=size, squeeze=False, sharey=share, width_ratios=ratios)
    return figure, list(axes.flat)


def finding(figure: Figure, holds: bool, text: str, otherwise: str) -> Figure:
    """The figure with its title: the finding where it is true of the frame, else what is shown."""
    figure.suptitle(text if holds else otherwise, x=0.01, ha="left")
    return figure


def _finished(figure: Figure) -> Figure:
    """Titles broken to their width, labels of a shared axis once, labels of lines apart."""
    width = figure.get_figwidth()
    if title := figure.get_suptitle():
        figure.suptitle(_wrapped(title, width), x=0.01, ha="left")
    for ax in figure.axes:
        spec = ax.get_subplotspec()
        columns = spec.get_geometry()[1] if spec else 1
        if title := ax.get_title(loc="left"):
            ax.set_title(_wrapped(title, width / columns - 0.3))
        if columns > 1 and len(ax.get_shared_y_axes().get_siblings(ax)) > 1:
            ax.label_outer(remove_inner_ticks=False)
    if labelled := [ax for ax in figure.axes if any(text.get_gid() == "series" for text in ax.texts)]:
        figure.draw_without_rendering()
        for ax in labelled:
            named = [text for text in ax.texts if isinstance(text, Annotation) and text.get_gid() == "series"]
            _spread(named, ax.bbox.y0 - 2, ax.bbox.y1 + 3)
    return figure


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


def _dots_only(lines: Iterable[Any]) -> None:
    """The same for every series by itself, where others are longer."""
    for line in lines:
        if line.get_linestyle() == "-" and line_style(line.get_xdata()) == "none":
            line.set(linestyle="none", marker="o")


def success_lines(frame: pd.DataFrame, x: str, y: str, **how: Any) -> Axes:
    """Rates of the truth values in ``y`` against ``x``, in percent, with Wilson bars: seaborn's line plot."""
    style = {"errorbar": wilson_percent, "err_style": "bars", "marker": "o", "err_kws": {"capsize": 2}}
    axes = sns.lineplot(percent(frame, y), x=x, y=y, **(style | {"ls": line_style(frame[x])} | how))
    _dots_only(axes.get_lines())
    axes.set(ylim=(-4, 104), ylabel="success, % of runs")
    return axes


def medians(frame: pd.DataFrame, x: str, y: str, **how: Any) -> Axes:
    """Medians of ``y`` against ``x`` with the quartiles as a band, or as bars where there is no line."""
    style: dict[str, Any] = {"estimator": "median", "errorbar": ("pi", 50), "ls": line_style(frame[x])}
    if style["ls"] == "none":
        style |= {"marker": "o", "err_style": "bars"}
    axes = sns.lineplot(frame, x=x, y=y, **(style | how))
    _dots_only(axes.get_lines())
    return axes


def curves(plot: Callable[..., Axes], frame: pd.DataFrame, x: str, y: str, colours: Mapping[str, str], *,
           hue: str, panel: str | None = None, titles: Mapping[Any, str] | None = None, log: str = "",
           height: float = 3.1, share: bool = True, ticks: Iterable[float] | None = None, xlabel: str = "",
           ylabel: str = "", names: Mapping[str, str] | None = None, **how: Any) -> Figure:  # fmt: skip
    """``plot`` (:func:`success_lines` or :func:`medians`) for every value of ``hue``, in the order of ``colours``.

    ``panel`` is a column with a panel for each of its values, called as ``titles`` say; ``log`` names the axes with a
    logarithmic scale, and ``names`` say how a series is called if not by its value.
    """
    values = [None] if panel is None else [v for v in (titles or frame[panel].unique()) if v in set(frame[panel])]
    figure, axes = panels(len(values), height, share=share, width=FULL if len(values) > 1 else 6.2)
    for ax, value in zip(axes, values, strict=True):
        part = frame if panel is None else frame[frame[panel] == value]
        shown = [name for name in colours if name in set(part[hue])]
        plot(part, x, y, hue=hue, hue_order=shown, palette=dict(colours), ax=ax, **how)
        ax.set(xlabel=xlabel or x, **({"ylabel": ylabel} if ylabel else {}))
        ax.set(**{f"{axis}scale": "log" for axis in log})
        ticks_at(ax.xaxis, ticks or frame[x])
        if panel is not None:
            ax.set_title((titles or {}).get(value, str(value)))
    label_last(axes, names)
    return figure


def rate_rows(frame: pd.DataFrame, success: str, row: str, rows: Mapping[str, str], hue: str,
              colours: Mapping[str, str], ax: Axes, **how: Any) -> None:  # fmt: skip
    """Rates in percent with Wilson bars, a row for each of ``rows``, a dot for every value of ``hue``, named on top."""
    spread = {"dodge": 0.35} if hue != row and len(colours) > 1 else {}
    style = {"ls": "none", "markersize": 5, "err_kws": {"linewidth": 4, "alpha": 0.3}, "errorbar": wilson_percent}
    sns.pointplot(percent(frame, success), y=row, x=success, hue=hue, order=list(rows), hue_order=list(colours),
                  palette=dict(colours), ax=ax, legend=False, **(style | spread | how))  # fmt: skip
    ax.set_yticks(range(len(rows)), list(map(short_lines, rows.values())))
    ax.set(xlabel="% of runs", ylabel="", xlim=(-4, 104), xticks=[0, 25, 50, 75, 100])
    ax.grid(axis="y", visible=False)


def colour_words(ax: Axes, colours: Mapping[str, str], marks: Mapping[str, str] | None = None, **where: Any) -> None:
    """The names of the series, each in its colour, in place of a legend: above the panel, unless told ``where``."""
    shapes = dict.fromkeys(colours, "o") | dict(marks or {})
    words = [plt.Line2D([], [], color=colours[name], marker=shapes[name], ls="none", ms=5) for name in colours]
    above = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 1 if _narrow else len(colours)}
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


def label_last(axes: Sequence[Axes], names: Mapping[str, str] | None = None) -> None:
    """Name the series at the last of panels in a row; in a column, at every one."""
    for ax in axes:
        if _narrow or ax is axes[-1]:
            label_lines(ax, names)
        elif (legend := ax.get_legend()) is not None:
            legend.remove()


def label_lines(ax: Axes, names: Mapping[str, str] | None = None) -> None:
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
            name = (names or {}).get(label, label)
            say(ax, x[last], y[last], short_lines(name, 13), colour, gid="series")


def say(ax: Axes, x: float, y: float, text: str, colour: str = INK, shift: tuple[float, float] = (6, 0),
        ha: str = "left", va: str = "center", **how: Any) -> None:  # fmt: skip
    """Words beside a point, ``shift`` points away."""
    style: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9, "annotation_clip": False}
    ax.annotate(text, (x, y), shift, color=colour, ha=ha, va=va, **(style | how))


def _spread(labels: Collection[Annotation], low: float, high: float) -> None:
    """Move labels that cover each other apart, up and down alike, and all between two heights of the page.

    Above there would be a title, below the numbers of the axis.
    """
    boxes = [(label, label.get_window_extent()) for label in labels]
    stacks: list[tuple[float, list[tuple[Annotation, Bbox]]]] = []  # the foot of labels that touch, and these
    for one in sorted(boxes, key=lambda box: box[1].y0 + box[1].y1):
        foot, stack = one[1].y0, [one]
        while True:
            foot = max(low, min(foot, high - _height(stack)))
            if not stacks or stacks[-1][0] + _height(stacks[-1][1]) < foot:
                break
            stack = stacks.pop()[1] + stack
            lifts = np.cumsum([0.0] + [box.height + 1 for _, box in stack[:-1]])
            foot = float(np.mean([box.y0 - lift for (_, box), lift in zip(stack, lifts, strict=True)]))
        stacks.append((foot, stack))
    for foot, stack in stacks:
        for label, box in stack:
            x, y = label.get_position()
            label.set_position((x, y + (foot - box.y0) * 72 / label.figure.dpi))
            foot += box.height + 1


def _height(stack: Sequence[tuple[Annotation, Bbox]]) -> float:
    """Of labels one above the other, a pixel apart."""
    return sum(box.height + 1 for _, box in stack) - 1


def plain_log_ticks(axis: Axis) -> None:
    """Ticks at 1, 2, 5, 10, ... of a log axis, written out: for axes of few powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ScalarFormatter())
    axis.set_minor_locator(NullLocator())


def ticks_at(axis: Axis, values: Iterable[float]) -> None:
    """Ticks at just these values, written out."""
    chosen = sorted(set(values))
    axis.set_ticks(chosen, [f"{value:g}" for value in chosen])
    axis.set_minor_locator(NullLocator())


def boxed(title: str, frame: pd.DataFrame, note: str) -> HTML:
    """A table in a box of the page, with what follows from it."""
    from IPython.display import HTML

    table = frame.to_html(index=False, border=0, classes="table")
    table = f'<div style="overflow-x: auto; font-size: 0.85em">{table}</div>'  # on a phone it scrolls, not the page
    inside = f'<p class="admonition-title">{escape(title)}</p>{table}<p>{escape(note)}</p>'
    return HTML(f'<div class="admonition important">{inside}</div>')


def folded(title: str, frame: pd.DataFrame) -> HTML:
    """A table behind its title, to be opened by a reader who wants to look something up."""
    from IPython.display import HTML

    table = frame.to_html(index=False, border=0, classes="table", float_format=written)
    return HTML(f'<details class="folded-table"><summary>{escape(title)}</summary>{table}</details>')


def power_of_ten(value: float) -> str:
    """The power of ten next to a number, as ``10⁻¹³``."""
    return "10" + str(round(np.log10(value))).translate(RAISED)


def written(value: float) -> str:
    """A number with three digits; the very large and the very small as ``1.2·10⁻¹³``."""
    digits, _, power = f"{value:.3g}".partition("e")
    return digits + ("·10" + str(int(power)).translate(RAISED) if power else "")

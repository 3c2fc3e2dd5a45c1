"""What is to be seen in a figure, in words for those who cannot see it, read off the figure itself.

So the words are true of what is shown, whatever the run found. How the figure is laid out is told by the page.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

# Shares of the height of a panel: a line that moves less is level, one that turns back by more has a peak.
FLAT, TURN = 0.05, 0.12


def headline(figure: Figure) -> str:
    """The titles of a figure, which are its findings."""
    return _sentences(part.get_suptitle() for part in (figure, *getattr(figure, "subfigs", ())))


def seen(figure: Figure) -> str:
    """A sentence for every panel that has one to tell: its title, and where each of its series runs."""
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    names = {colour: name for ax in panels for colour, name in _names(ax).items()}
    return _sentences(_panel(ax, names) for ax in panels)


def _panel(ax: Axes, names: dict[str, str]) -> str:
    """The title of a panel, and its cells or series."""
    cells = [part for part in ax.collections if isinstance(part, QuadMesh)]
    told = [text for mesh in cells if (text := _cells(ax, mesh))] or list(_rows(ax, names)) or list(_lines(ax, names))
    title = _plain(ax.get_title(loc="left") or ax.get_title())
    return ": ".join(filter(None, (title, "; ".join(told)))) if told or len(title.split()) > 2 else ""


def _names(ax: Axes) -> dict[str, str]:
    """The names of series by colour: words at their ends, or in place of a legend."""
    legend = ax.get_legend()
    words = [text for text in ax.texts if text.get_gid() == "series"] + (legend.get_texts() if legend else [])
    return {to_hex(text.get_color()): _plain(text.get_text()) for text in words}


def _rows(ax: Axes, names: dict[str, str]) -> Iterator[str]:
    """Dots in rows that have names: the value of each."""
    labels = dict(zip(ax.get_yticks(), _ticks(ax.yaxis), strict=True))
    dots = [line for line in ax.lines if line.get_linestyle() == "None" and line.get_marker() not in ("None", "", "_")]
    if not dots or any(_is_number(label) for label in labels.values()):
        return
    several = len({to_hex(line.get_color()) for line in dots if len(_points(line)) > 1}) > 1
    for row, label in labels.items():
        found = [(line, x) for line in dots for x, y in _points(line) if abs(y - row) < 0.4]
        called = [f"{names.get(to_hex(line.get_color()), '')} " if several else "" for line, _ in found]
        values = [f"{name}{_written(x, ax.get_xlabel())}" for name, (_, x) in zip(called, found, strict=True)]
        if values:
            yield f"{label}: {', '.join(values)}"


def _lines(ax: Axes, names: dict[str, str]) -> Iterator[str]:
    """The first line of every colour that has a name: where it starts, turns and ends."""
    shown: set[str] = set()
    for line in ax.lines:
        colour, points = to_hex(line.get_color()), _points(line)
        if colour in names and colour not in shown and len({x for x, _ in points}) > 2:
            shown.add(colour)
            yield f"{names[colour]}: {_course(ax, points)}"


def _course(ax: Axes, points: list[tuple[float, float]]) -> str:
    """How a line runs through its points, from left to right."""
    points = sorted(points)
    label = " ".join(other.get_ylabel() for other in ax.get_shared_y_axes().get_siblings(ax))
    low, high = sorted(ax.get_ylim())
    logarithmic = ax.get_yscale() == "log"
    height = np.log(high / low) if logarithmic else high - low
    y = np.array([value for _, value in points])
    level = (np.log(np.maximum(y, 1e-300)) if logarithmic else y) / height
    first, last, top, foot = 0, len(y) - 1, int(level.argmax()), int(level.argmin())

    def at(index: int) -> str:
        return f"{_written(y[index], label)} at {_written(points[index][0])}"

    if np.ptp(level) < FLAT:
        return f"near {_written(float(np.median(y)), label)} throughout"
    if level[top] - max(level[first], level[last]) > TURN:
        return f"from {at(first)} up to {at(top)} and down to {at(last)}"
    if min(level[first], level[last]) - level[foot] > TURN:
        return f"from {at(first)} down to {at(foot)} and up to {at(last)}"
    return f"from {at(first)} {'up' if level[last] > level[first] else 'down'} to {at(last)}"


def _cells(ax: Axes, mesh: QuadMesh) -> str:
    """The range of a table of coloured cells with a name for every row and column, and where its largest is."""
    values = np.ma.filled(np.ma.masked_invalid(np.asarray(mesh.get_array())).astype(float), np.nan)
    rows, columns = _ticks(ax.yaxis), _ticks(ax.xaxis)
    if values.shape != (len(rows), len(columns)) or not np.isfinite(values).any():
        return ""
    row, column = np.unravel_index(np.nanargmax(values), values.shape)
    low, high = _written(float(np.nanmin(values))), _written(float(np.nanmax(values)))
    across, up = (_plain(label) or "column" for label in (ax.get_xlabel(), ax.get_ylabel()))
    return f"cells from {low} to {high}, the largest at {across} {columns[column]}, {up} {rows[row]}"


def _ticks(axis: Axis) -> list[str]:
    """The words at the ticks, also where a neighbouring panel shows them."""
    return [_plain(str(text)) for text in axis.get_major_formatter().format_ticks(list(axis.get_majorticklocs()))]


def _points(line: Line2D) -> list[tuple[float, float]]:
    x, y = (np.asarray(part, float) for part in line.get_data())
    return [(a, b) for a, b in zip(x, y, strict=True) if np.isfinite(a) and np.isfinite(b)]


def _written(value: float, label: str = "") -> str:
    """A number of two digits, or of three before the point; percent where the axis is."""
    if "%" in label:
        return f"{value:.0f} %"
    if value and not 1e-3 <= abs(value) < 1e4:
        return f"10 to the power {np.log10(abs(value)):.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2g}"


def _is_number(text: str) -> bool:
    return not text.strip("−-0123456789.,⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _plain(text: str) -> str:
    return " ".join(text.replace("\xa0", " ").split())


def _sentences(parts: Iterable[str]) -> str:
    return " ".join(f"{text.rstrip('.')}." for part in parts if (text := _plain(part)))

"""At the doors: what was wrong, what is allowed and what was given, in one sentence for whoever gave it.

Numbers of Python, numpy and torch are numbers; a truth value is none.
"""

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any, TypeGuard


def _scalar(value: Any) -> Any:
    return value.item() if getattr(value, "shape", None) == () else value


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a value is a whole number."""
    return isinstance(_scalar(value), Integral) and not isinstance(_scalar(value), bool)


def whole(value: Any, name: str, least: int, most: int | None = None) -> int:
    """A whole number as an int, or a ValueError that says what ``name`` must be."""
    if not is_whole(value) or value < least or (most is not None and value > most):
        allowed = f"of at least {least}" if most is None else f"in {least}..{most}"
        raise ValueError(f"{name} must be a whole number {allowed}, got {value!r:.80}")
    return int(value)


def number(value: Any, name: str, zero: bool = False) -> float:
    """A positive finite number (or ``zero``) as a float, or a ValueError that says what ``name`` must be."""
    given = _scalar(value)
    fits = isinstance(given, Real) and not isinstance(given, bool) and given < 1.79e308  # beyond it, an int is no float
    found = float(given) if fits else math.nan
    if not (found > 0 or (zero and found == 0)):
        raise ValueError(f"{name} must be a {'non-negative' if zero else 'positive'} finite number, got {value!r:.80}")
    return found


def known(value: Any, names: Collection[str], subject: str) -> str:
    """One of the names, or a ValueError that lists them after ``unknown`` and the subject."""
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"unknown {subject}; known: {', '.join(names)}")
    return value

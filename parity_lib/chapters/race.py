"""A race: a recipe of your own on the atlas's success chart, with its sets, starts, criterion and budget."""

import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from ..checks import known
from ..recipes import RECIPES, Recipe
from ..task import Parity
from ..training import risk_of
from .robustness import REPAIRED, SIGNED, STATED, counts, on_mixed_sets
from .store import kept

RIVALS = ("theory", "figure2-signed", "repaired")
"""The named recipes that a race is against unless others are asked for: those of the chart."""
CHARTED = {recipe.name: recipe for recipe in (STATED[0], SIGNED, REPAIRED)}  # as the chart has them, so as kept
LONGEST_NAME = 40


class RecipeError(ValueError):
    """A file that holds no recipe, in one sentence."""


def load(path: Path) -> Recipe:
    """The recipe in a Python file, which is **executed**, with all that any program may do: race files you trust.

    The file defines ``RECIPE``, a :class:`parity_lib.recipes.Recipe`; or a function ``loss(label, prediction)``, a
    read-out ``head(s, k)``, or both, which then take the places of those of ``figure2-signed``, under the file's name.
    """
    if path.is_fifo() or path.is_char_device():
        raise RecipeError(f"{path} must be a file, not a pipe or a device")  # whose reading may never end
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RecipeError(f"{path} is not Python: it is not text") from None
    return from_source(source, path.name, path.resolve().parent)


def from_source(source: str, filename: str, folder: Path | None = None) -> Recipe:
    """:func:`load` of a text; ``folder`` is where its own imports are looked for first."""
    module = ModuleType("recipe")  # where a dataclass looks for the names in its annotations
    module.__file__ = filename
    names, before, other = vars(module), list(sys.path), sys.modules.get("recipe")
    sys.path[:0] = [str(folder)] if folder else []
    sys.modules["recipe"] = module
    try:
        exec(compile(source, filename, "exec"), names)
        return _recipe(names, Path(filename).stem)
    except RecipeError as error:
        raise RecipeError(f"{filename}: {error}") from None
    except (Exception, SystemExit) as error:
        raise RecipeError(f"{filename}{_line(error, filename)}: {_sentence(error)}") from None
    finally:
        sys.path[:] = before
        sys.modules.pop("recipe", None)
        sys.modules |= {"recipe": other} if other else {}


def _recipe(names: Mapping[str, Any], stem: str) -> Recipe:
    found = names.get("RECIPE")
    if found is None:
        parts = {part: names[part] for part in ("loss", "head") if callable(names.get(part))}
        if not parts:
            raise RecipeError("it must define RECIPE, a function loss(label, prediction) or a function head(s, k)")
        about = f"{SIGNED.name} with another {' and another '.join(parts)}"
        found = replace(SIGNED, name=stem, about=about, accuracy=None, **parts)
    if not isinstance(found, Recipe):
        raise RecipeError(f"RECIPE must be a parity_lib.Recipe, got {type(found).__name__}")
    if not isinstance(found.name, str) or not found.name.isprintable() or not 0 < len(found.name) <= LONGEST_NAME:
        raise RecipeError(f"a recipe's name must be 1 to {LONGEST_NAME} signs that print, got {found.name!r:.60}")
    if found.name in RECIPES:
        raise RecipeError(f"the name {found.name} is taken, choose another")
    return found


def _line(error: BaseException, filename: str) -> str:
    """Where in the user's file an error came about."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}" if error.lineno else ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == filename]
    return f", line {lines[-1]}" if lines else ""


def _sentence(error: BaseException) -> str:
    said = " ".join((error.msg if isinstance(error, SyntaxError) else str(error)).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def rivals(names: Iterable[str], n: int = 2) -> list[Recipe]:
    """The named recipes, each once, as the chart has them, if they can be trained on n positions."""
    listed = list(names)
    if len(set(listed)) < len(listed):
        raise ValueError(f"recipes to race against must be distinct, got {', '.join(listed)}")
    chosen = [CHARTED.get(name) or RECIPES[known(name, RECIPES, f"recipe {name!r}")] for name in listed]
    if n > 24 and (drawing := [recipe.name for recipe in chosen if recipe.cube_share]):
        raise ValueError(f"against {', '.join(drawing)}, on a share of all inputs, n must be at most 24, got {n}")
    return chosen


def run(recipe: Recipe, n: int, ks: Sequence[int], pairs: int, updates: int, device: str = "cpu") -> pd.DataFrame:
    """The recipe on the chart: for each k, ``pairs`` sets and starts, half of the sets with neighbours.

    One row a run, as :func:`parity_lib.chapters.robustness.outcomes` has it, with the name in ``recipe``. A recipe of
    plain settings is found again in the store; one with functions of its own is trained anew.
    """
    plain = not callable(recipe.loss) and not callable(recipe.head)
    on_sets = on_mixed_sets if plain else on_mixed_sets.__wrapped__  # type: ignore[attr-defined]
    return pd.concat([on_sets(recipe, n, k, pairs, updates, device) for k in ks], ignore_index=True)


def error_estimate(recipe: Recipe, n: int, ks: Iterable[int]) -> float:
    """How far off the exact risk of the recipe is by estimate: the largest for any of those numbers of bits.

    Infinite where it cannot be told, as for a loss that jumps; see :class:`parity_lib.risk.PopulationRisk`.
    """
    risks = (risk_of([Parity(n, range(1, k + 1))], recipe) for k in ks)  # the same for all sets of k bits
    return max(getattr(risk, "error_estimate", 0.0) for risk in risks)


@kept
def run_source(
    source: str, filename: str, n: int, ks: Sequence[int], pairs: int, updates: int, device: str = "cpu"
) -> pd.DataFrame:
    """:func:`run` of the recipe in a text that imports nothing of its own, kept under that text."""
    return run(from_source(source, filename), n, ks, pairs, updates, device)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Committed runs as ``k of N``: a row a recipe, a column a number of bits, and all of them together."""
    named = frame.assign(k="k = " + frame["k"].astype(str), all="all")
    return counts(named, ["recipe"], "k").merge(counts(named, ["recipe"], "all"))

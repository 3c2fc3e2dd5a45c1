"""What the frames of :mod:`parity_lib.chapters.sensitivity` say: means, slopes, and the verdicts of the essay.

Each of the claims is judged from frames alone, to the letter of its check in ``book/claims.yml``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import linregress, sem, spearmanr
from scipy.stats import t as student

from ..evidence import Interval, Verdict
from .boolean import EASY

CLIMBS = 0.5  # rank correlation from which a quantity climbs
RIGHT = 0.999  # share of strings that a model with a scratchpad must write without a mistake


# Statistics


def slope(x: Sequence[float], y: Sequence[float]) -> Interval | None:
    """Least-squares slope with its Student interval; none with fewer than three points or one x."""
    if len(x) < 3 or len(set(x)) < 2:
        return None
    fit = linregress(x, y)
    return _student(float(fit.slope), fit.stderr, len(x) - 2)


def mean_interval(values: Sequence[float]) -> Interval:
    """Mean with its Student interval; infinitely wide for a single value."""
    alone = len(values) < 2
    return _student(float(np.mean(values)), math.inf if alone else sem(values), max(1, len(values) - 1))


def _student(middle: float, error: float, freedom: int) -> Interval:
    reach = float(student.ppf(0.975, freedom)) * float(error)
    return Interval(middle, middle - reach, middle + reach)


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's correlation; 0 where one side is constant or has fewer than three points."""
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return 0.0
    return float(spearmanr(x, y).statistic)


def means(runs: pd.DataFrame, quantity: str, by: str | list[str] = "n") -> pd.DataFrame:
    """Means over converged runs, a row per ``by``, a column per function; a gap where none converged."""
    return runs[runs["converged"]].pivot_table(index=by, columns="function", values=quantity)


def growth(runs: pd.DataFrame, function: str, quantity: str) -> Interval | None:
    """Slope of a quantity of the converged runs of a function against length."""
    good = runs[runs["converged"] & (runs["function"] == function)]
    return slope(good["n"], good[quantity])


def above_easy(runs: pd.DataFrame, quantity: str) -> pd.Series:
    """PARITY's mean minus the largest mean of an easy function, by length where runs of both converged."""
    table = means(runs, quantity).reindex(columns=["PARITY", *EASY])
    return (table["PARITY"] - table[list(EASY)].max(axis=1)).dropna()


def lead(runs: pd.DataFrame, by: str | list[str]) -> pd.Series:
    """PARITY's mean sharpness in units of the largest mean of an easy function, where runs of both converged."""
    table = means(runs, "sharpness", by).reindex(columns=["PARITY", *EASY])
    return (table["PARITY"] / table[list(EASY)].max(axis=1)).dropna()


def sharpness_table(runs: pd.DataFrame, by: str | list[str]) -> pd.DataFrame:
    """PARITY runs converged, as ``5/6``, and the mean sharpness of every function over converged runs."""
    parity = runs[runs["function"] == "PARITY"].groupby(by, sort=False)["converged"].agg(["sum", "count"]).astype(str)
    converged = parity["sum"] + "/" + parity["count"]
    sharp = means(runs, "sharpness", by).reindex(converged.index)
    columns = {f"sharpness of {name}": sharp[name].map("{:.3f}".format) for name in sharp}
    return pd.DataFrame({"PARITY converged": converged} | columns).replace("nan", "")


def sensitivity_ranks(runs: pd.DataFrame) -> dict[str, float]:
    """Rank correlation of average sensitivity with sharpness, blowup and least product, over converged runs."""
    good = runs[runs["converged"]]
    return {name: rank_correlation(good["sensitivity"], good[name]) for name in ("sharpness", "blowup", "least")}


def sharper_than_first(flat: pd.DataFrame) -> pd.Series:
    """By length, whether the flattest PARITY is sharper than the flattest FIRST, by two standard errors."""
    both = flat.pivot(index="n", columns="function", values=["sharpness", "error"]).dropna()
    sharp, error = both["sharpness"], both["error"]
    return sharp["PARITY"] - sharp["FIRST"] > 2 * np.hypot(error["PARITY"], error["FIRST"])


# Verdicts


def judge_sharpness(runs: pd.DataFrame, flat: pd.DataFrame) -> Verdict:
    """``sens-sharpness``, from trained ``runs`` by length and the flattest, ``flat``, that weight noise found."""
    above, grown = above_easy(runs, "sharpness"), growth(runs, "PARITY", "sharpness")
    parity = runs[runs["function"] == "PARITY"].groupby("n")["converged"].agg(["sum", "count"])
    sharp, sharper = flat.pivot(index="n", columns="function", values="sharpness").dropna(), sharper_than_first(flat)
    numbers = {
        "lead_over_easy": above.to_dict(),
        "slope": str(grown),
        "converged": parity["sum"].to_dict(),
        "started": parity["count"].to_dict(),
        "flattest_parity": sharp["PARITY"].to_dict(),
        "flattest_first": sharp["FIRST"].to_dict(),
        "largest_flattest": float(sharp["PARITY"].max()),
    }
    if (above <= 0).any():
        return Verdict("fails", "measured", numbers, "At some length an easy function is as sharp.")
    if (parity["sum"] > 0).sum() < 3 or grown is None or grown.low <= 0:
        return Verdict("open", "measured", numbers)
    if len(sharper) and sharper.all():
        most = numbers["largest_flattest"]
        noise = f"weight noise brings PARITY to {most:.2f} or below at every length tried, and FIRST lower still."
        return Verdict("holds", "measured", numbers, f"How sharp depends on the optimiser: {noise}")
    flat_at = _listed([n for n, there in sharper.items() if not there])
    instead = "It holds of the minima that AdamW reaches from a random start; weight noise finds PARITY "
    instead += f"as flat as FIRST at n = {flat_at}." if flat_at else "at none of the lengths tried."
    return Verdict("narrower range", "measured", numbers, instead)


def judge_average(runs: pd.DataFrame, budget: int) -> Verdict:
    """``sens-average``: steps and sharpness climb with k, and end highest at k = n alone."""
    runs = runs[runs["k"] > 0]  # the k-parities alone
    n, good = int(runs["k"].max()), runs[runs["converged"]]
    last = runs["learned"].clip(upper=2 * budget)  # a run that never learns counts as last
    correlation = {
        "steps": rank_correlation(runs["k"], last),
        "sharpness": rank_correlation(good["k"], good["sharpness"]),
    }
    steps, sharp = last.groupby(runs["k"]).median(), good.groupby("k")["sharpness"].mean()
    hardest, sharpest = ([int(k) for k in values.index[values == values.max()]] for values in (steps, sharp))
    numbers = {
        "correlation": correlation,
        "median_steps": steps.to_dict(),
        "sharpness": sharp.to_dict(),
        "most_steps_at": hardest,
        "sharpest_at": sharpest,
    }
    climbs = [name for name, value in correlation.items() if value >= CLIMBS]
    if len(climbs) == 2 and hardest == sharpest == [n]:
        return Verdict("holds", "measured", numbers)
    if not climbs:
        return Verdict("fails", "measured", numbers)
    said = {
        "sharpness": "sharpness climbs with k" + (" to the end" if sharpest == [n] else ", but not to the end"),
        "steps": "the steps to learn climb with k" + (" to the end" if hardest == [n] else ", but not to the end"),
    }
    instead = "; ".join(said[name] for name in sorted(climbs))
    instead += "" if "steps" in climbs else f"; the steps to learn do not: fewer at k = {n} than before"
    return Verdict("narrower range", "measured", numbers, f"{instead[0].upper()}{instead[1:]}.")


def judge_tradeoff(runs: pd.DataFrame) -> Verdict:
    """``sens-tradeoff``: the least product over the symmetries, PARITY above the easy functions and growing."""
    above, grown = above_easy(runs, "least"), growth(runs, "PARITY", "least")
    parity = runs[(runs["function"] == "PARITY") & runs["converged"]]
    numbers = {
        "log10_lead_over_easy": above.to_dict(),
        "slope_per_bit": str(grown),
        "slope_of_FIRST": str(growth(runs, "FIRST", "least")),
        "runs": len(parity),
    }
    if len(parity) < 6 or grown is None or not len(above):
        return Verdict("open", "measured", numbers)
    found = {"PARITY lies above the easy functions at every length": bool((above > 0).all()),
             "the least product grows with length": grown.low > 0}  # fmt: skip
    true = [text for text, there in found.items() if there]
    if len(true) == 2:
        return Verdict("holds", "measured", numbers)
    if true:
        return Verdict("narrower range", "measured", numbers, f"Of the two parts one: {true[0]}.")
    return Verdict("fails", "measured", numbers)


def random_gaps(untrained: pd.DataFrame) -> pd.DataFrame:
    """Start and layers at which the interval of transformers lies below that of LSTMs, in column ``below``."""
    intervals = untrained.groupby(["start", "layers", "kind"], sort=False)["sensitivity"].apply(mean_interval).unstack()
    below = [ours.high < theirs.low for ours, theirs in zip(intervals["transformer"], intervals["LSTM"], strict=True)]
    return intervals.assign(below=below).reset_index()


def judge_bias(fits: pd.DataFrame, refits: pd.DataFrame, untrained: pd.DataFrame) -> Verdict:
    """``sens-bias``: learned tables against coins, their sharpness, and random weights against LSTMs."""
    right = (fits["accuracy"] == 1).groupby(fits["labels"]).mean()
    differences = (fits["learned"] - fits["filled"]).groupby(fits["labels"]).apply(mean_interval)
    judged = differences[right > 0.5]
    pairs = refits[refits["converged"]].pivot_table(index="function", columns="table", values="sharpness")
    pairs = pairs.reindex(columns=["learned", "filled by coins"]).dropna()
    flatter = mean_interval(pairs["learned"] - pairs["filled by coins"]) if len(pairs) else None
    gaps = random_gaps(untrained)
    numbers = {
        "difference": differences.map(str).to_dict(),
        "every_label_right": right.to_dict(),
        "sharpness_learned_minus_filled": str(flatter),
        "pairs": len(pairs),
        "below_LSTM": {f"{row.start}, {row.layers} layers": bool(row.below) for row in gaps.itertuples()},
    }
    if judged.empty:
        return Verdict("open", "measured", numbers)
    if any(difference.high >= 0 for difference in judged):
        return Verdict("fails", "measured", numbers)
    flat = flatter is not None and flatter.high < 0
    if flat and gaps["below"].all():
        return Verdict("holds", "measured", numbers)
    layers = sorted(set(gaps[gaps["below"]]["layers"]))
    starts = list(dict.fromkeys(gaps[gaps["below"]]["start"]))
    instead = "True of functions learned from labels" + (", and of their sharpness" if flat else "")
    instead += f"; of random weights only with {_listed(layers)} layers and starts {_listed(starts)}" if starts else ""
    return Verdict("narrower range", "measured", numbers, f"{instead}.")


def judge_scratchpad(pads: pd.DataFrame, runs: pd.DataFrame, plain: pd.DataFrame) -> Verdict:
    """``sens-scratchpad``, from runs with a scratchpad, those by curriculum without, and ``plain`` ones with neither.

    Runs marked as a ``trial`` are left out.
    """
    pads = pads[~pads["trial"]]
    bare = means(runs, "sharpness").get("PARITY", pd.Series(dtype=float))
    written = pads.groupby("n")["sharpness"].mean()
    ratio, alone = (written / bare).dropna(), np.isfinite(plain["learned"]).groupby(plain["n"]).sum()
    numbers = {
        "right": pads.groupby("n")["right"].min().to_dict(),
        "share_of_bare_sharpness": ratio.to_dict(),
        "answer_alone_learned_without_curriculum": alone.to_dict(),
    }
    if not len(pads) or (pads["right"] < RIGHT).any():
        return Verdict("fails", "measured", numbers)
    flat = len(ratio) > 0 and bool((ratio < 0.5).all())
    further = bool((alone.reindex(written.index) == 0).any())
    if flat and further:
        return Verdict("holds", "measured", numbers)
    said = ["its minima are not everywhere flatter"] * (not flat) + ["so is the answer alone"] * (not further)
    return Verdict("narrower range", "measured", numbers, f"It is learned; {', and '.join(said)}.")


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))

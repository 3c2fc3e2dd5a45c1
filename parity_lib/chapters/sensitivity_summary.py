"""What the experiments of :mod:`parity_lib.chapters.sensitivity` say, and the verdicts of the chapter ``sensitivity``.

A summary holds what the chapter says about an experiment, and each of the four claims is judged from summaries
alone, to the letter of its check in :mod:`parity_lib.build.claims`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import linregress, spearmanr
from scipy.stats import t as student

from ..evidence import Interval, Rate, Verdict, decide, wilson
from .boolean import EASY
from .sensitivity import KINDS, LEARNED, Course, Fit, Measured

LEFT = 0.2  # loss below which a run of PARITY has left the plateau of a constant answer, 1/4
WIDE = ("N(0, 10²)", "U(-10, 10)")  # the starts that the claim on random weights is about


# Statistics


def slope(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> Interval | None:
    """Least-squares slope with its Student interval; none with fewer than three points or one x."""
    if len(x) < 3 or len(set(x)) < 2:
        return None
    fit = linregress(x, y)
    reach = float(student.ppf(0.975, len(x) - 2)) * float(fit.stderr)
    return Interval(float(fit.slope), float(fit.slope) - reach, float(fit.slope) + reach)


def mean_interval(values: np.ndarray) -> Interval:
    """Mean with its Student interval."""
    middle, count = float(np.mean(values)), len(values)
    if count < 2:
        return Interval(middle, -math.inf, math.inf)
    reach = float(student.ppf(0.975, count - 1)) * float(np.std(values, ddof=1)) / math.sqrt(count)
    return Interval(middle, middle - reach, middle + reach)


def rank_correlation(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """Spearman's correlation; 0 where one side is constant or has fewer than three points."""
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return 0.0
    return float(spearmanr(x, y).statistic)


# Growth with length: the claim ``sens-sharpness``


@dataclass(frozen=True)
class Growth:
    """Slope of a quantity of converged runs per bit of length; none where runs are too few."""

    whole: Interval | None
    """Over all lengths."""
    beyond: Interval | None
    """Without the shortest length at which a run converged."""

    @property
    def resolved(self) -> bool:
        """Whether the interval over all lengths lies above 0."""
        return self.whole is not None and self.whole.low > 0

    @property
    def goes_on(self) -> bool:
        """Whether the interval without the shortest length lies above 0."""
        return self.beyond is not None and self.beyond.low > 0

    def numbers(self) -> dict[str, str]:
        """Both slopes as the results file keeps them."""
        return {"slope": _shown(self.whole), "slope_without_shortest": _shown(self.beyond)}

    def words(self) -> str:
        """What the two slopes say together, as the end of a sentence about the quantity."""
        if self.resolved and self.goes_on:
            return "grows with length, and goes on beyond the shortest"
        if self.resolved:
            return "grows from the shortest length on, but beyond it no growth is resolved, so it may not go on"
        if self.goes_on:
            return "grows beyond the shortest length, though not resolved from it on"
        falls = ", and falls beyond the shortest" if self.beyond is not None and self.beyond.high < 0 else ""
        return "shows no growth with length that is resolved" + falls

    def __str__(self) -> str:
        if self.whole is None:
            return "an amount that too few runs show"
        return f"{self.whole}, and {_shown(self.beyond)} without the shortest length"


def growth(results: Mapping[int, Measured], name: str, quantity: str) -> Growth:
    """How a quantity of the converged runs of ``name`` changes with length."""
    kept = [(n, value) for n, found in results.items() for value in found.kept(name, quantity)]
    shortest = min((n for n, _ in kept), default=0)
    later = [point for point in kept if point[0] > shortest]
    return Growth(*(slope([n for n, _ in part], [value for _, value in part]) for part in (kept, later)))


@dataclass(frozen=True)
class Lengths:
    """Converged runs against length."""

    sharpness: Mapping[int, Mapping[str, float]]
    """Mean by length and function, where a run converged."""
    counts: Mapping[int, Mapping[str, tuple[int, int]]]
    """Converged and started, by length and function."""
    growth: Mapping[str, Mapping[str, Growth]]
    """By quantity and function."""

    @property
    def sharpest_easy(self) -> dict[int, float]:
        """Mean sharpness of the sharpest easy function, at every length that has one and PARITY."""
        easy = {n: [value for name, value in by_name.items() if name in EASY] for n, by_name in self.sharpness.items()}
        return {n: max(easy[n]) for n, by_name in self.sharpness.items() if easy[n] and "PARITY" in by_name}

    @property
    def ratio(self) -> dict[int, float]:
        """PARITY's mean sharpness over that of the sharpest easy function, where that is above 0."""
        return {n: self.sharpness[n]["PARITY"] / most for n, most in self.sharpest_easy.items() if most > 0}

    def table(self) -> str:
        """Mean sharpness, converged/started and both slopes as a Markdown table."""
        names = list(self.growth["sharpness"])
        lines = ["| | " + " | ".join(f"n = {n}" for n in self.counts) + " | slope | without the shortest |"]
        lines.append("|--" * (len(self.counts) + 3) + "|")
        for name in names:
            cells = [self._cell(n, name) for n in self.counts]
            slopes = self.growth["sharpness"][name].numbers().values()
            lines.append(f"| {name} | " + " | ".join([*cells, *slopes]) + " |")
        return "\n".join(lines)

    def _cell(self, n: int, name: str) -> str:
        mean = self.sharpness[n].get(name)
        converged, started = self.counts[n][name]
        return ("" if mean is None else f"{mean:.3f} ") + f"({converged}/{started})"


def summarise_lengths(results: Mapping[int, Measured]) -> Lengths:
    """Means, counts and slopes of the runs of :func:`train_named` at several lengths."""
    names = list(dict.fromkeys(name for found in results.values() for name in found.names))
    kept = {n: {name: found.kept(name, "sharpness") for name in names} for n, found in results.items()}
    started = {n: {name: found.names.count(name) for name in names} for n, found in results.items()}
    return Lengths(
        {n: {name: float(values.mean()) for name, values in group.items() if len(values)} for n, group in kept.items()},
        {n: {name: (len(group[name]), started[n][name]) for name in names} for n, group in kept.items()},
        {
            quantity: {name: growth(results, name, quantity) for name in names}
            for quantity in ("sharpness", "norm", "log_blowup", "product")
        },
    )


def judge_sharpness(found: Lengths) -> Verdict:
    """``sens-sharpness``: sharper than every easy function at every length, and the sharper the longer."""
    grown = found.growth["sharpness"]["PARITY"]
    counts = {n: by_name["PARITY"] for n, by_name in found.counts.items()}
    higher = all(found.sharpness[n]["PARITY"] > found.sharpest_easy[n] for n in found.sharpest_easy)
    lengths = sum(converged > 0 for converged, _ in counts.values())
    tested = bool(found.sharpest_easy) and lengths > 1 and grown.whole is not None
    reaches_zero = grown.whole is not None and grown.whole.low <= 0 <= grown.whole.high
    change = "sharper at every length, but growth with length is not resolved" if higher and reaches_zero else ""
    return decide(
        tested and higher and grown.resolved,
        {
            "times_the_sharpest_easy": found.ratio,
            **grown.numbers(),
            "converged": {n: converged for n, (converged, _) in counts.items()},
            "started": max(started for _, started in counts.values()),
        },
        change=change if tested else "",
        otherwise="fails" if tested else "not tested",
    )


# The ladder of k-parities: the claim ``sens-average``


@dataclass(frozen=True)
class Ladder:
    """k-parity inside n bits against k."""

    n: int
    correlation: Mapping[str, float]
    """Rank correlation with k of the steps to learn (all runs) and of sharpness (converged runs)."""
    steps: Mapping[int, float]
    """Median steps to learn, infinite where half of the runs or more never do."""
    learned: Mapping[int, Rate]
    sharpness: Mapping[int, float]
    """Mean over converged runs, where there are any."""

    @property
    def hardest(self) -> tuple[int, ...]:
        """Every k with the most steps."""
        return _largest(self.steps)

    @property
    def sharpest(self) -> tuple[int, ...]:
        """Every k with the highest mean sharpness."""
        return _largest(self.sharpness)

    @property
    def harder_than_all(self) -> tuple[int, ...]:
        """Every k that takes more steps than k = n."""
        return tuple(k for k, steps in self.steps.items() if steps > self.steps[self.n])

    def words(self) -> str:
        """Where the climb ends, in a sentence or two."""
        tops = f"Most steps at k = {_listed(self.hardest)}, sharpest at k = {_listed(self.sharpest) or 'none'}."
        if not self.harder_than_all:
            return f"{tops} No k takes more steps than full PARITY, k = n."
        although = ", although its minima are the sharpest" if self.sharpest == (self.n,) else ""
        return (
            f"{tops} Full PARITY, k = n, is learned sooner than k = {_listed(self.harder_than_all)}{although}. "
            "A likely reason: its bits need not be found."
        )

    def numbers(self) -> dict[str, Any]:
        """What the verdict rests on."""
        return {
            "correlation": self.correlation,
            "median_steps": {k: steps if math.isfinite(steps) else None for k, steps in self.steps.items()},
            "learned": self.learned,
            "most_steps_at": self.hardest,
            "sharpest_at": self.sharpest,
            "n": self.n,
        }


def summarise_ladder(measured: Measured) -> Ladder:
    """Steps and sharpness of the runs of :func:`train_bridge` by k."""
    ks, steps, good = np.array([int(name) for name in measured.names]), measured.steps(), measured.converged
    last = np.minimum(steps, 2 * measured.trained.settings.steps)  # a run that never learns counts as last
    sizes = [int(k) for k in np.unique(ks)]
    return Ladder(
        n=measured.trained.encoder.n,
        correlation={
            "steps to learn": rank_correlation(ks, last),
            "sharpness": rank_correlation(ks[good], measured.sharpness[good]),
        },
        steps={k: float(np.median(steps[ks == k])) for k in sizes},
        learned={k: wilson(int(np.isfinite(steps[ks == k]).sum()), int((ks == k).sum())) for k in sizes},
        sharpness={k: float(measured.sharpness[good & (ks == k)].mean()) for k in sizes if (good & (ks == k)).any()},
    )


def judge_average(found: Ladder) -> Verdict:
    """``sens-average``: steps and sharpness climb with k, and end highest at k = n alone."""
    climbs = [name for name, value in found.correlation.items() if value >= 0.5]
    parts = [" and ".join(climbs) + (" climb" if len(climbs) > 1 else " climbs") + " with k"]
    parts += [f"{name} with a rank correlation below 0.5" for name in found.correlation if name not in climbs]
    top = found.sharpest == (found.n,)
    if found.hardest != (found.n,):
        full = "full PARITY, though its minima are the sharpest," if top else "full PARITY"
        most = "" if found.hardest == found.harder_than_all else f" (most steps at k = {_listed(found.hardest)})"
        sooner = f"{full} is learned sooner than k = {_listed(found.harder_than_all)}{most}"
        parts.append(sooner if found.harder_than_all else f"k = {_listed(found.hardest)} share the most steps")
    if not top:
        parts.append(f"sharpest at k = {_listed(found.sharpest) or 'none'}, not n")
    holds = len(climbs) == 2 and found.hardest == found.sharpest == (found.n,)
    return decide(holds, found.numbers(), change="; ".join(parts) if climbs else "")


# Norm against blowup: the claim ``sens-tradeoff``


@dataclass(frozen=True)
class Tradeoff:
    """Norm and blowup of converged runs of PARITY and FIRST over several weight decays."""

    correlation: Mapping[str, float]
    """Rank correlation of norm and blowup over all weight decays, by function."""
    runs: Mapping[str, int]
    products: Mapping[float, Mapping[str, float | None]]
    """Mean of log10(norm x blowup²) by weight decay and function."""
    differences: Mapping[float, Interval | None]
    """PARITY minus FIRST, paired by seed, of the same."""

    @property
    def above(self) -> bool:
        """Whether PARITY's mean product is above that of FIRST at every weight decay."""
        pairs = [(group["PARITY"], group["FIRST"]) for group in self.products.values()]
        return all(parity is not None and first is not None and parity > first for parity, first in pairs)

    @property
    def apart(self) -> list[float]:
        """The weight decays at which the interval of the paired difference lies above 0."""
        return [decay for decay, found in self.differences.items() if found is not None and found.low > 0]

    def words(self) -> str:
        """The two means at every weight decay, with the paired difference."""
        parts = []
        for decay, group in self.products.items():
            parity, first = ("none" if group[name] is None else f"{group[name]:.2f}" for name in ("PARITY", "FIRST"))
            parts.append(f"{parity} against {first} at {decay:g} (difference {_shown(self.differences[decay])})")
        return "; ".join(parts)


def summarise_tradeoff(results: Mapping[float, Measured]) -> Tradeoff:
    """The runs of :func:`train_named` for PARITY and FIRST at several weight decays."""
    names = ("PARITY", "FIRST")
    ends = {
        name: [np.concatenate([found.kept(name, q) for found in results.values()]) for q in ("norm", "blowup")]
        for name in names
    }
    kept = {decay: {name: _by_seed(found, name) for name in names} for decay, found in results.items()}
    pairs = {
        decay: [group["PARITY"][seed] - group["FIRST"][seed] for seed in group["PARITY"] if seed in group["FIRST"]]
        for decay, group in kept.items()
    }
    return Tradeoff(
        {name: rank_correlation(*pair) for name, pair in ends.items()},
        {name: len(norms) for name, (norms, _) in ends.items()},
        {
            decay: {name: float(np.mean(list(values.values()))) if values else None for name, values in group.items()}
            for decay, group in kept.items()
        },
        {decay: mean_interval(np.array(values)) if values else None for decay, values in pairs.items()},
    )


def _by_seed(found: Measured, name: str) -> dict[int, float]:
    chosen = np.flatnonzero(found.among(name) & found.converged)
    return {found.trained.seeds[i]: float(found.product[i]) for i in chosen}


def judge_tradeoff(found: Tradeoff, grown: Growth) -> Verdict:
    """``sens-tradeoff``: norm against blowup, PARITY above FIRST, and growth of the product with length."""
    enough, exchanged = found.runs["PARITY"] >= 6, found.correlation["PARITY"] <= -0.8
    wanted = {"PARITY above FIRST at every weight decay": found.above, "growth with length": grown.resolved}
    missing = [text for text, there in wanted.items() if not there]
    return decide(
        enough and exchanged and not missing,
        {
            "correlation": found.correlation["PARITY"],
            "correlation_of_FIRST": found.correlation["FIRST"],
            "runs": found.runs["PARITY"],
            "log10_product": found.products,
            "difference": {decay: _shown(interval) for decay, interval in found.differences.items()},
            **grown.numbers(),
        },
        change="without " + " and ".join(missing) if enough and exchanged else "",
        otherwise="fails" if enough else "not tested",
    )


# PARITY over time


@dataclass(frozen=True)
class Stage:
    """One run of a :class:`Course`: when it was solved, and how sharp it was."""

    left: bool
    """Whether the loss fell below 0.2."""
    solved: int | None
    """The first update looked at with a loss below 0.01."""
    plateau: float | None
    """Mean sharpness before the loss fell below 0.2, if it was looked at before."""
    after: float | None
    """Mean sharpness from there on that the run was solved."""
    loss: float
    """At the end, as the next."""
    sharpness: float


def summarise_course(course: Course) -> list[Stage]:
    """The stages of every run."""
    stages = []
    for loss, sharp in zip(course.loss.T, course.sharpness.T, strict=True):
        leaves, solves = (int(np.argmax(loss < level)) if (loss < level).any() else None for level in (LEFT, LEARNED))
        before = sharp[:leaves]
        stages.append(
            Stage(
                left=leaves is not None,
                solved=None if solves is None else int(course.updates[solves]),
                plateau=float(before.mean()) if len(before) else None,
                after=None if solves is None else float(sharp[solves:].mean()),
                loss=float(loss[-1]),
                sharpness=float(sharp[-1]),
            )
        )
    return stages


def describe_course(stages: Sequence[Stage]) -> str:
    """What happens to loss and sharpness, in a few sentences that fit the runs at hand."""
    solved = [stage for stage in stages if stage.after is not None]
    halfway = [stage for stage in stages if stage.left and stage.after is None]
    stuck = [stage for stage in stages if not stage.left]
    text = (
        f"off the plateau (loss below {LEFT:g}): {len(solved) + len(halfway)} of {len(stages)} runs; "
        f"solved (below {LEARNED:g}): {len(solved)}"
    )
    text += f", after {_listed([stage.solved for stage in solved])} updates. " if solved else ". "
    both = [(stage.plateau, stage.after) for stage in solved if stage.plateau is not None and stage.after is not None]
    if both:
        rises = sum(after > before for before, after in both)
        text += (
            f"Mean sharpness on the plateau and once solved: {', '.join(f'{a:.3f} and {b:.3f}' for a, b in both)}; "
            f"it is higher once solved in {rises} of {len(both)}. "
        )
    if halfway:
        ends = ", ".join(f"{stage.loss:.2g} with sharpness {stage.sharpness:.3f}" for stage in halfway)
        text += f"Off the plateau but not solved at the end: loss {ends}. "
    if stuck:
        flat = [stage.plateau for stage in stuck if stage.plateau is not None]
        text += f"Still on the plateau: mean sharpness {', '.join(f'{value:.3f}' for value in flat)}"
        below = bool(solved) and max(flat) < min(stage.after for stage in solved if stage.after is not None)
        text += ", flatter than any solved run, which is why the filter matters." if below else "."
    return text.strip()


# The preference for low sensitivity: the claim ``sens-bias``


@dataclass(frozen=True)
class Preference:
    """Learned functions against random fill, and transformers against LSTMs with random weights."""

    differences: Mapping[int, Interval]
    """Average sensitivity, learned minus filled, paired, by K."""
    fitted: Mapping[int, Rate]
    """Fits that reach an accuracy of 0.99 on their K labels."""
    random: Mapping[str, Mapping[str, Mapping[int, Interval]]]
    """Mean normalised sensitivity by start, kind and number of layers."""

    def gaps(self, start: str) -> tuple[int, ...]:
        """The numbers of layers at which the interval of transformers lies below that of LSTMs."""
        ours, theirs = (self.random[start][kind] for kind in KINDS)
        return tuple(layers for layers in ours if ours[layers].below(theirs[layers]))


def summarise_preference(
    fits: Mapping[int, Fit], untrained: Mapping[str, Mapping[str, Mapping[int, np.ndarray]]]
) -> Preference:
    """Intervals of what :func:`fit_random_functions` and :func:`random_sensitivities` found."""
    spread = {
        start: {kind: {size: mean_interval(found) for size, found in by.items()} for kind, by in group.items()}
        for start, group in untrained.items()
    }
    return Preference(
        {labels: mean_interval(fit.learned - fit.filled) for labels, fit in fits.items()},
        {labels: wilson(int((fit.accuracy >= 0.99).sum()), len(fit.accuracy)) for labels, fit in fits.items()},
        spread,
    )


def judge_bias(found: Preference) -> Verdict:
    """``sens-bias``: less sensitive than random fill where most fits succeed, and than LSTMs at two layers."""
    judged = [labels for labels, rate in found.fitted.items() if rate.share > 0.5]
    extends = bool(judged) and all(found.differences[labels].high < 0 for labels in judged)
    begins = all(2 in found.gaps(start) for start in WIDE)
    at_two = {start: {kind: str(by[2]) for kind, by in group.items()} for start, group in found.random.items()}
    return decide(
        extends and begins,
        {
            "difference": {labels: str(value) for labels, value in found.differences.items()},
            "fitted": found.fitted,
            "random": at_two,
            "gap_at_layers": {start: found.gaps(start) for start in found.random},
        },
        change="only trained on labels" if extends else "only with random weights" if begins else "",
    )


def _largest(values: Mapping[int, float]) -> tuple[int, ...]:
    """The keys of the largest value, all of them."""
    return tuple(key for key, value in values.items() if value == max(values.values()))


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(str, values))


def _shown(interval: Interval | None) -> str:
    return "too few runs" if interval is None else str(interval)

"""Figures of the chapter ``robustness``: every sweep as small multiples, in percent of runs, with Wilson bars."""

from collections.abc import Mapping

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from . import style

NAMES = {"theory": "the theorem's recipe", "figure2-signed": "heads that average", "repaired": "heads that sample",
         "product-head": "heads that sample"}  # fmt: skip
KINDS = {"apart": "no neighbours", "around": "only n and 1", "close": "other neighbours"}
BOTH = {"repaired": style.REPAIRED, "figure2-signed": style.CODE}
TOP = 1.12  # upper edge of the axes of risk
POWERS = {-2: "1/n²", -1.5: "n⁻¹·⁵", -1: "1/n", -0.5: "1/√n", 0: "1", 0.5: "√n", 1: "n"}


@style.drawing
def by_k(frame: pd.DataFrame) -> Figure:
    """Committed success against k, without and with cyclic neighbours."""
    usual = frame["smoothing"] == 0.01
    named = frame.assign(recipe=frame["recipe"].where(usual, "... with b = " + frame["smoothing"].map("{:g}".format)))
    smoother = next(iter(named.loc[~usual, "recipe"]), "...")
    fig = style.curves(style.success_lines, named, "k", "committed",
                       BOTH | {smoother: style.SKY, "theory": style.STATED}, hue="recipe",
                       names=NAMES | {"figure2-signed": "the authors' loss"}, panel="neighbours",
                       titles={False: "no neighbours in B", True: "neighbours in B"},
                       xlabel="number of bits k")  # fmt: skip
    averaged = style.share(named[named["k"] > 1], recipe="figure2-signed", neighbours=True)
    holds = style.share(named, recipe="repaired") > 0.95 and averaged < 0.5
    text = "Only heads that sample commit for every k, with neighbours as without"
    return style.finding(fig, holds, text, "Runs that commit, by number of bits")


@style.drawing
def by_distance(frame: pd.DataFrame) -> Figure:
    """Success against the distance of the closest two bits; for averaging heads by arg-max too."""
    frame = frame[frame["drawn"]].assign(success=frame["committed"])
    average = frame[frame["recipe"] == "figure2-signed"]
    hard = average.assign(recipe="... by arg-max alone", success=average["recovered"])
    fig = style.curves(style.success_lines, pd.concat([frame, hard]), "distance", "success",
                       BOTH | {"... by arg-max alone": style.STATED}, hue="recipe", names=NAMES,
                       xlabel="distance of the closest two bits on the circle")  # fmt: skip
    holds = style.share(average, distance=1) < 0.5 < style.share(average, "recovered", distance=1)
    holds = holds and style.share(average[average["distance"] > 2]) > 0.8
    text = "Neighbours are where heads that average do not commit"
    return style.finding(fig, holds, text, "Success by the distance of the closest bits")


@style.drawing
def soft_and_hard(frame: pd.DataFrame) -> Figure:
    """Soft solutions of Proposition 21, each a dot: the best attention that its weakest bit gets."""
    kinds = [kind for kind in KINDS if kind in set(frame["kind"])]
    fig, (ax,) = style.panels(1, 3.1, width=6.2)
    right = {"color": style.SIGNAL, "size": 3, "alpha": 0.6, "zorder": 1}
    wrong = {"color": style.BLIND, "size": 4.5, "zorder": 2}
    for read, part in reversed([*frame.groupby("recovered")]):  # those that are misread on top
        sns.stripplot(part, x="kind", y="weakest", order=kinds, jitter=0.32, ax=ax, **(right if read else wrong))
    ax.set_xticks(range(len(kinds)), [style.short_lines(KINDS[kind], 10) for kind in kinds])
    style.colour_words(ax, {"arg-max is B": style.SIGNAL, "arg-max is not B": style.BLIND})
    style.rule(ax, 0.5, colour=style.STATED)
    ax.set(xlabel="neighbours in B", ylabel="best attention on\nthe weakest bit", ylim=(0, 1.03))
    apart, around = (frame[frame["kind"] == kind] for kind in ("apart", "around"))
    holds = len(around) > 0 and bool(apart["proper"].all()) and not around["proper"].any()
    return style.finding(fig, holds, "Positions n and 1 are neighbours too", "Soft solutions read with hard attention")


@style.drawing
def by_temperature(frame: pd.DataFrame) -> Figure:
    """Committed success against the temperature, at a fixed learning rate and at one in proportion."""
    titles = {"fixed": "learning rate as in the recipe", "proportional": "learning rate times temperature"}
    fig = style.curves(style.success_lines, frame, "power", "committed", BOTH, hue="recipe", names=NAMES, panel="rate",
                       titles=titles, xlabel="temperature")  # fmt: skip
    at = sorted(frame["power"].unique())
    for ax in fig.axes:
        ax.set_xticks(at, [POWERS.get(p, f"n^{p:g}") for p in at], fontsize=8)
    cold = frame[frame["power"] == -1]
    holds = style.share(cold, recipe="repaired", rate="fixed") > 0.9 > 0.5 > style.share(cold, recipe="figure2-signed")
    text = "Cold heads that average feel no gradient; heads that sample do"
    return style.finding(fig, holds, text, "Runs that commit, by temperature")


@style.drawing
def by_heads(frame: pd.DataFrame, k: int) -> Figure:
    """Number of heads: what is read off heads or weights (left), and how much of the risk is closed (right)."""
    fig, (left, right) = style.panels(2, 3.1, share=False)
    names = {"by_weights": "largest summed\nweights are B", "committed": "committed"}
    long = frame.melt(["heads"], list(names), var_name="series", value_name="success").replace({"series": names})
    style.success_lines(long, "heads", "success", hue="series", palette=[style.SIGNAL, style.CODE], ax=left)
    style.label_lines(left)
    shown = frame.assign(closed=100 * frame["closed"])
    sns.stripplot(shown, x="heads", y="closed", color=style.CODE, size=2.5, alpha=0.5, jitter=0.3, ax=right)
    sns.pointplot(shown, x="heads", y="closed", estimator="median", errorbar=None, ls="none", marker="_",
                  markersize=16, color=style.INK, ax=right)  # fmt: skip
    left.axvline(k, color=style.STATED, lw=1, ls=":")
    left.set(title="what is found", xlabel=f"heads (dotted: one a bit, {k})")
    right.set(title="how far each run gets", xlabel="heads", ylabel="gap to the least risk closed, %")
    few = frame[frame["heads"] < k]["committed"].mean()
    enough, spare = (style.share(frame[rows], "by_weights") for rows in (frame["heads"] == k, frame["heads"] > k))
    text = "One head per bit is enough, and spare heads do no harm to the sum"
    return style.finding(fig, few == 0 and enough > 0.8 and spare > 0.8, text, "Success by number of heads")


@style.drawing
def by_batch(frame: pd.DataFrame, inputs: int) -> Figure:
    """Committed success against the number of examples per update; ``inputs`` is the exact gradient."""
    colours = {"product-head": style.REPAIRED, "figure2-signed": style.CODE}
    exact, batches = frame["batch"] == inputs, sorted(set(frame["batch"]) - {inputs})
    end = 4 * max(batches, default=inputs)  # no line leads there, so it need not be as far away as it is
    fig = style.curves(style.success_lines, frame[~exact], "batch", "committed", colours, hue="recipe", log="x",
                       names=NAMES | {"figure2-signed": "the authors' loss"})  # fmt: skip
    style.success_lines(frame[exact].assign(batch=end), "batch", "committed", hue="recipe", palette=colours, ls="none",
                        legend=False, ax=fig.axes[0])  # fmt: skip
    shown = batches[:: 2 if style.is_narrow() else 1]
    fig.axes[0].set(xlim=(0.8 * min(batches, default=inputs), 1.3 * end), xlabel="examples per update")
    fig.axes[0].set_xticks([*shown, end], [*(f"{b:,}".replace(",", " ") for b in shown), "all"], fontsize=8)
    small = frame[frame["batch"] == frame["batch"].min()]
    holds = style.share(small, recipe="product-head") > 0.8 > 0.2 > style.share(small, recipe="figure2-signed")
    text = f"Heads that sample learn from batches of {frame['batch'].min()}"
    return style.finding(fig, holds, text, "Runs that commit, by batch size")


@style.drawing
def by_length(frame: pd.DataFrame) -> Figure:
    """Heads that sample by n: what is found (left), and when the arg-max settles on B (right)."""
    many, by_argmax, one = "many frequencies", "circle, arg-max", "circle, committed"
    settled = frame["settled"].clip(lower=1).where(frame["settled"] < float("inf"))
    named = frame.assign(series=frame["code"].map({"powers": many, "circle": one}), found=frame["committed"],
                         settled=settled)  # fmt: skip
    circle = named[named["code"] == "circle"].assign(series=by_argmax, found=lambda f: f["recovered"])
    named["settled"] = named["settled"].where(named["code"] != "circle")  # when the arg-max settles, not attention
    fig = style.curves(style.lines, pd.concat([named, circle]), "n", {"found": "success, % of runs",
                       "settled": "update"}, {many: style.REPAIRED, by_argmax: style.SKY, one: style.SIGNAL},
                       titles={"found": "what is found", "settled": "when the arg-max settles on B"}, hue="series",
                       log=("x", "settled"), ticks=_some(frame["n"]), xlabel="number of positions n")  # fmt: skip
    last = frame[frame["n"] == frame["n"].max()]
    holds = style.share(last, code="powers") > 0.9 and style.share(last, "recovered", code="circle") > 0.9
    text = f"With exact gradients the bits are found up to n = {frame['n'].max()}"
    return style.finding(fig, holds, text, "Heads that sample, by number of positions")


@style.drawing
def price(frame: pd.DataFrame, exponents: Mapping[int, float]) -> Figure:
    """The first gradient of heads that sample, and its price in examples, against n; one line per k."""
    fig = style.curves(style.medians, frame, "n", {"gradient": "norm", "price": "examples for one such gradient"},
                       titles={"gradient": "first gradient, exact", "price": "its price"}, hue="k", names="k = {}",
                       log="xy", ticks=_some(frame["n"]), xlabel="number of positions n")  # fmt: skip
    holds = all(abs(value - k) < 0.3 for k, value in exponents.items())
    text = "A first gradient costs about nᵏ examples"
    return style.finding(fig, holds, text, "The first gradient, by number of positions")


def _some(lengths: pd.Series) -> list[int]:
    """At most six of the lengths, for ticks."""
    every = sorted(lengths.unique())
    return every[:: 1 + len(every) // 6]


@style.drawing
def ladder(frame: pd.DataFrame, steps: Mapping[str, str]) -> Figure:
    """Committed success of every step of the ladder of repairs, all k together, without and with neighbours."""
    palette = {"no neighbours": style.SIGNAL, "neighbours": style.BLIND}
    fig, (ax,) = style.panels(1, 0.36 * len(steps) + 1.2, keep=True)
    named = frame.assign(series=frame["neighbours"].map({False: "no neighbours", True: "neighbours"}))
    style.rate_rows(named, "committed", "step", steps, "series", palette, ax)
    holds = style.share(frame, step="sampled") > 0.95 and style.share(frame, step="signed", neighbours=True) < 0.3
    return style.finding(fig, holds, "Neighbours are what averaging heads cannot tell apart", "What each change buys")


@style.drawing
def functions(frame: pd.DataFrame) -> Figure:
    """Share of runs that learn each function of three bits, by what the fitted read-out may combine."""
    fig, (ax,) = style.panels(1, 2.7, width=style.COLUMN + 1.4, keep=True)
    palette = {"read-out of sum": style.STATED, "read-out of products": style.SIGNAL}
    rows = {name: name for name in frame["function"].unique()}
    named = frame.assign(series="read-out of " + frame["readout"])
    style.rate_rows(named, "learned", "function", rows, "series", palette, ax)
    by_sum = [style.share(frame, "learned", function=name, readout="sum") for name in ("AND", "majority", "polynomial")]
    holds = min(by_sum[:2]) > 0.7 > 0.3 > by_sum[2]
    return style.finding(fig, holds, "Functions of a sum are learned from the sum", "Other functions of three bits")


@style.drawing
def risk_against_norm(frame: pd.DataFrame) -> Figure:
    """Trained networks and the bounds against the scaled norm, one panel for each number of heads."""
    colours = {"these very heads": style.SKY, "with a proof": style.INK, "Theorem 11, clamped": style.STATED}
    trained = frame[frame["series"] == "trained network"]
    fig = style.curves(style.medians, frame.drop(trained.index), "scaled", "value", colours, hue="series", panel="m",
                       titles={m: f"{m} head{'s' if m > 1 else ''}" for m in frame["m"].unique()}, height=3.3, log="x",
                       ticks=[0.01, 0.1, 1, 10, 100], xlabel="|α||β| m²/n", ylabel="risk, squared hinge")  # fmt: skip
    for ax, (_, part) in zip(fig.axes, trained.groupby("m"), strict=True):
        sns.scatterplot(part, x="scaled", y="value", color=style.GOLD, s=18, ax=ax, legend=False)
        ax.set(ylim=(-0.03, TOP))
    style.say(fig.axes[0], 0.02, 0.98, "trained networks", style.GOLD, (0, 0), xycoords="axes fraction")
    text = "Every trained network stays near chance, whatever its norm"
    return style.finding(fig, trained["value"].min() > 0.9, text, "Trained networks and the bounds, by norm")


@style.drawing
def risk_against_heads(frame: pd.DataFrame) -> Figure:
    """Trained risk against the number of fixed heads, heard as a mean or separately; every run a dot."""
    colours = {"mean": style.GOLD, "separate": style.SKY}
    counts = sorted(frame["m"].unique())
    at = frame.assign(place=frame["m"].map(counts.index))
    fig = style.curves(style.medians, at, "place", "risk", colours, hue="pooling", errorbar=None,
                       names={"mean": "their mean", "separate": "each heard"},
                       xlabel="number of fixed heads m", ylabel="risk, squared hinge")  # fmt: skip
    (ax,) = fig.axes
    sns.stripplot(at, x="place", y="risk", hue="pooling", palette=colours, dodge=0.3, size=3, alpha=0.5, ax=ax,
                  legend=False, native_scale=True)  # fmt: skip
    for text in ax.texts:  # beside the dots
        text.set_x(19 if style.is_narrow() else 30)
    style.rule(ax, 1)
    ax.set_xticks(range(len(counts)), counts)
    ax.set(ylim=(-0.03, TOP))
    last = frame[frame["m"] == frame["m"].max()].groupby("pooling")["risk"].median()
    helps = last["separate"] < 0.2 < 0.5 < last["mean"]
    return style.finding(fig, helps, "More fixed heads help only where each is heard", "Risk by number of fixed heads")

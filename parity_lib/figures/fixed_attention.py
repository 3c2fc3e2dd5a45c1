"""Figures of the chapter ``fixed_attention``: heads that are not trained, and what trained ones cost."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from . import style

LEARNED = style.CODE
TOP = 1.12  # upper edge of the axes of risk
COLOURS = {"heads, product": style.REPAIRED, "plain network": style.GOLD, "heads, zigzag": style.CODE}


@style.drawing
def risk_against_n(frame: pd.DataFrame) -> Figure:
    """Risk of every arm against n, median and quartiles, and the share of runs that succeed."""
    longer = next((arm for arm in frame["arm"].unique() if "longer" in arm), "fixed, token")
    colours = {"fixed, position": style.STATED, longer: style.GOLD, "fixed, heads separate": style.SKY,
               "learned": LEARNED}  # fmt: skip
    how = {"hue": "arm", "hue_order": list(colours), "palette": colours}
    shown = frame[frame["arm"].isin(colours)]
    fig, (left, right) = style.panels(2, 3.4, share=False)
    style.medians(shown, "n", "risk", ax=left, marker="o", **how)
    left.axhline(1, color=style.INK, lw=0.9, ls=":")
    style.say(left, frame["n"].min(), 1, "chance", style.INK, (0, 7))
    left.set(ylim=(-0.03, TOP), ylabel="risk, squared hinge")
    style.success_lines(shown, "n", "right", ax=right, **how)
    right.set(ylabel="accuracy above 0.99, % of runs")
    for ax in (left, right):
        ax.set_xlabel("number of positions n")
        style.ticks_at(ax.xaxis, frame["n"])
    style.label_last([left, right])
    last = frame[frame["n"] == frame["n"].max()].groupby("arm")["risk"].median()
    apart = last["learned"] < 0.1 and last.drop("learned").min() > 0.8
    text = "From about n = 16 on, fixed heads stay near chance"
    return style.finding(fig, apart, text, "Fixed heads against learned ones")


@style.drawing
def hard_heads(frame: pd.DataFrame) -> Figure:
    """Least risk of any classifier on hard heads against their number, worst and average B, over what is proved."""
    fig, axes = style.panels(2, 3.4)
    colours = {"position": style.STATED, "token": style.GOLD, "search": style.SKY}
    larger = frame.assign(worst_bound=frame[["corollary_20", "linear_bound"]].max(axis=1))
    proved = larger.groupby("m").max(numeric_only=True)
    for ax, column, bound in zip(axes, ("worst", "mean"), ("worst_bound", "typical_bound"), strict=True):
        ax.fill_between(proved.index, proved[bound], color=style.FAINT, alpha=0.5, lw=0)
        ax.text(1.2, 0.08, "impossible", fontsize=9)
        how = {"hue": "kind", "hue_order": list(colours), "palette": colours}
        style.medians(frame, "m", column, errorbar=("pi", 100), ax=ax, **how)
        ax.set(xlabel="number of heads m", ylim=(-0.02, 1.04), ylabel="least risk of any classifier",
               title="for the worst B" if column == "worst" else "for the average B")  # fmt: skip
        style.ticks_at(ax.xaxis, [m for m in frame["m"].unique() if m % 2 == 0])
    style.label_last(axes, {kind: f"{kind} heads" for kind in colours})
    near = frame.groupby(["m", "kind"])["worst"].median().groupby("m").min() > 0.9
    most = int(near.cummin().sum())
    text = f"Up to {most} fixed hard heads leave some B near chance"
    return style.finding(fig, most > 1, text, "Least risk of any classifier on fixed hard heads")


@style.drawing
def norm_needed(frame: pd.DataFrame) -> Figure:
    """Norm of the network that zero risk needs, against n, on a log axis."""
    names = list(frame["what"].unique())
    colours = dict(zip(names, (style.STATED, style.GOLD, style.SKY, LEARNED), strict=True))
    fig = style.curves(style.medians, frame, "n", "norm", colours, hue="what", log="y", xlabel="number of positions n",
                       ylabel="|α||β|", marker="o")  # fmt: skip
    alone = frame[frame["what"] == names[0]].groupby("n")["norm"].median()
    grows = alone.iloc[-1] > 1e4 * alone.iloc[0]
    text = "One fixed head needs a norm that grows exponentially"
    return style.finding(fig, grows, text, "The norm that zero risk needs")


@style.drawing
def race(frame: pd.DataFrame) -> Figure:
    """The race at the largest number of bits: runs that learn within the budget, and the updates they take."""
    k = frame["k"].max()
    shown = frame[frame["k"] == k]
    fig, (left, right) = style.panels(2, 3.3, share=False)
    how = {"hue": "model", "hue_order": list(COLOURS), "palette": COLOURS, "marker": "o"}
    style.success_lines(shown, "n", "learned", ax=left, **how)
    left.set(ylabel="runs that learn, %")
    style.medians(shown[shown["learned"]], "n", "updates", ax=right, **how)
    right.set(yscale="log", ylabel="updates until accuracy 0.99")
    for ax in (left, right):
        ax.set_xlabel("number of positions n")
        style.ticks_at(ax.xaxis, frame["n"])
    style.plain_log_ticks(right.yaxis)
    style.label_last([left, right])
    ends = shown[shown["n"] == frame["n"].max()].groupby("model")["learned"].mean()
    told = ends["heads, product"] > 0.7 and ends["heads, zigzag"] < 0.5
    left.set_title(f"{2 * k} numbers are enough, if multiplied" if told else "Runs that learn within the budget")
    right.set_title("... and they are slow" if told else "Updates of the runs that learn")
    return fig

"""Figures of the chapter ``fixed_attention``: heads that are not trained, and what trained ones cost."""

import pandas as pd
from matplotlib.figure import Figure

from . import style

COLOURS = {"heads, product": style.REPAIRED, "plain network": style.GOLD, "heads, zigzag": style.CODE}


@style.drawing
def risk_against_n(frame: pd.DataFrame) -> Figure:
    """Risk of every arm against n, median and quartiles, and the share of runs that succeed."""
    longer = next((arm for arm in frame["arm"].unique() if "longer" in arm), "fixed, token")
    colours = {"fixed, position": style.STATED, longer: style.GOLD, "fixed, heads separate": style.SKY,
               "learned": style.CODE}  # fmt: skip
    fig = style.curves(style.lines, frame[frame["arm"].isin(colours)], "n",
                       {"risk": "risk, squared hinge", "right": "accuracy above 0.99, % of runs"}, colours, hue="arm",
                       height=3.4, xlabel="number of positions n", marker="o")  # fmt: skip
    fig.axes[0].set(ylim=(-0.03, 1.12))
    style.rule(fig.axes[0], 1, "chance")
    last = frame[frame["n"] == frame["n"].max()].groupby("arm")["risk"].median()
    apart = last["learned"] < 0.1 and last.drop("learned").min() > 0.8
    text = "From about n = 16 on, fixed heads stay near chance"
    return style.finding(fig, apart, text, "Fixed heads against learned ones")


@style.drawing
def hard_heads(frame: pd.DataFrame) -> Figure:
    """Least risk of any classifier on hard heads against their number, worst and average B, over what is proved."""
    colours = {"position": style.STATED, "token": style.GOLD, "search": style.SKY}
    label = "least risk of any classifier"
    fig = style.curves(style.medians, frame, "m", {"worst": label, "mean": label}, colours, hue="kind", height=3.4,
                       titles={"worst": "for the worst B", "mean": "for the average B"}, names="{} heads",
                       ticks=[m for m in frame["m"].unique() if m % 2 == 0], xlabel="number of heads m",
                       errorbar=("pi", 100))  # fmt: skip
    proved = frame.groupby("m")[["corollary_20", "linear_bound", "typical_bound"]].max()
    worst = proved[["corollary_20", "linear_bound"]].max(axis=1)
    for ax, bound in zip(fig.axes, (worst, proved["typical_bound"]), strict=True):
        ax.fill_between(proved.index, bound, color=style.FAINT, alpha=0.5, lw=0)
        ax.text(1.2, 0.08, "impossible", fontsize=9)
        ax.set(ylim=(-0.02, 1.04))
    near = frame.groupby(["m", "kind"])["worst"].median().groupby("m").min() > 0.9
    most = int(near.cummin().sum())
    text = f"Up to {most} fixed hard heads leave some B near chance"
    return style.finding(fig, most > 1, text, "Least risk of any classifier on fixed hard heads")


@style.drawing
def norm_needed(frame: pd.DataFrame) -> Figure:
    """Norm of the network that zero risk needs, against n, on a log axis."""
    names = list(frame["what"].unique())
    colours = dict(zip(names, (style.STATED, style.GOLD, style.SKY, style.CODE), strict=True))
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
    shown = frame[frame["k"] == k].assign(updates=frame["updates"].where(frame["learned"]))
    ends = shown[shown["n"] == frame["n"].max()].groupby("model")["learned"].mean()
    titles = {"learned": "Runs that learn within the budget", "updates": "Updates of the runs that learn"}
    if ends["heads, product"] > 0.7 and ends["heads, zigzag"] < 0.5:
        titles = {"learned": f"{2 * k} numbers are enough, if multiplied", "updates": "... and they are slow"}
    labels = {"learned": "runs that learn, %", "updates": "updates until accuracy 0.99"}
    return style.curves(style.lines, shown, "n", labels, COLOURS, hue="model", titles=titles, log=("updates",),
                        height=3.3, xlabel="number of positions n", marker="o")  # fmt: skip

"""Colours by meaning, the names of recipes, and how numbers are written: what pages and figures share.

Apart from :mod:`parity_lib.figures.style`, which hands all of it on, so that pages need no library that draws.
"""

from ..evidence import AS_STATED

# Okabe and Ito's colours, distinct for colour-blind readers, darkened where white is behind their text.
BIT = "#009e73"  #: The bits of B.
BLIND = "#d55e00"  #: The label-free force, which does not know the bits; and what goes wrong.
SIGNAL = "#0072b2"  #: The parity signal, which does; and what is measured, where no other meaning is fixed.
STATED = "#6b6b6b"  #: A paper's own recipe, bound or formula, as stated.
CODE = "#8e5ea2"  #: The authors' code, what lies between it and the theorem, and heads that average.
REPAIRED = "#0b7a75"  #: Heads that sample a position.
GOLD, SKY, ORANGE = "#b8860b", "#56b4e9", "#e69f00"
INK, FAINT, PAPER = "#222222", "#bbbbbb", "#ffffff"
CHALK = "#fefefe"  #: White that stays white: on a colour map, also where the page is dark.
SERIES = (SIGNAL, BLIND, REPAIRED, GOLD, CODE, SKY)  #: Where no meaning is fixed, in this order.
SLATE, PINK, BROWN = "#546e7a", "#cc79a7", "#7a4419"
HEADS = (GOLD, SLATE, PINK, BROWN, SKY)  #: Heads by number, in colours that mean nothing else.
VERDICTS = dict(zip(AS_STATED, (BIT, SIGNAL, SKY, BLIND, STATED), strict=True))  #: From what holds to what is open.
ON_DARK = {
    BIT: "#3ecfa4", BLIND: "#ff8f4a", SIGNAL: "#5cb3f0", STATED: "#a3a9b1", CODE: "#c79ade", REPAIRED: "#35bdb4",
    GOLD: "#dcb04a", SKY: "#8ccdf5", ORANGE: "#f0b840",
    SLATE: "#b7c4cf", PINK: "#e39ac5", BROWN: "#c98b4e", INK: "#dde1e6", FAINT: "#5b626b", PAPER: "#121212",
    "#e4e4e4": "#333a43", "#444444": "#9aa1a9", "#f0f0f0": "#20262e",
}  # fmt: skip
"""What a colour becomes on a dark page; any other stays."""
NARROW_SVG = "application/x-narrow-svg"  #: How a notebook keeps a figure's layout for phones, beside the usual types.
WORDS = "application/x-figure-words"  #: What is to be seen, read off the figure: its titles, a line break, the rest.
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

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


def written(value: float) -> str:
    """A number with three digits; the very large and the very small as ``1.2·10⁻¹³``."""
    digits, _, power = f"{value:.3g}".partition("e")
    return digits + ("·10" + str(int(power)).translate(RAISED) if power else "")

"""How every figure of the course looks: one palette, one set of sizes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# Okabe and Ito's palette, told apart with every common kind of colour blindness
# (Okabe, Ito: Color Universal Design, 2008). Colour never stands alone: markers,
# hatches or words say the same.
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"
SKY = "#56B4E9"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
# The same hues dark enough for words: at least 4.5 to 1 against the card.
INKS = (BLUE, "#B34700", "#00734F", "#9C4A78", "#8A5F00", "#1B6E9C")
MARKERS = ("o", "s", "^", "D", "v", "P")

INK = "#24292F"  # text and strong lines
MUTED = "#5F6770"  # secondary text: 5.7 to 1 against the card
FAINT = "#D5D9DE"  # grids and quiet edges
WASH = "#F1F3F5"  # quiet areas
CARD = "#FFFFFF"  # figures keep a light card, so that they read on a dark theme too

# Light companions of three colours, for boxes that carry dark text.
PALE_BLUE = "#CFE5F2"
PALE_ORANGE = "#FBE7BF"
PALE_GREEN = "#C9EBDF"
PALE_RED = "#F8DCC9"

WIDTH = 7.0  # inches; at 100 dots an inch a notebook shows 700 pixels
SMALL = 9.0  # points; text that may be small
MiB = 2**20

_RC = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 10.5,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "figure.facecolor": CARD,
    "axes.facecolor": CARD,
    "font.size": 10.5,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "hatch.linewidth": 1.2,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "lines.markersize": 6.5,
    "savefig.facecolor": CARD,
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 9.5,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 9.5,
}


@contextmanager
def styled() -> Iterator[None]:
    """Inside: the course's look, from Matplotlib's defaults. After: as it was."""
    import matplotlib
    from matplotlib import style

    with matplotlib.rc_context():
        # "default" leaves the back end and its kin alone.
        style.use(["default", _RC])
        yield

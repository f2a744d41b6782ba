"""Display a figure together with the words that stand for it."""

from __future__ import annotations

import base64
import html
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from helpers.plots.style import WIDTH, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

FEWEST_WORDS = 3
SHARPNESS = 2  # pixels of the picture for each pixel of the page, in both directions
COLOURS_KEPT = 24  # enough for smooth lines and coloured words, and files stay small
NEAR = 12  # of 255; colours this close in every channel count as one


def show(fig: Figure, *, alt: str = "", caption: str = "") -> None:
    """Display `fig` with its caption, and with `alt` for those who cannot see it.

    The notebook gets HTML (`<figure>` with an image, its alternative text and the
    caption), a PNG for viewers that show no HTML, and plain text. JupyterLab drops the
    alternative text of plain PNG outputs, hence the HTML. Without IPython the text is
    printed. The figure is closed afterwards; its width on the page is 100 pixels an
    inch.

    Raises ValueError where `alt` or `caption` is missing or has fewer than three words.
    """
    check_words(alt, caption)
    with styled():
        sharp, plain = _pictures(fig)
    width = round(fig.get_figwidth() * 100)
    _close(fig)
    _display(sharp, plain, width, alt.strip(), caption.strip())


@contextmanager
def drawing(alt: str, caption: str, height: float) -> Iterator[Figure]:
    """Give an empty figure in the course's style, and show it at the end.

    `height` is in inches, the width is the notebook's. Nothing is displayed where
    drawing raises. The figure is made without pyplot, so the reader's own figures and
    back end are left alone.
    """
    check_words(alt, caption)
    from matplotlib.figure import Figure

    with styled():
        fig = Figure(figsize=(WIDTH, height), layout="constrained")
        fig.get_layout_engine().set(w_pad=0.09, h_pad=0.09)
        yield fig
        show(fig, alt=alt, caption=caption)


def check_words(alt: str, caption: str) -> None:
    """Refuse a figure that lacks its words. Raises ValueError."""
    for name, text in (("alt", alt), ("caption", caption)):
        words = len(text.split()) if isinstance(text, str) else 0
        if words < FEWEST_WORDS:
            raise ValueError(
                f"This figure needs {name}= with at least {FEWEST_WORDS} words that "
                f"say what it shows; it got {text!r}."
            )


def _pictures(fig: Figure) -> tuple[bytes, bytes]:
    """The figure as a sharp PNG and as one of the page's size, the same on every run.

    A small palette and, for viewers without HTML, a quarter of the pixels keep the
    notebooks small.
    """
    from PIL.Image import open as read

    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=100 * SHARPNESS)
    with read(buffer) as picture:
        sharp = picture.convert("RGB")
    return _png(sharp), _png(sharp.reduce(SHARPNESS))


def _png(picture: Image) -> bytes:
    from PIL.Image import Dither

    flat = picture.quantize(palette=_palette(picture), dither=Dither.NONE)
    buffer = io.BytesIO()
    flat.save(buffer, format="png", optimize=True)
    return buffer.getvalue()


def _palette(picture: Image) -> Image:
    """The most frequent colours of a picture, as Pillow wants a palette.

    They keep small marks in their own hue, which an average over regions of the colour
    space (Pillow's own choice) does not. Near doubles of a colour are left out: Pillow
    compares coarsely and would take them for the colour itself.
    """
    from PIL.Image import new

    counted = picture.getcolors(picture.width * picture.height)
    kept: list[tuple[int, ...]] = []
    for _, colour in sorted(counted, key=lambda entry: (-entry[0], entry[1])):
        if all(_distance(colour, other) > NEAR for other in kept):
            kept.append(colour)
            if len(kept) == COLOURS_KEPT:
                break
    palette = new("P", (1, 1))
    palette.putpalette([value for colour in kept for value in colour])
    return palette


def _distance(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def _close(fig: Figure) -> None:
    """Close a figure that pyplot knows; without pyplot there is nothing to close."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(fig)


def _display(sharp: bytes, plain: bytes, width: int, alt: str, caption: str) -> None:
    text = f"Figure: {caption}\n{alt}"
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        print(text)
        return
    page = (
        '<figure style="margin: 0">'
        f'<img alt="{html.escape(alt)}" width="{width}" '
        'style="max-width: 100%; height: auto; border-radius: 6px" '
        f'src="data:image/png;base64,{_base64(sharp)}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )
    bundle = {"text/html": page, "image/png": _base64(plain), "text/plain": text}
    ipython.display.display(bundle, raw=True)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")

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

FEWEST_WORDS = 3
SHARPNESS = 2  # pixels of the picture for each pixel of the page, in both directions
COLOURS_KEPT = 64  # a palette of so many keeps lines smooth and files small


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
        png = _png(fig)
    width = round(fig.get_figwidth() * 100)
    _close(fig)
    _display(png, width, alt.strip(), caption.strip())


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


def _png(fig: Figure) -> bytes:
    """The figure as a PNG with a small palette: the same bytes on every run."""
    from PIL import Image

    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=100 * SHARPNESS)
    with Image.open(buffer) as picture:
        flat = picture.convert("RGB").quantize(COLOURS_KEPT, dither=Image.Dither.NONE)
    small = io.BytesIO()
    flat.save(small, format="png", optimize=True)
    return small.getvalue()


def _close(fig: Figure) -> None:
    """Close a figure that pyplot knows; without pyplot there is nothing to close."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(fig)


def _display(png: bytes, width: int, alt: str, caption: str) -> None:
    text = f"Figure: {caption}\n{alt}"
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        print(text)
        return
    data = base64.b64encode(png).decode("ascii")
    page = (
        '<figure style="margin: 0">'
        f'<img alt="{html.escape(alt)}" width="{width}" '
        f'style="max-width: 100%; height: auto; border-radius: 6px" '
        f'src="data:image/png;base64,{data}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )
    bundle = {"text/html": page, "image/png": data, "text/plain": text}
    # The width holds for viewers that take the PNG, whose own size is twice that.
    metadata = {"image/png": {"width": width}}
    ipython.display.display(bundle, raw=True, metadata=metadata)

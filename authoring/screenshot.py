"""Takes the README's picture: a part of solved lesson 2 in JupyterLab.

python -m authoring.screenshot      writes docs/lesson.png
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from authoring import browser
from authoring.project import ROOT

NOTEBOOK = "notebooks/solutions/02_by_hand.ipynb"
FIGURE = "plots.gradients_add_up("  # begins the source of the cell at the top
TARGET = "docs/lesson.png"
WIDTH, HEIGHT = 1200, 980
COLOURS = 200  # a screen of text and one figure needs no more
SECONDS = 180


def main(root: Path = ROOT) -> int:
    """Write the picture; returns the exit status."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        chromium = browser.chromium(playwright)
        if chromium is None:
            print("Neither Chromium nor Chrome was found.", file=sys.stderr)
            return 1
        with browser.serve(Path(folder)) as address:
            lab = browser.Lab(chromium, address, WIDTH, HEIGHT)
            lab.open(NOTEBOOK)
            lab.run_all(SECONDS)
            cell = lab.page.locator(browser.CELL).filter(has_text=FIGURE)
            lab.page.mouse.move(0, 0)  # what is under the mouse looks another way
            cell.evaluate("cell => cell.scrollIntoView()")
            shot = lab.page.screenshot()
            chromium.close()
    target = root / TARGET
    target.parent.mkdir(exist_ok=True)
    with Image.open(io.BytesIO(shot)) as picture:
        picture.convert("RGB").quantize(COLOURS).save(target, optimize=True)
    print(f"wrote {TARGET}, {target.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

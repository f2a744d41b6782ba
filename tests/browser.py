"""What is looked at in a page of JupyterLab: pictures, and the contrast of texts."""

from __future__ import annotations

from authoring.browser import CELL, PANEL

# Every text of an output or of the prose that is drawn, with its contrast as WCAG
# counts it: from 1 for none to 21 for black on white.
CONTRAST = """cell => {
    const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
    const behind = node => {
        for (; node; node = node.parentElement) {
            const [r, g, b, a = 1] = numbers(getComputedStyle(node).backgroundColor);
            if (a === 1) return [r, g, b];
        }
        return [255, 255, 255];
    };
    const light = colour => colour.slice(0, 3).map(part => part / 255)
        .map(p => p <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4)
        .reduce((sum, p, i) => sum + p * [0.2126, 0.7152, 0.0722][i], 0);
    const found = [];
    for (const area of document.querySelectorAll(
        `${cell} .jp-OutputArea-output, ${cell} .jp-RenderedMarkdown`)) {
        const walker = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            const node = walker.currentNode.parentElement;
            const text = walker.currentNode.data.trim();
            if (!text || node.closest('[aria-hidden=true]')
                || !node.getClientRects().length) continue;
            const both = [numbers(getComputedStyle(node).color), behind(node)]
                .map(light).sort((a, b) => b - a);
            found.push({text, contrast: (both[0] + 0.05) / (both[1] + 0.05)});
        }
    }
    return found;
}"""


def texts(lab):
    """Every text as {"text": ..., "contrast": ...}."""
    return lab.page.evaluate(CONTRAST, CELL)


def pictures(lab):
    """The notebook from top to bottom, a PNG a page."""
    lab.page.mouse.move(0, 0)  # what is under the mouse looks another way
    outer = lab.page.locator(f"{PANEL} .jp-WindowedPanel-outer")
    height, whole = outer.evaluate("it => [it.clientHeight, it.scrollHeight]")
    for top in range(0, whole, height - 50):
        outer.evaluate("(it, top) => it.scrollTo(0, top)", top)
        yield lab.page.screenshot()

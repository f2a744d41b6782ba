"""Drives a real JupyterLab in a headless Chromium, on copies of the notebooks.

Nothing of the author's own is read or changed: settings, layout, marks and the files
that the server writes lie in a folder of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from playwright.sync_api import Browser, Error, Page, Playwright

from authoring.project import ROOT

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHANNELS = ("chrome", "msedge", "chromium")  # playwright knows where they lie
HERE = ("127.0.0.1", "localhost")
START = 120  # seconds for the server, and for a notebook to open
LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"
# Every cell is in the page at any time, not only those in view.
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none", "scrollPastEnd": False},
    "docmanager-extension/plugin": {"autosave": False},
}
# lab.py as the learner runs it, but for the folder that it writes to.
LAUNCH = "import lab, pathlib, sys; lab.SHARE = pathlib.Path(sys.argv.pop(1)); "
LAUNCH += "sys.argv[0] = 'lab.py'; lab.main()"
PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
CELL = f"{PANEL} .jp-Notebook .jp-Cell"
OPENED = """panel => {
    const kernel = document.querySelector(`${panel} .jp-KernelName`)?.textContent;
    const status = document.querySelector(`${panel} [data-status]`)?.dataset.status;
    // Before there is a kernel the status is idle too.
    return kernel && kernel !== 'No Kernel' && status === 'idle'
        && document.querySelectorAll(`${panel} .jp-Cell`).length > 1;
}"""
ENDED = """cell => {
    const panel = document.querySelector(cell.split(' ')[0]);
    const prompts = [...panel.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]
        .map(prompt => prompt.textContent);
    const kernel = panel.querySelector('.jp-Notebook-ExecutionIndicator');
    return kernel?.dataset.status === 'idle' && /\\d/.test(prompts[0])
        && !prompts.some(prompt => prompt.includes('*'));
}"""
LOOK = """cell => [...document.querySelectorAll(cell)].map(cell => {
    const box = node => {
        const {width, height} = node.getBoundingClientRect();
        return {width, height};
    };
    const all = selector => [...cell.querySelectorAll(selector)];
    return {
        code: cell.classList.contains('jp-CodeCell'),
        prompt: cell.querySelector('.jp-InputPrompt')?.textContent ?? '',
        outputs: all('.jp-OutputArea-output').map(box),
        errors: all('[data-mime-type$="stderr"], [data-mime-type$="error"]')
            .map(node => node.textContent),
        figures: all('.jp-OutputArea-output figure img').map(
            node => ({...box(node), alt: node.alt, pixels: node.naturalWidth})),
        messages: all('.jp-OutputArea-output [role=status]').map(
            node => ({...box(node), text: node.innerText})),
    };
})"""

ACTIVE = """cell => [...document.querySelectorAll(cell)].findIndex(
    node => node.classList.contains('jp-mod-active'))"""


@contextmanager
def serve(folder: Path, notebooks: Path = ROOT / "notebooks") -> Iterator[str]:
    """Start the course with lab.py on copies in `folder`; gives the address to open.

    Raises:
        RuntimeError: the server did not start; with what it wrote.
    """
    course, home = folder / "course", folder / "home"
    unwanted = shutil.ignore_patterns(".ipynb_checkpoints")
    shutil.copytree(notebooks, course / "notebooks", ignore=unwanted)
    shutil.copy(ROOT / "lab.py", course)
    for name, values in SETTINGS.items():
        path = home / f"settings/@jupyterlab/{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values), encoding="utf-8")
    variables = {
        "COURSE_PROGRESS": home / "progress.json",
        "IPYTHONDIR": home / "ipython",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings",
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
    }
    kept = {n: text for n, text in os.environ.items() if n != "COURSE_CHECKS"}
    command = [sys.executable, "-c", LAUNCH, str(home / "share"), "--no-browser"]
    command += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"]
    command += [f"--LabApp.app_settings_dir={home / 'share' / 'settings'}"]
    log = folder / "lab.log"
    with open(log, "wb") as file:
        server = subprocess.Popen(
            command,
            cwd=course,
            env={**kept, **{name: str(path) for name, path in variables.items()}},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    address = ""
    try:
        address, token = _answering(server, home / "runtime", log)
        yield f"{address}?token={token}"
    finally:
        if address:
            _ask(f"{address}api/shutdown", token, "POST")  # its kernels as well
        else:
            server.kill()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _answering(server: subprocess.Popen, runtime: Path, log: Path) -> tuple[str, str]:
    """Address and token of the server, as soon as it answers."""
    end = time.monotonic() + START
    while time.monotonic() < end and server.poll() is None:
        try:
            (path,) = runtime.glob("jpserver-*.json")
            info = json.loads(path.read_text("utf-8"))
            address = f"http://127.0.0.1:{info['port']}/"
            _ask(f"{address}api/status", info["token"])
            return address, info["token"]
        except (OSError, ValueError):  # not there, not whole, or not listening yet
            time.sleep(0.2)
    raise RuntimeError(f"lab.py did not start:\n{log.read_text('utf-8')[-3000:]}")


def _ask(address: str, token: str, method: str = "GET") -> None:
    headers = {"Authorization": f"token {token}"}
    request = Request(address, method=method, headers=headers)
    build_opener(ProxyHandler({})).open(request, timeout=10).close()


def chromium(playwright: Playwright) -> Browser | None:
    """A Chromium, Chrome or Edge of this machine, cut off from every other machine.

    None where there is none.
    """
    rules = ", ".join(["MAP * ~NOTFOUND", *(f"EXCLUDE {name}" for name in HERE)])
    options: dict[str, Any] = {"args": [f"--host-resolver-rules={rules}"]}
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found:
        return playwright.chromium.launch(executable_path=found, **options)
    for channel in CHANNELS:
        try:
            return playwright.chromium.launch(channel=channel, **options)
        except Error as error:
            if "is not found" not in str(error) and "doesn't exist" not in str(error):
                raise
    return None


class Lab:
    """One page with JupyterLab in it; `outside` lists what it asked of others."""

    def __init__(self, browser: Browser, address: str, width: int, height: int) -> None:
        context = browser.new_context(viewport={"width": width, "height": height})
        self.page: Page = context.new_page()
        self.outside: list[str] = []
        context.on("request", lambda request: self._note(request.url))
        self.page.on("websocket", lambda socket: self._note(socket.url))
        self.page.set_default_timeout(START * 1000)
        self.page.goto(address)
        self._opened()

    def _note(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("data", "blob") and parts.hostname not in HERE:
            self.outside.append(address)

    def _opened(self) -> None:
        self.page.wait_for_function(OPENED, arg=PANEL)

    def open(self, notebook: str) -> None:
        """Open a notebook of the copied course, "notebooks/02_by_hand.ipynb"."""
        address = self.page.url.split("?")[0].split("/tree/")[0]
        self.page.goto(f"{address}/tree/{notebook}")
        name = notebook.rsplit("/", 1)[-1]
        self.page.wait_for_selector(f".lm-DockPanel .lm-mod-current >> text={name}")
        self._opened()

    def menu(self, *path: str) -> None:
        """Choose an entry of a menu, for example "Run", "Run All Cells"."""
        first, *others = path
        self.page.locator(f"#jp-MainMenu >> text={first}").first.click()
        for label in others:
            entry = self.page.locator(".lm-Menu-item .lm-Menu-itemLabel")
            entry.get_by_text(label, exact=True).last.click()

    def run_all(self, seconds: float) -> None:
        """Run every cell, and wait until the last one ended or one of them failed."""
        self.menu("Run", "Run All Cells")
        self.page.wait_for_function(ENDED, arg=CELL, timeout=seconds * 1000)
        self.page.wait_for_timeout(500)  # the last output is being drawn

    def theme(self, name: str) -> None:
        """Change the colours of the page, LIGHT or DARK."""
        self.menu("Settings", "Theme", name)
        self.page.wait_for_selector(
            f"body[data-jp-theme-name='{name}']", state="attached"
        )
        self.page.wait_for_timeout(500)  # its style sheet is being loaded

    def walk_to(self, place: int) -> None:
        """Make a cell, counted from 0, the active one, with the arrow keys alone."""
        self.page.keyboard.press("Escape")
        self.page.locator(f"{CELL}.jp-mod-active").focus()
        active = self.page.evaluate(ACTIVE, CELL)
        for _ in range(abs(active - place)):
            self.page.keyboard.press("ArrowUp" if active > place else "ArrowDown")
        self.page.wait_for_function(f"cell => ({ACTIVE})(cell) === {place}", arg=CELL)

    def retype(self, lines: Sequence[str]) -> None:
        """Write these lines over the active cell; the editor indents them itself."""
        self.page.keyboard.press("Enter")
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.press("Delete")
        for number, line in enumerate(lines):
            if number:
                self.page.keyboard.press("Enter")
            self.page.keyboard.type(line.strip())

    def cells(self) -> list[dict[str, Any]]:
        """What every cell of the notebook shows, with the sizes it is drawn in."""
        return self.page.evaluate(LOOK, CELL)

"""Stand-ins for the Hugging Face Hub on 127.0.0.1: a working one and three broken ones.

Run code against one with HF_ENDPOINT set to its address before Python starts, as the
Hub's libraries read that once.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILE = re.compile(r"^/(datasets/)?([^/]+/[^/]+)/resolve/[^/]+/(.+)$")
API = re.compile(r"^/api/(models|datasets)/([^/]+/[^/]+)(/[a-z-]+)?(?:/[^/]+)?(/.*)?$")


@contextmanager
def refusing() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{closed.getsockname()[1]}"


@contextmanager
def hanging() -> Iterator[str]:
    """A server that takes the connection and never says a word."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(16)
        yield f"http://127.0.0.1:{silent.getsockname()[1]}"


@contextmanager
def unavailable() -> Iterator[str]:
    """A server that answers 503 to all."""

    class Handler(_Handler):
        def do_HEAD(self) -> None:
            self.reply(503)

        do_GET = do_POST = do_HEAD

    with _serving(Handler) as address:
        yield address


@contextmanager
def working(folder: Path) -> Iterator[str]:
    """The Hub's layout over `folder`: models/OWNER/NAME and datasets/OWNER/NAME"""

    class Handler(_Handler):
        def do_HEAD(self) -> None:
            path = unquote(self.path.partition("?")[0])
            if path == "/":
                self.reply(200)
            elif match := FILE.match(path):
                kind = "datasets" if match[1] else "models"
                self.file(folder / kind / match[2], match[3])
            elif match := API.match(path):
                self.api(folder / match[1] / match[2], match[3], match[4] or "")
            else:
                self.reply(404)

        do_GET = do_POST = do_HEAD

        def file(self, repository: Path, name: str) -> None:
            path = repository / name
            if not path.is_file():
                missing = "EntryNotFound" if repository.is_dir() else "RepoNotFound"
                self.reply(404, headers={"X-Error-Code": missing})
                return
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()}"'
            self.reply(200, content, {"ETag": tag, "X-Repo-Commit": COMMIT})

        def api(self, repository: Path, action: str | None, below: str) -> None:
            if not repository.is_dir():
                self.reply(404, headers={"X-Error-Code": "RepoNotFound"})
                return
            if action == "/tree":
                below = repository / below.strip("/")
                deep = "recursive=true" in self.path.lower()
                self.entries(repository, below.rglob("*") if deep else below.glob("*"))
            elif action == "/paths-info":
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = json.loads(body) if body.startswith("{") else parse_qs(body)
                self.entries(repository, (repository / name for name in form["paths"]))
            else:
                files = (p for p in repository.rglob("*") if p.is_file())
                names = [p.relative_to(repository).as_posix() for p in files]
                self.json(
                    {
                        "id": "/".join(repository.parts[-2:]),
                        "sha": COMMIT,
                        "private": False,
                        "siblings": [{"rfilename": name} for name in sorted(names)],
                    }
                )

        def entries(self, repository: Path, paths: Iterable[Path]) -> None:
            self.json(
                [
                    {
                        "type": "directory" if path.is_dir() else "file",
                        "path": path.relative_to(repository).as_posix(),
                        "size": 0 if path.is_dir() else path.stat().st_size,
                        "oid": hashlib.sha1(path.name.encode()).hexdigest(),
                    }
                    for path in sorted(paths)
                    if path.exists()
                ]
            )

        def json(self, content: object) -> None:
            self.reply(200, json.dumps(content).encode(), {"X-Repo-Commit": COMMIT})

    with _serving(Handler) as address:
        yield address


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(
        self, status: int, content: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Keeps the test's output clean."""


@contextmanager
def _serving(handler: type[_Handler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()

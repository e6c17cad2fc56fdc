"""Objects that are read by URL: a file system and a server that count the bytes they give."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import fsspec
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class CountedFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file of which each piece that is fetched counts."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        if CountedFiles.fails:
            raise RuntimeError(f"the store is out of order at {CountedFiles.fails}")
        CountedFiles.gate.wait()
        piece = CountedFiles.objects[self.path][start:end]
        CountedFiles.fetched += len(piece)
        return piece


class CountedFiles(AbstractFileSystem):  # type: ignore[misc]
    """A store that gives pieces of its objects, as ``counted://name``, and counts them."""

    protocol = "counted"
    cachable = False
    objects: ClassVar[dict[str, bytes]] = {}
    opened: ClassVar[set[str]] = set()
    fetched = 0
    fails: str = ""
    gate = threading.Event()

    def _open(self, path: str, mode: str = "rb", **options: Any) -> CountedFile:
        options.pop("autocommit", None)
        self.opened.add(self._strip_protocol(path))
        return CountedFile(self, path, mode, size=self.info(path)["size"], **options)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        name = self._strip_protocol(path)
        self.gate.wait()
        if name not in self.objects:
            raise FileNotFoundError(path)
        return {"name": name, "size": len(self.objects[name]), "type": "file"}


@contextmanager
def stored(**objects: bytes) -> Iterator[list[str]]:
    """Store objects by name; give their URLs. No call of the store ends while ``CountedFiles.gate`` is cleared."""
    fsspec.register_implementation("counted", CountedFiles, clobber=True)
    CountedFiles.objects, CountedFiles.fetched, CountedFiles.fails = dict(objects), 0, ""
    CountedFiles.opened.clear()
    CountedFiles.gate.set()
    yield [f"counted://{name}" for name in objects]
    CountedFiles.gate.set()
    CountedFiles.objects = {}


class _Handler(BaseHTTPRequestHandler):
    objects: dict[str, bytes]
    sends_pieces: bool
    status: int
    stalled: Collection[str]
    is_over: threading.Event

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def _answer(self, *, has_body: bool) -> None:
        data = self.objects.get(self.path)
        if f"HEAD {self.path}" in self.stalled:
            self.is_over.wait()
        if data is None:
            self.send_error(self.status)
            return
        wanted = _RANGE.match(self.headers.get("Range", "")) if self.sends_pieces else None
        if wanted and int(wanted[1]) >= len(data):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        first, last = (int(wanted[1]), min(int(wanted[2]), len(data) - 1)) if wanted else (0, len(data) - 1)
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        if self.sends_pieces:
            self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        if has_body:
            self._send(data[first : last + 1])

    def _send(self, data: bytes) -> None:
        with suppress(ConnectionError):  # The client has given it up.
            self._send_pieces(data)

    def _send_pieces(self, data: bytes) -> None:
        if f"trickle {self.path}" in self.stalled:
            for at in range(len(data)):
                self.wfile.write(data[at : at + 1])
                self.wfile.flush()
                if self.is_over.wait(0.05):
                    return
        elif self.path in self.stalled:
            self.wfile.write(data[:100])
            self.wfile.flush()
            self.is_over.wait()
        else:
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def served(
    objects: dict[str, bytes], *, sends_pieces: bool = True, status: int = 404, stalled: Collection[str] = ()
) -> Iterator[str]:
    """Serve objects by their paths, and answer ``status`` for other paths; give the server's URL.

    Args:
        objects: Bytes by path.
        sends_pieces: Whether range requests are answered.
        status: Of other paths.
        stalled: Paths of which 100 bytes are sent and then nothing; "HEAD path" sends no header, and "trickle path"
            a byte at a time. May change meanwhile.
    """
    is_over = threading.Event()
    facts = {"objects": objects, "sends_pieces": sends_pieces, "status": status, "stalled": stalled, "is_over": is_over}
    handler = type("Handler", (_Handler,), facts)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:

        def serve() -> None:
            while not is_over.is_set():
                server.handle_request()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            is_over.set()
            socket.create_connection(server.server_address).close()  # else it waits for the next request
            thread.join()

"""A server of objects over HTTP that answers as servers should, but where its schedule names a fault."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from urllib3 import HTTPHeaderDict

from tests.patience import PATIENCE_SECONDS

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: a close sends RST."""
_DRIP_SECONDS = 0.02


@dataclass
class Stored:
    """An object of the server; its fields may be changed between two requests.

    Attributes:
        data: Its bytes.
        etag: With its quotes; None to send none.
        modified: Last-Modified; None to send none.
    """

    data: bytes
    etag: str | None = '"one"'
    modified: str | None = "Wed, 21 Oct 2026 07:28:00 GMT"


@dataclass(frozen=True)
class Fault:
    """How one answer differs from the right one.

    Attributes:
        status: In place of the right one; then the body is empty if ``body`` does not say.
        headers: In place of the right ones; None leaves one out.
        body: In place of the right one.
        whole: The request's range is not looked at.
        unconditional: The request's conditions are not looked at.
        chunks: Sizes of chunks, repeated, in place of Content-Length.
        head: Bytes in place of status and headers.
        before: Where the server stops: "head" before it answers.
        after: Bytes of the body after which it stops; None for all of them.
        end: What the stop is: "stall" sends nothing more, "drip" little and often, "reset" and "close" end the
            connection.
        drop: What drips.
        then: Called before the request is answered, with the server.
        more: Bytes behind the body.
    """

    status: int | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict)
    body: bytes | None = None
    whole: bool = False
    unconditional: bool = False
    chunks: int = 0
    last_chunk: bytes = b"0\r\n\r\n"
    head: bytes | None = None
    before: Literal["", "head"] = ""
    after: int | None = None
    end: Literal["", "stall", "drip", "reset", "close"] = ""
    drop: bytes = b"x"
    then: Callable[[FaultServer], object] | None = None
    more: bytes = b""


RIGHT = Fault()


def redirect(location: str, status: int = 302, **others: Any) -> Fault:
    return Fault(status, headers={"Location": location}, **others)


FAULTS = {
    "none": Fault(),
    "nor here": Fault(),
    "nor there": Fault(),
    "chunks": Fault(chunks=777),
    "closed": Fault(after=100, end="close"),
    "reset": Fault(after=5000, end="reset"),
    "closed before": Fault(before="head", end="close"),
    "503": Fault(503),
    "403": Fault(403),
    "416": Fault(416),
    "whole": Fault(whole=True),
    "short": Fault(body=b"short"),
    "long": Fault(body=b"long" * 10**5),
    "other range": Fault(headers={"Content-Range": "bytes 0-9/10"}),
    "no range": Fault(headers={"Content-Range": None}),
    "no tag": Fault(headers={"ETag": None}),
    "no version": Fault(headers={"ETag": None, "Last-Modified": None}),
    "encoded": Fault(headers={"Content-Encoding": "gzip"}),
    "unconditional": Fault(unconditional=True),
    "unconditional, closed": Fault(after=100, end="close", unconditional=True),
    "more": Fault(more=b"HTTP/1.1 206 x\r\n"),
    "to itself": redirect("/a.mp4"),
    "moved": redirect("/moved.mp4"),
    "to a file": redirect("file:///etc/passwd"),
}
"""Of all kinds, but that none takes time."""


@dataclass(frozen=True)
class Asked:
    """A request as it came: its method, its target, its headers, and the number of its connection."""

    method: str
    target: str
    headers: HTTPHeaderDict
    connection: int

    @property
    def range(self) -> tuple[int, int] | None:
        """The first byte, and behind the last one."""
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        return (int(match[1]), int(match[2]) + 1) if match else None


class FaultServer:
    """Serves objects by their paths, in a thread of its own.

    Attributes:
        objects: By path; the query of a request is not looked at.
        faults: By path: those of its next requests, one each.
        always: By path: that of each request for which ``faults`` has none.
        is_refused: Whether a request is answered 403.
        hold_for: No request is answered before so many have come.
        asked: All requests so far.
    """

    def __init__(self, objects: Mapping[str, bytes | Stored], host: str = "127.0.0.1", tls: Any = None) -> None:
        self.objects = {path: each if isinstance(each, Stored) else Stored(each) for path, each in objects.items()}
        self.faults: dict[str, deque[Fault]] = {}
        self.always: dict[str, Fault] = {}
        self.is_refused: Callable[[Asked], bool] = lambda _: False
        self.hold_for = 0
        self._has_all = asyncio.Event()
        self.asked: list[Asked] = []
        self.connections = 0
        self._open = 0
        self._changed = threading.Condition()
        self._host, self._tls = host, tls
        self._loop = asyncio.new_event_loop()
        self._is_over = asyncio.Event()
        self._listening = socket.create_server((host, 0), backlog=128)
        self.port = self._listening.getsockname()[1]
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), name="faults")

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://{self._host}:{self.port}"

    def plan(self, path: str, *faults: Fault) -> str:
        """Set the faults of the next requests of a path; return its URL."""
        self.faults[path] = deque(faults)
        return self.url + path

    def count(self, path: str = "") -> int:
        """Count the requests for paths that begin so."""
        return sum(each.target.startswith(path) for each in self.asked)

    @property
    def ranges(self) -> list[tuple[int, int] | None]:
        """The ranges of all requests."""
        return [each.range for each in self.asked]

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait until the requests and connections are as a test expects."""
        with self._changed:
            assert self._changed.wait_for(is_so, PATIENCE_SECONDS)

    def wait_for_requests(self, count: int) -> None:
        self.wait_until(lambda: len(self.asked) >= count)

    def wait_for_connections(self, count: int) -> None:
        """Wait until so many connections are open."""
        self.wait_until(lambda: self._open == count)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        # Not `start_server`, which leaves connections open that are being made as it closes.
        self._listening.setblocking(False)
        self._loop.add_reader(self._listening, self._accept)
        await self._is_over.wait()
        self._loop.remove_reader(self._listening)
        self._listening.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # in which transports end

    def _accept(self) -> None:
        with suppress(OSError):  # The client is gone already.
            connection, _ = self._listening.accept()
            connection.setblocking(False)
            task = self._loop.create_task(self._answer_all(connection))
            self._tasks.add(task)
            task.add_done_callback(lambda _: (self._tasks.discard(task), connection.close()))

    async def _answer_all(self, connection: socket.socket) -> None:
        reader = asyncio.StreamReader(2**20)
        protocol = asyncio.StreamReaderProtocol(reader)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):  # It is over.
            transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, connection, ssl=self._tls)
            self._note(connections=1)
            writer, number = asyncio.StreamWriter(transport, protocol, reader, self._loop), self.connections
            try:
                while await self._answer_one(reader, writer, number):
                    pass
            finally:
                self._note(closed=1)
                transport.abort()

    def _note(self, connections: int = 0, closed: int = 0, asked: Asked | None = None) -> None:
        with self._changed:
            self.connections += connections
            self._open += connections - closed
            if asked is not None:
                self.asked.append(asked)
            self._changed.notify_all()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        """Answer a request; return whether the connection stays open."""
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ")
        headers = HTTPHeaderDict(line.split(": ", 1) for line in lines[1:] if line)
        asked = Asked(method, target, headers, number)
        if method == "CONNECT":
            self._note(asked=asked)
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return False
        path = unquote(urlsplit(target).path, "latin-1")
        planned = self.faults.get(path)
        fault = planned.popleft() if planned else self.always.get(path, RIGHT)
        if self.is_refused(asked):
            fault = Fault(403)
        if fault.then is not None:
            fault.then(self)
        self._note(asked=asked)
        if len(self.asked) >= self.hold_for:
            self._has_all.set()
        await self._has_all.wait()
        if fault.before == "head":
            return await _stop(fault, reader, writer)
        head, body = self._make_answer(path, asked, fault)
        # In one piece: the second of two waits for the client to acknowledge the first.
        writer.write(head + (body if fault.after is None else body[: fault.after]))
        await writer.drain()
        if fault.end:
            return await _stop(fault, reader, writer)
        return b"connection: close" not in head.lower() and not head.startswith(b"HTTP/1.0")

    def _make_answer(self, path: str, asked: Asked, fault: Fault) -> tuple[bytes, bytes]:
        stored = self.objects.get(path)
        if stored is None and fault.status is None:
            fault = Fault(404)
        status, headers, body = (404, {}, b"") if stored is None else _answer_right(stored, asked, fault)
        if fault.status is not None:
            status, headers, body = fault.status, {"Content-Length": "0"}, b""
        if fault.body is not None:
            body, headers["Content-Length"] = fault.body, str(len(fault.body))
        if fault.chunks:
            body = _cut_in_chunks(body, fault.chunks) + fault.last_chunk
            headers = {**headers, "Transfer-Encoding": "chunked"}
            del headers["Content-Length"]
        headers = {name: value for name, value in {**headers, **fault.headers}.items() if value is not None}
        lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in headers.items())]
        head = fault.head if fault.head is not None else ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        return head, body + fault.more


def _answer_right(stored: Stored, asked: Asked, fault: Fault) -> tuple[int, dict[str, str], bytes]:
    headers = {"ETag": stored.etag, "Last-Modified": stored.modified}
    known = {name: value for name, value in headers.items() if value is not None}
    if not fault.unconditional:
        match, since = asked.headers.get("If-Match"), asked.headers.get("If-Unmodified-Since")
        is_strong = not (stored.etag or "").startswith("W/")  # A weak tag matches nothing (RFC 9110, 13.1.1).
        if (match and not (is_strong and match == stored.etag)) or (since and not match and since != stored.modified):
            return 412, {"Content-Length": "0"}, b""
    size = len(stored.data)
    if fault.whole or asked.range is None:
        return 200, {**known, "Content-Length": str(size)}, stored.data
    start, stop = asked.range[0], min(asked.range[1], size)
    if start >= size:
        return 416, {"Content-Range": f"bytes */{size}", "Content-Length": "0"}, b""
    known |= {"Content-Range": f"bytes {start}-{stop - 1}/{size}", "Content-Length": str(stop - start)}
    return 206, known, stored.data[start:stop]


def _cut_in_chunks(body: bytes, count: int) -> bytes:
    parts = [body[at : at + count] for at in range(0, len(body), count)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


async def _stop(fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    if fault.end == "stall":
        with suppress(OSError):
            await reader.read()  # until the client closes its end, or the test is over
    elif fault.end == "drip":
        while not writer.is_closing():
            writer.write(fault.drop)
            await writer.drain()
            await asyncio.sleep(_DRIP_SECONDS)
    elif fault.end == "reset":
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    else:
        writer.close()
        await writer.wait_closed()
    return False


@contextmanager
def faulty(
    objects: Mapping[str, bytes | Stored], host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> Iterator[FaultServer]:
    """Serve objects in the block."""
    server = FaultServer(objects, host, tls)
    server.start()
    try:
        yield server
    finally:
        server.stop()

"""Requests by connections of urllib3, by address and proxy: which ones may be made, and what is logged of them."""

from __future__ import annotations

import http.client
import io
import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from time import monotonic, perf_counter
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, LocationValueError
from urllib3.util import Timeout

from framefeed import _stopping
from framefeed._lru import Lru
from framefeed._stopping import get_fetch_seconds
from framefeed.media.remote._addresses import (
    PrivateAddressError,
    Reach,
    is_link_local_address,
    is_public_address,
    is_public_name,
    may_ask,
)
from framefeed.media.remote._targets import make_basic_rights

_MOST_CONNECTIONS = 128
"""Idle ones that are kept for each host."""
_BUFFER_BYTES = 2**15
"""A short answer is one call of the system, after which a thread waits for the others to run."""
_MOST_REASON = 200
"""Characters of what a system or a library says about a failure."""


_CONNECT_SECONDS = 20.0
_LEAST_SECONDS = 0.01
_MOST_MOVED = 2**14
_DOT_SEGMENT = re.compile(r"(?<=/)\.{1,2}(?=/|$)")


class ProxyUrlError(Exception):
    """The environment names a proxy that cannot be used."""


class WaitEndedError(Exception):
    """An answer is no longer waited for. No OSError, which urllib3 would translate."""


class _Stream(io.RawIOBase):
    """The bytes of a socket, whose timeout is the time between two questions whether the answer is still waited for.

    Attributes:
        late_at: Of ``monotonic()``: until then the head of an answer must be here; None behind it.
    """

    def __init__(self, file: io.RawIOBase, sock: Any) -> None:
        self._file = file  # counts the uses of the socket
        self._sock = sock
        self.late_at: float | None = monotonic() + _stopping.SILENCE_SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        count = self._receive(buffer)
        if self.late_at is not None:
            # The timeout of a socket begins anew with each byte.
            if monotonic() > self.late_at:
                raise TimeoutError("timed out")
            # http.client takes the end of a connection for the end of a head.
            if not count:
                raise ConnectionResetError("Remote end closed connection in its answer")
        return count

    def _receive(self, buffer: Any) -> int:
        silent_at = monotonic() + _stopping.SILENCE_SECONDS
        while not _THREAD.is_over():
            try:
                return int(self._sock.recv_into(buffer))
            except TimeoutError:
                if monotonic() > (silent_at if self.late_at is None else min(silent_at, self.late_at)):
                    raise
        raise WaitEndedError

    def close(self) -> None:
        self._file.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """An answer whose head is whole, and here in time."""

    def __init__(self, sock: Any, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._sock = sock

    def begin(self) -> None:
        file: Any = self.fp
        stream = _Stream(file.detach(), self._sock)
        self.fp = io.BufferedReader(stream, _BUFFER_BYTES)
        super().begin()
        stream.late_at = None


class _Checked:
    """Knows whether its address is public, also when its socket is closed; may refuse others before it sends a byte."""

    is_public: bool | None = None
    response_class: Any = _Response

    def request(self, *arguments: Any, **options: Any) -> None:
        super().request(*arguments, **options)  # type: ignore[misc]
        _THREAD.sent_at = perf_counter()

    def _new_conn(self) -> Any:
        sock, reach = super()._new_conn(), _THREAD.reach  # type: ignore[misc]
        self.is_public = is_public(sock)
        if (reach is Reach.PUBLIC and not self.is_public) or (reach and is_link_local(sock)):
            sock.close()
            raise PrivateAddressError(reach)
        return sock


class _HttpConnection(_Checked, HTTPConnection):
    """A connection of http."""


class _HttpsConnection(_Checked, HTTPSConnection):
    """A connection of https."""


def is_public(sock: Any) -> bool:
    """Whether a socket is connected to an address that the whole internet can reach."""
    try:
        return is_public_address(sock.getpeername()[0])
    except (OSError, ValueError, AttributeError):
        return False


def is_link_local(sock: Any) -> bool:
    """Whether a socket is connected to a link-local address, or another at which a machine asks for its own keys."""
    try:
        return is_link_local_address(sock.getpeername()[0])
    except (OSError, ValueError, AttributeError):
        return False


def is_public_answer(response: Any, url: str) -> bool:
    """Whether an answer came from a public address; through a proxy, from a public name."""
    connection = response.connection
    if connection is None or connection.proxy is not None:
        return is_public_name(urlsplit(url).hostname or "")
    return connection.is_public is not False


class _Thread(threading.local):
    """The request that a thread makes.

    Attributes:
        is_ours: Whether it makes one of ours: users' functions may use urllib3 in threads of ours too.
        is_over: Asked while the answer is waited for: whether it still is.
        reach: Which addresses new connections may have.
        sent_at: Of ``perf_counter()``, when the last request was sent.
    """

    is_ours = False
    reach = Reach.ANY
    sent_at = 0.0

    @staticmethod
    def is_over() -> bool:
        return False


_THREAD = _Thread()


def get_sent_at() -> float:
    """When the calling thread sent its last request, by ``perf_counter()``."""
    return _THREAD.sent_at


class _HideQueries(logging.Filter):
    """Leaves the queries of our requests, which may be signed, out of urllib3's log, and what it warns of.

    Its warnings have URLs and headers in any form, and answers are checked here.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if not _THREAD.is_ours:
            return True
        if isinstance(record.args, tuple):
            record.args = tuple(
                each.partition("?")[0] + "?..." if isinstance(each, str) and "?" in each else each
                for each in record.args
            )
        return record.levelno < logging.WARNING


_HIDE_QUERIES = _HideQueries()
for _name in ("connection", "connectionpool", "response", "poolmanager", "util.retry"):
    logging.getLogger(f"urllib3.{_name}").addFilter(_HIDE_QUERIES)


@contextmanager
def asking(is_over: Callable[[], bool]) -> Iterator[None]:
    """Keep the secrets of requests that the calling thread makes in the block out of urllib3's log.

    ``is_over`` is asked while an answer is waited for; if it is true, `WaitEndedError` is raised.
    """
    _THREAD.is_ours, _THREAD.is_over = True, is_over  # type: ignore[method-assign]
    try:
        yield
    finally:
        _THREAD.is_ours = False
        del _THREAD.is_over


@contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Wait no longer in the block, which `asking` is around: behind it, `WaitEndedError` is raised."""
    is_over, until = _THREAD.is_over, monotonic() + seconds
    _THREAD.is_over = lambda: is_over() or monotonic() > until  # type: ignore[method-assign]
    try:
        yield
    finally:
        _THREAD.is_over = is_over  # type: ignore[method-assign]


def make_manager(proxy: str) -> urllib3.PoolManager:
    """Make a manager of pools, through a proxy if it is not empty."""
    options: dict[str, Any] = {"maxsize": _MOST_CONNECTIONS, "block": False, "num_pools": 32}
    return _make_proxy_manager(proxy, options) if proxy else urllib3.PoolManager(**options)


def _make_proxy_manager(proxy: str, options: dict[str, Any]) -> urllib3.PoolManager:
    try:
        parts = urlsplit(proxy)
        headers = {}
        if parts.username is not None:
            headers["Proxy-Authorization"] = make_basic_rights(parts)
        # Without the user, whom messages would name.
        place = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", ""))
        if parts.hostname:
            return urllib3.ProxyManager(place, proxy_headers=headers, **options)
    except ValueError:  # Also LocationValueError.
        pass
    raise ProxyUrlError


_PROXY_NAMES = tuple(
    each for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for each in (name, name.upper())
)


def find_proxy(scheme: str, netloc: str) -> str:
    """Find the proxy that the environment names for a host; empty if there is none."""
    return _find_proxy_in(scheme, netloc, *map(os.environ.get, (*_PROXY_NAMES, "REQUEST_METHOD")))


@lru_cache(maxsize=256)  # To read the environment for proxies takes 40 us, a quarter of a request.
def _find_proxy_in(scheme: str, netloc: str, *_: str | None) -> str:
    proxies = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all") or ""
    if not proxy or proxy_bypass(netloc):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


class Moved(NamedTuple):
    """Where an object was found behind redirects, which addresses may be asked for it, and its tag if they named it."""

    url: str
    reach: Reach
    etag: str | None = None


class HttpClient:
    """Connections of one process, and where objects have moved."""

    def __init__(self) -> None:
        self._managers: dict[tuple[Reach, str], urllib3.PoolManager] = {}
        self._lock = threading.Lock()
        self._moved = Lru[str, Moved](_MOST_MOVED)

    def send(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        reach: Reach,
        method: str = "GET",
        body: IO[bytes] | None = None,
    ) -> Any:
        """Send a request; return urllib3's response, whose body was not read."""
        parts = urlsplit(url)
        proxy = find_proxy(parts.scheme, parts.netloc)
        if proxy and not may_ask(parts.hostname or "", reach):
            raise PrivateAddressError(reach)
        pool = self._find_manager(reach, proxy).connection_from_url(f"{parts.scheme}://{parts.netloc}")
        # The pool's scheme: a proxy that is asked for http may itself have https.
        pool.ConnectionCls = _HttpsConnection if pool.scheme == "https" else _HttpConnection
        # Through a proxy, addresses are those of the proxy, and not checked.
        _THREAD.reach = Reach.ANY if proxy else reach
        # Not by the manager, which resolves ".." in paths, and not by urlunsplit, which takes "//" for a host: the key
        # of an object may have both.
        target = parts.path or "/"
        if proxy and parts.scheme == "http":  # Here the pool resolves ".." too.
            target = f"http://{parts.netloc}{_DOT_SEGMENT.sub(lambda dots: dots[0].replace('.', '%2E'), target)}"
        if parts.query:
            target += f"?{parts.query}"
        return pool.urlopen(
            method,
            target,
            body=body,
            headers=headers,
            timeout=Timeout(
                connect=max(_LEAST_SECONDS, min(_CONNECT_SECONDS, _stopping.SILENCE_SECONDS, get_fetch_seconds())),
                read=min(_stopping.CHECK_SECONDS, _stopping.SILENCE_SECONDS),
            ),
            redirect=False,
            retries=False,
            assert_same_host=False,
            preload_content=False,
            decode_content=False,
        )

    def _find_manager(self, reach: Reach, proxy: str) -> urllib3.PoolManager:
        with self._lock:
            manager = self._managers.get((reach, proxy))
            if manager is None:
                manager = self._managers[reach, proxy] = make_manager(proxy)
            return manager

    def find_moved(self, url: str) -> Moved | None:
        """Where an object was found before."""
        with self._lock:
            return self._moved.get(url)

    def set_moved(self, url: str, moved: Moved | None) -> None:
        """Remember where an object is; None forgets it."""
        with self._lock:
            if moved is None:
                self._moved.pop(url)
            else:
                self._moved.put(url, moved)


def find_root(error: BaseException) -> BaseException:
    """Find the first cause of an error of urllib3."""
    while isinstance(error, HTTPError):
        inner = error.__cause__ or next((each for each in error.args if isinstance(each, BaseException)), None)
        if inner is None:
            break
        error = inner
    if isinstance(error, socket.gaierror):
        # Without descriptors no name is found, and the C library does not say why.
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as shortage:
            return shortage
    return error


def describe_root(error: BaseException) -> str:
    """Describe the first cause of a failure; of what a server sent, and of headers, nothing."""
    says = isinstance(error, (OSError, LocationValueError)) or type(error) in _SAYS_NUMBERS
    text = str(error) if says else ""
    return "".join(each if each.isprintable() else "?" for each in text[:_MOST_REASON]) or type(error).__name__


_SAYS_NUMBERS = (http.client.HTTPException, http.client.LineTooLong, http.client.IncompleteRead)

"""Get ranges of objects by HTTP: the only module that knows urllib3.

Redirects, conditions and retries are decided here and not by the library, because a wrong one gives bytes of another
object. A request is made in a thread of its own, which ends by itself: see `PendingCall`.
"""

from __future__ import annotations

import ipaddress
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic, time
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, LocationValueError, NewConnectionError, ProxyError, SSLError, TimeoutError
from urllib3.util import Timeout, make_headers

from framefeed import _stopping
from framefeed._lru import Lru
from framefeed._per_process import PerProcess
from framefeed._shortage import find_shortage
from framefeed._shown import hide_secrets, show_name
from framefeed.errors import DeadlineExceeded, FramefeedError, UnreadableMedia
from framefeed.media.remote._answers import (
    TRANSIENT,
    Body,
    ObjectVersion,
    RangeRequest,
    check_answer,
    describe_refusal,
    read_pause,
    shorten,
)

PIECE_BYTES = 2**17
"""A server that sends fewer bytes in `SILENCE_SECONDS` is silent."""
_CONNECT_SECONDS = 20.0
_MOST_REDIRECTS = 10
_MOST_TRIES = 4
_FIRST_PAUSE_SECONDS = 0.1
_PAUSE_FACTOR = 4
_MOST_PAUSE_SECONDS = 20.0
"""A server that asks for a longer pause is not asked again."""
_MOST_CONNECTIONS = 64
"""Idle ones that are kept for each host."""
_MOST_MOVED = 2**14
_MOST_DRAINED_BYTES = 2**12
"""Of the body of a redirect, which is read so that its connection can be used again."""
_REDIRECTS = (301, 302, 303, 307, 308)
_REFUSED = (401, 403, 404, 410)


class Target(Protocol):
    """An object that can be asked for.

    Attributes:
        url: As the user gave it, with its secrets.
    """

    @property
    def url(self) -> str:
        """Its URL as the user gave it, with its secrets."""
        ...

    def make_request(self, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Make the URL and all headers of a request with these headers."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """Bytes of an object.

    Attributes:
        data: From the start that was asked for; fewer than asked for where the object ends.
        version: Of the object.
        requests: Number of requests that it took.
    """

    data: bytearray
    version: ObjectVersion
    requests: int


class _TryAgainError(Exception):
    """A failure that a repeated request may not have.

    Attributes:
        error: What is raised if it stays.
        pause_seconds: As the server asks for, or None.
    """

    def __init__(self, error: FramefeedError, cause: Exception | None = None, pause: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.error.__cause__ = cause
        self.pause_seconds = pause


class _PrivateAddressError(Exception):
    """A redirect from a public address leads to a private one."""


class _PublicOnly:
    """Connects to public addresses alone."""

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        connection: Any = self
        if not is_public(connection.sock):
            connection.close()
            raise _PrivateAddressError


class _PublicHttp(_PublicOnly, HTTPConnection):
    pass


class _PublicHttps(_PublicOnly, HTTPSConnection):
    pass


class _PublicHttpPool(HTTPConnectionPool):
    ConnectionCls = _PublicHttp


class _PublicHttpsPool(HTTPSConnectionPool):
    ConnectionCls = _PublicHttps


def is_public(sock: Any) -> bool:
    """Whether a socket is connected to an address that the whole internet can reach."""
    try:
        address = ipaddress.ip_address(sock.getpeername()[0].partition("%")[0])
    except (OSError, ValueError, AttributeError):
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_global


class _HideQueries(logging.Filter):
    """Leaves the queries of our requests, which may be signed, out of urllib3's log."""

    def filter(self, record: logging.LogRecord) -> bool:
        if (record.threadName or "").startswith("framefeed") and isinstance(record.args, tuple):
            record.args = tuple(
                each.partition("?")[0] + "?..." if isinstance(each, str) and "?" in each else each
                for each in record.args
            )
        return True


_HIDE_QUERIES = _HideQueries()


class HttpClient:
    """Connections of one process, and where objects have moved."""

    def __init__(self) -> None:
        self._managers: dict[tuple[bool, str], urllib3.PoolManager] = {}
        self._lock = threading.Lock()
        self._moved = Lru[str, tuple[str, bool]](_MOST_MOVED)
        logging.getLogger("urllib3.connectionpool").addFilter(_HIDE_QUERIES)

    def send(self, url: str, headers: Mapping[str, str], *, public_only: bool) -> Any:
        """Send a GET request; return urllib3's response, whose body was not read."""
        proxy = _find_proxy(url)
        parts = urlsplit(url)
        pool = self._find_manager(public_only and not proxy, proxy).connection_from_url(
            f"{parts.scheme}://{parts.netloc}"
        )
        # Not by the manager, which resolves ".." in paths: the key of an object may have it.
        target = urlunsplit(("", "", parts.path or "/", parts.query, ""))
        if parts.path.startswith("//"):
            target = target.removeprefix("//")  # urlunsplit writes an empty host
        if proxy and parts.scheme == "http":
            target = f"{parts.scheme}://{parts.netloc}{target}"
        return pool.urlopen(
            "GET",
            target,
            headers=headers,
            timeout=Timeout(connect=min(_CONNECT_SECONDS, _stopping.SILENCE_SECONDS), read=_stopping.SILENCE_SECONDS),
            redirect=False,
            retries=False,
            assert_same_host=False,
            preload_content=False,
            decode_content=False,
        )

    def _find_manager(self, public_only: bool, proxy: str) -> urllib3.PoolManager:
        with self._lock:
            manager = self._managers.get((public_only, proxy))
            if manager is None:
                manager = self._managers[public_only, proxy] = _make_manager(public_only, proxy)
            return manager

    def find_moved(self, url: str) -> tuple[str, bool] | None:
        """Where an object was found before, and whether only a public address may be asked for it."""
        with self._lock:
            return self._moved.get(url)

    def set_moved(self, url: str, moved: tuple[str, bool] | None) -> None:
        """Remember where an object is; None forgets it."""
        with self._lock:
            if moved is None:
                self._moved.pop(url)
            else:
                self._moved.put(url, moved)


_CLIENT = PerProcess(HttpClient)


def _make_manager(public_only: bool, proxy: str) -> urllib3.PoolManager:
    options: dict[str, Any] = {"maxsize": _MOST_CONNECTIONS, "block": False, "num_pools": 32}
    if proxy:
        user = urlsplit(proxy)
        given = None if user.username is None else f"{user.username}:{user.password or ''}"
        return urllib3.ProxyManager(proxy, proxy_headers=make_headers(proxy_basic_auth=given), **options)
    manager = urllib3.PoolManager(**options)
    if public_only:
        manager.pool_classes_by_scheme = {"http": _PublicHttpPool, "https": _PublicHttpsPool}
    return manager


def _find_proxy(url: str) -> str:
    """Find the proxy that the environment names for a URL; empty if there is none."""
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


class RangeGet:
    """Gets one range of an object, with as many requests as it takes.

    Args:
        target: The object.
        start: First byte.
        stop: Behind the last byte; more than ``start``.
        version: Which version the bytes must be of; None for any.

    Attributes:
        target: The object.
    """

    def __init__(self, target: Target, start: int, stop: int, version: ObjectVersion | None = None) -> None:
        self.target = target
        self._name = show_name(target.url)
        self._start, self._stop, self._version = start, stop, version
        self._data = bytearray()
        self._got = 0
        self._requests = 0
        self._tries = 0
        self._is_abandoned = threading.Event()

    def __call__(self, is_abandoned: threading.Event) -> Answer:
        """Get the bytes from ``start`` to ``stop``, or to the end of the object if that comes before.

        Args:
            is_abandoned: Ends the work early.

        Raises:
            MissingMedia: There is no such object.
            StaleSource: The object has another version.
            DeadlineExceeded: The server is silent.
            UnreadableMedia: It cannot be reached, refuses, or answers with something else than this range.
            OSError: Descriptors or memory ran out.
        """
        self._is_abandoned = is_abandoned
        pause = _FIRST_PAUSE_SECONDS
        while True:
            got = self._got
            try:
                version = self._try()
            except _TryAgainError as failure:
                if self._got > got:  # The server gave something: this is no failure like the one before.
                    self._tries, pause = 0, _FIRST_PAUSE_SECONDS
                self._tries += 1
                seconds = pause if failure.pause_seconds is None else failure.pause_seconds
                is_over = self._tries >= _MOST_TRIES or seconds > _MOST_PAUSE_SECONDS
                error = failure.error
                if is_over or is_abandoned.wait(seconds):
                    break
                pause *= _PAUSE_FACTOR
                continue
            del self._data[self._got :]
            return Answer(self._data, version, self._requests)
        raise error

    def _try(self) -> ObjectVersion:
        request = RangeRequest(self._name, self._start + self._got, self._stop, self._version)
        with self._responding(request) as response:
            if response.status in TRANSIENT:
                pause = read_pause(response.headers.get("Retry-After"), time())
                raise _TryAgainError(self._make_error(describe_refusal(self._name, response.status)), pause=pause)
            body = check_answer(request, response.status, response.headers)
            # The rest of a range, and the next ones, are of this version.
            self._version = body.version
            self._read(response, body)
            return body.version

    @contextmanager
    def _responding(self, request: RangeRequest) -> Iterator[Any]:
        """Open the answer to a request, behind all redirects; translate errors of the library."""
        response: Any = None
        try:
            response = self._follow(request)
            yield response
        except FramefeedError:
            raise  # Some are an OSError too.
        except (HTTPError, _PrivateAddressError, OSError) as error:
            self._raise(error)
        finally:
            if response is not None:
                _close(response)

    def _follow(self, request: RangeRequest) -> Any:
        client = _CLIENT.value
        original, headers = self.target.make_request(request.headers)
        moved = client.find_moved(original)
        url, public_only = moved or (original, False)
        if moved is not None:
            headers = _keep_headers(headers, request.headers, original, url)
        for _ in range(_MOST_REDIRECTS + 1):
            self._requests += 1
            response = client.send(url, headers, public_only=public_only)
            location = response.headers.get("Location") if response.status in _REDIRECTS else None
            if location is None:
                if moved is not None and response.status in _REFUSED:
                    # What was signed for a time is over: ask where the object is now.
                    _close(response)
                    client.set_moved(original, None)
                    return self._follow(request)
                if url != original and response.status in (200, 206):
                    client.set_moved(original, (url, public_only))
                return response
            public_only = public_only or is_public(getattr(response.connection, "sock", None))
            _close(response)
            next_url = urljoin(url, location)
            self._check_redirect(url, next_url)
            headers = _keep_headers(headers, request.headers, url, next_url)
            url = next_url
        raise self._make_error(f"{self._name}: is behind more than {_MOST_REDIRECTS} redirects: check the URL")

    def _check_redirect(self, url: str, next_url: str) -> None:
        scheme, before = urlsplit(next_url).scheme, urlsplit(url).scheme
        if scheme not in ("http", "https") or (before, scheme) == ("https", "http"):
            raise self._make_error(
                f"{self._name}: the server redirects from {before}: to {shorten(scheme)}:, which is not followed: give "
                "the URL of the object itself if you trust it"
            )

    def _read(self, response: Any, body: Body) -> None:
        """Read the body behind what is there already."""
        end = self._got + body.size
        if not self._got:
            self._data = bytearray(end)
        view = memoryview(self._data)
        try:
            while self._got < end:
                if self._is_abandoned.is_set():
                    raise self._make_silent_error()
                self._read_piece(response, view, min(end, self._got + PIECE_BYTES))
        finally:
            view.release()
        if body.is_exact and response.headers.get("Content-Length") is None and response.read1(1):
            raise self._make_error(f"{self._name}: the server sends more than the range that was asked for")

    def _read_piece(self, response: Any, view: memoryview, end: int) -> None:
        late_at = monotonic() + _stopping.SILENCE_SECONDS
        while self._got < end:
            data = response.read1(end - self._got)
            if not data:
                error = f"{self._name}: the server broke off its answer at byte {self._start + self._got}"
                raise _TryAgainError(self._make_error(f"{error}: try again later"))
            view[self._got : self._got + len(data)] = data
            self._got += len(data)
            if monotonic() > late_at and self._got < end:
                raise self._make_silent_error()

    def _raise(self, error: Exception) -> None:
        """Raise framefeed's error for one of the library, without references to its connection."""
        if find_shortage(error) is not None:
            raise error
        if isinstance(error, _PrivateAddressError):
            raise self._make_error(
                f"{self._name}: the server redirects from a public to a private address, which is not followed: give "
                "the URL of the object itself if you trust it"
            )
        cause = Exception(f"{type(error).__name__}: {hide_secrets(str(error), self.target.url)}")
        if isinstance(error, TimeoutError) and not isinstance(error, NewConnectionError):
            raise self._make_silent_error() from cause
        if isinstance(error, (SSLError, LocationValueError)):
            raise self._make_error(f"{self._name}: cannot be read: {cause}: check the URL") from cause
        what = "the proxy" if isinstance(error, ProxyError) else "the server"
        reason = hide_secrets(_describe_cause(error), self.target.url)
        advice = "check the URL and the network, then try again"
        raise _TryAgainError(self._make_error(f"{self._name}: {what} cannot be reached ({reason}): {advice}"), cause)

    def _make_error(self, message: str) -> UnreadableMedia:
        return UnreadableMedia(message, source=self._name, stage="read")

    def _make_silent_error(self) -> DeadlineExceeded:
        waited = f"{_stopping.SILENCE_SECONDS:g} s (stage: read)"
        return DeadlineExceeded(
            f"{self._name}: the storage did not answer within {waited}: try again later",
            source=self._name,
            stage="read",
        )


def _close(response: Any) -> None:
    """Give the connection back if the body was read, or is short; else close it."""
    with suppress(HTTPError, OSError):
        length = response.headers.get("Content-Length", "")
        if response.status in _REDIRECTS and length.isdecimal() and int(length) <= _MOST_DRAINED_BYTES:
            response.drain_conn()
        # A connection whose answer was read to its end is back in its pool already, and stays open.
        response.close()


def _describe_cause(error: BaseException) -> str:
    """Describe the first cause of an error of urllib3: its own messages have object ids in them."""
    while isinstance(error, HTTPError):
        inner = error.__cause__ or next((each for each in error.args if isinstance(each, BaseException)), None)
        if inner is None:
            break
        error = inner
    return str(error) or type(error).__name__


def _keep_headers(headers: Mapping[str, str], own: Mapping[str, str], url: str, next_url: str) -> dict[str, str]:
    """Keep the headers for a redirect: rights are for the host that they were given for."""
    same = urlsplit(url)[:2] == urlsplit(next_url)[:2]
    return dict(headers) if same else {name: value for name, value in headers.items() if name in own}

"""Get ranges of objects by HTTP: this module and `_connections` know urllib3.

Redirects, conditions and retries are decided here and not by the library, because a wrong one gives bytes of another
object. A request that others do not wait for is made in a thread of its own, which ends by itself: see `PendingCall`.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic, perf_counter, time
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

from urllib3.exceptions import HTTPError, NewConnectionError, ProxyError, SSLError, TimeoutError

from framefeed import _stopping
from framefeed._fetched import FetchCounts, get_fetch_counter
from framefeed._per_process import PerProcess
from framefeed._shortage import find_shortage
from framefeed._shown import hide_secrets, show_name
from framefeed._stopping import check_fetch, get_fetch_seconds, make_late_error
from framefeed.errors import DeadlineExceeded, FramefeedError, MissingMedia, UnreadableMedia
from framefeed.media.remote._addresses import PrivateAddressError, Reach
from framefeed.media.remote._answers import (
    TRANSIENT,
    Body,
    FetchedRange,
    ObjectVersion,
    RangeRequest,
    check_answer,
    describe_refusal,
    read_length,
    read_pause,
    shorten,
)
from framefeed.media.remote._connections import (
    HttpClient,
    Moved,
    ProxyUrlError,
    WaitEndedError,
    asking,
    describe_root,
    find_root,
    get_sent_at,
    is_public_answer,
    waiting_at_most,
)
from framefeed.media.remote._prices import GAP_PRICES, AnswerTime
from framefeed.media.remote._s3_listing import MOST_ERROR_BYTES
from framefeed.media.remote._targets import Target

R = TypeVar("R")

PIECE_BYTES = 2**17
"""A server that sends fewer bytes in `SILENCE_SECONDS` is silent."""
_MOST_REDIRECTS = 10
_MOST_TRIES = 4
_FIRST_PAUSE_SECONDS = 0.1
_PAUSE_FACTOR = 4
_MOST_PAUSE_SECONDS = 20.0
"""A server that asks for a longer pause is not asked again."""
_MOST_DRAINED_BYTES = 2**12
"""Of the body of a redirect, which is read so that its connection can be used again."""
_DOCUMENT_SECONDS = 5.0
"""Of an error; without its end, the status says enough."""
_REDIRECTS = (301, 302, 303, 307, 308)
_BROKEN_TLS = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""The connection ended; all other errors of TLS stay."""


class TryAgainError(Exception):
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


_CLIENT = PerProcess(HttpClient)


class ObjectGet(ABC, Generic[R]):
    """Asks for an object, with as many requests as it takes."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._name = show_name(target.url)
        self._start = self._got = 0
        self._counter = get_fetch_counter()
        self._tries, self._host = 0, ""
        self._is_abandoned = threading.Event()

    @abstractmethod
    def _make_headers(self) -> dict[str, str]:
        """Make the headers of the next request."""

    @abstractmethod
    def _take(self, response: Any) -> R:
        """Check an answer that is no transient failure, and read it."""

    def __call__(self, is_abandoned: threading.Event | None = None) -> R:
        """Ask, and ask again what may pass, until ``is_abandoned`` is set or the limits of the calling thread are over.

        Raises:
            MissingMedia: There is no such object.
            StaleSource: The object has another version.
            DeadlineExceeded: The server is silent, or a limit of the calling thread is over.
            UnreadableMedia: It cannot be reached, refuses, or answers with something else than was asked for.
            OSError: Descriptors or memory ran out.
        """
        if is_abandoned is not None:
            self._is_abandoned = is_abandoned
        with asking(self._is_over):
            return self._get()

    def _is_over(self) -> bool:
        return self._is_abandoned.is_set() or not get_fetch_seconds()

    def _get(self) -> R:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            got = self._got
            try:
                return self._try()
            except TryAgainError as failure:
                if self._got - got >= PIECE_BYTES:  # The server gave something: this is no failure like the one before.
                    self._tries, pause = 0, _FIRST_PAUSE_SECONDS
                self._tries += 1
                seconds = pause if failure.pause_seconds is None else failure.pause_seconds
                is_last = self._tries >= _MOST_TRIES or seconds > _MOST_PAUSE_SECONDS
                error = failure.error
            if is_last or self._pause(seconds):
                check_fetch(self._name, "read")
                raise error
            pause *= _PAUSE_FACTOR

    def _pause(self, seconds: float) -> bool:
        """Wait before the next try; return whether there is to be none."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0:
            if self._is_abandoned.wait(min(left, _stopping.CHECK_SECONDS)) or self._is_over():
                return True
        return False

    def _try(self) -> R:
        failure: Exception
        try:
            return self._ask()
        except FramefeedError:
            raise  # Some are an OSError too.
        except WaitEndedError:
            failure = self._make_silent_error()
        except (HTTPError, PrivateAddressError, ProxyUrlError, OSError, ValueError) as error:
            failure = self._translate(error)
        # Outside of the handler: the library's error refers to its connection, and may name what is secret.
        check_fetch(self._name, "read")
        raise failure

    def _ask(self) -> R:
        response = self._follow(self._make_headers())
        try:
            if response.status >= 300 and self.target.explains:
                self._explain(response)
            if response.status in TRANSIENT:
                pause = read_pause(response.headers.get("Retry-After"), time())
                raise TryAgainError(self._make_error(describe_refusal(self._name, response.status)), pause=pause)
            return self._take(response)
        finally:
            _close(response)

    def _explain(self, response: Any) -> None:
        """Raise what the document of an error says, if it says more than its status."""
        document = b""
        with suppress(HTTPError, OSError, WaitEndedError), waiting_at_most(_DOCUMENT_SECONDS):
            while len(document) <= MOST_ERROR_BYTES and (more := response.read1(MOST_ERROR_BYTES)):
                document += more
        problem = self.target.explain(response.status, response.headers, document)
        if problem is None:
            return
        message = f"{self._name}: the server answered {response.status} {problem.message}".rstrip()
        if problem.is_missing:
            raise MissingMedia(f"{self._name}: no such file ({problem.message})", source=self._name, stage="read")
        if problem.is_transient:
            raise TryAgainError(self._make_error(f"{message}: try again later"))
        if response.status not in (404, 412, 416):
            raise self._make_error(message)

    def _follow(self, own: Mapping[str, str]) -> Any:
        """Open the answer to a request, behind all redirects."""
        client = _CLIENT.value
        original, headers = self.target.make_request(own)
        response = self._ask_where_it_was(original, headers, own)
        if response is not None:
            return response
        url, reach, etag = original, Reach.ANY, None
        for _ in range(_MOST_REDIRECTS + 1):
            response = self._send(url, headers, reach)
            is_moved = response.status in _REDIRECTS and self.target.follows
            location = response.headers.get("Location") if is_moved else None
            etag = self.target.find_tag(response.headers) or etag
            if location is None:
                if url != original and response.status in (200, 206):
                    client.set_moved(original, Moved(url, reach, etag))
                return _set_tag(response, etag)
            is_public = is_public_answer(response, url)
            _close(response)
            next_url = self._find_next(url, location)
            if is_public:
                reach = Reach.PUBLIC
            elif not _has_same_host(url, next_url):
                reach = max(reach, Reach.REDIRECTED)
            headers = _keep_headers(headers, own, url, next_url)
            url = next_url
        raise self._make_error(f"{self._name}: is behind more than {_MOST_REDIRECTS} redirects: check the URL")

    def _ask_where_it_was(self, original: str, headers: Mapping[str, str], own: Mapping[str, str]) -> Any:
        """Ask where an object was found before; None if it is not there now, as a signature for a time is over."""
        client = _CLIENT.value
        moved = client.find_moved(original)
        if moved is None or (moved.etag is not None and not self._is_of(moved.etag)):
            return None
        response: Any = None
        try:
            kept = _keep_headers(headers, own, original, moved.url)
            response = self._send(moved.url, kept, moved.reach)
        finally:
            if response is None or response.status not in (200, 206):
                client.set_moved(original, None)
        if response.status in (200, 206):
            return _set_tag(response, moved.etag)
        _close(response)
        return None

    def _is_of(self, etag: str) -> bool:
        """Whether the object is asked for in the version with an entity tag, which may not be the newest."""
        return False

    def _send(self, url: str, headers: Mapping[str, str], reach: Reach) -> Any:
        if self._is_over():
            raise WaitEndedError
        self._host = urlsplit(url).netloc
        self._count(FetchCounts(requests=1))
        return self._open(url, headers, reach)

    def _open(self, url: str, headers: Mapping[str, str], reach: Reach) -> Any:
        return _CLIENT.value.send(url, headers, reach=reach)

    def _find_next(self, url: str, location: str) -> str:
        """Make the URL to which a server redirects; check that it may."""
        # As bytes, which Python has read as Latin-1. A user and a password in it are not used.
        joined = urlsplit(urljoin(url, quote(location.encode("latin-1"), safe="/%:@!$&'()*+,;=~?#[]")))
        next_url = urlunsplit(joined._replace(netloc=joined.netloc.rpartition("@")[2], fragment=""))
        scheme, before = urlsplit(next_url).scheme, urlsplit(url).scheme
        if scheme not in ("http", "https") or (before, scheme) == ("https", "http"):
            raise self._make_error(
                f"{self._name}: the server redirects from {before}: to {shorten(scheme)}:, which is not followed: give "
                "the URL of the object itself if you trust it"
            )
        return next_url

    def _translate(self, error: Exception) -> Exception:
        """Make framefeed's error for one of the library, without references to it; that of a shortage stays."""
        root = find_root(error)
        if isinstance(root, OSError) and find_shortage(root) is not None:
            return OSError(root.errno, root.strerror)
        if isinstance(error, PrivateAddressError):
            return self._make_error(
                f"{self._name}: the server redirects {error.what} address, which is not followed: give "
                "the URL of the object itself if you trust it"
            )
        if isinstance(error, ProxyUrlError):
            return self._make_error(
                f"{self._name}: the environment names a proxy that cannot be used: correct http_proxy and https_proxy, "
                "or set no_proxy"
            )
        reason = hide_secrets(describe_root(root), self.target.url)
        failure: FramefeedError
        if isinstance(error, TimeoutError) and not isinstance(error, NewConnectionError):
            failure = self._make_silent_error()
        elif isinstance(error, ValueError) or (isinstance(error, SSLError) and not isinstance(root, _BROKEN_TLS)):
            is_refused = isinstance(error, SSLError) and not isinstance(root, ssl.SSLCertVerificationError)
            hint = "; if the server speaks no TLS, write http:// in place of https://" if is_refused else ""
            failure = self._make_error(f"{self._name}: cannot be read ({reason}): check the URL{hint}")
        else:
            what = "the proxy" if isinstance(error, ProxyError) else "the server"
            done = "cannot be reached"
            if isinstance(root, http.client.IncompleteRead):
                done = f"broke off its answer at byte {self._start + self._got}"
            elif isinstance(root, http.client.HTTPException) and not isinstance(root, OSError):
                done = "gave no answer that can be read"
            advice = "check the URL and the network, then try again"
            # A server of https ends such a connection, or answers with an alert of TLS.
            has_no_answer = isinstance(root, http.client.HTTPException | ConnectionResetError) and not self._got
            if has_no_answer and self._name.startswith("http://"):
                advice += "; if the server speaks https, write https:// in place of http://"
            setting = self.target.server_setting
            if setting and what == "the server":
                what = f"the server {self._host}"  # which the URL does not name
                advice = f"check {setting} and the network, then try again"
            if isinstance(root, _BROKEN_TLS) and not self._got:
                place = f" in {setting.partition(' ')[0]}" if setting else ""
                advice += f"; if the server speaks no TLS, write http:// in place of https://{place}"
            failure = self._make_error(f"{self._name}: {what} {done} ({reason}): {advice}")
            return TryAgainError(failure, Exception(f"{type(error).__name__}: {reason}"))
        failure.__cause__ = Exception(f"{type(error).__name__}: {reason}")
        return failure

    def _count(self, counts: FetchCounts) -> None:
        if self._counter is not None:
            self._counter.add(counts)

    def _make_error(self, message: str) -> UnreadableMedia:
        return UnreadableMedia(message, source=self._name, stage="read")

    def _make_silent_error(self) -> DeadlineExceeded:
        return make_late_error(_stopping.SILENCE_SECONDS, self._name, "read")


class RangeGet(ObjectGet[FetchedRange]):
    """Gets one range of an object, from its start to its stop, or to the end of the object if that comes before.

    The bytes must be of ``version``, None for any.
    """

    def __init__(self, target: Target, start: int, stop: int, version: ObjectVersion | None = None) -> None:
        super().__init__(target)
        self._start, self._stop, self._version = start, stop, version
        self._data = bytearray()

    @property
    def _request(self) -> RangeRequest:
        return RangeRequest(self._name, self._start + self._got, self._stop, self._version)

    def _make_headers(self) -> dict[str, str]:
        return self._request.headers

    def _is_of(self, etag: str) -> bool:
        return self._version is not None and self._version.etag == etag

    def _take(self, response: Any) -> FetchedRange:
        body = check_answer(self._request, response.status, response.headers)
        # The rest of a range, and the next ones, are of this version.
        self._version = body.version
        head_at = perf_counter()
        self._read(response, body)
        times = AnswerTime(body.size, head_at - get_sent_at(), perf_counter() - head_at)
        GAP_PRICES.value.learn(self.target.url, times)
        return FetchedRange(self._data, body.version)

    def _read(self, response: Any, body: Body) -> None:
        """Read the body behind what is there already."""
        end = self._got + body.size
        if not self._got:
            self._data = bytearray(end)
        view = memoryview(self._data)
        try:
            while self._got < end:
                self._read_piece(response, view, min(end, self._got + PIECE_BYTES))
        finally:
            view.release()
        if body.is_exact and response.chunked:
            # All bytes are here; behind the last chunk, which is nearly always here too, the connection is used again.
            with suppress(HTTPError, OSError, WaitEndedError), waiting_at_most(_stopping.CHECK_SECONDS):
                if response.read1(1):
                    raise self._make_error(f"{self._name}: the server sends more than the range that was asked for")

    def _read_piece(self, response: Any, view: memoryview, end: int) -> None:
        late_at, got = monotonic() + _stopping.SILENCE_SECONDS, self._got
        try:
            while self._got < end:
                data = response.read1(end - self._got)
                if not data:
                    error = f"{self._name}: the server broke off its answer at byte {self._start + self._got}"
                    raise TryAgainError(self._make_error(f"{error}: try again later"))
                view[self._got : self._got + len(data)] = data
                self._got += len(data)
                if monotonic() > late_at and self._got < end:
                    raise self._make_silent_error()
        finally:
            self._count(FetchCounts(nbytes=self._got - got))


def _close(response: Any) -> None:
    """Give the connection back if the body was read, or is short; else close it."""
    with suppress(HTTPError, OSError):
        length = read_length(response.headers)
        if response.status in _REDIRECTS and length is not None and length <= _MOST_DRAINED_BYTES:
            response.drain_conn()
        # A connection whose answer was read to its end is back in its pool already, and stays open.
        response.close()


def _keep_headers(headers: Mapping[str, str], own: Mapping[str, str], url: str, next_url: str) -> dict[str, str]:
    """Keep the headers for a redirect: rights are for the host that they were given for."""
    if _has_same_host(url, next_url):
        return dict(headers)
    return {name: value for name, value in headers.items() if name in own}


def _set_tag(response: Any, etag: str | None) -> Any:
    """Set the entity tag of an answer to the one that is known from the redirects to it."""
    if etag is not None:
        response.headers["ETag"] = etag
    return response


def _has_same_host(one: str, other: str) -> bool:
    return urlsplit(one)[:2] == urlsplit(other)[:2]

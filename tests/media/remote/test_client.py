"""Each fault of a server gives its typed error, after a bounded number of requests; what can be repeated is."""

from __future__ import annotations

import os
import resource
import signal
import socket
import threading
from contextlib import suppress
from email.utils import formatdate
from typing import Any

import pytest
import urllib3.exceptions

from framefeed import _stopping
from framefeed._shortage import find_shortage
from framefeed._stopping import Cancelled, cancelled_by, fetch_limit, time_limit
from framefeed.errors import (
    DeadlineExceeded,
    FramefeedError,
    MissingMedia,
    StaleSource,
    UnreadableMedia,
)
from framefeed.media.remote import _client
from framefeed.media.remote._client import PIECE_BYTES, HttpClient, RangeGet
from framefeed.media.remote._s3_target import S3Target
from framefeed.media.remote._storage_options import S3Options
from framefeed.media.remote._targets import HttpTarget
from tests.decode.forks import Child
from tests.media.remote.faults import Fault, FaultServer, Stored
from tests.media.remote.getting import DATA, begin, get, start_get, wait
from tests.patience import PATIENCE_SECONDS

PART = DATA[1000:3000]
NO_HEAD = {"ETag": None, "Last-Modified": None}

# --- right answers in odd forms -------------------------------------------------------------------

RIGHT = {
    "as it should be": Fault(),
    "chunked": Fault(chunks=700),
    "one chunk": Fault(chunks=2000),
    "chunked, the end missing": Fault(chunks=700, last_chunk=b"", end="close"),
    "chunked, the end broken": Fault(chunks=700, last_chunk=b"0\r\n", end="reset"),
    "without length": Fault(headers={"Content-Length": None, "Connection": "close"}),
    "connection: close": Fault(headers={"Connection": "close"}),
    "HTTP/1.0": Fault(head=b"HTTP/1.0 206 x\r\nContent-Range: bytes 1000-2999/300000\r\nContent-Length: 2000\r\n\r\n"),
    "without version": Fault(headers=NO_HEAD),
    "weak tag": Fault(headers={"ETag": 'W/"one"'}),
    "more bytes behind": Fault(more=b"x" * 50),
    "folded header": Fault(headers={"X-Long": "a\r\n b"}),
    "header that is none": Fault(headers={"X y": "z"}),
    "identity": Fault(headers={"Content-Encoding": "identity"}),
    "length twice": Fault(headers={"Content-Length": "2000\r\nContent-Length: 2000"}),
}


@pytest.mark.parametrize("fault", RIGHT.values(), ids=RIGHT)
def test_right_answers_in_any_form(server: FaultServer, fault: Fault) -> None:
    url = server.plan("/a.mp4", fault)
    for _ in range(3):  # the connection serves the next ones, or is replaced
        answer = get(url)
        assert (bytes(answer.data), answer.version.size) == (PART, len(DATA))
    assert {each.method for each in server.asked} == {"GET"}
    assert server.count() == 3


NO_END = {
    "without length": Fault(headers={"Content-Length": None}, end="stall"),
    "length that is none": Fault(headers={"Content-Length": "-1"}, end="stall"),
    "without the last chunk": Fault(chunks=700, last_chunk=b"", end="stall"),
    "last chunk cut": Fault(chunks=2000, last_chunk=b"0\r", end="stall"),
    "without length, with more behind": Fault(headers={"Content-Length": None}, more=b"x" * 50, end="stall"),
}


@pytest.mark.parametrize("fault", NO_END.values(), ids=NO_END)
def test_the_end_of_an_answer_is_not_waited_for_when_all_bytes_are_here(server: FaultServer, fault: Fault) -> None:
    url = server.plan("/a.mp4", fault)
    assert get(url).data == PART
    server.wait_for_connections(0)
    assert (get(url).data, server.count()) == (PART, 2)


def test_the_document_of_an_error_is_not_waited_for(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_client, "_DOCUMENT_SECONDS", 0.0)
    server.always["/bucket/key"] = Fault(403, headers={"Content-Length": None}, end="stall")
    options = S3Options("key", "secret", endpoint_url=server.url)
    with pytest.raises(UnreadableMedia, match="answered 403 Forbidden: check"):
        wait(start_get(RangeGet(S3Target("s3://bucket/key", options), 0, 10)), "s3://bucket/key")


def test_a_range_may_end_behind_the_object(server: FaultServer) -> None:
    assert get(server.url + "/a.mp4", 299_000, 400_000).data == DATA[299_000:]
    assert get(server.url + "/a.mp4", 400_000, 500_000).data == b""


def test_300_ranges_take_one_connection(server: FaultServer) -> None:
    for start in range(300):
        assert get(server.url + "/a.mp4", start, start + 50).data == DATA[start : start + 50]
    assert (server.connections, server.count()) == (1, 300)


def test_each_request_asks_for_bytes_as_they_are(server: FaultServer) -> None:
    get(server.url + "/a.mp4", headers={"accept-encoding": "gzip", "RANGE": "bytes=0-1", "X-Mine": "1"})
    headers = server.asked[0].headers
    assert headers.getlist("Accept-Encoding") == ["identity"]
    assert headers.getlist("Range") == ["bytes=1000-2999"]
    assert headers["X-Mine"] == "1"


def test_M20_the_whole_is_not_downloaded_for_its_beginning(server: FaultServer) -> None:
    server.objects["/big.mp4"] = Stored(bytes(50_000_000))
    answer = get(server.plan("/big.mp4", Fault(whole=True)), 0, 1000)
    assert (answer.data, answer.version.size) == (bytes(1000), 50_000_000)
    server.wait_for_connections(0)  # closed with most of the body unread


def test_M20_a_server_without_ranges_serves_objects_that_fit_into_one(server: FaultServer) -> None:
    server.objects["/a.mp4"].data = PART
    server.always["/a.mp4"] = Fault(whole=True)
    assert get(server.url + "/a.mp4", 0, 5000).data == PART
    with pytest.raises(UnreadableMedia, match=r"in pieces .*: download it first"):
        get(server.url + "/a.mp4", 1, 5000)


# --- failures -------------------------------------------------------------------------------------

ODD = UnreadableMedia
FINAL: dict[str, tuple[Fault, type[FramefeedError], str]] = {
    "403": (Fault(403), ODD, "answered 403 Forbidden: check the URL and the rights"),
    "401": (Fault(401), ODD, "answered 401"),
    "404": (Fault(404), MissingMedia, "no such file"),
    "404 with a page": (Fault(404, body=b"<html>" * 9000), MissingMedia, "no such file"),
    "410": (Fault(410), MissingMedia, "no such file"),
    "412": (Fault(412), StaleSource, "replaced"),
    "416": (Fault(416), ODD, "no such range"),
    "416, larger": (Fault(416, headers={"Content-Range": "bytes */5000"}), ODD, "no such range"),
    "204": (Fault(204, headers={"Content-Length": None}), ODD, "answered 204"),
    "302 without a target": (Fault(302), ODD, "answered 302"),
    "gzip": (Fault(headers={"Content-Encoding": "gzip"}), ODD, "bytes 1000 to 2999 .* encoding 'gzip'"),
    "no Content-Range": (Fault(headers={"Content-Range": None}), ODD, "without Content-Range"),
    "several parts": (
        Fault(headers={"Content-Range": None, "Content-Type": "multipart/byteranges; boundary=x"}),
        ODD,
        "without Content-Range",
    ),
    "shifted": (Fault(headers={"Content-Range": "bytes 1001-3000/300000"}), ODD, "bytes 1001 to 3000"),
    "other total": (Fault(headers={"Content-Range": "bytes 1000-2999/2000"}), ODD, "of 2000"),
    "nonsense": (Fault(headers={"Content-Range": "bytes all of them"}), ODD, "Content-Range 'bytes all"),
    "short body": (Fault(body=PART[:500]), ODD, "500 bytes for 2000"),
    "long body": (Fault(body=PART + b"x"), ODD, "2001 bytes for 2000"),
    "too many chunks": (Fault(body=PART + b"more", chunks=2000), ODD, "more than the range"),
    "whole": (Fault(whole=True), ODD, "in pieces"),
    "pause too long": (Fault(503, headers={"Retry-After": "3600"}), ODD, "answered 503"),
    "huge pause": (Fault(429, headers={"Retry-After": "9" * 18}), ODD, "answered 429"),
    "pause until a date": (Fault(503, headers={"Retry-After": formatdate(4e9, usegmt=True)}), ODD, "answered 503"),
    "lengths that differ": (Fault(headers={"Content-Length": "2000\r\nContent-Length: 5"}), ODD, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", FINAL)
def test_what_a_second_request_would_not_change_is_asked_once(server: FaultServer, name: str) -> None:
    fault, kind, says = FINAL[name]
    url = server.plan("/a.mp4", fault)
    if name == "lengths that differ":  # The library refuses these, as it refuses broken answers.
        assert get(url).data == PART
        return
    with pytest.raises(FramefeedError, match=rf"a\.mp4: .*{says}") as caught:
        get(url)
    assert type(caught.value) is kind
    assert (caught.value.source, caught.value.stage) == (url, "read")
    assert server.count() == 1
    assert get(url).data == PART  # the next read is not disturbed


GARBAGE = b"I am no server of HTTP\r\n\r\n"
BROKEN = {
    "reset": Fault(before="head", end="reset"),
    "close": Fault(before="head", end="close"),
    "reset in the head": Fault(head=b"HTTP/1.1 206 Partial\r\nContent-", after=0, end="reset"),
    "close in the head": Fault(head=b"HTTP/1.1 206 Partial\r\nContent-", after=0, end="close"),
    "reset behind the head": Fault(after=0, end="reset"),
    "close behind the head": Fault(after=0, end="close"),
    "garbage": Fault(head=GARBAGE, after=0, end="close"),
    "garbage that stays": Fault(head=GARBAGE, after=0),
    "another version of HTTP": Fault(head=b"HTTP/9.9 206 x\r\n\r\n", after=0, end="close"),
    "status that is none": Fault(head=b"HTTP/1.1 two x\r\n\r\n", after=0, end="close"),
    "long status": Fault(head=b"HTTP/1.1 206 " + b"x" * 100_000, after=0, end="close"),
    "header of 1 MB": Fault(headers={"X": "y" * 2**20}),
    "10,000 headers": Fault(headers={f"X-{number}": "y" for number in range(10_000)}),
    "length that is none": Fault(headers={"Content-Length": "five, 5"}, after=0, end="close"),
    "chunks that are none": Fault(body=b"xyz\r\n", headers={"Transfer-Encoding": "chunked", "Content-Length": None}),
    "chunks broken off": Fault(chunks=700, after=0, end="close"),
    "408": Fault(408),
    "429": Fault(429, headers={"Retry-After": "0"}),
    "500": Fault(500),
    "502": Fault(502, headers={"Retry-After": "nonsense"}),
    "503": Fault(503, headers={"Retry-After": formatdate(1e9, usegmt=True)}),
    "504": Fault(504),
}


@pytest.mark.parametrize("fault", BROKEN.values(), ids=BROKEN)
def test_D08_a_failure_that_may_pass_is_tried_four_times(server: FaultServer, fault: Fault) -> None:
    url = server.plan("/a.mp4", fault, fault, fault)
    answer = get(url)
    assert (bytes(answer.data), server.count()) == (PART, 4)
    server.plan("/a.mp4", fault, fault, fault, fault)
    with pytest.raises(UnreadableMedia, match=r"a\.mp4: .*try again") as caught:
        get(url)
    assert type(caught.value) is UnreadableMedia
    assert caught.value.source == url
    assert server.count() == 8
    assert len(str(caught.value)) < 400
    assert "xyz" not in str(caught.value)
    assert "no server" not in str(caught.value)  # a server may echo what we sent


@pytest.mark.parametrize("end", ["reset", "close"])
@pytest.mark.parametrize("cut", [0, 1, 700, 1999])
def test_D08_a_range_goes_on_where_it_broke_off(server: FaultServer, cut: int, end: Any) -> None:
    url = server.plan("/a.mp4", Fault(after=cut, end=end))
    assert get(url).data == PART
    assert server.ranges[0] == (1000, 3000)
    assert server.ranges[1][1] == 3000  # type: ignore[index]
    if end == "close":
        assert server.ranges[1][0] == 1000 + cut  # type: ignore[index]
    assert server.asked[1].headers["If-Match"] == '"one"'


def test_D08_a_server_that_gives_a_byte_at_a_time_is_given_up(server: FaultServer) -> None:
    server.always["/a.mp4"] = Fault(after=1, end="close")
    with pytest.raises(UnreadableMedia, match=r"broke off its answer at byte 100\d|cannot be reached"):
        get(server.url + "/a.mp4")
    assert server.count() == 4


def test_D08_tries_are_counted_anew_where_a_server_gives_much(server: FaultServer) -> None:
    server.objects["/a.mp4"].data = data = bytes(8 * PIECE_BYTES)
    server.always["/a.mp4"] = Fault(after=PIECE_BYTES, end="close")
    assert get(server.url + "/a.mp4", 0, len(data)).data == data
    assert server.count() == 8


def test_D08_tries_are_not_counted_anew_by_what_was_given_before(server: FaultServer) -> None:
    server.objects["/a.mp4"].data = data = bytes(8 * PIECE_BYTES)
    server.always["/a.mp4"] = Fault(503)
    url = server.plan("/a.mp4", Fault(after=2 * PIECE_BYTES, end="close"))
    with pytest.raises(UnreadableMedia, match="answered 503"):
        get(url, 0, len(data))
    assert server.count() == 4


def replace(data: bytes, etag: str | None, modified: str | None = "Thu, 22 Oct 2026 07:28:00 GMT") -> Any:
    def then(server: FaultServer) -> None:
        server.objects["/a.mp4"] = Stored(data, etag, modified)

    return then


OTHER_DATA = bytes(255 - byte for byte in DATA)
CHANGES = {
    "other tag": (Stored(DATA), replace(OTHER_DATA, '"two"')),
    "other time": (Stored(DATA, None), replace(OTHER_DATA, None)),
    "weak tags": (Stored(DATA, 'W/"one"'), replace(OTHER_DATA, 'W/"two"')),
    "shrunk": (Stored(DATA, None, None), replace(DATA[:2000], None, None)),
    "shrunk to nothing": (Stored(DATA, None, None), replace(b"", None, None)),
    "grown": (Stored(DATA, None, None), replace(DATA + b"x", None, None)),
}


@pytest.mark.parametrize("honoured", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_D09_an_object_that_is_replaced_within_a_range_is_stale(
    server: FaultServer, change: str, honoured: bool
) -> None:
    stored, then = CHANGES[change]
    server.objects["/a.mp4"] = stored
    url = server.plan("/a.mp4", Fault(after=500, end="close"), Fault(then=then, unconditional=not honoured))
    with pytest.raises(StaleSource, match=r"a\.mp4: the object was replaced .*: scan or index it again"):
        get(url)
    assert server.count() == 2


def test_an_empty_object_gives_no_bytes(server: FaultServer) -> None:
    server.objects["/a.mp4"].data = b""
    for fault in (Fault(), Fault(whole=True)):
        answer = get(server.plan("/a.mp4", fault), 0, 100)
        assert (answer.data, answer.version.size) == (b"", 0)


# --- time -----------------------------------------------------------------------------------------


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stopping, "SILENCE_SECONDS", 0.2)


STALLS = {
    "before the head": Fault(before="head", end="stall"),
    "in the head": Fault(head=b"HTTP/1.1 206 Partial\r\nContent-", after=0, end="stall"),
    "behind the head": Fault(after=0, end="stall"),
    "in the body": Fault(after=700, end="stall"),
    "in a chunk": Fault(chunks=700, after=1000, end="stall"),
    "short body": Fault(body=PART[:-1], headers={"Content-Length": "2000"}),
}


@pytest.mark.parametrize("fault", STALLS.values(), ids=STALLS)
def test_L27_a_silent_server_is_given_up_and_its_connection_closed(
    server: FaultServer, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = r"a\.mp4: the storage did not answer within 0\.05 s \(stage: read\)"
    with monkeypatch.context() as patch:
        patch.setattr(_stopping, "SILENCE_SECONDS", 0.05)
        with pytest.raises(DeadlineExceeded, match=says):
            get(server.plan("/a.mp4", fault))
    server.wait_for_requests(1)  # It may see them late.
    server.wait_for_connections(0)
    assert server.count() == 1
    assert get(server.url + "/a.mp4").data == PART


DRIPS = {
    "in a header": Fault(head=b"HTTP/1.1 206 Partial\r\nX: ", after=0, end="drip"),
    "headers": Fault(head=b"HTTP/1.1 206 Partial\r\n", after=0, end="drip", drop=b"X: y\r\n"),
    "no head": Fault(head=b"", after=0, end="drip", drop=b"HTTP/1.1 100 Continue\r\n\r\n"),
    "in the body": Fault(after=1, end="drip"),
}


@pytest.mark.parametrize("fault", DRIPS.values(), ids=DRIPS)
@pytest.mark.usefixtures("short")
def test_L27_a_server_that_drips_is_given_up(server: FaultServer, fault: Fault) -> None:
    """Bytes come all the time, so that no timeout of a socket passes."""
    with pytest.raises(DeadlineExceeded, match=r"a\.mp4: the storage did not answer within 0\.2 s \(stage: read\)"):
        get(server.plan("/a.mp4", fault))
    server.wait_for_requests(1)  # It may see them late.
    server.wait_for_connections(0)
    assert server.count() == 1


def test_L27_a_call_that_is_given_up_ends_and_closes_its_connection(server: FaultServer) -> None:
    url = server.plan("/a.mp4", Fault(after=700, end="stall"))
    call = begin(url)
    server.wait_for_requests(1)
    with pytest.raises(DeadlineExceeded, match="within deadline_seconds"), fetch_limit(0.01):
        wait(call, url)
    assert call.is_abandoned.is_set()
    server.wait_for_connections(0)


@pytest.mark.parametrize(
    ("scheme", "answer", "advice"),
    [
        (
            "https",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "if the server speaks no TLS, write http:// in place of https://",
        ),
        ("https", b"", "if the server speaks no TLS, write http:// in place of https://"),
        ("http", b"\x15\x03\x01\x00\x02\x02\x46", "if the server speaks https, write https:// in place of http://"),
        ("http", b"", "if the server speaks https, write https:// in place of http://"),
    ],
)
def test_a_server_of_the_other_protocol_is_named_as_a_reason(scheme: str, answer: bytes, advice: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_SECONDS)

        def serve() -> None:
            with suppress(OSError):  # The socket is closed at the end.
                while True:
                    with listening.accept()[0] as connection:
                        connection.recv(2**16)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises(UnreadableMedia) as caught:
                get(f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/a.mp4")
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_SECONDS)
    assert str(caught.value).removesuffix(" (stage: read)").endswith(advice)


def test_L27_nothing_is_asked_again_for_a_call_that_is_given_up(server: FaultServer) -> None:
    url = server.plan("/a.mp4", *[Fault(503, headers={"Retry-After": "19"})] * 4)
    call = begin(url)
    server.wait_for_requests(1)
    call.is_abandoned.set()
    # The client may have read the answer by now, or not.
    with pytest.raises((UnreadableMedia, DeadlineExceeded)):
        wait(call, url)
    assert server.count() == 1


def test_L27_a_call_that_is_given_up_before_it_begins_asks_nothing(server: FaultServer) -> None:
    is_abandoned = threading.Event()
    is_abandoned.set()
    with pytest.raises(DeadlineExceeded):
        RangeGet(HttpTarget(server.url + "/a.mp4"), 0, 10)(is_abandoned)
    assert server.count() == 0


def test_a_pause_that_is_longer_than_the_time_left_is_not_waited_for(server: FaultServer) -> None:
    url = server.plan("/a.mp4", Fault(503, headers={"Retry-After": "19"}))
    with pytest.raises(DeadlineExceeded, match=r"a\.mp4: .*deadline_seconds"), time_limit(0.05, "a.mp4"):
        get(url)
    assert server.count() <= 1


def test_a_wait_ends_with_its_run(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stopping, "CHECK_SECONDS", 0.01)
    url = server.plan("/a.mp4", Fault(before="head", end="stall"))
    with pytest.raises(Cancelled), cancelled_by(lambda: server.count() > 0):
        get(url)
    server.wait_for_connections(0)


def test_a_wait_can_be_interrupted(server: FaultServer) -> None:
    is_waiting = threading.Event()

    def interrupt(_: FaultServer) -> None:
        is_waiting.wait()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def note() -> bool:
        is_waiting.set()
        return False

    url = server.plan("/a.mp4", Fault(before="head", end="stall", then=interrupt))
    call = begin(url)
    # A shell without job control starts what runs in its background with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), cancelled_by(note):
            wait(call, url)
    finally:
        signal.signal(signal.SIGINT, before)
    assert call.is_abandoned.is_set()
    server.wait_for_connections(0)
    assert get(url).data == PART


# --- shortages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_without_descriptors_it_is_a_shortage_and_not_the_file(server: FaultServer, host: str) -> None:
    get_one = RangeGet(HttpTarget(f"http://{host}:{server.port}/a.mp4"), 0, 10)

    def ask() -> str:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        held = []
        try:
            while True:
                held.append(os.dup(0))
        except OSError:
            pass
        try:
            get_one(threading.Event())
        except OSError as error:
            return f"{type(error).__name__} {find_shortage(error)} {error.__context__} {error.__cause__}"
        return "no error"

    assert Child(ask).report() == "OSError file descriptors of this process None None"


def test_without_memory_it_is_a_shortage_and_the_connection_is_closed(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    get_one = RangeGet(HttpTarget(server.url + "/a.mp4"), 0, 10)
    monkeypatch.setattr(get_one, "_read", fail)
    with pytest.raises(MemoryError):
        get_one(threading.Event())
    server.wait_for_connections(0)


# --- the border -----------------------------------------------------------------------------------

THEIRS = sorted(
    {
        value
        for value in vars(urllib3.exceptions).values()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == urllib3.exceptions.__name__
        if not issubclass(value, Warning)
    },
    key=lambda kind: kind.__name__,
)
SECRET = "Zq7Secret"


def make_error(kind: type[Exception]) -> Exception:
    """Make an error of the library as it is without its arguments."""
    error = kind.__new__(kind)
    Exception.__init__(error, f"what they said {SECRET}")
    return error


def test_all_exceptions_of_urllib3_are_enumerated() -> None:
    assert len(THEIRS) > 25


@pytest.mark.parametrize("theirs", THEIRS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("url", [f"http://host/a.mp4?sig={SECRET}"])
def test_every_exception_of_urllib3_becomes_ours(
    theirs: type[Exception], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise make_error(theirs)

    monkeypatch.setattr(HttpClient, "send", fail)
    with pytest.raises((DeadlineExceeded, UnreadableMedia)) as caught:
        get(url)
    error = caught.value
    assert str(error).startswith("http://host/a.mp4?...: ")
    cause = error.__cause__
    assert SECRET not in f"{error!r} {error} {cause!r} {cause}"
    assert (error.__context__, cause and cause.__cause__, cause and cause.__context__) == (None, None, None)


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1/a.mp4",
        "http://[zz]/a.mp4",
        "http://127.0.0.1:99999/a.mp4",
        "http://127.0.0.1:port/a.mp4",
        "http://127.0.0.1:-1/a.mp4",
        "http:///a.mp4",
        "http://a..b/a.mp4",
        "http://" + "a" * 70 + ".invalid/a.mp4",
        "http://\u2100.invalid/a.mp4",
        "http://\udcff.invalid/a.mp4",
        "http://b c.invalid/a.mp4",
        "http://b\0c.invalid/a.mp4",
        "http://%zz.invalid/a.mp4",
        "http://.invalid./a.mp4",
        "http://*/a.mp4",
    ],
)
def test_odd_hosts_are_errors_of_the_url(url: str) -> None:
    with pytest.raises(UnreadableMedia, match="check the URL"):
        get(url)


@pytest.mark.parametrize("headers", [{"X": f"{SECRET}\n"}, {f"X {SECRET}\n": "x"}, {"X": f"\u20ac{SECRET}"}])
def test_headers_that_cannot_be_sent_are_not_shown(server: FaultServer, headers: dict[str, str]) -> None:
    with pytest.raises(UnreadableMedia, match=r"a\.mp4: cannot be read \(\w+\): check the URL") as caught:
        get(server.url + "/a.mp4", headers=headers)
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("//b.mp4", "//b.mp4"),
        ("/a//b.mp4", "/a//b.mp4"),
        ("/a/../b.mp4", "/a/../b.mp4"),
        ("/./b.mp4", "/./b.mp4"),
        ("/a b+c.mp4", "/a%20b+c.mp4"),
        ("/a%20b%2Fc.mp4", "/a%20b%2Fc.mp4"),
        ("/\u00e4.mp4", "/%C3%A4.mp4"),
        ("/%FF.mp4", "/%FF.mp4"),
        ("/b.mp4?a=1&b=%2F#t", "/b.mp4?a=1&b=%2F"),
        ("", "/"),
        ("?a", "/?a"),
    ],
)
def test_keys_are_sent_as_they_are(server: FaultServer, path: str, sent: str) -> None:
    with pytest.raises(MissingMedia):
        get(server.url + path)
    assert [each.target for each in server.asked] == [sent]


def test_rights_of_a_url_are_sent_as_a_header(server: FaultServer) -> None:
    url = server.url.replace("://", "://me%40home:p%2Fw@") + "/a.mp4"
    get(url)
    assert server.asked[0].headers["Authorization"] == "Basic bWVAaG9tZTpwL3c="
    get(url, headers={"authorization": "Bearer x"})
    assert server.asked[1].headers.getlist("Authorization") == ["Bearer x"]


def test_a_forked_child_has_connections_of_its_own(server: FaultServer) -> None:
    url = server.url + "/a.mp4"
    get(url)
    assert Child(lambda: str(get(url).data == PART)).report() == "True"
    assert get(url).data == PART
    assert [each.connection for each in server.asked] == [1, 2, 1]

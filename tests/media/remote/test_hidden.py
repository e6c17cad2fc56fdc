"""S17: secrets of URLs, headers and redirects stand in no error, cause, log record or repr."""

from __future__ import annotations

import logging
import pickle
import threading
import traceback
from collections.abc import Iterator

import pytest

from framefeed._outcome import Err, Ok, catch_outcome
from framefeed._values import read_bytes
from framefeed.media.remote import open_ranges
from framefeed.media.remote._client import RangeGet
from framefeed.media.remote._reader import RangeReader
from framefeed.media.remote._targets import HttpTarget
from tests.media.remote.faults import Fault, FaultServer, Stored, redirect
from tests.media.remote.getting import DATA
from tests.media.remote.test_client import BROKEN, FINAL, RIGHT

SECRET = "Zq7Secret"
USER = f"u{SECRET}:p%2F{SECRET}@"
QUERY = f"?X-Amz-Signature=q{SECRET}&v={SECRET}"
TOKEN = {"Authorization": f"Bearer {SECRET}", "X-Token": SECRET}
BASIC = "dVpxN1NlY3JldDpwL1pxN1NlY3JldA=="
SIGNED = f"/b.mp4?sig=r{SECRET}"
ECHOED = f"GET /a.mp4{QUERY} HTTP/1.1 {SECRET}".encode()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The records of all loggers; checked at the end."""
    for name in ("", "urllib3", "urllib3.connectionpool", "urllib3.connection", "urllib3.response"):
        caplog.set_level(logging.DEBUG, logger=name)
    yield caplog
    records = caplog.get_records("call")
    assert records
    for record in records:
        check(record.getMessage(), record.args, record.exc_text)
        if record.exc_info:
            check(*traceback.format_exception(*record.exc_info))


def check(*texts: object) -> None:
    for text in map(str, texts):
        assert SECRET.lower() not in text.lower()
        assert BASIC not in text


def check_error(error: BaseException | None) -> None:
    """Check what an error, its causes and its contexts say."""
    while error is not None:
        check(error, repr(error), error.args, vars(error), *traceback.format_exception(error))
        assert error.__context__ is None or error.__context__ is error.__cause__
        error = error.__cause__


WRONG = {
    **{name: fault for name, (fault, _, _) in FINAL.items()},
    **BROKEN,
    "echo": Fault(head=ECHOED + b"\r\n\r\n", after=0, end="close"),
    "echo in a status": Fault(head=b"HTTP/1.1 " + ECHOED + b"\r\n\r\n", after=0, end="close"),
    "echo in a version": Fault(head=b"HTTP/" + ECHOED[4:] + b"\r\n\r\n", after=0, end="close"),
    "echo as a reason": Fault(head=b"HTTP/1.1 403 " + ECHOED + b"\r\nContent-Length: 0\r\n\r\n", after=0),
    "echo as a chunk": Fault(body=ECHOED + b"\r\n", headers={"Transfer-Encoding": "chunked", "Content-Length": None}),
    "echo in headers": Fault(headers={"X": f"{SECRET}\r\nno header {SECRET}"}),
    "both lengths": Fault(chunks=700, headers={"Content-Length": "5"}),
    "to a file": redirect(f"file:///{SECRET}"),
    "to no host": redirect(f"http://u:{SECRET}@a..b/x?{SECRET}"),
    "to no port": redirect(f"http://u:{SECRET}@h:port/x?{SECRET}"),
    "to no bracket": redirect(f"http://u:{SECRET}@[::1/x?{SECRET}"),
    "to a closed port": redirect(f"http://u:{SECRET}@127.0.0.1:1/x?{SECRET}"),
    "to no name": redirect(f"http://u:{SECRET}@framefeed.invalid/x?{SECRET}"),
    "to a user": redirect(f"//u:{SECRET}@{{host}}/b.mp4?{SECRET}"),
    "round": redirect(f"/a.mp4?{SECRET}"),
}


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("behind", ["", SIGNED], ids=["directly", "behind a redirect"])
@pytest.mark.parametrize("name", WRONG)
def test_S17_no_fault_shows_a_secret(server: FaultServer, name: str, behind: str) -> None:
    server.objects["/b.mp4"] = Stored(DATA)
    fault = WRONG[name]
    if behind:
        server.always["/a.mp4"] = redirect(behind)
    server.always["/b.mp4" if behind else "/a.mp4"] = fault
    target = HttpTarget(server.url.replace("://", f"://{USER}") + f"/a.mp4{QUERY}#f{SECRET}", TOKEN)
    reader = RangeReader(target)
    outcome = catch_outcome(lambda _: read_bytes(reader, 1000, 100), None)
    if isinstance(outcome, Err):
        check_error(outcome.error)
        check_error(pickle.loads(pickle.dumps(outcome.error)))
    check(outcome, reader, target, RangeGet(target, 0, 1), vars(reader)["version"])
    assert server.count() > 0
    assert "Authorization" in server.asked[0].headers


@pytest.mark.parametrize("fault", RIGHT.values(), ids=RIGHT)
def test_S17_no_right_answer_shows_a_secret(server: FaultServer, log: pytest.LogCaptureFixture, fault: Fault) -> None:
    server.objects["/b.mp4"] = Stored(DATA)
    server.plan("/b.mp4", fault)
    server.always["/a.mp4"] = redirect(SIGNED)
    reader = open_ranges(server.url.replace("://", f"://{USER}") + f"/a.mp4{QUERY}", {})
    outcome = catch_outcome(lambda _: read_bytes(reader, 1000, 2000), None)
    assert isinstance(outcome, Ok) or name_is_partial(fault)
    check(reader, outcome)
    assert [each.target for each in server.asked[:2]] == [f"/a.mp4{QUERY}", SIGNED]
    assert any("/a.mp4?..." in record.getMessage() for record in log.records)  # urllib3's log goes on, without queries
    assert all(record.levelno == logging.DEBUG for record in log.records)


def name_is_partial(fault: Fault) -> bool:
    """Whether the fault is made for another range than that of a window."""
    return fault.head is not None or "Content-Length" in fault.headers


def test_S17_logs_of_other_requests_are_left_as_they_are(server: FaultServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="urllib3.connectionpool")
    RangeGet(HttpTarget(server.url + "/a.mp4?y=z"), 0, 1)(threading.Event())  # in this thread
    assert "/a.mp4?... " in caplog.records[-1].getMessage()
    logging.getLogger("urllib3.connectionpool").warning("a user's %s", "/x?y=z")
    assert caplog.records[-1].getMessage() == "a user's /x?y=z"

"""Answers to requests for ranges: each gives a body within the range, or an error of a type that says what is wrong."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

pytest.importorskip("urllib3", reason="our own reader needs it")

from hypothesis import given
from hypothesis import strategies as st
from urllib3 import HTTPHeaderDict

from framefeed._outcome import Err, catch_outcome
from framefeed.errors import MediaError, MissingMedia, StaleSource, UnreadableMedia
from framefeed.media.remote._answers import (
    TRANSIENT,
    Body,
    ObjectVersion,
    RangeRequest,
    check_answer,
    describe_refusal,
    read_length,
    read_pause,
    shorten,
)

NAME = "https://host/a.mp4?..."
ETAG, OTHER = '"abc"', '"xyz"'
DATE, OTHER_DATE = "Wed, 21 Oct 2026 07:28:00 GMT", "Thu, 22 Oct 2026 07:28:00 GMT"
FIRST = RangeRequest(NAME, 0, 100)
LATER = RangeRequest(NAME, 100, 200)
PINNED = RangeRequest(NAME, 100, 200, ObjectVersion(1000, ETAG, DATE))
PART = {"Content-Range": "bytes 100-199/1000", "Content-Length": "100", "ETag": ETAG, "Last-Modified": DATE}
WHOLE = {"Content-Length": "1000", "ETag": ETAG, "Last-Modified": DATE}
VERSION = ObjectVersion(1000, ETAG, DATE)


def ask(request: RangeRequest, status: int, **headers: str | None) -> Body:
    """Check an answer; "_" stands for "-" in names."""
    given = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    return check_answer(request, status, HTTPHeaderDict(given))


def change(headers: dict[str, str], **changed: str | None) -> dict[str, str | None]:
    return {**{name.replace("-", "_"): value for name, value in headers.items()}, **changed}


@pytest.mark.parametrize(
    ("request_", "status", "headers", "body"),
    [
        (LATER, 206, change(PART), Body(VERSION, 100, True)),
        (PINNED, 206, change(PART), Body(VERSION, 100, True)),
        (LATER, 206, change(PART, Content_Length=None), Body(VERSION, 100, True)),
        (LATER, 206, change(PART, Content_Encoding="identity"), Body(VERSION, 100, True)),
        (LATER, 206, change(PART, Content_Encoding=" Identity "), Body(VERSION, 100, True)),
        (LATER, 206, change(PART, Content_Range=" bytes 100-199/1000 "), Body(VERSION, 100, True)),
        # The object ends in the range.
        (
            LATER,
            206,
            change(PART, Content_Range="bytes 100-149/150", Content_Length="50"),
            Body(ObjectVersion(150, ETAG, DATE), 50, True),
        ),
        (
            LATER,
            206,
            change(PART, Content_Range="bytes 100-100/101", Content_Length="1"),
            Body(ObjectVersion(101, ETAG, DATE), 1, True),
        ),
        # The whole, from its beginning: no more of it is read than was asked for.
        (FIRST, 200, change(WHOLE), Body(VERSION, 100, False)),
        (FIRST, 200, change(WHOLE, Content_Length="100"), Body(ObjectVersion(100, ETAG, DATE), 100, True)),
        (FIRST, 200, change(WHOLE, Content_Length="60"), Body(ObjectVersion(60, ETAG, DATE), 60, True)),
        (FIRST, 200, change(WHOLE, Content_Length="0"), Body(ObjectVersion(0, ETAG, DATE), 0, True)),
        # Nothing there.
        (FIRST, 416, {"Content_Range": "bytes */0"}, Body(ObjectVersion(0), 0, False)),
        (FIRST, 416, {}, Body(ObjectVersion(0), 0, False)),
        (LATER, 416, {"Content_Range": "bytes */100"}, Body(ObjectVersion(100), 0, False)),
        (LATER, 416, {"Content_Range": "bytes */7"}, Body(ObjectVersion(7), 0, False)),
        (LATER, 206, change(PART, ETag='W/"abc"'), Body(ObjectVersion(1000, 'W/"abc"', DATE), 100, True)),
        # What is no entity tag is none.
        (LATER, 206, change(PART, ETag='w/"abc"'), Body(ObjectVersion(1000, None, DATE), 100, True)),
        (LATER, 206, change(PART, ETag="abc"), Body(ObjectVersion(1000, None, DATE), 100, True)),
        (LATER, 206, change(PART, ETag='"a", "b"'), Body(ObjectVersion(1000, None, DATE), 100, True)),
        (LATER, 206, change(PART, ETag='"'), Body(ObjectVersion(1000, None, DATE), 100, True)),
        (LATER, 206, change(PART, ETag=None), Body(ObjectVersion(1000, None, DATE), 100, True)),
        (LATER, 206, change(PART, ETag='""'), Body(ObjectVersion(1000, '""', DATE), 100, True)),
    ],
)  # fmt: skip
def test_right_answers(request_: RangeRequest, status: int, headers: dict[str, Any], body: Body) -> None:
    assert ask(request_, status, **headers) == body


@pytest.mark.parametrize(
    ("request_", "status", "headers", "kind", "says"),
    [
        # What `FINAL` in test_client.py has is not here.
        (PINNED, 412, {}, StaleSource, "replaced"),
        (PINNED, 416, {"Content_Range": "bytes */50"}, StaleSource, "replaced"),
        (PINNED, 416, {}, StaleSource, "replaced"),
        (LATER, 416, {}, UnreadableMedia, "no such range"),
        (FIRST, 416, {"Content_Range": "bytes */5"}, UnreadableMedia, "no such range"),
        (LATER, 416, {"Content_Range": "bytes */1000"}, UnreadableMedia, "no such range"),
        (LATER, 416, {"Content_Range": "bytes */*"}, UnreadableMedia, "no such range"),
        (LATER, 416, {"Content_Range": "bytes 0-5/7"}, UnreadableMedia, "no such range"),
        (LATER, 400, {}, UnreadableMedia, "400 Bad Request"),
        (LATER, 501, {}, UnreadableMedia, "501 Not Implemented"),
        (LATER, 799, {}, UnreadableMedia, "answered 799: check"),
        # Another encoding: its offsets are others.
        (FIRST, 200, change(WHOLE, Content_Encoding="br"), UnreadableMedia, "in the encoding 'br'"),
        (LATER, 206, change(PART, Content_Encoding="identity, gzip"), UnreadableMedia, "in the encoding"),
        # Other bytes.
        (LATER, 206, change(PART, Content_Range="bytes 100-199/*"), UnreadableMedia, "the Content-Range"),
        (LATER, 206, change(PART, Content_Range="bytes */1000"), UnreadableMedia, "the Content-Range"),
        (LATER, 206, change(PART, Content_Range="bytes=100-199/1000"), UnreadableMedia, "the Content-Range"),
        (LATER, 206, change(PART, Content_Range="frames 100-199/1000"), UnreadableMedia, "the Content-Range"),
        (LATER, 206, change(PART, Content_Range="bytes 100-199/1000, bytes 0-1/1000"), UnreadableMedia, "the Content"),
        (LATER, 206, change(PART, Content_Range="bytes 100-199/" + "9" * 19), UnreadableMedia, "the Content-Range"),
        (LATER, 206, change(PART, Content_Range="bytes 100-1\u0669\u0669/1000"), UnreadableMedia, "the Content-Range"),
        (LATER, 206, change(PART, Content_Range="bytes 99-198/1000"), UnreadableMedia, "bytes 99 to 198 of 1000"),
        (LATER, 206, change(PART, Content_Range="bytes 101-199/1000"), UnreadableMedia, "bytes 101 to 199"),
        (LATER, 206, change(PART, Content_Range="bytes 100-198/1000"), UnreadableMedia, "bytes 100 to 198"),
        (LATER, 206, change(PART, Content_Range="bytes 100-200/1000"), UnreadableMedia, "bytes 100 to 200"),
        (LATER, 206, change(PART, Content_Range="bytes 199-100/1000"), UnreadableMedia, "bytes 199 to 100"),
        (LATER, 206, change(PART, Content_Range="bytes 100-199/150"), UnreadableMedia, "bytes 100 to 199 of 150"),
        (LATER, 206, change(PART, Content_Range="bytes 100-199/0"), UnreadableMedia, "bytes 100 to 199 of 0"),
        (LATER, 206, change(PART, Content_Length="99"), UnreadableMedia, "with 99 bytes for 100"),
        (LATER, 206, change(PART, Content_Length="101"), UnreadableMedia, "with 101 bytes for 100"),
        # The whole, where a range is needed.
        (LATER, 200, change(WHOLE), UnreadableMedia, r"in pieces .*: download it first"),
        (LATER, 200, change(WHOLE, Content_Length="50"), UnreadableMedia, "in pieces"),
        (FIRST, 200, change(WHOLE, Content_Length=None), UnreadableMedia, "without its size"),
        (FIRST, 200, change(WHOLE, Content_Length="-1"), UnreadableMedia, "without its size"),
        (FIRST, 200, change(WHOLE, Content_Length="9" * 5000), UnreadableMedia, "without its size"),
        # Another version.
        (PINNED, 206, change(PART, ETag=OTHER), StaleSource, "replaced"),
        (PINNED, 206, change(PART, Content_Range="bytes 100-199/1001"), StaleSource, "replaced"),
        (PINNED, 206, change(PART, ETag=None, Last_Modified=OTHER_DATE), StaleSource, "replaced"),
        (PINNED, 206, change(PART, ETag='W/"abc"', Last_Modified=OTHER_DATE), StaleSource, "replaced"),
        (PINNED, 200, change(WHOLE, ETag=OTHER), StaleSource, "replaced"),
        (PINNED, 200, change(WHOLE, Content_Length="10"), StaleSource, "replaced"),
    ],
)  # fmt: skip
def test_wrong_answers(
    request_: RangeRequest, status: int, headers: dict[str, Any], kind: type[MediaError], says: str
) -> None:
    with pytest.raises(MediaError, match=says) as caught:
        ask(request_, status, **headers)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(f"{NAME}: ")
    assert (caught.value.source, caught.value.stage) == (NAME, "read")


def test_an_answer_that_is_not_the_range_names_the_range() -> None:
    with pytest.raises(UnreadableMedia, match="for bytes 100 to 199 the server answered without Content-Range"):
        ask(LATER, 206)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (ObjectVersion(5, ETAG, DATE), ObjectVersion(5, ETAG, OTHER_DATE), True),
        (ObjectVersion(5, ETAG, DATE), ObjectVersion(5, OTHER, DATE), False),
        (ObjectVersion(5, ETAG, DATE), ObjectVersion(6, ETAG, DATE), False),
        (ObjectVersion(5, None, DATE), ObjectVersion(5, None, DATE), True),
        (ObjectVersion(5, None, DATE), ObjectVersion(5, None, OTHER_DATE), False),
        (ObjectVersion(5, ETAG, DATE), ObjectVersion(5, None, DATE), True),
        (ObjectVersion(5, ETAG, DATE), ObjectVersion(5, None, OTHER_DATE), False),
        (ObjectVersion(5), ObjectVersion(5), True),
        (ObjectVersion(5), ObjectVersion(6), False),
        (ObjectVersion(5, None, DATE), ObjectVersion(5), False),
        # Of weak tags, other ones are another version; the same ones are not known to be the same bytes.
        (ObjectVersion(5, f"W/{ETAG}", DATE), ObjectVersion(5, f"W/{OTHER}", DATE), False),
        (ObjectVersion(5, f"W/{ETAG}"), ObjectVersion(5, f"W/{OTHER}"), False),
        (ObjectVersion(5, f"W/{ETAG}", DATE), ObjectVersion(5, OTHER, DATE), False),
        (ObjectVersion(5, f"W/{ETAG}", DATE), ObjectVersion(5, f"W/{ETAG}", DATE), True),
        (ObjectVersion(5, f"W/{ETAG}", DATE), ObjectVersion(5, f"W/{ETAG}", OTHER_DATE), False),
        (ObjectVersion(5, f"W/{ETAG}", DATE), ObjectVersion(5, ETAG, OTHER_DATE), False),
        (ObjectVersion(5, f"W/{ETAG}"), ObjectVersion(5, ETAG, DATE), True),
    ],
)
def test_D09_versions_are_compared_by_what_is_known(one: ObjectVersion, other: ObjectVersion, same: bool) -> None:
    assert one.is_same(other) is other.is_same(one) is same


def test_requests_ask_for_what_they_need() -> None:
    plain = {"Accept-Encoding": "identity", "Range": "bytes=100-199"}
    conditions = {
        ObjectVersion(5, ETAG, DATE): {"If-Match": ETAG},
        ObjectVersion(5, None, DATE): {"If-Unmodified-Since": DATE},
        ObjectVersion(5, f"W/{ETAG}", DATE): {"If-Unmodified-Since": DATE},
        ObjectVersion(5, f"W/{ETAG}"): {},
        ObjectVersion(5): {},
    }
    assert LATER.headers == plain
    for version, condition in conditions.items():
        assert RangeRequest(NAME, 100, 200, version).headers == {**plain, **condition}


NUMBERS = st.one_of(st.integers(-2, 120), st.sampled_from([10**9, 10**18, 10**19]))
RANGES = st.one_of(
    st.builds("bytes {}-{}/{}".format, NUMBERS, NUMBERS, st.one_of(NUMBERS, st.just("*"))),
    st.builds("bytes */{}".format, NUMBERS),
    st.text(max_size=30),
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "Content-Range": RANGES,
        "Content-Length": st.one_of(NUMBERS.map(str), st.text(max_size=5)),
        "Content-Encoding": st.sampled_from(["", "identity", "gzip", "\x00"]),
        "ETag": st.one_of(st.sampled_from([ETAG, OTHER, 'W/"abc"']), st.text(max_size=5)),
        "Last-Modified": st.sampled_from([DATE, OTHER_DATE, ""]),
    },
)
VERSIONS = st.none() | st.builds(
    ObjectVersion, st.integers(0, 120), st.none() | st.sampled_from([ETAG, f"W/{ETAG}"]), st.none() | st.just(DATE)
)
REQUESTS = st.builds(
    lambda start, count, version: RangeRequest(NAME, start, start + count, version),
    st.integers(0, 60),
    st.integers(1, 60),
    VERSIONS,
)
STATUSES = st.one_of(st.sampled_from([200, 206, 206, 206, 416]), st.integers(100, 999))


@given(REQUESTS, STATUSES, HEADERS)
def test_any_answer_is_a_part_of_the_range_or_a_typed_error(
    request_: RangeRequest, status: int, headers: dict[str, str]
) -> None:
    outcome = catch_outcome(lambda given: check_answer(request_, status, given), HTTPHeaderDict(headers))
    if isinstance(outcome, Err):
        error: Any = outcome.error
        assert type(error) in (MissingMedia, StaleSource, UnreadableMedia)
        assert error.source == NAME
        assert len(str(error)) < 500
        return
    body = outcome.value
    assert body.size == max(0, min(request_.stop, body.version.size) - request_.start)
    assert request_.version is None or request_.version.is_same(body.version)
    assert body.version.condition.keys() <= {"If-Match", "If-Unmodified-Since"}


@given(st.integers(0, 10**9), st.integers(1, 10**9), st.integers(1, 10**9))
def test_every_right_part_is_accepted(start: int, count: int, rest: int) -> None:
    size = start + rest
    stop = min(start + count, size)
    headers = {"Content-Range": f"bytes {start}-{stop - 1}/{size}", "Content-Length": str(stop - start)}
    body = check_answer(RangeRequest(NAME, start, start + count), 206, HTTPHeaderDict(headers))
    assert body == Body(ObjectVersion(size), stop - start, True)


NOW = datetime(2026, 10, 21, 7, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("9" * 18, float("9" * 18)),
        ("9" * 19, None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("5, 5", None),
        (format_datetime(NOW.replace(minute=29), usegmt=True), 60.0),
        (format_datetime(NOW.replace(minute=20), usegmt=True), 0.0),
        ("Wed, 21 Oct 2026 09:28:30 +0200", 30.0),
        ("Wed, 99 Oct 2026 07:28:00 GMT", None),
        ("Wed, 21 Oct 999999 07:28:00 GMT", None),
    ],
)
def test_retry_after_is_read(value: str | None, seconds: float | None) -> None:
    assert read_pause(value, NOW.timestamp()) == seconds


@given(st.text(max_size=40) | st.from_regex(r"[A-Z][a-z]{2}, [0-9]{1,4} [A-Z][a-z]{2} [0-9]{1,6} [0-9:+-]{0,12}"))
def test_any_retry_after_is_a_pause_or_none(value: str) -> None:
    pause = read_pause(value, NOW.timestamp())
    assert pause is None or pause >= 0


@pytest.mark.parametrize("given", ["", "x", "-1", "1.0", "5, 5", "9" * 19, "\u0661", "0x1", "1_0"])
def test_what_is_no_length_is_none(given: str) -> None:
    assert read_length({"Content-Length": given}) is None
    assert read_length({}) is None
    assert read_length({"Content-Length": " 12 "}) == 12


def test_refusals_say_what_to_do() -> None:
    for status in range(100, 600):
        said = describe_refusal(NAME, status)
        assert said.startswith(f"{NAME}: the server answered {status}")
        assert ("try again later" in said) is (status in TRANSIENT)


@given(st.text(max_size=200))
def test_quoted_text_is_short_and_can_be_printed(text: str) -> None:
    shown = shorten(text)
    assert shown.isprintable()
    assert len(shown) <= 140
    assert re.fullmatch(r"(['\"]).*\1", shown)

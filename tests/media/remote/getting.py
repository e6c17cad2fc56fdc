"""Get ranges in a test: the bytes, or the error that a caller gets."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from framefeed._outcome import Err
from framefeed._shown import show_name
from framefeed._stopping import PendingCall
from framefeed.media.remote import _client
from framefeed.media.remote._answers import FetchedRange, ObjectVersion
from framefeed.media.remote._client import RangeGet
from framefeed.media.remote._prices import GapPrices
from framefeed.media.remote._targets import HttpTarget

DATA = random.Random(29).randbytes(300_000)
WAIT_SECONDS = 30.0


def begin(
    url: str, start: int = 1000, stop: int = 3000, headers: Mapping[str, str] | None = None
) -> PendingCall[FetchedRange]:
    """Begin to get a range in a thread of its own."""
    return start_get(RangeGet(HttpTarget(url, headers or {}), start, stop))


def start_get(get: RangeGet) -> PendingCall[FetchedRange]:
    """Get a range in a thread of its own."""
    return PendingCall(get)


def wait(pending: PendingCall[FetchedRange], url: str) -> FetchedRange:
    """Wait for the range; raise its error."""
    outcome = pending.wait(WAIT_SECONDS, show_name(url), "read")
    if isinstance(outcome, Err):
        raise outcome.error
    return outcome.value


def get(
    url: str,
    start: int = 1000,
    stop: int = 3000,
    headers: Mapping[str, str] | None = None,
    version: ObjectVersion | None = None,
) -> FetchedRange:
    """Get a range."""
    return wait(start_get(RangeGet(HttpTarget(url, headers or {}), start, stop, version)), url)


def set_gap(patch: pytest.MonkeyPatch, gap: int) -> None:
    """Merge ranges that are at most so many bytes apart, whatever a request costs."""
    patch.setattr(GapPrices, "find_gap", lambda *_: gap)


def make_impatient(patch: pytest.MonkeyPatch) -> None:
    """Make no pauses between tries."""
    patch.setattr(_client, "_FIRST_PAUSE_SECONDS", 0.0)

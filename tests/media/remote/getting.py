"""Get ranges in a test: the bytes, or the error that a caller gets."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from framefeed._outcome import Err
from framefeed._shown import show_name
from framefeed._stopping import PendingCall, fetch_limit
from framefeed.media import _identity
from framefeed.media.remote._answers import FetchedRange, ObjectVersion
from framefeed.media.remote._client import ObjectGet, RangeGet
from framefeed.media.remote._prices import GapPrices
from framefeed.media.remote._targets import HttpTarget
from framefeed.parallel import release_idle
from tests.patience import PATIENCE_SECONDS

DATA = random.Random(29).randbytes(300_000)


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
    outcome = pending.wait(PATIENCE_SECONDS, show_name(url), "read")
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


def forget() -> None:
    """Forget what this process knows of objects, as a new one does."""
    release_idle()
    _identity.ACCEPTED.clear()


def give_up_soon(patch: pytest.MonkeyPatch, text: str) -> None:
    """Wait a tenth of a second for objects whose URLs have a text, which are silent, and for others as long as ever."""
    ask = ObjectGet.__call__

    def ask_soon(get: ObjectGet[Any], *arguments: Any) -> Any:
        with fetch_limit(0.1 if text in get.target.url else None):
            return ask(get, *arguments)

    patch.setattr(ObjectGet, "__call__", ask_soon)

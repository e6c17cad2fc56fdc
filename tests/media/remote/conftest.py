"""Shared by the tests of objects that are read by ranges."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("urllib3", reason="our own reader needs it")

from framefeed._per_process import PerProcess
from framefeed.media.remote import _client
from framefeed.media.remote._prices import GAP_PRICES
from tests.media.remote.faults import FaultServer, faulty
from tests.media.remote.getting import DATA


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections and prices of this test alone."""
    GAP_PRICES.begin()
    monkeypatch.setattr(_client, "_CLIENT", PerProcess(_client.HttpClient))


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server with one object of 300,000 bytes, ``/a.mp4``."""
    with faulty({"/a.mp4": DATA}) as server:
        yield server

"""L27: a scan gives up objects whose storage stalls, goes on with the others, and tries them again the next time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

import framefeed as ff
from tests.corpus import corpus_file
from tests.patience import PATIENCE_SECONDS
from tests.remote import CountedFiles, served, stored
from tests.scanning.deadlines import make_deadline


class Stalled(set[str]):
    """Paths at which a server stalls; the deadline passes when one of them is asked for."""

    def __init__(self, path: str, let_pass: Callable[[], None]) -> None:
        super().__init__([path])
        self._let_pass = let_pass

    def __contains__(self, path: object) -> bool:
        if is_met := super().__contains__(path):
            self._let_pass()
        return is_met


class Gate(threading.Event):
    """Holds the calls of a store, and lets the deadline pass as soon as there is one."""

    def __init__(self, let_pass: Callable[[], None]) -> None:
        super().__init__()
        self._let_pass = let_pass

    def wait(self, timeout: float | None = None) -> bool:
        self._let_pass()
        return super().wait(timeout)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("stall", ["/slow.mp4", "HEAD /slow.mp4", "trickle /slow.mp4"])
def test_L27_a_stalled_object_is_a_failed_row(
    stall: str, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aiohttp", reason="fsspec reads HTTP by aiohttp")
    file, out = str(corpus_file("closed_gop.ts")), tmp_path / "cat.parquet"
    stalled = Stalled(stall, make_deadline(monkeypatch, "/slow.mp4"))
    with served({"/slow.mp4": corpus_file("base.mp4").read_bytes()}, stalled=stalled) as server:
        url = f"{server}/slow.mp4"
        catalog = ff.scan([url, file], out=out, workers=workers, deadline_seconds=PATIENCE_SECONDS)
        assert catalog.table["error_type"].to_pylist() == ["DeadlineExceeded", None]
        ((name, kind, message),) = catalog.failures
        assert (name, kind) == (url, "DeadlineExceeded")
        assert "did not answer within deadline_seconds" in message
        stalled.clear()
        assert not ff.scan([url, file], out=out, workers=workers).failures


@pytest.mark.parametrize("depth", ["frames", "header"])
def test_L27_no_object_takes_longer_than_the_deadline_however_its_facts_are_asked(
    depth: Literal["frames", "header"], monkeypatch: pytest.MonkeyPatch
) -> None:
    with stored(a=corpus_file("base.mp4").read_bytes(), b=b"no media") as (url, other):
        with monkeypatch.context() as patch:
            gate = Gate(make_deadline(patch, url, other))
            patch.setattr(CountedFiles, "gate", gate)
            catalog = ff.scan([url, other], depth=depth, workers=2, deadline_seconds=PATIENCE_SECONDS)
            assert catalog.table["error_type"].to_pylist() == ["DeadlineExceeded"] * 2
            gate.set()
        assert ff.scan([url, other], workers=2).table["error_type"].to_pylist() == [None, "UnreadableMedia"]

"""L27: a scan gives up objects whose storage stalls, goes on with the others, and tries them again the next time."""

from __future__ import annotations

from pathlib import Path

import pytest

import framefeed as ff
from tests.corpus import corpus_file
from tests.remote import CountedFiles, served, stored

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("stall", ["/slow.mp4", "HEAD /slow.mp4", "trickle /slow.mp4"])
def test_L27_a_stalled_object_is_a_failed_row(stall: str, workers: int, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="fsspec reads HTTP by aiohttp")
    data, stalled, out = corpus_file("base.mp4").read_bytes(), {stall}, tmp_path / "cat.parquet"
    file = str(corpus_file("closed_gop.ts"))
    with served({"/slow.mp4": data}, stalled=stalled) as server:
        url = f"{server}/slow.mp4"
        catalog = ff.scan([url, file], out=out, workers=workers, deadline_seconds=1)
        assert catalog.table["error_type"].to_pylist() == ["DeadlineExceeded", None]
        ((name, kind, message),) = catalog.failures
        assert (name, kind) == (url, "DeadlineExceeded")
        assert "did not answer within deadline_seconds" in message
        stalled.clear()
        assert not ff.scan([url, file], out=out, workers=workers).failures


@pytest.mark.parametrize("depth", ["frames", "header"])
def test_L27_no_object_takes_longer_than_the_deadline_however_its_facts_are_asked(depth: str) -> None:
    with stored(a=corpus_file("base.mp4").read_bytes(), b=b"no media") as (url, other):
        CountedFiles.gate.clear()
        catalog = ff.scan([url, other], depth=depth, workers=2, deadline_seconds=1)  # type: ignore[arg-type]
        assert catalog.table["error_type"].to_pylist() == ["DeadlineExceeded"] * 2
        CountedFiles.gate.set()
        assert ff.scan([url, other], workers=2).table["error_type"].to_pylist() == [None, "UnreadableMedia"]

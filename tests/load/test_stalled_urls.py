"""L27: a loader gives up clips whose storage stalls, and goes on with the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import framefeed as ff
from framefeed._stopping import SILENCE_SECONDS
from framefeed.load._ahead import ReadAhead
from tests.corpus import corpus_file
from tests.load.stalling import STALLED, HurryingDecoder, hurrying, waited
from tests.patience import PATIENCE_SECONDS
from tests.remote import served

OPTIONS: dict[str, Any] = {"batch_size": 3, "deadline_seconds": PATIENCE_SECONDS, "backend": HurryingDecoder()}


@pytest.fixture
def plan() -> Iterator[ff.EpochPlan]:
    """Of three videos, whose second one has stalled since it was scanned."""
    pytest.importorskip("aiohttp", reason="fsspec reads HTTP by aiohttp")
    # Two names with contents of their own: what is open of one does not serve the other.
    objects = {f"/{name}": corpus_file(name).read_bytes() for name in ("open_gop.mkv", STALLED)}
    stalled: set[str] = set()
    with served(objects, stalled=stalled) as server:
        catalog = ff.scan([f"{server}/open_gop.mkv", f"{server}/{STALLED}", corpus_file("closed_gop.ts")], workers=0)
        assert not catalog.failures
        stalled.update([f"/{STALLED}", f"HEAD /{STALLED}"])
        yield ff.plan_clips(catalog, ff.Uniform(2), seed=1, shuffle=False)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_L27_a_stalled_object_is_skipped(plan: ff.EpochPlan, workers: int) -> None:
    with ff.ClipLoader(plan, **{**OPTIONS, "batch_size": 1}, workers=workers, on_error="skip") as loader:
        assert [batch.ok.tolist() for batch in loader] == [[True], [False], [True]]
        (entry,) = loader.ledger
    assert entry.position == 1
    assert entry.reason.startswith("DeadlineExceeded: ")
    assert "did not answer within deadline_seconds" in entry.reason, "the limit of fetches, and not that of silence"
    assert entry.source == plan.catalog.source(1)


def test_L27_a_stalled_object_is_replaced(plan: ff.EpochPlan) -> None:
    with ff.ClipLoader(plan, **OPTIONS, workers=1, on_error="substitute") as loader:
        assert [batch.ok.tolist() for batch in loader] == [[True] * 3]
        assert [(entry.position, entry.action) for entry in loader.ledger] == [(1, "substituted")]


def test_L27_a_stalled_object_is_raised_by_default(plan: ff.EpochPlan) -> None:
    with (
        ff.ClipLoader(plan, **OPTIONS, workers=1) as loader,
        pytest.raises(ff.DeadlineExceeded, match=r"base\.mp4: the storage did not answer within deadline_s") as caught,
    ):
        list(loader)
    assert caught.value.position == 1


@pytest.mark.slow
def test_L27_worker_processes_survive_a_stalled_object(
    plan: ff.EpochPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = ReadAhead.send

    def send_hurrying(ahead: ReadAhead, task: Any) -> Any:
        with hurrying(task.batch.get_source(task.slots[0])):
            return send(ahead, task)

    waited.clear()
    monkeypatch.setattr(ReadAhead, "send", send_hurrying)
    plan.catalog.to_parquet(tmp_path / "cat.parquet")
    options: dict[str, Any] = {**OPTIONS, "batch_size": 1, "workers": 1, "kind": "processes", "on_error": "skip"}
    with ff.ClipLoader(plan, **options) as loader:
        assert [batch.ok.tolist() for batch in loader] == [[True], [False], [True]]
        (entry,) = loader.ledger
    assert entry.reason.startswith("DeadlineExceeded: ")
    assert "did not answer within deadline_seconds" in entry.reason
    assert 0 < max(waited) < SILENCE_SECONDS, "the process that sends the bytes has the limit too"

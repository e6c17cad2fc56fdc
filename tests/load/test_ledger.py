"""The ledger lists failed clips with position and reason; max_failed ends the iteration."""

from __future__ import annotations

import copy
import errno
import json
import pickle
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from framefeed.errors import CorruptMedia, LoadError, StaleSource, UsageError
from framefeed.load import _ledger
from framefeed.load._ledger import Ledger, LedgerEntry
from framefeed.load._loader import ClipLoader
from framefeed.plan import AtIndices
from tests.decode.forks import Child
from tests.fakes import DamagedSources, FlatDecoder
from tests.makers import catalog, plan_of

PLAN = {"clips_per_video": 1, "shuffle": False}


def fail_rows(*rows: int) -> FlatDecoder:
    """A decoder that reads all files but those of some rows."""
    return FlatDecoder(DamagedSources(*(catalog().source(row) for row in rows)))


@pytest.mark.parametrize("workers", [0, 2])
def test_the_ledger_lists_what_was_skipped(workers: int) -> None:
    plan = plan_of(AtIndices([0, 2]), **PLAN)
    with ClipLoader(plan, batch_size=4, workers=workers, backend=fail_rows(1, 4), on_error="skip") as loader:
        assert (len(loader.ledger), list(loader.ledger)) == (0, [])
        for _ in range(2):
            failed = [batch.positions[~batch.ok].tolist() for batch in loader]
            assert failed == [[1], [4]]
        ledger = loader.ledger
    assert [(entry.position, entry.epoch) for entry in ledger] == [(1, 0), (4, 0), (1, 1), (4, 1)]
    first = ledger[0]
    assert (first.source, first.frames, first.action) == (catalog().source(1), (2,), "skipped")
    assert first.reason.startswith("CorruptMedia: ")
    assert "frame 2 did not come" in first.reason
    assert [entry.position for entry in ledger[1:3]] == [4, 1]
    assert (ledger.num_failed, repr(ledger)) == (4, "Ledger(4 failed clips)")
    assert [row.source for row in catalog().without(ledger)] == [catalog().source(row) for row in (0, 2, 3, 5)]


@pytest.mark.parametrize(("max_failed", "ends"), [(0, 1), (1, 4), (2, None), (0.0, 1), (0.2, 4), (0.4, None)])
def test_max_failed_bounds_what_an_epoch_loses(max_failed: float, ends: int | None) -> None:
    plan = plan_of(AtIndices([0, 2]), **PLAN)
    options: dict[str, Any] = {"backend": fail_rows(1, 4), "on_error": "skip", "max_failed": max_failed}
    with ClipLoader(plan, batch_size=1, workers=0, **options) as loader:
        if ends is None:
            # The second epoch loses the same clips, not twice as many.
            assert len([*loader, *loader]) == 12
            return
        batches = iter(loader)
        assert [next(batches).positions.tolist() for _ in range(ends)] == [[position] for position in range(ends)]
        with pytest.raises(LoadError, match=r"of 6 clips of epoch 0 .* max_failed=.*without\(ledger\)") as caught:
            next(batches)
        assert (caught.value.position, caught.value.source) == (ends, catalog().source(ends))
        with pytest.raises(UsageError, match="more clips failed than max_failed allows"):
            next(batches)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_failed": 3}, "max_failed needs on_error='skip'"),
        ({"max_failed": -1, "on_error": "skip"}, "a count"),
        ({"max_failed": 1.5, "on_error": "skip"}, "a count"),
        ({"max_failed": True, "on_error": "skip"}, "a count"),
        ({"max_failed": "1%", "on_error": "skip"}, "a count"),
        ({"on_error": "ignore"}, "on_error: expected"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ClipLoader(plan_of(), batch_size=2, **options)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("num_workers", "use workers="),
        ("prefetch_factor", "prefetch="),
        ("shuffle", "in the plan"),
        ("sampler", "world_size="),
        ("collate_fn", "use transform="),
        ("pin_memory", r"torch\.from_numpy\(batch\.data\)\.pin_memory\(\)"),
    ],
)
def test_arguments_of_torch_say_what_to_use_instead(name: str, advice: str) -> None:
    with pytest.raises(UsageError, match=f"^ClipLoader: there is no argument {name}=: .*{advice}") as raised:
        ClipLoader(plan_of(), batch_size=2, **{name: 1})
    assert isinstance(raised.value, TypeError)
    with pytest.raises(TypeError, match="unexpected keyword argument 'num_threads'"):
        ClipLoader(plan_of(), batch_size=2, num_threads=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("make", [Ledger, Ledger.shared])
def test_it_is_bounded_and_still_counts(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ledger, "MAX_ENTRIES", 3)
    ledger = make()
    for position in range(5):
        ledger.record(LedgerEntry.of(CorruptMedia("x" * 9000, frames=[7] * 9000), "a\udcff.mp4", position, 2))
    assert [entry.position for entry in ledger] == [0, 1, 2]
    assert ledger[0].source == "a\udcff.mp4"
    assert (len(ledger[0].reason), len(ledger[0].frames)) == (500, 256)
    assert (ledger.num_failed, ledger.num_positions(2), ledger.num_positions(1)) == (5, 5, 0)
    assert repr(ledger) == "Ledger(5 failed clips, 3 of them listed)"
    assert len(copy.deepcopy(ledger)) == 0


def test_printing_lists_the_files_with_the_reason_and_what_was_done() -> None:
    with ClipLoader(
        plan_of(AtIndices([0, 2]), **PLAN), batch_size=4, backend=fail_rows(1, 4), on_error="skip"
    ) as loader:
        assert str(loader.ledger) == "no clip failed"
        for _ in range(2):
            list(loader)
        lines = str(loader.ledger).splitlines()
    assert lines[0] == "4 failed clips of 2 files"
    assert lines[1:] == [
        f"  {catalog().source(row)}: 2 clips skipped: CorruptMedia: frame 2 did not come" for row in (1, 4)
    ]


def test_each_clip_of_a_file_that_fails_has_its_own_position() -> None:
    plan = plan_of(AtIndices([0, 2]), **PLAN | {"clips_per_video": 3})
    with ClipLoader(plan, batch_size=6, workers=0, backend=fail_rows(1), on_error="skip") as loader:
        errors = [str(error) for batch in loader for error in batch.errors if error is not None]
        assert [entry.position for entry in loader.ledger] == [3, 4, 5]
        assert [entry.reason.removeprefix("CorruptMedia: ") for entry in loader.ledger] == errors
    name = catalog().source(1)
    assert errors == [f"{name}: frame 2 did not come (clip at position {position})" for position in (3, 4, 5)]


def test_printing_is_bounded_and_leaves_nothing_uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ledger, "MAX_ENTRIES", 33)
    ledger = Ledger()
    for number in range(40):
        error = CorruptMedia("torn\nand " + "long " * 90) if number % 32 else StaleSource("changed\x1b[2J")
        ledger.record(LedgerEntry.of(error, f"{number % 32}\udcff.mp4", number, 0))
    lines = str(ledger).splitlines()
    assert lines[0] == "40 failed clips of 32 files"
    assert lines[1] == r"  0\xff.mp4: 2 clips skipped: StaleSource: changed\x1b[2J"
    assert lines[2].startswith(r"  1\xff.mp4: 1 clip skipped: CorruptMedia: torn and long")
    assert lines[-2:] == ["  ... and 12 more", "  only the first 33 failures are listed"]
    assert (len(lines), max(map(len, lines)) < 300, repr(ledger).count("\n")) == (23, True, 0)


def test_a_position_counts_once() -> None:
    ledger = Ledger()
    for _ in range(3):
        ledger.record(LedgerEntry("a.mp4", 5, 0, (), "CorruptMedia: "))
    assert (len(ledger), ledger.num_positions(0)) == (3, 1)


def test_a_ledger_that_cannot_be_written_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    ledger = Ledger.shared()
    monkeypatch.setattr("framefeed.parallel._shared_lines.os.write", full)
    with pytest.raises(LoadError, match=r"cannot write the ledger .*No space left.* set TMPDIR"):
        ledger.record(LedgerEntry("a.mp4", 5, 0, (), "CorruptMedia: "))


@contextmanager
def room_for_bytes(count: int) -> Iterator[None]:
    """Let files of this process be no larger; a write beyond that is cut short."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_L11_a_forked_process_has_each_entry_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ledger, "MAX_ENTRIES", 2)
    ledger = Ledger.shared()
    for position in range(3):
        ledger.record(LedgerEntry("a.mp4", position, 0, (), "CorruptMedia: "))

    def add_one() -> str:
        before = len(ledger), ledger.num_failed, ledger.num_positions(0)
        ledger.record(LedgerEntry("b.mp4", 3, 0, (), "CorruptMedia: "))
        return str((before, ledger.num_failed))

    assert (len(ledger), ledger.num_failed) == (2, 3)
    assert Child(add_one).report() == "((2, 3, 3), 4)"
    assert (len(ledger), ledger.num_failed) == (2, 4)


def test_part_of_an_entry_does_not_spoil_the_next(tmp_path: Path) -> None:
    entries = [LedgerEntry("a.mp4", position, 0, (), "CorruptMedia: ") for position in range(3)]
    shared, appended = Ledger.shared(), Ledger()
    appended.append_to(tmp_path / "failed.jsonl")
    for ledger in (shared, appended):
        ledger.record(entries[0])
        with room_for_bytes(200), pytest.raises(LoadError, match=r"No space left"):
            ledger.record(entries[1])
        ledger.record(entries[2])
    assert list(shared) == [entries[0], entries[2]]


@pytest.mark.parametrize("make", [Ledger, Ledger.shared])
def test_it_is_written_as_json_lines(make: Any, tmp_path: Path) -> None:
    ledger = make()
    error = CorruptMedia("bad\nframe", frames=[7, 8])
    ledger.record(LedgerEntry.of(error, "a\udcff.mp4", 3, 2))
    ledger.record(LedgerEntry.of(error, "ä.mp4", 4, 2, substitute=9))
    path = tmp_path / "failed.jsonl"
    path.write_text("notes")
    with pytest.raises(UsageError, match="the file that is already there is not a ledger"):
        ledger.to_jsonl(path)
    assert path.read_text() == "notes"
    path.unlink()
    for _ in range(2):
        ledger.to_jsonl(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [LedgerEntry(**{**line, "frames": tuple(line["frames"])}) for line in lines] == list(ledger)
    assert [(line["action"], line["substitute"]) for line in lines] == [("skipped", None), ("substituted", 9)]
    assert [each.name for each in tmp_path.iterdir()] == ["failed.jsonl"]
    for write in (ledger.to_jsonl, ledger.append_to):
        with pytest.raises(UsageError, match="missing"):
            write(tmp_path / "missing" / "failed.jsonl")
        with pytest.raises(UsageError, match="path: expected a path"):
            write(3)


def test_a_run_that_is_killed_leaves_its_failures_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ledger, "MAX_ENTRIES", 1)
    monkeypatch.chdir(tmp_path)
    plan = plan_of(AtIndices([0, 2]), **PLAN)
    with ClipLoader(plan, batch_size=2, workers=0, backend=fail_rows(1, 4), on_error="skip") as loader:
        loader.ledger.append_to("failed.jsonl")
        monkeypatch.chdir("/")
        for batch, expected in zip(loader, ([1], [1], [1, 4]), strict=True):
            lines = (tmp_path / "failed.jsonl").read_text().splitlines()
            assert [json.loads(line)["position"] for line in lines] == expected, batch
        copied = pickle.loads(pickle.dumps(loader.ledger))
        copied.record(LedgerEntry.of(CorruptMedia("x"), "b.mp4", 5, 0))
    assert len((tmp_path / "failed.jsonl").read_text().splitlines()) == 3
    (tmp_path / "failed.jsonl").unlink()
    (tmp_path / "failed.jsonl").mkdir()
    with pytest.raises(LoadError, match="cannot append to the file of failed clips"):
        copied.record(LedgerEntry.of(CorruptMedia("x"), "b.mp4", 5, 0))

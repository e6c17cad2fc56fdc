"""Writes, flushes and renames that fail, at every place where they may: nothing raises, nothing sealed is lost."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from framefeed.cache.store import _files
from framefeed.cache.store._format import StoreOptions
from framefeed.cache.store._store import FrameStore
from framefeed.errors import CacheError, ResourceExhausted
from framefeed.parallel import release_idle
from tests.cache.store.faults import ALL, ERRORS, READING, SHORTAGES, WRITING, Faults, faulty
from tests.cache.store.made import (
    KEYS,
    add,
    assert_exact_or_missing,
    frame_of,
    frames_of,
    name_of,
    parts,
    read_all,
    segments,
)
from tests.cache.store.power import Disk, watched
from tests.lengths import either

BLOCK = 128
"""Bytes of a block, of which a segment here has several."""
EARLIER = range(3)
LATER = range(3, 7)
FRAMES = frames_of(KEYS, range(7))
OPTIONS = StoreOptions(max_bytes=1 << 20, segment_bytes=900)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "BLOCK_BYTES", BLOCK)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sealed segments, and one that a dead writer left."""
    folder = tmp_path_factory.mktemp("earlier") / "cache"
    with FrameStore(os.fspath(folder)) as store:
        for key in KEYS:
            add(store, key, EARLIER)
            store.flush()
    (folder / name_of(7)).write_bytes(b"unfinished")
    (folder / f"frames-{7:032x}.4000.new").write_bytes(b"")
    return folder


def fill(folder: Path, faults: Faults, later: Sequence[int] = LATER) -> FrameStore:
    """Open a store, read what is there, add to it, end, while calls go wrong; what is found must be exact."""
    with faulty(faults, folder):
        store = FrameStore(os.fspath(folder), OPTIONS)
        assert_exact_or_missing(store, frames_of(KEYS, EARLIER))
        for number in later:
            for key in KEYS:
                add(store, key, [number])
            assert_exact_or_missing(store, {name: data for name, data in FRAMES.items() if name[1] == number})
        store.flush()
        assert_exact_or_missing(store, frames_of(KEYS, [*EARLIER, *later]))
        store.close()
    return store


def assert_recovered(folder: Path, store: FrameStore, later: Sequence[int] = LATER) -> None:
    """The law: what was sealed is neither lost nor changed, trouble was told, counts are true, the next one tidies."""
    again = FrameStore(os.fspath(folder))
    info, counts = again.info(), store.counts
    assert info.num_frames - len(EARLIER) * len(KEYS) == counts.frames_written, "other frames than were counted"
    assert info.stored_bytes - sum(map(len, frames_of(KEYS, EARLIER).values())) == counts.bytes_written
    assert assert_exact_or_missing(again, frames_of(KEYS, EARLIER)) == len(EARLIER) * len(KEYS)
    frames = frames_of(KEYS, [*EARLIER, *later])
    num_found = assert_exact_or_missing(again, frames)
    assert again.counts.segments_refused == again.counts.frames_damaged == 0
    assert store.trouble is not None or num_found == len(frames)
    assert store.trouble is None or not add(store, KEYS[0], [1])
    add(again, KEYS[0], [99])
    again.close()
    assert again.trouble is None
    assert parts(folder) == []


def copied(earlier: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(earlier, folder)
    return folder


EVERY = either(short=3, long=1)
"""One call of so many fails."""


@pytest.mark.long
@pytest.mark.parametrize("goes_on", [False, True])
def test_C01_C04_C17_every_call_of_a_writer_fails(earlier: Path, tmp_path: Path, goes_on: bool) -> None:
    for number in range(0, 10_000, EVERY):
        folder = copied(earlier, tmp_path / "cache")
        faults = Faults(WRITING, number, ERRORS[number % len(ERRORS)], goes_on)
        store = fill(folder, faults)
        assert_recovered(folder, store)
        if not faults.failed:
            break
        if store.trouble is not None:
            assert store.trouble.startswith(f"{folder}: the frame cache stores no more")
            assert os.strerror(faults.code) in store.trouble
    assert set(faults.names) == set(WRITING) - {"mkdir"}
    assert len(faults.names) > 60
    assert len(segments(folder)) > len(KEYS) + 2


@pytest.mark.long
@pytest.mark.parametrize("goes_on", [False, True])
def test_C04_C17_every_call_of_a_reader_fails(earlier: Path, tmp_path: Path, goes_on: bool) -> None:
    for number in range(0, 10_000, EVERY):
        folder = copied(earlier, tmp_path / "cache")
        faults = Faults(READING, number, ERRORS[number % len(ERRORS)], goes_on)
        if number == 0:
            with pytest.raises(CacheError, match="cannot be read"):
                fill(folder, faults)
            continue
        store = fill(folder, faults, LATER[:2])
        assert_recovered(folder, store, LATER[:2])
        if not faults.failed:
            break
    assert set(faults.names) == set(READING)


def test_L15_ctrl_c_within_a_write_drops_what_is_half_written_and_storing_goes_on(
    earlier: Path, tmp_path: Path
) -> None:
    for number in range(1_000):
        folder = copied(earlier, tmp_path / "cache")
        store = FrameStore(os.fspath(folder), OPTIONS)
        faults = Faults(("pwritev", "fsync", "rename"), number, is_interrupted=True)
        with faulty(faults, folder), suppress(KeyboardInterrupt):
            for key in KEYS:
                add(store, key, LATER)
            store.flush()
        if not faults.failed:
            break
        assert parts(folder) == []
        assert add(store, KEYS[1], [LATER[-1] + 1])
        assert_exact_or_missing(store, frames_of(KEYS, [*LATER, LATER[-1] + 1]))
        store.close()
        assert_recovered(folder, store, [])
    assert number > 10


def test_C01_writes_that_take_part_of_what_is_given(earlier: Path, tmp_path: Path) -> None:
    folder = copied(earlier, tmp_path / "cache")
    faults = Faults(is_short=True)
    store = fill(folder, faults)
    assert store.trouble is None
    assert_recovered(folder, store)
    assert faults.names.count("pwritev") > 150
    for number in range(faults.names.index("pwritev"), len(faults.names), 13):
        folder = copied(earlier, folder)
        assert_recovered(folder, fill(folder, Faults(at=number, is_short=True)))


def assert_power_may_fail(folder: Path, work: Path) -> None:
    """The law: whatever a loss of power leaves is exact, and nothing that a flush has returned for is missing."""
    disk = Disk(folder)
    folder.mkdir(mode=0o700)
    promised: dict[int, dict[tuple[bytes, int], bytes]] = {}
    with watched(disk), FrameStore(os.fspath(folder), OPTIONS) as store:
        for number in LATER:
            for key in KEYS:
                add(store, key, [number, number + 100])
            store.flush()
            promised[len(disk.images)] = frames_of(KEYS, [*LATER[: LATER.index(number) + 1]])
    expected: dict[tuple[bytes, int], bytes] = {}
    for moment, images in enumerate(disk.images):
        expected = promised.get(moment, expected)
        for image in images:
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(mode=0o700)
            for name, content in image.items():
                (work / name).write_bytes(content)
            again = FrameStore(os.fspath(work))
            assert assert_exact_or_missing(again, expected) == len(expected)
            assert_exact_or_missing(again, frames_of(KEYS, [*LATER, *(number + 100 for number in LATER)]))
            assert again.counts.segments_refused == again.counts.frames_damaged == 0
    assert len(expected) == len(KEYS) * (len(LATER) - 1)


def test_C01_a_loss_of_power_at_every_call(tmp_path: Path) -> None:
    assert_power_may_fail(tmp_path / "cache", tmp_path / "left")


@pytest.mark.parametrize("forgotten", ["file", "folder"])
def test_C01_a_store_that_does_not_flush_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    right = Disk.flush

    def flush(disk: Disk, descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) != (forgotten == "folder"):
            right(disk, descriptor)

    monkeypatch.setattr(Disk, "flush", flush)
    with pytest.raises(AssertionError):
        assert_power_may_fail(tmp_path / "cache", tmp_path / "left")


def test_C17_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    folder = tmp_path / "one" / "cache"
    for number in range(2):
        with faulty(Faults(("mkdir",), number, errno.EROFS), folder.parent):
            store = FrameStore(os.fspath(folder))
            assert not add(store, KEYS[0], range(3))
        assert store.trouble is not None
        assert "Read-only file system" in store.trouble
    assert not folder.exists()


def test_C01_folders_that_are_made_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    with FrameStore(os.fspath(tmp_path / "one" / "two" / "cache")) as store:
        add(store, KEYS[0], range(3))
        assert flushed == [os.fspath(tmp_path), os.fspath(tmp_path / "one"), os.fspath(tmp_path / "one" / "two")]


def test_C01_a_folder_whose_flush_meets_a_shortage_is_flushed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, right, tries = FrameStore(os.fspath(tmp_path / "cache")), os.fsync, list[int]()

    def fail_once(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            tries.append(descriptor)
            if len(tries) == 1:
                raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        right(descriptor)

    add(store, KEYS[0], range(3))
    monkeypatch.setattr(os, "fsync", fail_once)
    store.flush()
    assert len(tries) == 2
    assert store.appender.shortage is None


def test_C17_a_folder_that_is_removed_while_it_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    with FrameStore(os.fspath(folder)) as store:
        add(store, KEYS[0], range(3))
        store.flush()
        add(store, KEYS[1], range(3))
        read_all(store, KEYS[0], range(3))
        shutil.rmtree(folder)
        # Files that are open stay readable.
        assert assert_exact_or_missing(store, frames_of(KEYS[:2], range(3))) >= 3
        store.flush()
        assert store.trouble is not None
        assert "stores no more frames, because its folder cannot be written: No such file or directory" in store.trouble
        assert not add(store, KEYS[0], range(3))
        store.refresh()
        assert read_all(store, KEYS[0], range(3)) == {}
        assert read_all(store, KEYS[1], range(3)) == {}
        assert not folder.exists()


# --- counts, and shortages ----------------------------------------------------------------------------


def test_C04_what_a_full_disk_lost_is_not_counted(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with FrameStore(os.fspath(tmp_path / "cache"), StoreOptions(segment_bytes=150_000)) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        try:
            stored = [store.add(KEYS[0], "", [frame_of(KEYS[0], n, data=bytes(30_000))]) for n in range(6)]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert stored == [True] * 3 + [False] * 3
        assert store.trouble is not None
        assert os.strerror(errno.EFBIG) in store.trouble
        assert (store.counts.frames_written, store.counts.bytes_written, store.counts.frames_lost) == (0, 0, 3)
        assert FrameStore(os.fspath(tmp_path / "cache")).info().num_frames == 0


def test_C04_a_folder_that_cannot_be_flushed_has_the_frames_that_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    store = FrameStore(os.fspath(tmp_path / "cache"))
    add(store, KEYS[0], range(3))
    monkeypatch.setattr(os, "fsync", fail)
    store.flush()
    assert store.trouble is not None
    assert store.counts.frames_written == FrameStore(os.fspath(tmp_path / "cache")).info().num_frames == 3
    assert len(read_all(store, KEYS[0], range(3))) == 3


@pytest.mark.long
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_shortage_is_no_damage_and_does_not_end_storing(earlier: Path, tmp_path: Path, goes_on: bool) -> None:
    for number in range(0, 10_000, 3 if goes_on else EVERY):
        folder = copied(earlier, tmp_path / "cache")
        store = FrameStore(os.fspath(folder), OPTIONS)
        faults = Faults(ALL, number, SHORTAGES[number % len(SHORTAGES)], goes_on)
        with faulty(faults, folder):
            for key in KEYS:
                with suppress(OSError, ResourceExhausted):
                    got = read_all(store, key, EARLIER)
                    assert got == {n: FRAMES[key, n] for n in EARLIER}, "a shortage was taken for a miss"
                assert add(store, key, LATER[:2]) or goes_on
            store.flush()
            assert goes_on or store.appender.lost_by is None
            with suppress(ResourceExhausted):
                checked = store.verify()
                assert not checked.damaged
                assert not checked.refused
                assert checked.num_frames >= len(EARLIER) * len(KEYS)
        assert store.trouble is None
        assert (store.counts.frames_damaged, store.counts.segments_refused) == (0, 0)
        for key in KEYS:
            assert add(store, key, [LATER[2]])
        assert store.appender.shortage is None
        assert_recovered_from_shortage(folder, store)
        if not faults.failed:
            break
    assert set(faults.names) >= {"open", "pwritev", "fsync", "rename", "preadv", "pread", "scandir", "stat", "fstat"}


def assert_recovered_from_shortage(folder: Path, store: FrameStore) -> None:
    """The same store goes on, all that was stored before is there, and counts are true."""
    assert len(read_all(store, KEYS[0], EARLIER)) == len(EARLIER)
    store.close()
    again = FrameStore(os.fspath(folder))
    assert assert_exact_or_missing(again, frames_of(KEYS, EARLIER)) == len(EARLIER) * len(KEYS)
    checked = again.verify()
    assert (checked.damaged, checked.refused) == ({}, {})
    assert checked.num_frames == len(EARLIER) * len(KEYS) + store.counts.frames_written
    assert again.info().num_frames == checked.num_frames
    assert parts(folder) == []


def test_idle_files_are_closed_in_a_shortage(earlier: Path, tmp_path: Path) -> None:
    store = FrameStore(os.fspath(copied(earlier, tmp_path / "cache")))
    read_all(store, KEYS[0], EARLIER)
    opened = len(os.listdir("/proc/self/fd"))
    release_idle()
    assert len(os.listdir("/proc/self/fd")) < opened
    assert len(read_all(store, KEYS[0], EARLIER)) == len(EARLIER)

"""The folder of a store: whose it is, what in it is left alone, how much there may be, how it grows."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from framefeed.cache.store import _index
from framefeed.cache.store._files import MAX_OPEN
from framefeed.cache.store._format import NO_FRAME, Kind, StoredFrame, StoreOptions
from framefeed.cache.store._segment_writer import SegmentFrames, SegmentWriter
from framefeed.cache.store._store import FrameStore
from framefeed.errors import CacheError
from tests.cache.store.faults import READING, Faults, faulty
from tests.cache.store.hostile import FRAMES, KEY, TEXT, Said, segment_of
from tests.cache.store.made import (
    KEYS,
    KINDS,
    add,
    alone,
    assert_exact_or_missing,
    data_of,
    description_of,
    disk_bytes,
    frame_of,
    frames_of,
    name_of,
    parts,
    read_all,
    sealed_file,
    segments,
    write_segment,
)

GOLDEN = Path(__file__).parent / "golden"
STRANGER = 4242
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("open_umask")
def test_C07_C15_new_files_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "cache"
    with FrameStore(os.fspath(folder)) as store:
        add(store, KEYS[0], range(3))
        assert {mode(path) for path in folder.iterdir()} == {0o600}
        assert mode(folder) == 0o700
    assert {mode(path) for path in folder.iterdir()} == {0o600}
    with FrameStore(os.fspath(tmp_path / "shared"), StoreOptions(shared=True)) as store:
        add(store, KEYS[0], range(3))
    assert {mode(path) for path in (tmp_path / "shared").iterdir()} == {0o666}


def test_C07_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    sealed_file(folder, KEYS, range(3))
    folder.chmod(0o777)
    with pytest.raises(CacheError, match=r"every user can write .*chmod o-w"):
        FrameStore(os.fspath(folder))
    assert len(read_all(FrameStore(os.fspath(folder), StoreOptions(shared=True)), KEYS[0], range(3))) == 3
    folder.chmod(0o1777)
    assert len(read_all(FrameStore(os.fspath(folder)), KEYS[0], range(3))) == 3


@needs_root
def test_C07_C15_a_folder_or_file_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    sealed_file(folder, KEYS, range(3))
    (path,) = segments(folder)
    os.chown(path, STRANGER, -1)
    store = FrameStore(os.fspath(folder))
    assert read_all(store, KEYS[0], range(3)) == {}
    assert store.info().refused == {
        path.name: f"the file belongs to another user (id {STRANGER}): remove it, or pass shared=True to trust it"
    }
    os.chown(folder, STRANGER, -1)
    with pytest.raises(CacheError, match="belongs to another user"):
        FrameStore(os.fspath(folder))
    assert len(read_all(FrameStore(os.fspath(folder), StoreOptions(shared=True)), KEYS[0], range(3))) == 3


def test_C07_a_folder_that_another_user_makes_first_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    store = FrameStore(os.fspath(folder))
    folder.mkdir()
    folder.chmod(0o777)
    (folder / name_of(0)).write_bytes(segment_of(FRAMES))
    store.refresh()
    assert not store.find(KEY, np.arange(3)).is_there.any()
    assert not add(store, KEYS[0], range(3))
    assert store.trouble is not None
    assert "every user can write" in store.trouble


def test_C07_links_folders_and_pipes_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    good = sealed_file(tmp_path / "elsewhere", KEYS, range(3))
    outside = tmp_path / "outside.arrow"
    outside.write_bytes(good)
    folder.mkdir(mode=0o700)
    (folder / name_of(1)).symlink_to(outside)
    (folder / name_of(2)).mkdir()
    os.mkfifo(folder / name_of(3))
    (folder / name_of(4)).symlink_to(tmp_path / "nothing")
    for name in ("frames-1.arrow", f"{name_of(5)}.tmp", f"x{name_of(6)}", "notes.txt", name_of(7).upper()):
        (folder / name).write_bytes(good)
    before = {path.name: path.lstat() for path in folder.iterdir()}
    with FrameStore(os.fspath(folder)) as store:
        assert read_all(store, KEYS[0], range(3)) == {}
        add(store, KEYS[1], range(5))
        store.flush()
        store.refresh()
        reasons = store.info().refused
        a_link = "the file is a symbolic link, and a cache reads regular files only: remove the link"
        no_file = "expected a regular file, found a folder, pipe or device: remove it"
        assert reasons[name_of(1)] == reasons[name_of(4)] == a_link
        assert reasons[name_of(2)] == reasons[name_of(3)] == no_file
        assert store.verify().num_frames == 5
        assert store.clear() > 0
    after = {path.name: path.lstat() for path in folder.iterdir()}
    assert {name: facts.st_ino for name, facts in after.items() if name != "lock"} == {
        name: facts.st_ino for name, facts in before.items()
    }
    assert outside.read_bytes() == good


def test_C07_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "made")
    with FrameStore(os.fspath(tmp_path)) as store:
        assert not add(store, KEYS[0], range(3))
        assert store.trouble is not None
    assert not (tmp_path / "made").exists()


def test_C08_names_hold_nothing_of_the_stream(tmp_path: Path) -> None:
    for key in (b"../../etc/passwd", b"/" * 16, bytes(16), b"\n" * 16):
        with FrameStore(os.fspath(tmp_path)) as store:
            assert store.add(key, f"../{key!r}\0", [StoredFrame(-1, KINDS[0], b"x", 1)])
            name = rf"frames-[0-9a-f]{{32}}\.{64 << 20}\.part"
            assert all(re.fullmatch(name, path.name) for path in parts(tmp_path))
    assert all(re.fullmatch(r"frames-[0-9a-f]{32}\.arrow|lock", path.name) for path in tmp_path.iterdir())
    assert len(list(tmp_path.iterdir())) == 5


def test_C13_old_segments_are_read_and_those_of_later_versions_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    shutil.copytree(GOLDEN, folder)
    folder.chmod(0o700)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    frames = frames_of(KEYS[:1], range(4)) | frames_of(KEYS[1:2], [5, 7])
    with FrameStore(os.fspath(folder)) as store:
        assert assert_exact_or_missing(store, frames) == len(frames)
        info = store.info()
        assert info.refused == {
            name_of(2): (
                "the file has format 2, and this version of framefeed reads format 1: use the version that wrote it, "
                "or another folder"
            )
        }
        assert info.descriptions == {key.hex(): description_of(key) for key in KEYS[:2]}
        assert store.counts.segments_refused == 1
        assert store.find(KEY, np.arange(3)).is_there.sum() == 0
        add(store, KEYS[2], range(3))
        store.flush()
        store.verify()
        store.refresh()
        assert store.counts.segments_refused == 1
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_segments_are_what_the_specification_says(tmp_path: Path) -> None:
    """Read by Arrow alone, every column of every batch, and the file as the next writer of Arrow would make it."""
    with FrameStore(os.fspath(tmp_path)) as store:
        for numbers in (range(5), range(5, 6), range(3)):
            for key in KEYS:
                add(store, key, numbers)
    (path,) = segments(tmp_path)
    content = path.read_bytes()
    reader = pa.ipc.open_file(pa.BufferReader(content))
    assert json.loads(reader.schema.metadata[b"framefeed"]) == {"format": 1}
    *clips, directory = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    metadata = reader.get_batch_with_custom_metadata(len(clips))[1]
    said = json.loads(metadata[b"framefeed"])
    assert (said["format"], said["kinds"]) == (1, [[kind.codec, kind.layout] for kind in KINDS])
    assert len(clips) == 9
    rows: list[dict[str, Any]] = [row for clip in clips for row in clip.to_pylist()]
    for row in rows:
        assert content[row["offset"] : row["offset"] + row["nbytes"]] == row["data"]
        if row["kind"] == NO_FRAME:
            assert row["data"].decode() == description_of(row["key"])
        else:
            assert row["data"] == data_of(row["key"], row["number"])
            assert row["kind"] == row["number"] % len(KINDS)
    assert directory.to_pylist() == [row | {"data": None} for row in rows]
    assert sum(row["kind"] == NO_FRAME for row in rows) == len(KEYS)
    frames = {number: data_of(KEYS[0], number) for number in range(5)}
    again = segment_of(frames, Said(text=json.dumps(TEXT).encode()))
    assert pa.ipc.open_file(pa.BufferReader(again)).schema.equals(reader.schema, check_metadata=True)


def test_a_file_that_is_being_copied_is_read_when_it_is_complete(tmp_path: Path) -> None:
    content = sealed_file(tmp_path / "elsewhere", KEYS, range(3))
    folder = alone(tmp_path / "cache", content[:2000])
    store = FrameStore(os.fspath(folder))
    assert read_all(store, KEYS[0], range(3)) == {}
    with open(folder / name_of(0), "ab") as file:
        file.write(content[2000:])
    (folder / "something").touch()
    store.refresh()
    assert len(read_all(store, KEYS[0], range(3))) == 3
    assert store.info().refused == {}


def test_a_segment_that_is_replaced_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_index, "MOST_BYTES", 0)
    content = sealed_file(tmp_path / "elsewhere", KEYS[1:2], range(30))
    folder = tmp_path / "cache"
    sealed_file(folder, KEYS[:1], range(30))
    store = FrameStore(os.fspath(folder))
    assert len(read_all(store, KEYS[0], range(30))) == 30
    (path,) = segments(folder)
    store.close()
    (tmp_path / "new").write_bytes(content)
    os.replace(tmp_path / "new", path)
    write_segment(folder / name_of(1), [(KEYS[2], range(3))])
    assert len(read_all(store, KEYS[2], range(3))) == 3
    for _ in range(2):
        assert assert_exact_or_missing(store, frames_of(KEYS[:2], range(30))) in (0, 30)
    store.refresh()
    assert len(read_all(store, KEYS[1], range(30))) == 30


def test_a_writer_leaves_part_of_the_budget_to_others(tmp_path: Path) -> None:
    options = StoreOptions(max_bytes=200_000)
    stores = [FrameStore(os.fspath(tmp_path), options) for _ in range(4)]
    assert all(add(store, KEYS[0], range(10)) for store in stores)
    assert all(int(path.name.split(".")[1]) <= 50_000 for path in parts(tmp_path))
    for store in stores:
        store.close()
    # What was kept free for them is there again.
    number = 10
    while add(stores[0], KEYS[0], range(number, number + 10)):
        number += 10
    stores[0].close()
    assert 0.7 * 200_000 < disk_bytes(tmp_path) <= 200_000
    assert stores[0].is_full
    assert stores[0].trouble == (
        f"{tmp_path}: the frame cache is full (max_bytes is 200,000) and stores no more frames; stored frames stay in "
        "use: give it a larger max_bytes"
    )
    frames = frames_of(KEYS[:1], range(number))
    assert assert_exact_or_missing(stores[0], frames) == assert_exact_or_missing(stores[1], frames) == number
    assert stores[0].clear() > 0.7 * 200_000
    assert not stores[0].is_full
    assert add(stores[0], KEYS[0], range(10))
    stores[0].close()


def test_a_budget_too_small_for_one_clip(tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path), StoreOptions(max_bytes=1000)) as store:
        assert not add(store, KEYS[0], range(10))
        assert store.is_full
        assert disk_bytes(tmp_path) == 0


def test_clear_leaves_what_others_write(tmp_path: Path) -> None:
    first, second = (FrameStore(os.fspath(tmp_path)) for _ in range(2))
    for number in range(3):
        add(first, KEYS[0], [number])
        first.flush()
    add(first, KEYS[0], range(3, 6))
    add(second, KEYS[1], range(6))
    assert len(read_all(second, KEYS[0], range(6))) == 3
    (tmp_path / f"frames-{5:032x}.9000.part").write_bytes(bytes(700))
    before = disk_bytes(tmp_path)
    assert first.clear() == before - disk_bytes(tmp_path)
    assert [int(path.stat().st_size > 0) for path in parts(tmp_path)] == [1]
    assert (read_all(first, KEYS[0], range(6)), len(read_all(second, KEYS[1], range(6)))) == ({}, 6)
    second.refresh()
    assert read_all(second, KEYS[0], range(6)) == {}
    second.flush()
    assert len(read_all(first, KEYS[1], range(6))) == 6


def test_clear_says_what_it_cannot_remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FrameStore(os.fspath(tmp_path)) as store:
        add(store, KEYS[0], range(3))
        store.flush()
        with (
            faulty(Faults(("unlink",), at=0), tmp_path),
            pytest.raises(CacheError, match="cannot be cleared: No space"),
        ):
            store.clear()
        assert len(read_all(store, KEYS[0], range(3))) == 3


def test_C18_many_segments(tmp_path: Path) -> None:
    """Opening takes so many calls of the system a segment, and there are never more than so many open files."""
    many = 2000
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    for number in range(many):
        write_segment(folder / name_of(number), [(KEYS[number % 2], [number])], created=number)
    faults = Faults(READING)
    with faulty(faults, folder):
        store = FrameStore(os.fspath(folder))
        store.refresh()
    assert faults.names.count("open") == faults.names.count("pread") == many
    assert faults.count < 4.2 * many
    faults = Faults(READING)
    with faulty(faults, folder):
        store.refresh()
        assert not store.find(KEY, np.arange(100)).is_there.any()
        write_segment(folder / name_of(many), [(KEYS[2], [5])], created=many)
        assert store.find(KEYS[2], np.array([5])).is_there.all()
    assert faults.names.count("open") < 5
    before = len(os.listdir("/proc/self/fd"))
    for key, numbers in ((KEYS[0], range(0, many, 2)), (KEYS[1], range(1, many, 2))):
        assert len(read_all(store, key, numbers)) == many // 2
        assert before + 64 < len(os.listdir("/proc/self/fd")) <= before + MAX_OPEN
    store.close()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_directories_are_read_again_where_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_index, "MOST_BYTES", 20_000)
    frames = frames_of(KEYS, range(400))
    with FrameStore(os.fspath(tmp_path), StoreOptions(segment_bytes=30_000)) as store:
        for first in range(0, 400, 20):
            for key in KEYS:
                add(store, key, range(first, first + 20))
        assert assert_exact_or_missing(store, frames) == len(frames)
    assert len(segments(tmp_path)) > 5


def test_C10_a_budget_that_others_only_reserve_is_not_used_up(tmp_path: Path) -> None:
    """Sixteen writers with one small clip each: none gives up for good while there is room."""
    stores = [FrameStore(str(tmp_path / "c"), StoreOptions(max_bytes=200_000)) for _ in range(16)]
    key, data = bytes(16), bytes(2_000)
    frame = StoredFrame(0, Kind("raw", "x"), data, len(data))
    first = [store.add(key, "{}", [frame]) for store in stores]
    assert any(first)
    for store in stores:
        assert not store.is_full
        store.flush()
    again = [store.add(key, "{}", [frame]) for store in stores[:4]]
    assert all(again), "what the others claimed and did not need is there again"
    for store in stores:
        store.close()
    assert sum(file.stat().st_size for file in (tmp_path / "c").iterdir()) <= 200_000


def test_C15_a_frame_that_was_stored_as_another_is_a_miss(tmp_path: Path) -> None:
    """Its checksum is of its key and number too, so that bytes of one source never pass for those of another."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    planted = SegmentFrames(KEYS[1], "", [frame_of(KEYS[1], number) for number in range(3)])
    planted.key = KEYS[0]
    descriptor = os.open(folder / name_of(1), os.O_RDWR | os.O_CREAT, 0o600)
    writer = SegmentWriter(descriptor, 1 << 20, 1)
    writer.append(planted)
    writer.finish()
    os.close(descriptor)
    with FrameStore(os.fspath(folder)) as store:
        assert store.info().num_frames == 3
        assert read_all(store, KEYS[0], range(3)) == {}
        assert store.counts.frames_damaged == 3

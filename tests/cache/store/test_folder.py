"""The folder of a store: whose it is, what in it is left alone, how much there may be, how it grows."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xxhash

from framefeed.cache.store import _folder, _index
from framefeed.cache.store._format import Kind, StoredFrame, StoreOptions
from framefeed.cache.store._index import MAX_OPEN
from framefeed.cache.store._segment_writer import SegmentFrames
from framefeed.cache.store._store import FrameStore
from framefeed.errors import CacheError
from tests.cache.store.faults import READING, Faults, faulty
from tests.cache.store.hostile import COLUMNS, FRAMES, HEADER, KEY, segment_of
from tests.cache.store.made import (
    KEYS,
    KINDS,
    add,
    assert_exact_or_missing,
    data_of,
    description_of,
    directory_of,
    disk_bytes,
    frame_of,
    frames_of,
    name_of,
    parts,
    read_all,
    reserved,
    sealed_files,
    segments,
    write_clips,
    write_files,
    write_segment,
)
from tests.lengths import IS_ALL

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
    sealed_files(folder, KEYS, range(3))
    folder.chmod(0o777)
    with pytest.raises(CacheError, match=r"every user can write .*chmod o-w"):
        FrameStore(os.fspath(folder))
    assert len(read_all(FrameStore(os.fspath(folder), StoreOptions(shared=True)), KEYS[0], range(3))) == 3
    folder.chmod(0o1777)
    assert len(read_all(FrameStore(os.fspath(folder)), KEYS[0], range(3))) == 3


@needs_root
def test_C07_C15_a_folder_or_file_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    sealed_files(folder, KEYS, range(3))
    (path,) = segments(folder)
    for given in (path, directory_of(path)):
        os.chown(given, STRANGER, -1)
        store = FrameStore(os.fspath(folder))
        assert read_all(store, KEYS[0], range(3)) == {}
        assert store.info().refused == {
            path.name: f"the file belongs to another user (id {STRANGER}): remove it, or pass shared=True to trust it"
        }
        os.chown(given, os.geteuid(), -1)
    os.chown(folder, STRANGER, -1)
    with pytest.raises(CacheError, match="belongs to another user"):
        FrameStore(os.fspath(folder))
    assert len(read_all(FrameStore(os.fspath(folder), StoreOptions(shared=True)), KEYS[0], range(3))) == 3


def test_C07_a_folder_that_another_user_makes_first_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    store = FrameStore(os.fspath(folder))
    folder.mkdir()
    folder.chmod(0o777)
    write_files(folder, segment_of(FRAMES))
    store.refresh()
    assert not store.find(KEY, np.arange(3)).is_there.any()
    assert not add(store, KEYS[0], range(3))
    assert store.trouble is not None
    assert "every user can write" in store.trouble


def test_C07_links_folders_and_pipes_are_left_alone(tmp_path: Path) -> None:
    """In place of either file of a segment, and of those of an unfinished one."""
    folder = tmp_path / "cache"
    good = sealed_files(tmp_path / "elsewhere", KEYS, range(3))
    outside = write_files(tmp_path, good, 99)
    folder.mkdir(mode=0o700)
    for number, ending in enumerate((".data", ".rows", ".data", ".rows", ".data", ".rows")):
        path = write_files(folder, good, number).with_suffix(ending)
        path.unlink()
        if number < 2:
            path.symlink_to(outside.with_suffix(ending))
        elif number < 4:
            path.mkdir()
        else:
            os.mkfifo(path)
    (folder / name_of(6)).symlink_to(tmp_path / "nothing")
    os.mkfifo(folder / name_of(7))
    (folder / name_of(8)).mkdir()
    (folder / f"frames-{9:032x}.50.new").symlink_to(outside)
    for name in ("frames-1.data", f"{name_of(5)}.tmp", f"x{name_of(6)}", "notes.txt", name_of(7).upper()):
        (folder / name).write_bytes(good[0])
    others = {path.name: path.lstat() for path in folder.iterdir()}
    with FrameStore(os.fspath(folder)) as store:
        assert read_all(store, KEYS[0], range(3)) == {}
        add(store, KEYS[1], range(5))
        store.flush()
        store.refresh()
        reasons = store.info().refused
        a_link = "the file is a symbolic link, and a cache reads regular files only: remove the link"
        no_file = "expected a regular file, found a folder, pipe or device: remove it"
        assert reasons == {name_of(number): a_link if number < 2 else no_file for number in range(6)}
        assert store.drop_damaged(store.verify()) == {}
        assert {path.name: path.lstat().st_ino for path in folder.iterdir() if path.name in others} == {
            name: facts.st_ino for name, facts in others.items()
        }
        assert store.verify().num_frames == 5
        assert store.clear() > 0
    after = {path.name: path.lstat().st_ino for path in folder.iterdir() if path.name != "lock"}
    # Of a segment with one regular file, this file is removed.
    assert after == {
        name: facts.st_ino
        for name, facts in others.items()
        if not stat.S_ISREG(facts.st_mode) or not re.fullmatch(r"frames-[0-9a-f]{32}\.(data|rows)", name)
    }
    assert (outside.read_bytes(), directory_of(outside).read_bytes()) == good


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
            name = rf"frames-[0-9a-f]{{32}}\.({64 << 20}\.new|data)"
            assert len([path for path in tmp_path.iterdir() if re.fullmatch(name, path.name)]) > 1
            assert all(re.fullmatch(rf"{name}|.*\.rows|lock", path.name) for path in tmp_path.iterdir())
    assert all(re.fullmatch(r"frames-[0-9a-f]{32}\.(data|rows)|lock", path.name) for path in tmp_path.iterdir())
    assert len(list(tmp_path.iterdir())) == 9


def test_C13_segments_of_this_version_are_read_and_those_of_others_left_alone(tmp_path: Path) -> None:
    """The golden folder has a segment of format 2, and one of a later format."""
    folder = tmp_path / "cache"
    shutil.copytree(GOLDEN, folder)
    folder.chmod(0o700)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    frames = frames_of(KEYS[:1], range(4)) | frames_of(KEYS[1:2], [5, 7])
    with FrameStore(os.fspath(folder)) as store:
        assert assert_exact_or_missing(store, frames) == len(frames)
        info = store.info()
        assert info.refused == {
            name_of(4): (
                "the file has format 3, and this version of framefeed reads format 2: use the version that wrote it, "
                "or another folder"
            )
        }
        assert info.descriptions == {key.hex(): description_of(key) for key in KEYS[:2]}
        assert info.bytes_on_disk == disk_bytes(folder)
        assert store.counts.segments_refused == 1
        add(store, KEYS[2], range(3))
        store.flush()
        assert store.drop_damaged(store.verify()) == {}
        store.refresh()
        assert store.counts.segments_refused == 1
    assert {name: (folder / name).read_bytes() for name in before} == before
    with FrameStore(os.fspath(folder)) as store:
        nbytes = disk_bytes(folder)
        assert store.clear() == nbytes
        assert [path.name for path in folder.iterdir()] == ["lock"]
        assert store.info().refused == {}


def test_segments_are_what_the_specification_says(tmp_path: Path) -> None:
    """Read by `struct` alone."""
    with FrameStore(os.fspath(tmp_path)) as store:
        for numbers in (range(5), range(5, 6), range(3)):
            for key in KEYS:
                add(store, key, numbers)
    (path,) = segments(tmp_path)
    data, directory = path.read_bytes(), directory_of(path).read_bytes()
    layout = "<" + "".join(HEADER.values())
    header = dict(zip(HEADER, struct.unpack_from(layout, directory), strict=True))
    at = struct.calcsize(layout) + 16
    assert (header["magic"], header["format"], header["data_nbytes"]) == (b"ff rows\n", 2, len(data))
    layout = "<" + "".join(COLUMNS.values())
    rows = []
    for _ in range(header["num_rows"]):
        rows.append(dict(zip(COLUMNS, struct.unpack_from(layout, directory, at), strict=True)))
        at += struct.calcsize(layout)
    keys = [directory[at + 16 * number : at + 16 * (number + 1)] for number in range(header["num_streams"])]
    at += 16 * len(keys)
    assert keys == list(KEYS)
    assert json.loads(directory[at : at + header["kinds_nbytes"]]) == [[kind.codec, kind.layout] for kind in KINDS]
    checksum = xxhash.xxh3_128_digest(directory[:64] + directory[80 : at + header["kinds_nbytes"]])
    assert directory[64:80] == checksum
    texts = directory[at + header["kinds_nbytes"] :]
    assert json.loads(texts) == [description_of(key) for key in KEYS]
    assert (len(texts), xxhash.xxh3_128_digest(texts)) == (header["texts_nbytes"], header["texts_checksum"])
    stored = []
    for row in rows:
        key, content = keys[row["stream"]], data[row["offset"] : row["offset"] + row["nbytes"]]
        stored.append((key, row["number"]))
        assert content == data_of(*stored[-1])
        seed = xxhash.xxh3_64_intdigest(key, seed=row["number"])
        assert row["checksum"] == xxhash.xxh3_64_intdigest(content, seed=seed)
        assert row["kind"] == row["number"] % len(KINDS)
    assert stored == [(key, n) for numbers in (range(5), range(5, 6), range(3)) for key in KEYS for n in numbers]
    assert data == bytes(128) + b"".join(data_of(*name) for name in stored)


def test_segments_that_are_being_copied_are_read_when_they_are_complete(tmp_path: Path) -> None:
    data, directory = sealed_files(tmp_path / "elsewhere", KEYS, range(3))
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    store = FrameStore(os.fspath(folder))
    for files in ((b"", directory[:200]), (b"", directory), (data[:50], directory)):
        write_files(folder, files)
        (folder / f"something {len(files[0])} {len(files[1])}").touch()
        store.refresh()
        assert read_all(store, KEYS[0], range(3)) == {}
        assert store.info().refused.keys() == {name_of(0)}
    write_files(folder, (data, directory))
    (folder / "something").touch()
    store.refresh()
    assert len(read_all(store, KEYS[0], range(3))) == 3
    assert store.info().refused == {}


def test_a_segment_that_is_replaced_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_index, "MOST_BYTES", 0)
    files = sealed_files(tmp_path / "elsewhere", KEYS[1:2], range(30))
    folder = tmp_path / "cache"
    sealed_files(folder, KEYS[:1], range(30))
    store = FrameStore(os.fspath(folder))
    assert len(read_all(store, KEYS[0], range(30))) == 30
    (path,) = segments(folder)
    store.close()
    for content, replaced in zip(files, (path, directory_of(path)), strict=True):
        (tmp_path / "new").write_bytes(content)
        os.replace(tmp_path / "new", replaced)
    write_segment(folder, 1, [(KEYS[2], range(3))])
    assert len(read_all(store, KEYS[2], range(3))) == 3
    for _ in range(2):
        assert assert_exact_or_missing(store, frames_of(KEYS[:2], range(30))) in (0, 30)
    store.refresh()
    assert len(read_all(store, KEYS[1], range(30))) == 30


def test_a_writer_leaves_part_of_the_budget_to_others(tmp_path: Path) -> None:
    options = StoreOptions(max_bytes=200_000)
    stores = [FrameStore(os.fspath(tmp_path), options) for _ in range(4)]
    assert all(add(store, KEYS[0], range(10)) for store in stores)
    assert len(reserved(tmp_path)) == 4
    assert max(reserved(tmp_path)) <= 50_000
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
        "use"
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
    (tmp_path / f"frames-{5:032x}.9000.new").write_bytes(bytes(30))
    (tmp_path / name_of(5)).write_bytes(bytes(700))
    (tmp_path / name_of(6)).write_bytes(bytes(70))
    before = disk_bytes(tmp_path)
    assert first.clear() == before - disk_bytes(tmp_path)
    assert len(parts(tmp_path)) == 1
    assert len(reserved(tmp_path)) == 1
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


def test_C17_a_folder_whose_lock_is_never_released_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_folder, "_PATIENCE_SECONDS", 0)
    with FrameStore(os.fspath(tmp_path)) as store, open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        faults = Faults(("flock",))
        with faulty(faults, tmp_path):
            assert not any(add(store, KEYS[0], [number]) for number in range(3))
        assert "another process holds the lock of the cache folder" in str(store.trouble)
        assert faults.count < 5


def test_C18_many_segments(tmp_path: Path) -> None:
    """Opening takes so many calls of the system a segment, and there are never more than so many open files."""
    many = 2000 if IS_ALL else 500
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    for number in range(many):
        write_segment(folder, number, [(KEYS[number % 2], [number])], created=number)
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
        write_segment(folder, many, [(KEYS[2], [5])], created=many)
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
    with FrameStore(os.fspath(tmp_path), StoreOptions(segment_bytes=20_000)) as store:
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


def test_C10_what_others_have_reserved_is_theirs(tmp_path: Path) -> None:
    """Twelve writers that seal nothing: the folder stays within the budget until all of them refuse."""
    folder, budget = tmp_path / "c", 200_000
    stores = [FrameStore(os.fspath(folder), StoreOptions(max_bytes=budget)) for _ in range(12)]
    number, writing = 0, list(stores)
    while writing:
        for store in list(writing):
            number += 1
            if not add(store, KEYS[0], [number]):
                writing.remove(store)
            assert disk_bytes(folder) <= budget
    assert number > len(stores)
    for store in stores:
        store.close()
    assert disk_bytes(folder) <= budget


def test_C15_a_frame_that_was_stored_as_another_is_a_miss(tmp_path: Path) -> None:
    """Its checksum is of its key and number too, so that bytes of one source never pass for those of another."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    planted = SegmentFrames(KEYS[1], "", [frame_of(KEYS[1], number) for number in range(3)])
    planted.key = KEYS[0]
    write_clips(folder, 1, [planted])
    with FrameStore(os.fspath(folder)) as store:
        assert store.info().num_frames == 3
        assert read_all(store, KEYS[0], range(3)) == {}
        assert store.counts.frames_damaged == 3

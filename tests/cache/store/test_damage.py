"""Segments that are cut, flipped, mixed or made up: what is found in them is exact, or nothing, and it is counted."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from framefeed.cache.store import _index
from framefeed.cache.store._directory import read_directory, read_texts
from framefeed.cache.store._format import DATA_START, FrameLocations, Kind, Refused, StoredFrame, StoreOptions
from framefeed.cache.store._store import FrameStore
from tests.cache.store.hostile import FRAMES, KEY, Said, segment_of
from tests.cache.store.made import (
    KEYS,
    KINDS,
    Files,
    add,
    alone,
    assert_exact_or_missing,
    data_of,
    description_of,
    directory_of,
    frames_of,
    name_of,
    read_all,
    sealed_files,
    segments,
    write_files,
    write_segment,
)
from tests.lengths import IS_ALL
from tests.programs import report_of

STEP = 1 if IS_ALL else 3
"""Of the bytes that are damaged one after the other."""
SMALL = range(3)
SMALL_FRAMES = frames_of(KEYS[:2], SMALL)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A segment of a few kilobytes."""
    return sealed_files(tmp_path_factory.mktemp("small") / "cache", KEYS[:2], SMALL)


class Reader:
    """Opens what the files of a segment have become, in one folder, every time with a store of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = alone(folder, (b"", b""))
        self.found = 0

    def check(self, files: Files, store_type: type[FrameStore] = FrameStore) -> None:
        """The law: exact or missing, and counted."""
        write_files(self._folder, files)
        store = store_type(os.fspath(self._folder))
        self.found = assert_exact_or_missing(store, SMALL_FRAMES)
        missing = len(SMALL_FRAMES) - self.found
        refused = store.counts.segments_refused
        assert (missing > 0) == (refused + store.counts.frames_damaged > 0)
        assert refused in (0, 1)
        assert store.counts.frames_damaged == (0 if refused else missing)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return Reader(tmp_path_factory.mktemp("changed") / "cache")


def flipped(content: bytes, at: int, bits: int) -> bytes:
    return content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :]


def both_flipped(files: Files, at: int, bits: int) -> Files:
    """Flip bits of one byte of the two files, counted one after the other."""
    data, directory = files
    if at < len(data):
        return flipped(data, at, bits), directory
    return data, flipped(directory, at - len(data), bits)


def test_C01_every_byte_flipped_is_exact_or_missing(small: Files, reader: Reader) -> None:
    data, directory = map(len, small)
    texts = len(json.dumps([description_of(key) for key in KEYS[:2]]))
    assert data - DATA_START == sum(len(data) for data in SMALL_FRAMES.values())
    # A frame's own bytes cost that frame alone; those of the directory cost all, but for the descriptions.
    costs = [0] * DATA_START + [1] * (data - DATA_START) + [len(SMALL_FRAMES)] * (directory - texts) + [0] * texts
    for at in range(0, data + directory, STEP):
        reader.check(both_flipped(small, at, 0xFF))
        assert len(SMALL_FRAMES) - reader.found == costs[at], at


def test_C02_single_bits_flipped_are_exact_or_missing(small: Files, reader: Reader) -> None:
    chance = random.Random(8)
    nbytes = sum(map(len, small))
    for at, bit in [(chance.randrange(nbytes), chance.randrange(8)) for _ in range(1500 // STEP)]:
        reader.check(both_flipped(small, at, 1 << bit))


def test_C01_every_length_that_a_file_may_be_cut_to(small: Files, reader: Reader) -> None:
    data, directory = small
    for length in range(0, len(data), STEP):
        reader.check((data[:length], directory))
        assert reader.found == 0
    for length in range(0, len(directory), STEP):
        reader.check((data, directory[:length]))
        assert reader.found == 0
    for more in (b"\0", b"ff rows\n", data, directory, os.urandom(3000)):
        reader.check((data + more, directory))
        assert reader.found == 0
        reader.check((data, directory + more))
        assert reader.found == 0
    reader.check(small)
    assert reader.found == len(SMALL_FRAMES)


def test_C01_one_file_without_the_other_is_missing(small: Files, tmp_path: Path) -> None:
    folder = alone(tmp_path / "cache", small)
    data = folder / name_of(0)
    for lost, refused in ((data, 1), (directory_of(data), 0)):
        write_files(folder, small)
        lost.unlink()
        store = FrameStore(os.fspath(folder))
        assert assert_exact_or_missing(store, SMALL_FRAMES) == 0
        assert store.counts.segments_refused == refused
        assert len(store.info().unfinished) == 1 - refused
    # The directory may be still to come, where a folder is being copied.
    write_files(folder, small)
    directory_of(data).unlink()
    with FrameStore(os.fspath(folder)) as store:
        add(store, KEYS[2], SMALL)
        assert data.exists()
        assert store.clear() == len(small[0])
        assert not data.exists()
    (folder / "lock").unlink()
    write_files(folder, small)
    data.unlink()
    store.refresh()
    assert store.drop_damaged(store.verify()) == {data.name: len(small[1])}
    assert list(folder.iterdir()) == []


class TrustingStore(FrameStore):
    """Takes all bytes that can be read for sound."""

    def read(self, locations: FrameLocations, indices: Sequence[int], buffers: Sequence[memoryview]) -> list[bool]:
        super().read(locations, indices, buffers)
        return [True] * len(buffers)


def test_a_reader_without_checksums_is_caught(small: Files, reader: Reader) -> None:
    damaged = both_flipped(small, DATA_START, 1)
    reader.check(damaged)
    reader.check(small, TrustingStore)
    with pytest.raises(AssertionError):
        reader.check(damaged, TrustingStore)


@st.composite
def _edits(draw: st.DrawFn) -> list[tuple[str, int, int, bytes]]:
    offsets = st.integers(0, 1 << 16)
    kinds = st.sampled_from(["replace", "insert", "delete", "repeat"])
    return draw(st.lists(st.tuples(kinds, offsets, st.integers(0, 64), st.binary(max_size=16)), min_size=1, max_size=4))


def edited(content: bytes, edits: list[tuple[str, int, int, bytes]]) -> bytes:
    for what, offset, length, data in edits:
        at = offset % (len(content) + 1)
        end = min(len(content), at + length)
        middle = {"replace": data, "insert": data + content[at:end], "delete": b"", "repeat": 2 * content[at:end]}
        content = content[:at] + middle[what] + content[end:]
    return content


@settings(max_examples=300 // STEP)
@given(_edits(), _edits())
def test_C12_frames_of_edited_files_are_exact_or_missing(
    small: Files,
    reader: Reader,
    data_edits: list[tuple[str, int, int, bytes]],
    edits: list[tuple[str, int, int, bytes]],
) -> None:
    reader.check((edited(small[0], data_edits), small[1]))
    reader.check((small[0], edited(small[1], edits)))


def seal(content: bytearray) -> bytearray:
    """Write the checksums of a directory anew, so that they hold."""
    if len(content) >= 80:
        num_rows, num_streams, kinds_nbytes = struct.unpack_from("<3I", content, 12)
        end = 80 + 56 * num_rows + 16 * num_streams + kinds_nbytes
        content[48:64] = xxhash.xxh3_128_digest(content[end:])
        content[64:80] = xxhash.xxh3_128_digest(content[:64] + content[80:end])
    return content


@pytest.mark.parametrize("offset", range(0, 24, 4))
def test_C12_directories_with_another_header_are_refused(small: Files, tmp_path: Path, offset: int) -> None:
    """Its words are magic and version, and the numbers of rows, streams, and bytes of kinds and texts."""
    for change in (-1, 1, 1 << 20):
        content = bytearray(small[1])
        (value,) = struct.unpack_from("<I", content, offset)
        struct.pack_into("<I", content, offset, value + change & 0xFFFFFFFF)
        path = tmp_path / "directory"
        path.write_bytes(seal(content))
        with open(path, "rb") as file, pytest.raises(Refused):
            read_directory(file.fileno(), len(content), len(small[0]))


@settings(max_examples=300)
@given(_edits())
def test_C12_invalid_directories_raise_no_other_error(
    small: Files, tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, int, int, bytes]]
) -> None:
    """Where all checksums are right, too, reading raises Refused or nothing: an edit may leave a valid directory."""
    path = tmp_path_factory.getbasetemp() / "directory"
    content = seal(bytearray(edited(small[1], edits)))
    path.write_bytes(content)
    with open(path, "rb") as file:
        for read in (lambda: read_directory(file.fileno(), len(content), len(small[0])),
                     lambda: read_texts(file.fileno(), len(content))):  # fmt: skip
            with contextlib.suppress(Refused):
                read()


def test_C02_segments_with_swapped_names_stay_exact(tmp_path: Path) -> None:
    files = [sealed_files(tmp_path / f"{number}", [key], SMALL) for number, key in enumerate(KEYS[:2])]
    folder = alone(tmp_path / "cache", files[1], 0)
    write_files(folder, files[0], 1)
    assert assert_exact_or_missing(FrameStore(os.fspath(folder)), SMALL_FRAMES) == len(SMALL_FRAMES)


def test_C02_directories_of_other_data_give_nothing(tmp_path: Path) -> None:
    """Data of the same size, so that everything else fits."""
    frames = [
        [StoredFrame(number, KINDS[0], bytes([10 * at + number]) * 40, 1) for number in range(4)] for at in (0, 1)
    ]
    files = []
    for at in (0, 1):
        with FrameStore(os.fspath(tmp_path / f"{at}")) as store:
            store.add(KEYS[0], "", frames[at])
        (path,) = segments(tmp_path / f"{at}")
        files.append((path.read_bytes(), directory_of(path).read_bytes()))
    folder = alone(tmp_path / "cache", (files[0][0], files[1][1]))
    store = FrameStore(os.fspath(folder))
    assert read_frames_of_any(store, KEYS[0], range(4)) == {}
    assert store.counts.frames_damaged == 4


def test_C02_bytes_of_other_frames_are_never_given(tmp_path: Path) -> None:
    """Frames of one size, so that everything else fits."""
    with FrameStore(os.fspath(tmp_path)) as store:
        frames = [StoredFrame(number, KINDS[0], bytes([number]) * 40, 1) for number in range(4)]
        store.add(KEYS[0], "", frames)
        store.add(KEYS[1], "", frames)
    (path,) = segments(tmp_path)
    content = path.read_bytes()
    first, second = content.index(bytes(40) + b"\1" * 40), content.rindex(bytes(40) + b"\1" * 40)
    assert first < second
    for one, other in ((first, second), (first, first + 40)):
        mixed = bytearray(content)
        mixed[one : one + 40], mixed[other : other + 40] = content[other : other + 40], content[one : one + 40]
        path.write_bytes(mixed)
        store = FrameStore(os.fspath(tmp_path))
        for key in KEYS[:2]:
            for number, data in read_frames_of_any(store, key, range(4)).items():
                assert data == bytes([number]) * 40


def test_C09_a_file_that_shrinks_while_it_is_open_is_missing(tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path)) as store:
        add(store, KEYS[0], range(40))
        store.flush()
        assert len(read_all(store, KEYS[0], range(40))) == 40
        (path,) = segments(tmp_path)
        locations = store.find(KEYS[0], np.arange(40))
        os.truncate(path, int(locations.rows["offset"][20]))
        assert read_all(store, KEYS[0], range(40)).keys() == set(range(20))
        assert store.counts.frames_damaged == 20
        os.truncate(path, 0)
        assert read_all(store, KEYS[0], range(40)) == {}


def test_C12_a_directory_that_is_damaged_later_is_refused_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_index, "MOST_BYTES", 0)
    for number, key in enumerate(KEYS[:2]):
        write_segment(tmp_path, number, [(key, range(30))])
    store = FrameStore(os.fspath(tmp_path))
    assert assert_exact_or_missing(store, frames_of(KEYS[:2], range(30))) == 60
    path = directory_of(tmp_path / name_of(0))
    content = path.read_bytes()
    # In place, so that nothing tells.
    with open(path, "r+b") as file:
        file.write(flipped(content, 1000, 8))
    assert assert_exact_or_missing(store, frames_of(KEYS[:2], range(30))) == 30
    assert store.counts.segments_refused == 1
    assert store.info().refused.keys() == {name_of(0)}
    assert store.counts.segments_refused == 1


def test_damaged_frames_are_not_found_again_but_their_duplicates_are(tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path)) as store:
        for version in range(3):
            add(store, KEYS[0], range(10), version)
            store.flush()
        locations = store.find(KEYS[0], np.arange(10))
        newest = max(segments(tmp_path), key=lambda path: path.read_bytes().count(data_of(KEYS[0], 4, 2)))
        content = newest.read_bytes()
        newest.write_bytes(flipped(content, int(locations.rows["offset"][4]), 1))
        assert 4 not in read_all(store, KEYS[0], range(10))
        assert read_all(store, KEYS[0], [4, 5]) == {4: data_of(KEYS[0], 4, 1), 5: data_of(KEYS[0], 5, 2)}
        assert store.counts.frames_damaged == 1
        again = store.find(KEYS[0], np.arange(10))
        assert (again.segment != locations.segment).tolist() == [number == 4 for number in range(10)]


def test_C01_of_several_frames_the_damaged_one_alone_is_not_found_again(tmp_path: Path) -> None:
    """The frames that are read are some of those that were asked for: their numbers are not those of the answer."""
    with FrameStore(os.fspath(tmp_path)) as store:
        add(store, KEYS[0], range(4))
    (path,) = segments(tmp_path)
    content = bytearray(path.read_bytes())
    start = content.index(data_of(KEYS[0], 2))
    content[start] ^= 1
    path.write_bytes(content)
    with FrameStore(os.fspath(tmp_path)) as store:
        locations = store.find(KEYS[0], np.arange(4))
        buffers = [memoryview(bytearray(int(locations.rows["nbytes"][index]))) for index in (1, 2)]
        assert store.read(locations, [1, 2], buffers) == [True, False]
        assert store.find(KEYS[0], np.arange(4)).is_there.tolist() == [True, True, False, True]
        assert (store.counts.frames_read, store.counts.frames_damaged) == (1, 1)


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("asked", [[5, 1, 2, 4, 0, 3], [2, 5, 2, 2, 0], [3, 2], [0, 1, 2, 3, 4, 5]])
def test_C01_damage_in_any_order_is_told_of_its_own_frames(tmp_path: Path, asked: list[int], *, is_cut: bool) -> None:
    """Frame 2 is flipped, and 4 and 5 lie past the end of a file that is cut after its directory was read."""
    with FrameStore(os.fspath(tmp_path)) as store:
        add(store, KEYS[0], range(6))
    (path,) = segments(tmp_path)
    with FrameStore(os.fspath(tmp_path)) as store:
        locations = store.find(KEYS[0], np.arange(6))
        offsets = locations.rows["offset"].tolist()
        with path.open("r+b") as file:
            file.seek(offsets[2])
            first = file.read(1)[0]
            file.seek(offsets[2])
            file.write(bytes([first ^ 1]))
            if is_cut:
                file.truncate(offsets[4] + 1)
        buffers = [memoryview(bytearray(locations.rows["nbytes"][i])) for i in asked]
        damaged = {2, 4, 5} if is_cut else {2}
        assert store.read(locations, asked, buffers) == [i not in damaged for i in asked]
        expected = [data_of(KEYS[0], i) for i in asked if i not in damaged]
        assert [bytes(buffer) for i, buffer in zip(asked, buffers, strict=True) if i not in damaged] == expected
        assert store.find(KEYS[0], np.arange(6)).is_there.tolist() == [
            i not in damaged or i not in asked for i in range(6)
        ]


def test_verify_names_what_is_damaged(tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path), StoreOptions(segment_bytes=1)) as store:
        for number in range(30):
            add(store, KEYS[0], [number])
        store.flush()
        locations = store.find(KEYS[0], np.arange(30))
        for number in (3, 17):
            (path,) = (p for p in segments(tmp_path) if data_of(KEYS[0], number) in p.read_bytes())
            content = path.read_bytes()
            path.write_bytes(flipped(content, int(locations.rows["offset"][number]), 4))
        (refused,) = {path.name for path in segments(tmp_path) if data_of(KEYS[0], 5) in path.read_bytes()}
        directory_of(tmp_path / refused).write_bytes(b"something else" * 50)
    with FrameStore(os.fspath(tmp_path)) as store:
        verified = store.verify()
        assert sorted(number for numbers in verified.damaged.values() for number in numbers) == [3, 17]
        assert verified.refused == {refused: "its directory is not one of a frame cache"}
        missing = set(range(30)) - read_all(store, KEYS[0], range(30)).keys()
        assert {3, 17, 5} <= missing
        assert store.counts.frames_damaged == 0


class _Runs:
    """What does something when it is unpickled."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self._path,)


def test_C06_nothing_that_is_read_is_run(tmp_path: Path, small: Files) -> None:
    trap = tmp_path / "trap"
    pickled = pickle.dumps(_Runs(os.fspath(trap)))
    folder = alone(tmp_path / "cache", (pickled, pickled * 9))
    write_files(folder, (pickled[: len(small[0])].ljust(len(small[0])), small[1]), 1)
    write_files(folder, segment_of(FRAMES, Said(kinds=pickled)), 2)
    write_files(folder, segment_of(FRAMES, Said(texts=pickled)), 3)
    (folder / f"frames-{4:032x}.9000.new").write_bytes(pickled)
    with FrameStore(os.fspath(folder)) as store:
        assert_exact_or_missing(store, SMALL_FRAMES)
        add(store, KEYS[0], range(3))
        store.verify()
        store.info()
        assert store.counts.segments_refused == 2
    assert not trap.exists()
    pickle.loads(pickled)
    assert trap.exists()


def test_segments_by_the_specification_are_read(tmp_path: Path) -> None:
    folder = alone(tmp_path / "cache", segment_of(FRAMES))
    store = FrameStore(os.fspath(folder))
    assert read_frames_of_any(store, KEY, range(5)) == FRAMES
    locations = store.find(KEY, np.arange(4))
    assert locations.kinds == (Kind("raw", "rgb24 1x1 2 0 p"),)
    assert locations.rows["raw_nbytes"].tolist() == [100, 101, 102, 103]
    assert store.info().descriptions == {KEY.hex(): "a stream"}


def test_C12_C16_hostile_segments_are_missing_and_memory_is_bounded(tmp_path: Path) -> None:
    report = report_of("tests.cache.store.bounded_reading", os.fspath(tmp_path))
    assert report["believed"] == []
    assert report["found"] == 0
    assert report["counted"] == report["files"] == len(report["refused"]) > 30
    reasons = report["refused"]
    assert "has format 3, and this version of framefeed reads format 2" in reasons["another format"]
    for why, names in {
        "the file is damaged: a frame has an unknown kind": ("kinds that are none", "kinds below none", "no kinds"),
        "the file is damaged: a frame has an unknown stream": ("streams that are none", "streams below none"),
        "the file is damaged: a frame has an impossible size": ("negative sizes", "negative bombs"),
        "the file is damaged: its frames overlap, or lie outside the file": (
            "beyond the end", "wrapping around", "before the beginning", "one over the other", "backwards",
            "large sizes", "one byte too many"),
        "the file is cut off, or belongs to another directory": (
            "no data", "less data", "more data", "large only by name"),
        "its directory is cut off": ("a short header", "an empty directory", "more rows", "fewer rows",
                                     "more than it says", "much more", "a directory large only by name"),
        "the file is damaged: its directory has impossible numbers": (
            "far more rows", "too many rows", "no rows", "far more streams", "no streams", "created before"),
        "the file is damaged: its directory has too many kinds or descriptions": (
            "more kinds", "too many kinds", "more texts", "negative texts", "long texts"),
    }.items():  # fmt: skip
        assert {name: reasons[name] for name in names} == dict.fromkeys(names, why)


def read_frames_of_any(store: FrameStore, key: bytes, numbers: Sequence[int]) -> dict[int, bytes]:
    """Those that are sound, of frames that are not made by ``frame_of``."""
    locations = store.find(key, np.array(numbers))
    where = np.flatnonzero(locations.is_there).tolist()
    buffers = [memoryview(bytearray(int(locations.rows["nbytes"][at]))) for at in where]
    sound = store.read(locations, where, buffers)
    return {numbers[at]: bytes(buffer) for at, buffer, ok in zip(where, buffers, sound, strict=True) if ok}


def test_C02_damaged_files_can_be_removed_and_frames_stored_again(tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path)) as store:
        for key in KEYS:
            add(store, key, SMALL)
            store.flush()
    whole, flipped, torn = segments(tmp_path)
    content = bytearray(flipped.read_bytes())
    frame = next(data for data in frames_of(KEYS, SMALL).values() if data and data in content)
    content[content.index(frame)] ^= 1
    flipped.write_bytes(content)
    freed = len(content) + directory_of(flipped).stat().st_size
    directory_of(torn).write_bytes(directory_of(torn).read_bytes()[:-100])
    newer = write_files(tmp_path, segment_of(FRAMES, Said(header={"format": 99})), 10)
    linked = write_files(tmp_path, segment_of(FRAMES), 11)
    linked.unlink()
    linked.symlink_to(whole)
    foreign = tmp_path / "frames-notes.data"
    foreign.write_text("mine")
    with FrameStore(os.fspath(tmp_path)) as store:
        verified = store.verify()
        assert (set(verified.damaged), set(verified.refused)) == (
            {flipped.name},
            {torn.name, newer.name, linked.name},
        )
        removed = store.drop_damaged(verified)
        assert removed == {flipped.name: freed, torn.name: removed[torn.name]}
        assert not any(path.exists() for each in (flipped, torn) for path in (each, directory_of(each)))
        again = store.verify()
        assert (again.damaged, set(again.refused)) == ({}, {newer.name, linked.name})
        assert store.drop_damaged(again) == {}
        missing = [key for key in KEYS if not read_all(store, key, SMALL)]
        assert len(missing) == 2
        for key in missing:
            assert add(store, key, SMALL)
        assert {(key, n): data for key in KEYS for n, data in read_all(store, key, SMALL).items()} == frames_of(
            KEYS, SMALL
        )
    assert whole.exists()
    assert linked.is_symlink()
    assert foreign.read_text() == "mine"

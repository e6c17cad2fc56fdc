"""FrameStore: what is found is what was added, whoever added it, in whatever order, however often."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from framefeed.cache.store import _segment_writer, _streams
from framefeed.cache.store._format import MISS, FrameLocations, Kind, StoredFrame, StoreOptions
from framefeed.cache.store._store import FrameStore
from framefeed.errors import CacheError, UsageError
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
    parts,
    read_all,
    segments,
)

NUMBERS = range(7)
NUM_STORES = 3

Versions = dict[tuple[bytes, int], list[tuple[int, int]]]
"""Of each frame: (store that added it, version), in the order in which they were added."""


class Stores(RuleBasedStateMachine):
    """Several stores over one folder, each of which stands for a process, against dictionaries."""

    max_bytes: int | None = None
    store_type: type[FrameStore] = FrameStore

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="framefeed-")) / "cache"
        self.versions = 0
        self.ever: Versions = {}
        self.sealed: Versions = {}
        self.pending: list[Versions] = [{} for _ in range(NUM_STORES)]
        self.stores = [self.opened() for _ in range(NUM_STORES)]

    def opened(self) -> FrameStore:
        return self.store_type(os.fspath(self.folder), StoreOptions(self.max_bytes, segment_bytes=2500))

    @rule(
        who=st.integers(0, NUM_STORES - 1),
        key=st.sampled_from(KEYS),
        numbers=st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=8),
    )
    def add(self, who: int, key: bytes, numbers: list[int]) -> None:
        store = self.stores[who]
        before = {path.name for path in segments(self.folder)}
        frames = []
        for number in numbers:
            self.versions += 1
            frames.append(frame_of(key, number, self.versions))
        is_stored = store.add(key, description_of(key), frames)
        if {path.name for path in segments(self.folder)} - before:
            self.seal(who)
        others_write = any(other.counts.frames_written for other in self.stores if other is not store)
        is_told = store.is_full and store.trouble is not None
        assert is_stored or (self.max_bytes is not None and (is_told or (others_write and store.trouble is None)))
        if not is_stored:
            self.pending[who] = {}
            return
        first = self.versions - len(numbers) + 1
        for version, number in enumerate(numbers, first):
            self.ever.setdefault((key, number), []).append((who, version))
            self.pending[who].setdefault((key, number), []).append((who, version))

    def seal(self, who: int) -> None:
        for name, versions in self.pending[who].items():
            self.sealed.setdefault(name, []).extend(versions)
        self.pending[who] = {}

    @rule(who=st.integers(0, NUM_STORES - 1), how=st.sampled_from(["flush", "close", "reopen"]))
    def flush(self, who: int, how: str) -> None:
        if how == "flush":
            self.stores[who].flush()
        else:
            self.stores[who].close()
        if how == "reopen":
            self.stores[who] = self.opened()
        self.seal(who)

    @rule(who=st.integers(0, NUM_STORES - 1), key=st.sampled_from(KEYS), numbers=st.lists(st.sampled_from(NUMBERS)))
    def find(self, who: int, key: bytes, numbers: list[int]) -> None:
        for number, data in read_all(self.stores[who], key, numbers).items():
            assert data in {data_of(key, number, version) for _, version in self.ever.get((key, number), [])}
        for number in numbers:
            own = self.pending[who].get((key, number))
            if own is not None:
                assert read_all(self.stores[who], key, [number]) == {number: data_of(key, number, own[-1][1])}

    @rule(who=st.integers(0, NUM_STORES - 1))
    def refresh_store(self, who: int) -> None:
        self.stores[who].refresh()
        for key in KEYS:
            got = read_all(self.stores[who], key, NUMBERS)
            for number in NUMBERS:
                name = (key, number)
                versions = self.sealed.get(name, []) + self.pending[who].get(name, [])
                assert (number in got) == bool(versions)
                if not versions:
                    continue
                allowed = {version for _, version in versions}
                if len({writer for writer, _ in versions}) == 1:
                    allowed = {versions[-1][1]}
                assert got[number] in {data_of(key, number, version) for version in allowed}

    @rule(who=st.integers(0, NUM_STORES - 1))
    def clear(self, who: int) -> None:
        self.stores[who].clear()
        self.sealed.clear()
        self.pending[who] = {}
        assert segments(self.folder) == []
        assert self.stores[who].trouble is None

    @rule()
    def copy(self) -> None:
        if not self.folder.exists():
            return
        copied = self.folder.with_name(f"copied{self.versions}")
        shutil.copytree(self.folder, copied)
        store = FrameStore(os.fspath(copied))
        for key in KEYS:
            assert read_all(store, key, NUMBERS).keys() == {number for each, number in self.sealed if each == key}
        shutil.rmtree(copied)

    @invariant()
    def stays_within_its_budget(self) -> None:
        assert self.max_bytes is None or disk_bytes(self.folder) <= self.max_bytes

    @invariant()
    def nothing_was_damaged(self) -> None:
        assert sum(store.counts.segments_refused for store in self.stores) == 0

    def teardown(self) -> None:
        for store in getattr(self, "stores", []):
            store.close()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder.parent)


class StoresWithABudget(Stores):
    """The same where there is room for little."""

    max_bytes = 8_000


class StoresThatAreNotCleared(Stores):
    """The same where more frames are stored several times."""

    def clear(self, who: int) -> None:
        """Is no rule."""


STEPS = settings(max_examples=20, stateful_step_count=25)


@pytest.mark.parametrize("machine", [Stores, StoresWithABudget])
def test_found_frames_are_the_added_frames(machine: type[Stores]) -> None:
    run_state_machine_as_test(machine, settings=STEPS)


@pytest.mark.parametrize("most", [1, 1 << 40])
def test_frames_are_found_in_many_groups_and_in_one(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_streams, "MAX_GROUP", most)
    run_state_machine_as_test(Stores, settings=STEPS)


class BlindToTheKey(FrameStore):
    """Finds frames of another stream where one has none."""

    compared = 0
    """Bytes of a key that must be equal."""

    def find(self, key: bytes, numbers: npt.NDArray[np.int64]) -> FrameLocations:
        locations = super().find(key, numbers)
        for other in KEYS:
            if not locations.is_there.any() and other[: self.compared] == key[: self.compared]:
                locations = super().find(other, numbers)
        return locations


class BlindToHalfOfTheKey(BlindToTheKey):
    compared = 8


class KeepsTheOldest(FrameStore):
    """Does not store what it has."""

    def add(self, key: bytes, description: str, frames: Sequence[StoredFrame]) -> bool:
        there = self.find(key, np.array([frame.number for frame in frames])).is_there.tolist()
        return super().add(
            key, description, [frame for frame, is_there in zip(frames, there, strict=True) if not is_there]
        )


class NeverRefreshes(FrameStore):
    """Has what it had when it was opened, and its own frames, whatever others do."""

    def __init__(self, path: str, options: StoreOptions | None = None) -> None:
        super().__init__(path, options)
        super().refresh()
        self._first = {key: super(NeverRefreshes, self).find(key, np.array(NUMBERS)) for key in KEYS}
        self._own = set[tuple[bytes, int]]()

    def add(self, key: bytes, description: str, frames: Sequence[StoredFrame]) -> bool:
        is_stored = super().add(key, description, frames)
        self._own |= {(key, frame.number) for frame in frames if is_stored}
        return is_stored

    def find(self, key: bytes, numbers: npt.NDArray[np.int64]) -> FrameLocations:
        locations = super().find(key, numbers)
        for i, number in enumerate(numbers.tolist()):
            if not self._first[key].is_there[number] and (key, number) not in self._own:
                locations.refs[i] = MISS
        return locations


class ReadsBeside(FrameStore):
    """Gives the bytes that begin one byte later."""

    def read(self, locations: FrameLocations, indices: Sequence[int], buffers: Sequence[memoryview]) -> list[bool]:
        sound = super().read(locations, indices, buffers)
        for buffer in buffers:
            buffer[:] = bytes([*buffer[1:], *buffer[:1]])
        return sound


class ForgetsItsDirectories(FrameStore):
    """Does not count all bytes for its budget."""

    def __init__(self, path: str, options: StoreOptions) -> None:
        assert options.max_bytes is not None
        super().__init__(path, replace(options, max_bytes=options.max_bytes + 1500))


@pytest.mark.parametrize(
    ("store_type", "machine"),
    [
        (BlindToTheKey, Stores),
        (BlindToHalfOfTheKey, Stores),
        (KeepsTheOldest, StoresThatAreNotCleared),
        (NeverRefreshes, Stores),
        (ReadsBeside, Stores),
        (ForgetsItsDirectories, StoresWithABudget),
    ],
)
def test_wrong_stores_are_caught(store_type: type[FrameStore], machine: type[Stores]) -> None:
    wrong = type(store_type.__name__, (machine,), {"store_type": store_type})
    hurried = settings(STEPS, phases=[Phase.generate], max_examples=1000, print_blob=False, report_multiple_bugs=False)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(wrong, settings=hurried)


def test_nothing_is_made_before_the_first_frame(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "cache"
    with FrameStore(os.fspath(folder)) as store:
        assert read_all(store, KEYS[0], range(3)) == {}
        assert store.add(KEYS[0], "", [])
        store.refresh()
        store.flush()
        assert (store.info().num_segments, store.verify().num_frames, store.clear()) == (0, 0, 0)
        assert not folder.parent.exists()
        assert add(store, KEYS[0], range(3))
    assert len(segments(folder)) == 1
    assert parts(folder) == []


def test_frames_are_found_in_any_order_and_number(tmp_path: Path) -> None:
    frames = frames_of(KEYS, range(40))
    with FrameStore(os.fspath(tmp_path)) as store:
        for key in KEYS:
            add(store, key, range(39, -1, -1))
        for state in ("open", "sealed", "reopened"):
            for numbers in ([7], [3, 3, 9], range(0, 40, 3), [39, 0, 41, -5, 2**62], []):
                for key in KEYS:
                    expected = {number: frames[key, number] for number in numbers if (key, number) in frames}
                    assert read_all(store, key, numbers) == expected, state
            store.flush() if state == "open" else store.close()


def test_a_clip_is_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FrameStore(os.fspath(tmp_path)) as store:
        add(store, KEYS[0], range(5))
        add(store, KEYS[1], range(16))
        store.flush()
        reads: list[int] = []
        right = os.preadv

        def counted(file: int, buffers: list[memoryview], offset: int) -> int:
            reads.append(len(buffers))
            return right(file, buffers, offset)

        monkeypatch.setattr(os, "preadv", counted)
        assert len(read_all(store, KEYS[1], range(16))) == 16
        assert len(read_all(store, KEYS[1], [15, 3, 4, 5, 0])) == 5
    assert reads == [16, 1, 3, 1]


def test_frames_do_not_begin_where_copying_is_slow(tmp_path: Path) -> None:
    """Those whose size is a multiple of 256 bytes, read into a batch, or into memory 16 bytes after such a multiple."""
    with FrameStore(os.fspath(tmp_path)) as store:
        for first in (0, 4, 8):
            frames = [frame_of(KEYS[0], n, data=bytes(16 * 16 * 3)) for n in range(first, first + 4)]
            store.add(KEYS[0], "", frames)
        offsets = store.find(KEYS[0], np.arange(12)).rows["offset"]
    for begin in (0, 16, 64, 128, 192):
        assert not (((begin - offsets) % 256 > 0) & ((begin - offsets) % 256 < 64)).any()
    assert not (offsets % 64).any()


def test_more_buffers_than_one_call_takes(tmp_path: Path) -> None:
    frames = frames_of(KEYS[:1], range(2500))
    with FrameStore(os.fspath(tmp_path)) as store:
        add(store, KEYS[0], range(2500))
        assert assert_exact_or_missing(store, frames) == 2500
        store.close()
        assert assert_exact_or_missing(store, frames) == 2500


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, buffers, offset: right(file, [buffers[0][:3]], offset))
    with FrameStore(os.fspath(tmp_path)) as store:
        add(store, KEYS[0], range(20))
        assert assert_exact_or_missing(store, frames_of(KEYS[:1], range(20))) == 20


def test_counts(tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path)) as store:
        add(store, KEYS[0], range(10))
        nbytes = sum(len(data_of(KEYS[0], number)) for number in range(10))
        assert (store.counts.frames_written, store.counts.bytes_written) == (10, nbytes)
        read_all(store, KEYS[0], range(-3, 13))
        counts = store.counts
        assert (counts.frames_read, counts.bytes_read, counts.frames_damaged) == (10, nbytes, 0)


def test_info_and_verify_count_the_contents(tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path)) as store:
        add(store, KEYS[0], range(10))
        store.flush()
        add(store, KEYS[0], range(5))
        add(store, KEYS[1], range(5, 10))
        info = store.info()
        assert (info.num_segments, info.num_frames, len(info.unfinished)) == (1, 10, 1)
        store.flush()
        info = store.info()
        sizes = [
            len(data_of(key, n))
            for key, numbers in ((KEYS[0], [*range(10), *range(5)]), (KEYS[1], range(5, 10)))
            for n in numbers
        ]
        assert (info.num_segments, info.num_frames, info.stored_bytes) == (2, 20, sum(sizes))
        assert info.bytes_on_disk == disk_bytes(tmp_path)
        assert info.raw_bytes == sum(1000 + n % 7 for numbers in (range(10), range(5), range(5, 10)) for n in numbers)
        assert info.descriptions == {key.hex(): description_of(key) for key in KEYS[:2]}
        assert info.kinds.keys() == set(KINDS)
        assert sum(count for count, _ in info.kinds.values()) == 20
        progress: list[int] = []
        verified = store.verify(progress.append)
        assert (verified.num_segments, verified.num_frames, verified.damaged, verified.refused) == (2, 20, {}, {})
        assert sum(progress) == verified.num_bytes >= info.stored_bytes


def test_wrong_questions_are_refused(tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path)) as store:
        add(store, KEYS[0], range(3))
        locations = store.find(KEYS[0], np.arange(3))
        with pytest.raises(UsageError, match="buffers: expected"):
            store.read(locations, [0], [memoryview(bytearray(3))])
        with pytest.raises(UsageError, match="expected 16 bytes, got 3"):
            store.find(b"abc", np.arange(3))
        with pytest.raises(UsageError, match="expected 16 bytes, got 17"):
            store.add(bytes(17), "", [frame_of(KEYS[0], 1)])
        with pytest.raises(TypeError, match="each process"):
            pickle.dumps(store)
        missing = store.find(KEYS[1], np.arange(1))
        assert missing.segment.tolist() == [MISS]
        assert store.read(missing, [0], [memoryview(bytearray(0))]) == [False]
        assert repr(store) == f"FrameStore({os.fspath(tmp_path)!r})"
    with pytest.raises(CacheError, match="expected a folder"):
        FrameStore(os.fspath(segments(tmp_path)[0]))


def test_frames_that_no_segment_holds_are_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_segment_writer, "MAX_FRAME_BYTES", 50)
    with FrameStore(os.fspath(tmp_path)) as store:
        assert not store.add(KEYS[0], "", [StoredFrame(0, KINDS[0], bytes(51), 3)])
        assert not store.add(KEYS[0], "", [StoredFrame(0, KINDS[0], bytes(3), 51)])
        assert store.add(KEYS[0], "", [StoredFrame(0, KINDS[0], bytes(50), 50)])
        assert store.trouble is None


def test_a_segment_is_sealed_when_it_is_large_enough(tmp_path: Path) -> None:
    size = 40_000
    with FrameStore(os.fspath(tmp_path), StoreOptions(segment_bytes=size)) as store:
        for number in range(100):
            store.add(KEYS[0], "", [frame_of(KEYS[0], number, data=bytes(1000))])
        store.add(KEYS[0], "", [frame_of(KEYS[0], 100, data=bytes(100_000))])
        store.add(KEYS[0], "", [frame_of(KEYS[0], 101, data=bytes(1000))])
    sizes = sorted(path.stat().st_size + directory_of(path).stat().st_size for path in segments(tmp_path))
    assert 100_000 < sizes[-1] < 110_000
    assert all(size * 0.6 < each <= size for each in sizes[1:-1])


def test_many_kinds_and_rows_seal_a_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_segment_writer, "MAX_KINDS_BYTES", 200)
    monkeypatch.setattr(_segment_writer, "MAX_ROWS", 40)
    frames = {}
    with FrameStore(os.fspath(tmp_path)) as store:
        for number in range(30):
            kind = Kind("raw", f"rgb24 {number}x{number} 2 0 p")
            frames[number] = StoredFrame(number, kind, data_of(KEYS[0], number), number)
            assert store.add(KEYS[0], "", [frames[number]] * 2)
        assert not store.add(KEYS[0], "", [frames[0]] * 41)
        assert store.trouble is None
        locations = store.find(KEYS[0], np.arange(30))
    assert [locations.kinds[kind] for kind in locations.rows["kind"]] == [frame.kind for frame in frames.values()]
    assert len(segments(tmp_path)) > 3


def test_frames_of_several_segments_in_one_answer(tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path), StoreOptions(segment_bytes=1)) as store:
        for number in range(20):
            add(store, KEYS[number % 2], [number])
        assert assert_exact_or_missing(store, {(KEYS[n % 2], n): data_of(KEYS[n % 2], n) for n in range(20)}) == 20
    assert len(segments(tmp_path)) > 5


def test_the_newest_of_duplicates_counts(tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path)) as store, FrameStore(os.fspath(tmp_path)) as watching:
        for version in range(12):
            add(store, KEYS[0], range(3), version)
            add(store, KEYS[1], [0], version)
            assert read_all(store, KEYS[0], [1]) == {1: data_of(KEYS[0], 1, version)}, "before they are sealed"
            store.flush()
            watching.refresh()
            for each in (store, watching, FrameStore(os.fspath(tmp_path))):
                assert read_all(each, KEYS[0], [1]) == {1: data_of(KEYS[0], 1, version)}
    # A clock that went backwards changes nothing about that.
    with FrameStore(os.fspath(tmp_path)) as store, pytest.MonkeyPatch.context() as patch:
        store.refresh()
        patch.setattr(time, "time_ns", lambda: 5)
        add(store, KEYS[0], [1], 99)
    assert read_all(FrameStore(os.fspath(tmp_path)), KEYS[0], [1]) == {1: data_of(KEYS[0], 1, 99)}


def test_no_segment_is_larger_than_it_may_be(tmp_path: Path) -> None:
    # Each frame is of a stream of its own, as pictures are: keys are a part of the directory.
    streams = [bytes([number]) * 16 for number in range(40)]
    for most in range(1000, 1160, 4):
        folder = tmp_path / str(most)
        with FrameStore(os.fspath(folder), StoreOptions(segment_bytes=most)) as store:
            for key in streams:
                assert store.add(key, "", [frame_of(key, 0, data=b"1234")])
        files = segments(folder)
        assert len(files) > 1
        assert all(path.stat().st_size + directory_of(path).stat().st_size <= most for path in files), most


def test_a_store_that_is_not_closed_is_sealed_when_it_is_collected(tmp_path: Path) -> None:
    store = FrameStore(os.fspath(tmp_path))
    add(store, KEYS[0], range(5))
    del store
    assert parts(tmp_path) == []
    assert assert_exact_or_missing(FrameStore(os.fspath(tmp_path)), frames_of(KEYS[:1], range(5))) == 5

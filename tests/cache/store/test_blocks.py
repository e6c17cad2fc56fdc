"""Segments are written block by block: nothing that a store says or keeps depends on it."""

from __future__ import annotations

import errno
import gc
import os
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from framefeed.cache.store import _files
from framefeed.cache.store._files import BlockFile, Descriptor, fill_buffer
from framefeed.cache.store._format import StoreOptions
from framefeed.cache.store._store import FrameStore
from tests.cache.store.faults import Faults, faulty
from tests.cache.store.made import (
    KEYS,
    add,
    assert_exact_or_missing,
    frame_of,
    frames_of,
    parts,
    read_all,
    sealed_files,
    segments,
)
from tests.cache.store.test_store import STEPS, Stores, StoresWithABudget
from tests.patience import PATIENCE_SECONDS

FRAMES = frames_of(KEYS, range(40))


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """Bytes of a block."""
    nbytes: int = request.param
    monkeypatch.setattr(_files, "BLOCK_BYTES", nbytes)
    return nbytes


def open_file(path: Path) -> BlockFile:
    return BlockFile(Descriptor(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)))


@pytest.mark.parametrize(
    ("blocks", "machine"),
    [
        *((1, Stores), (160, StoresWithABudget), (700, Stores)),
        pytest.param(160, Stores, marks=pytest.mark.test_all),
        *(pytest.param(blocks, StoresWithABudget, marks=pytest.mark.test_all) for blocks in (1, 700)),
    ],
    indirect=["blocks"],
)
def test_found_frames_are_the_added_frames(blocks: int, machine: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(machine, settings=STEPS)


class Files(RuleBasedStateMachine):
    """A file in blocks, against bytes; writes that fail are made again, as a store does it in a shortage."""

    @initialize()
    def begin(self) -> None:
        self.file = BlockFile(Descriptor(os.memfd_create("blocks")))
        self.expected = bytearray()

    @rule(
        lengths=st.lists(st.integers(0, 40), max_size=4),
        fails_at=st.none() | st.integers(0, 8),
        fill=st.integers(1, 255),
    )
    def write(self, lengths: list[int], fails_at: int | None, fill: int) -> None:
        parts = [bytes([(fill + number) % 256]) * length for number, length in enumerate(lengths)]
        buffers, end = [memoryview(part) for part in parts], len(self.expected)
        if fails_at is not None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(os, "pwritev", _failing(os.pwritev, fails_at))
                with suppress(OSError):
                    self.file.write(buffers, end)
        assert self.file.write(buffers, end) == end + sum(lengths)
        self.expected += b"".join(parts)

    @rule()
    def flush(self) -> None:
        self.file.flush(len(self.expected))
        assert os.pread(self.file.number, 10_000, 0) == self.expected

    @rule(offset=st.integers(0, 400), length=st.integers(0, 100))
    def read(self, offset: int, length: int) -> None:
        part = self.expected[offset : offset + length]
        buffer = bytearray(len(part))
        assert fill_buffer(self.file, memoryview(buffer), offset)
        assert buffer == part

    @invariant()
    def keeps_less_than_a_block(self) -> None:
        if hasattr(self, "file"):
            assert len(self.expected) - os.fstat(self.file.number).st_size < _files.BLOCK_BYTES


def _failing(right: Any, at: int) -> Any:
    """Make a call that fails once, and writes one byte at a time before."""
    count = iter(range(1 << 20))

    def call(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        if next(count) == at:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        done: int = right(descriptor, [buffers[0][:1]], offset)
        return done

    return call


@pytest.mark.parametrize("blocks", [1, 3, 32, 1000], indirect=True)
def test_a_file_has_what_was_written(blocks: int) -> None:
    run_state_machine_as_test(Files, settings=STEPS)


def test_segments_are_the_same_in_blocks_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for nbytes in (7, 160, 1 << 21):
        monkeypatch.setattr(_files, "BLOCK_BYTES", nbytes)
        files.append(sealed_files(tmp_path / str(nbytes), KEYS, range(40))[0])
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize("blocks", [256], indirect=True)
def test_whole_blocks_are_written_as_soon_as_they_are_full(blocks: int, tmp_path: Path) -> None:
    """And nothing else before the end: small writes make files that take longer to read."""
    writes: list[tuple[int, int]] = []
    right = os.pwritev

    def noted(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        writes.append((offset, sum(len(buffer) for buffer in buffers)))
        return right(descriptor, buffers, offset)

    with FrameStore(os.fspath(tmp_path)) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwritev", noted)
        for number in range(40):
            add(store, KEYS[0], [number])
            (path,) = parts(tmp_path)
            assert writes == [(at, blocks) for at in range(0, path.stat().st_size, blocks)]
        assert assert_exact_or_missing(store, frames_of(KEYS[:1], range(40))) == 40
    assert len(writes) > 5


@pytest.mark.parametrize("blocks", [300], indirect=True)
def test_frames_are_exact_while_blocks_are_written(blocks: int, tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path)) as store:
        end, has_read = threading.Event(), threading.Event()
        wrong: list[str] = []

        def read() -> None:
            while not end.is_set():
                try:
                    assert_exact_or_missing(store, frames_of(KEYS[:1], range(0, 400, 7)))
                except BaseException as error:
                    wrong.append(repr(error))
                    raise
                has_read.set()

        thread = threading.Thread(target=read)
        thread.start()
        for number in range(400):
            if not number % 40:  # so that reads lie between the writes
                has_read.clear()
                assert has_read.wait(PATIENCE_SECONDS), wrong
            add(store, KEYS[0], [number])
        end.set()
        thread.join()
        assert wrong == []
        assert store.counts.frames_damaged == 0
        assert assert_exact_or_missing(store, frames_of(KEYS[:1], range(400))) == 400


@pytest.mark.parametrize("blocks", [64], indirect=True)
def test_a_reader_goes_on_in_the_memory_of_a_block_that_is_written(blocks: int, tmp_path: Path) -> None:
    """One block alone is kept otherwise, and none once the file is closed."""
    made: list[weakref.ref[Any]] = []
    right = _files._allocate_block

    def noted() -> memoryview:
        block = right()
        made.append(weakref.ref(block.obj))
        return block

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_files, "_allocate_block", noted)
        file = open_file(tmp_path / "file")
        file.write([memoryview(bytes(range(60)))], 0)
        reader = np.asarray(made[0]())
        file.write([memoryview(bytes(range(60, 200)))], 60)
        assert reader[:64].tolist() == list(range(64))
        del reader
        assert len(made) == 4
        assert [block() is not None for block in made] == [False, False, False, True]
        del file
        assert made[-1]() is None


@pytest.mark.parametrize("blocks", [256], indirect=True)
@pytest.mark.parametrize("at", range(4))
def test_a_shortage_in_the_middle_of_a_clip_repeats_it(blocks: int, at: int, tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path)) as store:
        add(store, KEYS[0], range(5))
        faults = Faults(("pwritev",), at, errno.ENOMEM)
        with faulty(faults, tmp_path):
            assert add(store, KEYS[0], range(5, 35))
        assert faults.failed == 1
        assert len(read_all(store, KEYS[0], range(35))) == 35
        assert store.counts.frames_written == 35
    assert assert_exact_or_missing(FrameStore(os.fspath(tmp_path)), frames_of(KEYS[:1], range(35))) == 35
    assert FrameStore(os.fspath(tmp_path)).verify().damaged == {}


@pytest.mark.parametrize("blocks", [2 << 20], indirect=True)
def test_a_disk_that_is_full_at_the_last_block_loses_the_segment_and_says_so(blocks: int, tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path)) as store:
        add(store, KEYS[0], range(5))
        store.flush()
        assert add(store, KEYS[1], range(5))
        with faulty(Faults(("pwritev",), 0, errno.ENOSPC, goes_on=True), tmp_path):
            store.flush()
        assert store.trouble is not None
        assert os.strerror(errno.ENOSPC) in store.trouble
        assert (store.counts.frames_written, store.counts.frames_lost) == (5, 5)
        assert read_all(store, KEYS[1], range(5)) == {}
    assert len(segments(tmp_path)) == 1
    assert parts(tmp_path) == []


@pytest.mark.parametrize("how", ["flush", "close", "collected", "full"])
def test_others_find_what_was_in_memory(how: str, tmp_path: Path) -> None:
    store = FrameStore(os.fspath(tmp_path), StoreOptions(segment_bytes=4000))
    other = FrameStore(os.fspath(tmp_path))
    assert add(store, KEYS[0], range(10))
    other.refresh()
    assert read_all(other, KEYS[0], range(10)) == {}
    if how == "full":
        assert store.add(KEYS[1], "", [frame_of(KEYS[1], 0, data=bytes(3500))])
    elif how == "collected":
        del store
        gc.collect()
    else:
        getattr(store, how)()
    other.refresh()
    assert assert_exact_or_missing(other, frames_of(KEYS[:1], range(10))) == 10

"""Memory that is lent to other processes is used again when none has it any more, and not before."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from framefeed.parallel import LentMemory
from framefeed.parallel._lent_memory import MOST_BLOCKS, MOST_IDLE
from tests.parallel.functions import shared_memory

NBYTES = 100_000
_HOLD = "import sys; print('ready', flush=True); sys.stdin.read()"


def identify(descriptor: int) -> int:
    return os.fstat(descriptor).st_ino


def lend_once(memory: LentMemory, nbytes: int = NBYTES) -> int:
    """Lend a block, take it back, and say which one it was."""
    _, descriptor = memory.lend(nbytes)
    block = identify(descriptor)
    os.close(descriptor)
    return block


@contextmanager
def holding(descriptor: int) -> Iterator[None]:
    command = [sys.executable, "-c", _HOLD]
    with subprocess.Popen(command, stdin=-1, stdout=-1, pass_fds=[descriptor]) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        os.close(descriptor)
        yield
        process.stdin.close()


@contextmanager
def copying(descriptor: int) -> Iterator[None]:
    copy = os.dup(descriptor)
    os.close(descriptor)
    yield
    os.close(copy)


@contextmanager
def mapping(descriptor: int) -> Iterator[None]:
    mapped = mmap.mmap(descriptor, NBYTES)
    os.close(descriptor)
    yield
    mapped.close()


@contextmanager
def sending(descriptor: int) -> Iterator[None]:
    """A descriptor that is on its way, in the buffer of a socket, and open nowhere."""
    one, other = socket.socketpair()
    socket.send_fds(one, [b"x"], [descriptor])
    os.close(descriptor)
    yield
    one.close()
    other.close()


@pytest.mark.parametrize("hold", [holding, copying, mapping, sending])
def test_a_block_is_lent_again_when_no_borrower_has_it(hold: Callable[[int], Any]) -> None:
    memory = LentMemory()
    descriptor = memory.lend(NBYTES)[1]
    block = identify(descriptor)
    with hold(descriptor):
        others = {lend_once(memory) for _ in range(3)}
        assert block not in others
        assert len(others) == 1
    lent = [memory.lend(NBYTES)[1] for _ in range(2)]
    assert {identify(each) for each in lent} == {block, *others}
    for each in lent:
        os.close(each)


def test_a_borrower_reads_what_is_written_before_and_after() -> None:
    memory = LentMemory()
    data, descriptor = memory.lend(NBYTES)
    data[0] = 1
    with mmap.mmap(descriptor, NBYTES) as mapped:
        data[NBYTES - 1] = 2
        assert (mapped[0], mapped[NBYTES - 1]) == (1, 2)
    os.close(descriptor)


def test_a_block_that_is_not_mapped_is_written_as_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    held, memory = len(shared_memory(None)), LentMemory()
    block, descriptor = memory.lend_unmapped(NBYTES)
    # Two descriptors, and no mapping.
    assert len(shared_memory(None)) - held == 2
    pwrite = os.pwrite
    with monkeypatch.context() as patch:
        # Linux writes some GiB in parts.
        patch.setattr(os, "pwrite", lambda file, content, start: pwrite(file, content[:1000], start))
        content = os.urandom(2500)
        block.write(memoryview(content), 500)
        block.write(memoryview(content)[:500], 0)
    assert len(shared_memory(None)) - held == 2
    assert os.pread(descriptor, 3000, 0) == content[:500] + content
    # A borrower has it: what is lent next is another one, and this one is mapped when its memory is asked for.
    other = memory.lend(NBYTES)[1]
    assert identify(other) != (file := identify(descriptor))
    os.close(descriptor)
    data, descriptor = memory.lend(NBYTES)
    assert identify(descriptor) == file
    os.pwrite(descriptor, content, 500)
    assert bytes(data[500:3000]) == content
    for each in (other, descriptor):
        os.close(each)


def test_few_free_blocks_are_kept() -> None:
    held = len(shared_memory(None))
    memory = LentMemory()
    lent = [memory.lend(NBYTES)[1] for _ in range(MOST_BLOCKS)]
    kept = {identify(descriptor) for descriptor in lent}
    assert len(kept) == MOST_BLOCKS
    for descriptor in lent:
        os.close(descriptor)
    assert lend_once(memory) in kept
    # Each of the others has a mapping and a descriptor.
    assert len(shared_memory(None)) - held == 2 * (MOST_IDLE + 1)
    del memory
    assert len(shared_memory(None)) == held


def test_blocks_that_are_held_for_long_are_left_to_their_borrowers() -> None:
    held = len(shared_memory(None))
    memory = LentMemory()
    lent = [memory.lend(NBYTES)[1] for _ in range(MOST_BLOCKS + 3)]
    assert len({identify(descriptor) for descriptor in lent}) == len(lent)
    assert len(shared_memory(None)) - held == 2 * MOST_BLOCKS + len(lent)
    left = identify(lent[0])
    for descriptor in lent:
        os.close(descriptor)
    assert left not in {lend_once(memory) for _ in range(MOST_BLOCKS)}


def test_a_block_is_large_enough_and_no_larger_than_it_must_be() -> None:
    memory = LentMemory()
    lent = [memory.lend(nbytes)[1] for nbytes in (NBYTES, 3 * NBYTES)]
    small, large = map(identify, lent)
    for descriptor in lent:
        os.close(descriptor)
    assert [lend_once(memory, nbytes) for nbytes in (2 * NBYTES, 1, 3 * NBYTES)] == [large, small, large]
    data, descriptor = memory.lend(4 * NBYTES)
    assert len(data) >= 4 * NBYTES
    assert os.fstat(descriptor).st_size >= 4 * NBYTES
    # In full, so that a shortage is no SIGBUS later.
    assert os.fstat(descriptor).st_blocks * 512 >= 4 * NBYTES
    assert identify(descriptor) not in {small, large}
    os.close(descriptor)


def test_a_shortage_and_a_system_without_locks_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    held = len(shared_memory(None))
    memory = LentMemory()
    with monkeypatch.context() as patch:

        def run_out(*arguments: int) -> None:
            raise OSError(errno.ENOSPC, "no space")

        patch.setattr(os, "posix_fallocate", run_out)
        with pytest.raises(MemoryError, match="no 102400 bytes of shared memory"):
            memory.lend(NBYTES)
    assert len(shared_memory(None)) == held
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", lambda descriptor, operation: None)
        with pytest.raises(OSError, match="locks of files"):
            memory.lend(NBYTES)
    del memory
    assert len(shared_memory(None)) == held


def test_threads_are_lent_blocks_of_their_own() -> None:
    memory, rounds, workers = LentMemory(), 300, 4
    lent: list[list[int]] = [[] for _ in range(rounds)]
    turn = threading.Barrier(workers)

    def borrow() -> None:
        for blocks in lent:
            turn.wait()
            descriptor = memory.lend(NBYTES)[1]
            blocks.append(identify(descriptor))
            turn.wait()
            os.close(descriptor)

    threads = [threading.Thread(target=borrow) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(set(blocks)) for blocks in lent] == [workers] * rounds

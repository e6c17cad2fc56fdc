"""Memory that processes share: allocated in full, without a name, without a descriptor for each block."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
from typing import Any

import pytest

from framefeed.parallel import ProcessPool, RemoteCalls, SharedMemory, SharedRange, ordered_outcomes
from framefeed.parallel import _shared_memory as module
from tests.conftest import CHECKOUT
from tests.parallel.functions import shared_memory


def count_bytes(memory: SharedMemory) -> int:
    """Bytes that the file takes."""
    return os.fstat(memory.descriptor).st_blocks * 512


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def write_seven(shared: SharedRange) -> int:
    """Write to a block in a worker process, and return what the first byte was."""
    block = shared.open()
    before, block[0] = block[0], 7
    block[shared.nbytes - 1] = 8
    return int(before)


def test_L08_a_block_is_allocated_in_full_and_freed_with_its_last_reference() -> None:
    held = set(shared_memory(None))
    memory, before = SharedMemory(), count_descriptors()
    blocks = [memory.allocate(100_000) for _ in range(5)]
    assert [block.nbytes for block in blocks] == [102_400] * 5
    assert count_bytes(memory) == 5 * 102_400
    assert count_descriptors() == before
    assert all(block.data[102_399] == 0 for block in blocks)
    del blocks[1:]
    gc.collect()
    assert count_bytes(memory) == 102_400
    blocks.clear()
    assert count_bytes(memory) == 0
    del memory
    assert set(shared_memory(None)) <= held


def test_a_view_outlives_its_block_and_its_memory() -> None:
    held = set(shared_memory(None))
    memory = SharedMemory()
    block = memory.allocate(10)
    view = memoryview(block.data)[:4]
    del block, memory
    gc.collect()
    assert len(bytes(view)) == 4
    del view
    assert set(shared_memory(None)) <= held


def test_a_worker_writes_to_blocks_also_after_others_were_freed() -> None:
    memory = SharedMemory()
    with ProcessPool(1, memory=memory) as pool:
        for _ in range(3):
            blocks = [memory.allocate(5000) for _ in range(module._MOST_BLOCKS + 3)]
            calls = RemoteCalls(write_seven)
            ranges = [block.shared for block in blocks] * 2
            outcomes = [outcome.value for outcome in ordered_outcomes(calls, ranges, pool=pool, max_in_flight=4)]  # type: ignore[union-attr]
            assert outcomes == [0] * len(blocks) + [7] * len(blocks)
            assert {(block.data[0], block.data[block.nbytes - 1]) for block in blocks} == {(7, 8)}
        del blocks, ranges
        gc.collect()
        # The worker still maps the last ones, which keeps none of their pages.
        assert count_bytes(memory) == 0


def test_a_block_that_is_used_between_others_stays_mapped() -> None:
    memory = SharedMemory()
    blocks = [memory.allocate(1) for _ in range(module._MOST_BLOCKS + 5)]
    used = blocks[0].shared
    mappings = set()
    for block in blocks[1:]:
        mappings.add(used.open().mapping)  # type: ignore[attr-defined]
        block.shared.open()
    assert len(mappings) == 1
    assert len(module._mapped) == module._MOST_BLOCKS
    module._mapped.clear()


@pytest.mark.parametrize("number", [28, 12])
def test_L07_a_shortage_is_an_error_and_never_a_signal(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(number, os.strerror(number))

    memory = SharedMemory()
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(MemoryError, match="of shared memory"):
        memory.allocate(4096)
    monkeypatch.undo()
    assert memory.allocate(1).data[0] == 0


def test_L07_no_address_space_is_an_error() -> None:
    program = (
        "import resource; from framefeed.parallel import SharedMemory; memory = SharedMemory(); "
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)); import os; "
        "os.posix_fallocate = lambda *arguments: None\n"
        "try:\n    memory.allocate(3 << 30)\nexcept MemoryError as error:\n    print(error)"
    )
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "src")}
    out = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert "no 3221225472 bytes of shared memory: Cannot allocate memory" in out.stdout
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


def test_systems_without_anonymous_files_have_one_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    memory = SharedMemory()
    assert os.readlink(f"/proc/self/fd/{memory.descriptor}").endswith("(deleted)")
    block = memory.allocate(10)
    block.data[3] = 5
    assert block.shared.open()[3] == 5
    del block
    module._mapped.clear()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_L01_a_forked_process_does_not_free_the_pages_of_its_parent() -> None:
    memory = SharedMemory()
    block = memory.allocate(4096)
    block.data[0] = 9
    child = os.fork()
    if child == 0:
        del block
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (block.data[0], count_bytes(memory)) == (9, 4096)

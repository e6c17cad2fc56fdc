"""Programs whose loaders have worker processes: they end quietly and soon, at any moment and however they end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.lengths import either
from tests.parallel.living import all_gone, children_of, wait_until
from tests.patience import PATIENCE_SECONDS
from tests.programs import Program

BEGINNING = """
import os, sys
from pathlib import Path
from framefeed.load import ClipLoader
from tests.fakes import FlatDecoder
from tests.load import faulty
from tests.makers import plan_of

folder = Path(__file__).parent

def make_loader(**options):
    return ClipLoader(plan_of(), **{"batch_size": 2, "workers": 2, "kind": "processes", **options})

def say_so():
    (folder / "there").touch()
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with ExitStack() as left:
        yield Program(tmp_path, left, BEGINNING)


@pytest.mark.slow
@pytest.mark.parametrize("attempt", either(short=[3], long=range(50)))
def test_L17_the_interpreter_exits_quietly_while_processes_prefetch(program: Program, attempt: int) -> None:
    # Each attempt leaves after another number of batches; every other one in a cycle.
    assert program.run(f"""
iterator = iter(make_loader(workers=1, prefetch=3))
cycle = [iterator]
if {attempt} % 2:
    cycle.append(cycle)
for _ in range({attempt} % 5):
    next(iterator)
""") == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["waiting for a batch", "in the training step"])
def test_L15_ctrl_c_ends_a_loop_without_waiting_for_its_calls(program: Program, moment: str) -> None:
    script = """
from framefeed.load import BatchIterator
from framefeed.parallel import OrderedOutcomes, ProcessPool

# Every close that is not hurried waits longer than the test does.
for wait in (OrderedOutcomes.close, ProcessPool.close, BatchIterator.end, ClipLoader._end_iteration):
    wait.__defaults__ = (1000.0,)
fates = {str(plan_of().catalog.source(row)): "native" for row in range(6)}
decoder = faulty.FaultyDecoder(fates if WAITS else {}, folder)
with make_loader(backend=decoder, workers=1, deadline_seconds=None) as loader:
    for batch in loader:
        say_so()
        os.read(os.pipe()[0], 1)
"""
    waits = moment == "waiting for a batch"
    started = program.start(script.replace("WAITS", str(waits)))
    if waits:
        wait_until(lambda: list(program.folder.glob("*.mp4-*")))
    else:
        wait_until((program.folder / "there").exists)
    workers = children_of(started.pid)
    os.killpg(started.pid, signal.SIGINT)
    _, err = started.communicate(timeout=PATIENCE_SECONDS)  # less than a close would wait
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert err.count("Traceback") == 1
    assert all_gone(workers)


@pytest.mark.slow
def test_L08_L15_workers_end_with_a_process_that_is_killed(program: Program) -> None:
    started = program.start("iterator = iter(make_loader()); next(iterator); say_so(); os.read(os.pipe()[0], 1)")
    wait_until((program.folder / "there").exists)
    workers = children_of(started.pid)
    assert len(workers) == 2
    started.kill()
    started.communicate(timeout=PATIENCE_SECONDS)
    wait_until(lambda: all_gone(workers))


@pytest.mark.slow
def test_L01_L25_a_loader_in_a_forked_worker_of_torch_has_processes_of_its_own(program: Program) -> None:
    ended = program.run("""
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
import torch
from torch.utils.data import DataLoader, IterableDataset

loader = make_loader(backend=FlatDecoder(), workers=1)
here = [batch.data.tobytes() for batch in loader]
rest = iter(loader)
kept = next(rest)
content = kept.data.tobytes()

class Nested(IterableDataset):
    def __iter__(self):
        # Copied, because memory of worker processes cannot be sent on as a tensor of torch.
        for batch in loader:
            yield torch.from_numpy(batch.data.copy())

for _ in range(2):
    there = [tensor.numpy().tobytes() for tensor in DataLoader(Nested(), batch_size=None, num_workers=1)]
    print(len(there) == len(here))
# The parent's loop continues with its own workers, and its memory is as it was.
print(len(list(rest)) == len(here) - 1, kept.data.tobytes() == content)
loader.close()
""")
    assert ended == (0, "True\nTrue\nTrue True\n", "")


@pytest.mark.long
def test_L09_L10_L19_a_slow_consumer_many_epochs_and_kept_batches_do_not_grow(program: Program) -> None:
    ended = program.run(f"""
import resource, time
def shared_bytes(loader):
    return os.fstat(loader._workers._pool._children._options.memory.descriptor).st_blocks * 512
with make_loader(backend=FlatDecoder(), workers=1, prefetch=2) as loader:
    iterator = iter(loader)
    first = next(iterator)
    while loader.stats().running or loader.stats().ready < loader.stats().max_ahead - 1:
        time.sleep(0.01)
    time.sleep({either(short=0, long=30)})
    # The batch that is held, and those that are prepared ahead.
    print(shared_bytes(loader) // -(-first.data.nbytes // 4096 * 4096) <= 4)
    del iterator, first
    sizes = []
    for epoch in range({either(short=20, long=2000)}):
        for batch in loader:
            pass
        sizes.append((shared_bytes(loader), len(os.listdir("/proc/self/fd"))))
    print(max(sizes[5:]) <= max(sizes[:5]))
    # Batches have no descriptors.
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    kept = []
    while len(kept) < 200:
        kept += [batch.data for batch in loader]
        assert len(os.listdir("/proc/self/fd")) < 40
    print(len({{clip.ctypes.data for clip in kept}}) == len(kept))
""")
    assert ended == (0, "True\nTrue\nTrue\n", "")

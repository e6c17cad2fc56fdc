"""The limit: the system calls that no program can do without, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context

import pyarrow.parquet as pq

from benchmarks.peers.kinds import Engine, Size, one_by_one

HEAD = 4096
"""Bytes, as many as hold the header of most pictures."""


def touch(path: str) -> Size:
    """Open, fstat, read the head and close."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    os.fstat(file)
    os.pread(file, HEAD, 0)
    os.close(file)
    return None


def walk(folder: str) -> Iterator[str]:
    """Paths of the files of a folder and of those in it."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from walk(entry.path)
            else:
                yield entry.path


def walk_and_touch(folder: str) -> int:
    """Do the calls for each file of a folder, and count them."""
    count = 0
    for path in walk(folder):
        touch(path)
        count += 1
    return count


def start_walkers(processes: int, stack: ExitStack) -> Callable[[Sequence[str]], int]:
    """Start processes that do the same, a folder of the tree at a time."""
    pool = ProcessPoolExecutor(processes, mp_context=get_context("forkserver"))
    stack.callback(pool.shutdown, cancel_futures=True)
    list(pool.map(touch, [os.devnull] * 4 * processes))
    return lambda folders: sum(pool.map(walk_and_touch, folders))


def walk_and_stat(folder: str) -> int:
    """Stat each file of a folder and of those in it, and count them."""
    count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                count += walk_and_stat(entry.path)
            else:
                entry.stat()
                count += 1
    return count


def rescan(folder: str, table: str) -> int:
    """What a second scan cannot do without: walk, stat each file, read the table of the first one; counts its rows."""
    return min(walk_and_stat(folder), int(pq.read_table(table).num_rows))


ENGINES = [Engine("open + fstat + pread + close", one_by_one(touch), "quick", knows_sizes=False, library="")]

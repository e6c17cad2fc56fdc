"""ffprobe as a subprocess: from asyncio, from a pool of processes, and from a fork server's small ones."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context

from benchmarks.peers.kinds import Engine, ReadSizes, Size

PROGRAM = shutil.which("ffprobe") or ""
if not PROGRAM:
    raise ImportError("ffprobe is not on PATH: it comes with the system's ffmpeg package")
VERSIONS = {
    "ffprobe": subprocess.run([PROGRAM, "-version"], capture_output=True, text=True, check=True).stdout.split()[2]
}
_OPTIONS = ("-v", "error", "-select_streams", "v:0", "-show_entries", "stream=width,height", "-of", "csv=p=0")


def parse_size(printed: bytes) -> Size:
    """Read what ffprobe prints: ``1280,851``, and nothing, ``N/A`` or ``0,0`` for a file that it cannot read."""
    fields = printed.decode("ascii", "replace").strip().split(",")
    if len(fields) != 2 or not all(map(str.isdigit, fields)) or int(fields[0]) == 0:
        return None
    return int(fields[0]), int(fields[1])


def read_sizes(paths: Sequence[str], at_once: int) -> list[Size]:
    """Sizes of some files, several programs running at once."""

    async def read_all() -> list[Size]:
        running = asyncio.Semaphore(at_once)

        async def size_of(path: str) -> Size:
            async with running:
                process = await asyncio.create_subprocess_exec(
                    PROGRAM, *_OPTIONS, path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                )
                return parse_size((await process.communicate())[0])

        return list(await asyncio.gather(*map(size_of, paths)))

    return asyncio.run(read_all())


def _start_pool(method: str) -> Callable[[int, ExitStack], ReadSizes]:
    """Start processes that each run one program at a time, as ``concurrent.futures`` hands out the files.

    Args:
        method: "spawn" for fresh interpreters, "forkserver" for children of a small process. The write-up forked for
            the first; the process that measures here has threads, which must not be forked.
    """

    def start(processes: int, stack: ExitStack) -> ReadSizes:
        pool = ProcessPoolExecutor(processes, mp_context=get_context(method))
        stack.callback(pool.shutdown, cancel_futures=True)
        read_part = partial(read_sizes, at_once=1)
        list(pool.map(read_part, [[os.devnull]] * 2 * processes))

        def read(paths: Sequence[str]) -> list[Size]:
            sizes: list[Size] = [None] * len(paths)
            for start, part in enumerate(pool.map(read_part, [paths[start::processes] for start in range(processes)])):
                sizes[start::processes] = part
            return sizes

        return read

    return start


ENGINES = [
    Engine("ffprobe, asyncio", lambda processes, stack: partial(read_sizes, at_once=processes), "slow"),
    Engine("ffprobe, process pool", _start_pool("spawn"), "slow"),
    Engine("ffprobe, fork server", _start_pool("forkserver"), "slow"),
]

"""ffprobe as a subprocess: from asyncio, from a pool of processes, and from a fork server's small ones."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from framefeed.bench._peers import Engine, Size

_OPTIONS = ("-v", "error", "-select_streams", "v:0", "-show_entries", "stream=width,height", "-of", "csv=p=0")

PROGRAM = shutil.which("ffprobe") or ""
if not PROGRAM:
    raise ImportError("ffprobe is not on PATH: it comes with the system's ffmpeg package")


def parsed(printed: bytes) -> Size:
    """Read what ffprobe prints: ``1280,851``, and nothing, ``N/A`` or ``0,0`` for a file that it cannot read."""
    fields = printed.decode("ascii", "replace").strip().split(",")
    if len(fields) != 2 or not all(map(str.isdigit, fields)) or int(fields[0]) == 0:
        return None
    return int(fields[0]), int(fields[1])


async def size_of(path: str, running: asyncio.Semaphore) -> Size:
    """Run ffprobe on one file, as soon as fewer than the most allowed are running."""
    async with running:
        process = await asyncio.create_subprocess_exec(
            PROGRAM, *_OPTIONS, path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return parsed((await process.communicate())[0])


async def _sizes(paths: Sequence[str], at_once: int) -> list[Size]:
    running = asyncio.Semaphore(at_once)
    return list(await asyncio.gather(*(size_of(path, running) for path in paths)))


def probed(paths: Sequence[str], at_once: int) -> list[Size]:
    """Sizes of some files, several programs running at once."""
    return asyncio.run(_sizes(paths, at_once))


class _FromAsyncio:
    """One event loop in the process that measures, as many programs at once as there are cores."""

    def __init__(self, processes: int) -> None:
        self._at_once = processes

    def sizes(self, paths: Sequence[str]) -> list[Size]:
        return probed(paths, self._at_once)

    def close(self) -> None:
        """Nothing is held."""


class _FromPool:
    """Processes that each start one program at a time, as ``concurrent.futures`` hands out the files.

    Args:
        processes: How many.
        method: "spawn" for fresh interpreters, "forkserver" for children of a small process. The write-up forked for
            the first; the process that measures here has threads, which must not be forked.
    """

    def __init__(self, processes: int, method: str) -> None:
        self._processes = processes
        self._pool = ProcessPoolExecutor(processes, mp_context=get_context(method))
        list(self._pool.map(partial(probed, at_once=1), [[os.devnull]] * 2 * processes))

    def sizes(self, paths: Sequence[str]) -> list[Size]:
        parts = [paths[start :: self._processes] for start in range(self._processes)]
        all_sizes: list[Size] = [None] * len(paths)
        for start, sizes in enumerate(self._pool.map(partial(probed, at_once=1), parts)):
            all_sizes[start :: self._processes] = sizes
        return all_sizes

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def versions() -> dict[str, str]:
    """The program."""
    said = subprocess.run([PROGRAM, "-version"], capture_output=True, text=True, check=True, timeout=60).stdout
    return {"ffprobe": said.split()[2]}


def engines() -> list[Engine]:
    """All three ways."""
    return [
        Engine("ffprobe, asyncio", _FromAsyncio, "slow"),
        Engine("ffprobe, process pool", partial(_FromPool, method="spawn"), "slow"),
        Engine("ffprobe, fork server", partial(_FromPool, method="forkserver"), "slow"),
    ]

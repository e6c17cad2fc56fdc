"""Shared by the tests of loading."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from framefeed.load import _workers
from framefeed.load._loader import ClipLoader
from framefeed.load._workers import Workers
from framefeed.parallel import ProcessPool, SharedMemory


@pytest.fixture
def make_loader() -> Iterator[Callable[..., ClipLoader]]:
    """Make loaders that are closed when the test is over, however it ends.

    An error that a test caught keeps the frames that it passed, and in them the loader, alive for a while.
    """
    made: list[ClipLoader] = []

    def make(*arguments: object, **options: object) -> ClipLoader:
        made.append(ClipLoader(*arguments, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for loader in made:
        loader.close()


class KeptPool(ProcessPool):
    """Worker processes that outlive the loader that uses them."""

    def close(self, wait_seconds: float = 0) -> bool:
        return True

    def abandon(self) -> None:
        pass


@pytest.fixture(scope="module")
def kept_processes() -> Iterator[None]:
    """Give all loaders of a module the same worker processes, for tests that need just some: they start once."""
    memory, open_own = SharedMemory(), Workers._open
    pools = {count: KeptPool(count, memory=memory) for count in (1, 2, 3)}
    for count, pool in pools.items():
        for _ in range(count):
            pool.submit(int)  # Its threads start here, and so are of no one test; its processes when they are needed.

    def open_kept(workers: Workers) -> None:
        open_own(workers)  # Its processes would start later.
        if workers.are_processes:
            workers._pool = pools[workers.count]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_workers, "SharedMemory", lambda: memory)
        patch.setattr(Workers, "_open", open_kept)
        yield
    for pool in pools.values():
        ProcessPool.close(pool)

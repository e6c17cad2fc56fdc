"""Shared by the tests of loading."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from framefeed.load._loader import ClipLoader


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

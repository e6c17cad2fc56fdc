"""The law of exactness over every codec and every hard file that can be generated, in every way of asking.

Wrong readers are in tests/test_wrong_readers.py, real files in tests/test_real_media.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.index.build import build_index
from framefeed.index.frame_index import FrameIndex
from framefeed.media.source import MediaSource
from framefeed.testing import iter_pathologies
from tests.decode.law import Product, check_clips, check_frames
from tests.media.files import READABLE, readable_path
from tests.reference import kept_reference

# Pictures of two sizes fit no one memory unscaled (tests/decode/test_convert.py), and turned ones are not delivered as
# they are stored (tests/decode/test_orientation.py): only their planes are compared here.
PLANES_ONLY = {recipe.name for recipe in iter_pathologies() if recipe.number == "P01" or "size_change" in recipe.name}


@dataclass(frozen=True)
class Way:
    """One way of asking."""

    skip: bool
    direct: bool
    kind: Literal["path", "bytes", "file"]
    threads: int

    @property
    def decoder(self) -> PyAVDecoder:
        return PyAVDecoder(skip=self.skip, direct=self.direct)

    @contextmanager
    def opened(self, path: Path) -> Iterator[MediaSource]:
        if self.kind == "path":
            yield MediaSource.of(path)
        elif self.kind == "bytes":
            yield _in_memory(path)
        else:
            with path.open("rb") as file:
                yield MediaSource.of(file)


@lru_cache(maxsize=4)
def _in_memory(path: Path) -> MediaSource:
    return MediaSource.of(path.read_bytes())


@lru_cache(maxsize=4)
def _index(path: Path) -> FrameIndex:
    return build_index(path)


WAYS = st.builds(
    Way,
    skip=st.booleans(),
    direct=st.booleans(),
    kind=st.sampled_from(("path", "bytes", "file")),
    threads=st.integers(1, 4),
)
# Numbers are brought into range by the test, which knows the file.
CLIPS = st.lists(st.lists(st.integers(0, 10**6), max_size=10), min_size=1, max_size=4)


@pytest.mark.parametrize("name", READABLE)
@settings(max_examples=4)
@given(way=WAYS, numbers=CLIPS)
def test_M01_M19_any_request_in_any_way_is_the_sequential_decode(name: str, way: Way, numbers: list[list[int]]) -> None:
    path = readable_path(name)
    index, reference = _index(path), kept_reference(path)
    clips = [[number % len(index) for number in clip] for clip in numbers]
    with way.opened(path) as source:
        reader = Product(source, index, way.decoder)
        with ThreadPoolExecutor(way.threads) as pool:
            checks = [pool.submit(check_frames, reader, reference, [clip]) for clip in clips]
            if name not in PLANES_ONLY:
                checks += [pool.submit(check_clips, reader, reference, clips)]
        for check in checks:
            check.result()

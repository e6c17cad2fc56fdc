"""The law of exactness over every codec and every hard file that can be generated, in every way of asking.

Wrong readers are in tests/test_wrong_readers.py, other backends in tests/test_parity.py, real files in
tests/test_real_media.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framefeed._values import DISPOSABLE
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.index import FrameIndex, build_index
from framefeed.media import MediaSource
from tests.corpus import corpus_file
from tests.decode.law import Product, check_clips, check_frames
from tests.lengths import either
from tests.media.files import READABLE, readable_path
from tests.pathologies import iter_pathologies
from tests.reference import kept_reference

# Pictures of two sizes fit no one memory unscaled (tests/decode/test_convert.py), and turned ones are not delivered as
# they are stored; only their planes are compared here.
PLANES_ONLY = {recipe.name for recipe in iter_pathologies() if recipe.number == "P01" or "size_change" in recipe.name}


@dataclass(frozen=True)
class Way:
    """One way of asking: ``callers`` threads share a decoder, in which libavcodec has ``threads`` of its own."""

    skip: bool
    direct: bool
    kind: Literal["path", "bytes", "file"] = "path"
    callers: int = 1
    threads: int = 1

    @property
    def decoder(self) -> PyAVDecoder:
        return PyAVDecoder(skip=self.skip, direct=self.direct, threads=self.threads)

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
    callers=st.integers(1, 4),
    threads=st.sampled_from((1, 1, 1, 2)),
)
# Numbers are brought into range by the test, which knows the file.
CLIPS = st.lists(st.lists(st.integers(0, 10**6), max_size=10), min_size=1, max_size=4)


@pytest.mark.long
@pytest.mark.parametrize("name", READABLE)
@settings(max_examples=either(short=3, long=20))
@given(way=WAYS, numbers=CLIPS)
def test_M01_M19_any_request_in_any_way_is_the_sequential_decode(name: str, way: Way, numbers: list[list[int]]) -> None:
    path = readable_path(name)
    index, reference = _index(path), kept_reference(path)
    clips = [[number % len(index) for number in clip] for clip in numbers]
    with way.opened(path) as source:
        reader = Product(source, index, way.decoder)
        with ThreadPoolExecutor(way.callers) as pool:
            checks = [pool.submit(check_frames, reader, reference, [clip]) for clip in clips]
            if name not in PLANES_ONLY:
                checks += [pool.submit(check_clips, reader, reference, clips)]
        for check in checks:
            check.result()


# --- promised and never given -----------------------------------------------------------------------


def test_D02_a_frame_that_only_packets_promise_is_named_and_the_others_come() -> None:
    path = corpus_file("truncated.mp4")
    index, reference = build_index(path, "none"), kept_reference(path)
    assert len(index) == len(reference) + 1
    reader = Product(MediaSource.of(path), index, PyAVDecoder())
    requests = [range(len(index)), [49, 3, 49], [48], [49]]
    check_frames(reader, reference, requests, may_promise_more=True)
    check_clips(reader, reference, requests, may_promise_more=True)


@pytest.mark.parametrize("way", [Way(True, True, "bytes"), Way(True, False, "bytes")])
def test_D01_a_picture_lost_after_indexing_is_named_and_the_others_come(way: Way, tmp_path: Path) -> None:
    path = corpus_file("base.mp4")
    index, damaged = build_index(path), tmp_path / "damaged.mp4"
    lost = int(np.flatnonzero(index.packets.flags[index.frame_packet] & DISPOSABLE)[17])
    damaged.write_bytes(_without_packet(path.read_bytes(), index, int(index.frame_packet[lost])))
    reference = kept_reference(damaged)
    assert len(reference) == len(index) - 1
    reader = Product(MediaSource.of(damaged.read_bytes()), index, way.decoder)
    requests = [range(len(index)), [lost], [lost + 1, lost - 1], [0, lost, lost + 1, lost]]
    check_frames(reader, reference, requests, may_promise_more=True)
    check_clips(reader, reference, requests, may_promise_more=True)


def _without_packet(data: bytes, index: FrameIndex, number: int) -> bytes:
    """Make one packet a unit of a kind that decoders pass over, of the same size."""
    offset, size = int(index.packets.offset[number]), int(index.packets.size[number])
    filler = (size - 4).to_bytes(4, "big") + b"\x0c" + b"\xff" * (size - 5)
    return data[:offset] + filler + data[offset + size :]

"""Every backend that is installed over every clip: frames, times and errors agree with the numbers in the pictures."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

from framefeed.cache import FrameCache
from framefeed.decode import Decoder, VideoDecoder, find_decoder
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import FrameNotFound
from framefeed.index import build_index
from framefeed.media import MediaSource
from framefeed.testing import read_stamp, read_stamps
from tests.codec_clips import CODECS
from tests.corpus import corpus_file
from tests.decode.law import Product, check_clips
from tests.lengths import sampled
from tests.makers import open_corpus, slot_of
from tests.media.files import CODEC_CLIPS, READABLE, readable_path
from tests.pathologies import iter_pathologies
from tests.reference import kept_reference

INSTALLED = [point.name for point in entry_points(group="framefeed.decoders")]
DEMUXED, CACHED = "pyav, demuxed", "pyav, cached"
VIDEO_BACKENDS = ["auto", "pyav", DEMUXED, CACHED, *INSTALLED]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrameCache]:
    with FrameCache(tmp_path_factory.mktemp("cache"), codec="raw") as cache:
        yield cache


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Decoder:
    if request.param == DEMUXED:
        return PyAVDecoder(direct=False, skip=False)
    if request.param == CACHED:
        cache: FrameCache = request.getfixturevalue("cache")
        return cache.decoder(PyAVDecoder())
    return find_decoder(request.param)


AUTO = pytest.param("auto", marks=pytest.mark.test_all)
over_backends = pytest.mark.parametrize("backend", [AUTO, *VIDEO_BACKENDS[1:]], indirect=True)


@dataclass(frozen=True)
class Stamped:
    """A file whose frames show these numbers."""

    name: str
    stamps: tuple[int, ...]

    def __str__(self) -> str:
        return self.name

    @property
    def path(self) -> Path:
        return readable_path(self.name) if self.name in CODEC_CLIPS else corpus_file(self.name)


CLIPS = [Stamped(name, CODECS[name.partition(".")[0]].spec.stamps) for name in CODEC_CLIPS]
NUMBERS = {recipe.name: recipe.number for recipe in iter_pathologies()}
# Pictures of two sizes fit no one memory unscaled.
HARD = [
    Stamped(recipe.name, tuple(recipe.stamps))
    for recipe in iter_pathologies()
    if recipe.stamps and recipe.name in READABLE and "size_change" not in recipe.name
]
DAMAGED = [recipe.name for recipe in iter_pathologies() if recipe.stamps is None and recipe.name in READABLE]


# Every codec in every backend, but `make test` alternates between the two beside "pyav"; the hard files, which
# tests/test_law.py reads in every way, where another class reads. "auto" hands videos on to "pyav".
MATRIX = [(clip, backend) for clip in CLIPS for backend in ("pyav", *INSTALLED)]
BESIDE = [(clip, (DEMUXED, CACHED)[number % 2]) for number, clip in enumerate(CLIPS)]
OTHERS = [(clip, (CACHED, DEMUXED)[number % 2]) for number, clip in enumerate(CLIPS)]
MATRIX += [*BESIDE, *(pytest.param(*case, marks=pytest.mark.test_all) for case in OTHERS)]
MATRIX += sampled(
    [(clip, backend) for clip in HARD for backend in (CACHED, *INSTALLED)],
    lambda case: (NUMBERS[case[0].name], case[1]),
)
MATRIX += [pytest.param(clip, "auto", marks=pytest.mark.test_all) for clip in [*CLIPS[1:], *HARD[1:]]]
MATRIX += [(clips[0], "auto") for clips in (CLIPS, HARD)]


@pytest.mark.parametrize(
    ("clip", "backend"), MATRIX, indirect=["backend"], ids=lambda each: getattr(each, "name", each)
)
def test_M01_M19_delivered_pixels_name_the_ordinals_asked_for(backend: Decoder, clip: Stamped) -> None:
    reference, chance = kept_reference(clip.path), random.Random(clip.name)
    wanted = [chance.randrange(len(clip.stamps)) for _ in range(8)]
    with VideoDecoder(clip.path, backend=backend) as decoder:
        assert len(decoder) == len(clip.stamps)
        for _ in range(1 if isinstance(backend, PyAVDecoder) else 2):  # a cache has them at the second time
            batch = decoder.get_frames_at(wanted)
            assert batch.indices.tolist() == wanted
            assert read_stamps(batch.data) == [clip.stamps[ordinal] for ordinal in wanted]
        assert read_stamp(decoder[-1]) == clip.stamps[-1]
        if decoder.frame_index.times_from == "pts":
            right = [reference.frames[ordinal].pts * reference.time_base for ordinal in wanted]
            np.testing.assert_allclose(batch.pts_seconds, [float(seconds) for seconds in right], atol=1e-9)


@over_backends
@pytest.mark.parametrize("clip", HARD[::4], ids=str)
def test_M01_M19_small_pictures_name_themselves_too(backend: Decoder, clip: Stamped) -> None:
    with VideoDecoder(clip.path, backend=backend, size=(48, 64), dimension_order="NHWC") as decoder:
        assert read_stamps(decoder[::-9]) == list(clip.stamps[::-9])


@over_backends
@pytest.mark.parametrize("name", DAMAGED)
def test_D01_D02_damage_fails_the_same_clips(backend: Decoder, name: str) -> None:
    path = corpus_file(name)
    index = build_index(path, "none")
    clips = [*([ordinal] for ordinal in range(len(index))), range(len(index)), [0, len(index) - 1]]
    reader = Product(MediaSource.of(path), index, backend)
    for _ in range(2):
        check_clips(reader, kept_reference(path), clips, may_promise_more=True)


@over_backends
def test_a_frame_that_the_index_has_not_is_not_found(backend: Decoder) -> None:
    source, index = open_corpus("base.mp4")
    for ordinal in (len(index), -1):
        with pytest.raises(FrameNotFound):
            backend.decode(source, index, [slot_of(index, [ordinal])]).raise_first()

"""The moov route gives what libav gives, on everything there is; where it cannot, it leaves the file to libav."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._values import DEFAULT_LIMITS
from framefeed.bitstreams import OddUnits
from framefeed.index import Verify
from framefeed.index._movie import OpenedMovie
from framefeed.index.proofs._proving import Unproved
from framefeed.media import MediaSource
from framefeed.testing import AudioSpec, ClipSpec, clip_bytes, put_packets, take_packets, write_clip
from tests.codec_clips import CODECS
from tests.corpus import corpus_file
from tests.index.comparing import (
    Source,
    answer,
    answer_of_libav,
    differences,
    facts,
    facts_of_libav,
    opened,
    walk_of_libav,
)
from tests.lengths import IS_ALL, either
from tests.mp4.movies import MovieSpec, coded, movie_bytes, right_offsets
from tests.pathologies import iter_pathologies
from tests.pathologies.bitstreams import make_box

ENDINGS = (".mp4", ".mov", ".m4v", ".3gp")
PATHOLOGIES = sorted(one.name for one in iter_pathologies() if one.name.endswith(ENDINGS))
CODEC_FILES = sorted(name for name, clip in CODECS.items() if clip.suffix in ENDINGS)
FLOOR_OF_REAL_FILES = 111
"""Real files whose packets come from their moov box; the others are of rare codecs, of several videos, or broken."""
COUNT = 24


def _is_proved(movie: OpenedMovie, source: Source) -> bool:
    try:
        with MediaSource.of(source).opened() as reader:
            movie.prove(reader, DEFAULT_LIMITS)
    except (Unproved, OddUnits):
        return False
    return True


@pytest.mark.parametrize("name", PATHOLOGIES)
def test_a_pathology_is_indexed_as_libav_would(name: str) -> None:
    path = corpus_file(name)
    assert differences(answer(path), answer_of_libav(path)) == []


def test_most_pathologies_go_the_fast_route() -> None:
    counts = Counter(opened(corpus_file(name)) is not None for name in PATHOLOGIES)
    assert counts[True] >= 0.6 * len(PATHOLOGIES), counts


@pytest.mark.parametrize("name", CODEC_FILES)
def test_a_codec_is_indexed_as_libav_would(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"clip{CODECS[name].suffix}"
    write_clip(path, CODECS[name].spec)
    assert differences(answer(path), answer_of_libav(path)) == []


@pytest.mark.parametrize("key_frames", ["all", "first", "own"])
@pytest.mark.parametrize("codec", ["libsvtav1", "libvpx-vp9"])
def test_M14_packets_of_av1_and_vp9_say_themselves_which_are_key_frames(
    codec: str, key_frames: str, tmp_path: Path
) -> None:
    data, path = clip_bytes(ClipSpec(num_frames=24, gop=6, codec=codec, b_frames=None), "mp4"), tmp_path / "keys.mp4"
    packets, time_base = take_packets(data)
    is_key = {"all": lambda _: True, "first": lambda number: number == 0, "own": lambda number: number % 6 == 0}
    flagged = [replace(each, is_key=is_key[key_frames](number)) for number, each in enumerate(packets)]
    put_packets(path, data, flagged, time_base)
    assert opened(path) is not None
    for verify in VERIFIED:
        assert differences(answer(path, verify), answer_of_libav(path, verify)) == []


VERIFIED: tuple[Verify, ...] = ("none", "proof", "ends", "full")


@pytest.mark.slow
@pytest.mark.long
def test_real_files_are_read_as_libav_would(media_root: Path) -> None:
    paths = sorted(path for path in media_root.glob("video*/**/*") if path.suffix in ENDINGS)
    fast = 0
    for number, path in enumerate(paths):
        movie = opened(path)
        fast += movie is not None
        if number % either(short=4 if IS_ALL else 12, long=1):
            continue
        if movie is not None:
            assert differences(movie.walk, walk_of_libav(path)) == [], path.name
        if movie is not None and _is_proved(movie, path):
            assert differences(answer(path), answer_of_libav(path)) == [], path.name
        else:
            assert differences(facts(path), facts_of_libav(path)) == [], path.name
    assert fast >= FLOOR_OF_REAL_FILES, f"{fast} of {len(paths)}"


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
@pytest.mark.parametrize("flags", ["frag_keyframe+empty_moov", "dash+frag_keyframe", "empty_moov+default_base_moof"])
def test_fragments_are_walked_as_libav_would(flags: str, codec: str, tmp_path: Path) -> None:
    path = tmp_path / "fragments.mp4"
    options = {"movflags": flags, "frag_duration": "400000"}
    write_clip(path, ClipSpec(num_frames=40, gop=10, codec=codec, container_options=options), AudioSpec())
    movie = opened(path)
    assert movie is not None
    assert len(movie.movie.layout.fragments) > 1
    assert _is_proved(movie, path)
    assert differences(movie.walk, walk_of_libav(path)) == []
    assert differences(answer(path), answer_of_libav(path)) == []


@given(st.data())
def test_damaged_fragments_are_answered_as_libav_would(data: st.DataObject) -> None:
    whole = bytearray(_fragmented())
    for _ in range(data.draw(st.integers(1, 2))):
        start = whole.find(b"moof") - 4 if data.draw(st.booleans()) else whole.rfind(b"moof") - 4
        whole[start + data.draw(st.integers(0, 200))] = data.draw(st.integers(0, 255))
    damaged = bytes(whole)
    movie = opened(damaged)
    if movie is not None:
        assert differences(movie.walk, walk_of_libav(damaged)) == []


@lru_cache(maxsize=1)
def _fragmented() -> bytes:
    options = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
    return clip_bytes(ClipSpec(num_frames=40, gop=10, container_options=options), "mp4")


def _split(draw: st.DrawFn, total: int) -> list[int]:
    counts: list[int] = []
    while total:
        counts.append(draw(st.integers(1, total)))
        total -= counts[-1]
    return counts


@st.composite
def movie_specs(draw: st.DrawFn) -> MovieSpec:
    """Movies whose tables are sound."""
    times = [(count, draw(st.integers(1, 40))) for count in _split(draw, COUNT)]
    codec = draw(st.sampled_from(["libx264", "libx265", "libsvtav1"]))
    some = [(count, draw(st.integers(-50, 100))) for count in _split(draw, COUNT)]
    offsets = draw(st.sampled_from([None, some, right_offsets(codec)]))
    if offsets == right_offsets(codec) and draw(st.booleans()):
        times = [(COUNT, 20)]
    if draw(st.booleans()):
        times = [*times[:-1], (times[-1][0] - 1, times[-1][1]), (1, 0)] if times[-1][0] > 1 else [*times[:-1], (1, 0)]
    edits = [(draw(st.integers(1, 1200)), draw(st.integers(0, 500)))]
    if draw(st.booleans()):
        edits.insert(0, (draw(st.integers(0, 300)), -1))
    padding = st.sampled_from([b"", make_box("free", b"\0" * 9), make_box("wide", b""), make_box("uuid", bytes(20))])
    return MovieSpec(
        stts=times,
        ctts=offsets,
        chunks=_split(draw, COUNT),
        gap=draw(st.integers(0, 3)),
        edits=edits if draw(st.booleans()) else (),
        sync=draw(st.sampled_from([None, (1,), coded()[2], (1, 2, 5, 20)])),
        has_long_offsets=draw(st.booleans()),
        size_bits=draw(st.sampled_from([32, 16])),
        header_first=draw(st.booleans()),
        has_long_data=draw(st.booleans()),
        around=(draw(padding), draw(padding), draw(padding)),
        codec=codec,
        time_scale=draw(st.sampled_from([600, 12_800])),
    )


@given(movie_specs())
def test_a_movie_of_any_tables_is_walked_as_libav_would(spec: MovieSpec) -> None:
    data = movie_bytes(spec)
    movie, is_av1 = opened(data), spec.codec == "libsvtav1"
    if movie is not None:
        walk, theirs = movie.walk, walk_of_libav(data)
        if is_av1 and not isinstance(theirs, str):  # its key frames are read in the packets, by a proof
            walk = replace(walk, packets=walk.packets.replace_flags(theirs.packets.is_key))
        assert differences(walk, theirs) == []
    for verify in VERIFIED[: 1 + is_av1]:
        assert differences(answer(data, verify), answer_of_libav(data, verify)) == []


def test_ordinary_movies_go_the_fast_route() -> None:
    for spec in (
        MovieSpec(),
        MovieSpec(header_first=True, has_long_data=True, has_long_offsets=True),
        MovieSpec(ctts=[(COUNT, 40)], edits=[(800, 40)], chunks=[5, 5, 5, 9], size_bits=16),
        MovieSpec(
            edits=[(100, -1), (800, 0)], brand=b"", around=(make_box("wide", b""), b"", make_box("free", b"1234"))
        ),
        MovieSpec(sync=None, codec="libx265"),
    ):
        movie = opened(movie_bytes(spec))
        assert movie is not None
        assert movie.info is not None


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_times_are_believed_without_decoding_only_where_pictures_are_in_that_order(codec: str) -> None:
    right = movie_bytes(MovieSpec(ctts=right_offsets(codec), codec=codec))
    without = movie_bytes(MovieSpec(codec=codec))
    for data, is_proved in ((right, True), (without, False)):
        movie = opened(data)
        assert movie is not None
        assert _is_proved(movie, data) == is_proved


# A reader that ignores a table reads a file as ours reads the file without it.
WRONG_READERS = {
    "ctts ignored": MovieSpec(edits=[(760, 40)], sync=coded("libx265")[2][:2], codec="libx265"),
    "edit list ignored": MovieSpec(ctts=right_offsets("libx265"), sync=coded("libx265")[2][:2], codec="libx265"),
    "stss off by one": MovieSpec(
        ctts=right_offsets("libx265"),
        edits=[(760, 40)],
        sync=[1, *(number + 1 for number in coded("libx265")[2][1:2])],
        codec="libx265",
    ),
    "stss ignored": MovieSpec(ctts=right_offsets("libx265"), edits=[(760, 40)], sync=None, codec="libx265"),
}


@pytest.mark.parametrize("wrong", WRONG_READERS.values(), ids=WRONG_READERS.keys())
def test_a_wrong_reader_is_caught(wrong: MovieSpec) -> None:
    # One of the key frames is missing from the table, so that both more and other numbers show.
    right = MovieSpec(ctts=right_offsets("libx265"), edits=[(760, 40)], sync=coded("libx265")[2][:2], codec="libx265")
    movie, misread = opened(movie_bytes(right)), opened(movie_bytes(wrong))
    assert movie is not None
    assert misread is not None
    expected = walk_of_libav(movie_bytes(right))
    assert differences(movie.walk, expected) == []
    same_places = replace(misread.walk, packets=replace(misread.walk.packets, offset=movie.walk.packets.offset))
    assert differences(same_places, expected) != []

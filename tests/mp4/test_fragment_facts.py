"""What fragments say of their stream: rate and duration as libav has them, which reads as far as indexes let it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._values import MediaInfo
from framefeed.testing import AudioSpec, ClipSpec, clip_bytes, put_packets, take_packets, write_clip
from tests.index.comparing import answer, answer_of_libav, differences, facts, facts_of_libav, opened, walk_of_libav
from tests.pathologies.bitstreams import make_box

PLAIN = "frag_keyframe+empty_moov+default_base_moof"
INDEX_EACH, INDEX_FIRST = "dash+frag_keyframe", "dash+global_sidx+frag_keyframe"
GOP = 10
EVEN, SLOWING = (3000,), (2000,) * 30 + (9000,) * 30


@lru_cache(maxsize=32)
def fragments(flags: str, steps: Sequence[int] = SLOWING, codec: str = "libx264") -> bytes:
    """A fragmented file whose pictures last for ``steps``, in turn, of a 90,000th of a second."""
    template = clip_bytes(ClipSpec(num_frames=60, gop=GOP, b_frames=2, codec=codec), "mp4")
    packets, _ = take_packets(template)
    begin, step = packets[0].dts or 0, packets[0].duration
    times = [0]
    for number in range(len(packets) + GOP):
        times.append(times[-1] + steps[number % len(steps)])
    timed = [
        replace(
            packet,
            pts=times[((packet.pts or 0) - begin) // step],
            dts=times[number],
            duration=times[number + 1] - times[number],
        )
        for number, packet in enumerate(packets)
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "fragments.mp4"
        put_packets(path, template, timed, Fraction(1, 90_000), {"movflags": flags})
        return path.read_bytes()


def _answered_as_libav(data: bytes) -> MediaInfo:
    movie, info = opened(data), facts(data)
    assert movie is not None
    assert movie.info == info
    assert differences(answer(data, "proof"), answer_of_libav(data, "proof")) == []
    assert isinstance(info, MediaInfo)
    return info


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
@pytest.mark.parametrize("steps", [EVEN, SLOWING, (1000, 7000)], ids=["even", "slowing", "in turn"])
@pytest.mark.parametrize("flags", [PLAIN, INDEX_EACH, INDEX_FIRST])
def test_facts_of_fragments_need_no_libav(flags: str, steps: Sequence[int], codec: str) -> None:
    _answered_as_libav(fragments(flags, steps, codec))


def test_an_index_that_ends_with_the_file_ends_what_counts() -> None:
    first, each, plain = (_answered_as_libav(fragments(flags)) for flags in (INDEX_FIRST, INDEX_EACH, PLAIN))
    behind = _answered_as_libav(fragments(INDEX_FIRST) + make_box("free", b"1"))
    rates = [info.average_fps_from_header or 0 for info in (first, each, plain)]
    assert rates == sorted(set(rates), reverse=True)  # the first fragment, all but the last one, all of them
    assert behind.average_fps_from_header == plain.average_fps_from_header


def test_sound_beside_the_pictures_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sound.mp4"
    for flags in (PLAIN, INDEX_EACH):
        write_clip(path, ClipSpec(num_frames=40, gop=GOP, container_options={"movflags": flags}), AudioSpec())
        _answered_as_libav(path.read_bytes())


def _with_index(offset: int, value: bytes) -> bytes:
    """Change bytes of the payload of the one index in front of all fragments."""
    data = bytearray(fragments(INDEX_FIRST))
    at = data.find(b"sidx") + 4 + offset
    data[at : at + len(value)] = value
    return bytes(data)


ODD_INDEXES = {
    "another version": _with_index(0, b"\2"),
    "an unknown track": _with_index(4, b"\0\0\0\7"),
    "another time scale": _with_index(8, struct.pack(">I", 1000)),
    "no time scale": _with_index(8, bytes(4)),
    "a negative time scale": _with_index(8, b"\xff"),
    "a late beginning": _with_index(12, struct.pack(">Q", 90_000)),
    "a gap before the first segment": _with_index(20, struct.pack(">Q", 8)),
    "no segments": _with_index(30, b"\0\0"),
    "fewer segments": _with_index(30, b"\0\3"),
    "more segments than it holds": _with_index(30, b"\0\7"),
    "an index of indexes": _with_index(32, b"\x80"),
    "a smaller segment": _with_index(32, bytes(4)),
    "a longer segment": _with_index(36, struct.pack(">I", 1 << 20)),
    "a shorter segment": _with_index(36, bytes(4)),
}


@pytest.mark.parametrize("data", ODD_INDEXES.values(), ids=ODD_INDEXES.keys())
def test_an_odd_index_is_used_as_libav_uses_it(data: bytes) -> None:
    assert differences(answer(data, "proof"), answer_of_libav(data, "proof")) == []


def test_a_description_that_a_fragment_names_is_the_one_there_is() -> None:
    data = fragments(PLAIN)
    for number in (1, 2):
        named = _with_description(data, number)
        assert (opened(named) is not None) == (number == 1)
        assert differences(answer(named, "proof"), answer_of_libav(named, "proof")) == []


def _with_description(data: bytes, number: int) -> bytes:
    """Name the sample description in each fragment, in the place of the first four bytes of its samples' box."""
    patched, at = bytearray(data), data.find(b"tfhd")
    while at >= 0:
        (flags,) = struct.unpack_from(">I", patched, at + 4)
        # In place of the default of sizes: all samples here have a size of their own.
        struct.pack_into(">I", patched, at + 4, flags & ~0x10 | 0x2)
        values = patched[at + 12 : at + 16], patched[at + 20 : at + 24]
        patched[at + 12 : at + 24] = struct.pack(">I", number) + values[0] + values[1]
        at = data.find(b"tfhd", at + 1)
    return bytes(patched)


@given(st.data())
def test_damaged_fragments_and_indexes_are_answered_as_libav_would(data: st.DataObject) -> None:
    whole = bytearray(fragments(data.draw(st.sampled_from([PLAIN, INDEX_EACH, INDEX_FIRST]))))
    for _ in range(data.draw(st.integers(1, 2))):
        kind = data.draw(st.sampled_from([b"sidx", b"moof", b"tfhd", b"trun", b"mdhd", b"mfro"]))
        offset = whole.find(kind) if data.draw(st.booleans()) else whole.rfind(kind)
        if offset >= 0:
            at = min(offset - 4 + data.draw(st.integers(0, 100)), len(whole) - 1)
            whole[at] = data.draw(st.integers(0, 255))
    damaged = bytes(whole)
    movie = opened(damaged)
    if movie is not None:
        assert differences(movie.walk, walk_of_libav(damaged)) == []
    assert differences(facts(damaged), facts_of_libav(damaged)) == []

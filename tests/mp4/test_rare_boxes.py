"""Boxes that few files have: what they change for libav is what they change here."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from framefeed.errors import MediaError
from framefeed.index import build_index
from framefeed.testing import AudioSpec, ClipSpec, write_clip
from tests.index.comparing import answer, answer_of_libav, differences, opened
from tests.mp4.movies import MovieSpec, coded, movie_bytes, right_offsets
from tests.pathologies.bitstreams import STBL, find_box, make_box, make_table, read_payload, replace_box

COUNT = 24
HUGE = 0xFFFFFFFF


def _is_same(data: bytes | Path) -> bool:
    """Whether the answers are equal, by proof and by decoding all."""
    assert differences(answer(data, "proof"), answer_of_libav(data, "proof")) == []
    try:
        proved, whole = build_index(data, "proof"), build_index(data, "full")
    except MediaError:
        return False
    for name in ("pts", "duration", "key_frame_indices", "frame_packet"):
        assert differences(getattr(proved, name), getattr(whole, name)) == [], name
    return True


def _groups(kind: bytes, *runs: tuple[int, int], version: int = 0, claimed: int | None = None) -> bytes:
    count = struct.pack(">I", len(runs) if claimed is None else claimed)
    rows = b"".join(struct.pack(">II", *run) for run in runs)
    return make_box("sbgp", struct.pack(">I4s", version << 24, kind) + bytes(4 * version) + count + rows)


def _descriptions(*units: int, version: int = 1, width: int = 1) -> bytes:
    head = struct.pack(">I4s", version << 24, b"sync") + (struct.pack(">I", width) if version else b"")
    return make_box("sgpd", head + struct.pack(">I", len(units)) + bytes(units))


SYNC_GROUPS = {
    "some": _descriptions(20, 21) + _groups(b"sync", (1, 1), (7, 0), (1, 2), (15, 0)),
    "of a newer version": _descriptions(21) + _groups(b"sync", (8, 0), (1, 1), version=1),
    "of all samples": _descriptions(21) + _groups(b"sync", (COUNT, 1)),
    "without samples": _descriptions(21) + _groups(b"sync"),
    "without descriptions": _groups(b"sync", (4, 1)),
}
BROKEN_GROUPS = {
    "that break off": _descriptions(21) + _groups(b"sync", (4, 1), claimed=9),
    "of endless samples": _descriptions(21) + _groups(b"sync", (HUGE, 1), (HUGE, 1)),
    "of no length": _descriptions(21, width=0) + _groups(b"sync", (4, 1)),
    "of an old version": _descriptions(21, version=0) + _groups(b"sync", (4, 1)),
    "of random access": _groups(b"rap ", (1, 0), (1, 1)),
}


def _grouped(groups: bytes, codec: str = "libx265") -> bytes:
    spec = MovieSpec(
        ctts=right_offsets(codec), edits=[(700, 100)], sync=coded(codec)[2], codec=codec, tables={"sbgp": groups}
    )
    return movie_bytes(spec)


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
@pytest.mark.parametrize("groups", SYNC_GROUPS.values(), ids=SYNC_GROUPS.keys())
def test_groups_of_key_frames_make_no_key_frames(groups: bytes, codec: str) -> None:
    assert opened(_grouped(groups, codec)) is not None
    assert _is_same(_grouped(groups, codec))


@pytest.mark.parametrize("groups", BROKEN_GROUPS.values(), ids=BROKEN_GROUPS.keys())
def test_broken_groups_are_left_to_libav(groups: bytes) -> None:
    assert opened(_grouped(groups)) is None
    _is_same(_grouped(groups))


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
@pytest.mark.parametrize("time_scale", [600, 999, 1000, 12_800, 30_000])
def test_a_last_sample_of_no_duration_lasts_as_libav_says(time_scale: int, codec: str) -> None:
    step = time_scale // 30
    offsets = [(1, offset * step // 20) for _, offset in right_offsets(codec)]
    for edits in ((), [(700, 2 * step)], [(100, -1), (800, 0)]):
        spec = MovieSpec(
            stts=[(COUNT - 1, step), (1, 0)], ctts=offsets, edits=edits, codec=codec, time_scale=time_scale
        )
        assert opened(movie_bytes(spec)) is not None
        assert _is_same(movie_bytes(spec))


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_other_samples_of_no_duration_are_left_to_libav(codec: str) -> None:
    for times in ([(1, 0), (23, 20)], [(22, 20), (2, 0)], [(9, 20), (1, 0), (14, 20)], [(COUNT, 0)]):
        data = movie_bytes(MovieSpec(stts=times, ctts=right_offsets(codec), codec=codec))
        assert opened(data) is None
        assert differences(answer(data, "proof"), answer_of_libav(data, "proof")) == []


def test_hevc_whose_last_duration_libav_guesses_from_its_rate_is_opened_with_decoders() -> None:
    uneven = [(1, 1300 + 700 * (number * number % 7)) for number in range(COUNT - 1)]
    data = movie_bytes(MovieSpec(stts=[*uneven, (1, 0)], codec="libx265", sync=coded("libx265")[2], time_scale=90_000))
    assert opened(data) is None
    assert _is_same(data)


def _description(*parts: bytes) -> bytes:
    """The stsd box of H.264 with further boxes in it."""
    entry = read_payload(coded()[0], "stsd")[8:]
    grown = struct.pack(">I", len(entry) + sum(map(len, parts))) + entry[4:] + b"".join(parts)
    return make_box("stsd", struct.pack(">II", 0, 1) + grown)


def test_a_box_of_colours_without_its_last_byte_takes_the_one_behind_it() -> None:
    colours = make_box("colr", b"nclx" + struct.pack(">HHH", 1, 1, 1))
    for parts in ((colours,), (colours, make_box("pasp", struct.pack(">II", 1, 1))), (colours, b"\x80")):
        data = movie_bytes(MovieSpec(ctts=right_offsets(), tables={"stsd": _description(*parts)}))
        _is_same(data)
    data = movie_bytes(MovieSpec(ctts=right_offsets(), tables={"stsd": _description(colours)}))
    assert opened(data) is not None
    assert build_index(data).stream.color_range == 1


def _second_track(data: bytes, track_id: int, flags: int = 3) -> bytes:
    """The track of a movie under another number."""
    start, end = find_box(data, "moov.trak")
    at = find_box(data, "moov.trak.tkhd")[0] - start
    trak = bytearray(data[start:end])
    struct.pack_into(">I", trak, at + 8, flags)
    struct.pack_into(">I", trak, at + 20, track_id)
    return bytes(trak)


def _with_tracks(data: bytes, *tracks: bytes, before: bool = False) -> bytes:
    start, end = find_box(data, "moov.trak")
    tracks = (*tracks, data[start:end]) if before else (data[start:end], *tracks)
    return replace_box(data, "moov.trak", b"".join(tracks))


def _emptied(trak: bytes) -> bytes:
    empty = {
        "stts": make_table("stts"),
        "stsc": make_table("stsc"),
        "stco": make_table("stco"),
        "stss": b"",
        "ctts": b"",
    }
    empty["stsz"] = make_box("stsz", bytes(12))
    inside = STBL.removeprefix("moov.")
    for kind, new_payload in empty.items():
        trak = replace_box(trak, f"{inside}.{kind}", new_payload)
    return trak


@pytest.mark.parametrize("before", [False, True])
def test_the_only_track_that_is_enabled_or_has_samples_counts(before: bool) -> None:
    data = movie_bytes(MovieSpec(ctts=right_offsets(), sync=coded()[2]))
    for other in (_second_track(data, 2, flags=2), _emptied(_second_track(data, 2))):
        both = _with_tracks(data, other, before=before)
        movie = opened(both)
        assert movie is not None
        assert movie.number == int(before)
        assert _is_same(both)


def test_a_choice_between_tracks_with_samples_is_left_to_libav() -> None:
    data = movie_bytes(MovieSpec(ctts=right_offsets(), sync=coded()[2]))
    both = _with_tracks(data, _second_track(data, 2))
    assert opened(both) is None
    assert _is_same(both)


@pytest.mark.parametrize(("target", "is_ours"), [(1, False), (2, True), (9, True)])
def test_chapters_in_a_track_count_where_they_are_pictures(target: int, is_ours: bool, tmp_path: Path) -> None:
    path = tmp_path / "sound.mp4"
    write_clip(path, ClipSpec(num_frames=20), AudioSpec())
    data = path.read_bytes()
    trak = read_payload(data, "moov.trak") + make_box("tref", make_box("chap", struct.pack(">I", target) + b"\0"))
    path.write_bytes(replace_box(data, "moov.trak", make_box("trak", trak)))
    assert (opened(path) is not None) == is_ours
    _is_same(path)


def test_sound_without_a_description_changes_nothing_of_the_pictures(tmp_path: Path) -> None:
    path = tmp_path / "sound.mp4"
    write_clip(path, ClipSpec(num_frames=20), AudioSpec())
    data = bytearray(path.read_bytes())
    at = data.rfind(b"stsd")
    data[at : at + 4] = b"free"
    path.write_bytes(data)
    assert opened(path) is not None
    assert _is_same(path)


def test_a_header_that_announces_fragments_may_come_without() -> None:
    data = movie_bytes(MovieSpec(ctts=right_offsets(), edits=[(700, 100)], sync=coded()[2]))
    defaults = make_box("mvex", make_box("trex", struct.pack(">IIIIII", 0, 1, 1, 20, 0, 0)))
    announced = replace_box(data, "moov", make_box("moov", read_payload(data, "moov") + defaults))
    assert opened(announced) is not None
    assert _is_same(announced)

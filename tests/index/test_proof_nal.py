"""H.264 and HEVC proved from their packets: as full verification finds, also on what is made to mislead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from framefeed import FrameIndex, build_index
from framefeed.errors import FramefeedError
from framefeed.index import index_media, probe
from framefeed.index._stream import HEAD_PACKETS
from framefeed.testing import ClipSpec, clip_bytes, take_packets, write_clip
from tests.codec_clips import CODECS
from tests.corpus import corpus_file
from tests.index.proof_checks import PROVED, BelievesTimes, collecting_reasons, differences, mistakes, prove
from tests.lengths import IS_ALL, either, sampled
from tests.media import nal_mutants as mutants
from tests.media.nal_mutants import (
    Stream,
    Units,
    edit,
    h264,
    hevc,
    join,
    joined,
    kind_of,
    late_b,
    later,
    span_of,
    split,
    with_sets,
)
from tests.mp4.movies import MovieSpec, coded, movie_bytes, right_offsets
from tests.pathologies import iter_pathologies

MP4, MKV, TS = ".mp4", ".mkv", ".ts"
CODEC_NAMES = ("h264", "hevc")


@pytest.fixture
def reasons() -> Iterator[list[str]]:
    """What the index says of proofs that fail."""
    with collecting_reasons() as said:
        yield said


def check(path: Path) -> FrameIndex:
    """Index a file by proof; it must be as full verification finds, whatever is proved."""
    (info, index), (full_info, full) = index_media(path), index_media(path, "full")
    assert differences(index, full) == [], path.name
    assert info == full_info, path.name
    return index


# ---- what encoders write

ENCODES = {
    "x264": lambda: h264(),
    "x264 pyramid": lambda: h264("bframes=7:b-adapt=0:b-pyramid=normal:ref=4"),
    "x264 weights": lambda: h264("weightp=2:ref=5:bframes=3:b-pyramid=normal"),
    "x264 many references": lambda: h264("ref=16:weightp=2:bframes=16:b-adapt=0:b-pyramid=normal"),
    "x264 slices": lambda: h264("slices=4"),
    "x264 CAVLC": lambda: h264("cabac=0"),
    "x264 MBAFF": lambda: h264("interlaced=1:bframes=2"),
    "x264 open": lambda: h264("open-gop=1:bframes=3:b-adapt=0"),
    "x264 timing": lambda: h264("nal-hrd=vbr:vbv-maxrate=400:vbv-bufsize=400:aud=1:pic-struct=1"),
    "x264 repeated sets": lambda: h264("repeat-headers=1"),
    "x264 no B": lambda: h264("bframes=0:ref=1:cabac=0:weightp=0"),
    "x265": lambda: hevc(),
    "x265 open": lambda: hevc("open-gop=1:bframes=3:b-adapt=0"),
    "x265 closed": lambda: hevc("open-gop=0:bframes=3:b-adapt=0"),
    "x265 sub-layers": lambda: hevc("temporal-layers=1:bframes=3:b-adapt=0"),
    "x265 slices": lambda: hevc("slices=2"),
    "x265 repeated sets": lambda: hevc("repeat-headers=1:aud=1:hrd=1:vbv-maxrate=400:vbv-bufsize=400"),
}


# Each in one container in turn; make test-all writes each in all.
@pytest.mark.parametrize(
    ("name", "ending"),
    sampled(
        [(name, (MP4, MKV, TS)[(number + turn) % 3]) for number, name in enumerate(ENCODES) for turn in range(3)],
        lambda case: case[0],
    ),
)
def test_streams_of_encoders_are_proved(name: str, ending: str, tmp_path: Path) -> None:
    assert check(ENCODES[name]().write(tmp_path / f"clip{ending}")).built_from == PROVED


def test_flv_is_proved(tmp_path: Path) -> None:
    assert check(h264().write(tmp_path / "clip.flv")).built_from == PROVED


@pytest.mark.parametrize("name", sorted(one.name for one in iter_pathologies()))
def test_pathologies_are_as_full_verification_finds(name: str) -> None:
    path = corpus_file(name)
    if path.is_dir():
        pytest.skip("a folder")
    try:
        codec = build_index(path).stream.codec
    except FramefeedError:
        pytest.skip("no video")
    if codec not in CODEC_NAMES:
        pytest.skip(f"of {codec}")
    check(path)


@pytest.mark.parametrize("name", sorted(name for name in CODECS if name.startswith(CODEC_NAMES)))
def test_codecs_are_as_full_verification_finds(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"clip{CODECS[name].suffix}"
    write_clip(path, CODECS[name].spec)
    check(path)


# ---- what no encoder here writes, and is proved all the same

_STEREO_LIKE = bytes([62 << 1, 1, 0x19])
SOUND = {
    "last packet only ends the sequence": lambda: mutants.with_last(h264(), join([mutants.end_of_sequence("h264")])),
    "last HEVC packet only ends it": lambda: mutants.with_last(hevc(), join([mutants.end_of_sequence("hevc")])),
    "last packet is a delimiter": lambda: mutants.with_last(h264(), join([b"\x09\xf0"])),
    "a packet of messages": lambda: edit(h264(), [12], lambda _: [b"\x06\x05\x01\x00\x80"]),
    "silent, and evident in time": lambda: with_sets(late_b(b_frames=1), mutants.without_usability),
    "deeper late, and declared": lambda: late_b(),
    "deeper late, and declared, HEVC": lambda: late_b("libx265"),
    "HEVC that begins with an open GOP": lambda: mutants.cut_at(_open(), _cra()),
    "the first picture drops what is not there": lambda: edit(_closed(), [0], _dropping),
    "HEVC that lost a picture to which no other refers": lambda: _lost(_closed(), mutants.find_kind(_closed(), 0)[5]),
    "HEVC with a packet of no slices, to which no other refers": lambda: edit(
        _closed(), [mutants.find_kind(_closed(), 0)[5]], lambda _: [bytes([35 << 1, 1, 0x50])]
    ),
    "HEVC whose lost leading pictures end right before a key frame": lambda: _leading_alone(),
    "Dolby Vision's unit": lambda: edit(hevc(), range(96), lambda units: [*units, _STEREO_LIKE]),
}


def _open() -> Stream:
    return hevc("open-gop=1:bframes=3:b-adapt=0")


def _leading_alone() -> Stream:
    """Of an open GOP what refers to the one before, and then a closed one."""
    stream, start = _open(), _cra()
    stop = next(number for number, packet in enumerate(stream.packets) if number > start and not _is_rasl(packet.data))
    return stream.with_packets([*stream.packets[start:stop], *later(stream.packets[:start], span_of(stream))])


def _is_rasl(data: bytes) -> bool:
    return kind_of(split(data)[0], "hevc") in (8, 9)


def _closed() -> Stream:
    return hevc("open-gop=0:bframes=3:b-adapt=0")


def _cra() -> int:
    return mutants.find_kind(_open(), 21)[0]


def _dropping(units: Units) -> Units:
    """Set no_output_of_prior_pics_flag, H.265 7.3.6.1."""
    irap = range(16, 24)
    return [unit[:2] + bytes([unit[2] | 0x40]) + unit[3:] if kind_of(unit, "hevc") in irap else unit for unit in units]


@pytest.mark.parametrize("ending", [MP4, MKV])
@pytest.mark.parametrize("make", SOUND.values(), ids=SOUND.keys())
def test_odd_but_valid_streams_are_proved(make: Callable[[], Stream], ending: str, tmp_path: Path) -> None:
    assert check(make().write(tmp_path / f"clip{ending}")).built_from == PROVED


@pytest.mark.parametrize("ending", [MP4, MKV, TS])
def test_a_stream_that_begins_in_a_gop_is_decoded_up_to_the_first_key_frame(ending: str, tmp_path: Path) -> None:
    index = check(mutants.cut_at(h264("repeat-headers=1"), 12).write(tmp_path / f"clip{ending}"))
    assert index.built_from == "packets+ends"
    assert len(index) == 66


@pytest.mark.parametrize("ending", [MP4, MKV, ".flv"])
@pytest.mark.parametrize("which", [range(96), range(1), range(1, 96)], ids=["all", "first", "others"])
def test_pictures_rotated_by_messages_are_described_as_decoded(which: range, ending: str, tmp_path: Path) -> None:
    check(edit(h264(), which, lambda units: [mutants.turn(0x4000), *units]).write(tmp_path / f"clip{ending}"))


def test_colours_that_only_the_container_has_are_the_streams(tmp_path: Path) -> None:
    unset = {"x264-params": "colorprim=undef:transfer=undef:colormatrix=undef"}
    tags = dict.fromkeys(("colorspace", "color_primaries", "color_trc"), "bt709")
    for ending in (MKV, MP4):
        index = check(write_clip(tmp_path / f"clip{ending}", ClipSpec(40, codec_options={**tags, **unset})))
        assert index.built_from == PROVED
        assert (index.stream.color_primaries, index.stream.color_transfer, index.stream.color_space) == (1, 1, 1)


@pytest.mark.parametrize("ending", [MP4, MKV])
def test_mpeg4_that_has_b_vops_behind_what_is_decoded_is_decoded_whole(ending: str, tmp_path: Path) -> None:
    """Its header declares none, so that a decoder gives other frames from the first of them on."""
    first, second = (_mpeg4(b_frames, count) for b_frames, count in ((0, 2 * HEAD_PACKETS), (2, 24)))
    step = span_of(first) // len(first.packets)
    stream = first.with_packets([*first.packets, *later(second.packets, span_of(first) + 2 * step)])
    assert check(stream.write(tmp_path / f"clip{ending}")).built_from == "decode"


def _mpeg4(b_frames: int, num_frames: int) -> Stream:
    clip = clip_bytes(ClipSpec(num_frames, codec="mpeg4", b_frames=b_frames, gop=12), "mp4")
    return Stream(clip, *take_packets(clip))


def test_one_packet_without_a_duration_is_noticed(tmp_path: Path, reasons: list[str]) -> None:
    spec = MovieSpec(
        codec="libx265",
        stts=[(22, 20), (1, 40), (1, 0)],
        ctts=right_offsets("libx265"),
        sync=coded("libx265")[2],
    )
    path = tmp_path / "clip.mp4"
    path.write_bytes(movie_bytes(spec))
    assert check(path).built_from == PROVED
    assert "packets without a duration" in reasons[0], "libav makes one up, and another one once it has decoded"


# ---- what must not be believed

_ONE = "bframes=2:b-adapt=0:cabac=0:ref=1:weightp=0:b-pyramid=none:weightb=0"


def _silent_late() -> Stream:
    """Pictures one apart that are reordered late: libav, which is not told so, does not know in time."""
    return with_sets(mutants.with_orders(late_b(b_frames=1), 1), mutants.without_usability)


def _gap() -> Stream:
    """A lost reference hides the step of the order from which libav would know in time."""
    stream = with_sets(late_b(b_frames=2), mutants.without_usability)
    return stream.with_packets(packet for number, packet in enumerate(stream.packets) if number != 74)


def _other_sets(units: Units, codec: str) -> Units:
    sps = 7 if codec == "h264" else 33
    change = mutants.with_depth(0, codec)
    return [change(unit) if kind_of(unit, codec) == sps else unit for unit in units]


def _swapped() -> Stream:
    packets = list(h264().packets)
    packets[19], packets[20] = (
        replace(packets[19], pts=packets[20].pts),
        replace(packets[20], pts=packets[19].pts),
    )
    return h264().with_packets(packets)


def _at_one_time() -> Stream:
    stream = h264("bframes=0")
    packets = list(stream.packets)
    packets[19] = replace(packets[19], pts=packets[20].pts)
    return stream.with_packets(packets)


def _two_in_one() -> Stream:
    packets = list(h264().packets)
    packets[10:12] = [replace(packets[10], data=packets[10].data + packets[11].data)]
    return h264().with_packets(packets)


def _with_unit(kind: int, *, last: bool = False) -> Callable[[], Stream]:
    unit = bytes([0x60 | kind]) + b"\x88\x11\x22\x33"
    return lambda: edit(h264(), [12], lambda units: [*units, unit] if last else [unit, *units])


def _with_rest() -> Stream:
    packets = list(h264().packets)
    packets[12] = replace(packets[12], data=packets[12].data + b"\0\0")
    return h264().with_packets(packets)


def _deeper(first: Stream, second: Stream) -> Stream:
    """Put an encode behind another that is reordered less."""
    both = joined(first, second)
    step = mutants.span_of(first) // len(first.packets)
    return both.with_packets(replace(packet, dts=(number - 4) * step) for number, packet in enumerate(both.packets))


def _deep() -> Stream:
    return h264("bframes=3:b-adapt=0:b-pyramid=normal:weightp=0:ref=2")


def _sliced(change: Callable[[Units], Units], which: int = 12) -> Callable[[], Stream]:
    return lambda: edit(h264("slices=4"), [which], change)


def _numbered_key() -> Stream:
    """Number an IDR picture as the picture behind it, and not 0, H.264 7.4.3."""
    number_bits, _ = mutants.syntax_of(h264())

    def change(unit: bytes) -> bytes:
        bits = mutants.bits_of(unit)
        for _ in range(3):
            bits.golomb()
        return mutants.with_bits(unit, bits.num_read, number_bits, f"{1:0{number_bits}b}")

    return edit(h264(), [30], lambda units: [change(unit) if kind_of(unit) == 5 else unit for unit in units])


def _reference() -> int:
    """A picture of the second GOP to which others refer."""
    return mutants.find_kind(hevc(), 1)[9]


def _lost(stream: Stream, number: int) -> Stream:
    return stream.with_packets([*stream.packets[:number], *stream.packets[number + 1 :]])


def _without_slices(number: int) -> Stream:
    """Leave a delimiter of a packet of HEVC: an access unit that is no picture."""
    return edit(hevc(), [number], lambda _: [bytes([35 << 1, 1, 0x50])])


def _ended(which: int, *, first: bool = False) -> Callable[[], Stream]:
    end = mutants.end_of_sequence("hevc")
    return lambda: edit(_open(), [which], lambda units: [end, *units] if first else [*units, end])


def _in_band(codec: str) -> Callable[[], Stream]:
    make = h264 if codec == "h264" else hevc
    return lambda: edit(make("repeat-headers=1:bframes=3"), range(20, 96), lambda units: _other_sets(units, codec))


def _layered(units: Units) -> Units:
    return [*units, bytes([units[-1][0] | 1]) + units[-1][1:]]


UNSOUND: dict[str, tuple[str, Callable[[], Stream], str]] = {
    "late depth": ("reordered by 2, and 0", lambda: with_sets(late_b(), mutants.with_depth(0)), MKV),
    "late depth, less": ("reordered by 2, and 1", lambda: with_sets(late_b(), mutants.with_depth(1)), MKV),
    "late depth, silent": ("reordered by 2, and None", lambda: with_sets(late_b(), mutants.without_usability), MKV),
    "late depth, silent, one": ("does not know in time", _silent_late, MKV),
    "late depth, HEVC": ("reordered by 2", lambda: with_sets(late_b("libx265"), mutants.with_depth(1, "hevc")), MP4),
    "encodes joined": ("changes of references", lambda: joined(_deep(), h264("bframes=0:cabac=0:weightp=0")), MP4),
    "encodes joined, deeper": (
        "other parameter sets",
        lambda: _deeper(
            h264("repeat-headers=1:bframes=1:b-adapt=0"),
            h264("repeat-headers=1:bframes=3:b-adapt=0:b-pyramid=normal"),
        ),
        MKV,
    ),
    "encodes joined, deeper, HEVC": (
        "reordered by 2, and 1",
        lambda: _deeper(hevc("bframes=1:b-adapt=0:ref=3"), hevc("bframes=3:b-adapt=0:ref=3:b-pyramid=1")),
        MP4,
    ),
    "MMCO 5": ("MMCO 5", lambda: mutants.with_reset(h264(_ONE), 1), MP4),
    "MMCO 5 later": ("MMCO 5", lambda: mutants.with_reset(h264(_ONE), 34), MKV),
    "gap": ("gaps in the numbers", _gap, MKV),
    "other sets": ("other parameter sets", _in_band("h264"), MP4),
    "other sets, HEVC": ("other parameter sets", _in_band("hevc"), MKV),
    "end of sequence": ("end of the sequence", lambda: _ended(_cra() - 1)(), MP4),
    "end of sequence first": ("end of the sequence", lambda: _ended(_cra(), first=True)(), MKV),
    "end of sequence, H.264": (
        "end of the sequence",
        lambda: edit(h264(), [29], lambda units: [*units, mutants.end_of_sequence("h264")]),
        MP4,
    ),
    **{
        f"end of sequence {len(stream().packets) - number} before the end, {codec}": (
            "end of the sequence",
            lambda stream=stream, codec=codec, number=number: edit(
                stream(), [number], lambda units: [*units, mutants.end_of_sequence(codec)]
            ),
            MP4,
        )
        for codec, stream in (("h264", h264), ("hevc", hevc))
        for number in (93, 94)
    },
    "numbered key picture": ("gaps in the numbers", _numbered_key, MKV),
    "a key picture of no slices, HEVC": (
        "refer to missing ones",
        lambda: _without_slices(mutants.find_kind(hevc(), 21)[0]),
        MP4,
    ),
    "a reference of no slices, HEVC": ("refer to missing ones", lambda: _without_slices(_reference()), MKV),
    "a lost key picture, HEVC": ("refer to missing ones", lambda: _lost(_open(), _cra()), TS),
    "a lost reference, HEVC": ("refer to missing ones", lambda: _lost(hevc(), _reference()), MKV),
    "a lost reference near the end, HEVC": ("refer to missing ones", lambda: _lost(hevc("bframes=0"), 94), MKV),
    "broken link": ("broken links", lambda: mutants.retyped(_open(), [_cra()], 21, 16), MP4),
    "dropping": ("drop before", lambda: edit(_closed(), [30, 60, 90], _dropping), MKV),
    "layers": ("several layers", lambda: edit(hevc(), [12], _layered), MKV),
    "times": ("times in another order", _swapped, MKV),
    "a time twice": ("times in another order", _at_one_time, MKV),
    "two pictures": ("not one picture", _two_in_one, MP4),
    "two beginnings": ("not one picture", _sliced(lambda units: [units[0], *units]), MP4),
    "no beginning": ("not one picture", _sliced(lambda units: units[1:]), MP4),
    "slices in another order": ("not one picture", _sliced(lambda units: [units[1], units[0], *units[2:]]), MKV),
    "slices of two types": (
        "not one picture",
        _sliced(lambda units: [*units[:-1], bytes([units[-1][0] & 0xE0 | 1]) + units[-1][1:]], 0),
        MP4,
    ),
    "lengths": ("not one picture", _with_rest, MP4),
    "partitions": ("slices in parts", _with_unit(2), MKV),
    "partitions behind": ("types [3]", _with_unit(3, last=True), MKV),
    **{f"type {kind}": (f"types [{kind}]", _with_unit(kind), MKV) for kind in (14, 15, 19, 20, 21, 24)},
}


@pytest.mark.parametrize(("reason", "make", "ending"), UNSOUND.values(), ids=UNSOUND.keys())
def test_misleading_streams_are_not_proved(
    reason: str, make: Callable[[], Stream], ending: str, tmp_path: Path, reasons: list[str]
) -> None:
    assert check(make().write(tmp_path / f"clip{ending}")).built_from != PROVED
    assert reason in reasons[-1]


@pytest.mark.parametrize("name", ["fields.mkv", "fields.mp4", "fields.ts"])
def test_one_field_a_packet_is_not_proved(name: str, reasons: list[str]) -> None:
    assert check(corpus_file(name)).built_from == "decode"
    assert "pictures of one field" in reasons[-1]


def test_a_last_packet_that_is_cut_is_not_proved_by_its_lengths(tmp_path: Path, reasons: list[str]) -> None:
    packets = list(h264().packets)
    packets[-1] = replace(packets[-1], data=packets[-1].data[:-5])
    assert check(h264().with_packets(packets).write(tmp_path / "cut.mp4")).built_from == "decode"
    assert "not one picture" in reasons[-1]


# ---- a prover without rules is wrong about these

MISLEADING = {
    "depth": (UNSOUND["late depth"][1], MKV),
    "depth where silent": (UNSOUND["late depth, silent, one"][1], MKV),
    "depth of HEVC": (UNSOUND["late depth, HEVC"][1], MP4),
    "MMCO 5": (UNSOUND["MMCO 5"][1], MP4),
    "gaps": (UNSOUND["gap"][1], MKV),
    "other sets": (UNSOUND["other sets, HEVC"][1], MKV),
    "ends": (UNSOUND["end of sequence"][1], MP4),
    "broken links": (UNSOUND["broken link"][1], MP4),
    "missing references": (UNSOUND["a reference of no slices, HEVC"][1], MKV),
    "lost pictures": (SOUND["HEVC that begins with an open GOP"], MKV),
    "dropped pictures": (UNSOUND["dropping"][1], MKV),
    "order of times": (UNSOUND["times"][1], MKV),
}


@pytest.mark.parametrize(("make", "ending"), MISLEADING.values(), ids=MISLEADING.keys())
def test_a_prover_that_believes_times_is_caught(make: Callable[[], Stream], ending: str, tmp_path: Path) -> None:
    path = make().write(tmp_path / f"clip{ending}")
    assert mistakes(prove(path, BelievesTimes), build_index(path, verify="full")) == ["frames"]


def test_a_prover_that_believes_times_is_right_about_a_plain_stream(tmp_path: Path) -> None:
    path = h264().write(tmp_path / "clip.mkv")
    full = build_index(path, verify="full")
    assert mistakes(prove(path, BelievesTimes), full) == mistakes(prove(path), full) == []


# ---- real media

NOT_PROVED = {
    "S001C001P001R001A001_rgb.avi": "times in another order",
    "big_buck_bunny_160x90_ltr.mp4": "other parameter sets",
    "cat_avc_clip.mp4": "not one sequence parameter set",
    "corrupted.mp4": "not one picture",
    "fixture-raw.mts": "other parameter sets",
    "sample_android_slow_motion.mp4": "types [14]",
    "v.mp4": "",
}
"""Why; v.mp4 begins in a GOP. Bare streams, which have no times, are not listed."""
BARE = (".264", ".h264", ".jsv", ".annexb")
COMMON = (".mp4", ".m4v", ".mov", ".mkv")


@lru_cache(maxsize=1)
def _real_videos(root: Path) -> list[Path]:
    found = []
    for path in sorted(path for path in root.glob("video*/**/*") if path.is_file()):
        with suppress(FramefeedError):
            if probe(path).codec in CODEC_NAMES and path.suffix not in BARE:
                found.append(path)
    return found


@pytest.mark.slow
def test_nearly_all_real_videos_are_proved(media_root: Path, reasons: list[str]) -> None:
    videos = _real_videos(media_root)
    assert len(videos) > 100
    left = {}
    for number, path in enumerate(videos):
        if not (IS_ALL or number % 3 == 0 or path.name in NOT_PROVED):
            continue
        if build_index(path).built_from != PROVED:
            left[path.name] = reasons[-1] if reasons else ""
    assert left.keys() == NOT_PROVED.keys()
    for name, reason in NOT_PROVED.items():
        assert reason in left[name], left[name]
    common = [path for path in videos if path.suffix in COMMON]
    assert sum(path.name not in left for path in common) >= 0.9 * len(common)


@pytest.mark.slow
@pytest.mark.long
def test_real_videos_are_as_full_verification_finds(media_root: Path) -> None:
    for path in _real_videos(media_root)[:: either(short=12 if IS_ALL else 36, long=1)]:
        check(path)

"""VP8, VP9 and AV1 proved from their packets: as full verification finds, on what misleads too."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from framefeed import build_index
from framefeed.errors import EmptyVideo, FramefeedError
from framefeed.index import probe
from framefeed.testing import ClipSpec, clip_bytes
from tests.bitstreams.vpx_cases import MUTANTS
from tests.bitstreams.vpx_mutants import GOP, edit, ivf, packets
from tests.codec_clips import CODECS
from tests.corpus import corpus_file
from tests.index.proof_checks import PROVED, check, collecting_reasons, with_key_flags
from tests.lengths import IS_ALL, either

NAMES = frozenset({"vp8", "vp9", "av1", "mjpeg", "prores", "ffv1", "dnxhd", "png"})


# --- what encoders write ----------------------------------------------------------------------------


def _spec(codec: str, pixel_format: str = "yuv420p", size: tuple[int, int] = (96, 128), **options: str) -> ClipSpec:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    height, width = size
    return ClipSpec(
        40, height, width, codec=codec, pixel_format=pixel_format, gop=20, b_frames=None, codec_options=named
    )


_ALTERNATES = {"auto_alt_ref": "1", "lag_in_frames": "16", "deadline": "good", "cpu_used": "5"}
ENCODES = {
    "VP8": _spec("libvpx", **_ALTERNATES),
    "VP8 of several parts": _spec("libvpx", slices="8", profile="3", error_resilient="1"),
    "VP9": _spec("libvpx-vp9", **_ALTERNATES),
    "VP9, many alternates": _spec("libvpx-vp9", **(_ALTERNATES | {"auto_alt_ref": "6", "lag_in_frames": "25"})),
    "VP9, 4:4:4": _spec("libvpx-vp9", "yuv444p"),
    "VP9, 4:4:0": _spec("libvpx-vp9", "yuv440p"),
    "VP9, RGB": _spec("libvpx-vp9", "gbrp"),
    "VP9, resilient": _spec("libvpx-vp9", error_resilient="1"),
    "VP9, lossless": _spec("libvpx-vp9", lossless="1"),
    "VP9, tiles": _spec("libvpx-vp9", size=(128, 1024), tile_columns="2", tile_rows="1"),
    "VP9, segments": _spec("libvpx-vp9", aq_mode="3"),
    "VP9, odd size": _spec("libvpx-vp9", size=(67, 131)),
    "VP9, full range": _spec("libvpx-vp9", color_range="pc", colorspace="bt709"),
    "AV1": _spec("libsvtav1"),
    "AV1, ten bits": _spec("libsvtav1", "yuv420p10le"),
    "AV1, low delay": _spec("libsvtav1", svtav1_params="pred-struct=1"),
    "AV1, full range": _spec(
        "libsvtav1", color_range="pc", colorspace="bt709", color_primaries="bt709", color_trc="bt709"
    ),
    "AV1, super-resolution": _spec("libsvtav1", svtav1_params="superres-mode=1:superres-denom=12"),
    "AV1, grain": _spec("libsvtav1", svtav1_params="film-grain=8"),
    "AV1, tiles": _spec("libsvtav1", size=(256, 512), svtav1_params="tile-columns=1:tile-rows=1"),
}


CONTAINERS = ("ivf", "webm", "mp4")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "container"),
    [
        (name, container)
        for number, name in enumerate(ENCODES)
        for container in either(short=CONTAINERS[number % 3 :][:1], long=CONTAINERS)
    ],
)
def test_streams_of_encoders_are_proved(name: str, container: str) -> None:
    if container == "mp4" and (name.startswith("VP8") or name == "VP9, 4:4:0"):
        pytest.skip("MP4 has no such track")
    assert check(clip_bytes(ENCODES[name], container)) == PROVED


@pytest.mark.parametrize("codec", ["libvpx", "libvpx-vp9", "libsvtav1"])
@pytest.mark.parametrize("container", ["webm", "mp4"])
@pytest.mark.parametrize(("rotation", "mirrored"), [(90, False), (180, False), (0, True)])
def test_pictures_rotated_by_the_container_are_described_as_decoded(
    codec: str, container: str, rotation: int, mirrored: bool
) -> None:
    if (codec, container) == ("libvpx", "mp4"):
        pytest.skip("MP4 has no such track")
    clip = clip_bytes(ClipSpec(6, codec=codec, b_frames=None, rotation=rotation, mirrored=mirrored), container)
    assert check(clip) == PROVED
    assert (build_index(clip).stream.rotation, build_index(clip).stream.mirrored) == (rotation, mirrored)


@pytest.mark.parametrize("matrix", [1, 2, 6])
@pytest.mark.parametrize("full_range", [0, 1])
def test_colors_of_the_container_count_before_those_of_the_codec(matrix: int, full_range: int) -> None:
    clip = bytearray(
        clip_bytes(ClipSpec(4, codec="libvpx-vp9", b_frames=None, codec_options={"colorspace": "bt709"}), "mp4")
    )
    at = clip.index(b"vpcC") + 4  # VP Codec ISO Media File Format Binding 1.0, 2.2
    clip[at + 6], clip[at + 9] = clip[at + 6] & 0xFE | full_range, matrix
    assert check(bytes(clip)) == PROVED


@pytest.mark.parametrize("start_seconds", [-0.4, -0.2])
@pytest.mark.parametrize("codec", ["libvpx-vp9", "libsvtav1"])
def test_M06_packets_that_an_edit_discards_are_no_frames(codec: str, start_seconds: float) -> None:
    options = {"avoid_negative_ts": "disabled"}
    spec = ClipSpec(30, codec=codec, b_frames=None, gop=GOP, start_seconds=start_seconds, container_options=options)
    clip = clip_bytes(spec, "mp4")
    # Where the first packet is discarded, what the first frame is like is seen by decoding.
    assert (check(clip) == PROVED) == (start_seconds == -0.4)
    assert len(build_index(clip)) == 30 + round(25 * start_seconds)


@pytest.mark.parametrize("name", ["hidden_vp8.webm", "superframes_vp9.webm", "temporal_units_av1.mp4"])
def test_M11_frames_that_are_hidden_or_shown_later_are_proved(name: str) -> None:
    assert check(corpus_file(name)) == PROVED


@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.parametrize("container", ["own", "matroska"])
def test_codecs_are_proved(name: str, container: str) -> None:
    own = CODECS[name].suffix[1:].replace("mkv", "matroska")
    if container == "matroska" and name in ("dnxhd", "png"):
        pytest.skip("Matroska has no such track of libav's")
    assert check(clip_bytes(CODECS[name].spec, own if container == "own" else container)) == PROVED


@pytest.mark.parametrize("codec", ["libvpx", "libvpx-vp9", "libsvtav1", "ffv1"])
@pytest.mark.parametrize(
    "is_key", [lambda _: True, lambda _: False, lambda number: number % 2 == 0], ids=["all", "none", "others"]
)
def test_M14_wrong_flags_of_the_container_are_ignored(codec: str, is_key: Callable[[int], bool]) -> None:
    clip = clip_bytes(ClipSpec(30, codec=codec, b_frames=None, gop=GOP), "matroska")
    assert check(with_key_flags(clip, is_key)) == PROVED


# --- what no encoder here writes --------------------------------------------------------------------


@pytest.mark.parametrize("name", MUTANTS)
def test_edited_streams_are_as_full_verification_finds(name: str) -> None:
    mutant = MUTANTS[name]
    with collecting_reasons() as reasons:
        how = check(mutant.make(), mutant.limits)
    assert (how == PROVED) == (mutant.reason is None)
    assert mutant.reason is None or mutant.reason in reasons[0]


@pytest.mark.long
@pytest.mark.parametrize("codec", ["vp8", "vp9", "av1"])
def test_D02_a_packet_cut_at_any_byte_is_indexed_as_promised(codec: str) -> None:
    stream, cuts = packets(codec), either(short=6, long=12)
    lengths = either(short=9 if IS_ALL else 23, long=3)
    for number in (0, 1, GOP, 29):
        size = len(stream[number])
        for length in sorted({*range(1, min(48, size), lengths), *range(48, size, max(1, size // cuts))}):
            check(ivf(codec, edit(stream, number, stream[number][:length])))


# --- real media -------------------------------------------------------------------------------------

EMPTY = frozenset({"androidx-media/invalid-bitstream.webm", "libwebm/invalid_vp9_bitstream-bug_1417.webm"})
"""Their packets are no VP9."""
UNPROVED: dict[str, str] = {}
"""Real files that are decoded, and why."""


@pytest.mark.slow
@pytest.mark.long
def test_real_media_are_proved(media_root: Path) -> None:
    built: dict[str, str] = {}
    for path in sorted(media_root.glob("video/*/**/*"))[:: 1 if IS_ALL else 3]:
        name = str(path.relative_to(media_root / "video"))
        if not path.is_file() or name in EMPTY:
            continue
        codec = ""
        with suppress(FramefeedError):  # of a file of another codec
            codec = probe(path).codec
        if codec in NAMES:
            # Full verification decodes everything.
            is_checked = len(built) % either(short=16, long=1) == 0
            built[name] = check(path) if is_checked else build_index(path).built_from
    assert {name for name, how in built.items() if how != PROVED} == UNPROVED.keys()
    assert len(built) > (60 if IS_ALL else 15)


@pytest.mark.parametrize("name", sorted(EMPTY))
def test_real_media_without_a_frame_are_empty(name: str, media_root: Path) -> None:
    with pytest.raises(EmptyVideo):
        build_index(media_root / "video" / name)

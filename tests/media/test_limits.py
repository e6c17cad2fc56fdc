"""S04: what a file may claim; nothing is allocated for a claim."""

from __future__ import annotations

import inspect
import io
import os
from dataclasses import fields, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import framefeed
from framefeed._values import Limits, bound_padded_pixels
from framefeed.cache import FrameCache
from framefeed.decode import ClipSlot
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import LimitExceeded, UsageError
from framefeed.index import build_index, probe
from framefeed.media._container import VideoContainer
from framefeed.media._decoding import decode_facts
from framefeed.media._source import MediaSource
from framefeed.request import OutputSpec
from framefeed.scanning import scan
from framefeed.testing import write_clip
from tests.codec_clips import CODECS
from tests.corpus import clip_file, corpus_file
from tests.media.bombs import write_bombs
from tests.programs import report_of

SMALL = Limits(max_pixels=10_000)
"""Less than the 128 x 96 of most test clips, more than the 64 x 48 of some."""

# What the picture's own header says is small here, and it is that which counts.
HARMLESS = {"jpeg.mov", "mpeg4.mov"}
# The decoder does not get so far as to look at the size.
REFUSED_OTHERWISE = {"avc.mp4", "stream.h264", "vp9.mkv", "huge.y4m"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("bombs")
    write_bombs(folder)
    for name in ("bomb.png", "bomb.gif", "huge_frame.avi", "billion_samples.mp4"):
        (folder / name).write_bytes(corpus_file(name).read_bytes())
    found: dict[str, Any] = report_of("tests.media.bounded", os.fspath(folder))
    return found


def test_S04_huge_claims_have_a_type(report: dict[str, Any]) -> None:
    outcomes: dict[str, dict[str, str]] = report["outcomes"]
    videos = {name: found for name, found in outcomes.items() if not name.startswith(("still.", "bomb."))}
    claims = {name: set(found.values()) for name, found in videos.items() if name not in HARMLESS}
    large = {name: found for name, found in claims.items() if name not in REFUSED_OTHERWISE | {"billion_samples.mp4"}}
    assert len(large) >= 8
    assert {name: found for name, found in large.items() if found != {"LimitExceeded"}} == {}
    for name in REFUSED_OTHERWISE:
        assert claims[name] <= {"EmptyVideo", "UnreadableMedia", "LimitExceeded"}
    assert claims["billion_samples.mp4"] <= {"EmptyVideo", "LimitExceeded"}
    for name in HARMLESS:
        assert outcomes[name]["first_frame"] == "opened [3, 96, 128]"


def test_S04_huge_stills_have_a_type(report: dict[str, Any]) -> None:
    stills = {
        name: found["probe"] for name, found in report["outcomes"].items() if name.startswith(("still.", "bomb."))
    }
    assert len(stills) == 6
    assert set(stills.values()) == {"LimitExceeded"}


def test_S04_claims_cost_neither_memory_nor_time(report: dict[str, Any]) -> None:
    # The program was not killed within 2 GiB of address space and 60 s; what it held is little more than the libraries.
    assert report["peak_mib"] < 300


# --- each limit -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("base.mp4", Limits(max_pixels=128 * 96 - 1)),
        ("base.mp4", Limits(max_side=127)),
        ("rotated_90.mp4", Limits(max_side=127)),
        ("sound_first.mp4", Limits(max_streams=1)),
        ("base.mp4", Limits(max_packets=99)),
        ("base.mp4", Limits(max_packet_bytes=1000)),
        ("closed_gop.ts", SMALL),
        ("raw.hevc", SMALL),
    ],
)
def test_S04_each_limit_is_kept(name: str, limits: Limits) -> None:
    with pytest.raises(LimitExceeded) as raised:
        build_index(corpus_file(name), limits=limits)
    assert raised.value.source == str(corpus_file(name))
    (limit,) = [field.name for field in fields(limits) if getattr(limits, field.name) != field.default]
    assert raised.value.limit == limit
    assert f"give limits=ff.Limits({limit}=...) with a larger number" in str(raised.value)


def public_limits() -> dict[str, inspect.Parameter]:
    """The parameter ``limits`` of every public function and class that has one."""
    found = {name: getattr(framefeed, name) for name in framefeed.__all__}
    parameters = {name: inspect.signature(each).parameters for name, each in found.items() if callable(each)}
    return {name: those["limits"] for name, those in parameters.items() if "limits" in those}


def test_limits_of_none_are_the_defaults() -> None:
    assert set(public_limits()) >= {"probe", "build_index", "scan"}
    for name, parameter in public_limits().items():
        assert (name, parameter.default, parameter.annotation) == (name, None, "Limits | None")
    path = corpus_file("base.mp4")
    assert probe(path, limits=None) == probe(path, limits=Limits())
    assert build_index(path, limits=None).pts.tolist() == build_index(path).pts.tolist()
    assert scan(path, limits=None, workers=0).table.equals(scan(path, workers=0).table)


@pytest.mark.parametrize("ask", [probe, build_index, scan])
def test_limits_of_another_type_are_usage_errors(ask: Any) -> None:
    with pytest.raises(UsageError, match=r"limits: expected an ff\.Limits or None, got dict \{'max_side'"):
        ask(corpus_file("base.mp4"), limits={"max_side": 100})


def test_S04_a_file_at_its_limits_is_fine() -> None:
    limits = Limits(max_side=128, max_pixels=128 * 96, max_streams=1, max_packets=100, max_packet_bytes=10_000)
    assert len(build_index(corpus_file("base.mp4"), limits=limits)) == 100
    assert probe(corpus_file("base.mp4"), limits=limits).width == 128


@pytest.mark.parametrize(
    "name", ["max_side", "max_pixels", "max_streams", "max_packets", "max_packet_bytes", "max_header_bytes"]
)
def test_limits_are_positive(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        Limits(**{name: 0})


@pytest.mark.parametrize("value", ["a", None, 1.5, True, float("nan"), [1]])
def test_limits_are_whole_numbers(value: Any) -> None:
    with pytest.raises(UsageError, match="max_side: expected an integer"):
        Limits(max_side=value)
    assert Limits(max_side=np.int64(7)).max_side == 7


def test_S04_stills_are_held_to_the_limits_too() -> None:
    picture = io.BytesIO()
    Image.new("RGB", (128, 96)).save(picture, "PNG")
    assert probe(picture.getvalue()).width == 128
    with pytest.raises(LimitExceeded):
        probe(picture.getvalue(), limits=SMALL)


# --- exact sizes, whatever a decoder adds to them ---------------------------------------------------

# Not of these containers: pictures, and what no demuxer here reads.
VIDEO_CODECS = sorted(CODECS.keys() - {"apng", "gif", "roq"})
ODD_SIZES = [(1, 2), (1, 63), (63, 1), (15, 17), (33, 31), (50, 50)]


def outcomes_around(data: Any, width: int, height: int) -> tuple[int, set[str | None]]:
    """Frames at exactly the limit, and the limits that are named where a picture is one pixel larger."""
    index = build_index(data, limits=Limits(max_pixels=width * height, max_side=max(width, height)))
    limits, source = Limits(max_pixels=width * height), MediaSource.of(data)
    came = len(list(PyAVDecoder(limits=limits).iter_native(source, index, range(len(index)))))
    named = set()
    for find in (build_index, probe):
        with pytest.raises(LimitExceeded) as raised:
            find(data, limits=Limits(max_pixels=width * height - 1))
        named.add(raised.value.limit)
    return came, named


@pytest.mark.parametrize("codec", VIDEO_CODECS)
def test_S04_max_pixels_is_exact_for_every_codec(codec: str) -> None:
    clip = CODECS[codec]
    path = clip_file(codec + clip.suffix, clip.spec)
    assert outcomes_around(path, clip.spec.width, clip.spec.height) == (len(build_index(path)), {"max_pixels"})


@pytest.mark.parametrize(("codec", "size"), list(product(["mpeg4", "flv1", "h264", "vp8", "mjpeg"], ODD_SIZES)))
def test_S04_max_pixels_is_exact_for_odd_sizes(codec: str, size: tuple[int, int], tmp_path: Path) -> None:
    width, height = size
    path = tmp_path / f"odd{CODECS[codec].suffix}"
    spec = replace(CODECS[codec].spec, num_frames=2, height=height, width=width,
                   draw=lambda number: np.full((height, width, 3), 90 * number, np.uint8))  # fmt: skip
    write_clip(path, replace(spec, pixel_format="yuv444p") if codec == "h264" else spec)
    assert outcomes_around(path, width, height) == (2, {"max_pixels"})


@pytest.mark.parametrize("share", [Fraction(1, 100), Fraction(1, 3), Fraction(9, 10)])
@pytest.mark.parametrize("ending", [".avi", ".m4v", ".h264", ".ts", ".hevc"])
def test_S04_a_refusal_for_size_is_never_taken_for_a_lack_of_memory(ending: str, share: Fraction) -> None:
    codec = {".h264": "h264", ".hevc": "hevc"}.get(ending, "mpeg4")
    spec = replace(CODECS[codec].spec, num_frames=3, height=240, width=320, container_options={})
    path = clip_file(f"plain_{codec}{ending}", spec)
    with pytest.raises(LimitExceeded) as raised:
        build_index(path, limits=Limits(max_pixels=int(320 * 240 * share)))
    assert raised.value.limit == "max_pixels"


def test_S04_padded_sizes_hold_every_shape_within_the_limits() -> None:
    for pixels, side in product([1, 2, 99, 10_000, 2**26], [1, 7, 100, 2**14]):
        limits = Limits(max_pixels=pixels, max_side=side)
        widths = {1, min(side, pixels), *(w for w in range(1, min(side, pixels), 97))}
        assert all((w + 640) * (min(side, pixels // w) + 640) <= bound_padded_pixels(limits) for w in widths)
    assert bound_padded_pixels(Limits()) < 1.25 * Limits().max_pixels


@pytest.mark.parametrize("form", [None, "output", "planes"])
def test_S04_what_is_larger_than_a_decoders_limits_says_so(form: Any, tmp_path: Path) -> None:
    # The second half of the stream is 128 x 96, and was indexed under wider limits.
    source = MediaSource.of(corpus_file("size_change.ts"))
    index, decoder = build_index(source), PyAVDecoder(limits=SMALL)
    out = np.zeros((2, 1, 3, 32, 32), np.uint8)
    slots = [ClipSlot(np.array([i]), OutputSpec(size=(32, 32)), out[k]) for k, i in enumerate([3, 40])]
    with FrameCache(tmp_path / "cache", codec="raw") as cache:
        report = (cache.decoder(decoder, form) if form else decoder).decode(source, index, slots)
    assert report.errors[0] is None
    assert isinstance(report.errors[1], LimitExceeded)
    assert (report.errors[1].limit, report.errors[1].source) == ("max_pixels", source.name)


# --- streams ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".mp4", ".mkv", ".avi", ".ts", ".mpg", ".nut"])
@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_S04_more_streams_than_allowed_are_said_to_be_that(ending: str, most: int) -> None:
    codec = "mpeg2video" if ending in (".ts", ".mpg") else "mpeg4"
    spec = replace(CODECS[codec].spec, num_frames=3, gop=1, b_frames=0)
    path = clip_file(f"five_streams{ending}", *[spec] * 5)
    assert len(build_index(path, limits=Limits(max_streams=5))) == 3
    for find in (build_index, probe):
        with pytest.raises(LimitExceeded, match="max_streams") as raised:
            find(path, limits=Limits(max_streams=most))
        assert raised.value.limit == "max_streams"


# --- the decoder itself refuses ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["size_change.ts", "size_change.h264"])
def test_S04_the_decoder_of_a_container_refuses_what_grows_later(name: str) -> None:
    # The first half is 64 x 48, and so is the header: only the decoder sees 128 x 96.
    assert len(build_index(corpus_file(name))) == 50
    assert len(build_index(corpus_file(name), limits=SMALL)) == 25


@pytest.mark.parametrize("name", ["size_change.ts", "size_change.h264"])
def test_S04_a_stream_that_grows_later_is_refused_after_a_rewind_too(name: str) -> None:
    with VideoContainer(MediaSource.of(corpus_file(name)), limits=SMALL) as container:
        container.reopen()
        assert len(list(decode_facts(container, enumerate(container.packets())))) == 25


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("name", ["base.mp4", "closed_gop.ts", "mpeg4_bframes.mp4"])
def test_S04_an_index_made_under_wider_limits_does_not_widen_a_decoders(name: str, direct: bool) -> None:
    source = MediaSource.of(corpus_file(name))
    decoder = PyAVDecoder(direct=direct, limits=SMALL)
    with pytest.raises(LimitExceeded):
        list(decoder.iter_native(source, build_index(source), [0]))


def test_S04_the_limits_of_an_index_do_not_bind_its_reader() -> None:
    # Frames that a smaller index does not have are not in it, whatever the file holds.
    index = build_index(corpus_file("size_change.ts"), limits=SMALL)
    assert np.array_equal(index.pts, build_index(corpus_file("size_change.ts")).pts[:25])

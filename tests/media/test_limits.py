"""S04: what a file may claim; nothing is allocated for a claim."""

from __future__ import annotations

import inspect
import io
import os
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

import framefeed
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.decode.backends.pyav_pools import Feeding, bare_context
from framefeed.errors import LimitExceeded, UsageError
from framefeed.index.build import build_index
from framefeed.index.scanning import scan
from framefeed.media.container import VideoContainer, decode_facts
from framefeed.media.limits import DEFAULT_LIMITS, Limits
from framefeed.media.probe import probe
from framefeed.media.source import MediaSource
from framefeed.testing import CODECS
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


def public_limits() -> dict[str, inspect.Parameter]:
    """The parameter ``limits`` of every public function and class that has one."""
    found = {name: getattr(framefeed, name) for name in framefeed.__all__}
    parameters = {name: inspect.signature(each).parameters for name, each in found.items() if callable(each)}
    return {name: those["limits"] for name, those in parameters.items() if "limits" in those}


def test_all_that_takes_limits_takes_none_for_the_defaults() -> None:
    assert set(public_limits()) >= {"probe", "build_index", "scan"}
    for name, parameter in public_limits().items():
        assert (name, parameter.default, parameter.annotation) == (name, None, "Limits | None")
    path = corpus_file("base.mp4")
    assert probe(path, limits=None) == probe(path, limits=Limits())
    assert build_index(path, limits=None).pts.tolist() == build_index(path).pts.tolist()
    assert scan(path, limits=None, workers=0).table.equals(scan(path, workers=0).table)


@pytest.mark.parametrize("ask", [probe, build_index, scan])
def test_limits_of_another_type_are_a_mistake_of_the_call(ask: Any) -> None:
    with pytest.raises(UsageError, match=r"limits must be an ff\.Limits or None, not \{'max_side'"):
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


def test_S04_stills_are_held_to_the_limits_too() -> None:
    picture = io.BytesIO()
    Image.new("RGB", (128, 96)).save(picture, "PNG")
    assert probe(picture.getvalue()).width == 128
    with pytest.raises(LimitExceeded):
        probe(picture.getvalue(), limits=SMALL)


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


@pytest.mark.parametrize("name", ["base.mp4", "open_gop_hevc.mp4"])
def test_S04_a_bare_decoder_refuses_too(name: str) -> None:
    index = build_index(corpus_file(name))
    first = int(index.packets.offset[0]), int(index.packets.size[0])
    data = corpus_file(name).read_bytes()[first[0] : sum(first)] + bytes(64)
    packet = av.Packet(memoryview(data)[: first[1]])  # type: ignore[arg-type]

    def decoded(limits: Limits) -> int:
        context = bare_context(index, Feeding(direct=True, threads=1, limits=limits))
        return len(context.decode(packet)) + len(context.decode(None))

    assert decoded(DEFAULT_LIMITS) == 1
    with pytest.raises(av.FFmpegError):
        decoded(SMALL)


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("name", ["base.mp4", "closed_gop.ts", "mpeg4_bframes.mp4"])
def test_S04_an_index_made_under_wider_limits_does_not_widen_a_decoders(name: str, direct: bool) -> None:
    source = MediaSource.of(corpus_file(name))
    decoder = PyAVDecoder(direct=direct, limits=SMALL)
    with pytest.raises(LimitExceeded):
        list(decoder.frames(source, build_index(source), [0]))


@pytest.mark.parametrize("codec", ["av1", "vp9", "vp8", "ffv1", "mjpeg", "rawvideo", "png", "gif"])
def test_S04_other_codecs_obey_as_well(codec: str) -> None:
    clip = CODECS[codec]
    path = clip_file(codec + clip.suffix, clip.spec)
    with pytest.raises(LimitExceeded):
        probe(path, limits=SMALL)


def test_S04_the_limits_of_an_index_are_not_its_readers_business() -> None:
    # Frames that a smaller index does not have are not in it, whatever the file holds.
    index = build_index(corpus_file("size_change.ts"), limits=SMALL)
    assert np.array_equal(index.pts, build_index(corpus_file("size_change.ts")).pts[:25])

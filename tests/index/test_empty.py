"""A video is empty for probe when it is for an index; a picture that scan accepts is one that decodes."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from framefeed._values import DEFAULT_LIMITS, HEAD_BYTES, BytesReader
from framefeed.decode import VideoDecoder
from framefeed.errors import EmptyVideo, FramefeedError
from framefeed.index import build_index
from framefeed.index._movie import movie_info
from framefeed.index._probe import probe
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, clip_bytes, take_packets
from tests.codec_clips import CODECS
from tests.corpus import clip_file

LATE = 72
"""Packets without a frame before the first."""


def _late_vp9(*, num_damaged: int = LATE) -> bytes:
    clip = clip_bytes(ClipSpec(num_frames=LATE + 8, gop=LATE, b_frames=None, codec="libvpx-vp9"), "matroska")
    damaged = bytearray(clip)
    at = 0
    # Where they lie: a muxer would look at them.
    for packet in take_packets(clip)[0][:num_damaged]:
        at = clip.index(packet.data, at)
        damaged[at : at + len(packet.data)] = bytes(len(packet.data))
    return bytes(damaged)


def test_M16_a_first_frame_that_comes_late_is_a_frame() -> None:
    data = _late_vp9()
    assert len(build_index(data)) == 8
    assert (probe(data).width, probe(data).kind) == (128, "video")


def test_M16_a_stream_of_damaged_packets_is_empty_for_both() -> None:
    data = _late_vp9(num_damaged=LATE + 8)
    for ask in (probe, build_index):
        with pytest.raises(EmptyVideo):
            ask(data)


def _is_empty(ask: object, data: bytes) -> bool:
    try:
        ask(data)  # type: ignore[operator]
    except EmptyVideo:
        return True
    except FramefeedError:
        pass
    return False


def _is_proven(data: bytes) -> bool:
    with suppress(FramefeedError):
        return build_index(data).built_from == "packets+proof"
    return False


def _check(data: bytes, name: str) -> bool:
    """Compare, unless a proof says how many frames there are; return whether there was something to compare."""
    if _is_proven(data):
        return False  # damage to pictures is what a proof does not see, and probe does
    is_empty = _is_empty(build_index, data)
    # Where the tables of an MP4 file answer, nothing is decoded, as probe says.
    answered = is_empty and movie_info(BytesReader(data), data[:HEAD_BYTES], name, DEFAULT_LIMITS) is not None
    assert _is_empty(probe, data) == (is_empty and not answered), name
    return True


@pytest.mark.parametrize("codec", ["vp9", "vp8", "h264", "mpeg4", "mjpeg"])
def test_probe_and_index_agree_on_what_is_empty_when_damaged(codec: str) -> None:
    whole = clip_file(codec + CODECS[codec].suffix, CODECS[codec].spec).read_bytes()
    rng = random.Random(codec)
    num_compared = 0
    for number in range(12):
        data = bytearray(whole)
        if number % 2:
            begin = rng.randrange(200, len(data) // 3)
            data[begin:] = rng.randbytes(len(data) - begin)
        else:
            for _ in range(rng.choice((3, 100, 1000))):
                data[rng.randrange(200, len(data))] = rng.randrange(256)
        num_compared += _check(bytes(data), f"{codec} {number}")
    assert num_compared


def test_probe_and_index_agree_on_what_is_empty_of_real_files(media_root: Path) -> None:
    paths = sorted(
        path for path in media_root.glob("video*/**/*") if path.is_file() and 0 < path.stat().st_size < 100_000
    )
    assert paths
    assert sum(_check(path.read_bytes(), path.name) for path in paths[::6])


@pytest.mark.parametrize("name", ["gradient.heic", "gradient_rotated.heic"])
@pytest.mark.parametrize("depth", ["header", "frames"])
def test_I08_heic_in_one_tile_is_decoded_by_libav(name: str, depth: str, media_root: Path) -> None:
    path = media_root / "image" / "torchcodec" / name
    catalog = scan(path, depth=depth)  # type: ignore[arg-type]
    assert catalog.failures == []
    assert catalog.table.select(["kind", "codec"]).to_pylist() == [{"kind": "image", "codec": "hevc"}]
    # The same gradient; libjpeg and the encoder of HEIC lose little of it.
    with VideoDecoder(path) as decoder, VideoDecoder(path.with_name("gradient.png")) as original:
        picture = np.rot90(decoder[0], "rotated" in name, axes=(1, 2))
        assert np.abs(picture.astype(int) - original[0]).mean() < 3

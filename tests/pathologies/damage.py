"""Files that are damaged, hostile, or not videos."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from framefeed.testing import ClipSpec, clip_bytes, write_clip
from tests.pathologies import bitstreams
from tests.pathologies.build import Proof, write_bytes_of
from tests.pathologies.facts import MediaFacts, Pathology, read_facts

_FASTSTART = replace(ClipSpec(), container_options={"movflags": "+faststart"})

_JPEG = ClipSpec(num_frames=1, codec="mjpeg", pixel_format="yuvj420p", gop=None, b_frames=None)
# Above 64 Mi samples, and still a size that libavcodec by itself would make room for.
_HUGE = 9000
# libavcodec conceals damage in HEVC without a message; in H.264 it reports most of it.
_CONCEALING = replace(_FASTSTART, codec="libx265")


def _truncate(data: bytes, share: float = 0.6) -> bytes:
    return data[: int(len(data) * share)]


def _write_silently_wrong(path: Path) -> None:
    """Try single bits until inverting one makes wrong frames of which the decoder flags none."""
    whole = write_clip(path, _CONCEALING).read_bytes()
    for seed in range(100):
        rng = np.random.default_rng(seed)
        data = bytearray(whole)
        data[rng.integers(len(data) // 3, len(data))] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        if _is_silently_wrong(read_facts(path)):
            return
    raise AssertionError("every bit that was tried was noticed, or did no harm")


def _is_silently_wrong(facts: MediaFacts) -> bool:
    noticed = facts.errors or any(frame.is_corrupt for frame in facts.frames)
    return not noticed and len(facts.frames) == 100 and facts.digests != _compute_whole_digests()


@lru_cache(maxsize=1)
def _compute_whole_digests() -> tuple[int, ...]:
    with TemporaryDirectory() as folder:
        return read_facts(write_clip(Path(folder) / "whole.mp4", _CONCEALING)).digests


def _flip_bytes(data: bytes) -> bytes:
    """Invert 40 bytes of the last two thirds, which hold nothing but coded pictures."""
    flipped = np.frombuffer(data, np.uint8).copy()
    offsets = np.random.default_rng(0).choice(np.arange(len(data) // 3, len(data)), 40, replace=False)
    flipped[offsets] ^= 0xFF
    return flipped.tobytes()


def _make_damaged(
    name: str, number: str, trait: str, spec: ClipSpec, damage: Callable[[bytes], bytes], proof: Proof
) -> Pathology:
    def write(path: Path) -> None:
        path.write_bytes(damage(write_clip(path, spec).read_bytes()))

    return Pathology(name, number, trait, write, proof, None)


def _make_playlist(name: str, text: str, target: str) -> Pathology:
    """Make a playlist, and beside it the file that it names."""

    def write(path: Path) -> None:
        write_clip(path.with_name(target))
        path.write_text(text.format(target))

    trait = "not media but a list of other files, which libav opens and plays"
    return Pathology(name, "S01", trait, write, lambda facts: facts.stamps == ClipSpec().stamps, None)


def _claim_1000_frames() -> bytes:
    """Let the stream header of an AVI file promise 1000 frames."""
    data = bytearray(clip_bytes(ClipSpec(), "avi"))
    struct.pack_into("<I", data, data.index(b"strh") + 8 + 32, 1000)
    return bytes(data)


def _claim_billion_samples() -> bytes:
    """Let a sample table of a few bytes claim 10^9 samples of one byte."""
    data = clip_bytes(ClipSpec(), "mp4")
    data = bitstreams.replace_box(
        data, f"{bitstreams.STBL}.stsz", bitstreams.make_box("stsz", struct.pack(">III", 0, 1, 10**9))
    )
    return bitstreams.replace_box(data, f"{bitstreams.STBL}.stts", bitstreams.make_table("stts", (10**9, 512)))


def _make_png_bomb() -> bytes:
    """A sound header of 50000 x 50000 RGB samples, and one row of them."""
    header = struct.pack(">IIBBBBB", 50000, 50000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(150001))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def _make_gif_bomb() -> bytes:
    """A canvas of 65535 x 65535 with one sample on it."""
    screen = struct.pack("<6sHHBBB", b"GIF89a", 65535, 65535, 0x80, 0, 0) + bytes(3) + b"\xff" * 3
    image = struct.pack("<BHHHHB", 0x2C, 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    return screen + image + b"\x3b"


def _make_huge_frame() -> bytes:
    """Let one small JPEG in an AVI file claim 9000 x 9000 samples, in every header."""
    data = bytearray(clip_bytes(_JPEG, "avi"))
    struct.pack_into("<II", data, data.index(b"strf") + 12, _HUGE, _HUGE)
    # ITU-T T.81, B.2.2: marker, length, precision, lines, samples a line.
    struct.pack_into(">HH", data, data.index(b"\xff\xc0") + 5, _HUGE, _HUGE)
    return bytes(data)


def _make_unreadable(name: str, number: str, trait: str, data: bytes) -> Pathology:
    return Pathology(name, number, trait, write_bytes_of(lambda: data), lambda facts: bool(facts.errors))


def _has_some_frames(facts: MediaFacts) -> bool:
    return 0 < len(facts.frames) < 100


def _is_wrong(facts: MediaFacts) -> bool:
    return bool(facts.errors) or any(frame.is_corrupt or frame.stamp is None for frame in facts.frames)


DAMAGE = (
    Pathology(
        "header_count.avi",
        "M01",
        "the header promises 1000 frames, there are 100",
        write_bytes_of(_claim_1000_frames),
        lambda facts: facts.num_frames_from_header == 1000,
        tuple(range(100)),
    ),
    Pathology(
        "flipped_bit.mp4",
        "D01",
        "one bit is inverted: wrong frames, and no error",
        _write_silently_wrong,
        _is_silently_wrong,
        None,
    ),
    _make_damaged("flipped_bytes.mp4", "D01", "40 bytes are inverted", _FASTSTART, _flip_bytes, _is_wrong),
    *(
        _make_damaged(
            f"truncated.{suffix}", "D02", "the last two fifths are missing", spec, _truncate, _has_some_frames
        )
        for suffix, spec in (("mp4", _FASTSTART), ("mkv", ClipSpec()), ("ts", ClipSpec()), ("avi", ClipSpec()))
    ),
    replace(
        _make_damaged(
            "no_moov.mp4", "D03", "the movie box is missing", ClipSpec(), _truncate, lambda facts: bool(facts.errors)
        ),
        stamps=(),
    ),
    _make_unreadable("empty.mp4", "D03", "no byte", b""),
    _make_unreadable("text.mp4", "D03", "text", b"hello, not a video\n" * 10),
    _make_unreadable("page.mp4", "D03", "a page that a web server sent instead", b"<!DOCTYPE html><html>404</html>\n"),
    _make_playlist("playlist.mp4", "ffconcat version 1.0\nfile {}\n", "playlist_target.mp4"),
    _make_playlist(
        "playlist.m3u8",
        "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n{}\n#EXT-X-ENDLIST\n",
        "playlist_target.ts",
    ),
    Pathology(
        "billion_samples.mp4",
        "S04",
        "a table of few bytes claims 10^9 frames",
        write_bytes_of(_claim_billion_samples),
        lambda facts: facts.num_frames_from_header == 10**9 > facts.path.stat().st_size,
    ),
    Pathology(
        "bomb.png",
        "S04",
        "less than a kilobyte claims 7.5 GB of pixels",
        write_bytes_of(_make_png_bomb),
        lambda facts: facts.path.stat().st_size < 1024,
    ),
    Pathology(
        "bomb.gif",
        "S04",
        "forty bytes claim 17 GB of pixels",
        write_bytes_of(_make_gif_bomb),
        lambda facts: facts.path.stat().st_size < 64,
    ),
    Pathology(
        "huge_frame.avi",
        "S04",
        "a file of a few kilobytes claims 81 million samples a frame",
        write_bytes_of(_make_huge_frame),
        lambda facts: facts.path.stat().st_size < 16384,
    ),
)

"""Streams that lost packets, or have some twice or in another order: what is delivered is what reading in order gives.

``python -m tests.decode.lost_packets --streams 360 --log build/chaos_lost.log`` (``make chaos``). No bit is wrong in
such streams, as in recordings and in MPEG-TS with gaps: a decoder shows other pictures in place of missing references,
and which ones depends on where it starts.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import av
import numpy as np

from framefeed.cli import describe_version
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import MediaError
from framefeed.index import FrameIndex, Verify, build_index
from framefeed.media import MediaSource
from framefeed.testing import ClipSpec, Coded, clip_bytes, put_packets, take_packets
from tests.codec_clips import CODECS
from tests.programs import report_lines
from tests.reference import Reference, planes_of, read_reference
from tests.seeds import read_options

_NOT_MUXED = frozenset({"gif", "roq", "rv10", "rv20"})
"""A picture here, and packets that no muxer writes so that they can be read."""
_LONG = ClipSpec(num_frames=48, gop=12, b_frames=None)


def _x264(b_frames: int, parameters: str) -> ClipSpec:
    return replace(_LONG, b_frames=b_frames, codec_options={"x264-params": f"scenecut=0:min-keyint=12:{parameters}"})


_H264 = {
    "closed": _x264(0, "ref=3"),
    "open": _x264(3, "open-gop=1:ref=3"),
    "pyramid": _x264(5, "b-pyramid=normal:ref=4"),
    "strict": _x264(3, "b-pyramid=strict:open-gop=1:ref=2"),
    "plain": _x264(2, "b-pyramid=none:ref=1:weightp=0"),
    "refresh": _x264(0, "intra-refresh=1:ref=1"),
}
_HEVC = replace(_LONG, codec="libx265", b_frames=3)
_VP8 = replace(_LONG, codec="libvpx", codec_options={"auto-alt-ref": "1", "lag-in-frames": "12"})
_OTHERS: dict[str, tuple[str, ClipSpec]] = {
    "hevc open": (".mkv", replace(_HEVC, codec_options={"x265-params": "open-gop=1:keyint=12:min-keyint=12"})),
    "hevc closed": (".ts", replace(_HEVC, codec_options={"x265-params": "open-gop=0:keyint=12:min-keyint=12"})),
    "vp8 hidden": (".webm", _VP8),
    "vp8 segments": (".mkv", replace(_VP8, codec_options={"auto-alt-ref": "0", "static-thresh": "100"})),
    "vp8 map": (
        ".webm",
        replace(
            _VP8,
            num_frames=98,
            gop=40,
            codec_options={"auto-alt-ref": "1", "lag-in-frames": "16", "b": "200k", "cpu-used": "8"},
        ),
    ),
    "vp9 hidden": (".webm", replace(_VP8, codec="libvpx-vp9", codec_options={"lag-in-frames": "12"})),
    "av1 long": (".mkv", replace(_LONG, codec="libsvtav1")),
    "mpeg4 B": (".avi", replace(_LONG, codec="mpeg4", b_frames=2)),
    "mpeg4 mkv": (".mkv", replace(_LONG, codec="mpeg4", b_frames=2)),
    "mpeg2 ts": (".ts", replace(_LONG, codec="mpeg2video", b_frames=2)),
    "mpeg2 mkv": (".mkv", replace(_LONG, codec="mpeg2video", b_frames=2)),
    "mpeg1 mkv": (".mkv", replace(_LONG, codec="mpeg1video", b_frames=2)),
}
STREAMS: dict[str, tuple[str, ClipSpec]] = {
    **{
        f"h264 {name} {ending}": (f".{ending}", spec) for name, spec in _H264.items() for ending in ("mp4", "mkv", "ts")
    },
    **_OTHERS,
    **{
        name: (clip.suffix, clip.spec)
        for name, clip in CODECS.items()
        if clip.spec.gop is not None and name not in _NOT_MUXED
    },
    **{name: (CODECS[name].suffix, CODECS[name].spec) for name in ("mjpeg", "prores", "dnxhd", "huffyuv")},
}
"""Ending of the file, and recipe, by name; the first word of a name is the codec."""


@cache
def take(name: str) -> tuple[bytes, list[Coded], Fraction]:
    """Code a stream: the file, its packets, and the unit of their times."""
    suffix, spec = STREAMS[name]
    formats = {".ts": "mpegts", ".mkv": "matroska", ".mpg": "mpeg", ".asf": "asf"}
    media = clip_bytes(spec, formats.get(suffix, suffix[1:]))
    packets, time_base = take_packets(media)
    return media, packets, time_base


def drop(packets: list[Coded], rng: np.random.Generator) -> None:
    """Lose one to six packets in a row."""
    first = int(rng.integers(len(packets)))
    del packets[first : first + int(rng.choice((1, 1, 1, 2, 3, 6)))]


def drop_key(packets: list[Coded], rng: np.random.Generator) -> None:
    """Lose a key packet."""
    del packets[int(rng.choice([number for number, packet in enumerate(packets) if packet.is_key] or [0]))]


def drop_first(packets: list[Coded], rng: np.random.Generator) -> None:
    """Lose the beginning."""
    del packets[: int(rng.integers(1, 9))]


def double(packets: list[Coded], rng: np.random.Generator) -> None:
    """Have a packet twice."""
    number = int(rng.integers(len(packets)))
    packet = packets[number]
    step = 1 if number + 1 < len(packets) and (packets[number + 1].dts or 0) - (packet.dts or 0) > 2 else 0
    shift = 0 if step else max(1, packet.duration)
    late = [_move(one, shift) for one in packets[number + 1 :]]
    packets[number + 1 :] = [_move(packet, step or shift), *late]


def swap(packets: list[Coded], rng: np.random.Generator) -> None:
    """Have two neighbours in the other order."""
    number = int(rng.integers(max(1, len(packets) - 1)))
    pair = packets[number : number + 2]
    if len(pair) < 2:
        return
    one, other = pair
    times = (other.pts, one.pts)
    if any(None in (pts, packet.dts) or pts < packet.dts for pts, packet in zip(times, pair, strict=True)):  # type: ignore[operator]
        times = (one.pts, other.pts)
    packets[number : number + 2] = [
        replace(other, pts=times[0], dts=one.dts),
        replace(one, pts=times[1], dts=other.dts),
    ]


def _move(packet: Coded, ticks: int) -> Coded:
    return replace(
        packet,
        pts=None if packet.pts is None else packet.pts + ticks,
        dts=None if packet.dts is None else packet.dts + ticks,
    )


LOSSES = (drop, drop, drop, drop_key, drop_first, double, swap)


def write_lossy(folder: Path, name: str, seed: int) -> tuple[Path, str]:
    """Write a stream with seeded losses; return its path, and what was done."""
    media, packets, time_base = take(name)
    rng, packets, done = np.random.default_rng(seed), list(packets), list[str]()
    for _ in range(int(rng.choice((1, 1, 2, 3)))):
        loss = LOSSES[int(rng.integers(len(LOSSES)))]
        if len(packets) > 3:
            loss(packets, rng)
            done.append(loss.__name__)
    for suffix in (STREAMS[name][0], ".mkv", ".ts"):
        path = folder / f"lossy{suffix}"
        with suppress(av.FFmpegError, ValueError):
            put_packets(path, media, packets, time_base)
            return path, "+".join(done)
    raise ValueError(f"{name}: no container takes these packets: {done}")


@dataclass(frozen=True)
class Outcome:
    """What one stream gave with one verification."""

    codec: str
    frames: int
    damaged: int  # frames that are marked
    wrong: tuple[int, ...] = ()  # delivered, and not those of sequential decoding
    lost: tuple[int, ...] = ()  # they did not come, and are not marked


def check(path: Path, verify: Verify, reference: Reference, seed: int) -> Outcome:
    """Decode each frame by itself, then many together, and compare with sequential decoding."""
    index, source, decoder = build_index(path, verify), MediaSource.of(path), PyAVDecoder()
    expected, marked = _expected_planes(index, reference), set(index.damaged_frame_indices.tolist())
    rng = np.random.default_rng(seed)
    requests: list[Sequence[int]] = [[ordinal] for ordinal in rng.permutation(len(index)).tolist()]
    requests += [range(len(index)), sorted(rng.choice(len(index), len(index) // 2, replace=False).tolist())]
    wrong, lost = set[int](), set[int]()
    for request in requests:
        # Pictures that are kept, as a caller may do, take memory from the decoder.
        kept = list(decoder.iter_native(source, index, request))
        wrong |= {ordinal for ordinal, frame in kept if planes_of(frame) != expected[ordinal]}
        lost |= set(request) - {ordinal for ordinal, _ in kept} - marked
        del kept
    decoder.close()
    return Outcome(index.stream.codec, len(index), len(marked), tuple(sorted(wrong)), tuple(sorted(lost)))


def _expected_planes(index: FrameIndex, reference: Reference) -> list[str | None]:
    """Planes of each frame; where fewer frames come than are promised, by their times."""
    if len(index) == len(reference):
        return list(reference.planes)
    assert index.built_from != "decode"
    by_pts = {frame.pts: frame.planes for frame in reference.frames}
    return [by_pts.get(pts) for pts in index.packets.pts[index.frame_packet].tolist()]


def breaks_law(verify: Verify, outcome: Outcome) -> bool:
    """Whether a frame that is not marked is another one, where that must not be; missing ones say so themselves."""
    return bool(outcome.wrong) and (verify == "full" or outcome.codec == "h264")


def survive(name: str, seed: int, folder: Path, verifies: Sequence[Verify]) -> tuple[str, dict[Verify, Outcome]]:
    """Check a stream with seeded losses; return what was done, and the outcomes of those that are not refused."""
    try:
        path, done = write_lossy(folder, name, seed)
    except ValueError as error:
        return str(error), {}
    outcomes: dict[Verify, Outcome] = {}
    try:
        reference = read_reference(path)
        for verify in verifies:
            with suppress(MediaError):
                outcomes[verify] = check(path, verify, reference, seed)
    except (av.FFmpegError, AttributeError):  # nothing opens it, or its codec is not known any more
        done += ", refused"
    path.unlink()
    return f"{name} {path.suffix} {done}", outcomes


def main() -> int:
    """Run the sweep; return 1 where the law does not hold."""
    options, names = read_options(__doc__, None, "streams", 360), list(STREAMS)
    verifies: tuple[Verify, ...] = ("proof", "ends", "full")
    lines, counts, broken = list[str](), Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + options.streams):
            done, outcomes = survive(names[seed % len(names)], seed, Path(folder), verifies)
            counts["streams"] += bool(outcomes)
            for verify, outcome in outcomes.items():
                counts[f"{verify}: frames"] += outcome.frames
                counts[f"{verify}: marked as damaged"] += outcome.damaged
                counts[f"{verify}: not marked and other pixels, {outcome.codec}"] += len(outcome.wrong)
                counts[f"{verify}: not marked and missing, {outcome.codec}"] += len(outcome.lost)
                broken += breaks_law(verify, outcome)
                if outcome.wrong or outcome.lost:
                    lines.append(f"seed {seed}: {done}: {verify}: other pixels {outcome.wrong}, missing {outcome.lost}")
    lines += [f"{what}: {count}" for what, count in sorted(counts.items()) if count]
    lines.append(f"{counts['streams']} streams: the law is broken in {broken}")
    report_lines([f"framefeed {describe_version()}, PyAV {av.__version__}", *lines], options.log)
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())

"""What the headers of an image sequence's files claim, put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from framefeed.errors import FormatChanged
from framefeed.media.headers import image_info
from framefeed.media.info import MediaInfo
from framefeed.media.limits import Limits, limit_exceeded
from framefeed.media.sequence import SEQUENCE_CONTAINER, SequenceSource, SequenceTimes
from framefeed.media.source import MediaSource
from framefeed.parallel.stopping import check_stop

MIXED = "mixed"
"""Codec of a sequence whose files have several."""


def sequence_info(source: SequenceSource, limits: Limits, *, first_only: bool = False) -> MediaInfo:
    """Describe a sequence by its first file, after a look at the headers of all.

    Args:
        source: The sequence.
        limits: What its files may claim.
        first_only: Believe that the others are like the first.

    Raises:
        FormatChanged: Two files differ in their displayed size.
        UnreadableMedia: A file is no picture, or missing.
        UsageError: There are not as many timestamps as files.
    """
    files = source.files()
    if len(files) > limits.max_packets:
        raise limit_exceeded(limits, "max_packets", f"{len(files)} pictures", source.name, "open")
    times = source.sequence.times(len(files))
    first = _described(files.paths[0], limits)
    codecs = {first.codec} | ({*()} if first_only else _codecs_of_alike(files.paths, first, limits))
    duration = _duration_seconds(times)
    return replace(
        first,
        kind="video",
        container=SEQUENCE_CONTAINER,
        codec=first.codec if len(codecs) == 1 else MIXED,
        num_frames_from_header=len(files),
        duration_seconds_from_header=duration,
        average_fps_from_header=_average_fps(source, times),
        bytes=files.stat.bytes,
    )


def _described(path: str, limits: Limits) -> MediaInfo:
    return image_info(MediaSource.of(path), limits)


def _codecs_of_alike(paths: Sequence[str], first: MediaInfo, limits: Limits) -> set[str]:
    codecs = set[str]()
    for path in paths[1:]:
        check_stop()
        info = _described(path, limits)
        if (info.width, info.height) != (first.width, first.height):
            raise FormatChanged(
                f"{path}: is {info.width}x{info.height} as displayed, but the sequence begins with {first.width}x"
                f"{first.height} ({paths[0]}): all pictures of a sequence must have the same size",
                source=path,
                stage="index",
            )
        codecs.add(info.codec)
    return codecs


def _duration_seconds(times: SequenceTimes) -> float | None:
    """From the first frame's begin to the last one's end; None where it is unknown how long the last is shown."""
    last = int(times.duration[-1])
    return float((int(times.pts[-1]) - int(times.pts[0]) + last) * times.time_base) if last else None


def _average_fps(source: SequenceSource, times: SequenceTimes) -> float | None:
    if source.sequence.fps is not None:
        return float(source.sequence.fps)
    span = (int(times.pts[-1]) - int(times.pts[0])) * times.time_base
    return float((len(times.pts) - 1) / span) if span else None

"""Rows on the user's own videos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from framefeed.bench._media import BenchVideo, MediaStore
from framefeed.bench._workloads import NUM_FRAMES, Workload
from framefeed.catalog.scan import VIDEO_SUFFIXES, list_roots
from framefeed.errors import FramefeedError

MAX_VIDEOS = 3
_CLIP_SECONDS = 0.25
"""Guess of what a clip costs, to choose how many make a round."""


def own_workloads(media: Sequence[Path]) -> list[Workload]:
    """Two rows a video, frames 4 apart and a second apart, for the first videos that are long enough.

    Args:
        media: Files and folders; a folder that holds the trailer is no place to look for the user's own.
    """
    rows: list[Workload] = []
    for video in _videos([path for path in media if not MediaStore.has_trailer(path)]):
        fps = round(video.index.average_fps or 25)
        strides = [stride for stride in (4, fps) if (NUM_FRAMES - 1) * stride < len(video)]
        rows += [_workload(video, stride) for stride in dict.fromkeys(strides)]
        if len(rows) >= 2 * MAX_VIDEOS:
            break
    return rows


def _workload(video: BenchVideo, stride: int) -> Workload:
    pixels = video.index.stream.width * video.index.stream.height
    clips = max(1, min(24, round(_CLIP_SECONDS * 24 * 640 * 360 / pixels)))
    name = video.path.name
    return Workload(f"own:{name}-{stride}", f"{name}, 16 frames {stride} apart", lambda store: video, stride, clips)


def _videos(paths: Sequence[Path]) -> Iterator[BenchVideo]:
    for path in list_roots(paths, suffixes=VIDEO_SUFFIXES).paths if paths else ():
        video = BenchVideo(Path(path))
        try:
            if len(video) > 4 * NUM_FRAMES:
                yield video
        except FramefeedError:
            continue  # no video, or a broken one: scan says why, a benchmark only leaves it out

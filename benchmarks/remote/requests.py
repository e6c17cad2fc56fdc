"""Rows "clip" and "open": requests and bytes of one clip, and of opening a video, as the server counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

import framefeed as ff
from benchmarks.remote.media import ServedMedia, measure_box
from benchmarks.remote.server import Asked, Server
from framefeed.bench import SEED, BenchVideo, Comparison, Figure, Findings, Row
from framefeed.index import FrameIndex

CLIPS = 40
NUM_FRAMES = 16
OPENS = 3

Read = Callable[[list[int]], Any]
"""Gives frames of an open video, uint8 [T, H, W, 3]."""
Open = Callable[[str, BenchVideo], Any]
"""Opens a URL in a with block, knowing the local file; gives a `Read`."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Frames within two groups of pictures that follow each other, and the bytes of the packets of both."""

    ordinals: list[int]
    nbytes: int


def choose_neighbours(index: FrameIndex, count: int = CLIPS) -> list[Neighbours]:
    """Choose pairs of groups of pictures far from each other, and frames of both at random."""
    starts = np.append(np.flatnonzero(index.packets.is_key), len(index.packets))
    chance = np.random.Generator(np.random.Philox(key=SEED))
    # What was read is kept for a while: no group is taken twice.
    firsts = chance.choice((len(starts) - 2) // 2, min(count, (len(starts) - 2) // 2), replace=False) * 2
    chosen = []
    for first in firsts.tolist():
        begin, middle, end = starts[first : first + 3].tolist()
        one, other = (
            np.flatnonzero((index.frame_packet >= start) & (index.frame_packet < stop))
            for start, stop in ((begin, middle), (middle, end))
        )
        both = np.concatenate([one[:-1], other[1:]])
        drawn = [one[-1], other[0], *chance.choice(both, NUM_FRAMES - 2, replace=False)]
        chosen.append(Neighbours(sorted(map(int, drawn)), int(index.packets.size[begin:end].sum())))
    return chosen


@contextmanager
def open_with_framefeed(url: str, video: BenchVideo) -> Iterator[Read]:
    """Open it as a user does, who has no catalog."""
    with ff.VideoDecoder(url, dimension_order="NHWC") as remote:
        yield lambda ordinals: remote.get_frames_at(ordinals).data


def clip_row(server: Server, media: ServedMedia, opening: Open = open_with_framefeed) -> Row:
    """Bytes and requests of clips of an open video, which lie in two neighbouring groups of pictures."""

    def conclude(timings: object) -> Findings:
        video = media.large_video(moov_in_front=False)
        shares, requests, wrong = [], [], []
        with (
            opening(server.url(video.path.name), video) as read,
            ff.VideoDecoder(video.path, dimension_order="NHWC") as local,
        ):
            for clip in choose_neighbours(video.index):
                frames, asked = server.count(lambda clip=clip: read(clip.ordinals))
                shares.append(sum(each.bytes for each in asked) / clip.nbytes)
                requests.append(len(asked))
                if not np.array_equal(frames, local.get_frames_at(clip.ordinals).data):
                    wrong.append(f"frames {clip.ordinals} are not those of the file")
        return Findings(
            [
                Comparison("bytes", "bytes by those of both groups of pictures",
                           {"most": Figure(max(shares)), "median": Figure(median(shares))}),
                Comparison("requests", "requests", {"most": Figure(max(requests)), "median": Figure(median(requests))},
                           ""),
            ],
            {"clips": len(shares), "object_bytes": video.path.stat().st_size},
            wrong,
        )  # fmt: skip

    return Row("clip", f"{NUM_FRAMES} frames within two neighbouring groups of pictures of an open video", (), conclude)


def open_row(server: Server, media: ServedMedia) -> Row:
    """Requests and bytes until a video without a catalog is open."""

    def measure(*, moov_in_front: bool) -> tuple[list[Asked], list[Asked], int]:
        video = media.large_video(moov_in_front=moov_in_front)
        with ff.VideoDecoder(server.url(video.path.name)) as remote:
            opened = server.read()
            _ = len(remote), remote[0]
            return opened, server.read(), measure_box(video.path, b"moov")

    def conclude(timings: object) -> Findings:
        requests, kilobytes, facts = dict[str, Figure](), dict[str, Figure](), dict[str, Any]()
        for title, in_front in (("moov in front", True), ("moov behind", False)):
            media.large_video(moov_in_front=in_front)
            server.read()
            runs = [measure(moov_in_front=in_front) for _ in range(OPENS)]
            moov = runs[0][2]
            requests[title] = Figure(max(len(opened) for opened, _, _ in runs))
            most = max(sum(each.bytes for each in opened) for opened, _, _ in runs)
            kilobytes[title] = Figure((most - moov) / 1e3)
            facts[f"{title}, moov_bytes"] = moov
            facts[f"{title}, requests_of_the_first_frame"] = max(len(frame) for _, frame, _ in runs)
            facts[f"{title}, ranges"] = [each.range for each in runs[0][0]]
        return Findings(
            [
                Comparison("requests", "requests until it is open", requests, ""),
                Comparison("bytes", "bytes besides moov, in kB", kilobytes, "kB"),
            ],
            facts,
        )

    return Row("open", "opening a video without a catalog", (), conclude)

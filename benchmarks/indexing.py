"""What an index costs by each way of verification, beside libav's own demuxing and TorchCodec's exact constructor.

    python benchmarks/indexing.py MEDIA [--repeats 5] [--json OUT]

MEDIA is a folder of real videos. All ways are run file by file in one process, one after the other, in CPU seconds; a
file's cost is the median of its repeats. "total" is the ratio of the sums over all files, "median" the ratio of the
file in the middle. Peers that are not installed are named.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import framefeed as ff
from framefeed.index import index_media
from framefeed.media import open_input

GROUPS = {
    "H.264 + HEVC": ("h264", "hevc"),
    "VP8 + VP9": ("vp8", "vp9"),
    "AV1": ("av1",),
    "others": (),
}


@dataclass
class Video:
    """One file: what it is, and CPU seconds by way."""

    path: Path
    codec: str
    container: str
    built_from: str
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def cost(self, way: str) -> float | None:
        """Median CPU seconds, or None where the way failed."""
        found = self.seconds.get(way)
        return statistics.median(found) if found else None


def demux(path: Path) -> None:
    """Open with PyAV and demux every packet of the best video stream."""
    with open_input(str(path)) as container:
        for _ in container.demux(container.streams.best("video")):
            pass


def ways() -> dict[str, Callable[[Path], object]]:
    """Name what is measured; peers only where they are installed."""
    found: dict[str, Callable[[Path], object]] = {
        "proof": lambda path: index_media(path, "proof"),
        "ends": lambda path: index_media(path, "ends"),
        "full": lambda path: index_media(path, "full"),
        "demux": demux,
    }
    try:
        from torchcodec.decoders import VideoDecoder
    except ImportError:
        print("TorchCodec is not installed: its row is left out")
    else:
        found["torchcodec"] = lambda path: VideoDecoder(str(path), seek_mode="exact", num_ffmpeg_threads=1)
    return found


def find_videos(folder: Path) -> list[Video]:
    """List the files under a folder that can be indexed as videos."""
    videos = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        try:
            info, index = index_media(path, "proof")
        except ff.FramefeedError:
            continue
        if info.kind == "video":
            videos.append(Video(path, index.stream.codec, index.stream.container, index.built_from))
    return videos


def measure(videos: list[Video], repeats: int) -> list[str]:
    """Run every way over every file; give the names of the ways."""
    calls = ways()
    for _ in range(repeats):
        for video in videos:
            for way, call in calls.items():
                begin = time.process_time()
                try:
                    call(video.path)
                # A peer's own errors, of whatever type: the file then does not count for it.
                except Exception:
                    continue
                video.seconds.setdefault(way, []).append(time.process_time() - begin)
    return list(calls)


def ratio(videos: Iterable[Video], slow: str, quick: str) -> dict[str, Any]:
    """How many times the cost of one way another has, over files where both came to an end."""
    pairs = [(video.cost(slow), video.cost(quick)) for video in videos]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not known:
        return {"files": 0}
    each = sorted(a / b for a, b in known)
    return {
        "files": len(known),
        "total": round(sum(a for a, _ in known) / sum(b for _, b in known), 2),
        "median": round(statistics.median(each), 2),
        "quartiles": [round(each[len(each) // 4], 2), round(each[3 * len(each) // 4], 2)],
        f"{slow} CPU s": round(sum(a for a, _ in known), 3),
        f"{quick} CPU s": round(sum(b for _, b in known), 3),
    }


def table(videos: list[Video], names: list[str]) -> dict[str, Any]:
    """Make the rows of the result."""
    rows: dict[str, Any] = {}
    known = {codec for codecs in GROUPS.values() for codec in codecs}
    for group, codecs in GROUPS.items():
        members = [video for video in videos if (video.codec in codecs if codecs else video.codec not in known)]
        rows[f"{group}: ends by proof"] = ratio(members, "ends", "proof")
        rows[f"{group}: full by proof"] = ratio(members, "full", "proof")
        rows[f"{group}: built from"] = dict(Counter(video.built_from for video in members))
    proved = [video for video in videos if video.built_from == "packets+proof"]
    movies = [video for video in proved if video.container.startswith("mov") and video.codec in ("h264", "hevc")]
    others = [video for video in proved if video not in movies]
    rows["MP4 / MOV of H.264 + HEVC, proved: demux by proof"] = ratio(movies, "demux", "proof")
    rows["other proved files: proof by demux"] = ratio(others, "proof", "demux")
    if "torchcodec" in names:
        rows["MP4 / MOV, proved: TorchCodec by proof"] = ratio(movies, "torchcodec", "proof")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("media", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", metavar="OUT")
    args = parser.parse_args()
    videos = find_videos(args.media)
    names = measure(videos, args.repeats)
    document = {"files": len(videos), "repeats": args.repeats, "rows": table(videos, names)}
    print(json.dumps(document, indent=2))
    if args.json:
        Path(args.json).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()

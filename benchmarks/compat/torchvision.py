"""framefeed.compat.torchvision beside the loop that torchvision documents for VideoClips, over TorchCodec.

    python -m benchmarks.compat.torchvision [MEDIA...] [--clips 96] [--rounds 7] [--json OUT]   (in the project)

The loop: open every file once in exact mode, which reads all of its packets, for the frames that it has; then, for a
clip, open the file again in exact mode, decode all frames from the clip's first to its last, and take those of the
rate that was asked for. torchvision's own reader is PyAV's, which is slower; no torchvision exists for recent PyTorch.

MEDIA are videos or folders, by default those of ../shared/media/video; MP4 and AVI files of at most 3 MB are read, if
both sides give the same frames of them. Both sides work in this process on one thread, in turns; CPU seconds are those
of the process. The printed ratio is theirs / ours, as the median of the rounds with the range.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torchcodec.decoders import VideoDecoder

from framefeed.compat.torchvision import UniformClipSampler, VideoClips

MEDIA = Path(__file__).resolve().parents[3] / "shared" / "media" / "video"
MOST_BYTES = 3_000_000
MOST_PIXELS = 1280 * 720
LENGTH = 16
RATES = {"16 frames at the rate of the video": None, "16 frames at 15 a second": 15, "16 frames at 5 a second": 5}
OF_EACH, BATCH = 5, 20
SAME_DB = 40
"""Two versions of FFmpeg differ by less, two frames by more."""


def find_media(roots: list[Path]) -> list[str]:
    """Find the files that are small enough."""
    files = [path for root in roots for path in ([root] if root.is_file() else sorted(root.rglob("*")))]
    return [
        str(path)
        for path in files
        if path.suffix.lower() in (".mp4", ".avi") and path.is_file() and path.stat().st_size <= MOST_BYTES
    ]


def open_theirs(path: str) -> VideoDecoder:
    return VideoDecoder(path, seek_mode="exact", dimension_order="NHWC", num_ffmpeg_threads=1)


def index_by_theirs(paths: list[str]) -> list[int]:
    """Count the frames of every file, as its first pass does."""
    return [len(open_theirs(path)) for path in paths]


def read_by_theirs(path: str, numbers: list[int]) -> torch.Tensor:
    """Decode from the first frame to the last, then choose."""
    frames = open_theirs(path).get_frames_in_range(numbers[0], numbers[-1] + 1).data
    return frames[torch.tensor(numbers) - numbers[0]]


def find_numbers(clips: VideoClips, idx: int) -> tuple[str, list[int]]:
    """Find the path and frame numbers of a clip, by the public names."""
    video, clip = clips.get_clip_location(idx)
    wanted = clips.subset([video])
    return clips.video_paths[video], np.searchsorted(wanted.video_pts[0], wanted.clips[0][clip]).tolist()


def is_same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    if ours.shape != theirs.shape:
        return False
    error = (ours.to(torch.float32) - theirs.to(torch.float32)).square().mean(dim=(1, 2, 3)).max()
    return bool(error < 255**2 / 10 ** (SAME_DB / 10))


def choose_files(paths: list[str]) -> list[str]:
    """Keep the files of which both sides give the same first and last clip."""
    kept = []
    for path in paths:
        try:
            clips = VideoClips([path], LENGTH)
            if not len(clips):
                continue
            height, width = clips.get_clip(0)[0].shape[1:3]
            if height * width <= MOST_PIXELS and all(
                is_same(clips.get_clip(idx)[0], read_by_theirs(*find_numbers(clips, idx))) for idx in (0, -1)
            ):
                kept.append(path)
        except (RuntimeError, ValueError):
            continue
    return kept


def spend(work: Callable[[], Any]) -> tuple[float, float]:
    """Return CPU and wall seconds of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def compare(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> dict[str, Any]:
    """Run both in turns; the first round fills caches."""
    runs: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
    for number in range(rounds + 1):
        sides = [("ours", ours), ("theirs", theirs)]
        for side, work in sides if number % 2 else reversed(sides):
            spent = spend(work)
            runs[side] += [spent] if number else []
    row: dict[str, Any] = {}
    for place, unit in enumerate(("CPU", "wall")):
        pairs = [(a[place], b[place]) for a, b in zip(runs["ours"], runs["theirs"], strict=True)]
        ratios = sorted(b / a for a, b in pairs)
        row[unit] = {
            "ratio": statistics.median(ratios),
            "from": ratios[0],
            "to": ratios[-1],
            "our seconds": statistics.median(a for a, _ in pairs),
            "their seconds": statistics.median(b for _, b in pairs),
        }
    return row


def measure(paths: list[str], num_clips: int, rounds: int) -> dict[str, Any]:
    """Compare the index of all files, and clips of them by each rate."""
    rows = {"index of all files": compare(lambda: VideoClips(paths, LENGTH), lambda: index_by_theirs(paths), rounds)}
    for title, rate in RATES.items():
        clips = VideoClips(paths, LENGTH, 1, rate)
        chosen = np.random.default_rng(0).permutation(len(clips))[:num_clips].tolist()
        asked = [find_numbers(clips, idx) for idx in chosen]
        for idx, (path, numbers) in zip(chosen, asked, strict=True):
            if not is_same(clips.get_clip(idx)[0], read_by_theirs(path, numbers)):
                raise SystemExit(f"{path}: other frames for {numbers}")
        rows[title] = compare(
            lambda clips=clips, chosen=chosen: [clips.get_clip(idx) for idx in chosen],
            lambda asked=asked: [read_by_theirs(path, numbers) for path, numbers in asked],
            rounds,
        )
    return rows | measure_evaluation(paths, num_clips, rounds)


def measure_evaluation(paths: list[str], num_clips: int, rounds: int) -> dict[str, Any]:
    """Compare what UniformClipSampler takes, in batches as a DataLoader asks a data set for them."""
    clips = VideoClips(paths, LENGTH, 1, 15)
    chosen = list(UniformClipSampler(clips, OF_EACH))[:num_clips]
    asked = [find_numbers(clips, idx) for idx in chosen]
    used = sorted({path for path, _ in asked})

    def read_ours(clips: VideoClips) -> None:
        for first in range(0, len(chosen), BATCH):
            clips.get_clips(chosen[first : first + BATCH])

    def read_theirs() -> None:
        for path, numbers in asked:
            read_by_theirs(path, numbers)

    def begin_ours() -> None:
        VideoClips(used, LENGTH, 1, 15)
        read_ours(clips)

    def begin_theirs() -> None:
        index_by_theirs(used)
        read_theirs()

    title = f"{OF_EACH} clips of each video at 15 a second"
    return {
        title: compare(lambda: read_ours(clips), read_theirs, rounds),
        f"{title}, and the index": compare(begin_ours, begin_theirs, rounds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("media", nargs="*", type=Path, default=[MEDIA])
    parser.add_argument("--clips", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", r".*videos (cannot be read|have fewer frames)")
    paths = choose_files(find_media(given.media))
    print(f"{len(paths)} files", flush=True)
    rows = measure(paths, given.clips, given.rounds)
    for title, row in rows.items():
        cells = [f"{unit} {cell['ratio']:.2f} ({cell['from']:.2f}-{cell['to']:.2f})" for unit, cell in row.items()]
        seconds = f"{row['CPU']['our seconds']:.3f} s, theirs {row['CPU']['their seconds']:.3f} s CPU"
        print(f"{title:48}{'   '.join(cells)}   ours {seconds}", flush=True)
    if given.json is not None:
        versions = {name: version(name) for name in ("torchcodec", "torch", "av", "numpy")}
        report = {"files": len(paths), "clips": given.clips, "rounds": given.rounds, "versions": versions, "rows": rows}
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

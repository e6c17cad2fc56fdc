"""What 100 damaged files cost on two threads: framefeed's probe beside a bare av.open, interleaved, CPU and wall.

    python benchmarks/damaged_opens.py [--pairs 15] [--json OUT]

The files are generated: clips in four containers, cut short, with flipped bytes, or with a hole in their header.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import av

import framefeed as ff
from framefeed.media import open_input
from framefeed.testing import ClipSpec, clip_bytes

FILES = 100
PROBED_PACKETS = 64


def make_files(folder: Path) -> list[Path]:
    """Write the damaged files: half of them cannot be opened, the others open and decode in part or not at all."""
    chance = random.Random(8)
    paths = []
    spec = ClipSpec(num_frames=60, height=360, width=640)
    formats = {"mp4": "mp4", "mkv": "matroska", "ts": "mpegts", "avi": "avi"}
    whole = {ending: clip_bytes(spec, name) for ending, name in formats.items()}
    for number in range(FILES):
        ending = list(whole)[number % 4]
        data = bytearray(whole[ending])
        kind = number // 4 % 3
        if kind == 0:
            del data[chance.randrange(200, len(data) // 2) :]
        elif kind == 1:
            for _ in range(200):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        else:
            begin = chance.randrange(0, 64)
            data[begin : begin + 4000] = bytes(4000)
        paths.append(folder / f"{number:03}.{ending}")
        paths[-1].write_bytes(data)
    return paths


def open_bare(path: Path) -> None:
    """Open with PyAV and decode up to the first frame, passing over damaged packets, as framefeed does."""
    try:
        with open_input(str(path)) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            for packet in islice(container.demux(stream), PROBED_PACKETS):
                try:
                    if stream.codec_context.decode(packet):
                        break
                except av.FFmpegError:
                    continue
    except (av.FFmpegError, EOFError, IndexError, AttributeError):  # no stream, or no decoder for it
        return


def open_ours(path: Path) -> None:
    """Ask for the facts."""
    try:
        ff.probe(path)
    except ff.MediaError:
        return


def measured(call: Callable[[Path], None], paths: list[Path]) -> tuple[float, float]:
    """CPU and wall seconds for all files on two threads."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(call, paths[:2]))
        cpu, wall = time.process_time(), time.perf_counter()
        list(pool.map(call, paths))
        return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--json", metavar="OUT")
    args = parser.parse_args()
    ratios: dict[str, list[float]] = {"cpu": [], "wall": []}
    seconds: dict[str, list[float]] = {"ours_cpu": [], "bare_cpu": []}
    with tempfile.TemporaryDirectory() as folder:
        paths = make_files(Path(folder))
        readable = sum(1 for path in paths if _is_readable(path))
        for _ in range(args.pairs):
            # PyAV as it comes hears nothing of libav's log; framefeed hears its errors.
            heard = av.logging.get_level()
            av.logging.set_level(None)
            bare = measured(open_bare, paths)
            av.logging.set_level(heard)
            ours = measured(open_ours, paths)
            ratios["cpu"].append(ours[0] / bare[0])
            ratios["wall"].append(ours[1] / bare[1])
            seconds["ours_cpu"].append(ours[0])
            seconds["bare_cpu"].append(bare[0])
    found = {
        name: {"median": statistics.median(each), "min": min(each), "max": max(each)}
        for name, each in (ratios | seconds).items()
    }
    document = {"files": FILES, "readable": readable, "pairs": args.pairs, "framefeed by bare PyAV": found}
    print(json.dumps(document, indent=2))
    if args.json:
        Path(args.json).write_text(json.dumps(document, indent=2) + "\n")


def _is_readable(path: Path) -> bool:
    try:
        ff.probe(path)
    except ff.MediaError:
        return False
    return True


if __name__ == "__main__":
    main()

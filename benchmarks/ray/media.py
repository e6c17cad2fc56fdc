"""The videos of the rows: copies of a natural 720p trailer, and parts of it of 30 s, cut without decoding."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from benchmarks.media import TRAILER
from framefeed.testing import put_packets, take_packets

COPIES, PARTS = 8, 16
PART_FRAMES = 720
"""30 s at 24 frames a second."""


def find_trailer(root: Path) -> Path:
    """Find it in FRAMEFEED_MEDIA, or beside the checkout."""
    folder = Path(os.environ.get("FRAMEFEED_MEDIA") or root.parent / "shared" / "media")
    if not (folder / TRAILER).is_file():
        raise SystemExit(f"the rows need a folder that contains {TRAILER}: name it in FRAMEFEED_MEDIA")
    return folder / TRAILER


def write_media(trailer: Path, work: Path) -> None:
    """Write the videos that are not there yet."""
    for kind, count in (("whole", COPIES), ("parts", PARTS)):
        folder = work / kind
        if folder.is_dir():
            continue
        part = work / f"part-{kind}"
        part.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            path = part / f"{number:02}.mp4"
            if kind == "whole":
                shutil.copyfile(trailer, path)
            else:
                _cut(trailer, path, number)
        part.rename(folder)


def _cut(trailer: Path, path: Path, number: int) -> None:
    """Write 720 frames that begin with a key frame, another one for each number until all have had a turn."""
    media = trailer.read_bytes()
    packets, time_base = take_packets(media)
    starts = [at for at, packet in enumerate(packets) if packet.is_key and at + PART_FRAMES <= len(packets)]
    first = starts[number % len(starts)]
    chosen = packets[first : first + PART_FRAMES]
    zero = min(packet.pts or 0 for packet in chosen)
    moved = [replace(each, pts=(each.pts or 0) - zero, dts=(each.dts or 0) - zero) for each in chosen]
    put_packets(path, media, moved, time_base)

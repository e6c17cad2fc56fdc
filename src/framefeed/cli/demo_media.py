"""The media of the demo: the user's, or a small folder made for it; and what the first batch looks like."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from framefeed.cli.captions import captions
from framefeed.cli.failures import Failed
from framefeed.cli.folders import made_folder
from framefeed.cli.printing import printable, say
from framefeed.cli.scan import sentences, summary
from framefeed.cli.timing import Stages
from framefeed.decode.decoder import Pixels
from framefeed.encode.sheets import SheetClip, contact_sheet
from framefeed.encode.stills import save_still
from framefeed.errors import TimeUnavailable, UsageError
from framefeed.index.catalog import Catalog
from framefeed.index.listing import VIDEO_SUFFIXES, list_roots
from framefeed.index.scanning import scan
from framefeed.plan.epoch import EpochPlan
from framefeed.testing import make_folder, read_stamp

MAX_FILES = 60
"""Files of a folder that the demo uses, evenly spaced: it should take a minute."""
CLASSES, VIDEOS_PER_CLASS, SECONDS = 2, 4, 16.0


@dataclass(frozen=True, slots=True)
class DemoMedia:
    """What the demo works on.

    Attributes:
        catalog: The files that can be used, labelled by their folders.
        failed: The others.
        is_users: Whether they are the user's; the demo's own have frames that name themselves.
    """

    catalog: Catalog
    failed: list[Failed]
    is_users: bool


def find_media(media: str | None, out: Path, stages: Stages) -> DemoMedia:
    """Make or list the media, scan them, and say what was found."""
    roots = [os.fspath(out / "videos")] if media is None else _sample(media)
    made_folder(os.fspath(out))
    if media is None:
        with stages.timed("making videos"):
            files = make_folder(roots[0], CLASSES, VIDEOS_PER_CLASS, SECONDS)
        say(f"no MEDIA folder given: generated {len(files)} videos of {SECONDS:g} s in {roots[0]}")
    with stages.timed("scanning"):
        catalog = scan(roots, out=out / "cat.parquet", label_from="parent")
    say(*sentences(summary(catalog)))
    timed, timeless = _by_times(catalog)
    return DemoMedia(timed, [*catalog.failures, *timeless], media is not None)


def _by_times(catalog: Catalog) -> tuple[Catalog, list[Failed]]:
    """Part the files that clips by time can be made of from those without usable timestamps."""
    rows = catalog.usable_rows.tolist()
    timed = [row for row in rows if catalog.frame_index(row).has_timestamps]
    why = "has no usable timestamps, which frames per second need: scan with --assume-fps, or choose frames by number"
    timeless = [(str(catalog.source(row)), TimeUnavailable.__name__, why) for row in rows if row not in set(timed)]
    return catalog.take(timed), timeless


def _sample(media: str) -> list[str]:
    if not os.path.exists(media):
        raise UsageError(f"{media}: no such folder: check its spelling")
    files = list_roots(media, suffixes=VIDEO_SUFFIXES).paths
    if not files:
        raise UsageError(f"no videos found in {media}: expected files with an ending such as .mp4, .mkv or .avi")
    if len(files) <= MAX_FILES:
        return [media]
    say(f"{len(files):,} videos in {media}: the demo uses {MAX_FILES} of them, evenly spaced")
    return [files[number * len(files) // MAX_FILES] for number in range(MAX_FILES)]


def common_size(catalog: Catalog, side: int) -> int | tuple[int, int]:
    """The short side where all pictures have one shape, so that none is distorted; else a square."""
    rows = catalog.usable_rows
    shapes = zip(catalog.heights[rows].tolist(), catalog.widths[rows].tolist(), strict=True)
    return side if len({Fraction(height, width) for height, width in shapes}) == 1 else (side, side)


def save_batch(path: Path, plan: EpochPlan, positions: Sequence[int], clips: Pixels) -> None:
    """Write the contact sheet of a batch.

    Args:
        path: Of the picture.
        plan: At the epoch of the batch.
        positions: Of its clips.
        clips: uint8 [B, T, C, H, W].
    """
    rows = [_sheet_clip(plan, position, clip) for position, clip in zip(positions, clips, strict=True)]
    save_still(path, contact_sheet(rows))


def _sheet_clip(plan: EpochPlan, position: int, clip: Pixels) -> SheetClip:
    request = plan[position]
    label = plan.classes[int(plan.columns_at(position)["label"])]
    folder, name = os.path.split(request.name)
    title = f"{os.path.join(os.path.basename(folder), name)}    label: {label}"
    pictures = [np.ascontiguousarray(frame.transpose(1, 2, 0)) for frame in clip]
    return SheetClip(printable(title), pictures, captions(request), np.asarray(request.segment).tolist())


def count_right(plan: EpochPlan, positions: Sequence[int], clips: Pixels) -> tuple[int, int]:
    """Count the frames of a batch of made videos that carry the number that the plan asked for, and all of them."""
    frames = clips.reshape(-1, *clips.shape[2:])
    wanted = np.concatenate([plan[position].ordinals for position in positions]).tolist()
    return sum(_carries(frame, number) for frame, number in zip(frames, wanted, strict=True)), len(wanted)


def _carries(frame: Pixels, number: int) -> bool:
    try:
        return read_stamp(frame) == number
    except ValueError:
        return False

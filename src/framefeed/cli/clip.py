"""``framefeed clip``: chosen frames of one video as pictures."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from framefeed.cli.captions import captions
from framefeed.cli.exits import Exit
from framefeed.cli.folders import made_folder
from framefeed.cli.parsing import indices, rates, size, times
from framefeed.cli.printing import complain, printable, say, say_json
from framefeed.decode.decoder import Pixels
from framefeed.decode.video_decoder import VideoDecoder
from framefeed.encode.sheets import MAX_FRAMES, SheetClip, contact_sheet, thumbnail
from framefeed.encode.stills import save_still, still_format, still_name
from framefeed.errors import FrameNotFound, UsageError
from framefeed.index.catalog import Catalog
from framefeed.index.frame_index import FrameIndex, IntArray
from framefeed.index.scanning import catalog_of
from framefeed.plan.clips import AtIndices, ClipRule
from framefeed.plan.epoch import plan_clips
from framefeed.plan.request import DecodeRequest
from framefeed.plan.timed import AtSeconds, Rates

BYTES_AT_ONCE = 256_000_000
"""Frames are decoded in portions of this size: a list of a thousand 4K frames would not fit in memory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("video", metavar="VIDEO", help="the video file")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--at", type=times, metavar="SECONDS", help="times from the first frame, such as 1.5,2.0")
    which.add_argument("--indices", type=indices, metavar="FRAMES", help="frame numbers, such as 0,30,-1")
    which.add_argument("--rates", type=rates, metavar="FPS:FRAMES,...",
                       help="from the first frame on: 1:8,2:8 is 8 frames at 1 per second, then 8 at 2")  # fmt: skip
    parser.add_argument("-o", "--out", metavar="FOLDER", help="folder for the frames, one PNG each; created if missing")
    parser.add_argument("--sheet", metavar="PICTURE", help="write one contact sheet, such as sheet.png")
    parser.add_argument("--size", type=size, metavar="SIZE", help="size of the frames: short side, or HEIGHTxWIDTH")
    parser.add_argument("--json", action="store_true", help="print what was found and written as JSON")


@dataclass(slots=True)
class _Taken:
    """Frames that were decoded, by ordinal.

    Attributes:
        folder: Where they are written, or None.
        keeps_small: Whether they are kept for a sheet.
        files: Paths written.
        small: Thumbnails kept.
    """

    folder: str | None
    keeps_small: bool
    files: dict[int, str] = field(default_factory=dict)
    small: dict[int, Pixels] = field(default_factory=dict)

    def add(self, ordinal: int, pts_seconds: float, picture: Pixels) -> None:
        """Write and keep one frame."""
        if self.folder is not None:
            path = os.path.join(self.folder, still_name(ordinal, pts_seconds))
            save_still(path, picture)
            self.files[ordinal] = path
        if self.keeps_small:
            self.small[ordinal] = thumbnail(picture)


def run(args: argparse.Namespace) -> int:
    """Find the frames, decode them, write them."""
    if args.out is None and args.sheet is None:
        raise UsageError("expected where to write the frames: -o FOLDER, --sheet PICTURE, or both")
    if args.sheet is not None:
        still_format(args.sheet)
    catalog = catalog_of([args.video])
    request = _requested(catalog, args)
    taken = _Taken(None if args.out is None else made_folder(args.out), args.sheet is not None)
    with VideoDecoder(catalog[0], size=args.size, dimension_order="NHWC") as decoder:
        for ordinal, pts_seconds, picture in _pictures(decoder, np.unique(request.ordinals)):
            taken.add(ordinal, pts_seconds, picture)
        facts = _document(decoder, request, taken)
    if args.sheet is not None:
        save_still(args.sheet, contact_sheet([_sheet_clip(_title(args.video, facts), request, taken)]))
    if args.json:
        say_json({"source": args.video, **facts, "sheet": args.sheet})
    else:
        say(*taken.files.values(), *([] if args.sheet is None else [args.sheet]))
        _mention_repeats(request)
    return Exit.WELL


def _requested(catalog: Catalog, args: argparse.Namespace) -> DecodeRequest:
    request = plan_clips(catalog, _rule(args), seed=0, shuffle=False)[0]
    if args.sheet is not None and len(request) > MAX_FRAMES:
        raise UsageError(f"a contact sheet shows at most {MAX_FRAMES} frames, not {len(request)}: write them with -o")
    past = _past(request)
    # A clip of several rates may be longer than its video; a frame that is asked for by itself must be there.
    if args.rates is None and len(past):
        asked = f"{float(args.at[past[0]]):g} s" if args.at is not None else f"frame {args.indices[past[0]]}"
        index = catalog.frame_index(0)
        there = f"{len(index)} frames" if args.at is None else f"{_length_seconds(index):.3f} s"
        raise FrameNotFound(f"{request.name}: {asked} lies past the end: the video has {there}")
    return request


def _rule(args: argparse.Namespace) -> ClipRule:
    if args.at is not None:
        return AtSeconds(args.at)
    return Rates(args.rates, start=0.0) if args.indices is None else AtIndices(args.indices)


def _past(request: DecodeRequest) -> IntArray:
    return np.flatnonzero(~np.asarray(request.valid))


def _length_seconds(index: FrameIndex) -> float:
    return float((index.end_pts - int(index.pts[0])) * index.time_base)


def _pictures(decoder: VideoDecoder, ordinals: IntArray) -> Iterator[tuple[int, float, Pixels]]:
    """Decode frames in their order, a portion at a time."""
    portion = 1
    while len(ordinals):
        batch = decoder.get_frames_at(ordinals[:portion])
        yield from zip(batch.indices.tolist(), batch.pts_seconds.tolist(), batch.data, strict=True)
        ordinals = ordinals[portion:]
        portion = max(1, BYTES_AT_ONCE // batch.data[0].nbytes)


def _document(decoder: VideoDecoder, request: DecodeRequest, taken: _Taken) -> dict[str, Any]:
    about = decoder.metadata
    columns = (request.ordinals, request.pts_seconds, request.pick_error_seconds, request.valid, request.segment)
    names = ("index", "pts_seconds", "pick_error_seconds", "valid", "segment")
    rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    frames = [dict(zip(names, row, strict=True)) | {"file": taken.files.get(row[0])} for row in rows]
    return {
        "codec": about.codec,
        "width": about.width,
        "height": about.height,
        "num_frames": about.num_frames,
        "duration_seconds": about.duration_seconds,
        "frames": frames,
    }


def _title(path: str, facts: dict[str, Any]) -> str:
    length = "" if facts["duration_seconds"] is None else f", {facts['duration_seconds']:.3f} s"
    return (
        f"{printable(os.path.basename(path))}    {facts['codec']} {facts['width']}x{facts['height']}, "
        f"{facts['num_frames']} frames{length}"
    )


def _sheet_clip(title: str, request: DecodeRequest, taken: _Taken) -> SheetClip:
    segments = np.asarray(request.segment).tolist()
    return SheetClip(
        title,
        [taken.small[ordinal] for ordinal in request.ordinals.tolist()],
        captions(request),
        segments if len(set(segments)) > 1 else (),
    )


def _mention_repeats(request: DecodeRequest) -> None:
    if count := len(_past(request)):
        complain(f"{count} of {len(request)} wanted times lie past the end: there the last frame stands again")

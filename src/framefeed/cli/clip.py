"""``framefeed clip``: save chosen frames of one video as pictures."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
from tqdm import tqdm

from framefeed._arrays import IntArray
from framefeed._units import counted, readable_bytes
from framefeed.catalog import Catalog, CatalogEntry
from framefeed.catalog.scan import catalog_of
from framefeed.cli._arguments import (
    add_limit_arguments,
    at_least,
    indices,
    interval,
    limits_of,
    rate,
    rates,
    size,
    times,
)
from framefeed.cli._io import Exit, complain, made_folder, printable, say, say_json
from framefeed.cli._plans import captions
from framefeed.decode import AutoDecoder, ClipSlot, Pixels, VideoDecoder, VideoMetadata, decoder_named, require_times
from framefeed.encode import (
    MAX_FRAMES,
    QUALITY,
    SheetClip,
    contact_sheet,
    save_still,
    software_of,
    still_format,
    still_name,
    thumbnail,
)
from framefeed.errors import FramefeedError, FrameNotFound, UsageError
from framefeed.index import FrameIndex
from framefeed.media import Limits, MediaSource, check_writable
from framefeed.plan import AtIndices, AtSeconds, ClipRule, DecodeRequest, Rates, plan_clips

FORMATS = ("png", "jpg", "webp")
_LOSSY = ("jpg", "webp")
_SHOWN = 8
"""Numbers of damaged frames."""
_SHEET = "framefeed clip --sheet"
"""Exif tag of contact sheets, the only pictures that a new sheet replaces."""
MAX_TIMES = 1_000_000
"""Of one command: more pictures are more than a folder holds well."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("video", metavar="VIDEO", help="the video file")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--every", type=interval, metavar="TIME",
                       help="one frame every TIME over the whole video, such as 1s, 500ms or 0.5")  # fmt: skip
    which.add_argument("--fps", type=rate, metavar="FPS",
                       help="frames per second over the whole video, such as 1 or 30000/1001")  # fmt: skip
    which.add_argument(
        "--at", type=times, metavar="SECONDS", help="times in seconds from the first frame, such as 1.5,2.0"
    )
    which.add_argument(
        "--indices", type=indices, metavar="FRAMES", help="frame numbers, such as 0,30,-1 (-1 is the last frame)"
    )
    which.add_argument("--rates", type=rates, metavar="FPS:FRAMES,...",
                       help="from the first frame on: 1:8,2:8 means 8 frames at 1 per second, then 8 at 2")  # fmt: skip
    parser.add_argument("-o", "--out", metavar="FOLDER", help="folder to write the frames to; created if missing")
    parser.add_argument("--format", choices=FORMATS,
                        help="format of the files in FOLDER: png is lossless, jpg and webp are lossy (default: png)",
                        )  # fmt: skip
    parser.add_argument("--quality", type=at_least(1), metavar="1-100",
                        help=f"quality of --format jpg and webp (default: {QUALITY})")  # fmt: skip
    parser.add_argument(
        "--sheet", metavar="PICTURE", help="file to write a contact sheet of the frames to, such as sheet.png"
    )
    parser.add_argument("--size", type=size, metavar="SIZE", help="size of the frames: short side, or HEIGHTxWIDTH")
    parser.add_argument("--on-damaged", choices=["error", "skip", "deliver"], default="error",
                        help="for damaged frames: error (default) fails, skip writes no file (black on the sheet), "
                        "deliver writes the damaged picture; skip and deliver decode the whole video first",
                        )  # fmt: skip
    add_limit_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the frames and their files as JSON")


@dataclass(slots=True)
class _Taken:
    """Frames that were decoded, by ordinal.

    Attributes:
        folder: Where they are written, or None.
        suffix: Of their files.
        quality: Of JPEG and WebP files.
        keeps_small: Whether they are kept for a sheet.
        files: Paths written.
        bytes_written: Size of these files.
        small: Thumbnails kept.
    """

    folder: str | None
    suffix: str
    quality: int
    keeps_small: bool
    files: dict[int, str] = field(default_factory=dict)
    bytes_written: int = 0
    small: dict[int, Pixels] = field(default_factory=dict)

    def add(self, ordinal: int, pts_seconds: float, picture: Pixels) -> None:
        """Write and keep one frame."""
        if self.folder is not None:
            path = os.path.join(self.folder, still_name(ordinal, pts_seconds, self.suffix))
            self.bytes_written += save_still(path, picture, self.quality)
            self.files[ordinal] = path
        if self.keeps_small:
            self.small[ordinal] = thumbnail(picture)


def run(args: argparse.Namespace) -> int:
    """Find the frames, decode them, write them."""
    _check(args)
    # Which frames are damaged is only known once all are decoded.
    catalog = catalog_of([args.video], limits_of(args), "proof" if args.on_damaged == "error" else "full")
    request = _requested(catalog, args)
    folder = None if args.out is None else made_folder(args.out)
    taken = _Taken(folder, f".{args.format or 'png'}", args.quality or QUALITY, args.sheet is not None)
    with VideoDecoder(catalog[0], size=args.size, dimension_order="NHWC", limits=limits_of(args)) as decoder:
        about = decoder.metadata
        try:
            for ordinal, pts_seconds, picture in _pictures(decoder, catalog[0], request, limits_of(args)):
                taken.add(ordinal, pts_seconds, picture)
        except (FramefeedError, KeyboardInterrupt):
            if taken.files and not args.json:
                say(f"{counted(len(taken.files), 'frame')} written to {args.out} before the command stopped")
            raise
    if args.sheet is not None:
        _blacken_skipped(request, catalog.frame_index(0), taken)
        sheet = contact_sheet([_sheet_clip(_title(args.video, about), request, taken)])
        save_still(args.sheet, sheet, software=_SHEET)
    if args.json:
        say_json({"source": args.video, **_document(about, request, taken), "sheet": args.sheet})
    else:
        say(*_summary(args, taken))
        _mention_repeats(request)
        _mention_damaged(request)
    return Exit.WELL


def _check(args: argparse.Namespace) -> None:
    """Refuse options that contradict each other before the video is opened."""
    if os.path.isdir(args.video):
        raise UsageError(
            f"{args.video}: expected one video, got a folder: name a video in it; to list all videos and pictures of a "
            f"folder, use 'framefeed scan {args.video} -o cat.parquet'"
        )
    if args.out is None and args.sheet is None:
        raise UsageError("expected -o FOLDER for the frames, --sheet PICTURE for a contact sheet, or both")
    if args.format is not None and args.out is None:
        raise UsageError("--format needs -o FOLDER: the ending of the --sheet file name sets the format of the sheet")
    if args.quality is not None and args.format not in _LOSSY:
        raise UsageError(
            "--quality needs --format jpg or --format webp: frames are written as PNG, which is always lossless"
        )
    if args.quality is not None and args.quality > 100:
        raise UsageError(f"argument --quality: expected a number from 1 to 100, got {args.quality}")
    if args.sheet is not None:
        still_format(args.sheet)
        check_writable(args.sheet, "contact sheet of framefeed", "sheet.png", lambda path: software_of(path) == _SHEET)


def _requested(catalog: Catalog, args: argparse.Namespace) -> DecodeRequest:
    _check_times(args, catalog.frame_index(0))
    rule = _rule(args, catalog.frame_index(0))
    request = plan_clips(catalog, rule, seed=0, shuffle=False, size=args.size, on_damaged=args.on_damaged)[0]
    if args.sheet is not None and len(request) > MAX_FRAMES:
        raise UsageError(
            f"--sheet: expected at most {MAX_FRAMES} frames, got {len(request)}: choose fewer, or use -o FOLDER"
        )
    past = _past(request)
    # A clip of several rates may be longer than its video; a frame that is asked for by itself must be there.
    if args.rates is None and len(past):
        index = catalog.frame_index(0)
        if args.at is not None:
            asked = f"no frame at {float(args.at[past[0]]):g} s: the video is {float(_length(index)):.3f} s long"
        else:
            asked = f"no frame {args.indices[past[0]]}: the video has {counted(len(index), 'frame')}"
        raise FrameNotFound(f"{request.name}: {asked}")
    return request


def _check_times(args: argparse.Namespace, index: FrameIndex) -> None:
    """Refuse a time before the first frame."""
    before = [time for time in args.at or () if time < 0]
    if before:
        require_times(index, args.video)
        raise FrameNotFound(
            f"{args.video}: no frame at {float(before[0]):g} s: the first frame is at 0 s, and the video is "
            f"{float(_length(index)):.3f} s long"
        )


def _rule(args: argparse.Namespace, index: FrameIndex) -> ClipRule:
    if args.at is not None:
        return AtSeconds(args.at)
    if args.indices is not None:
        return AtIndices(args.indices)
    if args.rates is not None:
        return Rates(args.rates, start=0.0)
    return Rates([_whole_video(args, index)], start=0.0)


def _whole_video(args: argparse.Namespace, index: FrameIndex) -> tuple[Fraction, int]:
    """Return frames per second, and how many times start + k / fps lie before the end."""
    require_times(index, args.video)
    fps: Fraction = args.fps or 1 / args.every
    count = max(1, math.ceil(_length(index) * fps))
    if count > MAX_TIMES:
        option = f"--fps {args.fps}" if args.fps else f"--every {float(args.every):g}s"
        raise UsageError(
            f"{option} means {count:,} frames of this video, at most {MAX_TIMES:,}: use fewer frames per second"
        )
    return fps, count


def _past(request: DecodeRequest) -> IntArray:
    invalid = ~np.asarray(request.valid)
    return np.flatnonzero(invalid if request.skipped is None else invalid & ~request.skipped)


def _length(index: FrameIndex) -> Fraction:
    return Fraction((index.end_pts - int(index.pts[0])) * index.time_base)


def _pictures(
    decoder: VideoDecoder, entry: CatalogEntry, request: DecodeRequest, limits: Limits
) -> Iterator[tuple[int, float, Pixels]]:
    """Decode each frame once and give it at once, mostly in order: one picture is held, however many there are."""
    damaged = np.zeros(len(request), dtype=np.bool_) if request.damaged is None else request.damaged
    numbers, first = np.unique(request.ordinals, return_index=True)
    if request.on_damaged != "error":
        numbers, first = numbers[~damaged[first]], first[~damaged[first]]
    seconds = dict(zip(numbers.tolist(), np.asarray(request.pts_seconds)[first].tolist(), strict=True))
    stream = cast("AutoDecoder", decoder_named(limits=limits)).pictures(
        MediaSource.of(entry), decoder.frame_index, numbers.tolist(), replace(request.output, dimension_order="NHWC")
    )
    hidden = not sys.stderr.isatty()
    with tqdm(total=len(numbers), unit="frame", file=sys.stderr, disable=hidden, leave=False) as bar:
        for ordinal, picture in stream:
            yield ordinal, seconds.pop(ordinal), picture
            bar.update()
    for ordinal, pts_seconds in seconds.items():
        # What the stream leaves out is damaged: asked for by itself, it says why.
        yield ordinal, pts_seconds, decoder.get_frame_at(ordinal).data
    if request.on_damaged == "deliver":
        yield from _as_they_come(entry, decoder.frame_index, request, limits)


def _as_they_come(
    entry: CatalogEntry, index: FrameIndex, request: DecodeRequest, limits: Limits
) -> Iterator[tuple[int, float, Pixels]]:
    """Decode the damaged frames, one picture at a time."""
    if request.damaged is None:
        return
    output = replace(request.output, dimension_order="NHWC")
    for ordinal in np.unique(request.ordinals[request.damaged]).tolist():
        memory = np.empty((1, *output.shape(*index.stream.displayed)), dtype=np.uint8)
        slot = ClipSlot(np.array([ordinal]), output, memory, accepts_damaged=True)
        decoder_named(limits=limits).decode(MediaSource.of(entry), index, [slot]).raise_first()
        yield ordinal, float(index.to_seconds(index.pts[[ordinal]])[0]), memory[0]


def _blacken_skipped(request: DecodeRequest, index: FrameIndex, taken: _Taken) -> None:
    """Put a black picture on the sheet for each frame that is skipped."""
    if request.skipped is None:
        return
    output = replace(request.output, dimension_order="NHWC")
    black = thumbnail(np.zeros(output.shape(*index.stream.displayed), dtype=np.uint8))
    for ordinal in request.ordinals[request.skipped].tolist():
        taken.small[ordinal] = black


def _summary(args: argparse.Namespace, taken: _Taken) -> list[str]:
    written = f"{counted(len(taken.files), 'frame')} written to {args.out}, {readable_bytes(taken.bytes_written)}"
    if not taken.files:
        written = f"no frame written to {args.out}: all chosen frames are damaged, and are skipped (--on-damaged skip)"
    sheet = f"contact sheet written to {args.sheet}"
    return [*([] if args.out is None else [written]), *([] if args.sheet is None else [sheet])]


def _document(about: VideoMetadata, request: DecodeRequest, taken: _Taken) -> dict[str, Any]:
    damaged = np.zeros(len(request), dtype=np.bool_) if request.damaged is None else request.damaged
    columns = (
        request.ordinals, request.pts_seconds, request.pick_error_seconds, request.valid, damaged, request.segment,
    )  # fmt: skip
    names = ("index", "pts_seconds", "pick_error_seconds", "valid", "damaged", "segment")
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


def _title(path: str, about: VideoMetadata) -> str:
    length = "" if about.duration_seconds is None else f", {about.duration_seconds:.3f} s"
    return (
        f"{printable(os.path.basename(path))}    {about.codec} {about.width}x{about.height}, "
        f"{counted(about.num_frames, 'frame')}{length}"
    )


def _sheet_clip(title: str, request: DecodeRequest, taken: _Taken) -> SheetClip:
    segments = np.asarray(request.segment).tolist()
    return SheetClip(
        title,
        [taken.small[ordinal] for ordinal in request.ordinals.tolist()],
        captions(request),
        segments if len(set(segments)) > 1 else (),
    )


def _mention_damaged(request: DecodeRequest) -> None:
    if request.damaged is None:
        return
    numbers = np.unique(request.ordinals[request.damaged]).tolist()
    verb, them, they = ("is", "it", "it is") if len(numbers) == 1 else ("are", "them", "they are")
    what = f"no file is written for {them}" if request.on_damaged == "skip" else f"{they} written as decoded"
    shown = ", ".join(map(str, numbers[:_SHOWN])) + (", ..." if len(numbers) > _SHOWN else "")
    complain(f"{counted(len(numbers), 'frame')} {verb} damaged ({shown}): {what}")


def _mention_repeats(request: DecodeRequest) -> None:
    if count := len(_past(request)):
        complain(f"{count} of {len(request)} frames lie past the end of the video: the last frame is repeated for them")

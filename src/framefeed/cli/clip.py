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

from framefeed import errors
from framefeed._arrays import IntArray
from framefeed._files import check_writable
from framefeed._names import refuse_url
from framefeed._shown import show_name
from framefeed._units import format_bytes, format_count, format_seconds
from framefeed._values import Limits
from framefeed.catalog import Catalog, CatalogEntry, make_memory_catalog
from framefeed.cli._arguments import (
    add_limit_arguments,
    make_limits,
    read_at_least,
    read_indices,
    read_interval,
    read_rate,
    read_rates,
    read_size,
    read_times,
)
from framefeed.cli._io import Exit, ensure_folder, make_printable, print_error, print_json, print_out
from framefeed.cli._plans import list_plan_failures, make_captions, make_plan_quietly
from framefeed.decode import AutoDecoder, ClipSlot, Pixels, VideoDecoder, VideoMetadata, find_decoder, require_times
from framefeed.encode import (
    MAX_FRAMES,
    QUALITY,
    SheetClip,
    draw_contact_sheet,
    find_still_format,
    make_still_name,
    make_thumbnail,
    read_software,
    save_still,
)
from framefeed.errors import FramefeedError, FrameNotFound, UsageError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.plan import AtIndices, AtSeconds, ClipRule, PlannedClip, Rates

FORMATS = ("png", "jpg", "webp")
_LOSSY = ("jpg", "webp")
# Numbers of damaged frames in a message.
_MAX_NUMBERS = 8
# Exif tag of contact sheets: a new sheet replaces no other picture.
_SHEET = "framefeed clip --sheet"
# Frames of one command: a folder with more files is slow.
MAX_TIMES = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("video", metavar="VIDEO", help="the video file")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--every", type=read_interval, metavar="TIME",
                       help="one frame every TIME over the whole video, such as 1s, 500ms or 0.5")  # fmt: skip
    which.add_argument("--fps", type=read_rate, metavar="FPS",
                       help="frames per second over the whole video, such as 1 or 30000/1001")  # fmt: skip
    which.add_argument("--at", type=read_times, metavar="SECONDS",
                       help="times in seconds from the first frame, such as 1.5,2.0")  # fmt: skip
    which.add_argument("--indices", type=read_indices, metavar="FRAMES",
                       help="frame numbers, such as 0,30,-1 (-1 is the last frame)")  # fmt: skip
    which.add_argument("--rates", type=read_rates, metavar="FPS:FRAMES,...",
                       help="from the first frame on: 1:8,2:8 means 8 frames at 1 per second, then 8 at 2")  # fmt: skip
    parser.add_argument("-o", "--out", metavar="FOLDER", help="folder to write the frames to; created if missing")
    parser.add_argument("--format", choices=FORMATS,
                        help="format of the files in FOLDER: png is lossless, jpg and webp are lossy (default: png)",
                        )  # fmt: skip
    parser.add_argument("--quality", type=read_at_least(1), metavar="1-100",
                        help=f"quality of --format jpg and webp (default: {QUALITY})")  # fmt: skip
    parser.add_argument("--sheet", metavar="PICTURE",
                        help="file to write a contact sheet of the frames to, such as sheet.png")  # fmt: skip
    parser.add_argument("--size", type=read_size, metavar="SIZE",
                        help="size of the frames: short side, or HEIGHTxWIDTH; output says WIDTHxHEIGHT")  # fmt: skip
    parser.add_argument("--on-damaged", choices=["error", "skip", "deliver"], default="error",
                        help="for damaged frames: error (default) fails, skip writes no file (black on the sheet), "
                        "deliver writes the damaged picture; skip and deliver decode the whole video "
                        "first")  # fmt: skip
    add_limit_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the frames and their files as JSON")


@dataclass(slots=True)
class _SavedFrames:
    """The files and thumbnails of decoded frames, by ordinal; without a folder there are no files."""

    folder: str | None
    suffix: str
    quality: int
    has_thumbnails: bool
    files: dict[int, str] = field(default_factory=dict)
    bytes_written: int = 0
    thumbnails: dict[int, Pixels] = field(default_factory=dict)

    def add(self, ordinal: int, pts_seconds: float, picture: Pixels) -> None:
        """Write one frame, and make its thumbnail."""
        if self.folder is not None:
            path = os.path.join(self.folder, make_still_name(ordinal, pts_seconds, self.suffix))
            self.bytes_written += save_still(path, picture, self.quality)
            self.files[ordinal] = path
        if self.has_thumbnails:
            self.thumbnails[ordinal] = make_thumbnail(picture)


def run(args: argparse.Namespace) -> int:
    """Decode the chosen frames and write them."""
    for option, given in (("-o", args.out), ("--sheet", args.sheet)):
        if given is not None:
            refuse_url(option, given)
    _check_options(args)
    # Only decoding all frames finds the damaged ones.
    catalog = make_memory_catalog([args.video], make_limits(args), "proof" if args.on_damaged == "error" else "full")
    clip = _plan_clip(catalog, args)
    folder = None if args.out is None else ensure_folder(args.out)
    saved = _SavedFrames(folder, f".{args.format or 'png'}", args.quality or QUALITY, args.sheet is not None)
    with VideoDecoder(catalog[0], size=args.size, dimension_order="NHWC", limits=make_limits(args)) as decoder:
        try:
            for ordinal, pts_seconds, picture in _decode_frames(decoder, catalog[0], clip, make_limits(args)):
                saved.add(ordinal, pts_seconds, picture)
        except (FramefeedError, KeyboardInterrupt):
            if saved.files and not args.json:
                print_out(f"{format_count(len(saved.files), 'frame')} written to {args.out} before the command stopped")
            raise
        # Metadata are asked for where they are shown alone: of an object by URL they cost requests.
        if args.sheet is not None:
            _save_sheet(args, decoder.metadata, catalog.frame_index(0), clip, saved)
        if args.json:
            document = _make_document(decoder.metadata, clip, saved)
            print_json({"source": show_name(args.video), **document, "sheet": args.sheet})
    if not args.json:
        _print_written(args, clip, saved)
    return Exit.WELL


def _check_options(args: argparse.Namespace) -> None:
    """Check for contradicting options before the video is opened."""
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
        find_still_format(args.sheet)
        check_writable(
            args.sheet, "contact sheet of framefeed", "sheet.png", lambda path: read_software(path) == _SHEET
        )


def _plan_clip(catalog: Catalog, args: argparse.Namespace) -> PlannedClip:
    rule = _make_rule(args, catalog.frame_index(0))
    plan = make_plan_quietly(
        catalog, rule, shows_remarks=False, seed=0, shuffle=False, size=args.size, on_damaged=args.on_damaged,
        still_quality="exact",
    )  # fmt: skip
    if not len(plan):
        ((source, kind, reason),) = list_plan_failures(plan)
        raise getattr(errors, kind)(f"{source}: {reason}")
    clip = plan[0]
    if args.sheet is not None and len(clip) > MAX_FRAMES:
        raise UsageError(
            f"--sheet: expected at most {MAX_FRAMES} frames, got {len(clip)}: choose fewer, or use -o FOLDER"
        )
    past_end = _find_past_end(clip)
    # A clip of rates may be longer than its video; frames chosen by --at or --indices must exist.
    if args.rates is None and len(past_end):
        index = catalog.frame_index(0)
        if args.at is not None:
            length = float(_compute_length(index))
            missing = f"no frame at {float(args.at[past_end[0]]):g} s: the video is {length:.3f} s long"
        else:
            missing = f"no frame {args.indices[past_end[0]]}: the video has {format_count(len(index), 'frame')}"
        raise FrameNotFound(f"{clip.name}: {missing}")
    return clip


def _make_rule(args: argparse.Namespace, index: FrameIndex) -> ClipRule:
    """Make the rule of the options; --every and --fps mean all times start + k / fps before the end."""
    before = [time for time in args.at or () if time < 0]
    if before:
        require_times(index, args.video)
        raise FrameNotFound(
            f"{args.video}: no frame at {float(before[0]):g} s: the first frame is at 0 s, and the video is "
            f"{float(_compute_length(index)):.3f} s long"
        )
    if args.at is not None:
        return AtSeconds(args.at)
    if args.indices is not None:
        return AtIndices(args.indices)
    if args.rates is not None:
        return Rates(args.rates, start=0.0)
    require_times(index, args.video)
    fps: Fraction = args.fps or 1 / args.every
    count = max(1, math.ceil(_compute_length(index) * fps))
    if count > MAX_TIMES:
        option = f"--fps {args.fps}" if args.fps else f"--every {float(args.every):g}s"
        raise UsageError(
            f"{option} means {count:,} frames of this video, at most {MAX_TIMES:,}: use fewer frames per second"
        )
    return Rates([(fps, count)], start=0.0)


def _find_past_end(clip: PlannedClip) -> IntArray:
    invalid = ~np.asarray(clip.valid)
    return np.flatnonzero(invalid if clip.skipped is None else invalid & ~clip.skipped)


def _compute_length(index: FrameIndex) -> Fraction:
    return Fraction((index.end_pts - int(index.pts[0])) * index.time_base)


def _decode_frames(
    decoder: VideoDecoder, entry: CatalogEntry, clip: PlannedClip, limits: Limits
) -> Iterator[tuple[int, float, Pixels]]:
    """Yield (ordinal, seconds, picture) of each frame once, only one picture in memory: damaged ones last."""
    damaged = np.zeros(len(clip), dtype=np.bool_) if clip.damaged is None else clip.damaged
    numbers, first = np.unique(clip.indices, return_index=True)
    if clip.on_damaged != "error":
        numbers, first = numbers[~damaged[first]], first[~damaged[first]]
    seconds = dict(zip(numbers.tolist(), np.asarray(clip.pts_seconds)[first].tolist(), strict=True))
    output, index, media = replace(clip.output, dimension_order="NHWC"), decoder.frame_index, MediaSource.of(entry)
    stream = cast("AutoDecoder", find_decoder(limits=limits)).iter_rgb(media, index, numbers.tolist(), output)
    with tqdm(total=len(numbers), unit="frame", file=sys.stderr, disable=None, leave=False) as bar:
        for ordinal, picture in stream:
            yield ordinal, seconds.pop(ordinal), picture
            bar.update()
    for ordinal, pts_seconds in seconds.items():
        # The stream leaves out damaged frames: decoding one alone raises the reason.
        yield ordinal, pts_seconds, decoder.get_frame_at(ordinal).data
    for ordinal in np.unique(clip.indices[damaged]).tolist() if clip.on_damaged == "deliver" else ():
        memory = np.empty((1, *output.shape(*index.stream.displayed)), dtype=np.uint8)
        slot = ClipSlot(np.array([ordinal]), output, memory, accepts_damaged=True)
        find_decoder(limits=limits).decode(media, index, [slot]).raise_first()
        yield ordinal, float(index.to_seconds(index.pts[[ordinal]])[0]), memory[0]


def _save_sheet(
    args: argparse.Namespace, metadata: VideoMetadata, index: FrameIndex, clip: PlannedClip, saved: _SavedFrames
) -> None:
    """Write the contact sheet, with a black picture for each frame that is skipped."""
    if clip.skipped is not None:
        output = replace(clip.output, dimension_order="NHWC")
        black = make_thumbnail(np.zeros(output.shape(*index.stream.displayed), dtype=np.uint8))
        for ordinal in clip.indices[clip.skipped].tolist():
            saved.thumbnails[ordinal] = black
    length = "" if metadata.duration_seconds is None else f", {format_seconds(metadata.duration_seconds)}"
    name = make_printable(os.path.basename(show_name(args.video)))
    title = (
        f"{name}    {metadata.codec} {metadata.width}x{metadata.height}, "
        f"{format_count(metadata.num_frames, 'frame')}{length}"
    )
    thumbnails = [saved.thumbnails[ordinal] for ordinal in clip.indices.tolist()]
    sheet = draw_contact_sheet([SheetClip(title, thumbnails, make_captions(clip))])
    save_still(args.sheet, sheet, software=_SHEET)


def _print_written(args: argparse.Namespace, clip: PlannedClip, saved: _SavedFrames) -> None:
    """Print the written files, and how many frames are repeated or damaged."""
    written = f"{format_count(len(saved.files), 'frame')} written to {args.out}, {format_bytes(saved.bytes_written)}"
    if not saved.files:
        written = f"no frame written to {args.out}: all chosen frames are damaged, and are skipped (--on-damaged skip)"
    sheet = f"contact sheet written to {args.sheet}"
    print_out(*([] if args.out is None else [written]), *([] if args.sheet is None else [sheet]))
    if count := len(_find_past_end(clip)):
        print_error(f"{count} of {len(clip)} frames lie past the end of the video: the last frame is repeated for them")
    if clip.damaged is not None:
        numbers = np.unique(clip.indices[clip.damaged]).tolist()
        verb, them, they = ("is", "it", "it is") if len(numbers) == 1 else ("are", "them", "they are")
        what = f"no file is written for {them}" if clip.on_damaged == "skip" else f"{they} written as decoded"
        shown = ", ".join(map(str, numbers[:_MAX_NUMBERS])) + (", ..." if len(numbers) > _MAX_NUMBERS else "")
        print_error(f"{format_count(len(numbers), 'frame')} {verb} damaged ({shown}): {what}")


def _make_document(metadata: VideoMetadata, clip: PlannedClip, saved: _SavedFrames) -> dict[str, Any]:
    damaged = np.zeros(len(clip), dtype=np.bool_) if clip.damaged is None else clip.damaged
    columns = (
        clip.indices, clip.pts_seconds, clip.pick_error_seconds, clip.valid, damaged, clip.segment,
    )  # fmt: skip
    names = ("index", "pts_seconds", "pick_error_seconds", "valid", "damaged", "segment")
    rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    frames = [dict(zip(names, row, strict=True)) | {"file": saved.files.get(row[0])} for row in rows]
    return {
        "codec": metadata.codec,
        "width": metadata.width,
        "height": metadata.height,
        "num_frames": metadata.num_frames,
        "duration_seconds": metadata.duration_seconds,
        "frames": frames,
    }

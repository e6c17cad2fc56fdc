"""Options and messages of plans and caches that several commands share, and captions of contact sheets."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from framefeed._units import format_count
from framefeed.cache import FORMS, FrameCache, list_codecs
from framefeed.catalog import Catalog, check_plannable
from framefeed.cli._arguments import (
    add_limit_arguments,
    add_root_argument,
    add_workers_argument,
    read_at_least,
    read_byte_size,
    read_rates,
    read_size,
    read_times,
)
from framefeed.cli._io import Failed, print_error
from framefeed.errors import UsageError
from framefeed.plan import ClipRule, EpochPlan, EveryFrame, PlannedClip, Rates, Shuffle, find_remarks, plan_clips

SIZE = (224, 224)
# The ``shuffle`` of plan_clips by the word of --shuffle; the default first.
SHUFFLES: Mapping[str, Shuffle] = {"yes": True, "no": False, "videos": "videos"}


def add_plan_arguments(parser: argparse.ArgumentParser, *, every_frame: bool = False) -> None:
    """Declare the options of a plan; ``every_frame``: without rates, the command takes every frame, at full size."""
    without = (
        ("; without --rates: every frame", "224x224 with --rates, else the size of the video")
        if every_frame
        else ("", "224x224")
    )
    parser.add_argument("--rates", type=read_rates, required=not every_frame, metavar="FPS:FRAMES,...",
                        help=f"frames of a clip: 1:8,2:8 means 8 frames at 1 per second, then 8 at 2{without[0]}",
                        )  # fmt: skip
    parser.add_argument("--start", type=read_start, metavar="random|SECONDS",
                        help="time at which clips start (default: random, so each epoch has other frames)")  # fmt: skip
    parser.add_argument("--clips-per-video", type=read_at_least(1), default=1, metavar="N",
                        help="number of clips from each video in an epoch (default: 1)")  # fmt: skip
    parser.add_argument("--size", type=read_size, metavar="SIZE",
                        help="size of the pictures: short side, or HEIGHTxWIDTH; output says WIDTHxHEIGHT "
                        f"(default: {without[1]})")  # fmt: skip
    parser.add_argument("--on-damaged", choices=["error", "skip", "deliver"], default="error",
                        help="for frames that a full scan found damaged: error (default) fails, skip gives zeros, "
                        "deliver gives the damaged picture")  # fmt: skip
    add_limit_arguments(parser)
    add_workers_argument(parser)
    parser.add_argument("--epochs", type=read_at_least(1), default=1, metavar="N", help="number of epochs (default: 1)")
    parser.add_argument("--seed", type=read_at_least(0), default=0, metavar="N",
                        help="seed of the order and of random clips (default: 0)")  # fmt: skip
    parser.add_argument("--shuffle", choices=list(SHUFFLES),
                        help="shuffle of the plan, as in plan_clips: yes (default, shuffle=True), no (shuffle=False), "
                        "videos (shuffle='videos'); the frames of random starts depend on it")  # fmt: skip
    add_root_argument(parser)


def read_start(text: str) -> Literal["random"] | Fraction:
    """Read the time at which clips start, or ``random``."""
    if text == "random":
        return "random"
    try:
        (seconds,) = read_times(text)
    except (argparse.ArgumentTypeError, ValueError):
        raise argparse.ArgumentTypeError(f"expected random, or a time in seconds such as 1.5, got {text!r}") from None
    return seconds


def get_workers(args: argparse.Namespace) -> int | Literal["auto"]:
    """Get the number of threads, as the library takes it."""
    return "auto" if args.workers is None else int(args.workers)


def get_shuffle(args: argparse.Namespace) -> Shuffle:
    """Get the ``shuffle`` of plan_clips."""
    return SHUFFLES["yes" if args.shuffle is None else args.shuffle]


def check_media(catalog: Catalog, path: str) -> None:
    """Check that a catalog has rows."""
    if not len(catalog):
        raise UsageError(f"{path}: this catalog has no media in it: scan a folder that holds videos or pictures")


def describe_contents(catalog: Catalog) -> str:
    """Count the readable files, as in ``55 videos and 106 pictures``."""
    kinds = catalog.table["kind"].take(pa.array(catalog.plannable_rows)).to_pylist()
    pictures = kinds.count("image")
    counts = [(len(kinds) - pictures, "video"), (pictures, "picture")]
    return " and ".join(format_count(count, noun) for count, noun in counts if count)


def open_catalog(path: str, root: str | None) -> Catalog:
    """Open a catalog, and check that it has media that can be planned."""
    catalog = Catalog.open(path, root)
    check_media(catalog, path)
    check_plannable(catalog, path)
    return catalog


def make_plan_quietly(catalog: Catalog, rule: ClipRule, *, shows_remarks: bool = True, **options: Any) -> EpochPlan:
    """Make a plan; print its warnings as lines, but for that of failed rows, which are listed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        plan = plan_clips(catalog, rule, **options)
    if shows_remarks:
        print_error(*find_remarks(plan))
    return plan


def list_plan_failures(plan: EpochPlan) -> list[Failed]:
    """List the rows that a plan leaves out, those that failed in the scan first."""
    return [(source, *error.split(": ", 1)) for source, error in plan.excluded]  # type: ignore[misc]


def make_plan(args: argparse.Namespace, catalog: Catalog) -> EpochPlan:
    """Make the plan that the options describe."""
    if args.rates is None:
        if args.clips_per_video != 1:
            raise UsageError("--clips-per-video needs --rates: without --rates, each frame is one clip")
        if args.start is not None:
            raise UsageError("--start needs --rates: without --rates, each frame is one clip")
        if args.shuffle is not None:
            raise UsageError("--shuffle needs --rates: without --rates, every frame is stored")
        return make_plan_quietly(
            catalog, EveryFrame(), seed=args.seed, size=args.size, shuffle=False, on_damaged=args.on_damaged
        )
    return make_plan_quietly(
        catalog,
        Rates(args.rates, "random" if args.start is None else args.start),
        seed=args.seed,
        shuffle=get_shuffle(args),
        clips_per_video=args.clips_per_video,
        size=SIZE if args.size is None else args.size,
        on_damaged=args.on_damaged,
    )


def add_cache_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a cache."""
    parser.add_argument("--codec", metavar="CODEC",
                        help=f"how frames are stored: {list_codecs()}; default: raw for outputs, lz4 for planes and "
                        "if outputs would not fit into --max-bytes raw")  # fmt: skip
    parser.add_argument("--max-bytes", type=read_byte_size, metavar="SIZE",
                        help="largest size of the cache, such as 200GB")  # fmt: skip
    parser.add_argument("--form", choices=["auto", *FORMS],
                        help="what is stored: output, the pixels that a clip needs; planes, whole pictures as decoded; "
                        "auto, chosen by the plan (default)")  # fmt: skip


def make_cache(args: argparse.Namespace, folder: str) -> FrameCache:
    """Make the cache that the options describe."""
    return FrameCache(folder, codec=args.codec or "auto", max_bytes=args.max_bytes, form=args.form or "auto")


@contextmanager
def ignoring_cache_warnings() -> Iterator[None]:
    """Ignore the warning that a cache stores nothing more: ``print_trouble`` prints it as one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def suggest_remedy(args: argparse.Namespace) -> str:
    """Suggest what to do if every epoch needs other frames than are stored."""
    size = SIZE if args.size is None else args.size
    text = f"{size[0]}x{size[1]}" if isinstance(size, tuple) else f"{size}"
    return (
        f"store more epochs (framefeed cache build --epochs N), or store every frame (framefeed cache build without "
        f"--rates, with --size {text}), or start all clips at a fixed time (--start 0)"
    )


def print_trouble(cache: FrameCache | None) -> None:
    """Print the reason if a cache stores nothing more."""
    trouble = None if cache is None else cache.stats().trouble
    if trouble is not None:
        print_error(trouble)


def make_captions(clip: PlannedClip) -> list[str]:
    """Make one caption per frame: its ordinal, and its time or that it is damaged or past the end."""
    damaged = np.zeros(len(clip), dtype=np.bool_) if clip.damaged is None else clip.damaged
    columns = (clip.indices, clip.pts_seconds, clip.valid, damaged)
    captions = []
    for ordinal, seconds, is_valid, is_damaged in zip(*(column.tolist() for column in columns), strict=True):
        if is_damaged:
            note = "  damaged"
        elif not is_valid:
            note = "  past end"
        else:
            note = f"  {seconds:.3f} s" if math.isfinite(seconds) else ""
        captions.append(f"#{ordinal}{note}")
    return captions

"""Which clips of a catalog: options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from fractions import Fraction
from typing import Literal

import pyarrow as pa

from framefeed._units import counted
from framefeed.cli.failures import quietly_planned
from framefeed.cli.limits import add_limit_arguments
from framefeed.cli.parsing import at_least, rates, size, times, workers
from framefeed.errors import UsageError
from framefeed.index.catalog import Catalog
from framefeed.index.catalog_rows import why_no_frames
from framefeed.plan.clips import EveryFrame
from framefeed.plan.epoch import EpochPlan
from framefeed.plan.options import Shuffle
from framefeed.plan.timed import Rates

SIZE = (224, 224)
SHUFFLES: Mapping[str, Shuffle] = {"yes": True, "no": False, "videos": "videos"}
"""Words of --shuffle, and the ``shuffle`` of plan_clips that they stand for; the default first."""


def add_plan_arguments(parser: argparse.ArgumentParser, *, every_frame: bool = False) -> None:
    """Declare which clips.

    Args:
        parser: Of the command.
        every_frame: Whether it takes every frame, at full size, where no rates are given.
    """
    without = (
        ("; without --rates: every frame", "224x224 with --rates, else the size of the video")
        if every_frame
        else ("", "224x224")
    )
    parser.add_argument("--rates", type=rates, required=not every_frame, metavar="FPS:FRAMES,...",
                        help=f"frames of a clip: 1:8,2:8 means 8 frames at 1 per second, then 8 at 2{without[0]}",
                        )  # fmt: skip
    parser.add_argument("--start", type=_start, metavar="random|SECONDS",
                        help="time at which clips start (default: random, so each epoch has other frames)")  # fmt: skip
    parser.add_argument(
        "--clips-per-video",
        type=at_least(1),
        default=1,
        metavar="N",
        help="number of clips from each video in an epoch (default: 1)",
    )
    parser.add_argument("--size", type=size, metavar="SIZE",
                        help=f"size of the pictures: short side, or HEIGHTxWIDTH (default: {without[1]})")  # fmt: skip
    parser.add_argument("--on-damaged", choices=["error", "skip", "deliver"], default="error",
                        help="for frames that a full scan found damaged: error (default) fails, skip gives zeros, "
                        "deliver gives the damaged picture",
                        )  # fmt: skip
    add_limit_arguments(parser)
    parser.add_argument(
        "--workers", type=workers, metavar="N", help="number of threads, or auto (default: auto, the thread budget)"
    )
    parser.add_argument("--epochs", type=at_least(1), default=1, metavar="N", help="number of epochs (default: 1)")
    parser.add_argument(
        "--seed", type=at_least(0), default=0, metavar="N", help="seed of the order and of random clips (default: 0)"
    )
    parser.add_argument("--shuffle", choices=list(SHUFFLES),
                        help="shuffle of the plan, as in plan_clips: yes (default, shuffle=True), no (shuffle=False), "
                        "videos (shuffle='videos'); the frames of random starts depend on it",
                        )  # fmt: skip
    parser.add_argument(
        "--root",
        metavar="FOLDER",
        help="folder that relative paths in the catalog start from (default: the folder of the catalog)",
    )


def _start(text: str) -> Literal["random"] | Fraction:
    if text == "random":
        return "random"
    try:
        (seconds,) = times(text)
    except (argparse.ArgumentTypeError, ValueError):
        raise argparse.ArgumentTypeError(f"expected random, or a time in seconds such as 1.5, got {text!r}") from None
    return seconds


def num_workers(args: argparse.Namespace) -> int | Literal["auto"]:
    """Return the number of threads, in the form that the library takes."""
    return "auto" if args.workers is None else int(args.workers)


def shuffle_of(args: argparse.Namespace) -> Shuffle:
    """Return the ``shuffle`` of plan_clips that the options stand for."""
    return SHUFFLES["yes" if args.shuffle is None else args.shuffle]


def check_media(catalog: Catalog, path: str) -> None:
    """Refuse a catalog without rows.

    Raises:
        UsageError: It has none.
    """
    if not len(catalog):
        raise UsageError(f"{path}: this catalog has no media in it: scan a folder that holds videos or pictures")


def contents(catalog: Catalog) -> str:
    """Count what can be read, such as ``55 videos and 106 pictures``."""
    kinds = catalog.table["kind"].take(pa.array(catalog.usable_rows)).to_pylist()
    pictures = kinds.count("image")
    counts = [(len(kinds) - pictures, "video"), (pictures, "picture")]
    return " and ".join(counted(count, noun) for count, noun in counts if count)


def opened(path: str, root: str | None) -> Catalog:
    """Open a catalog that has media, and whose frames are known."""
    catalog = Catalog.open(path, root)
    check_media(catalog, path)
    if not catalog.has_frame_indexes:
        raise UsageError(f"{path}: {why_no_frames(catalog, 'scan again, without --headers-only')}")
    return catalog


def planned(args: argparse.Namespace, catalog: Catalog) -> EpochPlan:
    """Make the plan that the options describe."""
    if args.rates is None:
        if args.clips_per_video != 1:
            raise UsageError("--clips-per-video needs --rates: without --rates, each frame is one clip")
        if args.start is not None:
            raise UsageError("--start needs --rates: without --rates, each frame is one clip")
        if args.shuffle is not None:
            raise UsageError("--shuffle needs --rates: without --rates, every frame is stored")
        return quietly_planned(
            catalog, EveryFrame(), seed=args.seed, size=args.size, shuffle=False, on_damaged=args.on_damaged
        )
    return quietly_planned(
        catalog,
        Rates(args.rates, "random" if args.start is None else args.start),
        seed=args.seed,
        shuffle=shuffle_of(args),
        clips_per_video=args.clips_per_video,
        size=SIZE if args.size is None else args.size,
        on_damaged=args.on_damaged,
    )

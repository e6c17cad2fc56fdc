"""Caching of frames: options and messages that several commands share."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from framefeed.cache.frame_cache import FrameCache
from framefeed.cache.keys import FORMS
from framefeed.cache.outlook import varies
from framefeed.cache.prospect import share_found
from framefeed.cli.parsing import byte_size
from framefeed.cli.plans import SIZE
from framefeed.cli.printing import complain
from framefeed.decode.registry import as_decoder
from framefeed.media.limits import Limits
from framefeed.plan.epoch import EpochPlan


def add_cache_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how frames are cached."""
    parser.add_argument("--codec", metavar="CODEC",
                        help="how frames are stored: raw, lz4, lz4hc, magicyuv, zstd or zstd:LEVEL (lossless); jpeg or "
                        "jpeg:QUALITY (lossy) (default: chosen by measurement)",
                        )  # fmt: skip
    parser.add_argument("--max-bytes", type=byte_size, metavar="SIZE", help="largest size of the cache, such as 200GB")
    parser.add_argument("--form", choices=["auto", *FORMS],
                        help="what is stored: output, the pixels that a clip needs; planes, whole pictures as decoded; "
                        "auto, chosen by the plan (default)")  # fmt: skip


def cache_of(args: argparse.Namespace, folder: str) -> FrameCache:
    """Make the cache that the options describe."""
    return FrameCache(folder, codec=args.codec or "auto", max_bytes=args.max_bytes, form=args.form or "auto")


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress the warning that a cache stores nothing more: a command prints it as one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def wants_other_frames(plan: EpochPlan, cache: FrameCache) -> bool:
    """Whether each epoch of a plan wants other frames than the one before."""
    return varies(plan, is_by_output(plan, cache))


def found_next(plan: EpochPlan, cache: FrameCache, epochs: int, limits: Limits) -> float | None:
    """Look up the share of its frames that the epoch after some of a plan finds; None where epochs do not differ."""
    if not wants_other_frames(plan, cache):
        return None
    return share_found(plan.with_epoch(plan.epoch + epochs), cache, as_decoder("auto", limits))


def is_by_output(plan: EpochPlan, cache: FrameCache) -> bool:
    """Return whether outputs of a plan are stored, not whole pictures."""
    return cache.form_for(plan) == "output"


def remedy(args: argparse.Namespace) -> str:
    """Describe what to do if every epoch needs other frames than are stored."""
    size = SIZE if args.size is None else args.size
    text = f"{size[0]}x{size[1]}" if isinstance(size, tuple) else f"{size}"
    return (
        f"store more epochs (framefeed cache build --epochs N), or store every frame (framefeed cache build without "
        f"--rates, with --size {text}), or start all clips at a fixed time (--start 0)"
    )


def percent(share: float) -> str:
    """Write a share: ``5 %``."""
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.01 else "less than 1 %"


def is_too_small(cache: FrameCache) -> bool:
    """Whether nothing could be stored because the largest size of the cache is below that of its first frames."""
    return cache.store.needed_bytes is not None and not cache.info().num_frames


def say_trouble(cache: FrameCache | None) -> None:
    """Print why a cache stores nothing more, if so."""
    trouble = None if cache is None else cache.stats().trouble
    if trouble is not None:
        complain(trouble)

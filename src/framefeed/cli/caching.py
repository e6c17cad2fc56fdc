"""How frames are cached: options that several commands share, and what is said where that does not work."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from framefeed.cache.frame_cache import FrameCache
from framefeed.cache.keys import FORMS
from framefeed.cli.parsing import byte_size
from framefeed.cli.printing import complain


def add_cache_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how frames are cached."""
    parser.add_argument("--codec", metavar="CODEC",
                        help="how frames are stored, such as lz4, zstd:3 or, with loss, jpeg:90 "
                        "(default: chosen by measurement)")  # fmt: skip
    parser.add_argument("--max-bytes", type=byte_size, metavar="SIZE", help="most bytes of the cache, such as 200GB")
    parser.add_argument("--form", choices=["auto", *FORMS],
                        help="what is stored: the pixels that are asked for, or the whole pictures as they were "
                        "decoded (default: auto, by what is asked for)")  # fmt: skip


def cache_of(args: argparse.Namespace, folder: str) -> FrameCache:
    """Make the cache that the options describe."""
    return FrameCache(folder, codec=args.codec or "auto", max_bytes=args.max_bytes, form=args.form or "auto")


@contextmanager
def quietly() -> Iterator[None]:
    """Without the warning that a cache stores nothing more: a command says it in one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def say_trouble(cache: FrameCache | None) -> None:
    """Complain of a cache that stores nothing more."""
    trouble = None if cache is None else cache.stats().trouble
    if trouble is not None:
        complain(trouble)

"""What is found out about each source: facts, frame index, stat and fingerprint, or the error instead."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, get_args

from tqdm import tqdm

from framefeed.errors import FramefeedError, UsageError
from framefeed.index.build import Verify, index_media
from framefeed.index.frame_index import FrameIndex
from framefeed.media.info import MediaInfo
from framefeed.media.probe import probe
from framefeed.media.source import MediaSource, SourceStat
from framefeed.parallel.budget import thread_budget
from framefeed.parallel.ordered import ordered_outcomes
from framefeed.parallel.outcome import Err

Depth = Literal["frames", "header"]
IN_FLIGHT_PER_WORKER = 4
"""Enough that a worker finds work while a slow file holds up the order, few enough to hold in memory."""


@dataclass(frozen=True, slots=True)
class SurveyOptions:
    """How much to find out, and with how many threads.

    Attributes:
        depth: "frames" builds a frame index, "header" believes the header.
        verify: As ``build_index`` takes it.
        workers: Threads; None takes the thread budget of the process, 0 works in the calling thread.
        progress: Show a bar on standard error; None shows it where that is a terminal.

    Example:
        >>> SurveyOptions(depth="header").verify
        'ends'
    """

    depth: Depth = "frames"
    verify: Verify = "ends"
    workers: int | None = None
    progress: bool | None = False

    def __post_init__(self) -> None:
        if self.depth not in get_args(Depth):
            raise UsageError(f"depth must be 'frames' or 'header', not {self.depth!r}")
        if self.verify not in get_args(Verify):
            raise UsageError(f"verify must be 'ends', 'none' or 'full', not {self.verify!r}")
        if self.workers is not None and self.workers < 0:
            raise UsageError(f"workers must be 0 or more, or None for as many as fit, not {self.workers}")


@dataclass(frozen=True, slots=True)
class Finding:
    """What is known of one source; a failed one has an error, and the rest as far as it was found.

    Attributes:
        info: What the header claims.
        index: Where its frames are; None at depth "header".
        stat: Size and time before it was read, so that a change meanwhile shows later.
        fingerprint: Hash of its content.
        error: Why it failed.
    """

    info: MediaInfo | None = None
    index: FrameIndex | None = None
    stat: SourceStat | None = None
    fingerprint: str | None = None
    error: FramefeedError | None = field(default=None)


def survey(source: str | bytes, options: SurveyOptions) -> Finding:
    """Find out about one source; errors of framefeed are part of what is found.

    Args:
        source: Path or encoded bytes.
        options: How much to find out.
    """
    info, stat = None, None
    try:
        media = MediaSource.of(source)
        stat = media.stat()
        if options.depth == "header":
            return Finding(probe(media), None, stat, media.fingerprint())
        info, index = index_media(media, options.verify)
        return Finding(info, index, stat, index.identity.fingerprint if index.identity else media.fingerprint())
    except FramefeedError as error:
        # What the header claims helps to see what kind of file it is that fails.
        with suppress(FramefeedError):
            info = info or (probe(source) if stat and options.depth == "frames" else None)
        return Finding(info, None, stat, None, error)


def survey_all(sources: Sequence[str | bytes | Finding], options: SurveyOptions) -> Iterator[Finding]:
    """Find out about many sources at once, in their order.

    Args:
        sources: Paths, encoded bytes, and findings, which are passed on.
        options: How much to find out, and with how many threads.
    """
    workers = thread_budget().threads if options.workers is None else options.workers

    def find(source: str | bytes | Finding) -> Finding:
        return source if isinstance(source, Finding) else survey(source, options)

    outcomes = ordered_outcomes(
        find, sources, workers=workers, max_in_flight=IN_FLIGHT_PER_WORKER * max(1, workers)
    )  # fmt: skip
    shown = sys.stderr.isatty() if options.progress is None else options.progress
    with outcomes, tqdm(total=len(sources), unit="file", file=sys.stderr, disable=not shown) as bar:
        for outcome in outcomes:
            if isinstance(outcome, Err):
                raise outcome.error
            bar.update()
            yield outcome.value

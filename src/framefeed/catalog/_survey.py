"""What is found out about each source: facts, frame index, stat and fingerprint, or the error instead."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal, get_args

from framefeed._checks import expected
from framefeed.catalog._frame_rows import MOST_ITEMS
from framefeed.errors import FramefeedError, LimitExceeded, MediaError, UnsupportedCodec
from framefeed.index import FrameIndex, Verify, index_media
from framefeed.media import (
    DEFAULT_LIMITS,
    HEAD_BYTES,
    Limits,
    MediaInfo,
    MediaSource,
    SequenceSource,
    SourceStat,
    check_decodable,
    describe_picture,
    probe,
    sniff,
    source_name,
)
from framefeed.parallel import DEADLINE, check_deadline, shortage_in, time_limit, try_again_in_shortage

Depth = Literal["frames", "header"]


@dataclass(frozen=True, slots=True)
class SurveyOptions:
    """How much to find out, and with how many workers.

    Attributes:
        depth: "frames" builds a frame index, "header" believes the header.
        verify: As ``build_index`` takes it; "full" decodes pictures too.
        workers: Threads or processes; None takes the thread budget of the process, 0 works in the calling thread.
        progress: Show a bar on standard error; None shows it where that is a terminal.
        fps: Frames a second of folders of pictures that are taken as videos.
        limits: What a file may claim.
        deadline_seconds: Longest time for one file, or None for no bound.
        assume_fps: Frames a second of streams that have no usable times, or None.

    Example:
        >>> SurveyOptions(depth="header").verify
        'proof'
    """

    depth: Depth = "frames"
    verify: Verify = "proof"
    workers: int | None = None
    progress: bool | None = False
    fps: Fraction | None = None
    limits: Limits = DEFAULT_LIMITS
    deadline_seconds: float | None = 60
    assume_fps: Fraction | None = None

    def __post_init__(self) -> None:
        if self.depth not in get_args(Depth):
            raise expected("depth", "'frames' or 'header'", self.depth)
        if self.verify not in get_args(Verify):
            raise expected("verify", "'proof', 'ends', 'none' or 'full'", self.verify)
        if self.workers is not None and (not isinstance(self.workers, int) or self.workers < 0):
            raise expected("workers", "an integer of at least 0, or None for the thread budget", self.workers)
        if self.limits.max_packets > MOST_ITEMS:
            raise expected("limits.max_packets", f"at most {MOST_ITEMS} for a catalog", self.limits.max_packets)
        check_deadline(self.deadline_seconds)

    @property
    def decodes_pictures(self) -> bool:
        """Whether the headers of pictures are not enough."""
        return self.depth == "frames" and self.verify == "full"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is known of one source; a failed one has an error, and the rest as far as it was found.

    Attributes:
        info: What the header claims.
        index: Where its frames are; None at depth "header", and of a still picture.
        stat: Size and time before it was read, so that a change meanwhile shows later.
        fingerprint: Hash of its content.
        error: Why it failed.
        num_damaged_frames: Without an index: 0 of a picture that was decoded, None where it was not.
    """

    info: MediaInfo | None = None
    index: FrameIndex | None = None
    stat: SourceStat | None = None
    fingerprint: str | None = None
    error: FramefeedError | None = field(default=None)
    num_damaged_frames: int | None = None


def survey(source: Any, options: SurveyOptions) -> Finding:
    """Find out about one source; errors of framefeed about it are part of what is found.

    So is a file that asks for more depth than there is, or for more time than its deadline; what else is raised is a
    bug, and names the source.

    Args:
        source: Path, encoded bytes, or image sequence.
        options: How much to find out.

    Raises:
        ResourceExhausted: Memory or file descriptors ran out, twice.
    """
    name = source_name(source)
    try:
        with time_limit(options.deadline_seconds, name):
            return try_again_in_shortage(partial(_survey, source, options), name, "index")
    except RecursionError:
        message = (
            f"{name}: its parts are nested more deeply than Python's recursion limit allows "
            f"({sys.getrecursionlimit()}): the file may be damaged; if you trust it, give sys.setrecursionlimit a "
            "larger number"
        )
        return Finding(error=LimitExceeded(message, limit="recursion limit", source=name, stage="index"))
    except FramefeedError:
        raise
    except Exception as error:
        error.add_note(f"while framefeed looked at {source_name(source)}")
        raise


def _survey(source: Any, options: SurveyOptions) -> Finding:
    info, found = None, None
    try:
        media = MediaSource.of(source)
        if isinstance(media, SequenceSource):
            media.forget()  # A file that was written again does not show in the list that this process has.
        found = media.stat()
        if options.depth == "header" or _is_still(media):
            info = probe(media, limits=options.limits)
            check_decodable(info, media.name)
            fingerprint = media.head_fingerprint() if info.kind == "image" else media.fingerprint()
            if options.depth == "frames":
                if options.decodes_pictures:
                    index_media(media, "full", limits=options.limits)
                # What can be planned of a picture is one frame, whatever its header counts.
                info = replace(info, num_frames_from_header=1)
            # A picture that was decoded and does not come undamaged is a failed row.
            damaged = 0 if options.decodes_pictures else None
            return Finding(info, None, found, fingerprint, num_damaged_frames=damaged)
        info, index = index_media(media, options.verify, assume_fps=options.assume_fps, limits=options.limits)
        return Finding(info, index, found, index.identity.fingerprint if index.identity else media.fingerprint())
    except FramefeedError as error:
        if shortage_in(error) is not None:
            raise
        # What the header claims helps to see what kind of file it is that fails.
        with suppress(MediaError):
            info = info or (_claims(source, error, options) if found else None)
        return Finding(info, None, None if _may_pass(error) else found, None, error)


def _claims(source: Any, error: FramefeedError, options: SurveyOptions) -> MediaInfo | None:
    media = MediaSource.of(source)
    if isinstance(error, UnsupportedCodec) and _is_still(media):
        return describe_picture(media, options.limits).info
    return probe(source, limits=options.limits) if options.depth == "frames" else None


def _may_pass(error: FramefeedError) -> bool:
    """Whether a file may be read next time; a row without a time is tried again.

    That is so of what the system refused (a permission, a lost disk), and of what took too long.
    """
    # Pillow calls a damaged picture an OSError too, without a number.
    cause = error.__cause__
    return getattr(error, "limit", None) == DEADLINE or (isinstance(cause, OSError) and cause.errno is not None)


def _is_still(media: MediaSource) -> bool:
    return media.kind != "sequence" and sniff(media.head(HEAD_BYTES), media.name) == "image"

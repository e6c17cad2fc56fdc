"""Survey one source: its facts, frame index, stat and fingerprint, or its error."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal, get_args

from framefeed._checks import check_choice, check_integer, expected
from framefeed._shown import is_signed
from framefeed._values import DEFAULT_LIMITS, HEAD_BYTES, Limits, MediaInfo
from framefeed.catalog._frame_rows import MOST_ITEMS
from framefeed.errors import (
    DeadlineExceeded,
    FramefeedError,
    LimitExceeded,
    MediaError,
    MissingDependency,
    UnsupportedCodec,
)
from framefeed.index import FrameIndex, Verify, index_media, is_still, probe
from framefeed.media import (
    MediaSource,
    Part,
    SequenceSource,
    SourceIdentity,
    StorageOptions,
    source_name,
)
from framefeed.parallel import DEADLINE, check_deadline, find_shortage, time_limit, try_again_in_shortage
from framefeed.pictures import describe_picture

Depth = Literal["frames", "header"]
_AHEAD_BYTES = 2**18
"""Of an object by URL: at 50 MB/s they take 5 ms, and a request 20."""
SIGNED = "signed "
"""Before the version of an object that was read by a signature, which no catalog keeps."""


@dataclass(frozen=True, slots=True)
class SurveyOptions:
    """Depth of a survey, and its number of workers.

    Example:
        >>> SurveyOptions(depth="header").verify
        'proof'
    """

    depth: Depth = "frames"
    verify: Verify = "proof"  # "full" decodes pictures too
    workers: int | None = None  # None takes the thread budget, 0 works in the calling thread
    progress: bool | None = False  # None shows a bar if standard error is a terminal
    fps: Fraction | None = None  # of folders of pictures that are read as videos
    limits: Limits = DEFAULT_LIMITS
    deadline_seconds: float | None = 60  # for one file
    assume_fps: Fraction | None = None  # of streams that have no usable times
    storage_options: StorageOptions | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_choice("depth", self.depth, get_args(Depth))
        check_choice("verify", self.verify, get_args(Verify))
        if self.workers is not None:
            object.__setattr__(self, "workers", check_integer("workers", self.workers, least=0))
        if self.limits.max_packets > MOST_ITEMS:
            raise expected("limits.max_packets", f"at most {MOST_ITEMS} for a catalog", self.limits.max_packets)
        check_deadline(self.deadline_seconds)

    @property
    def decodes_pictures(self) -> bool:
        """Whether pictures are decoded, not only their headers read."""
        return self.depth == "frames" and self.verify == "full"


@dataclass(frozen=True, slots=True)
class SurveyResult:
    """Facts of one source; a failed source has an error, and the facts that were read before it.

    ``identity`` has size and time before it was read, so that a change meanwhile is noticed by the next scan; and the
    hash of its content, "" for a failed source.
    """

    info: MediaInfo | None = None
    index: FrameIndex | None = None  # None at depth "header", and for a still picture
    identity: SourceIdentity | None = None
    error: FramefeedError | None = None
    num_damaged_frames: int | None = None  # without an index: 1 of a damaged picture, 0 of a sound one
    offset: int | None = None  # of a part in its container
    version: str | None = None  # of an object by URL, or of what a part lies in


def survey(source: Any, options: SurveyOptions) -> SurveyResult:
    """Survey one source, a path, encoded bytes, or image sequence; a framefeed error becomes a part of the result.

    Nesting beyond the recursion limit and a passed deadline are such errors, too; a shortage is not. Any other
    exception is a bug; a note with the name of the source is added to it.
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
        return SurveyResult(error=LimitExceeded(message, limit="recursion limit", source=name, stage="index"))
    except FramefeedError:
        raise
    except Exception as error:
        error.add_note(f"while framefeed looked at {source_name(source)}")
        raise


def _survey(source: Any, options: SurveyOptions) -> SurveyResult:
    media, info, stat, ahead = None, None, None, None
    try:
        media = MediaSource.of(source, options.storage_options, limits=options.limits)
        # All readers of an object use these bytes: of a small one they are all that is asked for.
        ahead = media.fetch_ahead(None, [(0, _AHEAD_BYTES)])
        if isinstance(media, SequenceSource):
            media.forget()  # The cached list of files does not show a file that was written again.
        stat = media.stat()
        is_picture = _is_still(media, options.limits)
        if options.depth == "header" or is_picture:
            info, damaged = probe(media, limits=options.limits), None
            fingerprint = media.head_fingerprint() if is_picture else media.fingerprint()
            if options.depth == "frames":
                if options.decodes_pictures:
                    damaged = len(index_media(media, "full", limits=options.limits)[1].damaged_frame_indices)
                # Plans use one frame of a picture, whatever its header claims.
                info = replace(info, num_frames_from_header=1)
            identity = SourceIdentity(stat.bytes, stat.mtime_ns, fingerprint)
            return locate(SurveyResult(info, None, identity, num_damaged_frames=damaged), media)
        info, index = index_media(media, options.verify, assume_fps=options.assume_fps, limits=options.limits)
        fingerprint = index.identity.fingerprint if index.identity else media.fingerprint()
        return locate(SurveyResult(info, index, SourceIdentity(stat.bytes, stat.mtime_ns, fingerprint)), media)
    except FramefeedError as error:
        if find_shortage(error) is not None:
            raise
        # The header's claims help to identify a file that failed.
        with suppress(MediaError, DeadlineExceeded):
            cannot_be_asked = isinstance(error, DeadlineExceeded | MissingDependency)
            if info is None and media is not None and stat is not None and not cannot_be_asked:
                if isinstance(error, UnsupportedCodec) and _is_still(media, options.limits):
                    info = describe_picture(media, options.limits)[0]
                elif options.depth == "frames":
                    info = probe(media, limits=options.limits)
        # After an error of the system, a passed deadline, or where a package is missing, the next scan tries again: the
        # row has no size and time.
        # Pillow raises OSError without a number for a damaged picture.
        cause = error.__cause__
        is_of_system = isinstance(cause, OSError) and cause.errno is not None
        if is_of_system or isinstance(error, MissingDependency) or getattr(error, "limit", None) == DEADLINE:
            stat = None
        known = None if stat is None else SourceIdentity(stat.bytes, stat.mtime_ns, "")
        result = SurveyResult(info, None, known, error)
        return result if media is None or stat is None else locate(result, media)
    finally:
        if ahead is not None:
            ahead.drop()


def locate(result: SurveyResult, media: MediaSource) -> SurveyResult:
    """Add to a result where its source lies, and of which version that is."""
    fingerprint = "" if result.identity is None else result.identity.fingerprint
    offset = media.offset if isinstance(media, Part) else None
    return replace(result, offset=offset, version=mark_signed(media, media.find_version(fingerprint)))


def mark_signed(media: MediaSource, version: str | None) -> str | None:
    """Mark the version of an object that was read by a signature."""
    return f"{SIGNED}{version or ''}" if media.is_remote and is_signed(media.path) else version


def _is_still(media: MediaSource, limits: Limits) -> bool:
    return media.kind != "sequence" and is_still(media, media.head(HEAD_BYTES), limits)

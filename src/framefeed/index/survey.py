"""What is found out about each source: facts, frame index, stat and fingerprint, or the error instead."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, get_args

from tqdm import tqdm

from framefeed.errors import FramefeedError, LimitExceeded, UsageError
from framefeed.index.build import Verify, index_media
from framefeed.index.frame_index import FrameIndex
from framefeed.media.info import MediaInfo
from framefeed.media.probe import probe
from framefeed.media.sequence import ImageSequence, SequenceSource, source_name
from framefeed.media.sniff import HEAD_BYTES, sniff
from framefeed.media.source import MediaSource, SourceStat
from framefeed.parallel.budget import thread_budget
from framefeed.parallel.ordered import ordered_outcomes
from framefeed.parallel.outcome import Err

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

    Example:
        >>> SurveyOptions(depth="header").verify
        'ends'
    """

    depth: Depth = "frames"
    verify: Verify = "ends"
    workers: int | None = None
    progress: bool | None = False
    fps: Fraction | None = None

    def __post_init__(self) -> None:
        if self.depth not in get_args(Depth):
            raise UsageError(f"depth must be 'frames' or 'header', not {self.depth!r}")
        if self.verify not in get_args(Verify):
            raise UsageError(f"verify must be 'ends', 'none' or 'full', not {self.verify!r}")
        if self.workers is not None and self.workers < 0:
            raise UsageError(f"workers must be 0 or more, or None for as many as fit, not {self.workers}")

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
    """

    info: MediaInfo | None = None
    index: FrameIndex | None = None
    stat: SourceStat | None = None
    fingerprint: str | None = None
    error: FramefeedError | None = field(default=None)


def survey(source: Any, options: SurveyOptions) -> Finding:
    """Find out about one source; errors of framefeed are part of what is found.

    So is a file that asks for more memory or depth than there is; what else is raised is a bug, and names the source.

    Args:
        source: Path, encoded bytes, or image sequence.
        options: How much to find out.
    """
    try:
        return _survey(source, options)
    except (MemoryError, RecursionError) as error:
        message = f"{source_name(source)}: ran out of {'memory' if isinstance(error, MemoryError) else 'stack'}"
        return Finding(error=LimitExceeded(f"{message} while it was looked at: it may be damaged", stage="index"))
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
            info = probe(media)
            fingerprint = media.head_fingerprint() if info.kind == "image" else media.fingerprint()
            if options.depth == "frames":
                if options.decodes_pictures:
                    index_media(media, "full")
                # What can be planned of a picture is one frame, whatever its header counts.
                info = replace(info, num_frames_from_header=1)
            return Finding(info, None, found, fingerprint)
        info, index = index_media(media, options.verify)
        return Finding(info, index, found, index.identity.fingerprint if index.identity else media.fingerprint())
    except FramefeedError as error:
        # What the header claims helps to see what kind of file it is that fails.
        with suppress(FramefeedError):
            info = info or (probe(source) if found and options.depth == "frames" else None)
        # What the system refused (a permission, a lost disk) may be had next time: a row without a time is tried again.
        return Finding(info, None, None if _is_the_systems(error.__cause__) else found, None, error)


def _is_the_systems(cause: BaseException | None) -> bool:
    # Pillow calls a damaged picture an OSError too, without a number.
    return isinstance(cause, OSError) and cause.errno is not None


def _is_still(media: MediaSource) -> bool:
    return media.kind in ("path", "bytes", "file") and sniff(media.head(HEAD_BYTES), media.name) == "image"


def survey_all(sources: Sequence[str | bytes | ImageSequence | Finding], options: SurveyOptions) -> Iterator[Finding]:
    """Find out about many sources at once, in their order.

    Args:
        sources: Paths, encoded bytes, image sequences, and findings, which are passed on.
        options: How much to find out, and with how many threads.
    """
    workers = thread_budget().threads if options.workers is None else options.workers

    def find(source: str | bytes | ImageSequence | Finding) -> Finding:
        return source if isinstance(source, Finding) else survey(source, options)

    outcomes = ordered_outcomes(
        find, sources, workers=workers, max_in_flight=4 * max(1, workers)
    )  # fmt: skip
    shown = sys.stderr.isatty() if options.progress is None else options.progress
    with outcomes, tqdm(total=len(sources), unit="file", file=sys.stderr, disable=not shown) as bar:
        for outcome in outcomes:
            if isinstance(outcome, Err):
                raise outcome.error
            bar.update()
            yield outcome.value

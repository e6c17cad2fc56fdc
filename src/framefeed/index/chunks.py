"""A chunk of sources, handed out as one piece of work, and what is found out about it, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framefeed.index.facts import FactsBuilder
from framefeed.index.frame_tables import FrameTableBuilder, HeaderClaims
from framefeed.index.still_rows import SURVEYED, StillRows
from framefeed.index.survey import Finding, SurveyOptions, survey
from framefeed.media.sequence import ImageSequence


@dataclass(frozen=True, slots=True)
class Part:
    """Sources that lie together.

    Attributes:
        prefix: Folder of all of them with its trailing slash, or "".
        names: File names; or, with kind "sources", paths, encoded bytes and findings.
        kind: "files" are regular files as far as the listing knows, "image_folder" are folders of pictures.
    """

    prefix: str
    names: Sequence[Any]
    kind: Literal["files", "sources", "image_folder"] = "files"

    def __len__(self) -> int:
        return len(self.names)

    def sources(self, options: SurveyOptions) -> Sequence[Any]:
        """What to open."""
        if self.kind == "image_folder":
            return [ImageSequence(self.prefix + name, fps=options.fps) for name in self.names]
        return [self.prefix + name for name in self.names] if self.prefix else self.names


@dataclass(frozen=True, slots=True)
class Chunk:
    """Sources that one worker surveys.

    Attributes:
        parts: The sources.
        start: Number of the first among all sources of the scan.
    """

    parts: tuple[Part, ...]
    start: int = 0

    def __len__(self) -> int:
        return sum(map(len, self.parts))


Keep = Callable[[int, Finding], None]
"""Called in a worker's thread with the number of a source among all of the scan, and what was found out about it."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What was found out about a chunk.

    Attributes:
        facts: A row for each source, of ``SURVEYED``.
        frames: Frame tables: a row for each source that has an index, in order.
        bytes_read: From files of any kind; 0 where the system does not count.
        by_library: Pictures whose headers were left to a library.
    """

    facts: pa.RecordBatch
    frames: tuple[pa.RecordBatch, ...] = ()
    bytes_read: int = 0
    by_library: int = 0

    def __len__(self) -> int:
        return int(self.facts.num_rows)


def survey_chunk(chunk: Chunk, options: SurveyOptions, keep: Keep | None = None) -> Surveyed:
    """Find out about the sources of a chunk, in their order.

    Args:
        chunk: What to open.
        options: How much to find out.
        keep: Called after each source that is surveyed on its own: all but the pictures whose headers are read many
            at once.
    """
    stills, slow = StillRows(options.limits), dict[int, Any]()
    start, before = 0, bytes_read_by_thread()
    for part in chunk.parts:
        sources = part.sources(options)
        if part.kind == "files" and not options.decodes_pictures:
            met = len(stills.others)
            stills.read(sources, start)
            slow |= {position: sources[position - start] for position in stills.others[met:]}
        else:
            slow |= dict(enumerate(sources, start))
        start += len(sources)
    others, frames = tabulate(_findings(slow, options, chunk.start, keep))
    pictures = stills.batch(as_index_of_one=options.depth == "frames")
    by_library = pc.sum(pc.equal(others.column("kind"), "image")).as_py() or 0
    facts = _merged(pictures, others, list(slow))
    return Surveyed(facts, frames, bytes_read_by_thread() - before, by_library)


def _findings(sources: Mapping[int, Any], options: SurveyOptions, start: int, keep: Keep | None) -> Iterator[Finding]:
    for position, source in sources.items():
        finding = source if isinstance(source, Finding) else survey(source, options)
        yield finding
        if keep is not None:
            keep(start + position, finding)


def tabulate(findings: Iterable[Finding]) -> tuple[pa.RecordBatch, tuple[pa.RecordBatch, ...]]:
    """Put findings into columns: facts of ``SURVEYED``, and the frame tables of those that have an index."""
    builder, batches = FactsBuilder(), list[pa.RecordBatch]()
    tables = FrameTableBuilder(batches.append)
    for finding in findings:
        builder.append(finding)
        if finding.index is not None:
            tables.append(finding.index, _claims(finding))
    tables.finish()
    return pa.RecordBatch.from_pydict(builder.columns(), schema=SURVEYED), tuple(batches)


def _merged(pictures: pa.RecordBatch, others: pa.RecordBatch, positions_of_others: Sequence[int]) -> pa.RecordBatch:
    if not others.num_rows:
        return pictures
    is_picture = np.ones(pictures.num_rows + others.num_rows, dtype=bool)
    is_picture[positions_of_others] = False
    order = np.argsort(np.append(np.flatnonzero(is_picture), positions_of_others))
    table = pa.Table.from_batches([pictures, others]).take(pa.array(order))
    return table.combine_chunks().to_batches()[0]


def bytes_read_by_thread() -> int:
    """Bytes that this thread has had from read calls so far; 0 where they are not counted (proc_pid_io(5))."""
    try:
        with open("/proc/thread-self/io", "rb") as counters:
            return int(counters.readline().split()[1])  # rchar
    except (OSError, ValueError, IndexError):
        return 0


def _claims(finding: Finding) -> HeaderClaims | None:
    info = finding.info
    if info is None:
        return None
    return HeaderClaims(info.num_frames_from_header, info.duration_seconds_from_header, info.average_fps_from_header)

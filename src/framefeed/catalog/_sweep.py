"""The sweep: chunks of sources handed out to workers, what they find given back in order.

A chunk of sources, handed out as one piece of work, and what is found out about it, as columns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from framefeed.catalog._columns import FactsBuilder
from framefeed.catalog._frame_rows import HeaderClaims
from framefeed.catalog._frame_tables import FrameTableBuilder
from framefeed.catalog._names import printable
from framefeed.catalog._still_rows import SURVEYED, StillRows
from framefeed.catalog._survey import Finding, SurveyOptions, survey
from framefeed.errors import WorkerLost
from framefeed.media import ImageSequence
from framefeed.parallel import ordered_map, thread_budget


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


CHUNK_WEIGHT = 8192
"""Weight of what is handed out at once: 60 ms of pictures' headers, or 8 videos."""
VIDEO_WEIGHT = 1024
DECODED_WEIGHT = 32
"""Of a picture that is decoded: a chunk of them takes about a second."""
IN_FLIGHT_PER_WORKER = 4
"""Enough that a worker finds work while a slow file holds up the order, few enough to hold in memory."""
PROCESSES_PAY = 200_000
"""Pictures whose headers take longer, about 2 s, than starting processes and importing into them, 0.7 s each."""
MOST_BYTES = 256 * 2**20
_MANY = 100_000
"""Files from which on the bar counts in thousands."""
_PICTURE_ENDINGS = frozenset(
    ending for low in ("jpg", "peg", "jpe", "fif", "png", "ebp", "gif", "bmp", "dib", "tif", "iff")
    for ending in (low, low.upper())
)  # fmt: skip
"""The last three letters of names that promise a picture's header."""


@dataclass(frozen=True, slots=True)
class Way:
    """How chunks are worked on.

    Attributes:
        workers: 0 works in the calling thread.
        kind: "threads" or "processes".
    """

    workers: int
    kind: str


def chunks_of(parts: Iterable[Part], options: SurveyOptions) -> Iterator[Chunk]:
    """Cut parts into chunks of about one weight."""
    picture_weight = DECODED_WEIGHT if options.decodes_pictures else 1
    chunk: list[Part] = []
    first, room = 0, CHUNK_WEIGHT
    for part in parts:
        start = 0
        while start < len(part):
            taken, room = _fitting(part, start, room, picture_weight)
            chunk.append(replace(part, names=part.names[start : start + taken]))
            start += taken
            if room <= 0:
                yield (full := Chunk(tuple(chunk), first))
                chunk, first, room = [], first + len(full), CHUNK_WEIGHT
    if chunk:
        yield Chunk(tuple(chunk), first)


def _fitting(part: Part, start: int, room: int, picture_weight: int) -> tuple[int, int]:
    """How many names from ``start`` on fill the room, at least one, and the room that is left."""
    names = part.names[start : start + -(-room // picture_weight)]
    if part.kind == "files" and _PICTURE_ENDINGS.issuperset(name[-3:] for name in names):
        return len(names), room - len(names) * picture_weight
    taken = 0
    for name in names:
        is_picture = part.kind == "files" and name[-3:] in _PICTURE_ENDINGS
        room -= picture_weight if is_picture else VIDEO_WEIGHT
        taken += 1
        if room <= 0:
            break
    return taken, room


def sweep(
    chunks: Sequence[Chunk], options: SurveyOptions, *, known: int = 0, keep: Keep | None = None
) -> Generator[Surveyed]:
    """Find out about all chunks, in their order.

    Args:
        chunks: What to open.
        options: How much to find out, and with how many workers.
        known: Sources of which everything is known already: the bar begins there.
        keep: Called in the threads that work, after each source that is surveyed on its own. Processes cannot call
            it: of what they find, only whole chunks come back.

    Raises:
        WorkerLost: A worker process died.
    """
    total = known + sum(map(len, chunks))
    shown = sys.stderr.isatty() if options.progress is None else options.progress
    way = way_of(chunks, options)
    work = partial(survey_chunk, options=options)
    found = ordered_map(
        work if way.kind == "processes" else partial(work, keep=keep),
        chunks,
        workers=way.workers,
        kind=way.kind,
        max_in_flight=IN_FLIGHT_PER_WORKER * max(1, way.workers),
        max_bytes=MOST_BYTES,
        size_of=_nbytes,
    )
    # tqdm starts a thread for a bar that is not shown, too.
    bar = tqdm(
        total=total, initial=known, unit="file", unit_scale=total >= _MANY, file=sys.stderr
    ) if shown else nullcontext()  # fmt: skip
    read = failed = 0
    with found, bar as visible_bar, _told_of(chunks):
        for surveyed in found:
            yield surveyed
            if visible_bar is not None:
                read += surveyed.bytes_read
                failed += len(surveyed) - pc.sum(surveyed.facts.column("error_type").is_null()).as_py()
                visible_bar.set_postfix_str(f"{read / 1e6:,.1f} MB read, {failed:,} failed", refresh=False)
                visible_bar.update(len(surveyed))


@contextmanager
def _told_of(chunks: Sequence[Chunk]) -> Iterator[None]:
    """Say which files a process was lost with, and what to do about it."""
    try:
        yield
    except WorkerLost as error:
        if error.position is None:
            raise WorkerLost(
                f"no thread could be started ({error.__cause__}): raise the limit on memory or on threads (ulimit -v, "
                "ulimit -u), or scan with workers=1 (--workers 1), which starts no threads",
                stage=error.stage,
            ) from error
        chunk = chunks[error.position]
        first, last = (
            printable(f"{part.prefix}{part.names[at]}") for part, at in ((chunk.parts[0], 0), (chunk.parts[-1], -1))
        )
        raise WorkerLost(
            f"{error.__cause__} while it read {len(chunk)} files, from {first} to {last}: run the same scan again, "
            "which continues where it stopped if it has out=...; with workers=1 (--workers 1) it uses no processes",
            position=error.position,
            stage=error.stage,
        ) from error


def way_of(chunks: Sequence[Chunk], options: SurveyOptions) -> Way:
    """Choose threads, processes or neither.

    Headers of pictures are Python's work: threads only take turns with it, and processes pay once there is more to do
    than to start them. Videos are libav's work for the most part, which threads share.
    """
    workers = min(thread_budget().threads if options.workers is None else options.workers, len(chunks))
    files = sum(map(len, chunks))
    pictures = sum(map(_pictures_in, chunks))
    if workers < 2 or (pictures == files and pictures < PROCESSES_PAY):
        return Way(0, "threads")
    return Way(workers, "processes" if pictures >= PROCESSES_PAY else "threads")


def _pictures_in(chunk: Chunk) -> int:
    """How many of its files promise to be pictures; a large chunk has nothing else, but for a few videos."""
    size = len(chunk)
    if size > CHUNK_WEIGHT // 2:
        return size
    return sum(name[-3:] in _PICTURE_ENDINGS for part in chunk.parts if part.kind == "files" for name in part.names)


def _nbytes(surveyed: Surveyed) -> int:
    return int(surveyed.facts.nbytes + sum(batch.nbytes for batch in surveyed.frames))

"""Survey many sources: cut them into chunks, give these to workers, and return the results as columns, in order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from framefeed._checks import can_show_bar
from framefeed._compute import pc
from framefeed._fetched import FetchCounter, counting_fetches
from framefeed._names import make_printable
from framefeed._units import format_bytes
from framefeed.catalog import SurveyOptions, SurveyResult, collect_results, holding_row_groups, survey
from framefeed.errors import WorkerLost
from framefeed.media import ImageSequence, MediaSource, is_read_by_ranges
from framefeed.parallel import ordered_map, thread_budget
from framefeed.scanning._rows import SourceGroup
from framefeed.scanning._still_rows import StillRows

T = TypeVar("T")
R = TypeVar("R")
Survey = Callable[["Chunk"], "ChunkResult"]
SurveyAll = Callable[[Survey, Sequence["Chunk"]], Generator["ChunkResult"]]
"""Surveys chunks and returns their results in order, as they are ready."""
_SURVEY_ALL: ContextVar[SurveyAll | None] = ContextVar("_SURVEY_ALL", default=None)


@contextmanager
def surveying_by(survey_all: SurveyAll) -> Iterator[None]:
    """Let scans in this context have their chunks surveyed by a function, in place of threads and processes.

    Its errors pass as they are.
    """
    token = _SURVEY_ALL.set(survey_all)
    try:
        yield
    finally:
        _SURVEY_ALL.reset(token)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Sources that one worker surveys; the first has the number ``start`` among all sources of the scan."""

    groups: tuple[SourceGroup, ...]
    start: int = 0

    def __len__(self) -> int:
        return sum(map(len, self.groups))


RecordResult = Callable[[int, SurveyResult], None]
"""Takes the number of a source among all of the scan, and its result; called in a worker's thread."""


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """Results of the sources of a chunk, as columns."""

    facts: pa.RecordBatch  # a row of ``SURVEYED`` for each source
    frames: Sequence[pa.RecordBatch] = ()  # a row for each source that has an index, in order
    bytes_read: int = 0  # of files; 0 if the system does not count them
    by_library: int = 0  # pictures whose headers a library had to read

    def __len__(self) -> int:
        return int(self.facts.num_rows)


def survey_chunk(chunk: Chunk, options: SurveyOptions, record: RecordResult | None = None) -> ChunkResult:
    """Survey the sources of a chunk, in their order.

    ``record`` is called after each source that is surveyed on its own: all but pictures whose headers are read in
    batches.
    """
    with holding_row_groups():
        is_local = not all(map(has_objects, chunk.groups))
        result, nbytes = count_bytes_read(lambda each: _survey_chunk(each, options, record), chunk, is_local=is_local)
    return replace(result, bytes_read=nbytes)


def count_bytes_read(work: Callable[[T], R], item: T, *, is_local: bool) -> tuple[R, int]:
    """Call a function; return its result, and the bytes that it fetched, or read from files in this thread.

    Of a function that reads no files, what the thread reads is no media: modules and certificates.
    """
    fetched, before = FetchCounter(), count_bytes_read_by_thread() if is_local else 0
    with counting_fetches(fetched):
        result = work(item)
    return result, (count_bytes_read_by_thread() if is_local else 0) - before + fetched.read().nbytes


def _survey_chunk(chunk: Chunk, options: SurveyOptions, record: RecordResult | None) -> ChunkResult:
    stills, slow, start = StillRows(options.limits), dict[int, Any](), 0
    for group in chunk.groups:
        container = group.find_local_container()
        if group.kind == "files" and not options.decodes_pictures:
            slow |= _read_stills(stills, group.make_sources(options.storage_options), start, options)
        elif container is not None and group.located is not None and not options.decodes_pictures:
            num_unread = len(stills.unread)
            stills.read_parts(container, group.located, start)
            unread = stills.unread[num_unread:]
            rest = group.take([position - start for position in unread])
            slow |= zip(unread, rest.make_sources(options.storage_options), strict=True)
        else:
            sources = group.make_sources(options.storage_options)
            if group.kind == "image_folder":
                sources = [ImageSequence(path, fps=options.fps) for path in sources]
            slow |= dict(enumerate(sources, start))
        start += len(group)

    def survey_others() -> Iterator[SurveyResult]:
        for position, source in slow.items():
            result = source if isinstance(source, SurveyResult) else survey(source, options)
            yield result
            if record is not None:
                record(chunk.start + position, result)

    others, frames = collect_results(survey_others())
    pictures = stills.to_batch(count_one_frame=options.depth == "frames")
    by_library = pc.sum(pc.equal(others.column("kind"), "image")).as_py() or 0
    facts = pictures
    if slow:
        is_picture = np.ones(len(pictures) + len(others), dtype=bool)
        is_picture[list(slow)] = False
        order = np.argsort(np.append(np.flatnonzero(is_picture), list(slow)))
        table = pa.Table.from_batches([pictures, others]).take(pa.array(order))
        facts = table.combine_chunks().to_batches()[0]
    return ChunkResult(facts, frames, by_library=by_library)


def _read_stills(
    stills: StillRows, sources: Sequence[str | MediaSource], start: int, options: SurveyOptions
) -> dict[int, str | MediaSource | SurveyResult]:
    """Read the headers of pictures; return all other sources, and errors of objects, by their positions, ascending."""
    paths = [source if isinstance(source, str) else source.path for source in sources]
    num_unread, others = len(stills.unread), dict[int, str | MediaSource | SurveyResult]()
    if not has_urls(paths):
        stills.read(paths, start)
        return {position: sources[position - start] for position in stills.unread[num_unread:]}
    for position, (source, path) in enumerate(zip(sources, paths, strict=True), start):
        if "://" not in path or not is_read_by_ranges(path):
            stills.read([path], position)
        elif not is_picture_name(path):
            others[position] = source
        else:
            media = MediaSource.of(source, options.storage_options)
            if (error := stills.read_object(media, position, options.deadline_seconds)) is not None:
                others[position] = SurveyResult(error=error)
    others |= {position: sources[position - start] for position in stills.unread[num_unread:]}
    return dict(sorted(others.items()))


def count_bytes_read_by_thread() -> int:
    """Count the bytes of this thread's read calls so far; 0 if the system does not count them (proc_pid_io(5))."""
    try:
        with open("/proc/thread-self/io", "rb") as counters:
            return int(counters.readline().split()[1])  # rchar
    except (OSError, ValueError, IndexError):
        return 0


CHUNK_WEIGHT = 8192
"""Weight of a chunk: 60 ms of pictures' headers, or 8 videos."""
VIDEO_WEIGHT = 1024
DECODED_WEIGHT = 32
"""Weight of a picture that is decoded: a chunk of them takes about a second."""
OBJECT_WEIGHT = 256
"""Weight of a picture by URL, which takes a request: a chunk of them takes less than a second."""
OBJECT_CHUNKS = 192
"""Chunks that few objects are cut into: two for each of the most threads. More of them cost 0.1 ms an object."""
OBJECTS_AT_ONCE = 96
"""Threads that ask for pictures by URL: at 20 ms a request they keep one core busy, by HTTP alone."""
VIDEO_OBJECTS_AT_ONCE = 32
"""Threads that index videos by URL, each with its buffers."""
OBJECT_CHUNKS_IN_FLIGHT = 4096
"""Of objects. One that does not answer for a minute delays the ordered results, and not the other objects."""
IN_FLIGHT_PER_WORKER = 4
"""Enough chunks that workers stay busy while a slow file delays the ordered results, few enough to hold in memory."""
MIN_PICTURES_FOR_PROCESSES = 200_000
"""The headers of so many pictures take about 2 s, longer than to start a process and import into it, 0.7 s."""
MAX_BYTES_IN_FLIGHT = 256 * 2**20
_MIN_FILES_FOR_UNIT_SCALE = 100_000
"""From this number of files on, the progress bar counts in thousands."""
_PICTURE_ENDINGS = frozenset(
    ending for low in ("jpg", "peg", "jpe", "fif", "png", "ebp", "gif", "bmp", "dib", "tif", "iff")
    for ending in (low, low.upper())
)  # fmt: skip
"""The last three letters of names of picture files."""
_LAST_THREE = itemgetter(slice(-3, None))


def has_urls(names: Sequence[str]) -> bool:
    """Whether any of the paths may be a URL."""
    return "://" in "\0".join(names)


def is_picture_name(name: str) -> bool:
    """Whether a path, or a URL before its query, has the ending of a picture."""
    return _get_ending_of_url(name) in _PICTURE_ENDINGS


def _get_ending_of_url(name: str) -> str:
    """Get the last three letters of a URL, or those before "?" if these are not of a picture: keys may have both."""
    return name[-3:] if name[-3:] in _PICTURE_ENDINGS else name.partition("?")[0][-3:]


def has_objects(group: SourceGroup) -> bool:
    """Whether a group has sources by URL, or parts of one that are read in place: row groups take much memory."""
    if group.kind == "parts":
        is_in_place = group.located is not None and group.located.offsets is not None and group.located.offsets[0] >= 0
        return is_in_place and group.find_local_container() is None
    return group.kind == "files" and ("://" in group.folder or (not group.folder and has_urls(group.names)))


def cut_into_chunks(groups: Iterable[SourceGroup], options: SurveyOptions) -> Iterator[Chunk]:
    """Cut groups of sources into chunks of about ``CHUNK_WEIGHT``; fewer objects into chunks of fewer."""
    groups = list(groups)
    scale = _scale_objects(groups)
    file_weight = DECODED_WEIGHT if options.decodes_pictures else 1
    chunk: list[SourceGroup] = []
    first, weight_left = 0, CHUNK_WEIGHT
    for group in groups:
        start, is_remote = 0, has_objects(group)
        picture_weight = scale * OBJECT_WEIGHT if is_remote else file_weight
        video_weight = scale * VIDEO_WEIGHT if is_remote else VIDEO_WEIGHT
        while start < len(group):
            endings = take_endings(group, start, start + -(-weight_left // picture_weight))
            count = 0
            if _PICTURE_ENDINGS.issuperset(endings):
                count, weight_left = len(endings), weight_left - len(endings) * picture_weight
            while count < len(endings) and weight_left > 0:
                weight_left -= picture_weight if endings[count] in _PICTURE_ENDINGS else video_weight
                count += 1
            chunk.append(group.take(range(start, start + count)))
            start += count
            if weight_left <= 0:
                yield (full := Chunk(tuple(chunk), first))
                chunk, first, weight_left = [], first + len(full), CHUNK_WEIGHT
    if chunk:
        yield Chunk(tuple(chunk), first)


def _scale_objects(groups: Sequence[SourceGroup]) -> int:
    """Choose by how much an object weighs more, so that there are chunks for all threads that wait for objects."""
    endings = [ending for group in groups if has_objects(group) for ending in take_endings(group)]
    pictures = sum(ending in _PICTURE_ENDINGS for ending in endings)
    weight = pictures * OBJECT_WEIGHT + (len(endings) - pictures) * VIDEO_WEIGHT
    most = CHUNK_WEIGHT // OBJECT_WEIGHT  # then each object is a chunk
    return max(1, min(most, OBJECT_CHUNKS * CHUNK_WEIGHT // max(1, weight)))


def take_endings(group: SourceGroup, start: int = 0, stop: int | None = None) -> list[str]:
    """Take the last three letters of the names of files and members; "" where no headers are read in batches."""
    names = group.names[start:stop]
    if group.kind == "files":
        return list(map(_get_ending_of_url if has_objects(group) else _LAST_THREE, names))
    container = group.find_local_container()
    if container is None:
        return [""] * len(names)
    behind = len(container) + len("::")
    return list(map(itemgetter(slice(-behind - 3, -behind)), names))


def survey_chunks(
    chunks: Sequence[Chunk], options: SurveyOptions, *, num_known: int = 0, record: RecordResult | None = None
) -> Generator[ChunkResult]:
    """Survey chunks, and return their results in order; the progress bar begins at the number of known sources.

    ``record`` is called in worker threads, as by `survey_chunk`. Processes do not call it: they return whole chunks.
    """
    survey_all = _SURVEY_ALL.get()
    work = partial(survey_chunk, options=options)
    results = _map_here(work, chunks, options, record) if survey_all is None else closing(survey_all(work, chunks))
    bar: Any = nullcontext()
    if can_show_bar(options.progress):  # Not with tqdm's disable=True, which starts a thread, too.
        from tqdm import tqdm  # 30 ms that only a bar needs

        total = num_known + sum(map(len, chunks))
        unit_scale = total >= _MIN_FILES_FOR_UNIT_SCALE
        bar = tqdm(total=total, initial=num_known, unit="file", unit_scale=unit_scale, file=sys.stderr)
    read = failed = 0
    naming = _naming_lost_files(chunks) if survey_all is None else nullcontext()
    with results as surveyed, bar as visible_bar, naming:
        for result in surveyed:
            yield result
            if visible_bar is not None:
                read += result.bytes_read
                failed += len(result) - result.facts.column("error_type").null_count
                visible_bar.set_postfix_str(f"{format_bytes(read)} read, {failed:,} failed", refresh=False)
                visible_bar.update(len(result))


def _map_here(work: Any, chunks: Sequence[Chunk], options: SurveyOptions, record: RecordResult | None) -> Any:
    """Survey chunks in threads or processes of this machine."""
    are_remote = any(has_objects(group) for chunk in chunks for group in chunk.groups)
    workers, kind = choose_workers(chunks, options)
    return ordered_map(
        work if kind == "processes" else partial(work, record=record),
        chunks,
        workers=workers,
        kind=kind,
        max_in_flight=max(IN_FLIGHT_PER_WORKER * max(1, workers), OBJECT_CHUNKS_IN_FLIGHT if are_remote else 1),
        max_bytes=MAX_BYTES_IN_FLIGHT,
        size_of=lambda surveyed: surveyed.facts.nbytes + sum(batch.nbytes for batch in surveyed.frames),
    )


@contextmanager
def _naming_lost_files(chunks: Sequence[Chunk]) -> Iterator[None]:
    """Add the names of the files that a lost process was reading, and a remedy."""
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
        paths = [path for group in (chunk.groups[0], chunk.groups[-1]) for path in group.paths()]
        first, last = make_printable(str(paths[0])), make_printable(str(paths[-1]))
        raise WorkerLost(
            f"{error.__cause__} while it read {len(chunk)} files, from {first} to {last}: run the same scan again, "
            "which continues where it stopped if it has out=...; with workers=1 (--workers 1) it uses no processes",
            position=error.position,
            stage=error.stage,
        ) from error


def choose_workers(chunks: Sequence[Chunk], options: SurveyOptions) -> tuple[int, str]:
    """Choose the number and kind of workers; 0 works in the calling thread.

    Headers of pictures are read in Python, where threads are no faster; processes are, once the headers take longer
    than their start. Videos are mostly read by libav, which threads run in parallel. Objects are mostly waited for.
    """
    workers = min(thread_budget().threads if options.workers is None else options.workers, len(chunks))
    files, pictures = sum(map(len, chunks)), 0
    groups = [group for chunk in chunks for group in chunk.groups]
    objects = [name for group in groups if has_objects(group) for name in group.names]
    # Decoding whole files takes the time of cores, and memory for each.
    is_waiting = not (options.depth == "frames" and options.verify == "full")
    if is_waiting and 2 * len(objects) > files:
        if options.workers is None:
            others = len(objects) - sum(map(is_picture_name, objects))
            at_once = OBJECTS_AT_ONCE if others <= VIDEO_OBJECTS_AT_ONCE else VIDEO_OBJECTS_AT_ONCE
            workers = min(max(thread_budget().threads, at_once), len(chunks))
        return (0 if workers < 2 else workers), "threads"
    for chunk in chunks:
        # A large chunk has almost nothing but pictures.
        pictures += len(chunk) if len(chunk) > CHUNK_WEIGHT // 2 else sum(
            ending in _PICTURE_ENDINGS for group in chunk.groups for ending in take_endings(group)
        )  # fmt: skip
    if workers < 2 or (pictures == files and pictures < MIN_PICTURES_FOR_PROCESSES):
        return 0, "threads"
    return workers, "processes" if pictures >= MIN_PICTURES_FOR_PROCESSES else "threads"

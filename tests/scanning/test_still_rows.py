"""StillRows: files that it cannot read are left to `survey`."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from framefeed._values import Limits
from framefeed.catalog import SurveyOptions, collect_results, survey
from framefeed.errors import LimitExceeded
from framefeed.parallel import DEADLINE, Cancelled, cancelled_by
from framefeed.scanning import _chunks
from framefeed.scanning._chunks import Chunk, cut_into_chunks, survey_chunk
from framefeed.scanning._rows import Located, SourceGroup
from framefeed.scanning._still_rows import StillRows
from tests.corpus import corpus_file
from tests.lengths import IS_ALL
from tests.media.faults import Fault, failing_calls
from tests.pictures.made import made, picture, saved


@pytest.fixture(params=["RGB.png", "mpo.jpeg", "animation.gif", "ycbcr jpeg.tiff"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    picture_path = tmp_path / request.param.replace(" ", "_")
    picture_path.write_bytes(made()[request.param])
    return picture_path


def test_S04_files_that_need_many_reads_are_left_to_survey(tmp_path: Path) -> None:
    gif = tmp_path / "a.gif"
    gif.write_bytes(saved(picture("P"), "GIF")[:-1] + b"!\xfe" + (b"\xff" * 256) * 4000)
    rows = StillRows()
    rows.read([str(gif)], 0)
    assert (len(rows.sizes), rows.unread) == (1, [])
    rows = StillRows(Limits(max_header_bytes=2**17))
    rows.read([str(gif)], 7)
    assert (len(rows.sizes), rows.unread) == (0, [7])


def test_a_cancelled_scan_stops_reading_headers(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(saved(picture(), "PNG"))
    with cancelled_by(lambda: True), pytest.raises(Cancelled):
        StillRows().read([str(path)], 0)


def test_a_file_past_its_deadline_is_left_to_survey(tmp_path: Path) -> None:
    path = tmp_path / "a.gif"
    path.write_bytes(saved(picture("P"), "GIF")[:-1] + b"!\xfe" + (b"\xff" * 256) * 4000)
    rows = StillRows()
    checks = itertools.count()

    def expires() -> bool:
        # The first check comes before the files.
        if next(checks):
            raise LimitExceeded("too late", limit=DEADLINE)
        return False

    with cancelled_by(expires):
        rows.read([str(path)], 0)
    assert rows.unread == [0]


@pytest.mark.parametrize("kind", ["open", "stat", "read"])
def test_a_closed_descriptor_is_raised_as_a_bug(kind: str, path: Path) -> None:
    with failing_calls(kind, Fault(errno.EBADF, 0, stays=True)), pytest.raises(OSError, match="Bad file descriptor"):
        StillRows().read([str(path)], 0)


def test_a_file_without_memory_is_left_to_survey(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise MemoryError

    rows = StillRows()
    with monkeypatch.context() as patch:
        patch.setattr("os.pread", refuse)
        rows.read([str(path)], 0)
    assert rows.unread == [0]


def survey_each(group: SourceGroup, options: SurveyOptions) -> pa.RecordBatch:
    return collect_results(survey(source, options) for source in group.make_sources())[0]


def make_parts(
    container: Path, ranges: list[tuple[int, int]], scheme: str = "tar", ending: str = ".jpg"
) -> SourceGroup:
    """A group of parts, each its first byte and its size."""
    offsets, sizes = np.array(ranges, np.int64).T
    facts = container.stat()
    located = Located(sizes, [f"{facts.st_size} {facts.st_mtime_ns}"] * len(ranges), offsets)
    names = [f"{scheme}://{number}{ending}::{container}" for number in range(len(ranges))]
    return SourceGroup("", names, "parts", located)


def check_is_survey(group: SourceGroup, options: SurveyOptions | None = None) -> pa.RecordBatch:
    """The law: a chunk has the facts that `survey` finds of each source."""
    options = SurveyOptions() if options is None else options
    facts = survey_chunk(Chunk((group,)), options).facts
    assert facts.to_pylist() == survey_each(group, options).to_pylist()
    return facts


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[int, int]]]:
    """Pictures of all kinds, a video, text and nothing, one behind the other: a read beyond one finds the next."""
    path = tmp_path_factory.mktemp("parts") / "m.tar"
    data = [*made().values(), corpus_file("fields.mp4").read_bytes(), b"no picture" * 99, b""]
    starts = [0, *itertools.accumulate(map(len, data))]
    path.write_bytes(b"".join(data))
    return path, list(zip(starts, map(len, data), strict=False))


@pytest.mark.parametrize("depth", ["frames", "header"])
def test_parts_have_the_facts_that_survey_finds(depth: str, container: tuple[Path, list[tuple[int, int]]]) -> None:
    group = make_parts(*container)
    assert check_is_survey(group, SurveyOptions(depth=depth)).column("error").null_count > len(group) / 2
    rows = StillRows()
    assert group.located is not None
    rows.read_parts(str(container[0]), group.located, 0)
    assert len(rows.sizes) > len(group) / 2


def test_a_part_ends_where_it_ends(container: tuple[Path, list[tuple[int, int]]]) -> None:
    """Bytes behind a part that is cut would make it whole."""
    path, ranges = container
    shares, step = ((2, 3, 16, 101), 7) if IS_ALL else ((2, 101), 31)
    cut = [(start, size // share) for start, size in ranges for share in shares]
    cut += [(start, size) for start, whole in ranges[::9] for size in range(0, min(whole, 400), step)]
    check_is_survey(make_parts(path, cut))


def test_limits_of_pictures_hold_for_parts(container: tuple[Path, list[tuple[int, int]]]) -> None:
    limits = Limits(max_side=36)
    facts = check_is_survey(make_parts(*container), SurveyOptions(limits=limits))
    assert "LimitExceeded" in facts.column("error_type").to_pylist()


def test_files_and_parts_of_a_chunk_keep_their_order(container: tuple[Path, list[tuple[int, int]]], path: Path) -> None:
    parts = make_parts(*container)
    files = SourceGroup(str(path.parent), [path.name, "gone.jpg", path.name])
    groups = (files, parts, files, parts.take([3, len(parts) - 1, 0]), files)
    expected = [row for group in groups for row in survey_each(group, SurveyOptions()).to_pylist()]
    assert survey_chunk(Chunk(groups), SurveyOptions()).facts.to_pylist() == expected


@pytest.mark.parametrize("change", ["replaced", "touched", "gone", "a folder"])
def test_D09_parts_of_a_file_that_changed_since_it_was_listed_are_left_to_survey(change: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tar"
    data = saved(picture(), "PNG")
    path.write_bytes(data * 3)
    group = make_parts(path, [(len(data) * number, len(data)) for number in range(3)])
    if change == "touched":
        os.utime(path, ns=(1, 1))
    else:
        path.unlink()
    if change == "replaced":
        path.write_bytes(data * 2)
    if change == "a folder":
        path.mkdir()
    rows = StillRows()
    assert group.located is not None
    rows.read_parts(str(path), group.located, 5)
    assert (rows.unread, rows.sizes) == ([5, 6, 7], [])
    facts = check_is_survey(group)
    if change in ("replaced", "touched"):
        assert facts.column("source_version").to_pylist() == list(group.located.versions)


def test_values_that_only_arrow_can_read_are_left_to_survey(tmp_path: Path) -> None:
    data = saved(picture(), "PNG")
    path = tmp_path / "m.parquet"
    path.write_bytes(data * 2)
    group = make_parts(path, [(0, len(data)), (-1, len(data)), (len(data), len(data))], "parquet", "/0")
    rows = StillRows()
    assert group.located is not None
    rows.read_parts(str(path), group.located, 0)
    assert (rows.unread, len(rows.sizes)) == ([1], 2)


@pytest.mark.parametrize("kind", ["open", "stat", "read"])
def test_a_closed_descriptor_of_a_container_is_raised_as_a_bug(kind: str, path: Path) -> None:
    group = make_parts(path, [(0, path.stat().st_size)])
    assert group.located is not None
    with failing_calls(kind, Fault(errno.EBADF, 0, stays=True)), pytest.raises(OSError, match="Bad file descriptor"):
        StillRows().read_parts(str(path), group.located, 0)


def test_members_that_are_pictures_share_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(container: str, endings: list[str]) -> SourceGroup:
        names = [f"tar://{number}{ending}::{container}" for number, ending in enumerate(endings)]
        located = Located(np.ones(len(names), np.int64), ["1 1"] * len(names), np.arange(len(names)))
        return SourceGroup("", names, "parts", located)

    def count(group: SourceGroup) -> list[int]:
        return list(map(len, cut_into_chunks([group], SurveyOptions())))

    assert count(make("/d/a.tar", [".jpg", ".PNG"] * 5000)) == [8192, 1808]
    assert count(make("/d/a.jpg", [".mp4"] * 20)) == [8, 8, 4]
    # Each takes requests, which are made at once; few are for many threads.
    assert count(make("https://h/a.tar", [".jpg"] * 20)) == [1] * 20
    assert count(make("https://h/a.tar", [".jpg"] * 1600)) == [8] * 200
    monkeypatch.setattr(_chunks, "MIN_PICTURES_FOR_PROCESSES", 9000)
    chunks = list(cut_into_chunks([make("/d/a.tar", [".jpg"] * 10_000)], SurveyOptions()))
    assert _chunks.choose_workers(chunks, SurveyOptions(workers=2)) == (2, "processes")

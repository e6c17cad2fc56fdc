"""StillRows: files that it cannot read are left to `survey`."""

from __future__ import annotations

import errno
import itertools
from pathlib import Path

import pytest

from framefeed._values import Limits
from framefeed.errors import LimitExceeded
from framefeed.parallel import DEADLINE, Cancelled, cancelled_by
from framefeed.scanning._still_rows import StillRows
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

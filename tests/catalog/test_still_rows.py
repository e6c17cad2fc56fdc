"""The fast route of a scan over pictures leaves to the slow one what it does not know."""

from __future__ import annotations

import errno
import itertools
from pathlib import Path

import pytest

from framefeed.catalog._still_rows import StillRows
from framefeed.errors import LimitExceeded
from framefeed.media import Limits
from framefeed.parallel import DEADLINE, Cancelled, cancelled_by
from tests.media.faults import Fault, failing_calls
from tests.media.headers.made import made, picture, saved


@pytest.fixture(params=["RGB.png", "mpo.jpeg", "animation.gif", "ycbcr jpeg.tiff"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    picture_path = tmp_path / request.param.replace(" ", "_")
    picture_path.write_bytes(made()[request.param])
    return picture_path


def test_S04_the_fast_route_leaves_what_reads_on_to_the_slow_one(tmp_path: Path) -> None:
    gif = tmp_path / "a.gif"
    gif.write_bytes(saved(picture("P"), "GIF")[:-1] + b"!\xfe" + (b"\xff" * 256) * 4000)
    rows = StillRows()
    rows.read([str(gif)], 0)
    assert (len(rows.sizes), rows.unread) == (1, [])
    rows = StillRows(Limits(max_header_bytes=2**17))
    rows.read([str(gif)], 7)
    assert (len(rows.sizes), rows.unread) == (0, [7])


def test_a_cancelled_scan_stops_on_the_fast_route_too(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(saved(picture(), "PNG"))
    with cancelled_by(lambda: True), pytest.raises(Cancelled):
        StillRows().read([str(path)], 0)


def test_a_deadline_on_the_fast_route_leaves_the_file_to_the_slow_one(tmp_path: Path) -> None:
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
def test_the_fast_route_of_a_scan_hides_no_bug_of_ours(kind: str, path: Path) -> None:
    with failing_calls(kind, Fault(errno.EBADF, 0, stays=True)), pytest.raises(OSError, match="Bad file descriptor"):
        StillRows().read([str(path)], 0)


def test_the_fast_route_leaves_what_ran_out_to_the_slow_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise MemoryError

    rows = StillRows()
    with monkeypatch.context() as patch:
        patch.setattr("os.pread", refuse)
        rows.read([str(path)], 0)
    assert rows.unread == [0]

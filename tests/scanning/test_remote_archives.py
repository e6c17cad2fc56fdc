"""Archives by URL: the rows of the same archive on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("urllib3", reason="our own reader needs it")

from framefeed._names import split_part
from framefeed.scanning._archives import ArchiveOptions, read_archives
from framefeed.scanning._listing import list_roots
from framefeed.scanning._rows import Listing
from tests.archives.tars import make_member
from tests.media.remote.faults import FaultServer, faulty
from tests.remote import served

END = bytes(1024)
MEMBERS = [
    member
    for n in range(40)
    for member in (
        (f"d/{n}.mp4", bytes([n]) * (200_000 if n % 8 == 0 else 900)),
        (f"d/{n}.cls", b"%d" % n),
        (f"d/{n}.json", b'{"a": [%d]}' % n),
    )
]
SHARD = b"".join(make_member(name.encode(), data) for name, data in MEMBERS) + END


def scan(*roots: str | Path, **options: object) -> Listing:
    return read_archives(list_roots([str(root) for root in roots]), ArchiveOptions(**options))  # type: ignore[arg-type]


def list_facts(listing: Listing) -> list[object]:
    """All that does not tell where the archive is."""
    names = [path if (part := split_part(path)) is None else part.member for path in listing.paths]
    located = [group.located for group in listing.groups if group.located is not None]
    numbers = [np.asarray(each).tolist() for part in located for each in (part.offsets, part.sizes)]
    return [names, numbers, listing.get_columns().to_pylist(), [type(error) for error in listing.unlistable.values()]]


@contextmanager
def serving(objects: dict[str, bytes]) -> Iterator[tuple[str, FaultServer]]:
    with faulty(objects) as server:
        yield f"{server.url}/s.tar", server


@pytest.fixture
def local(tmp_path: Path) -> list[object]:
    (tmp_path / "s.tar").write_bytes(SHARD)
    return list_facts(scan(tmp_path / "s.tar"))


def test_a_remote_archive_has_the_rows_of_a_local_one(local: list[object]) -> None:
    with serving({"/s.tar": SHARD}) as (url, _):
        assert list_facts(scan(url)) == local


def test_braces_stand_for_urls() -> None:
    objects = {f"/a-{n}.tar": make_member(b"%d.jpg" % n, b"x") + END for n in range(3)}
    with served(objects) as server:
        listing = scan(f"{server}/a-{{0..3}}.tar")
        assert [(split_part(path) or (0, path))[1] for path in listing.paths] == [
            *("0.jpg", "1.jpg", "2.jpg"),
            f"{server}/a-3.tar",
        ]
        assert [type(error).__name__ for error in listing.unlistable.values()] == ["MissingMedia"]

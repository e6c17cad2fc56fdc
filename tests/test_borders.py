"""The errno sweep: each border of design/0011 survives one shortage, and makes a lasting one an error of its own type.

A border asks twice, and not again what a border inside of it has asked twice. The tests of a room make each system call
of its borders fail; the cache, which goes on without what it cannot store or read, has its own (tests/cache).
"""

from __future__ import annotations

import errno
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import framefeed as ff
from framefeed import _shortage
from framefeed.decode import find_decoder
from framefeed.decode.backends import pyav
from framefeed.parallel import ordered_map
from framefeed.testing import make_lerobot, read_stamps
from tests.corpus import clip_file
from tests.media.faults import Fault, failing_call
from tests.packed import pack

SHORTAGES = cycle((errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN))
ROOT = Path(__file__).parents[1]


def test_design_0011_lists_each_border_once() -> None:
    source = ROOT / "src" / "framefeed"
    # The latter is called where the second try differs from the first.
    uses = re.compile(r"(?<!def )\b(?:try_again_in_shortage|collect_and_release)\(")
    modules = (path for path in source.rglob("*.py") if path.name != "_shortage.py")
    made = Counter({str(path.relative_to(source)): len(uses.findall(path.read_text())) for path in modules})
    page = (ROOT / "design" / "0011-shortages-stops-and-forks.md").read_text()
    assert +made == Counter(re.findall(r"^\| `(\S+\.py)` \|", page, re.MULTILINE))


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two clips and pictures, with lists, a catalog, and a cache of a clip."""
    root = tmp_path_factory.mktemp("borders")
    (root / "media" / "pictures").mkdir(parents=True)
    for name in ("a.mkv", "b.mkv"):
        (root / "media" / name).write_bytes(clip_file("good.mkv").read_bytes())
    for number in range(2):
        picture = np.full((16, 16, 3), 10 * number, np.uint8)
        Image.fromarray(picture).save(root / "media" / "pictures" / f"{number}.png")
    (root / "list.txt").write_text("media/a.mkv\nmedia/b.mkv\n")
    (root / "list.csv").write_text("path,label\nmedia/a.mkv,x\nmedia/b.mkv,y\n")
    (root / "a.tar").write_bytes(pack([("a.mkv", clip_file("good.mkv").read_bytes()), ("a.cls", b"7")]))
    catalog = ff.scan(root / "list.csv", out=root / "cat.parquet", workers=0)
    pq.write_table(catalog.table.select(["source"]), root / "list.parquet")
    build_cache(root)
    make_lerobot(root / "robots", episodes=(2, 2), cameras=())
    return root


@cache
def index_of(source: Path | ff.ImageSequence) -> ff.FrameIndex:
    return ff.build_index(source)


def index(media: Path) -> list[Any]:
    built = ff.build_index(media / "media" / "a.mkv")
    return [built.pts.tolist(), built.built_from]


def scan(roots: Path | str) -> list[Any]:
    table = ff.scan(roots, depth="header", workers=0).table
    facts: list[Any] = table.select(["source", "width", "error_type"]).to_pylist()
    return facts


def open_catalog(media: Path) -> list[Any]:
    catalog = ff.Catalog.open(media / "cat.parquet")
    return [catalog.table["label"].to_pylist(), len(catalog[1].frame_index or ())]


def read_frames(media: Path) -> list[int]:
    path = media / "media" / "a.mkv"
    with ff.VideoDecoder(path, frame_index=index_of(path)) as decoder:
        return [*read_stamps(decoder.get_frames_at([5, 7]).data), *read_stamps(np.stack([decoder[0], decoder[1]]))]


def read_pictures(media: Path) -> list[int]:
    source = ff.ImageSequence(media / "media" / "pictures", fps=5)
    with ff.VideoDecoder(source, frame_index=index_of(source)) as decoder:
        return [int(frame[0, 0, 0]) for frame in decoder.get_frames_at([0, 1]).data]


def build_cache(media: Path) -> bool:
    request = ff.DecodeRequest(source=media / "media" / "a.mkv", indices=[0, 1, 5])
    with ff.FrameCache(media / "cache", codec="raw") as frames:
        return ff.cache.build(ff.plan_requests([request]), frames, workers=0).is_complete


def start_processes(_: Path) -> list[int]:
    with ordered_map(abs, [-1, 2], workers=1, kind="processes", max_in_flight=1) as results:
        return list(results)


def open_robots(media: Path) -> list[Any]:
    robots = ff.lerobot.open(media / "robots")
    return [robots.meta.tasks.index, robots.column("action").tolist()]


OPEN, STAT, READ = [(os, "open")], [(os, "stat"), (os, "fstat")], [(os, "pread"), (os, "preadv")]
BORDERS: dict[str, tuple[list[tuple[Any, str]], Callable[[Path], Any]]] = {
    "headers": (OPEN + READ, lambda media: ff.probe(media / "media" / "a.mkv")),
    "an index": (OPEN + READ, index),
    "rows of a scan": (OPEN + READ, lambda media: scan(media / "media")),
    "identity": (STAT, read_frames),
    "identity of pictures": (STAT, read_pictures),
    "frames": (OPEN + READ, read_frames),
    "pictures": (OPEN + READ, read_pictures),
    "a walk": ([(os, "scandir"), (os, "stat")], lambda media: scan(media / "media")),
    "a pattern": ([(os, "scandir")], lambda media: scan(f"{media}/media/*.mkv")),
    "a list": ([(Path, "read_bytes")], lambda media: scan(media / "list.txt")),
    "a table of text": ([(Path, "read_bytes")], lambda media: scan(media / "list.csv")),
    "an archive": (OPEN + STAT + READ, lambda media: scan(media / "a.tar")),
    "named parts": (OPEN + STAT + READ, lambda media: scan(f"tar://a.mkv::{media}/a.tar")),
    "a table": ([(pq, "read_table")], lambda media: scan(media / "list.parquet")),
    "a catalog": ([(pq, "ParquetFile")], open_catalog),
    "a column": ([(pq.ParquetFile, "read")], open_catalog),
    "frame tables": ([("framefeed.catalog._frame_tables", "MappedFile")], open_catalog),
    "files of a catalog": (STAT, open_catalog),
    "a data set": (OPEN + STAT + READ + [(pq, "ParquetFile")], open_robots),
    "columns of a data set": ([(pq.ParquetFile, "read")], open_robots),
    "contents of a cache": (OPEN + STAT + READ + [(os, "scandir")], build_cache),
    "a worker process": ([("framefeed.parallel._child", "Popen")], start_processes),
}


@contextmanager
def failing(calls: list[tuple[Any, str]], fault: Fault) -> Iterator[None]:
    find_decoder().close()
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in calls:
            owner = __import__(owner, fromlist=[name]) if isinstance(owner, str) else owner
            patch.setattr(owner, name, failing_call(getattr(owner, name), fault))
        yield


@pytest.mark.parametrize("border", BORDERS)
def test_a_border_tries_twice_and_then_says_what_ran_out(
    media: Path, border: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (calls, ask), releases = BORDERS[border], list[int]()

    def release() -> None:
        releases.append(1)

    monkeypatch.setattr(_shortage, "collect_and_release", release)
    monkeypatch.setattr(pyav, "collect_and_release", release)
    expected = ask(media)
    for at, number in enumerate(SHORTAGES):
        once, always = Fault(number, at), Fault(number, at, stays=True)
        releases.clear()
        with failing(calls, once):
            assert ask(media) == expected
        if once.calls <= at:
            break
        assert len(releases) <= 1
        releases.clear()
        with failing(calls, always), pytest.raises(ff.ResourceExhausted) as caught:
            ask(media)
        assert caught.value.resource
        # 2 where the second try of a border failed in one inside of it; 3 if it tried again after that one.
        assert 1 <= len(releases) <= 2
    assert at >= 1

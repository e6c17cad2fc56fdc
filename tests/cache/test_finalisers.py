"""What the cyclic collector does to the cache: it may run anywhere, and takes no lock that is held there."""

from __future__ import annotations

import ast
import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed.cache
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache.store._store import FrameStore
from framefeed.decode import VideoDecoder, find_decoder
from framefeed.testing import ClipSpec, write_clip
from tests.cache.media import SMALL, Video
from tests.cache.store.made import KEYS, add, frames_of, parts, read_all
from tests.patience import PATIENCE_SECONDS

FRAMES = 40
PACKAGE = Path(framefeed.cache.__file__).parent


@contextmanager
def collecting(threshold: int) -> Iterator[None]:
    """Have the collector run after so many allocations."""
    before = gc.get_threshold()
    gc.set_threshold(threshold, 1, 1)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def ends(call: Callable[[], object]) -> bool:
    """Whether a call ends; one that hangs stays behind in a thread that ends with the process."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    return not thread.is_alive()


def locks_of(store: FrameStore) -> list[Any]:
    index: Any = store._segments
    return [
        store._state.value.lock,
        store.appender._lock,
        index._lock,
        index._directories._lock,
        index._descriptors._lock,
    ]


def test_a_store_that_is_collected_takes_no_lock_and_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "c"

    def leave() -> None:
        store: Any = FrameStore(os.fspath(folder))
        add(store, KEYS[0], range(5))
        store.itself = store
        for lock in locks_of(store):
            lock.acquire()
        del store
        gc.collect()

    assert ends(leave), "the finaliser waits for a lock"
    assert read_all(FrameStore(os.fspath(folder)), KEYS[0], range(5)) == {
        number: data for (_, number), data in frames_of(KEYS[:1], range(5)).items()
    }
    assert parts(folder) == []


def test_only_two_classes_have_finalisers_and_those_take_no_lock() -> None:
    """The list to extend with care: a finaliser runs inside the collector, and so inside any other code."""
    finalisers = {}
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == "__del__":
                finalisers[path.name] = ast.unparse(node)
            if isinstance(node, ast.Attribute):
                assert ast.unparse(node) != "weakref.finalize", path
            if isinstance(node, ast.FunctionDef) and _yields(node):
                for each in ast.walk(node):
                    if isinstance(each, (ast.Try, ast.With)) and _yields(each) and not _is_context(node):
                        names = [ast.unparse(item.context_expr) for item in getattr(each, "items", [])]
                        assert not getattr(each, "finalbody", []), f"{path.name}: {node.name} cleans up when collected"
                        assert all("lock" not in name for name in names), f"{path.name}: {node.name}"
    assert set(finalisers) == {"_appender.py", "_files.py"}
    assert all("lock" not in text.split('"""')[-1] for text in finalisers.values())


def _yields(node: ast.AST) -> bool:
    return any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(node))


def _is_context(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(each) == "contextmanager" for each in node.decorator_list)


class Node:
    """Part of a reference cycle."""

    def __init__(self, *kept: object) -> None:
        self.kept = [self, *kept]


@pytest.mark.parametrize(
    ("form", "threshold"),
    [
        *(("output", 1), ("planes", 7), ("output", 60), ("planes", 500)),
        *(pytest.param("planes", threshold, marks=pytest.mark.test_all) for threshold in (1, 60)),
        *(pytest.param("output", threshold, marks=pytest.mark.test_all) for threshold in (7, 500)),
    ],
)
def test_cached_iterators_are_abandoned_in_a_cycle_at_every_stage(form: Any, threshold: int, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "v.mp4", ClipSpec(num_frames=FRAMES, gop=8))
    video = Video.of(path)
    asked = [([0, 17, 3, FRAMES - 1], SMALL)]
    expected = video.fresh(*asked)
    with VideoDecoder(path) as plain:
        frames = list(plain)
    failures: list[BaseException] = []

    def abandon() -> None:
        try:
            with collecting(threshold):
                for stage in (0, 1, 2, 15, 16, 17, 33, FRAMES):
                    with FrameCache(tmp_path / f"c{stage % 3}", form=form, codec="lz4", memory_bytes=10**5) as cache:
                        decoder = cache.decoder(find_decoder())
                        pictures = decoder.iter_rgb(video.source, video.index, range(FRAMES), SMALL)
                        list(islice(pictures, stage))
                        Node(pictures, decoder)
                        reader = VideoDecoder(path, backend=decoder)
                        Node(reader, iter(reader))
                        for number, frame in islice(enumerate(reader), stage):
                            np.testing.assert_array_equal(frame, frames[number])
                        left: Any = FrameCache(tmp_path / "left", form=form, codec="raw")
                        video.decoded(left.decoder(find_decoder()), ([stage % FRAMES], SMALL))
                        Node(left)
                        del pictures, reader, left
                        clips, report = video.decoded(decoder, *asked)
                        report.raise_first()
                        np.testing.assert_array_equal(clips[0], expected[0])
        except BaseException as error:
            failures.append(error)

    assert ends(abandon), "it hangs"
    assert not failures, failures
    gc.collect()
    for name in ("c0", "c1", "c2", "left"):
        checked = FrameCache(tmp_path / name).verify()
        assert (checked.damaged, checked.refused) == ({}, {})
        assert parts(tmp_path / name) == []


def test_descriptors_do_not_pile_up(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "v.mp4", ClipSpec(num_frames=FRAMES, gop=8))

    def round_trip() -> int:
        for _ in range(10):
            cache: Any = FrameCache(tmp_path / "c", codec="lz4")
            reader: Any = VideoDecoder(path, backend=cache.decoder(find_decoder()))
            next(iter(reader))
            cache.video, reader.cache = reader, cache
        del cache, reader
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    first = round_trip()
    assert round_trip() <= first

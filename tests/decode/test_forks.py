"""What forked processes share with their parent: neither a position in a file nor a lock nor a thread."""

import gzip
import io
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from framefeed.decode._video_decoder import VideoDecoder
from framefeed.decode.backends._pyav_pools import get_thread_pools, is_collecting
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import UsageError
from framefeed.index import build_index
from framefeed.media import MediaSource, is_real_file
from framefeed.testing import read_stamp
from tests.corpus import corpus_file, expected_stamps
from tests.decode.forks import Child, read_on_in_children
from tests.patience import PATIENCE_SECONDS

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork"),
    # Later versions of Python warn of what is tried here.
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

CONTAINERS = ("base.mp4", "base.mkv", "closed_gop.ts", "closed_gop_mpeg2.mpg", "packed_b_frames.avi", "raw.h264")


@pytest.mark.parametrize("name", CONTAINERS)
def test_L01_parent_and_children_read_on_exactly_after_a_fork(name: str) -> None:
    assert read_on_in_children(corpus_file(name)) == []


def stamps(decoder: VideoDecoder) -> list[int]:
    return [read_stamp(frame) for frame in decoder]


@pytest.mark.parametrize("name", ["base.mp4", "closed_gop.ts"])
def test_a_child_reads_while_threads_of_the_parent_hold_every_lock(name: str) -> None:
    """A thread of the parent is in the middle of a read, for all locks that it may hold, when the process forks."""
    decoder = VideoDecoder(corpus_file(name))
    expected = expected_stamps(name)
    is_over, are_reading = threading.Event(), threading.Barrier(3)
    errors: list[str] = []

    def read() -> None:
        stamps(decoder)
        are_reading.wait(PATIENCE_SECONDS)
        while not is_over.is_set():
            if stamps(decoder) != expected:
                errors.append("in a thread of the parent")

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        are_reading.wait(PATIENCE_SECONDS)
        for _ in range(2):
            child = Child(lambda: str(stamps(decoder) == expected))
            assert child.report() == "True"
    finally:
        is_over.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert not errors


class Telling(io.FileIO):
    """A file object of a user's own class: what it reads need not be what its descriptor has."""


def opened(kind: str, path: Path) -> IO[bytes]:
    if kind == "FileIO":
        return io.FileIO(path)  # type: ignore[return-value]
    if kind == "BufferedReader":
        return open(path, "rb")
    if kind == "memory":
        return io.BytesIO(path.read_bytes())
    if kind == "own class":
        return Telling(path)  # type: ignore[return-value]
    if kind == "temporary":
        file = tempfile.NamedTemporaryFile(suffix=path.suffix)  # noqa: SIM115 - closed by the test
        file.write(path.read_bytes())
        file.flush()
        return file  # type: ignore[return-value]
    packed = io.BytesIO(gzip.compress(path.read_bytes(), 1))
    return gzip.GzipFile(fileobj=packed)  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["base.mp4", "closed_gop.ts"])
@pytest.mark.parametrize("kind", ["FileIO", "BufferedReader", "memory", "gzip"])
def test_what_has_no_shared_position_is_read_on_in_children(kind: str, name: str) -> None:
    with opened(kind, corpus_file(name)) as file:
        decoder = VideoDecoder(file)
        expected = expected_stamps(name)
        assert read_stamp(decoder[0]) == expected[0]
        children = [Child(lambda: str(stamps(decoder) == expected)) for _ in range(2)]
        assert stamps(decoder) == expected
        assert [child.report() for child in children] == ["True", "True"]


@pytest.mark.parametrize("kind", ["own class", "temporary"])
def test_what_shares_its_position_with_the_parent_is_refused_in_a_child(kind: str) -> None:
    name = "closed_gop.ts"

    def read_in_child() -> str:
        try:
            decoder[0]
        except UsageError as error:
            return str(error)
        return "read"

    with opened(kind, corpus_file(name)) as file:
        decoder = VideoDecoder(file)
        decoder[0]
        child = Child(read_in_child)
        assert stamps(decoder) == expected_stamps(name)
        assert "open it again in this process, or pass the path" in child.report()


@pytest.mark.parametrize("kind", ["FileIO", "BufferedReader"])
def test_a_real_file_is_read_without_moving_the_users_position(kind: str) -> None:
    with opened(kind, corpus_file("base.mp4")) as file:
        file.seek(17)
        assert stamps(VideoDecoder(file)) == expected_stamps("base.mp4")
        assert file.tell() == 17


def test_only_exact_kinds_are_real_files() -> None:
    path = corpus_file("base.mp4")
    real = []
    for kind in ("FileIO", "BufferedReader", "memory", "own class", "temporary", "gzip"):
        with opened(kind, path) as file:
            real += [kind] if is_real_file(file) else []
    assert real == ["FileIO", "BufferedReader"]
    with gzip.open(io.BytesIO(gzip.compress(path.read_bytes(), 1)), "rb") as packed:
        assert not is_real_file(io.BufferedReader(packed))  # type: ignore[arg-type]


def test_a_half_read_stream_of_pictures_with_threads_of_its_own_ends_in_a_child() -> None:
    """A decoder whose own threads are in the parent is not freed in a child: that would wait for them for ever."""
    path = corpus_file("closed_gop.ts")
    source, index = MediaSource.of(path), build_index(path)
    frames: list[Any] = [PyAVDecoder(threads=4).iter_native(source, index, range(len(index)))]
    next(frames[0])

    def drop() -> str:
        frames.clear()
        return str(len(list(PyAVDecoder(threads=2).iter_native(source, index, range(8)))))

    child = Child(drop)
    assert child.report() == "8"
    assert len(list(frames[0])) == len(index) - 1
    get_thread_pools().clear()


def test_no_thread_of_the_parent_counts_as_collecting_in_a_child() -> None:
    begun, released = threading.Event(), threading.Event()

    class Waiting:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            begun.set()
            released.wait(PATIENCE_SECONDS)

    def collect() -> None:
        import gc

        Waiting()
        gc.collect()

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        assert begun.wait(PATIENCE_SECONDS)
        child = Child(lambda: str(_asked_in_threads()))
        assert child.report() == "False"
    finally:
        released.set()
        thread.join(PATIENCE_SECONDS)


def _asked_in_threads() -> bool:
    answers: list[bool] = []
    function: Callable[[], None] = lambda: answers.append(is_collecting())  # noqa: E731
    for _ in range(4):
        thread = threading.Thread(target=function)
        thread.start()
        thread.join()
    return any(answers)

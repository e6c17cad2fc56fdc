"""MediaSource: what a user may pass, refused kinds of files, odd names, shared file objects, changed files."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framefeed._values import read_bytes
from framefeed.decode import VideoDecoder
from framefeed.errors import MediaError, MissingMedia, StaleSource, UnreadableMedia, UsageError
from framefeed.index import build_index, probe
from framefeed.media._identity import FINGERPRINT_BLOCK
from framefeed.media._source import MediaSource
from framefeed.testing import ClipSpec, clip_bytes, read_stamp
from tests.corpus import corpus_file

TINY = ClipSpec(num_frames=3, height=48, width=64, gop=None, b_frames=0)


def tiny(first_stamp: int = 0) -> bytes:
    return clip_bytes(ClipSpec(num_frames=3, height=48, width=64, b_frames=0, first_stamp=first_stamp), "mp4")


def _open(source: Any) -> None:
    VideoDecoder(source).close()


ASKING = pytest.mark.parametrize("ask", [probe, build_index, _open], ids=["probe", "build_index", "VideoDecoder"])


# --- what a source is -------------------------------------------------------------------------------


def test_every_kind_of_source_gives_the_same_bytes(tmp_path: Path) -> None:
    path, data = tmp_path / "clip.mp4", tiny()
    path.write_bytes(data)
    with path.open("rb") as file:
        sources: list[Any] = [
            path, str(path), data, bytearray(data), memoryview(data), file, io.BytesIO(data),
            SimpleNamespace(source=str(path)), MediaSource.of(path),
        ]  # fmt: skip
        for given in sources:
            source = MediaSource.of(given)
            assert source.stat().bytes == len(data)
            assert source.head(64) == data[:64]
            with source.opened() as reader:
                assert read_bytes(reader, len(data) - 5, 100) == data[-5:]
                assert read_bytes(reader, len(data) + 5, 10) == b""
            assert source.fingerprint() == MediaSource.of(data).fingerprint()


@pytest.mark.parametrize("given", [None, 3, ["a.mp4"], io.StringIO("text"), "", "nul\0.mp4", "rtsp://x/y"])
def test_other_types_than_sources_are_usage_errors(given: object) -> None:
    with pytest.raises(UsageError):
        MediaSource.of(given)


def test_M20_a_file_object_that_cannot_seek_is_refused() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as pipe, open(writing, "wb"), pytest.raises(UsageError, match="seekable"):
        MediaSource.of(pipe)


def test_a_relative_path_means_the_folder_of_its_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clip.mp4").write_bytes(tiny(7))
    monkeypatch.chdir(tmp_path)
    decoder = VideoDecoder("clip.mp4")
    monkeypatch.chdir("/")
    assert read_stamp(decoder[0]) == 7


class Shy(io.RawIOBase):
    """A file object that gives at most a few bytes at a time, as sockets and archives do."""

    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        return self._inner.tell()

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(min(size, 1000) if size >= 0 else 1000)


def test_a_file_object_that_reads_short() -> None:
    data = corpus_file("base.mp4").read_bytes()
    with VideoDecoder(Shy(data)) as decoder:
        assert [read_stamp(picture) for picture in decoder[::30]] == [0, 30, 60, 90]


@pytest.mark.parametrize("name", ["base.mp4", "closed_gop.ts"])
def test_a_file_object_stays_open_and_its_owner_may_move_in_it(name: str) -> None:
    file = io.BytesIO(corpus_file(name).read_bytes())
    with VideoDecoder(file) as decoder:
        for number in (2, 3, 60, 61, 4):
            assert read_stamp(decoder[number]) == number
            file.seek(number * 1000)
    assert not file.closed


@pytest.mark.parametrize("name", ["base.mp4", "closed_gop.ts"])
def test_threads_and_decoders_share_a_file_object(name: str) -> None:
    with corpus_file(name).open("rb") as file:
        decoders = [VideoDecoder(file), VideoDecoder(file)]

        def read(number: int) -> int:
            return read_stamp(decoders[number % 2][(37 * number) % 100])

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(read, range(40))) == [(37 * number) % 100 for number in range(40)]


# --- what is no file --------------------------------------------------------------------------------


@ASKING
def test_S16_a_fifo_and_a_link_to_it_are_refused_and_not_waited_for(ask: Any, tmp_path: Path) -> None:
    fifo, link = tmp_path / "fifo.mp4", tmp_path / "link.mp4"
    os.mkfifo(fifo)
    link.symlink_to(fifo)
    for path in (fifo, link):
        with pytest.raises(UnreadableMedia, match="FIFO"):
            ask(path)


@ASKING
def test_S16_devices_sockets_folders_and_loops_are_refused(ask: Any, tmp_path: Path) -> None:
    loop, bound = tmp_path / "loop.mp4", tmp_path / "socket.mp4"
    loop.symlink_to(loop)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(bound))
        for path in ("/dev/zero", "/dev/null", tmp_path, loop, bound):
            with pytest.raises(UnreadableMedia) as raised:
                ask(path)
            assert type(raised.value) is UnreadableMedia
            assert raised.value.source == os.fspath(path)


@ASKING
def test_D03_missing_files_are_also_file_not_found(ask: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    dangling = tmp_path / "dangling.mp4"
    dangling.symlink_to(tmp_path / "nowhere")
    for path in (tmp_path / "none.mp4", tmp_path / "file" / "below.mp4", dangling):
        with pytest.raises(MissingMedia, match="no such file") as raised:
            ask(path)
        assert isinstance(raised.value, FileNotFoundError)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@ASKING
def test_D03_a_file_that_may_not_be_read(ask: Any, tmp_path: Path) -> None:
    path = tmp_path / "secret.mp4"
    path.write_bytes(tiny())
    path.chmod(0)
    with pytest.raises(UnreadableMedia, match="ermission"):
        ask(path)


@ASKING
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"hello, this is no video\n" * 50, "text"),
        ("d\xe9j\xe0 vu".encode("latin-1") * 10, "text"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "text"),
        (b'<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>', "text (XML), perhaps an error page"),
        (b'<?xml version="1.0"?>\n<!-- --><MPD></MPD>', "playlist"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS"),
        (bytes(5000), ""),
        (b"\x00\x01garbage\xff" * 400, ""),
        (tiny()[:40], ""),
        (b"PK\x03\x04" + bytes(100), ""),
        (b"\x1f\x8b\x08" + bytes(100), ""),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n\0", ""),
    ],
)
@pytest.mark.parametrize("kind", ["path", "bytes", "file"])
def test_D03_errors_of_other_files_have_a_type_and_name_the_source(
    ask: Any, data: bytes, said: str, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(data)
    source: Any = {"path": path, "bytes": data, "file": io.BytesIO(data)}[kind]
    with pytest.raises(MediaError) as raised:
        ask(source)
    assert type(raised.value) is UnreadableMedia
    assert said in str(raised.value)
    assert raised.value.source == MediaSource.of(source).name


@pytest.mark.parametrize("name", ["clip.txt", "clip", "clip.jpg", "clip.m3u8", "clip.mp4.html"])
def test_D03_a_wrong_ending_hides_no_video(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(tiny(3))
    assert probe(path).kind == "video"
    assert read_stamp(VideoDecoder(path)[0]) == 3


# --- odd names --------------------------------------------------------------------------------------

ODD_NAMES = [
    b"clip%03d.mp4",
    b"clip*.mp4",
    b"with space.mp4",
    b"a:b.mp4",
    b"file:clip.mp4",
    b"http:clip.mp4",
    b"concat:a.mp4|b.mp4",
    b"subfile,,start,0,end,9,,:a.mp4",
    b"-i.mp4",
    b"--",
    b"new\nline.mp4",
    b"tab\t.mp4",
    b"\xff\xfe.mp4",
    "f\u0308\U0001f3ac.mp4".encode(),
    b"'quote\".mp4",
    b"$(HOME) `id` ;.mp4",
    b"%d",
    b"a" * 251 + b".mp4",
]


@pytest.fixture(scope="module")
def odd_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Files of odd names, each with its own stamps, among others that the names could be taken to mean."""
    folder = tmp_path_factory.mktemp("odd")
    for number, name in enumerate(ODD_NAMES):
        (folder / os.fsdecode(name)).write_bytes(tiny(100 * number))
    for decoy in ("clip000.mp4", "clip001.mp4", "clip.mp4", "b.mp4", "a.mp4", "0", "1"):
        (folder / decoy).write_bytes(tiny(9000))
    return folder


@pytest.mark.parametrize("number", range(len(ODD_NAMES)))
@pytest.mark.parametrize("form", ["absolute", "relative", "dotted", "path object"])
def test_D10_S01_an_odd_name_is_taken_literally(
    odd_folder: Path, number: int, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(odd_folder)
    name = os.fsdecode(ODD_NAMES[number])
    source = {
        "absolute": os.path.join(odd_folder, name),
        "relative": name,
        "dotted": os.path.join(".", name),
        "path object": odd_folder / name,
    }[form]
    with VideoDecoder(source) as decoder:
        assert [read_stamp(picture) for picture in decoder] == [100 * number + place for place in range(3)]


# --- another file in its place ----------------------------------------------------------------------


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    path = tmp_path / "clip.mp4"
    path.write_bytes(tiny(1))
    os.utime(path, ns=(10**18, 10**18))
    return path


def _swap(path: Path, data: bytes) -> None:
    other = path.with_name("other")
    other.write_bytes(data)
    other.rename(path)


def _overwrite(path: Path, data: bytes) -> None:
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()


def _same_size(data: bytes) -> bytes:
    return data[:-30] + bytes(byte ^ 255 for byte in data[-30:])


CHANGES = {
    "replaced by rename": lambda path: _swap(path, tiny(50) + b"more"),
    "replaced by rename, same size": lambda path: _swap(path, _same_size(path.read_bytes())),
    "overwritten": lambda path: _overwrite(path, tiny(50) + b"more"),
    "overwritten, same size": lambda path: _overwrite(path, _same_size(path.read_bytes())),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "grown": lambda path: _overwrite(path, path.read_bytes() + b"\0"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("before", ["nothing", "a frame", "iteration"])
def test_D09_a_replaced_file_is_stale(indexed: Path, change: str, before: str) -> None:
    decoder = VideoDecoder(indexed)
    frames = iter(decoder)
    if before == "a frame":
        assert read_stamp(decoder[2]) == 3  # leaves the file open in a pool
    elif before == "iteration":
        assert read_stamp(next(frames)) == 1
    CHANGES[change](indexed)
    for ask in (lambda: next(frames), lambda: decoder[0], lambda: decoder.get_frames_at([0, 1]), lambda: decoder[1]):
        with pytest.raises(StaleSource, match="has changed since it was indexed") as raised:
            ask()
        assert raised.value.source == str(indexed)


def test_D09_a_deleted_file_is_missing(indexed: Path) -> None:
    decoder = VideoDecoder(indexed)
    indexed.unlink()
    with pytest.raises(MissingMedia):
        decoder[0]


def test_D09_the_same_bytes_under_a_new_time_are_accepted(indexed: Path) -> None:
    decoder = VideoDecoder(indexed)
    assert read_stamp(decoder[0]) == 1
    os.utime(indexed)
    assert read_stamp(decoder[1]) == 2
    _swap(indexed, indexed.read_bytes())
    assert read_stamp(decoder[2]) == 3
    CHANGES["overwritten, same size"](indexed)
    with pytest.raises(StaleSource):
        decoder[0]


def test_D09_an_index_from_before_is_checked_too(indexed: Path) -> None:
    index = build_index(indexed)
    CHANGES["overwritten, same size"](indexed)
    with pytest.raises(StaleSource):
        VideoDecoder(indexed, frame_index=index)[0]


def test_fingerprints_see_head_middle_and_tail() -> None:
    size = 10 * FINGERPRINT_BLOCK
    data = bytearray(size)
    prints = {MediaSource.of(bytes(data)).fingerprint()}
    for place in (0, size // 2, size - 1):
        changed = bytearray(data)
        changed[place] = 1
        prints.add(MediaSource.of(bytes(changed)).fingerprint())
    prints.add(MediaSource.of(bytes(data[:-1])).fingerprint())
    assert len(prints) == 5


def test_M01_a_key_of_bytes_keeps_them_so_that_no_others_come_to_their_address() -> None:
    data = os.urandom(5000)
    address, key = id(data), MediaSource.of(data).check_identity(None)
    assert key == MediaSource.of(data).check_identity(None)
    del data
    others = []
    for _ in range(50):
        other = os.urandom(5000)
        others.append((id(other) == address, MediaSource.of(other).check_identity(None) == key))
        del other  # without a key, the next one would be at its address
    assert not any(same or equal for same, equal in others)

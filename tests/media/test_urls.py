"""Sources that are named by URL: the same bytes, facts and frames as of a file, and errors that say what to do."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest

import framefeed as ff
from framefeed._values import read_bytes
from framefeed.errors import MissingDependency, MissingMedia, StaleSource, UnreadableMedia, UsageError
from framefeed.media import _identity
from framefeed.media._source import MediaSource
from tests.corpus import corpus_file
from tests.media.test_other_files import HLS, MPD, PLS
from tests.programs import run_python
from tests.remote import CountedFiles, served, stored

NAMES = ["base.mp4", "closed_gop.ts", "fragmented.mp4", "open_gop.mkv"]


@pytest.fixture
def memory() -> Iterator[str]:
    """A URL in memory behind which everything is removed."""
    system = fsspec.filesystem("memory")
    yield "memory://framefeed-tests/"
    if system.exists("/framefeed-tests"):
        system.rm("/framefeed-tests", recursive=True)


@pytest.fixture(params=["ranges", "fsspec"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How objects are read by HTTP: by our own reader, or through fsspec where the extra "remote" is not installed."""
    if request.param == "fsspec":
        pytest.importorskip("aiohttp", reason="fsspec reads HTTP by aiohttp")
        monkeypatch.setattr("framefeed.media.remote._has_client", lambda: False)
    else:
        pytest.importorskip("urllib3", reason="our own reader needs urllib3")


def check_same_frames(url: str, path: Path) -> None:
    with ff.VideoDecoder(url) as far, ff.VideoDecoder(path) as near:
        assert len(far) == len(near)
        for number in (len(near) - 1, 7, 0, 8):
            np.testing.assert_array_equal(far[number], near[number])
            assert far.get_frame_at(number).pts_seconds == near.get_frame_at(number).pts_seconds


@pytest.mark.filterwarnings("ignore:.* are read to index it:UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_an_object_in_memory_is_as_the_file(name: str, memory: str) -> None:
    path = corpus_file(name)
    fsspec.filesystem("memory").pipe(memory + name, path.read_bytes())
    assert ff.probe(memory + name) == ff.probe(path)
    check_same_frames(memory + name, path)


@pytest.mark.filterwarnings("ignore:.* are read to index it:UserWarning")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("route")
def test_an_object_behind_http_is_as_the_file(name: str) -> None:
    path = corpus_file(name)
    with served({f"/{name}": path.read_bytes()}) as server:
        assert ff.probe(f"{server}/{name}") == ff.probe(path)
        check_same_frames(f"{server}/{name}", path)
        with pytest.raises(MissingMedia):
            ff.probe(f"{server}/none.mp4")


@pytest.mark.filterwarnings("ignore:.* are read to index it:UserWarning")
@pytest.mark.usefixtures("route")
def test_a_server_without_range_requests_is_refused() -> None:
    with (
        served({"/a.mp4": corpus_file("base.mp4").read_bytes() + bytes(2**20)}, sends_pieces=False) as server,
        pytest.raises(UnreadableMedia, match=r"in pieces .*: download it first"),
    ):
        ff.build_index(f"{server}/a.mp4")


@pytest.mark.usefixtures("route")
def test_an_empty_object_is_empty() -> None:
    with served({"/a.mp4": b""}) as server, stored(a=b"") as (url,):
        for empty in (f"{server}/a.mp4", url):
            for ask in (ff.probe, ff.build_index, ff.VideoDecoder):
                with pytest.raises(UnreadableMedia, match=r"a(\.mp4)?: is empty \(0 bytes\)"):
                    ask(empty)


@pytest.mark.parametrize(
    ("status", "advice"), [(403, "check the URL and the rights"), (429, "try again later"), (503, "try again later")]
)
@pytest.mark.usefixtures("route")
def test_a_server_that_refuses_an_object_does_not_make_it_missing(status: int, advice: str) -> None:
    with (
        served({}, status=status) as server,
        pytest.raises(UnreadableMedia, match=f"answered {status} .*{advice}") as e,
    ):
        ff.probe(f"{server}/a.mp4")
    assert not isinstance(e.value, MissingMedia)


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.usefixtures("route")
def test_an_object_that_a_server_does_not_have_is_missing(status: int) -> None:
    with served({}, status=status) as server, pytest.raises(MissingMedia, match=r"a\.mp4: no such file"):
        ff.probe(f"{server}/a.mp4")


@pytest.mark.usefixtures("route")
def test_a_server_that_cannot_be_reached_is_not_a_missing_file() -> None:
    with socket.socket() as closed:  # bound, so that the port stays free, and without listen() it refuses
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/a.mp4"
        with pytest.raises(UnreadableMedia, match=r"a\.mp4: the server cannot be reached .*: check the URL") as caught:
            ff.probe(url)
        assert not isinstance(caught.value, MissingMedia)
        assert caught.value.source == url
        assert ff.scan([url], workers=0).table["error_type"].to_pylist() == ["UnreadableMedia"]


def test_bytes_fingerprint_and_size_are_the_objects() -> None:
    data = corpus_file("base.mp4").read_bytes()
    with stored(a=data) as (url,):
        source = MediaSource.of(url)
        assert source.stat().bytes == len(data)
        assert source.fingerprint() == MediaSource.of(data).fingerprint()
        with source.opened() as reader:
            assert read_bytes(reader, len(data) - 5, 100) == data[-5:]


def test_nothing_is_opened_until_it_is_read() -> None:
    assert MediaSource.of("http://example.invalid/a.mp4").kind == "url"


def test_an_unknown_protocol_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="rtsp"):
        MediaSource.of("rtsp://x/y")


def test_a_missing_object_is_missing() -> None:
    with pytest.raises(MissingMedia, match=r"memory://none/none\.mp4"):
        ff.build_index("memory://none/none.mp4")


def test_errors_of_a_file_system_name_the_url_and_keep_their_cause() -> None:
    with stored(a=corpus_file("base.mp4").read_bytes()) as (url,):
        decoder = ff.VideoDecoder(url)
        CountedFiles.fails = "noon"
        with pytest.raises(UnreadableMedia, match=r"counted://a.*out of order") as caught:
            ff.build_index(url)
        assert isinstance(caught.value.__cause__, RuntimeError)
        decoder.close()


def test_S01_no_object_opens_another_one() -> None:
    playlists = [text.format("counted://decoy") for text in (HLS, MPD, PLS)]
    playlists += [text.format("decoy") for text in (HLS, MPD)]
    for playlist in playlists:
        with stored(list=playlist.encode(), decoy=corpus_file("closed_gop.ts").read_bytes()) as (url, _):
            for ask in (ff.probe, ff.build_index, ff.VideoDecoder):
                with pytest.raises(UnreadableMedia):
                    ask(url)
            assert CountedFiles.opened == {"list"}


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingDependency, match=r"framefeed\[url\]"):
        ff.probe("memory://a/b.mp4")


WITHOUT_CLIENTS = """
import sys
sys.modules["urllib3"] = None
import framefeed
for missing in ("aiohttp", "fsspec"):
    sys.modules[missing] = None
    for url in ("https://h.invalid/a.mp4", "zip://a.mp4::http://h.invalid/a.zip"):
        try:
            framefeed.probe(url)
        except framefeed.MissingDependency as error:
            print(error)
"""


@pytest.mark.slow
def test_without_any_client_for_http_the_extra_is_named() -> None:
    ran = run_python("-c", WITHOUT_CLIENTS)
    said = ran.stdout.splitlines()
    assert len(said) == 4, ran.stderr
    assert all("pip install 'framefeed[remote]'" in line for line in said), said


def test_a_replaced_object_is_stale_for_a_process_that_has_not_seen_it() -> None:
    data = corpus_file("base.mp4").read_bytes()
    with stored(a=data) as (url,):
        index = ff.build_index(url)
        CountedFiles.objects["a"] = data[:-1] + bytes([data[-1] ^ 1])
        _identity.ACCEPTED.clear()
        with ff.VideoDecoder(url, frame_index=index) as decoder, pytest.raises(StaleSource, match="scan or index"):
            decoder[0]


def test_a_catalog_of_urls_is_saved_planned_and_loaded(tmp_path: Path) -> None:
    data = corpus_file("base.mp4").read_bytes()
    with stored(a=data, b=corpus_file("closed_gop.ts").read_bytes()) as urls:
        ff.scan([*urls, "counted://none"], workers=0).to_parquet(tmp_path / "cat.parquet")
        catalog = ff.Catalog.open(tmp_path / "cat.parquet")
        assert catalog.table["source"].to_pylist() == [*urls, "counted://none"]
        assert catalog.table["error_type"].to_pylist() == [None, None, "MissingMedia"]
        assert [catalog[row].frame_index.built_from for row in range(2)] == ["packets", "packets+proof"]
        plan = ff.plan_clips(catalog.take([0, 1]), ff.Uniform(4), seed=1)
        with ff.ClipLoader(plan, batch_size=2, workers=0) as loader:
            assert [batch.data.shape[:2] for batch in loader] == [(2, 4)]

"""Scans of objects by HTTP: one request each, many at once, errors as rows, and an interrupted scan that goes on."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("urllib3", reason="our own reader needs it")

import framefeed as ff
from framefeed import _stopping
from framefeed.scanning import _chunks, _journal
from tests.corpus import corpus_file
from tests.media.remote.faults import Fault, FaultServer, Stored, faulty
from tests.patience import PATIENCE_SECONDS
from tests.pictures.made import exif, made, picture, saved, segment, with_segments
from tests.scanning.deadlines import make_deadline

MOVIE = "/a/movie.mp4"
FACTS = ("width", "height", "codec", "container", "rotation", "mirrored", "pixel_format", "num_frames", "fingerprint")


@pytest.fixture(scope="module")
def objects() -> dict[str, bytes]:
    """Pictures of all kinds, one whose header is long, and a video; none under a name that needs escapes."""
    pictures = {f"/p/{number:03}.{name.rpartition('.')[2]}": data for number, (name, data) in enumerate(made().items())}
    long = with_segments(saved(picture(), "JPEG"), *[segment(0xFFE1, b"Exif\0\0" + exif(6, padding=60_000))] * 2)
    return {**pictures, "/p/long.jpg": long, MOVIE: corpus_file("base.mp4").read_bytes()}


@pytest.fixture
def server(objects: dict[str, bytes]) -> Iterator[FaultServer]:
    with faulty(objects) as served:
        yield served


def scan(server: FaultServer, names: list[str], **options: object) -> ff.Catalog:
    return ff.scan([server.url + name for name in names], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, 7])
def test_rows_are_those_of_the_files(
    server: FaultServer, objects: dict[str, bytes], workers: int, tmp_path: Path
) -> None:
    for name, data in objects.items():
        (tmp_path / name[1:]).parent.mkdir(exist_ok=True)
        (tmp_path / name[1:]).write_bytes(data)
    far = scan(server, list(objects), workers=workers, verify="none")
    near = ff.scan([str(tmp_path / name[1:]) for name in objects], verify="none")
    for name in (*FACTS, "bytes", "error_type"):
        assert far.table[name].to_pylist() == near.table[name].to_pylist(), name
    assert set(far.table["mtime_ns"].to_pylist()) == {None}


def test_a_plain_picture_and_a_small_video_take_one_request(server: FaultServer) -> None:
    names = ["/p/000.jpeg", MOVIE]
    assert not scan(server, names).failures
    assert [server.count(name) for name in names] == [1, 1]
    scan(server, ["/p/long.jpg"])
    assert server.count("/p/long.jpg") == 3  # 60 kB twice


@pytest.mark.parametrize(
    "name",
    [
        "/p/000.jpeg",
        MOVIE,
        pytest.param("/p/none.jpg", marks=pytest.mark.test_all),
        pytest.param("/none.mp4", marks=pytest.mark.test_all),
    ],
)
def test_what_a_scan_read_is_what_the_server_sent(server: FaultServer, objects: dict[str, bytes], name: str) -> None:
    # A process of its own: it loads modules and certificates while it scans.
    # Two names, as a missing object that is the only root is an error.
    roots = [server.url + name, server.url + "/missing.mp4"]
    command = [sys.executable, "-m", "framefeed", "scan", *roots, "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert json.loads(done.stdout)["scan"]["bytes_read"] == len(objects.get(name, b""))


@pytest.mark.parametrize("name", ["/none.jpg", "/none.mp4", "/none.tar", "/none.zip"])
def test_a_missing_object_that_is_the_only_root_is_an_error(server: FaultServer, name: str, tmp_path: Path) -> None:
    url, out = server.url + name, tmp_path / "cat.parquet"
    for options in ({}, {"out": out}):
        with pytest.raises(ff.MissingMedia, match=f"{name}: no such file"):
            ff.scan(url, **options)  # type: ignore[arg-type]
    assert not out.exists()
    assert ff.scan([url, server.url + MOVIE]).table["error_type"].to_pylist() == ["MissingMedia", None]
    assert scan(server, [MOVIE, name]).table["error_type"].to_pylist() == [None, "MissingMedia"]


def test_a_picture_with_a_query_is_a_picture(server: FaultServer) -> None:
    assert scan(server, ["/p/000.jpeg?v=2"]).table["kind"].to_pylist() == ["image"]
    assert server.count("/p/000.jpeg") == 1


def test_L27_objects_are_asked_for_at_once_and_a_silent_one_delays_none(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_chunks, "CHUNK_WEIGHT", 1)
    names = [f"/p/{number:03}.jpeg" for number in range(8)]
    let_pass = make_deadline(monkeypatch, names[0])
    server.always[names[0]] = Fault(before="head", end="stall", then=let_pass)
    server.hold_for = len(names)
    catalog = scan(server, names, deadline_seconds=PATIENCE_SECONDS)
    assert catalog.table["error_type"].to_pylist() == ["DeadlineExceeded"] + [None] * 7
    ((name, _, message),) = catalog.failures
    assert name == server.url + names[0]
    assert "deadline_seconds" in message


@pytest.mark.parametrize(
    ("pictures", "videos", "at_once"),
    [
        (60, 0, 60),
        (0, 100, 32),
        (10, 6, 16),
        (100, 20, 96),
        *(
            pytest.param(*each, marks=pytest.mark.test_all)
            for each in ((100, 0, 96), (250, 0, 96), (0, 12, 12), (40, 40, 32))
        ),
    ],
)
def test_L27_few_objects_are_all_asked_for_at_once(
    server: FaultServer, objects: dict[str, bytes], pictures: int, videos: int, at_once: int
) -> None:
    names = [*(f"/p/{n}.jpeg" for n in range(pictures)), *(f"/v/{n}.mp4" for n in range(videos))]
    server.objects |= {name: Stored(objects[MOVIE if name.endswith("mp4") else "/p/000.jpeg"]) for name in names}
    server.hold_for = at_once
    assert not scan(server, names[::-1], deadline_seconds=PATIENCE_SECONDS).failures
    assert server.count() == len(names)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(503), "UnreadableMedia"),
        (Fault(404), "MissingMedia"),
        (Fault(403), "UnreadableMedia"),
        (Fault(after=100, end="reset"), "UnreadableMedia"),
        (Fault(whole=True, status=206), "UnreadableMedia"),
        (Fault(head=b"no HTTP\r\n\r\n"), "UnreadableMedia"),
        (Fault(before="head", end="drip"), "DeadlineExceeded"),
        (Fault(after=100, end="drip"), "DeadlineExceeded"),
        (Fault(after=0, end="stall"), "DeadlineExceeded"),
    ],
)
@pytest.mark.parametrize("name", ["/p/000.jpeg", MOVIE])
def test_L27_a_failing_server_gives_a_row_and_no_hang(
    server: FaultServer, fault: Fault, error: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, out = [name, "/p/001.jpeg"], tmp_path / "cat.parquet"
    with monkeypatch.context() as patch:
        let_pass = make_deadline(patch, name)
        server.always[name] = replace(fault, then=let_pass) if error == "DeadlineExceeded" else fault
        catalog = scan(server, names, deadline_seconds=PATIENCE_SECONDS, out=out)
    assert catalog.table["error_type"].to_pylist() == [error, None]
    server.always.clear()
    assert not scan(server, names, deadline_seconds=PATIENCE_SECONDS, out=out).failures


def test_a_silent_server_is_given_up_without_a_deadline(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stopping, "SILENCE_SECONDS", 0.3)
    server.always["/p/000.jpeg"] = Fault(before="head", end="stall")
    assert scan(server, ["/p/000.jpeg"], deadline_seconds=None).table["error_type"].to_pylist() == ["DeadlineExceeded"]


def test_an_object_that_is_replaced_between_two_requests_is_stale(
    server: FaultServer, objects: dict[str, bytes]
) -> None:
    def replace(_: FaultServer) -> None:
        server.objects["/p/long.jpg"].etag = '"two"'

    server.plan("/p/long.jpg", Fault(), Fault(then=replace))
    assert scan(server, ["/p/long.jpg"]).table["error_type"].to_pylist() == ["StaleSource"]


def test_a_limit_holds_for_headers_by_url(server: FaultServer) -> None:
    catalog = scan(server, ["/p/000.jpeg"], limits=ff.Limits(max_side=8))
    assert catalog.table["error_type"].to_pylist() == ["LimitExceeded"]


def test_an_interrupted_scan_goes_on_without_asking_again(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_chunks, "CHUNK_WEIGHT", 1)
    monkeypatch.setattr(_journal, "WRITE_SECONDS", 0.0)
    names, out = [f"/p/{number:03}.jpeg" for number in range(8)], tmp_path / "cat.parquet"

    def interrupt(_: FaultServer) -> None:
        raised.append(True)

    raised: list[bool] = []
    server.plan(names[5], Fault(then=interrupt))
    original = _chunks.survey_chunk

    def survey_chunk(*args: object, **options: object) -> object:
        if raised:
            raise KeyboardInterrupt
        return original(*args, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(_chunks, "survey_chunk", survey_chunk)
        with pytest.raises(KeyboardInterrupt):
            scan(server, names, workers=0, out=out)
    assert 1 <= len(server.asked) < len(names)
    catalog = scan(server, names, workers=0, out=out)
    assert not catalog.failures
    assert catalog.table["width"].null_count == 0
    assert [server.count(name) for name in names] == [1] * len(names)
    scan(server, names, workers=0, out=out)  # of a finished scan nothing is believed
    assert [server.count(name) for name in names] == [2] * len(names)


def as_parquet(rows: list[dict[str, str]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


ROWS = [{"path": "000.jpeg", "label": "cat"}, {"path": "../a/movie.mp4", "label": "dog"}]
LISTS = {
    ".txt": "".join(f"{row['path']} {row['label']}\n" for row in ROWS).encode(),
    ".csv": ("path,label\n" + "".join(f"{row['path']},{row['label']}\n" for row in ROWS)).encode(),
    ".json": json.dumps(ROWS).encode(),
    ".parquet": as_parquet(ROWS),
}


@pytest.mark.parametrize("ending", LISTS)
@pytest.mark.parametrize("query", ["", "?sig=secret"])
def test_a_list_by_url_starts_at_its_folder(server: FaultServer, ending: str, query: str) -> None:
    server.objects[f"/p/list{ending}"] = Stored(LISTS[ending])
    catalog = scan(server, [f"/p/list{ending}{query}"])
    assert catalog.table["source"].to_pylist() == [f"{server.url}/p/000.jpeg", server.url + MOVIE]
    assert catalog.table["label"].to_pylist() == ["cat", "dog"]
    assert not catalog.failures
    assert server.count("/p/list") == (2 if ending == ".parquet" else 1)  # which may hold media: its schema says


def test_the_whole_list_is_read_or_none_of_it(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.objects["/p/list.txt"] = Stored(LISTS[".txt"])
    server.plan("/p/list.txt", Fault(503), Fault(after=10, end="reset"), Fault(after=10, end="close"), Fault(chunks=7))
    assert len(scan(server, ["/p/list.txt"])) == 2
    assert server.count("/p/list.txt") == 4
    with pytest.raises(ff.LimitExceeded, match=r"list\.txt\?\.\.\.: .*max_header_bytes"):
        scan(server, ["/p/list.txt?sig=secret"], limits=ff.Limits(max_header_bytes=20))
    with pytest.raises(ff.MissingMedia, match=r"list .*/p/none\.csv: there is no such file"):
        scan(server, ["/p/none.csv"])
    for fault, says in ((Fault(headers={"Content-Encoding": "gzip"}), "'gzip'"), (Fault(403), "403 Forbidden")):
        server.plan("/p/list.txt", fault)
        with pytest.raises(ff.UnreadableMedia, match=rf"list .*/p/list\.txt\?\.\.\.: .*{says}") as caught:
            scan(server, ["/p/list.txt?sig=secret"])
        assert "secret" not in str(caught.value)
    monkeypatch.setattr(_stopping, "SILENCE_SECONDS", 0.3)
    server.always["/p/list.txt"] = Fault(after=10, end="drip")
    with pytest.raises(ff.DeadlineExceeded, match=r"list\.txt"):
        scan(server, ["/p/list.txt"])

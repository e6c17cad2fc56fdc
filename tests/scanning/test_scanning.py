"""scan and make_memory_catalog on real files."""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from framefeed._values import Limits
from framefeed.catalog import Catalog, _survey, make_memory_catalog
from framefeed.errors import MissingMedia, ResourceExhausted, UnreadableMedia, UsageError, WorkerLost
from framefeed.index import build_index, probe
from framefeed.scanning import _chunks
from framefeed.scanning._scan import scan
from framefeed.testing import ClipSpec, make_folder
from tests.catalog.synthetic import same
from tests.codec_clips import CODECS
from tests.corpus import clip_file


def clip(frames: int = 5) -> Path:
    return clip_file(f"scan_{frames}.mp4", ClipSpec(num_frames=frames, height=48, width=64, gop=4))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two classes of videos, one of them broken, and a note."""
    folder = tmp_path / "data"
    for name, frames in (("dog/b.mp4", 5), ("cat/a.mp4", 7), ("cat/c.mp4", 5)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(clip(frames), folder / name)
    (folder / "dog" / "text.mp4").write_text("no video")
    (folder / "dog" / "note.txt").write_text("b.mp4\n")
    return folder


def relative(made: Catalog, folder: Path) -> list[str]:
    return [os.path.relpath(str(made.source(row)), folder) for row in range(len(made))]


def test_a_folder(data: Path) -> None:
    made = scan(data, label_from="parent")
    assert relative(made, data) == ["cat/a.mp4", "cat/c.mp4", "dog/b.mp4", "dog/text.mp4"]
    assert made.num_frames.tolist() == [7, 5, 5, -1]
    assert made.classes == ["cat", "dog"]
    assert made.column_values("label").tolist() == [0, 0, 1, 1]
    assert [(name, kind) for name, kind, _ in made.failures] == [(str(data / "dog" / "text.mp4"), "UnreadableMedia")]
    assert same(made.frame_index(0), build_index(data / "cat" / "a.mp4"))
    assert made[0].info == probe(data / "cat" / "a.mp4")
    facts = (data / "cat" / "a.mp4").stat()
    assert made.row_stat(0) == (facts.st_size, facts.st_mtime_ns)
    assert made.row_fingerprint(1) == made.row_fingerprint(2)


@pytest.mark.parametrize("workers", [0, 1, 3, 8])
def test_any_number_of_workers_writes_the_same_files(data: Path, tmp_path: Path, workers: int) -> None:
    for number, count in enumerate([0, workers]):
        (tmp_path / str(number)).mkdir()
        scan([data, data / "missing.mp4"], out=tmp_path / str(number) / "cat.parquet", workers=count)
    for name in ("cat.parquet", "cat.frames.arrow"):
        assert (tmp_path / "0" / name).read_bytes() == (tmp_path / "1" / name).read_bytes()


def test_depth_header_believes_headers(data: Path, tmp_path: Path) -> None:
    made = scan(data, depth="header", label_from="parent", out=tmp_path / "cat.parquet")
    assert not made.has_frame_indexes
    assert not (tmp_path / "cat.frames.arrow").exists()
    assert made.num_frames.tolist() == [7, 5, 5, -1]
    assert made[0].info == probe(data / "cat" / "a.mp4")
    assert made.table.column("num_key_frames").null_count == 4
    with pytest.raises(UsageError, match="with_frame_indexes"):
        made.frame_index(0)


def test_frame_indexes_can_be_made_later(data: Path) -> None:
    header = scan(data, depth="header", label_from="parent")
    view = header.take([2, 3, 0])
    indexed = view.with_frame_indexes(workers=2)
    assert indexed.has_frame_indexes
    assert indexed.classes == header.classes
    assert indexed.column_values("label").tolist() == [1, 1, 0]
    assert same(indexed.frame_index(2), build_index(data / "cat" / "a.mp4"))
    assert [kind for _, kind, _ in indexed.failures] == ["UnreadableMedia"]
    assert indexed.table.equals(scan(data, label_from="parent").take([2, 3, 0]).table)
    assert indexed.with_frame_indexes() is indexed


def test_frame_indexes_are_made_within_limits(data: Path) -> None:
    header = scan(data / "cat", depth="header")
    bounded = header.with_frame_indexes(workers=0, limits=Limits(max_packets=6))
    assert bounded.table.equals(scan(data / "cat", limits=Limits(max_packets=6)).table)
    assert {kind for _, kind, _ in bounded.failures} == {"LimitExceeded"}
    assert not len(header.with_frame_indexes(workers=0).failures)
    for catalog in (header, scan(data / "cat")):
        with pytest.raises(UsageError, match="limits: expected"):
            catalog.with_frame_indexes(limits=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(("verify", "built_from"), [("none", "packets"), ("ends", "packets+ends"), ("full", "decode")])
def test_verify(data: Path, verify: Any, built_from: str) -> None:
    assert scan(data / "cat", verify=verify).frame_index(0).built_from == built_from


def test_a_manifest_keeps_its_lines_and_columns(data: Path) -> None:
    (data / "list.csv").write_text(
        "video,label,start_seconds,end_seconds,split\n"
        "cat/a.mp4,cat,0.5,1.5,train\ncat/a.mp4,cat,1.5,2,test\nmissing.mp4,dog,,,train\ndog/text.mp4,,0,1,train\n"
    )
    made = scan(data / "list.csv")
    assert relative(made, data) == ["cat/a.mp4", "cat/a.mp4", "missing.mp4", "dog/text.mp4"]
    assert made.table.column_names[-3:] == ["start_seconds", "end_seconds", "split"]
    np.testing.assert_array_equal(made.column_values("start_seconds"), [0.5, 1.5, np.nan, 0])
    assert [kind for _, kind, _ in made.failures] == ["MissingMedia", "UnreadableMedia"]
    assert made.classes == ["cat", "dog"]
    assert made.usable_rows.tolist() == [0, 1]
    labelled = scan([data / "list.csv", data / "dog"], label_from="parent")
    assert labelled.table.column("label").to_pylist() == ["cat", "cat", "dog", "dog", "dog"]


def test_each_file_is_read_once(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    index_media = _survey.index_media

    def noting(media: Any, verify: Any, **options: Any) -> Any:
        read.append(media.name)
        return index_media(media, verify, **options)

    monkeypatch.setattr(_survey, "index_media", noting)
    lines = "".join(f"cat/a.mp4,{number}\n" for number in range(20))
    (data / "list.csv").write_text(f"path,start\n{lines}")
    made = scan(data / "list.csv")
    assert len(made) == 20
    assert made.frame_index(3) is made.frame_index(17)
    assert len(read) == 1


def test_relative_paths_of_a_list_count_from_the_root(data: Path, tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "val.csv").write_text("name,clip\ndog,b\n")
    made = scan(tmp_path / "lists" / "val.csv", path_template="{name}/{clip}.mp4", columns={"label": "name"}, root=data)
    assert made.failures == []
    assert (made.source(0), made.classes) == (str(data / "dog" / "b.mp4"), ["dog"])
    assert made.table.column("source").to_pylist() == ["dog/b.mp4"]


def test_a_catalog_is_no_list(data: Path) -> None:
    (data / "list.csv").write_text("path,label,take\ncat/a.mp4,7,1\ndog/b.mp4,8,2\n")
    first = scan(data / "list.csv", root=data, out=data / "first.parquet")
    with pytest.raises(UsageError, match=r"is a catalog, not a list of media: open it with ff\.Catalog\.open"):
        scan(data / "first.parquet", root=data)
    assert scan(first.table, root=data).table.equals(first.table)


def test_relative_paths_are_those_of_now(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    made = scan(["cat", "dog/b.mp4"])
    monkeypatch.chdir("/")
    assert [made.source(row) for row in range(3)] == [str(data / n) for n in ("cat/a.mp4", "cat/c.mp4", "dog/b.mp4")]


def test_with_a_root_the_folder_can_move(data: Path, tmp_path: Path) -> None:
    scan(data, root=data, out=data / "cat.parquet")
    assert pq.read_table(data / "cat.parquet").column("source").to_pylist()[0] == "cat/a.mp4"
    shutil.move(data, tmp_path / "moved")
    moved = Catalog.open(tmp_path / "moved" / "cat.parquet")
    assert relative(moved, tmp_path / "moved")[0] == "cat/a.mp4"
    assert same(make_memory_catalog([str(moved.source(0))]).frame_index(0).pts, moved.frame_index(0).pts)
    shutil.move(tmp_path / "moved" / "cat.parquet", tmp_path / "cat.parquet")
    assert relative(Catalog.open(tmp_path / "cat.parquet", root=tmp_path / "moved"), tmp_path)[0] == "moved/cat/a.mp4"


# --- what must not hurt -----------------------------------------------------------------------------


def test_D03_wrong_files_are_rows(tmp_path: Path) -> None:
    whole = clip().read_bytes()
    (tmp_path / "empty.mp4").write_bytes(b"")
    (tmp_path / "head.mp4").write_bytes(whole[:100])
    (tmp_path / "noise.mp4").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "text.mp4").write_text("hello")
    (tmp_path / "zgood.bin.mp4").write_bytes(whole)
    made = scan(tmp_path)
    assert len(made) == 5
    assert made.usable_rows.tolist() == [4]
    assert {kind for _, kind, _ in made.failures} == {"UnreadableMedia"}
    assert made.table.column("bytes").to_pylist()[:2] == [0, 100]


def test_D10_odd_names_are_read_and_come_back(tmp_path: Path) -> None:
    odd = [b"%03d.mp4", b"-rf.mp4", b"a:b.mp4", b"caf\xe9.mp4", b"new\nline.mp4", b" .mp4", b"x" * 251 + b".mp4"]
    folder = tmp_path / os.fsdecode(b"\xff\xfe")
    folder.mkdir()
    for number, name in enumerate(sorted(odd)):
        shutil.copy(clip(number + 2), folder / os.fsdecode(name))
    made = scan(folder, root=tmp_path, label_from="parent", out=tmp_path / "cat.parquet")
    assert made.failures == []
    assert made.num_frames.tolist() == [2, 3, 4, 5, 6, 7, 8]
    opened = Catalog.open(tmp_path / "cat.parquet")
    assert [os.path.basename(os.fsencode(str(opened.source(row)))) for row in range(7)] == sorted(odd)
    assert opened.classes == ["\0dcff\0dcfe"]
    assert pickle.loads(pickle.dumps(opened)).source(3) == made.source(3)


def test_D10_the_error_of_an_odd_name_can_be_saved(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.mp4")).write_text("text")
    made = scan(tmp_path, out=tmp_path / "cat.parquet")
    assert "caf\\udce9.mp4" in made.failures[0][2]


def test_S16_special_files_are_rows_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "loop.mp4").symlink_to("loop.mp4")
    (tmp_path / "broken.mp4").symlink_to("nowhere")
    (tmp_path / "up").symlink_to(".")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket.mp4"))
        # Whatever waits for the pipe's other end, or reads a device to its end, runs into the suite's timeout.
        made = scan([tmp_path, "/dev/zero", tmp_path / "x.mp4" / "y.mp4"])
    assert [kind for _, kind, _ in made.failures] == [
        "MissingMedia", "UnreadableMedia", "UnreadableMedia", "UnreadableMedia", "UnreadableMedia", "MissingMedia",
    ]  # fmt: skip


def test_impossible_names_in_a_manifest_are_rows(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_bytes(b"path,take\n,1\nhttps://host/a.mp4,2\n" + b"x" * 5000 + b",3\n")
    made = scan(tmp_path / "list.csv", out=tmp_path / "cat.parquet", root=tmp_path)
    assert len(made.failures) == 3
    assert made.column_values("take").tolist() == [1, 2, 3]


def test_a_still_picture_is_a_row(tmp_path: Path) -> None:
    picture = b"BM" + (66).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little")
    picture += (40).to_bytes(4, "little") + (2).to_bytes(4, "little") * 2 + b"\1\0\x18\0" + bytes(24) + bytes(16)
    (tmp_path / "x.bmp").write_bytes(picture)
    made = scan(tmp_path / "x.bmp")
    info = made[0].info
    assert info is not None
    assert (info.kind, info.width) == ("image", 2)
    assert made.usable_rows.tolist() == [0]
    assert scan(tmp_path / "x.bmp", depth="header").failures == []


# --- the user's mistakes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": "deep"}, "depth"),
        ({"verify": "hope"}, "verify"),
        ({"workers": -1}, "workers"),
        ({"workers": "x"}, "workers"),
        ({"label_from": "name"}, "label_from"),
        ({"out": "no/where.parquet"}, "no folder"),
        ({"deadline_seconds": "x"}, "deadline_seconds"),
        ({"deadline_seconds": True}, "deadline_seconds"),
        ({"limits": Limits(max_packets=2**25 + 1)}, "max_packets"),
        ({"columns": {"path": 0}}, "no root is a list"),
    ],
)
def test_wrong_arguments(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        scan(tmp_path, **options)


def test_the_manifest_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="another name"):
        scan(tmp_path / "cat.parquet", out=tmp_path / "cat.parquet")


@pytest.mark.parametrize(("progress", "shown"), [(True, True), (False, False), (None, False)])
def test_progress(data: Path, capfd: pytest.CaptureFixture[str], progress: bool | None, shown: bool) -> None:
    scan(data, progress=progress)
    out, err = capfd.readouterr()
    assert out == ""
    assert ("4/4" in err) == shown


def test_a_bug_in_a_worker_is_not_taken_for_a_bad_file(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(_survey, "index_media", broken)
    with pytest.raises(ZeroDivisionError) as raised:
        scan(data)
    assert str(data / "cat" / "a.mp4") in raised.value.__notes__[0]


def test_a_file_that_asks_for_too_much_depth_is_a_row(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fail_for_a(monkeypatch, RecursionError, times=1)
    made = scan(data / "cat")
    ((_, kind, error),) = made.failures
    assert kind == "LimitExceeded"
    assert "recursion limit" in error
    assert made.usable_rows.tolist() == [1]


def test_a_scan_that_gets_no_thread_says_how_to_do_without(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_chunks, "CHUNK_WEIGHT", _chunks.VIDEO_WEIGHT)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(
            WorkerLost, match=r"can't start new thread.*workers=1 \(--workers 1\).*starts no threads"
        ) as raised:
            scan(data, workers=2)
        assert "process" not in str(raised.value)
        assert len(scan(data, workers=1)) == 4


def test_S04_a_file_at_its_limits_is_scanned_and_one_beyond_is_a_row(tmp_path: Path) -> None:
    for name in ("flv1", "mpeg4"):
        shutil.copy(clip_file(name + CODECS[name].suffix, CODECS[name].spec), tmp_path)
    assert not scan(tmp_path, limits=Limits(max_pixels=128 * 96)).failures
    made = scan(tmp_path, limits=Limits(max_pixels=128 * 96 - 1))
    assert {kind for _, kind, _ in made.failures} == {"LimitExceeded"}
    assert all("give limits=ff.Limits(max_pixels=...)" in error for _, _, error in made.failures)


def test_a_shortage_of_memory_is_tried_again(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fail_for_a(monkeypatch, MemoryError, times=1)
    assert not scan(data / "cat").failures


def test_a_shortage_that_stays_is_no_row_and_ends_the_scan(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = data / "cat.parquet"
    with monkeypatch.context() as patch:
        _fail_for_a(patch, MemoryError, times=100)
        with pytest.raises(ResourceExhausted, match=r"a\.mp4: ran out of memory"):
            scan(data, out=out)
    assert not out.exists()
    assert scan(data, out=out).table.equals(scan(data).table)


def _fail_for_a(monkeypatch: pytest.MonkeyPatch, kind: type[BaseException], times: int) -> None:
    index_media, left = _survey.index_media, [kind] * times

    def greedy(media: Any, verify: Any, **options: Any) -> Any:
        if media.name.endswith("a.mp4") and left:
            raise left.pop()
        return index_media(media, verify, **options)

    monkeypatch.setattr(_survey, "index_media", greedy)


# --- make_memory_catalog ----------------------------------------------------------------------------


def test_a_memory_catalog_has_a_row_for_each_source_in_order(data: Path) -> None:
    path, content = data / "cat" / "a.mp4", (data / "dog" / "b.mp4").read_bytes()
    entry = scan(data)[1]
    made = make_memory_catalog([content, path, entry, str(path), content])
    assert [made.source(row) for row in range(5)] == [content, str(path), entry.source, str(path), content]
    assert made.num_frames.tolist() == [5, 7, 5, 7, 5]
    assert made.frame_index(0) is made.frame_index(4)
    assert same(made.frame_index(2), entry.frame_index)
    copy = pickle.loads(pickle.dumps(made.take([0, 1])))
    assert (copy.source(0), copy.source(1)) == (content, str(path))
    with pytest.raises(UsageError, match="media in memory"):
        made.to_parquet(data / "cat.parquet")
    made.take([1, 2, 3]).to_parquet(data / "cat.parquet")


def test_a_memory_catalog_takes_entries_without_indexes(data: Path) -> None:
    assert make_memory_catalog([scan(data, depth="header")[0]]).num_frames.tolist() == [7]


def test_entries_of_media_in_memory_can_be_left_out(data: Path) -> None:
    content = (data / "cat" / "a.mp4").read_bytes()
    made = make_memory_catalog([content, data / "cat" / "a.mp4"])
    assert [entry.source for entry in made.without([made[0]])] == [str(data / "cat" / "a.mp4")]


def test_a_memory_catalog_raises(data: Path) -> None:
    for source, kind in ((data / "nothing.mp4", MissingMedia), (b"text", UnreadableMedia), (data, UnreadableMedia)):
        with pytest.raises(kind):
            make_memory_catalog([data / "cat" / "a.mp4", source])
    with pytest.raises(UsageError, match=r"source: expected a path.* got 3"):
        make_memory_catalog([3])  # type: ignore[list-item]
    with clip().open("rb") as file, pytest.raises(UsageError, match="its path"):
        make_memory_catalog([file])  # type: ignore[list-item]


@pytest.mark.parametrize("ending", ["flv", "mkv", "mp4", "ts"])
def test_stored_sizes_are_those_of_the_header_at_any_depth(tmp_path: Path, ending: str) -> None:
    # 120 rows are stored as 128; 130 frames have a tail that is looked at apart from the head.
    made = clip_file(f"scan_stored.{ending}", ClipSpec(num_frames=130, height=120, width=152, gop=40))
    shutil.copy(made, tmp_path / made.name)
    deep, shallow = scan(tmp_path), scan(tmp_path, depth="header")
    names = ["width", "height", "coded_width", "coded_height", "pixel_format", "rotation", "mirrored"]
    assert deep.table.select(names).equals(shallow.table.select(names))
    assert deep.table["coded_height"].to_pylist() == [128]
    assert deep.verify(workers=0).ok


def test_pictures_are_decoded_where_everything_is(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for name in ("cut.jpg", "whole.jpg"):
        Image.fromarray(noise).save(tmp_path / name)
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "whole.jpg").read_bytes()[:-2000])
    assert scan(tmp_path).failures == []
    made = scan(tmp_path, verify="full")
    assert [(os.path.basename(name), kind) for name, kind, _ in made.failures] == [("cut.jpg", "CorruptMedia")]
    assert made.frame_index(1).built_from == scan(tmp_path).frame_index(1).built_from
    assert [error.split(":")[0] for _, error in scan(tmp_path).verify(workers=0).errors] == ["CorruptMedia"]


@pytest.mark.parametrize("depth", ["header", "frames"])
def test_pictures_whose_pixels_no_backend_decodes_are_failed_rows(tmp_path: Path, depth: Any) -> None:
    for mode in ("F", "I", "L", "LAB", "RGB"):
        Image.new(mode, (40, 30)).save(tmp_path / f"{mode}.tif")
    made = scan(tmp_path, depth=depth)
    failures = [(os.path.basename(name), kind, message) for name, kind, message in made.failures]
    assert [failure[:2] for failure in failures] == [(f"{mode}.tif", "UnsupportedCodec") for mode in ("F", "I", "LAB")]
    assert all(f"kind '{name.removesuffix('.tif')}'" in message for name, _, message in failures)
    assert made.usable_rows.tolist() == [2, 4]


def test_a_root_that_holds_nothing_is_a_mistake(data: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="none of the 4 paths is inside"):
        scan(data, root=tmp_path / "other")


def test_roots_without_media_are_warned_of(data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "list.md").write_text("nothing")
    with pytest.warns(UserWarning, match=r"no media found in .*empty, .*notes: check the path") as caught:
        assert len(scan([tmp_path / "empty", tmp_path / "notes"], assume_fps=25)) == 0
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="the list of roots is empty: give at least one file"):
        scan([], out=tmp_path / "cat.parquet")
    with pytest.warns(UserWarning, match=r"empty, .*empty, .*empty and 2 more: check"):
        scan([tmp_path / "empty"] * 5)
    scan([tmp_path / "empty", data])


def test_a_scan_that_replaces_a_fuller_catalog_says_what_is_lost(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "cat.parquet"
    scan(data, out=out, verify="full")
    scan(data, out=out, verify="full")
    with pytest.warns(
        UserWarning,
        match=r'cat.parquet: .* verify="proof", .*counts of damaged frames are not kept.*to have the counts again',
    ) as caught:
        assert scan(data, out=out).table["num_damaged_frames"].null_count == 4
    assert [each.filename for each in caught] == [__file__]
    scan(data, out=out)
    with pytest.warns(UserWarning, match="reads headers only, and replaces a catalog with frame indexes"):
        scan(data, out=out, depth="header")
    scan(data, out=out, verify="full", depth="header")
    scan(data, out=out)
    out.write_bytes(out.read_bytes()[:-50])
    with pytest.raises(UsageError):
        scan(data, out=out)


def test_an_iterator_of_roots_is_read_once(tmp_path: Path) -> None:
    make_folder(tmp_path / "videos", classes=1, videos_per_class=2, seconds=0.2)
    videos = sorted((tmp_path / "videos").rglob("*.mp4"))
    assert len(scan(iter(videos), out=tmp_path / "cat.parquet")) == 2  # type: ignore[arg-type]
    (tmp_path / "empty").mkdir()
    with pytest.warns(UserWarning, match="no media found in .*empty"):
        scan(iter([tmp_path / "empty"]))  # type: ignore[arg-type]

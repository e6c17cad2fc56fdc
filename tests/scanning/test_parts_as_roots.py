"""Parts of archives in lists, tables and roots; parts that failed; archives that fail among others."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import framefeed as ff
from framefeed import _stopping
from framefeed.media import MediaSource
from framefeed.scanning import _archives
from tests.corpus import corpus_file
from tests.media.remote.faults import Fault, Stored, faulty
from tests.packed import get_facts, pack
from tests.pictures.made import picture, saved

VIDEO = corpus_file("base.mp4").read_bytes()
PICTURE = saved(picture(), "JPEG")
MEDIA = [("a.mp4", VIDEO), ("b.jpg", PICTURE), ("c/d.mp4", VIDEO + bytes(8))]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "x.tar").write_bytes(pack(MEDIA))
    return tmp_path / "x.tar"


def test_a_list_of_parts_is_no_list_of_archives(archive: Path) -> None:
    names = [*(f"tar://{name}::x.tar" for name, _ in MEDIA), "tar://none.mp4::x.tar"]
    (archive.parent / "list.txt").write_text("\n".join(names))
    listed, packed = ff.scan(archive.parent / "list.txt"), ff.scan(archive)
    assert get_facts(listed[:3]).equals(get_facts(packed))
    assert [kind for _, kind, _ in listed.failures] == ["MissingMedia"]
    for name in ("source", "source_offset", "source_version"):
        assert listed[:3].table[name].to_pylist() == packed.table[name].to_pylist()


def test_the_table_of_a_catalog_of_parts_is_scanned_again(archive: Path) -> None:
    catalog = ff.scan(archive)
    again = ff.scan(catalog.table)
    assert again.table["source"].to_pylist() == catalog.table["source"].to_pylist()
    assert get_facts(again).equals(get_facts(catalog))


def test_values_of_parquet_files_are_no_lists(tmp_path: Path) -> None:
    pq.write_table(pa.table({"video": [VIDEO, VIDEO + bytes(8)]}), tmp_path / "v.parquet")
    catalog = ff.scan(tmp_path / "v.parquet")
    assert get_facts(ff.scan(catalog.source(1))).equals(get_facts(catalog[1:]))  # type: ignore[arg-type]
    (tmp_path / "list.txt").write_text("\n".join(catalog.table["source"].to_pylist()))
    assert get_facts(ff.scan(tmp_path / "list.txt")).equals(get_facts(catalog))


PICTURES = [(f"{name}.jpg", PICTURE) for name in "cbade"]
ARCHIVES = {f"/{name}": Stored(pack([(f"{name}.jpg", PICTURE)])) for name in ("a.tar", "b.tar")}


def pack_pictures(folder: Path) -> dict[str, list[str]]:
    """Pack pictures in each way; return the names of the parts by that of the container."""
    (folder / "x.tar").write_bytes(pack(PICTURES))
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        for name, data in PICTURES:
            archive.writestr(name, data)
    table = pa.table({"image": [data for _, data in PICTURES]})
    pq.write_table(table, folder / "x.parquet", compression="none", use_dictionary=False, row_group_size=2)
    return {
        "x.tar": [f"tar://{name}::x.tar" for name, _ in PICTURES],
        "x.zip": [f"zip://{name}::x.zip" for name, _ in PICTURES],
        "x.parquet": [f"parquet://image/{row}::x.parquet" for row in range(len(PICTURES))],
    }


@pytest.mark.parametrize("container", ["x.tar", "x.zip", "x.parquet"])
def test_a_list_of_parts_opens_their_container_once(
    container: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, opened = pack_pictures(tmp_path)[container], list[str]()
    read = MediaSource.reader

    def read_counted(source: MediaSource, *arguments: Any) -> Any:
        opened.append(source.path)
        return read(source, *arguments)

    absent = names[0].replace("c.jpg", "none.jpg").replace("image/0", "image/99")
    (tmp_path / "list.txt").write_text("\n".join([*names[::-1], absent]))
    monkeypatch.setattr(MediaSource, "reader", read_counted)
    catalog = ff.scan(tmp_path / "list.txt", root=tmp_path)
    assert opened == [str(tmp_path / container)]
    assert catalog.table["source"].to_pylist() == [*names[::-1], absent]
    assert catalog.table["error_type"].to_pylist() == [*[None] * len(names), "MissingMedia"]


def test_parts_of_several_containers_keep_their_order_and_the_columns_of_their_lines(tmp_path: Path) -> None:
    packed = pack_pictures(tmp_path)
    (tmp_path / "alone.jpg").write_bytes(PICTURE)
    names = [name for five in zip(*packed.values(), strict=True) for name in (*five, "alone.jpg")]
    # The first again: a line with other columns is another row.
    names.append(names[0])
    lines = [f"{name},{number}" for number, name in enumerate(names)]
    (tmp_path / "list.csv").write_text("\n".join(["path,number", *lines]))
    catalog = ff.scan(tmp_path / "list.csv", root=tmp_path, out=tmp_path / "cat.parquet")
    assert catalog.table["source"].to_pylist() == names
    assert catalog.table["number"].to_pylist() == list(range(len(names)))
    assert not len(catalog.errors)
    again = ff.scan(tmp_path / "list.csv", root=tmp_path, out=tmp_path / "cat.parquet")
    assert again.table.equals(catalog.table)


@pytest.mark.parametrize("container", ["x.tar", "x.zip", "x.parquet"])
def test_a_list_of_parts_by_url_asks_no_more_than_a_scan_of_their_container(container: str, tmp_path: Path) -> None:
    pytest.importorskip("urllib3", reason="objects are read by ranges with it")
    names = pack_pictures(tmp_path)[container]
    with faulty({f"/{container}": (tmp_path / container).read_bytes()}) as server:
        (tmp_path / "list.txt").write_text("\n".join(each.replace("::", f"::{server.url}/") for each in names))
        packed = ff.scan(f"{server.url}/{container}")
        asked = len(server.asked)
        listed = ff.scan(tmp_path / "list.txt")
        assert len(server.asked) - asked <= asked
    assert get_facts(listed).equals(get_facts(packed))


def test_a_root_that_is_no_member_is_a_row_among_others(archive: Path) -> None:
    catalog = ff.scan([f"tar://a.mp4::{archive}", f"tar://none.mp4::{archive}"])
    assert catalog.table["error_type"].to_pylist() == [None, "MissingMedia"]


def test_parts_inside_of_parts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "outer.tar").write_bytes(pack([("inner.tar", pack(MEDIA))]))
    for ask in (ff.probe, ff.VideoDecoder):
        with pytest.raises(ff.UnreadableMedia, match="unpack the inner one"):
            ask(f"tar://a.mp4::tar://inner.tar::{tmp_path}/outer.tar")


def zip_some() -> bytes:
    """A stored video and a compressed one, which cannot be read in place."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.mp4", VIDEO)
        archive.writestr("b.mp4", VIDEO, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def test_parts_that_failed_are_rows_with_frame_indexes_too(tmp_path: Path) -> None:
    (tmp_path / "z.zip").write_bytes(zip_some())
    catalog = ff.scan(tmp_path / "z.zip", depth="header")
    indexed = catalog.with_frame_indexes()
    assert get_facts(indexed).equals(get_facts(ff.scan(tmp_path / "z.zip")))
    assert [row.info is None for row in indexed] == [False, True]
    with pytest.raises(ff.UnreadableMedia, match="compressed with deflate"):
        indexed.media_source(1)


def test_parts_that_failed_in_an_archive_by_a_signed_url() -> None:
    pytest.importorskip("urllib3", reason="objects are read by ranges with it")
    with faulty({"/z.zip": zip_some()}) as server:
        catalog = ff.scan(f"{server.url}/z.zip?sig=0", depth="header")
        assert catalog.with_frame_indexes().table["error_type"].to_pylist() == [None, "UnreadableMedia"]
        assert {each.target for each in server.asked} == {"/z.zip?sig=0"}


def test_a_silent_server_costs_its_archive_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("urllib3", reason="objects are read by ranges with it")
    read_soundly = _archives._read_rows

    def read_silently(container: str, *arguments: Any) -> Any:
        with monkeypatch.context() as patch:
            if container.endswith("/a.tar"):
                patch.setattr(_stopping, "SILENCE_SECONDS", 0.3)
            return read_soundly(container, *arguments)

    monkeypatch.setattr(_archives, "_read_rows", read_silently)
    with faulty(ARCHIVES) as server:
        server.plan("/a.tar", *[Fault(before="head", end="stall")] * 9)
        catalog = ff.scan([f"{server.url}/a.tar", f"{server.url}/b.tar"], workers=1)
    assert catalog.table["error_type"].to_pylist() == ["DeadlineExceeded", None]


def test_archives_by_url_are_asked_for_at_once() -> None:
    pytest.importorskip("urllib3", reason="objects are read by ranges with it")
    with faulty(ARCHIVES) as server:
        server.hold_for = 2
        catalog = ff.scan([f"{server.url}/a.tar", f"{server.url}/b.tar"])
    assert not catalog.failures
    assert {each.target[:2] for each in server.asked[:2]} == {"/a", "/b"}


def test_an_error_that_this_scan_knows_is_not_that_of_an_interrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from framefeed.scanning import _scan

    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        for name in ("a.mp4", "b.mp4"):
            archive.writestr(name, VIDEO)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_scan, "build_catalog_data", stop)
        with pytest.raises(KeyboardInterrupt):
            ff.scan(tmp_path / "z.zip", out=tmp_path / "cat.parquet")
    (tmp_path / "z.zip").write_bytes(zip_some())
    catalog = ff.scan(tmp_path / "z.zip", out=tmp_path / "cat.parquet")
    assert catalog.table["error_type"].to_pylist() == [None, "UnreadableMedia"]


def test_parts_are_those_of_their_view_their_options_and_their_process(archive: Path) -> None:
    catalog = ff.scan(archive, out=archive.parent / "cat.parquet")
    parts = [catalog.media_source(row) for row in (0, 1, 2, 0, 1, 2)]
    assert [part.name for part in parts[:3]] == catalog.table["source"].to_pylist()
    assert [one is other for one, other in zip(parts[:3], parts[3:], strict=True)] == [True] * 3
    view = catalog.take([2, 0])
    assert [view.media_source(row).name for row in (0, 1, 0)] == [parts[row].name for row in (2, 0, 2)]
    again = pickle.loads(pickle.dumps(view))
    assert [again.media_source(row).head(9) for row in (0, 1)] == [parts[row].head(9) for row in (2, 0)]
    moved = archive.parent / "moved"
    moved.mkdir()
    rooted = ff.scan(archive, root=archive.parent, out=moved / "cat.parquet")
    archive.rename(moved / "x.tar")
    assert rooted.media_source(0).path == str(archive)
    assert ff.Catalog.open(moved / "cat.parquet").media_source(0).head(9) == VIDEO[:9]


def test_a_catalog_remembers_few_parts(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framefeed.catalog._catalog_rows._MOST_PARTS", 2)
    catalog = ff.scan(archive)
    for _ in range(3):
        names = [catalog.media_source(row).name for row in range(3)]
        assert names == catalog.table["source"].to_pylist()
        assert len(catalog._parts) <= 2

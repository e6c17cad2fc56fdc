"""Media in zip archives and Parquet files: their rows are those of the unpacked files, with the columns beside them."""

from __future__ import annotations

import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import framefeed as ff
from framefeed.errors import UsageError
from tests.judges import assert_same_arrays
from tests.lengths import sampled
from tests.packed import Members, choose_videos, get_facts, pack, read_frames
from tests.pictures.made import picture, saved
from tests.programs import run_python

MEDIA = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
PLAIN: dict[str, Any] = {"compression": "none", "use_dictionary": False}
WRITTEN: dict[str, dict[str, Any]] = {
    "plain": PLAIN,
    "pages of version 2": {**PLAIN, "data_page_version": "2.0"},
    "as pandas writes": {},
    "zstd": {"compression": "zstd", "use_dictionary": False},
}


def zip_media(path: Path, members: Members, method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("notes.txt", "no medium")
        for name, data in members:
            archive.writestr(name, data)
    return path


def write(path: Path, members: Members, kind: pa.DataType = MEDIA, columns: Any = None, **options: Any) -> Path:
    values = [{"bytes": data, "path": name} if kind == MEDIA else data for name, data in members]
    table = pa.table({"video": pa.array(values, kind)} | (columns or {}))
    pq.write_table(table, path, **{"row_group_size": 3} | options)
    return path


def assert_same(packed: ff.Catalog, unpacked: ff.Catalog) -> None:
    """Compare facts, failures and frames."""
    assert get_facts(packed).equals(get_facts(unpacked))
    assert_same_arrays(read_frames(packed), read_frames(unpacked))


def test_a_scan_of_a_zip_archive_is_that_of_the_unpacked_folder(media: Members, folder: Path, tmp_path: Path) -> None:
    packed = ff.scan(
        zip_media(tmp_path / "m.zip", media), label_from="parent", verify="full", out=tmp_path / "c.parquet"
    )
    unpacked = ff.scan(folder, label_from="parent", verify="full")
    assert_same(packed, unpacked)
    assert packed.shown_name(0) == f"zip://{media[0][0]}::{tmp_path / 'm.zip'}"
    assert_same(ff.Catalog.open(tmp_path / "c.parquet"), unpacked)


@pytest.mark.parametrize(
    ("kind", "written"),
    sampled(
        [(kind, written) for kind in (MEDIA, pa.binary()) for written in WRITTEN], lambda case: case[case[0] == MEDIA]
    ),
)
def test_a_scan_of_a_parquet_file_is_that_of_the_unpacked_files(
    written: str, kind: pa.DataType, media: Members, folder: Path, tmp_path: Path
) -> None:
    columns = {"label": [Path(name).parent.name for name, _ in media], "take": list(range(len(media)))}
    packed = ff.scan(
        write(tmp_path / "m.parquet", media, kind, columns, **WRITTEN[written]),
        verify="full",
        out=tmp_path / "c.parquet",
    )
    unpacked = ff.scan(folder, label_from="parent", verify="full")
    assert packed.table["take"].to_pylist() == list(range(len(media)))
    assert get_facts(packed).drop_columns("take").equals(get_facts(unpacked))
    for catalog in (packed, ff.Catalog.open(tmp_path / "c.parquet")):
        assert_same_arrays(read_frames(catalog), read_frames(unpacked))
    offsets = packed.table["source_offset"].to_pylist()
    assert all((offset >= 0) == ("plain" in written or "version 2" in written) for offset in offsets)


NAMES = ["zebra", "ant", "cat"]


def write_classes(path: Path, numbers: list[int | None], names: list[str] = NAMES) -> Path:
    """Write pictures with labels as ``datasets`` does."""
    features = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
    table = pa.table({"image": [{"bytes": saved(picture(), "JPEG"), "path": None}] * len(numbers), "label": numbers})
    known = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(known), path, **PLAIN)
    return path


def test_labels_with_names_keep_their_numbers(tmp_path: Path) -> None:
    numbers = [2, None, 0, -1, 2]
    catalog = ff.scan(write_classes(tmp_path / "c.parquet", numbers), out=tmp_path / "cat.parquet")
    assert catalog.table["label"].to_pylist() == ["cat", None, "zebra", None, "cat"]
    assert catalog.classes == ff.Catalog.open(tmp_path / "cat.parquet").classes == NAMES
    labelled = catalog.take([0, 2, 4])
    plan = ff.plan_clips(labelled, ff.Dense(1), seed=0, shuffle=False, size=(8, 8), columns=["label"])
    with ff.ClipLoader(plan, batch_size=3, workers=0) as loader:
        (batch,) = loader
    assert batch.columns["label"].tolist() == [2, 0, 2]
    again = ff.scan(tmp_path / "c.parquet", out=tmp_path / "cat.parquet")
    assert again.table.equals(catalog.table)


def test_labels_with_names_are_left_as_they_are_where_they_do_not_fit(tmp_path: Path) -> None:
    path = write_classes(tmp_path / "c.parquet", [2, 0])
    assert ff.scan(path, classes=[0, 1, 2]).table["label"].to_pylist() == [2, 0]
    assert ff.scan(write_classes(tmp_path / "twice.parquet", [1, 0], ["a", "a"])).classes == [0, 1]
    other = write_classes(tmp_path / "other.parquet", [0], ["bee"])
    assert ff.scan([path, other]).classes == ["bee", "cat", "zebra"]


def test_names_that_files_number_otherwise_are_sorted(tmp_path: Path) -> None:
    """And each order of one list of names alone is that of the file."""
    orders = [["cat", "dog", "ant"], ["dog", "ant", "cat"], ["ant", "dog", "cat"], ["dog", "cat", "ant"]]
    paths = [write_classes(tmp_path / f"{number}.parquet", [0, 1, 2], names) for number, names in enumerate(orders)]
    for first, path in enumerate(paths):
        assert ff.scan(path).classes == orders[first]
        for other in paths[:first]:
            assert ff.scan([path, other]).classes == ["ant", "cat", "dog"]
    assert ff.scan(paths).table["label"].to_pylist() == [name for names in orders for name in names]


def test_label_from_takes_the_folders_of_paths_beside_media_and_warns_where_it_is_not_used(tmp_path: Path) -> None:
    data = saved(picture(), "JPEG")

    def write_paths(*paths: str | None, **columns: Any) -> Path:
        images = [{"bytes": data, "path": path} for path in paths]
        pq.write_table(pa.table({"image": images, **columns}), tmp_path / "c.parquet", **PLAIN)
        return tmp_path / "c.parquet"

    catalog = ff.scan(write_paths("x/cat/1.jpg", "dog/2.jpg", "3.jpg", None), label_from="parent")
    assert catalog.table["label"].to_pylist() == ["cat", "dog", None, None]
    with pytest.warns(UserWarning, match=r"label_from gives no labels, because the paths beside the media"):
        plain = ff.scan(write_paths("1.jpg", None), label_from="parent")
    assert plain.table["label"].to_pylist() == [None, None]
    with pytest.warns(UserWarning, match=r"the column 'label', which goes before label_from"):
        labelled = ff.scan(write_paths("cat/1.jpg", "2.jpg", label=["a", None]), label_from="parent")
    assert labelled.table["label"].to_pylist() == ["a", None]
    path = write_paths("cat/1.jpg", label=["a"])
    other = ff.scan(path, label_from="parent", columns={"class": "label"})
    assert other.table["label"].to_pylist() == ["cat"]


@pytest.mark.parametrize("number", [3, -2])
def test_a_label_without_a_name_is_refused_and_kept_as_a_number(number: int, tmp_path: Path) -> None:
    path = write_classes(tmp_path / "c.parquet", [0, None, number, -1])
    with pytest.raises(UsageError, match=rf"c\.parquet: column 'label' has the class {number} in row 2 \(from 0\)"):
        ff.scan(path)
    renamed = ff.scan(path, columns={"class_number": "label"})
    assert renamed.table["class_number"].to_pylist() == [0, None, number, -1]
    numbered = ff.scan(path, classes=[-2, -1, 0, 3])
    assert numbered.table["label"].to_pylist() == [0, None, number, -1]


@pytest.mark.parametrize("written", WRITTEN)
def test_parts_open_by_their_names(written: str, media: Members, folder: Path, tmp_path: Path) -> None:
    name = choose_videos(media)[0][0]
    row = [each for each, _ in media].index(name)
    write(tmp_path / "m.parquet", media, **WRITTEN[written])
    zip_media(tmp_path / "m.zip", media)
    with ff.VideoDecoder(folder / name) as decoder:
        expected = np.stack([decoder[0], decoder[5]])
    for source in (f"parquet://video/{row}::{tmp_path}/m.parquet", f"zip://{name}::{tmp_path}/m.zip"):
        with ff.VideoDecoder(source) as decoder:
            np.testing.assert_array_equal(np.stack([decoder[0], decoder[5]]), expected)
        assert ff.build_index(source).identity.fingerprint == ff.build_index(folder / name).identity.fingerprint


def test_only_parts_of_parquet_files_load_arrow(media: Members, folder: Path, tmp_path: Path) -> None:
    name = choose_videos(media)[0][0]
    zip_media(tmp_path / "m.zip", media)
    sources = [str(folder / name), f"zip://{name}::{tmp_path}/m.zip"]
    decode = f"[ff.VideoDecoder(each)[0] for each in {sources}]"
    run = run_python("-c", f"import sys, framefeed as ff; {decode}; print('pyarrow' in sys.modules)")
    assert (run.stdout.strip(), run.stderr) == ("False", "")


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("zip://absent.mp4::{0}/m.zip", "has no member 'absent.mp4'"),
        ("parquet://video/99::{0}/m.parquet", "has no value 99 in a column 'video'"),
        ("parquet://absent/0::{0}/m.parquet", "has no value 0 in a column 'absent'"),
        ("parquet://video::{0}/m.parquet", "expected parquet://COLUMN/ROW::"),
        ("parquet://video/-1::{0}/m.parquet", "expected parquet://COLUMN/ROW::"),
    ],
)
def test_parts_that_are_not_there_are_missing(member: str, message: str, media: Members, tmp_path: Path) -> None:
    write(tmp_path / "m.parquet", media)
    zip_media(tmp_path / "m.zip", media)
    with pytest.raises(ff.MissingMedia, match=message):
        ff.VideoDecoder(member.format(tmp_path))


def test_compressed_members_are_rows_that_say_how_to_pack_them(media: Members, tmp_path: Path) -> None:
    path = zip_media(tmp_path / "m.zip", media, zipfile.ZIP_DEFLATED)
    catalog = ff.scan(path)
    assert len(catalog) == len(catalog.errors) == len(media)
    for error in catalog.table["error"].to_pylist():
        assert "is compressed with deflate" in error
        assert "zip -0 -r" in error
    with pytest.raises(ff.UnreadableMedia, match="is compressed with deflate"):
        ff.VideoDecoder(f"zip://{media[0][0]}::{path}")


def test_archives_files_and_tables_are_mixed(media: Members, folder: Path, tmp_path: Path) -> None:
    columns = {"label": ["x"] * len(media), "key": list(range(len(media)))}
    write(tmp_path / "a.parquet", media, columns=columns, **PLAIN)
    write(tmp_path / "b.parquet", media[:2], columns={"label": ["y"] * 2, "key": ["p", "q"]})
    zip_media(tmp_path / "m.zip", media)
    catalog = ff.scan([tmp_path / "*.parquet", tmp_path / "m.zip", folder])
    count = len(media)
    assert catalog.table["label"].to_pylist() == ["x"] * count + ["y"] * 2 + [None] * 2 * count
    assert catalog.table["key"].to_pylist()[: count + 2] == [*map(str, range(count)), "p", "q"]
    fingerprints = catalog.table["fingerprint"].to_pylist()
    assert fingerprints[:count] == fingerprints[count + 2 : 2 * count + 2] == fingerprints[2 * count + 2 :]


def test_a_folder_of_zip_archives_is_read_and_one_beside_media_is_not(media: Members, tmp_path: Path) -> None:
    zip_media(tmp_path / "m.zip", media)
    assert len(ff.scan(tmp_path)) == len(media)
    (tmp_path / "a.mp4").write_bytes(media[0][1])
    with pytest.warns(UserWarning, match="1 archive in folders with media"):
        assert len(ff.scan(tmp_path)) == 1


@pytest.mark.parametrize("names", [["a.parquet"], ["a.parquet", "train/b.parquet"]])
def test_a_folder_of_parquet_files_alone_says_which_pattern_reads_them(
    names: list[str], media: Members, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / "hf" / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / "hf" / name, media[:1])
    with pytest.warns(UserWarning, match=f"no media found in .*hf/, but {len(names)} Parquet files?, which") as caught:
        assert not len(ff.scan(f"{tmp_path}/hf/"))
    (pattern,) = re.findall(r'"(.*)"', str(caught[0].message))
    assert pattern == f"{tmp_path}/hf/**/*.parquet"
    assert len(ff.scan(pattern)) == len(names)


def test_where_bytes_are_null_the_path_is_read_relative_to_the_file(media: Members, folder: Path) -> None:
    values = [
        {"bytes": None, "path": media[0][0]},
        {"bytes": media[1][1], "path": "gone.mp4"},
        {"bytes": None, "path": None},
        None,
        {"bytes": None, "path": "gone.mp4"},
    ]
    pq.write_table(pa.table({"video": pa.array(values, MEDIA), "n": list(range(5))}), folder / "m.parquet")
    catalog = ff.scan(folder / "m.parquet")
    assert [catalog.shown_name(row) for row in (0, 1)] == [
        str(folder / media[0][0]), f"parquet://video/1::{folder}/m.parquet"]  # fmt: skip
    assert catalog.table["error_type"].to_pylist()[2:] == ["UnreadableMedia", "UnreadableMedia", "MissingMedia"]
    assert "is null, and has no path" in catalog.table["error"].to_pylist()[2]
    assert catalog.table["n"].to_pylist() == list(range(5))
    (folder.parent / "lists").mkdir()
    (folder / "m.parquet").rename(folder.parent / "lists" / "m.parquet")
    moved = ff.scan(folder.parent / "lists" / "m.parquet", root=folder)
    assert moved.shown_name(0) == catalog.shown_name(0)
    assert moved.table["error_type"].to_pylist() == catalog.table["error_type"].to_pylist()


def test_names_of_columns_are_those_of_lists(media: Members, tmp_path: Path) -> None:
    columns = {"class": ["a"] * len(media), "fingerprint": list(range(len(media)))}
    path = write(tmp_path / "m.parquet", media, columns=columns)
    for chosen in ({"media": "video", "label": "class"}, {"media": 0, "label": 1}):
        catalog = ff.scan(path, columns=chosen)
        assert catalog.table["label"].to_pylist() == ["a"] * len(media)
        assert catalog.table["manifest_fingerprint"].to_pylist() == list(range(len(media)))


def test_a_column_is_chosen_or_asked_for(media: Members, tmp_path: Path) -> None:
    count, other = len(media), pa.array([{"bytes": b"", "path": None}] * len(media), MEDIA)
    path = write(tmp_path / "m.parquet", media, columns={"depth": other})
    assert ff.scan(path).shown_name(0) == f"parquet://video/0::{path}"
    assert ff.scan(path, columns={"media": "depth"}).shown_name(0) == f"parquet://depth/0::{path}"
    two = pa.table({"left": other, "right": other, "n": list(range(count)), "many": [[b"x"]] * count})
    pq.write_table(two, tmp_path / "two.parquet")
    with pytest.raises(UsageError, match=r"'left', 'right' all hold media: say which one, as in columns="):
        ff.scan(tmp_path / "two.parquet")
    with pytest.raises(UsageError, match="column 'many' holds list"):
        ff.scan(tmp_path / "two.parquet", columns={"media": "many"})
    with pytest.raises(UsageError, match="it has no column 'absent'"):
        ff.scan(tmp_path / "two.parquet", columns={"media": "absent"})


def test_bytes_beside_paths_and_bytes_that_are_no_media_make_no_packed_file(media: Members, folder: Path) -> None:
    names = [name for name, _ in media]
    pq.write_table(pa.table({"path": names, "thumbnail": [data for _, data in media]}), folder / "list.parquet")
    catalog = ff.scan(folder / "list.parquet")
    assert catalog.shown_name(0) == str(folder / names[0])
    pq.write_table(pa.table({"clip": [name.encode() for name in names]}), folder / "names.parquet")
    assert ff.scan(folder / "names.parquet").shown_name(0) == str(folder / names[0])


def test_a_pattern_that_matches_lists_and_catalogs_has_their_errors(media: Members, folder: Path) -> None:
    pq.write_table(pa.table({"path": ["a.mp4"]}), folder / "a.parquet")
    ff.scan(folder / media[0][0], out=folder / "b.parquet")
    write(folder / "c.parquet", media[:1])
    (folder / "d.parquet").write_bytes(b"no parquet")
    catalog = ff.scan(f"{folder}/*.parquet")
    errors = catalog.table["error"].to_pylist()
    assert "has no column of media" in errors[0]
    assert "is a catalog, not a list of media" in errors[1]
    assert errors[2] is None
    assert "is no Parquet file" in errors[3]


@pytest.mark.parametrize("written", WRITTEN)
def test_a_container_that_is_replaced_is_stale(written: str, media: Members, tmp_path: Path) -> None:
    videos = choose_videos(media)[:2]
    path = write(tmp_path / "m.parquet", videos, **WRITTEN[written])
    catalog = ff.scan(path)
    write(path, videos, columns={"n": [1, 2]}, **WRITTEN[written])
    same = read_frames(catalog)
    assert len(same)
    write(path, videos[::-1], **WRITTEN[written])
    with pytest.raises(ff.StaleSource):
        read_frames(catalog)


def test_D09_a_replaced_file_whose_row_group_exceeds_the_limits_is_stale(media: Members, tmp_path: Path) -> None:
    videos = choose_videos(media)[:2]
    limits = ff.Limits(max_row_group_bytes=sum(len(data) for _, data in videos) + 10_000)
    path = write(tmp_path / "m.parquet", videos)
    catalog = ff.scan(path, limits=limits)
    write(path, [*videos, ("more", bytes(50_000))])
    for given in (limits, ff.Limits(max_row_group_bytes=1000)):
        with ff.VideoDecoder(catalog[-1], limits=given) as decoder, pytest.raises(ff.StaleSource, match="has changed"):
            decoder[0]


def write_columns(columns: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def replace_last(name: str, data: bytes, videos: Members, folder: Path) -> dict[str, bytes]:
    """Containers that may stand in place of one with two videos, and have other bytes as the last or none."""
    contents = {"text": b"text" * 99, "empty": b"", "cut": data[: len(data) // 2]}
    if name.endswith(".parquet"):
        contents["another column"] = write_columns({"film": pa.array([data for _, data in videos], pa.binary())})
        contents["another type"] = write_columns({"video": [1, 2]})
        contents["null"] = write_columns({"video": pa.array([videos[0][1], None], pa.binary())})
        contents["fewer rows"] = write(folder / "fewer", videos[:1]).read_bytes()
    else:
        contents["member gone"] = CONTAINERS[name](folder / "gone", videos[:1]).read_bytes()
    return contents


def write_tar(path: Path, members: Members) -> Path:
    path.write_bytes(pack(members))
    return path


CONTAINERS: dict[str, Callable[[Path, Members], Path]] = {"m.tar": write_tar, "m.zip": zip_media, "m.parquet": write}


@pytest.mark.parametrize("name", CONTAINERS)
def test_D09_media_that_a_replaced_container_has_no_more_are_stale(name: str, media: Members, tmp_path: Path) -> None:
    videos = choose_videos(media)[:2]
    path = CONTAINERS[name](tmp_path / name, videos)
    ff.scan(path, out=tmp_path / "c.parquet")
    for change, data in replace_last(name, path.read_bytes(), videos, tmp_path).items():
        path.write_bytes(data)
        catalog, message = ff.Catalog.open(tmp_path / "c.parquet"), f"{name}: the file has changed .*: scan or index it"
        with ff.VideoDecoder(catalog[-1]) as decoder, pytest.raises(ff.StaleSource, match=message):
            print(f"{change}: {decoder[0]}")


@pytest.mark.parametrize("kept", [{"row_group_size": 1}, PLAIN])
def test_D09_the_same_media_in_another_layout_are_read_on(kept: Any, media: Members, tmp_path: Path) -> None:
    videos = choose_videos(media)[:2]
    catalog = ff.scan(write(tmp_path / "m.parquet", videos))
    before = read_frames(catalog)
    write(tmp_path / "m.parquet", videos, **kept)
    assert_same_arrays(read_frames(catalog), before)


def test_a_second_scan_opens_nothing_that_has_not_changed(media: Members, tmp_path: Path) -> None:
    write(tmp_path / "m.parquet", media)
    zip_media(tmp_path / "m.zip", media)
    roots, out = [tmp_path / "m.parquet", tmp_path / "m.zip"], tmp_path / "c.parquet"
    first = ff.scan(roots, out=out)
    written = out.stat().st_mtime_ns
    assert ff.scan(roots, out=out).fingerprint == first.fingerprint
    assert out.stat().st_mtime_ns == written


def test_relative_containers_move_with_their_root(media: Members, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    zip_media(tmp_path / "data" / "m.zip", media)
    write(tmp_path / "data" / "m.parquet", media)
    roots = [tmp_path / "data" / "m.parquet", tmp_path / "data" / "m.zip"]
    first = ff.scan(roots, root=tmp_path / "data", out=tmp_path / "data" / "c.parquet")
    assert first.table["source"].to_pylist()[0] == "parquet://video/0::m.parquet"
    frames = read_frames(first)
    shutil.move(tmp_path / "data", tmp_path / "moved")
    moved = ff.Catalog.open(tmp_path / "moved" / "c.parquet")
    assert_same_arrays(read_frames(moved), frames)
    assert moved.shown_name(0) == f"parquet://video/0::{tmp_path}/moved/m.parquet"


def test_a_damaged_zip_is_a_row_with_its_error(media: Members, tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(media[0][0], media[0][1])
    (tmp_path / "cut.zip").write_bytes(data.getvalue()[:-30])
    zip_media(tmp_path / "m.zip", media)
    catalog = ff.scan([tmp_path / "cut.zip", tmp_path / "m.zip"])
    assert len(catalog) == 1 + len(media)
    assert "it is cut, or no zip archive" in catalog.table["error"][0].as_py()


def test_a_cut_parquet_file_among_others_is_a_row_with_its_error(media: Members, folder: Path, tmp_path: Path) -> None:
    whole = write(folder / "a.parquet", media, **PLAIN)
    cut = folder / "b.parquet"
    cut.write_bytes(whole.read_bytes()[:-100])
    for roots in ([whole, cut], folder / "*.parquet"):
        catalog = ff.scan(roots)
        assert (str(cut), "UnreadableMedia") in [failure[:2] for failure in catalog.failures]
        assert len(catalog) == len(media) + 1
    with pytest.raises(UsageError, match=r"b\.parquet: not readable as parquet"):
        ff.scan(cut)

"""Tables as lists: of pyarrow, pandas and polars, and single columns; rows without a path fail alone."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from framefeed.catalog import Catalog
from framefeed.errors import UsageError
from framefeed.scanning._scan import scan
from framefeed.testing import ClipSpec
from tests.corpus import clip_file

NAMES = ["a.mp4", "b/c.mp4"]


class Stream:
    """What other libraries give: only the export of a stream."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._data.__arrow_c_stream__(requested_schema)


@pytest.fixture
def media(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    video = clip_file("scan_5.mp4", ClipSpec(num_frames=5, height=48, width=64, gop=4)).read_bytes()
    (tmp_path / "b").mkdir()
    for name in NAMES:
        (tmp_path / name).write_bytes(video)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sources(catalog: Catalog) -> list[str]:
    assert catalog.failures == []
    return [str(catalog.source(row)) for row in range(len(catalog))]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(),
        pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint32(), pa.large_string()),
    ],
    ids=str,
)  # fmt: skip
def test_relative_paths_start_at_the_working_folder(media: Path, kind: pa.DataType) -> None:
    texts = list(map(os.fsencode, NAMES)) if "binary" in str(kind) else NAMES
    paths = pa.array(NAMES).dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else pa.array(texts, kind)
    table = pa.table({"path": paths, "label": [3, 4], "when": [dt.datetime(2024, 5, 1), None], "boxes": [[1, 2], []]})
    expected = [str(media / name) for name in NAMES]
    for given in (table, Stream(table), table.to_reader(), table.to_batches()[0]):
        made = scan(given, workers=0)
        assert sources(made) == expected
        assert made.table.column("label").to_pylist() == [3, 4]
        assert made.table.column("boxes").to_pylist() == [[1, 2], []]
        assert made.table.schema.field("when").type == pa.timestamp("us")


def test_relative_paths_start_at_the_root(media: Path) -> None:
    made = scan(pa.table({"path": ["c.mp4", str(media / "b" / "c.mp4")]}), root="b", workers=0)
    assert made.table.column("source").to_pylist() == ["c.mp4"]


@pytest.mark.parametrize("data", [pa.chunked_array([NAMES[:1], NAMES[1:]]), pa.array(NAMES)], ids=["chunks", "array"])
def test_one_column_is_a_list_of_paths(media: Path, data: Any) -> None:
    assert sources(scan(data, workers=0)) == [str(media / name) for name in NAMES]
    if isinstance(data, pa.ChunkedArray):
        assert len(scan(Stream(data), columns={"path": 0}, workers=0)) == 2


def test_columns_and_templates_are_as_for_files(media: Path) -> None:
    table = pa.table({"video": ["a", "b/c"], "kind": ["x", "y"], "clip": [1, 2], "width": [7, 8]})
    by_name = scan(table, columns={"label": "kind"}, path_template="{video}.mp4", workers=0)
    by_number = scan(table, columns={"label": 1}, path_template="{video}.mp4", workers=0)
    assert sources(by_name) == sources(by_number) == [str(media / name) for name in NAMES]
    assert by_name.classes == by_number.classes == ["x", "y"]
    assert by_name.table.column_names[-3:] == ["video", "clip", "manifest_width"]
    with pytest.raises(UsageError, match=r"no column 'kin': its columns are .*did you mean 'kind'"):
        scan(table, columns={"label": "kin"})


def test_a_row_without_a_path_fails_alone(media: Path) -> None:
    table = pa.table({"path": ["a.mp4", None, "", "b/c.mp4"], "label": ["x", "y", "z", "x"]})
    for out in (None, media / "cat.parquet", media / "cat.parquet"):
        made = scan(table, out=out, workers=0)
        assert made.table.column("label").to_pylist() == ["x", "y", "z", "x"]
        assert [(os.path.basename(name), kind) for name, kind, _ in made.failures] == [
            ("table row 1", "UnreadableMedia"), ("table row 2", "UnreadableMedia"),
        ]  # fmt: skip
        assert "row 1 (from 0): the path ('path') is missing" in made.failures[0][2]
    assert len(scan(pa.table({"path": pa.array([None], pa.string())}), workers=0).failures) == 1


def test_a_second_scan_of_a_table_opens_no_file(media: Path) -> None:
    table = pa.table({"path": NAMES, "label": [1, 2]})
    first = scan(table, out="cat.parquet", workers=0)
    written = (media / "cat.parquet").stat().st_mtime_ns
    again = scan(Stream(table), out="cat.parquet", workers=0)
    assert (again.fingerprint, (media / "cat.parquet").stat().st_mtime_ns) == (first.fingerprint, written)
    assert scan(first.table, workers=0).fingerprint == first.fingerprint, "the table of a catalog is one too"


def test_videos_of_hugging_face_are_known_by_their_paths(media: Path) -> None:
    videos = pa.array([{"bytes": None, "path": str(media / name)} for name in NAMES])
    assert sources(scan(pa.table({"video": videos, "label": [0, 1]}), workers=0)) == [
        str(media / name) for name in NAMES
    ]


def test_media_in_memory_are_refused_unless_their_paths_are_asked_for(media: Path) -> None:
    videos = pa.array([{"bytes": None, "path": NAMES[0]}, {"bytes": b"some", "path": NAMES[1]}])
    table = pa.table({"video": videos, "label": [0, 1]})
    with pytest.raises(UsageError, match=r"^table: column 'video' holds the bytes.*write_table\(.*scan that file; or"):
        scan(table)
    pq.write_table(table, "media.parquet", compression="none", use_dictionary=False)
    assert scan("media.parquet", workers=0).table["error_type"].to_pylist() == [None, "UnreadableMedia"]
    assert scan(table, workers=0, columns={"path": "video"}).table["error_type"].to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({}), "has no columns"),
        (pa.table({"x": [1, 2]}), "column 'x' holds int64, not paths"),
        (pa.table({"path": ["a.mp4"], "label": [["x"]]}), "column 'label' holds list"),
        (pa.Table.from_arrays([pa.array(["a.mp4"])] * 2, ["path", "path"]), "two columns have one name"),
        (
            pa.table({"path": ["a.mp4"], "x": pa.nulls(1, pa.month_day_nano_interval())}),
            "'x' holds .* leave the column out",
        ),
        (pa.table({"left": ["a.mp4"], "right": ["b.mp4"]}), "all hold names of media files"),
    ],
)
def test_a_table_that_is_no_list_is_refused(table: pa.Table, message: str) -> None:
    with pytest.raises(UsageError, match=f"^table: .*{message}"):
        scan(table)


def test_missing_files_of_a_table_are_rows_with_one_warning(media: Path) -> None:
    with pytest.warns(UserWarning, match=f"none of the listed files exists.*paths of {media}/table start at {media}; "):
        assert len(scan(pa.table({"path": ["no.mp4", "nothing.mp4"]}), workers=0).failures) == 2
    with pytest.warns(UserWarning, match="no media found in the table"):
        assert len(scan(pa.table({"path": pa.array([], pa.string())}), workers=0)) == 0


def test_tables_of_pandas(media: Path) -> None:
    pandas = pytest.importorskip("pandas", minversion="2.2")
    frame = pandas.DataFrame({"path": ["no.mp4", *NAMES], "label": [1, None, 2], "x": [0.5, 1.5, None]})
    made = scan(frame[1:], workers=0)
    assert sources(made) == [str(media / name) for name in NAMES]
    assert made.table.column("label").to_pylist() == [None, 2]
    assert made.table.column_names[-1] == "x", "and not the index of the rows"
    assert sources(scan(frame["path"][1:], workers=0)) == sources(made)


def test_tables_of_polars(media: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"path": NAMES, "label": ["x", "y"]})
    for given in (frame, frame.with_columns(polars.col("label").cast(polars.Categorical))):
        made = scan(given, workers=0)
        assert (sources(made), made.classes) == ([str(media / name) for name in NAMES], ["x", "y"])
    assert sources(scan(frame["path"], workers=0)) == sources(made)

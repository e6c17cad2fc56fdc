"""Text that is not UTF-8 in Parquet and tables, which Arrow does not check: an error that names row and column."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import framefeed as ff
from framefeed.errors import UsageError
from tests.pictures.made import picture, saved

PNG = saved(picture(width=8, height=8), "PNG")
ODD = r"row 1 \(from 0\): the text 'b\\udcff\.png' of column '{}' is not UTF-8: correct it"


TEXT, LARGE, VIEW = pa.string(), pa.large_string(), pa.string_view()
BINARY = {TEXT: pa.binary(), LARGE: pa.large_binary(), VIEW: pa.binary_view()}


def make_texts(kind: pa.DataType = TEXT) -> pa.Array:
    """Three texts, of which the second is not UTF-8."""
    values = pa.array([b"a.png", b"b\xff.png", b"c.png"], BINARY[kind])
    return pa.Array.from_buffers(kind, 3, values.buffers())


def make_struct(values: pa.Array, paths: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([values, paths], ["bytes", "path"])


PATHS = pa.array(["p.png"] * 3)
MEDIA = pa.array([PNG] * 3)
COLUMNS = {
    "text": make_texts(),
    "large text": make_texts(LARGE),
    "views": make_texts(VIEW),
    "lists": pa.ListArray.from_arrays([0, 1, 2, 3], make_texts()),
    "structs": pa.StructArray.from_arrays([make_texts()], ["x"]),
    "extension": pa.ExtensionArray.from_storage(pa.opaque(pa.string(), "x", "y"), make_texts())
    if hasattr(pa, "opaque") else make_texts(),
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "p.png").write_bytes(PNG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scan(table: pa.Table, *, is_file: bool, **options: object) -> ff.Catalog:
    if not is_file:
        return ff.scan(table, **options)  # type: ignore[arg-type]
    pq.write_table(table, "t.parquet", compression="none", use_dictionary=False)
    return ff.scan("t.parquet", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_file", [True, False])
@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_of_a_list_is_an_error(kind: str, is_file: bool) -> None:
    for name in ("caption", "label"):
        with pytest.raises(UsageError, match=ODD.format(name)):
            scan(pa.table({"path": PATHS, name: COLUMNS[kind]}), is_file=is_file)
    with pytest.raises(UsageError, match=ODD.format("path")):
        scan(pa.table({"path": COLUMNS[kind]}), is_file=is_file)
    with pytest.raises(UsageError, match=ODD.format("id")):
        scan(pa.table({"id": COLUMNS[kind], "n": [1, 2, 3]}), is_file=is_file, path_template="{id}.png")
    with pytest.raises(UsageError, match=ODD.format("old")):
        scan(pa.table({"path": PATHS, "old": COLUMNS[kind]}), is_file=is_file, columns={"new": "old"})


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_beside_media_is_an_error(kind: str) -> None:
    for name in ("caption", "label"):
        with pytest.raises(UsageError, match=ODD.format(name)) as caught:
            scan(pa.table({"image": make_struct(MEDIA, PATHS), name: COLUMNS[kind]}), is_file=True)
        assert "t.parquet" in str(caught.value)


def test_dictionaries_are_checked_where_they_are_used() -> None:
    texts = make_texts()
    table = pa.table({"path": ["p.png"] * 2, "n": [1, 2], "x": pa.DictionaryArray.from_arrays([0, 1], texts)})
    with pytest.raises(UsageError, match=ODD.format("x")):
        ff.scan(table)
    table = table.set_column(2, "x", pa.DictionaryArray.from_arrays([0, 2], texts))
    assert ff.scan(table).table["x"].to_pylist() == ["a.png", "c.png"]


@pytest.mark.filterwarnings("ignore:.*label_from gives no labels")
@pytest.mark.parametrize("kind", [TEXT, LARGE], ids=str)
def test_paths_beside_media_are_names_of_files_of_any_bytes(folder: Path, kind: pa.DataType) -> None:
    catalog = scan(pa.table({"image": make_struct(MEDIA, make_texts(kind))}), is_file=True, label_from="parent")
    assert len(catalog.usable_rows) == 3
    (folder / os.fsdecode(b"b\xff.png")).write_bytes(PNG)
    catalog = scan(pa.table({"image": make_struct(pa.array([None] * 3, pa.binary()), make_texts(kind))}), is_file=True)
    assert catalog.usable_rows.tolist() == [1]


@pytest.mark.filterwarnings("ignore:.*label_from gives no labels")
@pytest.mark.parametrize("paths", [pa.array([1, 2, 3]), pa.StructArray.from_arrays([PATHS], ["x"])])
def test_paths_beside_media_that_are_no_text_are_none(paths: pa.Array) -> None:
    catalog = scan(pa.table({"image": make_struct(MEDIA, paths)}), is_file=True, label_from="parent")
    assert len(catalog.usable_rows) == 3
    nulls = pa.array([PNG, None, PNG])
    catalog = scan(pa.table({"image": make_struct(nulls, paths)}), is_file=True)
    assert "has no path" in str(catalog.error(1))


def test_a_name_of_a_column_is_an_error() -> None:
    fields = [pa.field("path", pa.string()), pa.field(b"\xff", pa.string())]
    for is_file in (True, False):
        with pytest.raises(UsageError, match="can't decode byte 0xff"):
            scan(pa.table([PATHS, PATHS], schema=pa.schema(fields)), is_file=is_file)
    fields[0] = pa.field("image", make_struct(MEDIA, PATHS).type)
    pq.write_table(pa.table([make_struct(MEDIA, PATHS), PATHS], schema=pa.schema(fields)), "t.parquet")
    catalog = ff.scan("*.parquet")
    assert "cannot be read as Parquet" in str(catalog.error(0))


def test_a_catalog_with_such_text_is_not_readable() -> None:
    ff.scan("p.png", out="c.parquet")
    table = pq.read_table("c.parquet")
    pq.write_table(table.append_column("caption", make_texts().slice(1, 1)), "c.parquet")
    catalog = ff.Catalog.open("c.parquet")
    with pytest.raises(ff.UnreadableMedia, match=r"column caption: the text 'b\\udcff\.png' in row 0 is not UTF-8"):
        catalog.table  # noqa: B018
    fields = [*table.schema, pa.field(b"\xff", pa.string())]
    schema = pa.schema(fields, table.schema.metadata)
    pq.write_table(pa.table([*table.columns, make_texts().slice(0, 1)], schema=schema), "c.parquet")
    with pytest.raises(ff.UnreadableMedia, match="not readable as a catalog"):
        ff.Catalog.open("c.parquet")


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.StructArray.from_arrays([make_struct(MEDIA, PATHS)], ["inner"]), "none within another one"),
        (pa.ListArray.from_arrays([0, 1, 2, 3], make_struct(MEDIA, PATHS)), "lists of media in one row are not read"),
        (pa.array([1, 2, 3]), "holds int64, not paths: name the column"),
    ],
)
def test_columns_that_are_no_paths_say_why(column: pa.Array, reason: str) -> None:
    for is_file in (True, False):
        with pytest.raises(UsageError, match=reason):
            scan(pa.table({"image": column}), is_file=is_file)

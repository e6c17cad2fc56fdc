"""Values that are read through Arrow obey the limits of the caller, and open again under the limits of their scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import framefeed as ff
from framefeed.catalog import _packed_values
from framefeed.catalog._catalog_rows import _read_limits
from framefeed.decode.backends.pyav import PyAVDecoder
from tests.packed import Members, choose_videos, make_media

MEDIA = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
SMALL, LARGE = ff.Limits(max_row_group_bytes=1000), ff.Limits(max_row_group_bytes=2**31)
OTHER = ff.Limits(max_pixels=2**20)
# More than the default, and less than LARGE.
CLAIMED = 2**30 + 2**20


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Members:
    members = make_media(tmp_path_factory.mktemp("media"))
    return [*choose_videos(members)[:2], *(each for each in members if each[0].endswith(".png"))]


@pytest.fixture
def path(media: Members, tmp_path: Path) -> Path:
    return write(tmp_path / "m.parquet", media)


@pytest.fixture
def claims_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each row group claim more media than the default limit."""
    original = _packed_values.read_column_chunks

    def claim(*args: Any) -> Any:
        return [chunk._replace(unpacked=CLAIMED) for chunk in original(*args)]

    monkeypatch.setattr(_packed_values, "read_column_chunks", claim)


def write(path: Path, media: Members, **options: Any) -> Path:
    values = [{"bytes": data, "path": name} for name, data in media]
    pq.write_table(pa.table({"video": pa.array(values, MEDIA)}), path, **{"row_group_size": 8} | options)
    return path


def load(catalog: ff.Catalog, **options: Any) -> int:
    """Read a clip of each row; return the number of clips."""
    plan = ff.plan_clips(catalog, ff.Uniform(2), size=(16, 16), seed=0)
    with ff.ClipLoader(plan, batch_size=2, workers=0, **options) as loader:
        return sum(len(batch.data) for batch in loader)


def has_only_limit_errors(catalog: ff.Catalog) -> bool:
    errors = catalog.table["error"].to_pylist()
    return len(errors) > 0 and all(error is not None and "max_row_group_bytes=" in error for error in errors)


def decode(source: Any, **options: Any) -> None:
    with ff.VideoDecoder(source, **options) as decoder:
        decoder[0]


@pytest.mark.parametrize("limits", [None, ff.Limits(), OTHER, LARGE])
@pytest.mark.usefixtures("claims_much")
def test_what_a_scan_accepted_is_read_without_its_limits(limits: ff.Limits | None, path: Path, tmp_path: Path) -> None:
    assert has_only_limit_errors(ff.scan(path))
    ff.scan(path, limits=LARGE, out=tmp_path / "cat.parquet")
    catalog = ff.Catalog.open(tmp_path / "cat.parquet")
    assert not len(catalog.errors)
    assert load(catalog, limits=limits) == len(catalog)
    for entry in catalog:
        decode(entry, limits=limits)
        ff.probe(entry, limits=limits)
        ff.build_index(entry, limits=limits)
    assert catalog.verify().ok


@pytest.mark.usefixtures("claims_much")
def test_indexes_that_are_added_under_the_default_limits_have_the_errors_of_these(path: Path) -> None:
    catalog = ff.scan(path, depth="header", limits=LARGE)
    assert not len(catalog.errors)
    assert has_only_limit_errors(catalog.with_frame_indexes())
    assert load(catalog.with_frame_indexes(limits=LARGE)) == len(catalog)


@pytest.mark.usefixtures("claims_much")
def test_a_value_that_is_opened_by_its_name_obeys_the_limits_of_the_call(path: Path, media: Members) -> None:
    for row in range(len(media)):
        name = f"parquet://video/{row}::{path}"
        for call in (decode, ff.probe, ff.build_index):
            with pytest.raises(ff.LimitExceeded, match="max_row_group_bytes=1073741824"):
                call(name)
            call(name, limits=LARGE)


def test_a_smaller_limit_is_obeyed_also_by_what_is_in_memory(path: Path) -> None:
    catalog = ff.scan(path)
    assert load(catalog) == len(catalog)
    with pytest.raises(ff.LimitExceeded, match="max_row_group_bytes=1000"):
        load(catalog, limits=SMALL)
    with pytest.raises(ff.LimitExceeded, match="max_row_group_bytes=1000"):
        load(catalog[:2], backend=PyAVDecoder(limits=SMALL))
    for entry in catalog:
        decode(entry)
        for call in (decode, ff.probe, ff.build_index):
            with pytest.raises(ff.LimitExceeded, match="max_row_group_bytes=1000"):
                call(entry, limits=SMALL)
        decode(entry)


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        (repr(ff.Limits(max_row_group_bytes=1000, max_members=2**30)), ff.Limits(max_members=2**30)),
        ("Limits(max_side=20000)", ff.Limits(max_side=20_000)),
        ("", ff.Limits()),
        (f"Limits(max_side={'9' * 5000}, max_other=3, max_streams=-1", ff.Limits()),
    ],
)
def test_limits_of_a_scan_raise_the_defaults_and_lower_none(text: str, limits: ff.Limits) -> None:
    assert _read_limits(text) == limits

"""docs/formats.md names the versions, columns and limits of the code, so that a changed format changes its page."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pyarrow as pa

import framefeed as ff
from framefeed.cache import KEY_VERSION, StoreOptions, known_codecs
from framefeed.cache._keys import Recipe, make_key
from framefeed.cache.store import _format
from framefeed.catalog import FACTS, FORMAT, NUMBERS, PLAN_COLUMNS, CatalogHeader
from framefeed.catalog import SCHEMA as FRAMES_SCHEMA
from framefeed.index import BuiltFrom, StreamFacts, TimesFrom
from framefeed.load._state import STATE_VERSION as LOADER_VERSION
from framefeed.media import SourceIdentity
from framefeed.plan import STATE_VERSION as PLAN_VERSION
from framefeed.scanning import JOURNALED
from framefeed.testing import make_folder

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "formats.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())


def table(section: str, number: int = 0) -> list[list[str]]:
    """Rows of a table under a heading, without its header; cells without their outer backquotes."""
    under = re.split(rf"^#+ {re.escape(section)}$", PAGE, flags=re.M)[1]
    block = re.findall(r"(?:^\|.*\|\n)+", re.split(r"^#+ ", under, maxsplit=1, flags=re.M)[0], re.M)[number]
    return [[cell.strip().strip("`") for cell in line[1:-1].split(" | ")] for line in block.splitlines()[2:]]


def first_cells(section: str, number: int = 0) -> list[str]:
    return [row[0] for row in table(section, number)]


def columns(section: str, number: int = 0) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in table(section, number)]


def written(schema: pa.Schema | pa.StructType) -> list[tuple[str, str]]:
    return [(each.name, str(each.type).replace(", ordered=0", "")) for each in schema]


def listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def test_versions_are_those_of_the_code() -> None:
    assert [row[:2] for row in table("Files and versions", 1)] == [
        ["catalog file and frame tables", str(FORMAT)],
        ["journal", str(FORMAT)],
        ["cache segment", str(_format.FORMAT)],
        ["cache key", str(KEY_VERSION)],
        ["state of a loader", str(LOADER_VERSION)],
        ["state of a plan", str(PLAN_VERSION)],
    ]


def test_columns_of_a_catalog_are_those_of_the_code() -> None:
    assert columns("Catalog file: cat.parquet") == written(pa.schema(FACTS))
    assert JOURNALED.names == [name for name in FACTS if name not in ("label", "framefeed_proxy")]
    metadata = table("Metadata of the schema")
    assert [row[0] for row in metadata] == [field.name for field in fields(CatalogHeader)]
    assert metadata[-1] == ["format", "integer", str(FORMAT)]


def test_facts_of_frame_tables_are_those_of_the_code() -> None:
    assert columns("Frame tables: cat.frames.arrow") == [*written(FRAMES_SCHEMA), ("plan_columns", "list")]
    assert columns("Frame tables: cat.frames.arrow", 1) == written(PLAN_COLUMNS)
    numbers = list(NUMBERS.names or ())
    assert f"one after the other: {listed(numbers)}." in TEXT
    others = [field.name for field in fields(StreamFacts) if field.name not in numbers]
    texts = [name for name in others if not name.startswith("shown_")]
    assert f"only with flag 256: {' and '.join(map(listed, ([each] for each in others[len(texts) :])))}" in TEXT
    assert f"| bytes | {listed(texts)}, fingerprint |" in TEXT
    for names in (get_args(BuiltFrom), get_args(TimesFrom)):
        assert ", ".join(f"{number} `{name}`" for number, name in enumerate(names)) in TEXT


def test_segments_of_a_cache_are_those_of_the_code() -> None:
    header, row = _format.HEADER, _format.ROW
    assert columns("A segment") == [(name, str(header[name].itemsize)) for name in header.names or ()]
    assert columns("A segment", 1) == [(name, row[name].name) for name in row.names or ()]
    limits = [int(line[1]) for line in table("A segment", 3)]
    formats = _format
    in_a_segment = [formats.MAX_ROWS, formats.MAX_KINDS_BYTES, formats.MAX_TEXTS_BYTES, formats.MAX_FRAME_BYTES]
    assert limits == [*in_a_segment, StoreOptions().segment_bytes]
    assert f"8 rows of {row.itemsize} bytes" in TEXT
    assert f"| | {header.itemsize} | 8 rows" in TEXT
    names = re.findall(r"`(\w+)", " ".join(f"`{cell}" for cell in first_cells("Labels and bytes of codecs")))
    assert set(names) == set(known_codecs())
    stream = StreamFacts(0, "mp4", "h264", None, 16, 16, "yuv420p")
    described = json.loads(make_key(SourceIdentity(1, None, "0"), stream, Recipe("planes", None, "pyav")).description)
    assert sorted(first_cells("Keys")) == sorted(described)


def test_fields_of_checkpoints_are_those_of_the_code(tmp_path: Path) -> None:
    make_folder(tmp_path / "videos", videos_per_class=1, seconds=1.0)
    plan = ff.plan_clips(ff.scan(tmp_path / "videos", workers=0), ff.Uniform(2), seed=0)
    with ff.ClipLoader(plan, batch_size=1, workers=0) as loader:
        state = loader.state_dict()
    assert first_cells("Checkpoints") == list(state)
    assert first_cells("Checkpoints", 1) == list(state["plan"])

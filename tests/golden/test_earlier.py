"""What commit c6d7a09f wrote still opens: its catalog and its caches; the states of its loaders are refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import framefeed as ff
from tests.golden.earlier import (
    CACHES,
    CATALOG,
    EPOCH,
    FOLDER,
    LOADERS,
    STATES,
    STEPS,
    libraries,
    open_catalog,
    open_loader,
    open_torch_loader,
    plan_earlier,
    write,
)

SAVED = json.loads((FOLDER / STATES).read_text(encoding="utf-8"))
OF_THIS_RUN = ["mtime_ns", "error"]
ADDED = {"catalog.parquet: framefeed/rules"}
"""Names that are written since then. None is taken away: older versions look for it."""


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A copy, as private as a cache makes its files."""
    folder = tmp_path / "earlier"
    shutil.copytree(FOLDER, folder, copy_function=shutil.copyfile)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return folder


def _clips(batches: Any) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        for slot, position in enumerate(batch.positions.tolist()):
            yield position, batch.data[slot].tobytes(), batch.pts_seconds[slot].tobytes(), batch.columns["label"][slot]


def test_the_rows_of_a_catalog_are_those_of_a_scan(earlier: Path) -> None:
    catalog = open_catalog(earlier)
    scanned = ff.scan(earlier / "media", label_from="parent", root=earlier, workers=1)
    tables = [each.table.drop_columns(OF_THIS_RUN).to_pylist() for each in (catalog, scanned)]
    assert tables[0] == tables[1]
    assert [bool(row["error_type"]) for row in tables[0]] == [True, False, False, False, False, False]
    for entry, again in zip(catalog, scanned, strict=True):
        index, now = entry.frame_index, again.frame_index
        assert (index is None) == (now is None)
        if index is not None and now is not None:
            for name in ("pts", "duration", "key_frame_indices", "damaged_frame_indices"):
                assert np.array_equal(getattr(index, name), getattr(now, name))
            assert (index.time_base, index.built_from, index.times_from) == (
                now.time_base, now.built_from, now.times_from
            )  # fmt: skip


def test_a_scan_takes_the_rows_of_a_catalog_over(earlier: Path) -> None:
    before = open_catalog(earlier).table.drop_columns(OF_THIS_RUN)
    again = ff.scan(earlier / "media", out=earlier / "catalog.parquet", label_from="parent", root=earlier, workers=1)
    assert again.table.drop_columns(OF_THIS_RUN).equals(before)


@pytest.mark.parametrize("codec_now", ["the same", "auto"])
@pytest.mark.parametrize("codec", CACHES)
def test_frames_of_a_cache_are_found_and_those_that_are_decoded(codec: str, codec_now: str, earlier: Path) -> None:
    catalog = open_catalog(earlier)
    form: Any = CACHES[codec]
    with ff.ClipLoader(plan_earlier(catalog), batch_size=2, workers=0) as loader:
        decoded = list(_clips(loader))
    cache = ff.FrameCache(earlier / codec, codec=codec if codec_now == "the same" else "auto", form=form)
    with ff.ClipLoader(plan_earlier(catalog), batch_size=2, workers=0, cache=cache) as loader:
        cached = list(_clips(loader))
        stats = loader.stats().cache
    cache.close()
    assert cached == decoded
    assert stats is not None
    assert stats.frames_hit + stats.frames_missed == 2 * len(decoded)
    if libraries() == SAVED["libraries"]:
        assert (stats.frames_missed, stats.frames_outdated, stats.frames_damaged) == (0, 0, 0)


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_delivers_what_it_delivered(name: str, earlier: Path) -> None:
    plan = plan_earlier(open_catalog(earlier), **LOADERS[name]).with_epoch(EPOCH)
    with ff.ClipLoader(plan, batch_size=2, workers=0) as loader:
        assert [batch.positions.tolist() for batch in loader] == SAVED[name]["batches"]


@pytest.mark.parametrize("name", LOADERS)
def test_the_state_of_an_earlier_version_is_refused(name: str, earlier: Path) -> None:
    state = SAVED[name]["state"]
    said = "expected version 3 of a plan's state, got version 2"
    with open_loader(earlier, name) as loader:
        with pytest.raises(ff.UsageError, match=said):
            loader.load_state_dict(state)
        with pytest.raises(ff.UsageError, match=said):
            loader.plan.with_state(state["plan"])
        assert loader.epoch == 0


def test_torchs_loader_goes_on_where_a_state_was_saved(earlier: Path) -> None:
    pytest.importorskip("torch")
    whole = list(open_torch_loader(earlier))
    loader = open_torch_loader(earlier)
    loader.load_state_dict(SAVED["torch"]["state"])
    resumed = list(loader)
    assert len(resumed) == len(whole) - STEPS > 0
    for (clips, targets), (expected, labels) in zip(resumed, whole[STEPS:], strict=True):
        assert clips.equal(expected)
        assert targets.equal(labels)


def _keys(value: Any, path: str) -> Iterator[str]:
    """Yield the keys of a JSON document, each with those above it."""
    for key, item in value.items() if isinstance(value, dict) else ():
        yield f"{path}{key}"
        yield from _keys(item, f"{path}{key}/")


def _names(folder: Path) -> set[str]:
    """List what readers look for by name: files, columns, keys, and what the files of a cache begin with."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    names = {re.sub("[0-9a-f]{32}", "ID", str(path.relative_to(folder))) for path in files}
    names |= {f"{path.parent.name}/*{path.suffix}: {path.read_bytes()[:8]!r}" for path in folder.glob("*/frames-*")}
    with pa.memory_map(str(folder / "catalog.frames.arrow")) as file:
        schemas = {CATALOG: pq.read_schema(folder / CATALOG), "catalog.frames.arrow": pa.ipc.open_file(file).schema}
    documents: list[tuple[str, Any]] = []
    for name, schema in schemas.items():
        names |= {f"{name}: {column.name} {column.type}" for column in schema}
        texts = {key.decode(): text for key, text in schema.metadata.items()}
        names |= {f"{name}: {key}" for key in texts}
        documents += [(f"{name}: {key}/", json.loads(text)) for key, text in texts.items() if text.startswith(b"{")]
    for codec in CACHES:
        with ff.FrameCache(folder / codec) as cache:
            documents += [(f"{codec}: ", json.loads(text)) for text in cache.info().descriptions.values()]
    return names | {key for name, document in documents for key in _keys(document, name)}


def test_what_is_written_has_the_names_that_older_versions_look_for(earlier: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    shutil.copytree(earlier / "media", tmp_path / "now" / "media")
    write(tmp_path / "now")
    assert _names(tmp_path / "now") == _names(earlier) | ADDED

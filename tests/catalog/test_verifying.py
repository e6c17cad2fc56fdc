"""Catalog.verify reports changed files, but not moved ones; and catalogs that move with their data."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from framefeed.catalog import _verifying
from framefeed.catalog._assembly import ListedRows, assemble_rows
from framefeed.catalog._catalog import Catalog
from framefeed.catalog._survey import SurveyOptions, survey
from framefeed.errors import FramefeedError, MissingDependency, ResourceExhausted, UsageError
from framefeed.index import FrameIndex
from framefeed.scanning import scan
from tests.corpus import corpus_file
from tests.damaged import damaged_clip

CLIPS = ("open_gop.mp4", "vfr.mkv", "bframes_4.mp4", "edit_list.mp4", "mpeg4_bframes.avi")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in CLIPS:
        shutil.copy(corpus_file(name), folder)
    Image.new("RGB", (40, 30)).save(folder / "still.png")
    return folder


def scanned(data: Path, **options: Any) -> Catalog:
    return scan(data, out=data / "cat.parquet", root=data, **options)


@pytest.mark.parametrize("depth", ["frames", "header"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_sound_catalog_is_ok(data: Path, depth: Any, workers: int) -> None:
    (data / "broken.mp4").write_text("no video")
    made = scanned(data, depth=depth)
    result = made.verify(workers=workers)
    assert (result.ok, result.checked, result.differences, result.errors) == (True, 6, (), ())
    assert "6 checked" in repr(result)


def test_a_swapped_file_is_found(data: Path) -> None:
    for depth in ("frames", "header"):
        made = scanned(data, depth=depth)  # type: ignore[arg-type]
        before = (data / CLIPS[0]).read_bytes()
        shutil.copy(corpus_file("closed_gop.ts"), data / CLIPS[0])
        result = made.verify()
        assert not result.ok
        assert [(found.source, found.what) for found in result.differences] == [(str(data / CLIPS[0]), "file")]
        (data / CLIPS[0]).write_bytes(before)
        (data / "cat.parquet").unlink()


def test_one_changed_byte_under_the_old_time_is_found(data: Path) -> None:
    made = scanned(data)
    facts = os.stat(data / "still.png")
    content = bytearray((data / "still.png").read_bytes())
    content[19] ^= 1  # the width
    (data / "still.png").write_bytes(content)
    os.utime(data / "still.png", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    result = made.verify()
    assert {each.source for each in (*result.differences, *result.errors)} == {str(data / "still.png")}


def test_a_file_that_is_gone_or_no_video_any_more_is_an_error(data: Path) -> None:
    made = scanned(data)
    (data / CLIPS[1]).unlink()
    result = made.verify()
    assert [(failure.source, failure.error.split(":")[0]) for failure in result.errors] == [
        (str(data / CLIPS[1]), "MissingMedia")
    ]
    assert (result.ok, result.differences) == (False, ())


@pytest.mark.parametrize("kind", [UsageError, MissingDependency, ResourceExhausted])
@pytest.mark.parametrize("workers", [0, 2])
def test_what_says_nothing_about_a_file_is_raised(
    kind: type[FramefeedError], workers: int, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scanned(data)

    def fail(*_: object, **__: object) -> None:
        raise kind("pip install a-plug-in")

    monkeypatch.setattr(_verifying, "index_media", fail)
    with pytest.raises(kind, match="pip install a-plug-in"):
        made.verify(workers=workers)


def one_less(index: FrameIndex) -> FrameIndex:
    columns = ("pts", "duration", "frame_packet", "frame_start")
    keys = index.key_frame_indices
    return replace(
        index, **{name: getattr(index, name)[:-1].copy() for name in columns},
        key_frame_indices=keys[keys < len(index) - 1].copy(),
    )  # fmt: skip


def raised(column: np.ndarray, at: int, by: int = 1) -> np.ndarray:
    """A copy with another number at one place."""
    changed = column.copy()
    changed[at] += by
    return changed


def other_packet(index: FrameIndex) -> FrameIndex:
    packets = index.frame_packet.copy()
    packets[[1, 2]] = packets[[2, 1]]
    return replace(index, frame_packet=packets)


def moved_packet(index: FrameIndex, name: str, at: int, by: int) -> FrameIndex:
    return replace(index, packets=replace(index.packets, **{name: raised(getattr(index.packets, name), at, by)}))


def packet_less(index: FrameIndex) -> FrameIndex:
    packets = index.packets
    columns = {name: getattr(packets, name)[:-1].copy() for name in ("offset", "size", "pts", "flags")}
    return replace(
        index, packets=type(packets)(**columns), frame_packet=np.minimum(index.frame_packet, len(packets) - 2),
        frame_start=np.minimum(index.frame_start, len(packets) - 2),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("falsify", "what"),
    [
        (one_less, "frames"),
        (lambda index: replace(index, pts=raised(index.pts, 3)), "pts"),
        (other_packet, "frame_packet"),
        (lambda index: moved_packet(index, "offset", 2, 4), "packets"),
        (lambda index: moved_packet(index, "size", 3, -1), "packets"),
        (lambda index: moved_packet(index, "pts", 4, 1), "packets"),
        (packet_less, "packets"),
        (lambda index: replace(index, time_base=index.time_base * 2), "time_base"),
    ],
    ids=["one_less", "later", "other_packet", "moved_packet", "other_size", "later_packet", "packet_less", "slower"],
)
def test_falsified_tables_are_found(
    data: Path, falsify: Callable[[FrameIndex], FrameIndex], what: str, tmp_path: Path
) -> None:
    paths = [os.fspath(data / name) for name in CLIPS[:3]]
    findings = [survey(path, SurveyOptions()) for path in paths]
    index = findings[1].index
    assert index is not None
    findings[1] = replace(findings[1], index=falsify(index))
    made = assemble_rows(ListedRows(pa.array(paths)), findings, SurveyOptions())
    Catalog(made).to_parquet(tmp_path / "cat.parquet")
    result = Catalog.open(tmp_path / "cat.parquet").verify()
    assert {(found.source, found.what) for found in result.differences} == {(paths[1], what)}
    assert result.errors == ()


def test_D01_marks_of_damage_are_compared_where_both_know_them(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "a.mp4")
    shutil.copy(damaged_clip("damage.mp4", (12, 13, 14, 15, 16, 30)), path)
    finding = survey(path, SurveyOptions(verify="full"))
    assert finding.index is not None
    less = replace(finding.index, damaged_frame_indices=finding.index.damaged_frame_indices[1:].copy())
    unknown = survey(path, SurveyOptions(verify="none")).index
    assert unknown is not None
    for index, differences in ((finding.index, []), (less, ["damaged"]), (unknown, [])):
        changed = replace(finding, index=index)
        result = Catalog(assemble_rows(ListedRows(pa.array([path])), [changed], SurveyOptions())).verify()
        assert [difference.what for difference in result.differences] == differences


def test_a_falsified_column_is_found(data: Path, tmp_path: Path) -> None:
    path = os.fspath(data / CLIPS[0])
    finding = survey(path, SurveyOptions())
    assert finding.info is not None
    false = replace(finding, info=replace(finding.info, width=63, codec="hevc"))
    made = Catalog(assemble_rows(ListedRows(pa.array([path])), [false], SurveyOptions()))
    result = made.verify()
    assert [(found.what, found.expected) for found in result.differences] == [("codec", "hevc"), ("width", "63")]


def test_damaged_frame_tables_are_errors(data: Path) -> None:
    made = scanned(data)
    extradata = made.frame_index(0).stream.extradata
    assert extradata
    file = data / "cat.frames.arrow"
    file.write_bytes(file.read_bytes().replace(extradata, bytes(len(extradata)), 1))
    result = Catalog.open(data / "cat.parquet").verify()
    assert [failure.error.split(":")[0] for failure in result.errors] == ["UnreadableMedia"]


def test_samples_are_drawn_by_seed(data: Path) -> None:
    made = scanned(data, depth="header")
    assert [made.verify(sample).checked for sample in (0, 2, 99, 0.0, 0.01, 0.5, 1.0)] == [0, 2, 6, 0, 1, 3, 6]
    (data / CLIPS[2]).unlink()
    outcomes = [made.verify(3, seed=seed).ok for seed in range(20)]
    assert outcomes == [made.verify(3, seed=seed).ok for seed in range(20)]
    assert 3 < sum(outcomes) < 17
    for wrong in (-1, 1.5, -0.1, "all", True):
        with pytest.raises(UsageError, match="sample"):
            made.verify(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="workers"):
        made.verify(workers=-1)


# --- catalogs that move -----------------------------------------------------------------------------


def test_a_catalog_moves_with_its_data(data: Path, tmp_path: Path) -> None:
    before = scanned(data)
    away = tmp_path / "elsewhere" / "copy"
    shutil.copytree(data, away, copy_function=shutil.copyfile)
    for number, name in enumerate((*CLIPS, "still.png")):
        os.utime(away / name, (10**9 + number, 10**9 + number))
    shutil.rmtree(data)
    moved = Catalog.open(away / "cat.parquet")
    assert all(str(moved.source(row)).startswith(os.fspath(away)) for row in range(len(moved)))
    assert moved.fingerprint == before.fingerprint
    assert moved.verify().ok
    again = scan(away, out=tmp_path / "again.parquet", root=away)
    assert again.table.column("fingerprint").equals(moved.table.column("fingerprint"))
    assert again.fingerprint == moved.fingerprint

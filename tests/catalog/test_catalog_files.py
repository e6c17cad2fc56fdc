"""Catalog files: saved catalogs are equal, a crash leaves a whole catalog, damage is a typed error."""

from __future__ import annotations

import json
import os
import resource
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from framefeed._files import holding_file
from framefeed.catalog import _catalog_file
from framefeed.catalog._catalog import Catalog
from framefeed.catalog._catalog_file import FORMAT
from framefeed.errors import FramefeedError, MissingMedia, StaleSource, UnreadableMedia, UsageError
from framefeed.scanning import scan
from tests.catalog.synthetic import catalog, frame_index, names, same
from tests.corpus import clip_file, corpus_file
from tests.damaged import damaged_clip


def frames(folder: Path) -> Path:
    return folder / "cat.frames.arrow"


def saved(folder: Path, made: Catalog) -> Path:
    made.to_parquet(folder / "cat.parquet")
    return folder / "cat.parquet"


def change_header(path: Path, change: Callable[[bytes], bytes], table: pa.Table | None = None) -> None:
    """Write a catalog again with another header, and maybe with other facts."""
    table = pq.read_table(path) if table is None else table
    pq.write_table(table.replace_schema_metadata({b"framefeed": change(table.schema.metadata[b"framefeed"])}), path)


def change_fields(**fields: Any) -> Callable[[bytes], bytes]:
    return lambda header: json.dumps(json.loads(header) | fields).encode()


def test_a_saved_catalog_is_the_same(tmp_path: Path) -> None:
    made = catalog([*names(4), *names(2)], failed=[2], labels=[*"abcabc"], take=range(6))
    opened = Catalog.open(saved(tmp_path, made))
    assert opened.table.equals(made.table)
    assert opened.table.schema == made.table.schema
    for row in made.usable_rows.tolist():
        assert same(opened.frame_index(row), made.frame_index(row))
    assert opened.fingerprint == made.fingerprint
    assert sorted(os.listdir(tmp_path)) == ["cat.frames.arrow", "cat.parquet"]


def test_rows_of_one_source_share_its_frames(tmp_path: Path) -> None:
    opened = Catalog.open(saved(tmp_path, catalog(["/b", "/a", "/b", "/c", "/a"])))
    assert [opened.frame_index(row).stream is not None for row in range(5)] == [True] * 5
    assert opened.frame_index(0) is opened.frame_index(2)
    assert same(opened.frame_index(3), frame_index(10, 2))
    view = opened.take([4, 3])
    view.to_parquet(tmp_path / "view.parquet")
    reopened = Catalog.open(tmp_path / "view.parquet")
    assert same(reopened.frame_index(0), frame_index(10, 1))
    assert same(reopened.frame_index(1), frame_index(10, 2))


def test_columns_are_read_when_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, catalog(names(3)))
    read: list[str] = []
    whole = pq.ParquetFile.read

    def noting(self: Any, columns: list[str], **options: Any) -> pa.Table:
        read.extend(columns)
        return whole(self, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read", noting)
    opened = Catalog.open(path)
    assert read == []
    opened.frame_index(1)
    opened.source(2)
    assert (len(opened.usable_rows), len(opened.failed_rows), opened.heights[2], opened.widths[1]) == (3, 0, 48, 65)
    assert read == [], "what planning reads is mapped, and shared by all workers"
    opened.row_fingerprint(1)
    assert read == ["fingerprint"]


def test_without_the_frames_file_it_opens_as_header(tmp_path: Path) -> None:
    path = saved(tmp_path, catalog(names(3)))
    frames(tmp_path).unlink()
    opened = Catalog.open(path)
    assert not opened.has_frame_indexes
    assert opened[0].frame_index is None
    with pytest.raises(UsageError, match="with_frame_indexes"):
        opened.frame_index(0)


def test_a_header_catalog_takes_away_the_frames_of_the_one_before(tmp_path: Path) -> None:
    path = saved(tmp_path, catalog(names(3)))
    frames(tmp_path).rename(tmp_path / "elsewhere")
    header = Catalog.open(path)
    (tmp_path / "elsewhere").rename(frames(tmp_path))
    header.to_parquet(path)
    assert not frames(tmp_path).exists()
    assert not Catalog.open(path).has_frame_indexes


def test_a_catalog_can_be_written_over_itself(tmp_path: Path) -> None:
    path = saved(tmp_path, catalog(names(5)))
    opened = Catalog.open(path)
    opened.take([3, 1]).to_parquet(path)
    assert same(opened.frame_index(4), frame_index(10, 4)), "an open catalog keeps what it opened"
    assert same(Catalog.open(path).frame_index(0), frame_index(10, 3))


def test_files_of_another_catalog_are_not_mixed(tmp_path: Path) -> None:
    path = saved(tmp_path, catalog(names(3)))
    other = tmp_path / "other"
    other.mkdir()
    saved(other, catalog(names(4)))
    os.replace(frames(other), frames(tmp_path))
    with pytest.raises(StaleSource, match="another catalog"):
        Catalog.open(path)


# --- crashes ----------------------------------------------------------------------------------------


class Crash(BaseException):
    """The power goes."""


def crash_at(monkeypatch: pytest.MonkeyPatch, step: int) -> Callable[[], int]:
    """Make the ``step``-th call that changes the disk the last; nothing is cleaned up after it."""
    done = 0
    originals = {name: getattr(os, name) for name in ("replace", "unlink", "fsync")}

    def wrap(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal done
            done += 1
            if done >= step:
                raise Crash
            return originals[name](*arguments, **options)

        return call

    for name in originals:
        monkeypatch.setattr(_catalog_file.os, name, wrap(name))
    return lambda: done


@pytest.mark.parametrize("frames_before", [True, False])
def test_a_crash_leaves_the_old_catalog_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames_before: bool
) -> None:
    old, new = catalog(names(3)), catalog(names(5))
    seen = set()
    for step in range(1, 20):
        folder = tmp_path / str(step)
        folder.mkdir()
        path = saved(folder, old)
        if not frames_before:
            frames(folder).unlink()
        with monkeypatch.context() as patched:
            steps = crash_at(patched, step)
            try:
                new.to_parquet(path)
            except Crash:
                pass
            finished = steps() < step
        opened = Catalog.open(path)
        seen.add(len(opened))
        assert opened.has_frame_indexes == (frames_before or len(opened) == 5)
        for row in range(len(opened) if opened.has_frame_indexes else 0):
            assert same(opened.frame_index(row), frame_index(10, row))
        # And the next save is not held up by what the crash left.
        saved(folder, catalog(names(4)))
        assert len(Catalog.open(path)) == 4
        if finished:
            break
    assert finished
    assert seen == {3, 5}


def test_a_failed_save_leaves_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, catalog(names(3)))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_catalog_file.pq, "write_table", full)
    with pytest.raises(UsageError, match=r"cannot write .*cat\.parquet: No space.*make room"):
        catalog(names(5)).to_parquet(path)
    assert sorted(os.listdir(tmp_path)) == ["cat.frames.arrow", "cat.parquet"]
    assert len(Catalog.open(path)) == 3


@pytest.mark.parametrize("most_bytes", [0, 1000, 9000, 20_000])
def test_a_full_disk_leaves_the_old_catalog_whole(tmp_path: Path, most_bytes: int) -> None:
    """A limit on the size of files stands in for the disk: the system stops a write in its middle."""
    path = saved(tmp_path, catalog(names(3)))
    large = catalog(names(60))
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, limits[1]))
    try:
        with pytest.raises(UsageError, match=r"cannot write .*cat\.parquet: .*make room"):
            large.to_parquet(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before
    assert len(Catalog.open(path)) == 3
    large.to_parquet(path)
    assert len(Catalog.open(path)) == 60


def test_S12_the_next_save_removes_what_killed_ones_left(tmp_path: Path) -> None:
    path = saved(tmp_path, catalog(names(3)))
    left = ["cat.parquet.77.tmp", "cat.parquet.4.frames.tmp", "cat.frames.0123456789abcdef.arrow"]
    others = ["cat.parquet.tmp", "scat.parquet.77.tmp", "cat.frames.arrow.old", "cat.parquet.1.tmp.txt"]
    for name in (*left, *others):
        (tmp_path / name).write_text("scratch")
    with holding_file(os.fspath(tmp_path / "cat.parquet.78.tmp")):
        saved(tmp_path, catalog(names(4)))
        at_work = set(os.listdir(tmp_path))
    assert at_work == {"cat.frames.arrow", "cat.parquet", "cat.parquet.78.tmp", *others}
    saved(tmp_path, catalog(names(4)))
    assert set(os.listdir(tmp_path)) == {"cat.frames.arrow", "cat.parquet", *others}
    assert len(Catalog.open(path)) == 4


# --- damage -----------------------------------------------------------------------------------------


def test_a_name_that_is_not_utf_8_is_refused_before_anything_is_scanned(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"caf\\udce9.*UTF-8"):
        scan(tmp_path, out=tmp_path / os.fsdecode(b"caf\xe9.parquet"))
    assert not os.listdir(tmp_path)


def test_catalogs_that_differ_in_their_ending_have_frame_tables_of_their_own(tmp_path: Path) -> None:
    made = catalog(names(2))
    for name in ("cat.parquet", "cat.v1", "cat.v2", ".parquet"):
        made.take([1, 0] if name == "cat.v2" else [0, 1]).to_parquet(tmp_path / name)
    for name in ("cat.parquet", "cat.v1", "cat.v2", ".parquet"):
        opened = Catalog.open(tmp_path / name)
        assert opened.has_frame_indexes
        expected = made.take([1, 0] if name == "cat.v2" else [0, 1])
        assert [same(opened.frame_index(row), expected.frame_index(row)) for row in range(2)] == [True, True]


def test_a_missing_catalog_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingMedia, match="scan"):
        Catalog.open(tmp_path / "cat.parquet")


def test_folders_and_other_files_are_no_catalogs(tmp_path: Path) -> None:
    path = tmp_path / "cat.parquet"
    with pytest.raises(UnreadableMedia, match="is a folder"):
        Catalog.open(tmp_path)
    for content in (b"", b"PAR1", b"hello", b"PAR1" + b"\xff" * 100 + b"PAR1"):
        path.write_bytes(content)
        with pytest.raises(UnreadableMedia, match="not readable as a catalog"):
            Catalog.open(path)
    pq.write_table(pa.table({"source": ["a"]}), path)
    with pytest.raises(UnreadableMedia, match="framefeed did not write this file"):
        Catalog.open(path)


@pytest.mark.parametrize(
    "change",
    [
        (b'"format": 7', b'"format": 5'),
        (b'"format": 7', b'"format": 1'),
        (b'"verify": "proof"', b'"verify": "hope"'),
        (b'"assume_fps": null', b'"assume_fps": "0/0"'),
        (b'"assume_fps": null', b'"assume_fps": "1/0"'),
        (b'"assume_fps": null', b'"assume_fps": "-25"'),
        (b'"assume_fps": null', b'"assume_fps": [25]'),
        (b'"rules": 1', b'"rules": "1"'),
        (b'"depth"', b'"width"'),
        (b'"classes": []', b'"classes": 3 '),
        (b'"frames_id": "', b'"frames_id": ".'),
        (b"{", b"["),
    ],
)
def test_a_wrong_header_is_refused(tmp_path: Path, change: tuple[bytes, bytes]) -> None:
    path = saved(tmp_path, catalog(names(3)))
    assert change[0] in pq.read_schema(path).metadata[b"framefeed"]
    change_header(path, lambda header: header.replace(*change, 1))
    with pytest.raises(UnreadableMedia, match="not readable as a catalog"):
        Catalog.open(path)


def test_D01_damaged_frames_are_counted_and_kept_and_the_row_is_no_failed_one(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "cat.parquet"
    data.mkdir()
    shutil.copy(damaged_clip("damage.mp4", (12, 13, 14, 15, 16, 30)), data / "damaged.mp4")
    shutil.copy(damaged_clip("sound.mp4", ()), data / "sound.mp4")
    Image.new("RGB", (8, 8)).save(data / "still.png")
    scan(data, out=out, verify="ends")
    assert Catalog.open(out).table.column("num_damaged_frames").to_pylist() == [3, None, None], (
        "where the ends do not agree all is decoded, else it is not known"
    )
    scan(data, out=out, verify="full")
    opened = Catalog.open(out)
    names = opened.table.column_names
    assert names[names.index("num_frames") + 1] == "num_damaged_frames"
    assert opened.table.column("num_damaged_frames").to_pylist() == [3, 0, 0]
    assert (len(opened.errors), opened.usable_rows.tolist()) == (0, [0, 1, 2])
    assert [opened.frame_index(row).damaged_frame_indices.tolist() for row in range(3)] == [[13, 14, 16], [], []]


def test_C12_a_flipped_bit_of_a_width_is_noticed(tmp_path: Path) -> None:
    path = saved(tmp_path, catalog(names(40)))
    frames = path.with_name("cat.frames.arrow")
    whole, widths = frames.read_bytes(), Catalog.open(path).widths.tobytes()
    assert whole.count(widths) == 1
    at = whole.index(widths)
    frames.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
    opened = Catalog.open(path)
    assert len(opened.num_frames) == 40
    with pytest.raises(UnreadableMedia, match=r"cat\.frames\.arrow: .* the checksum of width is another"):
        _ = opened.widths


OLDER = {
    1: (["times_from", "num_damaged_frames"], ["limits", "assume_fps"]),
    2: (["times_from", "num_damaged_frames"], ["limits", "assume_fps"]),
    3: (["times_from"], ["assume_fps"]),
    4: ([], []),
    5: ([], []),
}
"""Columns, and entries of the header, that a catalog of each older format has not."""


@pytest.mark.parametrize("older", OLDER)
def test_a_catalog_of_an_older_format_is_refused_and_can_be_scanned_again(older: int, tmp_path: Path) -> None:
    assert set(OLDER) == set(range(1, FORMAT - 1))  # the one before is read
    data, out = tmp_path / "data", tmp_path / "cat.parquet"
    data.mkdir()
    shutil.copy(corpus_file("closed_gop.ts"), data)
    scan(data, out=out)
    table = pq.read_table(out)
    columns, entries = OLDER[older]

    def change(header: bytes) -> bytes:
        fields = json.loads(header) | {"format": older}
        return json.dumps({name: value for name, value in fields.items() if name not in entries}).encode()

    change_header(out, change, table.drop_columns(columns))
    with pytest.raises(UnreadableMedia, match=rf"cat\.parquet: .*format is {older}.*reads format {FORMAT}.*scan again"):
        Catalog.open(out)
    scan(data, out=out)
    assert Catalog.open(out).table.equals(table)


def test_a_catalog_of_format_6_opens_unchanged(tmp_path: Path) -> None:
    path = saved(tmp_path, catalog(names(3)))
    before = Catalog.open(path)
    facts = before.table
    change_header(path, change_fields(format=6))
    after = Catalog.open(path)
    assert after.table.equals(facts)
    assert after.fingerprint == before.fingerprint


def test_a_catalog_of_a_newer_format_is_refused_as_such(tmp_path: Path) -> None:
    path = saved(tmp_path, catalog(names(3)))
    change_header(path, change_fields(format=FORMAT + 1, what_is_new=1))
    with pytest.raises(UnreadableMedia, match=rf"its format is {FORMAT + 1}, .*reads format {FORMAT}.*scan again"):
        Catalog.open(path)


def test_a_column_of_another_type(tmp_path: Path) -> None:
    path = saved(tmp_path, catalog(names(3)))
    table = pq.read_table(path)
    at = table.column_names.index("num_frames")
    pq.write_table(table.set_column(at, "num_frames", pa.array(["1", "2", "3"])), path)
    with pytest.raises(UnreadableMedia, match="num_frames"):
        Catalog.open(path)


def test_C12_a_damaged_sidecar(tmp_path: Path) -> None:
    path = saved(tmp_path, catalog(names(3)))
    whole = frames(tmp_path).read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"\0" * len(whole)):
        frames(tmp_path).write_bytes(damaged)
        with pytest.raises(UnreadableMedia, match=r"cat\.frames\.arrow"):
            Catalog.open(path)


def test_C12_flipped_bytes_of_the_facts(tmp_path: Path) -> None:
    path = saved(tmp_path, catalog(names(200), take=range(200)))
    expected = Catalog.open(path).table
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    random = np.random.default_rng(3)
    refused = 0
    for _ in range(100):
        damaged = whole.copy()
        damaged[random.integers(0, len(whole), 3)] ^= np.uint8(1 << int(random.integers(0, 8)))
        path.write_bytes(damaged.tobytes())
        try:
            opened = Catalog.open(path)
            table = opened.table
        except FramefeedError:
            refused += 1
        else:
            # Pages carry checksums; what remains are bytes of the footer that say nothing about values.
            assert table.num_rows == expected.num_rows
            assert table.drop_columns(["label"]).equals(expected.drop_columns(["label"]))
    assert refused > 50


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 100_000, b"NaN"])
def test_S09_a_header_that_is_a_bomb_is_no_catalog(tmp_path: Path, content: bytes) -> None:
    path = saved(tmp_path, catalog(names(2)))
    change_header(path, lambda _: content)
    with pytest.raises(UnreadableMedia, match="not readable as a catalog"):
        Catalog.open(path)


@pytest.mark.parametrize("kind", ["video", "text", "table", "folder", "link"])
def test_nothing_but_a_catalog_is_replaced(tmp_path: Path, kind: str) -> None:
    video = tmp_path / "video.mp4"
    video.write_bytes(b"\0\0\0\x18ftypmp42 not to be lost")
    target = tmp_path / "target"
    if kind == "folder":
        target.mkdir()
    elif kind == "table":
        pq.write_table(pa.table({"mine": [1, 2]}), target)
    elif kind == "link":
        target.symlink_to(tmp_path / "nowhere")
    else:
        target.write_bytes(video.read_bytes() if kind == "video" else b"a text\n")
    before = target.read_bytes() if target.is_file() else None
    with pytest.raises(UsageError, match="cannot write"):
        scan([video], out=target)
    with pytest.raises(UsageError, match="cannot write"):
        scan([video]).to_parquet(target)
    assert (target.read_bytes() if target.is_file() else None) == before


def test_a_catalog_and_an_empty_file_are_replaced(tmp_path: Path) -> None:
    target = tmp_path / "cat.parquet"
    target.touch()
    (tmp_path / "text.mp4").write_text("no video")
    for _ in range(2):
        scan([tmp_path / "text.mp4"], out=target)
    assert len(Catalog.open(target)) == 1


def test_C12_lengths_below_zero_do_not_end_the_process(tmp_path: Path) -> None:
    path, frames = tmp_path / "cat.parquet", tmp_path / "cat.frames.arrow"
    for number in range(3):
        (tmp_path / f"{number}.mkv").write_bytes(clip_file("good.mkv").read_bytes())
    scan(tmp_path, out=path, workers=0)
    whole, length = frames.read_bytes(), struct.pack("<qq", 3, 0)
    nodes = [at for at in range(0, len(whole), 8) if whole.startswith(length, at)]
    assert len(nodes) >= 7
    for at in nodes:
        frames.write_bytes(whole[: at + 7] + b"\xff" + whole[at + 8 :])
        with suppress(UnreadableMedia):
            _ = Catalog.open(path)[0].frame_index

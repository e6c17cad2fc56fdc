"""Targets, archives and URLs of scans: mistakes that are named before, or instead of, a failed row."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path

import pyarrow.csv
import pytest
from PIL import Image

from framefeed.errors import MissingDependency, UsageError
from framefeed.index import probe
from framefeed.media import ImageSequence
from framefeed.scanning._scan import scan
from framefeed.testing import ClipSpec
from tests.corpus import clip_file


@pytest.fixture
def data() -> Path:
    return clip_file("scan_5.mp4", ClipSpec(num_frames=5, height=48, width=64, gop=4))


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".json", ".xlsx", ".arrow", ".CSV", ".jsonl"])
def test_a_catalog_is_not_written_under_the_ending_of_another_format(data: Path, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"cat{ending}"
    with pytest.raises(UsageError, match=r"name it .*cat\.parquet.*write_csv\(catalog\.table"):
        scan(data, out=target, workers=0)
    with pytest.raises(UsageError, match="a catalog is a Parquet file"):
        scan(data, workers=0).to_parquet(target)
    assert not list(tmp_path.iterdir())


def test_the_csv_of_the_message_is_written(data: Path, tmp_path: Path) -> None:
    catalog = scan(data, workers=0)
    pyarrow.csv.write_csv(catalog.table, tmp_path / "cat.csv")
    assert (
        pyarrow.csv.read_csv(tmp_path / "cat.csv").column("source").to_pylist() == catalog.table["source"].to_pylist()
    )


def _archives(folder: Path) -> dict[str, str]:
    (folder / "a.txt").write_text("some text")
    found = {}
    for kind, name in {"zip": "a ZIP archive", "tar": "a TAR archive", "gztar": "compressed by gzip",
                       "bztar": "compressed by bzip2", "xztar": "compressed by xz"}.items():  # fmt: skip
        archive = shutil.make_archive(str(folder / kind), kind, folder, "a.txt")
        os.rename(archive, folder / f"{kind}.mp4")
        found[f"{kind}.mp4"] = name
    (folder / "seven.mp4").write_bytes(b"7z\xbc\xaf\x27\x1c" + bytes(60))
    (folder / "roshal.mp4").write_bytes(b"Rar!\x1a\x07\x01\x00" + bytes(60))
    return {**found, "seven.mp4": "a 7z archive", "roshal.mp4": "a RAR archive"}


def test_archives_are_named_as_such(tmp_path: Path) -> None:
    expected = _archives(tmp_path)
    failures = {Path(name).name: (kind, error) for name, kind, error in scan(tmp_path, workers=0).failures}
    assert failures.keys() == expected.keys()
    for name, archive in expected.items():
        kind = name.removesuffix(".mp4")
        advice = "unpack it first"
        if kind in ("zip", "tar"):
            advice = f"give it to ff.scan by a name that ends with .{kind}, or name a member, {kind}://MEMBER::PATH"
        assert failures[name] == ("UnreadableMedia", f"{tmp_path / name}: is {archive}: {advice}")


def test_image_folders_is_none_by_default(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    tables = [scan(tmp_path, workers=0, **options).table for options in ({}, {"image_folders": None})]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(scan(tmp_path, workers=0, image_folders="image").table)
    with pytest.raises(UsageError, match="image_folders: expected 'video', 'image' or None, got the string 'folder'"):
        scan(tmp_path, image_folders="folder")  # type: ignore[arg-type]


def test_a_root_that_is_a_url_without_fsspec_ends_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    for ask in (probe, scan, lambda url: scan(["a.mp4", url])):
        with pytest.raises(MissingDependency, match=r"pip install 'framefeed\[url\]'"):
            ask("gs://bucket/a.mp4")


def test_a_root_that_is_read_by_ranges_needs_no_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("urllib3", reason="our own reader needs urllib3")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with socket.socket() as closed:  # bound, and without listen() it refuses
        closed.bind(("127.0.0.1", 0))
        catalog = scan([f"http://127.0.0.1:{closed.getsockname()[1]}/a.mp4"], workers=0)
    assert [kind for _, kind, _ in catalog.failures] == ["UnreadableMedia"]


@pytest.mark.parametrize("value", [True, False])
def test_a_truth_value_is_no_rate(value: bool, data: Path) -> None:
    with pytest.raises(UsageError, match=f"assume_fps: expected a number above 0, got {value}"):
        scan(data, assume_fps=value)
    with pytest.raises(UsageError, match="fps: expected a number above 0"):
        ImageSequence([data], fps=value)

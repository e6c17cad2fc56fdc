from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import framefeed as ff
from framefeed.report._bars import Axis, choose_edges, count_in_bins
from framefeed.report._examples import MAX_BYTES, MAX_LABELS, PER_LABEL
from framefeed.report._heat_map import count_in_cells, draw_heat_map
from framefeed.report._page import make_page, write_report
from framefeed.testing import make_folder, read_stamp
from tests.report.made import HOSTILE, Page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    make_folder(folder / "videos", videos_per_class=4, seconds=4)
    Image.new("RGB", (30, 20), (9, 200, 9)).save(folder / "videos/red/small.png")
    return folder


def thumbnails_of(page: str) -> Iterator[tuple[str, Image.Image]]:
    for tag, attributes in Page(page).tags:
        if tag == "img":
            source = attributes["src"] or ""
            assert source.startswith("data:image/webp;base64,")
            data = base64.b64decode(source.partition(",")[2])
            assert len(data) <= MAX_BYTES
            picture = Image.open(io.BytesIO(data)).convert("RGB")
            assert picture.size == (int(attributes["width"] or 0), int(attributes["height"] or 0))
            yield attributes["alt"] or "", picture


def test_three_files_of_each_label_are_shown_with_the_frame_that_the_text_names(folder: Path) -> None:
    catalog = ff.scan(folder / "videos", label_from="parent")
    shown = list(thumbnails_of(make_page(catalog, "T", thumbnails=True)))
    assert len(shown) == 2 * PER_LABEL
    names = [re.fullmatch(r"Frame (\d+) of .*/(\w+/\w+\.\w+)", text) for text, _ in shown]
    assert [match[2] for match in names if match] == [
        "red/small.png", "red/video_001.mp4", "red/video_003.mp4",
        "blue/video_000.mp4", "blue/video_002.mp4", "blue/video_003.mp4",
    ]  # fmt: skip
    for match, (_, picture) in zip(names, shown, strict=True):
        if match and match[2].endswith("mp4"):
            assert int(match[1]) == 60 == read_stamp(np.asarray(picture).transpose(2, 0, 1))
            assert picture.size == (160, 120)
    assert shown[0][1].size == (30, 20)


def test_a_catalog_without_labels_has_examples_of_all_files(folder: Path) -> None:
    page = make_page(ff.scan(folder / "videos"), "T", thumbnails=True)
    assert len(list(thumbnails_of(page))) == PER_LABEL
    assert "all files" in Page(page).texts


def test_a_file_that_is_gone_or_damaged_has_no_thumbnail_and_the_page_is_made(folder: Path, tmp_path: Path) -> None:
    make_folder(tmp_path / "videos", videos_per_class=3, seconds=1)
    catalog = ff.scan(tmp_path / "videos", label_from="parent")
    (tmp_path / "videos/red/video_000.mp4").unlink()
    (tmp_path / "videos/red/video_001.mp4").write_bytes(b"no film")
    assert len(list(thumbnails_of(make_page(catalog, "T", thumbnails=True)))) == 4
    headers = ff.scan(folder / "videos", depth="header")
    assert list(thumbnails_of(make_page(headers, "T", thumbnails=True))) == []


def test_no_url_is_fetched(folder: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/a.png", (folder / "videos/red/small.png").read_bytes())
    catalog = ff.scan(["memory://a.png", folder / "videos/red/small.png"])
    assert len(catalog.usable_rows) == 2
    shown = list(thumbnails_of(make_page(catalog, "T", thumbnails=True)))
    assert [text.endswith("red/small.png") for text, _ in shown] == [True]


@pytest.mark.slow
def test_thumbnails_are_bounded_in_bytes_and_number(tmp_path: Path) -> None:
    for number in range(MAX_LABELS + 2):
        path = tmp_path / f"{number:02d}" / "noise.png"
        path.parent.mkdir()
        pixels = np.random.Generator(np.random.Philox(key=number)).integers(0, 256, (120, 160, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    page = make_page(ff.scan(tmp_path, label_from="parent"), "T", thumbnails=True)
    assert len(list(thumbnails_of(page))) == MAX_LABELS
    assert "Labels that are not shown: 2." in Page(page).text


def test_S13_hostile_names_of_files_and_labels_are_text(folder: Path, tmp_path: Path) -> None:
    data = (folder / "videos/red/small.png").read_bytes()
    label = "<script>document.title='owned'<"
    (tmp_path / label).mkdir()
    (tmp_path / label / '"onmouseover="x" .png').write_bytes(data)
    page = make_page(ff.scan(tmp_path, label_from="parent"), HOSTILE[0], thumbnails=True)
    shown = Page(page)
    assert shown.count("img") == shown.count("script") == 1
    assert {name for tag, given in shown.tags for name in given if tag == "img"} == {
        "src", "alt", "title", "width", "height"}  # fmt: skip


def test_the_same_files_give_the_same_bytes_and_no_thumbnails_open_no_file(folder: Path, tmp_path: Path) -> None:
    catalog = ff.scan(folder / "videos", label_from="parent")
    for name in ("a.html", "b.html"):
        write_report(catalog, tmp_path / name)
    write_report(catalog, tmp_path / "c.html", thumbnails=False)
    texts = [(tmp_path / name).read_text(encoding="utf-8") for name in ("a.html", "b.html", "c.html")]
    assert texts[0] == texts[1]
    assert "<img" in texts[0]
    assert "<img" not in texts[2]
    assert ["no media file was opened" in text for text in texts] == [False, False, True]


# --- where axes begin -------------------------------------------------------------------------------


def test_axes_begin_at_the_value_that_one_file_of_a_hundred_is_below() -> None:
    axis = Axis("", tuple(2.0**power for power in range(12)))
    many = np.concatenate([np.full(5, 1.0), np.full(600, 300.0), np.full(400, 500.0)])
    assert choose_edges(axis.edges, many).tolist() == [256.0, 512.0]
    bars = count_in_bins(many, axis)
    assert [(bar.label, bar.amount) for bar in bars] == [("less than 256", 5), ("256 to 512", 1000)]
    few = np.concatenate([[1.0], np.full(99, 300.0)])
    assert choose_edges(axis.edges, few)[0] == 1.0


def test_the_heat_map_begins_there_too_and_counts_what_it_leaves_out() -> None:
    widths = np.concatenate([np.full(5, 1.0), np.full(1000, 640.0)])
    cells = count_in_cells(widths, np.full(1005, 360.0))
    assert (cells.edges[0], cells.counts.sum(), cells.num_smaller) == (128.0, 1000, 5)
    assert "Not drawn: 5 files with a side below 128." in str(draw_heat_map("T", cells))

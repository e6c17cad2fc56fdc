from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.catalog import Catalog
from framefeed.errors import UsageError
from framefeed.report._columns import Columns, count_by_name, find_largest, predict_costs
from framefeed.report._files import MAX_MESSAGE
from framefeed.report._page import make_page
from framefeed.report._sections import TAGS, count_codes, count_nominal_rates, count_tags
from tests.catalog import synthetic
from tests.report.made import HOSTILE, SHOWN, Page, catalog, read_bars

maybe = st.none() | st.integers(1, 9000)
rows = st.fixed_dictionaries(
    {
        "width": maybe,
        "height": maybe,
        "num_frames": st.none() | st.integers(1, 10**6),
        "duration_seconds": st.none() | st.floats(0.001, 1e6),
        "average_fps": st.none() | st.floats(0.01, 1000),
        "bytes": st.none() | st.integers(0, 10**12),
        "codec": st.none() | st.sampled_from(["h264", "hevc", "<b>"]),
        "kind": st.sampled_from(["image", "video"]),
    }
)


def made(listed: list[dict[str, Any]], **more: Any) -> Catalog:
    return catalog(len(listed), **{name: [row[name] for row in listed] for name in listed[0]}, **more)


@given(st.lists(rows, min_size=1, max_size=30))
def test_marks_add_up_to_the_files_of_the_catalog(listed: list[dict[str, Any]]) -> None:
    text = make_page(made(listed), "T")
    sized = sum(row["width"] is not None and row["height"] is not None for row in listed)
    videos = [row for row in listed if row["kind"] == "video"]
    plots = read_bars(text)
    whole = dict.fromkeys(
        ["Width", "Height", "Area", "Aspect ratio", "Most frequent sizes"], len(listed) if sized else 0
    )
    whole |= dict.fromkeys(["Codec", "Container", "Pixel format", "Rotation"], len(listed))
    whole |= dict.fromkeys(["Duration", "Frames", "Frame rate", "Nominal frame rates", "Bit rate"], len(videos))
    assert {name: sum(plots.get(name, {}).values()) for name in whole} == whole
    known = {
        "Width": sized or len(listed),
        "Duration": sum(row["duration_seconds"] is not None for row in videos),
        "Frames": sum(row["num_frames"] is not None for row in videos),
        "Frame rate": sum(row["average_fps"] is not None for row in videos),
    }
    for name, count in known.items():
        assert whole[name] - plots.get(name, {}).get("unknown", 0) == (count if whole[name] else 0)
    cells = re.findall(r'data-tip="[^"]*: ([\d,]+) files?"', text)
    assert sum(int(count.replace(",", "")) for count in cells) == sized
    Page(text)


def test_the_size_of_the_page_is_bounded() -> None:
    def page(count: int) -> str:
        names = [f"name {number:06d}" for number in range(count)]
        failed = ["CorruptMedia" if number % 2 else None for number in range(count)]
        messages = [name if kind else None for name, kind in zip(names, failed, strict=True)]
        texts = dict.fromkeys(("codec", "container", "pixel_format"), names)
        made = catalog(count, labels=names, width=list(range(1, count + 1)), num_damaged_frames=1,
                       num_frames=[number**2 + 1 for number in range(count)],
                       error_type=failed, error=messages, **texts)  # fmt: skip
        return make_page(made, "T")

    few, many = page(1500), page(15_000)
    assert len(many) < 1.1 * len(few)


def test_the_tiles_are_the_catalog_in_numbers() -> None:
    kinds = ["video"] * 6 + ["image"] * 3 + [None]
    errors = [None] * 9 + ["UnreadableMedia"]
    shown = Page(make_page(catalog(
        10, kind=kinds, error_type=errors, error=errors, num_frames=[1000] * 6 + [1] * 3 + [None],
        duration_seconds=[600.0] * 6 + [None] * 4), "My clips"))  # fmt: skip
    text = shown.text
    for name, value in [
        ("Files", "10"), ("Usable", "9\n90.0 %"), ("Failed", "1\n10.0 %"), ("Videos", "6"), ("Images", "3"),
        ("Length of videos", "1 h"), ("Frames of videos", "6,000"), ("Bytes, usable files", "9 MB\n10 MB in all files"),
    ]:  # fmt: skip
        assert f"\n{name}\n{value}\n" in text
    assert "My clips" in shown.texts


def test_an_unknown_length_is_described() -> None:
    text = Page(make_page(catalog(3, duration_seconds=[None, None, 60.0]), "T")).text
    assert "\nLength of videos\n1 min\nunknown for 2 files\n" in text


def test_a_file_that_several_rows_name_counts_once() -> None:
    names = ["a.mp4", "b.mp4", "a.mp4", "c.mp4", "a.mp4"]
    made = catalog(5, source=names, width=[1, 2, 1, 3, 1], labels=["x", "x", "y", "y", "z"])
    columns = Columns(made)
    assert columns.files.tolist() == [0, 1, 3]
    assert sum(read_bars(make_page(made, "T"))["Width"].values()) == 3
    assert "5 rows for 3 files" in make_page(made, "T")


def test_a_view_shows_its_rows_alone() -> None:
    view = catalog(6, width=[10, 20, 30, 40, 50, 60]).take([5, 1])
    columns = Columns(view)
    assert columns.numbers("width", columns.usable).tolist() == [60, 20]
    assert columns.texts("source", columns.usable) == ["000005.mp4", "000001.mp4"]


@pytest.mark.parametrize("seed", range(3))
def test_columns_are_those_of_the_table(seed: int) -> None:
    random = np.random.default_rng(seed)
    codecs = random.choice(["h264", "hevc", "", "vp9"], 50).tolist()
    failed = np.where(random.random(50) < 0.3, "CorruptMedia", None).tolist()
    made = catalog(
        50, codec=codecs, error_type=failed, error=failed, kind=random.choice(["image", "video"], 50).tolist()
    )
    columns = Columns(made)
    sound = [row for row in range(50) if failed[row] is None]
    assert columns.usable.tolist() == sound
    assert columns.failed.tolist() == [row for row in range(50) if failed[row]]
    assert sorted([*columns.videos.tolist(), *columns.images.tolist()]) == sound
    counts = columns.counts("codec", columns.usable)
    expected = [codecs[row] for row in sound]
    assert dict(zip(counts.names, counts.counts, strict=True)) == {n: expected.count(n) for n in set(expected) - {""}}
    assert counts.unknown == expected.count("")
    assert list(counts.counts) == sorted(counts.counts, reverse=True)


def test_the_common_folder_is_what_all_names_begin_with() -> None:
    def folder(*names: str) -> str:
        return Columns(catalog(len(names), source=list(names))).common_folder

    assert folder("/data/a/x.mp4", "/data/a/y.mp4", "/data/ab/z.mp4") == "/data/"
    assert folder("a/x.mp4", "b/x.mp4") == folder("only/one.mp4") == folder() == ""
    assert folder("d/a", "d/a/b") == "d/"


# --- damage ---------------------------------------------------------------------------------------


def test_D01_damaged_frames_are_counted_and_their_files_listed() -> None:
    text = make_page(catalog(5, num_damaged_frames=[0, 7, None, 300, 7], error_type=[None] * 4 + ["X"]), "T")
    Page(text)
    (section,) = [part for part in text.split("<section") if 'id="damaged"' in part]
    assert "307 frames in 2 files, of 3 files whose frames were all decoded" in section
    assert section.index("000003.mp4") < section.index("000001.mp4"), "those with most come first"
    assert "000000.mp4" not in section
    assert "000004.mp4" not in section
    assert re.search(r"Damaged frames</dt>.*?307.*?in 2 files", text, re.DOTALL)


def test_no_damaged_frames_and_none_known() -> None:
    assert "None in 2 files whose frames were all decoded" in make_page(catalog(2, num_damaged_frames=0), "T")
    assert "Damaged" not in make_page(catalog(2), "T")


# --- cost -----------------------------------------------------------------------------------------


def test_cost_is_the_mean_over_all_frames_of_equal_gops() -> None:
    frames, gop, width, height = 120, 30, 64, 48
    made = catalog(1, width=width, height=height, num_frames=frames, num_key_frames=frames // gop)
    pictures = np.mean([frame % gop + 1 for frame in range(frames)])
    predicted = predict_costs(Columns(made))
    assert predicted.random_megapixels[0] == pytest.approx(pictures * width * height / 1e6)
    assert predicted.all_megapixels[0] == pytest.approx(frames * width * height / 1e6)


def test_cost_counts_coded_pixels_and_leaves_out_unknown_ones() -> None:
    made = catalog(
        4, kind=["video", "video", "image", "video"], width=100, height=10, coded_width=[128, None, 128, 128],
        coded_height=16, num_frames=[10, 10, None, 10], num_key_frames=[10, 10, None, None],
    )  # fmt: skip
    predicted = predict_costs(Columns(made))
    np.testing.assert_allclose(predicted.random_megapixels, np.array([2048, 1000, 2048, np.nan]) / 1e6)
    np.testing.assert_allclose(predicted.all_megapixels, np.array([20480, 10000, 2048, 20480]) / 1e6)


def test_a_video_without_a_key_frame_is_one_gop() -> None:
    predicted = predict_costs(Columns(catalog(1, num_frames=9, num_key_frames=0)))
    assert predicted.gop.tolist() == [9]


@given(st.lists(st.just(float("nan")) | st.floats(0, 100), max_size=30), st.integers(1, 10))
def test_largest_are_the_first_of_a_sorted_list(values: list[float], limit: int) -> None:
    actual = find_largest(np.array(values, dtype=np.float64), limit).tolist()
    known = [at for at, value in enumerate(values) if value == value]
    assert actual == sorted(known, key=lambda at: -values[at])[:limit]


def test_the_costliest_files_are_listed_in_order() -> None:
    key_frames = [300, 1, 30, 3]
    text = Page(make_page(catalog(4, num_key_frames=key_frames), "T")).text
    listed = re.findall(r"\d{6}\.mp4", text.split("Files that cost most")[1].split("Largest files")[0])
    assert listed == ["000001.mp4", "000003.mp4", "000002.mp4", "000000.mp4"]


def test_without_key_frames_files_are_ordered_by_all_their_frames() -> None:
    text = Page(make_page(catalog(2, num_frames=[10, 500], num_key_frames=None), "T")).text
    assert "does not have the positions of key frames" in text
    assert text.split("Files that cost most")[1].index("000001") < text.split("Files that cost most")[1].index("000000")


# --- other sections -------------------------------------------------------------------------------


def test_nominal_rates_keep_ntsc_apart() -> None:
    rates = np.array([24000 / 1001, 23.98, 24, 30000 / 1001, 29.97, 30.0, 30.004, 24.03, 60000 / 1001, np.nan, 1e-3])
    counts = count_nominal_rates(rates)
    assert dict(zip(counts.names, counts.counts, strict=True)) == {
        "23.976": 2, "24": 1, "29.97": 2, "30": 2, "59.94": 1, "other": 2}  # fmt: skip
    assert counts.unknown == 1


def test_counts_come_by_frequency_then_by_name() -> None:
    assert count_by_name(["b", None, "a", "c", "d"], [2, 4, 2, 9, 0]).names == ("c", "a", "b")


def test_colour_tags_need_frame_indexes() -> None:
    assert "Colour tags are stored with frame indexes" in make_page(catalog(2), "T")
    assert "<h3>Transfer characteristic</h3>" in make_page(synthetic.catalog(["a.mp4", "b.mp4"]), "T")


def test_colour_tags_are_those_of_the_streams() -> None:
    made = synthetic.catalog(["a", "b", "a", "c", "d"], failed=[1]).take([4, 2, 0, 1])
    for field, names, silent in TAGS.values():
        codes = [-1 if made.error(row) else getattr(made.frame_index(row).stream, field) for row in range(4)]
        assert made.stream_values(field).tolist() == codes
        assert -1 in codes
        assert count_codes(np.array(codes), names, silent).unknown == 1
    assert [sum(counts.counts) + counts.unknown for counts in count_tags(Columns(made)).values()] == [2] * 4
    with pytest.raises(UsageError, match="with_frame_indexes"):
        catalog(1).stream_values("color_space")


@pytest.mark.parametrize("count", [0, 1])
def test_small_catalogs(count: int) -> None:
    text = Page(make_page(catalog(count), "T")).text
    assert "None: every file could be read when it was scanned." in text
    assert ("Cost to decode" in text) == bool(count)


def test_images_alone_have_no_sections_about_time() -> None:
    made = catalog(3, kind="image", num_frames=1, duration_seconds=None, average_fps=None, num_key_frames=None)
    text = Page(make_page(made, "T")).text
    assert "Frame rate" not in text
    assert "GOP lengths" not in text
    assert "Cost to decode" in text


@pytest.mark.parametrize("folder", ["", "/where/it/was/scanned/"])
def test_a_message_does_not_repeat_the_file_name(folder: str) -> None:
    made = catalog(
        3,
        source=["caf\0dce9.mp4", "b.mp4", "c.mp4"],
        error_type="UnreadableMedia",
        error=[f"{folder}caf\\udce9.mp4: is empty", f"{folder}b.mp4: is text: no media", "not like c.mp4: other"],
    )
    texts = Page(make_page(made, "T")).texts
    assert {"caf\\xe9.mp4", "is empty", "b.mp4", "is text: no media", "c.mp4", "not like c.mp4: other"} <= set(texts)


def test_unknown_values_are_dashes() -> None:
    made = catalog(2, codec=None, width=None, num_frames=None, num_key_frames=None, duration_seconds=None)
    text = Page(make_page(made, "T")).text
    assert "nan" not in text.replace("a random", "")
    assert "–" in text


def test_a_catalog_of_failed_files_alone() -> None:
    text = Page(make_page(catalog(2, kind=None, width=None, error_type="UnreadableMedia", error="x"), "T")).text
    assert "2 of 2 files failed." in text


def test_impossible_numbers_raise_no_error() -> None:
    extreme = [2**62, -5, 0, 1]
    made = catalog(4, width=extreme, height=extreme, num_frames=extreme, num_key_frames=extreme, bytes=extreme,
                   duration_seconds=[float("inf"), float("nan"), -1.0, 1e300],
                   average_fps=[1e308, 0.0, 1e-308, float("inf")])  # fmt: skip
    Page(make_page(made, "T"))


# --- trust ----------------------------------------------------------------------------------------


def test_S13_hostile_texts_are_text_everywhere() -> None:
    names = list(HOSTILE)
    errors = [f"{name}: bad <script>x</script> {'long ' * 900}" for name in names]
    failed = ["UnreadableMedia" if at % 2 else None for at in range(len(names))]
    message = [error if kind else None for error, kind in zip(errors, failed, strict=True)]
    columns = dict.fromkeys(("source", "codec", "container", "pixel_format"), names)
    made = catalog(len(names), labels=names, error_type=failed, error=message, **columns)
    plain = Page(make_page(catalog(len(names), error_type=failed, error=failed, labels=["x"] * len(names)), "T"))
    shown = Page(make_page(made, names[0]))
    assert shown.count("script") == plain.count("script") == 1
    assert {tag for tag, _ in shown.tags} == {tag for tag, _ in plain.tags}
    assert {name for _, attributes in shown.tags for name in attributes} == {
        name for _, attributes in plain.tags for name in attributes} | {"title"}  # fmt: skip
    assert set(SHOWN) <= set(shown.texts)
    below = catalog(2, source=[f"{names[-1]}/{name}" for name in "ab"])
    assert max(map(len, Page(make_page(below, "T")).texts)) <= 2 * MAX_MESSAGE
    assert max(map(len, shown.texts)) <= 2 * MAX_MESSAGE
    assert "\u202e" not in shown.text


def test_the_policy_allows_only_the_style_and_script_of_the_page() -> None:
    text = make_page(catalog(3), "T")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src &#x27;none&#x27;;")
    for tag in ("style", "script"):
        inside = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.S)
        assert len(inside) == 1
        assert base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode() in policy[1]
    shown = Page(text)
    attributes = [(name, value or "") for _, each in shown.tags for name, value in each.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name == "style"]
    assert {value[0] for name, value in attributes if name in {"href", "src"} and value != "data:,"} == {"#"}
    assert "http://" not in text
    assert "https://" not in text


def test_anchors_lead_to_sections() -> None:
    shown = Page(make_page(catalog(3, labels=["a", "b", None]), "T"))
    ids = [attributes["id"] for _, attributes in shown.tags if "id" in attributes]
    links = [attributes["href"] for tag, attributes in shown.tags if tag == "a"]
    assert len(ids) == len(set(ids))
    assert {str(link)[1:] for link in links} <= set(ids)
    assert len(links) == 10


def test_rows_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    made = catalog(500, num_key_frames=list(range(1, 501)))
    touched: list[int] = []

    def watched(name: str) -> Any:
        real = getattr(Catalog, name)
        return lambda self, row: touched.append(row) or real(self, row)

    for name in ("name", "info", "source", "error", "columns"):
        monkeypatch.setattr(Catalog, name, watched(name))
    make_page(made, "T")
    assert touched == []
    assert isinstance(made.table, pa.Table)


def test_M07_where_times_come_from() -> None:
    tiers = ["pts", "pts", "dts", "rate", "assumed", "none", None]
    text = make_page(catalog(7, times_from=tiers), "T")
    assert "Where times come from" in text
    assert [text.index(f">{tier} (") for tier in ("pts", "dts", "rate", "assumed", "none")] == sorted(
        text.index(f">{tier} (") for tier in ("pts", "dts", "rate", "assumed", "none")
    )
    assert "scan with --assume-fps" in text
    assert "--assume-fps" not in make_page(catalog(2, times_from="dts"), "T")
    assert "Where times come from" not in make_page(catalog(2), "T")

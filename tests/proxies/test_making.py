"""Which originals get a proxy, where it lies, what is said of those that stay themselves."""

from __future__ import annotations

import io
import os
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import framefeed as ff
from framefeed.catalog import PROXY_SCHEMA, read_proxy_table, write_proxy_table
from framefeed.encode import ProxyWriter
from framefeed.media import MediaSource
from framefeed.proxies import _estimate, _folder, _making
from framefeed.proxies._folder import ProxyNames
from framefeed.proxies._making import scale_size
from framefeed.proxies._quality import Quality, measure_psnr, measure_ssim
from framefeed.testing import AudioSpec, ClipSpec, draw_stamp, read_stamps, write_clip
from tests.corpus import clip_file, corpus_file
from tests.damaged import damaged_clip
from tests.proxies.originals import (
    FRAMES,
    PLAIN,
    SIDE,
    TIMES,
    files_in,
    fill,
    make,
    original,
    reason_of,
    rows_of,
    scan,
    still_bytes,
)
from tests.remote import served

GOOD = Quality(40.0, 39.0, 0.98, 40.0)
BAD = Quality(37.9, 30.0, 0.98, 40.0)


def make_one(path: Path, tmp_path: Path, **options: Any) -> Path:
    """Make the proxy of one file."""
    make(scan(path), tmp_path / "out", **options)
    return tmp_path / "out"


# --- what stays itself --------------------------------------------------------------------------------


def test_pictures_with_alpha_stay(tmp_path: Path) -> None:
    fill(tmp_path / "in", ["alpha.png"])
    for mode in ("LA", "PA"):
        data = still_bytes("PNG" if mode == "LA" else "TIFF", mode=mode)
        (tmp_path / "in" / (f"{mode}.png" if mode == "LA" else f"{mode}.tiff")).write_bytes(data)
    out = make_one(tmp_path / "in", tmp_path)
    for name in ("alpha.png", "LA.png", "PA.tiff"):
        assert reason_of(out, name) == "it has an alpha channel"
    table = read_proxy_table(str(out))
    assert table.count_reasons() == [("it has an alpha channel", 3)]
    assert files_in(out) == {"proxies.parquet"}


@pytest.mark.parametrize("side", [240, 242])
def test_pictures_that_are_not_larger_stay(tmp_path: Path, side: int) -> None:
    for name in ("plain.mp4", "turned.mp4", "still.jpg"):
        out = make_one(original(name), tmp_path, short_side=side)
        assert reason_of(out, original(name).name) == f"its pictures are not larger than {side} pixels"


def test_pictures_that_are_hardly_larger_gain_too_little(tmp_path: Path) -> None:
    out = make_one(original("plain.mp4"), tmp_path, short_side=238)
    assert reason_of(out, original("plain.mp4").name).startswith("proxies of h264 240p GOP 16 would be 1.0")


def test_videos_with_damaged_frames_stay_what_they_are(tmp_path: Path) -> None:
    path = damaged_clip("for_proxies.mp4", spec=replace(PLAIN, num_frames=40))
    catalog = scan(path, verify="full")
    damaged = catalog[0].frame_index.damaged_frame_indices  # type: ignore[union-attr]
    assert len(damaged)
    small = make(catalog, tmp_path / "out")
    assert "damaged frames" in reason_of(tmp_path / "out", path.name)
    np.testing.assert_array_equal(small[0].frame_index.damaged_frame_indices, damaged)  # type: ignore[union-attr]
    assert small[0].source == catalog[0].source


def test_frames_that_only_decoding_finds_damaged_keep_a_video_what_it_is(tmp_path: Path) -> None:
    path = damaged_clip("for_proxies.mp4", spec=replace(PLAIN, num_frames=40))
    make(scan(path), tmp_path / "out")
    assert "not all of its frames can be decoded" in reason_of(tmp_path / "out", path.name)
    assert files_in(tmp_path / "out") == {"proxies.parquet"}


def test_a_video_that_was_cut_short_has_a_proxy_of_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "in" / "cut.mkv"
    path.parent.mkdir()
    data = original("odd.mkv").read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    catalog = scan(path, verify="none")
    small = make(catalog, tmp_path / "out")
    with ff.VideoDecoder(small[0], size=(72, 96), dimension_order="NHWC") as decoder:
        assert Path(str(small[0].source)).parent.name == "out"
        assert read_stamps(decoder[:]) == list(range(len(catalog[0].frame_index)))  # type: ignore[arg-type]


@pytest.mark.parametrize("verify", ["proof", "none"])
@pytest.mark.parametrize("name", ["size_change.h264", "size_change.ts"])
def test_videos_whose_pictures_change_their_size_stay(tmp_path: Path, name: str, verify: Any) -> None:
    path = corpus_file(name)
    make(
        ff.scan(path, verify=verify, workers=0, assume_fps=25 if name.endswith("h264") else None),
        tmp_path / "out",
        short_side=32,
    )
    assert "its pictures change their size" in reason_of(tmp_path / "out", path.name)


def test_a_proxy_of_more_bytes_is_thrown_away(tmp_path: Path) -> None:
    path = clip_file("original_tiny.mp4", replace(PLAIN, codec_options={"crf": "40"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_estimate, "_MOST_BYTES", 100.0)
        out = make_one(path, tmp_path)
    assert reason_of(out, path.name) == "its proxy would have more bytes"
    assert files_in(out) == {"proxies.parquet"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_making, "DECODER", None)  # a sample of its kind is read, but nothing of the others
        patch.setattr(_estimate, "_sample_file", lambda *_: _estimate.FileSample(10.0, 1.0, 1.6, 1.0, 1))
        out = make_one(path, tmp_path, resume=False)
    assert reason_of(out, path.name) == "proxies of h264 240p GOP 16 would have 1.60 times the bytes"


@pytest.mark.parametrize(("ratio", "is_made"), [(1.49, False), (1.51, True)])
def test_a_gain_below_the_least_keeps_a_kind_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ratio: float, is_made: bool
) -> None:
    monkeypatch.setattr(_estimate, "_time_clips", lambda source, index, _: ratio if index.stream.height == 240 else 1.0)
    out = make_one(original("plain.mp4"), tmp_path)
    if is_made:
        assert rows_of(out)[original("plain.mp4").name]["proxy"] == original("plain.mp4").name
    else:
        assert (
            reason_of(out, original("plain.mp4").name)
            == "proxies of h264 240p GOP 16 would be 1.49 times as fast, less than 1.5"
        )
        assert files_in(out) == {"proxies.parquet"}


def test_one_kind_may_stay_and_another_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill(tmp_path / "in", ["plain.mp4", "variable.mp4", "still.jpg"])
    monkeypatch.setattr(
        _estimate,
        "_time_clips",
        lambda source, index, _: 1.0 if len(index) > 1 else index.stream.width * 1.0,
    )
    catalog = scan(folder)
    small = make(catalog, tmp_path / "out")
    rows = rows_of(tmp_path / "out")
    assert rows["still.jpg"]["proxy"] == "still.jpg"
    for name in ("plain.mp4", "variable.mp4"):
        assert "1.00 times as fast" in reason_of(tmp_path / "out", name)
    assert [Path(str(entry.source)).parent.name for entry in small] == ["in", "out", "in"]


@pytest.mark.parametrize(("given", "used"), [([GOOD], [18]), ([BAD, GOOD], [18, 14]), ([BAD, BAD, GOOD], [18, 14, 10])])
def test_a_video_of_too_little_quality_is_encoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[Quality], used: list[int]
) -> None:
    tried, left = watch_qualities(monkeypatch, given)
    out = make_one(original("odd.mkv"), tmp_path)
    assert tried == used
    assert not left
    row = rows_of(out)[original("odd.mkv").name]
    assert (row["quality"], row["psnr"]) == (used[-1], 40.0)


def watch_qualities(monkeypatch: pytest.MonkeyPatch, given: list[Quality]) -> tuple[list[int], list[Quality]]:
    """List the settings of encodings, and give these qualities for them; the sample of a kind is made up."""
    tried, left, writer = list[int](), list(given), ProxyWriter

    def write(*words: Any, **options: Any) -> Any:
        tried.append(options["quality"])
        return writer(*words, **options)

    monkeypatch.setattr(_making, "ProxyWriter", write)
    monkeypatch.setattr(_making, "compare", lambda pairs: left.pop(0))
    monkeypatch.setattr(_estimate, "_sample_file", lambda *_: _estimate.FileSample(10.0, 1.0, 0.5, 1.0, 1))
    return tried, left


def test_a_video_whose_quality_stays_too_low_stays_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried, _ = watch_qualities(monkeypatch, [BAD, Quality(45.0, 44.0, 0.969, 40.0), BAD])
    out = make_one(original("plain.mp4"), tmp_path)
    assert tried == [18, 14, 10]
    reason = "its pictures lose too much at the best setting"
    assert reason_of(out, original("plain.mp4").name) == reason
    assert read_proxy_table(str(out)).count_reasons() == [(reason, 1)]
    assert files_in(out) == {"proxies.parquet"}


def test_noise_is_encoded_again_with_more_bytes(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (FRAMES, 240, 320, 3), dtype=np.uint8)
    spec = replace(PLAIN, num_frames=8, draw=lambda number: noise[number])
    (tmp_path / "in").mkdir()
    out = make_one(write_clip(tmp_path / "in" / "noise.mp4", spec), tmp_path)
    row = rows_of(out)["noise.mp4"]
    assert row["quality"] in (14, 10)
    assert row["psnr"] >= 38
    assert row["ssim"] >= 0.97


def test_reasons_are_counted_the_most_frequent_first(tmp_path: Path) -> None:
    folder = fill(tmp_path / "in", ["alpha.png", "plain.mp4"])
    for number in range(3):
        write_clip(folder / f"small{number}.mp4", ClipSpec(num_frames=4, seed=number))
    make(scan(folder), tmp_path / "out")
    counts = read_proxy_table(str(tmp_path / "out")).count_reasons()
    assert counts == [("its pictures are not larger than 96 pixels", 3), ("it has an alpha channel", 1)]


def test_rows_that_failed_stay_failed(tmp_path: Path) -> None:
    folder = fill(tmp_path / "in", ["plain.mp4"])
    write_clip(folder / "audio.mp4", AudioSpec())
    (folder / "broken.mp4").write_bytes(b"no video at all")
    catalog = scan(folder)
    small = make(catalog, tmp_path / "out")
    assert small.failures == catalog.failures
    assert len(small.failures) == 2
    assert set(rows_of(tmp_path / "out")) == {"plain.mp4"}
    assert files_in(tmp_path / "out") == {"plain.mp4", "proxies.parquet"}


def test_a_catalog_of_failed_rows_alone_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "broken.mp4").write_bytes(b"no video at all")
    catalog = scan(tmp_path / "in")
    small = make(catalog, tmp_path / "out")
    assert small.failures == catalog.failures
    assert read_proxy_table(str(tmp_path / "out")).rows.num_rows == 0


# --- the files ----------------------------------------------------------------------------------------


def test_a_proxy_is_h264_of_short_gops_without_b_frames_and_names_its_original(tmp_path: Path) -> None:
    catalog = scan(original("b_frames.mp4"))
    small = make(catalog, tmp_path / "out")
    path = str(small[0].source)
    with av.open(path) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264"
        assert (stream.height, stream.width) == (SIDE, 128)
        comment = container.metadata["comment"]
        packets = [packet for packet in container.demux(stream) if packet.size]
    assert all(packet.pts == packet.dts for packet in packets)
    keys = [packet.is_keyframe for packet in packets]
    assert str(catalog.row_fingerprint(0)) in comment
    numbers = [number for number, is_key in enumerate(keys) if is_key]
    assert numbers[0] == 0
    assert max(np.diff([*numbers, FRAMES])) <= 8
    index = small[0].frame_index
    assert index is not None
    assert index.key_frame_indices.tolist() == numbers
    assert ff.build_index(path).stream.displayed == (SIDE, 128)


def test_a_proxy_of_a_picture_is_a_jpeg_that_stands_upright(tmp_path: Path) -> None:
    small = make(scan(original("turned.jpg")), tmp_path / "out")
    with Image.open(str(small[0].source)) as picture:
        assert (picture.format, picture.size) == ("JPEG", (96, 128))
        assert picture.getexif().get(0x0112, 1) == 1


@pytest.mark.parametrize(
    ("shown", "side", "size"),
    [
        ((1080, 1920), 256, (256, 456)),
        ((1920, 1080), 256, (456, 256)),
        ((480, 480), 64, (64, 64)),
        ((241, 323), 96, (96, 128)),
        ((101, 5000), 64, (64, 3168)),
    ],
)
def test_sizes_are_even_and_keep_their_shape(shown: tuple[int, int], side: int, size: tuple[int, int]) -> None:
    assert scale_size(shown, side) == size


def test_a_table_says_what_became_of_each_original(tmp_path: Path) -> None:
    folder = fill(tmp_path / "in", ["plain.mp4", "still.jpg", "alpha.png"])
    catalog = scan(folder)
    make(catalog, tmp_path / "out", gop=4)
    table = read_proxy_table(str(tmp_path / "out"))
    assert table.rows.schema.equals(PROXY_SCHEMA)
    assert (table.settings["short_side"], table.settings["gop"]) == (SIDE, 4)
    for row in range(len(catalog)):
        facts = rows_of(tmp_path / "out")[Path(str(catalog[row].source)).name]
        assert facts["original"] == str(catalog[row].source)
        assert facts["fingerprint"] == catalog.row_fingerprint(row)
        assert facts["bytes"] == Path(str(catalog[row].source)).stat().st_size
        assert (facts["proxy"] is None) == (facts["reason"] is not None)


def test_progress_counts_all_files(tmp_path: Path) -> None:
    folder = fill(tmp_path / "in", ["plain.mp4", "still.jpg", "alpha.png"])
    calls: list[tuple[int, int]] = []
    make(scan(folder), tmp_path / "out", progress=lambda *numbers: calls.append(numbers))
    assert calls[0] == (0, 3)
    assert calls[-1] == (3, 3)
    assert calls == sorted(calls)


# --- copies and names ---------------------------------------------------------------------------------


def test_copies_of_one_file_have_proxies_of_their_own(tmp_path: Path) -> None:
    folder = fill(tmp_path / "in" / "a", ["plain.mp4", "variable.mp4"])
    for name in ("b", "c"):
        fill(tmp_path / "in" / name, ["plain.mp4"])
    catalog = scan(folder.parent, label_from="parent")
    small = make(catalog, tmp_path / "out")
    named = {f"{name}/plain.mp4" for name in "abc"}
    assert files_in(tmp_path / "out") == {"proxies.parquet", "a/variable.mp4", *named}
    assert [entry.columns["label"] for entry in small] == [entry.columns["label"] for entry in catalog]
    # Elsewhere, too: by the folders that they have in common.
    (tmp_path / "in").rename(tmp_path / "moved")
    moved = scan(tmp_path / "moved").with_proxies(tmp_path / "out")
    assert [str(entry.source) for entry in moved] == [str(entry.source) for entry in small]


def test_files_that_differ_where_no_fingerprint_looks_have_proxies_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, colour in (("a", (255, 0, 0)), ("b", (0, 0, 255))):
        picture = np.full((1000, 1200, 3), 128, np.uint8)
        picture[150:300] = colour
        Image.fromarray(picture).save(tmp_path / "in" / f"{name}.bmp")
    catalog = scan(tmp_path / "in")
    assert catalog.row_fingerprint(0) == catalog.row_fingerprint(1)
    small = make(catalog, tmp_path / "out", short_side=96)
    means = []
    for each in (catalog, small):
        plan = ff.plan_clips(each, ff.Uniform(1), seed=0, shuffle=False, size=(96, 96))
        with ff.ClipLoader(plan, batch_size=2, workers=0) as loader:
            means.append(next(iter(loader)).data.mean(axis=(1, 3, 4)))
    np.testing.assert_allclose(means[0], means[1], atol=2)
    alone = scan(tmp_path / "in" / "b.bmp")
    assert ff.make_proxies(alone, tmp_path / "other", short_side=96, progress=False)[0].source is not None


@pytest.mark.parametrize("path", ["/etc/passwd", "../in/plain.mp4", "a//b.mp4", "./a.mp4", "", "a\0b"])
def test_a_table_names_files_of_its_folder_alone(tmp_path: Path, path: str) -> None:
    catalog = scan(fill(tmp_path / "in", ["plain.mp4"]))
    make(catalog, tmp_path / "out")
    table = read_proxy_table(str(tmp_path / "out"))
    rows = table.rows.set_column(table.rows.column_names.index("proxy"), "proxy", pa.array([path]))
    write_proxy_table(str(tmp_path / "out"), table.settings, rows)
    with pytest.raises(ff.UnreadableMedia, match=r"proxies\.parquet: .*is no path in the folder"):
        catalog.with_proxies(tmp_path / "out")


def test_a_table_that_claims_more_bytes_than_it_can_have_is_not_read(tmp_path: Path) -> None:
    catalog = scan(fill(tmp_path / "in", ["plain.mp4"]))
    make(catalog, tmp_path / "out")
    table = read_proxy_table(str(tmp_path / "out"))
    write_proxy_table(str(tmp_path / "out"), table.settings, pa.concat_tables([table.rows] * 500_000))
    with pytest.raises(ff.UnreadableMedia, match="claims more bytes"):
        catalog.with_proxies(tmp_path / "out")


def test_names_that_clash_get_proxies_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, name in enumerate(["a.mp4", "A.mp4", "a.MP4", "a.mp4.mp4", "a"]):
        write_clip(folder / f"{number}.mp4", replace(PLAIN, first_stamp=100 * number))
        (folder / f"{number}.mp4").rename(folder / name)
    (folder / "a.mkv").write_bytes(original("odd.mkv").read_bytes())
    catalog = scan([folder / name for name in ("a.mp4", "A.mp4", "a.MP4", "a.mp4.mp4", "a", "a.mkv")])
    small = make(catalog, tmp_path / "out")
    paths = [str(entry.source) for entry in small]
    assert len({path.casefold() for path in paths}) == 6
    assert all(path.startswith(str(tmp_path / "out")) for path in paths)
    for row in range(5):
        with (
            ff.VideoDecoder(small[row], dimension_order="NHWC", size=(72, 96)) as decoder,
            ff.VideoDecoder(catalog[row], dimension_order="NHWC") as right,
        ):
            assert read_stamps(decoder[:]) == read_stamps(right[:]) == list(range(100 * row, 100 * row + FRAMES))


def name_all(root: str, *names: str, **options: Any) -> list[str]:
    given = ProxyNames(root, **options)
    return [
        given.name(name, f"{number:032}", is_still=name.lower().endswith("jpg")) for number, name in enumerate(names)
    ]


def test_proxies_lie_in_the_tree_of_their_originals() -> None:
    paths = name_all(
        "/data", "/data/a/x.mp4", "/data/b/x.avi", "/data/b/c/y.JPG", "https://host/v/z.mov",
        "tar://../w.mp4::/data/t.tar", "tar://a%3A%3Ab::https://host/u.tar", "<12 bytes 00ff>",
    )  # fmt: skip
    assert paths == [
        "a/x.mp4",
        "b/x.avi.mp4",
        "b/c/y.jpg",
        "host/v/z.mov.mp4",
        "w.mp4",
        "host/u.tar/a__b.mp4",
        "<12 bytes 00ff>.mp4",
    ]


def test_each_name_is_given_once() -> None:
    mark = "0" * 12
    assert name_all("/d", "/d/a.mp4", "/d/A.mp4", kept=["b.mp4"]) == ["a.mp4", f"A-{mark}.mp4"]
    assert name_all("/d", "/d/a.mp4", kept=["A.mp4"]) == [f"a-{mark}.mp4"]
    assert name_all("/d", "/d/a.mp4", kept=["a.mp4/b.mp4"]) == [f"a-{mark}.mp4"]
    assert name_all("/d", "/d/a.mp4/b.mp4", kept=["a.mp4"]) == [f"{'0' * 32}-1.mp4"]
    taken = {"a.mp4", f"a-{mark}.mp4", f"{'0' * 32}-1.mp4"}
    assert name_all("/d", "/d/a.mp4", is_free=lambda path: path not in taken) == [f"{'0' * 32}-2.mp4"]


def test_long_and_odd_names_make_files_that_can_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "in" / ("ordner " + "ü" * 100)
    folder.mkdir(parents=True)
    names = ["x" * 250 + ".mp4", "x" * 249 + "y.mp4", "ü" * 120 + ".mp4", "new\nline.mp4", "a:b.mp4", "\udcff.mp4"]
    for number, name in enumerate(names):
        write_clip(tmp_path / f"{number}.mp4", replace(PLAIN, num_frames=6, first_stamp=10 * number))
        (tmp_path / f"{number}.mp4").rename(folder / name)
    catalog = scan(folder)
    assert not catalog.failures
    small = make(catalog, tmp_path / "out", short_side=64)
    assert len(files_in(tmp_path / "out")) == len(names) + 1
    for row in range(len(names)):
        with (
            ff.VideoDecoder(small[row], dimension_order="NHWC", size=(60, 80)) as decoder,
            ff.VideoDecoder(catalog[row], dimension_order="NHWC") as right,
        ):
            assert read_stamps(decoder[:]) == read_stamps(right[:])


def test_pictures_of_every_kind_and_sequences_have_proxies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_estimate, "_MOST_BYTES", 100.0)
    folder = tmp_path / "in"
    (folder / "several").mkdir(parents=True)
    picture = Image.fromarray(draw_stamp(7, 240, 320))
    for name, mode in (("a.gif", "RGB"), ("b.webp", "RGB"), ("c.jpg", "L"), ("d.jpg", "CMYK"), ("e.png", "P")):
        picture.convert(mode).save(folder / name, quality=99)
    pictures = scan(folder)
    small = make(pictures, tmp_path / "pictures")
    assert files_in(tmp_path / "pictures") == {
        "a.gif.jpg", "b.webp.jpg", "c.jpg", "d.jpg", "e.png.jpg", "proxies.parquet",
    }  # fmt: skip
    plan = ff.plan_clips(small, ff.Uniform(1), seed=0, size=(72, 96))
    with ff.ClipLoader(plan, batch_size=5, workers=0) as loader:
        (batch,) = loader
    assert read_stamps(batch.data[:, 0]) == [7] * 5
    for number in range(6):
        Image.fromarray(draw_stamp(number, 240, 320)).save(folder / "several" / f"{number}.jpg", quality=99)
    (folder / "single").mkdir()
    picture.save(folder / "single" / "0.jpg", quality=99)
    folders = scan([folder / "several", folder / "single"], image_folders="video", fps=10)
    small = make(folders, tmp_path / "folders")
    assert files_in(tmp_path / "folders") == {"several.mp4", "single.jpg", "proxies.parquet"}
    for row, expected in enumerate(([0, 1, 2, 3, 4, 5], [7])):
        with ff.VideoDecoder(small[row], size=(72, 96), dimension_order="NHWC") as decoder:
            frames = decoder.get_all_frames()
        assert read_stamps(frames.data) == expected
        np.testing.assert_allclose(frames.pts_seconds, np.arange(len(expected)) / 10)
    assert small.verify(workers=0).differences == ()


def test_media_in_memory_have_proxies(tmp_path: Path) -> None:
    sources = [original("variable.mp4").read_bytes(), still_bytes("JPEG", quality=99)]
    catalog = ff.plan_requests([ff.DecodeRequest(each, [0]) for each in sources], size=(48, 64)).catalog
    small = make(catalog, tmp_path / "out")
    assert len(files_in(tmp_path / "out")) == 3
    assert all(str(entry.source).startswith(str(tmp_path / "out")) for entry in small)
    np.testing.assert_array_equal(small[0].frame_index.pts_seconds, np.array(TIMES) / 1000)  # type: ignore[union-attr]


def test_a_video_with_sound_has_a_proxy_without(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_clip(tmp_path / "in" / "a.mp4", PLAIN, AudioSpec())
    small = make(scan(tmp_path / "in"), tmp_path / "out")
    with av.open(str(small[0].source)) as container:
        assert [stream.type for stream in container.streams] == ["video"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a file")
    for out in (tmp_path / "file", tmp_path / "file" / "small"):
        with pytest.raises(ff.UsageError, match=r"cannot write .*file"):
            make(scan(original("plain.mp4")), out)
    assert (tmp_path / "file").read_bytes() == b"a file"


def test_members_of_archives_have_proxies(tmp_path: Path) -> None:
    path = tmp_path / "in" / "shard.tar"
    path.parent.mkdir()
    with tarfile.open(path, "w") as archive:
        for name in ("b/plain.mp4", "c/still.jpg"):
            data = original(Path(name).name).read_bytes()
            facts = tarfile.TarInfo(name)
            facts.size = len(data)
            archive.addfile(facts, io.BytesIO(data))
    catalog = scan(path)
    assert not catalog.failures
    small = make(catalog, tmp_path / "out")
    assert [row["reason"] for row in read_proxy_table(str(tmp_path / "out")).rows.to_pylist()] == [None, None]
    assert len(files_in(tmp_path / "out")) == 3
    path.unlink()
    plan = ff.plan_clips(small, ff.Uniform(2), seed=0, size=(48, 64))
    with ff.ClipLoader(plan, batch_size=4, workers=0) as loader:
        assert all(batch.ok.all() for batch in loader)


def test_media_in_tables_have_proxies(tmp_path: Path) -> None:
    path = tmp_path / "in" / "media.parquet"
    path.parent.mkdir()
    sources = [original(name).read_bytes() for name in ("plain.mp4", "still.jpg")]
    pq.write_table(pa.table({"video": sources, "label": ["a", "b"]}), path)
    small = make(scan(path, columns={"media": "video"}), tmp_path / "out")
    assert files_in(tmp_path / "out") == {
        "media.parquet/video/0.mp4", "media.parquet/video/1.jpg", "proxies.parquet",
    }  # fmt: skip
    assert [entry.columns["label"] for entry in small] == ["a", "b"]
    assert small.verify(workers=0).differences == ()


def test_objects_of_a_server_have_proxies_and_their_names_no_secrets(tmp_path: Path) -> None:
    objects = {f"/v/{name}?token=secret": original(name).read_bytes() for name in ("plain.mp4", "still.jpg")}
    with served(objects) as url:
        catalog = scan([f"{url}{name}" for name in objects])
        assert not catalog.failures
        small = make(catalog, tmp_path / "out")
    plan = ff.plan_clips(small, ff.Uniform(2), seed=0, size=(48, 64))
    with ff.ClipLoader(plan, batch_size=2, workers=0) as loader:
        assert all(batch.ok.all() for batch in loader)
    assert len(files_in(tmp_path / "out")) == 3
    assert not any("secret" in name for name in files_in(tmp_path / "out"))
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or b"secret" not in path.read_bytes()
    assert "secret" not in str(read_proxy_table(str(tmp_path / "out")).rows.to_pylist())


# --- arguments ----------------------------------------------------------------------------------------


def test_arguments_are_checked(tmp_path: Path) -> None:
    catalog = scan(original("plain.mp4"))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"short_side": 15}, "short_side"),
        ({"short_side": 255}, "short_side: expected an even number"),
        ({"short_side": 4098}, "short_side"),
        ({"short_side": "256"}, "short_side"),
        ({"gop": 0}, "gop"),
        ({"workers": -1}, "workers"),
        ({"workers": 1.5}, "workers"),
        ({"resume": 1}, "resume"),
        ({"progress": 3}, "progress"),
        ({"out": 5}, "out"),
        ({"out": "s3://bucket/small"}, "out"),
        ({"out": "a\0b"}, "out"),
        ({"catalog": "cat.parquet"}, "catalog"),
    ]
    for options, message in wrong:
        arguments = {"catalog": catalog, "out": tmp_path / "out", **options}
        with pytest.raises(ff.UsageError, match=message):
            ff.make_proxies(**arguments)
    for options, message in wrong[:7]:
        with pytest.raises(ff.UsageError, match=message):
            ff.estimate_proxies(catalog, **options)
    assert not (tmp_path / "out").exists()


def test_a_catalog_of_headers_is_refused(tmp_path: Path) -> None:
    catalog = scan(original("plain.mp4"), depth="header")
    with pytest.raises(ff.UsageError, match="headers only"):
        make(catalog, tmp_path / "out")
    with pytest.raises(ff.UsageError, match="headers only"):
        ff.estimate_proxies(catalog)
    assert not (tmp_path / "out").exists()


def test_proxies_of_proxies_are_refused(tmp_path: Path) -> None:
    small = make(scan(original("plain.mp4")), tmp_path / "out")
    with pytest.raises(ff.UsageError, match="reads proxies already"):
        make(small, tmp_path / "smaller", short_side=32)
    with pytest.raises(ff.UsageError, match="reads proxies already"):
        ff.estimate_proxies(small)
    with pytest.raises(ff.UsageError, match="reads proxies already"):
        small.with_proxies(tmp_path / "out")


def test_relative_paths_are_compared_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "in", ["plain.mp4"])
    monkeypatch.chdir(tmp_path)
    for out in ("in", "in/small"):
        with pytest.raises(ff.UsageError, match="choose a folder outside"):
            make(scan("in"), Path(out))
    small = make(scan("in"), Path("small"))
    monkeypatch.chdir("/")
    with ff.VideoDecoder(small[0], size=(48, 64)) as decoder:
        assert len(decoder[:]) == FRAMES


def test_proxies_beside_an_archive_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "in" / "shard.tar"
    path.parent.mkdir()
    with tarfile.open(path, "w") as archive:
        archive.add(original("plain.mp4"), "plain.mp4")
    with pytest.raises(ff.UsageError, match="choose a folder outside"):
        make(scan(path), path.parent / "small")


def test_the_folder_lies_outside_of_that_of_the_originals(tmp_path: Path) -> None:
    fill(tmp_path / "in" / "a", ["plain.mp4"])
    fill(tmp_path / "in" / "b", ["variable.mp4"])
    (tmp_path / "link").symlink_to(tmp_path / "in")
    catalog = scan(tmp_path / "in")
    for out in (tmp_path / "in", tmp_path / "in" / "small", tmp_path / "in" / "a" / "x", tmp_path / "link" / "small"):
        with pytest.raises(ff.UsageError, match=r"the folder of the originals.*choose a folder outside"):
            make(catalog, out)
    assert files_in(tmp_path / "in") == {"a/plain.mp4", "b/variable.mp4"}


def test_a_file_that_failed_is_never_overwritten(tmp_path: Path) -> None:
    fill(tmp_path / "in" / "a", ["plain.mp4"])
    broken = tmp_path / "in" / "plain.mp4"
    broken.write_bytes(b"no video at all")
    with pytest.raises(ff.UsageError, match="choose a folder outside"):
        make(scan(tmp_path / "in"), tmp_path / "in")
    assert broken.read_bytes() == b"no video at all"


def test_a_file_of_another_program_is_never_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    name = original("plain.mp4").name
    (out / name).write_bytes(b"of another program")
    make(scan(original("plain.mp4")), out)
    assert (out / name).read_bytes() == b"of another program"
    row = rows_of(out)[name]
    assert row["proxy"] != name
    assert (out / row["proxy"]).is_file()


@pytest.mark.parametrize("kind", ["folder", "FIFO", "dead link", "empty file"])
def test_nothing_that_is_no_proxy_is_overwritten(tmp_path: Path, kind: str) -> None:
    out, name = tmp_path / "out", original("plain.mp4").name
    out.mkdir()
    path = out / name
    make_it = {"folder": path.mkdir, "FIFO": lambda: os.mkfifo(path), "empty file": path.touch}
    make_it.get(kind, lambda: path.symlink_to("nowhere"))()
    before = path.lstat()
    make(scan(original("plain.mp4")), out)
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert rows_of(out)[name]["proxy"] == f"{path.stem}-{rows_of(out)[name]['fingerprint'][:12]}.mp4"


def test_a_proxy_is_known_by_its_mark_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = original("plain.mp4").name
    make(scan(original("plain.mp4")), tmp_path / "out")
    (tmp_path / "out" / "proxies.parquet").unlink()
    for block in (2**20, 30, 7):
        monkeypatch.setattr(_folder, "_BLOCK", block)
        make(scan(original("plain.mp4")), tmp_path / "out", resume=False)
        assert files_in(tmp_path / "out") == {name, "proxies.parquet"}


def test_two_catalogs_may_share_a_folder(tmp_path: Path) -> None:
    catalogs = []
    for number in range(2):
        folder = tmp_path / f"in{number}"
        for name in ("a", "b"):
            (folder / name).mkdir(parents=True)
            write_clip(folder / name / "x.mp4", replace(PLAIN, num_frames=6, first_stamp=100 * number, seed=ord(name)))
        catalogs.append(scan(folder))
    for catalog in catalogs:
        make(catalog, tmp_path / "out", short_side=64)
    for number, catalog in enumerate(catalogs):
        for entry in catalog.with_proxies(tmp_path / "out"):
            assert str(entry.source).startswith(str(tmp_path / "out"))
            with ff.VideoDecoder(entry, dimension_order="NHWC", size=(60, 80)) as decoder:
                assert read_stamps(decoder[:]) == list(range(100 * number, 100 * number + 6))


def test_the_same_file_with_other_times_is_not_given_the_first_ones(tmp_path: Path) -> None:
    path = original("no_times.h264")
    slow, fast = (scan(path, assume_fps=fps) for fps in (10, 50))
    make(slow, tmp_path / "out")
    with pytest.raises(ff.StaleSource, match=r"other numbers or times.*another assume_fps"):
        fast.with_proxies(tmp_path / "out")
    small = make(fast, tmp_path / "out")
    np.testing.assert_array_equal(small[0].frame_index.pts_seconds, fast[0].frame_index.pts_seconds)  # type: ignore[union-attr]
    with pytest.raises(ff.StaleSource, match="other numbers or times"):
        slow.with_proxies(tmp_path / "out")


# --- measures -----------------------------------------------------------------------------------------


def test_psnr_and_ssim_are_those_of_their_definitions() -> None:
    generator = np.random.default_rng(1)
    right = generator.integers(0, 256, (64, 80), dtype=np.uint8)
    own = np.clip(right.astype(int) + generator.integers(-9, 10, right.shape), 0, 255).astype(np.uint8)
    error = np.mean((right.astype(float) - own) ** 2)
    assert measure_psnr(right, own) == pytest.approx(10 * np.log10(255**2 / error))
    assert measure_psnr(right, right) == 60.0
    scores = []
    for top in range(0, 64 - 7, 4):
        for left in range(0, 80 - 7, 4):
            x, y = (plane[top : top + 8, left : left + 8].astype(float) for plane in (right, own))
            covariance = np.mean(x * y) - x.mean() * y.mean()
            up = (2 * x.mean() * y.mean() + 6.5025) * (2 * covariance + 58.5225)
            scores.append(up / ((x.mean() ** 2 + y.mean() ** 2 + 6.5025) * (x.var() + y.var() + 58.5225)))
    assert measure_ssim(right, own) == pytest.approx(np.mean(scores))
    assert measure_ssim(right, right) == pytest.approx(1.0)


def test_names_of_kinds_do_not_depend_on_small_differences() -> None:
    from framefeed.proxies._kinds import name_kind

    assert name_kind("h264", 720, 1280, 250, 1) == name_kind("h264", 718, 1280, 240, 1) == "h264 720p GOP 256"
    assert name_kind("mjpeg", 3000, 4000, 1, None) == "mjpeg 12 MP"
    assert name_kind("mjpeg", 480, 640, 100, 100) == "mjpeg 480p GOP 1"


def test_the_names_of_the_folder_are_those_that_are_documented() -> None:
    assert (_folder.JOURNAL_NAME, _folder.LOCK_NAME, _folder.TABLE_NAME) == (
        ".proxies.jsonl",
        ".proxies.lock",
        "proxies.parquet",
    )


@pytest.mark.parametrize(
    ("suffix", "options"), [(".mp4", {}), (".webm", {"codec": "vp9"}), (".mp4", {"rotation": 180})]
)
def test_colours_lie_where_the_original_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, options: dict[str, Any]
) -> None:
    def draw(number: int) -> np.ndarray:
        rows, columns = np.indices((240, 320))
        is_red = ((columns + 4 * number) // 24 + rows // 24) % 2 == 1
        return np.where(is_red[..., None], (230, 30, 30), (30, 60, 230)).astype(np.uint8)

    path = write_clip(tmp_path / f"a{suffix}", ClipSpec(8, height=240, width=320, draw=draw, **options))
    index, settings = ff.build_index(path), _making.ProxySettings(short_side=96)
    shrinker, near = _making.ProxyShrinker, []

    class Other(shrinker):  # type: ignore[valid-type, misc]
        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            self.chroma_location = 1 - self.chroma_location

    for each in (shrinker, Other):
        monkeypatch.setattr(_making, "ProxyShrinker", each)
        made = _making.make_proxy(MediaSource.of(path), index, str(tmp_path / "b.mp4"), settings, "")
        near.append(made.quality.rgb_psnr)
    assert near[0] > near[1] + 0.5

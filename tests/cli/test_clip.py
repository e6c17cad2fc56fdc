from __future__ import annotations

import json
import os
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from framefeed.index import build_index
from framefeed.load import ClipLoader
from framefeed.plan import AtIndices, plan_clips
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, read_stamp
from tests.cli.running import Answer, only_line
from tests.corpus import clip_file, corpus_file
from tests.damaged import damaged_clip

NTSC = ClipSpec(num_frames=40, fps=Fraction(30000, 1001), start_seconds=1.4)


def _document(answer: Answer, *words: str | Path) -> dict[str, Any]:
    """Run the command with --json."""
    out, err = answer("clip", *words, "--json")
    assert err == ""
    return json.loads(out)


def _clip(answer: Answer, *words: str | Path) -> list[str]:
    """Run the command, and give the files that it wrote, in the order of frames."""
    frames = _document(answer, *words)["frames"]
    return list(dict.fromkeys(frame["file"] for frame in sorted(frames, key=lambda frame: frame["index"])))


def _picture(path: str | Path) -> np.ndarray:
    with Image.open(path) as image:
        assert (image.format, image.mode) == ("PNG", "RGB")
        return np.asarray(image)


def _stamp(path: str | Path) -> int:
    return read_stamp(_picture(path))


def test_frames_are_named_by_ordinal_and_time(tmp_path: Path, answer: Answer) -> None:
    paths = _clip(answer, clip_file("good.mp4"), "--indices", "30,0,-1,30", "-o", tmp_path / "a" / "b")
    names = ["frame_000000_0.000000000s.png", "frame_000030_1.200000000s.png", "frame_000099_3.960000000s.png"]
    assert [Path(path).name for path in paths] == names == sorted(os.listdir(tmp_path / "a" / "b"))
    assert [_stamp(path) for path in paths] == [0, 30, 99]


def test_times_count_from_the_first_frame_and_names_from_the_streams_zero(tmp_path: Path, answer: Answer) -> None:
    video = clip_file("ntsc_late.ts", NTSC)
    paths = _clip(answer, video, "--at", "0,1.0,0.5", "-o", tmp_path)
    assert [_stamp(path) for path in paths] == [0, 14, 29]
    seconds = [float(re.findall(r"_(\d+\.\d{9})s", path)[0]) for path in paths]
    assert np.allclose(np.diff(seconds), [14 * 1001 / 30000, 15 * 1001 / 30000], atol=2e-5)
    assert seconds[0] > 1.3


def test_several_rates_in_one_clip(tmp_path: Path, answer: Answer) -> None:
    out, err = answer("clip", clip_file("good.mp4"), "--rates", "1:2,2:5", "-o", tmp_path)
    assert re.fullmatch(rf"6 frames written to {re.escape(os.fspath(tmp_path))}, [\d.]+ kB\n", out)
    assert [_stamp(path) for path in sorted(tmp_path.iterdir())] == [0, 25, 50, 62, 75, 87]
    assert err == "framefeed: 1 of 7 frames lie past the end of the video: the last frame is repeated for them\n"


def test_a_single_chosen_frame_must_exist(answer: Answer) -> None:
    video = os.fspath(clip_file("good.mp4"))
    for words, said in [
        (["--at", "0,4.0"], "no frame at 4 s: the video is 4.000 s long"),
        (["--at", "-0.5"], "no frame at -0.5 s: the first frame is at 0 s, and the video is 4.000 s long"),
        (["--indices", "100"], "no frame 100: the video has 100 frames"),
        (["--indices", "-101"], "no frame -101"),
    ]:
        assert said in answer("clip", video, *words, "--sheet", "x.png", code=1).err
    assert not os.path.exists("x.png")


def test_json_lists_the_chosen_frames(tmp_path: Path, answer: Answer) -> None:
    video, sheet = clip_file("good.mp4"), tmp_path / "sheet.png"
    document = _document(answer, video, "--rates", "1:2,5/2:4", "-o", tmp_path, "--sheet", sheet)
    assert document["source"] == os.fspath(video)
    assert (document["codec"], document["width"], document["height"], document["num_frames"]) == ("h264", 128, 96, 100)
    assert document["duration_seconds"] == pytest.approx(4)
    frames = document["frames"]
    assert [frame["index"] for frame in frames] == [0, 25, 50, 60, 70, 80]
    assert [frame["segment"] for frame in frames] == [0, 0, 1, 1, 1, 1]
    assert all(frame["valid"] and frame["pick_error_seconds"] == 0 for frame in frames)
    assert [_stamp(frame["file"]) for frame in frames] == [frame["index"] for frame in frames]
    assert document["sheet"] == os.fspath(sheet)
    assert _picture(sheet).shape[2] == 3


def test_size(tmp_path: Path, answer: Answer) -> None:
    for word, size in [("48", (48, 64)), ("40x100", (40, 100)), ("192", (192, 256))]:
        (path,) = _clip(answer, clip_file("good.mp4"), "--indices", "7", "--size", word, "-o", tmp_path / word)
        assert _picture(path).shape[:2] == size
        assert _stamp(path) == 7


def test_frames_are_written_in_the_order_of_the_video(tmp_path: Path, answer: Answer) -> None:
    chosen = [90, 3, 17, 40, 41, 99, 0, 64]
    paths = _clip(answer, clip_file("good.mp4"), "--indices", ",".join(map(str, chosen)), "-o", tmp_path)
    assert [_stamp(path) for path in paths] == sorted(chosen)


@pytest.mark.parametrize(
    ("words", "frames"),
    [
        (["--every", "1s"], [0, 25, 50, 75]),
        (["--every", "500ms"], [0, 12, 25, 37, 50, 62, 75, 87]),
        (["--every", "1.5"], [0, 37, 75]),
        (["--every", "9"], [0]),
        (["--fps", "1"], [0, 25, 50, 75]),
        (["--fps", "3/4"], [0, 33, 66]),
        (["--fps", "25"], list(range(100))),
        (["--fps", "60"], list(range(100))),
    ],
)
def test_every_and_fps_take_frames_over_the_whole_video(
    words: list[str], frames: list[int], tmp_path: Path, answer: Answer
) -> None:
    assert [_stamp(path) for path in _clip(answer, clip_file("good.mp4"), *words, "-o", tmp_path)] == frames


def test_fps_counts_from_the_first_frame(tmp_path: Path, answer: Answer) -> None:
    video = clip_file("ntsc_late.ts", NTSC)
    assert [_stamp(path) for path in _clip(answer, video, "--fps", "30000/1001", "-o", tmp_path)] == list(range(40))


def test_frames_at_a_rate_need_times_and_have_a_largest_number(tmp_path: Path, answer: Answer) -> None:
    for video, words, said in [
        (clip_file("good.mp4"), ["--fps", "1000000"], "--fps 1000000 means 4,000,000 frames of this video, at most"),
        (corpus_file("raw.h264"), ["--every", "1s"], "timestamps"),
    ]:
        assert said in answer("clip", video, *words, "-o", tmp_path, code=1).err


@pytest.mark.parametrize(("ending", "form", "best"), [("jpg", "JPEG", "90"), ("webp", "WEBP", "95")])
def test_lossy_files_and_their_quality(ending: str, form: str, best: str, tmp_path: Path, answer: Answer) -> None:
    sizes = []
    for quality in (best, "30"):
        paths = _clip(answer, clip_file("good.mp4"), "--indices", "0,30,99", "-o", tmp_path / quality,
                      "--format", ending, "--quality", quality)  # fmt: skip
        for path, number in zip(paths, (0, 30, 99), strict=True):
            with Image.open(path) as image:
                assert image.format == form
                assert read_stamp(np.asarray(image)) == number
        sizes.append(sum(map(os.path.getsize, paths)))
    assert Path(paths[1]).name == f"frame_000030_1.200000000s.{ending}"
    assert sizes[1] < sizes[0]


def test_an_error_in_the_middle_keeps_the_files_before_it(tmp_path: Path, answer: Answer) -> None:
    video = tmp_path / "bad.mkv"
    data = bytearray(clip_file("bad.mkv").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 200] = bytes(200)
    video.write_bytes(data)
    assert "bad.mkv: " in answer("clip", video, "--fps", "25", "-o", tmp_path / "out", code=1).err
    assert 0 < len(os.listdir(tmp_path / "out")) < 100


def test_sheets_have_a_largest_size_and_number_of_frames(tmp_path: Path, answer: Answer) -> None:
    sheet = tmp_path / "sheet.png"
    for count in (1, 2, 16, 400):
        answer("clip", clip_file("good.mp4"), "--rates", f"25:{count}", "--sheet", sheet)
        height, width, _ = _picture(sheet).shape
        assert width <= 1920
        assert height <= 10_000
    assert (
        "at most 400 frames, got 401"
        in answer("clip", clip_file("good.mp4"), "--rates", "25:401", "--sheet", sheet, code=1).err
    )


def test_a_stream_without_times_has_names_without_times(tmp_path: Path, answer: Answer) -> None:
    paths = _clip(answer, corpus_file("raw.h264"), "--indices", "0,5", "-o", tmp_path, "--sheet", tmp_path / "s.png")
    assert [Path(path).name for path in paths[:2]] == ["frame_000000.png", "frame_000005.png"]
    (frame,) = _document(answer, corpus_file("raw.h264"), "--indices", "5", "-o", tmp_path)["frames"]
    assert frame["pts_seconds"] is None
    assert len(answer("clip", corpus_file("raw.h264"), "--at", "0", "-o", tmp_path, code=1).err.splitlines()) == 1


def test_targets_that_cannot_be_written_are_one_line(tmp_path: Path, answer: Answer) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    video = os.fspath(clip_file("good.mp4"))
    for words in (["-o", taken], ["-o", taken / "below"], ["--sheet", tmp_path / "none" / "sheet.png"]):
        assert "cannot" in answer("clip", video, "--indices", "0", *words, code=1).err
    assert os.listdir(tmp_path) == ["taken"]


@pytest.mark.parametrize("ending", ["png", "jpg", "webp"])
def test_a_sheet_replaces_nothing_but_a_sheet(tmp_path: Path, answer: Answer, ending: str) -> None:
    video, sheet = os.fspath(clip_file("good.mp4")), tmp_path / f"sheet.{ending}"
    for frames in ("0", "0,5"):
        answer("clip", video, "--indices", frames, "--sheet", sheet)
    two = sheet.read_bytes()
    (frame,) = _clip(answer, video, "--indices", "0", "-o", tmp_path, "--format", ending)
    text = tmp_path / f"text.{ending}"
    text.write_text("no picture")
    for other in (frame, text):
        before = Path(other).read_bytes()
        line = only_line(answer("clip", video, "--indices", "0", "--sheet", other, code=1).err)
        assert "is already there is not a contact sheet of framefeed, and is not overwritten" in line
        assert Path(other).read_bytes() == before
    answer("clip", video, "--indices", "0", "--sheet", sheet)
    assert sheet.read_bytes() != two


# --- damaged frames, and what is no video -------------------------------------------------------------

DAMAGE = (12, 13, 14, 15, 16, 30)


def _loaded(video: Path, on_damaged: Any) -> np.ndarray:
    """The frames of a damaged clip as a loader delivers them, [T, H, W, C]."""
    plan = plan_clips(scan(video, verify="full"), AtIndices(range(40)), seed=0, shuffle=False, on_damaged=on_damaged)
    (batch,) = ClipLoader(plan, batch_size=1, workers=0)
    return np.asarray(batch.data[0]).transpose(0, 2, 3, 1)


def test_D01_damaged_frames_are_skipped(tmp_path: Path, answer: Answer) -> None:
    video, out, sheet = damaged_clip("damage.mp4", DAMAGE), tmp_path / "out", tmp_path / "sheet.png"
    damaged = np.flatnonzero(build_index(video, "full").is_damaged(np.arange(40))).tolist()
    assert 0 < len(damaged) < 40
    words = [video, "--fps", "25", "-o", out, "--sheet", sheet, "--on-damaged", "skip"]
    frames = _document(answer, *words)["frames"]
    assert [frame["index"] for frame in frames] == list(range(40))
    assert [frame["index"] for frame in frames if frame["file"] is None] == damaged
    assert [frame["index"] for frame in frames if not frame["valid"]] == damaged
    assert [frame["index"] for frame in frames if frame["damaged"]] == damaged
    clip = _loaded(video, "skip")
    for frame in frames:
        assert frame["damaged"] or np.array_equal(_picture(frame["file"]), clip[frame["index"]]), frame
    assert len(os.listdir(out)) == 40 - len(damaged)
    assert sheet.exists()
    shown = answer("clip", *words)
    assert f"{40 - len(damaged)} frames written to " in shown.out
    assert shown.err.startswith(f"framefeed: {len(damaged)} frames are damaged ({damaged[0]}, ")
    assert "no file is written for them" in shown.err


def test_D01_the_reason_is_printed_if_no_frame_is_written(tmp_path: Path, answer: Answer) -> None:
    video, out = damaged_clip("damage.mp4", DAMAGE), os.fspath(tmp_path / "out")
    bad = int(np.flatnonzero(build_index(video, "full").is_damaged(np.arange(40)))[0])
    words = ["clip", os.fspath(video), "-o", out, "--indices"]
    shown = answer(*words, f"{bad}", "--on-damaged", "skip")
    assert (
        shown.out == f"no frame written to {out}: all chosen frames are damaged, and are skipped (--on-damaged skip)\n"
    )
    assert shown.err == f"framefeed: 1 frame is damaged ({bad}): no file is written for it\n"
    shown = answer(*words, f"0,1,2,{bad}", code=1)
    assert shown.out == f"3 frames written to {out} before the command stopped\n"
    assert f"frame {bad} of 40 cannot be decoded" in only_line(shown.err)
    assert len(os.listdir(out)) == 3


def test_D01_damaged_frames_are_delivered(tmp_path: Path, answer: Answer) -> None:
    video = damaged_clip("damage.mp4", DAMAGE)
    index = build_index(video, "full")
    damaged = np.flatnonzero(index.is_damaged(np.arange(len(index)))).tolist()
    frames = _document(answer, video, "--fps", "25", "-o", tmp_path, "--on-damaged", "deliver")["frames"]
    assert all(frame["file"] and frame["valid"] for frame in frames)
    clip = _loaded(video, "deliver")
    for frame in frames:
        assert np.array_equal(_picture(frame["file"]), clip[frame["index"]]), frame
    assert [frame["index"] for frame in frames if frame["damaged"]] == damaged


def test_D01_damaged_frames_fail_with_advice_for_the_command_line(tmp_path: Path, answer: Answer) -> None:
    video = os.fspath(damaged_clip("damage.mp4", DAMAGE))
    for words in ([], ["--on-damaged", "error"]):
        assert "(on the command line: --on-damaged skip" in only_line(
            answer("clip", video, "--fps", "25", "-o", tmp_path, *words, code=1).err
        )


def test_a_size_that_changes_is_answered_with_an_option(tmp_path: Path, answer: Answer) -> None:
    video = os.fspath(corpus_file("size_change.ts"))
    words = ["clip", video, "--indices", "0,-1", "-o", tmp_path]
    advice = only_line(answer(*words, code=1).err)
    assert "size_change.ts: the picture size changes mid-stream" in advice
    assert "(on the command line: --size HEIGHTxWIDTH)" in advice
    answer(*words, "--size", "48x64")


@pytest.mark.parametrize("words", [["--at", "0"], ["--rates", "1:2"], ["--fps", "1"]])
def test_a_video_without_times_is_answered_with_an_option(words: list[str], tmp_path: Path, answer: Answer) -> None:
    video = os.fspath(corpus_file("raw.h264"))
    advice = only_line(answer("clip", video, *words, "-o", tmp_path, code=1).err)
    assert "raw.h264" in advice
    assert "--indices" in advice


def test_a_catalog_and_a_folder_are_no_video(tmp_path: Path, answer: Answer) -> None:
    catalog = tmp_path / "cat.parquet"
    scan(clip_file("good.mp4"), out=catalog)
    tables = next(tmp_path.glob("*.arrow"))
    for path, said in [
        (catalog, "is a Parquet file, such as a catalog from scan, not media: .*framefeed feed, framefeed cache build"),
        (tables, "is an Arrow file, such as the frame tables beside a catalog"),
        (tmp_path, f"expected one video, got a folder: .*'framefeed scan {tmp_path} -o cat.parquet'"),
    ]:
        assert re.search(said, only_line(answer("clip", path, "--indices", "0", "-o", tmp_path / "out", code=1).err))
    assert not (tmp_path / "out").exists()

from __future__ import annotations

import json
import os
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import framefeed.cli.clip
from framefeed.cli import main
from framefeed.testing import ClipSpec, read_stamp
from tests.corpus import clip_file, corpus_file

NTSC = ClipSpec(num_frames=40, fps=Fraction(30000, 1001), start_seconds=1.4)


def _clip(capfd: pytest.CaptureFixture[str], *words: str | Path) -> list[str]:
    """Run the command, and give the lines of its output."""
    assert main(["clip", *map(os.fspath, words)]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    return out.splitlines()


def _picture(path: str | Path) -> np.ndarray:
    with Image.open(path) as image:
        assert (image.format, image.mode) == ("PNG", "RGB")
        return np.asarray(image)


def _stamp(path: str | Path) -> int:
    return read_stamp(_picture(path))


def test_frames_are_named_by_ordinal_and_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    paths = _clip(capfd, clip_file("good.mp4"), "--indices", "30,0,-1,30", "-o", tmp_path / "a" / "b")
    names = ["frame_000000_0.000000000s.png", "frame_000030_1.200000000s.png", "frame_000099_3.960000000s.png"]
    assert [Path(path).name for path in paths] == names == sorted(os.listdir(tmp_path / "a" / "b"))
    assert [_stamp(path) for path in paths] == [0, 30, 99]


def test_times_count_from_the_first_frame_and_names_from_the_streams_zero(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    video = clip_file("ntsc_late.ts", NTSC)
    paths = _clip(capfd, video, "--at", "0,1.0,0.5", "-o", tmp_path)
    assert [_stamp(path) for path in paths] == [0, 14, 29]
    seconds = [float(re.findall(r"_(\d+\.\d{9})s", path)[0]) for path in paths]
    assert np.allclose(np.diff(seconds), [14 * 1001 / 30000, 15 * 1001 / 30000], atol=2e-5)
    assert seconds[0] > 1.3


def test_several_rates_in_one_clip(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["clip", os.fspath(clip_file("good.mp4")), "--rates", "1:2,2:5", "-o", os.fspath(tmp_path)]) == 0
    out, err = capfd.readouterr()
    assert [_stamp(path) for path in out.splitlines()] == [0, 25, 50, 62, 75, 87]
    assert err == "framefeed: 1 of 7 wanted times lie past the end: there the last frame stands again\n"


def test_a_frame_that_is_asked_for_by_itself_must_be_there(capfd: pytest.CaptureFixture[str]) -> None:
    video = os.fspath(clip_file("good.mp4"))
    for words, said in [
        (["--at", "0,4.0"], "4 s lies past the end: the video has 4.000 s"),
        (["--at", "-0.5"], "no frame to pick"),
        (["--indices", "100"], "frame 100 lies past the end: the video has 100 frames"),
        (["--indices", "-101"], "no frame -101"),
    ]:
        assert main(["clip", video, *words, "--sheet", "x.png"]) == 1
        assert said in capfd.readouterr().err
    assert not os.path.exists("x.png")


def test_json_says_what_was_chosen(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    video, sheet = clip_file("good.mp4"), tmp_path / "sheet.png"
    lines = _clip(capfd, video, "--rates", "1:2,5/2:4", "-o", tmp_path, "--sheet", sheet, "--json")
    document = json.loads("\n".join(lines))
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


def test_size(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for word, size in [("48", (48, 64)), ("40x100", (40, 100)), ("192", (192, 256))]:
        (path,) = _clip(capfd, clip_file("good.mp4"), "--indices", "7", "--size", word, "-o", tmp_path / word)
        assert _picture(path).shape[:2] == size
        assert _stamp(path) == 7


def test_frames_are_decoded_in_portions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(framefeed.cli.clip, "BYTES_AT_ONCE", 3 * 128 * 96 * 3)
    wanted = [90, 3, 17, 40, 41, 99, 0, 64]
    paths = _clip(capfd, clip_file("good.mp4"), "--indices", ",".join(map(str, wanted)), "-o", tmp_path)
    assert [_stamp(path) for path in paths] == sorted(wanted)


def test_sheets_have_bounds(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sheet = tmp_path / "sheet.png"
    for count in (1, 2, 16, 400):
        assert main(["clip", os.fspath(clip_file("good.mp4")), "--rates", f"25:{count}", "--sheet", str(sheet)]) == 0
        height, width, _ = _picture(sheet).shape
        assert width <= 1920
        assert height <= 10_000
    capfd.readouterr()
    assert main(["clip", os.fspath(clip_file("good.mp4")), "--rates", "25:401", "--sheet", str(sheet)]) == 1
    assert "at most 400 frames, not 401" in capfd.readouterr().err


def test_a_stream_without_times_has_names_without_times(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    paths = _clip(capfd, corpus_file("raw.h264"), "--indices", "0,5", "-o", tmp_path, "--sheet", tmp_path / "s.png")
    assert [Path(path).name for path in paths[:2]] == ["frame_000000.png", "frame_000005.png"]
    lines = _clip(capfd, corpus_file("raw.h264"), "--indices", "5", "-o", tmp_path, "--json")
    (frame,) = json.loads("\n".join(lines))["frames"]
    assert frame["pts_seconds"] is None
    assert main(["clip", os.fspath(corpus_file("raw.h264")), "--at", "0", "-o", os.fspath(tmp_path)]) == 1
    assert len(capfd.readouterr().err.splitlines()) == 1


def test_where_nothing_can_be_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    video = os.fspath(clip_file("good.mp4"))
    for words in (["-o", taken], ["-o", taken / "below"], ["--sheet", tmp_path / "none" / "sheet.png"]):
        assert main(["clip", video, "--indices", "0", *map(os.fspath, words)]) == 1
        assert "cannot" in capfd.readouterr().err
    assert os.listdir(tmp_path) == ["taken"]

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from framefeed.testing import make_folder
from tests.cli.running import SECONDS, Answer, environment, only_line, run_script
from tests.corpus import corpus_file
from tests.programs import running

pytest.importorskip("torch")
pytestmark = pytest.mark.slow


def _sheet(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image)


def test_demo_without_arguments_generates_videos_and_trains(
    tmp_path: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out, err = answer("demo")
    assert err == ""
    assert "8 of 8 files can be read: 3,840 frames" in out
    assert "2 classes: blue, red" in out
    assert "128 of 128 frames of the first batch show the frame number that the plan asked for" in out
    losses = [float(loss) for loss in re.findall(r"^epoch \d   loss (\d+\.\d+) ", out, re.MULTILINE)]
    assert len(losses) == 2
    assert losses[1] < losses[0] < 1
    assert re.search(r"\d frames are decoded for each delivered frame", out)
    assert re.search(r"clips/s   waited for data [\d.]+ m?s of [\d.]+ s \([\d.]+ %\)", out)
    assert {"scanning", "waiting for data", "training"} <= set(
        re.findall(r"^  (\S.*?)  +[\d.]+ m?s  ", out, re.MULTILINE)
    )
    sheet = _sheet(tmp_path / "framefeed-demo" / "first_batch.png")
    assert sheet.shape[1] <= 1920
    assert len(np.unique(sheet.astype(np.int32) @ (1, 1 << 8, 1 << 16))) > 1000  # colours
    assert sorted(os.listdir(tmp_path)) == ["framefeed-demo"]
    catalog = out.rpartition("a page about it: framefeed report ")[2].strip()  # the next step, as it is printed
    answer("report", catalog)


def test_demo_of_a_folder_lists_its_bad_files_and_leaves_clips_out_that_cannot_be_decoded(
    tmp_path: Path, answer: Answer
) -> None:
    videos = tmp_path / "videos"
    files = make_folder(videos, videos_per_class=2, seconds=2)
    (videos / "red" / "bad\x1b.mp4").write_text("no film")
    shutil.copy(corpus_file("odd_size.mp4"), videos / "blue")
    damaged = bytearray(files[0].read_bytes())
    damaged[2000:-1000] = bytes(len(damaged) - 3000)
    files[0].write_bytes(damaged)
    damaged = bytearray(files[-1].read_bytes())
    damaged[2000:3000] = bytes(1000)  # of the first group of pictures: the headers stay
    files[-1].write_bytes(damaged)
    out, err = answer("demo", videos, "-o", tmp_path / "out", code=3)
    lines = err.splitlines()
    assert all(line.startswith("framefeed: failed: ") and line.isprintable() for line in lines)
    assert any(r"red/bad\x1b.mp4: is text, not media (UnreadableMedia)" in line for line in lines)
    assert any(os.fspath(files[0]) in line for line in lines)
    assert [line.endswith("(CorruptMedia)") for line in lines if os.fspath(files[-1]) in line] == [True]
    assert "2 classes: blue, red" in out
    # Clips are shuffled, in batches of 8: nearly every batch has clips that can be decoded.
    assert re.search(r"^\d+ clips of 2 epochs could not be decoded: the other clips of these", out, re.MULTILINE)
    assert len(re.findall(r"^epoch \d   loss \d", out, re.MULTILINE)) == 2
    assert _sheet(tmp_path / "out" / "first_batch.png").shape[1] <= 1920


@pytest.mark.parametrize("words", [["missing"], ["empty"], ["-o", "file"], ["a", "b"], ["--epochs", "3"]])
def test_wrong_arguments_are_one_line(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                  answer: Answer) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    out, err = answer("demo", *words, code=1)
    assert "Traceback" not in out
    only_line(err)


def test_a_folder_without_readable_videos_is_described(tmp_path: Path, answer: Answer) -> None:
    (tmp_path / "bad.mp4").write_text("no film")
    assert "is text, not media" in only_line(answer("demo", tmp_path, "-o", tmp_path / "out", code=3).err)


def test_a_folder_of_one_class_is_told_how_to_have_more(
    tmp_path: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("framefeed.cli.demo.CLIPS", 4)
    monkeypatch.setattr("framefeed.cli.demo.EPOCHS", 1)
    shutil.copy(corpus_file("odd_size.mp4"), tmp_path)
    out = answer("demo", tmp_path, "-o", tmp_path / "out").out
    assert "the loss of one class is 0: to learn something, put the videos of each class in a sub-folder" in out


def test_missing_pytorch_is_named() -> None:
    script = "import sys\nsys.modules['torch'] = None\nfrom framefeed.cli import main\nsys.exit(main(['demo']))"
    result = run_script(script)
    assert (result.returncode, result.stdout) == (1, b"")
    assert "framefeed[torch]" in only_line(result.stderr)


def test_an_interrupt_ends_the_demo_and_its_workers(tmp_path: Path) -> None:
    make_folder(tmp_path / "videos", videos_per_class=1, seconds=2)
    with running(
        [sys.executable, "-W", "error", "-m", "framefeed", "demo", "videos"],
        env=environment(), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        while not process.stdout.readline().startswith(b"epoch 0"):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert only_line(err) == "framefeed: interrupted"

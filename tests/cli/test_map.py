"""`framefeed map`: one video or many, by a function that the command finds in the current folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import framefeed as ff
from framefeed.cli._functions import import_function, importing_from_current_folder
from framefeed.cli._map_jobs import Job, _get_base_name, list_jobs
from framefeed.cli._map_ledger import LEDGER, MapLedger
from framefeed.errors import MediaError, UsageError
from framefeed.testing import ClipSpec, read_stamps
from tests.cli.running import Answer, only_line, run
from tests.corpus import clip_file

SPEC = ClipSpec(num_frames=30, height=64, width=128, fps=25, gop=10)
MODULE = """
import threading
import numpy as np

CALLS = []

def same(frame, *, index, pts_seconds):
    CALLS.append(index)
    return frame

def tiles(frame, *, index, pts_seconds):
    top, bottom = np.split(frame, 2)
    return [*np.split(top, 2, axis=1), *np.split(bottom, 2, axis=1)]

def fails(frame, *, index, pts_seconds):
    if index == 7:
        raise ValueError("seven")
    return frame

def counts(frame, *, index, pts_seconds, state):
    state.append(index)
    return frame

def batched(frames, *, index, pts_seconds):
    return frames[:, ::-1]

make_state = list
def hangs(frame, *, index, pts_seconds):
    threading.Event().wait()

number = 3
"""


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with mymodel.py."""
    (tmp_path / "mymodel.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(sys.modules[name].__file__).startswith(str(tmp_path)):
            del sys.modules[name]


def video(name: str = "in.mp4", spec: ClipSpec = SPEC) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(clip_file(f"map_{spec.num_frames}_{spec.first_stamp}.mp4", spec), path)
    return path


def stamps(path: str | Path) -> list[int]:
    with ff.VideoDecoder(path, dimension_order="NHWC") as decoder:
        return read_stamps(decoder.get_all_frames().data)


def lines_of(folder: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(folder) / LEDGER).read_text().splitlines()]


# --- functions by name ----------------------------------------------------------------------------


def load(text: str) -> Any:
    with importing_from_current_folder():
        return import_function("--function", text)


def test_a_function_is_found_in_the_current_folder_and_in_packages(tmp_path: Path) -> None:
    before = list(sys.path)
    assert load("mymodel:tiles").__name__ == "tiles"
    assert load("os.path:join") is os.path.join
    assert load("pathlib:Path.cwd")() == tmp_path
    assert sys.path == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mymodel", "expected MODULE:FUNCTION, such as mymodel:tiles"),
        ("mymodel:", "expected MODULE:FUNCTION"),
        ("mymodel.py:tiles", "without its folder and the ending .py"),
        ("models/mymodel:tiles", "without its folder and the ending .py"),
        ("mymodle:tiles", "there is no module 'mymodle' in the current folder .* did you mean 'mymodel'"),
        ("no_such_module:f", "change to the folder that has it, or check its spelling"),
        ("mymodel.inner:f", "cannot import mymodel.inner: .* not a package"),
        ("mymodel:tile", r"the module mymodel \(.*mymodel.py\) has no 'tile'; did you mean 'tiles'"),
        ("mymodel:tiles.x", "mymodel:tiles has no 'x'"),
        ("mymodel:number", "mymodel:number is 3, and not a function"),
        ("broken:f", r"importing broken failed at .*broken.py:2: ZeroDivisionError: division by zero"),
        ("unwritten:f", r"importing unwritten failed at .*unwritten.py:1: SyntaxError"),
        (
            "lacking:f",
            r"importing lacking failed at .*lacking.py:1: ModuleNotFoundError: No module named 'no_such_one'",
        ),
        ("leaving:f", "leaving ends the program when it is imported: put what it runs under if __name__"),
    ],
)
def test_a_function_that_is_not_there_is_explained(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("x = 0\n1 / x\n")
    (tmp_path / "unwritten.py").write_text("def f(:\n")
    (tmp_path / "lacking.py").write_text("import no_such_one\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(0)\n")
    with pytest.raises(UsageError, match=rf"^--function: .*{said}"):
        load(text)


def test_ctrl_c_during_the_import_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load("slow:f")


# --- outputs --------------------------------------------------------------------------------------


def outputs_of(*inputs: str, out: str, as_pictures: bool = False) -> dict[str, str]:
    jobs = list_jobs(inputs, out, as_pictures=as_pictures)
    return {os.path.relpath(job.source): job.out for job in jobs.jobs}


@pytest.fixture
def tree(tmp_path: Path) -> None:
    for name in ("v/a.mp4", "v/b/a.mkv", "v/b/c.AVI", "v/notes.txt", "other/a.mp4"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")


@pytest.mark.usefixtures("tree")
def test_one_input_has_the_output_that_was_named() -> None:
    for out in ("out.mp4", "tile{picture}.mp4", "frames/"):
        assert outputs_of("v/a.mp4", out=out) == {"v/a.mp4": out}
    assert outputs_of("v/a.mp4", out="frames", as_pictures=True) == {"v/a.mp4": "frames/"}
    assert outputs_of("v/a.mp4", out="out/{name}.mkv") == {"v/a.mp4": "out/a.mkv"}


@pytest.mark.usefixtures("tree")
def test_outputs_of_a_folder_keep_their_names() -> None:
    in_folder = {"v/a.mp4": "out/a.mp4", "v/b/a.mkv": "out/b/a.mkv", "v/b/c.AVI": "out/b/c.mp4"}
    assert outputs_of("v", out="out") == in_folder
    assert outputs_of("v/a.mp4", "v/b", out="out/") == {"v/a.mp4": "out/a.mp4", "v/b/a.mkv": "out/a.mkv",
                                                        "v/b/c.AVI": "out/c.mp4"}  # fmt: skip
    assert outputs_of("v/b/*", out="out") == {"v/b/a.mkv": "out/a.mkv", "v/b/c.AVI": "out/c.mp4"}
    named = outputs_of("v", out="out/{name}-{picture}.mov")
    assert named["v/b/c.AVI"] == "out/b/c-{picture}.mov"
    assert outputs_of("v/b", out="out", as_pictures=True) == {"v/b/a.mkv": "out/a/", "v/b/c.AVI": "out/c/"}
    assert outputs_of("v", "v/b/a.mkv", out="out") == in_folder, "listed twice"
    assert outputs_of("v", out="v/b") == {"v/a.mp4": "v/b/a.mp4"}, "an earlier run may have written the others"


def test_outputs_of_urls_are_named_by_the_last_part_of_the_path() -> None:
    names = {"https://h/a/b.mp4?c=/d.mp4#e": "b.mp4", "s3://bucket/a/b?c#d.mp4": "b?c#d.mp4", "/a/b?c.mp4": "b?c.mp4"}
    assert {source: _get_base_name(source) for source in names} == names


@pytest.mark.usefixtures("tree")
def test_a_missing_file_among_others_is_listed_and_one_alone_is_an_error() -> None:
    assert outputs_of("v/a.mp4", "gone.mp4", out="out")["gone.mp4"] == "out/gone.mp4"
    with pytest.raises(MediaError, match="no such file"):
        list_jobs(["gone.mp4"], "out.mp4", as_pictures=False)


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("inputs", "out", "said"),
    [
        (["v/a.mp4", "other/a.mp4"], "out", "would both be written to out/a.mp4: map them with two commands"),
        (["v"], "v", "is an input of this command, and is not overwritten"),
        (["v/a.mp4", "v/b"], "v", "is an input of this command"),
        (["v"], "out.mp4", "with the folder or list v, OUT is a folder, and out.mp4 has the ending of a video"),
        (["v"], "tile{picture}.mp4", r"OUT needs the name of each video too, as in out/{name}_{picture}.mp4, got"),
        (["v"], "{name}/x.mp4", "in the last part of OUT"),
        (["v"], "v/notes.txt", "OUT is a folder, and v/notes.txt is a file"),
        (["v/a.mp4", "other"], "out.mkv", "with 2 inputs, OUT is a folder"),
        (["empty"], "out", "no videos in empty"),
    ],
)
def test_outputs_that_cannot_be_are_refused(inputs: list[str], out: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=said):
        list_jobs(inputs, out, as_pictures=False)


# --- the ledger -----------------------------------------------------------------------------------


def test_a_finished_output_is_one_whose_source_settings_and_file_are_unchanged(tmp_path: Path) -> None:
    source, out = str(video().absolute()), tmp_path / "out.mp4"

    def is_finished(settings: str = "a") -> bool:
        return MapLedger(".", {"codec": settings}).find_finished(Job(source, "out.mp4")) is not None

    assert not is_finished()
    out.write_bytes(b"video")
    ledger, job = MapLedger(".", {"codec": "a"}), Job(source, "out.mp4")
    ledger.add_written(job, [str(out)], {"num_frames": 1}, [{"frame": 0, "action": "kept"}])
    assert is_finished()
    assert not is_finished("b")
    out.write_bytes(b"other")
    os.utime(out, ns=(1, 1))
    assert not is_finished()
    MapLedger(".", {"codec": "a"}).add_written(job, [str(out)], {}, [])
    assert is_finished()
    shutil.copy(clip_file("map_other.mp4", ClipSpec(num_frames=3)), source)
    assert not is_finished()
    os.unlink(source)
    assert not is_finished()


def test_lines_of_files_that_begin_again_go_and_a_torn_line_too(tmp_path: Path) -> None:
    ledger = MapLedger(".", {})
    ledger.add_failed("/a.mp4", MediaError("bad\x1b"))
    ledger.add_failed("/b\udce9.mp4", MediaError("bad"))
    with open(LEDGER, "a") as file:
        file.write('{"file": "/c')
    Path(".framefeed-0123456789abcdef.tmp").touch()  # of a process that was killed while it wrote the ledger
    again = MapLedger(".", {})
    again.begin(["/a.mp4"])
    again.add_failed("/c.mp4", MediaError("bad"))
    assert [(line["file"], line["frame"], line["action"]) for line in lines_of(".")] == [
        ("/b\0dce9.mp4", None, "failed"),
        ("/c.mp4", None, "failed"),
    ]
    assert not [name for name in os.listdir() if name.endswith(".tmp")]


@pytest.mark.parametrize("text", ["notes\n", "{}\n", "[1]\n", '{"file": 3, "action": "failed"}\n', "\xff\n"])
def test_another_file_is_no_ledger(text: str) -> None:
    Path(LEDGER).write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=f"{LEDGER}: line 1 is none of a ledger of 'framefeed map'"):
        MapLedger(".", {})


# --- one video ------------------------------------------------------------------------------------


def map_and_read(answer: Answer, *words: str, code: int = 0) -> tuple[str, str]:
    out, err = answer("map", *words, code=code)
    return out, err


def test_tiles_are_a_mosaic_or_four_videos_or_pictures(answer: Answer) -> None:
    video()
    words = ["--function", "mymodel:tiles", "--workers", "2"]
    out, err = map_and_read(answer, "in.mp4", "out.mp4", *words)
    assert out.startswith("out.mp4: 30 pictures of 30 frames in ")
    assert err == ""
    assert stamps("out.mp4") == list(range(30))
    map_and_read(answer, "in.mp4", "tile{picture}.mkv", *words)
    assert ff.probe("tile3.mkv").width == 64
    map_and_read(answer, "in.mp4", "frames", *words, "--images", "jpg", "--quality", "80")
    assert len(os.listdir("frames")) == 120
    assert {name[-4:] for name in os.listdir("frames")} == {".jpg"}


def test_options_reach_the_video(answer: Answer) -> None:
    video()
    map_and_read(
        answer, "in.mp4", "--function", "mymodel:batched", "out.mkv", "--batch-size", "4", "--codec", "mpeg4",
        "--quality", "2", "--gop", "5", "--fps", "50", "--pixel-format", "yuv420p",
    )  # fmt: skip
    info, index = ff.probe("out.mkv"), ff.build_index("out.mkv")
    assert (info.codec, info.pixel_format, len(index), float(index.average_fps or 0)) == ("mpeg4", "yuv420p", 60, 50.0)
    assert index.key_frame_indices[1] <= 5
    document = json.loads(map_and_read(answer, "in.mp4", "out.mp4", "--function", "mymodel:counts", "--setup",
                                       "mymodel:make_state", "--json")[0])  # fmt: skip
    assert document["written"][0]["num_pictures"] == 30
    assert document["failed"] == []


def test_a_function_that_fails_stops_with_its_traceback_and_goes_on_after_a_fix(model: Path, answer: Answer) -> None:
    video()
    words = ["in.mp4", "out.mp4", "--function", "mymodel:fails", "--workers", "1"]
    out, err = map_and_read(answer, *words, code=1)
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "framefeed: Traceback (most recent call last):"
    assert f'File "{model}/mymodel.py", line ' in lines[1], "without the calls of framefeed"
    assert lines[-2] == "framefeed: ValueError: seven"
    assert "in.mp4: frame 7 (0.280000 s): " in lines[-1]
    assert "run the same command again to continue; --on-error skip" in lines[-1]
    assert not Path("out.mp4").exists()
    (model / "mymodel.py").write_text(MODULE.replace("index == 7", "index == 70"))
    del sys.modules["mymodel"]
    map_and_read(answer, *words)
    assert stamps("out.mp4") == list(range(30))


@pytest.mark.parametrize(("on_error", "shown"), [("skip", [*range(7), *range(8, 30)]), ("keep", list(range(30)))])
def test_frames_that_fail_are_listed(on_error: str, shown: list[int], answer: Answer) -> None:
    video()
    words = ["in.mp4", "out.mp4", "--function", "mymodel:fails", "--on-error", on_error]
    out, err = map_and_read(answer, *words, code=3)
    assert f"{len(shown)} pictures of 30 frames" in out
    action = "skipped" if on_error == "skip" else "kept"
    assert only_line(err) == f"framefeed: in.mp4: frame 7 (0.280000 s): {action} (function): ValueError: seven"
    assert stamps("out.mp4") == shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["in.mp4"], "expected IN... OUT, one or more videos and then the output, got in.mp4 alone"),
        (["in.mp4", "out.mp4", "--codec", "h265"], "codec: expected one of h264"),
        (["in.mp4", "in.mp4"], "in.mp4 is the source itself"),
        (["in.mp4", "out.gif"], "expected a file name with one of the endings"),
        (["gone.mp4", "out.mp4"], "gone.mp4: no such file"),
        (["mymodel.py", "out.mp4"], "mymodel.py: is text, not media"),
        (["in.mp4", "out", "--images", "png", "--codec", "h264"], "--codec is for videos"),
        (["in.mp4", "out.mp4", "--workers", "two"], "expected auto, or an integer"),
    ],
)
def test_mistakes_are_one_line(words: list[str], said: str, answer: Answer) -> None:
    video()
    _, err = map_and_read(answer, *words, "--function", "mymodel:same", code=1)
    assert said in only_line(err)
    assert set(os.listdir()) - {"__pycache__"} == {"in.mp4", "mymodel.py"}


# --- many videos ----------------------------------------------------------------------------------


def test_a_folder_is_mapped_with_one_ledger_and_only_once(answer: Answer) -> None:
    first, second = video("v/a.mp4"), video("v/b/c.mkv", ClipSpec(num_frames=12, height=64, width=128, first_stamp=9))
    Path("v/bad.mp4").write_text("no film")
    words = ["v", "out", "--function", "mymodel:same"]
    out, err = map_and_read(answer, *words, code=3)
    assert "[1 of 3] out/a.mp4: 30 pictures of 30 frames" in out
    assert out.splitlines()[-1] == "2 of 3 videos mapped; ledger: out/framefeed-map.jsonl"
    assert only_line(err).endswith("v/bad.mp4: is text, not media (UnreadableMedia)")
    assert (stamps("out/a.mp4"), stamps("out/b/c.mkv")) == (list(range(30)), list(range(9, 21)))
    kinds = [(os.path.relpath(line["file"]), line["action"]) for line in lines_of("out")]
    assert kinds == [("v/a.mp4", "written"), ("v/b/c.mkv", "written"), ("v/bad.mp4", "failed")]
    assert "is text, not media" in lines_of("out")[2]["reason"]

    calls = sys.modules["mymodel"].CALLS
    calls.clear()
    shutil.copy(first, "v/bad.mp4")
    out, _ = map_and_read(answer, *words)
    assert len(calls) == 30
    assert out.startswith("[3 of 3] out/bad.mp4: ")
    assert "2 videos finished by an earlier run and unchanged since: --no-resume maps them again" in out
    calls.clear()
    shutil.copy(first, second)
    document = json.loads(map_and_read(answer, *words, "--json")[0])
    assert (len(calls), document["finished_before"]) == (30, 2)
    assert [os.path.relpath(each["source"]) for each in document["written"]] == ["v/b/c.mkv"]
    calls.clear()
    map_and_read(answer, *words, "--quality", "30")
    assert len(calls) == 90
    calls.clear()
    map_and_read(answer, *words, "--quality", "30", "--no-resume")
    assert len(calls) == 90


def test_frames_that_fail_are_lines_of_the_ledger(answer: Answer) -> None:
    video("v/a.mp4")
    video("v/b.mp4", ClipSpec(num_frames=5, height=64, width=128))
    words = ["v", "out/{name}.mkv", "--function", "mymodel:fails"]
    _, err = map_and_read(answer, *words, code=3)
    assert "ValueError: seven" in err
    assert [(Path(line["file"]).name, line["action"]) for line in lines_of("out")] == [
        ("a.mp4", "failed"),
        ("b.mp4", "written"),
    ]
    map_and_read(answer, *words, "--on-error", "skip", code=3)
    assert [(Path(line["file"]).name, line["frame"], line["action"]) for line in lines_of("out")] == [
        ("a.mp4", 7, "skipped"),
        ("a.mp4", None, "written"),
        ("b.mp4", None, "written"),
    ]
    out, err = map_and_read(answer, *words, "--on-error", "skip", code=3)
    assert out.splitlines()[-1] == "2 of 2 videos mapped; ledger: out/framefeed-map.jsonl"
    assert only_line(err) == "framefeed: 1 frame of them failed: the ledger lists them"


def test_what_all_videos_would_fail_of_stops_the_command(answer: Answer) -> None:
    video("v/a.mp4")
    video("v/b.mp4")
    _, err = map_and_read(answer, "v", "out", "--function", "mymodel:same", "--codec", "prores", code=1)
    assert "does not hold prores" in only_line(err)
    assert lines_of("out") == []


def test_files_that_are_no_outputs_are_not_overwritten(answer: Answer) -> None:
    first = video("v/a.mp4")
    Path("out").mkdir()
    footage = video("out/a.mp4", ClipSpec(num_frames=3, height=64, width=128))
    before = footage.read_bytes()
    _, err = map_and_read(answer, "v", "out", "--function", "mymodel:same", code=1)
    said = "out/a.mp4: this file is already there and was not written by 'framefeed map' with the ledger out/"
    assert said in only_line(err)
    assert "choose another folder, or give --overwrite" in err
    assert footage.read_bytes() == before
    map_and_read(answer, "v", "out", "--function", "mymodel:same", "--overwrite")
    assert stamps("out/a.mp4") == list(range(30))
    first.unlink()
    video("v/a.mp4", ClipSpec(num_frames=3, height=64, width=128))
    map_and_read(answer, "v", "out", "--function", "mymodel:same")
    assert stamps("out/a.mp4") == [0, 1, 2]


def test_a_setup_that_fails_stops_the_command_at_the_first_video(model: Path, answer: Answer) -> None:
    (model / "mymodel.py").write_text(MODULE.replace("make_state = list", "def make_state():\n    return 1 / 0"))
    video("v/a.mp4")
    video("v/b.mp4")
    words = ["--function", "mymodel:counts", "--setup", "mymodel:make_state"]
    for given in (["v", "out"], ["v/a.mp4", "out.mp4"]):
        _, err = map_and_read(answer, *given, *words, code=1)
        assert "framefeed: ZeroDivisionError: division by zero" in err.splitlines()
        assert "setup raised ZeroDivisionError" in err.splitlines()[-1]


def test_outputs_stay_the_commands_own_when_they_are_not_made_again(answer: Answer) -> None:
    video("v/a.mp4")
    video("v/b.mp4", ClipSpec(num_frames=5, height=64, width=128))
    map_and_read(answer, "v", "out", "--function", "mymodel:same")
    words = ["v", "out", "--function", "mymodel:fails"]
    for _ in range(2):
        map_and_read(answer, *words, code=3)
        kinds = sorted((Path(line["file"]).name, line["action"]) for line in lines_of("out"))
        assert kinds == [("a.mp4", "failed"), ("a.mp4", "written"), ("b.mp4", "written")]
    map_and_read(answer, *words, "--on-error", "keep", code=3)
    kinds = sorted((Path(line["file"]).name, line["action"]) for line in lines_of("out"))
    assert kinds == [("a.mp4", "kept"), ("a.mp4", "written"), ("b.mp4", "written")]


def test_a_command_that_was_stopped_goes_on_over_outputs_of_other_options(model: Path, answer: Answer) -> None:
    (model / "stops.py").write_text(MODULE.replace('ValueError("seven")', "KeyboardInterrupt"))
    video("v/a.mp4")
    video("v/b.mp4", ClipSpec(num_frames=5, height=64, width=128))
    words = ["v", "out", "--function", "stops:fails", "--workers", "0"]
    map_and_read(answer, "v", "out", "--function", "stops:same")
    map_and_read(answer, *words, code=130)
    (model / "stops.py").write_text(MODULE)
    del sys.modules["stops"]
    map_and_read(answer, *words, "--on-error", "keep", code=3)


def test_one_output_replaces_no_file_but_that_of_an_interrupted_run(answer: Answer) -> None:
    video()
    words = ["in.mp4", "out.mp4", "--function", "mymodel:fails", "--workers", "1", "--fps", "5"]
    Path("out.mp4").write_bytes(b"notes")
    _, err = map_and_read(answer, *words, code=1)
    assert only_line(err) == (
        "framefeed: out.mp4: this file is already there, and is not overwritten: choose another output, or allow it "
        "with overwrite=True (--overwrite)"
    )
    map_and_read(answer, *words, "--overwrite")
    assert len(stamps("out.mp4")) == 6
    _, err = map_and_read(answer, "in.mp4", "out.mp4", "--function", "mymodel:fails", code=1)
    assert "--overwrite" in only_line(err), "it cannot know that it wrote it"
    Path("out.mp4").write_bytes(b"")
    map_and_read(answer, *words)


def test_a_run_that_continues_need_not_be_allowed_to_overwrite_again(model: Path, answer: Answer) -> None:
    video("in.mp4", ClipSpec(num_frames=80, height=64, width=128, gop=10))
    Path("out.mp4").write_bytes(b"notes")
    (model / "mymodel.py").write_text(MODULE.replace("index == 7", "index == 70"))
    words = ["in.mp4", "out.mp4", "--function", "mymodel:fails", "--workers", "1"]
    map_and_read(answer, *words, "--overwrite", code=1)
    assert Path("out.mp4").read_bytes() == b"notes"
    (model / "mymodel.py").write_text(MODULE.replace("index == 7", "index == 700"))
    del sys.modules["mymodel"]
    out, _ = map_and_read(answer, *words)
    assert "80 pictures of 80 frames" in out
    assert "of them by an earlier run" in out


def test_one_of_several_outputs_is_not_overwritten(answer: Answer) -> None:
    video("v/in.mp4")
    video("tile1.mkv")
    shutil.copy("tile1.mkv", "tile0.mkv")
    words = ["--function", "mymodel:tiles"]
    _, err = map_and_read(answer, "v/in.mp4", "tile{picture}.mkv", *words, code=1)
    assert "tile0.mkv: this file is already there, and is not overwritten" in only_line(err)
    _, err = map_and_read(answer, "v", "{name}{picture}.mkv", *words)
    assert err == ""


def test_a_function_with_other_parameters_is_a_mistake(model: Path, answer: Answer) -> None:
    (model / "plain.py").write_text("def grey(frame):\n    return frame\n")
    video()
    _, err = map_and_read(answer, "in.mp4", "out.mp4", "--function", "plain:grey", code=1)
    assert only_line(err) == (
        "framefeed: function: expected function(frame, *, index, pts_seconds), got plain:grey(frame): got an "
        "unexpected keyword argument 'index'"
    )


def test_what_a_function_prints_is_no_json(model: Path, answer: Answer) -> None:
    (model / "loud.py").write_text(MODULE.replace("CALLS.append(index)", "print(index)"))
    video()
    out, err = map_and_read(answer, "in.mp4", "out.mp4", "--function", "loud:same", "--json")
    assert json.loads(out)["written"][0]["num_frames"] == 30
    assert sorted(map(int, err.split())) == list(range(30))


def test_a_bar_shows_the_number_of_the_video_on_a_terminal(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    video("v/a.mp4")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    _, err = map_and_read(answer, "v", "out", "--function", "mymodel:same")
    assert "[1 of 1]: " in err


def test_an_interrupt_says_how_to_continue(model: Path, answer: Answer) -> None:
    (model / "stops.py").write_text(MODULE.replace('ValueError("seven")', "KeyboardInterrupt"))
    video("v/a.mp4")
    words = ["--function", "stops:fails", "--workers", "0"]
    _, err = map_and_read(answer, "v", "out", *words, code=130)
    assert only_line(err).endswith("v/a.mp4, 1 of 1; run the same command again to continue")
    _, err = map_and_read(answer, "v/a.mp4", "out.mp4", *words, code=130)
    assert only_line(err) == "framefeed: interrupted; run the same command again to continue"


@pytest.mark.slow
def test_the_program_finds_modules_of_its_folder_also_in_processes(model: Path) -> None:
    video()
    ran = run("map", "in.mp4", "out.mp4", "--function", "mymodel:tiles", "--kind", "processes", "--workers", "1")
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert stamps("out.mp4") == list(range(30))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_what_workers_and_their_programs_print_is_no_json(kind: str, model: Path) -> None:
    loud = MODULE.replace("CALLS.append(index)", 'print("printed"); os.system("echo from a program")')
    (model / "loud.py").write_text(f"import os\n{loud}")
    video()
    ran = run("map", "in.mp4", "out.mp4", "--function", "loud:same", "--json", "--kind", kind, "--workers", "1")
    assert json.loads(ran.stdout)["written"][0]["num_frames"] == 30
    assert sorted(ran.stderr.split(b"\n")) == [b"", *[b"from a program"] * 30, *[b"printed"] * 30]


@pytest.mark.slow
def test_D07_the_program_ends_though_a_thread_hangs() -> None:
    video()
    ran = run("map", "in.mp4", "out.mp4", "--function", "mymodel:hangs", "--workers", "1", "--deadline-seconds", "0.1")
    assert ran.returncode == 1
    assert "in.mp4: frame 0 (0.000000 s) was still in work after 0.1 s" in only_line(ran.stderr)


@pytest.mark.slow
def test_pictures_replace_none_but_those_of_an_earlier_run(answer: Answer) -> None:
    video("v/in.mp4")
    words = ["v", "out", "--function", "mymodel:same", "--images", "png"]
    map_and_read(answer, *words)
    map_and_read(answer, *words, "--no-resume")
    Path("out/framefeed-map.jsonl").unlink()
    _, err = map_and_read(answer, *words, code=1)
    assert re.search(r"frame_000000.*\.png: this file is already there, .*\(--overwrite\)", err)
    map_and_read(answer, *words, "--overwrite")

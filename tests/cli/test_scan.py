from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from framefeed._units import format_bytes
from framefeed.catalog import Catalog
from framefeed.cli import main
from framefeed.cli._io import print_failed
from framefeed.report import make_page
from framefeed.testing import make_folder
from tests.cli.running import Answer, only_line, run, run_on_terminal
from tests.corpus import corpus_file
from tests.damaged import damaged_clip
from tests.media.pictures import write_folder
from tests.packed import pack
from tests.report.made import Page


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scan") / "videos"
    make_folder(folder, videos_per_class=2, seconds=1)
    return folder


def test_the_summary_of_a_scan(videos: Path, tmp_path: Path, answer: Answer) -> None:
    path = tmp_path / "cat.parquet"
    out, err = answer("scan", videos, "-o", path, "--label-from", "parent")
    assert err == ""
    lines = out.splitlines()
    size = format_bytes(sum(each.stat().st_size for each in videos.rglob("*.mp4")))
    assert lines[:4] == [
        f"4 of 4 files can be read: 120 frames, 4 s of video, {size}",
        "codecs: h264 (4); width x height: 160x120 (4)",
        "frames found by: reading the headers of all packets (4 videos)",
        "2 classes: blue, red",
    ]
    assert lines[4].startswith("opened 4 files in ")
    assert lines[5:] == [f"saved as {path}"]
    assert "opened 0 files" in answer("scan", videos, "-o", path, "--label-from", "parent").out
    assert Catalog.open(path).classes == ["blue", "red"]


def test_json(videos: Path, tmp_path: Path, answer: Answer) -> None:
    path = os.fspath(tmp_path / "cat.parquet")
    words = ["scan", os.fspath(videos), "-o", path, "--headers-only", "--root", os.fspath(videos), "--json"]
    out, err = answer(*words)
    assert err == ""
    document = json.loads(out)
    assert (document["catalog"], document["files"], document["usable"], document["depth"]) == (path, 4, 4, "header")
    assert document["failed"] == []
    catalog = Catalog.open(path, root=videos)
    assert not catalog.has_frame_indexes
    assert catalog.table.column("source")[0].as_py() == "blue/video_000.mp4"


@pytest.mark.parametrize("words", [["--verify", "none"], ["--verify", "full"], ["--workers", "0"], ["--anew"]])
def test_options_reach_the_scan(words: list[str], videos: Path, tmp_path: Path) -> None:
    path = tmp_path / "cat.parquet"
    assert main(["scan", os.fspath(videos), "-o", os.fspath(path), *words]) == 0
    assert Catalog.open(path)[0].frame_index is not None


def test_D01_damaged_files_are_readable_and_counted(tmp_path: Path, answer: Answer) -> None:
    clip = damaged_clip("damage.mp4", (12, 13, 14, 15, 16, 30))
    words = ["scan", os.fspath(clip), "--verify", "full"]
    lines = answer(*words).out.splitlines()
    assert lines[0].startswith("1 of 1 file can be read")
    assert (
        "damaged: 3 frames in 1 file that can be read: --on-damaged of clip, feed and cache build says what is "
        "delivered for them (in Python: plan_clips(on_damaged=...))" in lines
    )
    document = json.loads(answer(*words, "--json").out)
    assert (document["damaged_files"], document["damaged_frames"], document["failed"]) == (1, 3, [])


def test_links_are_rows_of_their_own_labels_or_counted(videos: Path, tmp_path: Path, answer: Answer) -> None:
    for label in ("run", "jump"):
        (tmp_path / "ml" / label).mkdir(parents=True)
    shutil.copy(videos / "red" / "video_000.mp4", tmp_path / "ml" / "run" / "a.mp4")
    (tmp_path / "ml" / "jump" / "a.mp4").symlink_to("../run/a.mp4")
    (tmp_path / "ml" / "again").symlink_to("run")
    words = ["scan", os.fspath(tmp_path / "ml"), "--json"]
    document = json.loads(answer(*words, "--label-from", "parent").out)
    assert (document["files"], document["classes"]) == (3, ["again", "jump", "run"])
    document = json.loads(answer(*words, "-o", tmp_path / "cat.parquet").out)
    assert (document["files"], document["scan"]["repeated_files"], document["scan"]["repeated_folders"]) == (1, 1, 1)
    assert Catalog.open(tmp_path / "cat.parquet").source(0) == os.fspath(tmp_path / "ml" / "run" / "a.mp4")
    message = "counted once: 1 file and 1 folder found again, through a link or a second name"
    assert message in answer(*words[:-1]).out.splitlines()


def test_a_line_that_does_not_fit_is_a_failed_file(videos: Path, tmp_path: Path, answer: Answer) -> None:
    labels = ["1", "2", "x", "3"]
    lines = [f"{video} {label}" for video, label in zip(sorted(videos.glob("*/*.mp4")), labels, strict=True)]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    done = json.loads(answer("scan", tmp_path / "list.txt", "--json", code=3).out)
    assert (done["classes"], [each["source"] for each in done["failed"]]) == (
        [1, 2, 3],
        [f"{tmp_path}/list.txt line 3"],
    )


def test_where_relative_paths_start_is_printed_on_standard_error(tmp_path: Path, answer: Answer) -> None:
    (tmp_path / "list.txt").write_text("a.mp4\nb.mp4\n")
    assert f"none of the listed files exists, for example {tmp_path}/a.mp4" in only_line(
        answer("scan", tmp_path / "list.txt", "--json", code=3).err
    )


def test_the_name_of_a_url_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    name = "https://host/a.mp4?..."
    print_failed([(f"{name} (row 1)", "UnreadableMedia", f"{name}: the server answered 403")])
    assert (
        only_line(capfd.readouterr().err)
        == f"framefeed: failed: {name} (row 1): the server answered 403 (UnreadableMedia)"
    )


def test_an_empty_folder_is_a_mistake(tmp_path: Path, answer: Answer) -> None:
    assert "no media found in" in only_line(answer("scan", tmp_path, code=1).err)


def test_a_scan_warns_about_facts_it_will_lose(videos: Path, tmp_path: Path, answer: Answer) -> None:
    words = ["scan", os.fspath(videos), "-o", os.fspath(tmp_path / "cat.parquet")]
    assert answer(*words, "--verify", "full").err == ""
    assert "its counts of damaged frames are not kept" in only_line(answer(*words).err)


def test_failed_files_are_listed_and_the_others_kept(videos: Path, tmp_path: Path, answer: Answer) -> None:
    folder = tmp_path / "mixed"
    shutil.copytree(videos, folder)
    for number in range(120):
        (folder / f"bad_{number:03d}.mp4").write_text("no film")
    lines = answer("scan", folder, "-o", tmp_path / "cat.parquet", code=3).err.splitlines()
    assert all(line.startswith("framefeed: failed: ") for line in lines)
    assert len(lines) == 101
    assert lines[-1] == "framefeed: failed: 20 more, not shown"
    assert len(Catalog.open(tmp_path / "cat.parquet").errors) == 120
    assert len(json.loads(answer("scan", folder, "--json", code=3).out)["failed"]) == 120


def test_a_progress_bar_is_shown_on_a_terminal_only(videos: Path) -> None:
    assert run("scan", videos).stderr == b""
    result, shown = run_on_terminal("scan", videos)
    assert result.returncode == 0
    assert b"4/4" in shown
    assert b"4/4" not in result.stdout


@pytest.fixture(scope="module")
def tiers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiers")
    for name in ("base.mp4", "no_pts.avi", "raw.h264"):
        shutil.copy(corpus_file(name), folder / name)
    return folder


def test_M07_origins_of_times_are_printed(tiers: Path, tmp_path: Path, answer: Answer) -> None:
    out = os.fspath(tmp_path / "cat.parquet")
    message = (
        "times come from: presentation times in the file (1 video); decoding times in the file, because presentation "
        "times are wrong or missing (1 video); no times are known (1 video); for clips by time, scan the files without "
        "times with --assume-fps"
    )
    assert message in answer("scan", tiers, "-o", out).out.splitlines()
    lines = answer("doctor", out).out.splitlines()
    assert lines[lines.index(f"catalog {out}") + 1].startswith("  3 of 3 files can be read")
    assert f"  {message}" in lines
    assert json.loads(answer("doctor", out, "--json").out)["catalog"]["times_from"] == {"pts": 1, "dts": 1, "none": 1}


def test_files_of_other_endings_are_counted(tmp_path: Path, answer: Answer) -> None:
    shutil.copy(corpus_file("base.mp4"), tmp_path / "base.mp4")
    (tmp_path / "inner").mkdir()
    for name in ("notes.TXT", "inner/more.txt", "film.jsv", "inner/README"):
        (tmp_path / name).write_text("x")
    words = ["scan", os.fspath(tmp_path), "-o", os.fspath(tmp_path / "cat.parquet")]
    for others in ("4 files", "6 files"):  # then with the catalog's own
        assert f"not scanned: {others} with other endings than media: .txt (2), " in answer(*words).out
    assert "not scanned" not in answer("scan", tmp_path / "base.mp4").out


def test_json_counts_files_of_other_endings_by_ending(tmp_path: Path, answer: Answer) -> None:
    shutil.copy(corpus_file("base.mp4"), tmp_path / "base.mp4")
    for name in ("one.arrow", "two.arrow", "README"):
        (tmp_path / name).write_text("x")
    Path(os.fsdecode(os.fsencode(tmp_path / "x.") + b"\xff")).write_text("x")
    document = json.loads(answer("scan", tmp_path, "--json").out)
    assert document["scan"]["passed_over"] == {".arrow": 2, "": 1, ".\x00dcff": 1}


def test_M07_a_length_that_is_not_known_is_not_0(tiers: Path, answer: Answer) -> None:
    assert "frames, length of the video unknown, " in answer("scan", tiers / "raw.h264").out


def test_M07_an_assumed_rate_is_printed(tiers: Path, tmp_path: Path, answer: Answer) -> None:
    out = os.fspath(tmp_path / "cat.parquet")
    lines = answer("scan", tiers, "-o", out, "--assume-fps", "30000/1001").out.splitlines()
    assert "--assume-fps 30000/1001: used for 1 video, not for 2 that have their own times" in lines
    assert any(line.endswith("the rate that was given as assume_fps (1 video)") for line in lines)
    assert Catalog.open(out).table.column("times_from").to_pylist() == ["pts", "dts", "assumed"]
    document = json.loads(answer("scan", tiers / "base.mp4", "--assume-fps", "25", "--json").out)
    assert document["times_from"] == {"pts": 1}
    kept = "--assume-fps 25: saved for Catalog.with_frame_indexes, because headers have no times of frames"
    assert kept in answer("scan", tiers, "--headers-only", "--assume-fps", "25").out.splitlines()
    assert "frames per second" in only_line(answer("scan", tiers, "--assume-fps", "0", code=1).err)


def test_scan_doctor_and_report_have_the_same_totals(tmp_path: Path, answer: Answer) -> None:
    folder = tmp_path / "mixed"
    make_folder(folder, videos_per_class=1, seconds=1)
    write_folder(folder / "pictures", 3)
    (folder / "bad.mp4").write_text("no video here")
    path = os.fspath(tmp_path / "cat.parquet")
    first = answer("scan", folder, "-o", path, code=3).out.splitlines()[0]
    assert "3 pictures (only headers were read) and 2 videos, 60 frames, 2 s of video" in first
    out = answer("doctor", path).out
    assert first in out
    assert "frames found by: reading the headers of all packets (2 videos)" in out
    shown = Page(make_page(Catalog.open(path), "T")).text
    assert "\nFrames of videos\n60\n" in shown
    assert "\npackets+proof (reading the headers of all packets)\n" in shown
    usable = sum(entry.info.bytes for entry in Catalog.open(path) if entry.info is not None)
    assert f"\nBytes, usable files\n{format_bytes(usable)}\n" in shown
    assert (
        "3 of 3 files can be read: 3 decoded pictures, " in answer("scan", folder / "pictures", "--verify", "full").out
    )


def test_facts_of_a_catalog_without_its_frame_tables_are_not_called_claims(
    videos: Path, tmp_path: Path, answer: Answer
) -> None:
    path = tmp_path / "cat.parquet"
    answer("scan", videos, "-o", path)
    (tmp_path / "cat.frames.arrow").unlink()
    out = answer("doctor", path).out
    assert "4 of 4 files can be read: 120 frames, 4 s of video" in out
    assert "according to headers" not in out
    assert f"the frame tables are missing, there is no file {tmp_path / 'cat.frames.arrow'}: restore it" in out


def test_files_that_another_scan_found_are_counted_as_left_out(videos: Path, tmp_path: Path, answer: Answer) -> None:
    out = os.fspath(tmp_path / "cat.parquet")
    first, *others = sorted(os.fspath(path) for path in videos.rglob("*.mp4"))
    answer("scan", first, *others, "-o", out)
    left_out = f"; {len(others)} files of the earlier catalog left out, because they were removed or are not among"
    assert left_out in answer("scan", first, "-o", out).out


def test_messages_about_classes_name_the_option(videos: Path, tmp_path: Path, answer: Answer) -> None:
    plain, train = (os.fspath(tmp_path / name) for name in ("plain.parquet", "train.parquet"))
    folder = sorted(os.fspath(path) for path in videos.iterdir())[0]
    answer("scan", folder, "-o", plain)
    answer("scan", folder, "-o", train, "--label-from", "parent")
    words = ["scan", os.fspath(videos), "--label-from", "parent", "--classes-of"]
    line = only_line(answer(*words, plain, code=1).err)
    assert line.startswith(f"framefeed: --classes-of {plain}: this catalog has no labels: ")
    line = only_line(answer(*words, train, code=1).err)
    assert "labels found are not in it, for example" in line
    assert line.endswith("(on the command line: name a catalog with all labels in --classes-of, or leave it out)")


@pytest.mark.parametrize("compression", ["snappy", "none"])
def test_the_summary_says_once_how_to_write_parquet_files(compression: str, tmp_path: Path, answer: Answer) -> None:
    table = pa.table({"video": [corpus_file("base.mp4").read_bytes()] * 3})
    for name in ("a", "b"):
        pq.write_table(table, tmp_path / f"{name}.parquet", compression=compression, use_dictionary=False)
    out, err = answer("scan", tmp_path / "*.parquet", "-o", tmp_path / "cat.parquet", "--anew")
    assert err == ""
    advice = [line for line in out.splitlines() if 'compression="none", use_dictionary=False' in line]
    assert len(advice) == (compression == "snappy")
    assert all("6 files" in line for line in advice)


def test_help_says_where_keys_come_from(answer: Answer) -> None:
    out = " ".join(answer("scan", "--help").out.split())
    assert "AWS_ACCESS_KEY_ID" in out
    assert "storage_options" in out


def test_texts_beside_files_are_a_column(videos: Path, tmp_path: Path, answer: Answer) -> None:
    names = [shutil.copy(path, tmp_path / f"{number}.mp4") for number, path in enumerate(sorted(videos.rglob("*.mp4")))]
    (tmp_path / "0.txt").write_text("a ball\n")
    out, err = answer("scan", *names, "--text-from", ".txt", "-o", tmp_path / "cat.parquet")
    assert Catalog.open(tmp_path / "cat.parquet").table["text"].to_pylist() == ["a ball", None, None, None]
    assert err.splitlines() == [
        f"framefeed: text_from: no text for 3 of 4 media: the file is missing, for example {tmp_path}/1.txt"
    ]
    assert "read" in out
    line = only_line(answer("scan", videos, "--text-from", "txt", code=1).err)
    assert line.startswith("framefeed: text_from (--text-from) must be the ending of texts beside the media, ")


def test_archives_that_are_named_are_read(videos: Path, tmp_path: Path, answer: Answer) -> None:
    members = [(str(path.relative_to(videos)), path.read_bytes()) for path in sorted(videos.rglob("*.mp4"))]
    (tmp_path / "a.tar").write_bytes(pack(members))
    out, err = answer("scan", tmp_path / "*.tar", "--label-from", "parent")
    assert err == ""
    assert out.splitlines()[0].startswith("4 of 4 files can be read: 120 frames")
    assert "2 classes: blue, red" in out
    (tmp_path / "b.mp4").write_bytes(members[0][1])
    out, err = answer("scan", tmp_path)
    assert "1 archive in folders with media not read: name them" in err
    assert out.splitlines()[0].startswith("1 of 1 file can be read")

from __future__ import annotations

import argparse
import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import framefeed.cli.cache
from framefeed.cache import FrameCache, Kind, StoredFrame, build, known_codecs
from framefeed.catalog import Catalog
from framefeed.cli import main
from framefeed.cli.feed import EpochResult, FeedResult, _choose_advice
from framefeed.decode import DecodeCounts
from framefeed.load import LoadStats
from framefeed.plan import AtSeconds, Rates, plan_clips
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, make_folder, write_clip
from tests.cache.builders import Watched, assert_served, built, clips_through
from tests.cli.running import Answer, only_line

RATES = ["--rates", "2:2,4:2", "--size", "32x48"]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("cached")
    make_folder(folder / "videos", videos_per_class=3, seconds=3)
    scan(folder / "videos", out=folder / "cat.parquet")
    return os.fspath(folder / "cat.parquet")


@pytest.fixture
def cache(tmp_path: Path) -> str:
    return os.fspath(tmp_path / "cache")


def said(answer: Answer, *words: str, code: int = 0) -> tuple[list[str], list[str]]:
    """Run ``framefeed cache`` and give the lines of both streams."""
    out, err = answer("cache", *words, code=code)
    assert all(line.isprintable() for line in (out + err).splitlines())
    return out.splitlines(), err.splitlines()


def document(answer: Answer, *words: str, code: int = 0) -> Any:
    out, err = said(answer, *words, "--json", code=code)
    assert err == [] or code == 1
    return json.loads("\n".join(out))


# --- build --------------------------------------------------------------------------------------------


def test_build_prints_the_result(catalog: str, cache: str, answer: Answer) -> None:
    out, err = said(answer, "build", catalog, cache, *RATES, "--codec", "zstd")
    assert err == []
    assert out[0] == (
        "6 videos: 6 clips of 4 frames of 48x32, 1 epoch; for these frames, give plan_clips the same catalog, the same "
        "rates and start, clips_per_video=1, size=(32, 48), seed=0, shuffle=True (here --shuffle), and no crop"
    )
    assert out[1].startswith("24 frames stored with zstd:1, ")
    assert out[2].startswith(f"{cache}: 24 frames, ")
    out, _ = said(answer, "build", catalog, cache, *RATES)
    assert len(out) == 4
    assert out[1].startswith("0 frames stored, 0 bytes, in ")
    assert out[1].endswith("; 24 were stored before")


@pytest.mark.parametrize(("word", "shuffle"), [(None, True), ("yes", True), ("no", False), ("videos", "videos")])
def test_the_frames_of_a_build_are_those_of_the_plan_with_the_same_shuffle(
    catalog: str, cache: str, answer: Answer, word: str | None, shuffle: Any
) -> None:
    words = [] if word is None else ["--shuffle", word]
    out, _ = said(answer, "build", catalog, cache, *RATES, "--clips-per-video", "2", "--seed", "3", *words)
    assert f"clips_per_video=2, size=(32, 48), seed=3, shuffle={shuffle!r} " in out[0]
    for other in (True, False, "videos"):
        plan = plan_clips(Catalog.open(catalog), Rates([(2, 2), (4, 2)]), clips_per_video=2, size=(32, 48), seed=3,
                          shuffle=other)  # fmt: skip
        watched = Watched()
        list(clips_through(plan, FrameCache(cache), watched))
        assert (watched.asked == []) is (other == shuffle), (word, other)


def test_shuffle_is_named_where_frames_depend_on_it(catalog: str, cache: str, answer: Answer) -> None:
    out, _ = said(answer, "build", catalog, cache, *RATES, "--start", "0")
    assert "shuffle" not in out[0]
    assert "seed" not in out[0]
    _, err = said(answer, "build", catalog, cache, "--shuffle", "no", code=1)
    assert err[0].startswith("framefeed: --shuffle needs --rates: ")


def test_feed_reads_what_a_build_with_the_same_shuffle_stored(catalog: str, cache: str, answer: Answer) -> None:
    said(answer, "build", catalog, cache, *RATES, "--shuffle", "no")
    for word, had in (("no", 24), ("yes", None)):
        (epoch,) = json.loads(answer("feed", catalog, *RATES, "--shuffle", word, "--cache", cache, "--json").out)[
            "epochs"
        ]
        assert epoch["frames_cached"] == had if had else epoch["frames_cached"] < 24


def test_help_names_all_codecs(answer: Answer) -> None:
    words = answer("cache", "build", "--help").out.replace(",", " ").replace(";", " ").split()
    assert {*known_codecs()} <= {*words}


def test_build_as_json(catalog: str, cache: str, answer: Answer) -> None:
    actual = document(answer, "build", catalog, cache, *RATES, "--epochs", "2", "--codec", "lz4", "--workers", "1")
    assert actual["build"]["clips"] == 12
    assert actual["build"]["is_complete"] is True
    assert actual["build"]["workers"] == 1
    assert actual["build"]["frames_stored"] == actual["frames"]
    assert (actual["build"]["rest_clips"], actual["build"]["rest_bytes"]) == (0, None)
    assert actual["failed"] == []


def test_some_clips_are_filled_and_what_the_others_would_take_is_printed(
    catalog: str, cache: str, answer: Answer
) -> None:
    words = ["build", catalog, cache, *RATES, "--codec", "raw", "--workers", "1"]
    out, _ = said(answer, *words, "--clips", "2")
    assert out[1].startswith("8 frames stored with raw, ")
    assert out[3].startswith("2 clips filled; by these, the other 4 would take about 74.6 kB, and ")
    assert out[3].endswith(" with 1 worker: the same command without --clips fills them")
    assert len(out) == 4
    out, _ = said(answer, *words, "--clips", "2", "--max-bytes", "50kB")
    assert out[3] == (
        "8 frames of 2 clips were stored before, and none now, so what the other 4 would take is not known: give a "
        "larger --clips, or none to fill all"
    )
    assert document(answer, *words)["build"]["frames_present"] == 8


def test_where_max_bytes_is_too_small_for_the_others_a_larger_one_is_advised(
    catalog: str, cache: str, answer: Answer
) -> None:
    words = ["build", catalog, cache, *RATES, "--codec", "raw"]
    out, _ = said(answer, *words, "--clips", "2", "--max-bytes", "100kB")
    assert "2 clips filled; by these, the other 4 would take about 74.6 kB, more than max_bytes leaves (" in out[3]
    assert out[3].endswith(": give a larger --max-bytes")
    # Two thirds of the frames are there, and the others have room.
    said(answer, *words, "--clips", "4")
    out, _ = said(answer, *words, "--clips", "5", "--max-bytes", "120kB")
    assert "5 clips filled; by these, the other 1 would take about 18.7 kB, and " in out[3]


def test_clips_are_called_filled_only_if_they_are(catalog: str, cache: str, tmp_path: Path, answer: Answer) -> None:
    words = [*RATES, "--codec", "raw", "--workers", "0"]
    out, _ = said(answer, "build", catalog, cache, *words, "--clips", "4", "--max-bytes", "60kB")
    assert out[-1].startswith(
        "of 4 clips, not all frames are stored; by those that are, all that is missing would take"
    )
    assert out[-1].endswith(": give a larger --max-bytes")
    shutil.copytree(Path(catalog).parent / "videos", tmp_path / "videos")
    late = os.fspath(tmp_path / "late.parquet")
    scan(tmp_path / "videos", out=late)
    for number, path in enumerate(sorted((tmp_path / "videos").rglob("*.mp4"))):
        if number:
            path.unlink()
    out, _ = said(answer, "build", late, f"{cache}2", *words, "--clips", "3", code=3)
    assert out[-1].startswith(
        "of 3 clips, not all frames are stored; by those that are, all that is missing would take"
    )
    shutil.rmtree(tmp_path / "videos")
    out, _ = said(answer, "build", late, f"{cache}3", *words, "--clips", "3", code=3)
    assert out[-1] == "no frame was stored now, so what the other 3 would take is not known"


def test_built_frames_are_read_from_the_cache(catalog: str, cache: str) -> None:
    assert main(["cache", "build", catalog, cache, "--rates", "2:3", "--size", "24x32"]) == 0
    plan = plan_clips(Catalog.open(catalog), Rates([(2, 3)]), seed=0, size=(24, 32))
    with FrameCache(cache) as opened:
        assert_served(plan, opened)


def again(lines: list[str]) -> list[str]:
    return [line for line in lines if "the next epoch finds" in line]


def share_said(line: str) -> int:
    return int(line.split(" %")[0].split()[-1])


def shares_of_feed(answer: Answer, catalog: str, cache: str, *words: str) -> list[int]:
    """Return the share of frames that each epoch reads from a cache, in percent."""
    epochs = json.loads(answer("feed", catalog, *words, "--cache", cache, "--json", code=None).out)["epochs"]
    return [round(100 * epoch["frames_cached"] / epoch["frames"]) for epoch in epochs]


def test_build_prints_the_share_that_the_next_epoch_finds(catalog: str, tmp_path: Path, answer: Answer) -> None:
    def lines(name: str, *words: str) -> list[str]:
        return again(said(answer, "build", catalog, os.fspath(tmp_path / name), *words)[0])

    (line,) = lines("random", *RATES)
    assert "(framefeed cache build without --rates, with --size 32x48)" in line
    actual = shares_of_feed(answer, catalog, os.fspath(tmp_path / "random"), *RATES, "--epochs", "2")
    assert share_said(line) == pytest.approx(actual[1], abs=10)
    assert lines("fixed", *RATES, "--start", "0") == []
    assert lines("all", "--size", "32x48") == []
    (many,) = lines("many", *RATES, "--epochs", "5")
    actual = shares_of_feed(answer, catalog, os.fspath(tmp_path / "many"), *RATES, "--epochs", "6")
    assert actual[:5] == [100] * 5
    assert share_said(many) == pytest.approx(actual[5], abs=30)
    assert share_said(many) > share_said(line)


def test_short_videos_are_found_again_in_every_epoch(tmp_path: Path, answer: Answer) -> None:
    (tmp_path / "videos").mkdir()
    for number in range(5):
        write_clip(tmp_path / "videos" / f"short_{number}.mp4", ClipSpec(num_frames=10))
    write_clip(tmp_path / "videos" / "long.mp4", ClipSpec(num_frames=250))
    catalog, cache = os.fspath(tmp_path / "cat.parquet"), os.fspath(tmp_path / "cache")
    scan(tmp_path / "videos", out=catalog)
    (line,) = again(said(answer, "build", catalog, cache, *RATES)[0])
    # The clips of 1.5 s do not fit into 0.4 s, and all begin at the first frame.
    assert share_said(line) == shares_of_feed(answer, catalog, cache, *RATES, "--epochs", "2")[1] > 80


def test_the_next_epoch_of_many_clips_is_forecast(catalog: str, cache: str, answer: Answer) -> None:
    words = [*RATES, "--clips-per-video", "20"]
    (line,) = again(said(answer, "build", catalog, cache, *words)[0])
    actual = shares_of_feed(answer, catalog, cache, *words, "--epochs", "2")[1]
    assert share_said(line) == pytest.approx(actual, abs=20)


def test_following_the_printed_advice_avoids_misses(catalog: str, tmp_path: Path, answer: Answer) -> None:
    def shares(name: str, *words: str) -> list[float]:
        cache = os.fspath(tmp_path / name)
        said(answer, "build", catalog, cache, *words)
        actual = json.loads(answer("feed", catalog, *RATES, "--epochs", "2", "--cache", cache, "--json").out)["cache"]
        return [actual["frames_hit"], actual["frames_missed"]]

    assert shares("all", "--size", "32x48") == [48, 0]
    assert shares("epochs", *RATES, "--epochs", "2") == [48, 0]
    assert shares("one", *RATES)[1] > 0


def test_clips_start_at_the_given_time(catalog: str, cache: str, answer: Answer) -> None:
    said(answer, "build", catalog, cache, *RATES, "--start", "0.5")
    with FrameCache(cache) as opened:
        assert_served(plan_clips(Catalog.open(catalog), Rates([(2, 2), (4, 2)], 0.5), seed=7, size=(32, 48)), opened)


def test_one_video_is_cached_frame_by_frame(tmp_path: Path, cache: str, answer: Answer) -> None:
    video = os.fspath(write_clip(tmp_path / "my.mp4", ClipSpec(num_frames=30)))
    out, _ = said(answer, "build", video, cache, "--codec", "lz4")
    assert out[0] == "1 video: 30 clips of 1 frame of 128x96"
    assert out[1].startswith("30 frames stored with lz4")
    out, _ = said(answer, "info", cache)
    assert "30 of 128x96 yuv420p" in out[3], "whole pictures, as the decoder made them"
    out, _ = said(answer, "build", video, cache, "--size", "48")
    assert out[0] == "1 video: 30 clips of 1 frame of 64x48"
    assert document(answer, "info", cache)["forms"] == {"planes": 1, "output": 1}


def test_failed_files_are_listed_and_the_exit_code_is_3(tmp_path: Path, cache: str, answer: Answer) -> None:
    folder = tmp_path / "videos"
    files = make_folder(folder, videos_per_class=2, seconds=1)
    (folder / "bad.mp4").write_text("no film")
    scan(folder, out=tmp_path / "cat.parquet")
    files[0].unlink()
    out, err = said(answer, "build", os.fspath(tmp_path / "cat.parquet"), cache, "--rates", "2:2", code=3)
    assert len(err) == 2
    assert err[0].startswith(f"framefeed: failed in the scan: {folder / 'bad.mp4'}: ")
    assert f"{files[0]}: no such file (MissingMedia)" in err[1]
    assert any(line.endswith("; 2 failed") for line in out)
    actual = document(answer, "build", os.fspath(tmp_path / "cat.parquet"), cache, "--rates", "2:2", code=3)
    assert [failed["error_type"] for failed in actual["failed"]] == ["UnreadableMedia", "MissingMedia"]
    assert actual["build"]["is_complete"] is False
    shutil.rmtree(folder)
    (folder / "bad.mp4").parent.mkdir()
    (folder / "bad.mp4").write_text("no film")
    scan(folder, out=tmp_path / "none.parquet")
    out, err = said(answer, "build", os.fspath(tmp_path / "none.parquet"), cache, "--rates", "2:2", code=3)
    assert out == ["none of 1 file can be planned: there is nothing to store"]


def test_C04_a_full_cache_is_reported_and_is_no_failure(catalog: str, cache: str, answer: Answer) -> None:
    out, err = said(answer, "build", catalog, cache, *RATES, "--max-bytes", "80kB", "--codec", "raw")
    assert err == []
    assert any(line.startswith("stopped: ") and "full" in line for line in out)
    assert sum(entry.stat().st_size for entry in os.scandir(cache)) <= 80_000
    (part,) = (line for line in out if "of 24 frames of this plan" in line)
    stored = int(out[1].split()[0])
    assert 0 < stored < 24
    assert part == f"stored: {stored} of 24 frames of this plan ({100 * stored / 24:.0f} %)"
    actual = document(answer, "build", catalog, cache, *RATES, "--max-bytes", "80kB", "--codec", "raw")
    assert (actual["build"]["is_complete"], actual["failed"]) == (False, [])


def test_C04_a_budget_for_less_than_a_frame_is_a_mistake(catalog: str, tmp_path: Path, answer: Answer) -> None:
    def build(number: int, size: str, code: int) -> list[str]:
        words = ["build", catalog, os.fspath(tmp_path / f"{number}"), *RATES, "--max-bytes", size, "--codec", "raw"]
        return said(answer, *words, code=code)[1]

    (line,) = build(0, "5", 1)
    assert "max_bytes=5 is too small for frames that need " in line
    needed = line.rsplit("--max-bytes ")[-1].removesuffix(")")
    assert len(build(1, str(int(needed) - 1), 1)) == 1
    assert build(2, needed, 0) == []
    words = ["feed", "--text", catalog, *RATES, "--cache", os.fspath(tmp_path / "3"), "--max-bytes", "5"]
    out, err = answer(*words, code=1)
    assert "clips/s" in out
    assert "max_bytes=5 is too small" in only_line(err)


def test_a_cache_full_of_frames_of_another_plan_is_described(catalog: str, cache: str, answer: Answer) -> None:
    words = ["build", catalog, cache, "--rates", "2:2,4:2", "--max-bytes", "80kB", "--codec", "raw"]
    said(answer, *words, "--size", "32x48")
    assert "stored: at least 0 of 24 frames of this plan (0 %)" in said(answer, *words, "--size", "40x48")[0]


def test_info_names_pillow_as_the_decoder_of_pictures(tmp_path: Path, cache: str, answer: Answer) -> None:
    Image.new("RGB", (40, 30)).save(tmp_path / "a.png")
    out, _ = said(answer, "build", os.fspath(tmp_path / "a.png"), cache, "--size", "16")
    assert out[0] == "1 picture: 1 clip of 1 frame of 21x16"
    assert any(line.split()[:4] == ["decoded", "by", "still,", "Pillow"] for line in said(answer, "info", cache)[0])


def test_info_reads_what_a_plug_in_decoded(tmp_path: Path, cache: str, answer: Answer) -> None:
    pytest.importorskip("pillow_jxl")
    Image.new("RGB", (40, 30)).save(tmp_path / "a.jxl")
    said(answer, "build", os.fspath(tmp_path / "a.jxl"), cache, "--size", "16")
    made_by = json.loads(answer("cache", "info", cache, "--json").out)
    assert made_by["not_read_any_more"] == {}
    assert ["pillow-jxl-plugin" in recipe for recipe in made_by["made_by"]] == [True]


def test_C17_a_folder_that_cannot_be_written_is_one_line(catalog: str, answer: Answer) -> None:
    _, err = said(answer, "build", catalog, "/proc/self/cache", *RATES, code=1)
    assert len(err) == 1
    assert "/proc/self/cache" in err[0]
    assert "cannot be written" in err[0]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "expected an action: build, info, verify or clear"),
        (["frob"], "expected one of build, info, verify, clear, got 'frob'"),
        (["build"], "required: CATALOG|MEDIA, CACHE"),
        (["build", "nope.mp4", "c"], "nope.mp4: expected a catalog (from 'framefeed scan') or one video, but"),
        (["build", ".", "c"], "expected a catalog or one video, got a folder: make a catalog of it"),
        (["build", "{catalog}", "c", "--clips-per-video", "3"], "--clips-per-video needs --rates"),
        (["build", "{catalog}", "c", "--start", "1"], "--start needs --rates"),
        (
            ["build", "{catalog}", "c", "--rates", "1:2", "--start", "soon"],
            "expected random, or a time in seconds such as 1.5",
        ),
        (
            ["build", "{catalog}", "c", "--rates", "1:2", "--start", "1,2"],
            "expected random, or a time in seconds such as 1.5",
        ),
        (["build", "{catalog}", "c", "--clips", "0"], "expected an integer of at least 1, got '0'"),
        (["build", "{catalog}", "c", "--codec", "lz5"], "unknown codec 'lz5'"),
        (["build", "{catalog}", "c", "--max-bytes", "3XB"], "expected a size in bytes such as 200GB"),
        (["build", "{catalog}", "{catalog}", "--rates", "1:2"], "expected a folder"),
        (["build", "{catalog}", "c", "--rates", "1:2", "--frob"], "unknown option --frob"),
        (["info", "nope"], "nope: no such folder"),
        (["info", "{catalog}"], "is a file, not a folder"),
        (["verify", "{videos}"], "expected the folder of a frame cache"),
        (["clear", "{videos}"], "expected the folder of a frame cache"),
    ],
)
def test_wrong_arguments_are_one_line(words: list[str], expected: str, catalog: str, answer: Answer) -> None:
    videos = os.path.join(os.path.dirname(catalog), "videos")
    out, err = said(answer, *(word.format(catalog=catalog, videos=videos) for word in words), code=1)
    assert out == []
    assert expected in only_line("\n".join(err))
    assert not os.path.exists("c")


def test_build_refuses_text_and_catalogs_of_headers(tmp_path: Path, cache: str, answer: Answer) -> None:
    (tmp_path / "text.mp4").write_text("no film")
    headers = tmp_path / "headers.parquet"
    scan(write_clip(tmp_path / "v.mp4", ClipSpec(num_frames=5)), out=headers, depth="header")
    for path, expected in [(tmp_path / "text.mp4", "is text, not media"), (headers, "holds headers only")]:
        _, err = said(answer, "build", os.fspath(path), cache, code=1)
        assert expected in only_line("\n".join(err))


def test_an_interrupted_build_continues_when_it_is_run_again(
    catalog: str, cache: str, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(done: int, total: int | None) -> None:
        assert total == 24
        if done > 8:
            raise KeyboardInterrupt

    words = ["build", catalog, cache, *RATES, "--workers", "1"]
    with monkeypatch.context() as patched:
        patched.setattr(framefeed.cli.cache, "build", partial(build, progress=interrupt))
        out, err = said(answer, *words, code=130)
    assert len(out) == 1
    assert only_line("\n".join(err)).endswith("stored frames are kept: run the same command again to continue")
    done = document(answer, *words)["build"]
    assert done["frames_present"] >= 12
    assert done["frames_present"] + done["frames_stored"] == 24


# --- info, verify, clear ------------------------------------------------------------------------------


@pytest.fixture
def filled(catalog: str, cache: str, answer: Answer) -> str:
    for codec, size in [("lz4", "32x48"), ("raw", "20")]:
        said(answer, "build", catalog, cache, "--rates", "2:2,4:2", "--size", size, "--codec", codec)
    return cache


def segments(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("frames-*.data"))


def directory_of(segment: Path) -> Path:
    return segment.with_suffix(".rows")


def test_info_describes_the_stored_frames(filled: str, answer: Answer) -> None:
    out, err = said(answer, "info", filled)
    assert err == []
    assert out[0] == f"{filled}: 48 frames of 6 sources"
    assert out[1].startswith("  on disk       ")
    assert out[1].endswith(" in 2 files")
    assert {line.split()[0]: line.split()[1:5] for line in out[3:5]} == {
        "lz4": ["24", "of", "48x32", "RGB,"], "raw": ["24", "of", "26x20", "RGB,"]}  # fmt: skip
    assert out[5].startswith("  decoded by    pyav ")
    assert out[5].endswith(": 12 streams")
    actual = document(answer, "info", filled)
    assert (actual["frames"], actual["sources"], actual["streams"], actual["files"]) == (48, 6, 12, 2)
    assert (actual["forms"], actual["unfinished"], actual["refused"]) == ({"output": 12}, [], {})
    assert actual["bytes_on_disk"] == sum(path.stat().st_size for path in Path(filled).glob("frames-*"))
    assert sum(kind["bytes"] for kind in actual["kinds"]) == actual["stored_bytes"]


def test_info_lists_streams_of_other_versions(filled: str, answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framefeed.decode.backends.pyav.av.__version__", "99.0")
    out, _ = said(answer, "info", filled)
    (line,) = (line for line in out if line.startswith("  not used any more  pyav "))
    assert line.endswith(": 12 streams")
    actual = document(answer, "info", filled)
    assert (actual["made_by"], actual["forms"], sum(actual["not_read_any_more"].values())) == ({}, {}, 12)


def test_info_and_verify_of_an_empty_cache(filled: str, tmp_path: Path, answer: Answer) -> None:
    empty = os.fspath(tmp_path / "empty")
    os.mkdir(empty)
    assert said(answer, "info", empty) == ([f"{empty}: no frames"], [])
    assert said(answer, "clear", filled)[0][0].startswith(f"{filled}: 48 frames removed, ")
    assert said(answer, "info", filled) == ([f"{filled}: no frames"], [])
    assert said(answer, "verify", filled)[0] == [f"{filled}: 0 frames in 0 files checked, 0 bytes: no damage found"]


def test_C02_verify_lists_damaged_files(filled: str, answer: Answer) -> None:
    out, err = said(answer, "verify", filled)
    assert out[0].startswith(f"{filled}: 48 frames in 2 files checked, ")
    assert out[0].endswith(": no damage found")
    assert err == []
    large = max(segments(filled), key=lambda path: path.stat().st_size)
    data = bytearray(large.read_bytes())
    middle = len(data) // 3
    data[middle : middle + 3000] = bytes(3000)  # more than lies between two frames
    large.write_bytes(data)
    out, err = said(answer, "verify", filled, code=3)
    actual = document(answer, "verify", filled, code=3)
    ((name, numbers),) = actual["damaged"].items()
    assert name == large.name
    assert 1 <= len(numbers) <= 3
    assert out[0].endswith(f": {len(numbers)} damaged frame{'' if len(numbers) == 1 else 's'}")
    assert f"failed: {large.name}: {len(numbers)} frame" in only_line("\n".join(err))
    large.write_bytes(data[: len(data) // 2])
    out, err = said(answer, "verify", filled, code=3)
    assert out[0].endswith("0 damaged frames; 1 file cannot be used")
    assert only_line("\n".join(err)).endswith("(refused)")
    assert any(line.split()[:2] == ["refused", f"{large.name}:"] for line in said(answer, "info", filled)[0])


def test_C02_repair_removes_damaged_files(catalog: str, filled: str, answer: Answer) -> None:
    large, other = sorted(segments(filled), key=lambda path: path.stat().st_size, reverse=True)
    data = bytearray(large.read_bytes())
    data[len(data) // 3 : len(data) // 3 + 3000] = bytes(3000)
    large.write_bytes(data)
    other.write_bytes(other.read_bytes()[:-9])
    out, _ = said(answer, "verify", filled, code=3)
    assert out[1].startswith(f"'framefeed cache verify {filled} --repair' removes damaged files")
    out, err = said(answer, "verify", filled, "--repair")
    assert out[1].startswith("2 files removed, ")
    assert [line.strip() for line in out[2:]] == sorted([large.name, other.name])
    assert err == []
    assert len(said(answer, "verify", filled)[0]) == 1
    assert said(answer, "verify", filled, "--repair")[0][0].endswith(": no damage found")
    for size in ("32x48", "20"):
        words = ["build", catalog, filled, "--rates", "2:2,4:2", "--size", size]
        assert document(answer, *words)["build"]["frames_stored"] == 24
    assert document(answer, "verify", filled)["frames"] == 48


def test_repair_keeps_undamaged_files(filled: str, answer: Answer) -> None:
    link = Path(filled) / f"frames-{'a' * 32}.data"
    sealed = segments(filled)[0]
    link.symlink_to(sealed)
    directory_of(link).write_bytes(directory_of(sealed).read_bytes())
    actual = document(answer, "verify", filled, "--repair", code=3)
    assert (actual["removed"], actual["failed"][0]["source"]) == ({}, link.name)
    assert link.is_symlink()


def test_clear_removes_no_other_files(filled: str, answer: Answer) -> None:
    foreign = Path(filled) / "notes.txt"
    foreign.write_text("mine")
    (Path(filled) / "frames-abc.data").write_text("not ours, by its name")
    nbytes = sum(path.stat().st_size for path in Path(filled).glob("frames-*") if len(path.name) > 20)
    actual = document(answer, "clear", filled)
    assert (actual["frames"], actual["bytes_freed"], actual["left"]) == (48, nbytes, [])
    assert foreign.read_text() == "mine"
    assert sorted(os.listdir(filled)) == ["frames-abc.data", "lock", "notes.txt"]
    _, err = said(answer, "clear", filled, code=1)
    assert "expected the folder of a frame cache" in err[0]
    assert err[0].endswith("of a cache, only frames-abc.data, notes.txt")


def test_C08_hostile_descriptions_are_shown_as_text(cache: str, tmp_path: Path, answer: Answer) -> None:
    plan = plan_clips(scan(write_clip(tmp_path / "v.mp4", ClipSpec(num_frames=5))), AtSeconds([0.0]), seed=0, size=16)
    with FrameCache(cache) as made:
        built(plan, made)
        for text in ("no JSON", "[]", "{}", '{"recipe": 1, "source": []}', "[" * 5000, '"\x1b[31m"'):
            frame = StoredFrame(0, Kind("raw", "\x1b]0;x rgb24"), text.encode(), 4)
            made.store.add(text.encode().ljust(16)[:16], text, [frame])
    out, _ = said(answer, "info", cache)
    assert any(line.split() == ["not", "used", "any", "more", "unknown:", "6", "streams"] for line in out)


# --- feed ---------------------------------------------------------------------------------------------


def test_feed_reads_what_it_stored(catalog: str, cache: str, answer: Answer) -> None:
    words = ["feed", catalog, *RATES, "--batch-size", "4", "--cache", cache, "--codec", "lz4"]
    for number, (had, stored) in enumerate([(0, 24), (24, 0)]):
        out, err = answer(*words, "--text")
        assert err == ""
        share = 100 * had // 24
        assert f"clips/s; {had} of 24 frames from the cache ({share} %)" in out.splitlines()[1], number
        assert out.splitlines()[-1].startswith(f"cache       {stored} frames stored, "), number
    actual = json.loads(answer(*words, "--json").out)["cache"]
    assert (actual["frames_hit"], actual["frames_missed"], actual["trouble"]) == (24, 0, None)


def test_feed_prints_the_cached_frames_of_each_epoch(catalog: str, cache: str, answer: Answer) -> None:
    words = ["feed", catalog, *RATES, "--start", "0", "--epochs", "3", "--cache", cache, "--codec", "lz4", "--json"]
    epochs = json.loads(answer(*words).out)["epochs"]
    assert [(epoch["frames_cached"], epoch["frames"]) for epoch in epochs] == [(0, 24), (24, 24), (24, 24)]


@pytest.mark.parametrize(("epochs", "remedy"), [(1, "run the same command again"), (2, "store more epochs")])
def test_feed_says_how_more_frames_would_come_from_the_cache(epochs: int, remedy: str) -> None:
    args, stats = argparse.Namespace(size=None, kind="threads"), LoadStats(batches=1, wait_seconds=1, decode_seconds=1)
    for had, is_said in [(10, True), (90, False)]:
        measured = FeedResult()
        for number in range(1, epochs + 1):
            counts = DecodeCounts(frames_cached=had * number, frames_delivered=100 * number)
            measured.add_epoch(EpochResult(50, 0, 1.0), counts)
        advice = _choose_advice(args, FrameCache("nowhere"), stats, measured)
        assert advice.startswith(f"10 % of the last epoch's frames came from the cache: {remedy}") is is_said
        assert ("more workers would help" in advice) is not is_said
        assert "more workers would help" in _choose_advice(args, None, stats, measured)


def test_feed_continues_when_its_cache_is_full(catalog: str, cache: str, answer: Answer) -> None:
    out, err = answer("feed", "--text", catalog, *RATES, "--cache", cache, "--codec", "raw", "--max-bytes", "80kB")
    assert "throughput" in out
    assert "full" in only_line(err)
    for name, value in [("codec", "lz4"), ("max-bytes", "1GB"), ("form", "planes")]:
        assert f"--{name} needs --cache FOLDER" in only_line(
            answer("feed", catalog, *RATES, f"--{name}", value, code=1).err
        )

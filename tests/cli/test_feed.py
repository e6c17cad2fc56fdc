from __future__ import annotations

import json
import os
import shutil
import weakref
from argparse import Namespace
from pathlib import Path

import pytest
from PIL import Image

from framefeed.catalog import Catalog
from framefeed.cli.feed import FeedResult, _advise, _time_batches
from framefeed.load import ClipLoader, LoadStats
from framefeed.plan import Dense, plan_clips
from framefeed.scanning import scan
from framefeed.testing import make_folder
from tests.cli.running import Answer, only_line, run_on_terminal
from tests.corpus import corpus_file
from tests.damaged import damaged_clip


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("feed")
    make_folder(folder / "videos", videos_per_class=3, seconds=2)
    scan(folder / "videos", out=folder / "cat.parquet")
    return os.fspath(folder / "cat.parquet")


def _measured(answer: Answer, *words: str) -> dict[str, object]:
    out, err = answer("feed", *words, "--json")
    assert err == ""
    return json.loads(out)


def test_feed_prints_its_work_and_measurements(catalog: str, answer: Answer) -> None:
    out, err = answer(
        "feed", "--text", catalog, "--rates", "2:2,4:2", "--batch-size", "4", "--epochs", "2", "--size", "32x48"
    )
    lines = out.splitlines()
    assert err == ""
    assert lines[0] == "6 videos: 6 clips of 4 frames of 48x32 per epoch, in batches of 4; simulated training step: 0 s"
    assert lines[1].startswith("epoch 0: 6 clips in ")
    assert lines[2].startswith("epoch 1: 6 clips in ")
    assert [line.split()[0] for line in lines[4:]] == ["throughput", "decoded", "waited", "workers", "bottleneck"]


def test_json(catalog: str, answer: Answer) -> None:
    words = ["--rates", "2:2,4:2", "--batch-size", "4", "--clips-per-video", "3", "--workers", "1", "--epochs", "2"]
    actual = _measured(answer, catalog, *words)
    assert (actual["clips"], actual["frames_per_clip"], actual["batches"], actual["workers"]) == (18, 4, 10, 1)
    assert [epoch["clips"] for epoch in actual["epochs"]] == [18, 18]
    assert actual["picture_shape"] == [3, 224, 224]
    assert len(actual["waits_seconds"]) == 10
    assert actual["decoded_frames_per_delivered_frame"] >= 1
    assert actual["failed"] == []


def test_a_slow_step_hides_the_loader(catalog: str, answer: Answer) -> None:
    words = ["--rates", "2:2", "--batch-size", "2", "--clips-per-video", "4", "--size", "32", "--step-ms", "150"]
    actual = _measured(answer, catalog, *words, "--max-batches", "8")
    assert actual["batches"] == 8
    assert actual["step_seconds"] >= 7 * 0.15
    assert actual["bottleneck"] == "training step" or actual["wait_share"] >= 0.1


def test_max_batches_is_of_each_epoch(catalog: str, answer: Answer) -> None:
    words = ["--rates", "2:2", "--batch-size", "2", "--size", "32", "--epochs", "3"]
    for most, clips in [("1", 2), ("2", 4), ("3", 6), ("4", 6)]:
        actual = _measured(answer, catalog, *words, "--max-batches", most)
        assert [epoch["clips"] for epoch in actual["epochs"]] == [clips] * 3
        assert actual["batches"] == 3 * clips // 2


def test_batches_are_kept_by_the_loop_alone(catalog: str) -> None:
    plan = plan_clips(Catalog.open(catalog), Dense(2, stride=1), seed=0, size=(32, 32))
    with ClipLoader(plan, batch_size=2, workers=1) as loader:
        for batch in _time_batches(loader, FeedResult()):
            data = weakref.ref(batch.data)
            del batch
            assert data() is None


def test_a_terminal_shows_a_bar_while_json_is_piped(catalog: str) -> None:
    result, shown = run_on_terminal("feed", catalog, "--rates", "2:2", "--batch-size", "2", "--size", "32")
    assert json.loads(result.stdout)["batches"] == 3
    assert b"/3 " in shown


def test_the_last_step_of_an_epoch_that_is_cut_short_counts(catalog: str, answer: Answer) -> None:
    words = ["--rates", "2:2", "--batch-size", "2", "--size", "32", "--epochs", "2", "--step-ms", "50"]
    actual = _measured(answer, catalog, *words, "--max-batches", "1")
    assert actual["step_seconds"] >= 2 * 0.05
    assert actual["wall_seconds"] == actual["step_seconds"] + actual["wait_seconds"]
    assert actual["clips_per_second"] <= 4 / 0.1


def test_epochs_that_are_cut_short_are_different_epochs(catalog: str, tmp_path: Path, answer: Answer) -> None:
    words = ["--rates", "4:2", "--batch-size", "5", "--size", "32", "--epochs", "2", "--max-batches", "1"]
    actual = _measured(answer, catalog, *words, "--cache", os.fspath(tmp_path / "cache"), "--codec", "raw")
    first, second = actual["epochs"]
    assert (first["frames"], second["frames"]) == (10, 10)
    assert second["frames_cached"] < 10, "the same epoch again would be found as a whole"


def test_pictures_are_called_pictures(tmp_path: Path, answer: Answer) -> None:
    make_folder(tmp_path / "media", videos_per_class=1, seconds=1)
    for number in range(3):
        Image.new("RGB", (40, 30)).save(tmp_path / "media" / f"{number}.png")
    scan(tmp_path / "media", out=tmp_path / "cat.parquet")
    assert answer("feed", "--text", tmp_path / "cat.parquet", "--rates", "1:1", "--size", "32").out.startswith(
        "2 videos and 3 pictures: 5 clips of 1 frame of "
    )


def test_an_empty_catalog_is_a_mistake(tmp_path: Path, answer: Answer) -> None:
    (tmp_path / "empty").mkdir()
    empty = os.fspath(tmp_path / "cat.parquet")
    with pytest.warns(UserWarning, match="no media found"):
        scan(tmp_path / "empty", out=empty)
    page, cache = tmp_path / "page.html", tmp_path / "cache"
    for words in (
        ["feed", empty, "--rates", "1:8"],
        ["report", empty, "-o", os.fspath(page)],
        ["cache", "build", empty, os.fspath(cache)],
    ):
        out, err = answer(*words, code=1)
        assert "no media in it" in only_line(err)
        assert out == ""
    assert not page.exists()
    assert not cache.exists()


@pytest.mark.parametrize(("on_damaged", "code"), [(None, 3), ("error", 3), ("skip", 0), ("deliver", 0)])
def test_D01_damaged_frames(on_damaged: str | None, code: int, tmp_path: Path, answer: Answer) -> None:
    path = os.fspath(tmp_path / "cat.parquet")
    scan([damaged_clip("damage.mp4", (12, 13, 14, 15, 16, 30))], out=path, verify="full")
    words = ["feed", path, "--rates", "25:40", "--start", "0", "--batch-size", "1", "--size", "32", "--workers", "0"]
    assert [
        failed["error_type"]
        for failed in json.loads(
            answer(*words, "--json", *([] if on_damaged is None else ["--on-damaged", on_damaged]), code=code).out
        )["failed"]
    ] == (["CorruptMedia"] if code else [])


def test_failed_files_are_listed_and_the_exit_code_is_3(tmp_path: Path, answer: Answer) -> None:
    folder = tmp_path / "videos"
    files = make_folder(folder, videos_per_class=2, seconds=1)
    for name in ("bad.mp4", "worse.mp4"):
        (folder / name).write_text("no film")
    scan(folder, out=tmp_path / "cat.parquet")
    os.truncate(files[0], 3000)  # after the scan: this one fails in the loader
    words = ["feed", tmp_path / "cat.parquet", "--rates", "2:2", "--batch-size", "2", "--size", "32"]
    words += ["--clips-per-video", "2"]
    out, err = answer(*words, "--text", code=3)
    lines = err.splitlines()
    assert len(lines) == 3
    for line, name in zip(lines[:2], ("bad.mp4", "worse.mp4"), strict=True):
        assert line.startswith(f"framefeed: failed in the scan: {folder / name}: ")
        assert line.endswith("(UnreadableMedia)")
    assert lines[2].startswith(f"framefeed: failed: {files[0]}: ")
    assert lines[2].endswith("(StaleSource)")
    assert "epoch 0: 6 clips delivered, 2 failed, in " in out
    out, err = answer(*words, code=3)  # JSON, because standard output is no terminal
    assert err == ""
    actual = json.loads(out)
    assert [failed["error_type"] for failed in actual["failed"]] == [
        "UnreadableMedia",
        "UnreadableMedia",
        "StaleSource",
    ]
    assert (actual["clips"], actual["failed_clips"]) == (8, 2)
    assert [(epoch["clips"], epoch["failed"]) for epoch in actual["epochs"]] == [(6, 2)]
    assert actual["clips_per_second"] == pytest.approx(6 / actual["wall_seconds"])


def test_of_many_rows_that_failed_in_the_scan_some_are_listed(tmp_path: Path, answer: Answer) -> None:
    make_folder(tmp_path / "videos", videos_per_class=1, seconds=1)
    for number in range(5):
        (tmp_path / "videos" / f"bad_{number}.mp4").write_text("no film")
    scan(tmp_path / "videos", out=tmp_path / "cat.parquet")
    lines = answer(
        "feed", "--text", tmp_path / "cat.parquet", "--rates", "1:1", "--size", "32", code=3
    ).err.splitlines()
    assert [line.split(": ")[2] for line in lines[:3]] == [
        os.fspath(tmp_path / "videos" / f"bad_{number}.mp4") for number in range(3)
    ]
    assert lines[3] == "framefeed: failed in the scan: 2 more, not shown ('framefeed report' lists all 5)"
    assert len(lines) == 4


def test_a_failed_file_is_named_without_dots(tmp_path: Path, answer: Answer) -> None:
    make_folder(tmp_path / "videos", videos_per_class=1, seconds=1)
    (tmp_path / "videos" / "bad.mp4").write_text("no film")
    (tmp_path / "lists").mkdir()
    catalog = os.fspath(tmp_path / "lists" / "cat.parquet")
    scan(tmp_path / "videos", out=catalog)
    assert f"in the scan: {tmp_path / 'videos' / 'bad.mp4'}: is text" in only_line(
        answer("feed", "--text", catalog, "--rates", "1:1", "--size", "32", code=3).err
    )
    page = tmp_path / "page.html"
    answer("report", catalog, "-o", page)
    assert f"{tmp_path}/videos/" in page.read_text()
    assert "lists/.." not in page.read_text()


def test_advice_for_waits_for_the_network_is_to_prefetch_more(tmp_path: Path) -> None:
    args = Namespace(prefetch=3)
    stats = LoadStats(batches=1, clips=1, workers=1, wait_seconds=9, decode_seconds=9, fetch_wait_seconds=8)
    assert "--prefetch 12" in _advise(args, stats, 1.0)


def test_no_bottleneck_is_printed_if_no_clip_was_delivered(catalog: str, tmp_path: Path, answer: Answer) -> None:
    out = os.fspath(tmp_path / "cat.parquet")
    scan(corpus_file("raw.h264"), out=out)
    shown = answer("feed", "--text", out, "--rates", "1:2", "--size", "32x32", code=3)
    assert "TimeUnavailable" in shown.err
    assert "none of 1 file can be planned: there is nothing to load" in shown.out
    lost = tmp_path / "lost.mp4"
    shutil.copyfile(Catalog.open(catalog).source(0), lost)
    scan(lost, out=out)
    lost.unlink()
    shown = answer("feed", "--text", out, "--rates", "1:2", "--size", "32x32", code=3)
    assert "MissingMedia" in shown.err
    assert "0 clips delivered" in shown.out
    assert "bottleneck" not in shown.out


def test_a_catalog_without_readable_files_has_nothing_to_load(tmp_path: Path, answer: Answer) -> None:
    (tmp_path / "bad.mp4").write_text("no film")
    scan(tmp_path, out=tmp_path / "cat.parquet")
    out, err = answer("feed", "--text", tmp_path / "cat.parquet", "--rates", "1:8", code=3)
    assert "nothing to load" in out
    only_line(err)
    assert json.loads(answer("feed", tmp_path / "cat.parquet", "--rates", "1:8", "--json", code=3).out)["clips"] == 0


def test_files_that_are_no_catalogs_are_one_line(catalog: str, tmp_path: Path, answer: Answer) -> None:
    text, headers = tmp_path / "text.parquet", tmp_path / "headers.parquet"
    text.write_text("no catalog")
    scan(Catalog.open(catalog).source(0), out=headers, depth="header")
    for path, said in [
        (text, "if it is a list or a media file, scan it first"),
        (text, "not readable as a catalog"),
        (tmp_path, ""),
        (headers, "holds headers only"),
    ]:
        assert said in only_line(answer("feed", path, "--rates", "1:8", code=1).err)


def test_pictures_of_a_catalog_of_headers(catalog: str, tmp_path: Path, answer: Answer) -> None:
    Image.new("RGB", (64, 48)).save(tmp_path / "a.png")
    roots = [tmp_path / "a.png", Catalog.open(catalog).source(0)]
    for path, depth in ((tmp_path / "headers.parquet", "header"), (tmp_path / "frames.parquet", "frames")):
        scan(roots, out=path, depth=depth)
    words = ["--rates", "1:1", "--start", "0", "--size", "32x48"]
    out, err = answer("feed", tmp_path / "headers.parquet", *words, "--json", code=3)
    fed = json.loads(out)
    assert (err, fed["clips"]) == ("", 1)
    (failed,) = fed["failed"]
    assert "without --headers-only" in failed["error"]
    first = answer("feed", "--text", tmp_path / "headers.parquet", *words, code=3).out.splitlines()[0]
    assert first.startswith("1 picture: 1 clip of 1 frame")


def test_a_warning_says_that_damage_is_not_known(catalog: str, answer: Answer) -> None:
    words = ["feed", catalog, "--rates", "2:2", "--size", "32x48", "--max-batches", "1", "--on-damaged", "skip"]
    line = only_line(answer(*words).err)
    assert "on_damaged='skip': damage is not known for 6 of 6 rows" in line

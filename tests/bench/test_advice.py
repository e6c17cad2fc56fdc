"""What the rows of ``bench all`` find, against what really comes of it; each row runs in this process."""

from __future__ import annotations

import os
import shutil
import tarfile
import threading
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

import framefeed as ff
from framefeed.bench.advice import _loading, recommend
from framefeed.bench.advice._files import SAMPLED_VIDEOS, choose_spread, compare_predictions, make_sample_plan
from framefeed.bench.advice._loading import measure_peer, measure_transform, plan_many
from framefeed.bench.baselines import Method, Peers
from framefeed.catalog import Catalog
from framefeed.decode import VideoDecoder
from framefeed.errors import MissingMedia, ResourceExhausted, UsageError
from framefeed.proxies import Original
from framefeed.testing import ClipSpec, draw_stamp
from tests.bench.advising import Here, begin_row, measure_here, rewrite, run_row
from tests.corpus import clip_file
from tests.damaged import damaged_clip

QUICK = {"preset": "ultrafast"}
SPECS = {
    f"gop_{gop}.mp4": ClipSpec(70, height=240, width=320, gop=gop, b_frames=0, codec_options=QUICK)
    for gop in (1, 5, 24, 70)
}
FIXED = {"rates": (("10", 4),), "start": "0.2"}
DRAWN = {"rates": (("10", 4),), "start": "random"}


def fill(folder: Path, names: Sequence[str] = tuple(SPECS)) -> Path:
    """Copy videos into a folder."""
    folder.mkdir()
    for name in names:
        shutil.copy(clip_file(f"advice_{name}", SPECS[name]), folder / name)
    return folder


def names_in(catalog: Catalog) -> list[str]:
    return [Path(catalog.media_source(row).name).name for row in range(len(catalog))]


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four videos of 70 frames, whose key frames lie further and further apart: do not change them."""
    return fill(tmp_path_factory.mktemp("advice") / "videos")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six pictures of 300 x 400: do not change them."""
    folder = tmp_path_factory.mktemp("advice") / "pictures"
    folder.mkdir()
    for number in range(6):
        noise = np.random.default_rng(number).integers(0, 256, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((400, 300)).save(folder / f"{number}.jpg", quality=95)
    return folder


# --- the sample -----------------------------------------------------------------------------------


def originals_of(facts: Sequence[tuple[str, int]]) -> list[Original]:
    """Files of such kinds and numbers of frames, by row."""
    return [
        Original(row, f"{row}", f"{row}", 9, frames, 96, 128, kind, is_still=False, times={})
        for row, (kind, frames) in enumerate(facts)
    ]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=90), st.integers(1, 30))
@example([(kind, 5) for kind in "abcbaaacb" * 10], 24)
def test_every_beginning_of_the_sample_is_spread(facts: list[tuple[str, int]], count: int) -> None:
    originals = originals_of(facts)
    chosen = choose_spread(originals, count)
    assert len(chosen) == len(set(chosen)) == min(count, len(facts))
    # Files of one kind and work are the same to it: what counts is how many others lie between two of the sample.
    ordered = [each.row for each in sorted(originals, key=lambda each: (each.kind, each.work))]
    for length in range(1, len(chosen) + 1):
        places = [-1, *sorted(map(ordered.index, chosen[:length])), len(ordered)]
        assert max(after - before for before, after in pairwise(places)) <= 2 * len(ordered) / length + 1, length


def test_kinds_are_in_the_sample_as_they_are_in_the_files() -> None:
    facts = [("common", 5)] * 700 + [("rare", 5)] * 100 + [("long", 9000)] * 200
    order = np.random.default_rng(0).permutation(len(facts))
    shuffled = [facts[number] for number in order]
    chosen = choose_spread(originals_of(shuffled), 20)
    assert Counter(shuffled[row][0] for row in chosen) == {"common": 14, "rare": 2, "long": 4}
    assert {shuffled[row][0] for row in chosen[:8]} == {"common", "rare", "long"}


def test_the_sample_has_files_of_all_kinds(videos: Path, tmp_path: Path) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for name, copies in (("gop_1.mp4", 30), ("gop_5.mp4", 10), ("gop_70.mp4", 10)):
        for number in range(copies):
            os.link(videos / name, many / f"{number}_{name}")
    taken = begin_row("decode", many, tmp_path)
    sample = Catalog.open(tmp_path / "work" / "sample.parquet")
    counts = Counter(name.partition("_")[2] for name in names_in(sample))
    assert counts.keys() == {"gop_1.mp4", "gop_5.mp4", "gop_70.mp4"}
    assert counts.total() == SAMPLED_VIDEOS
    assert counts["gop_1.mp4"] == pytest.approx(30 / 50 * SAMPLED_VIDEOS, abs=1)
    assert taken["kinds"] == {"h264 240p GOP 1": 30, "h264 240p GOP 8": 10, "h264 240p GOP 64": 10}


def test_some_files_of_many_are_scanned_and_stand_for_all(videos: Path, tmp_path: Path) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for number in range(1200):
        os.link(videos / "gop_70.mp4", many / f"{number}.mp4")
    ff.scan(many, out=tmp_path / "all.parquet", progress=False)
    found = measure_here(tmp_path / "all.parquet", tmp_path, only=())["media"]
    assert (found["files"], found["scanned"], found["sampled"]) == (1200, 1024, SAMPLED_VIDEOS)
    assert (found["clips"], found["frames"]) == (1200, 1200 * 70)
    assert found["bytes"] == 1200 * (videos / "gop_70.mp4").stat().st_size
    assert found["pixels"] == pytest.approx(1200 * 70 * 240 * 320)


def test_members_of_an_archive_are_files(videos: Path, tmp_path: Path) -> None:
    (tmp_path / "packed").mkdir()
    with tarfile.open(tmp_path / "packed" / "all.tar", "w") as tar:
        tar.add(videos, "videos")
    found = measure_here(tmp_path / "packed", tmp_path, only=())["media"]
    assert (found["files"], found["scanned"], found["clips"], found["frames"]) == (4, 4, 4, 280)
    assert found["bytes"] == sum(path.stat().st_size for path in videos.iterdir())


def test_names_that_look_like_patterns_are_files(videos: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.mkdir()
    for name in ("a[1].mp4", "b{0..3}.mp4", "c*.mp4", "d \n\u00e9.mp4", "e\udce9.mp4"):
        shutil.copy(videos / "gop_5.mp4", odd / name)
    found = measure_here(odd, tmp_path, only=())["media"]
    assert (found["files"], found["scanned"], found["failed"]) == (5, 5, 0)


# --- files that cannot be read --------------------------------------------------------------------


def test_files_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    mixed = fill(tmp_path / "mixed", ["gop_5.mp4", "gop_24.mp4"])
    (mixed / "text.mp4").write_bytes(b"no video")
    (mixed / "empty.mp4").write_bytes(b"")
    shutil.copy(damaged_clip("advice_damaged.mp4"), mixed / "damaged.mp4")
    here = Here()
    result = measure_here(mixed, tmp_path, here=here, only=("cache", "proxies", "loader"), **DRAWN)
    media = result["media"]
    assert (media["files"], media["scanned"], media["failed"], media["sampled"]) == (5, 5, 2, 3)
    assert {Path(source).name for source, _, _ in media["errors"]} == {"text.mp4", "empty.mp4"}
    assert result["failed"].keys() == {"storage"}  # which was not run
    assert len(here.reports["proxies"]) >= 2


def test_files_that_go_while_it_measures_are_counted(tmp_path: Path) -> None:
    going = fill(tmp_path / "going")
    taken = begin_row("decode", going, tmp_path, **DRAWN)
    (going / "gop_24.mp4").unlink()
    found = run_row("decode", taken)[-1]
    assert sum(each["sampled"] for each in found["kinds"]) == 3
    (message,) = found["failed"]
    assert "gop_24.mp4: no such file" in message
    taken |= {"factor": 1.0, "decode_seconds": 1e-4, "decoded_clips": 4, "cached_clips": 0}
    runs = run_row("loader", taken)[-1]["runs"]
    assert len(runs) == 2
    assert all(run["failed_clips"] for run in runs)
    assert run_row("proxies", {**taken, "short_side": 240})[-1]["sampled"] == 3
    for path in going.iterdir():
        path.unlink()
    beginnings = {
        "decode": "no clip of 4 files can be decoded: ",
        "cache": "no frame of 4 clips could be stored: ",
        "proxies": "",
    }
    for row, beginning in beginnings.items():
        with pytest.raises(MissingMedia, match=rf"^{beginning}\S+gop_\d+\.mp4: no such file"):
            run_row(row, taken)


@pytest.mark.parametrize("row", ["decode", "proxies"])
def test_a_shortage_is_no_fact_about_a_file(
    row: str, videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = begin_row(row, videos, tmp_path, **DRAWN)

    def run_short(*given: Any, **options: Any) -> Any:
        raise ResourceExhausted("no memory is left", resource="memory")

    monkeypatch.setattr("framefeed.bench.advice._files.decode_frames", run_short)
    with pytest.raises(ResourceExhausted, match="no memory is left"):
        run_row(row, taken)


def test_files_are_looked_at_until_one_can_be_read(videos: Path, tmp_path: Path) -> None:
    """The first ones are drawn by chance."""
    many = tmp_path / "many"
    many.mkdir()
    for number in range(41):
        (many / f"{number:02}.mp4").write_bytes(b"no video")
    last = np.random.default_rng(0).permutation(41)[-1]
    shutil.copy(videos / "gop_5.mp4", many / f"{last:02}.mp4")
    found = measure_here(many, tmp_path, only=())["media"]
    assert (found["files"], found["scanned"], found["failed"], found["clips"]) == (41, 41, 40, 1)


def test_where_no_file_can_be_read_there_is_nothing_to_measure(tmp_path: Path) -> None:
    for name, data in (("text.mp4", b"no video"), ("empty.mp4", b"")):
        (tmp_path / name).write_bytes(data)
    with pytest.raises(MissingMedia, match=r"^none of 2 files can be planned: \S+\.mp4: is [^\n]+$"):
        measure_here([tmp_path / "text.mp4", tmp_path / "empty.mp4"], tmp_path, only=())


# --- decoding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [{}, DRAWN, FIXED, {"rates": (("5", 3), ("20", 2)), "start": "random"}])
def test_a_whole_sample_stands_for_itself_and_is_weighted_by_its_factor(
    rule: dict[str, Any], videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = begin_row("decode", videos, tmp_path, **rule)
    found = run_row("decode", taken)[-1]
    assert (found["factor"], found["clips"], found["failed"]) == (1.0, 4, [])
    seconds = sum(each["seconds"] * each["sampled"] for each in found["kinds"]) / 4
    assert found["clip_cpu_seconds"]["median"] == pytest.approx(seconds, rel=1e-3)
    monkeypatch.setattr("framefeed.bench.advice._files.compare_predictions", lambda *_: 1000.0)
    weighted = run_row("decode", taken)[-1]
    seconds = sum(each["seconds"] * each["sampled"] for each in weighted["kinds"]) / 4
    assert weighted["clip_cpu_seconds"]["median"] == pytest.approx(1000 * seconds, rel=1e-3)


def compare(taken: dict[str, Any], tmp_path: Path, names: Sequence[str]) -> float:
    """The factor of a sample of the files with these names."""
    whole = Catalog.open(tmp_path / "work" / "scanned.parquet")
    rows = [row for row, name in enumerate(names_in(whole)) if name.partition("_")[2] in names]
    sample = whole.take(rows)
    return compare_predictions(taken, sample, make_sample_plan(taken, sample, "video"), range(len(sample)))


@pytest.mark.parametrize("rule", [FIXED, {"rates": (("5", 3), ("20", 2)), "start": "0"}])
def test_the_factor_is_how_much_more_a_clip_of_all_files_costs(
    rule: dict[str, Any], videos: Path, tmp_path: Path
) -> None:
    both = tmp_path / "both"
    both.mkdir()
    for number in range(4):
        os.link(videos / "gop_1.mp4", both / f"{number}_cheap.mp4")
        os.link(videos / "gop_70.mp4", both / f"{number}_dear.mp4")
    taken = begin_row("decode", both, tmp_path, **rule)
    cheap, dear = compare(taken, tmp_path, ["cheap.mp4"]), compare(taken, tmp_path, ["dear.mp4"])
    assert dear < 1 < cheap
    # Of as many files each, the mean of both costs is that of all.
    assert (1 / cheap + 1 / dear) / 2 == pytest.approx(1, rel=1e-6)


def test_files_alike_have_no_factor(videos: Path, tmp_path: Path) -> None:
    alike = tmp_path / "alike"
    alike.mkdir()
    for number in range(6):
        os.link(videos / "gop_24.mp4", alike / f"{number}_{'in' if number % 2 else 'out'}.mp4")
    taken = begin_row("decode", alike, tmp_path, rates=(("5", 3), ("20", 2)), start="0")
    assert compare(taken, tmp_path, ["in.mp4"]) == pytest.approx(1, rel=1e-6)


def test_bytes_of_a_clip_are_its_share_of_its_file(videos: Path, tmp_path: Path) -> None:
    """Where every frame is a key frame, a clip reads its own frames; else all from a key frame on."""
    found = measure_here(videos / "gop_1.mp4", tmp_path, only=(), **FIXED)["decode"]
    assert found["decoded_frames_per_delivered"] == 1
    assert found["bytes_per_clip"] == round((videos / "gop_1.mp4").stat().st_size * 4 / 70)
    found = measure_here(videos / "gop_70.mp4", tmp_path, only=(), **FIXED)["decode"]
    assert found["bytes_per_clip"] > 2 * 4 / 70 * (videos / "gop_70.mp4").stat().st_size


# --- caches ---------------------------------------------------------------------------------------


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def follow_advice(result: dict[str, Any], sources: str) -> None:
    """Run the code of the advice, and an epoch: as if these sources were much faster than originals."""
    rate = {"originals": 1.0, sources: 1e6}
    result["runs"] = [
        {
            "sources": each, "kind": "threads", "workers": 1, "cpu_seconds_per_clip": 1.0 / speed,
            "clips_per_second": {"median": speed, "low": speed, "high": speed, "rounds": 9},
        }
        for each, speed in rate.items()
    ]  # fmt: skip
    advice = recommend(result)
    assert advice.setting == f"{sources}, 1 thread"
    names: dict[str, Any] = {"ff": ff}
    exec(advice.code, names)  # noqa: S102 - it is what the user is told to run
    with names["loader"] as loader:
        assert sum(len(batch) for batch in loader) == len(names["plan"])


@pytest.mark.filterwarnings("ignore:.*(shorter|repeat)")
@pytest.mark.parametrize("codec", ["raw", "lz4"])
@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({}, id="clips by number that are drawn"),
        pytest.param(DRAWN, id="clips by time that are drawn"),
        pytest.param({**DRAWN, "clips_per_video": 3}, id="several clips that are drawn"),
        pytest.param(FIXED, id="clips that are always the same"),
        pytest.param({**FIXED, "clips_per_video": 3}, id="several clips that are the same"),
        pytest.param({"rates": (("2", 4), ("1", 4)), "start": "0"}, id="clips that are longer than the videos"),
    ],
)
def test_the_cache_takes_the_bytes_that_were_predicted(
    rule: dict[str, Any], codec: str, videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk").mkdir()
    raw = 4 * 70 * 3 * 96 * 96
    if rule.get("start", "random") != "random":
        raw = 4 * (5 if rule["rates"][0][0] == "2" else 4) * 3 * 96 * 96
    more = {} if codec == "raw" else {"space_bytes": round(0.95 * raw)}
    measured = measure_here(videos, tmp_path, only=("cache",), **rule, **more)
    result = {**measured, "settings": {**measured["settings"], "disk": str(tmp_path / "disk")}}
    predicted = result["cache"]
    assert predicted["codec"] == codec
    assert predicted["holds"] == ("every frame" if rule.get("start", "random") == "random" else "clips")
    follow_advice(result, "cache")
    assert predicted["bytes"] == pytest.approx(bytes_in(tmp_path / "disk" / "cache"), rel=0.05)


def test_the_cache_of_pictures_takes_the_bytes_that_were_predicted(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = measure_here(pictures, tmp_path, only=("cache",))
    assert result["cache"]["holds"] == "clips"
    follow_advice(result, "cache")
    assert result["cache"]["bytes"] == pytest.approx(bytes_in(tmp_path / "cache"), rel=0.05)


@pytest.fixture
def loaders(monkeypatch: pytest.MonkeyPatch) -> list[ff.ClipLoader]:
    """Every loader that the row makes."""
    made: list[ff.ClipLoader] = []

    class Recorded(ff.ClipLoader):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)

    monkeypatch.setattr(_loading, "ClipLoader", Recorded)
    return made


@pytest.mark.parametrize("rule", [{}, DRAWN, {**DRAWN, "clips_per_video": 3}, FIXED, {**FIXED, "clips_per_video": 3}])
def test_runs_of_a_cache_read_nothing_else(
    rule: dict[str, Any], videos: Path, tmp_path: Path, loaders: list[ff.ClipLoader]
) -> None:
    runs = measure_here(videos, tmp_path, only=("cache", "loader"), **rule)["runs"]
    assert [(run["sources"], run["kind"], run["workers"]) for run in runs] == [
        (sources, "threads", workers) for sources in ("originals", "cache") for workers in (1, 2)
    ]
    assert all(run["failed_clips"] == 0 for run in runs)
    shares = [loader.stats().cached_share for loader in loaders]
    assert shares == [0.0] * 4 + [1.0] * 4  # of each way, one that is measured and one before it
    assert all(loader.stats().clips for loader in loaders)


def test_runs_of_a_cache_of_some_clips_read_these_only(
    videos: Path, tmp_path: Path, loaders: list[ff.ClipLoader]
) -> None:
    taken = begin_row("cache", videos, tmp_path)
    first = run_row("cache", {**taken, "space_bytes": 3 * 96 * 96 * 65})[0]
    assert first["clips"] < 4
    run_row("loader", {**taken, "factor": 1.0, "decoded_clips": 4, "cached_clips": first["clips"], "holds_lock": False})
    assert [loader.stats().cached_share for loader in loaders] == [0.0] * 4 + [1.0] * 4


# --- loaders --------------------------------------------------------------------------------------


def test_rates_of_originals_are_divided_by_the_factor(videos: Path, tmp_path: Path) -> None:
    taken = begin_row("cache", videos, tmp_path, **DRAWN)
    clips = run_row("cache", taken)[-1]["clips"]
    given = {**taken, "decoded_clips": 4, "cached_clips": clips, "holds_lock": False}
    runs = run_row("loader", {**given, "factor": 1e9})[-1]["runs"]
    for run in runs:
        is_scaled = run["sources"] == "originals"
        assert (run["clips_per_second"]["median"] < 1) == is_scaled
        assert (run["cpu_seconds_per_clip"] > 1000) == is_scaled


def test_a_transform_that_holds_the_lock_is_run_in_processes_too(
    videos: Path, tmp_path: Path, loaders: list[ff.ClipLoader]
) -> None:
    taken = begin_row("cache", videos, tmp_path, **DRAWN)
    taken["cached_clips"] = run_row("cache", taken)[-1]["clips"]
    runs = run_row("loader", {**taken, "holds_lock": True})[-1]["runs"]
    ways = [(run["sources"], run["kind"], run["workers"]) for run in runs]
    assert [way for way in ways if way[1] == "processes"] == [("originals", "processes", 2), ("cache", "processes", 2)]
    assert all(run["failed_clips"] == 0 for run in runs)
    shares = [loader.stats().cached_share for loader in loaders]
    assert sorted(shares) == sorted(float(sources == "cache") for sources, _, _ in ways for _ in range(2))
    assert [run["cached_share"] for run in runs] == [float(sources == "cache") for sources, _, _ in ways]


def test_a_transform_that_fails_with_every_clip_is_the_failure(
    videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(clip: Any, rng: Any) -> Any:
        raise ValueError("only zeros")

    monkeypatch.setattr(_loading, "import_transform", lambda _: refuse)
    taken = begin_row("loader", videos, tmp_path, **DRAWN)
    with pytest.raises(MissingMedia, match=r"^no clip could be loaded: .*only zeros"):
        run_row("loader", taken)


@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize(("clips", "count"), [(1, 3), (3, 7), (4, 4), (4, 18)])
def test_clips_of_one_file_lie_apart(clips: int, count: int, draws: bool, videos: Path) -> None:
    catalog = ff.scan(videos, progress=False)
    plan = make_sample_plan({"rates": (("10", 1),), "start": "random", "size": (96, 96)}, catalog, "video")
    many = plan_many(plan, catalog, (96, 96), clips, count, draws)
    planned = [many[position] for position in range(len(many))]
    assert len(planned) == count
    for first in range(count - clips + 1):
        assert len({clip.source for clip in planned[first : first + clips]}) == clips, "two clips of one file"
    for number in range(clips):
        drawn = [int(clip.indices[0]) for clip in planned[number::clips]]
        assert (len(set(drawn)) > 1) == (draws and len(drawn) > 1)


# --- proxies --------------------------------------------------------------------------------------


def draw_noise(number: int) -> Any:
    """Draw a stamp, and on it noise that is dear to decode, and which small pictures do not have."""
    noise = np.random.default_rng(number).integers(-24, 24, (240, 320, 1))
    return np.clip(draw_stamp(number, 240, 320) + noise, 0, 255).astype(np.uint8)


NOISY = ClipSpec(48, height=240, width=320, gop=48, b_frames=0, codec_options={"crf": "12", **QUICK}, draw=draw_noise)


@pytest.fixture(scope="module")
def noisy() -> Path:
    return clip_file("advice_noisy.mp4", NOISY)


@pytest.mark.filterwarnings("ignore:.*(shorter|repeat)")
@pytest.mark.parametrize("rule", [{}, DRAWN])
def test_proxies_take_the_bytes_that_were_predicted(rule: dict[str, Any], noisy: Path, tmp_path: Path) -> None:
    found = measure_here(noisy, tmp_path, only=("proxies",), size=(56, 56), **rule)["proxies"]
    assert (found["short_side"], found["sampled"], found["share"], found["why"]) == (64, 1, 1.0, "")
    assert found["gain"]["low"] < found["gain"]["median"] < found["gain"]["high"]
    assert found["gain"]["median"] > 1.5
    ff.make_proxies(ff.scan(noisy, progress=False), tmp_path / "proxies", short_side=64, workers=0, progress=False)
    assert found["bytes"] == pytest.approx(sum(map(size_of, (tmp_path / "proxies").rglob("*.mp4"))), rel=0.25)


def size_of(path: Path) -> int:
    return path.stat().st_size


def test_proxies_of_pictures_take_the_bytes_that_were_predicted(pictures: Path, tmp_path: Path) -> None:
    found = measure_here(pictures, tmp_path, only=("proxies",))["proxies"]
    assert (found["short_side"], found["sampled"], found["share"]) == (110, 6, 1.0)
    catalog = ff.scan(pictures, progress=False)
    ff.make_proxies(catalog, tmp_path / "proxies", short_side=110, workers=0, progress=False)
    assert found["bytes"] == pytest.approx(sum(map(size_of, (tmp_path / "proxies").rglob("*.jpg"))), rel=0.25)


def test_files_that_are_not_larger_have_no_proxy(noisy: Path, videos: Path, tmp_path: Path) -> None:
    taken = begin_row("decode", videos, tmp_path)
    reports = run_row("proxies", {**taken, "short_side": 240})
    assert [report["sampled"] for report in reports] == [1, 2, 3, 4]
    assert {(report["share"], report["bytes"], report["gain"]["median"]) for report in reports} == {(0.0, 0, 1.0)}
    assert reports[-1]["why"] == "its pictures are not larger than 240 pixels"


def test_files_without_a_proxy_are_as_slow_as_before(noisy: Path, tmp_path: Path) -> None:
    """Half of the files, whose clips take little: the others' gain becomes less, and bytes are of the others alone."""
    both = tmp_path / "both"
    both.mkdir()
    shutil.copy(noisy, both / "noisy.mp4")
    small = ClipSpec(48, height=48, width=64, gop=1, b_frames=0, codec_options=QUICK)
    shutil.copy(clip_file("advice_small.mp4", small), both / "small.mp4")
    found = measure_here(both, tmp_path, only=("proxies",), size=(56, 56), **DRAWN)["proxies"]
    assert (found["sampled"], found["share"]) == (2, 0.5)
    assert found["why"] == "its pictures are not larger than 64 pixels"
    ff.make_proxies(ff.scan(both, progress=False), tmp_path / "proxies", short_side=64, workers=0, progress=False)
    assert found["bytes"] == pytest.approx(sum(map(size_of, (tmp_path / "proxies").rglob("*.mp4"))), rel=0.25)


# --- storage, transforms, other decoders ----------------------------------------------------------


def test_the_speed_of_the_storage_is_that_of_media_and_disk(
    videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("framefeed.bench.advice._files._LEAST_READ", 0)
    taken = begin_row("storage", videos, tmp_path)
    first, last = run_row("storage", taken)
    assert (first["media_bytes_per_second"] or 0) > 0 or first["why"]
    assert (last["disk_bytes_per_second"] or 0) > 0 or last["why"]
    assert (
        first.keys()
        == last.keys()
        == {
            "media_bytes_per_second",
            "disk_bytes_per_second",
            "disk_written_per_second",
            "why",
        }
    )


def test_what_cannot_be_forgotten_has_no_speed(videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framefeed.bench.advice._files.forget", lambda _: "it stays in memory")
    last = run_row("storage", begin_row("storage", videos, tmp_path))[-1]
    assert (last["media_bytes_per_second"], last["why"]) == (None, "it stays in memory")


class TwoClocks:
    """A clock that a transform moves: its calls in two threads under a lock one after the other, else at once."""

    def __init__(self, *, is_held: bool) -> None:
        self._is_held, self._lock = is_held, threading.Lock()
        self._seconds, self._own = 0.0, Counter[Any]()

    def transform(self, clip: Any, rng: np.random.Generator) -> None:
        assert (clip.shape, clip.dtype) == ((16, 3, 96, 96), np.uint8)
        with self._lock:
            self._own["all" if self._is_held else rng] += 1

    def read(self) -> float:
        self._seconds += 0.01 * max(self._own.values(), default=0)
        self._own.clear()
        return self._seconds


@pytest.mark.parametrize("is_held", [False, True])
def test_a_transform_holds_the_lock_if_two_threads_take_twice_as_long(
    is_held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = TwoClocks(is_held=is_held)
    monkeypatch.setattr(_loading, "time", SimpleNamespace(perf_counter=clock.read))
    monkeypatch.setattr(_loading, "import_transform", lambda _: clock.transform)
    reports: list[Any] = []
    measure_transform({"size": [96, 96], "frames_per_clip": 16, "cores": 2}, reports.append)
    assert reports == [{"holds_lock": is_held, "seconds": pytest.approx(0.01)}]


def open_ours(video: Any) -> Any:
    decoder = VideoDecoder(video.path)
    return lambda ordinals: decoder.get_frames(list(ordinals), size=(224, 224))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_peer_decodes_the_same_clips(videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peers = Peers({"other": SimpleNamespace(METHODS=[Method("other", "NCHW", open_ours)])}, {"other": "1.0"})
    monkeypatch.setattr(_loading.Peers, "find", lambda _: peers)
    monkeypatch.setattr(_loading, "MOST_ROUNDS", 1)
    reports: list[Any] = []
    measure_peer(
        {**begin_row("decode", videos, tmp_path), "peer": "other"}, lambda found: reports.append(rewrite(found))
    )
    (report,) = reports
    assert report["versions"] == {"other": "1.0"}
    assert report["row"]["key"].startswith("own:gop_")


def test_a_peer_that_is_not_installed_is_an_error(videos: Path, tmp_path: Path) -> None:
    given = {**begin_row("decode", videos, tmp_path), "peer": "no_such_peer"}
    with pytest.raises(UsageError, match=r"No module named '\S*no_such_peer'"):
        measure_peer(given, print)

"""Whole rows of ``bench cache``, made small."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from framefeed.bench._media import BenchVideo
from framefeed.bench._printing import describe_closing, describe_row
from framefeed.bench._runner import Rounds, Row, run_row
from framefeed.bench._suites import BenchOptions, run_suite
from framefeed.bench.baselines import FileFormat, Method, Peers
from framefeed.bench.cache import CACHE, _suite, _table, describe_table, refuse_pictures
from framefeed.bench.cache._reads import original_row
from framefeed.bench.cache._sample import Sample, take_sample, video_of
from framefeed.bench.cache._stored import CachedSample, Gives, Scene, Stores
from framefeed.bench.cache._table import FormatTable, list_formats, our_codecs
from framefeed.bench.cache._table import measure_table as measure_formats_of
from framefeed.cache import known_codecs
from framefeed.cli import main
from framefeed.decode import Pixels
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import UsageError
from framefeed.request import OutputSpec
from framefeed.testing import ClipSpec, write_clip

SIZE = (16, 24)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> BenchVideo:
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    return BenchVideo(write_clip(path, ClipSpec(num_frames=40, height=48, width=64, gop=10)))


@pytest.fixture(scope="module")
def sample(video: BenchVideo) -> Sample:
    return take_sample(video, 5, SIZE, Rounds())


@pytest.fixture(scope="module")
def installed() -> Peers:
    return Peers.find(_suite.PEERS)


@pytest.fixture
def scene(sample: Sample, installed: Peers, tmp_path: Path) -> Scene:
    return Scene(sample, tmp_path, installed, Rounds(2, 2), 1)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_table, "DISK_BYTES", 1 << 20)
    monkeypatch.setattr(_table, "LEAST_SECONDS", 0)
    monkeypatch.setattr(_table, "CLIPS", 1)


def text_of(row: Mapping[str, Any]) -> str:
    return "\n".join(describe_row(row))


def run_made(make: Callable[[Scene, ExitStack], Row], scene: Scene) -> dict[str, Any]:
    with ExitStack() as stack:
        return run_row(make(scene, stack), scene.rounds)


def offering(**kinds: Sequence[object]) -> Peers:
    """Peers that offer these, as modules do."""
    return Peers({"made": SimpleNamespace(**kinds)})


def names_wrong(row: Mapping[str, Any]) -> list[str]:
    return [each["name"] for each in row["contenders"] if each["num_wrong"]]


# --- the table ------------------------------------------------------------------------------------


def write_raw(path: str, rgb: Pixels) -> None:
    np.save(path, rgb)


def read_raw(path: str) -> Pixels:
    return np.load(path)


RAW = FileFormat("raw", ".npy", True, write_raw, read_raw)


def measure_table(scene: Scene, *formats: FileFormat, ours: bool = False) -> FormatTable:
    """Measure some formats, or all of ours."""
    made = list_formats(replace(scene, peers=offering(FORMATS=formats)))
    chosen = {name: make for name, make in made.items() if ours or not name.startswith("framefeed")}
    return measure_formats_of(chosen, scene, lambda name: None)


def test_every_format_of_ours_is_in_the_table_and_exact_where_it_says_so(scene: Scene) -> None:
    table = measure_table(scene, ours=True)
    assert [entry["title"] for entry in table.entries if entry["wrong"]] == []
    names = {f"framefeed {codec}, {form}" for codec in our_codecs() for form in ("planes", "output")}
    measured = {entry["title"].replace("16x24", "output") for entry in table.entries}
    assert measured | table.failed.keys() == names | {"framefeed lz4, RGB"}
    assert {codec.partition(":")[0] for codec in our_codecs()} == set(known_codecs())
    assert list(scene.work.iterdir()) == []


def test_a_format_of_theirs_is_measured_like_ours(scene: Scene) -> None:
    raw = measure_table(scene, RAW).entries[0]
    assert raw["bytes_a_frame"] == 48 * 64 * 3 + 128
    assert raw["mb_whole"] == pytest.approx(raw["bytes_a_frame"] * 40 / 1e6, abs=0.05)
    assert {"warm", "cold"} - raw["read_fps"].keys() <= ({"cold"} if raw["not_cold"] else set())


def losing_a_bit(path: str) -> Pixels:
    frame = read_raw(path)
    frame[0, 0, 0] ^= 1
    return frame


def losing_a_row(path: str) -> Pixels:
    return read_raw(path)[:-1]


@pytest.mark.parametrize("read", [losing_a_bit, losing_a_row])
def test_a_format_that_says_it_is_exact_and_is_not_is_wrong(scene: Scene, read: object) -> None:
    table = measure_table(scene, RAW, replace(RAW, name="liar", read=read))
    assert [bool(entry["wrong"]) for entry in table.entries] == [False, True]
    facts = {"note": "", "workers": 1, "size": "16x24", "not_measured": {}, "disk": "no", "entries": table.entries,
             "advice": [], "crops": None}  # fmt: skip
    lines = describe_table({"title": "", "facts": facts})
    assert [line for line in lines if line.startswith("  WRONG: liar: 5 of the frames as rgb")]
    assert [line.split()[:2] for line in lines if line.startswith("  liar")] == [["liar", "WRONG"]]


def test_a_lossy_format_may_differ_but_not_leave_frames_out(scene: Scene) -> None:
    forms = [replace(RAW, name=read.__name__, read=read, is_exact=False) for read in (losing_a_bit, losing_a_row)]
    table = measure_table(scene, *forms)
    assert [bool(entry["wrong"]) for entry in table.entries] == [False, True]
    assert table.entries[0]["psnr_db"]["worst"] > 60
    assert table.first_worst is not None


def refusing(path: str, rgb: Pixels) -> None:
    raise RuntimeError("not today")


def test_a_format_that_raises_is_named_and_left_out(scene: Scene) -> None:
    table = measure_table(scene, replace(RAW, name="failing", write=refusing), RAW)
    assert table.failed == {"failing": "RuntimeError: not today"}
    assert [entry["name"] for entry in table.entries] == ["raw"]
    assert list(scene.work.iterdir()) == []


class NextFrames(CachedSample):
    """A cache that gives the frame behind the one that was asked for."""

    def read(self, numbers: Sequence[int], gives: Gives = "rgb") -> Iterator[tuple[int, Pixels]]:
        for number in numbers:
            for _, frame in super().read([(number + 1) % 5], gives):
                yield number, frame


@pytest.mark.parametrize("stores", ["planes", "rgb", "small"])
def test_a_cache_that_gives_another_frame_is_wrong_in_the_table(scene: Scene, stores: Stores) -> None:
    makes = {"x": lambda folder: NextFrames("lz4", stores, scene.sample, folder)}
    table = measure_formats_of(makes, scene, lambda name: None)
    assert [line.split(" ", 1)[0] for line in table.entries[0]["wrong"]] == ["5"] * (2 if stores == "planes" else 1)


# --- the paired rows ------------------------------------------------------------------------------


def test_decoding_and_peers_are_compared_on_the_same_frames(scene: Scene) -> None:
    row = run_made(original_row, scene)
    readers = scene.peers.list_all("ORIGINALS")
    assert names_wrong(row) == []
    assert [each["key"] for each in row["comparisons"]] == ["decoder", "fastest peer"][: 1 + bool(readers)]
    assert {reader.name for reader in readers} < {each["name"] for each in row["contenders"]}


def open_rightly(video: BenchVideo) -> Callable[[Sequence[int]], object]:
    def read(ordinals: Sequence[int]) -> object:
        pictures = PyAVDecoder().iter_rgb(video.source, video.index, ordinals, OutputSpec(dimension_order="NHWC"))
        return np.stack([picture for _, picture in pictures])

    return read


def test_a_peer_that_gives_another_frame_is_caught(scene: Scene) -> None:
    def open_wrongly(video: BenchVideo) -> object:
        read = open_rightly(video)
        return lambda ordinals: read([(ordinal + 9) % len(video) for ordinal in ordinals])

    readers = [Method("right", "NHWC", open_rightly), Method("late", "NHWC", open_wrongly)]
    row = run_made(original_row, replace(scene, peers=offering(ORIGINALS=readers)))
    assert names_wrong(row) == ["late"]
    assert {each["figures"]["CPU"]["against"] for each in row["comparisons"]} == {"framefeed, decoded", "right"}
    assert "other frames" in text_of(row)


def test_a_cache_that_has_nothing_is_not_timed(scene: Scene) -> None:
    cached = CachedSample("lz4", "planes", scene.sample, scene.work / "cache")
    with pytest.raises(UsageError, match="the cache had 0 of"):
        list(cached.read([0, 1]))
    cached.close()


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_command_runs_every_row_with_every_format(
    video: BenchVideo, tmp_path: Path, capsys: pytest.CaptureFixture[str], installed: Peers
) -> None:
    out = tmp_path / "out" / "cache.json"
    words = ["bench", "cache", str(video.path), "--frames", "3", "--pairs", "1", "--size", "16x24", "--workers", "1"]
    assert main([*words, "--disk", str(tmp_path), "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    title = next(line for line in lines if line.startswith("clip.mp4: 40 frames"))
    assert lines[1] == "the exact codec that reads fastest, with 1 threads"
    assert lines.index(title) < lines.index(next(line for line in lines if line.startswith("  cold: pages dropped")))
    assert f"  crops: {out.with_suffix('.crops.png')}" in lines
    assert "WRONG" not in printed
    assert str(video.path.parent) not in out.read_text()
    report = json.loads(out.read_text())
    assert [row["key"] for row in report["rows"]] == list(CACHE.rows)
    assert report["skipped"] == {}
    facts = report["rows"][0]["facts"]
    assert {row["form"] for row in facts["advice"]} == {"output", "planes"}
    names = [entry["name"] for entry in facts["entries"] if entry["group"] == "theirs"]
    assert names == [form.name for form in installed.list_all("FORMATS")]
    if "torch" in installed.modules:
        rates = [entry["read_fps"] for entry in facts["entries"] if entry["group"] == "theirs"]
        assert all({"DataLoader 0", "DataLoader 1"} <= of.keys() for of in rates)
    if any(not entry["is_exact"] for entry in facts["entries"]):
        with Image.open(out.with_suffix(".crops.png")) as sheet:
            assert sheet.width > 300
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_without_a_video_rows_are_skipped_with_the_reason(tmp_path: Path) -> None:
    report = run_suite(CACHE, BenchOptions((tmp_path,), tmp_path / "work", rows=("table", "original")))
    assert report["rows"] == []
    assert report["skipped"].keys() == {"table", "original"}
    assert "not run: table" in "\n".join(describe_closing(report))


def test_a_picture_is_no_video(video: BenchVideo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "some.mp4"
    Image.new("RGB", (64, 48)).save(picture, "jpeg")
    assert main(["bench", "cache", str(picture)]) == 1
    assert capsys.readouterr().err == f"framefeed: {picture}: expected a video, got a picture\n"
    refuse_pictures([picture, video.path])
    assert video_of([picture, video.path], tmp_path, Rounds()).path == video.path


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_printed_to_a_terminal_alone(
    video: BenchVideo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "cache", str(video.path), "--frames=3", "--pairs=1", "--rows=original", "--workers=1"]
    assert main(words) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "framefeed, decoded" in printed.out
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert main(words) == 0
    assert f"cache, row 1 of 1, original: {CACHE.rows['original']}" in terminal.getvalue()


def test_unknown_rows_and_folders_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match=r"rows: expected some of .*original, table.*got nothing"):
        run_suite(CACHE, BenchOptions(rows=("nothing",)))
    assert main(["bench", "cache", "--rows", "gop12-2"]) == 1
    assert "original" in capsys.readouterr().err
    assert main(["bench", "cache", "--disk", str(tmp_path / "none")]) == 1
    assert "no such folder" in capsys.readouterr().err

"""``bench all`` as a whole: within its time, whatever a row does; nothing is left; what decides nothing is left out."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framefeed.bench import _isolated
from framefeed.bench._isolated import Ended, Program
from framefeed.bench.advice import AdviceOptions, _session, describe_settings, list_settings, measure_all, recommend
from framefeed.bench.advice._session import PEERS, PROGRAMS, choose_short_side
from framefeed.errors import MissingMedia, UsageError
from framefeed.testing import ClipSpec
from tests.bench import advice_programs as programs
from tests.bench.advising import HOUR, ROWS, measure_here, rewrite
from tests.bench.test_isolated import ends
from tests.conftest import CHECKOUT
from tests.corpus import clip_file

KEYS = {
    "bench", "machine", "versions", "settings", "media", "decode", "storage", "cache", "proxies", "runs", "peers",
    "failed", "left_out", "notes", "interrupted", "seconds",
}  # fmt: skip
SETTINGS = {
    "media", "is_catalog", "rule", "has_random_draws", "size", "frames_per_clip", "clips_per_video", "batch_size",
    "step_seconds", "is_step_given", "epochs", "seconds", "transform", "short_side", "cores", "disk", "space_bytes",
    "root", "proxies_folder", "holds_lock", "transform_seconds", "is_space_given",
}  # fmt: skip


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two videos: do not change them."""
    folder = tmp_path_factory.mktemp("session") / "videos"
    folder.mkdir()
    for gop in (5, 70):
        spec = ClipSpec(70, height=240, width=320, gop=gop, b_frames=0, codec_options={"preset": "ultrafast"})
        shutil.copy(clip_file(f"advice_gop_{gop}.mp4", spec), folder)
    return folder


@pytest.fixture(scope="module")
def measured(videos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All rows, of these videos."""
    return measure_here(videos, tmp_path_factory.mktemp("measured"))


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Path]]:
    """Folders for all that is written: in the end, nothing is in them."""
    made = {name: tmp_path / "places" / name for name in ("work", "disk", "temporary")}
    for folder in made.values():
        folder.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(made["temporary"]))
    monkeypatch.setenv("TMPDIR", str(made["temporary"]))
    monkeypatch.setenv("PYTHONPATH", f"{CHECKOUT / 'src'}:{CHECKOUT}")
    yield made
    assert [str(path) for folder in made.values() for path in folder.rglob("*")] == []


def options_of(media: Path, places: Mapping[str, Path], **changes: Any) -> AdviceOptions:
    given = {"size": (96, 96), "disk": str(places["disk"]), "work": places["work"], "seconds": HOUR, "workers": 2}
    return AdviceOptions(media=(str(media),), **{**given, **changes})


def value_of(row: str, measured: Mapping[str, Any]) -> Any:
    return {"runs": measured["runs"]} if row == "loader" else measured[row]


class Told:
    """Runs rows that say what was measured before, after so many seconds of a clock that stands else still."""

    def __init__(self, measured: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.measured = measured
        self.now = 1000.0
        self.rows: list[str] = []
        self.given: dict[str, dict[str, Any]] = {}
        self.ways: dict[str, Any] = {}  # row -> Ended, or an exception
        self.needed = lambda row, seconds, limit: 0.0
        monkeypatch.setattr(_session, "run_isolated", self.run)
        monkeypatch.setattr(_session, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def run(self, program: Program, given: dict[str, Any], folder: Path, *, seconds: float) -> Ended:
        assert folder.is_dir()
        assert seconds > 0
        row = next((name for name, (each, _) in PROGRAMS.items() if each is program), program.__name__)
        row = f"peer {given['peer']}" if "peer" in given else row
        self.rows.append(row)
        self.given[row] = rewrite(given)
        self.now += self.needed(row, given["row_seconds"], seconds)
        way = self.ways.get(row)
        if isinstance(way, BaseException):
            raise way
        value = rewrite(value_of(row, self.measured)) if row in PROGRAMS else None
        if row == "loader" and not given["cached_clips"]:
            value = {"runs": [run for run in value["runs"] if run["sources"] != "cache"]}
        return way or Ended(value)


@pytest.fixture
def told(measured: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(measured, monkeypatch)


# --- the result -----------------------------------------------------------------------------------


def test_the_result_has_all_keys(measured: dict[str, Any]) -> None:
    assert measured.keys() == KEYS
    assert measured["settings"].keys() == SETTINGS
    assert measured["bench"] == "all"
    assert measured["failed"] == measured["left_out"] == {}
    assert all(measured[row] for row in ("media", "decode", "storage", "cache", "proxies", "runs"))
    assert recommend(measured).setting in {each.name for each in list_settings(measured)}


def test_rows_that_are_not_measured_have_their_keys_too(told: Told, videos: Path, places: dict[str, Path]) -> None:
    told.ways["media"] = KeyboardInterrupt()
    result = measure_all(options_of(videos, places))
    assert result.keys() == KEYS
    assert result["interrupted"]
    assert list_settings(result) == []
    assert describe_settings([], result)
    with pytest.raises(UsageError, match="no setting was measured"):
        recommend(result)


@pytest.mark.test_all
@pytest.mark.slow
def test_all_is_measured_in_processes_of_its_own(
    videos: Path, places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_session, "_LATE", HOUR)
    monkeypatch.setattr(_session, "_LAST", HOUR)
    seen: list[Any] = []
    given = options_of(videos, places, seconds=3.0, rates=(("10", 4),), start="0")
    result = measure_all(given, lambda row, found: seen.append((row, rewrite(found))))
    assert result["failed"] == {}
    assert [row for row, _ in seen] == [*ROWS]
    assert {row: found for row, found in seen if row != "loader"} == {
        row: rewrite(result[row]) for row in ROWS if row != "loader"
    }
    assert rewrite(result).keys() == KEYS
    assert str(recommend(result)).startswith("Advice: ")


# --- time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [None, 10.0])
def test_all_the_time_is_given(step: float | None, told: Told, videos: Path, places: dict[str, Path]) -> None:
    """Also that of rows that are left out."""
    told.needed = lambda row, seconds, limit: seconds
    result = measure_all(options_of(videos, places, seconds=300.0, step_seconds=step))
    assert len(told.rows) == (6 if step is None else 4)
    assert result["seconds"] == pytest.approx(300)
    assert all(given["row_seconds"] > 0.9 * 300 * _session.SHARES[row] for row, given in told.given.items())


@pytest.mark.parametrize("seconds", [3.0, 30.0, 300.0])
@pytest.mark.parametrize("first", ["decode", "storage", "loader"])
def test_it_ends_in_time_if_programs_hang(
    first: str, seconds: float, told: Told, videos: Path, places: dict[str, Path]
) -> None:
    """All from one row on: each is ended at its limit, which takes longer where it is deaf, and leaves processes."""
    ending = _isolated._CLEANING_SECONDS + _isolated._GRACE_SECONDS + 2 * _isolated._KILL_SECONDS
    hanging = ROWS[ROWS.index(first) :]
    told.needed = lambda row, given, limit: limit + ending if row in hanging or "peer" in row else given
    for row in hanging:
        told.ways[row] = Ended(rewrite(value_of(row, told.measured)), f"it did not end within {seconds} s")
    result = measure_all(options_of(videos, places, seconds=seconds, peers=True))
    assert result["seconds"] <= seconds + 30
    assert result["media"]
    assert result["failed"].keys() >= {first}
    assert "no time was left: raise --minutes" not in result["failed"].get(first, "")
    assert str(recommend(result)).startswith("Advice: ")


def test_a_row_that_is_slow_takes_the_time_of_the_others(told: Told, videos: Path, places: dict[str, Path]) -> None:
    told.needed = lambda row, seconds, limit: limit if row == "cache" else seconds
    result = measure_all(options_of(videos, places, seconds=30.0))
    assert result["seconds"] == pytest.approx(30, abs=15)
    assert told.rows == [*ROWS]


# --- rows that end in other ways ------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS)
def test_a_row_that_fails_leaves_the_others(row: str, told: Told, videos: Path, places: dict[str, Path]) -> None:
    told.ways[row] = Ended(None, "it crashed: signal SIGSEGV", ("it printed 1 line: oh",))
    if row in ("media", "decode"):
        with pytest.raises(MissingMedia, match=r"^it crashed: signal SIGSEGV$"):
            measure_all(options_of(videos, places))
        return
    result = measure_all(options_of(videos, places))
    assert result["failed"] == {row: "it crashed: signal SIGSEGV"}
    assert result["notes"] == [f"{row}: it printed 1 line: oh"]
    assert not (result["runs"] if row == "loader" else result[row])
    assert told.rows == [*ROWS]
    for other in set(ROWS) - {row, "loader"}:
        assert result[other] == told.measured[other]
    assert told.given["loader"]["cached_clips"] == (0 if row == "cache" else told.measured["cache"]["clips"])
    assert str(recommend(result)).startswith("Advice: ")


@pytest.mark.parametrize("row", [*ROWS, "peer decord2"])
def test_what_was_measured_before_ctrl_c_counts(row: str, told: Told, videos: Path, places: dict[str, Path]) -> None:
    told.ways[row] = KeyboardInterrupt()
    result = measure_all(options_of(videos, places, peers=True))
    assert result["interrupted"] is True
    order = [*ROWS, *(f"peer {name}" for name in PEERS)]
    done = order[: order.index(row)]
    assert told.rows == [*done, row]
    for other in ROWS[:-1]:
        assert bool(result[other]) == (other in done)
    assert bool(result["runs"]) == ("loader" in done)
    if "decode" in done:
        advice = str(recommend(result))
        assert "Interrupted: by what was measured until then." in advice
    else:
        assert list_settings(result) == []


def test_what_a_row_reported_before_ctrl_c_counts(
    measured: dict[str, Any], videos: Path, places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(measured, monkeypatch)
    media = write_measured(tmp_path, measured)
    real = {"loader": (programs.interrupt_parent, "interrupting")}

    def run(program: Program, given: dict[str, Any], folder: Path, *, seconds: float) -> Ended:
        is_real = program is programs.interrupt_parent
        return (_isolated.run_isolated if is_real else told.run)(program, given, folder, seconds=seconds)

    monkeypatch.setattr(_session, "PROGRAMS", {**PROGRAMS, **real})
    monkeypatch.setattr(_session, "run_isolated", run)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = measure_all(options_of(media, places))
    finally:
        signal.signal(signal.SIGINT, before)
    assert result["interrupted"] is True
    assert result["runs"] == measured["runs"]


def write_measured(folder: Path, measured: Mapping[str, Any]) -> Path:
    """A folder of media, with what rows are to say of it."""
    media = folder / "media"
    media.mkdir()
    (media / programs.MEASURED).write_text(json.dumps({**measured, "loader": measured["runs"]}))
    return media


def test_rows_that_hang_crash_print_and_leave_processes(
    measured: dict[str, Any], places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    media = write_measured(tmp_path, measured)

    class LatePopen(subprocess.Popen[bytes]):
        """The limit of a row has come when the program that hangs says that it does."""

        is_late = False

        def wait(self, timeout: float | None = None) -> int:
            while self.poll() is None and not self.is_late:
                time.sleep(0.01)
                self.is_late = (media / f"hangs_{self.pid}").exists()
            return super().wait(timeout and 0.1)

    monkeypatch.setattr(_isolated, "Popen", LatePopen)
    monkeypatch.setattr(_isolated, "_GRACE_SECONDS", 0.0)
    rows = {
        "media": programs.say_media,
        "decode": programs.say_decode,
        "storage": programs.print_storage,
        "proxies": programs.raise_after_report,
        "loader": programs.leave_daemon,
        "cache": programs.hang_after_report,
    }
    monkeypatch.setattr(_session, "PROGRAMS", {row: (program, row) for row, program in rows.items()})
    monkeypatch.setattr(_session, "SHARES", {row: _session.SHARES[row] for row in rows})
    result = measure_all(options_of(media, places))
    failed = result["failed"]
    assert failed.keys() == {"cache", "proxies"}
    assert failed["proxies"] == "the third file is odd"
    assert failed["cache"].endswith(" s and was killed")
    assert result["notes"] == [
        "storage: it printed 1 line: this is no news",
        "loader: it left 1 process running, which was ended",
    ]
    for row in ("media", "decode", "storage", "cache", "proxies", "runs"):
        assert result[row] == measured[row]
    assert ends(int((media / "daemon").read_text()))
    assert str(recommend(result)).startswith("Advice: ")


# --- what is left out -----------------------------------------------------------------------------


def test_what_a_given_step_does_not_wait_for_is_left_out(told: Told, videos: Path, places: dict[str, Path]) -> None:
    result = measure_all(options_of(videos, places, step_seconds=60.0))
    assert result["left_out"] == dict.fromkeys(
        ("cache", "proxies"), "not needed: the files as they are keep a step of 1 min busy"
    )
    assert told.rows == ["media", "decode", "storage", "loader"]
    advice = recommend(result)
    assert (advice.cache, advice.proxies) == (None, None)


def test_a_step_that_waits_or_is_not_given_leaves_nothing_out(
    told: Told, videos: Path, places: dict[str, Path]
) -> None:
    seconds = told.measured["decode"]["clip_cpu_seconds"]["median"]
    for step in (None, 16 * seconds / 2):  # on two cores, just as long as a batch of 16 takes
        assert measure_all(options_of(videos, places, step_seconds=step))["left_out"] == {}
    step = {"step_seconds": 60.0, "transform": "numpy:copy"}
    told.ways["measure_transform"] = Ended({"holds_lock": False, "seconds": 10.0})
    assert "cache" not in measure_all(options_of(videos, places, **step))["left_out"]


def test_proxies_are_left_out_where_no_file_is_larger(told: Told, videos: Path, places: dict[str, Path]) -> None:
    small = {**told.measured["media"], "larger": 0}
    told.ways["media"] = Ended(small)
    result = measure_all(options_of(videos, places))
    assert result["left_out"] == {"proxies": "no file is larger than 110 pixels"}
    assert "proxies" not in told.rows
    assert "no file is larger than 110 pixels" in str(recommend(result))


@pytest.mark.parametrize(
    ("rule", "frames", "what"),
    [({}, 140, "every frame"), ({"rates": (("10", 4),), "start": "0"}, 8, "the frames of all clips")],
)
def test_a_cache_is_left_out_where_no_room_is(
    rule: dict[str, Any], frames: int, what: str, told: Told, videos: Path, places: dict[str, Path]
) -> None:
    if rule:
        media = {**told.measured["media"], "has_random_draws": False, "frames_per_clip": 4}
        told.ways["media"] = Ended(media)
    least = round(0.3 * frames * 3 * 96 * 96)
    result = measure_all(options_of(videos, places, **rule, space_bytes=least - 1))
    assert result["left_out"].keys() == {"cache"}
    assert result["left_out"]["cache"].startswith(f"no room for {what}: ")
    assert "cache" not in told.rows
    assert told.given["loader"]["cached_clips"] == 0
    assert recommend(result).cache is None
    assert measure_all(options_of(videos, places, **rule, space_bytes=least + 1))["left_out"] == {}


def test_a_disk_that_cannot_be_written_leaves_the_cache_out(
    told: Told, videos: Path, places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(prefix: str, dir: Any) -> Any:
        if str(dir) == str(places["disk"]):
            raise OSError(30, "Read-only file system")
        return tempfile.TemporaryDirectory(prefix=prefix, dir=dir)

    monkeypatch.setattr(_session, "TemporaryDirectory", refuse)
    result = measure_all(options_of(videos, places))
    why = f"{places['disk']} cannot be written: Read-only file system"
    assert result["left_out"] == dict.fromkeys(("cache", "proxies"), why)
    assert told.rows == [row for row in ROWS if row not in result["left_out"]]
    assert "Read-only file system" in str(recommend(result))


def test_peers_are_measured_if_asked_for(told: Told, videos: Path, places: dict[str, Path]) -> None:
    told.ways |= {f"peer {name}": Ended(None, f"No module named '{name}'") for name in PEERS}
    told.ways["peer opencv"] = Ended({"row": {"key": "own"}, "versions": {"opencv": "5"}})
    told.ways["peer decord2"] = Ended(None, "AttributeError: no such thing")
    result = measure_all(options_of(videos, places, peers=True))
    assert (result["peers"], result["versions"]) == ([{"key": "own"}], {"opencv": "5"})
    assert result["failed"] == {"peer decord2": "AttributeError: no such thing"}
    assert result["left_out"] == {f"peer {name}": f"No module named '{name}'" for name in ("torchcodec", "spdl")}
    told.ways["media"] = Ended({**told.measured["media"], "kind": "image"})
    told.rows.clear()
    result = measure_all(options_of(videos, places, peers=True))
    assert set(result["left_out"].values()) == {"only videos are compared"}
    assert told.rows == [*ROWS]


@pytest.mark.parametrize("holds_lock", [False, True])
def test_processes_are_measured_if_a_transform_holds_the_lock(
    holds_lock: bool, told: Told, videos: Path, places: dict[str, Path]
) -> None:
    told.ways["measure_transform"] = Ended({"holds_lock": holds_lock, "seconds": 0.01})
    result = measure_all(options_of(videos, places, transform="numpy:copy"))
    assert told.given["loader"]["holds_lock"] == holds_lock
    assert told.given["measure_transform"]["frames_per_clip"] == 16
    assert ("processes" in result["left_out"]) != holds_lock
    told.ways["measure_transform"] = Ended(None, "ValueError: too small")
    with pytest.raises(UsageError, match=r"^--transform numpy:copy: ValueError: too small$"):
        measure_all(options_of(videos, places, transform="numpy:copy"))


def test_rows_are_given_what_was_asked_for(
    told: Told, places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(places["disk"].parent)
    asked = {"rates": (("1/2", 4),), "start": "3/2", "clips_per_video": 3, "batch_size": 5, "epochs": 7, "workers": 3}
    measure_all(options_of(Path("disk"), places, **asked, space_bytes=10**9))
    for given in told.given.values():
        assert given["media"] == [str(places["disk"])]
        assert (given["rates"], given["start"]) == ([["1/2", 4]], "3/2")
        assert (given["clips_per_video"], given["batch_size"], given["epochs"], given["cores"]) == (3, 5, 7, 3)
        assert (given["size"], given["space_bytes"], given["short_side"]) == ([96, 96], 10**9, 110)
        assert given["folder"] == os.getcwd()


@pytest.mark.parametrize(
    ("size", "side"), [((224, 224), 256), ((96, 160), 110), ((15, 99), 18), ((8, 8), 16), ((4000, 5000), 4096)]
)
def test_proxies_are_a_little_larger_than_what_is_trained_on(size: tuple[int, int], side: int) -> None:
    assert choose_short_side(size) == side
    assert side % 2 == 0

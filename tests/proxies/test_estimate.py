"""What an estimate says: by kind of file, all together, as a table and in a sentence."""

from __future__ import annotations

import os
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed._units import UNKNOWN
from framefeed.proxies import KindEstimate, ProxyEstimate, _estimate
from framefeed.proxies._estimate import FileSample, sample_kind
from framefeed.proxies._kinds import Original
from framefeed.proxies._making import ProxySettings
from framefeed.testing import ClipSpec, write_clip
from tests.proxies.originals import SIDE, fill, make, original, rows_of, scan


def estimate(catalog: ff.Catalog, **options: Any) -> ProxyEstimate:
    return ff.estimate_proxies(catalog, **{"short_side": SIDE, "workers": 0, "progress": False, **options})


def test_numbers_add_up_to_what_is_made(tmp_path: Path) -> None:
    folder = fill(tmp_path / "in", ["plain.mp4", "variable.mp4", "still.jpg", "alpha.png"])
    write_clip(folder / "small.mp4", ClipSpec(num_frames=4))
    catalog = scan(folder)
    found = estimate(catalog)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert found.num_files == 5
    assert found.num_proxies == 3
    assert found.bytes == sum(sizes.values())
    assert found.original_bytes == sum(sizes[name] for name in ("plain.mp4", "variable.mp4", "still.jpg"))
    kinds = {each.kind: each.num_files for each in found.kinds}
    assert kinds == {"h264 240p GOP 16": 2, "mjpeg 0.25 MP": 1}
    assert found.reasons == {
        "it has an alpha channel": (1, sizes["alpha.png"]),
        f"its pictures are not larger than {SIDE} pixels": (1, sizes["small.mp4"]),
    }
    assert (found.short_side, found.gop, found.workers) == (SIDE, 8, 1)
    low, high = found.gain_interval
    assert low <= found.gain <= high
    # All files of both kinds were sampled whole.
    make(catalog, tmp_path / "out")
    made = [row["proxy_bytes"] for row in rows_of(tmp_path / "out").values() if row["proxy_bytes"]]
    assert found.proxy_bytes == pytest.approx(sum(made), abs=3)


def test_nothing_is_kept_of_an_estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill(tmp_path / "in", ["plain.mp4", "still.jpg"])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", os.fspath(scratch))
    calls: list[tuple[int, int]] = []
    estimate(scan(folder), progress=lambda *numbers: calls.append(numbers))
    assert list(scratch.iterdir()) == []
    assert {path.name for path in folder.iterdir()} == {"plain.mp4", "still.jpg"}
    assert calls[-1] == (2, 2)


def test_the_gain_is_that_of_times_which_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = iter([FileSample(4.0, 1.0, 0.5, 10.0, 100), FileSample(8.0, 3.0, 1.0, 20.0, 300)])
    monkeypatch.setattr(_estimate, "_sample_file", lambda *_: next(samples))
    found = sample_kind(None, [fake(0, 100), fake(1, 300)], settings=ProxySettings())  # type: ignore[arg-type]
    assert found.gain == pytest.approx(12 / 4)
    assert found.proxy_bytes == round(400 * (0.5 * 100 + 1.0 * 300) / 400)
    assert found.seconds == pytest.approx(30)
    assert found.original_seconds == pytest.approx(6)
    assert found.gain_low < found.gain < found.gain_high
    assert found.has_proxies


def fake(number: int, nbytes: int = 100, frames: int = 10) -> Original:
    return Original(number, f"{number}.mp4", f"{number:032}", nbytes, frames, 100, 100, "kind", False, {})


@pytest.mark.parametrize(("gain", "ratio", "reason"), [
    (1.5, 1.0, None),
    (1.49, 1.0, "proxies of kind would be 1.49 times as fast, less than 1.5"),
    (9.0, 1.1, None),
    (9.0, 1.5, "proxies of kind would have 1.50 times the bytes"),
])  # fmt: skip
def test_a_kind_stays_by_its_gain_or_bytes(
    monkeypatch: pytest.MonkeyPatch, gain: float, ratio: float, reason: str | None
) -> None:
    monkeypatch.setattr(_estimate, "_sample_file", lambda *_: FileSample(gain, 1.0, ratio, 1.0, 100))
    found = sample_kind(None, [fake(0)], settings=ProxySettings())  # type: ignore[arg-type]
    assert found.reason == reason
    assert found.has_proxies == (reason is None)


def test_some_files_of_a_large_kind_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def sample(catalog: Any, original: Original, *_: Any) -> FileSample:
        seen.append(original.row)
        return FileSample(4.0, 1.0, 0.5, 2.0, original.bytes)

    monkeypatch.setattr(_estimate, "_sample_file", sample)
    originals = [fake(number, 100 + number) for number in range(100)]
    found = sample_kind(None, originals, settings=ProxySettings())  # type: ignore[arg-type]
    assert len(seen) == _estimate.SAMPLED_FILES
    # One of each quarter, by bytes of a frame.
    assert [row // 25 for row in seen] == [0, 1, 2, 3]
    assert found.num_files == 100
    assert found.seconds == pytest.approx(2.0 * 100)
    assert found.gain_high > 4.0 > found.gain_low
    again = list(seen)
    seen.clear()
    sample_kind(None, originals, settings=ProxySettings())  # type: ignore[arg-type]
    assert seen == again


def test_an_interval_is_wider_where_files_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    widths = []
    for gains in ([4.0, 4.0, 4.0, 4.0], [2.0, 8.0, 3.0, 6.0]):
        left = iter(gains)
        monkeypatch.setattr(_estimate, "_sample_file", lambda *_, left=left: FileSample(next(left), 1.0, 0.5, 1.0, 1))
        found = sample_kind(None, [fake(number) for number in range(50)], settings=ProxySettings())  # type: ignore[arg-type]
        widths.append(found.gain_high / found.gain_low)
    assert widths[0] < widths[1]


KINDS = (
    KindEstimate("h264 720p GOP 256", 10, 1_000_000, None, 4.0, 3.0, 5.0, 250_000, 60.0, 0.2, 10, 1_000_000),
    KindEstimate("mjpeg 12 MP", 10, 3_000_000, None, 2.0, 2.0, 2.0, 750_000, 20.0, 0.1, 10, 3_000_000),
    KindEstimate("h264 240p GOP 8", 5, 500_000, "proxies would be 1.1 times as fast", 1.1, 1.0, 1.2, 1, 1.0, 0.1, 0, 0),
    KindEstimate("vp9 144p GOP 8", 1, 1_000, "none of 1 file could be sampled", nan, nan, nan, 0, 0.0, nan, 0, 0),
)


def test_kinds_are_joined_by_their_files() -> None:
    found = ProxyEstimate(KINDS, {"it has an alpha channel": (2, 7_000)}, 256, 8, 4)
    assert (found.num_files, found.num_proxies) == (28, 20)
    assert (found.bytes, found.original_bytes, found.proxy_bytes) == (4_508_000, 4_000_000, 1_000_000)
    assert found.seconds == pytest.approx(20.0)
    assert found.gain == pytest.approx((10 * 0.2 + 10 * 0.1) / (10 * 0.2 / 4 + 10 * 0.1 / 2))
    assert list(found.gain_interval) == pytest.approx([3.0 / (2.0 / 3 + 0.5), 3.0 / (2.0 / 5 + 0.5)])


def test_an_estimate_is_a_table_and_a_sentence() -> None:
    found = ProxyEstimate(KINDS, {"it has an alpha channel": (2, 7_000)}, 256, 8, 4)
    *table, empty, answer = str(found).splitlines()
    assert empty == ""
    assert table[0].split() == ["kind", "files", "bytes", "proxies", "gain", "to", "write"]
    assert [line.split("  ")[0] for line in table[1:]] == [*(each.kind for each in KINDS), "others"]
    assert "4.0x (3.0 to 5.0)" in table[1]
    assert "stay" in table[3]
    assert UNKNOWN in table[4]
    assert answer == found.answer()
    assert answer.startswith(
        "Yes: proxies of 20 files at 256 pixels give clips 3.0 times as fast (2.6 to 3.3) from 25 % "
    )
    # 10 * 0.2 / 4 + 10 * 0.1 / 2 + 5 * 0.1 s in place of 10 * 0.2 + 10 * 0.1 + 5 * 0.1 s.
    assert answer.endswith("with 4 threads; 8 of 28 files stay as they are, so clips of all are 2.3 times as fast.")


def test_an_estimate_may_answer_no() -> None:
    assert ProxyEstimate((), {}, 256, 8, 1).answer() == "No file can be read, so there is nothing to shrink."
    none = ProxyEstimate(KINDS[2:], {}, 256, 8, 1)
    assert none.answer() == "No: none of 6 files would gain enough by proxies of 256 pixels."
    assert (none.gain, none.gain_interval, none.proxy_bytes, none.seconds) == (1.0, (1.0, 1.0), 0, 0.0)
    assert "one file" in ProxyEstimate((replace(KINDS[0], num_files=1, num_proxies=1),), {}, 256, 8, 1).answer()


def test_a_file_that_cannot_be_read_any_more_is_no_end_of_an_estimate(tmp_path: Path) -> None:
    folder = fill(tmp_path / "in", ["plain.mp4", "still.jpg"])
    catalog = scan(folder)
    (folder / "plain.mp4").unlink()
    found = estimate(catalog)
    (failed,) = (each for each in found.kinds if not each.has_proxies)
    assert str(failed.reason).startswith("cannot be read: none of 1 file could be sampled: ")
    assert "plain.mp4: no such file" in str(failed.reason)
    assert np.isnan(failed.gain)
    assert found.num_proxies == 1
    assert str(found)


def test_any_number_of_workers_samples_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill(tmp_path / "in", ["plain.mp4", "still.jpg", "still.png"])
    monkeypatch.setattr(_estimate, "thread_time", lambda: 0.0)
    catalog = scan(folder)
    one, other = estimate(catalog, workers=1), estimate(catalog, workers=3)
    assert [replace(each, seconds=0.0) for each in one.kinds] == [replace(each, seconds=0.0) for each in other.kinds]


def test_clips_are_timed_of_originals_and_proxies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the clock again
    found = estimate(scan(original("plain.mp4")))
    (kind,) = found.kinds
    assert kind.gain > 0
    assert kind.original_seconds > 0
    assert kind.seconds > 0

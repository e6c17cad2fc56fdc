"""The rows of media in archives, made small; and that other frames are seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.archives import walks
from benchmarks.archives.clips import check_clips, choose_clips, load_clips, plan_epoch
from benchmarks.archives.media import PackedMedia, Sizes
from benchmarks.archives.scans import scan_row
from benchmarks.archives.suite import ROWS, make_suite
from benchmarks.archives.walks import WALKS
from framefeed.bench import OURS, BenchOptions, Rounds, run_row, run_suite

SIZES = Sizes(
    members=64, pictures=70, short=4, short_height=144, long=4, long_bytes=300_000, long_height=144, shards=2, frames=60
)

# WebDataset, where it is installed, leaves archives to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file .*[.]tar:ResourceWarning")


@pytest.mark.test_all
def test_all_rows_run_at_the_smallest_scale() -> None:
    report = run_suite(make_suite(SIZES), BenchOptions(rounds=Rounds(1)))
    assert not report["skipped"]
    rows = {row["key"]: row for row in report["rows"]}
    assert {key.partition(":")[0] for key in rows} == set(ROWS)
    assert not any(row["wrong"] for row in rows.values())
    assert not any(each["num_wrong"] for row in rows.values() for each in row["contenders"])
    comparisons = {key: {each["key"] for each in row["comparisons"]} for key, row in rows.items()}
    assert comparisons["walk"] == {"tarfile", "tarfile, samples"}
    assert comparisons["scan"] == comparisons["unpacked"] == {"files"}
    if "webdataset" in report["versions"]:
        assert comparisons["webdataset"] == comparisons["webdataset-long"] == {"exact", "approximate"}


@pytest.mark.slow
def test_other_frames_and_missing_clips_are_wrong(tmp_path: Path) -> None:
    packed = PackedMedia(tmp_path, SIZES, Rounds()).make_short()
    plan = plan_epoch(packed.shards)
    chosen = choose_clips(plan, 0)
    assert check_clips(packed, chosen, load_clips(plan, 0, 0)) == []
    later = {number: [*ordinals[:-1], ordinals[-2]] for number, ordinals in chosen.items()}
    assert len(check_clips(packed, later, load_clips(plan, 0, 0))) == SIZES.short
    some = list(load_clips(plan, 0, 0))[1:]
    assert check_clips(packed, chosen, iter(some)) == [f"{SIZES.short - 1} clips of {SIZES.short}"]


def test_a_walk_that_misses_members_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "walk", lambda path: walks.walk_by_tarfile(path) - 1)
    row = run_row(WALKS["walk:GNU"](PackedMedia(tmp_path, SIZES, Rounds())), Rounds(1))
    assert [each["wrong"] for each in row["contenders"] if each["name"] == OURS] == [["63 members of 64"]]
    assert row["comparisons"] == []


def test_packed_and_unpacked_pictures_are_the_same(tmp_path: Path) -> None:
    row = run_row(scan_row(PackedMedia(tmp_path, SIZES, Rounds())), Rounds(1))
    assert row["wrong"] == []
    assert not any(each["num_wrong"] for each in row["contenders"])

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.media import OwnStore
from benchmarks.sections import d
from benchmarks.sections.chart import draw_lengths
from framefeed.bench import BenchOptions, BenchVideo, Rounds, run_row
from framefeed.bench.baselines import Peers
from framefeed.testing import ClipSpec, write_clip


def test_clips_of_all_lengths_are_the_same_but_for_the_repetition() -> None:
    drawn = d.draw_clips(1200, {60: 1, 3000: 50}, 8)
    assert [[at % 1200 for at in clip] for clip in drawn[3000]] == drawn[60]
    assert max(clip[-1] for clip in drawn[3000]) > 1200
    assert all(clip[-1] + d.STRIDE <= 1200 for clip in drawn[60])


@pytest.mark.test_all
def test_a_route_runs_on_short_and_long_videos_and_its_frames_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(d, "STRIDE", 2)
    store = OwnStore((), tmp_path, Rounds(1))
    video = BenchVideo(write_clip(tmp_path / "v.mp4", ClipSpec(num_frames=50)))
    videos = d.make_videos(store, video, (2, 6), 4, tmp_path)
    assert [len(each.video) for each in videos.values()] == [50, 150]
    loops = (d.OWN_LOOPS[0], d.OWN_LOOPS[3], d.PEER_LOOPS[-1])
    peers = Peers({"torch": None}, {}, {"decord2": "No module named 'decord'"})
    row = d.clips_row("D:test", "clips", videos, loops, peers, tmp_path)
    result = run_row(row, Rounds(1, pilot=1))
    assert [each["num_wrong"] for each in result["contenders"]] == [0, 0, 0, 0]
    assert {each["key"] for each in result["comparisons"]} == {"length"}
    seconds, *_ = d.tabulate({"D:test": result}).values()
    lines = {line[0]: line for line in seconds.lines}
    assert len(lines[d.OURS]) == len(seconds.header)
    assert "No module named 'decord'" in lines["decord2"][-1]


def test_routes_that_need_a_gpu_say_so(tmp_path: Path) -> None:
    rows = d.make_section(2, (60,)).plan(BenchOptions(), Peers(), tmp_path, lambda what: None)
    assert list(rows) == ["D:test", "D:trailer", "D:VP9"]
    assert set(d.ON_GPU) < set(d.PUBLISHED)
    with ExitStack() as stack, pytest.raises(d.MissingMedia, match="MEDIA"):
        rows["D:trailer"](tmp_path, stack)


def test_a_route_whose_frames_were_wrong_has_no_line_in_the_picture() -> None:
    contenders = [
        {"name": f"{route}, {length} s", "rule": route, "num_wrong": number, "wall_seconds": [1.0 + length / 60]}
        for number, route in enumerate((d.OURS, "decord2"))
        for length in (60, 3000)
    ]
    facts = {"indexing_seconds": {"60": 1, "3000": 1}}
    row = {"key": "D:test", "title": "clips: 8", "contenders": contenders, "facts": facts}
    drawn = draw_lengths({"rows": [row], "machine": {"processor": "a", "cores": 2}})
    assert drawn.count("<polyline") == 1
    assert "decord2" not in drawn

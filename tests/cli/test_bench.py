from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.cli.running import Answer
from tests.corpus import clip_file

SMALL = ["--rows", "own,original", "--pairs", "2", "--frames", "2"]


def test_bench_all_lists_its_measurements_and_prints_progress_without_a_terminal(
    tmp_path: Path, answer: Answer
) -> None:
    video, report = clip_file("good.mp4"), tmp_path / "all.json"
    out, err = answer("bench", "all", *SMALL, "--json", report, video)
    assert out.startswith(
        f"2 measurements of {video}, within 3 min (--minutes): measurements that would take longer are not started\n"
    )
    assert [line.split(" (")[0] for line in err.splitlines()] == [
        "framefeed: decode, row 1 of 1, own:clip_good.mp4-4: random clips of your videos, against other installed "
        "decoders",
        "framefeed: decoding 2 frames",
        "framefeed: cache, row 1 of 1, original: reading stored frames, against decoding them from the original",
    ]
    assert not re.search(r"\b(goal|aim|floor)\b", out + err, re.IGNORECASE)
    document = json.loads(report.read_text())
    assert {what: [row["key"] for row in document[what]["rows"]] for what in ("decode", "cache")} == {
        "decode": ["own:clip_good.mp4-4"], "cache": ["original"],
    }  # fmt: skip
    assert sorted(os.listdir(tmp_path)) == ["all.json"]
    answer("bench", "all", "--minutes", "1e-9", "--json", report, video)
    assert json.loads(report.read_text())["decode"]["rows"] != document["decode"]["rows"]


def test_the_result_of_bench_replaces_no_other_file(tmp_path: Path, answer: Answer) -> None:
    other = tmp_path / "package.json"
    other.write_text('{"name": "mine"}')
    _, err = answer("bench", "all", "--json", other, clip_file("good.mp4"), code=1)
    assert "package.json: the file that is already there is not a result of 'framefeed bench'" in err
    assert other.read_text() == '{"name": "mine"}'


def test_bench_all_starts_no_measurement_after_its_time(answer: Answer) -> None:
    out, err = answer("bench", "all", "--minutes", "1e-9", clip_file("good.mp4"))
    assert err == ""
    rows = re.findall(r"not run: (\S+): no time was left: raise --minutes", out)
    assert rows == ["own:clip_good.mp4-4", "table", "original"]


def test_bench_all_generates_media_only_with_generated(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    monkeypatch.delenv("FRAMEFEED_MEDIA", raising=False)
    assert "--generated to measure a generated video" in answer("bench", "all", code=1).err
    assert "'bench all'" in answer("bench", "decode", "--generated", code=1).err


def test_help_lists_only_benches_of_this_version(answer: Answer) -> None:
    out, _ = answer("bench", "--help")
    assert "decode, cache, or all" in " ".join(out.split())

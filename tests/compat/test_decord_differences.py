"""Compare compat.decord with decord2: the same result for each call, except where docs/decord.md lists a difference.

decord2's results are in decord_golden.json, so that it need not be installed; decord_golden.py writes that file.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.compat.decord import RESULTS, tabulate
from framefeed.compat import decord
from tests.compat.decord_calls import describe, list_pairs, path_of
from tests.corpus import expected_stamps

PAGE = Path(__file__).resolve().parents[2] / "docs" / "decord.md"
GOLDEN = json.loads(Path(__file__).with_name("decord_golden.json").read_text(encoding="utf-8"))

INDEX, VALUE = ({"error": [name]} for name in ("IndexError", "ValueError"))
PLAIN = "base.mp4"


def whole(clip: str) -> dict[tuple[str, str], Any]:
    """Make the results of a clip whose every frame is to be given, in order."""
    numbers = expected_stamps(clip)
    count = len(numbers)
    return {(clip, "len"): count, (clip, "next to the end"): count, (clip, "list(reader)"): numbers}


def upright(clip: str, size: list[int]) -> dict[tuple[str, str], Any]:
    return {
        (clip, "[7]"): [[*size, 3, "uint8"], 7],
        (clip, "[-1]"): 9,
        (clip, "list(reader)"): list(range(10)),
        (clip, "batch"): [[4, *size, 3, "uint8"], [0, 5, 9, 5]],
        (clip, "seek(1)"): 0,
    }


# Rows of the page -> clip and call -> our result; decord2's is another one.
DIFFERENCES: dict[str, dict[tuple[str, str], Any]] = {
    "Packets that give no frame": {
        **whole("late_key.mp4"),
        **whole("hidden_vp8.webm"),
        **whole("fields.mkv"),
        ("fields.mkv", "[-1]"): 30,
        ("fields.mkv", "batch"): [[4, 64, 64, 3, "uint8"], [0, 5, 30, 5]],
        ("fields.mkv", "get_avg_fps"): 25.0,
        ("late_key.mp4", "times"): [[0.0, 0.04], [0.04, 0.08], [0.08, 0.12], [2.96, 3.0]],
    },
    "Frame i": {
        ("closed_gop.ts", "[7]"): [[96, 128, 3, "uint8"], 7],
        ("closed_gop.ts", "[-1]"): 99,
        ("closed_gop.ts", "list(reader)"): list(range(100)),
        ("closed_gop.ts", "batch"): [[4, 96, 128, 3, "uint8"], [0, 5, 99, 5]],
    },
    "Rotated and mirrored videos": {
        **upright("turned.mp4", [128, 96]),
        **upright("mirrored.mp4", [96, 128]),
    },
    "Damaged frames": {
        ("flipped_bytes.mp4", "len"): 96,
        ("flipped_bytes.mp4", "get_avg_fps"): 23.989899,
    },
    "`next()` after `seek(i)`": {
        (PLAIN, "next to the end from seek(17)"): 36,
        (PLAIN, "next to the end from seek(17), from 31"): 48,
    },
    "Key frames": {
        ("late_key.mp4", "get_key_indices"): [0, 25, 50],
        ("late_key.mp4", "seek(1)"): 50,
        ("hidden_vp8.webm", "get_key_indices"): [0],
        ("fields.mkv", "get_key_indices"): [0, 10, 20, 30],
        ("fields.mkv", "seek(17)"): 20,
        ("flipped_bytes.mp4", "get_key_indices"): [0, 23, 47, 71],
        ("intra_refresh.mp4", "get_key_indices"): [0],
        ("intra_refresh.mp4", "seek(1)"): 0,
        ("intra_refresh.mp4", "seek(17)"): 0,
    },
    "`get_avg_fps()`": {("vfr.mp4", "get_avg_fps"): 17.391304},
    "End of a frame": {
        ("hidden_vp8.webm", "times"): [[0.0, 0.04], [0.04, 0.08], [0.08, 0.12], [3.96, 4.0]],
        ("fields.mkv", "times"): [[0.0, 0.04], [0.04, 0.08], [0.08, 0.12], [1.2, 1.22]],
    },
    "Numbers of `get_batch`": {(PLAIN, "batch of a mask"): VALUE, (PLAIN, "batch of one number"): VALUE},
    "What a call takes": {
        (PLAIN, "bytes"): 60,
        (PLAIN, "a Path"): 60,
        (PLAIN, "[[1, 2]]"): [1, 2],
        (PLAIN, "times of a slice"): [[0.0, 0.04], [0.04, 0.08]],
    },
    "Some widths": {(PLAIN, "width of 32"): [24, 32, 3, "uint8"]},
    "Native arrays": {
        (PLAIN, "[i] of an array"): [128, 3],
        (PLAIN, "len of an array"): 96,
        (PLAIN, "== of arrays"): [96, 128, 3],
    },
    "`assert`": {
        (PLAIN, "seek(-1)"): INDEX,
        (PLAIN, "seek(len)"): INDEX,
        (PLAIN, "seek_accurate(-1)"): INDEX,
        (PLAIN, "seek_accurate(len)"): INDEX,
        ("one.mp4", "seek(1)"): INDEX,
        **{(clip, "seek(17)"): INDEX for clip in ("one.mp4", "vfr.mp4", "turned.mp4", "mirrored.mp4")},
        (PLAIN, "skip_frames(0)"): VALUE,
        (PLAIN, "ctx=0"): VALUE,
        (PLAIN, "a bridge by another name"): VALUE,
        (PLAIN, "a bridge by no name"): VALUE,
    },
    "No path": {(PLAIN, "no path"): VALUE},
    "Sizes": {(PLAIN, "pixels, smaller"): ...},
}
# Rows that tests in test_decord.py are about.
OTHER_ROWS = ("`ctx=gpu(0)`", "`num_threads=0`", "`VideoLoader`, `AudioReader`, `AVReader`", "Bridges")
LISTED = {pair: ours for row in DIFFERENCES.values() for pair, ours in row.items()}


def agrees(ours: Any, other: Any) -> bool:
    """Whether two results are equal, or ours is an error of the other's kind."""
    if isinstance(ours, dict) and isinstance(other, dict) and "error" in other:
        return set(other["error"]) <= set(ours["error"])
    return bool(ours == other)


def ask(clip: str, call: str) -> Any:
    return json.loads(json.dumps(describe(decord, clip, call)))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    # That frames of a damaged file are missing is a warning; these tests are about results.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def test_the_version_is_that_of_decord() -> None:
    assert decord.__version__ == GOLDEN["decord2"]
    assert f"decord2 {decord.__version__.rpartition('.')[0]}" in PAGE.read_text(encoding="utf-8")


def test_decord_was_asked_each_call() -> None:
    assert {(clip, call) for clip in GOLDEN if clip != "decord2" for call in GOLDEN[clip]} == set(list_pairs())


@pytest.mark.parametrize("clip", [clip for clip in GOLDEN if clip != "decord2"])
def test_calls_give_what_decord_gives(clip: str) -> None:
    wrong = [
        f"{call}: expected {GOLDEN[clip][call]}, got {ours}"
        for call in GOLDEN[clip]
        if (clip, call) not in LISTED and not agrees(ours := ask(clip, call), GOLDEN[clip][call])
    ]
    assert wrong == []


@pytest.mark.parametrize("row", [row for row in DIFFERENCES if row != "Sizes"])
def test_differences_are_those_of_the_page(row: str) -> None:
    for (clip, call), expected in DIFFERENCES[row].items():
        ours = ask(clip, call)
        assert agrees(ours, expected), (clip, call, ours)
        assert not agrees(ours, GOLDEN[clip][call]), f"{clip}: {call} is no difference any more"


def picture(text: str) -> Any:
    return np.frombuffer(bytes.fromhex(text), dtype=np.uint8).reshape(30, 40, 3).astype(np.float64)


def distance(ours: Any, other: Any) -> float:
    """Peak signal-to-noise ratio in dB."""
    return float(10 * np.log10(255**2 / np.mean((ours - other) ** 2)))


def test_resized_pictures_are_near_those_of_decord() -> None:
    theirs, ours = (picture(text) for text in (GOLDEN[PLAIN]["pixels, smaller"], ask(PLAIN, "pixels, smaller")))
    assert distance(ours, theirs) > 30  # docs/decord.md
    full = decord.VideoReader(str(path_of(PLAIN)))[5].asnumpy()
    nearest = full[np.arange(30) * 96 // 30][:, np.arange(40) * 128 // 40]
    for wrong in (nearest, np.roll(ours, 1, axis=1), ours[..., ::-1] // 2):
        assert distance(wrong, theirs) < 25


def test_the_page_lists_these() -> None:
    tables = PAGE.read_text(encoding="utf-8").partition("## How fast")[0]
    rows = re.findall(r"^\| ([^|]+) \| (?!---|decord2)", tables, re.M)
    assert sorted(rows) == sorted([*DIFFERENCES, *OTHER_ROWS])


def test_figures_are_those_of_the_results() -> None:
    result = json.loads(RESULTS.read_text(encoding="utf-8"))
    shown = re.search(r"<!-- figures: decord -->\n\n((?s:.*?))\n<!-- end -->", PAGE.read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[1] == tabulate(result)
    assert f"on {len(result['files'])} MP4 files" in PAGE.read_text(encoding="utf-8")


def test_a_reader_that_goes_on_elsewhere_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    get_batch = decord.VideoReader.get_batch

    def get_batch_and_stay(reader: Any, indices: Any) -> Any:
        before = reader._position
        batch = get_batch(reader, indices)
        reader._position = before
        return batch

    monkeypatch.setattr(decord.VideoReader, "seek", decord.VideoReader.seek_accurate)
    monkeypatch.setattr(decord.VideoReader, "get_batch", get_batch_and_stay)
    for call in ("seek(1)", "seek(17)", "next after batch 3, 4", "next after [10:13]"):
        assert not agrees(ask(PLAIN, call), GOLDEN[PLAIN][call]), call

"""Which codec "auto" is: by arithmetic on figures that were made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.cache.codecs._auto import (
    CodecChoice,
    CodecFigures,
    Conditions,
    choose_auto_codec,
    choose_codec,
    measure_codec,
)
from framefeed.cache.codecs._registry import find_codec, known_codecs
from framefeed.decode import PlaneLayout
from framefeed.errors import UsageError
from tests.cache.codecs.pictures import content, natural

GIB = 2**30
FRAMES = 10
MEGABYTE = 10**6


def figures(codec: str, share: float, write: float, read: float, *, is_exact: bool = True) -> CodecFigures:
    """Ten frames of a megabyte; seconds a frame."""
    stored = round(share * FRAMES * MEGABYTE)
    return CodecFigures(codec, is_exact, FRAMES, FRAMES * MEGABYTE, stored, write * FRAMES, read * FRAMES)


RAW = figures("raw", 1.0, 0.0001, 0.0002)
LZ4 = figures("lz4", 0.3, 0.0010, 0.0003)
LZ4HC = figures("lz4hc", 0.24, 0.0080, 0.00025)
ZSTD = figures("zstd:1", 0.22, 0.0015, 0.0007)
SMALL = figures("magicyuv", 0.15, 0.0025, 0.0013)
JPEG = figures("jpeg:90", 0.05, 0.0010, 0.0001, is_exact=False)
ALL = [RAW, LZ4, LZ4HC, ZSTD, SMALL, JPEG]

NOTHING_KNOWN = Conditions(expected_raw_bytes=None, max_bytes=None, memory_bytes=16 * GIB)


def chosen(conditions: Conditions, among: list[CodecFigures] = ALL) -> str:
    return choose_codec(among, conditions).codec


def test_reading_from_disk_costs_time_and_bytes() -> None:
    # Milliseconds: raw 0.2 + 1, lz4 0.3 + 0.3, zstd 0.7 + 0.22, magicyuv 1.3 + 0.15.
    assert chosen(NOTHING_KNOWN) == "lz4"
    assert chosen(replace(NOTHING_KNOWN, disk_bytes_per_second=20e9)) == "raw"
    # 0.2 + 10, 0.3 + 3, 0.7 + 2.2, 1.3 + 1.5.
    assert chosen(replace(NOTHING_KNOWN, disk_bytes_per_second=1e8)) == "magicyuv"
    assert chosen(replace(NOTHING_KNOWN, disk_bytes_per_second=1e8), [RAW, LZ4, ZSTD]) == "zstd:1"


def test_frames_in_memory_do_not_wait_for_the_disk() -> None:
    assert chosen(replace(NOTHING_KNOWN, expected_raw_bytes=7 * GIB)) == "raw"
    # Raw frames would not stay: they wait for the disk, and lz4 does not.
    assert chosen(replace(NOTHING_KNOWN, expected_raw_bytes=9 * GIB)) == "lz4"
    assert chosen(replace(NOTHING_KNOWN, expected_raw_bytes=9 * GIB, memory_bytes=GIB)) == "lz4"
    assert chosen(replace(NOTHING_KNOWN, expected_raw_bytes=10**15)) == "lz4"


def test_only_codecs_with_which_all_frames_fit_are_considered() -> None:
    conditions = replace(NOTHING_KNOWN, expected_raw_bytes=10**12, max_bytes=400 * 10**9)
    assert chosen(conditions) == "lz4"
    assert chosen(replace(conditions, max_bytes=250 * 10**9)) == "zstd:1"
    assert chosen(replace(conditions, max_bytes=200 * 10**9)) == "magicyuv"
    assert chosen(replace(conditions, max_bytes=300 * 10**9)) == "lz4"
    assert chosen(replace(conditions, max_bytes=300 * 10**9 - 1)) == "zstd:1"


def test_if_none_fits_it_is_the_smallest() -> None:
    conditions = replace(NOTHING_KNOWN, expected_raw_bytes=10**12, max_bytes=10**9)
    assert chosen(conditions) == "magicyuv"
    assert chosen(conditions, [RAW, LZ4]) == "lz4"
    assert "smallest" in choose_codec(ALL, conditions).reason


def test_a_budget_is_ignored_if_the_size_of_the_frames_is_unknown() -> None:
    assert chosen(replace(NOTHING_KNOWN, max_bytes=1)) == "lz4"


def test_lossy_codecs_are_never_chosen() -> None:
    for conditions in (NOTHING_KNOWN, replace(NOTHING_KNOWN, expected_raw_bytes=10**12, max_bytes=1)):
        assert chosen(conditions, [JPEG, SMALL]) == "magicyuv"
        for nothing in ([JPEG], []):
            with pytest.raises(UsageError, match="exact"):
                choose_codec(nothing, conditions)


def test_slow_writers_are_not_chosen() -> None:
    slow_disk = replace(NOTHING_KNOWN, disk_bytes_per_second=1e8)
    # Where nobody knows how long decoding takes: three times the quickest that makes frames smaller.
    assert chosen(slow_disk, [RAW, LZ4, LZ4HC]) == "lz4"
    # 15 % of 20 milliseconds are 3, of 12 are 1.8, of 7 are 1.05, of 1 are 0.15.
    assert chosen(replace(slow_disk, decode_seconds=0.060), [RAW, LZ4, LZ4HC]) == "lz4hc"
    for decode_seconds, expected in ((0.060, "zstd:1"), (0.012, "zstd:1"), (0.007, "lz4"), (0.001, "raw")):
        among = [RAW, LZ4, LZ4HC, ZSTD]
        assert chosen(replace(slow_disk, decode_seconds=decode_seconds), among) == expected
    assert chosen(replace(slow_disk, decode_seconds=0.020)) == "magicyuv"
    assert chosen(replace(slow_disk, decode_seconds=0.060, max_fill_share=0.04)) == "zstd:1"


def test_slow_writers_are_chosen_if_frames_fit_only_with_them() -> None:
    conditions = replace(NOTHING_KNOWN, expected_raw_bytes=10**12, max_bytes=260 * 10**9)
    assert chosen(conditions, [RAW, LZ4, LZ4HC]) == "lz4hc"
    assert chosen(replace(conditions, max_bytes=310 * 10**9), [RAW, LZ4, LZ4HC]) == "lz4"
    assert chosen(replace(conditions, max_bytes=10**9), [RAW, LZ4, LZ4HC]) == "lz4hc", "it keeps most"


def test_the_quickest_writer_is_always_left() -> None:
    assert chosen(replace(NOTHING_KNOWN, decode_seconds=0.0)) == "raw"
    assert chosen(replace(NOTHING_KNOWN, decode_seconds=0.0), [LZ4HC, SMALL]) == "magicyuv"


def test_of_two_that_cost_the_same_the_smaller_one_is_chosen() -> None:
    in_memory = replace(NOTHING_KNOWN, expected_raw_bytes=GIB)
    assert chosen(in_memory, [replace(LZ4, read_seconds=RAW.read_seconds * 1.24), RAW]) == "lz4"
    assert chosen(in_memory, [replace(LZ4, read_seconds=RAW.read_seconds * 1.26), RAW]) == "raw"


def test_the_choice_has_a_reason() -> None:
    choice = choose_codec(ALL, NOTHING_KNOWN)
    assert choice == CodecChoice("lz4", tuple(ALL), choice.reason)
    assert choice.reason == (
        "lz4: reads a frame from disk in 0.6 ms, the fastest of 4 codecs, 30 % of the uncompressed size; "
        "not considered: jpeg:90 (lossy), lz4hc (slow to write)"
    )
    only = choose_codec(ALL, replace(NOTHING_KNOWN, expected_raw_bytes=10**12, max_bytes=16 * 10**10))
    assert only.reason == (
        "magicyuv: the only codec with which all frames fit the budget, 15 % of the uncompressed size; "
        "not considered: jpeg:90 (lossy), lz4hc (slow to write), raw, lz4, zstd:1 (too large)"
    )
    none = choose_codec(ALL, replace(NOTHING_KNOWN, expected_raw_bytes=10**12, max_bytes=1))
    assert none.reason == (
        "magicyuv: no codec is small enough for the budget; this one is the smallest, 15 % of the uncompressed size; "
        "not considered: jpeg:90 (lossy)"
    )
    alike = choose_codec(
        [RAW, replace(LZ4, read_seconds=RAW.read_seconds)], replace(NOTHING_KNOWN, disk_bytes_per_second=1e12)
    )
    assert alike.reason == (
        "lz4: reads a frame from disk in 0.2 ms, about as fast as raw, "
        "and is the smallest of these, 30 % of the uncompressed size"
    )


def test_noise_does_not_change_the_choice_between_equal_codecs() -> None:
    in_memory = replace(NOTHING_KNOWN, expected_raw_bytes=GIB)
    for raw, small in [(0.9, 1.1), (1.1, 0.9), (1.0, 1.0)]:
        among = [replace(RAW, read_seconds=raw), replace(LZ4, read_seconds=small), replace(ZSTD, read_seconds=2.0)]
        assert chosen(in_memory, among) == "lz4"


FIGURES = st.builds(
    CodecFigures,
    codec=st.sampled_from(["a", "b", "c", "d"]),
    is_exact=st.booleans(),
    num_frames=st.just(5),
    raw_bytes=st.just(1000),
    stored_bytes=st.integers(1, 2000),
    write_seconds=st.floats(0, 10),
    read_seconds=st.floats(0, 10),
)
CONDITIONS = st.builds(
    Conditions,
    expected_raw_bytes=st.none() | st.integers(0, 10**13),
    max_bytes=st.none() | st.integers(0, 10**13),
    memory_bytes=st.integers(1, 10**12),
    disk_bytes_per_second=st.floats(1e6, 1e11),
    decode_seconds=st.none() | st.floats(0, 1),
    max_fill_share=st.floats(0, 1),
)


@given(st.lists(FIGURES, min_size=1, max_size=6, unique_by=lambda each: each.codec), CONDITIONS)
def test_the_choice_does_not_depend_on_the_order(among: list[CodecFigures], conditions: Conditions) -> None:
    if not any(each.is_exact for each in among):
        return
    codec = choose_codec(among, conditions).codec
    assert choose_codec(among[::-1], conditions).codec == codec
    mine = next(each for each in among if each.codec == codec)
    assert mine.is_exact
    # A codec that is worse in everything does not change the choice.
    worse = replace(mine, codec="worse", stored_bytes=mine.stored_bytes + 1, read_seconds=mine.read_seconds * 2 + 1,
                    write_seconds=mine.write_seconds * 2 + 1)  # fmt: skip
    if worse.ratio >= 1 or mine.ratio < 1:
        assert choose_codec([*among, worse], conditions).codec == codec


# --- measuring --------------------------------------------------------------------------------------


class Clock:
    """Goes on by one second each time that somebody looks."""

    def __init__(self) -> None:
        self.seconds = -1.0

    def __call__(self) -> float:
        self.seconds += 1
        return self.seconds


class Disturbed:
    """Between every two looks goes by what is next in a list, and then over again."""

    def __init__(self, *durations: float) -> None:
        self.durations = durations
        self.num_reads = 0

    def __call__(self) -> float:
        self.num_reads += 1
        return float(sum(self.durations[at // 2 % len(self.durations)] for at in range(1, self.num_reads) if at % 2))


def test_measuring_counts_bytes_and_asks_the_clock() -> None:
    layout = PlaneLayout("yuv420p", 64, 48)
    samples = [(layout, content("steps", layout, seed)) for seed in range(3)]
    codec = find_codec("zstd")
    measured = measure_codec(codec, samples, Clock())
    stored = sum(len(codec.encode(*sample)) for sample in samples)
    assert measured == CodecFigures("zstd:1", True, 3, 3 * layout.nbytes, stored, 1.0, 1.0)


def test_the_quickest_of_three_rounds_counts() -> None:
    layout = PlaneLayout("gray", 8, 8)
    # One frame to begin with, three rounds; the same for reading.
    measured = measure_codec(find_codec("raw"), [(layout, content("noise", layout))], Disturbed(9, 7, 3, 5, 9, 8, 6, 4))
    assert (measured.write_seconds, measured.read_seconds) == (3, 4)


@pytest.mark.parametrize("name", known_codecs())
def test_every_codec_can_be_measured(name: str) -> None:
    layout = PlaneLayout("yuv420p", 64, 48)
    measured = measure_codec(find_codec(name), [(layout, content("noise", layout))], Clock())
    assert measured.codec == find_codec(name).label
    assert 0.5 < measured.ratio < 1.6


def test_all_exact_codecs_that_take_the_frames_are_measured() -> None:
    layout = PlaneLayout("yuv420p", 128, 96)
    codec, choice = choose_auto_codec([(layout, natural(layout))], NOTHING_KNOWN, Clock())
    assert {each.codec for each in choice.figures} == {"raw", "lz4", "lz4hc", "magicyuv", "zstd:1"}
    assert codec.label == choice.codec
    deep = PlaneLayout("yuv420p10le", 128, 96)
    _, choice = choose_auto_codec([(layout, natural(layout)), (deep, natural(deep))], NOTHING_KNOWN, Clock())
    assert {each.codec for each in choice.figures} == {"raw", "lz4", "lz4hc", "zstd:1"}


def test_codecs_that_are_not_installed_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framefeed.cache.codecs._magicyuv._FIRST_SAFE", (99, 0, 0))
    find_codec.cache_clear()
    try:
        layout = PlaneLayout("gray", 32, 32)
        choice = choose_auto_codec([(layout, np.zeros(1024, np.uint8))], NOTHING_KNOWN, Clock())[1]
        assert "magicyuv" not in {each.codec for each in choice.figures}
    finally:
        find_codec.cache_clear()

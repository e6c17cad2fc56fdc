"""C03: whatever decides the pixels has a part in the key, and what does not has none."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from framefeed.cache._keys import EXACT, Recipe, StreamKey, make_key
from framefeed.index import StreamFacts
from framefeed.media import SourceIdentity
from framefeed.request import OutputSpec

IDENTITY = SourceIdentity(1000, 5, "abcd")
STREAM = StreamFacts(0, "mov", "h264", b"\x01\x02", 64, 48, "yuv420p")
RECIPE = Recipe("output", OutputSpec(size=(24, 32)), "pyav 18")

OTHER_FACTS = {
    "stream_index": 1, "container": "matroska", "codec": "hevc", "extradata": b"\x01\x03", "width": 66, "height": 50,
    "pixel_format": "yuv422p", "rotation": 90, "mirrored": True, "contiguous": True, "skips_exactly": True,
    "inband_parameters": True, "color_primaries": 1, "color_transfer": 1, "color_space": 1, "color_range": 2,
    "shown_width": 128, "shown_height": 96,
}  # fmt: skip


@pytest.mark.parametrize("name", [field.name for field in fields(StreamFacts)])
def test_C03_every_fact_of_the_stream_counts(name: str) -> None:
    other = replace(STREAM, **{name: OTHER_FACTS[name]})
    assert make_key(IDENTITY, other, RECIPE).digest != make_key(IDENTITY, STREAM, RECIPE).digest


@pytest.mark.parametrize(
    "other",
    [
        Recipe("planes", None, "pyav 18"),
        Recipe("output", OutputSpec(size=(24, 33)), "pyav 18"),
        Recipe("output", OutputSpec(size=(24, 32), crop=(0, 0, 9, 9)), "pyav 18"),
        Recipe("output", OutputSpec(size=(24, 32), dimension_order="NHWC"), "pyav 18"),
        Recipe("output", OutputSpec(size=(24, 32)), "pyav 19"),
        Recipe("output", OutputSpec(size=(24, 32)), "pyav 18", "jpeg 90"),
    ],
)
def test_C03_everything_in_the_recipe_counts(other: Recipe) -> None:
    assert make_key(IDENTITY, STREAM, other).digest != make_key(IDENTITY, STREAM, RECIPE).digest


@pytest.mark.parametrize("other", [SourceIdentity(1001, 5, "abcd"), SourceIdentity(1000, 5, "abce")])
def test_C03_size_and_fingerprint_count(other: SourceIdentity) -> None:
    assert make_key(other, STREAM, RECIPE).digest != make_key(IDENTITY, STREAM, RECIPE).digest


def test_lengths_of_start_codes_do_not_count() -> None:
    """FFmpeg 9 writes those of a configuration with four bytes, FFmpeg 8 with three."""

    def key_of(extradata: bytes) -> StreamKey:
        return make_key(IDENTITY, replace(STREAM, extradata=extradata), RECIPE)

    by_8 = bytes.fromhex("0000016742e00a96528589c80000000168c923a800")
    by_9 = bytes.fromhex("000000016742e00a96528589c8000000000168c923a800")
    assert key_of(by_8) == key_of(by_9)
    assert key_of(by_8) != key_of(by_8.replace(b"\x68", b"\x69"))
    assert key_of(by_8) != key_of(by_8[: by_8.index(b"\x68") - 4])


def test_the_time_of_the_file_does_not_count() -> None:
    assert make_key(replace(IDENTITY, mtime_ns=6), STREAM, RECIPE) == make_key(IDENTITY, STREAM, RECIPE)


def test_the_description_says_what_the_key_is_of() -> None:
    key = make_key(IDENTITY, STREAM, RECIPE)
    said = json.loads(key.description)
    assert said["source"] == {"bytes": 1000, "fingerprint": "abcd"}
    assert said["recipe"]["pixels"] == EXACT
    assert said["recipe"]["output"]["size"] == [24, 32]
    assert len(key.digest) == 16

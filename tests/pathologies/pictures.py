"""Pictures that are turned, stretched, odd in size or deep in bits."""

from __future__ import annotations

from fractions import Fraction

from framefeed.testing import ClipSpec
from tests.pathologies.build import make_from_spec
from tests.pathologies.facts import MediaFacts, Pathology, Turn

_SHORT = 25


def _make_turned(name: str, rotation: int, mirrored: bool = False) -> Pathology:
    spec = ClipSpec(num_frames=_SHORT, rotation=rotation, mirrored=mirrored)
    mirror = ", then mirrored" if mirrored else ""
    trait = f"to be turned by {rotation} degrees counter-clockwise{mirror}"
    return make_from_spec(name, "P01", spec, trait, lambda facts: _is_upright_after(facts, (rotation, mirrored)))


def _is_upright_after(facts: MediaFacts, turn: Turn) -> bool:
    return all(frame.display_turn == turn == frame.stamp_turn for frame in facts.frames)


def _has_size(facts: MediaFacts, height: int, width: int) -> bool:
    return (facts.frames[0].height, facts.frames[0].width) == (height, width)


def _has_pixel_format(facts: MediaFacts, pixel_format: str) -> bool:
    return facts.frames[0].pixel_format == pixel_format


PICTURES = (
    *(_make_turned(f"rotated_{rotation}.mp4", rotation) for rotation in (0, 90, 180, 270)),
    _make_turned("rotated_90.mkv", 90),
    _make_turned("mirrored.mp4", 0, mirrored=True),
    _make_turned("rotated_90_mirrored.mp4", 90, mirrored=True),
    _make_turned("rotated_270_mirrored.mp4", 270, mirrored=True),
    make_from_spec(
        "ten_bit.mp4",
        "P06",
        ClipSpec(num_frames=_SHORT, pixel_format="yuv420p10le"),
        "ten bits a sample",
        lambda facts: _has_pixel_format(facts, "yuv420p10le"),
    ),
    make_from_spec(
        "alpha.mkv",
        "P07",
        ClipSpec(num_frames=_SHORT, codec="ffv1", pixel_format="yuva420p", b_frames=None),
        "an alpha plane",
        lambda facts: _has_pixel_format(facts, "yuva420p"),
    ),
    make_from_spec(
        "wide_samples.mp4",
        "P08",
        ClipSpec(num_frames=_SHORT, codec_options={"aspect": "4/3"}),
        "samples are a third wider than high",
        lambda facts: facts.sample_aspect_ratio == Fraction(4, 3),
    ),
    make_from_spec(
        "odd_size.mp4",
        "P09",
        ClipSpec(num_frames=_SHORT, height=97, width=131, pixel_format="yuv444p"),
        "97 rows of 131 samples",
        lambda facts: _has_size(facts, 97, 131),
    ),
    make_from_spec(
        "cropped.mp4",
        "P09",
        ClipSpec(num_frames=_SHORT, height=90, width=120),
        "coded larger than shown: neither side is a multiple of 16",
        lambda facts: _has_size(facts, 90, 120),
    ),
    make_from_spec(
        "gray.mkv",
        "P10",
        ClipSpec(num_frames=_SHORT, codec="ffv1", pixel_format="gray", b_frames=None),
        "one plane",
        lambda facts: _has_pixel_format(facts, "gray"),
    ),
    make_from_spec(
        "planar_rgb.mkv",
        "P10",
        ClipSpec(num_frames=_SHORT, codec="libx264rgb", pixel_format="rgb24"),
        "RGB without subsampling",
        lambda facts: _has_pixel_format(facts, "gbrp"),
    ),
    make_from_spec(
        "full_range.avi",
        "P11",
        ClipSpec(num_frames=_SHORT, codec="mjpeg", pixel_format="yuvj420p", gop=None, b_frames=None),
        "full range by the name of its pixel format",
        lambda facts: _has_pixel_format(facts, "yuvj420p"),
    ),
)

"""Files are opened, and numbers of libav read, alike with PyAV 18 and 19."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

from framefeed.index import build_index
from framefeed.media import MediaSource, VideoContainer, open_input, read_rational, read_stream_details
from framefeed.testing import ClipSpec, write_clip

# As av.AVRational has them, which 0 and numbers over 0 are false for; PyAV 18 has None in their place.
UNSET = [(0, 1), (0, 0), (1, 0), (-1, 0)]


class Rational(SimpleNamespace):
    """What PyAV 19 has in place of a fraction."""

    def __bool__(self) -> bool:
        return bool(self.numerator and self.denominator)


@pytest.mark.parametrize("value", [None, Fraction(0), *[Rational(numerator=n, denominator=d) for n, d in UNSET]])
def test_a_number_that_is_not_set_is_none(value: object) -> None:
    assert read_rational(value) is None


@pytest.mark.parametrize("value", [Fraction(1001, 30000), Rational(numerator=1001, denominator=30000)])
def test_a_number_that_is_set_is_a_fraction(value: object) -> None:
    number = read_rational(value)
    assert type(number) is Fraction
    assert number == Fraction(1001, 30000)


@pytest.mark.parametrize("name", ["a.mkv", "a.ts", "a.flv", "a.avi", "a.264"])
def test_times_are_counted_in_fractions_of_a_second(name: str, tmp_path: Path) -> None:
    path = write_clip(tmp_path / name, ClipSpec(6, b_frames=None))
    index = build_index(path)
    assert type(index.time_base) is Fraction
    assert type(1 / index.time_base) is Fraction
    assert type(read_stream_details(MediaSource.of(path), 0).pixel_aspect_ratio) in (Fraction, type(None))


def test_a_title_may_have_any_bytes(tmp_path: Path) -> None:
    """PyAV 18 raises for it unless it is told not to, and 19 does not know the option."""
    path = write_clip(tmp_path / "a.mkv", ClipSpec(3))
    data = path.read_bytes()
    assert data.count(b"DURATION") == 1
    path.write_bytes(data.replace(b"DURATION", b"\xff\xfeRATION"))
    with open_input(str(path)) as container:
        assert len(list(container.decode(video=0))) == 3
    with VideoContainer(MediaSource.of(path)) as opened:
        assert len(list(opened.packets())) == 3

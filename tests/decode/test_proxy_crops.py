"""Crops of an original's pixels are moved to those of its proxy."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from framefeed.decode._reduction import fit_to_proxy
from framefeed.index import StreamFacts
from framefeed.request import OutputSpec

SHOWN = (240, 320)
STORED = (96, 128)


def proxy_of(shown: tuple[int, int], stored: tuple[int, int]) -> StreamFacts:
    return StreamFacts(
        0, "mov", "h264", None, stored[1], stored[0], "yuv420p", shown_width=shown[1], shown_height=shown[0]
    )


@given(
    shown=st.tuples(st.integers(16, 2000), st.integers(16, 2000)),
    scale=st.floats(0.05, 1.0),
    box=st.tuples(*[st.floats(0, 1)] * 4),
    size=st.none() | st.tuples(st.integers(1, 300), st.integers(1, 300)),
)
def test_a_box_is_moved_to_the_nearest_pixels_and_stays_in_the_picture(
    shown: tuple[int, int], scale: float, box: tuple[float, float, float, float], size: tuple[int, int] | None
) -> None:
    height, width = shown
    stored = max(8, round(height * scale)), max(8, round(width * scale))
    top, left = int(box[0] * (height - 1)), int(box[1] * (width - 1))
    rows, columns = 1 + int(box[2] * (height - top - 1)), 1 + int(box[3] * (width - left - 1))
    output = OutputSpec(size=size, crop=(top, left, rows, columns))
    moved = fit_to_proxy(output, proxy_of(shown, stored))
    assert moved.size == output.shape(*shown)[1:]
    assert moved.crop is not None
    assert output.crop is not None
    for axis in (0, 1):
        own, length = moved.crop[axis], moved.crop[axis + 2]
        assert own >= 0
        assert length >= 1
        assert own + length <= stored[axis]
        ratio = stored[axis] / shown[axis]
        assert abs(own - output.crop[axis] * ratio) <= 1
        assert abs(own + length - (output.crop[axis] + output.crop[axis + 2]) * ratio) <= 1.5


def test_outputs_of_other_streams_stay_what_they_are() -> None:
    output = OutputSpec(crop=(1, 2, 3, 4))
    stream = proxy_of(SHOWN, STORED)
    assert fit_to_proxy(output, replace(stream, shown_width=0, shown_height=0)) is output
    assert fit_to_proxy(OutputSpec(), stream).size == SHOWN

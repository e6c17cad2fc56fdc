"""The law of engines: a frame is exactly the one that was asked for, by the number in its picture, or a typed error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from framefeed.decode import VideoDecoder
from framefeed.errors import MediaError
from framefeed.testing import read_stamps


def check_law(path: Path, stamps: Sequence[int], backend: str, ordinals: Sequence[int]) -> int:
    """Read frames one by one, then in one call; return how many came one by one.

    Args:
        path: A file whose frames show these numbers.
        stamps: The number that each frame shows.
        backend: Name of the engine.
        ordinals: The frames to read.
    """
    came = []
    with VideoDecoder(path, backend=backend, dimension_order="NHWC") as decoder:
        for ordinal in ordinals:
            error = catch(partial(decoder.get_frame_at, ordinal))
            if error is not None:
                assert str(path) in str(error), f"{backend}: the error does not name the file: {error}"
                continue
            came.append(ordinal)
            assert read_stamps(decoder[ordinal][None]) == [stamps[ordinal]], f"{backend}, frame {ordinal}"
        try:
            together = decoder.get_frames_at(ordinals).data
        except MediaError:
            return len(came)
    assert read_stamps(together) == [stamps[ordinal] for ordinal in ordinals]
    return len(came)


def catch(function: Callable[[], object]) -> MediaError | None:
    """Call a function; return its error of the file, if there is one."""
    try:
        function()
    except MediaError as error:
        return error
    return None

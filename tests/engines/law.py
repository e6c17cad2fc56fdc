"""The law of engines: a frame is exactly the one that was asked for, by the number in its picture, or a typed error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from framefeed.decode import Pixels, VideoDecoder
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
            pictures: list[Pixels] = []
            error = catch(lambda ordinal=ordinal, pictures=pictures: pictures.append(decoder[ordinal]))
            assert error is None or str(path) in str(error), f"{backend}: the error does not name the file: {error}"
            for picture in pictures:
                came.append(ordinal)
                assert read_stamps(picture[None]) == [stamps[ordinal]], f"{backend}, frame {ordinal}"
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

"""MediaInfo: what the headers of a file claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


def shown_size(width: int, height: int, rotation: int) -> tuple[int, int]:
    """Give (width, height) as displayed: the rotation, in degrees, applied."""
    return (height, width) if rotation in (90, 270) else (width, height)


@dataclass(frozen=True, slots=True)
class MediaInfo:
    """What the headers of one file claim.

    Attributes:
        kind: "image" or "video", decided by the bytes, not by the name.
        container: Name of the format, as libav (videos) or Pillow (pictures) calls it.
        codec: Codec name.
        width: Columns as displayed: rotation and EXIF orientation applied, sample aspect ratio not.
        height: Rows as displayed.
        coded_width: Columns as stored.
        coded_height: Rows as stored.
        rotation: Degrees counter-clockwise by which the stored picture is rotated for display: 0, 90, 180 or 270.
        mirrored: Whether left and right are swapped after that rotation.
        pixel_format: Name of the stored pixel format; empty where unknown.
        num_frames_from_header: Number of frames that the header claims, or None. The frames were not counted.
        duration_seconds_from_header: Seconds that the header claims, or None.
        average_fps_from_header: Frames per second that the header claims, or None.
        bytes: Size of the source in bytes.
    """

    kind: Literal["image", "video"]
    container: str
    codec: str
    width: int
    height: int
    coded_width: int
    coded_height: int
    rotation: int
    mirrored: bool
    pixel_format: str
    num_frames_from_header: int | None
    duration_seconds_from_header: float | None
    average_fps_from_header: float | None
    bytes: int

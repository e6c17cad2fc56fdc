"""Which backend ``backend="auto"`` takes for a source, and why: rules that committed measurements may extend."""

from __future__ import annotations

from dataclasses import dataclass

from framefeed.index import FrameIndex, has_picture_files


@dataclass(frozen=True, slots=True)
class AutoRule:
    """The backend for one kind of sources.

    Attributes:
        kind: The sources, in words.
        backend: Name of the backend.
        reason: Why this one.
    """

    kind: str
    backend: str
    reason: str


PICTURES = AutoRule("pictures and image sequences", "still", "the only one that decodes them")
VIDEOS = AutoRule(
    "videos", "pyav", "the only one that gives every frame of every index, as the page on engines in the docs shows"
)
AUTO_RULES = (PICTURES, VIDEOS)


def choose_backend(index: FrameIndex) -> AutoRule:
    """Choose the backend of a source by what its index says."""
    return PICTURES if has_picture_files(index) else VIDEOS

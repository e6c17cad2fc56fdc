"""Which file names count as media in a folder, by their endings; what a file really is, its bytes tell."""

from __future__ import annotations

import os
from collections.abc import Collection

# fmt: off
VIDEO_SUFFIXES = frozenset(
    (
        ".3g2",
        ".3gp",
        ".asf",
        ".avi",
        ".divx",
        ".dv",
        ".f4v",
        ".flv",
        ".h264",
        ".h265",
        ".hevc",
        ".ivf",
        ".m1v",
        ".m2ts",
        ".m2v",
        ".m4v",
        ".mjpeg",
        ".mjpg",
        ".mk3d",
        ".mkv",
        ".mov",
        ".mp4",
        ".mpe",
        ".mpeg",
        ".mpg",
        ".mts",
        ".mxf",
        ".nut",
        ".obu",
        ".ogm",
        ".ogv",
        ".qt",
        ".rm",
        ".rmvb",
        ".ts",
        ".vob",
        ".webm",
        ".wmv",
        ".y4m",
    )
)
# fmt: on
"""Endings of video files. What counts as media in a folder; what a file really is, its bytes tell."""

IMAGE_SUFFIXES = frozenset(
    {
        ".apng",
        ".avif",
        ".avifs",
        ".bmp",
        ".dib",
        ".gif",
        ".heic",
        ".heif",
        ".jfif",
        ".jpe",
        ".jpeg",
        ".jpg",
        ".jxl",
        ".mpo",
        ".png",
        ".tif",
        ".tiff",
        ".webp",
    }
)
"""Endings of the still pictures and animations that `media.sniff` knows."""

ALL_MEDIA_SUFFIXES = VIDEO_SUFFIXES | IMAGE_SUFFIXES
_LONGEST_KEPT = 16


def suffix_of(name: str) -> str:
    """Lower-case ending of a file name, with its dot."""
    return os.path.splitext(name)[1].lower()


class Endings(dict[str, bool]):
    """Remembers which endings, as they are spelt, are wanted: a look-up instead of a split for each of a million names.

    Args:
        suffixes: Lower-case endings with their dots.
    """

    def __init__(self, suffixes: Collection[str]) -> None:
        super().__init__()
        self._suffixes = frozenset(suffixes)

    def __missing__(self, ending: str) -> bool:
        wanted = ending.lower() in self._suffixes
        if len(ending) <= _LONGEST_KEPT and len(self) < 1000:
            self[ending] = wanted
        return wanted

    def of(self, names: list[str]) -> list[str]:
        """The names with a wanted ending; a name that is nothing but an ending (``.mp4``) has none."""
        return [name for name in names if self[name[name.rfind(".") :]] and (name[0] != "." or self.wants(name))]

    def wants(self, name: str) -> bool:
        """Whether a name has a wanted ending."""
        return suffix_of(name) in self._suffixes

"""Which file names count as media in a folder, by their endings; what a file really is, its bytes tell."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Collection, Sequence

# fmt: off
VIDEO_SUFFIXES = frozenset(
    (
        ".264",
        ".265",
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
        ".pbm",
        ".pgm",
        ".png",
        ".pnm",
        ".ppm",
        ".tif",
        ".tiff",
        ".webp",
    }
)
"""Endings of the still pictures and animations that `media.sniff` knows."""

ALL_MEDIA_SUFFIXES = VIDEO_SUFFIXES | IMAGE_SUFFIXES


def suffix_of(name: str) -> str:
    """Lower-case ending of a file name, with its dot."""
    return os.path.splitext(name)[1].lower()


def other_endings(names: Sequence[str]) -> list[str]:
    """Lower-case endings of those file names that are no media's by their ending."""
    return [ending for name in names if (ending := suffix_of(name)) not in ALL_MEDIA_SUFFIXES]


class Endings:
    """Endings to look for, quickly: among a million names nothing is split that need not be.

    Args:
        suffixes: Lower-case endings with their dots.
    """

    def __init__(self, suffixes: Collection[str]) -> None:
        self._suffixes = frozenset(suffixes)
        self._as_spelt = self._suffixes | {suffix.upper() for suffix in suffixes}

    def wants(self, name: str) -> bool:
        """Whether a file name has such an ending; one that is nothing but an ending (``.mp4``) has none."""
        return suffix_of(name) in self._suffixes

    def sorted_names(self, names: Sequence[str]) -> list[str]:
        """Those of some file names that have such an ending, in the order of their bytes."""
        as_spelt = self._as_spelt
        found = [name for name in names if name[name.rfind(".") :] in as_spelt]
        if len(found) < len(names):
            found += [name for name in names if name[name.rfind(".") :] not in as_spelt and self.wants(name)]
        sort_by_bytes(found)
        hidden, others = bisect_left(found, "."), bisect_left(found, chr(ord(".") + 1))
        found[hidden:others] = filter(self.wants, found[hidden:others])
        return found


def sort_by_bytes(names: list[str]) -> None:
    """Sort names in place, in the order of ``os.fsencode``."""
    # ASCII is in the order of its bytes as it is; among other names surrogates are not.
    names.sort(key=None if "".join(names).isascii() else os.fsencode)

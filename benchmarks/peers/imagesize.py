"""imagesize: a header parser in pure Python."""

from __future__ import annotations

import imagesize

from benchmarks.peers.kinds import Engine, Size, one_by_one

PACKAGES = ("imagesize",)


def size_of(path: str) -> Size:
    """Stored size of one picture; looking for EXIF as well, its default, would cost it more."""
    try:
        width, height = imagesize.get(path, exif_rotation=False)
    except (OSError, ValueError):
        return None
    return (width, height) if width >= 0 else None


ENGINES = [Engine("imagesize", one_by_one(size_of), "steady")]

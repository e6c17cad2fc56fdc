"""imagesize: a header parser in pure Python."""

from __future__ import annotations

from importlib.metadata import version

import imagesize

from framefeed.bench._peers import Engine, InProcess, Size


def size_of(path: str) -> Size:
    """Stored size of one picture; looking for EXIF as well, its default, would cost it more."""
    try:
        width, height = imagesize.get(path, exif_rotation=False)
    except (OSError, ValueError):
        return None
    return (width, height) if width >= 0 else None


def versions() -> dict[str, str]:
    """The library."""
    return {"imagesize": version("imagesize")}


def engines() -> list[Engine]:
    """The one way."""
    return [Engine("imagesize", lambda processes: InProcess(size_of), "steady")]

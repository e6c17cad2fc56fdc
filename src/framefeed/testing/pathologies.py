"""The list of pathologies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from framefeed.testing.clips import ClipSpec, write_clip
from framefeed.testing.pathology import Pathology

_OPEN_GOP = ClipSpec(
    b_frames=None,
    gop=None,
    codec_options={"x264-params": "open-gop=1:keyint=28:min-keyint=28:scenecut=0:bframes=3:b-adapt=0"},
)


def iter_pathologies() -> Iterator[Pathology]:
    """Yield every pathology that PyAV can make, sorted by name."""
    yield from sorted(_table().values(), key=lambda pathology: pathology.name)


def pathology(name: str) -> Pathology:
    """Look up a pathology by file name.

    Raises:
        KeyError: If there is none; the message lists the known.
    """
    if name not in _table():
        raise KeyError(f"no pathology {name!r}; known: {', '.join(sorted(_table()))}")
    return _table()[name]


@lru_cache(maxsize=1)
def _table() -> dict[str, Pathology]:
    pathologies = [
        _clip("base.mp4", "M03", ClipSpec()),
        _clip("base.mkv", "M03", ClipSpec()),
        _clip("closed_gop.ts", "M09", ClipSpec()),
        _clip("open_gop.mp4", "M04", _OPEN_GOP),
        _clip("open_gop.mkv", "M04", _OPEN_GOP),
        _clip("open_gop.ts", "M04", _OPEN_GOP),
        _clip("start_8s.mp4", "M05", ClipSpec(start_seconds=8.333)),
        _clip("start_8s.mkv", "M05", ClipSpec(start_seconds=8.333)),
        _clip("no_pts.avi", "M07", ClipSpec()),
        _clip("one_frame.mp4", "M16", ClipSpec(num_frames=1)),
        _clip("rotated_90.mp4", "P01", ClipSpec(rotation=90)),
    ]
    return {pathology.name: pathology for pathology in pathologies}


def _clip(name: str, number: str, spec: ClipSpec) -> Pathology:
    def write(path: Path) -> None:
        write_clip(path, spec)

    return Pathology(name, number, write, spec.stamps, lambda path: None)

"""Tiny synthetic media whose frames name themselves, for testing decoders, loaders and training loops."""

from framefeed.testing.clips import ClipSpec, write_clip
from framefeed.testing.datasets import make_folder
from framefeed.testing.pathologies import iter_pathologies, pathology
from framefeed.testing.pathology import Pathology
from framefeed.testing.stamps import StampReading, draw_stamp, find_stamp, read_stamp, read_stamps

__all__ = [
    "ClipSpec",
    "Pathology",
    "StampReading",
    "draw_stamp",
    "find_stamp",
    "iter_pathologies",
    "make_folder",
    "pathology",
    "read_stamp",
    "read_stamps",
    "write_clip",
]

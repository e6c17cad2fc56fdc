"""Let scans of few files have many chunks, each written to the journal at once: for tests of other rooms too."""

from __future__ import annotations

from framefeed.scanning import _chunks, _journal

OF_ONE_VIDEO = _chunks.VIDEO_WEIGHT


def use_small_chunks() -> None:
    """Survey each video in a chunk of its own, and write the journal after each; for the rest of this process."""
    _chunks.CHUNK_WEIGHT = OF_ONE_VIDEO
    _journal.WRITE_SECONDS = 0.0

"""decord's log levels. framefeed keeps FFmpeg's log for its errors and prints none of it, so that no level matters."""

from __future__ import annotations

__all__ = ["DEBUG", "ERROR", "FATAL", "INFO", "PANIC", "QUIET", "TRACE", "VERBOSE", "WARNING", "set_level"]

# FFmpeg's numbers (libavutil/log.h).
QUIET, PANIC, FATAL, ERROR, WARNING, INFO, VERBOSE, DEBUG, TRACE = -8, 0, 8, 16, 24, 32, 40, 48, 56


def set_level(lvl: int = ERROR) -> None:
    """Do nothing: FFmpeg's log is never printed."""

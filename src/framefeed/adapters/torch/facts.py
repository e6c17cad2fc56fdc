"""Metadata under TorchCodec's names, and ``cpu_fallback``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from framefeed.decode.metadata import VideoMetadata
from framefeed.media.colour_names import MATRICES, PRIMARIES, TRANSFERS

_RESERVED = (0, 3)
"""Codes of ITU-T H.273 that mean nothing yet; FFmpeg has a word for them too."""


@dataclass(frozen=True, slots=True)
class CpuFallbackStatus:
    """Status of falling back from GPU to CPU decoding. This version always decodes on the CPU: there is no fallback.

    ``bool(status)`` is True if there was a fallback; ``str(status)`` describes it.

    Attributes:
        status_known: Whether the status is known yet.
    """

    status_known: bool = True

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return "[CPU] Fallback status: No fallback required"


def in_torchcodecs_words(facts: VideoMetadata) -> VideoMetadata:
    """Give colour tags by name, and the rate that TorchCodec's samplers step by: frames over duration."""
    duration = facts.duration_seconds
    return replace(
        facts,
        average_fps=facts.num_frames / duration if duration else facts.average_fps or facts.average_fps_from_header,
        color_primaries=_named(PRIMARIES, facts.color_primaries),
        color_space=_named(MATRICES, facts.color_space),
        color_transfer_characteristic=_named(TRANSFERS, facts.color_transfer_characteristic),
    )


def _named(names: Mapping[int, str], code: int | str | None) -> str | None:
    if not isinstance(code, int):
        return code
    return names.get(code, "reserved" if code in _RESERVED else None)

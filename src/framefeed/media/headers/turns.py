"""EXIF's orientations as turns: degrees counter-clockwise, then mirrored left to right (EXIF 2.32 table 6)."""

from __future__ import annotations

_TURNS = {
    1: (0, False),
    2: (0, True),
    3: (180, False),
    4: (180, True),
    5: (270, True),
    6: (270, False),
    7: (90, True),
    8: (90, False),
}
_ORIENTATIONS = {turn: value for value, turn in _TURNS.items()}


def orientation_of(exif_value: int) -> tuple[int, bool]:
    """Translate EXIF's orientation.

    Args:
        exif_value: 1 to 8; anything else turns nothing.

    Returns:
        Degrees counter-clockwise, and whether the picture is mirrored left to right after that.
    """
    return _TURNS.get(exif_value, (0, False))


def exif_orientation(rotation: int, *, mirrored: bool) -> int:
    """EXIF's number of a rotation by 0, 90, 180 or 270 degrees, and a mirroring after it."""
    return _ORIENTATIONS[rotation, mirrored]

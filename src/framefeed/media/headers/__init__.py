"""Facts of still pictures, from their first bytes where those say it plainly, else from Pillow."""

from framefeed.media.headers.facts import HEAD_BYTES, CountedReads, OddHeader, StillHeader
from framefeed.media.headers.pictures import (
    FORMATS,
    MODES_WITHOUT_RULE,
    check_decodable,
    image_info,
    orientation_of,
    still_info,
    without_rule,
)
from framefeed.media.headers.stills import still_header

__all__ = [
    "FORMATS",
    "HEAD_BYTES",
    "MODES_WITHOUT_RULE",
    "CountedReads",
    "OddHeader",
    "StillHeader",
    "check_decodable",
    "image_info",
    "orientation_of",
    "still_header",
    "still_info",
    "without_rule",
]

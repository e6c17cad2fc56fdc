"""Facts of still pictures, from their first bytes where those say it plainly, else from Pillow."""

from framefeed.media.headers.facts import HEAD_BYTES, CountedReads, OddHeader, StillHeader
from framefeed.media.headers.pictures import (
    FORMATS,
    MODES_WITHOUT_RULE,
    check_decodable,
    describe_picture,
    image_info,
    still_info,
    without_rule,
)
from framefeed.media.headers.stills import still_header
from framefeed.media.headers.turns import orientation_of

__all__ = [
    "FORMATS",
    "HEAD_BYTES",
    "MODES_WITHOUT_RULE",
    "CountedReads",
    "OddHeader",
    "StillHeader",
    "check_decodable",
    "describe_picture",
    "image_info",
    "orientation_of",
    "still_header",
    "still_info",
    "without_rule",
]

"""Names of colour codes, against FFmpeg's own lists as PyAV has them."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import pytest
from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc

from framefeed.media import MATRICES, PRIMARIES, TRANSFERS
from framefeed.report._sections import RANGES, TAGS, UNSPECIFIED, count_codes

OTHER_NAMES = {
    "GAMMA22": "bt470m", "GAMMA28": "bt470bg", "LOG": "log100", "LOG_SQRT": "log316", "BT1361_ECG": "bt1361e",
    "ITU709": "bt709", "ITU601": "bt470bg", "MPEG": "tv (limited)", "JPEG": "pc (full)",
}  # fmt: skip
"""Where FFmpeg's constant and the name that it prints differ (libavutil/pixdesc.c)."""
MOST_CODE = 255
"""Of H.273, whose codes have 8 bits; FFmpeg 9 has codes of its own above."""


@pytest.mark.parametrize(
    ("names", "theirs"),
    [(PRIMARIES, ColorPrimaries), (TRANSFERS, ColorTrc), (MATRICES, Colorspace), (RANGES, ColorRange)],
)
def test_codes_have_the_names_that_ffmpeg_gives_them(names: dict[int, str], theirs: type[IntEnum]) -> None:
    for member in theirs:
        if member.name in {"UNSPECIFIED", "NB"} or member.value > MOST_CODE:
            continue
        ours = names[member.value]
        if (theirs, member.name) == (Colorspace, "BT2020"):
            assert ours == "bt2020nc"
        else:
            assert ours == OTHER_NAMES.get(member.name, member.name.lower().replace("_", "-"))


def test_counts_by_name() -> None:
    counts = count_codes(np.array([1, 1, 2, 9, 77, 77, 77]), PRIMARIES, 2)
    assert dict(zip(counts.names, counts.counts, strict=True)) == {
        "code 77": 3,
        "bt709": 2,
        UNSPECIFIED: 1,
        "bt2020": 1,
    }


def test_unspecified_codes_have_no_name() -> None:
    assert all(silent not in names for _, names, silent in TAGS.values())

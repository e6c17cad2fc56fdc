"""The card of a report says of proxies what the estimate says."""

from __future__ import annotations

from math import nan

import framefeed as ff
from framefeed.report import make_page
from tests.catalog.synthetic import catalog

MADE = ff.KindEstimate("h264 720p GOP 256", 3, 9_000, None, 4.0, 3.0, 5.0, 2_000, 6.0, 0.2, 3, 9_000)
LARGER = ff.KindEstimate("mpeg4 360p", 2, 800, None, 3.2, 3.0, 3.4, 0, 0.3, 0.1, 0, 0)
UNREAD = ff.KindEstimate("vp9 144p GOP 8", 1, 100, "it could not be sampled", nan, nan, nan, 0, 0.0, nan, 0, 0)


def test_the_card_shows_the_answer_and_why_kinds_stay() -> None:
    estimate = ff.ProxyEstimate((MADE, LARGER, UNREAD), {"it has an alpha channel": (1, 50)}, 256, 8, 2)
    page = make_page(catalog(["a.mp4"]), "page", estimate=estimate)
    assert estimate.answer() in page
    for text in (
        "4.0x (3.0 to 5.0)",
        "their proxies would have more bytes",
        "it could not be sampled",
        "alpha channel",
    ):
        assert text in page
    assert page.count(">stay<") == 3
    assert "the sample of proxies" in page
    assert "Smaller copies" not in make_page(catalog(["a.mp4"]), "page")

"""JPEGs made to do harm: the picture of Pillow or a typed error, in little memory, and never a crash."""

from __future__ import annotations

import pytest

from tests.programs import report_of

REFUSED = {
    "LimitExceeded": {"baseline of 65500 x 65500", "progressive of 65500 x 65500"},
    "UnsupportedCodec": {f"{kind} {what}" for kind in ("baseline", "progressive")
                         for what in ("as process c5", "as process cb", "of 12 bits")},
}  # fmt: skip
DAMAGED = {
    *(f"{kind} of 4096 x 1024" for kind in ("baseline", "progressive")),
    "baseline as process c9", "progressive as process ca", "baseline, random behind the header", "100 scans",
    *(f"restart {number} is missing" for number in (1, 4, 7)), "restart 1 is another", "restart 4 is another",
}  # fmt: skip
"""Of which libjpeg warns; Pillow does not hear it."""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    said: dict[str, str] = report_of("tests.decode.hard_jpegs")
    return said


def test_I01_I02_I05_I06_each_is_the_picture_of_pillow_or_refused_as_by_it(outcomes: dict[str, str]) -> None:
    odd = {
        name: said for name, said in outcomes.items() if not said.startswith(("the picture of", "refused by both: "))
    }
    assert odd == dict.fromkeys(DAMAGED, "refused, and Pillow gives a picture")
    assert "refused by both: a picture" not in outcomes.values()


def test_S04_I07_what_is_too_large_or_of_a_rare_kind_is_named(outcomes: dict[str, str]) -> None:
    for kind, names in REFUSED.items():
        assert {name for name, said in outcomes.items() if said == f"refused by both: {kind}"} == names


def test_most_of_them_are_pictures_and_most_cuts_are_not(outcomes: dict[str, str]) -> None:
    said = list(outcomes.values())
    assert said.count("the picture of Pillow") > 25
    assert said.count("refused by both: CorruptMedia") > 20

"""Tables and picture of docs/proxies.md are those of benchmarks/results."""

from __future__ import annotations

from benchmarks.proxies_page import FILLS, PAGE, PICTURE, draw, fill, read_results


def test_page_and_picture_are_those_of_the_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- figures: {name} -->" in page for name in FILLS)
    assert fill(page, read_results()) == page, "run: python -m benchmarks.proxies_page"
    assert draw(read_results()) == PICTURE.read_text(encoding="utf-8"), "run: python -m benchmarks.proxies_page"

"""Chart and table of docs/video-language-models.md are those of benchmarks/results."""

from __future__ import annotations

from benchmarks.vlm_chart import PAGE, PICTURE, draw, fill, read_points, tabulate


def test_chart_and_table_are_made_from_the_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert tabulate() in page
    assert fill(page) == page, "run: python -m benchmarks.vlm_chart"
    assert draw(read_points()) == PICTURE.read_text(encoding="utf-8"), "run: python -m benchmarks.vlm_chart"


def test_a_figure_that_differs_is_seen() -> None:
    page = PAGE.read_text(encoding="utf-8")
    changed = page.replace("| 252 of 482 |", "| 25 of 482 |")
    assert changed != page
    assert fill(changed) == page

"""Every module of the package belongs to a concern, whose lines are counted once."""

import re

import pytest

from benchmarks.structure import CONCERNS, PAGE, count_concerns, count_lines
from tests.house import Source, package_sources


def test_every_module_has_one_concern() -> None:
    lines = count_concerns(package_sources())
    assert sum(lines.values()) == sum(map(count_lines, package_sources()))
    assert lines.keys() == {concern for concern, _, _ in CONCERNS}


def test_a_module_without_a_concern_is_named() -> None:
    with pytest.raises(SystemExit, match=r"framefeed\.attic has no concern"):
        count_concerns([Source("framefeed.attic", "")])


def test_the_page_on_architecture_shows_the_lines_of_each_concern() -> None:
    """Within 5 %, or 20 lines: not every commit has to count again."""
    table = PAGE.read_text(encoding="utf-8").partition("<!-- figures: concerns -->")[2].partition("<!-- end -->")[0]
    rows = dict(re.findall(r"^\| (?!all of them)(.+?) \| ([\d,]+) \| .+ \|$", table, re.M))
    lines = count_concerns(package_sources())
    assert rows.keys() == lines.keys(), "run: python -m benchmarks.structure --write"
    shown = {concern: int(text.replace(",", "")) for concern, text in rows.items()}
    off = {
        each: (shown[each], lines[each]) for each in lines if abs(shown[each] - lines[each]) > max(20, lines[each] / 20)
    }
    assert not off, "run: python -m benchmarks.structure --write"
    assert all(f"| {bought} |" in table for _, bought, _ in CONCERNS)

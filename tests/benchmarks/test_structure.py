"""Every module of the package belongs to a concern, whose lines are counted once and have a ceiling."""

import re

import pytest

from benchmarks.structure import (
    CEILINGS,
    PAGE,
    count_concerns,
    count_lines,
    count_types,
    find_excesses,
    set_ceilings,
    tabulate_concerns,
)
from tests.house import Source, package_sources


@pytest.fixture(scope="module")
def lines() -> dict[str, int]:
    return count_concerns(package_sources())


def test_every_module_has_one_concern(lines: dict[str, int]) -> None:
    assert sum(lines.values()) == sum(map(count_lines, package_sources()))
    assert lines.keys() == CEILINGS.keys()


def test_a_module_without_a_concern_is_named() -> None:
    with pytest.raises(SystemExit, match=r"framefeed\.attic has no concern"):
        count_concerns([Source("framefeed.attic", "")])


def test_no_concern_is_above_its_ceiling(lines: dict[str, int]) -> None:
    assert find_excesses(lines) == []


def test_a_concern_above_its_ceiling_is_named_with_what_to_do() -> None:
    (message,) = find_excesses({**CEILINGS, "plans": CEILINGS["plans"] + 1})
    assert re.match(r"plans: [\d,]+ lines, at most [\d,]+: name in a page of design/ what leaves", message)


def test_ceilings_are_set_by_a_command() -> None:
    text = """    ("cache", 1_925, "frames", "cache"),\n    ("cache: codecs", 658, "cache", "cache.codecs"),\n"""
    assert set_ceilings(text, {"cache": 2000, "cache: codecs": 7}) == text.replace("1_925", "2_000").replace("658", "7")


def test_the_page_on_architecture_shows_lines_and_ceiling_of_each_concern(lines: dict[str, int]) -> None:
    """The lines within 5 %, or 20 lines: not every commit has to count again."""
    table = PAGE.read_text(encoding="utf-8").partition("<!-- figures: concerns -->")[2].partition("<!-- end -->")[0]
    counts = re.findall(r"^\| (?!all of them)(.+?) \| ([\d,]+) \| [\d,]+ \| .+ \|$", table, re.M)
    shown = {concern: int(count.replace(",", "")) for concern, count in counts}
    renew = "run: python -m benchmarks.structure --write"
    assert table.strip() == tabulate_concerns(shown, CEILINGS).strip(), renew
    off = {
        each: (shown[each], lines[each]) for each in lines if abs(shown[each] - lines[each]) > max(20, lines[each] / 20)
    }
    assert not off, renew


def test_types_are_counted_by_room_and_by_what_a_name_was_imported_as() -> None:
    base = Source(
        "framefeed.plan._base",
        """
import typing
from typing import Any, NoReturn as Never

class Base:
    rows: int
    _lines: int
    cells = typing.cast("int", 3)

    @property
    def size(self) -> Any: ...
    @cached_property
    def whole(self) -> "Base": ...
    @overload
    def pick(self, position: int) -> typing.Any: ...
    def pick(self, position: Any) -> list[Any]: ...
    def _fail(self) -> Never: ...
""",
    )
    others = Source(
        "framefeed.load._others",
        """
from framefeed.plan import _base

class Middle(_base.Base, Generic[int]): ...
class Last(Middle["rows"], object):
    def cast(self, fail: Callable[[], NoReturn]) -> typing.NoReturn:
        return self.column.cast("int")
class Apart: ...
""",
    )
    rooms = "plan / load / lerobot / adapters"
    assert count_types([base, others], "Base") == {
        f"results typed Any, {rooms}": [2, 0, 0, 0],
        f"annotations NoReturn, {rooms}": [1, 1, 0, 0],
        f"calls of cast, {rooms}": [1, 0, 0, 0],
        "subclasses of Base": 2,
        "public names of Base, properties / methods / fields": [2, 1, 1],
    }

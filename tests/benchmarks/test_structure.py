"""Every module of the package belongs to a concern, whose lines are counted once."""

import pytest

from benchmarks.structure import CONCERNS, count_concerns, count_lines
from tests.house import Source, package_sources


def test_every_module_has_one_concern() -> None:
    lines = count_concerns(package_sources())
    assert sum(lines.values()) == sum(map(count_lines, package_sources()))
    assert lines.keys() == {concern for concern, _, _ in CONCERNS}


def test_a_module_without_a_concern_is_named() -> None:
    with pytest.raises(SystemExit, match=r"framefeed\.attic has no concern"):
        count_concerns([Source("framefeed.attic", "")])

"""Every hard file that the tests make is answered with the types of errors of before.

Where a change is meant: ``python -m tests.golden.hard_files``; say in the commit which rows change, and why.
"""

from __future__ import annotations

import pytest

from tests.golden.hard_files import GROUPS, known_rows, rows_of
from tests.lengths import IS_ALL

KNOWN = known_rows()
_STEP = 1 if IS_ALL else 4
"""Of those with the same answers in a group, the first is asked again, and each so-manyth from there on."""


def _asked_again() -> set[str]:
    alike: dict[tuple[str, ...], list[str]] = {}
    for group, label, *answers in KNOWN:
        alike.setdefault((group, *answers), []).append(label)
    return {label for labels in alike.values() for label in labels[::_STEP]}


def test_no_group_is_left_out() -> None:
    assert {row[0] for row in KNOWN} == {*GROUPS, "lists"}


@pytest.mark.parametrize("group", [*GROUPS, "lists"])
def test_hard_files_have_the_error_types_of_the_golden(group: str) -> None:
    asked = _asked_again()
    known = [row for row in KNOWN if row[0] == group and row[1] in asked]
    rows = rows_of(group, [row[1] for row in KNOWN if row[1] not in asked])
    assert [row[1] for row in rows] == [row[1] for row in known]
    changed = [f"{now}, before {before[2:]}" for now, before in zip(rows, known, strict=True) if now != before]
    assert not changed, "\n".join(changed)

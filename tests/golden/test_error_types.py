"""Every hard file that the tests make is answered with the types of errors of before.

Where a change is meant: ``python -m tests.golden.hard_files``; say in the commit which rows change, and why.
"""

from __future__ import annotations

import pytest

from tests.golden.hard_files import GROUPS, known_rows, rows_of

KNOWN = known_rows()


def test_no_group_is_left_out() -> None:
    assert {row[0] for row in KNOWN} == {*GROUPS, "lists"}


@pytest.mark.parametrize("group", [*GROUPS, "lists"])
def test_hard_files_have_the_error_types_of_the_golden(group: str) -> None:
    rows, known = rows_of(group), [row for row in KNOWN if row[0] == group]
    assert [row[1] for row in rows] == [row[1] for row in known]
    changed = [f"{now}, before {before[2:]}" for now, before in zip(rows, known, strict=True) if now != before]
    assert not changed, "\n".join(changed)

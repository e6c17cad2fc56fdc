"""No clip of a plan changes unnoticed: frames, order, shares, forms, draws, rests, substitutes and batches.

Where a change is meant: ``python -m tests.golden.plans --renew``; say in the commit which entries change, and why.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.plans import GROUPS, documents, hash_documents, known
from tests.load import conftest

pytestmark = pytest.mark.usefixtures("kept_processes")
kept_processes = conftest.kept_processes
OF_LIBRARIES = {
    "rules",
    "orders",
    "windows",
    "untimed",
    "requests",
    "stills",
    "columns",
    "balanced",
    "shares",
    "unequal",
}
"""Groups that draw and choose with NumPy and PyArrow: the wheels are tried with these alone."""
_MOST_NAMED = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans")


@pytest.mark.slow
@pytest.mark.parametrize(
    "group", [pytest.param(group, marks=[pytest.mark.golden] * (group in OF_LIBRARIES)) for group in GROUPS]
)
def test_plans_are_those_of_the_golden(group: str, folder: Path) -> None:
    found = hash_documents(documents(group, folder))
    expected = {name: each for name, each in known().items() if name.startswith(f"{group}: ")}
    changed = [name for name in sorted(found.keys() | expected.keys()) if found.get(name) != expected.get(name)]
    named = "\n".join(f"  {name}" for name in changed[:_MOST_NAMED])
    assert not changed, (
        f"{len(changed)} of {len(expected)} entries changed:\n{named}\n"
        f"compare two checkouts: python -m tests.golden.plans --show {changed[0]!r}"
    )


def test_every_entry_is_of_a_group() -> None:
    assert {name.partition(": ")[0] for name in known()} == set(GROUPS)
    assert set(GROUPS) >= OF_LIBRARIES

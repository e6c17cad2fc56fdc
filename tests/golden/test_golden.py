"""Nothing that framefeed gives for generated media changes unnoticed.

Where a change is meant: ``python -m tests.golden.behaviour --renew``; say in the commit which entries change, and why.
"""

from __future__ import annotations

import json

import pytest

from tests.golden.behaviour import HASHES, documents, hashes_of


@pytest.mark.golden
@pytest.mark.filterwarnings("ignore:cache. about")
def test_behaviour_is_that_of_the_golden_hashes() -> None:
    found, known = hashes_of(documents({})), json.loads(HASHES.read_text())
    changed = [name for name in sorted(found.keys() | known.keys()) if found.get(name) != known.get(name)]
    assert not changed, "compare the documents of two commits: python -m tests.golden.behaviour FILE"

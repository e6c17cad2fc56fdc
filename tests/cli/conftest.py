from __future__ import annotations

import os
from typing import Any

import pytest

from framefeed.cli import main
from tests.cli.running import Answer


@pytest.fixture
def answer(capfd: pytest.CaptureFixture[str]) -> Answer:
    """Run ``framefeed WORDS`` in this process, check its exit code, and give what it prints: (out, err).

    With ``code=None`` any exit code will do.
    """

    def run_here(*words: str | os.PathLike[str], code: int | None = 0) -> Any:
        capfd.readouterr()
        ended = main(list(map(os.fspath, words)))
        printed = capfd.readouterr()
        assert code in (None, ended), printed
        return printed

    return run_here

"""Pages that list differences to another library: each row of their tables has a test of its name."""

from __future__ import annotations

from collections.abc import Callable

Test = Callable[..., None]


class Differences:
    """The rows of one page that have tests.

    Attributes:
        names: First cells of the tables, in the order of the tests.
    """

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str) -> Callable[[Test], Test]:
        """List a row of the tables and the test of it."""

        def listed(test: Test) -> Test:
            self.names.append(name)
            return test

        return listed

"""With this folder on PYTHONPATH, an interpreter and those that it starts have no optional package.

Neither the modules nor the metadata of the distributions named in FRAMEFEED_HIDDEN are found, as in an environment that
lacks them. It imports the standard library alone.
"""

import os
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution
from typing import Any

MODULES, DISTRIBUTIONS = (set(names.split(",")) for names in os.environ["FRAMEFEED_HIDDEN"].split(";"))


class Hiding:
    """A finder without some packages."""

    def __init__(self, finder: Any) -> None:
        self._finder = finder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] in MODULES else self._finder.find_spec(name, path, target)

    def find_distributions(self, context: Any) -> Iterable[Distribution]:
        found = getattr(self._finder, "find_distributions", lambda context: ())(context)
        return [each for each in found if each.metadata["Name"].lower() not in DISTRIBUTIONS]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]

"""Versions of installed packages, from their metadata, without importing them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

_REQUIREMENT = re.compile(r"^(?P<name>[\w.-]+)\s*(?P<bounds>[^;]*)(?:;.*\bextra\s*==\s*['\"](?P<extra>[\w-]+)['\"])?")

_SAME_MODULES = {"tensorflow": "tensorflow-cpu"}
"""Distribution -> another one that has the same modules."""


def describe_version() -> str:
    """Find the installed version of framefeed, as text for people."""
    return find_version("framefeed") or "(not installed: run from its sources)"


def find_version(name: str) -> str | None:
    """Find the version of a distribution, or of another that has its modules; None if neither is installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return find_version(_SAME_MODULES[name]) if name in _SAME_MODULES else None


@dataclass(frozen=True, slots=True)
class Requirement:
    """A distribution that framefeed requires."""

    name: str
    floor: str  # lowest version that the tests run against; empty for any
    extra: str  # the extra that it belongs to; empty if it is always needed
    installed: str | None

    @property
    def is_too_old(self) -> bool:
        """Whether the installed version is below the floor."""
        return self.installed is not None and _parse_release(self.installed) < _parse_release(self.floor)


def list_requirements() -> Iterator[Requirement]:
    """Yield the requirements of framefeed and its extras; none if framefeed is not installed."""
    try:
        declared = requires("framefeed") or []
    except PackageNotFoundError:
        return
    for line in declared:
        match = _REQUIREMENT.match(line)
        if match:
            floor = re.search(r">=\s*([\w.]+)", match["bounds"])
            extra, name = match["extra"] or "", match["name"]
            yield Requirement(name, floor[1] if floor else "", extra, find_version(name))


def _parse_release(text: str) -> tuple[int, ...]:
    """Parse the leading numbers of a version: ``2.13.0+cpu`` is (2, 13, 0)."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()

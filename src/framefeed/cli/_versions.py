"""Versions of what is installed, from its metadata: nothing is imported for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

_REQUIREMENT = re.compile(r"^(?P<name>[\w.-]+)\s*(?P<bounds>[^;]*)(?:;.*\bextra\s*==\s*['\"](?P<extra>[\w-]+)['\"])?")


def framefeed_version() -> str:
    """The installed version, or that there is none."""
    return installed_version("framefeed") or "(not installed: run from its sources)"


def installed_version(name: str) -> str | None:
    """Version of a distribution, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package that framefeed asks for.

    Attributes:
        name: Of the distribution.
        floor: Lowest version that the tests run against; empty for any.
        extra: The extra that brings it; empty for what is always needed.
        installed: Its version here, or None.
    """

    name: str
    floor: str
    extra: str
    installed: str | None

    @property
    def is_too_old(self) -> bool:
        """Whether it is installed in a version below the floor."""
        return self.installed is not None and _release(self.installed) < _release(self.floor)


def requirements() -> Iterator[Requirement]:
    """Yield what framefeed asks for, extras included; nothing where framefeed is not installed."""
    try:
        declared = requires("framefeed") or []
    except PackageNotFoundError:
        return
    for line in declared:
        found = _REQUIREMENT.match(line)
        if found:
            floor = re.search(r">=\s*([\w.]+)", found["bounds"])
            extra, name = found["extra"] or "", found["name"]
            yield Requirement(name, floor[1] if floor else "", extra, installed_version(name))


def _release(text: str) -> tuple[int, ...]:
    """Numbers of a version up to the first part that is none: ``2.13.0+cpu`` is (2, 13, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()

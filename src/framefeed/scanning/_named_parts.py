"""Find the parts of archives and of Parquet files that lists and roots name; each container is read once for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np

from framefeed._names import PartName, split_part
from framefeed._shown import show_name
from framefeed.errors import FramefeedError
from framefeed.media import Location, MediaSource, find_members
from framefeed.parallel import find_shortage, try_again_in_shortage
from framefeed.scanning._archives import ArchiveOptions, find_version, map_containers
from framefeed.scanning._rows import Listing, Located, SourceGroup


class _Container(NamedTuple):
    """A file with parts, by its path or URL, and what it is read as: "tar", "zip" or "parquet"."""

    scheme: str
    path: str


class _Parts(NamedTuple):
    """Where members of a container are, or why they cannot be read; and its version."""

    locations: Mapping[str, Location | FramefeedError]
    version: str


def find_named_parts(listing: Listing, options: ArchiveOptions) -> Listing:
    """Find the parts among the rows of a listing, and put groups of found parts in their place.

    A part that cannot be found is a row with its error.
    """
    members: dict[_Container, dict[str, None]] = {}
    for group in filter(_may_have_parts, listing.groups):
        for part in map(_split_outer, group.names):
            if part is not None:
                members.setdefault(_Container(part.scheme, part.container), {})[part.member] = None
    if not members:
        return listing
    paths, search = [each.path for each in members], partial(_search, options=options)
    parts = map_containers(search, paths, members.items(), options, listing.stats)
    by_container = dict(zip(members, parts, strict=True))
    groups, errors = list[SourceGroup](), dict[str, FramefeedError]()
    for group in listing.groups:
        groups += _cut_group(group, by_container, errors) if _may_have_parts(group) else [group]
    return replace(listing, groups=groups, unlistable=listing.unlistable | errors)


def _may_have_parts(group: SourceGroup) -> bool:
    return group.kind == "files" and not group.folder and "::" in "\0".join(group.names)


def _split_outer(name: str) -> PartName | None:
    """Split the name of a part; None for any other name, and for a part inside of a part, which is not read."""
    part = split_part(name)
    return None if part is None or split_part(part.container) is not None else part


def _search(item: tuple[_Container, Mapping[str, None]], options: ArchiveOptions) -> _Parts:
    (scheme, path), members = item

    def search() -> _Parts:
        source = MediaSource.of(path, options.storage_options)
        with source.opened() as reader:
            locations = find_members(
                scheme, members, reader, source.name, is_remote=source.is_remote, limits=options.limits,
                stamp=source.make_stamp(reader),
            )  # fmt: skip
            return _Parts(locations, find_version(source, reader))

    try:
        return try_again_in_shortage(search, show_name(path), "open")
    except FramefeedError as error:
        if find_shortage(error) is not None:
            raise
        return _Parts(dict.fromkeys(members, error), "")


def _cut_group(
    group: SourceGroup, by_container: Mapping[_Container, _Parts], errors: dict[str, FramefeedError]
) -> Iterator[SourceGroup]:
    """Cut a group to found parts of one container each, and all other sources; add the errors of parts."""
    locations, containers = list[Location](), list[_Container | None]()
    for name, part in zip(group.names, map(_split_outer, group.names), strict=True):
        container = None if part is None else _Container(part.scheme, part.container)
        location = None if part is None or container is None else by_container[container].locations[part.member]
        if isinstance(location, FramefeedError):
            errors[name] = location
        containers.append(container if isinstance(location, tuple) else None)
        locations.append(location if isinstance(location, tuple) else (0, 0))
    start = 0
    for container, run in groupby(containers):
        stop = start + len(list(run))
        names = group.names[start:stop]
        if container is None:
            yield SourceGroup("", names)
        else:
            offset, size = np.array(locations[start:stop], np.int64).T
            yield SourceGroup("", names, "parts", Located(size, [by_container[container].version] * len(names), offset))
        start = stop

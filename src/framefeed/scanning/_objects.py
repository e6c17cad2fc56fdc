"""List the objects of S3 below a prefix, or those that match a pattern, as a walk lists the files of folders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

import numpy as np

from framefeed._shown import show_name
from framefeed.errors import MissingMedia, UsageError
from framefeed.media import ListedObject, is_s3, list_objects
from framefeed.scanning._rows import ALL_MEDIA_SUFFIXES, Endings, Located, ScanStats, SourceGroup

_MEDIA = Endings(ALL_MEDIA_SUFFIXES)
_WILDCARDS = re.compile(r"(?:(?<=/)|^)(\*\*/|\*\*$)|((?:(?<=/)|^)\*)|(\*)")
_ANY_DEPTH, _ANY_START, _ANY = r"(?:[^/.][^/]*/)*", r"(?![.])[^/]*", r"[^/]*"
"""``**/``, ``*`` at the start of a name and within it: as in folders, hidden names match no wildcard."""
_BELOW = r"(?P<below>/.+)?"


def is_object_root(path: str) -> bool:
    """Whether a root is a bucket, a prefix in one that ends with a slash, or a pattern of objects."""
    return is_s3(path) and (path.endswith("/") or path.count("/") == 2 or is_object_glob(path))


def is_object_glob(path: str) -> bool:
    """Whether a root is a pattern of objects: ``*`` alone is a wildcard, because keys may have ``?`` and ``[``."""
    return is_s3(path) and "*" in path


def list_prefix(url: str, options: Mapping[str, Any], endings: Endings, stats: ScanStats) -> list[SourceGroup]:
    """List the objects below a prefix that have an ending of media, in the order of ``os.fsencode(url)``.

    Args:
        url: ``s3://bucket`` or ``s3://bucket/prefix/``.
        options: Of ``storage_options``, for this URL.
        endings: Endings of the objects to list.
        stats: Statistics to complete, of objects that are passed over.

    Raises:
        MissingMedia: There is no such object.
        UnreadableMedia: The bucket cannot be listed.
    """
    is_empty = True

    def select(page: list[ListedObject]) -> list[ListedObject]:
        nonlocal is_empty
        is_empty = is_empty and not page
        names = [_get_name(each.key) for each in page]
        is_media = [endings.has_ending(name) for name in names]
        others = [name for name, is_listed in zip(names, is_media, strict=True) if name and not is_listed]
        stats.passed_over.update(_MEDIA.count_others(others))
        return [each for each, is_listed in zip(page, is_media, strict=True) if is_listed]

    groups = _list(url, options, select)
    if is_empty:
        raise MissingMedia(
            f"{show_name(url)}: there is no object below it: check its spelling", source=show_name(url), stage="open"
        )
    return groups


def list_object_glob(url: str, options: Mapping[str, Any], endings: Endings, stats: ScanStats) -> list[SourceGroup]:
    """List the objects that match a pattern, in the order of ``os.fsencode(url)``.

    Objects match with any ending. Below a match, as in a folder, objects have an ending of media; but for patterns with
    ``**``, which match at each depth themselves.

    Args:
        url: With ``*`` within a name, or ``**`` for any number of folders.
        options: Of ``storage_options``, for this URL.
        endings: Endings of the objects below a match.
        stats: Statistics to complete, of objects that are passed over.

    Raises:
        UsageError: It matches nothing, or its bucket is a pattern.
        UnreadableMedia: The bucket cannot be listed.
    """
    bucket, _, pattern = url.removeprefix("s3://").partition("/")
    if "*" in bucket:
        raise UsageError(f"{show_name(url)}: the name of a bucket cannot be a pattern: name the bucket")
    translated = _translate(pattern)
    match = re.compile(translated if "**" in pattern else translated + _BELOW, re.DOTALL).fullmatch

    def is_listed(key: str) -> bool:
        matched = match(key)
        if matched is None or key.endswith("/"):
            return False
        if matched.groupdict().get("below") is None or endings.has_ending(_get_name(key)):
            return True
        stats.passed_over.update(_MEDIA.count_others([_get_name(key)]))
        return False

    first = f"s3://{bucket}/{pattern.partition('*')[0]}"
    groups = _list(first, options, lambda page: [each for each in page if is_listed(each.key)])
    if not groups:
        raise UsageError(f"{show_name(url)}: this pattern matches no object: check its spelling")
    return groups


def _translate(pattern: str) -> str:
    translated, end = "", 0
    for found in _WILDCARDS.finditer(pattern):
        translated += re.escape(pattern[end : found.start()])
        end = found.end()
        if found[1] is not None:
            translated += _ANY_DEPTH + (_ANY_START if found[1] == "**" else "")
        else:
            translated += _ANY if found[2] is None else _ANY_START
    return translated + re.escape(pattern[end:])


def _get_name(key: str) -> str:
    return key.rpartition("/")[2]


def _list(
    url: str, options: Mapping[str, Any], select: Callable[[list[ListedObject]], list[ListedObject]]
) -> list[SourceGroup]:
    """List the selected objects whose URLs begin so, as groups of one folder each."""
    bucket = "/".join(url.split("/")[:3])
    listed = [each for page in list_objects(url, options) for each in select(list(page))]
    # Servers other than AWS may have an order of their own.
    listed.sort(key=lambda each: os.fsencode(each.key))
    groups = []
    for folder, members in groupby(listed, lambda each: each.key.rpartition("/")[0] if "/" in each.key else None):
        objects = list(members)
        located = Located(np.array([each.size for each in objects], np.int64), [each.version for each in objects])
        names = [_get_name(each.key) for each in objects]
        groups.append(SourceGroup(bucket if folder is None else f"{bucket}/{folder}", names, located=located))
    return groups

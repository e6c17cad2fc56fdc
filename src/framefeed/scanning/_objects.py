"""List objects of S3 and the Hub below a prefix, or those that match a pattern, as a walk lists files."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any

import numpy as np

from framefeed._shown import show_name
from framefeed.errors import MediaError, MissingMedia, UsageError
from framefeed.media import ListedObject, MediaSource, is_http, is_listable, list_objects, split_root
from framefeed.scanning._rows import (
    ALL_MEDIA_SUFFIXES,
    Endings,
    Located,
    ScanStats,
    SourceGroup,
    get_archive_ending,
    get_suffix,
)

_MEDIA = Endings(ALL_MEDIA_SUFFIXES)
_WILDCARDS = re.compile(r"(?:(?<=/)|^)(\*\*/|\*\*$)|((?:(?<=/)|^)\*)|(\*)")
_ANY_DEPTH, _ANY_START, _ANY = r"(?:[^/.][^/]*/)*", r"(?![.])[^/]*", r"[^/]*"
"""``**/``, ``*`` at the start of a name and within it: as in folders, hidden names match no wildcard."""
_BELOW = r"(?P<below>/.+)?"


def is_object_root(path: str) -> bool:
    """Whether a root is a bucket or a repository, a prefix in one that ends with a slash, or a pattern of objects."""
    return is_listable(path) and (path.endswith("/") or is_object_glob(path) or not split_root(path)[1])


def is_object_glob(path: str) -> bool:
    """Whether a root is a pattern of objects: ``*`` alone is a wildcard, because keys may have ``?`` and ``[``."""
    return is_listable(path) and "*" in path


NO_HTTP_FOLDERS = "folders of http(s) cannot be listed: give a list with a URL in each line"


def is_http_folder(name: str) -> bool:
    """Whether a URL, or a shown one, seems to name a folder that no server lists."""
    return is_http(name) and name.endswith("/")


class Selection:
    """The objects of a list that are rows, by the rule of folders: archives only where no media lie below."""

    def __init__(
        self, bucket: str, endings: Endings, stats: ScanStats, text_ending: str, texts: dict[str, str]
    ) -> None:
        self._bucket, self._endings, self._stats = bucket, endings, stats
        self.text_ending, self.texts = text_ending, texts
        self._rows = list[ListedObject]()
        self._archives = defaultdict[str, list[ListedObject]](list)
        self._with_media = set[str]()

    def add_named(self, each: ListedObject) -> None:
        """Add an object with any ending."""
        self._rows.append(each)

    def add_below(self, each: ListedObject, folder: str) -> None:
        """Add an object below a folder, if it is media or an archive."""
        name = _get_name(each.key)
        if self._endings.has_ending(name):
            self._rows.append(each)
            self._with_media.add(folder)
        elif get_archive_ending(name):
            self._archives[folder].append(each)
        elif name and not self.add_text(each):
            self._stats.passed_over.update(_MEDIA.count_others([name]))

    def add_text(self, each: ListedObject) -> bool:
        """Note an object if it has the ending of texts beside media; return whether it has."""
        if not self.text_ending or not each.key.endswith(self.text_ending):
            return False
        self.texts[f"{self._bucket}/{each.key}"] = each.version
        return True

    def finish(self) -> list[ListedObject]:
        """Return the objects that are rows."""
        for folder, archives in self._archives.items():
            if folder in self._with_media:
                self._stats.archives_beside += len(archives)
                self._stats.passed_over.update(get_suffix(each.key) for each in archives)
            else:
                self._rows += archives
        return self._rows


def list_prefix(url: str, options: Mapping[str, Any], selected: Selection) -> list[SourceGroup]:
    """List the objects below a prefix that have an ending of media, in the order of ``os.fsencode(url)``.

    Archives are listed if nothing else is, as of folders.
    """
    is_empty = True
    for page in list_objects(url, options):
        is_empty = is_empty and not page
        for each in page:
            selected.add_below(each, "")
    if is_empty:
        raise MissingMedia(
            f"{show_name(url)}: there is no object below it: check its spelling", source=show_name(url), stage="open"
        )
    return _make_groups(url, selected.finish())


def check_object(source: MediaSource) -> None:
    """Check that an object is there; its other errors are those of its row.

    If it is missing, the message names a prefix of this name.
    """
    try:
        with source.opened() as reader:
            reader.stat()
    except MissingMedia as error:
        if is_listable(source.path) and (hint := _find_prefix(source)):
            raise MissingMedia(f"{source.name}: {hint}", source=source.name, stage="open") from error
        if is_http_folder(source.path):
            raise MissingMedia(f"{source.name}: {NO_HTTP_FOLDERS}", source=source.name, stage="open") from error
        raise
    except MediaError:
        pass


def _find_prefix(source: MediaSource) -> str:
    """Say that objects lie below a name; "" if none do, or the bucket cannot be listed."""
    with suppress(MediaError):
        page = next(iter(list_objects(f"{source.path}/", source.options or {})), None)
        if page:
            return f"no such object, but there are objects below {source.name}/: write the slash"
    return ""


def list_object_glob(url: str, options: Mapping[str, Any], selected: Selection) -> list[SourceGroup]:
    """List the objects that match a pattern, in the order of ``os.fsencode(url)``.

    Objects match with any ending. Below a match, as in a folder, objects have an ending of media, or are archives; but
    for patterns with ``**``, which match at each depth themselves.
    """
    bucket, pattern = split_root(url)
    if "*" in bucket:
        raise UsageError(f"{show_name(url)}: the name of a bucket cannot be a pattern: name the bucket")
    translated = _translate(pattern)
    match = re.compile(translated if "**" in pattern else translated + _BELOW, re.DOTALL).fullmatch
    begin, beside = pattern.partition("*")[0], list[ListedObject]()
    if selected.text_ending:  # The text of a.mp4 does not begin with "a.m".
        begin = begin[: len(begin) - len(_get_name(begin))] + _get_name(begin).partition(".")[0]
    for page in list_objects(f"{bucket}/{begin}", options):
        for each in page:
            matched = match(each.key)
            if matched is None or each.key.endswith("/"):
                beside += [each] if selected.text_ending and each.key.endswith(selected.text_ending) else []
                continue
            if matched.groupdict().get("below") is None:
                selected.add_named(each)
            else:
                selected.add_below(each, each.key[: matched.start("below")])
    listed = selected.finish()
    if not listed:
        literal = "; ? and [ belong to the key, and only *, ** and {} are patterns" if set("?[") & set(pattern) else ""
        raise UsageError(f"{show_name(url)}: this pattern matches no object: check its spelling{literal}")
    stems = {os.path.splitext(each.key)[0] for each in listed} if beside else set()
    for each in beside:  # Others may be texts of media that do not match.
        if each.key.removesuffix(selected.text_ending) in stems:
            selected.add_text(each)
    return _make_groups(url, listed)


def _translate(pattern: str) -> str:
    translated, end = "", 0
    for wildcard in _WILDCARDS.finditer(pattern):
        translated += re.escape(pattern[end : wildcard.start()])
        end = wildcard.end()
        if wildcard[1] is not None:
            translated += _ANY_DEPTH + (_ANY_START if wildcard[1] == "**" else "")
        else:
            translated += _ANY if wildcard[2] is None else _ANY_START
    return translated + re.escape(pattern[end:])


def _get_name(key: str) -> str:
    return key.rpartition("/")[2]


def _make_groups(url: str, listed: list[ListedObject]) -> list[SourceGroup]:
    """Make groups of one folder each of objects in the bucket of a URL."""
    bucket = split_root(url)[0]
    # Servers other than AWS may have an order of their own.
    listed.sort(key=lambda each: os.fsencode(each.key))
    groups = []
    for folder, members in groupby(listed, lambda each: each.key.rpartition("/")[0] if "/" in each.key else None):
        objects = list(members)
        located = Located(np.array([each.size for each in objects], np.int64), [each.version for each in objects])
        names = [_get_name(each.key) for each in objects]
        groups.append(SourceGroup(bucket if folder is None else f"{bucket}/{folder}", names, located=located))
    return groups

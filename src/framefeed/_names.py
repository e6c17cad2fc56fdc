r"""Convert names of sources to stored texts and back: relative to the root if there is one, and always valid UTF-8.

A file name is bytes; Python represents bytes that are not UTF-8 as lone surrogates (``os.fsdecode``), which Arrow
strings must not contain. Each is stored as NUL and four hexadecimal digits: ``caf\xe9.mp4`` as ``caf\0dce9.mp4``. No
file name contains a NUL, so every other name is stored unchanged, and opening an escaped name by mistake fails instead
of opening another file.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import quote

from framefeed._checks import check_path
from framefeed._shown import show_name
from framefeed.errors import UsageError

_PART = re.compile("(tar|zip|parquet)://(.*?)::(.+)", re.DOTALL)
_HTTP = re.compile(r"https?://", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile("\0(d[89a-f][0-9a-f]{2})")


def escape(name: str) -> str:
    """Make a name valid UTF-8; `unescape` restores it."""
    return name if name.isascii() else _SURROGATE.sub(lambda match: f"\0{ord(match[0]):04x}", name)


def unescape(text: str) -> str:
    """Restore the name that `escape` stored."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if "\0" in text else text


def make_printable(text: str) -> str:
    r"""Make a message valid UTF-8: surrogates become text such as ``\udce9``."""
    return text.encode("utf-8", "backslashreplace").decode()


def escape_invisible(text: str) -> str:
    r"""Show control and formatting characters, and bytes that are not UTF-8, as escapes such as ``\x1b``.

    The result is safe to print: it cannot move a cursor or change the direction of the text.
    """
    return (
        text
        if text.isprintable()
        else "".join(char if char.isprintable() else _escape_character(char) for char in text)
    )


def _escape_character(char: str) -> str:
    # os.fsdecode stores the byte 0xe9 of a name that is not UTF-8 as U+DCE9; users know the byte.
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode()


def remove_dots(path: str) -> str:
    """Remove ``..`` from a path for a message, if the shorter path names the same file."""
    if ".." not in path.split(os.sep) or is_url(path) or "\0" in path:
        return path
    short = os.path.normpath(path) + (os.sep if path.endswith(os.sep) else "")
    # Behind a symbolic link, ".." is not the folder before it.
    return short if os.path.realpath(short) == os.path.realpath(path) else path


def is_url(name: str) -> bool:
    """Whether a name is an URL rather than a path."""
    return "://" in name


def check_local_path(name: str, path: object, example: str) -> str:
    """Check that a value is a path that can be written to, as `check_path` does, and not a URL."""
    return refuse_url(name, check_path(name, path, example))


def refuse_url(name: str, path: str) -> str:
    """Return the path of something that is written on this machine alone.

    A URL would become a folder with the name of its protocol.
    """
    if is_url(path):
        kind = "folder" if name.endswith("folder") or path.endswith("/") else "file or folder"
        raise UsageError(f"{name}: URLs cannot be written here, got {show_name(path)}: name a local {kind}")
    return path


class PartName(NamedTuple):
    """The name of a source inside another, ``tar://member::container``."""

    scheme: str
    member: str
    container: str

    @property
    def text(self) -> str:
        """The whole name; ``::`` and ``%`` of the member are escaped, and a colon at its end."""
        member = self.member.replace("%", "%25").replace("::", "%3A%3A")
        member = f"{member[:-1]}%3A" if member.endswith(":") else member
        return f"{self.scheme}://{member}::{self.container}"


def split_part(name: str) -> PartName | None:
    """Split the name of a source inside another; None for any other name.

    >>> split_part("tar://a%3A%3Ab.mp4::https://host/x.tar")
    PartName(scheme='tar', member='a::b.mp4', container='https://host/x.tar')
    """
    match = _PART.fullmatch(name) if is_url(name) else None
    if match is None:
        return None
    return PartName(match[1], match[2].replace("%3A", ":").replace("%25", "%"), match[3])


def is_remote(name: str) -> bool:
    """Whether a name is an URL, or that of a part of an object by URL."""
    part = split_part(name)
    return is_url(name if part is None else part.container)


def make_absolute(name: str, folder: str | None = None) -> str:
    """Join a path to a folder, by default the current one, that of a container too; URLs stay as they are."""
    if not name or "\0" in name:
        return name
    if is_url(name):
        part = split_part(name)
        return name if part is None else part._replace(container=make_absolute(part.container, folder)).text
    if folder is not None and is_url(folder):
        return _join_url(folder, name)
    joined = os.path.join(os.getcwd() if folder is None else folder, name)
    # Behind a symbolic link, ".." is not the folder before it: only the system can resolve such a path.
    return joined if ".." in joined.split(os.sep) else os.path.normpath(joined)


def make_folder_absolute(folder: str) -> str:
    """Make the path of a folder absolute; the URL of one stays as it is."""
    return folder if is_url(folder) else os.path.abspath(folder)


def _join_url(folder: str, name: str) -> str:
    """Join a file's name to the URL of a folder; absolute paths stay as they are."""
    if os.path.isabs(name):
        return name
    # Keys of buckets are written as they are.
    return f"{folder.rstrip('/')}/{quote(os.fsencode(name)) if _HTTP.match(folder) else name}"


def to_stored_name(name: str, root: str | None) -> str:
    """Convert a path for the ``source`` column: relative to ``root`` if it is below it, with ``/`` between folders."""
    if root is not None and name.startswith(os.path.join(root, "")):
        return escape(name[len(os.path.join(root, "")) :].replace(os.sep, "/"))
    part = None if root is None else split_part(name)
    if part is not None:
        return escape(part._replace(container=unescape(to_stored_name(part.container, root))).text)
    return escape(name)


def resolve_name(text: str, root: str | None) -> str:
    """Convert a stored text to a path or URL."""
    name = unescape(text)
    return name if root is None else make_absolute(name, root)

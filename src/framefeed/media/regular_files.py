"""Regular files: looked at and opened, the system's errors turned into framefeed's."""

from __future__ import annotations

import errno
import os
import stat
from typing import Literal, NoReturn

from framefeed.errors import MissingMedia, StaleSource, UnreadableMedia
from framefeed.parallel.shortage import shortage_in


def stat_regular(path: str) -> os.stat_result:
    """Stat a path that must be a regular file.

    Raises:
        MissingMedia: There is nothing at the path.
        UnreadableMedia: It is a folder, FIFO, device or socket, or may not be looked at.
    """
    try:
        facts = os.stat(path)
    except OSError as error:
        raise_file_error(error, path, "open")
    if not stat.S_ISREG(facts.st_mode):
        kind = _KINDS.get(stat.S_IFMT(facts.st_mode), "a special file")
        advice = (
            "name a media file in it, or use ff.scan(folder), or ImageSequence(folder, fps=...) for a video of pictures"
            if stat.S_ISDIR(facts.st_mode)
            else "copy its bytes into a regular file first"
        )
        raise UnreadableMedia(f"{path}: is {kind}, not a file: {advice}", source=path, stage="open")
    return facts


def kind_at(path: str) -> str | None:
    """Name what stands at a path and is no regular file, such as "a FIFO"; None for a file, or nothing."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return None
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "special")


def raise_file_error(error: OSError, path: str, stage: Literal["open", "read"]) -> NoReturn:
    """Raise framefeed's error for one of the system's about a file.

    Raises:
        MissingMedia: There is nothing at the path.
        StaleSource: The file, or the device that it is on, went away.
        UnreadableMedia: It cannot be opened or read.
        OSError: The error itself, where it is no fact about the file: a shortage of the machine, or a descriptor that
            we closed.
    """
    if error.errno == errno.EBADF or shortage_in(error) is not None:
        raise error
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise MissingMedia(f"{path}: no such file", source=path, stage=stage) from error
    if error.errno in (errno.ESTALE, errno.ENXIO):
        raise StaleSource(
            f"{path}: has disappeared ({error.strerror}): scan or index it again", source=path, stage=stage
        ) from error
    done = "opened" if stage == "open" else "read"
    raise UnreadableMedia(
        f"{path}: cannot be {done}: {error.strerror or error}",
        source=path,
        stage="read" if error.errno == errno.EIO else stage,
    ) from error


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: str) -> int:
    """Open a regular file for reading and return its descriptor; errors as ``stat_regular``."""
    stat_regular(path)
    try:
        # O_NONBLOCK: should a FIFO take the file's place between the two calls, opening it does not hang.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise_file_error(error, path, "open")

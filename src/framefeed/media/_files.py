"""Regular files: looked at and opened, the system's errors turned into framefeed's.

Scratch files: claimed while their writer lives, so that what a killed one left can be told from work going on.

Where something may be written: in a folder that is there, over nothing but one of its own kind.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal, NoReturn

from framefeed.errors import MissingMedia, StaleSource, UnreadableMedia, UsageError
from framefeed.parallel import raise_shortage, shortage_in


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


@contextmanager
def claimed(path: str) -> Iterator[None]:
    """Create a file and claim it for as long as the context lasts, also under another name.

    Args:
        path: Of the file, which others do not write.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def remove_unclaimed(folder: str, pattern: re.Pattern[str], kept: str) -> None:
    """Remove the files that killed writers left.

    Args:
        folder: Where they lie.
        pattern: What their names match as a whole.
        kept: Name of one that stays, claimed or not.
    """
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name != kept and pattern.fullmatch(entry.name)]
    for name in names:
        with suppress(OSError):  # Another process removed or claims it, or this one may not write there.
            _remove_unclaimed(os.path.join(folder, name))


def _remove_unclaimed(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            os.unlink(path)
    finally:
        os.close(descriptor)


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def check_writable(path: str, noun: str, example: str, is_own: Callable[[str], bool]) -> None:
    """Make sure that writing a file at a path replaces nothing but one of its kind, or an empty file.

    Args:
        path: Where it is to be written.
        noun: What it is, for messages.
        example: A good name.
        is_own: Whether a regular file of some bytes is of its kind.

    Raises:
        UsageError: There is no such folder, or something else stands there.
    """
    folder, kind = os.path.dirname(path) or ".", kind_at(path)
    if not os.path.isdir(folder):
        raise UsageError(f"cannot write {path}: there is no folder {folder!r}; make it first")
    if os.path.isdir(path):
        raise UsageError(f"cannot write {path}: it is a folder; name a file in it, such as {example}")
    if kind is not None:
        raise UsageError(f"cannot write {path}: {kind} is already there; choose another name")
    if os.path.lexists(path) and not _may_be_replaced(path, is_own):
        raise UsageError(
            f"cannot write {path}: the file that is already there is not a {noun}, and is not overwritten; choose "
            "another name"
        )


def _may_be_replaced(path: str, is_own: Callable[[str], bool]) -> bool:
    return os.path.isfile(path) and (not os.path.getsize(path) or is_own(path))


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Say of what the system refuses inside the block which file was to be written, and what to do about it.

    Raises:
        UsageError: It refused something.
        ResourceExhausted: Memory or the like ran out.
    """
    try:
        yield
    except OSError as error:
        raise_shortage(error, path, "write")
        raise cannot_write(path, error) from error


def cannot_write(path: str, error: OSError) -> UsageError:
    """Build the error for a file that cannot be written."""
    if is_full(error):
        advice = "make room on the disk, or choose another one"
    else:
        advice = "choose another name, in a folder that may be written to"
    return UsageError(f"cannot write {path}: {error.strerror or error}; {advice}")


def is_full(error: BaseException) -> bool:
    """Whether there is no room for what was to be written."""
    return isinstance(error, OSError) and error.errno in _FULL

"""Regular files: open and check them, and write them whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal, NoReturn

from framefeed._shortage import find_shortage, raise_shortage
from framefeed.errors import MissingMedia, StaleSource, UnreadableMedia, UsageError


def stat_regular(path: str) -> os.stat_result:
    """Stat a path that must be a regular file.

    Raises:
        MissingMedia: There is nothing at the path.
        UnreadableMedia: It is a folder, FIFO, device or socket, or its folder may not be read.
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


def name_special_kind(path: str) -> str | None:
    """Name the kind of special file at a path, such as "a FIFO"; None for a regular file, or nothing."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return None
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "special")


def describe_dead_link(path: str) -> str:
    """Say where a path leads that names nothing, ": it is a link to ..."; "" if it is not a link."""
    try:
        return f": it is a link to {os.readlink(path)}, which does not exist"
    except OSError:
        return ""


def raise_file_error(error: OSError, path: str, stage: Literal["open", "read"]) -> NoReturn:
    """Raise framefeed's error for an OSError about a file.

    Raises:
        MissingMedia: There is nothing at the path.
        StaleSource: The file, or the device that it is on, went away.
        UnreadableMedia: It cannot be opened or read.
        OSError: The error itself, if the file did not cause it: a shortage of the machine, or a descriptor that
            framefeed closed.
    """
    if error.errno == errno.EBADF or find_shortage(error) is not None:
        raise error
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise MissingMedia(f"{path}: no such file{describe_dead_link(path)}", source=path, stage=stage) from error
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
        # O_NONBLOCK: opening does not hang if a FIFO replaces the file between the two calls.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise_file_error(error, path, "open")


@contextmanager
def holding_file(path: str) -> Iterator[None]:
    """Create a file and hold its lock until the context ends, also if the file is renamed meanwhile.

    The lock shows `remove_unlocked` that the writer lives.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        with suppress(OSError):  # Some network file systems have no locks; there, `remove_unlocked` removes nothing.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


_HELD: dict[str, int] = {}


def hold_shared(path: str) -> None:
    """Hold a file until this process ends: `remove_unlocked` leaves it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with suppress(OSError):  # As in `holding_file`.
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    before, _HELD[path] = _HELD.get(path), descriptor
    if before is not None:
        os.close(before)


def get_user_cache(name: str) -> str:
    """Get the path of a folder in the user's cache folder."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(given if os.path.isabs(given) else os.path.expanduser("~/.cache"), "framefeed", name)


def remove_unlocked(folder: str, pattern: re.Pattern[str], kept: str) -> None:
    """Remove the scratch files whose lock no process holds: their writers were killed.

    ``pattern`` matches the whole name of a scratch file; the file named ``kept`` stays, locked or not.
    """
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name != kept and pattern.fullmatch(entry.name)]
    for path in (os.path.join(folder, name) for name in names):
        with suppress(OSError):  # Another process removed or holds it, or this one may not write there.
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    os.unlink(path)
            finally:
                os.close(descriptor)


_LOCKING_ATTEMPTS = 100


def lock_folder(folder: str | os.PathLike[str], name: str | None = None) -> int:
    """Create a folder if there is none, lock it, and return the locked descriptor.

    If another process has locked it, BlockingIOError is raised. With ``name``, a file in it is made and locked in its
    place: on NFS a folder is locked for its own machine alone, and a file that is not open for writing not at all.
    """
    path = os.fspath(folder) if name is None else os.path.join(folder, name)
    flags = os.O_RDONLY | os.O_DIRECTORY if name is None else os.O_RDWR | os.O_CREAT
    for _ in range(_LOCKING_ATTEMPTS):
        with suppress(FileExistsError):
            os.mkdir(folder)
        try:
            descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:  # Removed just now.
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A process that ended between the two calls has removed the locked folder.
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), os.fspath(folder))


def unlock(descriptor: int) -> None:
    """Unlock what `lock_folder` locked, and close it; a child that was forked meanwhile has the descriptor too."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def check_writable(path: str, noun: str, example: str, is_own: Callable[[str], bool]) -> None:
    """Check that a file written at a path would replace nothing but a file of its kind, or an empty one.

    ``noun`` and ``example`` are for messages; ``is_own`` says whether a regular file that is not empty is of its kind.
    """
    folder, kind = os.path.dirname(path) or ".", name_special_kind(path)
    if not os.path.isdir(folder):
        raise UsageError(f"cannot write {path}: there is no folder {folder!r}; make it first")
    if os.path.isdir(path):
        raise UsageError(f"cannot write {path}: it is a folder; name a file in it, such as {example}")
    if kind is not None:
        raise UsageError(f"cannot write {path}: {kind} is already there; choose another name")
    may_be_replaced = os.path.isfile(path) and (not os.path.getsize(path) or is_own(path))
    if os.path.lexists(path) and not may_be_replaced:
        raise UsageError(
            f"cannot write {path}: the file that is already there is not a {noun}, and is not overwritten; choose "
            "another name"
        )


@contextmanager
def write_errors(path: str) -> Iterator[None]:
    """Turn an OSError of writing a file inside the block into an error with the path and advice."""
    try:
        yield
    except OSError as error:
        raise_shortage(error, path, "write")
        raise make_write_error(path, error) from error


def make_write_error(path: str, error: OSError) -> UsageError:
    """Build the error for a file that cannot be written."""
    if is_full(error):
        advice = "make room on the disk, or choose another one"
    else:
        advice = "choose another name, in a folder that may be written to"
    return UsageError(f"cannot write {path}: {error.strerror or error}; {advice}")


def is_full(error: BaseException) -> bool:
    """Whether an error says that the disk, the quota or the file is full."""
    return isinstance(error, OSError) and error.errno in _FULL


@contextmanager
def replacing(path: str | os.PathLike[str], *, is_durable: bool = False) -> Iterator[str]:
    """Give the path of an empty file beside a target, which replaces the target when the block ends without an error.

    While the block runs, the file is locked: one that is not is left of a process that was killed, see
    `remove_scratch`. Its name does not depend on the target's, which may be as long as a name can be. With
    ``is_durable``, the disk has the new content at the end, so that a loss of power leaves the old or the new one.
    """
    target = os.fspath(path)
    scratch = make_scratch_path(target)
    try:
        with holding_file(scratch):
            yield scratch
            if is_durable:
                _flush(scratch, os.O_RDONLY)
            os.replace(scratch, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch)
        raise


SCRATCH = re.compile(r"\.framefeed-[0-9a-f]{16}\.tmp")
"""Names of `make_scratch_path`, of the files that `replacing` writes."""


def make_scratch_path(target: str) -> str:
    """Make the path of a file beside a target that replaces it when it is whole."""
    return os.path.join(os.path.dirname(target), f".framefeed-{os.urandom(8).hex()}.tmp")


def remove_scratch(folder: str) -> None:
    """Remove the scratch files in a folder that processes left which were killed in `replacing`."""
    with suppress(OSError):  # Left-over files do no harm.
        remove_unlocked(folder, SCRATCH, kept="")


def flush_folder(path: str) -> None:
    """Wait until the disk has the names of a folder's files, so that they outlast a loss of power."""
    _flush(path, os.O_RDONLY | os.O_DIRECTORY)


def _flush(path: str, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

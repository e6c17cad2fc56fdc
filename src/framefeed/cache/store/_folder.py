"""Manage the folder of a store: its owner and modes, its files, and its budget."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic, sleep

from framefeed._files import flush_folder, name_special_kind, remove_unlocked
from framefeed.cache.store._format import PART, SEALED, Refused, StoreOptions
from framefeed.errors import CacheError
from framefeed.parallel import find_shortage, make_shortage_error, try_again_in_shortage

_LOCK = "lock"
_PATIENCE_SECONDS = 20
_PAUSE_SECONDS = 0.002
_SHARES = 4
"""A writer reserves at most this fraction (1/4) of the rest of a budget, so that there is some for others."""


class BudgetReached(Exception):
    """The budget has no space for another clip.

    Args:
        is_final: Whether files on disk use it up; else other writers have reserved a part.
        max_bytes: The budget.
        needed: Bytes that the clip needs.
    """

    def __init__(self, is_final: bool, max_bytes: int, needed: int) -> None:
        super().__init__(is_final, max_bytes, needed)
        self.is_final = is_final
        self.max_bytes = max_bytes
        self.needed = needed


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A segment that is being written.

    Attributes:
        path: Of its file.
        name: That the sealed file will have.
        descriptor: Open for reading and writing; holds the lock that says that its writer lives.
        max_bytes: Largest size of its file.
    """

    path: str
    name: str
    descriptor: int
    max_bytes: int


class Folder:
    """A folder; it is made with the first part.

    Args:
        path: Of it.
        options: Of the store.

    Raises:
        CacheError: It cannot be trusted, or is no folder.
    """

    def __init__(self, path: str, options: StoreOptions) -> None:
        self.path = path
        self._options = options
        try:
            self.check()
        except FileNotFoundError:
            pass  # It is made when it is needed.
        except OSError as error:
            resource = find_shortage(error)
            if resource is not None:
                raise make_shortage_error(resource, path, "open") from error
            raise CacheError(
                f"{path}: the cache folder cannot be read: {error.strerror or error}; give a folder that this user can "
                "read and write"
            ) from error

    def check(self) -> os.stat_result:
        """Make sure that no other user can put files here; return the facts of the folder.

        Raises:
            CacheError: Another user can.
            OSError: There is no such folder.
        """
        facts = os.stat(self.path)
        if not stat.S_ISDIR(facts.st_mode):
            raise CacheError(
                f"{self.path}: expected a folder for the cache, found {name_special_kind(self.path) or 'a file'}: give "
                "an existing or a new folder"
            )
        if self._options.shared:
            return facts
        if facts.st_uid not in (os.geteuid(), 0):
            raise CacheError(
                f"{self.path}: the cache folder belongs to another user (id {facts.st_uid}), who could change its "
                "frames: use a folder of your own, or pass shared=True to trust this one"
            )
        if facts.st_mode & stat.S_IWOTH and not facts.st_mode & stat.S_ISVTX:
            raise CacheError(
                f"{self.path}: every user can write to the cache folder and change its frames: run 'chmod o-w' on it, "
                "or pass shared=True to trust it"
            )
        return facts

    def stamp(self) -> tuple[int, int, int] | None:
        """Return facts that change when a file is added or removed; None if there is no folder, or it is not trusted.

        Raises:
            OSError: A resource ran out.
        """
        try:
            facts = self.check()
        except (OSError, CacheError) as error:
            if find_shortage(error) is not None:
                raise
            return None
        return facts.st_dev, facts.st_ino, facts.st_mtime_ns

    def names(self) -> tuple[list[str], list[str]]:
        """List the segments: (sealed ones, parts); none if there is no folder.

        Raises:
            OSError: The folder cannot be read.
        """
        try:
            with os.scandir(self.path) as entries:
                names = [entry.name for entry in entries]
        except FileNotFoundError:
            names = []
        return [name for name in names if SEALED.fullmatch(name)], [name for name in names if PART.fullmatch(name)]

    def file(self, name: str) -> str:
        """Path of a file in it."""
        return os.path.join(self.path, name)

    def open_segment(self, name: str) -> int:
        """Open a sealed segment for reading, if it is a plain file; return its descriptor.

        Raises:
            Refused: It is a link, a folder, a pipe, a device, or another user's.
            OSError: It cannot be opened.
        """
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(self.file(name), flags)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Refused(
                    "the file is a symbolic link, and a cache reads regular files only: remove the link"
                ) from error
            raise
        facts = os.fstat(descriptor)
        is_file = stat.S_ISREG(facts.st_mode)
        if is_file and (self._options.shared or facts.st_uid in (os.geteuid(), 0)):
            return descriptor
        os.close(descriptor)
        if is_file:
            raise Refused(
                f"the file belongs to another user (id {facts.st_uid}): remove it, or pass shared=True to trust it"
            )
        raise Refused("expected a regular file, found a folder, pipe or device: remove it")

    def bytes_on_disk(self) -> int:
        """Bytes of all segments, parts included.

        Raises:
            OSError: The folder cannot be read.
        """
        sealed, parts = self.names()
        return sum(self._size(name) for name in (*sealed, *parts))

    def _size(self, name: str) -> int:
        try:
            return os.lstat(self.file(name)).st_size
        except FileNotFoundError:
            return 0

    def new_part(self, needed: int) -> Part:
        """Begin a segment, after removing the parts of dead writers.

        Args:
            needed: Bytes of the first clip.

        Raises:
            BudgetReached: The budget has no space for them.
            CacheError: The folder cannot be trusted.
            OSError: It cannot be written to.
        """
        make_folder(self.path, shared=self._options.shared)
        self.check()
        with self._locked():
            remove_unlocked(self.path, PART, kept="")
            name = f"frames-{secrets.token_hex(16)}"
            max_bytes = self._reserve(needed)
            path = self.file(f"{name}.{max_bytes}.part")
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path, flags, file_mode(shared=self._options.shared))
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BaseException:
                os.close(descriptor)
                os.unlink(path)
                raise
        return Part(path, f"{name}.arrow", descriptor, max_bytes)

    def seal(self, part: Part) -> None:
        """Rename a part that is complete and on disk to its final name.

        Raises:
            OSError: It cannot be done.
        """
        os.rename(part.path, self.file(part.name))

    def flush(self) -> None:
        """Flush the folder, so that the names of files survive a loss of power.

        Raises:
            OSError: It cannot be done.
        """
        try_again_in_shortage(lambda: flush_folder(self.path), self.path, "store")

    def remove(self, path: str) -> None:
        """Remove a file, if it can be."""
        with suppress(OSError):
            os.unlink(path)

    def clear(self) -> None:
        """Remove all segments except those that are being written.

        Raises:
            OSError: It cannot be done.
        """
        if not os.path.exists(self.path):
            return
        with self._locked():
            remove_unlocked(self.path, PART, kept="")
            for name in self.names()[0]:
                if stat.S_ISREG(os.lstat(self.file(name)).st_mode):
                    os.unlink(self.file(name))

    def _reserve(self, needed: int) -> int:
        most = max(needed, self._options.segment_bytes)
        if self._options.max_bytes is None:
            return most
        sealed, parts = self.names()
        # A part counts with its largest size, which is in its name.
        reserved = sum(map(self._size, sealed)) + sum(max(self._size(part), int(part.split(".")[1])) for part in parts)
        left = self._options.max_bytes - reserved
        if needed > left:
            is_final = needed > self._options.max_bytes - self.bytes_on_disk()
            raise BudgetReached(is_final, self._options.max_bytes, needed)
        return max(needed, min(most, left // _SHARES))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from beginning or removing parts.

        Raises:
            OSError: It cannot be done, or another process keeps the lock: that takes milliseconds, unless it hangs.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.file(_LOCK), flags, file_mode(shared=self._options.shared))
        try:
            _lock(descriptor)
            yield
        finally:
            with suppress(OSError):
                # A child forked meanwhile has the same lock: closing alone would leave it to that child.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def file_mode(*, shared: bool) -> int:
    """Return the mode of new files in the folder of a cache, before the umask."""
    return 0o666 if shared else 0o600


def make_folder(path: str, *, shared: bool) -> None:
    """Make the folder of a cache and its missing parents, so that they outlast a loss of power.

    Args:
        path: The folder.
        shared: Give the folder the mode that the umask allows; else only its owner may use it.
    """
    if os.path.isdir(path):
        return
    above = os.path.dirname(os.path.abspath(path))
    make_folder(above, shared=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o777 if shared else 0o700)
    with suppress(OSError):  # One that may be entered, but not read, cannot be flushed.
        flush_folder(above)


def _lock(descriptor: int) -> None:
    patience = monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if monotonic() > patience:
                # Not chained: its errno (EAGAIN) would be taken for a shortage.
                raise TimeoutError(errno.ETIMEDOUT, "another process holds the lock of the cache folder") from None
            sleep(_PAUSE_SECONDS)

"""Manage the folder of a store: its owner and modes, its files, and its budget.

Errors of the system are raised as they are, unless a docstring says otherwise.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic, sleep

from framefeed._files import flush_folder, name_special_kind
from framefeed._shortage import SuppressFaults
from framefeed.cache.store._files import Descriptor
from framefeed.cache.store._format import FILE, Refused, StoreOptions
from framefeed.errors import CacheError
from framefeed.parallel import try_again_in_shortage

_LOCK = "lock"
_PATIENCE_SECONDS = 20
_PAUSE_SECONDS = 0.002
_SHARES = 4
"""A writer reserves at most this fraction (1/4) of the rest of a budget, so that there is some for others."""
_IS_A_LINK = "the file is a symbolic link, and a cache reads regular files only: remove the link"


class BudgetReached(Exception):
    """The budget has no space for another clip: files on disk use it up (final), or writers have reserved a part."""

    def __init__(self, is_final: bool, max_bytes: int, needed: int) -> None:
        super().__init__(is_final, max_bytes, needed)
        self.is_final = is_final
        self.max_bytes = max_bytes
        self.needed = needed


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A segment that is being written."""

    name: str
    data: Descriptor  # its data file, open for reading and writing; holds the lock that says that its writer lives
    directory: Descriptor  # the file that will be its directory
    max_bytes: int


@dataclass(slots=True, eq=False)
class FolderFiles:
    """Files of segments in a folder; names of sealed segments are without an ending.

    Unfinished segments have the names of their files, and the bytes that these may reach together.
    """

    sealed: set[str] = field(default_factory=set)
    unfinished: dict[str, tuple[list[str], int]] = field(default_factory=dict)

    @property
    def sealed_files(self) -> list[str]:
        """Names of the files of sealed segments."""
        return [f"{name}{ending}" for name in self.sealed for ending in (".rows", ".data")]


class Folder:
    """A folder; it is made with the first part."""

    def __init__(self, path: str, options: StoreOptions) -> None:
        self.path = path
        self._options = options
        try:
            try_again_in_shortage(self.check, path, "open")
        except FileNotFoundError:
            pass  # It is made when it is needed.
        except OSError as error:
            raise CacheError(
                f"{path}: the cache folder cannot be read: {error.strerror or error}; give a folder that this user can "
                "read and write"
            ) from error

    def check(self) -> os.stat_result:
        """Return the facts of the folder; raise CacheError if another user can put files here."""
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

        An error that is raised says that a resource ran out.
        """
        with SuppressFaults(OSError, CacheError):
            facts = self.check()
            return facts.st_dev, facts.st_ino, facts.st_mtime_ns
        return None

    def list_segments(self) -> FolderFiles:
        """List the segments; none if there is no folder."""
        try:
            with os.scandir(self.path) as entries:
                names = [entry.name for entry in entries]
        except FileNotFoundError:
            names = []
        files = [met for name in names if (met := FILE.fullmatch(name))]
        listing = FolderFiles({met["name"] for met in files if met["ending"] == "rows"})
        for met in files:
            if met["name"] not in listing.sealed:
                others, size = listing.unfinished.get(met["name"], ([], 0))
                listing.unfinished[met["name"]] = ([*others, met[0]], max(size, int(met["size"] or 0)))
        return listing

    def file(self, name: str) -> str:
        """Path of a file in it."""
        return os.path.join(self.path, name)

    def open_file(self, name: str) -> tuple[Descriptor, int]:
        """Open a file for reading; return it and its size.

        Raises:
            Refused: It is a link, a folder, a pipe, a device, or another user's.
        """
        try:
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            file = Descriptor(os.open(self.file(name), flags))
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Refused(_IS_A_LINK) from error
            raise
        return file, self._check_file(os.fstat(file.number))

    def measure(self, name: str) -> int:
        """Return the size of a file; raise Refused as ``open_file`` does."""
        return self._check_file(os.lstat(self.file(name)))

    def _check_file(self, facts: os.stat_result) -> int:
        if stat.S_ISLNK(facts.st_mode):
            raise Refused(_IS_A_LINK)
        if not stat.S_ISREG(facts.st_mode):
            raise Refused("expected a regular file, found a folder, pipe or device: remove it")
        if not self._options.shared and facts.st_uid not in (os.geteuid(), 0):
            raise Refused(
                f"the file belongs to another user (id {facts.st_uid}): remove it, or pass shared=True to trust it"
            )
        return facts.st_size

    def bytes_on_disk(self) -> int:
        """Bytes of all segments, unfinished ones included."""
        listing = self.list_segments()
        unfinished = [name for files, _ in listing.unfinished.values() for name in files]
        return self._count_bytes([*listing.sealed_files, *unfinished])

    def _count_bytes(self, names: Sequence[str]) -> int:
        total = 0
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(self.file(name)).st_size
        return total

    def new_part(self, needed: int) -> Part:
        """Begin a segment whose first clip needs so many bytes, after removing the parts of dead writers.

        Raises:
            BudgetReached: The budget has no space for them.
            CacheError: The folder cannot be trusted.
        """
        make_folder(self.path, shared=self._options.shared)
        self.check()
        with self._locked():
            self._remove_dead(is_all=False)
            name = f"frames-{secrets.token_hex(16)}"
            max_bytes = self._reserve(needed)
            # In this order, so that each data file of a dead writer has its second file.
            directory = self._create(f"{name}.{max_bytes}.new")
            try:
                part = Part(name, self._create(f"{name}.data"), directory, max_bytes)
                fcntl.flock(part.data.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BaseException:
                self._drop(name, max_bytes)
                raise
        return part

    def seal(self, part: Part) -> None:
        """Make a part visible whose files are complete and on disk."""
        os.rename(self.file(f"{part.name}.{part.max_bytes}.new"), self.file(f"{part.name}.rows"))

    def flush(self) -> None:
        """Flush the folder, so that the names of files survive a loss of power."""
        flush_folder(self.path)

    def drop(self, part: Part) -> None:
        """Remove the files of a part, if it can be done."""
        self._drop(part.name, part.max_bytes)

    def _drop(self, name: str, max_bytes: int) -> None:
        with suppress(OSError):
            self._unlink(f"{name}.data")
            self._unlink(f"{name}.{max_bytes}.new")

    def remove(self, name: str) -> int:
        """Remove a sealed segment; return the bytes freed."""
        return self._unlink(f"{name}.data") + self._unlink(f"{name}.rows")

    def _unlink(self, name: str) -> int:
        """Remove a file if it is a regular one; return its size."""
        try:
            facts = os.lstat(self.file(name))
            if stat.S_ISREG(facts.st_mode):
                os.unlink(self.file(name))
                return facts.st_size
        except FileNotFoundError:
            pass
        return 0

    def clear(self) -> None:
        """Remove all segments except those that are being written."""
        if not os.path.exists(self.path):
            return
        with self._locked():
            self._remove_dead(is_all=True)
            for name in self.list_segments().sealed:
                self.remove(name)

    def _remove_dead(self, is_all: bool) -> None:
        """Remove what dead writers left. The folder is locked, so that no segment begins meanwhile.

        Args:
            is_all: Also remove data files alone, whose directory may be still to come: they may be being copied.
        """
        for name, (files, _) in self.list_segments().unfinished.items():
            if is_all or files != [f"{name}.data"]:
                with suppress(OSError):  # Its writer lives, or this process may not remove it.
                    self._remove_unfinished(name, files)

    def _remove_unfinished(self, name: str, files: Sequence[str]) -> None:
        data = self.file(f"{name}.data")
        if os.path.lexists(data):
            descriptor = os.open(data, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            finally:
                os.close(descriptor)
            # Its writer may have sealed it after the folder was listed.
            if not is_file or os.path.lexists(self.file(f"{name}.rows")):
                return
        for file in sorted(files, reverse=True):  # the data first
            self._unlink(file)

    def _create(self, name: str) -> Descriptor:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return Descriptor(os.open(self.file(name), flags, file_mode(shared=self._options.shared)))

    def _reserve(self, needed: int) -> int:
        most = max(needed, self._options.segment_bytes)
        if self._options.max_bytes is None:
            return most
        listing = self.list_segments()
        reserved = self._count_bytes(listing.sealed_files)
        for name, (files, size) in listing.unfinished.items():
            # One may have been sealed after the folder was listed.
            reserved += max(self._count_bytes([*files, f"{name}.rows"]), size)
        left = self._options.max_bytes - reserved
        if needed > left:
            is_final = needed > self._options.max_bytes - self.bytes_on_disk()
            raise BudgetReached(is_final, self._options.max_bytes, needed)
        return max(needed, min(most, left // _SHARES))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from beginning or removing parts; one that has the lock needs milliseconds."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.file(_LOCK), flags, file_mode(shared=self._options.shared))
        patience = monotonic() + _PATIENCE_SECONDS
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if monotonic() > patience:
                        # Not chained: its errno (EAGAIN) would be taken for a shortage.
                        why = "another process holds the lock of the cache folder"
                        raise TimeoutError(errno.ETIMEDOUT, why) from None
                    sleep(_PAUSE_SECONDS)
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

    A shared one has the mode that the umask allows; else only its owner may use it.
    """
    above = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or above == path:  # In a shortage there seems to be no folder, not even the first one.
        return
    make_folder(above, shared=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o777 if shared else 0o700)
    with suppress(OSError):  # One that may be entered, but not read, cannot be flushed.
        flush_folder(above)

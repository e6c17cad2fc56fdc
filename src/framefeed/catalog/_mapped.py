"""Arrays in the user's cache folder, made once and mapped into memory by all processes that use them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import xxhash

from framefeed._arrays import AnyArray
from framefeed._files import get_user_cache, hold_shared, holding_file, remove_scratch, remove_unlocked, replacing
from framefeed._shortage import raise_shortage
from framefeed.errors import UsageError

_STEM_CHARACTERS = 64
# The last two are those of a file that was cut.
_NOT_THERE = (FileNotFoundError, ValueError, EOFError)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def map_array(name: str, version: str, make: Callable[[str], None]) -> AnyArray:
    """Map the array of a name and version, which is made where it is not there yet; read-only.

    Copies of other versions go when one is made, unless a process uses them.

    Args:
        name: What the array is of, for example a path and the name of a column.
        version: Another one means other values.
        make: Function that writes an NPY file to the path that it is given.

    Raises:
        UsageError: The folder cannot be written to.
        ResourceExhausted: A resource ran out.
    """
    folder = get_user_cache("columns")
    stem = f"{_UNSAFE.sub('_', os.path.basename(name))[-_STEM_CHARACTERS:]}-{_hash(name)}"
    path = os.path.join(folder, f"{stem}-{_hash(version)}.npy")
    try:
        with suppress(*_NOT_THERE):
            return _map(path)
        os.makedirs(folder, exist_ok=True)
        with holding_file(os.path.join(folder, f"{stem}.lock")):
            with suppress(*_NOT_THERE):
                return _map(path)
            with replacing(path) as scratch:
                make(scratch)
            values = _map(path)
            _clean(folder, stem, path)
            return values
    except OSError as error:
        raise_shortage(error, folder, "write")
        raise UsageError(
            f"cannot write to {folder}: {error.strerror or error}; make room on the disk, or name another folder with "
            "XDG_CACHE_HOME in the environment"
        ) from error


def _map(path: str) -> AnyArray:
    values: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    hold_shared(path)
    return values


def _hash(text: str) -> str:
    return xxhash.xxh3_64_hexdigest(os.fsencode(text))


def _clean(folder: str, stem: str, path: str) -> None:
    """Remove versions that no process uses, and what killed processes left."""
    with suppress(OSError):
        remove_unlocked(folder, re.compile(rf"{re.escape(stem)}-[0-9a-f]{{16}}\.npy"), kept=os.path.basename(path))
    remove_scratch(folder)

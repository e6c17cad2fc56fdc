"""Files in a cache folder under names that hold their version: catalogs by URL, and arrays that all processes map."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

import numpy as np
import xxhash

from framefeed._arrays import AnyArray
from framefeed._files import get_user_cache, hold_shared, holding_file, remove_scratch, remove_unlocked, replacing
from framefeed._shortage import raise_shortage
from framefeed.errors import FramefeedError, UsageError

_STEM_CHARACTERS = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
# The last two are those of a file that was cut.
_NOT_THERE = (FileNotFoundError, ValueError, EOFError)


def make_stem(text: str, identity: str) -> str:
    """Make the beginning of the names of all versions of a file: a readable part, and a hash of what identifies it.

    Other characters of the text than those of plain names are replaced.
    """
    return f"{_UNSAFE.sub('_', text)[:_STEM_CHARACTERS]}-{xxhash.xxh3_64_hexdigest(os.fsencode(identity))}"


def make_version_name(stem: str, version: str) -> str:
    """Make the name of a version, without its ending."""
    return f"{stem}-{xxhash.xxh3_64_hexdigest(version.encode())}"


def remove_other_versions(folder: str, stem: str, endings: str, kept: str) -> None:
    """Remove versions that no process uses, and what killed processes left; ``kept`` stays, used or not.

    ``endings`` is a regular expression of the endings of their names.
    """
    with suppress(OSError):
        pattern = re.compile(rf"{re.escape(stem)}-[0-9a-f]{{16}}{endings}")
        remove_unlocked(folder, pattern, kept=os.path.basename(kept))
    remove_scratch(folder)


@contextmanager
def writing_to(folder: str, other_folder: str) -> Iterator[None]:
    """Name the folder, and how to choose another one, where the system refuses to write; errors of sources stay."""
    try:
        yield
    except FramefeedError:
        raise  # Some are an OSError too.
    except OSError as error:
        raise_shortage(error, folder, "write")
        raise UsageError(
            f"cannot write to {folder}: {error.strerror or error}; make room on the disk, or name another folder"
            f"{other_folder} in the environment"
        ) from error


def map_arrays(versions: Mapping[str, str], make: Callable[[dict[str, str]], None]) -> dict[str, AnyArray]:
    """Map arrays by name and version; those that are not there yet are made together. They are read-only.

    Copies of other versions go when one is made, unless a process uses them.

    Args:
        versions: Of each array, by what the array is of, for example a path and the name of a column; another version
            means other values.
        make: Function that writes NPY files to the paths that it is given, by name.
    """
    folder = get_user_cache("columns")
    stems = {name: make_stem(os.path.basename(name), name) for name in versions}
    paths = {name: os.path.join(folder, f"{make_version_name(stems[name], versions[name])}.npy") for name in versions}
    mapped = dict[str, AnyArray]()

    def map_those_there() -> list[str]:
        for name in versions.keys() - mapped.keys():
            with suppress(*_NOT_THERE):
                mapped[name] = _map(paths[name])
        # In one order in all processes: each may wait for the locks of another.
        return sorted(versions.keys() - mapped.keys(), key=stems.__getitem__)

    with writing_to(folder, " with XDG_CACHE_HOME"), ExitStack() as locks:
        if missing := map_those_there():
            os.makedirs(folder, exist_ok=True)
            for name in missing:
                locks.enter_context(holding_file(os.path.join(folder, f"{stems[name]}.lock")))
        if missing := map_those_there():
            with ExitStack() as scratches:
                make({name: scratches.enter_context(replacing(paths[name])) for name in missing})
            for name in missing:
                mapped[name] = _map(paths[name])
                remove_other_versions(folder, stems[name], r"\.npy", paths[name])
    return mapped


def cache_file(kind: str, name: str, version: str, ending: str, make: Callable[[str], None]) -> str:
    """Make the file of a name and version, where it is not there yet; return its path. No process removes it meanwhile.

    ``kind`` is the folder in the user's cache folder; ``make`` writes the file to the path that it is given.
    """
    folder, stem = get_user_cache(kind), make_stem(os.path.basename(name), name)
    path = os.path.join(folder, f"{make_version_name(stem, version)}{ending}")
    with writing_to(folder, " with XDG_CACHE_HOME"):
        os.makedirs(folder, exist_ok=True)
        with holding_file(os.path.join(folder, f"{stem}.lock")):
            if not os.path.isfile(path):
                with replacing(path) as scratch:
                    make(scratch)
                remove_other_versions(folder, stem, re.escape(ending), path)
            hold_shared(path)
    return path


def _map(path: str) -> AnyArray:
    values: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    hold_shared(path)
    return values

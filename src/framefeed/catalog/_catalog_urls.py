"""Catalogs by URL: copied to a folder under names that hold the version, mapped from there, and put into buckets.

Both files of a catalog in a bucket are objects, of which the Parquet file decides, as on the disk: its header has the
id that the other object has in its name, ``cat.frames.ID.arrow``. That one is written first and never replaced, so a
writer that is interrupted, or comes second, leaves the old catalog as it was.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from framefeed._files import (
    get_user_cache,
    hold_shared,
    holding_file,
    lock_folder,
    replacing,
)
from framefeed._shown import show_name, strip_url
from framefeed._values import ByteReader, read_bytes
from framefeed.catalog._cached_files import make_stem, make_version_name, remove_other_versions, writing_to
from framefeed.catalog._catalog_file import MAGIC, get_frames_path, has_frames_id, is_catalog, read_frames_id
from framefeed.errors import MediaError, MissingMedia, StaleSource, UnreadableMedia, UsageError
from framefeed.media import (
    MediaSource,
    StorageOptions,
    check_put_rights,
    check_put_url,
    copy_object,
    is_listable,
    put_object,
    read_version,
    remove_object,
)

_MOST_TRIES = 3
"""Of a catalog that is replaced while it is copied."""
_ENDING = re.compile(r"\?versionId=[A-Za-z0-9._-]+$")
_UPLOAD = "upload-"


@dataclass(frozen=True, slots=True)
class CatalogCopy:
    """The copy of a catalog by URL."""

    path: str
    folder: str  # URL where relative sources start
    frames_name: str  # shown name of the object with the frame tables


@dataclass(frozen=True, slots=True)
class StoredCatalog:
    """The catalog that an object is now: its version, and the path of its copy."""

    version: str
    path: str


def get_url_folder(url: str) -> str:
    """Get the URL of the folder of an object, without what gives rights."""
    return strip_url(_split_ending(url)[0]).rpartition("/")[0]


def _split_ending(url: str) -> tuple[str, str]:
    """Split the query, and of an object of S3 its version, from a URL."""
    if is_listable(url):
        return _ENDING.sub("", url), ""
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    return url.partition("#")[0].removesuffix(query), query


def _get_frames_url(url: str, frames_id: str | None = None) -> str:
    """Build the URL of the frame tables: with their id, as they are put; without, as those of a copied folder."""
    base, query = _split_ending(url)
    path = get_frames_path(base)
    return (path if frames_id is None else f"{path.removesuffix('arrow')}{frames_id}.arrow") + query


def fetch_catalog(url: str, folder: str | None, storage_options: StorageOptions | None) -> CatalogCopy:
    """Copy both files of a catalog to a folder, by default that of the user, unless they are there.

    If the frame tables belong to another catalog, or both are replaced all the time, that is StaleSource.
    """
    source, copies = MediaSource.of(url, storage_options), _Copies(url, folder)
    for _ in range(_MOST_TRIES):
        with copies.locked(), source.opened() as reader:
            version = read_version(source, reader)
            path = copies.copy_facts(source, reader, version)
            frames_id = copies.read_frames_id(path)
            frames_name = show_name(_get_frames_url(url, frames_id))
            outcome = None if frames_id is None else copies.copy_frames(path, frames_id, storage_options)
        if outcome is not None:
            with source.opened() as reader:
                if read_version(source, reader) != version:
                    continue
            if not isinstance(outcome, MissingMedia):
                raise outcome
        return CatalogCopy(path, get_url_folder(url), frames_name)
    raise StaleSource(f"{show_name(url)}: is replaced again and again: try again later", source=show_name(url))


def find_stored(url: str, storage_options: StorageOptions | None) -> StoredCatalog | None:
    """Find the catalog that is to be replaced, and copy what is there of it; None if there is no such object."""
    check_put_url(url, storage_options)
    source, copies = MediaSource.of(url, storage_options), _Copies(url, None)
    try:
        with copies.locked(), source.opened() as reader:
            version = read_version(source, reader)
            path = copies.copy_facts(source, reader, version)
    except MissingMedia:
        return None
    except UnreadableMedia as error:
        if error.stage != "index":
            raise
        raise UsageError(
            f"cannot write {show_name(url)}: the object that is already there is not a catalog, and is not "
            "overwritten; choose another name"
        ) from error
    with suppress(MediaError):  # Without its frame tables, less is known.
        fetch_catalog(url, None, storage_options)
    return StoredCatalog(version, path)


def check_bucket(url: str, storage_options: StorageOptions | None) -> None:
    """Ask the server whether a catalog can be put there."""
    check_put_rights(_get_frames_url(url, "check"), storage_options)


@contextmanager
def uploading(url: str, stored: StoredCatalog | None, storage_options: StorageOptions | None) -> Iterator[str]:
    """Give the path of a Parquet file that the block writes with its frame tables; then put both.

    If they replace a ``stored`` catalog, and another version is there now, with other bytes, that is StaleSource.
    """
    copies = _Copies(url, None)
    with copies.making_files() as path:
        yield path
        frames_id, before = read_frames_id(path), None
        if stored is not None:
            with suppress(UnreadableMedia):
                before = read_frames_id(stored.path)
        if frames_id is not None:
            put_object(_get_frames_url(url, frames_id), get_frames_path(path), None, storage_options)
        version = put_object(url, path, None if stored is None else stored.version, storage_options)
        if version is not None:
            copies.adopt(path, version)
    if before not in (None, frames_id):
        with suppress(MediaError):  # Without the right to remove objects, it stays.
            remove_object(_get_frames_url(url, before), storage_options)


class _Copies:
    """The copies of one URL in a folder; None for that of the user."""

    def __init__(self, url: str, folder: str | None) -> None:
        self._url, self._name = url, show_name(url)
        self.folder = get_user_cache("catalogs") if folder is None else folder
        public = strip_url(url)
        self._prefix = make_stem(os.path.basename(_split_ending(public)[0]).removesuffix(".parquet"), public)
        with _writing(self.folder):
            os.makedirs(self.folder, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other process copies this catalog, so that it is fetched once."""
        with _writing(self.folder), holding_file(os.path.join(self.folder, f"{self._prefix}.lock")):
            yield

    def copy_facts(self, source: MediaSource, reader: ByteReader, version: str) -> str:
        """Copy the Parquet file, unless it is there; return its path."""
        path = self._get_path(version)
        if not os.path.isfile(path):
            with replacing(path) as scratch:
                if (head := read_bytes(reader, 0, len(MAGIC))) == MAGIC:
                    copy_object(reader, scratch)
                else:
                    Path(scratch).write_bytes(head)
                if not is_catalog(scratch):
                    self.read_frames_id(scratch)
            self._clean(path)
        hold_shared(path)
        return path

    def read_frames_id(self, path: str) -> str | None:
        """Read the id of the frame tables; errors name the URL."""
        try:
            return read_frames_id(path)
        except UnreadableMedia as error:
            raise UnreadableMedia(
                str(error).replace(path, self._name), source=self._name, stage="index"
            ) from error.__cause__

    def copy_frames(self, path: str, frames_id: str, storage_options: StorageOptions | None) -> MediaError | None:
        """Copy the frame tables beside their catalog, unless they are there; return why that failed."""
        target, errors = get_frames_path(path), list[MediaError]()
        urls = [_get_frames_url(self._url, frames_id), _get_frames_url(self._url)]
        while urls and not os.path.isfile(target):
            try:
                self._copy_frames_from(urls.pop(0), target, frames_id, storage_options)
            except MediaError as error:
                errors.append(error)
        if os.path.isfile(target):
            hold_shared(target)
            return None
        return next((error for error in errors if not isinstance(error, MissingMedia)), errors[0])

    def _copy_frames_from(self, url: str, target: str, frames_id: str, storage_options: StorageOptions | None) -> None:
        with MediaSource.of(url, storage_options).opened() as reader, replacing(target) as scratch:
            copy_object(reader, scratch)
            if not has_frames_id(scratch, frames_id):
                raise StaleSource(
                    f"{show_name(url)}: these frame tables belong to another catalog than {self._name}: scan again, or "
                    "put both files there again",
                    source=self._name,
                    stage="index",
                )

    def adopt(self, path: str, version: str) -> None:
        """Take files that were put as the copy of what is now there."""
        target = self._get_path(version)
        with self.locked():
            for made, name in ((get_frames_path(path), get_frames_path(target)), (path, target)):
                if os.path.isfile(made):
                    os.replace(made, name)
                    hold_shared(name)
            self._clean(target)

    @contextmanager
    def making_files(self) -> Iterator[str]:
        """Give the path of a catalog to make, which is removed behind the block; and remove those of killed writers."""
        with _writing(self.folder):
            for name in os.listdir(self.folder):
                if name.startswith(_UPLOAD):
                    with suppress(OSError):  # It is written to, or was removed.
                        left = os.path.join(self.folder, name)
                        descriptor = lock_folder(left)
                        shutil.rmtree(left, ignore_errors=True)
                        os.close(descriptor)
            folder = os.path.join(self.folder, f"{_UPLOAD}{secrets.token_hex(8)}")
            descriptor = lock_folder(folder)
        try:
            yield os.path.join(folder, "cat.parquet")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)

    def _get_path(self, version: str) -> str:
        return os.path.join(self.folder, f"{make_version_name(self._prefix, version)}.parquet")

    def _clean(self, path: str) -> None:
        """Remove copies of other versions that no process uses, and what killed processes left."""
        hold_shared(path)
        remove_other_versions(self.folder, self._prefix, r"\.(parquet|frames\.arrow)", get_frames_path(path))


def _writing(folder: str) -> AbstractContextManager[None]:
    return writing_to(folder, ": Catalog.open(url, local=...), or XDG_CACHE_HOME")

"""Where a scan writes its catalog: a path, or the URL of an object in a bucket."""

from __future__ import annotations

import os
from collections.abc import Iterable

import xxhash

from framefeed._files import get_user_cache
from framefeed._names import is_url, make_absolute
from framefeed._shown import show_name
from framefeed.catalog import (
    Catalog,
    StoredCatalog,
    add_signatures,
    check_bucket,
    check_target,
    find_stored,
    get_frames_path,
    store_catalog,
)
from framefeed.errors import UsageError
from framefeed.media import StorageOptions, check_put_url
from framefeed.scanning._rows import SourceRows


class Target:
    """Where a scan writes its catalog; checked before hours of scanning.

    Attributes:
        name: Path or URL.
        shown: The same without secrets.
        journal: Folder of the journal; None for the one beside a path. For URLs it is in the user's cache folder.
        own: Paths of the catalog's files.
    """

    def __init__(
        self, out: str | os.PathLike[str], journal: str | None, storage_options: StorageOptions | None
    ) -> None:
        if os.fsdecode(out).endswith(os.sep):
            raise UsageError(f"out={os.fsdecode(out)} names a folder: expected a file, such as cat.parquet in it")
        self.name = make_absolute(os.fsdecode(out))
        self.shown = show_name(self.name)
        self._options = storage_options
        self._stored: StoredCatalog | None = None
        if is_url(self.name):
            check_put_url(self.name, storage_options)
            self.own = frozenset[str]()
            name = xxhash.xxh3_64_hexdigest(os.fsencode(self.name))
            self.journal: str | None = journal or os.path.join(get_user_cache("journals"), name)
            self.find_old()  # Something else may be there, or the rights may be missing.
            check_bucket(self.name, storage_options)
        else:
            check_target(self.name)
            self.own = frozenset((self.name, get_frames_path(self.name)))
            self.journal = journal

    def check_roots(self, roots: Iterable[str]) -> None:
        """Check that the catalog is none of the roots that are scanned."""
        if self.name in roots:
            raise UsageError(
                f"out={self.shown} is one of the roots that are scanned: choose another name, such as cat.parquet"
            )

    def find_old(self) -> str | None:
        """Find the catalog that is there now, and which `save` replaces; return the path of its file, or its copy."""
        if not is_url(self.name):
            return self.name
        self._stored = find_stored(self.name, self._options)
        return None if self._stored is None else self._stored.path

    def save(self, catalog: Catalog) -> None:
        """Write the catalog; if since `find_old` another writer has put another one there, that is StaleSource."""
        if is_url(self.name):
            store_catalog(catalog, self.name, self._stored)
        else:
            catalog.to_parquet(self.name)

    def open(self, rows: SourceRows) -> Catalog:
        return add_signatures(Catalog.open(self.name, rows.root, storage_options=self._options), rows.signed)

"""Whole objects by URL as files: copied to the disk, and put into buckets."""

from __future__ import annotations

from framefeed._shown import show_name
from framefeed._values import ByteReader, Limits, announce_reads, make_limit_error, read_bytes
from framefeed.errors import CorruptMedia, MissingDependency, UsageError
from framefeed.media import remote
from framefeed.media._source import MediaSource
from framefeed.media.remote import ObjectVersion, StorageOptions, find_options, is_read_by_ranges, is_s3, read_whole

_PIECE_BYTES = 2**22


def read_version(source: MediaSource, reader: ByteReader) -> str:
    """Read which version of an object a reader has: size and strong ETag, or else a hash of some of its bytes too."""
    nbytes, version = reader.stat().bytes, getattr(reader, "version", None)
    if isinstance(version, ObjectVersion) and version.strong_etag:
        return version.text
    return f"{nbytes} {source.identity_of(reader).fingerprint}"


def read_object(source: MediaSource, most_bytes: int) -> bytes:
    """Read all bytes of an object, at most ``most_bytes``."""
    if is_read_by_ranges(source.path):
        data = read_whole(source.path, most_bytes, source.options)
    else:
        with source.opened() as reader:
            data = read_bytes(reader, 0, min(reader.stat().bytes, most_bytes + 1))
    if len(data) > most_bytes:
        limits = Limits(max_header_bytes=most_bytes)
        raise make_limit_error(limits, "max_header_bytes", "more bytes", source.name, "read")
    return data


def copy_object(reader: ByteReader, path: str) -> None:
    """Write all bytes of an object into a file, a few megabytes at a time, of which several are asked for at once."""
    nbytes = reader.stat().bytes
    announce_reads(reader, lambda: [(0, nbytes)])
    with open(path, "wb") as file:
        for offset in range(0, nbytes, _PIECE_BYTES):
            file.write(read_bytes(reader, offset, min(_PIECE_BYTES, nbytes - offset)))
        if file.tell() != nbytes:
            raise CorruptMedia(f"{path}: the object has {file.tell()} bytes of {nbytes}: try again", stage="read")


def check_put_url(url: str, storage_options: StorageOptions | None) -> None:
    """Check what can be checked of the URL of an object that is to be written, without asking a server."""
    name = show_name(url)
    if not is_s3(url):
        raise UsageError(
            f"cannot write {name}: of URLs, only those of S3 (s3://bucket/cat.parquet) are written: write to a local "
            "path, and copy the files"
        )
    if not is_read_by_ranges(url):
        raise MissingDependency(f"cannot write {name}: it needs urllib3: pip install 'framefeed[remote]'")
    remote.check_remote_url(url, find_options(storage_options, url))
    if "?versionId=" in url or url.endswith("/"):
        raise UsageError(f"cannot write {name}: name a new object, such as s3://bucket/cat.parquet")


def check_put_rights(url: str, storage_options: StorageOptions | None) -> None:
    """Ask the server whether objects can be put where ``url``, which is not there, is."""
    remote.check_rights(url, find_options(storage_options, url))


def put_object(url: str, path: str, replaced: str | None, storage_options: StorageOptions | None) -> str | None:
    """Put a file as one object of S3, without a copy in memory, in place of the version ``replaced``, or of none.

    Returns:
        The version of the object; None if the server does not say it.

    Raises:
        StaleSource: Another version is there, with other bytes.
    """
    version = None if replaced is None else ObjectVersion.parse(replaced)
    written = remote.put_file(url, path, version, find_options(storage_options, url))
    return written.text if written.strong_etag else None


def remove_object(url: str, storage_options: StorageOptions | None) -> None:
    """Remove an object of S3; one that is not there is no error."""
    remote.remove_object(url, find_options(storage_options, url))

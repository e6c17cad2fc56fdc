"""Objects over the network, read by ranges: http(s) and s3, with signatures of our own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from framefeed._values import ByteReader
from framefeed.media.remote._answers import FetchedRange, ListedObject, ObjectVersion
from framefeed.media.remote._schemes import StorageOptions, is_http, is_hub, is_s3

if TYPE_CHECKING:
    from framefeed.media.remote._targets import Target

__all__ = [
    "FetchedRange",
    "ListedObject",
    "ObjectVersion",
    "RangesAhead",
    "SentRanges",
    "StorageOptions",
    "check_remote_url",
    "check_rights",
    "check_storage_options",
    "fetch_ahead",
    "find_options",
    "get_range",
    "is_http",
    "is_hub",
    "is_listable",
    "is_read_by_ranges",
    "is_s3",
    "list_objects",
    "open_ranges",
    "put_file",
    "read_whole",
    "remove_object",
    "split_root",
]

_OPTIONS = "framefeed.media.remote._storage_options"


@cache
def _has_client() -> bool:
    try:
        return find_spec("urllib3") is not None
    except ValueError:  # None stands in its place in sys.modules.
        return False


def is_read_by_ranges(url: str) -> bool:
    """Whether objects of this kind are read here, as the extra ``remote`` is installed, and not through fsspec."""
    return (is_http(url) or is_listable(url)) and _has_client()


def is_listable(url: str) -> bool:
    """Whether objects whose URLs begin so can be listed: in a bucket of S3, or on the Hub of Hugging Face."""
    return is_s3(url) or is_hub(url)


def split_root(url: str) -> tuple[str, str]:
    """Split the URL of an object that can be listed into the bucket or the repository, and the key or the path.

    >>> split_root("s3://bucket/a/b.mp4")
    ('s3://bucket', 'a/b.mp4')
    >>> split_root("hf://datasets/org/name@main/a/b.mp4")
    ('hf://datasets/org/name@main', 'a/b.mp4')
    """
    if is_s3(url):
        bucket, _, key = url.removeprefix("s3://").partition("/")
        return f"s3://{bucket}", key
    path: str = import_module("framefeed.media.remote._hub").split_hub_url(url).path
    return url.removesuffix(path).rstrip("/"), path


def check_remote_url(url: str, options: Mapping[str, Any]) -> None:
    """Check what can be checked of a URL and its options without asking a server."""
    _make_target(url, options)


def check_storage_options(given: Any) -> None:
    """Check options before they are used.

    Raises:
        UsageError: They are no options by URL prefix, or some of http(s) or s3 do not exist or are wrong.
    """
    if given is not None:
        import_module(_OPTIONS).check_storage_options(given)


def find_options(storage_options: StorageOptions | None, url: str) -> Mapping[str, Any]:
    """Find the options for a URL; see `_storage_options.find_options`."""
    found: Mapping[str, Any] = import_module(_OPTIONS).find_options(storage_options, url) if storage_options else {}
    return found


def _parse_s3(options: Mapping[str, Any]) -> Any:
    return import_module(_OPTIONS).parse_s3_options(options)


def _parse_hub(options: Mapping[str, Any]) -> Any:
    return import_module(_OPTIONS).parse_hub_options(options)


def _make_target(url: str, options: Mapping[str, Any]) -> Target:
    if is_http(url):
        http: Callable[..., Target] = import_module("framefeed.media.remote._targets").HttpTarget
        return http(url, import_module(_OPTIONS).parse_headers(options))
    if is_hub(url):
        hub: Callable[..., Target] = import_module("framefeed.media.remote._hub").HubTarget
        return hub(url, _parse_hub(options))
    make: Callable[..., Target] = import_module("framefeed.media.remote._s3_target").S3Target
    return make(url, _parse_s3(options))


class SentRanges(Protocol):
    """Answers that are sent to another process."""

    def receive(self) -> RangesAhead:
        """Give them to the readers of this process, until the result is dropped."""
        ...


class RangesAhead(Protocol):
    """Ranges of an object that were asked for, of ``nbytes`` together."""

    nbytes: int

    def drop(self) -> None:
        """Give them up; a reader keeps what it uses."""
        ...

    def send(self) -> SentRanges:
        """Wait for the answers; return them, with their errors, for readers of another process."""
        ...


def list_objects(url: str, options: Mapping[str, Any]) -> Iterator[Sequence[ListedObject]]:
    """List the objects whose URLs begin so, page by page, in the order of the server.

    ``url`` is ``s3://bucket`` or ``s3://bucket/`` and the first characters of the keys, or likewise of the Hub.
    """
    if is_hub(url):
        files: Iterator[Sequence[ListedObject]] = import_module("framefeed.media.remote._hub").list_hub(
            url, _parse_hub(options)
        )
        return files
    pages: Iterator[Sequence[ListedObject]] = import_module("framefeed.media.remote._whole").list_keys(
        url, _parse_s3(options)
    )
    return pages


def read_whole(url: str, most_bytes: int, options: Mapping[str, Any]) -> bytes:
    """Read an object as a whole, in the calling thread; of one with more than ``most_bytes`` more than these."""
    data: bytes = import_module("framefeed.media.remote._whole").WholeGet(_make_target(url, options), most_bytes)()
    return data


def get_range(
    url: str, start: int, stop: int, options: Mapping[str, Any], version: ObjectVersion | None = None
) -> FetchedRange:
    """Get a range of an object in the calling thread, whose limits hold; a reader would start a thread."""
    make: Callable[..., Callable[[], FetchedRange]] = import_module("framefeed.media.remote._client").RangeGet
    return make(_make_target(url, options), start, stop, version)()


def fetch_ahead(
    url: str, ranges: Iterable[tuple[int, int]], version: ObjectVersion | None, options: Mapping[str, Any]
) -> RangesAhead:
    """Ask for ranges of an object, first byte and behind the last one, for readers that come later; do not wait."""
    ahead: RangesAhead = import_module("framefeed.media.remote._reader").FetchedAhead(
        _make_target(url, options), ranges, version
    )
    return ahead


def open_ranges(
    url: str,
    options: Mapping[str, Any],
    version: ObjectVersion | None = None,
    confirm: Callable[[], ObjectVersion] | None = None,
) -> ByteReader:
    """Make a reader of an object, as `RangeReader` says; nothing is asked for before the first read."""
    reader: ByteReader = import_module("framefeed.media.remote._reader").RangeReader(
        _make_target(url, options), version, confirm
    )
    return reader


def put_file(url: str, path: str, replaced: ObjectVersion | None, options: Mapping[str, Any]) -> ObjectVersion:
    """Put a file as one object of S3; see `_putting.put_file`."""
    put: Callable[..., ObjectVersion] = import_module("framefeed.media.remote._putting").put_file
    return put(url, path, replaced, _parse_s3(options))


def check_rights(url: str, options: Mapping[str, Any]) -> None:
    """Check that objects can be put where ``url`` is; see `_putting.check_rights`."""
    import_module("framefeed.media.remote._putting").check_rights(url, _parse_s3(options))


def remove_object(url: str, options: Mapping[str, Any]) -> None:
    """Remove an object of S3; one that is not there is no error."""
    import_module("framefeed.media.remote._putting").remove_object(url, _parse_s3(options))

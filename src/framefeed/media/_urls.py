"""Open objects by URL through fsspec, and turn its errors into framefeed's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Literal, cast

from framefeed._files import raise_file_error
from framefeed.errors import FramefeedError, MissingDependency, UnreadableMedia, UsageError
from framefeed.parallel import find_shortage

BLOCK_BYTES = 2**17
"""Bytes fetched at once."""
_MOST_BLOCKS = 16
"""Blocks kept of an open object: libav reads sound and pictures of some files from two offsets in turns."""
_NO_OBJECT = (404, 410)
"""Status codes of an HTTP server without such an object."""


def check_url(url: str) -> None:
    """Refuse a URL whose protocol fsspec does not know.

    Raises:
        MissingDependency: fsspec is not installed.
        UsageError: Nothing reads URLs of its kind.
    """
    protocol, fsspec = url.split("::")[0].split("://")[0], _import_fsspec(url)
    if protocol not in fsspec.registry and protocol not in fsspec.available_protocols():
        raise UsageError(f"{url}: fsspec cannot read URLs that begin with {protocol}:// : download the file first")


def open_url(url: str) -> IO[bytes]:
    """Open an object for reads at any offset; fetch nothing yet.

    Raises:
        MissingMedia: There is no such object.
        UnreadableMedia: The server cannot be reached or refuses, or the object can only be read from its beginning to
            its end.
        MissingDependency: fsspec, or what it needs for this protocol, is not installed.
    """
    fsspec = _import_fsspec(url)
    with url_errors(url, "open"):
        system, path = fsspec.url_to_fs(url)
        kept = {"maxblocks": _MOST_BLOCKS}
        file = system.open(path, "rb", block_size=BLOCK_BYTES, cache_type="blockcache", cache_options=kept)
        file.seek(0, os.SEEK_END)
    return cast("IO[bytes]", file)


@contextmanager
def url_errors(url: str, stage: Literal["open", "read"]) -> Iterator[None]:
    """Turn the errors of a file system into framefeed's; each file system has its own."""
    try:
        yield
    except Exception as error:
        _raise_url_error(error, url, stage)
        raise


def _raise_url_error(error: Exception, url: str, stage: Literal["open", "read"]) -> None:
    if isinstance(error, (FramefeedError, MemoryError)):
        return
    if (reason := _describe_unreachable(error)) is not None:
        raise UnreadableMedia(f"{url}: {reason}", source=url, stage=stage) from error
    if isinstance(error, OSError):
        raise_file_error(error, url, stage)
    if isinstance(error, ImportError):
        raise MissingDependency(f"{url}: fsspec needs another package to read it: {error}") from error
    done = "opened" if stage == "open" else "read"
    raise UnreadableMedia(
        f"{url}: cannot be {done} in pieces ({str(error) or type(error).__name__}): download it first",
        source=url,
        stage=stage,
    ) from error


def _describe_unreachable(error: Exception) -> str | None:
    """Describe a failure of a server that may have the object; None for any other error."""
    # fsspec's HTTP file system raises FileNotFoundError for all failures; the cause is the real one.
    cause = error.__cause__ if isinstance(error, FileNotFoundError) and find_shortage(error) is None else None
    status = getattr(cause, "status", None)
    if isinstance(status, int):
        answer = f"{status} {getattr(cause, 'message', '')}".rstrip()
        advice = "try again later" if status == 429 or status >= 500 else "check the URL and the rights to read it"
        return None if status in _NO_OBJECT else f"the server answered {answer}: {advice}"
    is_of_http = type(cause).__module__.partition(".")[0] == "aiohttp"
    if is_of_http or (isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError)):
        reason = str(cause) or type(cause).__name__
        return f"the server cannot be reached ({reason}): check the URL and the network, then try again"
    return None


def _import_fsspec(url: str) -> Any:
    try:
        import fsspec
    except ImportError as error:
        raise MissingDependency(f"{url}: reading a URL needs fsspec: pip install 'framefeed[url]'") from error
    return fsspec

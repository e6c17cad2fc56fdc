"""Open objects by URL through fsspec, and turn its errors into framefeed's."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import IO, Any, Literal, NoReturn, TypeVar, cast

from framefeed import _stopping
from framefeed._files import raise_file_error
from framefeed._outcome import Err
from framefeed._shortage import find_shortage
from framefeed._shown import hide_secrets, show_name
from framefeed._stopping import call_in_time
from framefeed.errors import DeadlineExceeded, FramefeedError, MissingDependency, UnreadableMedia, UsageError
from framefeed.media.remote import is_http, is_listable

T = TypeVar("T")
R = TypeVar("R")

BLOCK_BYTES = 2**17
"""Bytes fetched at once."""
_CHAIN_FACTOR = 10
"""A chain such as ``simplecache::https://`` or ``zip://a.mp4::https://`` may fetch a whole file in one step."""
_HTTP = re.compile("https?:")
_NO_OBJECT = (404, 410)
"""Status codes of an HTTP server without such an object."""


def check_url(url: str) -> None:
    """Refuse a URL whose protocol fsspec does not know."""
    protocol, fsspec = url.split("::")[0].split("://")[0], _import_fsspec(url)
    if protocol not in fsspec.registry and protocol not in fsspec.available_protocols():
        raise UsageError(f"{url}: fsspec cannot read URLs that begin with {protocol}:// : download the file first")


def open_url(url: str, options: Mapping[str, Any]) -> IO[bytes]:
    """Open an object for reads at any offset; fetch nothing yet."""
    return fetch(partial(_open, options=options), url, url, "open")


def _open(url: str, options: Mapping[str, Any]) -> IO[bytes]:
    system, path = _import_fsspec(url).url_to_fs(url, **options)
    file = system.open(path, "rb", block_size=BLOCK_BYTES, cache_type="none")  # `UrlReader` keeps blocks
    try:
        file.seek(0, os.SEEK_END)
    except ValueError:
        if file.read(1):
            raise
        file.close()
        return io.BytesIO()  # By HTTP, an empty object cannot be read in pieces.
    return cast("IO[bytes]", file)


def fetch(function: Callable[[T], R], argument: T, url: str, stage: Literal["open", "read"]) -> R:
    """Call a function that reads from a file system, for a limited time; turn its errors into framefeed's.

    One that is late goes on, so that what it has opened must not be used again.
    """
    seconds = _stopping.SILENCE_SECONDS * (_CHAIN_FACTOR if "::" in url else 1)
    outcome = call_in_time(function, argument, seconds, show_name(url), stage)
    if isinstance(outcome, Err):
        # Not in a handler: the error there, which may name the URL in full, would be the context of the new one.
        _raise_url_error(outcome.error, url, stage)
    return outcome.value


def _raise_url_error(error: BaseException, url: str, stage: Literal["open", "read"]) -> NoReturn:
    """Raise framefeed's error for one of a file system; each file system has its own."""
    if isinstance(error, (FramefeedError, MemoryError)) or not isinstance(error, Exception):
        raise error
    name, done = show_name(url), "opened" if stage == "open" else "read"
    cause = error if name == url else _hide_secrets(error, url)
    if (reason := _describe_unreachable(error)) is not None:
        raise UnreadableMedia(f"{name}: {hide_secrets(reason, url)}", source=name, stage=stage) from cause
    if isinstance(error, TimeoutError):
        raise DeadlineExceeded(
            f"{name}: the storage did not answer in the time that its own settings allow: try again later",
            source=name,
            stage=stage,
        ) from cause
    if isinstance(cause, OSError):
        raise_file_error(cause, name, stage)
    reason = hide_secrets(str(error) or type(error).__name__, url)
    if isinstance(error, ImportError):
        extra = f"pip install 'framefeed[{_name_extra(url)}]'" if _HTTP.match(url.split("::")[-1]) else "install it"
        raise MissingDependency(f"{name}: fsspec needs another package to read it: {reason}: {extra}") from cause
    raise UnreadableMedia(
        f"{name}: cannot be {done} in pieces ({reason}): download it first", source=name, stage=stage
    ) from cause


def _hide_secrets(error: BaseException, url: str) -> Exception:
    """Make an error like a library's, and its causes, without the secrets of a URL; the numbers of systems stay."""
    text = hide_secrets(str(error) or type(error).__name__, url)
    if not isinstance(error, OSError):
        shown: Exception = Exception(f"{type(error).__name__}: {text}")
    elif error.errno is not None:
        shown = OSError(error.errno, hide_secrets(error.strerror or text, url))
    else:
        shown = FileNotFoundError(text) if isinstance(error, FileNotFoundError) else OSError(text)
    shown.__cause__ = None if error.__cause__ is None else _hide_secrets(error.__cause__, url)
    return shown.with_traceback(error.__traceback__)


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


def _name_extra(url: str) -> str:
    return "remote" if is_http(url) or is_listable(url) else "url"


def _import_fsspec(url: str) -> Any:
    try:
        import fsspec
    except ImportError as error:
        what = "urllib3" if (extra := _name_extra(url)) == "remote" else "fsspec"
        raise MissingDependency(f"{url}: reading a URL needs {what}: pip install 'framefeed[{extra}]'") from error
    return fsspec

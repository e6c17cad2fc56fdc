"""Files on the Hub of Hugging Face: ``hf://`` URLs, the user's token, lists of folders, and what errors mean.

As huggingface_hub 2, it asks for ``/datasets/ID/resolve/REVISION/PATH``, which the Hub redirects to a signed URL of
another host, and for ``/api/datasets/ID/tree/REVISION/FOLDER``, whose pages are linked by a header.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, NoReturn
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from framefeed._checks import expand_home
from framefeed._shown import show_name
from framefeed.errors import UnreadableMedia, UsageError
from framefeed.media.remote._answers import ListedObject, ObjectVersion
from framefeed.media.remote._storage_options import HubOptions
from framefeed.media.remote._targets import Problem, Target
from framefeed.media.remote._whole import WholeGet

_MOST_PAGE_BYTES = 2**23
"""Of 1,000 files."""
_ENDPOINT = "https://huggingface.co"
_KINDS = {"datasets": "datasets/", "models": "", "spaces": "spaces/", "buckets": "buckets/"}
"""First part of a URL behind ``hf://``, and of the path at the Hub. Models may lack it."""
_REFS = re.compile(r"refs/(?:convert/[\w.-]+|pr/\d+)")
"""Revisions with a slash that is no end of theirs."""
_NEXT = re.compile(r'<([^<>]*)>\s*;[^,]*\brel="?next"?')
_TRUE = ("1", "ON", "YES", "TRUE")
_EXAMPLE = "hf://datasets/ORG/NAME/path, hf://datasets/ORG/NAME@REVISION/path or hf://buckets/ORG/NAME/path"
_TOKEN = "the token (HF_TOKEN, or the file that `hf auth login` writes)"
_MISSING_CODES = ("EntryNotFound", "RepoNotFound", "RevisionNotFound")


class HubName(NamedTuple):
    """A file or folder on the Hub."""

    kind: str  # "datasets", "models", "spaces" or "buckets"
    repository: str  # such as "ORG/NAME"
    revision: str  # branch, tag or commit; "" in a bucket
    path: str  # byte for byte as in the URL; "" is all of it


def split_hub_url(url: str) -> HubName:
    """Split an ``hf://`` URL as huggingface_hub does.

    >>> split_hub_url("hf://datasets/org/name@refs/convert/parquet/default/0.parquet")
    HubName(kind='datasets', repository='org/name', revision='refs/convert/parquet', path='default/0.parquet')
    >>> split_hub_url("hf://buckets/org/name/a@2.mp4")
    HubName(kind='buckets', repository='org/name', revision='', path='a@2.mp4')
    """
    rest = url.removeprefix("hf://")
    kind, _, after = rest.partition("/")
    if kind not in _KINDS:
        kind, after = "models", rest
    organisation, _, after = after.partition("/")
    name, mark, path = re.fullmatch("([^/@]*)([/@]?)(.*)", after, re.DOTALL).groups()  # type: ignore[union-attr]
    revision = "" if kind == "buckets" else "main"
    if mark == "@":
        special = _REFS.match(path)
        revision = special[0] if special else path.partition("/")[0]
        path = path[len(revision) :].removeprefix("/")
        revision = unquote(revision)
    if not organisation or not name or "@" in organisation or (mark == "@" and (kind == "buckets" or not revision)):
        raise UsageError(f"{show_name(url)}: names no file on the Hub of Hugging Face: expected {_EXAMPLE}")
    return HubName(kind, f"{organisation}/{name}", revision, path)


def find_token(options: HubOptions, environment: Mapping[str, str] = os.environ) -> str | None:
    """Find the token of the user: in the options, in variables, or in the file that a login writes; None if none is."""
    if options.token is not None:
        return options.token or None
    if environment.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").upper() in _TRUE:
        return None
    token = environment.get("HF_TOKEN") or environment.get("HUGGING_FACE_HUB_TOKEN")
    if not token:
        caches = environment.get("XDG_CACHE_HOME") or "~/.cache"
        home = environment.get("HF_HOME") or os.path.join(caches, "huggingface")
        path = os.path.expandvars(environment.get("HF_TOKEN_PATH") or os.path.join(home, "token"))
        try:
            with open(expand_home(path), encoding="utf-8", errors="replace") as file:
                token = file.read(4096)
        except (FileNotFoundError, NotADirectoryError, PermissionError, IsADirectoryError):
            return None
    token = token.strip()
    if not token.isascii() or not token.isprintable():
        raise UsageError("the token of Hugging Face (HF_TOKEN) has characters that no token has: log in again")
    return token or None


@dataclass(frozen=True)
class HubTarget(Target):
    """A file that a URL ``hf://`` names, or a page of the list of a folder.

    What the options lack comes from the environment; ``page`` is "" for the file.
    """

    url: str
    options: HubOptions = field(default_factory=HubOptions, repr=False)
    page: str = ""
    name: HubName = field(init=False)
    explains: ClassVar[bool] = True
    server_setting: ClassVar[str] = "HF_ENDPOINT"

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", split_hub_url(self.url))
        if not self.page and not self.name.path:
            raise UsageError(f"{show_name(self.url)}: names no file: expected {_EXAMPLE}")

    @property
    def key(self) -> Hashable:
        """Key of the object and of how it is asked for."""
        return self.url, self.options

    @property
    def endpoint(self) -> str:
        """URL of the Hub, without a slash at its end."""
        return (self.options.endpoint or os.environ.get("HF_ENDPOINT") or _ENDPOINT).rstrip("/")

    @property
    def is_bucket(self) -> bool:
        """Whether it lies in a bucket, which has no revisions."""
        return self.name.kind == "buckets"

    def make_request(self, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Make the URL and all headers of a request; no conditions, because the host of the bytes has other tags."""
        name, kept = self.name, {each: value for each, value in headers.items() if not each.startswith("If-")}
        if (token := find_token(self.options)) is not None:
            kept["Authorization"] = f"Bearer {token}"
        revision = f"{quote(name.revision, safe='')}/" if name.revision else ""
        file = _quote(name.path, "" if self.is_bucket else "/")
        path = f"{_KINDS[name.kind]}{name.repository}/resolve/{revision}{file}"
        return self.page or f"{self.endpoint}/{path}", kept

    def find_tag(self, headers: Mapping[str, str]) -> str | None:
        """Find the entity tag of the file, which its list has too, in an answer of the Hub; other hosts have others."""
        tag = headers.get("X-Xet-Hash") if self.is_bucket else None
        tag = tag or headers.get("X-Linked-Etag") or (headers.get("ETag") if "X-Repo-Commit" in headers else None)
        return make_tag(tag) if tag else None

    def explain(self, status: int, headers: Mapping[str, str], document: bytes) -> Problem | None:
        """Explain an error of the Hub, which a header names."""
        code = headers.get("X-Error-Code", "")
        has_token = find_token(self.options) is not None
        if code == "GatedRepo":
            advice = f"accept its conditions on its page, and give {_TOKEN} of that account"
            return Problem(f"{code}: the repository is gated: {advice}")
        if code == "RepoNotFound" or status == 401:
            advice = f"check its name and {_TOKEN}" if has_token else f"check its name; if it is private, give {_TOKEN}"
            message = f"{code or 'Unauthorized'}: no such repository for this user: {advice}"
            return Problem(message, is_missing=status == 404)
        if status == 403:
            return Problem(f"{code or 'Forbidden'}: check the rights of {_TOKEN}")
        if code in _MISSING_CODES:
            return Problem(f"{code}: check the path, byte for byte, and the revision", is_missing=True)
        return None


def make_tag(text: str) -> str:
    """Make a strong entity tag of a hash, with or without quotes."""
    return f'"{text.removeprefix("W/").strip(chr(34))}"'


def _quote(path: str, safe: str) -> str:
    return quote(path.encode("utf-8", "surrogateescape"), safe=safe)


class _PageGet(WholeGet):
    """Gets a page of a list, and the header ``Link`` with the URL of the next one."""

    link = ""

    def _take(self, response: Any) -> bytes:
        data = super()._take(response)
        self.link = response.headers.get("Link", "")
        return data


def list_hub(url: str, options: HubOptions) -> Iterator[list[ListedObject]]:
    """List the files of a repository or a bucket whose URLs begin so, page by page."""
    first = HubTarget(url, options, page="-")
    name, shown = first.name, show_name(url)
    folder = name.path.rpartition("/")[0]
    parts = [quote(name.revision, safe="")] if name.revision else []
    # Of a bucket, the beginning of names; of a repository, a folder.
    parts += [_quote(f"{folder}/" if first.is_bucket else folder, "")] if folder else []
    page = "/".join([f"{first.endpoint}/api/{name.kind}/{name.repository}/tree", *parts]) + "?recursive=true"
    asked = set[str]()
    while page:
        if page in asked:
            _raise_damaged(shown, "its next page is one that was asked for before")
        asked.add(page)
        get = _PageGet(HubTarget(url, options, page), _MOST_PAGE_BYTES)
        entries = _parse_page(get(), shown)
        yield [each for each in entries if each.key.startswith(name.path)]
        link = _NEXT.search(get.link)
        # The token is sent with it: at the host that was asked, whichever the link names.
        page = urlunsplit((*urlsplit(page)[:2], *urlsplit(urljoin(page, link[1]))[2:4], "")) if link else ""


def _parse_page(document: bytes, shown: str) -> list[ListedObject]:
    try:
        entries = json.loads(document) if len(document) <= _MOST_PAGE_BYTES else None
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, list):
        _raise_damaged(shown, "a page is no list")
    listed = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
            _raise_damaged(shown, "an entry has no path")
        if not _is_text(entry["path"]):
            _raise_damaged(shown, "a path is no text")
        if entry.get("type") == "file":
            size, lfs = entry.get("size"), entry.get("lfs")
            if type(size) is not int or not 0 <= size < 2**63:
                _raise_damaged(shown, "a file has no size")
            tag = lfs.get("oid") if isinstance(lfs, dict) else entry.get("oid") or entry.get("xetHash")
            version = ObjectVersion.of(size, {"ETag": make_tag(tag)} if isinstance(tag, str) else {})
            listed.append(ListedObject(entry["path"], size, version.text))
    return listed


def _is_text(path: str) -> bool:
    try:
        return bool(path.encode())
    except UnicodeEncodeError:
        return False


def _raise_damaged(name: str, reason: str) -> NoReturn:
    raise UnreadableMedia(f"{name}: the list of its files cannot be read: {reason}", source=name, stage="open")

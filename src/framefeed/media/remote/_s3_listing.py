"""Lists of objects, page by page, and the documents in which S3 describes an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree as ET

from framefeed._shown import show_text
from framefeed.errors import UnreadableMedia
from framefeed.media.remote._s3_urls import decode_key

MOST_PAGE_BYTES = 2**23
"""Bytes of a page, of which a client reads one more: 1,000 keys of 1,024 bytes, encoded in three times as many."""
MOST_ERROR_BYTES = 2**16
"""Bytes of an error's document that a client reads."""
KEYS_PER_PAGE = 1000
"""As many as S3 gives at once."""
# Elements and attributes of a page: a tree of as many takes some 20 MB. S3 has 11 elements a key, which begin and end.
_MOST_MARKS = 200_000
_MOST_SHOWN = 200
# Shorter ones would be cut out of unrelated words.
_LEAST_SECRET = 4
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9.]{0,63}")
# What may be a key, a token or a signature, in the words of a server: long, with digits, without spaces.
_OPAQUE = re.compile(r"(?=\S*\d)[A-Za-z0-9+/=_%.~-]{16,}")
_SIZE = re.compile("[0-9]{1,18}")
_UNPRINTABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_ENCODING = "url"

TRANSIENT_CODES = frozenset(
    {"InternalError", "OperationAborted", "RequestTimeout", "ServiceUnavailable", "SlowDown"}
    | {"ConditionalRequestConflict"}
)
"""Errors that may pass: the request may be sent again. ``RequestTimeout`` comes with status 400,
``ConditionalRequestConflict`` where two writers were there at the same time."""
_ADVICE = {
    "AccessDenied": "these credentials may not read it, or it does not exist and they may not list the bucket: check "
    "both, or use anon=True in storage_options for a public bucket",
    "AuthorizationHeaderMalformed": "the request was signed for another region: set region in storage_options, or "
    "AWS_REGION",
    "ExpiredToken": "the temporary credentials have expired: get new ones, then go on",
    "InvalidAccessKeyId": "the server does not know the access key: check key in storage_options, or "
    "AWS_ACCESS_KEY_ID, and endpoint_url",
    "InvalidObjectState": "the object is archived: restore it first",
    "InvalidToken": "the session token is wrong: check token in storage_options, or AWS_SESSION_TOKEN, which must "
    "belong to the access key",
    "NoSuchBucket": "there is no such bucket: check its name, and endpoint_url",
    "NoSuchKey": "check the key, byte for byte; a prefix of others ends with a slash, and of ff.scan only *, ** "
    "and {} are patterns: ? and [ belong to the key",
    "NoSuchVersion": "there is no such version of the object",
    "PermanentRedirect": "the bucket is in another region: set region in storage_options, or AWS_REGION",
    "PreconditionFailed": "the object has changed: scan or index it again",
    "RequestTimeTooSkewed": "the clock of this machine is wrong by more than 15 minutes: set it",
    "SignatureDoesNotMatch": "the secret key is wrong, or a proxy changed the request: check secret in "
    "storage_options, or AWS_SECRET_ACCESS_KEY",
    "SlowDown": "the server asks for fewer requests: try again later, with fewer workers",
}


@dataclass(frozen=True, slots=True)
class S3Entry:
    """An object in a list."""

    key: str  # key, byte for byte; bytes that are no UTF-8 as lone surrogates
    size: int  # bytes
    etag: str  # as the server writes it, with its quotes; "" if it has none
    last_modified: str  # in the server's words, such as "2026-11-23T10:00:00.000Z"; "" if it says nothing


class S3Page(NamedTuple):
    """Objects in the order of the server, and the token for the next ones; None behind the last page."""

    entries: list[S3Entry]
    next_token: str | None


class S3Problem(NamedTuple):
    """An error in S3's word, and for people; both empty where an answer says nothing in S3's form."""

    code: str
    message: str


def make_list_query(prefix: str, token: str | None = None, max_keys: int = KEYS_PER_PAGE) -> list[tuple[str, str]]:
    """Make the query for one page of a list, as `locate` takes it; ``token`` is that of the page before."""
    following = [] if token is None else [("continuation-token", token)]
    # Encoded, because XML has no way to write some characters that keys may have.
    return [
        *following,
        ("encoding-type", _ENCODING),
        ("list-type", "2"),
        ("max-keys", str(max_keys)),
        ("prefix", prefix),
    ]


def list_pages(
    fetch: Callable[[list[tuple[str, str]]], bytes], prefix: str, name: str, max_keys: int = KEYS_PER_PAGE
) -> Iterator[S3Page]:
    """Fetch all pages of a list, one after the other.

    ``fetch`` takes a query and returns the document, of which it reads no more than ``MOST_PAGE_BYTES`` and one.
    """
    token: str | None = None
    while True:
        page = parse_page(fetch(make_list_query(prefix, token, max_keys)), name)
        yield page
        if page.next_token is None:
            return
        if page.next_token == token:
            _raise_damaged(name, "its pages do not end")
        token = page.next_token


def parse_page(xml: bytes, name: str) -> S3Page:
    """Parse one page of a list."""
    if len(xml) > MOST_PAGE_BYTES:
        _raise_damaged(name, f"a page is larger than {MOST_PAGE_BYTES >> 20} MiB")
    root = _parse(xml)
    if root is None or root.tag != "ListBucketResult":
        problem = describe_error(xml)
        _raise_damaged(name, problem.message or "the answer is no list of S3")
    is_encoded = root.findtext("EncodingType") == _ENCODING
    entries: list[S3Entry] = []
    for element in root.iterfind("Contents"):
        key, size = element.findtext("Key") or "", element.findtext("Size") or ""
        if not key or not _SIZE.fullmatch(size):
            _raise_damaged(name, "an object has no key or no size")
        # A space is "+" in the lists of AWS.
        decoded = decode_key(unquote_to_bytes(key.replace("+", " "))) if is_encoded else key
        etag, last_modified = element.findtext("ETag") or "", element.findtext("LastModified") or ""
        entries.append(S3Entry(decoded, int(size), etag.strip(), last_modified.strip()))
    token = root.findtext("NextContinuationToken") or None
    if (root.findtext("IsTruncated") or "").strip() != "true":
        return S3Page(entries, None)
    if token is None:
        _raise_damaged(name, "a page says that more follow, but not how to ask for them")
    return S3Page(entries, token)


def describe_error(xml: bytes, secrets: Collection[str] = ()) -> S3Problem:
    """Describe an error without what is secret in its document: access keys, tokens, signatures and what was signed.

    ``secrets`` are texts that were sent, and may not be shown.
    """
    root = _parse(xml) if len(xml) <= MOST_ERROR_BYTES else None
    if root is None or root.tag != "Error":
        return S3Problem("", "")
    code = (root.findtext("Code") or "").strip()
    if not _CODE.fullmatch(code):
        return S3Problem("", "")
    if code in _ADVICE:
        return S3Problem(code, f"{code}: {_ADVICE[code]}")
    text = show_text(_UNPRINTABLE.sub(" ", root.findtext("Message") or "").strip())
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _LEAST_SECRET:
            text = text.replace(secret, "...")
    text = _OPAQUE.sub("...", text)
    return S3Problem(code, f"{code}: {text[:_MOST_SHOWN]}" if text else code)


def _parse(xml: bytes) -> ET.Element | None:
    """Parse a document without namespaces; None if it is no XML of the plain kind that S3 sends."""
    # A document type may define entities that grow without bound. As text of one encoding, or it could be hidden.
    try:
        text = xml.decode()
    except UnicodeDecodeError:
        return None
    if "<!DOCTYPE" in text or "<!ENTITY" in text or text.count("<") + text.count("=") > _MOST_MARKS:
        return None
    try:
        root = ET.fromstring(text)
    except (ET.ParseError, ValueError):
        return None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _raise_damaged(name: str, reason: str) -> NoReturn:
    raise UnreadableMedia(f"{name}: the list of objects cannot be read: {reason}", source=name, stage="open")

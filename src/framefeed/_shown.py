"""Show names of sources without the secrets of URLs: user names, passwords, queries, fragments.

What is shown names no source for sure. What a catalog keeps does (`strip_url`): it lacks only what gives rights.

Names without ``://`` are shown as they are, after one search: scans name a million files.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

_MARK = "://"
# A password may have "/", "?" and "@" in it, which should have been escaped. Digits alone behind ":" are a port.
_USER = re.compile(r"(?<=://)(?:[^/?#@\[]*:(?!\d*(?:[/?#]|$))[^@]*@)?(?:[^/?#]*@)?")
_QUERY = re.compile(r"([?#]).*", re.DOTALL)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>`]+")
_TRAILING = ".,:;)]}"
# Shorter ones, such as a version, would be cut out of unrelated words.
_LEAST_SECRET = 4

# The name of what lies in a container has no secrets.
_PART = re.compile("(?:tar|zip|parquet)://.*?::", re.DOTALL)
_CHAIN = re.compile(r"::(?=[A-Za-z][A-Za-z0-9+.-]*://)")
# "@" and "?" belong to names: of files, of members of archives, of references.
_LITERAL = {"data", "file", "git", "github", "libarchive", "local", "memory", "parquet", "tar", "zip"}
# "?" belongs to keys.
_BUCKETS = {"gcs", "gs", "hf", "s3", "s3a"}
_SIGNING_PREFIXES = ("x-amz-", "x-goog-", "x-oss-", "x-obs-", "x-tos-", "q-sign-")
# Of CloudFront and other networks, S3 and Google before version 4, Azure, and tokens under their usual names.
_SIGNING = {
    "access_token",
    "api_key",
    "apikey",
    "auth_token",
    "awsaccesskeyid",
    "expires",
    "googleaccessid",
    "hdnea",
    "hdnts",
    "key-pair-id",
    "ossaccesskeyid",
    "password",
    "policy",
    "q-ak",
    "q-signature",
    "security-token",
    "sig",
    "signature",
    "token",
}
# What a shared access signature of Azure says besides "sig", without which these may be anything.
_SHARED_ACCESS = {
    "saoid",
    "sdd",
    "se",
    "si",
    "sip",
    "sks",
    "skoid",
    "skt",
    "sktid",
    "ske",
    "skv",
    "sp",
    "spr",
    "sr",
    "srt",
    "ss",
    "st",
    "suoid",
    "sv",
}


def show_name(name: str) -> str:
    """Replace the query and the fragment of a URL by ``?...`` and ``#...``, and leave out user and password.

    Keys of buckets are shown whole.

    >>> show_name("simplecache::https://user:password@host/v.mp4?signature=abc")
    'simplecache::https://host/v.mp4?...'
    >>> show_name("s3://key:secret@bucket/v.mp4?take=1")
    's3://bucket/v.mp4?take=1'
    """
    if _MARK not in name:
        return name
    if (packed := _PART.match(name)) is not None:
        return packed[0] + show_name(name[packed.end() :])
    shown: list[str] = []
    is_cut = False
    for part in name.split("::"):
        if is_cut and _MARK not in part:
            continue  # "::" in a query
        address = _USER.sub("", part)
        query = _find_query(address)
        is_cut = query is not None
        shown.append(address if query is None else f"{address[: query.start()]}{query[1]}...")
    return "::".join(shown)


def _find_query(address: str) -> re.Match[str] | None:
    """Find the query and the fragment of a URL without a user; None of keys of buckets."""
    scheme, _, rest = address.partition(_MARK)
    # In a text without spaces, another URL may follow.
    is_key = scheme.lower() in _BUCKETS and _MARK not in rest
    return None if is_key else _QUERY.search(address)


def has_hidden_query(name: str) -> bool:
    """Whether a name was shown without its query, so that it names no source for sure."""
    return _MARK in name and "?..." in name


def advise_indexing(name: str) -> str:
    """Say what to do about a source that has changed, by its shown name.

    >>> advise_indexing("a.mp4")
    'scan or index it again'
    """
    renewed = ", by a URL with a new signature if this one has expired" if has_hidden_query(name) else ""
    return f"scan or index it again{renewed}"


def strip_url(url: str) -> str:
    """Leave out of a URL what gives rights: user and password, and the parameters of signatures; keep all other bytes.

    >>> strip_url("https://user:password@host/v.mp4?a=%20&X-Amz-Signature=0&X-Amz-Expires=60&b")
    'https://host/v.mp4?a=%20&b'
    """
    return "::".join(map(_strip_part, _CHAIN.split(url))) if _MARK in url else url


def drop_query(url: str) -> str:
    """Leave out of a URL user, password, query and fragment; keys of buckets and names of files are kept whole."""
    parts = []
    for part in _CHAIN.split(strip_url(url)):
        scheme, mark, _ = part.partition(_MARK)
        is_name = not mark or scheme.lower() in _LITERAL | _BUCKETS
        parts.append(part if is_name else _QUERY.sub("", part))
    return "::".join(parts)


def is_signed(url: str) -> bool:
    """Whether a URL has what `strip_url` leaves out."""
    return strip_url(url) != url


def _strip_part(part: str) -> str:
    scheme = part.partition(_MARK)[0].lower()
    if _MARK not in part or scheme in _LITERAL:
        return part
    part = _USER.sub("", part, count=1)
    if scheme in _BUCKETS:
        return part
    address, hash_mark, fragment = part.partition("#")
    path, _, query = address.partition("?")
    fields = query.split("&")
    names = [unquote(field.partition("=")[0]).lower() for field in fields]
    drops = _SIGNING | _SHARED_ACCESS if "sig" in names else _SIGNING
    kept = [
        field
        for field, name in zip(fields, names, strict=True)
        if name not in drops and not name.startswith(_SIGNING_PREFIXES)
    ]
    if len(kept) == len(fields):
        return part
    return path + ("?" if kept else "") + "&".join(kept) + hash_mark + fragment


def show_text(text: str) -> str:
    """Hide the secrets of the URLs in a text."""
    return _URL.sub(_show_match, text) if _MARK in text else text


def _show_match(match: re.Match[str]) -> str:
    url = match[0].rstrip(_TRAILING)
    shown, rest = show_name(url), match[0][len(url) :]
    return shown + (rest.removeprefix("...") if shown.endswith("...") else rest)


def hide_secrets(text: str, url: str) -> str:
    """Hide the secrets of a URL in a text that may have parts of it in any form, such as a library's message."""
    text = show_text(text.replace(url, show_name(url)))
    secrets = set[str]()
    for part in url.split("::"):
        user, query = _USER.search(part), _find_query(_USER.sub("", part))
        fields = re.split("[:@]", user[0]) if user else []
        for field in re.split("[?#&;]", query[0]) if query else []:
            fields.append(field.partition("=")[2] or field)
        secrets.update(form for field in fields for form in (field, unquote(field)) if len(form) >= _LEAST_SECRET)
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "...")
    return text

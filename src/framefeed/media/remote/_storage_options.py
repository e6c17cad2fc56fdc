"""``storage_options``: what a user says of the servers under a URL prefix, such as headers and keys.

No message here names a value: it may be a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from framefeed._checks import check_known
from framefeed.errors import UsageError
from framefeed.media.remote._s3_urls import is_region, parse_endpoint
from framefeed.media.remote._schemes import StorageOptions

_EXAMPLE = "{'s3://bucket/': {'key': ..., 'secret': ...}, 'https://host/': {'headers': {'Authorization': ...}}}"
_BORDERS = "/?#"
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# A reader of ranges writes these itself.
_OWN_HEADERS = {
    "accept-encoding",
    "connection",
    "content-length",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    "te",
    "transfer-encoding",
    "upgrade",
}
# Of s3fs, boto3 and obstore, in small letters.
_OTHER_NAMES = {
    "access_key_id": "key",
    "aws_access_key_id": "key",
    "username": "key",
    "aws_secret_access_key": "secret",
    "password": "secret",
    "secret_access_key": "secret",
    "aws_session_token": "token",
    "aws_token": "token",
    "session_token": "token",
    "aws_endpoint": "endpoint_url",
    "aws_endpoint_url": "endpoint_url",
    "endpoint": "endpoint_url",
    "aws_default_region": "region",
    "aws_region": "region",
    "default_region": "region",
    "region_name": "region",
    "client_kwargs": "endpoint_url and region",
    "aws_skip_signature": "anon",
    "skip_signature": "anon",
    "profile": "the environment variable AWS_PROFILE",
    "profile_name": "the environment variable AWS_PROFILE",
}


@dataclass(frozen=True, slots=True)
class S3Options:
    """The options of ``s3://`` URLs; what is None comes from the environment and from files.

    With ``anon``, no signature is sent.
    """

    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    endpoint_url: str | None = None
    region: str | None = None
    anon: bool = False


@dataclass(frozen=True, slots=True)
class HubOptions:
    """The options of ``hf://`` URLs; what is None comes from the environment and from a file. "" sends no token."""

    token: str | None = field(default=None, repr=False)
    endpoint: str | None = None


def check_storage_options(given: Any) -> None:
    """Check options before they are used."""
    if given is None:
        return
    _check_mapping("storage_options", given, _EXAMPLE)
    for prefix, options in given.items():
        if not isinstance(prefix, str) or "://" not in prefix:
            raise UsageError(f"storage_options: expected options by URL prefix, such as {_EXAMPLE}")
        _check_mapping(_show_option(prefix), options, "{'anon': True}")
        scheme = prefix.partition("://")[0].lower()
        if scheme in ("http", "https"):
            parse_headers(options, prefix)
        elif scheme == "s3":
            parse_s3_options(options, prefix)
        elif scheme == "hf":
            parse_hub_options(options, prefix)


def find_options(storage_options: StorageOptions, url: str) -> Mapping[str, Any]:
    """Find the options for a URL: those of the longest prefix, which ends where a folder or a name does.

    >>> find_options({"s3://bucket": {"anon": True}}, "s3://bucket/a.mp4")
    {'anon': True}
    >>> find_options({"s3://bucket": {"anon": True}}, "s3://bucket2/a.mp4")
    {}
    >>> find_options({"s3://bucket/": {"anon": True}}, "s3://bucket")
    {'anon': True}
    """
    # Not also part of a name: keys of one bucket or host would be sent to another.
    folded = _fold(url)
    borders = f"{_BORDERS}@" if folded.startswith("hf://") else _BORDERS  # which a revision stands behind
    fitting = [
        prefix
        for prefix in storage_options
        if (start := _fold(prefix)) in (folded, f"{folded}/")
        or (folded.startswith(start) and (start.endswith("/") or folded[len(start)] in borders))
    ]
    return storage_options[max(fitting, key=len)] if fitting else {}


def parse_headers(options: Mapping[str, Any], prefix: str = "https://") -> dict[str, str]:
    """Read the headers of requests by http(s) from the options of a prefix; those that framefeed writes are refused."""
    _check_names(options, prefix, ["headers"])
    headers = options.get("headers") or {}
    _check_mapping(f"{_show_option(prefix)}['headers']", headers, "{'Authorization': ...}")
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise UsageError(f"{_show_option(prefix)}['headers']: a name is no name of a header")
        if name.lower() in _OWN_HEADERS:
            raise UsageError(f"{_show_option(prefix)}['headers']: {name} cannot be set: framefeed writes it")
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value) or value != value.strip():
            raise UsageError(
                f"{_show_option(prefix)}['headers'][{name!r}]: expected one line of text, without spaces around it"
            )
    return dict(headers)


def parse_s3_options(options: Mapping[str, Any], prefix: str = "s3://") -> S3Options:
    """Read the options of s3 from those of a prefix."""
    known = [each.name for each in fields(S3Options)]
    others = [name for name in map(str, options) if name.lower() in _OTHER_NAMES]
    if others:
        advice = ", ".join(f"{_OTHER_NAMES[name.lower()]} for {name}" for name in others)
        raise UsageError(f"{_show_option(prefix)}: expected some of {', '.join(sorted(known))}: use {advice}")
    _check_names(options, prefix, known)
    given = {name: value for name, value in options.items() if value is not None}
    if not isinstance(given.get("anon", False), bool):
        raise UsageError(f"{_show_option(prefix)}['anon']: expected True or False")
    for name, value in given.items():
        if name != "anon" and not isinstance(value, str):
            raise UsageError(f"{_show_option(prefix)}[{name!r}]: expected text, got {type(value).__name__}")
    parsed = S3Options(**given)
    for name in ("key", "secret", "token"):
        check_key(f"{_show_option(prefix)}[{name!r}]", given.get(name))
    if (parsed.key is None) != (parsed.secret is None) or (parsed.token is not None and parsed.key is None):
        raise UsageError(f"{_show_option(prefix)}: expected both key and secret, and token with temporary ones only")
    if parsed.anon and parsed.key is not None:
        raise UsageError(f"{_show_option(prefix)}: expected either anon=True or keys, got both")
    if parsed.endpoint_url is not None:
        parse_endpoint(parsed.endpoint_url)
    check_region(f"{_show_option(prefix)}['region']", parsed.region)
    return parsed


def parse_hub_options(options: Mapping[str, Any], prefix: str = "hf://") -> HubOptions:
    """Read the options of the Hub of Hugging Face from those of a prefix; its token is False to send none."""
    _check_names(options, prefix, ["endpoint", "token"])
    token, endpoint = options.get("token"), options.get("endpoint")
    if token is False:
        token = ""
    elif token is not None and not isinstance(token, str):
        raise UsageError(f"{_show_option(prefix)}['token']: expected text, or False, got {type(token).__name__}")
    else:
        check_key(f"{_show_option(prefix)}['token']", token)
    if endpoint is not None and not (isinstance(endpoint, str) and re.match(r"https?://[^/?#@]+[^?#@]*$", endpoint)):
        raise UsageError(f"{_show_option(prefix)}['endpoint']: expected a URL such as 'https://huggingface.co'")
    return HubOptions(token, endpoint)


def check_key(name: str, value: str | None) -> None:
    """Check what is sent in a header, whose errors would show it: no spaces and no line breaks."""
    if value is not None and not _PRINTABLE.fullmatch(value):
        raise UsageError(f"{name}: is empty, or has spaces, line breaks or characters that no key has")


def check_region(name: str, region: str | None) -> None:
    """Check a region, which becomes part of the name of a host."""
    if region is not None and not is_region(region):
        raise UsageError(f"{name}: expected a region such as 'eu-west-1'")


def _check_names(options: Mapping[str, Any], prefix: str, known: list[str]) -> None:
    check_known(_show_option(prefix), map(str, options), known)


def _check_mapping(name: str, given: Any, example: str) -> None:
    if not isinstance(given, Mapping):
        raise UsageError(f"{name}: expected a dict such as {example}, got {type(given).__name__}")


def _show_option(prefix: str) -> str:
    return f"storage_options[{prefix!r}]"


def _fold(url: str) -> str:
    """Write scheme and host in small letters; names of buckets have both."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}{mark}{host.lower() if scheme.lower() in ('http', 'https') else host}{slash}{path}"

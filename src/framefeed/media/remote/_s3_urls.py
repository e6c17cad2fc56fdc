"""From ``s3://bucket/key`` to what is asked of which server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from framefeed._shown import show_name
from framefeed.errors import UsageError

DEFAULT_REGION = "us-east-1"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
# As the name of a host: a certificate for *.s3.amazonaws.com holds for no bucket with a dot.
_HOST_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_VERSION = re.compile(r"(.*)\?versionId=([A-Za-z0-9._-]+)", re.DOTALL)
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
# Servers other than AWS have their own; it becomes part of the name of a host.
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_REGION_ELEMENT = re.compile(rb"<Region>\s*([A-Za-z0-9_-]{1,63})\s*</Region>")
# Regions with other names of hosts, by their first letters.
_DOMAINS = {"cn-": "amazonaws.com.cn", "eusc-": "amazonaws.eu"}
_WRONG_REGION = (301, 302, 307, 400)
"""Status codes of an answer that may say where the bucket is. Of a HEAD, 400 has no more than the header."""


@dataclass(frozen=True, slots=True)
class S3Name:
    """An object, or with an empty key all of a bucket."""

    bucket: str  # name of the bucket
    key: str  # byte for byte as in the URL; bytes that are no UTF-8 as lone surrogates, as in names of files
    version: str | None = None  # id of one version; None for the latest

    @property
    def url(self) -> str:
        """The ``s3://`` URL."""
        return f"s3://{self.bucket}/{self.key}{'' if self.version is None else f'?versionId={self.version}'}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server, and the path under which it serves, without a slash at its end: empty for nearly all.

    A host of IPv6 is in brackets.
    """

    scheme: str
    host: str
    port: int
    path: str = ""


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """What is asked of which server: exactly as it is sent, and signed; the target is path and query, encoded."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def host_header(self) -> str:
        """Value of the Host header."""
        return self.host if self.port == _DEFAULT_PORTS[self.scheme] else f"{self.host}:{self.port}"


def split_s3_url(url: str) -> S3Name:
    """Split ``s3://bucket/key``; ``%``, ``#`` and ``?`` belong to the key, but for ``?versionId=...`` at its end.

    >>> split_s3_url("s3://bucket/a%20b//c.mp4?versionId=3")
    S3Name(bucket='bucket', key='a%20b//c.mp4', version='3')
    """
    bucket, _, key = url.partition("://")[2].partition("/")
    # Messages name the URL as it is shown: what stands in place of the bucket may be a password.
    if "@" in bucket or (":" in bucket and not bucket.startswith("arn:")):
        raise UsageError(
            f"{show_name(url)}: keys in the URL are not read: use storage_options={{'s3://': {{'key': ..., "
            "'secret': ...}}, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if bucket.startswith("arn:"):
        raise UsageError(f"{show_name(url)}: is the ARN of an access point: use its alias, which is like a bucket")
    if bucket.endswith("--x-s3"):
        raise UsageError(f"{show_name(url)}: directory buckets (S3 Express) are not supported: copy to another bucket")
    if not _BUCKET.fullmatch(bucket):
        raise UsageError(f"{show_name(url)}: expected s3://bucket/key, with a bucket of letters, digits and -._")
    try:
        encode_key(key)
    except UnicodeEncodeError:
        raise UsageError(
            f"{show_name(url)!r}: has characters that are no text, and cannot be the key of an object"
        ) from None
    versioned = _VERSION.fullmatch(key)
    return S3Name(bucket, *versioned.groups()) if versioned else S3Name(bucket, key)


def parse_endpoint(url: str) -> Endpoint:
    """Parse an ``endpoint_url``."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    is_plain = "@" not in parts.netloc and not parts.query and not parts.fragment
    if parts.scheme not in _DEFAULT_PORTS or not _HOST.fullmatch(host) or not is_plain or port == 0:
        raise UsageError(
            f"endpoint_url: expected a URL such as 'https://storage.example.org:9000', without user and query, "
            f"got {show_name(url)!r}"
        )
    path = quote(parts.path.rstrip("/"), safe="/%-._~")
    return Endpoint(parts.scheme, host, _DEFAULT_PORTS[parts.scheme] if port is None else port, path)


def locate(
    name: S3Name, region: str, endpoint: Endpoint | None = None, query: Iterable[tuple[str, str]] = ()
) -> HttpAddress:
    """Find the server and the target of an object or a bucket, with a query of names and values, not encoded.

    The buckets of an endpoint are its folders; without one, the server is AWS.
    """
    path = "/" + quote(encode_key(name.key))
    if endpoint is None:
        domain = next((domain for start, domain in _DOMAINS.items() if region.startswith(start)), "amazonaws.com")
        endpoint = Endpoint("https", f"s3.{region}.{domain}", 443)
        if _HOST_BUCKET.fullmatch(name.bucket):
            endpoint = Endpoint("https", f"{name.bucket}.{endpoint.host}", 443)
        else:
            path = f"/{name.bucket}{path}"
    else:
        path = f"{endpoint.path}/{name.bucket}{path}"
    version = [] if name.version is None else [("versionId", name.version)]
    fields = "&".join(f"{each}={quote(encode_key(value), safe='')}" for each, value in sorted([*query, *version]))
    return HttpAddress(endpoint.scheme, endpoint.host, endpoint.port, path + (fields and f"?{fields}"))


def encode_key(key: str) -> bytes:
    """Convert a key to its bytes."""
    return key.encode("utf-8", "surrogateescape")


def decode_key(key: bytes) -> str:
    """Convert the bytes of a key to text."""
    return key.decode("utf-8", "surrogateescape")


def is_region(name: str) -> bool:
    """Whether a name can be that of a region, and so a part of the name of a host."""
    return _REGION.fullmatch(name) is not None


def find_other_region(status: int, headers: Mapping[str, str], body: bytes, region: str) -> str | None:
    """Find the region of a bucket in the answer to a request that was sent to another, or signed for another.

    None if the answer is about something else. ``body`` has its first bytes, none for a HEAD.
    """
    if status not in _WRONG_REGION:
        return None
    other = next((value for name, value in headers.items() if name.lower() == "x-amz-bucket-region"), "")
    if not other and (element := _REGION_ELEMENT.search(body)) is not None:
        other = element[1].decode()
    return other if other != region and is_region(other) else None

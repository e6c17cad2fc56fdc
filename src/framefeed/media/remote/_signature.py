"""Sign requests to S3 with AWS Signature Version 4, in their headers.

The rules: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from hmac import digest

EMPTY_SHA256 = sha256(b"").hexdigest()
"""Hash of no body. Unlike UNSIGNED-PAYLOAD, all servers take it, over http too, and for no body it costs nothing."""

_ALGORITHM = "AWS4-HMAC-SHA256"
# Proxies on the way change these; Google's storage and Cloudflare change Accept-Encoding before they check signatures.
_UNSIGNED = {
    "accept-encoding",
    "authorization",
    "connection",
    "expect",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
}
_SPACES = re.compile(" +")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys of one identity; the token is that of temporary ones."""

    key: str = field(repr=False)
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class S3Request:
    """What a signature covers besides the headers: exactly what is sent."""

    method: str  # GET, HEAD or PUT
    host: str  # the Host header: with the port, where that is not the usual one
    target: str  # encoded path, and query behind ``?``, in which all but letters, digits and ``-._~`` is encoded too
    body_sha256: str = EMPTY_SHA256  # hash of the body, in hexadecimal digits


def sign(
    request: S3Request, headers: Mapping[str, str], credentials: Credentials, region: str, now: datetime
) -> dict[str, str]:
    """Sign a request, and return all headers to send, Host included.

    What is signed cannot be changed on the way, such as Range and If-Match. Servers refuse a time that is 15 minutes
    wrong.
    """
    time = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    sent = {**headers, "Host": request.host, "x-amz-content-sha256": request.body_sha256, "x-amz-date": time}
    if credentials.token is not None:
        sent["x-amz-security-token"] = credentials.token
    signed = sorted((low, value) for name, value in sent.items() if (low := name.lower()) not in _UNSIGNED)
    names = ";".join(name for name, _ in signed)
    path, _, query = request.target.partition("?")
    fields = sorted(field.partition("=")[::2] for field in query.split("&") if field)
    canonical = "\n".join(
        [
            request.method,
            path,  # S3 alone takes it as it is: neither encoded twice nor normalised
            "&".join(f"{name}={value}" for name, value in fields),
            *(f"{name}:{_SPACES.sub(' ', value.strip())}" for name, value in signed),
            "",
            names,
            request.body_sha256,
        ]
    )
    scope = f"{time[:8]}/{region}/s3/aws4_request"
    # Latin-1: the encoding of headers.
    to_sign = "\n".join([_ALGORITHM, time, scope, sha256(canonical.encode("latin-1")).hexdigest()])
    signature = _mac(_make_key(credentials.secret, time[:8], region), to_sign).hex()
    authorization = f"{_ALGORITHM} Credential={credentials.key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**sent, "Authorization": authorization}


# A key holds for a day: four of the five hashes of each request.
@lru_cache(maxsize=16)
def _make_key(secret: str, date: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (date, region, "s3", "aws4_request"):
        key = _mac(key, part)
    return key


def _mac(key: bytes, text: str) -> bytes:
    return digest(key, text.encode(), "sha256")

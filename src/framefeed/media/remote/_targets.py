"""Objects by URL: what to send to whom to get them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from framefeed._cached import cached_property

_HTTP = re.compile(r"https?://", re.IGNORECASE)


def is_http(url: str) -> bool:
    """Whether a URL, which is no chain of several, is read by HTTP."""
    return _HTTP.match(url) is not None and "::" not in url


@dataclass(frozen=True)
class HttpTarget:
    """An object that a URL with http or https names.

    Attributes:
        url: As the user gave it, with its secrets.
        headers: More headers for its server, such as rights.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @cached_property
    def _request(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        headers = dict(self.headers)
        if parts.username is not None and not any(name.lower() == "authorization" for name in headers):
            given = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            headers["Authorization"] = "Basic " + base64.b64encode(given).decode()
        # Characters that no URL may have are escaped; what is escaped already stays.
        path, query = (quote(each, safe="/%:@!$&'()*+,;=~?") for each in (parts.path, parts.query))
        return urlunsplit((parts.scheme.lower(), host, path, query, "")), headers

    def make_request(self, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Make the URL and all headers of a request with these headers."""
        url, own = self._request
        given = {name.lower() for name in headers}
        return url, {**{name: value for name, value in own.items() if name.lower() not in given}, **headers}

"""Objects by URL: what to send to whom to get them."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from framefeed._cached import cached_property


def make_basic_rights(parts: SplitResult) -> str:
    """Make the value of a header from the user and the password in a URL."""
    given = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
    return "Basic " + base64.b64encode(given).decode()


class Problem(NamedTuple):
    """What a server says of an error."""

    message: str  # in words; empty if there is nothing to say
    is_transient: bool = False  # whether a repeated request may not have it
    is_missing: bool = False  # whether there is no such object


@dataclass(frozen=True)
class Target(ABC):
    """An object that can be asked for."""

    url: str = field(repr=False)  # as the user gave it, with its secrets
    explains: ClassVar[bool] = False  # whether errors have documents or headers that are to be read
    follows: ClassVar[bool] = True  # whether redirects are followed
    server_setting: ClassVar[str] = ""  # what names the server; "" if the URL does

    @property
    @abstractmethod
    def key(self) -> Hashable:
        """Key of the object and of how it is asked for."""

    @abstractmethod
    def make_request(self, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Make the URL and all headers of a request with these headers."""

    def find_tag(self, headers: Mapping[str, str]) -> str | None:
        """Find an entity tag that stands for that of the last answer, in an answer or a redirect; None for no other."""
        return None

    def explain(self, status: int, headers: Mapping[str, str], document: bytes) -> Problem | None:
        """Explain an error by its document; None if its status says all."""
        return None


@dataclass(frozen=True)
class HttpTarget(Target):
    """An object that a URL with http or https names; ``headers`` are more of them for its server, such as rights."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @cached_property
    def _request(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        headers = dict(self.headers)
        if parts.username is not None and not any(name.lower() == "authorization" for name in headers):
            headers["Authorization"] = make_basic_rights(parts)
        # Characters that no URL may have are escaped; what is escaped already stays.
        path, query = (quote(each, safe="/%:@!$&'()*+,;=~?") for each in (parts.path, parts.query))
        return urlunsplit((parts.scheme.lower(), host, path, query, "")), headers

    @cached_property
    def key(self) -> Hashable:
        """Key of the object and of how it is asked for."""
        return self.url, tuple(sorted(self.headers.items()))

    def make_request(self, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Make the URL and all headers of a request with these headers."""
        url, own = self._request
        given = {name.lower() for name in headers}
        return url, {**{name: value for name, value in own.items() if name.lower() not in given}, **headers}

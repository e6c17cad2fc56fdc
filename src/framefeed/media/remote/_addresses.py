"""Which hosts a redirect may lead to, by their addresses, and by their names where a proxy connects to them."""

from __future__ import annotations

import ipaddress
import re
import socket
from enum import IntEnum
from typing import Any

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NOT_PUBLIC = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20", "5f00::/16")))
"""Networks that `ipaddress` takes for global, in some versions of Python: reserved, deprecated, of documentation."""
_EMBEDDING = (_NAT64, *map(ipaddress.ip_network, ("::/96", "64:ff9b:1::/48")))
"""Networks whose addresses end with one of IPv4."""
_LINK_LOCAL = tuple(
    map(
        ipaddress.ip_network,
        ("169.254.0.0/16", "fe80::/10", "192.0.0.192/32", "100.100.100.200/32", "fd00:ec2::254/128"),
    )
)
"""Link-local addresses, and others at which machines of a cloud ask for their own keys."""
_LINK_LOCAL_NAMES = ("instance-data", "metadata", "metadata.goog", "metadata.google.internal")
_PRIVATE_DOMAINS = (
    ".corp", ".home", ".home.arpa", ".internal", ".intranet", ".lan", ".local", ".localdomain", ".localhost",
    ".private",
)  # fmt: skip
"""RFC 6761, 6762 (appendix G) and 8375."""
_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)+")
_NUMBER = re.compile(r"(.*\.)?(\d+|0x[0-9a-f]*)")
"""A name that ends so is an address in one of its old forms, or none."""


class Reach(IntEnum):
    """Which addresses may be asked: any; as the target of a redirect not a link-local one; public ones alone."""

    ANY = 0
    REDIRECTED = 1
    PUBLIC = 2


class PrivateAddressError(Exception):
    """A redirect leads to an address that its server may not name; ``what`` says from where to where."""

    def __init__(self, reach: Reach) -> None:
        super().__init__()
        self.what = "from a public to a private" if reach is Reach.PUBLIC else "to a link-local"


def is_public_address(text: str) -> bool:
    """Whether the whole internet can reach an address; ``ValueError`` if it is none."""
    address: Any = ipaddress.ip_address(text.partition("%")[0])
    if address.version == 6:
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = _get_last_v4(address)
        if address.is_site_local:
            return False
        address = inner or address
    is_reserved = address.is_multicast or address.is_reserved or any(address in each for each in _NOT_PUBLIC)
    return bool(address.is_global and not is_reserved)


def _get_last_v4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def is_link_local_address(text: str) -> bool:
    """Whether only its own machine or network has an address, such as that of its keys; ``ValueError`` as above."""
    address: Any = ipaddress.ip_address(text.partition("%")[0])
    forms = [address]
    if address.version == 6:
        forms += [address.ipv4_mapped, address.sixtofour]
        forms += [_get_last_v4(address)] * any(address in each for each in _EMBEDDING)
    return any(form in each for form in forms if form is not None for each in _LINK_LOCAL)


def _parse_host(host: str) -> str | None:
    """Parse an address in any of its forms, such as ``127.1`` and ``0x7f000001``; None if it is a name."""
    try:
        return host if ":" in host else socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


def is_public_name(host: str) -> bool:
    """Whether a host that a proxy connects to is public, as far as its name tells."""
    host = host.lower().rstrip(".")
    if (address := _parse_host(host)) is not None:
        return is_public_address(address)
    is_name = _NAME.fullmatch(host) is not None and _NUMBER.fullmatch(host) is None
    return is_name and not host.endswith(_PRIVATE_DOMAINS)


def may_ask(host: str, reach: Reach) -> bool:
    """Whether a host that a proxy connects to may be asked, as far as its name tells."""
    if reach is not Reach.REDIRECTED:
        return reach is Reach.ANY or is_public_name(host)
    host = host.lower().rstrip(".")
    address = _parse_host(host)
    return host not in _LINK_LOCAL_NAMES if address is None else not is_link_local_address(address)

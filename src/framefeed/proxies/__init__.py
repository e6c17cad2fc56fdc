"""Smaller copies of media with the same frames and times, made where a sample says that they pay."""

from __future__ import annotations

from framefeed.proxies._estimate import LEAST_GAIN, SAMPLED_FILES, KindEstimate, ProxyEstimate
from framefeed.proxies._folder import CATALOG_NAME
from framefeed.proxies._kinds import FAILED, Original, list_originals
from framefeed.proxies._make_proxies import estimate_proxies, make_proxies
from framefeed.proxies._making import ProxySettings, StaysItself, make_proxy

__all__ = [
    "CATALOG_NAME",
    "FAILED",
    "LEAST_GAIN",
    "SAMPLED_FILES",
    "KindEstimate",
    "Original",
    "ProxyEstimate",
    "ProxySettings",
    "StaysItself",
    "estimate_proxies",
    "list_originals",
    "make_proxies",
    "make_proxy",
]

"""What every source needs to know of URLs, paths too: all else of this package is loaded for objects alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

StorageOptions = Mapping[str, Mapping[str, Any]]
"""URL prefix -> options."""


def is_http(url: str) -> bool:
    """Whether a URL, which is no chain of several, is read by HTTP."""
    return url[:8].lower().startswith(("http://", "https://")) and "::" not in url


def is_s3(url: str) -> bool:
    """Whether a URL, which is no chain of several, names an object of S3."""
    return url.startswith("s3://") and "::" not in url


def is_hub(url: str) -> bool:
    """Whether a URL, which is no chain of several, names a file on the Hub of Hugging Face."""
    return url.startswith("hf://") and "::" not in url

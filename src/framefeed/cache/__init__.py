"""Store decoded frames on disk and in memory, so that each frame is decoded only once."""

from __future__ import annotations

from framefeed.cache._caching import CachingDecoder
from framefeed.cache._choosing import memory_bytes
from framefeed.cache._counters import CacheStats
from framefeed.cache._demand import Gathering, outlook, varies
from framefeed.cache._frame_cache import FrameCache, form_for
from framefeed.cache._keys import FORMS, KEY_VERSION, Form
from framefeed.cache.codecs._auto import Choice, CodecFigures, Conditions, choose_codec
from framefeed.cache.codecs._registry import codec_labelled, codec_named, exact_codecs, known_codecs
from framefeed.cache.prefill._build import FILE_NAME, GROUP_BYTES, BuildReport, build
from framefeed.cache.prefill._estimate import CacheEstimate, estimate, share_found
from framefeed.cache.store._format import Kind, StoredFrame, StoreOptions, Verified
from framefeed.cache.store._store import FrameStore

__all__ = [
    "FILE_NAME",
    "FORMS",
    "GROUP_BYTES",
    "KEY_VERSION",
    "BuildReport",
    "CacheEstimate",
    "CacheStats",
    "CachingDecoder",
    "Choice",
    "CodecFigures",
    "Conditions",
    "Form",
    "FrameCache",
    "FrameStore",
    "Gathering",
    "Kind",
    "StoreOptions",
    "StoredFrame",
    "Verified",
    "build",
    "choose_codec",
    "codec_labelled",
    "codec_named",
    "estimate",
    "exact_codecs",
    "form_for",
    "known_codecs",
    "memory_bytes",
    "outlook",
    "share_found",
    "varies",
]

"""Store decoded frames on disk and in memory, so that each frame is decoded only once."""

from __future__ import annotations

from framefeed.cache._caching import CachingDecoder
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache._keys import FORMS, KEY_VERSION, Form
from framefeed.cache._state import CacheStats
from framefeed.cache.codecs._codec import FrameCodec, allocate_memory
from framefeed.cache.codecs._registry import (
    CODECS,
    find_codec,
    find_codec_for,
    find_exact_codecs,
    known_codecs,
    list_codecs,
)
from framefeed.cache.prefill._build import BuildReport, build, choose_form, make_decoder
from framefeed.cache.prefill._demand import TASK_BYTES, FillOptions, count_demand
from framefeed.cache.store._format import Kind, StoredFrame, StoreOptions, Verified
from framefeed.cache.store._store import FrameStore

__all__ = [
    "CODECS",
    "FORMS",
    "KEY_VERSION",
    "TASK_BYTES",
    "BuildReport",
    "CacheStats",
    "CachingDecoder",
    "FillOptions",
    "Form",
    "FrameCache",
    "FrameCodec",
    "FrameStore",
    "Kind",
    "StoreOptions",
    "StoredFrame",
    "Verified",
    "allocate_memory",
    "build",
    "choose_form",
    "count_demand",
    "find_codec",
    "find_codec_for",
    "find_exact_codecs",
    "known_codecs",
    "list_codecs",
    "make_decoder",
]

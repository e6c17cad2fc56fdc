"""Store decoded frames on disk and in memory, so that each frame is decoded only once."""

from __future__ import annotations

from framefeed.cache._caching import CachingDecoder
from framefeed.cache._choosing import read_memory_size
from framefeed.cache._demand import FillOptions, count_demand, has_varying_frames
from framefeed.cache._frame_cache import FrameCache, choose_form, explain_little_reuse
from framefeed.cache._keys import FORMS, KEY_VERSION, Form
from framefeed.cache._state import CacheStats
from framefeed.cache.codecs._auto import CodecChoice, CodecFigures, Conditions, choose_codec, measure_codec
from framefeed.cache.codecs._registry import find_codec, find_exact_codecs, find_labelled_codec, known_codecs
from framefeed.cache.prefill._build import LOCK_FILE_NAME, TASK_BYTES, BuildReport, build
from framefeed.cache.prefill._estimate import CacheEstimate, estimate, estimate_cached_share
from framefeed.cache.store._format import Kind, StoredFrame, StoreOptions, Verified
from framefeed.cache.store._store import FrameStore

__all__ = [
    "FORMS",
    "KEY_VERSION",
    "LOCK_FILE_NAME",
    "TASK_BYTES",
    "BuildReport",
    "CacheEstimate",
    "CacheStats",
    "CachingDecoder",
    "CodecChoice",
    "CodecFigures",
    "Conditions",
    "FillOptions",
    "Form",
    "FrameCache",
    "FrameStore",
    "Kind",
    "StoreOptions",
    "StoredFrame",
    "Verified",
    "build",
    "choose_codec",
    "choose_form",
    "count_demand",
    "estimate",
    "estimate_cached_share",
    "explain_little_reuse",
    "find_codec",
    "find_exact_codecs",
    "find_labelled_codec",
    "has_varying_frames",
    "known_codecs",
    "measure_codec",
    "read_memory_size",
]

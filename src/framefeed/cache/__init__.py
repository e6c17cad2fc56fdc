"""A decoder that remembers: frames on disk and in memory, in the cheapest form that gives the same pixels."""

from framefeed.cache.building import BuildReport, build
from framefeed.cache.caching import CachingDecoder
from framefeed.cache.codecs import known_codecs
from framefeed.cache.estimating import CacheEstimate, estimate
from framefeed.cache.frame_cache import FrameCache
from framefeed.cache.tally import CacheStats

__all__ = [
    "BuildReport",
    "CacheEstimate",
    "CacheStats",
    "CachingDecoder",
    "FrameCache",
    "build",
    "estimate",
    "known_codecs",
]

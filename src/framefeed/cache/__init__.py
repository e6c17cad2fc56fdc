"""Store decoded frames on disk and in memory, so that each frame is decoded only once."""

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

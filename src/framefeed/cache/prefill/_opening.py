"""Open a cache for a plan."""

from __future__ import annotations

from typing import Any

from framefeed._checks import check_integer, expected
from framefeed.cache._caching import CachingDecoder
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache._keys import Form
from framefeed.decode import Decoder
from framefeed.plan import EpochPlan, choose_stored_form, count_planned


def make_decoder(plan: EpochPlan, cache: FrameCache, inner: Decoder, epochs: int = 1) -> CachingDecoder:
    """Wrap a decoder so that it reads the clips of a plan from a cache and fills it, in the form that suits the plan.

    If the cache has a ``max_bytes``, it is told how many frames the plan needs.

    Args:
        plan: The plan at its first epoch.
        cache: The cache.
        inner: Decodes the frames that the cache lacks.
        epochs: Number of epochs that will be stored.

    Raises:
        UsageError: An argument is wrong.
        CacheError: The folder of the cache is a file, or others may write to it.
    """
    check_filling(plan, cache, epochs)
    form = choose_form(plan, cache)
    decoder = cache.decoder(inner, form)
    if cache.options.max_bytes is not None:
        cache.expect(*count_planned(plan, form, epochs))
    return decoder


def choose_form(plan: EpochPlan, cache: FrameCache) -> Form:
    """Choose the form in which frames of a plan are stored: that of the cache, else the one that suits the plan.

    Planes suit random crops and whole pictures; outputs suit all others.
    """
    check_filling(plan, cache)
    return choose_stored_form(plan, cache.options.form)


def check_filling(plan: object, cache: object, epochs: Any = 1) -> None:
    """Check the plan, cache and number of epochs of a function that fills a cache.

    Raises:
        UsageError: One of them is wrong.
    """
    if not isinstance(plan, EpochPlan):
        raise expected("plan", "an EpochPlan (from ff.plan_clips or ff.plan_requests)", plan)
    if not isinstance(cache, FrameCache):
        raise expected("cache", "an ff.FrameCache", cache)
    check_integer("epochs", epochs, least=1)

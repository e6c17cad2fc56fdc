"""framefeed: exact video clips, decoded at the lowest cost, into a training loop.

>>> import framefeed as ff
>>> catalog = ff.scan("videos/", label_from="parent")                                       # doctest: +SKIP
>>> plan = ff.plan_clips(catalog, ff.Rates([(1.0, 4), (2.0, 8)]), seed=7, size=(224, 224))  # doctest: +SKIP
>>> for batch in ff.ClipLoader(plan, batch_size=16): ...                                    # doctest: +SKIP
"""

from __future__ import annotations

import importlib.util
import sys as _sys
from typing import TYPE_CHECKING, Any

# `python -m framefeed` imports the package before its command can handle Ctrl-C.
if _sys.argv[:1] == ["-m"] and ("-m", "framefeed") in zip(_sys.orig_argv, _sys.orig_argv[1:], strict=False):
    from _framefeed_command import leave_on_interrupt as _leave_on_interrupt

    _leave_on_interrupt()

from framefeed.errors import (
    CacheError,
    CorruptMedia,
    DeadlineExceeded,
    EmptyVideo,
    FormatChanged,
    FramefeedError,
    FrameNotFound,
    LimitExceeded,
    LoadError,
    MediaError,
    MissingDependency,
    MissingMedia,
    NoVideoStream,
    ResourceExhausted,
    StaleSource,
    TimeUnavailable,
    UnreadableMedia,
    UnsupportedCodec,
    UsageError,
    WorkerLost,
)

if TYPE_CHECKING:
    from framefeed import bench, cache, lerobot, parallel
    from framefeed._values import Limits, MediaInfo
    from framefeed.cache import FrameCache
    from framefeed.catalog import Catalog, CatalogEntry
    from framefeed.decode import (
        ClipSlot,
        DecodeCounts,
        Decoder,
        DecodeReport,
        Frame,
        FrameBatch,
        VideoDecoder,
        VideoMetadata,
    )
    from framefeed.index import FrameIndex, build_index, probe
    from framefeed.load import ClipBatch, ClipLoader, load_clip
    from framefeed.media import ImageSequence
    from framefeed.plan import (
        AtIndices,
        AtSeconds,
        Buckets,
        Dense,
        EpochPlan,
        EveryFrame,
        PlannedClip,
        RandomSegments,
        Rates,
        Uniform,
        WholeVideo,
        plan_buckets,
        plan_clips,
        plan_requests,
        text_key,
    )
    from framefeed.proxies import KindEstimate, ProxyEstimate, estimate_proxies, make_proxies
    from framefeed.request import (
        CenterCrop,
        Cover,
        DecodeRequest,
        Letterbox,
        LongSide,
        OutputSpec,
        PixelBudget,
        RandomCrop,
        RandomResizedCrop,
        ResizeCrop,
    )
    from framefeed.scanning import scan
    from framefeed.transcode import FrameFault, MappedFrame, MapResult, map_video

__version__ = "0.1.0"

__all__ = [
    "AtIndices",
    "AtSeconds",
    "Buckets",
    "CacheError",
    "Catalog",
    "CatalogEntry",
    "CenterCrop",
    "ClipBatch",
    "ClipLoader",
    "ClipSlot",
    "CorruptMedia",
    "Cover",
    "DeadlineExceeded",
    "DecodeCounts",
    "DecodeReport",
    "DecodeRequest",
    "Decoder",
    "Dense",
    "EmptyVideo",
    "EpochPlan",
    "EveryFrame",
    "FormatChanged",
    "Frame",
    "FrameBatch",
    "FrameCache",
    "FrameFault",
    "FrameIndex",
    "FrameNotFound",
    "FramefeedError",
    "ImageSequence",
    "KindEstimate",
    "Letterbox",
    "LimitExceeded",
    "Limits",
    "LoadError",
    "LongSide",
    "MapResult",
    "MappedFrame",
    "MediaError",
    "MediaInfo",
    "MissingDependency",
    "MissingMedia",
    "NoVideoStream",
    "OutputSpec",
    "PixelBudget",
    "PlannedClip",
    "ProxyEstimate",
    "RandomCrop",
    "RandomResizedCrop",
    "RandomSegments",
    "Rates",
    "ResizeCrop",
    "ResourceExhausted",
    "StaleSource",
    "TimeUnavailable",
    "Uniform",
    "UnreadableMedia",
    "UnsupportedCodec",
    "UsageError",
    "VideoDecoder",
    "VideoMetadata",
    "WholeVideo",
    "WorkerLost",
    "__version__",
    "bench",
    "build_index",
    "cache",
    "estimate_proxies",
    "lerobot",
    "load_clip",
    "make_proxies",
    "map_video",
    "mix_plans",
    "parallel",
    "plan_buckets",
    "plan_clips",
    "plan_requests",
    "probe",
    "scan",
    "text_key",
    "vlm",
]

# The room of each name; it is imported when the name is first used (design/0015).
_DOORS = {
    "_values": ("Limits", "MediaInfo"),
    "cache": ("FrameCache",),
    "catalog": ("Catalog", "CatalogEntry"),
    "decode": (
        "ClipSlot",
        "DecodeCounts",
        "Decoder",
        "DecodeReport",
        "Frame",
        "FrameBatch",
        "VideoDecoder",
        "VideoMetadata",
    ),
    "index": ("FrameIndex", "build_index", "probe"),
    "load": ("ClipBatch", "ClipLoader", "load_clip"),
    "media": ("ImageSequence",),
    "plan": (
        "AtIndices",
        "AtSeconds",
        "Buckets",
        "Dense",
        "EpochPlan",
        "EveryFrame",
        "PlannedClip",
        "RandomSegments",
        "Rates",
        "Uniform",
        "WholeVideo",
        "plan_buckets",
        "plan_clips",
        "mix_plans",
        "plan_requests",
        "text_key",
    ),
    "proxies": ("KindEstimate", "ProxyEstimate", "estimate_proxies", "make_proxies"),
    "request": (
        "CenterCrop",
        "Cover",
        "DecodeRequest",
        "Letterbox",
        "LongSide",
        "OutputSpec",
        "PixelBudget",
        "RandomCrop",
        "RandomResizedCrop",
        "ResizeCrop",
    ),
    "scanning": ("scan",),
    "transcode": ("FrameFault", "MapResult", "MappedFrame", "map_video"),
}
_ROOM_OF = {name: f"framefeed.{room}" for room, names in _DOORS.items() for name in names}
_PACKAGES = frozenset({"bench", "cache", "lerobot", "parallel", "vlm"})
# The framework of each adapter.
_ADAPTERS = {"dali": "nvidia.dali", "jax": "jax", "ray": "ray", "tensorflow": "tensorflow", "torch": "torch"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _ROOM_OF:
        value = getattr(importlib.import_module(_ROOM_OF[name]), name)
        globals()[name] = value
        return value
    if name in _PACKAGES:
        return importlib.import_module(f"framefeed.{name}")
    if name in _ADAPTERS:
        return importlib.import_module(f"framefeed.adapters.{name}")
    from framefeed._nearest import OTHER_NAMES, did_you_mean

    known = [*__all__, *_ADAPTERS, "torch.ClipDataset"]
    advice = f": {OTHER_NAMES[name]}" if name in OTHER_NAMES else did_you_mean(name, known)
    raise AttributeError(f"module 'framefeed' has no attribute {name!r}{advice}")


def __dir__() -> list[str]:
    # `help`, `inspect.getmembers` and mocks get each name that is listed: an adapter without its framework would raise.
    return sorted({*__all__, *(name for name, framework in _ADAPTERS.items() if _is_installed(framework))})


def _is_installed(framework: str) -> bool:
    try:
        return importlib.util.find_spec(framework) is not None
    except (ImportError, ValueError):  # its parent package is not there; its module was made by hand
        return False

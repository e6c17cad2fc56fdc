"""Compute the frames of each position of an epoch."""

from __future__ import annotations

from framefeed.plan._buckets import Bucket, Buckets
from framefeed.plan._checkpoint import STATE_VERSION
from framefeed.plan._clips import CatalogClips, Clips, PartForm, Shape
from framefeed.plan._found import PlannedClips
from framefeed.plan._layouts import Located
from framefeed.plan._mix_plans import mix_plans
from framefeed.plan._mixed_clips import PLAN_COLUMN
from framefeed.plan._options import ClipOptions
from framefeed.plan._order import Balance, Order, Shuffle
from framefeed.plan._plan import EpochPlan
from framefeed.plan._plan_buckets import plan_buckets
from framefeed.plan._plan_clips import find_remarks, plan_clips
from framefeed.plan._plan_requests import plan_requests
from framefeed.plan._planned import ClipPart, PlannedClip, Take, iterate_takes, text_key
from framefeed.plan._request_rule import Requests
from framefeed.plan._rules import (
    AtIndices,
    AtSeconds,
    ClipRule,
    Dense,
    EveryFrame,
    RandomSegments,
    Rates,
    Uniform,
    WholeVideo,
    choose_by,
    open_window,
)
from framefeed.plan._shard import Tail
from framefeed.plan._sources import Sources
from framefeed.plan._storing import (
    choose_stored_form,
    count_planned,
    estimate_reuse,
    explain_little_reuse,
    mean_clip_bytes,
    order_by_catalog,
    sample_windows,
)
from framefeed.plan._stream_clips import join_clips
from framefeed.plan._tables import as_delivered, check_targets, find_delivered_form

__all__ = [
    "PLAN_COLUMN",
    "STATE_VERSION",
    "AtIndices",
    "AtSeconds",
    "Balance",
    "Bucket",
    "Buckets",
    "CatalogClips",
    "ClipOptions",
    "ClipPart",
    "ClipRule",
    "Clips",
    "Dense",
    "EpochPlan",
    "EveryFrame",
    "Located",
    "Order",
    "PartForm",
    "PlannedClip",
    "PlannedClips",
    "RandomSegments",
    "Rates",
    "Requests",
    "Shape",
    "Shuffle",
    "Sources",
    "Tail",
    "Take",
    "Uniform",
    "WholeVideo",
    "as_delivered",
    "check_targets",
    "choose_by",
    "choose_stored_form",
    "count_planned",
    "estimate_reuse",
    "explain_little_reuse",
    "find_delivered_form",
    "find_remarks",
    "iterate_takes",
    "join_clips",
    "mean_clip_bytes",
    "mix_plans",
    "open_window",
    "order_by_catalog",
    "plan_buckets",
    "plan_clips",
    "plan_requests",
    "sample_windows",
    "text_key",
]

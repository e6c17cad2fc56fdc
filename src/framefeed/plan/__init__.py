"""Compute the frames of each position of an epoch."""

from __future__ import annotations

from framefeed.plan._checkpoint import STATE_VERSION
from framefeed.plan._epoch import EpochPlan, locate_ahead
from framefeed.plan._flat import flatten_streams
from framefeed.plan._joined import locate_row
from framefeed.plan._mixed import PLAN_COLUMN, MixedPlan, mix_plans
from framefeed.plan._options import Balance, PlanOptions, Shuffle
from framefeed.plan._order import ClipLocation
from framefeed.plan._plan_clips import find_remarks, plan_clips
from framefeed.plan._plan_requests import plan_requests
from framefeed.plan._request_rule import Requests
from framefeed.plan._rules import AtIndices, AtSeconds, ClipRule, Dense, EveryFrame, RandomSegments, Rates, Uniform
from framefeed.plan._shard import Delivery, Tail
from framefeed.plan._storing import (
    choose_stored_form,
    count_planned,
    estimate_reuse,
    explain_little_reuse,
    list_requests,
    mean_clip_bytes,
    order_by_catalog,
    sample_windows,
)
from framefeed.plan._streams import find_batch_lengths, join_streams, name_stream
from framefeed.plan._tables import PlanTables, as_delivered, check_targets, find_delivered_form

__all__ = [
    "PLAN_COLUMN",
    "STATE_VERSION",
    "AtIndices",
    "AtSeconds",
    "Balance",
    "ClipLocation",
    "ClipRule",
    "Delivery",
    "Dense",
    "EpochPlan",
    "EveryFrame",
    "MixedPlan",
    "PlanOptions",
    "PlanTables",
    "RandomSegments",
    "Rates",
    "Requests",
    "Shuffle",
    "Tail",
    "Uniform",
    "as_delivered",
    "check_targets",
    "choose_stored_form",
    "count_planned",
    "estimate_reuse",
    "explain_little_reuse",
    "find_batch_lengths",
    "find_delivered_form",
    "find_remarks",
    "flatten_streams",
    "join_streams",
    "list_requests",
    "locate_ahead",
    "locate_row",
    "mean_clip_bytes",
    "mix_plans",
    "name_stream",
    "order_by_catalog",
    "plan_clips",
    "plan_requests",
    "sample_windows",
]

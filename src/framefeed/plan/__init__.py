"""Compute the frames of each position of an epoch."""

from __future__ import annotations

from framefeed.plan._costs import predict_seconds
from framefeed.plan._crops import CenterCrop, Crop, FixedCrop, PictureRule, RandomCrop, RandomResizedCrop, as_crop
from framefeed.plan._description import SAMPLED_CLIPS
from framefeed.plan._epoch import EpochPlan
from framefeed.plan._options import Balance, Shuffle
from framefeed.plan._plan_clips import plan_clips
from framefeed.plan._plan_requests import plan_requests
from framefeed.plan._random import ClipContext, generator_at
from framefeed.plan._remarks import find_remarks
from framefeed.plan._request import Box, DecodeRequest, DimensionOrder, OutputSpec
from framefeed.plan._request_rule import Requests
from framefeed.plan._rules import AtIndices, AtSeconds, ClipRule, Dense, EveryFrame, RandomSegments, Rates, Uniform
from framefeed.plan._runs import DecodeRuns, plan_runs
from framefeed.plan._shard import Tail
from framefeed.plan._tables import check_targets

__all__ = [
    "SAMPLED_CLIPS",
    "AtIndices",
    "AtSeconds",
    "Balance",
    "Box",
    "CenterCrop",
    "ClipContext",
    "ClipRule",
    "Crop",
    "DecodeRequest",
    "DecodeRuns",
    "Dense",
    "DimensionOrder",
    "EpochPlan",
    "EveryFrame",
    "FixedCrop",
    "OutputSpec",
    "PictureRule",
    "RandomCrop",
    "RandomResizedCrop",
    "RandomSegments",
    "Rates",
    "Requests",
    "Shuffle",
    "Tail",
    "Uniform",
    "as_crop",
    "check_targets",
    "find_remarks",
    "generator_at",
    "plan_clips",
    "plan_requests",
    "plan_runs",
    "predict_seconds",
]

"""Frames for video language models: the frames, seconds and sizes that their processors take, from exact indexes.

A processor is the user's own object: nothing of its library is imported.
"""

from __future__ import annotations

from framefeed.vlm._clips import VideoClip, fetch_videos, load_video
from framefeed.vlm._metadata import describe_frames, fps, metadata
from framefeed.vlm._processors import AsTrained, count_tokens, find_filter, rules

__all__ = [
    "AsTrained",
    "VideoClip",
    "count_tokens",
    "describe_frames",
    "fetch_videos",
    "find_filter",
    "fps",
    "load_video",
    "metadata",
    "rules",
]

"""Small synthetic videos whose frames show their own numbers, to test decoders, loaders and training loops."""

from __future__ import annotations

from framefeed.testing._clips import (
    AudioSpec,
    ClipSpec,
    Coded,
    clip_bytes,
    frames_of,
    make_folder,
    put_packets,
    take_packets,
    write_clip,
)
from framefeed.testing._decoder_exam import DecoderExam
from framefeed.testing._lerobot import make_lerobot
from framefeed.testing._stamps import StampReading, draw_stamp, find_stamp, read_stamp, read_stamps

__all__ = [
    "AudioSpec",
    "ClipSpec",
    "Coded",
    "DecoderExam",
    "StampReading",
    "clip_bytes",
    "draw_stamp",
    "find_stamp",
    "frames_of",
    "make_folder",
    "make_lerobot",
    "put_packets",
    "read_stamp",
    "read_stamps",
    "take_packets",
    "write_clip",
]

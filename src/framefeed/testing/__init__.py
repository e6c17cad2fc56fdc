"""Small synthetic videos whose frames show their own numbers, to test decoders, loaders and training loops."""

from __future__ import annotations

from framefeed.testing._clips import (
    AudioSpec,
    ClipSpec,
    Coded,
    clip_bytes,
    frames_of,
    put_packets,
    take_packets,
    write_clip,
)
from framefeed.testing._codecs import CODECS, LEFT_OUT, CodecClip
from framefeed.testing._datasets import make_folder
from framefeed.testing._decoder_exam import DecoderExam
from framefeed.testing._pathologies import FrameFacts, MediaFacts, PacketFacts, Pathology, read_facts, verify
from framefeed.testing._stamps import StampReading, draw_stamp, find_stamp, read_stamp, read_stamps
from framefeed.testing.recipes import iter_pathologies, pathology

__all__ = [
    "CODECS",
    "LEFT_OUT",
    "AudioSpec",
    "ClipSpec",
    "CodecClip",
    "Coded",
    "DecoderExam",
    "FrameFacts",
    "MediaFacts",
    "PacketFacts",
    "Pathology",
    "StampReading",
    "clip_bytes",
    "draw_stamp",
    "find_stamp",
    "frames_of",
    "iter_pathologies",
    "make_folder",
    "pathology",
    "put_packets",
    "read_facts",
    "read_stamp",
    "read_stamps",
    "take_packets",
    "verify",
    "write_clip",
]

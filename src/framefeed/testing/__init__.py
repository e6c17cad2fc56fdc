"""Small synthetic videos whose frames show their own numbers, to test decoders, loaders and training loops."""

from framefeed.testing.clips import AudioSpec, ClipSpec, clip_bytes, write_clip
from framefeed.testing.codecs import CODECS, LEFT_OUT, CodecClip
from framefeed.testing.datasets import make_folder
from framefeed.testing.pathologies import FrameFacts, MediaFacts, PacketFacts, Pathology, read_facts, verify
from framefeed.testing.recipes import iter_pathologies, pathology
from framefeed.testing.stamps import StampReading, draw_stamp, find_stamp, read_stamp, read_stamps

__all__ = [
    "CODECS",
    "LEFT_OUT",
    "AudioSpec",
    "ClipSpec",
    "CodecClip",
    "FrameFacts",
    "MediaFacts",
    "PacketFacts",
    "Pathology",
    "StampReading",
    "clip_bytes",
    "draw_stamp",
    "find_stamp",
    "iter_pathologies",
    "make_folder",
    "pathology",
    "read_facts",
    "read_stamp",
    "read_stamps",
    "verify",
    "write_clip",
]

"""Compress stored frames, without loss or with a known loss."""

from framefeed.cache.codecs.choice import Choice, CodecFigures, Conditions, auto_codec, choose_codec, measure_codec
from framefeed.cache.codecs.codec import BrokenFrame, FrameCodec
from framefeed.cache.codecs.registry import codec_for, codec_labelled, codec_named, exact_codecs, known_codecs

__all__ = [
    "BrokenFrame",
    "Choice",
    "CodecFigures",
    "Conditions",
    "FrameCodec",
    "auto_codec",
    "choose_codec",
    "codec_for",
    "codec_labelled",
    "codec_named",
    "exact_codecs",
    "known_codecs",
    "measure_codec",
]

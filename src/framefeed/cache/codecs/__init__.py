"""How one stored frame becomes few bytes: exactly, or in a way that says what it loses."""

from framefeed.cache.codecs.codec import BrokenFrame, FrameCodec
from framefeed.cache.codecs.registry import codec_for, codec_labelled, codec_named, known_codecs

__all__ = ["BrokenFrame", "FrameCodec", "codec_for", "codec_labelled", "codec_named", "known_codecs"]

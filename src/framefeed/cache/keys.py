"""Whose frames they are: everything that decides the pixels of a stream's frames, as text and as 16 bytes.

A frame is known by the key of its stream and the number of its packet there: the number is the same however the file
was indexed, where ordinals may differ (design/0001-a-frame-is-known-by-its-packet.md).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Literal

import xxhash

from framefeed.index.frame_index import StreamFacts
from framefeed.media.source import SourceIdentity
from framefeed.plan.request import OutputSpec

SCHEMA = 1
"""Another number, and nothing that was stored before is found."""

Form = Literal["output", "planes"]
FORMS: tuple[Form, ...] = ("output", "planes")
EXACT = "exact"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What decides the pixels of a stored frame besides its source.

    Attributes:
        form: "output" for the pixels that were asked for, "planes" for those that the decoder made.
        output: Their form; None for planes.
        decoder: What decides the decoder's pixels, as it says itself.
        pixels: "exact", or the recipe of a lossy codec.
    """

    form: Form
    output: OutputSpec | None
    decoder: str
    pixels: str = EXACT


@dataclass(frozen=True, slots=True)
class StreamKey:
    """Key of one stream's frames.

    Attributes:
        digest: 16 bytes.
        description: What it is the digest of, JSON text.
    """

    digest: bytes
    description: str


@lru_cache(maxsize=4096)
def stream_key(source_bytes: int, fingerprint: str, stream: StreamFacts, recipe: Recipe) -> StreamKey:
    """Make the key of one stream's frames in one form.

    Neither the path nor the modification time has a part in it: a copy of the file has the same frames.

    Args:
        source_bytes: Size of the source.
        fingerprint: Hash of parts of it.
        stream: Which of its streams, and how that is decoded and shown.
        recipe: What else decides the pixels.
    """
    facts = asdict(stream)
    facts["extradata"] = None if stream.extradata is None else xxhash.xxh3_128_hexdigest(stream.extradata)
    described = {
        "schema": SCHEMA,
        "source": {"bytes": source_bytes, "fingerprint": fingerprint},
        "stream": facts,
        "recipe": asdict(recipe),
    }
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return StreamKey(xxhash.xxh3_128_digest(text.encode()), text)


def key_of(identity: SourceIdentity, stream: StreamFacts, recipe: Recipe) -> StreamKey:
    """Make the key of an indexed source's frames; see ``stream_key``."""
    return stream_key(identity.bytes, identity.fingerprint, stream, recipe)

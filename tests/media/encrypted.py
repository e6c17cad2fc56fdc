"""An MP4 that says that it is encrypted: only its sample description; the packets are clear."""

from __future__ import annotations

import struct

from framefeed.testing import ClipSpec, clip_bytes
from tests.pathologies import bitstreams


def encrypted_clip() -> bytes:
    """Common encryption (ISO/IEC 23001-7): the entry is called encv, and names what it was in a box sinf."""
    clip = clip_bytes(ClipSpec(num_frames=3), "mp4")
    entry = bitstreams.read_payload(clip, f"{bitstreams.STBL}.stsd.avc1")
    scheme = struct.pack(">I4sI", 0, b"cenc", 1 << 16)
    key = struct.pack(">IHBB16s", 0, 0, 1, 8, bytes(16))
    sinf = (
        bitstreams.make_box("frma", b"avc1")
        + bitstreams.make_box("schm", scheme)
        + bitstreams.make_box("schi", bitstreams.make_box("tenc", key))
    )
    return bitstreams.replace_box(
        clip, f"{bitstreams.STBL}.stsd.avc1", bitstreams.make_box("encv", entry + bitstreams.make_box("sinf", sinf))
    )

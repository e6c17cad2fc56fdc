"""An MP4 that says that it is encrypted: only its sample description; the packets are clear."""

from __future__ import annotations

import struct

from framefeed.testing import ClipSpec, boxes, clip_bytes


def encrypted_clip() -> bytes:
    """Common encryption (ISO/IEC 23001-7): the entry is called encv, and names what it was in a box sinf."""
    clip = clip_bytes(ClipSpec(num_frames=3), "mp4")
    entry = boxes.payload_of(clip, f"{boxes.STBL}.stsd.avc1")
    scheme = struct.pack(">I4sI", 0, b"cenc", 1 << 16)
    key = struct.pack(">IHBB16s", 0, 0, 1, 8, bytes(16))
    sinf = boxes.box("frma", b"avc1") + boxes.box("schm", scheme) + boxes.box("schi", boxes.box("tenc", key))
    return boxes.replace(clip, f"{boxes.STBL}.stsd.avc1", boxes.box("encv", entry + boxes.box("sinf", sinf)))

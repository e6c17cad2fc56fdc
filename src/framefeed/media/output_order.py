"""Whether frames come out in the order of their times, as packets say it: decoding the ends does not show it."""

from __future__ import annotations

import re

import numpy as np

from framefeed.media.container import VideoContainer
from framefeed.media.nal_prover import NalProver
from framefeed.media.packets import NAL_CODECS, IntArray, PacketWalk
from framefeed.media.proving import Refuted, Unproved

_IN_PACKET_ORDER = frozenset({"av1", "dnxhd", "ffv1", "h263", "mjpeg", "png", "prores"})
"""Their decoders give the frame of a packet before they take the next one."""
# ISO/IEC 14496-2 6.2.3 and 6.2.5: start codes of a video object layer, up to the next one, and of a VOP.
_LAYER = re.compile(rb"\x00\x00\x01[\x20-\x2f].*?(?=\x00\x00\x01|\Z)", re.DOTALL)
_VOP = b"\0\0\1\xb6"
_B_VOP = 2


def comes_in_order_of_times(container: VideoContainer, walk: PacketWalk, num_decoded: int) -> bool:
    """Whether the packets do not deny that frames come in the order of their times; False where they do not say it.

    Args:
        container: Nothing was decoded of it yet; it does not stay where it is.
        walk: Its packets, of unique times.
        num_decoded: So many of the first ones are decoded anyway.
    """
    if container.codec_name in NAL_CODECS:
        return _units_agree(container, walk)
    order = _order_of_vops(container, num_decoded) if container.codec_name == "mpeg4" else None
    if container.codec_name in _IN_PACKET_ORDER:
        order = np.arange(len(walk), dtype=np.int64)
    if order is None or len(order) != len(walk):
        return False
    times = walk.pts[order[~walk.is_discarded[order]]]
    return bool((times[1:] > times[:-1]).all())


def _units_agree(container: VideoContainer, walk: PacketWalk) -> bool:
    try:
        NalProver(container).prove(walk)
    except Refuted:
        return False
    except Unproved:
        return True
    return True


def _order_of_vops(container: VideoContainer, num_decoded: int) -> IntArray | None:
    """Number the packets of MPEG-4 part 2 in the order of their frames; None where they do not say it.

    A B-VOP comes out at once, any other when the next one comes that is none: unless the stream says that it has no
    B-VOPs (low_delay), and has some all the same. Whether it is so is seen by decoding the first of them.
    """
    container.reopen()
    layers, is_b = set(_LAYER.findall(container.decoder().extradata or b"")), list[bool]()
    for batch in container.batches():
        for packet in batch:
            data = bytes(packet)
            if data.count(_VOP) != 1:
                return None
            at = data.index(_VOP)
            layers |= set(_LAYER.findall(data[:at]))
            is_b.append(int.from_bytes(data[at + len(_VOP) : at + len(_VOP) + 1]) >> 6 == _B_VOP)
    if len(layers) != 1 or (any(is_b) and is_b.index(True) >= num_decoded):
        return None
    numbers = np.arange(len(is_b))
    others = np.flatnonzero(~np.array(is_b))
    # Each of the others comes before the next one of them does, and behind the B-VOPs in between.
    following = np.append(others[1:], len(is_b)) - 0.5
    place = numbers.astype(np.float64)
    place[others] = following
    order: IntArray = place.argsort(kind="stable")
    return order

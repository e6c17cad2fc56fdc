"""Find the frames that are always damaged (D01), and those that packets promise and the decoder does not give.

Where a decoder misses references it shows something else in their place: other pictures that it holds, or what its
memory held before. Which, depends on where decoding starts: there, what decoding gives from the frames' starts is
compared with what it gives in order.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from framefeed._arrays import BoolArray, IntArray
from framefeed._values import DISPOSABLE, MISSING_PTS
from framefeed.index._frame_index import FrameIndex
from framefeed.index._joining import find_frame_starts
from framefeed.media import Packet, PictureHasher, VideoContainer, decode_packet


def find_packet_start(index: FrameIndex, packet: int) -> int:
    """Find the packet from which decoding must start for a packet's picture; -1 if there is none.

    A packet without a frame belongs to the last start before it. A leading picture of that start, recognized by its
    time, belongs to the start before that one (M04).
    """
    frames = np.flatnonzero(index.frame_packet == packet)
    if len(frames):
        return int(index.frame_start[frames].min())
    starts = np.unique(index.frame_start)
    number = int(np.searchsorted(starts, packet, side="right")) - 1
    pts = index.packets.pts
    if number >= 0 and MISSING_PTS != pts[packet] < pts[starts[number]]:
        number -= 1
    return int(starts[number]) if number >= 0 else -1


def find_damaged_frames(index: FrameIndex, flagged: IntArray, raised: IntArray) -> IntArray:
    """List the frames that are always damaged, int64 [D], ascending.

    A frame is damaged if its own picture is damaged, or a picture between the frame's start and its packet, also one
    that gives no frame. A picture that decodes from an earlier start is a leading picture: no frame after its key frame
    refers to it (M04). No frame refers to a disposable picture. So the answer is the same whatever else is decoded.

    Args:
        index: Built by decoding the whole stream, so that each of its frames came out.
        flagged: Frames whose picture the decoder flagged, int64 [F].
        raised: Packets that the decoder refused, int64 [E].
    """
    damaged = np.union1d(index.frame_packet[flagged], raised)
    if not len(damaged):
        return np.empty(0, dtype=np.int64)
    is_damaged = np.isin(index.frame_packet, damaged[damaged >= 0])
    is_damaged[flagged] = True
    if index.stream.skips_exactly:
        damaged = damaged[(damaged < 0) | ((index.packets.flags[damaged] & DISPOSABLE) == 0)]
    # The first damaged packet of each start.
    first: dict[int, int] = {}
    for packet in damaged[damaged >= 0].tolist():
        first.setdefault(find_packet_start(index, packet), packet)
    for start, packet in first.items():
        is_damaged |= (index.frame_start <= start) & (index.frame_packet >= packet)
    return np.flatnonzero(is_damaged).astype(np.int64)


def keep_promised_frames(decoded: FrameIndex, promised: FrameIndex) -> FrameIndex:
    """Keep the numbers of frames that the packets promise and the decoder does not give: these are damaged frames.

    So frames have the same numbers however an index was verified.

    Returns:
        ``decoded`` if the packets promise no more, or other frames than came.
    """
    order = promised.frame_packet
    is_given = np.isin(order, decoded.frame_packet)
    if is_given.all() or not np.array_equal(order[is_given], decoded.frame_packet):
        return decoded
    is_damaged = ~is_given
    is_damaged[is_given] = decoded.is_damaged(np.arange(len(decoded)))
    is_key = decoded.packets.is_key
    is_key[order[~is_given]] = False
    return replace(
        decoded,
        pts=promised.pts,
        duration=promised.duration,
        time_base=promised.time_base,
        key_frame_indices=is_key[order].nonzero()[0],
        built_from=promised.built_from,
        frame_packet=order,
        frame_start=find_frame_starts(order, is_key, decoded.packets),
        packets=decoded.packets.replace_flags(is_key),
        damaged_frame_indices=is_damaged.nonzero()[0],
        times_from=promised.times_from,
        time_shift=promised.time_shift,
    )


_HELD = 24
"""Pictures that are kept, so that such a decoder takes other memory than in order, where each is released at once."""


def find_frames_with_gaps(index: FrameIndex, missing: IntArray, is_reference: BoolArray) -> BoolArray:
    """Find the frames that may refer to pictures that are missing, or come in another order, bool [N].

    They lie behind a gap, and are decoded from a start before it. A picture that comes too late is damaged alone if no
    other refers to it.

    ``missing``: pictures that are missing right before each packet, as `count_missing_pictures` counts, int64 [P].
    ``is_reference``: whether other pictures may refer to a packet's, bool [P].
    """
    is_late = (missing < 0) & ~is_reference
    has_gap = (index.frame_packet >= 0) & is_late[index.frame_packet]
    packets, starts = np.flatnonzero((missing != 0) & ~is_late), np.unique(index.frame_start)
    # No frame is decoded through a gap before the first start.
    number = starts.searchsorted(packets) - 1
    packets, before = packets[number >= 0], starts[number[number >= 0]]
    for start in np.unique(before).tolist():
        has_gap |= (index.frame_start <= start) & (index.frame_packet >= packets[before == start].min())
    return has_gap


def find_unsteady_frames(
    container: VideoContainer, index: FrameIndex, digests: list[int], is_damaged: BoolArray
) -> BoolArray:
    """Find the frames that do not come, or not the same, if decoding begins at their start, bool [N].

    ``container``: its position and decoder change.
    ``digests``: of the picture of each frame, decoded in order.
    ``is_damaged``: frames that are not decoded again, bool [N].
    """
    is_unsteady, is_silent = np.zeros(len(index), bool), container.codec.is_silent
    stops = index.frame_packet + 1 if index.frame_stop is None else index.frame_stop
    nth = _count_earlier(index.frame_packet)
    if index.stream.contiguous and container.codec.units is not None:
        # As the decoders of packets that are read from the file directly: they give damaged pictures too.
        container.set_decoder_options(skip_loop_filter="all", strict="1", flags="+output_corrupt")
    packets = _Packets(container)
    for start in np.unique(index.frame_start[~is_damaged]).tolist():
        frames = np.flatnonzero((index.frame_start == start) & ~is_damaged)
        # In mid-stream, a decoder of MPEG-4 must know the encoder by the first packet.
        decoder = container.decoder() if start and container.codec_name == "mpeg4" else container.make_decoder()
        held = deque[object](maxlen=_HELD if is_silent else 0)
        came = _decode_from(container, decoder, packets.between(start, int(stops[frames].max())), held)
        for frame in frames.tolist():
            pictures = came[int(index.frame_packet[frame])]
            is_unsteady[frame] = len(pictures) <= nth[frame] or pictures[nth[frame]] != digests[frame]
    return is_unsteady


class _Packets:
    """The packets of a stream, demuxed once, for parts that begin one behind the other and may overlap."""

    def __init__(self, container: VideoContainer) -> None:
        container.reopen()
        container.learn_encoder()
        self._packets = enumerate(container.packets())
        self._kept: deque[tuple[int, Packet]] = deque()

    def between(self, start: int, stop: int) -> Iterator[Packet]:
        """Yield the packets of numbers in [start, stop)."""
        while self._kept and self._kept[0][0] < start:
            self._kept.popleft()
        yield from [packet for number, packet in self._kept if number < stop]
        while not self._kept or self._kept[-1][0] < stop - 1:
            number, packet = next(self._packets, (stop, None))
            if packet is None:
                return
            packet.pts = number
            if number >= start:
                self._kept.append((number, packet))
                yield packet


def _decode_from(
    container: VideoContainer, decoder: Any, packets: Iterator[Packet], held: deque[object]
) -> dict[int, list[int]]:
    """Decode packets to the digests of their pictures, by the number of the packet."""
    decoder.flush_buffers()
    came, read = defaultdict[int, list[int]](list), PictureHasher()
    for packet in chain(packets, [None]):
        for frame in decode_packet(container, packet, decoder=decoder):
            if frame.pts is not None and not frame.is_corrupt and container.accepts(frame):
                came[frame.pts].append(read(frame))
            held.append(frame)
    return came


def _count_earlier(packets: IntArray) -> IntArray:
    """Count the earlier frames of each frame's packet, int64 [N]."""
    order = packets.argsort(kind="stable")
    own = packets[order]
    counts = np.empty_like(packets)
    counts[order] = np.arange(len(own)) - own.searchsorted(own)
    return counts

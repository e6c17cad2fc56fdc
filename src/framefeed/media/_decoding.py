"""Decode packets to facts about their frames, without the pixels; read display matrices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any, cast

import xxhash
from av import CodecContext, VideoCodecContext
from av.buffer import Buffer
from av.sidedata.sidedata import SideDataContainer
from av.video.frame import VideoFrame

from framefeed._values import PictureFormat
from framefeed.media._container import Packet, VideoContainer, decode_packet


@dataclass(frozen=True, slots=True)
class DecodedFact:
    """Facts about one decoded frame."""

    packet: int  # number of the frame's packet, in demuxing order; -1 if the decoder does not say
    format: PictureFormat  # of the frame; frames of one format share it
    is_key: bool  # flagged as a key frame
    is_corrupt: bool  # flagged as damaged
    dts: int | None  # decoding time that the decoder copies to the frame, in ticks; None if it has none
    digest: int = 0  # of the picture; 0 if it was not asked for


class PictureHasher:
    """Hashes pictures: size, pixel format and the bytes of their planes, without padding."""

    def __init__(self) -> None:
        # The encoder of raw video knows which bytes of a plane are padding.
        self._packers: dict[tuple[int, int, str], VideoCodecContext] = {}

    def __call__(self, frame: VideoFrame) -> int:
        """Hash a picture; its time may be lost."""
        key = frame.width, frame.height, frame.format.name
        if key not in self._packers:
            packer = CodecContext.create("rawvideo", "w")
            packer.width, packer.height, packer.pix_fmt = key
            packer.time_base = Fraction(1)
            self._packers[key] = packer
        digest = xxhash.xxh3_64(repr(key).encode())
        for packet in self._packers[key].encode(frame):
            digest.update(packet)
        return digest.intdigest()


def decode_facts(
    container: VideoContainer,
    packets: Iterator[tuple[int, Packet]],
    *,
    drain: bool = True,
    refused: list[int] | None = None,
    logged: list[int] | None = None,
    hasher: PictureHasher | None = None,
) -> Iterator[DecodedFact]:
    """Decode packets to facts; skip damaged packets and pictures beyond the limits.

    Args:
        container: Its decoder is used, from a flushed state.
        packets: (number, packet); the packet's pts is overwritten with its number, by which its frame is known:
            every decoder of FFmpeg hands a packet's pts to the frame, and none but it computes with it.
        drain: Ask for the frames that the decoder holds back at the end.
        refused: Filled with the numbers of packets that the decoder could not decode, or not to the end.
        logged: Filled with the numbers of packets about which the decoder logs an error.
        hasher: Computes the digests of pictures.
    """
    last: list[tuple[int, Packet | None]] = [(-1, None)] if drain else []
    formats: dict[tuple[int, int, str, int, int], PictureFormat] = {}
    for number, packet in chain(packets, last):
        if packet is not None:
            packet.pts = number
        for frame in decode_packet(container, packet, refused, logged):
            if not container.accepts(frame):
                if refused is not None and frame.pts is not None:
                    refused.append(frame.pts)
                continue
            if not container.has_decoded:
                container.has_decoded, container.matrix = True, _read_matrix(frame)
            width, height, context = frame.width, frame.height, container.decoder()
            # The decoder knows the size as stored once it has decoded, and forgets it when reopened.
            coded_width, coded_height = context.coded_width or width, context.coded_height or height
            values = width, height, frame.format.name, coded_width, coded_height
            if values not in formats:
                formats[values] = PictureFormat(*values)
            packet_number = -1 if frame.pts is None else frame.pts
            is_key, is_corrupt, dts = bool(frame.key_frame), bool(frame.is_corrupt), frame.dts
            digest = 0 if hasher is None else hasher(frame)
            yield DecodedFact(packet_number, formats[values], is_key, is_corrupt, dts, digest)


def decode_alone(container: VideoContainer, packet: Packet) -> list[DecodedFact]:
    """Decode one packet from a flushed state to the facts of its frames, and flush the decoder."""
    facts = list(decode_facts(container, iter([(0, packet)])))
    container.decoder().flush_buffers()
    return facts


def _read_matrix(frame: VideoFrame) -> tuple[int, ...] | None:
    try:
        # Not frame.side_data: that would have the frame refer to what refers to it, and every picture would stay in
        # memory until the cyclic collector runs.
        side_data = cast("Any", SideDataContainer)(frame)
        data = cast("Buffer | None", side_data.get("DISPLAYMATRIX"))
    except ValueError:
        # PyAV 18.1 has no name for every kind of side data of FFmpeg 8.1 (EXIF of a TIFF): its angle is all there is.
        return _QUARTERS.get(frame.rotation % 360)
    if data is None:
        return None
    raw = bytes(data)
    return tuple(int.from_bytes(raw[i : i + 4], "little", signed=True) for i in range(0, 36, 4))


# Display matrices of turns counter-clockwise.
_QUARTERS = {90: (0, -1, 0, 1, 0, 0, 0, 0, 1), 180: (-1, 0, 0, 0, -1, 0, 0, 0, 1), 270: (0, 1, 0, -1, 0, 0, 0, 0, 1)}

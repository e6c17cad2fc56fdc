"""The table of codecs: what framefeed knows of each, by libav's name; its columns are used all over the package.

A codec that is not in the table has the defaults: the container says where its key frames are, and it is decoded to be
indexed. Provers are in `index/_provers.py`, encoders in `encode/_codecs.py`.
"""

from __future__ import annotations

from typing import NamedTuple


class UnitTypes(NamedTuple):
    """The types of NAL units of a codec: ITU-T H.264 (08/2021) table 7-1, ITU-T H.265 (08/2021) table 7-1."""

    header_bytes: int  # bytes before the payload of a unit
    shift: int  # bits of its first byte behind the type
    mask: int  # bits of the type
    slices: range  # parts of pictures
    starts: range  # slices of pictures at which decoding can start
    # Slices and units without which the others are decoded all the same: messages, delimiters, filler.
    harmless: frozenset[int]
    parameters: frozenset[int]
    sequence_set: int
    picture_set: int  # the picture parameter set
    messages: tuple[int, ...]  # supplemental enhancement information
    ends: tuple[int, ...]  # end of the sequence, and of the stream
    box: bytes  # MP4's box of the configuration record, ISO/IEC 14496-15 5.3.3.1 and 8.3.3.1
    box_bytes: int  # least bytes of that record
    length_offset: int  # byte of the record whose low two bits are the bytes of each unit's length, minus one

    @classmethod
    def of(cls, codec: str) -> UnitTypes:
        """Look up the types of a codec that has NAL units."""
        units = Codec.of(codec).units
        assert units is not None
        return units

    def find_type(self, unit: bytes | memoryview) -> int:
        """Read the type of a NAL unit of at least one byte."""
        return unit[0] >> self.shift & self.mask


class Codec(NamedTuple):
    """What is known of one codec."""

    name: str  # libav's canonical name, whichever library decodes it
    # The types of its NAL units, whose headers say whether decoding can start at a packet; None of a codec without such
    # units, for which the container's key flags count.
    units: UnitTypes | None = None
    # Sample entries of MP4 whose packets libav takes from the sample table as they are.
    mp4_tags: tuple[bytes, ...] = ()
    # MP4's box of the configuration of a codec without NAL units whose first packet has all other facts.
    mp4_box: bytes = b""
    # Packets of MP4 are decoded without their container, by a decoder that has their configuration.
    is_direct: bool = False
    has_parsed_keys: bool = False  # libav takes key frames of MP4 from the packets' headers, not from the container
    decoder: str = ""  # libav's decoder, where the one of the codec's own name is another, for which hardware is needed
    # Demuxers of its bare streams, which have no times and no positions of packets.
    stream_formats: tuple[str, ...] = ()
    # libav decodes its first picture on opening, the slowest part of it, and framefeed's provers read the same facts in
    # the header of that picture.
    is_withheld: bool = False
    # One packet is one frame by the rules of MP4, Matroska and FLV. VP8 and VP9 hide frames (M01), and the picture
    # order of VVC is not parsed.
    is_reliable: bool = False
    is_in_packet_order: bool = False  # its decoder outputs the frame of a packet before it takes the next one
    # Its decoder does not report damage, and leaves old memory in a damaged part of a picture: what is compared has a
    # decoder whose memory is blank.
    is_silent: bool = False
    # Beginnings of its decoder's messages about damage of a picture that it outputs without the flag for damage.
    damage_messages: tuple[str, ...] = ()
    # CPU seconds of decoding one byte of packets, fitted with the others of `index/_runs.py`.
    seconds_per_byte: float = 3e-8
    size_factor: int = 1  # its decoder compares so many times the pixels of a picture with the limit
    # Its decoder says that colour samples of 4:2:0 lie at the left; swscale takes those of others to lie in the centre.
    has_left_colours: bool = False
    is_common: bool = False  # `framefeed doctor` says what decodes and encodes it here

    @classmethod
    def of(cls, name: str) -> Codec:
        """Look a codec up by its name."""
        return CODECS.get(name) or cls(name)


_H264_UNITS = UnitTypes(
    header_bytes=1,
    shift=0,
    mask=31,
    slices=range(1, 6),
    starts=range(5, 6),
    harmless=frozenset({1, 2, 5, 6, 9, 12}),
    parameters=frozenset({7, 8, 13, 15}),
    sequence_set=7,
    picture_set=8,
    messages=(6,),
    ends=(10, 11),
    box=b"avcC",
    box_bytes=8,
    length_offset=4,
)
_HEVC_UNITS = UnitTypes(
    header_bytes=2,
    shift=1,
    mask=63,
    slices=range(32),
    starts=range(16, 22),
    harmless=frozenset({*range(32), 35, 38, 39, 40}),
    parameters=frozenset({32, 33, 34}),
    sequence_set=33,
    picture_set=34,
    messages=(39, 40),
    ends=(36, 37),
    box=b"hvcC",
    box_bytes=23,
    length_offset=21,
)

CODECS: dict[str, Codec] = {
    codec.name: codec
    for codec in (
        Codec(
            "h264",
            units=_H264_UNITS,
            mp4_tags=(b"avc1", b"avc3"),
            is_direct=True,
            has_parsed_keys=True,
            stream_formats=("h264",),
            is_withheld=True,
            is_reliable=True,
            seconds_per_byte=1.3e-7,
            has_left_colours=True,
            is_common=True,
        ),
        Codec(
            "hevc",
            units=_HEVC_UNITS,
            mp4_tags=(b"hvc1", b"hev1"),
            is_direct=True,
            stream_formats=("hevc",),
            is_withheld=True,
            is_reliable=True,
            seconds_per_byte=4.8e-7,
            has_left_colours=True,
            is_common=True,
        ),
        Codec(
            "av1",
            mp4_tags=(b"av01",),
            mp4_box=b"av1C",
            is_direct=True,
            has_parsed_keys=True,
            decoder="libdav1d",
            stream_formats=("obu", "av1"),
            is_withheld=True,
            is_reliable=True,
            is_in_packet_order=True,
            seconds_per_byte=5.8e-7,
            is_common=True,
        ),
        Codec(
            "vp9",
            mp4_tags=(b"vp09",),
            mp4_box=b"vpcC",
            is_direct=True,
            has_parsed_keys=True,
            is_withheld=True,
            seconds_per_byte=1.8e-7,
            is_common=True,
        ),
        Codec("vp8", is_silent=True, seconds_per_byte=9e-8, is_common=True),
        Codec(
            "mpeg4",
            mp4_tags=(b"mp4v",),
            stream_formats=("m4v",),
            is_reliable=True,
            has_left_colours=True,
            is_common=True,
        ),
        Codec("mpeg2video", stream_formats=("mpegvideo",), has_left_colours=True, is_common=True),
        Codec(
            "mjpeg",
            mp4_tags=(b"jpeg",),
            stream_formats=("mjpeg",),
            is_reliable=True,
            is_in_packet_order=True,
            # mjpeg_decode_scan of libavcodec/mjpegdec.c: unreadable blocks, and data that end before the picture.
            damage_messages=("error y=", "overread "),
            is_common=True,
        ),
        Codec("prores", mp4_tags=(b"apcn",), is_reliable=True, is_in_packet_order=True, is_common=True),
        Codec("ffv1", is_reliable=True, is_in_packet_order=True, is_silent=True, is_common=True),
        Codec("vvc", stream_formats=("vvc",), seconds_per_byte=6e-6, is_common=True),
        Codec("dirac", size_factor=5),
        Codec("dnxhd", is_reliable=True, is_in_packet_order=True),
        Codec("h261", stream_formats=("h261",)),
        Codec("h263", mp4_tags=(b"s263",), stream_formats=("h263",), is_reliable=True, is_in_packet_order=True),
        Codec("png", is_reliable=True, is_in_packet_order=True),
        Codec("vc1", stream_formats=("vc1",)),
    )
}
STREAM_FORMATS = frozenset(name for codec in CODECS.values() for name in codec.stream_formats)
"""Bare streams without a container's times and positions."""

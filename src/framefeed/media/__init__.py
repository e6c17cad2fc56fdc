"""Media sources, and facts about them from bytes, containers, packets and headers; no pixels but of still pictures."""

from __future__ import annotations

from framefeed.media._container import STREAM_FORMATS, Packet, VideoContainer
from framefeed.media._declared_rate import declared_rate, has_clock
from framefeed.media._decoding import DecodedFact, decode_facts, orientation
from framefeed.media._details import StreamColors, StreamDetails, picture_details, stream_colors, stream_details
from framefeed.media._files import (
    cannot_write,
    check_writable,
    claimed,
    is_full,
    kind_at,
    remove_unclaimed,
    stat_regular,
    writing,
)
from framefeed.media._info import (
    DEFAULT_LIMITS,
    MATRICES,
    PRIMARIES,
    TRANSFERS,
    Limits,
    MediaInfo,
    allows,
    limit_exceeded,
    limits_or_default,
    padded_pixels,
    shown_size,
    too_large,
)
from framefeed.media._libav_errors import (
    FOREIGN,
    MOST_PIXEL_BYTES,
    check_memory,
    largest_picture,
    libav_log,
    says_damage,
    translated,
)
from framefeed.media._nal import MAX_PARAMETER_SETS, h264_facts, hevc_facts, nal_length_size
from framefeed.media._packets import (
    NAL_CODECS,
    MisplacedPacket,
    PacketWalk,
    no_frame,
    numbered_after_seek,
    packets_from,
    walk_packets,
)
from framefeed.media._parameter_sets import has_damaged_configuration, has_damaged_parameters
from framefeed.media._pillow import (
    MODES_WITHOUT_RULE,
    QUIET,
    check_decodable,
    decode_still,
    describe_picture,
    image_info,
    without_rule,
)
from framefeed.media._probe import probe, sequence_info, video_info
from framefeed.media._provers import has_prover, walk_and_prove
from framefeed.media._sequence import SEQUENCE_CONTAINER, ImageSequence, SequenceSource, exact_rate, source_name
from framefeed.media._sequence_files import PICTURE_SUFFIXES, list_folder
from framefeed.media._sniff import HEAD_BYTES, sniff
from framefeed.media._source import (
    FINGERPRINT_BLOCK,
    OF_HEAD,
    ByteReader,
    FileReader,
    MediaSource,
    SourceIdentity,
    SourceStat,
    head_digest,
    is_real_file,
    ns_in_64_bits,
    read_bytes,
)
from framefeed.media._urls import BLOCK_BYTES, check_url
from framefeed.media.h26x._units import BLOCK_PADDING, UnitWalk
from framefeed.media.headers._exif import orientation_of
from framefeed.media.headers._reads import PICTURE_HEAD_BYTES, CountedReads, OddHeader, StillHeader
from framefeed.media.headers._still import still_header
from framefeed.media.mp4._facts import FORMAT_NAME
from framefeed.media.mp4._open import OpenedMovie, open_movie
from framefeed.media.proofs._nal import comes_in_order_of_times
from framefeed.media.proofs._proving import Proof, Refuted, Unproved

__all__ = [
    "BLOCK_BYTES",
    "BLOCK_PADDING",
    "DEFAULT_LIMITS",
    "FINGERPRINT_BLOCK",
    "FOREIGN",
    "FORMAT_NAME",
    "HEAD_BYTES",
    "MATRICES",
    "MAX_PARAMETER_SETS",
    "MODES_WITHOUT_RULE",
    "MOST_PIXEL_BYTES",
    "NAL_CODECS",
    "OF_HEAD",
    "PICTURE_HEAD_BYTES",
    "PICTURE_SUFFIXES",
    "PRIMARIES",
    "QUIET",
    "SEQUENCE_CONTAINER",
    "STREAM_FORMATS",
    "TRANSFERS",
    "ByteReader",
    "CountedReads",
    "DecodedFact",
    "FileReader",
    "ImageSequence",
    "Limits",
    "MediaInfo",
    "MediaSource",
    "MisplacedPacket",
    "OddHeader",
    "OpenedMovie",
    "Packet",
    "PacketWalk",
    "Proof",
    "Refuted",
    "SequenceSource",
    "SourceIdentity",
    "SourceStat",
    "StillHeader",
    "StreamColors",
    "StreamDetails",
    "UnitWalk",
    "Unproved",
    "VideoContainer",
    "allows",
    "cannot_write",
    "check_decodable",
    "check_memory",
    "check_url",
    "check_writable",
    "claimed",
    "comes_in_order_of_times",
    "declared_rate",
    "decode_facts",
    "decode_still",
    "describe_picture",
    "exact_rate",
    "h264_facts",
    "has_clock",
    "has_damaged_configuration",
    "has_damaged_parameters",
    "has_prover",
    "head_digest",
    "hevc_facts",
    "image_info",
    "is_full",
    "is_real_file",
    "kind_at",
    "largest_picture",
    "libav_log",
    "limit_exceeded",
    "limits_or_default",
    "list_folder",
    "nal_length_size",
    "no_frame",
    "ns_in_64_bits",
    "numbered_after_seek",
    "open_movie",
    "orientation",
    "orientation_of",
    "packets_from",
    "padded_pixels",
    "picture_details",
    "probe",
    "read_bytes",
    "remove_unclaimed",
    "says_damage",
    "sequence_info",
    "shown_size",
    "sniff",
    "source_name",
    "stat_regular",
    "still_header",
    "stream_colors",
    "stream_details",
    "too_large",
    "translated",
    "video_info",
    "walk_and_prove",
    "walk_packets",
    "without_rule",
    "writing",
]

"""Media sources, and facts about them from bytes, containers, packets and headers; no pixels but of still pictures."""

from __future__ import annotations

from framefeed.media._container import STREAM_FORMATS, Packet, VideoContainer, decode_packet
from framefeed.media._declared_rate import find_declared_rate, has_clock
from framefeed.media._decoding import DecodedFact, PictureHasher, convert_display_matrix, decode_facts
from framefeed.media._details import (
    PictureFormat,
    StreamColors,
    StreamDetails,
    describe_picture_stream,
    read_stream_colors,
    read_stream_details,
)
from framefeed.media._info import (
    DEFAULT_LIMITS,
    MATRICES,
    PRIMARIES,
    TRANSFERS,
    Limits,
    MediaInfo,
    bound_padded_pixels,
    is_size_allowed,
    make_limit_error,
    make_size_error,
    resolve_limits,
    rotate_size,
)
from framefeed.media._libav_errors import (
    LIBAV_EXCEPTIONS,
    MOST_PIXEL_BYTES,
    SILENT_CODECS,
    bound_picture_bytes,
    check_memory,
    is_damage_logged,
    is_harmless,
    is_memory_there,
    libav_errors,
    libav_log,
)
from framefeed.media._nal import MAX_PARAMETER_SETS, read_h264_facts, read_hevc_facts, read_nal_length_size
from framefeed.media._packets import (
    DISCARD,
    DISPOSABLE,
    KEY,
    MISSING_PTS,
    NAL_CODECS,
    MisplacedPacket,
    PacketTable,
    PacketWalk,
    demux_from,
    make_empty_error,
    number_after_seek,
    walk_packets,
)
from framefeed.media._parameter_sets import has_damaged_configuration, has_damaged_parameters
from framefeed.media._pillow import (
    QUIET,
    UNCONVERTIBLE_MODES,
    check_decodable,
    decode_still,
    describe_picture,
    make_mode_error,
    probe_image,
)
from framefeed.media._probe import describe_video, probe, probe_sequence
from framefeed.media._provers import has_prover, walk_and_prove
from framefeed.media._readers import ByteReader, FileReader, SourceStat, clamp_ns, is_real_file, read_bytes
from framefeed.media._sequence import SEQUENCE_CONTAINER, ImageSequence, SequenceSource, parse_rate, source_name
from framefeed.media._sequence_files import PICTURE_SUFFIXES, list_folder
from framefeed.media._sniff import HEAD_BYTES, sniff
from framefeed.media._source import (
    FINGERPRINT_BLOCK,
    HEAD_FINGERPRINT_PREFIX,
    MediaSource,
    SourceIdentity,
    hash_head,
)
from framefeed.media._urls import BLOCK_BYTES, check_url
from framefeed.media.h26x._units import BLOCK_PADDING, UnitWalk
from framefeed.media.headers._exif import convert_exif_orientation
from framefeed.media.headers._reads import PICTURE_HEAD_BYTES, CountedReads, OddHeader, StillHeader
from framefeed.media.headers._still import read_still_header
from framefeed.media.mp4._facts import MP4_FORMAT_NAME
from framefeed.media.mp4._open import OpenedMovie, open_movie
from framefeed.media.proofs._nal import count_missing_pictures, is_in_order_of_times
from framefeed.media.proofs._proving import PROOF_RULES, Proof, Refuted, Unproved

__all__ = [
    "BLOCK_BYTES",
    "BLOCK_PADDING",
    "DEFAULT_LIMITS",
    "DISCARD",
    "DISPOSABLE",
    "FINGERPRINT_BLOCK",
    "HEAD_BYTES",
    "HEAD_FINGERPRINT_PREFIX",
    "KEY",
    "LIBAV_EXCEPTIONS",
    "MATRICES",
    "MAX_PARAMETER_SETS",
    "MISSING_PTS",
    "MOST_PIXEL_BYTES",
    "MP4_FORMAT_NAME",
    "NAL_CODECS",
    "PICTURE_HEAD_BYTES",
    "PICTURE_SUFFIXES",
    "PRIMARIES",
    "PROOF_RULES",
    "QUIET",
    "SEQUENCE_CONTAINER",
    "SILENT_CODECS",
    "STREAM_FORMATS",
    "TRANSFERS",
    "UNCONVERTIBLE_MODES",
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
    "PacketTable",
    "PacketWalk",
    "PictureFormat",
    "PictureHasher",
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
    "bound_padded_pixels",
    "bound_picture_bytes",
    "check_decodable",
    "check_memory",
    "check_url",
    "clamp_ns",
    "convert_display_matrix",
    "convert_exif_orientation",
    "count_missing_pictures",
    "decode_facts",
    "decode_packet",
    "decode_still",
    "demux_from",
    "describe_picture",
    "describe_picture_stream",
    "describe_video",
    "find_declared_rate",
    "has_clock",
    "has_damaged_configuration",
    "has_damaged_parameters",
    "has_prover",
    "hash_head",
    "is_damage_logged",
    "is_harmless",
    "is_in_order_of_times",
    "is_memory_there",
    "is_real_file",
    "is_size_allowed",
    "libav_errors",
    "libav_log",
    "list_folder",
    "make_empty_error",
    "make_limit_error",
    "make_mode_error",
    "make_size_error",
    "number_after_seek",
    "open_movie",
    "parse_rate",
    "probe",
    "probe_image",
    "probe_sequence",
    "read_bytes",
    "read_h264_facts",
    "read_hevc_facts",
    "read_nal_length_size",
    "read_still_header",
    "read_stream_colors",
    "read_stream_details",
    "resolve_limits",
    "rotate_size",
    "sniff",
    "source_name",
    "walk_and_prove",
    "walk_packets",
]

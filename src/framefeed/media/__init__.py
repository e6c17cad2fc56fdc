"""Sources of bytes, containers and packets: files, URLs and libav at one border; not one pixel."""

from __future__ import annotations

from framefeed.media._container import Packet, VideoContainer, decode_packet
from framefeed.media._decoding import DecodedFact, PictureHasher, decode_alone, decode_facts
from framefeed.media._details import (
    MATRICES,
    PRIMARIES,
    TRANSFERS,
    StreamDetails,
    describe_picture_stream,
    read_claimed_duration,
    read_stream_colors,
    read_stream_details,
)
from framefeed.media._identity import (
    FINGERPRINT_BLOCK,
    HEAD_FINGERPRINT_PREFIX,
    FileStamp,
    SourceIdentity,
    find_container_version,
    hash_head,
    make_file_version,
)
from framefeed.media._libav_errors import (
    LIBAV_EXCEPTIONS,
    MOST_PIXEL_BYTES,
    bound_picture_bytes,
    check_memory,
    is_damage_logged,
    is_harmless,
    is_memory_there,
    libav_errors,
    libav_log,
    send_packet,
)
from framefeed.media._libav_versions import open_input, read_rational
from framefeed.media._members import READ_BY_ARROW, Location, find_members
from framefeed.media._objects import check_put_url, copy_object, put_object, read_object, read_version, remove_object
from framefeed.media._packets import MisplacedPacket, demux_from, make_empty_error, number_after_seek, walk_packets
from framefeed.media._parameter_sets import has_damaged_configuration, has_damaged_parameters, make_packet
from framefeed.media._readers import FileReader, is_real_file
from framefeed.media._sequence import SEQUENCE_CONTAINER, ImageSequence, SequenceSource, parse_rate, source_name
from framefeed.media._sequence_files import PICTURE_SUFFIXES, list_folder
from framefeed.media._sniff import has_signature, sniff
from framefeed.media._source import MediaSource, Part, make_part
from framefeed.media._urls import BLOCK_BYTES
from framefeed.media.remote import (
    FetchedRange,
    ListedObject,
    RangesAhead,
    SentRanges,
    StorageOptions,
    check_storage_options,
    find_options,
    is_read_by_ranges,
    is_s3,
    list_objects,
)

__all__ = [
    "BLOCK_BYTES",
    "FINGERPRINT_BLOCK",
    "HEAD_FINGERPRINT_PREFIX",
    "LIBAV_EXCEPTIONS",
    "MATRICES",
    "MOST_PIXEL_BYTES",
    "PICTURE_SUFFIXES",
    "PRIMARIES",
    "READ_BY_ARROW",
    "SEQUENCE_CONTAINER",
    "TRANSFERS",
    "DecodedFact",
    "FetchedRange",
    "FileReader",
    "FileStamp",
    "ImageSequence",
    "ListedObject",
    "Location",
    "MediaSource",
    "MisplacedPacket",
    "Packet",
    "Part",
    "PictureHasher",
    "RangesAhead",
    "SentRanges",
    "SequenceSource",
    "SourceIdentity",
    "StorageOptions",
    "StreamDetails",
    "VideoContainer",
    "bound_picture_bytes",
    "check_memory",
    "check_put_url",
    "check_storage_options",
    "copy_object",
    "decode_alone",
    "decode_facts",
    "decode_packet",
    "demux_from",
    "describe_picture_stream",
    "find_container_version",
    "find_members",
    "find_options",
    "has_damaged_configuration",
    "has_damaged_parameters",
    "has_signature",
    "hash_head",
    "is_damage_logged",
    "is_harmless",
    "is_memory_there",
    "is_read_by_ranges",
    "is_real_file",
    "is_s3",
    "libav_errors",
    "libav_log",
    "list_folder",
    "list_objects",
    "make_empty_error",
    "make_file_version",
    "make_packet",
    "make_part",
    "number_after_seek",
    "open_input",
    "parse_rate",
    "put_object",
    "read_claimed_duration",
    "read_object",
    "read_rational",
    "read_stream_colors",
    "read_stream_details",
    "read_version",
    "remove_object",
    "send_packet",
    "sniff",
    "source_name",
    "walk_packets",
]

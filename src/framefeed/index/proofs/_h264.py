"""Prove the frames of H.264 packets: ITU-T H.264 (08/2021) 7.4 and 8.2.1, and libav's order of output."""

from __future__ import annotations

from typing import cast

import numpy as np

from framefeed._arrays import BoolArray, IntArray
from framefeed._values import PacketWalk, UnitFacts
from framefeed.bitstreams import (
    H264_IDR,
    Configuration,
    H264Picture,
    H264Sequence,
    H264Slices,
    OddUnits,
    find_levels,
    number_pictures,
    read_h264_slices,
    read_headers,
)
from framefeed.index.proofs._proving import (
    Proof,
    Refuted,
    Unproved,
    check_ends,
    check_sets,
    find_pictures,
    prove_order_of_times,
)

KNOWN_KINDS = frozenset({1, 5, 6, 7, 8, 9, 10, 11, 12})
"""Slices, messages, parameter sets, delimiters, ends and filler; no partitions, layers, views or alpha planes."""
_MOST_DECODED = 2
"""At most one in so many packets is decoded for a proof of the others."""
_EVIDENT_STEP = 2
"""Orders further apart than this tell libav that pictures are reordered (``h264_select_output_frame``)."""


def prove_h264(configuration: Configuration, units: UnitFacts, walk: PacketWalk, held: int = 0) -> Proof:
    """Prove which frames come of H.264 packets.

    ``held``: pictures that libav's decoder surely holds back from the start.
    """
    packets = find_pictures(units)
    check_ends(units, packets)
    check_sets(configuration, units)
    # Pictures before the first IDR picture may refer to missing ones, and the decoder outputs those that it takes for
    # intact.
    idrs = (units.slice_kind == H264_IDR).nonzero()[0]
    begin = 0 if not len(idrs) or idrs[0] > len(units.slice_kind) // _MOST_DECODED else int(idrs[0])
    first = packets[packets <= begin]
    packets = packets[packets >= begin] if begin else packets
    is_idr = units.slice_kind[packets] == H264_IDR
    is_reference = units.layer[packets] > 0
    if not is_reference[0]:
        raise Refuted("it begins with a picture that no other refers to")
    sequence = cast("H264Sequence", configuration.sequence)
    if sequence.order_kind == 1:
        raise Refuted("an order of pictures in cycles")
    pictures = cast("dict[int, H264Picture]", configuration.pictures)
    try:
        if begin and np.count_nonzero(count_missing_before(configuration, units, first)):
            raise Refuted("gaps in the numbers of frames before the first IDR picture")
        slices = _read_slices(units, packets, sequence, pictures)
        number = number_pictures(sequence, slices, is_idr, is_reference)
    except OddUnits as odd:
        raise Refuted(str(odd)) from None
    if np.count_nonzero(slices.is_field):
        raise Refuted("pictures of one field")
    if np.count_nonzero(slices.resets):
        raise Refuted("a picture at which the order begins anew (MMCO 5)")
    # libav makes up pictures for missing ones.
    if np.count_nonzero(count_missing(slices.number, is_idr, is_reference, None, sequence.number_bits)):
        raise Refuted("gaps in the numbers of frames")
    _check_depth(number, is_idr, slices.is_b, sequence.reorder, held)
    proof = prove_order_of_times(walk, packets, number)
    if not is_idr[0]:
        raise Unproved("it does not begin with an IDR picture")
    return proof._replace(begin=begin) if begin else proof


def count_missing(
    number: IntArray, is_idr: BoolArray, is_reference: BoolArray, is_second: BoolArray | None, bits: int
) -> IntArray:
    """Count the reference pictures missing before each picture by their numbers, 7.4.3; -1 if a number comes again.

    The number of a picture is that of the last reference picture before it, plus one. Other pictures that are lost
    leave no gap, and no picture refers to them.

    ``number``: frame_num of each picture, int64 [S].
    ``is_idr``: whether it is an IDR picture, of number 0, bool [S].
    ``is_reference``: whether other pictures may refer to it, bool [S].
    ``is_second``: whether it may be the second field of a frame, of one number with the first, bool [S]; or None.
    """
    references = np.where(is_reference, np.arange(len(number)), 0)
    before = number[np.maximum.accumulate(references)[:-1]]
    missing = np.zeros(len(number), np.int64)
    missing[1:] = ((number[1:] - before) & ((1 << bits) - 1)) - 1
    # Nothing is known of what came before the first reference picture.
    missing[: int(is_reference.argmax()) + 1] = 0
    missing[is_idr] = number[is_idr]
    if is_second is not None:
        missing[is_second & (missing < 0)] = 0
    return missing


def count_missing_before(configuration: Configuration, units: UnitFacts, packets: IntArray) -> IntArray:
    """Count the reference pictures that a stream lost before each picture, as `count_missing`.

    ``packets``: numbers of the packets that have a picture, int64 [S]; at least one.
    """
    sequence, pictures = cast("H264Sequence", configuration.sequence), configuration.pictures
    is_idr, is_reference = units.slice_kind[packets] == H264_IDR, units.layer[packets] > 0
    slices = _read_slices(units, packets, sequence, cast("dict[int, H264Picture]", pictures))
    missing = count_missing(slices.number, is_idr, is_reference, slices.is_field, sequence.number_bits)
    # The next number after such a picture is 1.
    missing[1:][slices.resets[:-1]] = 0
    if sequence.order_kind == 0:
        is_again = (slices.number[1:] == slices.number[:-1]) & (slices.order[1:] == slices.order[:-1])
        missing[1:][is_again & ~slices.is_field[1:] & ~is_idr[1:]] = -1
    return np.minimum(missing, 0) if sequence.allows_gaps else missing


def _read_slices(
    units: UnitFacts, packets: IntArray, sequence: H264Sequence, pictures: dict[int, H264Picture]
) -> H264Slices:
    is_idr, is_reference = units.slice_kind[packets] == H264_IDR, units.layer[packets] > 0
    return read_headers(
        units.head[packets],
        units.head_bytes[packets],
        lambda bits: read_h264_slices(bits, is_idr, is_reference, sequence, pictures),
    )


def _check_depth(number: IntArray, is_idr: BoolArray, is_b: BoolArray, declared: int | None, held: int) -> None:
    """Raise Refuted if a picture comes after one that is shown later has been output.

    libav holds back as many pictures as are declared. Without a declaration it begins with ``held``, and holds back
    one from the first B slice on, or from the first picture whose order is more than 2 from that of the last one.
    """
    levels = find_levels(number)
    depth = len(levels)
    if depth <= max(held, declared or 0):
        return
    if declared is not None or depth > 1:
        raise Refuted(f"pictures are reordered by {depth}, and {declared} is what is declared")
    evident = is_b.copy()
    largest = np.maximum.accumulate(number)
    evident[1:] |= (np.abs(number[1:] - largest[:-1]) > _EVIDENT_STEP) & ~is_idr[1:]
    if not evident[: int(levels[0].argmax())].any():
        raise Refuted("pictures are reordered, and libav does not know in time")

"""Proofs of the frames that a decoder outputs for the packets of a stream, so that no packet has to be decoded.

A proof holds for a whole stream. It has the packets that give a frame, their order, and the packets where decoding can
start, exactly as decoding everything finds them; only damage of picture data stays unnoticed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framefeed._arrays import BoolArray, IntArray
from framefeed._values import MISSING_PTS, PacketWalk, PictureFormat, StreamColors, UnitFacts
from framefeed.bitstreams import BEGINS_PICTURE, Configuration

PROOF_RULES = 1
"""Version of the rules by which packets are believed; it rises when they give other frames of some stream. 0: before
they were numbered."""


class Unproved(Exception):
    """The packets do not prove which frames come of them; the message has the reason. The index handles it."""


class Refuted(Unproved):
    """The packets deny, or leave open, that frames come in the order of their times: decoding is needed."""


class Proof(NamedTuple):
    """Which frames come of a stream's packets."""

    order: IntArray  # number of the packet of each output frame, in output order, int64 [N]
    is_key: BoolArray  # decoding can start at the packet, as full verification finds, bool [P]
    # Format of the first frame, by the headers of its packet; None if only decoding gives it.
    first: PictureFormat | None = None
    colors: StreamColors | None = None  # colour tags of the stream, by the same headers; None if they have none
    may_turn: bool = False  # messages in the first packet may rotate the first frame
    # The first packet of the proof; later ones do not depend on those before it. The frames before it, which come
    # first, must be decoded.
    begin: int = 0
    changes_size: bool = False  # the headers say that the size of pictures changes


def find_pictures(units: UnitFacts) -> IntArray:
    """List the packets that have a picture, int64 [S]."""
    if units.fault:
        raise Refuted(units.fault)
    packets = units.has_slice.nonzero()[0]
    if not len(packets):
        raise Refuted("no pictures")
    if not units.is_plain or np.count_nonzero(units.head[packets, 0] < BEGINS_PICTURE):
        raise Refuted("packets that are not one picture in whole NAL units")
    return packets


def name_unknown(units: UnitFacts, known: frozenset[int]) -> str:
    """Name the unknown types of NAL units; empty if there are none."""
    unknown = units.kinds - known
    return f"NAL units of types {sorted(unknown)}" if unknown else ""


def check_ends(units: UnitFacts, packets: IntArray) -> None:
    """Raise Refuted if a sequence ends before the last picture: a decoder outputs held pictures early, or never.

    ``packets``: numbers of the packets that have a picture.
    """
    if np.count_nonzero(units.has_end[: packets[-1]]):
        raise Refuted("an end of the sequence inside of it")


def check_sets(configuration: Configuration, units: UnitFacts) -> None:
    """Raise Refuted if packets have other parameter sets than the configuration."""
    if configuration.pictures is None:
        raise Refuted("picture parameter sets of an unknown kind")
    if not configuration.units.issuperset([unit.rstrip(b"\0") for unit in units.parameter_sets]):
        raise Refuted("other parameter sets in packets than in the configuration")


def prove_order_of_times(walk: PacketWalk, packets: IntArray, number: IntArray) -> Proof:
    """Prove that pictures are shown in the order of their times.

    ``packets``: numbers of the packets that give a frame, int64 [S].
    ``number``: the order of their pictures, int64 [S].
    """
    if walk.is_damaged or walk.is_reconfigured:
        raise Refuted("the container says that a packet is damaged, or changes the configuration")
    rising = number.argsort(kind="stable")
    number = number[rising]
    if np.count_nonzero(number[1:] == number[:-1]):
        raise Refuted("two pictures of one order")
    order = packets[rising]
    order = order[~walk.packets.is_discarded[order]]
    if not len(order):
        raise Refuted("no packet gives a frame")
    times = walk.packets.pts[order]
    if np.count_nonzero(times[1:] <= times[:-1]) or times[0] == MISSING_PTS:
        raise Refuted("times in another order than the pictures")
    return Proof(order, walk.packets.is_key)

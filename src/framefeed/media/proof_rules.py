"""Rules of proof that H.264 and HEVC share."""

from __future__ import annotations

from framefeed.media.h26x.configuration import Configuration
from framefeed.media.h26x.units import IntArray, UnitFacts
from framefeed.media.packets import MISSING_PTS, PacketWalk
from framefeed.media.proving import Proof, Refuted

_BEGINS_PICTURE = 128
"""The first bit of a slice header: its first macroblock, or segment, is the picture's."""


def check_packets(units: UnitFacts) -> None:
    """Raise Refuted unless packets are whole pictures, or none."""
    if units.fault:
        raise Refuted(units.fault)
    has_slice = units.has_slice
    if not has_slice.any():
        raise Refuted("no pictures")
    if not units.is_plain or bool((has_slice & (units.head[:, 0] < _BEGINS_PICTURE)).any()):
        raise Refuted("packets that are not one picture in whole NAL units")


def name_unknown(units: UnitFacts, known: frozenset[int]) -> str:
    """Name the types of NAL units whose meaning is not known; empty where there are none."""
    unknown = set(units.kinds.nonzero()[0].tolist()) - known
    return f"NAL units of types {sorted(unknown)}" if unknown else ""


def check_ends(units: UnitFacts) -> None:
    """Raise Refuted if a sequence ends before the last picture: what a decoder holds back comes out early, or never."""
    last = len(units.has_end) - int(units.has_slice[::-1].argmax()) - 1
    if units.has_end[:last].any():
        raise Refuted("an end of the sequence inside of it")


def check_sets(configuration: Configuration, units: UnitFacts) -> None:
    """Raise Refuted unless packets carry no other parameter sets than the configuration."""
    if configuration.pictures is None:
        raise Refuted("picture parameter sets of an unknown kind")
    if not configuration.units.issuperset(unit.rstrip(b"\0") for unit in units.parameter_sets):
        raise Refuted("other parameter sets in packets than in the configuration")


def shown_by(walk: PacketWalk, rows: IntArray, number: IntArray) -> Proof:
    """Prove that pictures are shown in the order of their times.

    Args:
        walk: The packets.
        rows: Numbers of those that give a frame, int64 [S].
        number: The order of their pictures, int64 [S].

    Raises:
        Refuted: Times are missing, or in another order, a packet is damaged, or the configuration changes.
    """
    if walk.is_damaged or walk.is_reconfigured:
        raise Refuted("the container says that a packet is damaged, or changes the configuration")
    rising = number.argsort(kind="stable")
    number = number[rising]
    if bool((number[1:] == number[:-1]).any()):
        raise Refuted("two pictures of one order")
    order = rows[rising]
    order = order[~walk.is_discarded[order]]
    if not len(order):
        raise Refuted("no packet gives a frame")
    times = walk.pts[order]
    if bool((times[1:] <= times[:-1]).any()) or times[0] == MISSING_PTS:
        raise Refuted("times in another order than the pictures")
    return Proof(order, walk.is_key)

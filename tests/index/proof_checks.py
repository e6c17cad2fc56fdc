"""What is proved of a stream, against full verification; and provers that are wrong, by which the law is tried."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from framefeed import FrameIndex, Limits, build_index
from framefeed._values import DEFAULT_LIMITS, PacketWalk
from framefeed.bitstreams import OddUnits
from framefeed.errors import FramefeedError
from framefeed.index import index_media
from framefeed.index._provers import _PROVERS, Prover
from framefeed.index.proofs._proving import Proof, Unproved
from framefeed.media import MediaSource, VideoContainer, walk_packets
from framefeed.testing import take_packets

PROVED = "packets+proof"


@contextmanager
def collecting_reasons() -> Iterator[list[str]]:
    """Collect what the index says of proofs that fail."""
    messages: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not record.msg.startswith("%s: indexed"):
                messages.append(record.getMessage())

    log, handler = logging.getLogger("framefeed.index"), Collector()
    level = log.level
    log.setLevel(logging.DEBUG)
    log.addHandler(handler)
    try:
        yield messages
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def differences(index: FrameIndex, full: FrameIndex) -> list[str]:
    """Name what a proved index has other than full verification."""
    names = ("pts", "duration", "key_frame_indices", "frame_packet", "frame_start")
    different = [name for name in names if not np.array_equal(getattr(index, name), getattr(full, name))]
    if index.built_from == PROVED and not np.array_equal(index.packets.flags, full.packets.flags):
        different.append("flags")
    return different + ([] if index.stream == full.stream else ["stream"])


def check(source: Path | bytes, limits: Limits = DEFAULT_LIMITS) -> str:
    """Index a source by proof; it must be as full verification finds, whatever is proved. How it was built."""
    try:
        full_info, full = index_media(source, "full", limits=limits)
    except FramefeedError as error:
        with pytest.raises(type(error)):
            build_index(source, limits=limits)
        return type(error).__name__
    info, index = index_media(source, limits=limits)
    assert differences(index, full) == []
    assert info == full_info
    return index.built_from


def with_key_flags(clip: bytes, is_key: Callable[[int], bool]) -> bytes:
    """Change what a Matroska file says of its blocks (RFC 9559 10.2): the flags stand before the packet."""
    changed, at = bytearray(clip), 0
    for number, packet in enumerate(take_packets(clip)[0]):
        at = clip.index(packet.data, at)
        changed[at - 1] = changed[at - 1] & 0x7F | (0x80 if is_key(number) else 0)
        at += len(packet.data)
    return bytes(changed)


# --- provers by themselves -----------------------------------------------------------------------------

MakeProver = Callable[[VideoContainer], Prover]


def make_prover(container: VideoContainer) -> Prover:
    """Make the prover of a stream's codec."""
    return _PROVERS[container.codec_name](container)


def prove(source: Path | bytes, make: MakeProver = make_prover, limits: Limits = DEFAULT_LIMITS) -> Proof:
    """Have a prover read a stream; raises Unproved."""
    with VideoContainer(MediaSource.of(source), None, limits) as container:
        prover = make(container)
        try:
            return prover.prove(walk_packets(container, prover.add))
        except OddUnits as odd:
            raise Unproved(str(odd)) from odd


def mistakes(proof: Proof, full: FrameIndex | None) -> list[str]:
    """Name what a proof has other than full verification, which is None where nothing can be read."""
    if full is None:
        return ["frames"]
    is_right = {
        "frames": np.array_equal(proof.order, full.frame_packet),
        "keys": np.array_equal(proof.is_key, full.packets.is_key),
    }
    return [name for name, right in is_right.items() if not right]


def refusal(error: Unproved) -> tuple[str, int]:
    """Give the module and the line that refused a stream."""
    reason: BaseException = error
    while isinstance(reason.__context__, Unproved | OddUnits):
        reason = reason.__context__
    raised = traceback.extract_tb(reason.__traceback__)[-1]
    assert raised.lineno is not None
    return Path(raised.filename).stem, raised.lineno


class BelievesPackets:
    """A prover without rules: each packet is a frame, in the order of the packets, and its key flag is right."""

    def __init__(self, _: VideoContainer) -> None:
        """Take any stream."""

    def add(self, packet: memoryview) -> None:
        """Refuse nothing."""

    def prove(self, walk: PacketWalk) -> Proof:
        return Proof((~walk.packets.is_discarded).nonzero()[0], walk.packets.is_key)


class BelievesTimes(BelievesPackets):
    """Likewise, in the order of the packets' times."""

    def prove(self, walk: PacketWalk) -> Proof:
        proof = super().prove(walk)
        return Proof(proof.order[walk.packets.pts[proof.order].argsort(kind="stable")], proof.is_key)

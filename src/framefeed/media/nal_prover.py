"""The prover of H.264 and HEVC streams that libav demuxes."""

from __future__ import annotations

from dataclasses import asdict, replace

from framefeed.media.container import VideoContainer
from framefeed.media.details import stream_colors
from framefeed.media.h26x.bits import OddUnits
from framefeed.media.h26x.configuration import Configuration, read_configuration
from framefeed.media.nal import has_turning_message, nal_length_size, nal_units
from framefeed.media.packets import PacketWalk
from framefeed.media.parameter_sets import has_damaged_configuration
from framefeed.media.proof_units import prove_units
from framefeed.media.proving import FirstPicture, Proof, Refuted, Unproved

_PROBED_PACKETS = 24
"""More than libav decodes of a stream to learn how far it is reordered, and what it holds back."""
_MESSAGES = {"h264": (6,), "hevc": (39, 40)}


class NalProver:
    """Reads what the walk keeps of each packet.

    Args:
        container: Nothing was decoded of it yet.
    """

    def __init__(self, container: VideoContainer) -> None:
        context = container.decoder()
        self._codec = container.codec_name
        self._extradata = context.extradata or b""
        self._colors = stream_colors(container)
        self._known = context.width, context.height, context.pix_fmt
        self._is_withheld = container.is_withheld
        self._duration = container.stream.duration if container.format_name.startswith("mov") else None
        self._may_guess = self._is_withheld and self._codec == "h264" and container.format_name.startswith("matroska")
        # What it guesses without a decoder may be more than it finds with one.
        self._held = 0 if container.is_withheld else context.reorder_depth
        self._first: bytes | None = None

    def add(self, packet: memoryview) -> None:
        """Take the next packet: the walk looks at its units itself."""
        if self._first is None:
            self._first = bytes(packet)

    def prove(self, walk: PacketWalk) -> Proof:
        """Prove which frames come of all packets; see ``Prover.prove``."""
        try:
            configuration = read_configuration(self._codec, self._extradata, self._colors)
        except OddUnits as odd:
            raise Refuted(str(odd)) from None
        if walk.units is None:
            raise Refuted("packets whose NAL units are not known")
        self._check_times(configuration, walk)
        proof = prove_units(configuration, walk.units, walk, self._held)
        if has_damaged_configuration(self._codec, self._extradata):
            raise Unproved("a decoder complains of the parameter sets")
        may_turn = bool(proof.order[0]) or proof.begin > 0 or self._may_turn()
        return replace(proof, first=self._first_picture(configuration, may_turn))

    def _check_times(self, configuration: Configuration, walk: PacketWalk) -> None:
        """Raise Unproved where libav's times of packets may depend on what it learns by decoding them.

        Without that it takes no H.264 stream's depth for sure; in Matroska it makes up decoding times, and with them
        durations and the stream's start, once it is (``has_decode_delay_been_guessed``). And it makes up how long a
        packet lasts that has no duration in MP4, which shows in their sum: for H.264 its parser knows the rate.
        """
        has_clock = self._codec == "h264" and configuration.format.clock_rate is not None
        is_made_up = self._duration is not None and int(walk.duration.sum()) > self._duration
        if self._is_withheld and is_made_up and not has_clock:
            raise Unproved("packets without a duration")
        depth = configuration.format.reorder
        is_short = self._may_guess and (not depth or len(walk) < _PROBED_PACKETS)
        if self._is_withheld and self._codec == "h264" and (depth is None or is_short):
            raise Unproved("a stream of which libav learns more by decoding")

    def _first_picture(self, configuration: Configuration, may_turn: bool) -> FirstPicture | None:
        """Give what the configuration says of the first packet's picture; None where the container says otherwise."""
        found = configuration.format
        if self._known != (found.width, found.height, None if self._is_withheld else found.pixel_format):
            if self._is_withheld:
                raise Unproved("container and codec that differ in the size of pictures")
            return None
        coded_size, colors = (found.coded_width, found.coded_height), asdict(found.colors) if self._is_withheld else {}
        return FirstPicture(
            found.width, found.height, found.pixel_format, colors, coded_size=coded_size, may_turn=may_turn
        )

    def _may_turn(self) -> bool:
        if self._first is None:
            return True
        for unit in nal_units(self._first, nal_length_size(self._codec, self._extradata)):
            kind = unit[0] & 31 if self._codec == "h264" else unit[0] >> 1 & 63
            if kind in _MESSAGES[self._codec] and has_turning_message(bytes(unit), self._codec):
                return True
        return False

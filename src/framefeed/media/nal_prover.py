"""The prover of H.264 and HEVC streams that libav demuxes."""

from __future__ import annotations

from dataclasses import replace

from framefeed.media.container import VideoContainer
from framefeed.media.details import stream_colors
from framefeed.media.h26x.bits import OddUnits
from framefeed.media.h26x.configuration import Configuration, read_configuration
from framefeed.media.nal import has_turning_message, nal_length_size, nal_units
from framefeed.media.packets import PacketWalk
from framefeed.media.parameter_sets import has_damaged_configuration
from framefeed.media.proof_units import prove_units
from framefeed.media.proving import FirstPicture, Proof, Unproved

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
        self._held = context.reorder_depth
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
            raise Unproved(str(odd)) from None
        if walk.units is None:
            raise Unproved("packets whose NAL units are not known")
        proof = prove_units(configuration, walk.units, walk, self._held)
        if has_damaged_configuration(self._codec, self._extradata):
            raise Unproved("a decoder complains of the parameter sets")
        return replace(proof, first=None if proof.order[0] or proof.begin else self._first_picture(configuration))

    def _first_picture(self, configuration: Configuration) -> FirstPicture | None:
        """Give what the configuration says of the first packet's picture; None where messages may say otherwise."""
        found = configuration.format
        if self._first is None or (found.width, found.height, found.pixel_format) != self._known:
            return None
        for unit in nal_units(self._first, nal_length_size(self._codec, self._extradata)):
            kind = unit[0] & 31 if self._codec == "h264" else unit[0] >> 1 & 63
            if kind in _MESSAGES[self._codec] and has_turning_message(bytes(unit), self._codec):
                return None
        coded_size = found.coded_width, found.coded_height
        return FirstPicture(found.width, found.height, found.pixel_format, coded_size=coded_size)

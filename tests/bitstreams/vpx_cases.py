"""Edited streams of VP8, VP9 and AV1 by name, and why each is not proved, if it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from framefeed import Limits
from framefeed._values import DEFAULT_LIMITS
from tests.bitstreams import vpx_mutants as made
from tests.bitstreams.vpx_mutants import GOP, Packets, edit, ivf, packets, superframe

SMALL = Limits(max_pixels=128 * 96)


@dataclass(frozen=True)
class Mutant:
    """A stream that may mislead: its bytes, why it is not proved if it is not, what it may claim."""

    codec: str
    make: Callable[[], bytes]
    reason: str | None = None
    limits: Limits = DEFAULT_LIMITS


def _mutant(
    codec: str, change: Callable[[Packets], Packets], reason: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> Mutant:
    return Mutant(codec, lambda: ivf(codec, change(packets(codec))), reason, limits)


def _vp8(change: Callable[[Packets], Packets], reason: str | None = None, limits: Limits = DEFAULT_LIMITS) -> Mutant:
    return _mutant("vp8", change, reason, limits)


def _vp9(change: Callable[[Packets], Packets], reason: str | None = None, limits: Limits = DEFAULT_LIMITS) -> Mutant:
    return _mutant("vp9", change, reason, limits)


def _av1(change: Callable[[Packets], Packets], reason: str | None = None, limits: Limits = DEFAULT_LIMITS) -> Mutant:
    return _mutant("av1", change, reason, limits)


def _at(number: int, change: Callable[..., bytes], taken: int = 1) -> Callable[[Packets], Packets]:
    """Put what is made of one or more packets in their place."""
    return lambda stream: edit(stream, number, change(*stream[number : number + taken]), taken=taken)


def _before(number: int, *new: bytes) -> Callable[[Packets], Packets]:
    """Put packets before another."""
    return lambda stream: edit(stream, number, *new, taken=0)


def _cut_partition(stream: Packets, more: int) -> Packets:
    return edit(stream, 3, stream[3][: made.first_partition_end(stream[3]) + more])


def _in_order(codec: str, name: str) -> dict[str, Mutant]:
    """Mutants of all codecs whose frames come in the order of their packets."""

    def backward(number: int) -> int:
        return 2 if number == 7 else number

    def cut_file() -> bytes:
        return ivf(codec, packets(codec))[:-3]

    return {
        f"{name}": _mutant(codec, lambda stream: stream),
        f"{name}, an empty packet": _mutant(codec, _before(4, b"")),
        f"{name}, frames that share times": Mutant(codec, lambda: ivf(codec, packets(codec), lambda n: n // 2)),
        f"{name}, a time that goes backward": Mutant(codec, lambda: ivf(codec, packets(codec), backward), "backward"),
        f"{name}, the file is cut": Mutant(
            codec, cut_file, "do not fill the packet" if codec == "av1" else "a packet is damaged"
        ),
    }


_BEGIN = "does not begin with a key frame"
_HEADER, _NO_KEY = "a header that breaks off", "without a key frame before it"
MUTANTS = {
    **_in_order("vp8", "VP8"),
    "VP8, hidden": _vp8(_at(4, made.hidden_vp8)),
    "VP8, hidden last": _vp8(_at(29, made.hidden_vp8)),
    "VP8, hidden key": _vp8(_at(GOP, made.hidden_vp8)),
    "VP8, hidden first": _vp8(_at(0, made.hidden_vp8), _BEGIN),
    "VP8, all hidden": _vp8(lambda stream: [made.hidden_vp8(packet) for packet in stream], _BEGIN),
    "VP8, begins in a GOP": _vp8(lambda stream: stream[3:], _BEGIN),
    "VP8, another size": _vp8(lambda stream: [*stream[:GOP], *packets("vp8", 64)[GOP:]]),
    "VP8, too large": _vp8(lambda stream: [*stream[:GOP], *packets("vp8", 160)[GOP:]], "larger than allowed", SMALL),
    "VP8, no size": _vp8(_at(GOP, lambda packet: made.sized_vp8(packet, 0, 96)), "of no size"),
    "VP8, no start code": _vp8(_at(GOP, lambda packet: packet[:3] + b"\x00" + packet[4:]), "start code"),
    "VP8, cut in a key header": _vp8(_at(GOP, lambda packet: packet[:9]), "first partition"),
    "VP8, cut in the tag": _vp8(_at(3, lambda packet: packet[:2]), "in its header"),
    "VP8, cut in the partition": _vp8(lambda stream: _cut_partition(stream, -1), "first partition"),
    "VP8, cut behind the partition": _vp8(lambda stream: _cut_partition(stream, 0), "first partition"),
    **_in_order("vp9", "VP9"),
    "VP9, a hidden key and what shows it": _vp9(
        _at(GOP, lambda packet: superframe(made.hidden_vp9(packet), made.show(0)))
    ),
    "VP9, the first key so": _vp9(_at(0, lambda packet: superframe(made.hidden_vp9(packet), made.show(0)))),
    "VP9, hidden and shown": _vp9(
        _at(4, lambda first, second: superframe(made.hidden_inter_vp9(first), second), taken=2)
    ),
    **{
        f"VP9, sizes of {length} bytes": _vp9(
            lambda stream, length=length: edit(
                stream, 4, superframe(made.hidden_inter_vp9(stream[4]), stream[5], length=length), taken=2
            )
        )
        for length in (3, 4)
    },
    "VP9, hidden": _vp9(_at(4, made.hidden_inter_vp9)),
    "VP9, hidden key": _vp9(_at(GOP, made.hidden_vp9)),
    "VP9, hidden key, shown later": _vp9(lambda stream: edit(stream, GOP, made.hidden_vp9(stream[GOP]), made.show(0))),
    "VP9, a hidden key, and another that is shown": _vp9(
        _at(GOP, lambda first, second: superframe(made.hidden_vp9(first), second), taken=2)
    ),
    "VP9, a hidden frame, and a key": _vp9(
        _at(GOP - 1, lambda first, second: superframe(made.hidden_inter_vp9(first), second), taken=2)
    ),
    "VP9, hidden first": _vp9(_at(0, made.hidden_vp9), _BEGIN),
    "VP9, shown again": _vp9(_before(4, made.show(0))),
    "VP9, a key shown again": _vp9(_before(GOP + 1, made.show(3))),
    "VP9, begins with what was before": _vp9(lambda stream: [made.show(0), *stream], _NO_KEY),
    "VP9, begins in a GOP": _vp9(lambda stream: stream[3:], _NO_KEY),
    "VP9, two frames": _vp9(_at(4, superframe, taken=2), "two frames"),
    "VP9, shown again twice": _vp9(_before(4, superframe(made.show(0), made.show(1))), "two frames"),
    "VP9, a key shown behind others": _vp9(
        _at(
            GOP,
            lambda first, second: superframe(made.hidden_vp9(first), made.hidden_inter_vp9(second), made.show(7)),
            taken=2,
        ),
        "calls a key frame",
    ),
    "VP9, sizes beyond the packet": _vp9(
        _at(4, lambda first, second: superframe(first, second, sizes=(9, 9999)), taken=2), "do not fit"
    ),
    "VP9, a size of nothing": _vp9(
        _at(4, lambda packet: superframe(packet, b"", sizes=(len(packet), 0))), "do not fit"
    ),
    "VP9, a frame of one byte": _vp9(_at(4, lambda packet: superframe(packet, sizes=(1,))), _HEADER),
    "VP9, ends like a superframe": _vp9(
        _at(4, lambda packet: packet + b"\x00\x00\x00\x00\x00\x00\x00\x00\xc9"), "and is none"
    ),
    "VP9, ends like a superframe, and begins otherwise": _vp9(
        _at(4, lambda first, second: superframe(made.hidden_inter_vp9(first), second, first=0), taken=2),
        "and is none",
    ),
    "VP9, begins intra-only": _vp9(lambda stream: edit(stream, 0, made.intra_only(stream[0]), made.show(0)), _NO_KEY),
    "VP9, intra-only": _vp9(
        _at(GOP, lambda packet: superframe(made.intra_only(packet), made.show(0))), "an intra-only frame"
    ),
    "VP9, another profile": _vp9(
        lambda stream: [*stream[:GOP], *packets("vp9", pixel_format="yuv444p")[GOP:]], "another profile"
    ),
    "VP9, no frame": _vp9(lambda stream: edit(stream, 4, bytes(40)), "a header that is damaged"),
    "VP9, a key without its start code": _vp9(
        _at(GOP, lambda packet: made.started_vp9(packet, sync_code=0)), "start code"
    ),
    "VP9, RGB of profile 0": _vp9(
        _at(GOP, lambda packet: made.started_vp9(packet, space=7)), "colours that its profile"
    ),
    "VP9, another size": _vp9(lambda stream: [*stream[:GOP], *packets("vp9", 64)[GOP:]]),
    "VP9, too large": _vp9(lambda stream: [*stream[:GOP], *packets("vp9", 160)[GOP:]], "larger than allowed", SMALL),
    "VP9, much larger than its reference": _vp9(
        _at(29, lambda packet: made.sized_inter_vp9(packet, 4096, 96)), "much larger"
    ),
    "VP9, much smaller than its reference": _vp9(
        _at(29, lambda packet: made.sized_inter_vp9(packet, 40, 40)), "much larger or smaller"
    ),
    "VP9, a header that ends with ones": _vp9(_at(GOP, made.padded_vp9), "end with zeros"),
    "VP9, cut in the header": _vp9(_at(4, lambda packet: packet[:8]), _HEADER),
    "VP9, cut behind the header": _vp9(_at(4, made.headers_vp9), "a frame that breaks off"),
    **_in_order("av1", "AV1"),
    "AV1, no delimiters": _av1(lambda stream: [made.without(packet, made.DELIMITER) for packet in stream]),
    "AV1, the key shown again": _av1(_before(1, made.show_av1(0)), "a key frame is shown again"),
    "AV1, the key shown in another's place": _av1(
        lambda stream: edit(stream, 2, made.show_av1(1)), "a key frame is shown again"
    ),
    "AV1, another shown again": _av1(
        lambda stream: edit(stream, 4, *[made.show_av1(slot) for slot in (5, 3)]), "a frame is missing"
    ),
    "AV1, a frame is missing": _av1(lambda stream: [*stream[:4], *stream[5:]], "a frame is missing"),
    "AV1, one that is shown again is missing": _av1(lambda stream: [*stream[:2], *stream[3:]], "a frame is missing"),
    "AV1, a key frame is missing": _av1(lambda stream: [*stream[:GOP], *stream[GOP + 1 :]], "a frame is missing"),
    "AV1, still pictures": Mutant("av1", lambda: ivf("av1", list(made.still_pictures()))),
    "AV1, temporal layers": _av1(
        lambda stream: [
            made.layered(packet, 0x20 * (number % 2)) for number, packet in enumerate(made.with_layers(stream, 0x103))
        ]
    ),
    "AV1, temporal layers that the sequence header does not name": _av1(
        lambda stream: [made.layered(packet, 0x20 * (number % 3)) for number, packet in enumerate(stream)]
    ),
    "AV1, two frames": _av1(
        _at(4, lambda first, second: first + made.without(second, made.DELIMITER), taken=2), "one frame"
    ),
    "AV1, two temporal units": _av1(_at(4, lambda first, second: first + second, taken=2), "one frame"),
    "AV1, shown and shown again": _av1(_at(4, lambda packet: packet + made.show_av1(0)), "one frame"),
    "AV1, no frame": _av1(_before(4, b"\x12\x00"), "one frame"),
    "AV1, none that is shown": _av1(_at(1, lambda packet: made.join(made.units(packet)[:-1])), "one frame"),
    "AV1, begins with what was before": _av1(lambda stream: [made.show_av1(0), *stream], "sequence header"),
    "AV1, begins in a GOP": _av1(lambda stream: stream[3:], "sequence header"),
    "AV1, begins in a GOP, with a sequence header": _av1(
        lambda stream: [made.join([*made.units(stream[0])[:2], *made.units(stream[3])[1:]]), *stream[4:]],
        "shown key frame",
    ),
    "AV1, no sequence header": _av1(_at(0, lambda packet: made.without(packet, made.SEQUENCE)), "sequence header"),
    "AV1, an empty frame": _av1(
        lambda stream: edit(stream, 4, made.join([(made.DELIMITER, b"", b""), (made.FRAME, b"", b"")])), "its own"
    ),
    "AV1, shown again as a frame": _av1(_before(4, made.show_av1(0, made.FRAME)), "with tiles"),
    "AV1, a header without tiles": _av1(
        _at(3, lambda packet: made.retyped(packet, made.FRAME, made.HEADER)), "one frame"
    ),
    "AV1, a header without tiles, and a frame": _av1(
        lambda stream: edit(
            stream, 1, made.retyped(stream[3], made.FRAME, made.HEADER) + made.without(stream[1], made.DELIMITER)
        ),
        "belongs to no other",
    ),
    "AV1, tiles without a header": _av1(
        _at(3, lambda packet: made.retyped(packet, made.FRAME, made.TILES)), "belongs to no other"
    ),
    "AV1, a repeated header": _av1(
        _at(3, lambda packet: made.retyped(packet, made.FRAME, made.REPEATED)), "belongs to no other"
    ),
    "AV1, a frame, and tiles of none": _av1(
        _at(3, lambda packet: packet + made.tiles_of(packet)), "belongs to no other"
    ),
    "AV1, begins with a hidden frame": _av1(
        lambda stream: edit(stream, 0, made.insert(stream[0], 2, made.units(stream[1])[1])), "shown key frame"
    ),
    "AV1, two spatial layers": _av1(lambda stream: made.with_layers(stream, 0x301), "spatial layers"),
    "AV1, two spatial layers, and which": _av1(
        lambda stream: [
            made.layered(packet, 0x08 * (number % 2)) for number, packet in enumerate(made.with_layers(stream, 0x301))
        ],
        "spatial layers",
    ),
    "AV1, spatial layers of no time": _av1(lambda stream: made.with_layers(stream, 0x100), "spatial layers"),
    "AV1, a layer that is left out": _av1(
        lambda stream: [
            made.layered(packet, 0x20 * (number % 2)) for number, packet in enumerate(made.with_layers(stream, 0x101))
        ],
        "not decoded",
    ),
    "AV1, another sequence header": _av1(
        lambda stream: [*stream[:GOP], *made.with_layers(stream[GOP : GOP + 1], 0x101), *stream[GOP + 1 :]], "changes"
    ),
    "AV1, another sequence header in a GOP": _av1(
        lambda stream: edit(
            stream, 13, made.insert(stream[13], 1, made.units(made.with_layers(stream[:1], 0x101)[0])[1])
        ),
        "changes",
    ),
    "AV1, another size": _av1(lambda stream: [*stream[:GOP], *packets("av1", 64)[GOP:]], "changes"),
    "AV1, a forbidden bit": _av1(
        _at(3, lambda packet: packet[:2] + bytes([packet[2] | 128]) + packet[3:]), "do not fill"
    ),
    "AV1, cut": _av1(_at(3, lambda packet: packet[:-1]), "do not fill"),
    "AV1, cut in a size": _av1(_at(1, lambda packet: packet[:3] + b"\xff"), "end to its size"),
    "AV1, cut in the sequence header": _av1(
        _at(0, lambda packet: made.join([(made.SEQUENCE, b"", b"\x00\x00"), *made.units(packet)[2:]])),
        "breaks off",
    ),
}

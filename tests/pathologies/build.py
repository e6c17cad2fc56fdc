"""Make pathologies and their writers from a spec, from bytes or from edited packets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from framefeed.testing import ClipSpec, Coded, clip_bytes, put_packets, take_packets, write_clip
from tests.pathologies.facts import MediaFacts, Pathology

Proof = Callable[[MediaFacts], bool]
Edit = Callable[[list[Coded]], Iterable[Coded]]


def make_from_spec(name: str, number: str, spec: ClipSpec, trait: str, proof: Proof) -> Pathology:
    """Make a pathology by options of the encoder or muxer."""

    def write(path: Path) -> None:
        write_clip(path, spec)

    return Pathology(name, number, trait, write, proof, spec.stamps)


def write_bytes_of(make: Callable[[], bytes]) -> Callable[[Path], None]:
    """Make a writer of a file that is made in memory."""

    def write(path: Path) -> None:
        path.write_bytes(make())

    return write


def write_packets_of(
    spec: ClipSpec, edit: Edit, *, via: str = "matroska", options: Mapping[str, str] | None = None
) -> Callable[[Path], None]:
    """Make a writer of a clip whose packets are changed between encoder and container.

    Args:
        spec: The clip.
        edit: Changes the packets, which come in decode order and in the time base of `via`.
        via: Container that the clip passes through first.
        options: Options of the last muxer.
    """

    def write(path: Path) -> None:
        clip = clip_bytes(spec, via)
        packets, time_base = take_packets(clip)
        put_packets(path, clip, edit(packets), time_base, options)

    return write

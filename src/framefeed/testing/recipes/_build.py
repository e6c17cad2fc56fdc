"""What recipes share: from a spec, from bytes or from edited packets to a pathology."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from framefeed.testing._clips import ClipSpec, Coded, clip_bytes, put_packets, take_packets, write_clip
from framefeed.testing._pathologies import MediaFacts, Pathology

Proof = Callable[[MediaFacts], bool]
Edit = Callable[[list[Coded]], Iterable[Coded]]


def from_spec(name: str, number: str, spec: ClipSpec, trait: str, proof: Proof) -> Pathology:
    """A pathology that the encoder or muxer makes by its options."""

    def write(path: Path) -> None:
        write_clip(path, spec)

    return Pathology(name, number, trait, write, proof, spec.stamps)


def from_bytes(make: Callable[[], bytes]) -> Callable[[Path], None]:
    """Writer of a file that is put together in memory."""

    def write(path: Path) -> None:
        path.write_bytes(make())

    return write


def from_packets(
    spec: ClipSpec, edit: Edit, *, via: str = "matroska", options: Mapping[str, str] | None = None
) -> Callable[[Path], None]:
    """Writer of a clip whose packets are changed between encoder and container.

    Args:
        spec: The clip.
        edit: From its packets, in decode order and in the time base of `via`, to those that are written.
        via: Container that the clip passes through first.
        options: Options of the last muxer.
    """

    def write(path: Path) -> None:
        clip = clip_bytes(spec, via)
        packets, time_base = take_packets(clip)
        put_packets(path, clip, edit(packets), time_base, options)

    return write

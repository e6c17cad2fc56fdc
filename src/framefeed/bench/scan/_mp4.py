"""Row "mp4": what our header reading and frame table of an MP4 cost beside PyAV's opening and TorchCodec's scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from framefeed.bench._peers import Facts
from framefeed.bench._runner import Comparison, Contender, Findings, Row, Run, Timings, compare_times
from framefeed.bench.baselines import Peers
from framefeed.bench.scan._processes import read_family_clocks
from framefeed.errors import MediaError
from framefeed.index import build_index
from framefeed.media import probe

READS = 60
"""Of files in a round, about."""
FACTS, TABLE = "framefeed, facts", "framefeed, frame table"
AV, TORCHCODEC = "PyAV, av.open", "TorchCodec, exact constructor"


def facts_of(path: str) -> Facts:
    """Codec and size, from the header; not turned, as the peer has it."""
    try:
        info = probe(path)
    except MediaError:
        return None
    turned = info.rotation in (90, 270)
    return (info.codec, info.height, info.width) if turned else (info.codec, info.width, info.height)


def count_frames(path: str) -> int | None:
    """How many frames the table has."""
    try:
        return len(build_index(path, "none"))
    except MediaError:
        return None


def mp4_row(videos: Sequence[Path], peers: Peers) -> Row:
    """Compare facts and frame tables, and their times.

    Args:
        videos: MP4 and MOV files.
        peers: Of which PyAV, and TorchCodec where it is installed.
    """
    readers: dict[str, Callable[[str], object]] = {
        FACTS: facts_of, AV: peers.modules["pyav"].facts_of, TABLE: count_frames,
    }  # fmt: skip
    if "torchcodec" in peers.modules:
        readers[TORCHCODEC] = peers.modules["torchcodec"].count_frames
    paths = [str(video) for video in videos]
    turns = max(1, READS // len(paths))

    def read_all(reader: Callable[[str], object]) -> Run:
        def run(number: int) -> None:
            for path in paths * turns:
                reader(path)

        return run

    def check(contender: Contender) -> list[str] | None:
        """Files of which we say something else than a peer; where the two differ, ours is the suspect."""
        peer = {FACTS: AV, TABLE: TORCHCODEC}.get(contender.name, "")
        if peer not in readers:
            return None
        said = [(path, readers[contender.name](path), readers[peer](path)) for path in paths]
        return [f"{path.rpartition('/')[2]}: {got}, {peer} says {other}" for path, got, other in said if got != other]

    def conclude(timings: Timings) -> Findings:
        return Findings([
            Comparison("facts", "the rate of av.open, for facts", compare_times(timings, FACTS, AV, ("cpu",))),
            Comparison("frame table", "the rate of TorchCodec's exact constructor, for the frame table",
                       compare_times(timings, TABLE, TORCHCODEC, ("cpu",))),
        ])  # fmt: skip

    return Row(
        "mp4",
        f"facts and frame tables of {len(paths)} MP4 files",
        [
            Contender(
                name,
                lambda reader=reader: read_all(reader),  # type: ignore[misc]
                {AV: "pyav", TORCHCODEC: "torchcodec"}.get(name, ""),
                amount=len(paths) * turns,
            )
            for name, reader in readers.items()
        ],
        conclude,
        unit="files",
        check=check,
        clock=read_family_clocks,
    )

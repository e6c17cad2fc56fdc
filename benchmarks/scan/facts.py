"""Rows "headers" and "mp4": facts of files, one after the other, against other libraries.

"headers" has the size of each picture, one engine of the write-up after the other, and ours. Rates are of engines that
are warm: pools have started and imported what they need before anything is timed, and what that took is reported apart.
CPU seconds are those of the process that measures and of all that it starts together, so that rates are "per core"
whatever the number of processes. Quick engines get many files a round and slow ones few, each time the first of one
tree, in which every original comes round equally often.

Ours reads the header between the bare system calls: once with an fstat for each file, as a scan needs it and the limit
has it; once without, as the peers that give width and height and nothing else do it, and with the calls in rows, as a
scan makes them.

"mp4" has what our header reading and frame table of an MP4 cost beside PyAV's opening and TorchCodec's scan.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import repeat
from pathlib import Path

from benchmarks.peers import pillow
from benchmarks.peers.kinds import Engine, Facts, Pace, ReadSizes, Size, one_by_one
from benchmarks.scan.media import Originals, Tree
from framefeed._values import Limits
from framefeed.bench import Comparison, Contender, Findings, Row, Run, Timings, compare_times, read_family_clocks, ready
from framefeed.bench.baselines import Peers
from framefeed.errors import MediaError
from framefeed.index import build_index, probe
from framefeed.media import MediaSource
from framefeed.pictures import PICTURE_HEAD_BYTES, OddHeader, probe_image, read_still_header

OURS = "framefeed, header"
BARE_OURS = "framefeed, without fstat"
_FLAGS = os.O_RDONLY | os.O_CLOEXEC
LIMIT = "open + fstat + pread + close"
"""The name of the contender that only makes the system calls."""


def size_of(path: str) -> Size:
    """Stored size of one picture; where the header is odd, a library says it, as in a scan."""
    file = os.open(path, _FLAGS)
    try:
        os.fstat(file)
        header = read_still_header(os.pread(file, PICTURE_HEAD_BYTES, 0), partial(os.pread, file))
    except OddHeader:
        return _ask_library(path)
    finally:
        os.close(file)
    return header.width, header.height


def _ask_library(path: str) -> Size:
    try:
        info = probe_image(MediaSource.of(path), Limits())
    except MediaError:
        return None
    return info.coded_width, info.coded_height


def read_in_rows(paths: Sequence[str]) -> list[Size]:
    """Sizes of files, 64 at a time: all are opened, then read, then closed."""
    sizes = list[Size]()
    for start in range(0, len(paths), 64):
        some, files = paths[start : start + 64], list[int]()
        try:
            files.extend(map(os.open, some, repeat(_FLAGS)))
            heads = map(os.pread, files, repeat(PICTURE_HEAD_BYTES), repeat(0))
            for path, file, head in zip(some, files, heads, strict=True):
                try:
                    sizes.append(read_still_header(head, partial(os.pread, file))[2:4])
                except OddHeader:
                    sizes.append(_ask_library(path))
        finally:
            for file in files:
                os.close(file)
    return sizes


OUR_ENGINES = (
    Engine(OURS, one_by_one(size_of), "quick", library=""),
    Engine(BARE_OURS, lambda processes, stack: read_in_rows, "quick", library=""),
)
SHARES: dict[Pace, float] = {"quick": 1.0, "steady": 0.25, "pooled": 0.5, "slow": 0.002}
"""Of the files of the tree, that a round has."""
RIVALS = {
    "PyAV, process pool": ("pyav", BARE_OURS, "the rate of PyAV in a process pool"),
    "imagesize": ("imagesize", BARE_OURS, "the rate of imagesize"),
    LIMIT: ("limit", OURS, f"share of the rate of bare {LIMIT}"),
}
"""Engine -> key of the comparison, which of our ways it is compared with, and in what words."""


def headers_row(tree: Tree, originals: Originals, engines: Sequence[Engine], processes: int, stack: ExitStack) -> Row:
    """Compare engines on the files of a tree; what they say is compared with what Pillow says."""
    checked = [*map(str, originals.stills), *map(str, originals.broken)]
    expected = list(map(pillow.size_of, checked))
    in_tree = [expected[number % len(originals.stills)] for number in range(len(tree))]
    by_name = {engine.name: engine for engine in engines}
    # Every original comes round equally often, and at least once.
    turns = {name: max(1, round(SHARES[each.pace] * len(tree) / len(tree.originals))) for name, each in by_name.items()}
    paths = {name: tree.paths(times * len(tree.originals)) for name, times in turns.items()}
    facts: dict[str, dict[str, float]] = {name: {"files_a_round": len(of)} for name, of in paths.items()}
    opened: dict[str, ReadSizes] = {}
    measured: dict[str, list[Size]] = {}

    def open_engine(name: str) -> Run:
        before = read_family_clocks()
        read = opened[name] = by_name[name].open(processes, stack)
        facts[name]["opening_cpu_seconds"] = round((read_family_clocks() - before).cpu, 4)

        def run(number: int) -> None:
            measured[name] = read(paths[name])

        return run

    def check(contender: Contender) -> list[str] | None:
        answers = opened[contender.name](checked)
        return list_differences(checked, expected, answers) if by_name[contender.name].knows_sizes else None

    def recheck(contender: Contender) -> list[str]:
        name = contender.name
        right = in_tree[: len(paths[name])]
        return list_differences(paths[name], right, measured[name]) if by_name[name].knows_sizes else []

    def conclude(timings: Timings) -> Findings:
        comparisons = [
            Comparison(key, what, compare_times(timings, ours, rival, ("cpu",)))
            for rival, (key, ours, what) in RIVALS.items()
        ]
        return Findings(comparisons, {"originals": len(originals.stills), "processes": processes})

    contenders = [
        Contender(name, partial(open_engine, name), engine.library, amount=len(paths[name]), facts=facts[name])
        for name, engine in by_name.items()
    ]
    return Row(
        "headers",
        "width and height of JPEG and PNG files, one after the other, warm cache",
        contenders,
        conclude,
        unit="files",
        check=check,
        recheck=recheck,
        clock=read_family_clocks,
    )


def list_differences(paths: Sequence[str], expected: Sequence[Size], measured: Sequence[Size]) -> list[str]:
    """What an engine got wrong, each in a line: sizes, and files that fail with one and not with the other."""
    if len(measured) != len(expected):
        return [f"{len(measured)} sizes of {len(expected)} files"]
    rows = zip(paths, expected, measured, strict=True)
    return [f"{path.rpartition('/')[2]}: expected {size}, got {got}" for path, size, got in rows if got != size]


# --- MP4 files -----------------------------------------------------------------------------------

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
    """Compare facts and frame tables, and their times."""
    readers: dict[str, Callable[[str], object]] = {
        FACTS: facts_of, AV: peers.modules["pyav"].facts_of, TABLE: count_frames,
    }  # fmt: skip
    if "torchcodec" in peers.modules:
        readers[TORCHCODEC] = peers.modules["torchcodec"].count_frames
    paths = [str(video) for video in videos]
    turns = max(1, READS // len(paths))

    def read_all(reader: Callable[[str], object], number: int) -> None:
        for path in paths * turns:
            reader(path)

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

    libraries = {AV: "pyav", TORCHCODEC: "torchcodec"}
    return Row(
        "mp4",
        f"facts and frame tables of {len(paths)} MP4 files",
        [
            Contender(name, ready(partial(read_all, reader)), libraries.get(name, ""), amount=len(paths) * turns)
            for name, reader in readers.items()
        ],
        conclude,
        unit="files",
        check=check,
        clock=read_family_clocks,
    )

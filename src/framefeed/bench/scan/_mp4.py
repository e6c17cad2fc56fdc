"""Row "mp4": what our header reading and frame table of an MP4 cost beside PyAV's opening and TorchCodec's scan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from framefeed.bench._goals import Mark, per_file
from framefeed.bench._measuring import Contender, Rounds, measure, settle
from framefeed.bench._sizing import Facts
from framefeed.bench.baselines import load_module
from framefeed.bench.scan._family import family_now
from framefeed.errors import MediaError
from framefeed.index import build_index
from framefeed.media import probe

READS = 60
"""Of files in a round, about."""
FACTS, TABLE = "framefeed, facts", "framefeed, frame table"
AV, TORCHCODEC = "PyAV, av.open", "TorchCodec, exact constructor"
Reader = Callable[[str], object]


def facts_of(path: str) -> Facts:
    """Codec and size, from the header; not turned, as the peer has it."""
    try:
        info = probe(path)
    except MediaError:
        return None
    turned = info.rotation in (90, 270)
    return (info.codec, info.height, info.width) if turned else (info.codec, info.width, info.height)


def frames_of(path: str) -> int | None:
    """How many frames the table has."""
    try:
        return len(build_index(path, "none"))
    except MediaError:
        return None


def mp4_row(videos: Sequence[Path], rounds: Rounds) -> dict[str, Any]:
    """Measure facts and frame tables.

    Args:
        videos: MP4 and MOV files.
        rounds: How often.
    """
    table = load_module("table_torchcodec")
    readers: dict[str, Reader] = {FACTS: facts_of, AV: load_module("sizes_pyav").facts_of, TABLE: frames_of}
    if not isinstance(table, str):
        readers[TORCHCODEC] = table.frames_of
    paths = [str(video) for video in videos]
    wrong = {FACTS: differing(paths, readers, FACTS, AV), TABLE: differing(paths, readers, TABLE, TORCHCODEC)}
    turns = max(1, READS // len(paths))
    contenders = [Contender(name, partial(_read, reader, paths * turns)) for name, reader in readers.items()]
    samples = measure(contenders, replace(rounds, pilot=rounds.pairs), family_now, partial(settle, family_now))
    each = per_file(samples, dict.fromkeys(readers, len(paths) * turns))
    goals = [Mark("the rate of av.open, for facts", 5, 15).judge({"CPU": each.ratio(AV, FACTS)})]
    if TORCHCODEC in readers:
        what = "the rate of TorchCodec's exact constructor, for the frame table"
        goals.append(Mark(what, 3, 8).judge({"CPU": each.ratio(TORCHCODEC, TABLE)}))
    return {
        "key": "mp4",
        "title": f"facts and frame tables of {len(paths)} MP4 files",
        "engines": [
            {
                "name": name,
                "files_a_round": len(paths) * turns,
                "files_per_cpu_second": round(1 / each.median(name), 1),
                "files_per_second": round(1 / each.median(name, "wall"), 1),
                "num_wrong": len(wrong.get(name, [])),
                "wrong": wrong.get(name, []),
                "cpu_microseconds_a_file": [round(1e6 * sample.cpu, 2) for sample in each.of[name].values()],
            }
            for name in readers
        ],
        "missing": {"torchcodec": table} if isinstance(table, str) else {},
        "goals": goals,
    }


def differing(paths: Sequence[str], readers: Mapping[str, Reader], ours: str, peer: str) -> list[str]:
    """Files of which we say something else than a peer, each in a line."""
    if peer not in readers:
        return []
    facts = [(path, readers[ours](path), readers[peer](path)) for path in paths]
    return [f"{path.rpartition('/')[2]}: {got}, {peer} says {said}" for path, got, said in facts if got != said]


def _read(reader: Reader, paths: Sequence[str], number: int) -> None:
    for path in paths:
        reader(path)

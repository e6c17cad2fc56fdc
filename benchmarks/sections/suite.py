"""The sections as one suite, and the page of tables that its results give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.sections import a, b, c, d, e
from benchmarks.sections.section import Result, Section, Table
from framefeed.bench import Begin, BenchOptions, MakeRow, Suite
from framefeed.bench.baselines import Peers


def make_sections(
    pictures: Path | None = None,
    epochs: int = c.EPOCHS,
    frames: int = a.FRAMES,
    clips: int = d.CLIPS,
    lengths: Sequence[int] = d.LENGTHS,
) -> dict[str, Section]:
    """Make the sections, by letter.

    Args:
        pictures: C: a folder of JPEG files; None for ones that are made.
        epochs: C: of training, in a round.
        frames: A: of the video.
        clips: D: in all.
        lengths: D: of the videos, in seconds.
    """
    return {
        "A": a.make_section(frames),
        "B": b.SECTION,
        "C": c.make_section(pictures, epochs),
        "D": d.make_section(clips, lengths),
        "E": e.SECTION,
    }


SECTIONS: Mapping[str, Section] = make_sections()


def plan_rows(
    keys: Sequence[str], sections: Mapping[str, Section], options: BenchOptions, work: Path, begin: Begin
) -> Mapping[str, MakeRow]:
    """Plan the rows that are asked for, by the letter of their section or one by one."""
    made: dict[str, MakeRow] = {}
    for letter in dict.fromkeys(key.partition(":")[0] for key in keys):
        # Its own ones: modules of two sections may have one name, "torch".
        rows = sections[letter].plan(options, Peers.find(sections[letter].peers), work, begin)
        made |= {key: make for key, make in rows.items() if letter in keys or key in keys}
    return made


def make_suite(keys: Sequence[str], sections: Mapping[str, Section]) -> Suite:
    """Make a suite of some sections or rows, which needs no other libraries than theirs."""
    peers = dict.fromkeys(peer for key in keys for peer in sections[key.partition(":")[0]].peers)
    return Suite(
        "sections",
        {key: section.title for key, section in sections.items()},
        tuple(peers),
        lambda options, peers, work, begin: plan_rows(keys, sections, options, work, begin),
        {key: section.seconds for key, section in sections.items()},
        3,
        lambda options: {"own_media": bool(options.media)},
    )


def tabulate(rows: Sequence[Result], sections: Mapping[str, Section]) -> dict[str, Mapping[str, Table]]:
    """Write the tables of those sections whose rows are there: letter -> title -> table."""
    by_key = {row["key"]: row for row in rows}
    tables = {}
    for key, section in sections.items():
        own = {name: row for name, row in by_key.items() if name.partition(":")[0] == key}
        if own:
            tables[key] = section.tabulate(own)
    return tables

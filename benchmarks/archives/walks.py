"""Rows "walk": where the members of a tar archive lie, against Python's tarfile."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.archives.media import CLIP_BYTES, PICTURE_BYTES, PackedMedia, write_large, write_small
from framefeed._values import Limits
from framefeed.archives import LOCAL_READS, SampleGrouper, walk_tar
from framefeed.bench import OURS, Comparison, Contender, Findings, Row, Timings, compare_times, ready
from framefeed.media import FileReader

TARFILE = "tarfile"
GROUPED = f"{OURS}, with samples"


def walk_by_tarfile(path: Path) -> int:
    with tarfile.open(path, "r:") as tar:
        return sum(1 for _ in tar)


def walk(path: Path) -> int:
    with closing(FileReader(str(path))) as reader:
        return sum(map(len, walk_tar(reader, path.name, Limits())))


def walk_and_group(path: Path) -> int:
    grouper, count = SampleGrouper(), 0
    with closing(FileReader(str(path))) as reader:
        for table in walk_tar(reader, path.name, Limits(), LOCAL_READS):
            grouper.group(table)
            count += len(table)
    return count


def walk_row(media: PackedMedia, key: str, write: Callable[[Path, int], None], title: str) -> Row:
    """Walk one archive; the row "walk" has its samples too."""
    has_samples = key == "walk"
    path, count = media.folder / "shard.tar", media.sizes.members
    write(path, count)
    walks: dict[str, Callable[[Path], int]] = {OURS: walk, TARFILE: walk_by_tarfile}
    if has_samples:
        walks[GROUPED] = walk_and_group

    def check(contender: Contender) -> list[str]:
        number = walks[contender.name](path)
        return [] if number == count else [f"{number} members of {count}"]

    def run(by: Callable[[Path], int], number: int) -> None:
        by(path)

    def conclude(timings: Timings) -> Findings:
        ours = {"tarfile": OURS} | ({"tarfile, samples": GROUPED} if has_samples else {})
        return Findings([
            Comparison(key, f"members a second of {name} by those of tarfile", compare_times(timings, name, TARFILE))
            for key, name in ours.items()
        ])  # fmt: skip

    contenders = [Contender(name, ready(partial(run, by)), amount=count) for name, by in walks.items()]
    return Row(key, f"walk of a tar of {count} {title}", contenders, conclude, unit="members", check=check)


_FORMS: Mapping[str, tuple[Callable[[Path, int], None], str]] = {
    "walk": (lambda path, count: write_small(path, count, tarfile.USTAR_FORMAT, 1), "small members, ustar"),
    "walk:GNU": (lambda path, count: write_small(path, count, tarfile.GNU_FORMAT, 1), "small members, GNU"),
    "walk:pax": (lambda path, count: write_small(path, count, tarfile.PAX_FORMAT, 1.5), "small members, pax, times"),
    "walk:pictures": (lambda path, count: write_large(path, count, PICTURE_BYTES), "pictures of 30 kB with labels"),
    "walk:clips": (lambda path, count: write_large(path, count, CLIP_BYTES), "clips of 2 MB with labels"),
}  # fmt: skip
WALKS: Mapping[str, Callable[[PackedMedia], Row]] = {
    key: partial(walk_row, key=key, write=write, title=title) for key, (write, title) in _FORMS.items()
}

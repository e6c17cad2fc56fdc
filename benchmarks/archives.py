"""What a walk over a tar archive costs beside Python's tarfile, with everything in memory.

    python benchmarks/archives.py [--members 100000] [--rounds 5] [--json OUT]

Archives are made up: small members by tarfile, in its formats; clips with labels beside them, whose data are holes.
All ways are run in turns in one process; rows are medians of CPU and wall seconds, and of the ratios of each turn.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from framefeed._values import Limits
from framefeed.archives import (
    LOCAL_READS,
    MemberTable,
    SampleGrouper,
    read_dali_index,
    read_tar,
    walk_tar,
    write_dali_index,
)
from framefeed.media import FileReader

SMALL_BYTES = (300, 1000)
PICTURE_BYTES = 30_000
CLIP_BYTES = 2_000_000
LABEL_BYTES = 100


def make_small(path: Path, count: int, form: int, mtime: float) -> None:
    """Write members of some hundred bytes, with the names of ImageNet."""
    low, high = SMALL_BYTES
    with tarfile.open(path, "w", format=form) as tar:
        for number in range(count):
            info = tarfile.TarInfo(f"train/n{number % 1000:08}/n{number % 1000:08}_{number}.jpg")
            info.size, info.mtime = low + number * 7 % (high - low), mtime
            tar.addfile(info, io.BytesIO(bytes(info.size)))


def make_large(path: Path, count: int, size: int) -> None:
    """Write pairs of a medium, whose bytes are a hole, and a label."""
    with path.open("wb") as file:
        for number in range(count // 2):
            for suffix, length in (("mp4", size), ("cls", LABEL_BYTES)):
                info = tarfile.TarInfo(f"{number:08}.{suffix}")
                info.size = length
                file.write(info.tobuf(tarfile.GNU_FORMAT))
                file.seek((length + 511) // 512 * 512, os.SEEK_CUR)
        file.write(bytes(1024))


def walk_by_tarfile(path: Path) -> int:
    with tarfile.open(path, "r:") as tar:
        return sum(1 for _ in tar)


def walk(path: Path) -> int:
    return sum(map(len, walk_tar(FileReader(str(path)), path.name, Limits())))


def walk_and_group(path: Path) -> int:
    grouper, count = SampleGrouper(), 0
    for table in walk_tar(FileReader(str(path)), path.name, Limits(), LOCAL_READS):
        grouper.group(table)
        count += len(table)
    return count


def read_index(path: Path) -> int:
    index = path.with_suffix(".idx").read_bytes()
    return len(read_dali_index(index, FileReader(str(path)), Limits())[0])


def read_table(path: Path) -> MemberTable:
    return read_tar(FileReader(str(path)), path.name, Limits())


def measure(path: Path, ways: dict[str, Callable[[Path], int]], members: int, rounds: int) -> dict[str, Any]:
    """Run the ways in turns."""
    spent: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for way in ways.values():
        assert way(path) == members
    for _ in range(rounds):
        for name, way in ways.items():
            cpu, wall = time.process_time(), time.perf_counter()
            way(path)
            spent[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    rows: dict[str, Any] = {}
    for name in ways:
        for kind, clock in enumerate(("CPU", "wall")):
            own = [times[kind] for times in spent[name]]
            others = [times[kind] for times in spent["tarfile"]]
            rows[f"{name}, {clock} s"] = round(statistics.median(own), 4)
            if name != "tarfile":
                ratios = sorted(other / mine for mine, other in zip(own, others, strict=True))
                rows[f"tarfile by {name}, {clock}"] = round(statistics.median(ratios), 2)
                rows[f"tarfile by {name}, {clock}, range"] = [round(ratios[0], 2), round(ratios[-1], 2)]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="OUT")
    args = parser.parse_args()
    count = args.members
    makers: dict[str, Callable[[Path], None]] = {
        "small members, ustar": lambda path: make_small(path, count, tarfile.USTAR_FORMAT, 1),
        "small members, GNU": lambda path: make_small(path, count, tarfile.GNU_FORMAT, 1),
        "small members, pax with times": lambda path: make_small(path, count, tarfile.PAX_FORMAT, 1.5),
        "pictures of 30 kB with labels": lambda path: make_large(path, count, PICTURE_BYTES),
        "clips of 2 MB with labels": lambda path: make_large(path, count, CLIP_BYTES),
    }
    rows: dict[str, Any] = {}
    for name, make in makers.items():
        with TemporaryDirectory() as folder:
            path = Path(folder, "shard.tar")
            make(path)
            ways: dict[str, Callable[[Path], int]] = {"tarfile": walk_by_tarfile, "walk": walk}
            if name == "small members, ustar":
                path.with_suffix(".idx").write_bytes(write_dali_index(read_table(path)))
                ways |= {"walk and samples": walk_and_group, "DALI's index, checked": read_index}
            rows[name] = measure(path, ways, count, args.rounds)
    document = {"members": count, "rounds": args.rounds, "load": os.getloadavg()[0], "rows": rows}
    print(json.dumps(document, indent=1))
    if args.json:
        Path(args.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

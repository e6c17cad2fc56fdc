"""Rows "scan": very many small objects by URL, against one request at a time, and the memory that it takes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import framefeed as ff
from benchmarks.processes import own_megabytes, run_program
from benchmarks.remote.media import ServedMedia
from benchmarks.remote.server import DELAY_SECONDS, Server
from framefeed.bench import (
    OURS,
    Comparison,
    Contender,
    Figure,
    Findings,
    Row,
    Timings,
    compare_times,
    ready,
)

IN_TURN = f"{OURS}, one request at a time"


def write_list(path: Path, urls: list[str]) -> Path:
    path.write_text("".join(f"{url}\n" for url in urls), encoding="utf-8")
    return path


def scan_list(path: str | os.PathLike[str], workers: int | None = None) -> ff.Catalog:
    """Scan the URLs of a list."""
    return ff.scan(path, workers=workers, progress=False)


def measure_memory(path: str) -> float:
    """Scan the URLs of a list, and give the most memory that this process had, in 10^6 bytes."""
    scan_list(path)
    return own_megabytes("VmHWM")


def pictures_row(server: Server, media: ServedMedia, scratch: Path) -> Row:
    """Scan pictures."""
    return scan_row("scan", "pictures", server, media.pictures, media.sizes.pictures_in_turn, scratch)


def videos_row(server: Server, media: ServedMedia, scratch: Path) -> Row:
    """Scan short videos."""
    in_turn = media.sizes.small_videos_in_turn
    return scan_row("scan:MP4", "videos", server, media.small_videos, in_turn, scratch, measures_memory=False)


def scan_row(
    key: str,
    what: str,
    server: Server,
    names: Sequence[str],
    in_turn: int,
    scratch: Path,
    *,
    measures_memory: bool = True,
) -> Row:
    """Scan lists of URLs: all with the default number of workers, some of them with one request at a time."""
    urls = [server.url(name) for name in names]
    everything = write_list(scratch / "all.txt", urls)
    some = write_list(scratch / "some.txt", urls[:in_turn])
    one = write_list(scratch / "one.txt", urls[:1])
    catalogs: dict[str, ff.Catalog] = {}

    def run(name: str, path: Path, workers: int | None, number: int) -> None:
        catalogs[name] = scan_list(path, workers)

    def recheck(contender: Contender) -> list[str]:
        catalog = catalogs.pop(contender.name)
        expected = int(contender.amount)
        wrong = [] if len(catalog) == expected else [f"{len(catalog)} rows of {expected}"]
        return wrong + [str(error) for error in catalog.errors.table["error"].to_pylist()]

    def conclude(timings: Timings) -> Findings:
        compared = [
            Comparison(
                what, "rate by that of one request at a time", compare_times(timings, OURS, IN_TURN, ("wall", "cpu"))
            )
        ]
        if measures_memory:
            empty, full = (run_program(measure_memory, path) for path in (one, everything))
            above = {"most": Figure(full - empty)}
            compared.append(Comparison("memory", "memory at most, above that of a scan of one object", above, "MB"))
        _, asked = server.count(partial(scan_list, some))
        # One that waits for each answer cannot be faster than the server.
        each_in_turn = timings.median(IN_TURN, "wall")
        wrong = [] if each_in_turn >= DELAY_SECONDS else [f"{IN_TURN}: {each_in_turn:.4f} s an object, below the delay"]
        return Findings(
            compared,
            {
                "requests_an_object": len(asked) / in_turn,
                "kilobytes_an_object": round(sum(each.bytes for each in asked) / 1e3 / in_turn, 1),
            },
            wrong,
        )

    return Row(
        key, f"scan of {len(urls)} {what} by URL",
        [
            Contender(OURS, ready(partial(run, OURS, everything, None)), amount=len(urls)),
            Contender(IN_TURN, ready(partial(run, IN_TURN, some, 1)), amount=in_turn),
        ],
        conclude, unit="objects", recheck=recheck,
    )  # fmt: skip

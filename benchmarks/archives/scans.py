"""Row "scan": headers of pictures in archives, against those of the same files unpacked."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import framefeed as ff
from benchmarks.archives.media import PackedMedia, read_all
from framefeed.bench import OURS, Comparison, Contender, Findings, Row, Timings, compare_times, ready

TAR, FILES = f"{OURS}, tar", f"{OURS}, files"


def scan_row(media: PackedMedia) -> Row:
    """Scan the same pictures, packed and unpacked."""
    packed = media.make_pictures()
    read_all([*packed.files, *packed.shards])
    roots: dict[str, Path] = {TAR: media.folder / "*.tar", FILES: media.folder / "files"}
    catalogs: dict[str, ff.Catalog] = {}

    def run(name: str, number: int) -> None:
        catalogs[name] = ff.scan(roots[name], progress=False)

    def recheck(contender: Contender) -> list[str]:
        catalog, expected = catalogs[contender.name], len(packed.files)
        wrong = [] if len(catalog) == expected else [f"{len(catalog)} rows of {expected}"]
        return wrong + [str(error) for error in catalog.errors.table["error"].to_pylist()]

    def conclude(timings: Timings) -> Findings:
        facts = {"kilobytes_a_picture": round(packed.files[0].stat().st_size / 1e3, 1)}
        same = [catalogs[name].table.column("fingerprint").to_pylist() for name in roots]
        wrong = [] if same[0] == same[1] else ["the fingerprints of packed and unpacked pictures differ"]
        compared = compare_times(timings, TAR, FILES)
        return Findings([Comparison("files", "rate by that of the unpacked files", compared)], facts, wrong)

    contenders = [Contender(name, ready(partial(run, name)), amount=len(packed.files)) for name in roots]
    title = f"scan of {len(packed.files)} pictures in {len(packed.shards)} tar archives"
    return Row("scan", title, contenders, conclude, unit="pictures", recheck=recheck, warms_up=True)

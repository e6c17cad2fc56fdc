"""Fill the tables of README.md from benchmarks/results, between the lines `<!-- figures: NAME -->` and `<!-- end -->`.

usage: python -m benchmarks.figures [--check]      (in the project's folder)

`tests/test_readme_figures.py` fails where the README says something else than the results.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reading import RESULTS, Number, read_numbers

README = Path(__file__).resolve().parent.parent / "README.md"
# The rows of the later file replace those of the earlier one.
DECODE = ("decode-2026-11-21-clips.json", "decode-2026-11-23-a.json", "decode-2026-11-23-b.json")
SCAN = ("scan-2026-11-21.json", "scan-2026-11-23-a.json", "scan-2026-11-23-b.json")
CACHE = ("cache-2026-11-21.json", "cache-2026-11-23-a.json", "cache-2026-11-23-b.json")
LOAD = tuple(sorted(path.name for path in RESULTS.glob("load-*.json")))
MAP = tuple(sorted(path.name for path in RESULTS.glob("map-*.json")))
PRODUCERS = (1, 2, 5, 10, 30)
INDEXING = "indexing-2026-11-23.json"
NOT_MEASURED = "Not measured yet.\n"
_BLOCK = re.compile(r"(?<=<!-- figures: )(?P<name>\w+) -->\n(?s:.*?)(?=<!-- end -->)")


def fill_decode() -> str:
    """Clips of each workload against the fastest other library."""
    numbers = read_numbers(*DECODE)
    own = "CPU, libraries with their own resize"
    titles = {
        "test-60": "720p60, frames 60 apart",
        "trailer-24": "720p film, frames 24 apart",
        "trailer-4": "720p film, frames 4 apart",
        "small-4": "456x256 film, frames 4 apart",
        "gop12-2": "456x256, GOP 12, frames 2 apart",
    }
    rows = []
    for key, title in titles.items():
        number = numbers[f"decode/{key}/many files/CPU"]
        rows.append((title, _title(number.against), number.format(2)))
    resizing = [numbers[f"decode/gop12-2/many files: {name}/{own}"] for name in ("decord2 + torchcodec", "spdl")]
    rows += [
        ("the same, against decoders' own resizing", " / ".join(_title(number.against) for number in resizing),
         _join(resizing, 2, span=False)),
        ("3,000 s against 60 s, our CPU per clip", "", numbers["decode/length/ours/CPU"].format(2)),
    ]  # fmt: skip
    return make_table(("workload", "fastest other library", "ratio"), rows)


def fill_resize() -> str:
    """How close the default resize comes to a careful one."""
    numbers = read_numbers(*DECODE)
    methods = ("framefeed", "torchcodec exact")
    film, edges = (
        [numbers[f"decode/resize/{video}/{name}"].format(1) for name in methods]
        for video in ("sintel_trailer-720p.mp4", "test_720p60_3600.mp4")
    )
    return (
        f"Quality of the default resize, compared with Pillow's antialiased resize: {film[0]} dB on the 720p film "
        f"(TorchCodec's own\nresize: {film[1]} dB), and {edges[0]} dB on synthetic hard edges of saturated blue "
        f"(TorchCodec: {edges[1]} dB).\n"
    )


def fill_scan() -> str:
    """Facts about many files."""
    numbers = read_numbers(*SCAN)
    opening, planning = numbers["scan/videos/opening/wall"].median, numbers["scan/videos/planning/planning"].median
    opened = "under 0.01 s" if opening < 0.01 else f"{opening:.2f} s"
    rows = [
        ("width and height of JPEG and PNG files", "PyAV in a process pool", "headers/pyav/CPU", 0),
        ("the same, without fstat on our side", "imagesize", "headers/imagesize/CPU", 2),
        ("scan of 100,000 pictures, steady rate", "share of walk + open + fstat + pread + close", "scan/1 core/CPU", 2),
        ("scan again, nothing changed: no file opened", "cost of walk + stat + reading the old table",
         "second/cost/CPU", 2),
        ("MP4 facts, `probe`", "`av.open`", "mp4/facts/CPU", 1),
        ('MP4 frame table, `build_index(verify="none")`', "TorchCodec's exact constructor", "mp4/frame table/CPU", 1),
    ]  # fmt: skip
    peak = numbers["scan/memory/peak/most"].format(0)
    return make_table(("workload", "against", "ratio"), [
        *((title, peer, numbers[f"scan/{key}"].format(digits)) for title, peer, key, digits in rows),
        ("a million pictures scanned: peak memory, both workers", "", f"{peak} MB"),
        ("a million videos: opening the catalog / 4 workers planning", "", f"{opened} / {planning:.0f} MB"),
    ])  # fmt: skip


def fill_indexing() -> str:
    """Facts and frame tables of real videos."""
    rows = _load(INDEXING)["rows"]
    decoding, demuxing = '`verify="ends"`', "`av.open` and demuxing all packets"
    proved, others = "MP4 / MOV of H.264 + HEVC, proved: demux by proof", rows["other proved files: proof by demux"]

    def cells(key: str) -> tuple[str, str]:
        return _round(rows[key]["total"]), _round(rows[key]["median"])

    def count(key: str) -> int:
        return int(rows[key]["files"])

    return make_table(("files", "against", "total", "median file"), [
        (f"{count('H.264 + HEVC: ends by proof')} H.264 and HEVC", f"{decoding}, which decodes the two ends",
         *cells("H.264 + HEVC: ends by proof")),
        ("the same", '`verify="full"`, which decodes everything', *cells("H.264 + HEVC: full by proof")),
        (f"{count('VP8 + VP9: ends by proof')} VP8 and VP9", decoding, *cells("VP8 + VP9: ends by proof")),
        (f"{count('AV1: ends by proof')} AV1", decoding, *cells("AV1: ends by proof")),
        (f"{count(proved)} MP4 and MOV that are proved", demuxing, *cells(proved)),
        ("the same", "TorchCodec's exact constructor", *cells("MP4 / MOV, proved: TorchCodec by proof")),
        (f"{others['files']} other files that are proved", demuxing,
         _round(1 / others["total"]), _round(1 / others["median"])),
    ])  # fmt: skip


def fill_load() -> str:
    """Whole loops; rows that are not measured are left out."""
    numbers = {address.removeprefix("load/"): number for address, number in read_numbers(*LOAD).items()}
    start, users = "start/framefeed, torch imported: torchcodec", "`framefeed.torch.DataLoader`"
    rows: list[tuple[str, str, int, tuple[str, ...]]] = [
        ("epochs: clips a CPU second / clips a second", peer, 2, (f"epoch/{name}/CPU", f"epoch/{name}/wall"))
        for name, peer in {"decord2": "decord2", "torchcodec": "TorchCodec", "spdl": "SPDL's pipeline"}.items()
    ]
    rows += [
        ("epochs: peak memory of all processes", "decord2 / TorchCodec", 2,
         ("memory/framefeed/decord2", "memory/framefeed/torchcodec exact, resized by torch")),
        ("process start to first batch, torch imported too: CPU", "TorchCodec", 2, (f"{start}/CPU",)),
        (f"{users} over a user's TorchCodec data set: CPU / wall", "torch's `DataLoader`", 2,
         ("users/users/CPU", "users/users/wall")),
        (f"{users} over items of 3.4 MB that are ready in memory, wall", "torch's, with 2 workers / with 0", 1,
         ("light/light/wall, torch 2", "light/light/wall, torch 0")),
        ('`ClipLoader(kind="processes")`: 720p clips / a transform that holds the lock for 5 ms, wall', "threads", 2,
         ("processes/processes/wall", "lock/lock/wall")),
        ("one clip of 64 takes 20 times as long, first / in the middle / last: % more time", "the least time possible",
         0, tuple(f"slow/slow/wall, {at}" for at in ("first", "in the middle", "last"))),
        ("state restored in an epoch of 8 million clips: ms more to the first batch", "a new epoch", 0,
         ("restore/restore/wall",)),
        ("`ff.tensorflow.dataset` / `ff.jax.iterate`, batches of 19 MB from a warm cache, wall", "the loader itself", 2,
         ("tensorflow/tensorflow/wall", "jax/jax/wall")),
    ]  # fmt: skip
    return make_table(("workload", "against", "ratio"), [
        (title, peer, _join([numbers[address] for address in addresses], digits))
        for title, peer, digits, addresses in rows
        if all(address in numbers for address in addresses)
    ])  # fmt: skip


def fill_simulation() -> str:
    """Shares of the ideal rate, a column for each number of producers; loaders that are not measured are left out."""
    numbers = {address.removeprefix("load/simulation/"): number for address, number in read_numbers(*LOAD).items()}
    loaders = {
        "framefeed": "share",
        "threads and `queue.Queue`": "share of threads + queue.Queue",
        "torch's `DataLoader`": "share of torch DataLoader",
        "SPDL's pipeline": "share of SPDL",
        "grain": "share of grain",
    }
    rows = [
        (title, *(numbers[address].format(1, span=False) for each in PRODUCERS
                  if (address := f"{key}/{each} producers") in numbers))
        for title, key in loaders.items()
    ]  # fmt: skip
    whole = [row for row in rows if len(row) == 1 + len(PRODUCERS)]
    return make_table(("% of the ideal rate, by producers", *map(str, PRODUCERS)), whole) if whole else NOT_MEASURED


def fill_map() -> str:
    """Videos mapped; rows that are not measured are left out."""
    numbers = {address.removeprefix("map/"): number for address, number in read_numbers(*MAP).items()}
    loop, bound = "loop over OpenCV and PyAV's x264, all its threads", "what two cores can make of it"
    rows: list[tuple[str, str, int, tuple[str, ...]]] = []
    for key, title in {"lock": "720p film", "lock-1080p": "1080p"}.items():
        rows += [
            (f"{title}, a function that holds the lock for 5 ms, 2 processes: wall / CPU", loop, 2,
             (f"{key}/lock/wall", f"{key}/lock/CPU")),
            (f"the same, share of the bound ({bound})", loop, 2, (f"{key}/bound/share",)),
        ]  # fmt: skip
    rows += [
        ("a function that works without the lock for 5 ms, 2 threads: wall", "2 processes", 2, ("free/free/wall",)),
        ("four tiles of every frame: wall", "frames stored as lz4, torch's `DataLoader`", 1, ("tiles/tiles/wall",)),
        ("the same", loop, 2, ("tiles/loop/wall",)),
        ("the same: MB of stored frames, ours / theirs", "", 0, ("tiles/disk/framefeed", "tiles/disk/joblib lz4 1")),
        ("no function: wall / CPU", "the ffmpeg program, 2 threads", 2,
         ("identity/identity/wall", "identity/identity/CPU")),
    ]  # fmt: skip
    measured = [row for row in rows if all(address in numbers for address in row[3])]
    if not measured:
        return NOT_MEASURED
    return make_table(("workload", "against", "ratio"), [
        (title, peer, _join([numbers[address] for address in addresses], digits))
        for title, peer, digits, addresses in measured
    ])  # fmt: skip


def fill_cache() -> str:
    """Frame caches."""
    numbers = {address.removeprefix("cache/"): number for address, number in read_numbers(*CACHE).items()}
    levels, ours = ("joblib lz4, its fastest level", "joblib lz4 1"), "framefeed lz4hc, planes"
    filling = [numbers[f"filling/{kind}/CPU"] for kind in ("outputs, codec auto", "planes, lz4")]
    percents = [f"+{of.median:.{digits}f} % ({of.low:.{digits}f}-{of.high:.{digits}f})"
                for of, digits in zip(filling, (1, 0), strict=True)]  # fmt: skip
    return make_table(("workload", "against", "ratio"), [
        ("whole frames, exact (`lz4hc`, planes): bytes", "joblib lz4: its fastest level / level 1",
         _join([numbers[f"exact/bytes of {level}/{ours}"] for level in levels], 2)),
        ("the same: read to RGB", "joblib lz4: its fastest level / level 1",
         _join([numbers[f"exact/speed of {level}/{ours}"] for level in levels], 1)),
        ("the same", "PNG, at fewer bytes", numbers[f"exact/speed of PNG (OpenCV)/{ours}"].format(0)),
        ("random whole frames", "decoding them: ours / fastest peer",
         _join([numbers["original/decoder/CPU"], numbers["original/fastest peer/CPU"]], 0)),
        ("second pass over an epoch at 224x224, 16 clips of one film a batch", "first pass",
         numbers["second/second/CPU"].format(0)),
        ("whole batches at 224x224, raw: from the store / through `ClipLoader`", "memcpy of the same bytes",
         _join([numbers["batches/store/CPU"], numbers["batches/loader/CPU"]], 2)),
        ("first pass that fills: 224x224 / whole frames as planes", "without a cache", " / ".join(percents)),
    ])  # fmt: skip


FILLS: Mapping[str, Callable[[], str]] = {
    "decode": fill_decode,
    "resize": fill_resize,
    "scan": fill_scan,
    "indexing": fill_indexing,
    "load": fill_load,
    "simulation": fill_simulation,
    "map": fill_map,
    "cache": fill_cache,
}


def fill(text: str, fills: Mapping[str, Callable[[], str]] = FILLS) -> str:
    """Replace what is between the markers of a page."""
    return _BLOCK.sub(lambda block: f"{block['name']} -->\n\n{fills[block['name']]()}\n", text)


def find_blocks(text: str) -> list[str]:
    """Name the blocks that a page has markers for, in order."""
    return [block["name"] for block in _BLOCK.finditer(text)]


def _load(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def make_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table of Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|\n" for line in lines).replace(
        "| --- ", "|---"
    )


def _title(method: str) -> str:
    """Name a method of a library as the README does."""
    library = {"torchcodec": "TorchCodec", "opencv": "OpenCV", "spdl": "SPDL"}.get(method.split()[0], method.split()[0])
    if "resized by torch" in method:
        return f"{library} + torch's resize"
    return f"{library}, not antialiased" if method == "opencv linear" else library


def _join(numbers: Sequence[Number], digits: int, *, span: bool = True) -> str:
    return " / ".join(number.format(digits, span=span) for number in numbers)


def _round(ratio: float) -> str:
    """One decimal below 10, none above."""
    return f"{ratio:.1f}" if round(ratio, 1) < 10 else f"{ratio:.0f}"


def main() -> int:
    """Fill the README, or with --check say whether it is filled."""
    parser = argparse.ArgumentParser(description="Fill the tables of README.md from benchmarks/results.")
    parser.add_argument("--check", action="store_true")
    text = README.read_text(encoding="utf-8")
    filled = fill(text)
    if parser.parse_args().check:
        print("README.md is as the results say" if filled == text else "README.md differs from benchmarks/results")
        return int(filled != text)
    README.write_text(filled, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

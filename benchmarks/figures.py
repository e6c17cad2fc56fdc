"""Fill README.md and docs/benchmarks.md from benchmarks/results, and draw the README's picture.

usage: python -m benchmarks.figures [--check]      (in the project's folder)

Tables stand between the lines `<!-- figures: NAME -->` and `<!-- end -->`. `tests/test_readme_figures.py` fails where a
page or the picture says something else than the results.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.archives import page as archives_page
from benchmarks.epoch_picture import draw_epoch
from benchmarks.reading import RESULTS, Number, read_numbers
from benchmarks.remote import page as remote_page
from benchmarks.sections.section import Table
from benchmarks.sections.suite import SECTIONS, tabulate

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "images" / "epoch.svg"
EPOCH = "load-2026-11-23-epoch.json"
# The rows of the later file replace those of the earlier one.
DECODE = ("decode-2026-11-23-a.json", "decode-2026-11-23-b.json")
SCAN = ("scan-2026-11-21.json", "scan-2026-11-23-a.json", "scan-2026-11-23-b.json")
CACHE = ("cache-2026-11-23-a.json", "cache-2026-11-23-b.json", "cache-2026-11-28.json")
LOAD = tuple(sorted(path.name for path in RESULTS.glob("load-*.json")))
MAP = tuple(sorted(path.name for path in RESULTS.glob("map-*.json")))
PICTURES = tuple(sorted(path.name for path in RESULTS.glob("pictures-*.json")))
REMOTE = tuple(sorted(path.name for path in RESULTS.glob("remote-*.json")))
ARCHIVES = tuple(sorted(path.name for path in RESULTS.glob("archives-*.json")))
# The rows of later files replace those of earlier ones.
SECTION_RESULTS = tuple(sorted(path.name for path in RESULTS.glob("sections-*.json")))
LONG_VIDEOS = "sections-2026-11-24-d2.json"
"""Has two rounds; that with 128 clips, in which framefeed is further ahead, has one."""
PRODUCERS = (1, 2, 5, 10, 30)
INDEXING = "indexing-2026-11-23.json"
EQUAL = 99
"""Decibels that stand for equal pictures."""
QUIET = 1.0
"""Load average above which seconds on the clock say little."""
NOT_MEASURED = "Not measured yet.\n"
_BLOCK = re.compile(r"(?<=<!-- figures: )(?P<name>\w+) -->\n(?s:.*?)(?=<!-- end -->)")


def fill_overview() -> str:
    """Eight rows for the README."""
    numbers = read_numbers(*SCAN, *CACHE, *LOAD, *MAP, *PICTURES, LONG_VIDEOS)
    constructor = _load(INDEXING)["rows"]["MP4 / MOV, proved: TorchCodec by proof"]

    def say(digits: int, *addresses: str) -> str:
        return _say_speed([numbers[address] for address in addresses], digits)

    long = "sections/D:test"
    peers, memory = ("decord2", "torchcodec exact, resized by torch"), "load/memory/framefeed, torch imported"
    needs = [numbers[f"{memory}/{peer}"].format(2) for peer in peers]
    return make_table(("what is compared", "with", "times as fast"), [
        ("random clips of 25 real videos, clips a CPU second", "decord2 / TorchCodec",
         say(2, "load/epoch/decord2/CPU", "load/epoch/torchcodec/CPU")),
        ("clips of 16 frames, 60 apart, of 720p60 videos of 3,000 s, wall",
         f"OpenCV in 4 workers / {numbers[f'{long}/best/wall, 3000 s'].against.removesuffix(', 3000 s')}",
         say(1, f"{long}/opencv/wall, 3000 s", f"{long}/best/wall, 3000 s")),
        (f"finding all frames of {constructor['files']} MP4 and MOV files", "TorchCodec's exact constructor",
         _round(constructor["total"])),
        ("width and height of JPEG and PNG files", "PyAV in a process pool", say(0, "scan/headers/pyav/CPU")),
        ("second epoch, read from the frame cache", "the first, which decodes", say(0, "cache/second/second/CPU")),
        ("JPEGs of 500x375 / 1280x960 / 4000x3000 to 224x224, one thread", "Pillow, full size",
         say(2, *(f"pictures/to-224-{key}/Pillow/CPU" for key in ("500", "1280", "12mp")))),
        ("a 720p film through a Python function of 5 ms, wall", "a loop over OpenCV and x264",
         say(2, "map/lock/lock/wall")),
        ("peak memory of the first row, with PyTorch imported", "decord2 / TorchCodec",
         f"{' / '.join(needs)} of theirs"),
    ])  # fmt: skip


def fill_machine() -> str:
    """Where the loops were measured, and with which versions."""
    report = _load(EPOCH)
    machine, versions = report["machine"], report["versions"] | report["machine"]["packages"]
    names = {"av": "PyAV", "torchcodec": "TorchCodec", "decord2": "decord2", "spdl_io": "SPDL", "torch": "torch"}
    used = [f"{title} {versions[key]}" for key, title in names.items()]
    return f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}; {', '.join(used)}.\n"


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
        rows.append((title, _title(number.against), _say_speed([number], 2)))
    resizing = [numbers[f"decode/gop12-2/many files: {name}/{own}"] for name in ("decord2 + torchcodec", "spdl")]
    rows += [
        ("the same, against decoders' own resizing", " / ".join(_title(number.against) for number in resizing),
         _join(resizing, 2, span=False)),
        ("CPU of a clip from a film of 3,000 s", "framefeed, from 60 s of it",
         f"{numbers['decode/length/ours/CPU'].format(2)} of it"),
    ]  # fmt: skip
    return make_table(("clips", "fastest other library", "times as fast"), rows)


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
        ("scan of 100,000 pictures, steady rate", "walk, open, fstat, pread and close alone", "scan/1 core/CPU", 2),
        ("MP4 facts, `probe`", "`av.open`", "mp4/facts/CPU", 1),
        ('MP4 frame table, `build_index(verify="none")`', "TorchCodec's exact constructor", "mp4/frame table/CPU", 1),
    ]
    peak = numbers["scan/memory/peak/most"].format(0)
    second = 1 / numbers["scan/second/cost/CPU"].median
    return make_table(("work", "against", "times as fast"), [
        *((title, peer, _say_speed([numbers[f"scan/{key}"]], digits)) for title, peer, key, digits in rows),
        ("scan again, nothing changed: no file opened", "walk, stat and reading the old table alone",
         f"{second:.2f}{': slower' if second < 1 else ''}"),
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

    def invert(ratio: float) -> str:
        return f"{_round(1 / ratio)}{': slower' if ratio > 1.05 else ''}"

    def count(key: str) -> int:
        return int(rows[key]["files"])

    return make_table(("files", "against", "times as fast, in all", "median file"), [
        (f"{count('H.264 + HEVC: ends by proof')} H.264 and HEVC", f"{decoding}, which decodes the two ends",
         *cells("H.264 + HEVC: ends by proof")),
        ("the same", '`verify="full"`, which decodes everything', *cells("H.264 + HEVC: full by proof")),
        (f"{count('VP8 + VP9: ends by proof')} VP8 and VP9", decoding, *cells("VP8 + VP9: ends by proof")),
        (f"{count('AV1: ends by proof')} AV1", decoding, *cells("AV1: ends by proof")),
        (f"{count(proved)} MP4 and MOV that are proved", demuxing, *cells(proved)),
        ("the same", "TorchCodec's exact constructor", *cells("MP4 / MOV, proved: TorchCodec by proof")),
        (f"{others['files']} other files that are proved", demuxing,
         invert(others["total"]), invert(others["median"])),
    ])  # fmt: skip


def fill_load() -> str:
    """Whole loops; rows that are not measured are left out."""
    numbers = {address.removeprefix("load/"): number for address, number in read_numbers(*LOAD).items()}
    users = "`framefeed.torch.DataLoader`"
    rows: list[tuple[str, str, int, tuple[str, ...]]] = [
        ("epochs: clips a CPU second / clips a second", peer, 2, (f"epoch/{name}/CPU", f"epoch/{name}/wall"))
        for name, peer in {"decord2": "decord2", "torchcodec": "TorchCodec", "spdl": "SPDL's pipeline"}.items()
    ]
    rows += [
        (f"{users} over a user's TorchCodec data set: CPU / wall", "torch's `DataLoader`", 2,
         ("users/users/CPU", "users/users/wall")),
        (f"{users} over items of 3.4 MB that are ready in memory, wall", "torch's, with 2 workers / with 0", 1,
         ("light/light/wall, torch 2", "light/light/wall, torch 0")),
        ('`ClipLoader(kind="processes")`: 720p clips / a transform that holds the lock for 5 ms, wall', "threads", 2,
         ("processes/processes/wall", "lock/lock/wall")),
        ("`ff.tensorflow.dataset` / `ff.jax.iterate`, batches of 19 MB from a warm cache, wall", "the loader itself", 2,
         ("tensorflow/tensorflow/wall", "jax/jax/wall")),
        ("`ff.dali.pipeline` without a resize, batches of 19 MB, CPU: 720p that is decoded / a warm cache",
         "the loader itself", 2, ("dali-decoded/dali-decoded/CPU", "dali/dali/CPU")),
    ]  # fmt: skip
    return make_table(("loop", "against", "times as fast"), [
        (title, peer, _say_speed([numbers[address] for address in addresses], digits))
        for title, peer, digits, addresses in rows
        if all(address in numbers for address in addresses)
    ])  # fmt: skip


def fill_needs() -> str:
    """What whole loops need: memory, CPU until the first batch, time that is lost; smaller is better."""
    numbers = {address.removeprefix("load/"): number for address, number in read_numbers(*LOAD).items()}
    peers = {"decord2": "decord2", "torchcodec exact, resized by torch": "TorchCodec", "spdl": "SPDL"}
    rows: list[tuple[str, str, int, tuple[str, ...]]] = [
        (f"peak memory of all processes, {title}: our share of theirs", " / ".join(peers.values()), 2,
         tuple(f"memory/framefeed{which}/{peer}" for peer in peers))
        for which, title in {"": "torch not imported", ", torch imported": "torch imported"}.items()
    ]  # fmt: skip
    rows += [
        ("CPU from process start to the first batch, torch imported: our share", "decord2 / TorchCodec / SPDL", 2,
         tuple(f"start/framefeed, torch imported: {peer}/CPU" for peer in ("decord2", "torchcodec", "spdl"))),
        ("one clip of 64 takes 20 times as long, first / in the middle / last: % more time", "the least time possible",
         0, tuple(f"slow/slow/wall, {at}" for at in ("first", "in the middle", "last"))),
        ("state restored in an epoch of 8 million clips: ms more to the first batch", "a new epoch", 0,
         ("restore/restore/wall",)),
    ]  # fmt: skip
    return make_table(("what", "against", "smaller is better"), [
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
    loop = "loop over OpenCV and PyAV's x264, all its threads"
    rows: list[tuple[str, str, int, tuple[str, ...]]] = [
        (f"{title}, a function that holds the lock for 5 ms, 2 processes: wall / CPU", loop, 2,
         (f"{key}/lock/wall", f"{key}/lock/CPU"))
        for key, title in {"lock": "720p film", "lock-1080p": "1080p"}.items()
    ]  # fmt: skip
    rows += [
        ("a function that works without the lock for 5 ms, 2 threads: wall", "2 processes", 2, ("free/free/wall",)),
        ("four tiles of every frame: wall", "frames stored as lz4, torch's `DataLoader`", 1, ("tiles/tiles/wall",)),
        ("the same", loop, 2, ("tiles/loop/wall",)),
        ("no function: wall / CPU", "the ffmpeg program, 2 threads", 2,
         ("identity/identity/wall", "identity/identity/CPU")),
    ]  # fmt: skip
    measured = [row for row in rows if all(address in numbers for address in row[3])]
    if not measured:
        return NOT_MEASURED
    return make_table(("frames", "against", "times as fast"), [
        (title, peer, _say_speed([numbers[address] for address in addresses], digits))
        for title, peer, digits, addresses in measured
    ])  # fmt: skip


def fill_cache() -> str:
    """Frame caches."""
    numbers = {address.removeprefix("cache/"): number for address, number in read_numbers(*CACHE).items()}
    levels, ours = ("joblib lz4, its fastest level", "joblib lz4 1"), "framefeed lz4hc, planes"
    filling = [numbers[f"filling/{kind}/CPU"] for kind in ("outputs, codec auto", "planes, lz4")]
    percents = [f"+{of.median:.{digits}f} % ({of.low:.{digits}f}-{of.high:.{digits}f})"
                for of, digits in zip(filling, (1, 0), strict=True)]  # fmt: skip
    shares = [numbers[f"exact/bytes of {level}/{ours}"].format(2) for level in levels]
    return make_table(("what", "against", "times as fast"), [
        ("whole frames, exact (`lz4hc`, planes), read to RGB", "joblib lz4: its fastest level / level 1",
         _say_speed([numbers[f"exact/speed of {level}/{ours}"] for level in levels], 1)),
        ("the same", "PNG (OpenCV)", numbers[f"exact/speed of PNG (OpenCV)/{ours}"].format(0)),
        ("random whole frames", "decoding them: ours / fastest peer",
         _say_speed([numbers["original/decoder/CPU"], numbers["original/fastest peer/CPU"]], 0)),
        ("second pass over an epoch at 224x224, 16 clips of one film a batch", "first pass",
         numbers["second/second/CPU"].format(0)),
        ("whole batches at 224x224, raw: from the store / through `ClipLoader`", "memcpy of the same bytes",
         _say_speed([numbers["batches/store/CPU"], numbers["batches/loader/CPU"]], 2)),
        ("whole frames (`lz4hc`, planes): bytes", "joblib lz4: its fastest level / level 1",
         " / ".join(f"{share} of them" for share in shares)),
        ("first pass that fills: 224x224 / whole frames as planes", "without a cache",
         " / ".join(f"{percent} CPU" for percent in percents)),
    ])  # fmt: skip


def fill_pictures() -> str:
    """Pictures to 224 x 224, a training epoch, and what else their loader does."""
    numbers = {address.removeprefix("pictures/"): number for address, number in read_numbers(*PICTURES).items()}
    rows = [
        (f"JPEGs of {size} to 224x224, one thread", _name_loop(numbers[f"{key}/best/CPU"].against),
         _say_speed([numbers[f"{key}/best/CPU"]], 2))
        for key, size in {"to-224-500": "500x375", "to-224-600": "600x500", "to-224-1280": "1280x960",
                          "to-224-12mp": "4000x3000"}.items()
    ]  # fmt: skip
    rows += [
        ("the same of 4000x3000", "OpenCV at the reduced size, `INTER_AREA`",
         _say_speed([numbers["to-224-12mp/OpenCV reduced + INTER_AREA/CPU"]], 2)),
        *((f"epoch of 500x375: random resized crop, flip, normalised, 2 workers, `{name}`: CPU / wall",
           "Pillow and torch's arithmetic in torch's `DataLoader`",
           _say_speed([numbers[f"epoch/{key}/CPU"], numbers[f"epoch/{key}/wall"]], 2))
          for key, name in {"ClipLoader": "ClipLoader", "ClipDataset": "ClipDataset",
                            "ClipDataset in framefeed's DataLoader": "framefeed.torch.DataLoader"}.items()),
        *((f"float32 batches by the loader, {of}", "in the loop: NumPy / torch",
           _say_speed([numbers[f"{key}/{name} in the loop/CPU"] for name in ("NumPy", "torch")], 2))
          for key, of in {"normalised": "decoded pictures", "normalised-cached": "from the raw cache"}.items()),
        ("a 224x224 picture from the raw cache, through `ClipLoader`", "",
         f"{numbers['cached/cost/CPU'].format(3)} ms of CPU"),
    ]  # fmt: skip
    return make_table(("pictures", "against", "times as fast"), rows)


def _name_loop(name: str) -> str:
    return f"a loop over {name}".replace("INTER_AREA", "`INTER_AREA`")


def fill_routes() -> str:
    """PSNR and time of each route from a JPEG to 224 x 224."""
    reports = [_load(name) for name in PICTURES]
    rows = {row["key"]: row for report in reports for row in report["rows"]}
    numbers = {address.removeprefix("pictures/near/"): number for address, number in read_numbers(*PICTURES).items()}
    times = {key: rows[f"to-224-{key}"]["facts"]["milliseconds_a_picture"] for key in ("500", "1280", "12mp")}
    titles = {
        "framefeed": '`still_quality="scaled"`',
        "framefeed, exact": '`still_quality="exact"`',
        "Pillow": "Pillow, full size, `BILINEAR`",
        "Pillow draft": "Pillow, `draft` to twice the size, `BILINEAR`",
        "simplejpeg + Pillow's resize": "simplejpeg, full size, Pillow's `BILINEAR`",
        "OpenCV + INTER_AREA": "OpenCV, full size, `INTER_AREA`",
        "OpenCV reduced + INTER_AREA": "OpenCV, reduced to twice the size, `INTER_AREA`",
    }

    def cells(name: str) -> list[str]:
        milliseconds = [f"{times[key][name]:.{2 if times[key][name] < 10 else 0}f}" for key in times]
        if name == "Pillow":
            return ["reference", "reference", *milliseconds]
        decibels = [numbers[f"{name}/{what}"].median for what in ("median", "worst")]
        return [*("the same" if each >= EQUAL else f"{each:.1f}" for each in decibels), *milliseconds]

    return make_table(
        ("route", "PSNR in dB, median", "worst", "500x375, ms", "1280x960, ms", "4000x3000, ms"),
        [(title, *cells(name)) for name, title in titles.items()],
    )


def fill_remote() -> str:
    """Videos and pictures behind a server that delays each request."""
    return _fill_lines(remote_page.HEADER, remote_page.list_lines(read_numbers(*REMOTE)), REMOTE)


def fill_archives() -> str:
    """Media in tar archives."""
    return _fill_lines(archives_page.HEADER, archives_page.list_lines(read_numbers(*ARCHIVES)), ARCHIVES)


def _fill_lines(header: Sequence[str], lines: Sequence[Sequence[str]], results: Sequence[str]) -> str:
    loads = " / ".join(str(_load(name)["machine"]["load_average"]) for name in results)
    return f"{make_table(header, lines)}\nLoad average of the machine before it: {loads}.\n" if lines else NOT_MEASURED


def fill_section(key: str) -> str:
    """The tables of one of the write-ups, with what must be known to read them."""
    reports = [_load(name) for name in SECTION_RESULTS]
    # A later run replaces an earlier one of the same row; one over other lengths of video stands beside it.
    rows = {
        (row["key"], *row["facts"].get("indexing_seconds", ())): (row, report["machine"])
        for report in reports
        for row in report["rows"]
    }
    latest = {row["key"]: row for row, _ in rows.values()}
    beside = [[row] for row, _ in rows.values() if row is not latest[row["key"]]]
    tables: dict[str, Table] = {}
    for some in (list(latest.values()), *beside):
        tables |= tabulate(some, SECTIONS).get(key, {})
    if not tables:
        return NOT_MEASURED
    loads = [machine["load_average"] for (name, *_), (_, machine) in rows.items() if name.partition(":")[0] == key]
    parts = []
    for title, table in tables.items():
        notes = "".join(f"\n- {note}" for note in table.notes)
        parts.append(f"**{title}**\n\n{make_table(table.header, table.lines)}{notes and notes + chr(10)}")
    return "\n".join(
        [*parts, f"Load average of the machine before it: {' / '.join(map(str, dict.fromkeys(loads)))}.\n"]
    )


OVERVIEW: Mapping[str, Callable[[], str]] = {"overview": fill_overview}
FILLS: Mapping[str, Callable[[], str]] = {
    "machine": fill_machine,
    "load": fill_load,
    "needs": fill_needs,
    "decode": fill_decode,
    "resize": fill_resize,
    "indexing": fill_indexing,
    "scan": fill_scan,
    "cache": fill_cache,
    "map": fill_map,
    "pictures": fill_pictures,
    "remote": fill_remote,
    "archives": fill_archives,
    "simulation": fill_simulation,
    **{f"section_{key.lower()}": partial(fill_section, key) for key in SECTIONS},
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


def _say_speed(numbers: Sequence[Number], digits: int) -> str:
    """Write speeds, and say where the other side is faster: where the whole interval is below 1."""
    return " / ".join(
        number.format(digits) + (": slower" if (number.high or number.median) < 1 else "") for number in numbers
    )


def _join(numbers: Sequence[Number], digits: int, *, span: bool = True) -> str:
    return " / ".join(number.format(digits, span=span) for number in numbers)


def _round(ratio: float) -> str:
    """One decimal below 10, none above."""
    return f"{ratio:.1f}" if round(ratio, 1) < 10 else f"{ratio:.0f}"


def main() -> int:
    """Fill the pages and draw the picture, or with --check name those that differ from the results."""
    parser = argparse.ArgumentParser(description="Fill README.md and docs/benchmarks.md from benchmarks/results.")
    parser.add_argument("--check", action="store_true")
    differing = {path: text for path, text in make_pages().items() if path.read_text(encoding="utf-8") != text}
    if parser.parse_args().check:
        for path in differing:
            print(f"{path.name} differs from benchmarks/results")
        return int(bool(differing))
    for path, text in differing.items():
        path.write_text(text, encoding="utf-8")
    return 0


def make_pages() -> dict[Path, str]:
    """Return the text that each page, and the picture, must have."""
    pages = {path: fill(path.read_text(encoding="utf-8"), fills) for path, fills in ((README, OVERVIEW), (PAGE, FILLS))}
    return pages | {PICTURE: draw_epoch(_load(EPOCH))}


if __name__ == "__main__":
    raise SystemExit(main())

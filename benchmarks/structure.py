"""Count the source: lines by concern, what one frame and one batch load, calls of a clip, lengths of functions, types.

usage: python -m benchmarks.structure [--concerns] [--write] [--ceilings PERCENT] [--json FILE]

In the project's folder. `--concerns` prints the table of docs/architecture.md alone, `--write` puts it there.
`--ceilings 0` sets each ceiling in CONCERNS to today's lines before that, `--ceilings 2` to 2 % above. A module without
a concern is an error: add it to one, or add a concern and say what it buys.
"""

from __future__ import annotations

import argparse
import ast
import collections
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import framefeed as ff
import framefeed.media
from benchmarks.figures import fill, make_table
from benchmarks.idle import IdleDecoder
from framefeed.testing import ClipSpec, write_clip
from tests.house import FunctionNode, Source, full_name, package_sources

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
SIDES = ("bench", "cli", "report", "testing")
TYPED = ("plan", "load", "lerobot", "adapters")
"""Rooms in which a type that says nothing is counted."""
# (concern, most lines, what it buys the user, its modules); the longest name that fits a module counts.
CONCERNS = [
    ("frames of one source", 7_960, "any frame by number or time, exactly the one that was asked for",
     "index request decode"),
    ("frames proved by headers", 3_590, "an index without decoding, which is still right",
     "bitstreams index.proofs index._provers"),
    ("MP4 without FFmpeg", 2_010, "facts in microseconds, packets read at their offsets, remote files by ranges",
     "mp4 index._movie index._movie_facts"),
    ("archives and Parquet", 3_290, "clips in shards as they are: where members lie, their labels; nothing is unpacked",
     "archives catalog._packed_values scanning._archives scanning._packed_rows scanning._tar_rows "
     "scanning._tar_columns scanning._braces media._members"),
    ("objects by URL", 4_300, "only the bytes of the wanted frames, asked for ahead, from one version of each object; "
     "buckets are listed", "media.remote media._objects load._ahead scanning._objects scanning._targets "
     "catalog._catalog_urls _fetched"),
    ("pictures", 2_590, "image data sets behind the same calls; a header a file in bulk",
     "pictures scanning._still_rows decode.backends.still index._pictures"),
    ("other engines", 1_038, "OpenCV, TorchCodec, decord and DALI by name, checked against the index frame by frame",
     "decode.backends._engine decode.backends._engine_facts decode.backends._standard_error decode.backends.opencv "
     "decode.backends.torchcodec decode.backends.decord decode.backends.dali"),
    ("sources and containers", 2_740, "files, bytes, URLs and every container that FFmpeg reads", "media"),
    ("sequences of pictures", 490, "a folder of numbered frames as a video", "media._sequence media._sequence_files"),
    ("catalogs", 4_660, "a million files as one table that opens at once and can be filtered and split", "catalog"),
    ("scans", 3_986, "folders, lists and tables; failed files are rows; goes on after a crash", "scanning"),
    ("texts beside media", 246, "captions in files beside their media as a column, read again when they change",
     "scanning._texts"),
    ("plans", 5_810, "which frames an epoch reads, from seed and position alone: shuffle, shards, resume", "plan"),
    ("batches of one shape", 1_390, "models that make videos get (T, H, W) of one bucket a step, in step on all ranks",
     "plan._buckets plan._bucket_order plan._bucket_clips plan._plan_buckets plan._mixed_buckets"),
    ("loading", 4_140, "batches in order from any number of workers; faults and state of a run", "load"),
    ("workers", 2_619, "threads and processes that end, survive forks and shortages", "parallel"),
    ("cache", 1_810, "decoded frames are kept for the next epoch, on any disk", "cache"),
    ("cache: codecs", 644, "smaller stored frames, exact or lossy", "cache.codecs"),
    ("cache: files", 2_250, "several processes write at once, nothing torn after a crash", "cache.store"),
    ("cache: filled ahead", 610, "the first epoch is fast too; size and speed are known before", "cache.prefill"),
    ("written pictures and videos", 2_010, "stills, contact sheets, videos that are joined from parts", "encode"),
    ("videos through a function", 2_350, "`map_video`: parallel, in order, continued after a stop", "transcode"),
    ("proxies", 2_060, "smaller copies with the same frames and times, made where a sample says that they pay",
     "proxies catalog._proxies encode._proxies cli.proxy"),
    ("PyTorch", 3_370, "data sets, a drop-in `DataLoader` and `VideoDecoder`", "adapters.torch torch"),
    ("other frameworks", 2_340, "batches in TensorFlow, JAX and DALI", "adapters tensorflow jax dali ray lerobot"),
    ("data sets of LeRobot", 2_320, "robots are trained from their data as they are, with exact frames", "lerobot"),
    ("video language models", 960, "processors get the pictures that are on the screen at the seconds they are told",
     "vlm compat.qwen_vl_utils"),
    ("scripts of other libraries", 1_799, "one import is changed, and frames are exact", "compat"),
    ("command line", 3_840, "all of it without Python", "cli __main__"),
    ("measuring on own files", 4_700, "which way is fastest here, against the libraries that are installed", "bench"),
    ("reports", 2_040, "a page that shows what is in a data set, and one that shows which way is fastest", "report"),
    ("exams for other people's parts", 1_530, "a decoder or codec of one's own is checked as ours are", "testing"),
    ("shared values, messages, errors", 2_830, "errors that name file, reason and next step", "errors _absence _arrays "
     "_at_exit _cached _callers _checks _compute _files _live_set _lru _names _nearest _outcome _per_process _shortage "
     "_shown _stopping _units _values"),
]  # fmt: skip
CEILINGS = {concern: most for concern, most, _, _ in CONCERNS}
LOADED = """
import sys
for name, module in sys.modules.items():
    if name.split(".")[0] == "framefeed":
        print(module.__file__)
print(*sorted({"pyarrow"} & sys.modules.keys()))
"""
FRAME = "import framefeed as ff; ff.VideoDecoder({0!r})[5]"
BATCH = "import framefeed as ff; plan = ff.plan_clips(ff.Catalog.open({1!r}), ff.Uniform(8), seed=0, size=(32, 32)); "
BATCH += "loader = ff.ClipLoader(plan, batch_size=1, workers=2); next(iter(loader)); loader.close()"
BATCHED = 64
"""Clips of a batch that nothing decodes."""
# Distances of the 8 frames of two clips, which need different numbers of packets.
NEAR, FAR = 1, 8


def main() -> int:
    """Print the counts; write them as JSON where a file is named."""
    parser = argparse.ArgumentParser(description="Count lines by concern, loaded modules, calls and functions.")
    parser.add_argument("--concerns", action="store_true", help="print the table of concerns alone")
    parser.add_argument("--write", action="store_true", help="write the table of concerns into docs/architecture.md")
    parser.add_argument("--ceilings", type=float, metavar="PERCENT", help="set each ceiling so far above the lines")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    sources = package_sources()
    lines = count_concerns(sources)
    ceilings = CEILINGS
    if given.ceilings is not None:
        ceilings = {concern: math.ceil(count * (1 + given.ceilings / 100)) for concern, count in lines.items()}
        own = Path(__file__)
        own.write_text(set_ceilings(own.read_text(encoding="utf-8"), ceilings), encoding="utf-8")
    table = tabulate_concerns(lines, ceilings)
    print(table)
    if given.write or given.ceilings is not None:
        PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), {"concerns": lambda: table}), encoding="utf-8")
        return 0
    if given.concerns:
        return 0
    counts = count_functions(sources) | count_types(sources) | count_files(sources) | count_in_use()
    for name, value in counts.items():
        print(f"{name:57} {value}")
    if given.json is not None:
        given.json.write_text(json.dumps({"lines": lines, **counts}, indent=1) + "\n", encoding="utf-8")
    return 0


def count_concerns(sources: list[Source]) -> dict[str, int]:
    """Add up the lines of the modules of each concern."""
    owners = {f"framefeed.{name}": concern for concern, _, _, names in CONCERNS for name in names.split()}
    lines: collections.Counter[str] = collections.Counter()
    for source in sources:
        mine = [name for name in owners if source.within(name)]
        if source.module == "framefeed":
            mine = ["framefeed.errors"]
        if not mine:
            raise SystemExit(f"{source.module} has no concern: add it to CONCERNS")
        lines[owners[max(mine, key=len)]] += count_lines(source)
    return dict(lines)


def find_excesses(lines: Mapping[str, int]) -> list[str]:
    """Name the concerns that are above their ceilings, and what is done about one."""
    return [
        f"{concern}: {lines[concern]:,} lines, at most {most:,}: name in a page of design/ what leaves for what came; "
        "only then raise the ceiling in CONCERNS (benchmarks/structure.py)"
        for concern, most in CEILINGS.items()
        if lines[concern] > most
    ]


def set_ceilings(text: str, ceilings: Mapping[str, int]) -> str:
    """Put other ceilings into this module's text."""
    for concern, most in ceilings.items():
        text = re.sub(rf'(?<=^    \("{re.escape(concern)}", )[\d_]+(?=,)', f"{most:_}", text, flags=re.M)
    return text


def tabulate_concerns(lines: Mapping[str, int], ceilings: Mapping[str, int]) -> str:
    """Write the table of docs/architecture.md."""
    rows = [(concern, f"{lines[concern]:,}", f"{ceilings[concern]:,}", bought) for concern, _, bought, _ in CONCERNS]
    total = ("all of them", f"{sum(lines.values()):,}", f"{sum(ceilings.values()):,}", "")
    return make_table(("concern", "lines", "ceiling", "what it buys"), [*rows, total])


def count_functions(sources: list[Source]) -> dict[str, Any]:
    """Measure the functions of the core."""
    nodes = [node for source in sources if source.room not in SIDES for node in source.nodes]
    functions = [node for node in nodes if isinstance(node, FunctionNode)]
    bodies = sorted(map(count_body, functions))
    short = sum(len(node.body) - (ast.get_docstring(node) is not None) <= 1 for node in functions)
    return {
        "functions of one statement": f"{100 * short / len(functions):.0f} %",
        "function body median / p90 / longest": [statistics.median(bodies), bodies[int(0.9 * len(bodies))], bodies[-1]],
    }


def count_body(node: FunctionNode) -> int:
    """Count the lines from the first statement after the docstring to the end."""
    body = node.body
    if len(body) > 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    return (node.end_lineno or node.lineno) - body[0].lineno + 1


def count_types(sources: list[Source], plan: str = "EpochPlan") -> dict[str, Any]:
    """Count what stands in for a type, room by room, and what a plan has: its subclasses and its public names."""
    by_room = {room: [source for source in sources if source.room == room] for room in TYPED}
    rooms = " / ".join(TYPED)
    nodes = [node for source in sources for node in source.nodes if isinstance(node, ast.ClassDef)]
    return {
        f"results typed Any, {rooms}": [sum(map(_count_any, each)) for each in by_room.values()],
        f"annotations NoReturn, {rooms}": [sum(map(_count_no_return, each)) for each in by_room.values()],
        f"calls of cast, {rooms}": [sum(map(_count_casts, each)) for each in by_room.values()],
        f"subclasses of {plan}": len(find_subclasses(nodes, plan)),
        f"public names of {plan}, properties / methods / fields": [
            len(names) for names in find_public_names(node for node in nodes if node.name == plan)
        ],
    }


def _count_any(source: Source) -> int:
    return sum(
        isinstance(node, FunctionNode) and node.returns is not None and _names(source, node.returns, "typing.Any")
        for node in source.nodes
    )


def _count_no_return(source: Source) -> int:
    annotations = [each for node in source.nodes for each in _list_annotations(node)]
    return sum(_names(source, node, "typing.NoReturn") for each in annotations for node in ast.walk(each))


def _count_casts(source: Source) -> int:
    return sum(isinstance(node, ast.Call) and _names(source, node.func, "typing.cast") for node in source.nodes)


def _names(source: Source, node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and full_name(node, source.names) == name


def _list_annotations(node: ast.AST) -> Iterator[ast.expr]:
    """Give the annotation of an argument or a name, and that of a function's result."""
    given = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    yield from (each for each in given if isinstance(each, ast.expr))


def find_subclasses(classes: Iterable[ast.ClassDef], name: str) -> set[str]:
    """Find the classes below the one of this name, those of subclasses too."""
    bases = [(node.name, {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}) for node in classes]
    found, below = set[str](), {name}
    while below := {each for each, its in bases if its & below} - found:
        found |= below
    return found


def find_public_names(classes: Iterable[ast.ClassDef]) -> tuple[set[str], set[str], set[str]]:
    """Find the properties, methods and fields without an underscore in the bodies of classes."""
    properties, methods, fields = set[str](), set[str](), set[str]()
    for node in (each for of_class in classes for each in of_class.body):
        if isinstance(node, FunctionNode):
            is_property = any(ast.unparse(each).split(".")[-1].endswith("property") for each in node.decorator_list)
            (properties if is_property else methods).add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            fields.add(node.target.id)
    found = properties, methods, fields
    properties, methods, fields = ({name for name in names if not name.startswith("_")} for names in found)
    return properties, methods, fields


def count_files(sources: list[Source]) -> dict[str, Any]:
    """Count modules and lines of core, wheel, tests and benchmarks."""
    core = [source for source in sources if source.room not in SIDES]
    outside = {
        folder: sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / folder).rglob("*.py"))
        for folder in ("tests", "benchmarks")
    }
    return {
        f"core modules / lines (without {', '.join(SIDES)})": [len(core), sum(map(count_lines, core))],
        "wheel lines": sum(map(count_lines, sources)),
        **{f"{folder} lines": lines for folder, lines in outside.items()},
        "names in media's door": len(framefeed.media.__all__),
    }


def count_lines(source: Source) -> int:
    """Count the lines of a module."""
    return len(source.text.splitlines())


def count_in_use() -> dict[str, Any]:
    """Count what one frame and one batch load, and the own calls of a clip."""
    with tempfile.TemporaryDirectory() as folder:
        path, table = Path(folder, "clip.mp4"), Path(folder, "cat.parquet")
        write_clip(path, ClipSpec(num_frames=64, gop=64, b_frames=0))
        ff.scan(path, out=table, progress=False)
        first = {
            "loaded by one frame of a VideoDecoder, modules / lines": count_loaded(FRAME.format(str(path))),
            "loaded by a ClipLoader's first batch, modules / lines": count_loaded(BATCH.format(str(path), str(table))),
        }
        (near, few), (far, many) = (count_calls(path, distance) for distance in (NEAR, FAR))
        idle = count_idle_calls(path, Path(folder))
    a_packet = (far - near) / (many - few)
    return first | {
        "own calls of a clip of 8 frames, a packet / besides": [round(a_packet, 1), round(near - a_packet * few)],
        f"own calls of one of {BATCHED} clips, no decoding, {' / '.join(idle)}": list(idle.values()),
    }


def count_loaded(code: str) -> list[Any]:
    """Run code in a fresh process, and count the modules that it leaves loaded, and their lines."""
    run = subprocess.run([sys.executable, "-c", code + LOADED], check=True, capture_output=True, text=True)
    *files, arrow = run.stdout.splitlines()
    lines = sum(len(Path(file).read_text(encoding="utf-8").splitlines()) for file in files)
    return [len(files), lines, arrow or "no pyarrow"]


def count_calls(path: Path, distance: int) -> tuple[int, int]:
    """Count framefeed's own calls and packets for one clip of a warm loader."""
    clip = ff.DecodeRequest(path, range(0, 8 * distance, distance))
    with ff.ClipLoader(ff.plan_requests([clip] * 3, size=(32, 32)), batch_size=1, workers=0) as loader:
        calls, packets = count_batch(loader)
        return sum(calls.values()), packets


def count_idle_calls(path: Path, folder: Path) -> dict[str, float]:
    """Count the own calls of plan, load and all rooms for each clip of a batch of several videos, without decoding."""
    videos = [shutil.copyfile(path, folder / f"{number}.mp4") for number in range(8)]
    catalog = ff.scan(videos, out=folder / "many.parquet", progress=False)
    plan = ff.plan_clips(catalog, ff.Dense(8), clips_per_video=3 * BATCHED // 8, seed=0, size=(32, 32))
    with ff.ClipLoader(plan, batch_size=BATCHED, workers=0, backend=IdleDecoder()) as loader:
        calls, _ = count_batch(loader)
    counts = {"plan": calls["plan"], "load": calls["load"], "all": sum(calls.values())}
    return {room: round(count / BATCHED, 1) for room, count in counts.items()}


def count_batch(loader: ff.ClipLoader) -> tuple[collections.Counter[str], int]:
    """Count framefeed's own calls by room, generators' resumptions too, and packets for a loader's third batch."""
    calls: collections.Counter[str] = collections.Counter()
    own = f"{Path(ff.__file__).parent}{os.sep}"

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and (name := frame.f_code.co_filename).startswith(own):
            calls[name.removeprefix(own).split(os.sep)[0]] += 1

    batches = iter(loader)
    next(batches), next(batches)
    before = loader.stats().counts.packets_sent
    sys.setprofile(note)
    next(batches)
    sys.setprofile(None)
    return calls, loader.stats().counts.packets_sent - before


if __name__ == "__main__":
    sys.exit(main())

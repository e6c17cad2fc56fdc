"""Every errno at every call, and damaged files: right facts, the right error, or a typed one; never a crash or a hang.

``python -m tests.media.chaos --files 1000 --log build/chaos_media.log`` (``make chaos``). Each damaged file is a real
or generated one with bits flipped, a range cut out, zeroed, doubled, or its end cut off. It is probed, indexed, and
some of its frames are decoded, in a worker process with a deadline.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import framefeed as ff
from framefeed.errors import MediaError, ResourceExhausted
from framefeed.parallel import Err, ordered_outcomes
from framefeed.testing import ClipSpec, clip_bytes
from tests.media import faults
from tests.media.test_shortages import ASKING, FACTS, SHORTAGES
from tests.programs import report_lines

FORMATS = {
    "mp4": ("mp4", "libx264"), "mkv": ("matroska", "libx264"), "ts": ("mpegts", "libx264"), "avi": ("avi", "mpeg4"),
    "flv": ("flv", "libx264"), "mpg": ("mpeg", "mpeg1video"), "webm": ("webm", "libvpx"), "mov": ("mov", "mjpeg"),
}  # fmt: skip
DEADLINE_SECONDS = 60.0
LARGEST = 1_000_000


@dataclass(frozen=True)
class Damaged:
    """A file and how it is to be damaged.

    Attributes:
        path: Of the whole file.
        seed: Decides the damage.
    """

    path: str
    seed: int

    def data(self) -> bytes:
        """Damage it."""
        chance = random.Random(self.seed)
        data = bytearray(Path(self.path).read_bytes())
        for _ in range(chance.choice((1, 1, 2, 5))):
            if len(data) < 32:
                break
            begin = chance.choice((chance.randrange(min(len(data), 4096)), chance.randrange(len(data))))
            length = min(len(data) - begin, chance.choice((1, 4, 64, 1000, 20000)))
            kind = chance.choice(("flip", "flip", "zero", "cut", "double", "end", "noise"))
            if kind == "flip":
                for _ in range(min(length, 40)):
                    data[begin + chance.randrange(length)] ^= 1 << chance.randrange(8)
            elif kind == "zero":
                data[begin : begin + length] = bytes(length)
            elif kind == "cut":
                del data[begin : begin + length]
            elif kind == "double":
                data[begin:begin] = data[begin : begin + length]
            elif kind == "noise":
                data[begin : begin + length] = chance.randbytes(length)
            else:
                del data[max(begin, 1) :]
        return bytes(data)


def outcome_of_file(damaged: Damaged) -> str:
    """Probe, index and decode; say in a word what came of it."""
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"damaged{Path(damaged.path).suffix}"
        path.write_bytes(damaged.data())
        words = [_word(lambda: ff.probe(path))]
        try:
            index = ff.build_index(path, verify="ends")
        except MediaError as error:
            return f"{words[0]}, index {type(error).__name__}"
        decoder = ff.VideoDecoder(path, frame_index=index)
        for ordinal in sorted({0, len(index) // 2, len(index) - 1}):
            words.append(_word(lambda ordinal=ordinal: decoder[ordinal]))  # type: ignore[misc]
        decoder.close()
    return f"{words[0]}, frames {', '.join(sorted(set(words[1:])))}"


def _word(call: object) -> str:
    try:
        call()  # type: ignore[operator]
    except MediaError as error:
        return type(error).__name__
    return "well"


def damaged_files(count: int, first: int, media: Path) -> Iterator[Damaged]:
    """Choose files of a folder by turns."""
    paths = sorted(
        os.fspath(path) for path in media.rglob("*")
        if path.is_file() and path.stat().st_size <= LARGEST and path.suffix not in (".tsv", ".md", ".py", ".json")
        and "oracle" not in path.parts
    )  # fmt: skip
    for number in range(first, first + count):
        yield Damaged(paths[number % len(paths)], number)


def write_clips(folder: Path) -> list[Path]:
    """Write a clip of each format."""
    paths: list[Path] = []
    for ending, (name, codec) in FORMATS.items():
        path = folder / f"clip.{ending}"
        pixels = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        path.write_bytes(
            clip_bytes(
                ClipSpec(
                    num_frames=12, gop=6, codec=codec, b_frames=2 if codec == "libx264" else 0, pixel_format=pixels
                ),
                name,
            )
        )
        paths.append(path)
    return paths


def sweep_errnos(paths: Sequence[Path]) -> Iterator[tuple[str, bool]]:
    """Inject each errno at every open, stat, read and decode of some files; yield what was tried, and if it held."""
    for path in paths:
        for asked, ask in ASKING.items():
            expected = ask(path)
            for kind in (*faults.CALLS, "decode"):
                counter = faults.Fault(0, None)
                with faults.failing(kind, counter):
                    ask(path)
                for number in (*SHORTAGES, *(FACTS if kind != "decode" else ())):
                    held = all(_holds(path, asked, kind, number, at, expected) for at in range(counter.calls))
                    yield f"{path.suffix[1:]} {asked} {kind} errno {number}: {counter.calls} calls", held


def _holds(path: Path, asked: str, kind: str, number: int, at: int, expected: object) -> bool:
    for stays in (False, True):
        try:
            with faults.failing(kind, faults.Fault(number, at, stays=stays)):
                found = ASKING[asked](path)
        except ResourceExhausted:
            if not stays or number not in SHORTAGES:
                return False
        except MediaError as error:
            if number in SHORTAGES or not isinstance(error, FACTS[number]):
                return False
        else:
            if found != expected:
                return False
    return bool(ASKING[asked](path) == expected)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--media", type=Path, help="a folder of files to damage; by default generated clips")
    parser.add_argument("--log", type=Path)
    args = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="framefeed-chaos-") as folder:
        return sweep(args, write_clips(Path(folder)), Path(folder))


def sweep(args: argparse.Namespace, clips: Sequence[Path], folder: Path) -> int:
    """Try each errno on the clips, and damage files of ``args.media``, or else of the folder of the clips."""
    gc.collect()
    gc.freeze()  # each shortage collects
    lines = ["# each errno at every call: the same facts, the right error for what the file is, never a wrong fact"]
    wrong = 0
    for tried, held in sweep_errnos(clips):
        wrong += not held
        lines.append(f"{tried}: {'held' if held else 'WRONG'}")
    lines.append(f"# {args.files} damaged files: what came of each kind")
    found: Counter[str] = Counter()
    chosen = list(damaged_files(args.files, args.first, args.media or folder))
    outcomes = ordered_outcomes(
        outcome_of_file, chosen, workers=2, kind="processes", max_in_flight=8, deadline_seconds=DEADLINE_SECONDS
    )
    with outcomes:
        for damaged, outcome in zip(chosen, outcomes, strict=True):
            if isinstance(outcome, Err):
                wrong += 1
                lines.append(f"WRONG {Path(damaged.path).name} seed {damaged.seed}: {outcome.error!r}"[:400])
            else:
                found[outcome.value] += 1
    lines += [f"{count} times: {what}" for what, count in sorted(found.items())]
    lines.append(
        f"{len(lines)} lines, {sum(found.values())} files: {f'{wrong} WRONG' if wrong else 'all as they must be'}"
    )
    report_lines(lines, args.log)
    return 1 if wrong else 0


if __name__ == "__main__":
    # By its own name: what is defined in the main program cannot be sent to a worker process.
    sys.exit(importlib.import_module("tests.media.chaos").main())

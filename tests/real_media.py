"""Every frame of real media, compared with PyAV, with Pillow and with a record: ``make media``.

Each file is decoded whole and in order; some of its frames are decoded again at random. An oracle of one library does
the same in the same run, and `real_media.tsv` has what an earlier run gave under the same version of that library.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import av
import numpy as np
import PIL
import xxhash

from framefeed.decode import VideoDecoder
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import MediaError
from framefeed.index import build_index, probe
from framefeed.media import PICTURE_SUFFIXES, MediaSource
from framefeed.scanning import VIDEO_SUFFIXES
from tests.decode.law import Product, Reader, check_frames
from tests.reference import Planes, Reference, read_picture, read_reference

CHECKOUT = Path(__file__).resolve().parents[1]
RECORD = Path(__file__).with_suffix(".tsv")
HEADING = ("file_xxh3_128", "library", "frames", "digest", "name")
LIBAVCODEC = "libavcodec " + ".".join(map(str, av.library_versions["libavcodec"]))
PILLOW = f"Pillow {PIL.__version__}"
SAMPLE = 5
"""Frames of each video that are also decoded in any order."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a file gave: a line of the record.

    Attributes:
        content: Hash of the file's bytes.
        library: What decoded it, with its version.
        frames: Number of frames.
        digest: Hash of times and pixels of all frames in order, or the type of the error if the file is refused.
        name: Path of the file in the folder; for readers of the record only.
    """

    content: str
    library: str
    frames: int
    digest: str
    name: str

    @property
    def key(self) -> tuple[str, str]:
        return self.content, self.library


@dataclass(frozen=True, slots=True)
class Answer:
    """A row, and how it differs from the oracle: empty if it does not."""

    row: Row
    difference: str = ""


OpenReader = Callable[[Path], Reader]


def open_product(path: Path) -> Reader:
    """Open a video in framefeed, with the decoder that ``backend="auto"`` takes."""
    return Product(MediaSource.of(path), build_index(path), PyAVDecoder())


def examine(path: Path, name: str, open_reader: OpenReader = open_product) -> Answer:
    """Decode a file whole, twice, and compare."""
    try:
        is_picture = probe(path).kind == "image"
    except MediaError:
        is_picture = path.suffix.lower() in PICTURE_SUFFIXES
    library = PILLOW if is_picture else LIBAVCODEC
    try:
        frames, digest, difference = _examine_picture(path) if is_picture else _examine_video(path, open_reader)
    except MediaError as error:
        frames, digest = 0, type(error).__name__
        gives = read_picture(path) is not None if is_picture else _count_reference(path) > 0
        difference = f"refused, but the oracle reads it: {error}" if gives else ""
    return Answer(Row(hash_file(path), library, frames, digest, name), difference)


def hash_file(path: Path) -> str:
    """Hash a file's bytes."""
    return xxhash.xxh3_128_hexdigest(path.read_bytes())


def _examine_picture(path: Path) -> tuple[int, str, str]:
    with VideoDecoder(path, dimension_order="NHWC") as decoder:
        pixels = np.ascontiguousarray(decoder[0])
    expected = read_picture(path)
    differs = expected is not None and not np.array_equal(pixels, expected)
    digest = xxhash.xxh3_128_hexdigest(f"{pixels.shape}".encode() + pixels.tobytes())
    return 1, digest, "its pixels are not Pillow's" if differs else ""


def _examine_video(path: Path, open_reader: OpenReader) -> tuple[int, str, str]:
    reader = open_reader(path)
    times = reader.pts()
    frames = reader.fetch(range(len(times)))
    lines = [f"{pts} {frames.get(ordinal, 'missing')}" for ordinal, pts in enumerate(times)]
    digest = xxhash.xxh3_128_hexdigest("\n".join(lines).encode())
    try:
        check_frames(_InOrder(times, frames), read_reference(path), [range(len(times))])
        _check_sample(reader, frames)
    except AssertionError as error:
        return len(times), digest, str(error)[:300]
    return len(times), digest, ""


@dataclass(frozen=True)
class _InOrder:
    """A reader of what was decoded in order."""

    times: list[int | None]
    frames: Mapping[int, Planes]

    def pts(self) -> list[int | None]:
        return self.times

    def fetch(self, ordinals: Sequence[int]) -> dict[int, Planes]:
        return {ordinal: self.frames[ordinal] for ordinal in ordinals if ordinal in self.frames}


def _check_sample(reader: Reader, frames: Mapping[int, Planes]) -> None:
    sample = random.Random(len(frames)).sample(sorted(frames), min(SAMPLE, len(frames)))
    for ordinal in sample:
        again = reader.fetch([ordinal]).get(ordinal)
        assert again == frames[ordinal], f"frame {ordinal} is another one when it is asked for alone"


def _count_reference(path: Path) -> int:
    try:
        reference: Reference = read_reference(path, limit=1)
    except (av.FFmpegError, IndexError, ValueError):
        return 0
    return len(reference)


def read_rows(path: Path) -> dict[tuple[str, str], Row]:
    """Read a record; a last line that was cut short is left out."""
    if not path.exists():
        return {}
    rows = {}
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True)[1:]:
        cells = line.rstrip("\n").split("\t")
        if line.endswith("\n") and len(cells) == len(HEADING):
            row = Row(cells[0], cells[1], int(cells[2]), cells[3], cells[4])
            rows[row.key] = row
    return rows


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a record, sorted by name."""
    lines = ["\t".join(HEADING), *(_line_of(row) for row in sorted(rows, key=lambda row: (row.name, row.library)))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _line_of(row: Row) -> str:
    return "\t".join((row.content, row.library, str(row.frames), row.digest, row.name))


def compare(answer: Answer, record: Mapping[tuple[str, str], Row]) -> str:
    """Say how an answer differs from its oracle, or from the record of the same library; empty if it does not."""
    if answer.difference:
        return answer.difference
    earlier = record.get(answer.row.key)
    if earlier is None or (earlier.frames, earlier.digest) == (answer.row.frames, answer.row.digest):
        return ""
    return (
        f"{answer.row.frames} frames, digest {answer.row.digest}; recorded with the same {earlier.library}: "
        f"{earlier.frames} frames, digest {earlier.digest}"
    )


def list_media(folder: Path) -> list[str]:
    """List the files that have the ending of a video or picture, by name."""
    paths = (path for path in folder.rglob("*") if path.suffix.lower() in VIDEO_SUFFIXES | PICTURE_SUFFIXES)
    return sorted(path.relative_to(folder).as_posix() for path in paths if path.is_file())


def examine_all(folder: Path, names: Sequence[str], jobs: int, open_reader: OpenReader) -> Iterator[Answer]:
    """Examine files in order, in this process or in several."""
    work = partial(_examine_safely, folder, open_reader)
    if jobs == 1:
        yield from map(work, names)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from pool.map(work, names)


def _examine_safely(folder: Path, open_reader: OpenReader, name: str) -> Answer:
    """Examine one file; an error that is not about media is a difference, and the others are examined."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return examine(folder / name, name, open_reader)
        except Exception as error:
            return Answer(Row("", "", 0, "", name), f"{type(error).__name__}: {error}")


def main(arguments: Sequence[str] | None = None, open_reader: OpenReader = open_product) -> int:
    """Examine a folder; 1 if anything differs."""
    options = _parse(arguments)
    folder: Path = options.folder
    if not folder.is_dir():
        print(f"skipped: no media folder at {folder}; MEDIA=folder names another")
        return 0
    record = read_rows(options.record)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    names = list_media(folder)
    earlier = {row.name: row for row in read_rows(options.results).values()} if options.resume else {}
    done = {
        name: earlier[name] for name in names if name in earlier and earlier[name].content == hash_file(folder / name)
    }
    left = [name for name in names if name not in done]
    write_rows(options.results, earlier.values())
    answers = [Answer(row) for row in done.values()]
    differing = 0
    with options.results.open("a", encoding="utf-8") as results:
        for answer in examine_all(folder, left, options.jobs, open_reader):
            answers.append(answer)
            difference = compare(answer, record)
            differing += bool(difference)
            if not difference:
                print(_line_of(answer.row), file=results, flush=True)
            state = f"DIFFERS: {difference}" if difference else f"{answer.row.frames} frames, {answer.row.digest}"
            print(f"{len(answers)}/{len(names)} {answer.row.name}: {state}", flush=True)
    unrecorded = sum(answer.row.key not in record for answer in answers)
    print(
        f"{len(names)} files, {sum(answer.row.frames for answer in answers)} frames, {differing} differ, "
        f"{unrecorded} not in the record ({LIBAVCODEC}, {PILLOW})"
    )
    if options.update and not differing:
        write_rows(options.record, {**record, **{answer.row.key: answer.row for answer in answers}}.values())
    return 1 if differing else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("FRAMEFEED_MEDIA", CHECKOUT.parent / "shared" / "media")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(default))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--record", type=Path, default=RECORD, help="what earlier runs gave")
    parser.add_argument("--update", action="store_true", help="add this run to the record, if nothing differs")
    parser.add_argument("--results", type=Path, default=CHECKOUT / "build" / "real_media.tsv", help="this run so far")
    parser.add_argument("--resume", action="store_true", help="leave out the files that are in the results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

"""Every hard file that the tests make, by name, and the types of errors with which framefeed answers for it.

``python -m tests.golden.hard_files`` writes ``error_types.tsv`` anew. Types are recorded, not texts.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import framefeed as ff
from framefeed.testing import clip_bytes
from tests.bitstreams.vpx_cases import MUTANTS
from tests.bitstreams.vpx_mutants import ivf
from tests.cli.bad_media import BAD, READS_OTHERS
from tests.codec_clips import CODECS
from tests.corpus import clip_file, corpus_file
from tests.damaged import damaged_clip
from tests.decode.damaged import DAMAGES, packet_ranges
from tests.index.test_proof_intra import INTRA, intra_file
from tests.media.bombs import write_bombs
from tests.media.endless import PICTURES, movie
from tests.media.nal_mutants import cut_at, h264, hevc
from tests.mp4.movies import MovieSpec, movie_bytes, right_offsets
from tests.mp4.test_hostile import WRONG_TABLES
from tests.pathologies import iter_pathologies
from tests.pictures.made import made
from tests.pictures.test_damaged_pictures import CLAIMS, ONE_OF_EACH

Row = tuple[str, ...]
GOLDEN = Path(__file__).with_name("error_types.tsv")
COLUMNS = ("group", "file", "probe", "proof", "ends", "full", "first", "last", "scan")
LIMITS = ff.Limits(max_header_bytes=2**22)
"""Lower than by default, so that a header without end is refused after 4 MB."""
CUTS = (0.02, 0.3, 0.6, 0.97)
CUT_CODECS = ("h264", "hevc", "vp9", "mjpeg", "mpeg2video", "mpeg4", "gif", "rawvideo", "ffv1", "flv1")
DAMAGED_CODECS = ("h264", "hevc", "mjpeg", "mpeg4", "mpeg1video")

_KINETICS = "label,youtube_id,time_start,time_end\n"
LISTS: dict[str, bytes] = {
    "plain.txt": b"good.mp4\nbad.mp4\nmissing.mp4\n",
    "comments.txt": b"# made by me\ngood.mp4 0\n\nbad.mp4 1\n",
    "quoted.txt": b'"good.mp4" 0\n"bad.mp4" 1\n',
    "zeros.csv": b"path,label\ngood.mp4,007\nbad.mp4,010\n",
    "header.csv": b"path,label\ngood.mp4,a\nmissing.mp4,b\n",
    "short line.csv": b"path,label\ngood.mp4,a\nbad.mp4\nbad.mp4,b,c\n",
    "open quote.csv": b'path,label\n"good.mp4,a\nbad.mp4,b\n',
    "semicolons.csv": b"path;label\ngood.mp4;a\nbad.mp4;b\n",
    "tabs.tsv": b"path\tlabel\ngood.mp4\ta\nbad.mp4\tb\n",
    "unknown header.csv": b"Video,Klasse\ngood.mp4,x\n",
    "two paths.csv": b"id,left,right\n1,good.mp4,bad.mp4\n2,bad.mp4,good.mp4\n",
    "twice.csv": b"path,label,label\ngood.mp4,x,y\n",
    "no path.csv": b"label,number\na,1\nb,2\n",
    "kinetics.csv": f"{_KINETICS}jump,good,10,20\njump,bad,4O,50\n".encode(),
    "empty.csv": b"",
    "blank.txt": b"\n \n\n",
    "nul.txt": b"good.mp4\0bad.mp4\0",
    "latin.csv": "path,label\ngood.mp4,Ärger\n".encode("cp1252"),
    "utf16.csv": "path,label\ngood.mp4,Ärger\n".encode("utf-16"),
    "list.json": json.dumps([{"path": "good.mp4"}, {"path": 7}, {"label": 2}, "bad.mp4"]).encode(),
    "cut.json": b'[{"path": "good.mp4"}, {"path": ',
    "deep.json": b"[" * 100_000,
    "object.json": b'{"videos": [{"path": "good.mp4"}, {"path": "bad.mp4"}]}',
    "lines.jsonl": b'{"video": "good.mp4"}\n{"video": \n["bad.mp4"]\n{"viedo": "bad.mp4"}\n{"video": "bad.mp4"}\n',
    "cut.parquet": b"PAR1" + bytes(100) + b"PAR1",
    "text.parquet": b"good.mp4\n",
}
"""Lists, most of them wrong somewhere, beside ``good.mp4`` and ``bad.mp4``; of each, only a scan is recorded."""


def _new(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


def _put(folder: Path, name: str, data: bytes) -> Path:
    path = _new(folder) / name
    path.write_bytes(data)
    return path


def _pathologies(folder: Path) -> Iterator[tuple[str, Any]]:
    for recipe in iter_pathologies():
        yield f"pathology: {recipe.name}", corpus_file(recipe.name)


def _no_videos(folder: Path) -> Iterator[tuple[str, Any]]:
    for name, make in BAD.items():
        yield f"bad: {name}", make(_new(folder))
    for name, text in READS_OTHERS.items():
        yield f"reads others: {name}", _put(folder, "list.mp4", text.format(other="other.ts", port=9).encode())


def _damaged(folder: Path) -> Iterator[tuple[str, Any]]:
    for packets in ((0,), (12,), (10, 20), (39,)):
        for ending in ("mp4", "mkv", "ts"):
            if ending != "ts" or packets == (12,):
                yield f"damaged: {packets} of {ending}", damaged_clip(f"damage.{ending}", packets)
    for codec in CUT_CODECS:
        clip = CODECS[codec]
        whole = clip_file(f"{codec}{clip.suffix}", clip.spec).read_bytes()
        for share in CUTS:
            yield f"cut: {codec} at {share}", _put(folder, f"cut{clip.suffix}", whole[: int(len(whole) * share)])
    for codec in DAMAGED_CODECS:
        clip = CODECS[codec]
        path = clip_file(f"{codec}{clip.suffix}", clip.spec)
        ranges = packet_ranges(ff.build_index(path))
        for name, damage in DAMAGES.items():
            data = bytearray(path.read_bytes())
            damage(data, np.random.default_rng(1), ranges)
            yield f"damaged: {codec} by {name}", _put(folder, f"damaged{clip.suffix}", bytes(data))


def _mutants(folder: Path) -> Iterator[tuple[str, Any]]:
    for name, mutant in MUTANTS.items():
        yield f"mutant: {name}", _put(folder, "clip.ivf", mutant.make())
    for codec in ("vp8", "av1"):
        yield f"mutant: {codec} without packets", _put(folder, "clip.ivf", ivf(codec, []))


def _streams(folder: Path) -> Iterator[tuple[str, Any]]:
    for name in INTRA:
        yield f"intra: {name}", intra_file(name, _new(folder))
    for codec, stream in (("h264", h264()), ("hevc", hevc())):
        for number in (0, 40):
            yield f"nal: {codec} cut at {number}", cut_at(stream, number).write(_new(folder) / "clip.mp4")
    for codec in ("h264", "mpeg4"):
        streams = [CODECS[codec].spec] * 40
        yield f"streams: 40 of {codec}", clip_file(f"forty_{codec}.mp4", *streams)


def _movies(folder: Path) -> Iterator[tuple[str, Any]]:
    """MP4 files whose header is wrong, and small files that claim huge pictures."""
    kinds = {"stz2": "stsz", "co64": "stco"}
    for name, table in WRONG_TABLES.items():
        kind = table[4:8].decode()
        spec = MovieSpec(ctts=right_offsets(), tables={kinds.get(kind, kind): table})
        yield f"table: {name}", _put(folder, "clip.mp4", movie_bytes(spec))
    for first in (False, True):
        whole = movie_bytes(MovieSpec(ctts=right_offsets(), header_first=first))
        for share in CUTS:
            where = "first" if first else "last"
            yield f"cut: header {where} at {share}", _put(folder, "cut.mp4", whole[: int(len(whole) * share)])
    box = (8).to_bytes(4, "big") + b"free"
    yield "boxes: many in front", _put(folder, "clip.mp4", movie(before=box * 70_000))
    yield "boxes: many inside", _put(folder, "clip.mp4", movie(inside="trak", parts=box * 70_000))
    bombs = _new(folder)
    for name in write_bombs(bombs):
        yield f"bomb: {name}", bombs / name


def _pictures(folder: Path) -> Iterator[tuple[str, Any]]:
    for name in ONE_OF_EACH:
        data = made()[name]
        for where, end in {"2": 2, "20": 20, "half": len(data) // 2, "the last byte": len(data) - 1}.items():
            yield f"picture: {name} cut at {where}", _put(folder, "cut.png", data[:end])
    for name, data in CLAIMS.items():
        yield f"picture: {name}", _put(folder, "claim.png", data)
    for name, endless in PICTURES.items():
        path = _put(folder, "endless.jpg", endless().read(2**16))
        os.truncate(path, 10**11)
        yield f"picture: {name}, without end", path
    for ending in (".mp4", ".mkv", ".ts", ".avi"):
        container = {".mkv": "matroska", ".ts": "mpegts"}.get(ending, ending[1:])
        data = clip_bytes(CODECS["mpeg4"].spec, container)
        yield f"zeros behind 300 bytes: {ending}", _put(folder, f"zeros{ending}", data[:300] + bytes(len(data)))


def _sequences(folder: Path) -> Iterator[tuple[str, Any]]:
    def pictures(*sizes: tuple[int, int]) -> Path:
        home = _new(folder)
        for number, (height, width) in enumerate(sizes):
            Image.new("RGB", (width, height), (number, 9, 9)).save(home / f"{number}.png")
        return home

    yield "sequence: whole", ff.ImageSequence(pictures((8, 8), (8, 8)), fps=25)
    yield "sequence: rate of 0", lambda: ff.ImageSequence(pictures((8, 8), (8, 8)), fps=0)
    mixed, cut, text = pictures((8, 8), (9, 8)), pictures((8, 8), (8, 8), (8, 8)), pictures((8, 8), (8, 8))
    (cut / "1.png").write_bytes((cut / "1.png").read_bytes()[:40])
    (text / "1.png").write_text("no picture")
    yield "sequence: sizes that differ", ff.ImageSequence(mixed, fps=25)
    yield "sequence: one is cut", ff.ImageSequence(cut, fps=25)
    yield "sequence: the last is text", ff.ImageSequence(text, fps=25)
    yield "sequence: empty folder", lambda: ff.ImageSequence(_new(folder), fps=25)
    yield "sequence: missing folder", lambda: ff.ImageSequence(folder / "nowhere", fps=25)
    yield "sequence: one is missing", ff.ImageSequence([mixed / "0.png", mixed / "7.png"], fps=25)
    yield "sequence: too few times", lambda: ff.ImageSequence(cut, timestamps=[0.0])
    yield "sequence: times go backwards", lambda: ff.ImageSequence(mixed, timestamps=[1.0, 0.0])


# --- what framefeed answers ---------------------------------------------------------------------------


def _type_of(work: Callable[[], object]) -> str:
    """Name the type of the error, or say that there is none."""
    try:
        return str(work() or "ok")
    except Exception as error:
        return type(error).__name__


def _read(video: ff.VideoDecoder, number: int) -> None:
    _ = video[number]


def _decode(source: Callable[[], Any]) -> list[str]:
    """Name the types for the first and the last frame."""
    opened: list[ff.VideoDecoder] = []
    if (failed := _type_of(lambda: opened.append(ff.VideoDecoder(source(), limits=LIMITS)))) != "ok":
        return [failed, failed]
    with opened[0] as video:
        return [_type_of(partial(_read, video, number)) for number in (0, -1)]


def _scan(source: Any) -> str:
    """Name the types of the rows' errors, in order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        catalog = ff.scan(source, limits=LIMITS, workers=0)
    return ",".join(kind or "ok" for kind in catalog.table["error_type"].to_pylist()) or "no rows"


def answer(given: Any) -> list[str]:
    """Ask for a file in every way; give a cell each.

    Args:
        given: A source, or a function that makes it.
    """

    def source() -> Any:
        return given() if callable(given) else given

    def index(verify: Any) -> None:
        ff.build_index(source(), verify, limits=LIMITS)

    return [
        _type_of(lambda: ff.probe(source(), limits=LIMITS) and None),
        _type_of(lambda: index("proof")),
        _type_of(lambda: index("ends")),
        _type_of(lambda: index("full")),
        *_decode(source),
        _type_of(lambda: _scan(source())),
    ]


GROUPS: dict[str, Callable[[Path], Iterator[tuple[str, Any]]]] = {
    "pathologies": _pathologies,
    "no videos": _no_videos,
    "damaged": _damaged,
    "mutants": _mutants,
    "streams": _streams,
    "movies": _movies,
    "pictures": _pictures,
    "sequences": _sequences,
}
"""Each makes its files in an empty folder, and gives the name of each and what framefeed is to open."""


def _list_rows(folder: Path) -> Iterator[Row]:
    (folder / "good.mp4").write_bytes(clip_file("good.mp4").read_bytes())
    (folder / "bad.mp4").write_text("no film")
    for name, content in LISTS.items():
        path = folder / name
        path.write_bytes(content)
        yield "lists", f"list: {name}", *["-"] * 6, _type_of(partial(_scan, path))


def rows_of(group: str, left_out: Collection[str] = ()) -> list[Row]:
    """Make the files of a group, or of the lists, once; give their rows, but for those that are left out."""
    with tempfile.TemporaryDirectory(prefix="framefeed-hard-") as name:
        folder = Path(name)
        if group == "lists":
            return [row for row in _list_rows(folder) if row[1] not in left_out]
        files = GROUPS[group](folder)
        return [(group, label, *answer(given)) for label, given in files if label not in left_out]


def known_rows() -> list[Row]:
    """Read the golden."""
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()[1:]
    return [tuple(line.split("\t")) for line in lines]


def main() -> None:
    """Write the golden anew."""
    rows = [COLUMNS, *(row for group in (*GROUPS, "lists") for row in rows_of(group))]
    GOLDEN.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()

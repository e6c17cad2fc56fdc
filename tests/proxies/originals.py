"""Originals that have proxies, of every kind that is hard; and folders and catalogs of them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import framefeed as ff
from framefeed.catalog import read_proxy_table
from framefeed.testing import ClipSpec, clip_bytes, draw_stamp, put_packets, take_packets
from tests.corpus import clip_file, write_once
from tests.corpus_folder import corpus_folder

FRAMES = 24
SIDE = 96
"""Short side of the proxies."""
LEAST_DB = 36.0
"""Of each frame, green, against the original that is scaled to the proxy's size: the mean of luma is 38 or more."""

PLAIN = ClipSpec(
    num_frames=FRAMES, height=240, width=320, gop=12, b_frames=0, codec_options={"crf": "2", "preset": "ultrafast"}
)
TIMES = tuple(40 * number + 13 * (number % 3) for number in range(FRAMES))
"""Milliseconds."""
SPECS: Mapping[str, ClipSpec] = {
    "plain.mp4": PLAIN,
    "b_frames.mp4": replace(PLAIN, b_frames=2, codec_options={"crf": "2", "preset": "veryfast"}),
    "variable.mp4": replace(PLAIN, pts=TIMES, time_base=Fraction(1, 1000)),
    "turned.mp4": replace(PLAIN, rotation=90),
    "mirrored.mp4": replace(PLAIN, rotation=270, mirrored=True),
    "odd.mkv": replace(PLAIN, height=241, width=323, pixel_format="yuv444p"),
    "ten_bits.mp4": replace(PLAIN, pixel_format="yuv420p10le"),
    "late.mp4": replace(PLAIN, start_seconds=8.333),
}
_TICKS = 12800
"""Units of a second in MP4 files of 25 frames a second."""
CUT = 5
"""Frames that the edit list cuts away."""


def original(name: str) -> Path:
    """Path of an original; other tests share it: do not change it."""
    if name in SPECS:
        return clip_file(f"original_{name}", SPECS[name])
    writers = {
        "edited.mp4": _write_edited,
        "no_times.h264": lambda path: path.write_bytes(clip_bytes(PLAIN, "h264")),
        "still.jpg": lambda path: path.write_bytes(still_bytes("JPEG", quality=97)),
        "turned.jpg": lambda path: path.write_bytes(still_bytes("JPEG", quality=97, orientation=5)),
        "still.png": lambda path: path.write_bytes(still_bytes("PNG")),
        "alpha.png": lambda path: path.write_bytes(still_bytes("PNG", mode="RGBA")),
    }
    return write_once(corpus_folder() / f"original_{name}", writers[name])


HARD = (*SPECS, "edited.mp4", "no_times.h264", "still.jpg", "turned.jpg", "still.png")


def _write_edited(path: Path) -> None:
    media = clip_bytes(PLAIN, "mp4")
    packets, time_base = take_packets(media)
    cut = CUT * _TICKS // 25
    moved = [replace(each, pts=(each.pts or 0) - cut, dts=(each.dts or 0) - cut) for each in packets]
    put_packets(path, media, moved, time_base)


def still_bytes(kind: str, *, mode: str = "RGB", orientation: int = 1, number: int = 7, **options: Any) -> bytes:
    """A picture of 240 x 320 as stored, of which the stamp is upright where there is no orientation."""
    picture = Image.fromarray(draw_stamp(number, 240, 320)).convert(mode)
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    picture.save(file, kind, **options, **({"exif": exif} if orientation != 1 else {}))
    return file.getvalue()


def fill(folder: Path, names: Iterable[str]) -> Path:
    """Copy originals into a folder, under their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(original(name).read_bytes())
    return folder


def scan(folder: Any, **options: Any) -> ff.Catalog:
    """Scan files without warnings of those that fail."""
    return ff.scan(folder, **{"workers": 0, "progress": False, **options})


def make(catalog: ff.Catalog, out: Path, **options: Any) -> ff.Catalog:
    """Make proxies in this thread."""
    return ff.make_proxies(catalog, out, **{"short_side": SIDE, "workers": 0, "progress": False, **options})


def rows_of(out: Path) -> dict[str, dict[str, Any]]:
    """The table of a folder of proxies, by the names of the originals."""
    rows = read_proxy_table(str(out)).rows.to_pylist()
    return {Path(row["original"]).name: row for row in rows}


def reason_of(out: Path, name: str) -> str:
    """Why an original stays itself."""
    row = rows_of(out)[name]
    assert (row["proxy"], row["proxy_bytes"], row["numbers"], row["row"]) == (None,) * 4
    return str(row["reason"])


def files_in(out: Path) -> set[str]:
    """Names of all files in a folder, but for the lock."""
    return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()} - {".proxies.lock"}


@cache
def stamps_of(name: str) -> list[int]:
    """Numbers that the frames of an original show."""
    return list(range(CUT, FRAMES)) if name == "edited.mp4" else list(range(FRAMES))


def measure_db(right: Any, own: Any) -> float:
    """Peak signal-to-noise ratio of two pictures, in dB."""
    error = float(np.mean((right.astype(np.float64) - own) ** 2))
    return 99.0 if not error else float(10 * np.log10(255**2 / error))

"""Every route has one verdict on a damaged picture: alone, in a sequence, packed, cached, reduced, and when scanned."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import framefeed as ff
from framefeed.cache import FrameCache
from tests.lengths import sampled
from tests.packed import pack
from tests.pictures.made import picture, saved, segment

WIDTH, HEIGHT = 400, 320
SMALL = (40, 50)
JPEGS: dict[str, dict[str, Any]] = {
    "baseline": {},
    "progressive": {"progressive": True},
    "restarts": {"restart_marker_rows": 1},
    "grey": {},
    "CMYK": {},
}
OTHERS = {"png": "PNG", "gif": "GIF", "webp": "WEBP", "tif": "TIFF", "bmp": "BMP"}
END = b"\xff\xd9"


@cache
def sound(kind: str) -> bytes:
    """A picture that is hard to compress."""
    noise = np.random.default_rng(1).integers(0, 255, (HEIGHT // 16, WIDTH // 16, 3), dtype=np.uint8)
    image = Image.fromarray(np.kron(noise, np.ones((16, 16, 1), np.uint8)))
    if kind in OTHERS:
        return saved(image, OTHERS[kind])
    mode = {"grey": "L", "CMYK": "CMYK"}.get(kind, "RGB")
    return saved(image.convert(mode), "JPEG", quality=90, **JPEGS[kind])


def with_height(jpeg: bytes, height: int) -> bytes:
    at = next(at for at in (jpeg.find(b"\xff\xc0"), jpeg.find(b"\xff\xc2")) if at > 0) + 5
    return jpeg[:at] + struct.pack(">H", height) + jpeg[at + 2 :]


def damage_jpeg(kind: str) -> Iterator[tuple[str, bytes]]:
    """What decoders take for a picture, and which is none of these pixels or not all of them."""
    jpeg, half = sound(kind), len(sound(kind)) // 2
    yield "half and an end", jpeg[:half] + END
    yield "twice the rows", with_height(jpeg, 2 * HEIGHT)
    yield "half the rows", with_height(jpeg, HEIGHT // 2)
    yield "zeros", jpeg[:half] + bytes(64) + jpeg[half + 64 :]
    yield "500 bytes are missing", jpeg[:half] + jpeg[half + 500 :]


def with_other_checksum(png: bytes) -> bytes:
    """Change the checksum of the pixels, as a flipped bit that deflate does not notice would."""
    at = png.index(b"IDAT") - 4
    stop = at + 8 + struct.unpack_from(">I", png, at)[0]
    return png[:stop] + bytes([png[stop] ^ 1]) + png[stop + 1 :]


DAMAGED = {f"{kind}, {what}": data for kind in JPEGS for what, data in damage_jpeg(kind)}
DAMAGED["png, another checksum"] = with_other_checksum(sound("png"))
CUT = {f"{kind}, {name}": sound(kind)[: len(sound(kind)) * tenths // 10]
       for kind in (*JPEGS, *OTHERS) for name, tenths in (("half", 5), ("nine tenths", 9))}  # fmt: skip
CUT |= {f"{kind}, without an end": sound(kind)[:-2] for kind in JPEGS}


def _kind(name: str) -> str:
    return name.partition(",")[0]


def suffix(name: str) -> str:
    kind = name.partition(",")[0]
    return kind if kind in OTHERS else "jpg"


def judge_call(call: Any) -> str:
    try:
        call()
    except ff.FramefeedError as error:
        return type(error).__name__
    return "a picture"


def decode(source: Any, **options: Any) -> Any:
    with ff.VideoDecoder(source, **options) as decoder:
        return decoder[0]


def load(catalog: ff.Catalog, cache: FrameCache | None = None, **options: Any) -> ff.ClipBatch:
    """Load the picture of a catalog."""
    with warnings.catch_warnings(action="ignore"):
        plan = ff.plan_clips(catalog, ff.Uniform(1), seed=0, **options)
    with ff.ClipLoader(plan, batch_size=1, workers=0, on_error="skip", cache=cache) as loader:
        return next(iter(loader))


def judge_catalog(catalog: ff.Catalog, cache: FrameCache | None = None, **options: Any) -> str:
    """The error of a row or, if it has none, of its clip."""
    if catalog.error(0):
        return str(catalog.table["error_type"][0].as_py())
    batch = load(catalog, cache, **options)
    if batch.errors[0] is None:
        return "a picture"
    assert not np.asarray(batch.data[0]).any()
    return type(batch.errors[0]).__name__


def judge_stored(catalog: ff.Catalog, folder: Path) -> str:
    """Load twice with a cache, which stores no damaged picture."""
    with FrameCache(folder, memory_bytes=2**24) as cache:
        verdict, again = (judge_catalog(catalog, cache) for _ in range(2))
    assert verdict == again
    with FrameCache(folder) as cache:
        assert cache.verify().num_frames == (verdict == "a picture")
    return verdict


def judge(folder: Path, name: str, data: bytes) -> dict[str, str]:
    """The verdict of each route."""
    path = folder / f"sole.{suffix(name)}"
    path.write_bytes(data)
    (folder / "sequence").mkdir()
    (folder / "sequence" / path.name).write_bytes(data)
    (folder / "a.tar").write_bytes(pack([(path.name, data)]))
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr(path.name, data)
    pq.write_table(pa.table({"image": [{"bytes": data, "path": path.name}]}), folder / "a.parquet")
    header = ff.scan(path)
    verdicts = {
        "path": judge_call(lambda: decode(path)),
        "bytes": judge_call(lambda: decode(data)),
        "sequence": judge_call(lambda: decode(ff.ImageSequence(folder / "sequence", fps=1))),
        "full size": judge_catalog(header),
        "resized": judge_catalog(header, size=SMALL, still_quality="exact"),
        "reduced": judge_catalog(header, size=SMALL),
        "cropped": judge_catalog(header, size=SMALL, crop=ff.CenterCrop(80, 100)),
        "stored": judge_stored(header, folder / "cache"),
    }
    full = ff.scan(path, verify="full")
    verdicts["scanned in full"] = judge_catalog(full, size=SMALL)
    verdicts |= {each: judge_catalog(ff.scan(folder / each)) for each in ("a.tar", "a.zip", "a.parquet")}
    return verdicts


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled([*DAMAGED], _kind, step=2))
def test_I05_what_a_library_decodes_with_a_warning_is_damaged_by_every_route(name: str, tmp_path: Path) -> None:
    assert set(judge(tmp_path, name, DAMAGED[name]).values()) == {"CorruptMedia"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled([*CUT], _kind, step=2))
def test_I05_a_cut_picture_has_one_verdict(name: str, tmp_path: Path) -> None:
    verdicts = judge(tmp_path, name, CUT[name])
    assert len(set(verdicts.values())) == 1, verdicts


@pytest.mark.slow
@pytest.mark.parametrize("name", [*JPEGS, *OTHERS])
def test_a_sound_picture_is_one_by_every_route(name: str, tmp_path: Path) -> None:
    assert set(judge(tmp_path, name, sound(name)).values()) == {"a picture"}


# --- known to be damaged ----------------------------------------------------------------------------

TAKEN = {name: DAMAGED[name] for name in ("baseline, zeros", "CMYK, half and an end", "png, another checksum")}


def by_pillow(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("name", TAKEN)
def test_D01_a_full_scan_lists_a_damaged_picture_and_on_damaged_decides(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"sole.{suffix(name)}"
    path.write_bytes(DAMAGED[name])
    ff.scan(path, verify="full", out=tmp_path / "c.parquet")
    catalog = ff.Catalog.open(tmp_path / "c.parquet")
    assert not catalog.error(0)
    assert catalog.table["num_damaged_frames"].to_pylist() == [1]
    assert "1 rows, 0 failed, 1 with damaged frames" in repr(catalog)
    assert len(catalog.filter(num_damaged_frames=0)) == 0  # as messages say
    for index in (catalog.frame_index(0), ff.build_index(path, verify="full")):
        assert index.damaged_frame_indices.tolist() == [0]
    skipped, delivered = (load(catalog, on_damaged=each) for each in ("skip", "deliver"))
    assert skipped.errors == delivered.errors == [None]
    assert (skipped.valid.item(), delivered.valid.item()) == (False, True)
    assert not skipped.data.any()
    assert np.array_equal(delivered.data[0, 0].transpose(1, 2, 0), by_pillow(DAMAGED[name]))
    with pytest.raises(ff.CorruptMedia, match="on_damaged='skip'") as caught:
        decode(path, frame_index=catalog.frame_index(0))
    assert caught.value.frames == (0,)


def test_D01_a_header_scan_knows_of_no_damage(tmp_path: Path) -> None:
    (tmp_path / "sole.jpg").write_bytes(DAMAGED["baseline, zeros"])
    catalog = ff.scan(tmp_path)
    assert catalog.table["num_damaged_frames"].to_pylist() == [None]
    error = load(catalog).errors[0]
    assert isinstance(error, ff.CorruptMedia)
    assert error.frames == (0,)
    assert "verify='full'" in str(error)


def test_D01_damaged_pictures_of_a_sequence_keep_their_numbers(tmp_path: Path) -> None:
    damaged, cut = DAMAGED["baseline, zeros"], CUT["baseline, half"]
    for number, data in enumerate((sound("baseline"), damaged, cut, sound("baseline"), damaged)):
        (tmp_path / f"{number}.jpg").write_bytes(data)
    index = ff.build_index(ff.ImageSequence(tmp_path, fps=1), verify="full")
    assert index.frame_packet.tolist() == [0, 1, 3, 4]  # of a cut one nothing is left
    assert index.damaged_frame_indices.tolist() == [1, 3]


# --- odd and sound ----------------------------------------------------------------------------------


def odd_jpegs() -> Iterator[tuple[str, bytes]]:
    jpeg = sound("baseline")
    table, scan = jpeg.index(b"\xff\xdb"), jpeg.index(b"\xff\xda")
    yield "bytes behind the end", jpeg + b"appended" * 50
    yield "junk in the header", jpeg[:table] + b"junk" + jpeg[table:]
    yield "junk before the tables of the pixels", jpeg[:scan] + bytes(300) + jpeg[scan:]
    yield "fill bytes", jpeg[:table] + b"\xff" * 5 + jpeg[table:]
    yield "zeros up to a multiple of 16", jpeg[:-2] + bytes(15) + END
    yield "a scan of coefficients 0 to 0", jpeg[: scan + 11] + bytes(3) + jpeg[scan + 14 :]
    yield "another revision of JFIF", jpeg[:11] + b"\x09" + jpeg[12:]
    profile = b"ICC_PROFILE\0\x02\x01" + bytes(100)
    yield "one part of a profile", jpeg[:2] + segment(0xFFE2, profile) + jpeg[2:]
    yield "optimised", saved(picture("RGB", 133, 117), "JPEG", optimize=True)
    yield "restarts", saved(picture("RGB", 133, 117), "JPEG", restart_marker_blocks=1)
    for subsampling in (0, 1, 2, "4:1:1"):
        yield f"subsampling {subsampling}", saved(picture("RGB", 133, 117), "JPEG", subsampling=subsampling)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "data"), [pytest.param(*each, id=each[0]) for each in odd_jpegs()])
def test_an_odd_picture_whose_pixels_are_all_there_is_sound(name: str, data: bytes, tmp_path: Path) -> None:
    assert set(judge(tmp_path, name, data).values()) == {"a picture"}
    assert np.array_equal(decode(data).transpose(1, 2, 0), by_pillow(data))


@pytest.mark.parametrize("name", ["junk in the header", "a scan of coefficients 0 to 0", "one part of a profile"])
def test_I05_an_oddity_hides_no_damage(name: str, tmp_path: Path) -> None:
    odd = dict(odd_jpegs())[name]
    at = len(odd) * 3 // 4
    damaged = odd[:at] + odd[at + 500 :]
    assert set(judge(tmp_path, name, damaged).values()) == {"CorruptMedia"}


@pytest.mark.parametrize("left", [bytes(40), bytes(range(1, 15))])
def test_I05_what_is_left_before_the_end_is_damage_unless_it_is_padding(left: bytes, tmp_path: Path) -> None:
    damaged = sound("baseline")[:-2] + left + END
    assert set(judge(tmp_path, "jpg", damaged).values()) == {"CorruptMedia"}


# --- Motion JPEG, which libav decodes ----------------------------------------------------------------

MOTION = [name for name in DAMAGED if name.startswith(("baseline", "restarts")) and "half the rows" not in name]


def write_motion(path: Path, pictures: list[bytes]) -> Path:
    """Write JPEGs as they are to a video of 10 frames a second."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=10)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuvj420p"
        for number, data in enumerate(pictures):
            packet = av.Packet(data)
            packet.stream, packet.time_base, packet.is_keyframe = stream, Fraction(1, 10), True
            packet.pts = packet.dts = number
            container.mux(packet)
    return path


@pytest.mark.parametrize("name", MOTION)
def test_D01_a_damaged_picture_of_a_video_is_a_damaged_frame(name: str, tmp_path: Path) -> None:
    good = sound(name.partition(",")[0])
    path = write_motion(tmp_path / "a.mkv", [good, good, DAMAGED[name], good])
    assert ff.build_index(path, verify="full").damaged_frame_indices.tolist() == [2]
    with ff.VideoDecoder(path) as decoder:
        assert [judge_call(lambda number=number: decoder[number]) for number in range(4)] == [
            "a picture", "a picture", "CorruptMedia", "a picture"
        ]  # fmt: skip

"""HEIC and JPEG XL: the pixels of Pillow's plug-ins, turned once, within the limits; without them, the extra's name."""

from __future__ import annotations

import io
import random
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from framefeed._values import DEFAULT_LIMITS, Limits
from framefeed.catalog import Catalog
from framefeed.decode import VideoDecoder, find_decoder
from framefeed.errors import (
    CorruptMedia,
    LimitExceeded,
    MediaError,
    MissingDependency,
    UnreadableMedia,
    UnsupportedCodec,
)
from framefeed.index import MP4_FORMAT_NAME, build_index, probe
from framefeed.load import ClipLoader
from framefeed.media import ImageSequence
from framefeed.pictures import _plug_ins
from framefeed.pictures._pillow import decode_still
from framefeed.plan import Uniform, plan_clips
from framefeed.scanning import scan
from tests.media.pictures import noise
from tests.pictures.made import exif, saved

HEIF, JXL = "pillow_heif", "pillow_jxl"
BLOCKS = Image.fromarray(np.kron(noise(10, 16), np.ones((20, 20, 1), np.uint8)))
"""200 rows of 320 columns that a lossy coder keeps."""
ORIENTATIONS = range(1, 9)


def heic(image: Image.Image = BLOCKS, **options: Any) -> bytes:
    pytest.importorskip(HEIF).register_heif_opener(decode_threads=1)
    # Its encoder waits for its own threads most of the time.
    quick = {"preset": "ultrafast", "x265:pools": "none"}
    return saved(image, "HEIF", **{"quality": 90, "chroma": 444, "enc_params": quick, **options})


def tiled(image: Image.Image = BLOCKS, **options: Any) -> bytes:
    data = heic(image, tile_size=128, **options)
    assert b"grid" in data
    return data


def jxl(image: Image.Image = BLOCKS, **options: Any) -> bytes:
    pytest.importorskip(JXL)
    return saved(image, "JXL", **{"lossless": True, "effort": 1, **options})


def packed_jpeg(folder: Path, orientation: int) -> bytes:
    """A JPEG of that orientation, packed into a JPEG XL without loss."""
    BLOCKS.save(folder / "a.jpg", exif=b"Exif\0\0" + exif(orientation))
    with Image.open(folder / "a.jpg") as image:
        return jxl(image, lossless_jpeg=True)


def read_alone(data: bytes, *, turned: bool = False) -> np.ndarray:
    """The RGB picture that Pillow and the plug-in give by themselves."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray((ImageOps.exif_transpose(image) if turned else image).convert("RGB"))


def read(data: bytes) -> np.ndarray:
    with VideoDecoder(data) as video:
        (picture,) = list(video)
    return np.asarray(picture).transpose(1, 2, 0)


def assert_described(data: bytes) -> None:
    """The size that is claimed is that of the picture."""
    info = probe(data)
    assert info.kind == "image"
    assert (info.height, info.width) == read(data).shape[:2]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if neither plug-in were installed."""
    monkeypatch.setattr(_plug_ins, "_registered", set())
    for name in (HEIF, JXL):
        monkeypatch.setitem(sys.modules, name, None)


# --- pixels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_I08_heic_of_tiles_is_the_plug_ins_picture(mode: str, orientation: int) -> None:
    data = tiled(BLOCKS.convert(mode), exif=exif(orientation))
    np.testing.assert_array_equal(read(data), read_alone(data))
    assert_described(data)
    assert (read(data).shape[0] > 200) == (orientation > 4)


def test_heic_with_a_crop_is_the_plug_ins_picture() -> None:
    data = heic(BLOCKS.crop((0, 0, 119, 77)), chroma=420)
    assert b"clap" in data
    assert read(data).shape == (77, 119, 3)
    np.testing.assert_array_equal(read(data), read_alone(data))
    assert_described(data)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_I08_heic_in_one_tile_is_libavs_picture(mode: str, orientation: int, request: pytest.FixtureRequest) -> None:
    data = heic(BLOCKS.convert(mode), exif=exif(orientation))
    expected = read_alone(data)
    if b"imir" in data:  # which libav ignores
        np.testing.assert_array_equal(read(data), expected)
        return
    request.getfixturevalue("without")
    assert np.abs(read(data).astype(np.int64) - expected).max() <= 3
    index = build_index(data)
    assert (index.stream.container, len(index), index.pts.tolist(), index.duration.tolist()) == (
        MP4_FORMAT_NAME, 1, [0], [0],
    )  # fmt: skip
    assert_described(data)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA"])
@pytest.mark.parametrize("container", [False, True])
def test_I08_jpeg_xl_is_the_plug_ins_picture(mode: str, container: bool) -> None:
    data = jxl(BLOCKS.convert(mode), use_container=container)
    np.testing.assert_array_equal(read(data), read_alone(data))
    assert_described(data)


def test_jpeg_xl_of_16_bits_is_scaled_as_png_is() -> None:
    grey = Image.fromarray(np.arange(0, 65536, 128, dtype=np.uint16).reshape(16, 32))
    np.testing.assert_array_equal(read(jxl(grey)), read(saved(grey, "PNG")))


def test_jpeg_xl_of_floats_is_refused_as_tiff_is(tmp_path: Path) -> None:
    (tmp_path / "a.jxl").write_bytes(jxl(BLOCKS.convert("L").convert("F")))
    assert [kind for _, kind, _ in scan(tmp_path, depth="header", workers=0).failures] == ["UnsupportedCodec"]
    with pytest.raises(UnsupportedCodec, match="converted to RGB"):
        read((tmp_path / "a.jxl").read_bytes())


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_I08_the_orientation_of_a_jpeg_xl_is_applied_once(orientation: int, tmp_path: Path) -> None:
    packed = packed_jpeg(tmp_path, orientation)
    # Without the data that rebuild the JPEG, libjxl turns the picture itself.
    unpacked = packed.replace(b"jbrd", b"free")
    expected = read_alone(packed, turned=True)
    assert expected.shape == ((320, 200, 3) if orientation > 4 else (200, 320, 3))
    np.testing.assert_array_equal(read(packed), expected)
    np.testing.assert_array_equal(read(unpacked), read_alone(unpacked))
    assert np.abs(read(unpacked).astype(np.int64) - expected).max() < 30
    for data in (packed, unpacked):
        assert_described(data)
        assert probe(data).coded_width == 320


def test_exif_beside_a_jpeg_xl_turns_nothing() -> None:
    data = jxl(exif=exif(6), use_container=True)
    with Image.open(io.BytesIO(data)) as image:
        assert image.getexif()[0x112] == 6
    assert read(data).shape == (200, 320, 3)
    assert_described(data)


@given(st.integers(1, 70), st.integers(1, 70), st.integers(0, 3), st.booleans())
def test_sizes_of_jpeg_xl(width: int, height: int, scale: int, container: bool) -> None:
    width, height = width * 4**scale, height * 4**scale // (40 if scale == 3 else 1) or 1
    data = jxl(Image.new("L", (width, height)), use_container=container)
    info = probe(data)
    assert (info.width, info.height) == (width, height)


@pytest.mark.parametrize("size", [(48, 40), (64, 48), (60, 40), (160, 90), (50, 40), (80, 40), (2049, 1), (777, 9000)])
def test_ratios_and_long_sides_of_jpeg_xl(size: tuple[int, int]) -> None:
    info = probe(jxl(Image.new("L", size)))
    assert (info.width, info.height) == size


# --- catalogs, recipes ------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = {"one.heic": heic(), "tiled.heic": tiled(), "a.jxl": jxl(), "b.png": saved(BLOCKS, "PNG")}
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def plan_pictures(catalog: Catalog) -> Any:
    return plan_clips(catalog, Uniform(1), seed=0, size=(32, 48))


def test_catalogs_of_both_depths(folder: Path) -> None:
    frames, headers = scan(folder, workers=0), scan(folder, depth="header", workers=0)
    assert (frames.failures, headers.failures) == ([], [])
    for name in ("kind", "num_frames", "container", "width", "height", "rotation", "fingerprint", "pixel_format"):
        assert frames.table[name].equals(headers.table[name])
    assert len(plan_pictures(frames)) == 4
    with pytest.warns(UserWarning, match=r"1 of 4 rows .*with_frame_indexes"):
        plan = plan_pictures(headers)
    assert [Path(source).name for source, _ in plan.excluded] == ["one.heic"]
    assert headers[2].frame_index is None
    batches = [
        {name: clip.copy() for batch in ClipLoader(each, batch_size=2, workers=0)
         for name, clip in zip(batch.sources, batch.data, strict=True)}
        for each in (plan, plan_pictures(frames.filter(kind="image")))
    ]  # fmt: skip
    for name, clip in batches[0].items():
        np.testing.assert_array_equal(clip, batches[1][name])
    assert frames.verify(workers=0).ok
    assert headers.verify(workers=0).ok


def test_folders_of_such_pictures_are_videos(tmp_path: Path) -> None:
    turned = BLOCKS.transpose(Image.Transpose.ROTATE_180)
    made = {"0.heic": heic(), "1.heic": tiled(turned), "2.jxl": jxl()}
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    with VideoDecoder(ImageSequence(tmp_path, fps=5)) as video:
        for picture, data in zip(video, made.values(), strict=True):
            np.testing.assert_array_equal(np.asarray(picture).transpose(1, 2, 0), read_alone(data))
        recipe = find_decoder().recipe(video.frame_index)
    assert "pillow-heif 1." in recipe
    assert "pillow-jxl-plugin 1." in recipe


def test_recipes_name_the_plug_in(folder: Path) -> None:
    recipes = {
        name: find_decoder().recipe(build_index(folder / name)) for name in ("one.heic", "tiled.heic", "a.jxl", "b.png")
    }
    assert [name for name, recipe in recipes.items() if "pillow-heif 1." in recipe] == ["tiled.heic"]
    assert [name for name, recipe in recipes.items() if "pillow-jxl-plugin 1." in recipe] == ["a.jxl"]


# --- without them -----------------------------------------------------------------------------------


def test_I08_without_the_plug_ins_the_extra_is_named(folder: Path, request: pytest.FixtureRequest) -> None:
    headers = scan(folder, depth="header", workers=0).take([0, 3])
    plan = plan_pictures(headers)
    request.getfixturevalue("without")
    out = folder.parent / "cat.parquet"
    for depth in ("header", "frames"):
        failures = scan(folder, depth=depth, out=out, workers=0).failures
        assert [(Path(name).name, kind) for name, kind, _ in failures] == [
            ("a.jxl", "MissingDependency"), ("tiled.heic", "MissingDependency"),
        ]  # fmt: skip
        assert all("pip install 'framefeed[stills]'" in message for *_, message in failures)
    for name in ("a.jxl", "tiled.heic"):
        for ask in (probe, build_index, VideoDecoder):
            with pytest.raises(MissingDependency, match=r"framefeed\[stills\]"):
                ask(folder / name)
    for on_error in ("raise", "skip"):  # A missing package is no fault of a file, which is skipped.
        loader = ClipLoader(plan, batch_size=2, workers=0, on_error=on_error)
        with loader, pytest.raises(MissingDependency, match=r"\[stills\]"):
            list(loader)
    request.getfixturevalue("monkeypatch").undo()
    assert scan(folder, out=out, workers=0).failures == [], "tried again where the plug-ins are installed"


def test_plug_ins_are_imported_when_such_a_file_is_met(folder: Path) -> None:
    program = f"""if True:
        import sys
        from PIL import Image
        import framefeed as ff
        def seen():
            return [name for name in ("{HEIF}", "{JXL}") if name in sys.modules]
        Image.init()
        for name in ("b.png", "one.heic", "a.jxl", "tiled.heic"):
            ff.VideoDecoder("{folder}/" + name)[0]
            print(name, *seen(), "HEIF" in Image.OPEN)"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert run.stdout.splitlines() == [
        "b.png False", "one.heic False", f"a.jxl {JXL} False", f"tiled.heic {HEIF} {JXL} True",
    ]  # fmt: skip


# --- limits and damage ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [tiled, jxl, heic])
def test_S04_limits_hold_before_a_plug_in_decodes(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make()
    if make is jxl:
        monkeypatch.setattr(f"{JXL}.JpegXLImagePlugin.Decoder", None)
    if make is tiled:
        monkeypatch.setattr(f"{HEIF}.HeifImageFile.load", None)
    for limits in (Limits(max_pixels=200 * 319), Limits(max_side=319)):
        with pytest.raises(LimitExceeded, match="320x200"):
            probe(data, limits=limits)
        if make is not heic:
            with pytest.raises(LimitExceeded, match="320x200"):
                decode_still(data, "picture", limits)


def test_S04_jpeg_xl_of_many_channels_is_refused() -> None:
    pytest.importorskip(JXL)
    # 8 x 8, not the defaults, 8 bits, 2 + 15 extra channels.
    bits = "1" + f"{0:05b}" + "100" + "0" + "0" + "0" + "00" + "0" + "01" + "1111"
    value = sum(int(bit) << place for place, bit in enumerate(bits))
    data = b"\xff\x0a" + value.to_bytes(40, "little")
    with pytest.raises(UnreadableMedia, match="17 extra channels"):
        probe(data)
    with pytest.raises(CorruptMedia, match="17 extra channels"):
        decode_still(data, "picture", DEFAULT_LIMITS)


def find_error(ask: Any, data: bytes) -> MediaError | None:
    """Let every other error through."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ask(data)
    except MediaError as error:
        return error
    return None


@pytest.mark.parametrize("make", [tiled, jxl, heic, partial(jxl, use_container=True)], ids=["t", "j", "h", "c"])
def test_I08_damage_is_a_typed_error(make: Any) -> None:
    data, rng = make(), random.Random(0)
    damaged = [data[: len(data) * part // 30] for part in range(30)]
    for _ in range(60):
        mutant = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            mutant[rng.randrange(12, min(len(mutant), 700))] = rng.randrange(256)
        damaged.append(bytes(mutant))
    errors = [error for each in damaged for ask in (probe, read) if (error := find_error(ask, each)) is not None]
    assert errors
    assert [str(error) for error in errors if len(str(error).splitlines()) > 1] == []


def test_a_container_without_a_codestream(tmp_path: Path) -> None:
    pytest.importorskip(JXL)
    box = b"\0\0\0\x0cJXL \r\n\x87\n"
    for data in (box, box + b"\0\0\0\x08free" * 9, box + bytes(60), box + b"\0\0\0\x01free" + b"\xff" * 8, b"\xff\x0a"):
        with pytest.raises(UnreadableMedia, match="damaged picture header"):
            probe(data)
        with pytest.raises(CorruptMedia):
            decode_still(data, "picture", DEFAULT_LIMITS)

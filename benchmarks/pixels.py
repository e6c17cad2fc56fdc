"""Which pixels framefeed and other libraries give for the same files: the tables of docs/pixels.md.

    python -m benchmarks.pixels [--measure]     (in the project's folder)

It fills the page from benchmarks/results/pixels-2026-11-23.json. With --measure it first decodes files that it makes
with each library that is installed, and writes that file anew: pip install -c constraints.txt decord2 torchcodec
opencv-python-headless
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.frame import VideoFrame
from PIL import ExifTags, Image

import framefeed as ff
from benchmarks.figures import fill, fill_routes, make_table
from benchmarks.reading import RESULTS
from framefeed.testing import ClipSpec, write_clip

PAGE = Path(__file__).resolve().parent.parent / "docs" / "pixels.md"
MEASURED = RESULTS / "pixels-2026-11-23.json"
PACKAGES = {"framefeed": "framefeed", "PyAV": "av", "TorchCodec": "torchcodec", "decord2": "decord2",
            "OpenCV": "opencv-python-headless", "Pillow": "pillow"}  # fmt: skip
FRAME = 2
SMALL = (180, 320)
NOTHING = "-"

# Codes of ITU-T H.273: matrix, range (1 limited, 2 full), primaries, transfer.
BT601, BT709, BT709_FULL, BT2020, PQ = (5, 1, 5, 6), (1, 1, 1, 1), (1, 2, 1, 1), (9, 1, 9, 14), (9, 1, 9, 16)
RED = (120, 90, 190)
GREY_PQ = 64 + round(0.581 * 876)
"""Reference white of ITU-R BT.2408, 203 cd/m2, in 10 bits of limited range."""
COLOURS = {
    "BT.601, limited range": (RED, BT601, 8, 128),
    "BT.709, limited range": (RED, BT709, 8, 128),
    "BT.709, full range": (RED, BT709_FULL, 8, 128),
    "BT.2020, limited range": (RED, BT2020, 8, 128),
    "no tags, 128x128": (RED, None, 8, 128),
    "no tags, 1280x720": (RED, None, 8, 720),
    "10 bit, BT.709": ((481, 360, 760), BT709, 10, 128),
    "10 bit, BT.2020 and PQ (HDR10)": ((481, 360, 760), PQ, 10, 128),
    "the same, white of 203 cd/m2": ((GREY_PQ, 512, 512), PQ, 10, 128),
}


# --- files -----------------------------------------------------------------------------------------


def write_flat(path: str, colour: Sequence[int], tags: Sequence[int] | None, bits: int, height: int) -> None:
    """Write a video of one colour without loss, with tags or without."""
    width = height if height < 720 else 1280
    kind, form = (np.uint8, "yuv420p") if bits == 8 else (np.uint16, "yuv420p10le")
    codec = "libx264" if bits == 8 else "libx265"
    options = {"qp": "0"} if bits == 8 else {"x265-params": "lossless=1:log-level=none"}
    with av.open(path, "w") as container:
        stream = container.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, form
        context = stream.codec_context
        if tags is not None:
            context.colorspace, context.color_range, context.color_primaries, context.color_trc = tags
        for number in range(FRAME + 6):
            frame = VideoFrame(width, height, form)
            for plane, value in zip(frame.planes, colour, strict=True):
                plane.update(np.full(plane.buffer_size // kind().itemsize, value, kind))
            frame.pts = number
            if tags is not None:
                frame.colorspace, frame.color_range = tags[:2]
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def draw_clouds(height: int = 720, width: int = 1280) -> Any:
    """Noise with the spectrum of natural pictures, 1 / f; colours vary less than brightness."""
    chance = np.random.Generator(np.random.Philox(key=3))
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = np.inf
    layers = [
        np.fft.irfft2(np.exp(2j * np.pi * chance.random(frequency.shape)) / frequency, (height, width))
        for _ in range(4)
    ]
    light, *tints = (layer / layer.std() for layer in layers)
    return np.clip(np.stack([120 + 45 * light + 12 * tint for tint in tints], axis=2), 0, 255).astype(np.uint8)


def draw_rings(height: int = 720, width: int = 1280) -> Any:
    """Saturated rings, finer than the chroma of 4:2:0."""
    rows, columns = np.mgrid[0:height, 0:width]
    rings = 128 + 100 * np.sin(((rows - height / 2) ** 2 + (columns - width / 2) ** 2) / 1500)
    return np.stack([rings, np.roll(rings, 40, 1), np.roll(rings, 80, 0)], axis=2).astype(np.uint8)


def write_still_video(path: str, picture: Any) -> None:
    """Write a video of one picture, nearly without loss, in 4:2:0 and tagged as BT.709."""
    frame = VideoFrame.from_ndarray(picture, format="rgb24")
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"qp": "4", "preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = frame.width, frame.height, "yuv420p"
        context = stream.codec_context
        context.colorspace, context.color_range, context.color_primaries, context.color_trc = BT709
        for number in range(FRAME + 6):
            converted = frame.reformat(format="yuv420p", dst_colorspace="ITU709")
            converted.pts = number
            container.mux(stream.encode(converted))
        container.mux(stream.encode(None))


def draw_boxes(height: int = 720, width: int = 1280) -> Any:
    """Boxes of random saturated colours, 21 pixels wide: half of their edges lie within a chroma sample."""
    chance = np.random.Generator(np.random.Philox(key=5))
    colours = chance.integers(0, 2, (height // 21 + 1, width // 21 + 1, 3), dtype=np.uint8) * 180 + 40
    return colours.repeat(21, 0).repeat(21, 1)[:height, :width]


def take_apart(picture: Any, bits: int) -> list[Any]:
    """Planes of 4:2:0 in BT.709 and limited range, by ITU-T H.273; chroma samples lie at the left (H.264's default)."""
    scale, (red, green, blue) = 2 ** (bits - 8), np.moveaxis(picture / 255, 2, 0)
    luma = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    planes = [16 + 219 * luma]
    for difference in ((blue - luma) / 1.8556, (red - luma) / 1.5748):
        pairs = np.pad((difference[::2] + difference[1::2]) / 2, ((0, 0), (1, 0)), "edge")
        planes.append(128 + 224 * (pairs[:, :-2:2] + 2 * pairs[:, 1:-1:2] + pairs[:, 2::2]) / 4)
    return [np.rint(plane * scale) for plane in planes]


def put_together(planes: Sequence[Any], bits: int) -> Any:
    """The inverse of `take_apart` by definition, with chroma interpolated linearly: RGB as floats, not rounded."""
    scale = 2 ** (bits - 8)
    luma, *tints = (planes[0] / scale - 16) / 219, *((plane / scale - 128) / 224 for plane in planes[1:])
    for number, tint in enumerate(tints):
        (height, width), left = tint.shape, np.arange(2 * tint.shape[1]) / 2
        rows = np.clip((np.arange(2 * height) - 0.5) / 2, 0, height - 1)
        high = (
            tint[np.floor(rows).astype(int)] * (1 - rows % 1)[:, None]
            + tint[np.ceil(rows).astype(int)] * (rows % 1)[:, None]
        )
        right = np.minimum(np.ceil(left).astype(int), width - 1)
        tints[number] = high[:, np.floor(left).astype(int)] * (1 - left % 1) + high[:, right] * (left % 1)
    red, blue = luma + 1.5748 * tints[1], luma + 1.8556 * tints[0]
    return np.clip(255 * np.stack([red, (luma - 0.2126 * red - 0.0722 * blue) / 0.7152, blue], axis=2), 0, 255)


def write_planes(path: str, planes: Sequence[Any], bits: int) -> None:
    """Write a video of one picture without loss, tagged as BT.709."""
    kind, form = (np.uint8, "yuv420p") if bits == 8 else (np.uint16, f"yuv420p{bits}le")
    with av.open(path, "w") as container:
        stream = container.add_stream("libx265", rate=25, options={"x265-params": "lossless=1:log-level=none"})
        stream.height, stream.width = planes[0].shape
        stream.pix_fmt, context = form, stream.codec_context
        context.colorspace, context.color_range, context.color_primaries, context.color_trc = BT709
        for number in range(FRAME + 1):
            frame = VideoFrame(stream.width, stream.height, form)
            for plane, values in zip(frame.planes, planes, strict=True):
                rows = np.zeros((plane.height, plane.line_size // kind().itemsize), kind)
                rows[:, : plane.width] = values
                plane.update(rows)
            frame.pts, (frame.colorspace, frame.color_range) = number, BT709[:2]
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def write_alpha(path: str) -> None:
    """Write a video of a red that is four fifths transparent."""
    picture = np.empty((64, 64, 4), np.uint8)
    picture[:] = (200, 30, 40, 51)
    with av.open(path, "w") as container:
        stream = container.add_stream("qtrle", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "argb"
        for number in range(FRAME + 6):
            frame = VideoFrame.from_ndarray(picture, format="rgba").reformat(format="argb")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def write_anamorphic(path: str) -> None:
    """Write a video whose pixels are wider than high."""
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = 720, 576, "yuv420p"
        stream.codec_context.sample_aspect_ratio = Fraction(16, 15)
        for number in range(FRAME + 6):
            frame = VideoFrame.from_ndarray(np.full((576, 720, 3), 90, np.uint8)).reformat(format="yuv420p")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


# --- libraries -------------------------------------------------------------------------------------


def read_framefeed(path: str, size: tuple[int, int] | None = None) -> Any:
    with ff.VideoDecoder(path, dimension_order="NHWC", size=size) as video:
        return video[min(FRAME, len(video) - 1)]


def read_pyav(path: str) -> Any:
    with av.open(path) as container:
        frames = list(container.decode(video=0))
    return frames[min(FRAME, len(frames) - 1)].to_ndarray(format="rgb24")


def read_torchcodec(path: str, size: tuple[int, int] | None = None) -> Any:
    from torchcodec.decoders import VideoDecoder
    from torchcodec.transforms import Resize

    transforms = [] if size is None else [Resize(size)]
    return VideoDecoder(path, dimension_order="NHWC", transforms=transforms)[FRAME].numpy()


def read_decord(path: str, size: tuple[int, int] | None = None) -> Any:
    import decord

    height, width = size or (-1, -1)
    return decord.VideoReader(path, width=width, height=height, num_threads=1)[FRAME].asnumpy()


def read_opencv(path: str) -> Any:
    import cv2

    capture = cv2.VideoCapture(path)
    for _ in range(FRAME):
        capture.grab()
    return capture.read()[1][..., ::-1]


def read_opencv_still(path: str) -> Any:
    import cv2

    return cv2.imread(path)[..., ::-1]


def read_pillow(path: str) -> Any:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


Read = Callable[[str], Any]
VIDEO: Mapping[str, Read] = {
    "framefeed": read_framefeed, "PyAV": read_pyav, "TorchCodec": read_torchcodec, "decord2": read_decord,
    "OpenCV": read_opencv,
}  # fmt: skip
STILL: Mapping[str, Read] = {"framefeed": read_framefeed, "Pillow": read_pillow, "OpenCV": read_opencv_still}


def take(read: Read, path: str) -> Any:
    """Read a picture; None if the library is not installed or refuses the file."""
    try:
        return read(path)
    except Exception as error:
        print(f"{path}: {read}: {type(error).__name__}: {str(error)[:100]}")
        return None


def show_colour(picture: Any) -> str:
    """The pixel in the middle."""
    return NOTHING if picture is None else " ".join(map(str, picture[len(picture) // 2, picture.shape[1] // 2]))


def show_size(picture: Any) -> str:
    return NOTHING if picture is None else "x".join(map(str, picture.shape[1::-1]))


# --- what is measured ------------------------------------------------------------------------------


def define_colour(colour: Sequence[int], tags: Sequence[int] | None, bits: int) -> str:
    """RGB of a colour by the definition of its matrix and range, without rounding on the way."""
    red, blue = {1: (0.2126, 0.0722), 5: (0.299, 0.114), 9: (0.2627, 0.0593)}[(tags or BT601)[0]]
    y, u, v = (value / 2 ** (bits - 8) for value in colour)
    is_full = tags is not None and tags[1] == 2
    luma = y / 255 if is_full else (y - 16) / 219
    u, v = ((each - 128) / (255 if is_full else 224) for each in (u, v))
    r, b = luma + 2 * (1 - red) * v, luma + 2 * (1 - blue) * u
    g = (luma - red * r - blue * b) / (1 - red - blue)
    return " ".join(str(min(255, max(0, round(255 * each)))) for each in (r, g, b))


def measure_colours(folder: str, libraries: Mapping[str, Read] = VIDEO) -> dict[str, dict[str, str]]:
    """The pixels of flat colours, by file and library."""
    rows = {}
    for number, (name, (colour, tags, bits, height)) in enumerate(COLOURS.items()):
        path = f"{folder}/{number}.mp4"
        write_flat(path, colour, tags, bits, height)
        rows[name] = {"by definition": define_colour(colour, tags, bits)} | {
            library: show_colour(take(read, path)) for library, read in libraries.items()
        }
    return rows


def measure_shapes(folder: str, libraries: Mapping[str, Read] = VIDEO) -> dict[str, dict[str, str]]:
    """Width and height of turned and of anamorphic videos, and the pixels of a transparent one."""
    turned, wide, alpha = (f"{folder}/{name}" for name in ("turned.mp4", "wide.mp4", "alpha.mov"))
    write_clip(turned, ClipSpec(num_frames=8, height=96, width=128, rotation=90))
    write_anamorphic(wide)
    write_alpha(alpha)
    return {
        "stored 128x96, to be turned by 90°": {name: show_size(take(read, turned)) for name, read in libraries.items()},
        "stored 720x576, pixels of 16:15": {name: show_size(take(read, wide)) for name, read in libraries.items()},
        "200 30 40 with an alpha of 20 %": {name: show_colour(take(read, alpha)) for name, read in libraries.items()},
    }


def measure_stills(folder: str, libraries: Mapping[str, Read] = STILL) -> dict[str, dict[str, str]]:
    """The same of pictures."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    turned, alpha, deep = (f"{folder}/{name}" for name in ("turned.jpg", "alpha.png", "deep.png"))
    Image.new("RGB", (128, 96), (200, 30, 40)).save(turned, exif=exif)
    Image.new("RGBA", (64, 64), (200, 30, 40, 51)).save(alpha)
    Image.fromarray(np.full((64, 64), 257 * 100, np.uint16)).save(deep)
    return {
        "JPEG, stored 128x96, EXIF: to be turned": {
            name: show_size(take(read, turned)) for name, read in libraries.items()
        },
        "PNG, 200 30 40 with an alpha of 20 %": {
            name: show_colour(take(read, alpha)) for name, read in libraries.items()
        },
        "PNG, grey of 16 bits, 25,700 of 65,535": {
            name: show_colour(take(read, deep)) for name, read in libraries.items()
        },
    }


def measure_resizing(folder: str) -> dict[str, dict[str, str]]:
    """How far whole pictures lie from framefeed's, and resized ones from a careful resize of what was encoded."""
    import cv2

    ways: Mapping[str, Read] = {
        "framefeed, `size=`": partial(read_framefeed, size=SMALL),
        "TorchCodec, `Resize`": partial(read_torchcodec, size=SMALL),
        "decord2, `width=, height=`": partial(read_decord, size=SMALL),
        "OpenCV, `INTER_LINEAR`, the default": lambda path: cv2.resize(read_opencv(path), SMALL[::-1]),
        "OpenCV, `INTER_AREA`": lambda path: cv2.resize(read_opencv(path), SMALL[::-1], interpolation=cv2.INTER_AREA),
    }
    rows: dict[str, dict[str, str]] = {}
    for title, picture in {"natural spectrum": draw_clouds(), "fine saturated colours": draw_rings()}.items():
        path = f"{folder}/{title}.mp4"
        write_still_video(path, picture)
        careful = np.asarray(Image.fromarray(picture).resize(SMALL[::-1], Image.Resampling.BILINEAR))
        for name, read in ways.items():
            rows.setdefault(name, {})[title] = f"{_measure_psnr(take(read, path), careful):.1f} dB"
        ours = read_framefeed(path)
        for name, read in VIDEO.items():
            other = take(read, path)
            if other is not None and not np.array_equal(other, ours):
                print(f"{title}: whole pictures of {name} differ: {_describe_difference(other, ours)}")
    return rows


def measure_chroma(folder: str, libraries: Mapping[str, Read] = VIDEO) -> dict[str, dict[str, str]]:
    """How far whole pictures of 4:2:0 lie from the picture that was encoded."""
    rows: dict[str, dict[str, str]] = {}
    pictures = {"natural spectrum": draw_clouds(), "fine colours": draw_rings(), "hard edges": draw_boxes()}
    for title, picture in pictures.items():
        for bits in (8, 10, 12):
            path, planes = f"{folder}/{title} {bits}.mp4", take_apart(picture, bits)
            write_planes(path, planes, bits)
            read = {name: take(read, path) for name, read in libraries.items()}
            for name, result in {"by definition, linear": put_together(planes, bits), **read}.items():
                shown = NOTHING if result is None else f"{_measure_psnr(result, picture):.1f}"
                rows.setdefault(f"{title}, {bits} bits", {})[name] = shown
            for name, other in read.items():
                if other is not None:
                    print(f"{title}, {bits} bits: {name}: from ours {_describe_difference(other, read['framefeed'])}")
    return rows


def _describe_difference(picture: Any, ours: Any) -> str:
    apart = np.abs(picture.astype(int) - ours.astype(int))
    return f"{apart.mean():.2f} / {apart.max()}"


def _measure_psnr(picture: Any, careful: Any) -> float:
    error = np.mean((picture.astype(float) - careful.astype(float)) ** 2)
    return float(10 * np.log10(255**2 / error))


def measure() -> dict[str, Any]:
    """Decode everything with every library."""
    versions = {}
    for name, package in PACKAGES.items():
        try:
            versions[name] = version(package)
        except PackageNotFoundError:
            print(f"{name} is not installed")
    with tempfile.TemporaryDirectory() as folder:
        return {
            "versions": versions,
            "colours": measure_colours(folder),
            "shapes": measure_shapes(folder),
            "stills": measure_stills(folder),
            "resized": measure_resizing(folder),
            "chroma": measure_chroma(folder),
        }


# --- the page --------------------------------------------------------------------------------------


def _read() -> Any:
    return json.loads(MEASURED.read_text(encoding="utf-8"))


def _fill_rows(key: str, title: str) -> str:
    rows = _read()[key]
    columns = list(next(iter(rows.values())))
    return make_table((title, *columns), [(name, *(row[column] for column in columns)) for name, row in rows.items()])


def fill_versions() -> str:
    """Versions of the libraries."""
    return "Versions: " + ", ".join(f"{name} {number}" for name, number in _read()["versions"].items()) + ".\n"


FILLS: Mapping[str, Callable[[], str]] = {
    "versions": fill_versions,
    "colours": partial(_fill_rows, "colours", "file"),
    "chroma": partial(_fill_rows, "chroma", "picture"),
    "shapes": partial(_fill_rows, "shapes", "video"),
    "stills": partial(_fill_rows, "stills", "picture"),
    "routes": fill_routes,
    "resized": partial(_fill_rows, "resized", "1280x720 to 320x180"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true")
    if parser.parse_args().measure:
        MEASURED.write_text(json.dumps(measure(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), FILLS), encoding="utf-8")


if __name__ == "__main__":
    main()

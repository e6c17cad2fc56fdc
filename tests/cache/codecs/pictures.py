"""Planes to store: of every shape and content that codecs go wrong on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from av.video.format import VideoFormat, names
from hypothesis import strategies as st

from framefeed.cache.codecs._codec import FrameCodec
from framefeed.cache.codecs._registry import CODECS as ENTRIES
from framefeed.cache.codecs._registry import find_codec
from framefeed.decode import RGB_PLANAR, Pixels, PlaneLayout

CODECS = [find_codec(name) for name in ENTRIES]
CODECS += [
    find_codec(f"{name}:{entry.numbers[len(entry.numbers) // 2]}") for name, entry in ENTRIES.items() if entry.number
]
EXACT = [codec for codec in CODECS if codec.is_exact]
LOSSY = [codec for codec in CODECS if not codec.is_exact]
LABELS = [codec.label for codec in CODECS]

ALL_FORMATS = [RGB_PLANAR, *sorted(name for name in names if VideoFormat(name).components)]
USUAL_FORMATS = [RGB_PLANAR, "rgb24", "bgr24", "yuv420p", "yuvj420p", "yuv422p", "yuv444p", "gray", "gbrp", "gbrap",
                 "yuva444p", "yuv420p10le", "nv12", "pal8"]  # fmt: skip
KINDS = ["constant", "noise", "gradient", "stripes", "steps"]

SHAPES = st.one_of(
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.sampled_from([(1, 1), (1, 300), (300, 1), (2, 257), (129, 3), (64, 64), (17, 33)]),
)


@st.composite
def pictures(draw: st.DrawFn, formats: list[str]) -> tuple[PlaneLayout, Pixels]:
    """A layout and planes of it."""
    height, width = draw(SHAPES)
    layout = PlaneLayout(draw(st.sampled_from(formats)), width, height)
    return layout, content(draw(st.sampled_from(KINDS)), layout, draw(st.integers(0, 2**31)))


def content(kind: str, layout: PlaneLayout, seed: int = 0) -> Pixels:
    """Planes of one kind."""
    chance = np.random.default_rng(seed)
    if kind == "noise":
        return chance.integers(0, 256, layout.nbytes, dtype=np.uint8)
    parts = []
    for rows, row_bytes in layout.planes:
        y, x = np.mgrid[:rows, :row_bytes]
        level, slopes = int(chance.integers(256)), chance.integers(0, 4, 2)
        plane = {
            "constant": np.full((rows, row_bytes), level),
            "gradient": level + slopes[0] * y + slopes[1] * x,
            "stripes": 255 * ((x + y + level) % 2),
            "steps": 40 * ((x // 7 + y // 5) % 5) + chance.integers(0, 2, (rows, row_bytes)),
        }[kind]
        parts.append((plane % 256).astype(np.uint8).ravel())
    return np.concatenate(parts)


def natural(layout: PlaneLayout, seed: int = 0) -> Pixels:
    """Planes as of a photograph that is a little out of focus."""
    chance = np.random.default_rng(seed)
    parts = []
    for rows, row_bytes in layout.planes:
        frequencies = np.hypot(np.fft.fftfreq(rows)[:, None], np.fft.fftfreq(row_bytes)[None])
        falling = 1 / np.maximum(frequencies, 1 / max(rows, row_bytes)) ** 2
        noise = np.fft.ifft2(np.fft.fft2(chance.standard_normal((rows, row_bytes))) * falling).real
        parts.append(np.clip(110 + 45 * noise / noise.std(), 0, 255).astype(np.uint8).ravel())
    return np.concatenate(parts)


def damaged(data: bytes, chance: np.random.Generator) -> Iterator[bytes]:
    """The same bytes with something wrong: cut, lengthened, bits and bytes changed, parts swapped."""
    size = len(data)
    yield from (data[:0], data[:1], data[: size // 2], data[: size - 1], data + b"\0", data * 2)
    for _ in range(20):
        broken = np.frombuffer(data, np.uint8).copy()
        head = min(size, int(chance.choice([16, 64, size])))
        for offset in chance.integers(0, head, int(chance.integers(1, 5))):
            broken[offset] = chance.choice([0, 255, broken[offset] ^ (1 << int(chance.integers(8)))])
        yield broken.tobytes()
    for _ in range(6):
        one, other = sorted(chance.integers(0, size, 2).tolist())
        yield data[other:] + data[:one]
        yield data[:one] + data[other:]


def stored(codec: FrameCodec, layout: PlaneLayout, planes: Pixels) -> bytes:
    """What a codec stores, as bytes of their own."""
    return bytes(codec.encode(layout, planes))

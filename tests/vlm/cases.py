"""What make_golden asks: clips, videos as readers tell them, elements of qwen-vl-utils, dicts of seconds."""

from __future__ import annotations

from fractions import Fraction
from typing import Any


def read_pairs(text: str) -> list[tuple[int, int]]:
    """Read heights and widths."""
    return [(int(height), int(width)) for height, width in (pair.split("x") for pair in text.split())]


# T, height, width
SIZES: list[tuple[int, int, int]] = [
    *[(frames, 720, 1280) for frames in (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 32, 63, 64, 128, 256, 767, 768)],
    *[(frames, 1080, 1920) for frames in (2, 4, 16, 64, 768)],
    *[(frames, 1920, 1080) for frames in (4, 5, 64)],
    *[(frames, 2160, 3840) for frames in (1, 2, 4, 16, 64, 768)],
    *[(frames, 240, 320) for frames in (2, 4, 64, 768)],
    *[(frames, 360, 640) for frames in (2, 8, 30, 100)],
    *[(4, *sides) for sides in read_pairs("1x1 8x8 13x17 14x14 16x16 20x100 27x500 31x31 48x48 500x27")],
    *[(16, *sides) for sides in read_pairs("42x42 56x98 64x64 70x4000 112x112 224x224 333x500 480x854 576x720")],
    *[(16, *sides) for sides in read_pairs("10x2000 2001x10 30x6000 30x6010 5990x30 7x1400 4000x20")],
    *[(64, *sides) for sides in read_pairs("718x406 404x720")],
    *[(frames, 4320, 7680) for frames in (2, 768)],
]
TOKENS = [case for case in SIZES if case[0] in (1, 2, 3, 5, 7, 9, 63, 64, 767, 768)] + SIZES[-16:-6:2] + SIZES[40:48:2]

# N and average rate; the duration is N / rate.
NTSC, FILM, DOUBLE = Fraction(30000, 1001), Fraction(24000, 1001), Fraction(60000, 1001)
VIDEOS: list[tuple[int, Any]] = [
    *[(count, 30) for count in (1, 2, 3, 4, 5, 7, 8, 15, 16, 29, 30, 31, 33, 59, 60, 61, 100)],
    *[(count, 30) for count in (899, 900, 901, 9000, 9001, 54000)],
    *[(count, NTSC) for count in (60, 300, 301, 719, 899, 1799, 5394, 17982, 100000)],
    *[(count, 25) for count in (1, 49, 50, 100, 250, 419, 750, 751, 7500, 60001)],
    *[(count, FILM) for count in (48, 240, 719, 720, 172800)],
    *[(count, DOUBLE) for count in (119, 600, 36000)],
    *[(190, Fraction(190000, 8380)), (153, Fraction(153000, 27200)), (68, 15), (712, Fraction("29.832"))],
    *[(20, 1), (45, Fraction(1, 2)), (7, 2), (100, Fraction("12.5"))],
    *[(230, 30), (359, 30), (382, 25)],  # Qwen2VL gives one index too many, which is N
]
SHORT = VIDEOS[::6]
ODD: list[tuple[int, Any]] = [(190, 30), (900, 30), (100, 25), (5, 25), (719, FILM)]

# For each class, videos and the arguments of sample_frames.
CALLS: dict[str, list[tuple[list[tuple[int, Any]], dict[str, Any]]]] = {
    "Qwen2VLVideoProcessor": [
        (VIDEOS, {"fps": 2}),
        (SHORT, {"fps": 1}),
        (SHORT, {"fps": 0.5}),
        (ODD, {"fps": 4.0}),
        (ODD, {"fps": 60}),
        (ODD, {"num_frames": 8}),
        (ODD, {"num_frames": 7}),
        (ODD, {"num_frames": 1}),
        (ODD, {"fps": 2, "min_frames": 10, "max_frames": 33}),
        (ODD, {"fps": 2, "min_frames": 1, "max_frames": 4}),
        (ODD[:2], {"fps": 2, "num_frames": 8}),
        (ODD[:2], {}),
    ],
    "Glm4vVideoProcessor": [
        (VIDEOS, {"fps": 2}),
        (SHORT, {}),
        (SHORT, {"fps": 1}),
        (ODD, {"fps": 0.5}),
        (ODD, {"fps": 4}),
        (ODD, {"num_frames": 8}),
    ],
    "Glm46VVideoProcessor": [(VIDEOS, {}), (ODD, {"fps": 2}), (ODD, {"num_frames": 8})],
    "InternVLVideoProcessor": [
        (VIDEOS, {"num_frames": 8}),
        (SHORT, {"num_frames": 32}),
        (SHORT, {"num_frames": 1}),
        (SHORT, {"fps": 1}),
        (ODD, {"fps": 2}),
        (ODD, {"fps": 2, "num_frames": 8}),
        (ODD, {"num_frames": 8, "initial_shift": False}),
        (ODD, {"num_frames": 8, "initial_shift": 3}),
        (ODD[:2], {}),
    ],
    "LlavaOnevisionVideoProcessor": [
        (VIDEOS, {"num_frames": 8}),
        (VIDEOS, {"fps": 2}),
        (SHORT, {"num_frames": 32}),
        (SHORT, {"fps": 0.5}),
        (ODD, {"fps": 60}),
        (ODD[:2], {"fps": 2, "num_frames": 8}),
        (ODD[:4], {}),
    ],
    "Gemma4VideoProcessor": [
        (VIDEOS, {}),
        (SHORT, {"num_frames": 8}),
        (ODD, {"fps": 2}),
        (ODD[:2], {"num_frames": None, "fps": 2}),
    ],
}
CALLS["Qwen3VLVideoProcessor"] = CALLS["Qwen2VLVideoProcessor"]

# N, rate, duration: durations that are not N / rate, and files whose rate or duration is not told.
TOLD: list[tuple[int, Any, Any]] = [
    (190, 24, 8.38),
    (712, Fraction("29.832"), 23.9),
    (900, 30, 300.0),
    (900, 30, 300.1),
    (100, 25, 2500.0),
    (300, 30, None),
    (9001, 30, None),
    (75000, 30, None),
    (300, None, 10.0),
    (300, None, None),
]


def make_metadata(
    kind: str, count: int, fps: float = 2.0, start: float = 0.0, seconds: tuple[float, ...] = ()
) -> dict[str, Any]:
    """Make the dict that framefeed is to give: a grid from 0, or seconds of any kind as microseconds."""
    if kind == "grid":
        indices, duration = list(range(count)), count / fps
        return {"fps": fps, "frames_indices": indices, "total_num_frames": count, "duration": duration}
    wanted = list(seconds) or [start + number / fps for number in range(count)]
    duration = 2 * wanted[-1] - wanted[-2] if seconds else count / fps
    told = {"fps": 1e6, "frames_indices": [round(second * 1e6) for second in wanted]}
    return {**told, "total_num_frames": round(duration * 1e6), "duration": duration}


METADATA = [
    make_metadata("grid", 4),
    make_metadata("grid", 5),
    make_metadata("grid", 8, 1.0),
    make_metadata("grid", 6, 0.5),
    make_metadata("grid", 4, 4.0),
    make_metadata("grid", 6, 3.0),
    make_metadata("grid", 8, 7 / 12.3),
    make_metadata("grid", 2, 1 / 45),
    make_metadata("grid", 1),
    make_metadata("seconds", 4),
    make_metadata("seconds", 5),
    make_metadata("seconds", 4, 2.0, 10.25),
    make_metadata("seconds", 6, 0.5, 61.0),
    make_metadata("seconds", 4, seconds=(0.0, 0.375, 1.05, 3.95)),
    make_metadata("seconds", 4, seconds=(0.128, 0.628, 1.128, 1.628)),
    make_metadata("seconds", 4, seconds=(0.35, 0.45, 0.55, 0.65)),
    make_metadata("seconds", 4, seconds=(59.9999996, 119.96, 3599.7, 3661.2)),
    make_metadata("seconds", 8, 8 / 7.37),
    # The wrong form: the count where the duration in microseconds belongs.
    {"fps": 1e6, "frames_indices": [0, 500000, 1000000, 1500000], "total_num_frames": 4, "duration": 2.0},
]

# Of qwen-vl-utils: height, width, factor and limits; N, rate and element; N, rate, height, width and element.
QWEN_SIZES: list[tuple[int, int, int, dict[str, Any]]] = [
    (*sides, factor, limits)
    for factor in (28, 32)
    for sides in read_pairs(
        "720x1280 1080x1920 2160x3840 240x320 27x500 10x2000 10x2010 30x5990 5x5 14x14 42x42 333x501"
    )
    for limits in (
        {},
        {"min_pixels": 128 * factor**2, "max_pixels": 768 * factor**2},
        {"min_pixels": 4096, "max_pixels": 65536},
    )
]
QWEN_COUNTS: list[tuple[int, Any, dict[str, Any]]] = [
    *[(count, rate, {"fps": 2.0}) for count, rate in VIDEOS[::2]],
    *[
        (count, rate, element)
        for count, rate in ODD
        for element in ({}, {"nframes": 9}, {"fps": 2, "max_frames": 5}, {"fps": 0.1, "min_frames": 3})
    ],
    *[(900, 30, element) for element in ({"nframes": 0}, {"nframes": 2000}, {"fps": 2, "nframes": 4})],
    *[(900, 30, element) for element in ({"fps": 30}, {"fps": 100}, {"fps": 30, "max_frames": 900})],
]
QWEN_ELEMENTS: list[dict[str, Any]] = [
    {"nframes": 8},
    {"nframes": 7},
    {"fps": 1.0},
    {"fps": 4.0, "max_frames": 16},
    {"fps": 0.1, "min_frames": 12},
    {"max_pixels": 360 * 420},
    {"min_pixels": 4 * 32 * 32, "max_pixels": 256 * 32 * 32},
    {"min_pixels": 1024 * 1024},
    {"max_pixels": 4096 * 4096},
    {"max_pixels": 16 * 28 * 28},
    {"total_pixels": 20480 * 32 * 32},
    {"total_pixels": 20480 * 28 * 28, "min_pixels": 16 * 28 * 28, "fps": 2.0},
    {"total_pixels": 64 * 28 * 28},
    {"resized_height": 280, "resized_width": 420},
    {"resized_height": 1000, "resized_width": 1500, "max_pixels": 1000},
    {"resized_height": 20, "resized_width": 20},
    {"video_start": 2.0},
    {"video_end": 5.5},
    {"video_start": 1.01, "video_end": 9.99, "fps": 2},
    {"video_start": 29.9},
    {"video_start": 5.0, "video_end": 5.0},
    {"video_start": -3.0, "video_end": 100.0},
]
QWEN_VIDEOS: list[tuple[int, Any, int, int, dict[str, Any]]] = [
    *[(count, 30, 720, 1280, {}) for count in (1, 2, 3, 4, 60, 900, 9000, 54000)],
    *[(900, NTSC, *sides, {"fps": 2.0}) for sides in read_pairs("2160x3840 1920x1080 240x320 27x500 20x3000 20x4200")],
    *[(900, 30, 720, 1280, element) for element in QWEN_ELEMENTS],
    (900, 30, 30, 5990, {"min_pixels": 4096, "max_pixels": 65536}),
    (190, Fraction(190000, 8380), 1080, 1920, {"fps": 2.0, "max_frames": 64}),
    (712, Fraction("29.832"), 480, 854, {"fps": 2.0, "max_frames": 64}),
]
# Lists of pictures: count, height, width and element.
QWEN_LISTS: list[tuple[int, int, int, dict[str, Any]]] = [
    (4, 300, 200, {}),
    (5, 300, 200, {}),
    (2, 720, 1280, {"sample_fps": 1.0}),
    (3, 90, 90, {"raw_fps": 30.0}),
    (6, 300, 200, {"max_pixels": 50176}),
]

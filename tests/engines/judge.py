"""What frames of a file look like, and what each picture is that an engine gave for one.

The measure is a loop of PyAV that reads the file in order. Engines convert to RGB in different ways: a picture is the
right frame if no other frame of the file is clearly nearer. For this all are compared as small pictures (`sign`).
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from PIL import Image

from framefeed.index import FrameIndex, build_index
from tests.decode.law import expected_frames, known_pts
from tests.reference import Reference, read_reference

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

SAMPLE = 12
"""Most frames of a file that are asked for."""
_SAMPLED_BYTES = 12 * 2**20
_SIGNATURE = (64, 48)
# Of a longer file, only the frames near to those asked for, and some of all, can be what an engine gave instead.
_SIGNED_FRAMES = 2_000
_SIGNED_AROUND = 24
_SIGNED_STEP = 16

MIN_PSNR = 28.0
"""Decibels, of all pixels of a frame: the same frame in the colours of another conversion has more."""
# Of squared distances: the frame that was given is at least this much nearer than the one that was asked for.
_CLEARLY_NEARER = 2.0
# Squared levels: below it, signatures are equal.
_EQUAL = 0.02

# Of a frame's variance: a picture that leaves more of it unexplained does not show the frame.
_UNLIKE = 0.2


@dataclass(frozen=True, slots=True)
class RightFrame:
    """One frame of the sequential decode.

    Attributes:
        picture: RGB, upright, uint8 [H, W, 3].
        is_suspect: Damage may show in it.
    """

    picture: Pixels
    is_suspect: bool


@dataclass(frozen=True, slots=True)
class Questions:
    """A file's questions with the right answers, which travels to the engines as a pickle.

    Attributes:
        index: The frame index, which all engines get.
        answers: By ordinal that is asked for; None of a frame that never comes.
        ordinals: Of the frames with a signature, int64 [S], ascending.
        signatures: The frames as small pictures, uint8 [S, ...].
    """

    index: FrameIndex
    answers: Mapping[int, RightFrame | None]
    ordinals: npt.NDArray[np.int64] = field(repr=False)
    signatures: Pixels = field(repr=False)

    @property
    def calls(self) -> list[list[int]]:
        """Frames to ask for, call by call: in any order with repeats, backwards, the two ends."""
        asked = list(self.answers)
        chance = random.Random(len(self.index))
        shuffled = chance.sample([*asked, *asked[:2]], len(asked) + len(asked[:2]))
        return [shuffled, asked[::-3], [asked[-1], asked[0]]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one picture is.

    Attributes:
        kind: "exact"; "close": the right frame within the tolerance; "pixels": the right frame in another size, or
            beyond the tolerance; "unlike": no frame of the file; "wrong": another frame; "damaged": a frame with
            damage, shown otherwise than in order.
        text: What differs.
    """

    kind: str
    text: str = ""


def make_questions(path: Path) -> Questions:
    """Read a file in order and remember what is asked for.

    Raises:
        FramefeedError: framefeed refuses the file, whatever the engine.
        AssertionError: The index and the sequential decode do not agree which frames there are.
    """
    index = build_index(path)
    wanted = _choose(index)
    signed = _choose_signed(len(index), wanted)
    collector = _Collector(index, set(wanted), signed)
    reference = read_reference(path, on_frame=collector.look)
    positions = _position_frames(index, reference)
    if any(position != ordinal for ordinal, position in positions.items() if ordinal in signed):
        shown = {position: ordinal for ordinal, position in positions.items()}
        collector = _Collector(index, set(wanted), signed, shown)
        read_reference(path, on_frame=collector.look)
    answers = {
        ordinal: RightFrame(collector.pictures[ordinal], reference.frames[positions[ordinal]].is_suspect)
        if ordinal in positions
        else None
        for ordinal in wanted
    }
    ordinals = sorted(collector.signatures)
    signatures = np.stack([collector.signatures[ordinal] for ordinal in ordinals])
    return Questions(index, answers, np.array(ordinals), signatures)


def save_questions(questions: Questions, file: Path) -> None:
    """Write questions to a file."""
    file.write_bytes(pickle.dumps(questions, protocol=5))


def load_questions(file: Path) -> Questions:
    """Read questions that this program wrote."""
    questions: Questions = pickle.loads(file.read_bytes())
    return questions


def sign(picture: Pixels) -> Pixels:
    """Shrink RGB of any size to one small picture; what is no RGB is black."""
    if picture.shape[2:] != (3,):
        return np.zeros((*_SIGNATURE[::-1], 3), np.uint8)
    return np.asarray(Image.fromarray(picture).resize(_SIGNATURE, Image.Resampling.BOX))


def judge(questions: Questions, given: Sequence[tuple[int, Pixels]]) -> list[Verdict]:
    """Compare pictures, each with the ordinal that was asked for."""
    signs = [sign(picture).astype(np.float32) for _, picture in given]
    # Another matrix of colours shifts all frames alike.
    shifts = [
        np.mean(small - sign(right.picture), (0, 1), dtype=np.float32)
        for (ordinal, picture), small in zip(given, signs, strict=True)
        if (right := questions.answers[ordinal]) is not None and right.picture.shape == picture.shape
    ]
    shift = np.median(shifts, axis=0) if shifts else np.zeros(3, np.float32)
    return [
        _judge_one(questions, ordinal, picture, small - shift)
        for (ordinal, picture), small in zip(given, signs, strict=True)
    ]


def _judge_one(questions: Questions, ordinal: int, picture: Pixels, small: Floats) -> Verdict:
    right = questions.answers[ordinal]
    distances = _distances(small, questions.signatures)
    nearest, least = int(questions.ordinals[distances.argmin()]), float(distances.min())
    if right is None:
        return Verdict("wrong", f"frame {nearest} in place of frame {ordinal}, which never comes")
    if np.array_equal(picture, right.picture):
        return Verdict("exact")
    if picture.shape != right.picture.shape:
        return Verdict("pixels", f"{_name_shape(picture)} in place of {_name_shape(right.picture)}")
    own = float(np.mean((small - sign(right.picture)) ** 2))
    is_nearest = own <= _CLEARLY_NEARER * least + _EQUAL
    decibels = _psnr(picture, right.picture)
    if is_nearest and decibels >= MIN_PSNR:
        return Verdict("close", f"{decibels:.0f} dB")
    if right.is_suspect:
        return Verdict("damaged", f"{decibels:.0f} dB")
    usual = _distances(sign(right.picture).astype(np.float32), questions.signatures)
    usual = usual[usual > _EQUAL]
    half_of_usual = float(np.median(usual)) / _CLEARLY_NEARER if len(usual) else np.inf
    if is_nearest or least > half_of_usual:  # in brightness it may differ from all frames
        distances = _distances_in_shape(small, questions.signatures)
        nearest, least = int(questions.ordinals[distances.argmin()]), float(distances.min())
        if least > max(half_of_usual, _UNLIKE * float(np.var(sign(right.picture)))):
            return Verdict("unlike", f"like no frame of the file, {decibels:.0f} dB")
        if distances[np.searchsorted(questions.ordinals, ordinal)] <= _CLEARLY_NEARER * least + _EQUAL:
            return Verdict("pixels", f"{decibels:.0f} dB")
    return Verdict("wrong", f"frame {nearest} in place of frame {ordinal}")


def _distances(small: Floats, others: Pixels) -> Floats:
    return np.array([np.mean((small - other) ** 2) for other in others], np.float32)


def _distances_in_shape(small: Floats, others: Pixels) -> Floats:
    """Squared distances that the best change of brightness and contrast leaves."""
    centred = small - small.mean()
    spread = float(np.mean(centred**2)) + _EQUAL
    shapes = (other - other.mean(dtype=np.float32) for other in others)
    return np.array([np.mean(shape**2) - np.mean(centred * shape) ** 2 / spread for shape in shapes], np.float32)


def _name_shape(picture: Pixels) -> str:
    return "x".join(map(str, picture.shape))


def _psnr(picture: Pixels, right: Pixels) -> float:
    error = float(np.mean((picture.astype(np.float32) - right) ** 2))
    return float(10 * np.log10(255**2 / error))


def _choose(index: FrameIndex) -> list[int]:
    """Choose frames to ask for: the first, the last, and some by chance, ascending."""
    height, width = index.stream.displayed
    count = min(len(index), max(4, min(SAMPLE, _SAMPLED_BYTES // (height * width * 3))))
    chance = random.Random(len(index))
    inner = range(1, len(index) - 1)
    return sorted({0, len(index) - 1, *chance.sample(inner, min(len(inner), count))})


def _choose_signed(count: int, wanted: Sequence[int]) -> set[int]:
    if count <= _SIGNED_FRAMES:
        return set(range(count))
    near = (range(max(0, each - _SIGNED_AROUND), min(count, each + _SIGNED_AROUND + 1)) for each in wanted)
    return {*range(0, count, _SIGNED_STEP), *(ordinal for each in near for ordinal in each)}


def _position_frames(index: FrameIndex, reference: Reference) -> dict[int, int]:
    """Where in the sequential decode each frame of the index is; without those that never come."""
    frames = expected_frames(known_pts(index), reference, may_promise_more=True)
    positions = {id(frame): position for position, frame in enumerate(reference.frames)}
    return {ordinal: positions[id(frame)] for ordinal, frame in enumerate(frames) if frame is not None}


class _Collector:
    """Keeps some pictures of a sequential decode, and signatures of more.

    Args:
        index: How to turn the pictures.
        wanted: Ordinals of the pictures.
        signed: Ordinals of the signatures.
        ordinals: Ordinal of each frame of the sequential decode; None if they are counted alike.
    """

    def __init__(
        self, index: FrameIndex, wanted: set[int], signed: set[int], ordinals: Mapping[int, int] | None = None
    ) -> None:
        self.pictures: dict[int, Pixels] = {}
        self.signatures: dict[int, Pixels] = {}
        self._stream = index.stream
        self._wanted, self._signed, self._ordinals = wanted, signed, ordinals
        self._position = -1
        self._converter = VideoReformatter()

    def look(self, frame: VideoFrame) -> None:
        self._position += 1
        ordinal = self._position if self._ordinals is None else self._ordinals.get(self._position, -1)
        if ordinal not in self._signed:
            return
        rgb = self._converter.reformat(frame, format="rgb24", interpolation=Interpolation.BILINEAR, threads=1)
        picture = np.rot90(rgb.to_ndarray(), self._stream.rotation // 90)
        picture = np.ascontiguousarray(picture[:, ::-1] if self._stream.mirrored else picture)
        self.signatures[ordinal] = sign(picture)
        if ordinal in self._wanted:
            self.pictures[ordinal] = picture

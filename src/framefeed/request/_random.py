"""Make random numbers from (seed, epoch, position): the same on every machine and in every worker."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from framefeed._arrays import BoolArray, FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed._checks import expected

WORD = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
"""Constants of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014)."""

CLIPS = 1
"""Purpose: choose frames and crops."""
ORDER = 2
"""Purpose: shuffle."""
TRANSFORMS = 3
"""Purpose: the generator of a user's transform."""
SUBSTITUTES = 4
"""Purpose: choose clips in place of those that fail."""
FLIPS = 5
"""Purpose: choose the clips that are mirrored."""
MIXING = 6
"""Purpose: order the parts of a mixture."""
BUCKETS = 7
"""Purpose: order the steps of buckets, and the clips of each."""
_DRAWS = 8
"""Purpose: one number for each clip."""


def hash_words(*words: int) -> int:
    """Hash integers to 64 bits by one SplitMix64 step for each; their order and number matter."""
    state = 0
    for word in words:
        state = (state ^ word) + _STEP & WORD
        state = (state ^ state >> 30) * _FIRST & WORD
        state = (state ^ state >> 27) * _SECOND & WORD
        state ^= state >> 31
    return state


def hash_numbers(key: int, numbers: IntArray) -> npt.NDArray[np.uint64]:
    """Hash each number to 64 bits, uint64 [N]: as `hash_words` of the words that gave ``key``, and the number."""
    state = (numbers.astype(np.uint64) ^ np.uint64(key)) + np.uint64(_STEP)
    state = (state ^ state >> np.uint64(30)) * np.uint64(_FIRST)
    state = (state ^ state >> np.uint64(27)) * np.uint64(_SECOND)
    hashes: npt.NDArray[np.uint64] = state ^ state >> np.uint64(31)
    return hashes


def draw_numbers(seed: int, epoch: int, positions: IntArray) -> FloatArray:
    """Draw a number from 0 to below 1 for each global position, float64 [N]."""
    hashes = hash_numbers(hash_words(_epoch_key(seed, epoch, _DRAWS)), positions)
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53


def check_seed(seed: object) -> int:
    """Return the seed as an int; UsageError unless it is an integer from 0 to 2**64 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed <= WORD:
        raise expected("seed", "an integer from 0 to 2**64 - 1", seed)
    return int(seed)


@lru_cache(maxsize=64)
def _epoch_key(seed: int, epoch: int, purpose: int) -> int:
    return hash_words(seed, epoch, purpose)


def generator_at(seed: int, epoch: int, position: int, purpose: int = TRANSFORMS) -> np.random.Generator:
    """Make the generator of one global position: Philox is keyed, so that every position has its own stream."""
    key = np.array([_epoch_key(seed, epoch, purpose), position], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))  # NumPy loads it here: 5 ms that only plans need


def is_flipped(seed: int, epoch: int, position: int, probability: float) -> bool:
    """Whether the clip at a global position is mirrored: by one hash, which costs much less than a generator."""
    return probability > 0 and hash_words(_epoch_key(seed, epoch, FLIPS), position) < probability * (WORD + 1)


class SharedDraw:
    """What the streams of one clip have in common: the frames of the first, and the part that a random crop takes.

    Attributes:
        seconds: Time of each frame of the first stream, from its first output frame, float64 [T].
        valid: False where the policy replaced a frame, bool [T].
        segments: Number of the rule's segment, int64 [T].
        generator: Of the first stream, as it was before the crop drew; None before.
        box: (top, left, height, width) that a crop drew in a picture of (height, width) ``size``; None before.
    """

    def __init__(self) -> None:
        self.seconds: FloatArray | None = None
        self.valid: BoolArray | None = None
        self.segments: IntArray | None = None
        self.generator: np.random.Generator | None = None
        self.box: tuple[int, int, int, int] | None = None
        self.size: tuple[int, int] = (0, 0)


class ClipContext:
    """The context of a clip: its choice of frames and crop depends on this and the video alone.

    Attributes:
        position: Global position.
        number: Number of the clip or frame in its video, or of the request.
        draw: What the streams of one clip have in common; None for a clip of one stream.
    """

    def __init__(self, seed: int, epoch: int, position: int, number: int = 0, draw: SharedDraw | None = None) -> None:
        self.position = position
        self.number = number
        self.draw = draw
        self._key = (seed, epoch, position)

    @cached_property
    def generator(self) -> np.random.Generator:
        """The clip's own generator; the clip rule draws from it before the crop."""
        return generator_at(*self._key, purpose=CLIPS)

    def continue_with(self, generator: np.random.Generator) -> ClipContext:
        """Return the same context, which draws from another generator."""
        other = ClipContext(*self._key, self.number, self.draw)
        other.generator = generator
        return other

"""Estimate by a sample what proxies would cost and gain, by kind of file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import exp, isnan, log, nan, sqrt
from time import thread_time
from typing import Any

import numpy as np

from framefeed._arrays import IntArray
from framefeed._units import UNKNOWN, format_bytes, format_count, format_seconds, format_share, format_table
from framefeed.catalog import Catalog
from framefeed.decode import ClipSlot, allocate_pixels
from framefeed.errors import FramefeedError, MediaError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.parallel import Err, ordered_outcomes
from framefeed.proxies._kinds import FAILED, Original, explain_failure
from framefeed.proxies._making import DECODER, ProxySettings, StaysItself, make_proxy
from framefeed.request import OutputSpec

LEAST_GAIN = 1.5
"""Times as many clips a second below which the files of a kind stay as they are."""
_SAMPLED_REST = 12
SAMPLED_FILES = 4
"""Of a kind."""
_SAMPLED_PARTS = 3
"""Of a video: scenes differ."""
_MOST_BYTES = 1.1
"""Times the bytes of its original that all samples' proxies must exceed for no file of a kind to be tried; else each is
judged by itself, by the bytes of its whole proxy."""
_CLIP_FRAMES, _STRIDE = 16, 4
_SPAN = (_CLIP_FRAMES - 1) * _STRIDE + 1
_SIZE = 224
_TURNS = 2
"""Of an original and its proxy: on shared cores a clip may take twice as long a second later."""
_LEAST_CLIPS, _MOST_CLIPS = 2, 6
_MOST_SECONDS = 0.15
"""CPU time of the clips of a file in one turn, if there are enough."""
_PICTURE_SECONDS = 250e-6
"""CPU time of a picture in a loader beside its decoding, which no proxy makes less: a quarter of that of a proxy."""
_GOLDEN = (sqrt(5) - 1) / 2
"""Multiples of it, modulo 1, lie at about even distances for any number of them."""
_STUDENT = {1: 2.0, 2: 12.7, 3: 4.3, 4: 3.18}
"""Quantile of Student's distribution that leaves out 1 of 20 on both sides, by the number of files; of one file
that of a spread that is known."""
_NOISE = 1.1
"""Factor between two measurements of one gain."""
_SPREAD = 1.3
"""Factor between the gains of two files of one kind, where a sample is too small to tell."""


@dataclass(frozen=True, slots=True)
class FileSample:
    """What a part of one file showed."""

    original_seconds: float  # CPU time of a clip, or of a picture
    proxy_seconds: float
    bytes_ratio: float  # of the proxy, as a share of the original's
    seconds: float  # CPU time to write the whole proxy
    bytes: int  # of the original


@dataclass(frozen=True, slots=True)
class KindEstimate:
    """What proxies of the files of one kind would cost and gain.

    Attributes:
        kind: Codec, size and distance of key frames.
        num_files: Files of this kind.
        bytes: Of the originals.
        reason: Why they stay as they are; None if they get proxies.
        gain: Clips a CPU second of proxies, as a multiple of those of the originals; of pictures, pictures a second.
            NaN without a sample.
        gain_low: Lower end of an interval that has the gain in 19 of 20 cases.
        gain_high: Its upper end.
        proxy_bytes: Of the proxies.
        seconds: CPU time to write them.
        original_seconds: CPU time of a clip of an original; NaN without a sample.
        num_proxies: Of these files, about; others would have proxies of more bytes, and stay as they are.
        original_bytes: Of the originals that get proxies, about.
    """

    kind: str
    num_files: int
    bytes: int
    reason: str | None
    gain: float
    gain_low: float
    gain_high: float
    proxy_bytes: int
    seconds: float
    original_seconds: float
    num_proxies: int
    original_bytes: int

    @property
    def has_proxies(self) -> bool:
        """Whether files of this kind get proxies."""
        return self.reason is None

    def describe_reason(self) -> str:
        """Write why the files stay as they are; empty if some get proxies."""
        return "" if self.num_proxies else self.reason or "their proxies would have more bytes"

    def describe_gain(self) -> str:
        """Write the gain with its interval."""
        return UNKNOWN if isnan(self.gain) else f"{self.gain:.1f}x ({self.gain_low:.1f} to {self.gain_high:.1f})"


def sample_kind(
    catalog: Catalog, originals: Sequence[Original], *, settings: ProxySettings, seed: int = 0
) -> KindEstimate:
    """Make a part of the proxies of some files of one kind, and measure clips of both."""
    kind, nbytes = originals[0].kind, sum(each.bytes for each in originals)
    generator = np.random.default_rng(seed)
    chosen = _choose(originals, generator)
    samples, reason, has_failed = list[FileSample](), "", False
    # In place of those that cannot be read.
    spare = [each for each in originals if each not in chosen][:SAMPLED_FILES]
    with tempfile.TemporaryDirectory(prefix="framefeed-") as folder:
        for original in chain(chosen, spare):
            if len(samples) == len(chosen):
                break
            path = os.path.join(folder, "proxy.jpg" if original.is_still else "proxy.mp4")
            try:
                samples.append(_sample_file(catalog, original, path, settings, generator))
            except StaysItself as error:
                reason = str(error)
            except (FramefeedError, MemoryError) as error:
                failure = explain_failure(error, original.name, "estimate")
                reason, has_failed = failure.removeprefix(FAILED), True
    if not samples:
        text = f"none of {format_count(len(chosen), 'file')} could be sampled: {reason}"
        why = f"{FAILED}{text}" if has_failed else text
        return KindEstimate(kind, len(originals), nbytes, why, nan, nan, nan, 0, 0.0, nan, 0, 0)
    ratio = sum(each.bytes_ratio * each.bytes for each in samples) / max(1, sum(each.bytes for each in samples))
    are_too_large = all(each.bytes_ratio > _MOST_BYTES for each in samples)
    seconds = sum(each.seconds for each in samples) / len(samples)
    # Proxies of more bytes are written too, and thrown away.
    kept = [each for each in samples if each.bytes_ratio <= 1]
    count = round(len(originals) * len(kept) / len(samples))
    share = sum(each.bytes for each in kept) / max(1, sum(each.bytes for each in samples))
    kept_ratio = sum(each.bytes_ratio * each.bytes for each in kept) / max(1, sum(each.bytes for each in kept))
    samples = kept or samples
    gains = [log(each.original_seconds / each.proxy_seconds) for each in samples]
    # Each file is read as often as any other, so times are added, not gains.
    gain = sum(each.original_seconds for each in samples) / sum(each.proxy_seconds for each in samples)
    spread = float(np.std(gains, ddof=1)) if len(gains) > 1 else log(_SPREAD)
    left = sqrt(max(0.0, 1 - len(gains) / len(originals)))  # of all files, there is none to guess
    half = max(log(_NOISE), _STUDENT[len(gains)] * max(spread, log(_NOISE)) / sqrt(len(gains)) * left)
    work = sum(each.work for each in originals) / max(1, sum(each.work for each in chosen))
    verdict = None
    if gain < LEAST_GAIN:
        verdict = f"proxies of {kind} would be {gain:.2f} times as fast, less than {LEAST_GAIN}"
    elif are_too_large:
        verdict = f"proxies of {kind} would have {ratio:.2f} times the bytes"
    return KindEstimate(
        kind,
        len(originals),
        nbytes,
        verdict,
        gain,
        gain * exp(-half),
        gain * exp(half),
        round(kept_ratio * share * nbytes),
        seconds * work * len(chosen),
        sum(each.original_seconds for each in samples) / len(samples),
        0 if verdict else count,
        0 if verdict else round(share * nbytes),
    )


def sample_rest(catalog: Catalog, originals: Sequence[Original]) -> float:
    """Measure the CPU seconds of a clip of each original that gets no proxy, summed, by a sample of them."""
    spent, chosen = list[float](), _choose(originals, np.random.default_rng(0), _SAMPLED_REST)
    for each in chosen:
        with suppress(MediaError):
            source, index = catalog.media_source(each.row), catalog.frame_index(each.row)
            spent.append(_time_clips(source, index, np.random.default_rng(0)))
    return float(np.mean(spent)) * len(originals) if spent else 0.0


def _choose(originals: Sequence[Original], generator: np.random.Generator, most: int = SAMPLED_FILES) -> list[Original]:
    """Choose files at even distances among those sorted by bytes of a frame."""
    if len(originals) <= most:
        return list(originals)
    ordered = sorted(originals, key=lambda each: each.bytes / max(1, each.num_frames))
    step = len(ordered) / most
    return [ordered[int((number + generator.random()) * step)] for number in range(most)]


def _sample_file(
    catalog: Catalog, original: Original, path: str, settings: ProxySettings, generator: np.random.Generator
) -> FileSample:
    source, index = catalog.media_source(original.row), catalog.frame_index(original.row)
    frames = None if original.is_still else _choose_frames(len(index), settings.gop, generator)
    made = make_proxy(source, index, path, settings, original.fingerprint, frames)
    proxy = MediaSource.of(path)
    share = len(made.index) / len(index)
    own = made.index.identity
    assert own is not None
    both = (source, index), (proxy, made.index)
    turns = [[_time_clips(*each, generator) for each in both] for _ in range(_TURNS)]
    before, after = (sum(each) / _TURNS for each in zip(*turns, strict=True))
    return FileSample(
        before,
        after,
        own.bytes / share / max(1, original.bytes),
        made.seconds / share,
        original.bytes,
    )


def _choose_frames(count: int, gop: int, generator: np.random.Generator) -> IntArray | None:
    """Choose frames of a video in parts, of as many frames as a clip spans, at random; None for all."""
    length = -(-(_SPAN + gop) // gop) * gop  # so that a part begins with a key frame of the proxy
    if count <= _SAMPLED_PARTS * length:
        return None
    left = count - _SAMPLED_PARTS * length
    gaps = np.sort(generator.integers(left + 1, size=_SAMPLED_PARTS))
    starts = gaps + length * np.arange(_SAMPLED_PARTS)
    frames: IntArray = (starts[:, None] + np.arange(length)).ravel().astype(np.int64)
    return frames


def _time_clips(source: MediaSource, index: FrameIndex, generator: np.random.Generator) -> float:
    """Measure the CPU seconds of a clip of 16 frames, 4 apart, at a random start; of a picture, of its decoding."""
    output = OutputSpec((_SIZE, _SIZE), still_quality="scaled")
    spent, phase = list[float](), generator.random()
    for number in range(_MOST_CLIPS + 1):
        # Far from key frames and near to them as often as in the whole, whatever the number of clips.
        first = int((phase + _GOLDEN * number) % 1 * max(1, len(index) - _SPAN + 1))
        frames = np.minimum(np.arange(first, first + _SPAN, _STRIDE), len(index) - 1)
        frames = frames if len(index) > 1 else frames[:1]
        pixels = allocate_pixels((len(frames), 3, _SIZE, _SIZE), source.name, source=source.name)
        slot = ClipSlot(frames.astype(np.int64), output, pixels)
        began = thread_time()
        DECODER.decode(source, index, [slot]).raise_first()
        if number:  # the first clip opens the file, and makes the decoder
            spent.append(thread_time() - began)
        if len(spent) >= _LEAST_CLIPS and sum(spent) > _MOST_SECONDS:
            break
    beside = _PICTURE_SECONDS if len(index) == 1 else 0.0
    return max(float(np.mean(spent)), 1e-6) + beside


@dataclass(frozen=True, slots=True)
class ProxyEstimate:
    """What proxies of a catalog's files would cost and gain; ``print(estimate)`` says it as a table and a sentence.

    Attributes:
        kinds: By kind of file; those that get proxies first.
        reasons: Files that get none whatever a sample says, by reason.
        short_side: Rows or columns of the shorter side of a proxy.
        gop: Distance of its key frames.
        workers: Threads for which ``seconds`` are given.
        rest_seconds: CPU time of a clip of each file of ``reasons``, summed, by a sample.
    """

    kinds: tuple[KindEstimate, ...]
    reasons: Mapping[str, tuple[int, int]]  # number of files, and their bytes
    short_side: int
    gop: int
    workers: int
    rest_seconds: float = 0.0

    @property
    def num_files(self) -> int:
        """Number of files that can be read."""
        return sum(each.num_files for each in self.kinds) + sum(count for count, _ in self.reasons.values())

    @property
    def num_proxies(self) -> int:
        """Number of files that get a proxy."""
        return sum(each.num_proxies for each in self.kinds)

    @property
    def bytes(self) -> int:
        """Bytes of the originals."""
        return sum(each.bytes for each in self.kinds) + sum(nbytes for _, nbytes in self.reasons.values())

    @property
    def original_bytes(self) -> int:
        """Bytes of the originals that get a proxy."""
        return sum(each.original_bytes for each in self.kinds)

    @property
    def proxy_bytes(self) -> int:
        """Bytes of the proxies."""
        return sum(each.proxy_bytes for each in self.kinds if each.has_proxies)

    @property
    def seconds(self) -> float:
        """Wall seconds to write the proxies with all ``workers``, about."""
        return sum(each.seconds for each in self.kinds if each.has_proxies) / max(1, self.workers)

    def _combine(self, name: str) -> float:
        """Combine a gain of all kinds: each file that is sampled is read as often as any other."""
        before = after = 0.0
        for each in self.kinds:
            if each.has_proxies:
                before += each.num_proxies * each.original_seconds
                after += each.num_proxies * each.original_seconds / getattr(each, name)
        return before / after if after else 1.0

    @property
    def gain(self) -> float:
        """Clips a CPU second of the files that get a proxy, as a multiple of the originals'; 1 if there are none."""
        return self._combine("gain")

    @property
    def gain_interval(self) -> tuple[float, float]:
        """Interval that has ``gain`` in 19 of 20 cases."""
        return self._combine("gain_low"), self._combine("gain_high")

    @property
    def total_gain(self) -> float:
        """Clips a CPU second of all files, those that stay themselves too, as a multiple of the originals'."""
        before = after = self.rest_seconds
        for each in self.kinds:
            if not isnan(each.original_seconds):
                before += each.num_files * each.original_seconds
                stay = each.num_files - each.num_proxies
                after += (each.num_proxies / each.gain + stay) * each.original_seconds
        return before / after if after else 1.0

    def answer(self) -> str:
        """Answer in one sentence whether proxies pay."""
        if not self.num_files:
            return "No file can be read, so there is nothing to shrink."
        if not self.num_proxies:
            files = format_count(self.num_files, "file")
            return f"No: none of {files} would gain enough by proxies of {self.short_side} pixels."
        low, high = self.gain_interval
        rest = self.num_files - self.num_proxies
        all_files = f"; {rest} of {self.num_files} files stay as they are, so clips of all are "
        stay = f"{all_files}{self.total_gain:.1f} times as fast" if rest else ""
        what = "one file" if self.num_proxies == 1 else f"{self.num_proxies:,} files"
        return (
            f"Yes: proxies of {what} at {self.short_side} pixels give clips {self.gain:.1f} times as fast "
            f"({low:.1f} to {high:.1f}) from {format_share(self.proxy_bytes, self.original_bytes)} of the bytes "
            f"({format_bytes(self.proxy_bytes)}), and take about {format_seconds(self.seconds)} to write with "
            f"{format_count(self.workers, 'thread')}{stay}."
        )

    def __str__(self) -> str:
        rows = [("kind", "files", "bytes", "proxies", "gain", "to write", "")]
        for each in self.kinds:
            made = format_bytes(each.proxy_bytes) if each.num_proxies else "stay"
            spent = format_seconds(each.seconds / max(1, self.workers)) if each.num_proxies else ""
            gain, why = each.describe_gain(), each.describe_reason()
            rows.append((each.kind, f"{each.num_files:,}", format_bytes(each.bytes), made, gain, spent, why))
        for reason, (count, nbytes) in self.reasons.items():
            rows.append(("others", f"{count:,}", format_bytes(nbytes), "stay", "", "", reason))
        return "\n".join([*format_table(rows, sides="<>>>>><"), "", self.answer()])


def sample_kinds(
    catalog: Catalog,
    originals: Sequence[Original],
    settings: ProxySettings,
    known: Mapping[str, Any],
    workers: int,
    show: Callable[[int], object] = lambda done: None,
) -> dict[str, KindEstimate]:
    """Sample all kinds of files that may get proxies, but for those that are known."""
    groups: dict[str, list[Original]] = {}
    for original in originals:
        if original.reason is None and original.kind not in known:
            groups.setdefault(original.kind, []).append(original)
    longest = sorted(groups.values(), key=lambda members: -sum(each.work for each in members))
    count = min(workers, len(longest))
    estimates = {}
    sample = partial(sample_kind, catalog, settings=settings)
    with ordered_outcomes(sample, longest, workers=count, max_in_flight=4 * max(1, count)) as outcomes:
        for number, outcome in enumerate(outcomes, 1):
            if isinstance(outcome, Err):
                raise outcome.error
            estimates[outcome.value.kind] = outcome.value
            show(number)
    return estimates

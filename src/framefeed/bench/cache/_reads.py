"""Rows "exact", "original" and "checksums": single frames at full size, read in the same rounds.

From our caches, from files of other formats, and decoded from the original; and what our cache spends on being sure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from framefeed.bench._frames import psnr
from framefeed.bench._runner import (
    Comparison,
    Contender,
    Figure,
    Findings,
    Interval,
    Row,
    Run,
    Timings,
    compare_times,
    median_interval,
)
from framefeed.bench.cache._checking import check
from framefeed.bench.cache._holdings import FileHolding, layout_and_bytes
from framefeed.bench.cache._samples import BATCHED, Sample
from framefeed.bench.cache._scene import LZ4_RGB, CachedSample, Scene, caches_of
from framefeed.cache import find_codec
from framefeed.decode import ClipSlot
from framefeed.decode.backends.pyav import PyAVDecoder

FRAMES = 16
"""Read in a round."""
DECODED_FRAMES = 8
"""The same, where the original is decoded."""
LZ4, PNG = "joblib lz4", "PNG"
FIRST_LZ4 = "joblib lz4 1"
"""The write-up's choice where speed matters."""
OWN = "framefeed, decoded"
LIKE = 30.0
"""Decibels: colour recipes differ by less than that, frames by more."""

Read = Callable[[Sequence[int]], Any]
"""Reads the frames at some positions of the sample."""


def enter_reader(
    name: str, open: Callable[[], Read], numbers: Sequence[Sequence[int]], *, library: str = "", group: str = "",
    bytes_a_frame: float | None = None,
) -> Contender:  # fmt: skip
    """A reader as a contender.

    Args:
        name: Of the reader.
        open: Opens it.
        numbers: What to read in each round.
        library: What must be installed for it.
        group: Readers of a group compete for being its best.
        bytes_a_frame: As stored.
    """

    def open_for_rounds() -> Run:
        read = open()
        return lambda number: read(numbers[number])

    facts = {} if bytes_a_frame is None else {"bytes_a_frame": round(bytes_a_frame)}
    groups = (group,) if group else ()
    return Contender(name, open_for_rounds, library, groups=groups, amount=len(numbers[0]), facts=facts)


def enter_caches(
    ours: Mapping[str, CachedSample], numbers: Sequence[Sequence[int]], group: str = ""
) -> list[Contender]:
    """Caches of the sample as contenders."""
    return [
        enter_reader(name, lambda cached=cached: cached.take, numbers, group=group, bytes_a_frame=cached.bytes_a_frame)  # type: ignore[misc]
        for name, cached in ours.items()
    ]


def exact_row(scene: Scene, stack: ExitStack) -> Row:
    """Read from each exact codec of ours, from joblib's lz4 and from PNG."""
    originals = [frame.rgb for frame in scene.sample.frames]
    theirs = {
        form.name: FileHolding(form, scene.sample, scene.work / form.name.replace(" ", "_"), None, 0)
        for form in scene.peers.list_all("formats")
        if form.is_exact and form.name.startswith((LZ4, PNG))
    }
    for files in theirs.values():
        files.write()
    ours = caches_of(scene, stack, with_rgb=True)
    numbers = scene.draw_numbers(FRAMES)
    nbytes = {name: cached.bytes_a_frame for name, cached in ours.items()}
    nbytes |= {
        name: sum(Path(path).stat().st_size for path in files.paths) / len(files.paths)
        for name, files in theirs.items()
    }

    def read_files(files: FileHolding, numbers: Sequence[int]) -> None:
        for item in files.read(numbers):
            del item

    def check_equality(contender: Contender) -> list[str]:
        if contender.name in ours:
            return ours[contender.name].wrong()
        return check(theirs[contender.name].read(range(len(originals))), originals).describe()

    contenders = [
        enter_reader(name, lambda files=files: partial(read_files, files), numbers,  # type: ignore[misc]
                     library=name.split()[0], bytes_a_frame=nbytes[name])
        for name, files in theirs.items()
    ]  # fmt: skip
    return Row(
        "exact",
        f"exact formats at full size, {len(numbers[0])} frames at random a round, read to RGB, ours channels first as "
        "in batches, theirs channels last as they store them",
        [*contenders, *enter_caches(ours, numbers)],
        lambda timings: compare_exact(timings, nbytes),
        unit="frames",
        check=check_equality,
    )


def compare_exact(timings: Timings, nbytes: Mapping[str, float]) -> Findings:
    """Speed and bytes of each of ours against joblib's lz4, against PNG, and against lz4 of RGB in our own store.

    The last shows what planes gain.

    Args:
        timings: Of readers by name; ours begin with "framefeed".
        nbytes: Reader -> stored bytes of a frame.
    """
    levels = [name for name in timings.of if name.startswith(LZ4)]
    rivals = {"joblib lz4, its fastest level": timings.best(levels)} if levels else {}
    rivals |= {name: name for name in timings.of if name in (FIRST_LZ4, LZ4_RGB) or name.startswith(PNG)}
    comparisons = []
    for key, rival in rivals.items():
        ours = [name for name in timings.of if name.startswith("framefeed") and name != rival]
        ours.sort(key=timings.median)
        speeds = {name: Figure(timings.ratio(rival, name), name, rival) for name in ours}
        shares = {name: Figure(nbytes[name] / nbytes[rival], name, rival) for name in ours}
        comparisons += [
            Comparison(f"speed of {key}", f"the read speed of {key}, to RGB, by CPU", speeds),
            Comparison(f"bytes of {key}", f"share of the bytes of {key}", shares),
        ]
    return Findings(comparisons)


def original_row(scene: Scene, stack: ExitStack) -> Row:
    """Random frames at full size, from our cache and decoded from the original."""
    sample, numbers = scene.sample, scene.draw_numbers(DECODED_FRAMES)
    ours = caches_of(scene, stack)
    peers = {reader.name: reader for reader in scene.peers.list_all("originals")}

    def open_peer(name: str) -> Read:
        read = peers[name].open(sample.video)
        return lambda numbers: read([sample.frames[number].ordinal for number in numbers])

    def check_equality(contender: Contender) -> list[str] | None:
        if contender.name in ours:
            return ours[contender.name].wrong()
        if contender.name not in peers:
            return None
        expected = [sample.frames[number].rgb for number in numbers[0]]
        pictures = np.asarray(open_peer(contender.name)(numbers[0]))
        if pictures.shape != (len(expected), *expected[0].shape):
            return [f"pictures of {pictures.shape}"]
        worst = min(psnr(picture, rgb) for picture, rgb in zip(pictures, expected, strict=True))
        return [f"other frames, or other colours, {worst:.1f} dB from ours"] if worst < LIKE else []

    def conclude(timings: Timings) -> Findings:
        stored, rivals = ([name for name in names if name in timings.of] for names in (ours, peers))
        if not stored:
            return Findings()
        best, what = timings.best(stored), "the speed of decoding the same frames from the original"
        comparisons = [Comparison("decoder", f"{what}, our decoder", compare_times(timings, best, OWN))]
        if rivals:
            against = compare_times(timings, best, timings.best(rivals))
            comparisons.append(Comparison("fastest peer", f"{what}, the fastest other library", against))
        return Findings(comparisons)

    return Row(
        "original",
        f"random frames at full size, {len(numbers[0])} a round in one call, files kept open and indexed",
        [
            enter_reader(OWN, lambda: _decoding(sample), numbers),
            *(
                enter_reader(name, partial(open_peer, name), numbers, library=name, group="peers") for name in peers
            ),
            *enter_caches(ours, numbers, group="ours"),
        ],
        conclude,
        unit="frames",
        check=check_equality,
    )  # fmt: skip


def _decoding(sample: Sample) -> Read:
    """Our decoder, into memory that is used again."""
    decoder, video = PyAVDecoder(), sample.video
    height, width, _ = sample.frames[0].rgb.shape
    memory = np.empty((DECODED_FRAMES, *BATCHED.shape(height, width)), dtype=np.uint8)

    def read(numbers: Sequence[int]) -> None:
        ordinals = np.array([sample.frames[number].ordinal for number in numbers], dtype=np.int64)
        decoder.decode(video.source, video.index, [ClipSlot(ordinals, BATCHED, memory[: len(numbers)])]).raise_first()

    return read


def checksums_row(scene: Scene, stack: ExitStack) -> Row:
    """Hashing the stored bytes, as a share of reading them to RGB, which does that too."""
    numbers = scene.draw_numbers(FRAMES)
    ours = caches_of(scene, stack)

    def open_hashing(codec: str) -> Read:
        frames = scene.sample.frames
        encoded = [bytes(find_codec(codec).encode(*layout_and_bytes(frame, "planes"))) for frame in frames]

        def read(numbers: Sequence[int]) -> None:
            for number in numbers:
                xxhash.xxh3_64_intdigest(encoded[number], seed=number)

        return read

    def conclude(timings: Timings) -> Findings:
        # The best exact codec first: what is not compressed has the most bytes to hash, and nothing else to do.
        ranked = sorted(ours, key=lambda name: (ours[name].codec == "raw", timings.median(name)))
        shares = {f"CPU, {name}": Figure(measure_share(timings, f"hashing alone, {name}", name)) for name in ranked}
        return Findings([Comparison("checksums", "checksums, of a read to full-size RGB", shares, " %")])

    return Row(
        "checksums",
        "hashing of the stored bytes alone, beside the whole read to full-size RGB that includes it",
        [
            *enter_caches(ours, numbers),
            *(
                enter_reader(f"hashing alone, {name}", partial(open_hashing, cached.codec), numbers)
                for name, cached in ours.items()
            ),
        ],
        conclude,
        unit="frames",
    )


def measure_share(timings: Timings, part: str, whole: str) -> Interval:
    """Share of the processor time of one contender that another took, in percent, over the rounds of both."""
    parts, wholes = timings.of[part], timings.of[whole]
    return median_interval([100 * parts[n].cpu / wholes[n].cpu for n in sorted(parts.keys() & wholes.keys())])

"""Row "exact": single frames at full size, from our caches and from files of other formats, in the same rounds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from framefeed.bench import Comparison, Figure, Findings, Row, Timings
from framefeed.bench.cache import CachedSample, FileSample, Scene, check_stored, count_bytes, enter_stored

FRAMES = 16
"""Read in a round."""
LZ4, PNG = "joblib lz4", "PNG"
FIRST_LZ4 = "joblib lz4 1"
"""The write-up's choice where speed matters."""
LZ4_RGB = "framefeed lz4, RGB"


def exact_row(scene: Scene, stack: ExitStack) -> Row:
    """Read from each exact codec of ours, from joblib's lz4 and from PNG."""
    all_stored: dict[str, FileSample | CachedSample] = {
        form.name: FileSample(form, scene.sample, scene.work / form.name.replace(" ", "_"))
        for form in scene.peers.list_all("FORMATS")
        if form.is_exact and form.name.startswith((LZ4, PNG))
    }
    for files in all_stored.values():
        files.write()
    all_stored |= scene.fill_caches(stack, ("lz4", "rgb"))
    numbers = scene.draw_numbers(FRAMES)
    nbytes = {name: count_bytes(stored) for name, stored in all_stored.items()}
    return Row(
        "exact",
        f"exact formats at full size, {len(numbers[0])} frames at random a round, read to RGB, ours channels first as "
        "in batches, theirs channels last as they store them",
        [
            enter_stored(stored, numbers, library=name.split()[0] if isinstance(stored, FileSample) else "")
            for name, stored in all_stored.items()
        ],
        lambda timings: compare_exact(timings, nbytes),
        unit="frames",
        check=lambda contender: check_stored(all_stored[contender.name]).describe(),
    )


def compare_exact(timings: Timings, nbytes: Mapping[str, float]) -> Findings:
    """Speed and bytes of each of ours against joblib's lz4, against PNG, and against lz4 of RGB in our own store.

    The last shows what planes gain.
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

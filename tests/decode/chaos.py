"""Real videos, damaged and read across forks: frames do not depend on what was decoded before, or in which process.

``python -m tests.decode.chaos --variants 300 --forks 200 --log build/chaos_decode.log`` (``make chaos``). Each variant
is a real file with seeded damage; some of its frames are decoded in several orders, by new decoders and by pooled ones.
Each fork reads some frames of a file, forks, and reads on in the parent and in two children at the same time.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import TextIO

import av
import numpy as np

from framefeed.cli import describe_version
from framefeed.errors import FramefeedError
from framefeed.index import build_index
from framefeed.media import MediaSource
from tests.conftest import CHECKOUT
from tests.decode.damaged import DAMAGES, differences, packet_ranges
from tests.decode.forks import read_on_in_children

ROOT = Path(os.environ.get("FRAMEFEED_MEDIA", CHECKOUT.parent / "shared" / "media")) / "video"
MOST_BYTES, MOST_PIXELS = 1_000_000, 25_000_000
"""Of a file, and of all its pictures: so that a variant takes about a second."""
KNOWN = frozenset({"hevc", "dirac"})
"""Codecs whose decoders leave a part of a picture as the memory was, and say nothing: docs/reference.md names them."""


def small_videos() -> dict[tuple[str, str], list[Path]]:
    """Real files that are quick to decode, by container and codec."""
    actual: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for path in sorted(ROOT.glob("*/**/*")):
        if path.is_file() and path.stat().st_size <= MOST_BYTES:
            try:
                index = build_index(path, verify="none")
            except FramefeedError:
                continue
            stream = index.stream
            if stream.width * stream.height * len(index) <= MOST_PIXELS:
                actual[stream.container, stream.codec].append(path)
    return dict(actual)


def run_variants(videos: dict[tuple[str, str], list[Path]], count: int, log: TextIO) -> int:
    """Check damaged variants; return how many differ although their decoder is not known for it."""
    kinds, outcomes = sorted(videos), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(count):
            rng = np.random.default_rng(seed)
            kind = kinds[seed % len(kinds)]
            path = videos[kind][int(rng.integers(len(videos[kind])))]
            damage = list(DAMAGES)[int(rng.integers(len(DAMAGES)))]
            outcome, actual = _check_variant(path, damage, rng, Path(folder))
            if actual and kind[1] in KNOWN:
                outcome = f"differs by order, silently ({kind[1]})"
            outcomes[outcome] += 1
            if actual:
                print(f"variant {seed}: {path.relative_to(ROOT)} {damage}: {actual[0][:200]}", file=log, flush=True)
    print(f"{count} damaged variants: {dict(sorted(outcomes.items()))}", file=log, flush=True)
    return outcomes["differs"]


def _check_variant(path: Path, damage: str, rng: np.random.Generator, folder: Path) -> tuple[str, list[str]]:
    try:
        ranges = packet_ranges(build_index(path))
        if not ranges:
            return "has no packets whose place is known", []
        data = bytearray(path.read_bytes())
        DAMAGES[damage](data, rng, ranges)
        variant = folder / f"variant{path.suffix}"
        variant.write_bytes(data)
        source = MediaSource.of(variant)
        actual = differences(source, build_index(source), rng)
    except FramefeedError as error:
        return f"refused ({type(error).__name__})", []
    return ("differs", actual) if actual else ("the same in every order", [])


def run_forks(videos: dict[tuple[str, str], list[Path]], count: int, log: TextIO) -> int:
    """Read on across forks, each container and codec in turn; return how many were not exact."""
    kinds, wrong = sorted(videos), 0
    for seed in range(count):
        kind = kinds[seed % len(kinds)]
        path = videos[kind][(seed // len(kinds)) % len(videos[kind])]
        try:
            actual = read_on_in_children(path)
        except FramefeedError as error:
            print(f"fork {seed}: {path.relative_to(ROOT)}: {type(error).__name__}", file=log, flush=True)
            continue
        if actual:
            wrong += 1
            print(f"fork {seed}: {path.relative_to(ROOT)}: {actual}", file=log, flush=True)
    containers = sorted({kind[0] for kind in kinds})
    print(f"{count} forks over {len(containers)} containers ({', '.join(containers)}): {wrong} not exact", file=log)
    return wrong


def main() -> int:
    """Run the sweeps; return 1 where something was not exact."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variants", type=int, default=300)
    parser.add_argument("--forks", type=int, default=200)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    if not ROOT.is_dir():
        print("no media folder: set FRAMEFEED_MEDIA", file=sys.stderr)
        return 0
    if options.log is not None:
        options.log.parent.mkdir(parents=True, exist_ok=True)
    with open(options.log, "w") if options.log is not None else os.fdopen(os.dup(1), "w") as log:
        print(f"framefeed {describe_version()}, Python {platform.python_version()}, PyAV {av.__version__}", file=log)
        videos = small_videos()
        print(f"{sum(map(len, videos.values()))} files, {len(videos)} kinds", file=log, flush=True)
        wrong = run_forks(videos, options.forks, log) + run_variants(videos, options.variants, log)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

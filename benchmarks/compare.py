"""Run small workloads with an old and a new checkout in turns; print ratios new / old.

    python -m benchmarks.compare OLD_CHECKOUT [MEDIA...] [--rounds 5] [--only NAME...]      (in the project's folder)

Each run is a process of its own with its checkout's `src` in PYTHONPATH, under this Python. Its CPU seconds are user
and system of the process with all its threads and children, while the workload runs: imports and what a workload opens
or makes first are not in them, but for "import, first frame", which is the whole process. MEDIA are videos or folders,
by default those of ../shared/media/video; of their MP4 files, some of at most 3 MB are read. Below 1 the new checkout
is faster, or takes less memory.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import framefeed as ff

NEW = Path(__file__).resolve().parents[1]
REAL, MOST_BYTES = 16, 3_000_000
"""Files that are chosen of real media, and the size of one at most."""
SIZE = (112, 112)

Work = Callable[[], object]


def make_media(folder: Path) -> None:
    """Make videos and pictures that both sides read."""
    import numpy as np
    from PIL import Image

    from framefeed.testing import ClipSpec, write_clip

    (folder / "clips").mkdir(parents=True)
    for number in range(48):
        spec = ClipSpec(num_frames=16, gop=4, b_frames=0 if number % 2 else 2, height=96, width=128)
        write_clip(folder / "clips" / f"{number}.mp4", spec)
    write_clip(folder / "long.mp4", ClipSpec(num_frames=3000, gop=12, height=48, width=64))
    write_clip(folder / "large.mp4", ClipSpec(num_frames=120, gop=30, height=360, width=640))
    (folder / "pictures").mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    for number in range(3000):
        Image.fromarray(noise).save(folder / "pictures" / f"{number}.jpg")


def prepare_side(folder: Path, side: Path) -> None:
    """Scan and fill caches with the code of one side."""
    for name in ("clips", "real"):
        ff.scan(_media(folder, name), out=side / f"{name}.parquet", workers=0)
    for codec, form in (("raw", "output"), ("lz4", "planes")):
        with _loader(side, "clips", workers=0, cache=_cache(side, codec, form)) as loader:
            _ = list(loader)


def _media(folder: Path, name: str) -> list[Path]:
    if name == "real":
        return [Path(line) for line in (folder / "real.txt").read_text(encoding="utf-8").splitlines()]
    return sorted((folder / name).iterdir())


def _loader(side: Path, name: str, **options: Any) -> Any:
    plan = ff.plan_clips(ff.Catalog.open(side / f"{name}.parquet"), ff.Uniform(8), seed=0, size=SIZE)
    return ff.ClipLoader(plan, batch_size=4, on_error="skip", **options)


def _cache(side: Path, codec: str, form: Any) -> Any:
    return ff.FrameCache(side / f"cache_{codec}", codec=codec, form=form)


def first_frame(folder: Path, side: Path, stack: ExitStack) -> Work:
    return lambda: stack.enter_context(ff.VideoDecoder(folder / "clips" / "0.mp4"))[0]


def first_frames(folder: Path, side: Path, stack: ExitStack) -> Work:
    def work() -> None:
        for path in _media(folder, "clips") * 4:
            with ff.VideoDecoder(path) as video:
                _ = video[0]

    return work


def next_frames(folder: Path, side: Path, stack: ExitStack) -> Work:
    index = ff.build_index(folder / "long.mp4")
    videos = [stack.enter_context(ff.VideoDecoder(folder / "long.mp4", frame_index=index)) for _ in range(300)]
    for video in videos:
        _ = video[5]
    return lambda: [video[6] for video in videos]


def frames_in_order(folder: Path, side: Path, stack: ExitStack) -> Work:
    video = stack.enter_context(ff.VideoDecoder(folder / "long.mp4"))
    return lambda: [None for _ in range(3) for _ in video]


def clips_of_open_videos(folder: Path, side: Path, stack: ExitStack) -> Work:
    videos = [stack.enter_context(ff.VideoDecoder(path)) for path in _media(folder, "clips")]
    return lambda: [video.get_frames_at(range(first, first + 8)) for first in (1, 6, 3) * 3 for video in videos]


def index(name: str, times: int) -> Callable[..., Work]:
    """Make the workload of indexing files, over and over."""

    def prepare(folder: Path, side: Path, stack: ExitStack) -> Work:
        def work() -> None:
            for path in _media(folder, name) * times:
                with suppress(ff.MediaError):
                    ff.build_index(path)

        return work

    return prepare


def scan_pictures(folder: Path, side: Path, stack: ExitStack) -> Work:
    return lambda: ff.scan(folder / "pictures", workers=0)


def map_identity(folder: Path, side: Path, stack: ExitStack) -> Work:
    out = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "out.mp4"

    def work() -> object:
        out.unlink(missing_ok=True)
        return ff.map_video(folder / "large.mp4", lambda frame, **_: frame, out, workers=1)

    return work


def epoch(name: str, workers: int = 0, epochs: int = 1, codec: str = "", form: str = "") -> Callable[..., Work]:
    """Make the workload of epochs of a loader, over a filled cache where a codec is named."""

    def prepare(folder: Path, side: Path, stack: ExitStack) -> Work:
        cache = _cache(side, codec, form) if codec else None
        loader = stack.enter_context(_loader(side, name, workers=workers, cache=cache))
        return lambda: [None for _ in range(epochs) for _ in loader]

    return prepare


WORKLOADS: dict[str, Callable[[Path, Path, ExitStack], Work]] = {
    "import, first frame": first_frame,
    "first frames of 48 files, 4 times": first_frames,
    "[6] after [5], 300 decoders": next_frames,
    "9000 small frames in order": frames_in_order,
    "432 clips of 8, open short videos": clips_of_open_videos,
    "index of small MP4": index("clips", 6),
    "index of real MP4": index("real", 4),
    "scan of 3000 pictures": scan_pictures,
    "6 epochs, short videos": epoch("clips", epochs=6),
    "6 epochs, short videos, 2 threads": epoch("clips", workers=2, epochs=6),
    "epoch, real videos": epoch("real"),
    "epoch, real videos, 2 threads": epoch("real", workers=2),
    "24 more epochs, cache, raw": epoch("clips", epochs=24, codec="raw", form="output"),
    "12 more epochs, cache, lz4 planes": epoch("clips", epochs=12, codec="lz4", form="planes"),
    "map_video, 120 frames unchanged": map_identity,
}
WHOLE = ("import, first frame",)
"""Their CPU time is that of the whole process."""


def run_child(name: str, folder: Path, side: Path) -> dict[str, float]:
    """Do a workload in this process; give its seconds and the peak of its memory, in 10^6 bytes."""
    warnings.simplefilter("ignore")
    with ExitStack() as stack:
        work = WORKLOADS[name](folder, side, stack)
        cpu, wall = (0.0 if name in WHOLE else _cpu_seconds()), time.perf_counter()
        work()
        took = {"CPU": _cpu_seconds() - cpu, "wall": time.perf_counter() - wall}
    # Not ru_maxrss, which a process inherits from the one that started it.
    peak = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").split("VmHWM:")[1].split()[0]
    return took | {"memory": int(peak) * 1024 / 1e6}


def _cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _run(checkout: Path, *words: str | Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONPYCACHEPREFIX": ""}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-P", __file__, "--child", *map(str, words)]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def _choose(media: list[Path]) -> Iterator[Path]:
    found = [path for root in media for path in ([root] if root.is_file() else sorted(root.rglob("*.mp4")))]
    small = [path.resolve() for path in found if path.stat().st_size <= MOST_BYTES]
    yield from small[:: max(1, len(small) // REAL)][:REAL]


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Median, and the order statistics that hold it with 90 % or, where there are too few, the ends."""
    ordered, count, below = sorted(ratios), len(ratios), 0
    while 2 * sum(math.comb(count, k) for k in range(below + 2)) / 2**count <= 0.1:
        below += 1
    return statistics.median(ordered), ordered[below], ordered[count - 1 - below]


def compare(old: Path, media: list[Path], rounds: int, names: list[str]) -> Iterator[str]:
    """Run all in turns; give the lines of the table."""
    checkouts = {"old": old, "new": NEW}
    with tempfile.TemporaryDirectory(prefix="framefeed-compare-") as name:
        folder = Path(name)
        (folder / "real.txt").write_text("".join(f"{path}\n" for path in _choose(media)), encoding="utf-8")
        _run(old, "media", folder)
        for side, checkout in checkouts.items():
            (folder / side).mkdir()
            _run(checkout, "side", folder, folder / side)
        yield f"{'new / old':36}{'CPU':>21}{'wall':>21}{'memory':>21}{'old CPU s':>11}"
        for workload in names:
            runs: dict[str, list[dict[str, float]]] = {side: [] for side in checkouts}
            for number in range(rounds + 1):
                for side in ("old", "new") if number % 2 else ("new", "old"):
                    found = json.loads(_run(checkouts[side], workload, folder, folder / side))
                    runs[side] += [found] if number else []  # the first round fills the page cache
            cells = ""
            for unit in ("CPU", "wall", "memory"):
                pairs = zip(runs["new"], runs["old"], strict=True)
                middle, low, high = interval([new[unit] / before[unit] for new, before in pairs])
                cells += f"  {middle:5.2f} ({low:.2f}-{high:.2f})"
            yield f"{workload:36}{cells}{statistics.median(run['CPU'] for run in runs['old']):11.3f}"


def main() -> None:
    """Compare; or, with --child, do one thing in this process."""
    if sys.argv[1:2] == ["--child"]:
        what, folder, *side = sys.argv[2:]
        if what == "media":
            make_media(Path(folder))
        elif what == "side":
            prepare_side(Path(folder), Path(side[0]))
        else:
            print(json.dumps(run_child(what, Path(folder), Path(side[0]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, metavar="OLD_CHECKOUT")
    parser.add_argument("media", nargs="*", type=Path, default=[NEW.parent / "shared" / "media" / "video"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=WORKLOADS, default=list(WORKLOADS))
    args = parser.parse_args()
    for line in compare(args.old.resolve(), args.media, args.rounds, args.only):
        print(line, flush=True)


if __name__ == "__main__":
    main()

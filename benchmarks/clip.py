"""What pictures of a video cost: `framefeed clip --fps 1` beside the program ffmpeg, in CPU seconds.

    python benchmarks/clip.py [--video VIDEO] [--rounds 5] [--json OUT]

Without VIDEO, 60 s of 1280x720 H.264 are made. ffmpeg runs with `-threads 1 -vf fps=1`, at the quality whose first
picture has the most similar number of bytes. Each run is a process of its own, in turns; those of one picture are
subtracted as start-up.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = "testsrc2=size=1280x720:rate=25:duration=60,noise=alls=6:allf=t"
QUALITY = 90


def cpu_seconds(words: list[str]) -> float:
    """Run a program; give the CPU seconds of that process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(video: Path, folder: Path, *which: str) -> list[str]:
    """Words that write pictures with framefeed."""
    form = ["--format", "jpg", "--quality", str(QUALITY), "-o", str(folder)]
    return [sys.executable, "-m", "framefeed", "clip", str(video), *which, *form]


def theirs(video: Path, folder: Path, quality: int, *which: str) -> list[str]:
    """Words that write pictures with ffmpeg."""
    folder.mkdir(exist_ok=True)
    form = ["-qmin", "1", "-q:v", str(quality), str(folder / "%06d.jpg")]
    return ["ffmpeg", "-v", "error", "-y", "-threads", "1", "-i", str(video), "-vf", "fps=1", *which, *form]


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir())


def similar_quality(video: Path, scratch: Path) -> int:
    """Find ffmpeg's quality at which the first picture has about the bytes of ours."""
    cpu_seconds(ours(video, scratch / "ours_one", "--indices", "0"))
    goal, sizes = size_of(scratch / "ours_one"), {}
    for quality in range(1, 9):
        cpu_seconds(theirs(video, scratch / "theirs_one", quality, "-frames:v", "1"))
        sizes[quality] = size_of(scratch / "theirs_one")
    return min(sizes, key=lambda quality: abs(sizes[quality] - goal))


def measure(video: Path, scratch: Path, rounds: int) -> dict[str, object]:
    """Run all in turns."""
    quality = similar_quality(video, scratch)
    commands = {
        "ours_one": ours(video, scratch / "ours_one", "--indices", "0"),
        "theirs_one": theirs(video, scratch / "theirs_one", quality, "-frames:v", "1"),
        "ours": ours(video, scratch / "ours", "--fps", "1"),
        "theirs": theirs(video, scratch / "theirs", quality),
    }
    runs: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, words in commands.items():
            runs[name].append(cpu_seconds(words))
    median = {name: statistics.median(found) for name, found in runs.items()}
    own, other = (median[name] - median[f"{name}_one"] for name in ("ours", "theirs"))
    return {
        "cpu_seconds": {name: round(found, 2) for name, found in median.items()},
        "without_start_up": {"ours": round(own, 2), "theirs": round(other, 2)},
        "ratio": round(own / other, 2),
        "ffmpeg_quality": quality,
        "bytes": {name: size_of(scratch / name) for name in ("ours", "theirs")},
        "pictures": {name: len(list((scratch / name).iterdir())) for name in ("ours", "theirs")},
        "rounds": rounds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--video", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="OUT")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch, video = Path(folder), args.video
        if video is None:
            video = scratch / "made.mp4"
            codec = ["-c:v", "libx264", "-crf", "23", "-pix_fmt", "yuv420p", str(video)]
            subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", SOURCE, *codec], check=True)
        found = measure(video, scratch, args.rounds)
    print(json.dumps(found, indent=2))
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""Gather what the trial needs on a machine with a GPU and without network, in one folder that git ignores.

usage: python -m benchmarks.device.pack [FOLDER] [--python 3.12] [--downloads FOLDER]      (in the project's folder)
"""

from __future__ import annotations

import argparse
import tarfile
import tempfile
from pathlib import Path

from benchmarks.device.clips import make_media
from benchmarks.device.wheels import pack_packages, write_list

MOST_MEDIA, MOST = 8_000_000, 56_000_000
"""Bytes."""
MEDIA = "media.tar"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device.pack")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/device"), help="default: build/device")
    parser.add_argument("--python", default="3.12", help="of the machine with the GPU (default: 3.12)")
    parser.add_argument("--downloads", type=Path, help="keep wheels here, and use them again")
    given = parser.parse_args(words)
    given.folder.mkdir(parents=True, exist_ok=True)
    for old in (*given.folder.glob("*.tar*"), *given.folder.glob("*.json")):
        old.unlink()
    with tempfile.TemporaryDirectory() as temporary:
        media = make_media(Path(temporary) / "media")
        tar_media(given.folder, Path(temporary) / "media")
        packed = pack_packages(given.folder, given.downloads or Path(temporary), given.python)
    write_list(given.folder, packed, given.python)
    for name, reason in media.not_made.items():
        print(f"not made: {name}: {reason}")
    for package in packed:
        if package.problem:
            print(f"not packed: {package.problem}")
    return print_sizes(given.folder)


def tar_media(folder: Path, media: Path) -> None:
    """Put the media into the pack."""
    with tarfile.open(folder / MEDIA, "w") as tar:
        for path in sorted(media.iterdir()):
            tar.add(path, path.name)


def print_sizes(folder: Path) -> int:
    """Print the size of each file; return 1 if the pack or its media are too large."""
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"{size / 1e6:7.2f} MB  {name}")
    total, media = sum(sizes.values()), sizes.get(MEDIA, 0)
    most_media = f"media {media / 1e6:.2f} of at most {MOST_MEDIA / 1e6:g}"
    print(f"{total / 1e6:7.2f} MB  in all, of at most {MOST / 1e6:g}; {most_media}")
    if total > MOST or media > MOST_MEDIA:
        print("too large: leave out a package or make smaller clips")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

import signal
import sys
from argparse import ArgumentParser

from benchmarks.archives.media import Sizes
from benchmarks.archives.suite import make_suite
from benchmarks.command import main, read_arguments


def add_scale(parser: ArgumentParser) -> None:
    parser.add_argument("--scale", type=float, default=1, metavar="S", help="share of all sizes (default: 1, 1.5 GB)")


if __name__ == "__main__":
    # Then too, the files go.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    given = read_arguments("archives", add=add_scale)
    raise SystemExit(main(make_suite(Sizes.scaled(given.scale)), given))

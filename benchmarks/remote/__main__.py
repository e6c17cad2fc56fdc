import signal
import sys
from argparse import ArgumentParser

from benchmarks.command import main, read_arguments
from benchmarks.remote.media import Sizes
from benchmarks.remote.suite import make_suite


def add_scale(parser: ArgumentParser) -> None:
    parser.add_argument("--scale", type=float, default=1, metavar="S", help="share of all sizes (default: 1, 2.5 GB)")


if __name__ == "__main__":
    # Then too, the server ends and the files go.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    given = read_arguments("remote", add=add_scale)
    raise SystemExit(main(make_suite(Sizes.scaled(given.scale)), given))

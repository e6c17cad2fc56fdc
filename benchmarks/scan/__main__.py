from argparse import ArgumentParser

from benchmarks.command import main, read_arguments
from benchmarks.scan.suite import FILES, make_suite


def add_files(parser: ArgumentParser) -> None:
    parser.add_argument("--files", type=int, default=FILES, metavar="N", help=f"pictures of a tree (default: {FILES})")


if __name__ == "__main__":
    given = read_arguments("scan", add=add_files)
    raise SystemExit(main(make_suite(given.files), given))

"""``python -m framefeed``: the same command as ``framefeed``."""

import sys

from framefeed.cli import main

if __name__ == "__main__":  # spawned workers import this module again, under another name
    sys.exit(main())

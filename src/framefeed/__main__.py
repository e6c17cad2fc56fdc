"""``python -m framefeed``: the same command as ``framefeed``."""

from __future__ import annotations

import sys

from _framefeed_command import main

if __name__ == "__main__":  # spawned workers import this module again, under another name
    sys.exit(main())

"""Exit codes."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """How a command ends.

    Attributes:
        WELL: All well.
        MISTAKE: The user's mistake, the one file that the command is about cannot be read, or the machine ran out of
            memory, files or disk.
        FAILED_FILES: Finished; some files failed and are listed.
        BUG: Our bug; EX_SOFTWARE of ``sysexits.h``.
        INTERRUPTED: 128 + SIGINT, as shells have it.
    """

    WELL = 0
    MISTAKE = 1
    FAILED_FILES = 3
    BUG = 70
    INTERRUPTED = 130

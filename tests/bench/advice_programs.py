"""Rows of ``bench all`` that report what was measured before, and end in each way."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from framefeed.bench._isolated import Report
from framefeed.errors import UsageError
from tests.bench.isolated_programs import LONGEST_SECONDS, start_daemon

Options = Mapping[str, Any]
MEASURED = "measured.json"
"""In the folder of the media: row -> what it found."""


def find(options: Options, row: str) -> Any:
    return json.loads(Path(options["media"][0], MEASURED).read_bytes())[row]


def say_media(options: Options, report: Report) -> None:
    report(find(options, "media"))


def say_decode(options: Options, report: Report) -> None:
    report(find(options, "decode"))


def print_storage(options: Options, report: Report) -> None:
    sys.stdout.write("this is no news\n")
    report(find(options, "storage"))


def crash(_: Options, __: Report) -> None:
    os.abort()


def raise_after_report(options: Options, report: Report) -> None:
    report(find(options, "proxies"))
    raise UsageError("the third file is odd")


def hang_after_report(options: Options, report: Report) -> None:
    """Wait for ever, deaf to signals, in a temporary folder of its own, with the disk's folder half written."""
    signal.alarm(LONGEST_SECONDS)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(options["cache"]).mkdir()
    Path(options["cache"], "frames").write_bytes(b"half")
    report(find(options, "cache"))
    Path(options["media"][0], f"hangs_{os.getpid()}").touch()
    while True:
        time.sleep(0.01)


def leave_daemon(options: Options, report: Report) -> None:
    Path(options["media"][0], "daemon").write_text(str(start_daemon()))
    report({"runs": find(options, "loader")})


def interrupt_parent(options: Options, report: Report) -> None:
    report({"runs": find(options, "loader")})
    os.kill(os.getppid(), signal.SIGINT)
    while True:
        time.sleep(0.01)

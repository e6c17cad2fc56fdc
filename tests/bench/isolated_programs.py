"""Programs that tests run in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from framefeed.bench._isolated import Report, run_isolated
from framefeed.errors import UsageError

LONGEST_SECONDS = 120
"""After which processes of a test that failed end by themselves."""


def report_thrice(options: Mapping[str, Any], report: Report) -> None:
    warnings.warn("nothing to print", stacklevel=1)
    report("first")
    report({"is": "second"})
    report({"given": options, "input": sys.stdin.read(), "session": os.getsid(0) == os.getpid()})


def report_nothing(_: Mapping[str, Any], __: Report) -> None:
    pass


def fail(options: Mapping[str, Any], report: Report) -> None:
    report("before")
    raise UsageError(options["message"]) if options["is_own"] else KeyError(options["message"])


def report_what_is_no_json(options: Mapping[str, Any], report: Report) -> None:
    report("before")
    report(float("nan") if options["is_number"] else {1, 2})


def end_by_signal(options: Mapping[str, Any], report: Report) -> None:
    report("before")
    os.kill(os.getpid(), options["number"])
    signal.pause()


def abort(_: Mapping[str, Any], report: Report) -> None:
    report("before")
    os.abort()


def leave(options: Mapping[str, Any], report: Report) -> None:
    report("before")
    sys.stderr.write(options["last"])
    os._exit(options["status"])


def exit_with(options: Mapping[str, Any], _: Report) -> None:
    sys.exit(options["status"])


def print_lines(options: Mapping[str, Any], _: Report) -> None:
    os.write(1, options["text"].encode("utf-8", "surrogateescape"))


def hang(options: Mapping[str, Any], report: Report) -> None:
    """Wait for ever, in a temporary folder, beside a daemon if asked; interrupt the parent if asked."""
    signal.alarm(LONGEST_SECONDS)
    if options["is_deaf"]:
        signal.signal(signal.SIGTERM, lambda _, __: interrupt_parent(options))
    with tempfile.TemporaryDirectory(dir=options["folder"]):
        pids = [os.getpid(), *([start_daemon()] if options["has_daemon"] else [])]
        report(pids)
        replace_text(Path(options["ready"]), json.dumps(pids))
        interrupt_parent(options)
        while True:
            time.sleep(0.01)  # A signal may come right before signal.pause().


def interrupt_parent(options: Mapping[str, Any]) -> None:
    if options["interrupts"]:
        os.kill(os.getppid(), signal.SIGINT)


def leave_daemon(_: Mapping[str, Any], report: Report) -> None:
    report([start_daemon()])


def leave_children(options: Mapping[str, Any], report: Report) -> None:
    environment = None if options["is_marked"] else {}
    words = ["sleep", str(LONGEST_SECONDS)]
    report([subprocess.Popen(words, env=environment).pid for _ in range(2)])


def start_helper(options: Mapping[str, Any], report: Report) -> None:
    """Start a child that works for a moment when this process has ended, which closes the pipe."""
    read_end, _ = os.pipe()
    words = ["sh", "-c", 'cat && sleep 0.3 && touch "$0"', options["done"]]
    report([subprocess.Popen(words, stdin=read_end).pid])


def start_daemon() -> int:
    """Fork twice, into a session of its own, as daemons do; return the number of the process."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.alarm(LONGEST_SECONDS)
        os.write(write_end, str(os.getpid()).encode())
        while True:
            signal.pause()
    os.waitpid(child, 0)
    return int(os.read(read_end, 20))


def replace_text(path: Path, text: str) -> None:
    unfinished = path.with_suffix(".part")
    unfinished.write_text(text, encoding="ascii")
    unfinished.replace(path)


def hang_in_child(options: str) -> None:
    """Run the program that hangs, in a process that a test kills."""
    given = json.loads(options)
    run_isolated(hang, given, Path(given["folder"]), seconds=LONGEST_SECONDS)


if __name__ == "__main__":
    # By its name, because the program is looked up in a module.
    from tests.bench import isolated_programs

    isolated_programs.hang_in_child(sys.argv[1])

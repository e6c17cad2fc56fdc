"""The command line: one module for each command, with ``add_arguments(parser)`` and ``run(args) -> int``.

Exit codes: 0 success; 1 the user's mistake, the one file cannot be read, or the machine ran out of a resource (one
line); 3 finished, with failed files listed; 130 interrupted; 70 our bug, with its traceback.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from framefeed._checks import expand_home
from framefeed._nearest import did_you_mean
from framefeed.cli._arguments import Parser, join_negative_numbers
from framefeed.cli._io import Exit, flush_or_discard_output, print_error
from framefeed.cli._versions import describe_version
from framefeed.errors import FramefeedError, LoadError, UsageError

COMMANDS = {
    "scan": "list many videos and pictures, with their facts and errors, in one table",
    "clip": "save chosen frames of one video as picture files",
    "map": "pass every frame of one or many videos through a function, and write videos or pictures",
    "feed": "run a training loop without a model, and measure throughput, waiting time and bottleneck",
    "proxy": "make smaller copies of the files of a catalog where they pay, or estimate what they would bring",
    "cache": "build, inspect, verify or clear a cache of decoded frames",
    "report": "write an HTML page about a catalog: its files, their errors, the cost of decoding",
    "bench": "find the fastest way to load your media on this machine, or compare decoders and stored formats",
    "demo": "run all steps once, from a scan to training, on your videos or on generated ones",
    "doctor": "show installed versions, codecs and the limits of this machine",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, whose words come from ``sys.argv`` where none are given; return the exit code."""
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        with suppress(BrokenPipeError):  # the reader of the output closed it, as ``head`` does
            sys.stdout.flush()
    except KeyboardInterrupt as error:
        code = _explain(error)
    except SystemExit as leaving:  # argparse, once it has shown its help
        code = leaving.code if isinstance(leaving.code, int) else Exit.WELL
    except Exception as error:
        code = _explain(error)
    flush_or_discard_output()
    return int(code)


def _dispatch(words: list[str]) -> int:
    chosen = next((word for word in words if not word.startswith("-")), None)
    if chosen is not None and chosen not in COMMANDS and words[0] == chosen:
        nearest = did_you_mean(chosen, COMMANDS)
        raise UsageError(f"expected one of the commands {', '.join(COMMANDS)}, got {chosen!r}{nearest}")
    args, unknown = _make_parser(chosen).parse_known_args(join_negative_numbers(words))
    for name in ("media", "roots", "paths"):
        files = getattr(args, name, None)
        if isinstance(files, list) and not any(word.startswith("-") for word in unknown):
            setattr(args, name, [*files, *unknown])  # argparse stops at an option: these are the files after it
            unknown = []
    if unknown:
        command = f"framefeed {chosen}" if chosen in COMMANDS else "framefeed"
        raise UsageError(f"unexpected argument {' '.join(unknown)} ('{command} --help' lists all arguments)")
    for name, value in vars(args).items():
        setattr(args, name, [_expand(each) for each in value] if isinstance(value, list) else _expand(value))
    run = getattr(args, "run", None)
    if run is None:
        raise UsageError(f"expected a command: {', '.join(COMMANDS)} ('framefeed --help' describes them)")
    return int(run(args))


def _expand(value: Any) -> Any:
    """Replace ``~`` in a path: a shell leaves that of --out=~/cat.parquet."""
    return type(value)(expand_home(str(value))) if isinstance(value, str | Path) else value


def _make_parser(chosen: str | None) -> argparse.ArgumentParser:
    parser = Parser(
        prog="framefeed", description="Load frames of videos and pictures from storage into a training loop."
    )
    parser.add_argument("--version", action="version", version=f"framefeed {describe_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")
        if name == chosen:
            # Imported only for its own command: 'framefeed --help' does not wait for all imports.
            module = importlib.import_module(f"framefeed.cli.{name}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return parser


def _explain(error: BaseException) -> Exit:
    """Print an error: one line if the user or a file is the cause, a traceback if we are."""
    # Libraries, and class statements of Python 3.11, wrap a KeyboardInterrupt.
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    if cause is not None:
        print_error(str(cause) or "interrupted")
        return Exit.INTERRUPTED
    is_ours = isinstance(error, OSError) and error.errno == errno.EBADF  # a descriptor that we closed
    if isinstance(error, (FramefeedError, OSError)) and type(error) is not LoadError and not is_ours:
        print_error(_describe_error(error))
        return Exit.MISTAKE
    if isinstance(error, MemoryError):
        print_error(
            f"ran out of memory{f' ({error})' if str(error) else ''}: use smaller batches or pictures, or fewer workers"
        )
        return Exit.MISTAKE
    print_error(
        *traceback.format_exc().splitlines(), "this is a bug in framefeed: please report it with the lines above"
    )
    return Exit.BUG


def _describe_error(error: FramefeedError | OSError) -> str:
    """Describe an error with the name of its file, without the number of the system error."""
    if isinstance(error, FramefeedError) or error.strerror is None:
        return str(error)
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, (str, bytes))]
    return ": ".join([" -> ".join(names), error.strerror] if names else [error.strerror])

"""The command line: one module a command, each with ``add_arguments(parser)`` and ``run(args) -> int``.

Exit codes: 0 all well; 1 the user's mistake, the one file that cannot be read, or a machine that ran out of something:
one line; 3 finished, with failed files listed; 130 interrupted; 70 our bug, with its traceback.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence

from framefeed._nearest import did_you_mean
from framefeed.cli._arguments import Parser, joined_numbers
from framefeed.cli._io import Exit, complain, leave_standard_output
from framefeed.cli._versions import framefeed_version
from framefeed.errors import FramefeedError, LoadError, UsageError

COMMANDS = {
    "scan": "list many videos and pictures, with their facts and errors, in one table",
    "clip": "save chosen frames of one video as picture files",
    "feed": "run a training loop without a model, and measure throughput, waiting time and bottleneck",
    "cache": "build, inspect, verify or clear a cache of decoded frames",
    "report": "write an HTML page about a catalog: its files, their errors, the cost of decoding",
    "bench": "compare framefeed with other installed libraries on this machine",
    "demo": "run all steps once, from a scan to training, on your videos or on generated ones",
    "doctor": "show installed versions, codecs and the limits of this machine",
}
NOT_YET = {
    "map": "apply a function to every frame of a video",
    "proxy": "make a small copy of a video that is fast to decode",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Words of the command line, without the program's name; None takes them from ``sys.argv``.

    Returns:
        The exit code.
    """
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:
        code = Exit.WELL  # Who reads our output has read enough.
    except KeyboardInterrupt as error:
        code = _explain(error)
    except SystemExit as leaving:  # argparse, once it has shown its help
        code = leaving.code if isinstance(leaving.code, int) else Exit.WELL
    except Exception as error:
        code = _explain(error)
    leave_standard_output()
    return int(code)


def _dispatch(words: list[str]) -> int:
    chosen = next((word for word in words if not word.startswith("-")), None)
    if chosen in NOT_YET:
        raise UsageError(
            f"'{chosen}' ({NOT_YET[chosen]}) is not in this version of framefeed; its commands: {', '.join(COMMANDS)}"
        )
    if chosen is not None and chosen not in COMMANDS and words[0] == chosen:
        nearest = did_you_mean(chosen, COMMANDS)
        raise UsageError(f"expected one of the commands {', '.join(COMMANDS)}, got {chosen!r}{nearest}")
    args, unknown = _parser(chosen).parse_known_args(joined_numbers(words))
    unknown = _taken_behind_options(args, unknown)
    if unknown:
        command = f"framefeed {chosen}" if chosen in COMMANDS else "framefeed"
        raise UsageError(f"{command}: unexpected argument {' '.join(unknown)} ('{command} --help' lists all arguments)")
    run = getattr(args, "run", None)
    if run is None:
        raise UsageError(f"expected a command: {', '.join(COMMANDS)} ('framefeed --help' describes them)")
    return int(run(args))


def _taken_behind_options(args: argparse.Namespace, unknown: list[str]) -> list[str]:
    """Add files named behind an option to those before it, where argparse stopped taking them; give the rest."""
    for name in ("media", "roots"):
        files = getattr(args, name, None)
        if isinstance(files, list) and not any(word.startswith("-") for word in unknown):
            setattr(args, name, [*files, *unknown])
            return []
    return unknown


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    parser = Parser(
        prog="framefeed", description="Load frames of videos and pictures from storage into a training loop."
    )
    parser.add_argument("--version", action="version", version=f"framefeed {framefeed_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")
        if name == chosen:
            # Only now, so that 'framefeed --help' does not wait for the imports of all commands.
            module = importlib.import_module(f"framefeed.cli.{name}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return parser


def _explain(error: BaseException) -> Exit:
    """Say what went wrong: in one line where the user or a file is the cause, with a traceback where we are."""
    interrupt = next((each for each in _chain(error) if isinstance(each, KeyboardInterrupt)), None)
    if interrupt is not None:
        complain(str(interrupt) or "interrupted")
        return Exit.INTERRUPTED
    is_ours = isinstance(error, OSError) and error.errno == errno.EBADF  # a descriptor that we closed
    if isinstance(error, (FramefeedError, OSError)) and type(error) is not LoadError and not is_ours:
        complain(_sentence(error))
        return Exit.MISTAKE
    if isinstance(error, MemoryError):
        complain(
            f"ran out of memory{f' ({error})' if str(error) else ''}: use smaller batches or pictures, or fewer workers"
        )
        return Exit.MISTAKE
    complain(*traceback.format_exc().splitlines(), "this is a bug in framefeed: please report it with the lines above")
    return Exit.BUG


def _sentence(error: FramefeedError | OSError) -> str:
    """Say what is wrong with which file, without the system's number for it."""
    if isinstance(error, FramefeedError) or error.strerror is None:
        return str(error)
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, (str, bytes))]
    return ": ".join([" -> ".join(names), error.strerror] if names else [error.strerror])


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what led to it: libraries, and class statements of Python 3.11, wrap a KeyboardInterrupt."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__

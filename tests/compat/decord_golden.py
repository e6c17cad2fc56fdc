"""Write decord_golden.json: what decord2 gives for each of the calls. Run where decord2 is installed:

    PYTHONPATH=src:. .venv-engines/bin/python -m tests.compat.decord_golden

Each call has a process of its own, because some end it.
"""

from __future__ import annotations

import json
import multiprocessing
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.compat.decord_calls import describe, list_pairs, path_of

GOLDEN = Path(__file__).with_name("decord_golden.json")


def answer(pipe: Connection, clip: str, call: str) -> None:
    import decord

    decord.logging.set_level(decord.logging.QUIET)
    pipe.send(describe(decord, clip, call))


def ask(clip: str, call: str) -> Any:
    path_of(clip)  # written once, in this process
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=answer, args=(theirs, clip, call))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        process.join()
        return {"crash": process.exitcode}
    finally:
        process.join()


def main() -> None:
    results: dict[str, dict[str, Any]] = {}
    for clip, call in list_pairs():
        results.setdefault(clip, {})[call] = ask(clip, call)
    lines = [
        f" {json.dumps(clip)}: {{\n"
        + ",\n".join(f"  {json.dumps(call)}: {json.dumps(result)}" for call, result in calls.items())
        + "\n }"
        for clip, calls in results.items()
    ]
    head = f' "decord2": {json.dumps(version("decord2"))}'
    GOLDEN.write_text("{\n" + ",\n".join([head, *lines]) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

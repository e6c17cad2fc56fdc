"""Slips that tests should notice: ``python -m tests.slips --count 100 --seed 1`` in a copy of the checkout.

Each is one change of a function's body (a comparison, a sign, a bound, a condition, a call that is left out), drawn at
random over the package. Of the rooms that it reaches, those tests are run that `make test-all` alone runs, until one
fails; then those of `make test`: a slip that these do not see is missed. ``--whole`` runs these for every slip, and so
counts how many are noticed at all.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import NamedTuple

import pytest

from tests.house import MODULE_FILES, SRC, FunctionNode

REACHED = {
    "adapters": "adapters", "archives": "archives scanning catalog", "bench": "bench benchmarks", "bitstreams":
    "bitstreams index", "cache": "cache", "catalog": "catalog scanning", "cli": "cli", "compat": "compat", "decode":
    "decode test_law.py test_parity.py", "encode": "encode transcode", "index": "index decode", "lerobot": "lerobot",
    "load": "load", "media": "media index", "mp4": "mp4 index", "parallel": "parallel load", "pictures":
    "pictures test_picture_verdicts.py", "plan": "plan load", "report": "report", "request": "request plan", "scanning":
    "scanning", "testing": "testing", "transcode": "transcode",
}  # fmt: skip
SWAPS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is", ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*",
}  # fmt: skip


class Slip(NamedTuple):
    """A part of a file, by lines and columns in UTF-8, and what takes its place."""

    path: Path
    start: tuple[int, int]
    stop: tuple[int, int]
    text: str

    def change(self) -> str:
        """Give the text of the file with this slip."""
        lines = self.path.read_bytes().splitlines(keepends=True)
        (first, left), (last, right) = self.start, self.stop
        changed = lines[first - 1][:left] + self.text.encode() + lines[last - 1][right:]
        return b"".join([*lines[: first - 1], changed, *lines[last:]]).decode()


def list_slips(path: Path) -> Iterator[Slip]:
    """List what can be changed in the bodies of a module's functions."""
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, FunctionNode):
            for statement in function.body:
                for node in ast.walk(statement):
                    yield from _change_node(path, node)


def _change_node(path: Path, node: ast.AST) -> Iterator[Slip]:
    def put(old: ast.expr | ast.stmt, text: str) -> Slip:
        return Slip(path, (old.lineno, old.col_offset), (old.end_lineno or 0, old.end_col_offset or 0), text)

    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in SWAPS:
            yield put(node, f"({ast.unparse(left)} {SWAPS[type(op)]} {ast.unparse(right)})")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in SWAPS:
            yield put(node, f"({ast.unparse(left)} {SWAPS[type(op)]} {ast.unparse(right)})")
        case ast.BoolOp(op=op, values=values):
            word = " or " if isinstance(op, ast.And) else " and "
            yield put(node, f"({word.join(f'({ast.unparse(value)})' for value in values)})")
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield put(node, f"bool({ast.unparse(operand)})")
        case ast.Constant(value=bool() as value):
            yield put(node, str(not value))
        case ast.Constant(value=int() as value):
            yield put(node, str(value + 1))
        case ast.If(test=test):
            yield put(test, f"not ({ast.unparse(test)})")
        case ast.Expr(value=ast.Call()):
            yield put(node, "pass")


def run_tests(room: str, *, everything: bool, seconds: float) -> str:
    """Run the tests of the rooms that this one reaches; name the first that fails, if one does."""
    paths = [f"tests/{name}" for name in REACHED.get(room, "index decode plan load").split()]
    left_out = ["-m", "test_all"] if everything else []
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *left_out, *paths]
    # An editable install may be of another checkout.
    environment = {**os.environ, "FRAMEFEED_ALL_TESTS": str(int(everything)), "PYTHONPATH": str(SRC)}
    with subprocess.Popen(command, stdout=PIPE, stderr=DEVNULL, text=True, env=environment, process_group=0) as run:
        try:
            shown, _ = run.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
    failed = [line for line in shown.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if run.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return ""
    return failed[0] if failed else f"ended with {run.returncode}"


def main() -> int:
    """Draw slips, run the tests, print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--part", default="1/1", help="2/3: the second of three parts, each in a copy of its own")
    parser.add_argument("--whole", action="store_true", help="run the tests of `make test` for every slip")
    given = parser.parse_args()
    every = [slip for path in MODULE_FILES.values() for slip in list_slips(path)]
    drawn = random.Random(given.seed).sample(every, given.count)
    part, parts = map(int, given.part.split("/"))
    counts = Counter[str]()
    for slip in drawn[part - 1 :: parts]:
        name = slip.path.relative_to(SRC / "framefeed")
        room = name.parts[0]
        old = slip.path.read_text(encoding="utf-8")
        slip.path.write_text(slip.change(), encoding="utf-8")
        try:
            alone = run_tests(room, everything=True, seconds=given.seconds)
            seen = run_tests(room, everything=False, seconds=given.seconds) if alone or given.whole else ""
        finally:
            slip.path.write_text(old, encoding="utf-8")
        verdict = "seen" if seen else "missed" if alone else "not seen" if given.whole else "not by these"
        counts[verdict] += 1
        print(f"{verdict}\t{name}:{slip.start[0]}\t{slip.text!r}\t{alone or seen}", flush=True)
    print(dict(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())

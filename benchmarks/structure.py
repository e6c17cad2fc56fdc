"""Count what design/0018 says of the source: modules, lines, function bodies, imports, names used twice.

usage: python benchmarks/structure.py [--json FILE]      (in the project's folder)
"""

from __future__ import annotations

import argparse
import ast
import collections
import json
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "framefeed"
NOT_CORE = ("bench", "testing")
LOADER = "import framefeed as ff; ff.Catalog, ff.plan_clips, ff.Rates, ff.ClipLoader"
LOADED = """
import sys
for name, module in sys.modules.items():
    if name.startswith("framefeed"):
        print(module.__file__)
"""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> int:
    """Print the counts; write them as JSON where a file is named."""
    parser = argparse.ArgumentParser(description="Count modules, lines, bodies, imports and names of the source.")
    parser.add_argument("--json", type=pathlib.Path)
    counts = count()
    for name, value in counts.items():
        print(f"{name:55} {value}")
    if (target := parser.parse_args().json) is not None:
        target.write_text(json.dumps(counts, indent=1) + "\n")
    return 0


def count() -> dict[str, Any]:
    """Return each figure under its name."""
    trees = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    core = {path: tree for path, tree in trees.items() if room_of(path) not in NOT_CORE}
    bodies = sorted(body_lines(node) for tree in core.values() for node in ast.walk(tree) if isinstance(node, Function))
    loaded = [pathlib.Path(line) for line in run(LOADER + LOADED).splitlines()]
    classes: dict[str, set[str]] = collections.defaultdict(set)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].add(room_of(path))
    twice = sorted(name for name, rooms in classes.items() if len(rooms) > 1)
    inside = internal_paths()
    return {
        "core modules (without bench, testing)": len(core),
        "core lines": sum(lines_of(path) for path in core),
        "bench modules / lines": [len(bench := files_of(trees, "bench")), sum(map(lines_of, bench))],
        "testing modules / lines": [len(testing := files_of(trees, "testing")), sum(map(lines_of, testing))],
        "function body median / p90 / longest": [statistics.median(bodies), bodies[int(0.9 * len(bodies))], bodies[-1]],
        "private functions": (private := private_functions(core))[0],
        "private functions with one caller in their module": private[1],
        "dataclasses": (built := dataclasses_of(trees))[0],
        "dataclasses built in one place": built[1],
        "modules a loader imports": len(loaded),
        "lines a loader imports": sum(map(lines_of, loaded)),
        "public class names in two rooms": len(twice),
        "which": twice,
        "paths inside a room imported by tests of another room": len(inside),
        "modules under 60 lines": sum(lines_of(path) < 60 for path in core if path.name != "__init__.py"),
    }


def files_of(trees: dict[pathlib.Path, ast.Module], room: str) -> list[pathlib.Path]:
    """List the files of one room."""
    return [path for path in trees if room_of(path) == room]


def lines_of(path: pathlib.Path) -> int:
    """Count the lines of a file."""
    return len(path.read_text().splitlines())


def room_of(path: pathlib.Path) -> str:
    """Name the room of a module: the folder, or the module's own name beside the rooms."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def run(code: str) -> str:
    """Run code in a process of its own; return what it prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def body_lines(node: Function) -> int:
    """Count a function's lines without its signature and docstring."""
    first = node.body[0]
    has_docstring = isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str)
    start = (first.end_lineno or 0) + 1 if has_docstring else first.lineno
    return (node.end_lineno or 0) - start + 1


def private_functions(trees: dict[pathlib.Path, ast.Module]) -> tuple[int, int]:
    """Count the private functions of modules, and those of them that are named once besides."""
    total = once = 0
    for tree in trees.values():
        uses = collections.Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        for node in tree.body:
            if isinstance(node, Function) and node.name.startswith("_"):
                total += 1
                once += uses[node.name] == 1
    return total, once


def dataclasses_of(trees: dict[pathlib.Path, ast.Module]) -> tuple[int, int]:
    """Count the dataclasses, and those of them whose name is called once in the package."""
    calls = collections.Counter(
        getattr(node.func, "id", getattr(node.func, "attr", ""))
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    )
    names = [
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(mark) for mark in node.decorator_list)
    ]
    return len(names), sum(calls[name] == 1 for name in names)


def internal_paths() -> set[str]:
    """List the modules and names inside rooms that tests of other rooms (and benchmarks) import."""
    found = set()
    for folder in ("tests", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            own = path.relative_to(ROOT / folder).parts[0]
            for module in imported(ast.parse(path.read_text())):
                room, *inner = module.split(".")[1:] or [""]
                if inner and room != own:
                    found.add(module)
    return found


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the modules of framefeed that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("framefeed."):
            yield node.module
            for alias in node.names:
                target = ROOT / "src" / pathlib.Path(*node.module.split("."), f"{alias.name}.py")
                if target.exists():
                    yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("framefeed."))


if __name__ == "__main__":
    sys.exit(main())

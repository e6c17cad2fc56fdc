"""Count what design/0018 says of the source: modules, lines, function bodies, imports, names used twice.

usage: python -m benchmarks.structure [--json FILE]      (in the project's folder)
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
from typing import Any

from tests.house import MODULE_FILES, FunctionNode, Source, body_lines, package_sources

NOT_CORE = ("bench", "testing")
LOADER = "import framefeed as ff; ff.Catalog, ff.plan_clips, ff.Rates, ff.ClipLoader"
LOADED = """
import sys
for name, module in sys.modules.items():
    if name.startswith("framefeed"):
        print(module.__file__)
"""


def main() -> int:
    """Print the counts; write them as JSON where a file is named."""
    parser = argparse.ArgumentParser(description="Count modules, lines, bodies, imports and names of the source.")
    parser.add_argument("--json", type=pathlib.Path)
    target = parser.parse_args().json
    counts = count()
    for name, value in counts.items():
        print(f"{name:55} {value}")
    if target is not None:
        target.write_text(json.dumps(counts, indent=1) + "\n")
    return 0


def count() -> dict[str, Any]:
    """Return each figure under its name."""
    sources = package_sources()
    packages = {name.removesuffix(".__init__") for name in MODULE_FILES if name.endswith(".__init__")}
    core = [source for source in sources if source.room not in NOT_CORE]
    bodies = sorted(body_lines(node) for source in core for node in source.nodes if isinstance(node, FunctionNode))
    run = subprocess.run([sys.executable, "-c", LOADER + LOADED], check=True, capture_output=True, text=True)
    loaded = [pathlib.Path(line).read_text(encoding="utf-8") for line in run.stdout.splitlines()]
    classes: dict[str, set[str]] = collections.defaultdict(set)
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].add(source.room)
    twice = sorted(name for name, rooms in classes.items() if len(rooms) > 1)
    private, with_one_caller = count_private_functions(core)
    dataclasses, built_once = count_dataclasses(sources)
    return {
        "core modules (without bench, testing)": len(core),
        "core lines": sum(map(count_lines, core)),
        **{
            f"{room} modules / lines": [len(own), sum(map(count_lines, own))]
            for room in NOT_CORE
            for own in [[source for source in sources if source.room == room]]
        },
        "function body median / p90 / longest": [statistics.median(bodies), bodies[int(0.9 * len(bodies))], bodies[-1]],
        "private functions": private,
        "private functions with one caller in their module": with_one_caller,
        "dataclasses": dataclasses,
        "dataclasses built in one place": built_once,
        "modules a loader imports": len(loaded),
        "lines a loader imports": sum(len(text.splitlines()) for text in loaded),
        "public class names in two rooms": len(twice),
        "which": twice,
        "modules under 60 lines": sum(count_lines(each) < 60 for each in core if each.module not in packages),
    }


def count_lines(source: Source) -> int:
    """Count the lines of a module."""
    return len(source.text.splitlines())


def count_private_functions(sources: list[Source]) -> tuple[int, int]:
    """Count the private functions of modules, and those of them that are named once besides."""
    total = once = 0
    for source in sources:
        uses = collections.Counter(node.id for node in source.nodes if isinstance(node, ast.Name))
        for node in source.tree.body:
            if isinstance(node, FunctionNode) and node.name.startswith("_"):
                total += 1
                once += uses[node.name] == 1
    return total, once


def count_dataclasses(sources: list[Source]) -> tuple[int, int]:
    """Count the dataclasses, and those of them whose name is called once in the package."""
    nodes = [node for source in sources for node in source.nodes]
    calls = collections.Counter(
        getattr(node.func, "id", getattr(node.func, "attr", "")) for node in nodes if isinstance(node, ast.Call)
    )
    names = [
        node.name
        for node in nodes
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(mark) for mark in node.decorator_list)
    ]
    return len(names), sum(calls[name] == 1 for name in names)


if __name__ == "__main__":
    sys.exit(main())

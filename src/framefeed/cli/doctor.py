"""``framefeed doctor``: show what is installed, the limits of this machine, and the contents of a catalog."""

from __future__ import annotations

import argparse
import os
import platform
import resource
from collections.abc import Iterator
from typing import Any

from framefeed._units import format_bytes, format_count, format_table
from framefeed.bitstreams import CODECS
from framefeed.catalog import Catalog
from framefeed.cli._imports import find_faults
from framefeed.cli._io import Exit, make_printable, print_json, print_out
from framefeed.cli._versions import Requirement, describe_version, find_version, list_requirements
from framefeed.cli.scan import describe_summary, summarise
from framefeed.decode import AUTO_RULES, list_decoders
from framefeed.encode import list_codec_support, read_ffmpeg_versions
from framefeed.parallel import thread_budget

SHARED_MEMORY = "/dev/shm"
# PyTorch's workers pass each tensor as an open file, and a pool of decoders keeps its sources open.
MIN_OPEN_FILES = 4096
# Docker gives 64 MB, which the batches of two workers fill.
MIN_SHARED_BYTES = 1 << 30
# What changes framefeed needs; its packages are not imported.
DEVELOPMENT = "dev"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("catalog", nargs="?", metavar="CATALOG", help="also describe this catalog, such as cat.parquet")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Print versions, limits and codecs, and warnings about them."""
    facts = examine()
    if args.catalog is not None:
        facts["catalog"] = {"path": args.catalog, **summarise(Catalog.open(args.catalog))}
    if args.json:
        print_json(facts)
    else:
        print_out(*_describe_facts(facts))
    return Exit.WELL


def examine() -> dict[str, Any]:
    """Find versions, limits, codecs and warnings, as values for JSON."""
    budget = thread_budget()
    required = list(list_requirements())
    torch = {"torch": version} if (version := find_version("torch")) else {}
    extras: dict[str, dict[str, str | None]] = {}
    for each in required:
        if each.extra:
            extras.setdefault(each.extra, {})[each.name] = each.installed
    faults = find_faults([*{each.name: 0 for each in required if each.installed and each.extra != DEVELOPMENT}])
    open_files, shared = resource.getrlimit(resource.RLIMIT_NOFILE)[0], None
    try:
        memory = os.statvfs(SHARED_MEMORY)
        shared = memory.f_frsize * memory.f_blocks
    except OSError:
        pass  # this machine has none
    return {
        "versions": {
            "framefeed": describe_version(),
            "python": f"{platform.python_version()} ({platform.system()} {platform.machine()})",
            **{each.name: each.installed or "missing" for each in required if not each.extra},
            **torch,
            **read_ffmpeg_versions(),
        },
        "threads": {"budget": budget.threads, "reasons": list(budget.reasons)},
        "limits": {"open_files": open_files, "shared_memory_bytes": shared},
        "codecs": list_codec_support([codec.name for codec in CODECS.values() if codec.is_common]),
        "decoders": list_decoders(),
        "backends": {rule.kind: {"backend": rule.backend, "reason": rule.reason} for rule in AUTO_RULES},
        "extras": extras,
        "import_errors": faults,
        "warnings": list(_list_warnings(required, faults, open_files, shared)),
    }


def _list_warnings(
    required: list[Requirement], faults: dict[str, str], open_files: int, shared: int | None
) -> Iterator[str]:
    for each in required:
        if each.is_too_old:
            advice = f"pip install -U {each.name}"
            yield f"{each.name} {each.installed} is older than {each.floor}, which is required: {advice}"
        elif each.installed is None and not each.extra:
            yield f"{each.name} is missing: pip install {each.name}"
    yield from (f"{name} is installed, but cannot be imported: {fault}" for name, fault in faults.items())
    if open_files != resource.RLIM_INFINITY and open_files < MIN_OPEN_FILES:
        yield f"at most {open_files} files can be open at once, which may be too few: run 'ulimit -n {MIN_OPEN_FILES}'"
    if shared is not None and shared < MIN_SHARED_BYTES:
        yield (f"{SHARED_MEMORY} has {format_bytes(shared)}, which may be too little: PyTorch's workers pass batches "
               "through it; in Docker, use 'docker run --shm-size=2g'")  # fmt: skip


def _describe_facts(facts: dict[str, Any]) -> Iterator[str]:
    yield from format_table(list(facts["versions"].items()))
    yield ""
    threads = facts["threads"]
    yield f"thread budget: {threads['budget']}"
    yield from (f"  {reason}" for reason in threads["reasons"])
    limits = facts["limits"]
    shared = limits["shared_memory_bytes"]
    yield f"open files: {limits['open_files'] if limits['open_files'] != resource.RLIM_INFINITY else 'unlimited'}"
    yield f"{SHARED_MEMORY}: {'none' if shared is None else format_bytes(shared)}"
    yield ""
    rows = [[name, *(", ".join(names) or "none" for names in has.values())] for name, has in facts["codecs"].items()]
    yield from format_table([["codec", "decoders", "encoders"], *rows])
    yield ""
    yield f"backends by name: {', '.join(facts['decoders'])}; extras below say which libraries are missing"
    for kind, chosen in facts["backends"].items():
        yield f"backend 'auto' for {kind}: {chosen['backend']}, {chosen['reason']}"
    for extra, packages in facts["extras"].items():
        faults = facts["import_errors"]
        parts = [
            f"{name} {version or 'missing'}{' (cannot be imported)' if name in faults else ''}"
            for name, version in packages.items()
        ]
        state = "see the warnings" if faults.keys() & packages.keys() else "installed"
        if not all(packages.values()):
            state = f"to install what is missing: pip install 'framefeed[{extra}]'"
        yield f"extra '{extra}': {', '.join(parts)} ({state})"
    yield ""
    if "catalog" in facts:
        yield f"catalog {make_printable(facts['catalog']['path'])}"
        yield from (f"  {line}" for line in describe_summary(facts["catalog"]))
        yield ""
    yield from (f"warning: {warning}" for warning in facts["warnings"])
    yield _summarise_warnings(facts)


def _summarise_warnings(facts: dict[str, Any]) -> str:
    """Summarise the warnings, missing extras and missing codecs."""
    count = len(facts["warnings"])
    warnings = (
        f"{format_count(count, 'warning')}, see above" if count else "everything that framefeed requires is installed"
    )
    incomplete = [name for name, packages in facts["extras"].items() if not all(packages.values())]
    undecodable = [name for name, has in facts["codecs"].items() if not has["decoders"]]
    parts = [warnings]
    if incomplete:
        parts.append(f"optional extras with missing packages: {', '.join(incomplete)}")
    if undecodable:
        parts.append(f"codecs that cannot be decoded here: {', '.join(undecodable)}")
    return "; ".join(parts) if count or incomplete or undecodable else "everything is installed"
